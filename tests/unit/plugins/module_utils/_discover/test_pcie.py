# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of, only

NO_LINK = dict.fromkeys(("speed_gts", "width", "max_speed_gts", "max_width"))
SLOT = "/sys/devices/pci0000:3a/0000:3a:00.0"


def a_link(speed: str, width: object, max_speed: str, max_width: object) -> dict[str, object]:
    return {
        "current_link_speed": speed,
        "current_link_width": width,
        "max_link_speed": max_speed,
        "max_link_width": max_width,
    }


def test_a_card_that_trained_below_what_it_and_its_slot_can() -> None:
    machine = Machine()
    machine.nic(**a_link("8.0 GT/s PCIe", 8, "16.0 GT/s PCIe", 16))
    machine.files(SLOT, **a_link("8 GT/s", 8, "32.0 GT/s PCIe", 16))
    link = {"speed_gts": 8.0, "width": 8, "max_width": 16}
    bridge = {"pci": "0000:3a:00.0", **link, "max_speed_gts": 32.0}
    assert only(facts_of(machine))["pcie"] == {**link, "max_speed_gts": 16.0, "bridge": bridge}


@pytest.mark.parametrize(
    ("speed", "width"),
    [
        ("Unknown", 0),
        ("", ""),
        ("99999 GT/s", 255),
        ("2.5", "x16"),
        ("-8 GT/s", -8),
        ("8.0 GT/s " + "x" * 999, "9" * 999),
        ("\x00", "1 6"),
    ],
)
def test_what_makes_no_sense_is_not_known(speed: str, width: object) -> None:
    machine = Machine()
    machine.nic(**a_link(speed, width, speed, width))
    assert only(facts_of(machine))["pcie"] == {**NO_LINK, "bridge": {"pci": "0000:3a:00.0", **NO_LINK}}


def test_a_function_at_the_root_has_no_bridge() -> None:
    machine = Machine()
    function = machine.function("0000:00:05.0", "pci0000:00", **a_link("2.5 GT/s PCIe", 1, "2.5 GT/s PCIe", 1))
    machine.port(machine.hca("mlx5_0", function))
    link = {"speed_gts": 2.5, "width": 1, "max_speed_gts": 2.5, "max_width": 1}
    assert only(facts_of(machine))["pcie"] == {**link, "bridge": None}


def test_a_software_device_has_no_link() -> None:
    machine = Machine()
    machine.soft_roce()
    assert only(facts_of(machine))["pcie"] is None
