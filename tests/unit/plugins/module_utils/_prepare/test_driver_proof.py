# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a change of the driver has to prove after a boot."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_proof import due

Json = dict[str, t.Any]


def params(*devices: Json) -> Json:
    return {"method": "doca", "version": "2.9.1", "installed": True, "facts": {"devices": list(devices)}}


DEVICE = {"name": "mlx5_0", "pci": "0000:3b:00.0", "ports": [{"number": 1, "state": "Active"}]}
OTHER = {**DEVICE, "name": "mlx5_1"}


def test_the_ports_that_are_active_now_have_to_come_back() -> None:
    assert due(params(DEVICE), "b", {"devices": [OTHER]}) == {
        "version": 1,
        "method": "doca",
        "release": "2.9.1",
        "installed": True,
        "boot_id": "b",
        "devices": [DEVICE],
    }


def test_a_node_that_a_change_left_without_ports_has_to_get_those_from_before() -> None:
    assert due(params(), "b", {"devices": [OTHER]})["devices"] == [OTHER]
    assert due(params(), "b", None)["devices"] == []
