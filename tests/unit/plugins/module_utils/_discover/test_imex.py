# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node says of IMEX, in the states that systemd and the driver can be in."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry
from ansible_collections.fabric.rdma.plugins.module_utils._base.places import IMEX_SERVICE
from ansible_collections.fabric.rdma.plugins.module_utils._discover.imex import read_imex
from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of

UNIT = "/usr/lib/systemd/system/nvidia-imex.service"
MASK = "/etc/systemd/system/nvidia-imex.service"
WANTED = "/etc/systemd/system/multi-user.target.wants/nvidia-imex.service"
CGROUP = "/sys/fs/cgroup/system.slice/nvidia-imex.service/cgroup.procs"
NOTHING = {"service": None, "enabled": False, "masked": False, "remembered": None, "channel_major": None}


def read(
    files: dict[str, str], warnings: list[str] | None = None, links: dict[str, str] | None = None
) -> dict[str, Any]:
    machine = Machine()
    for path, text in files.items():
        machine.file(path, text)
    for path, target in (links or {}).items():
        machine.entries[path] = Entry("l", target=target)
    return read_imex(machine.tree(), [] if warnings is None else warnings)


def test_a_node_without_it_has_nothing() -> None:
    assert read({}) == NOTHING


@pytest.mark.parametrize(
    ("files", "links", "state"),
    [
        ({UNIT: "[Unit]\n"}, {}, {"service": "stopped"}),
        ({UNIT: "[Unit]\n"}, {WANTED: UNIT}, {"service": "stopped", "enabled": True}),
        ({UNIT: "[Unit]\n", CGROUP: "811\n"}, {WANTED: UNIT}, {"service": "running", "enabled": True}),
        ({UNIT: "[Unit]\n", CGROUP: ""}, {}, {"service": "stopped"}),
        ({UNIT: "[Unit]\n"}, {MASK: "/dev/null"}, {"service": "stopped", "masked": True}),
        # the package was removed
        ({}, {MASK: "/dev/null"}, {"masked": True}),
        # started by hand, without a unit that can be read
        ({"/run/nvidia-imex.pid": "9\n", "/proc/9/comm": "nvidia-imex\n"}, {}, {"service": "running"}),
    ],
)
def test_the_service_is_in_the_state_that_systemd_has(
    files: dict[str, str], links: dict[str, str], state: dict[str, Any]
) -> None:
    assert read(files, links=links) == {**NOTHING, **state}


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ("Character devices:\n195 nvidia\n511 nvidia-caps-imex-channels\n512 nvidia-caps\n", 511),
        ("Character devices:\n 99 nvidia-caps-imex-channels\n", 99),
        ("Character devices:\n512 nvidia-caps\n", None),
        ("Character devices:\n511 not-nvidia-caps-imex-channels\n", None),
        ("9" * 40 + " nvidia-caps-imex-channels\n", None),
    ],
)
def test_the_major_number_of_channels_is_that_of_the_loaded_driver(text: str, major: int | None) -> None:
    assert read({"/proc/devices": text})["channel_major"] == major


@pytest.mark.parametrize(
    ("text", "remembered"),
    [
        ('{"enabled": true, "running": false, "version": 1}', {"enabled": True, "running": False}),
        ('{"enabled": "yes", "running": 1}', {"enabled": False, "running": False}),
        ('{"enabled": true}', None),
        ("[1]", None),
        ("{", None),
        ("null", None),
        ("", None),
        ("{}", None),
        ("[]", None),
        ("0", None),
        ("[" * 100_000, None),
    ],
)
def test_what_was_remembered_is_read_or_a_warning(text: str, remembered: dict[str, bool] | None) -> None:
    """A service that stays masked though it is to be restored is not passed over in silence."""
    warnings: list[str] = []
    assert read({IMEX_SERVICE: text}, warnings)["remembered"] == remembered
    assert [each.startswith(f"{IMEX_SERVICE} makes no sense") for each in warnings] == [True] * (remembered is None)


def test_only_a_node_with_a_gpu_of_nvidia_tells_of_it() -> None:
    machine = Machine()
    machine.file("/proc/devices", "511 nvidia-caps-imex-channels\n")
    assert facts_of(machine)["nvidia"] is None
    machine.function(
        "0008:01:00.0", "pci0008:00/0008:00:00.0", vendor="0x10de", device="0x2941", **{"class": "0x030200"}
    )
    assert facts_of(machine)["nvidia"]["imex"] == {**NOTHING, "channel_major": 511}
