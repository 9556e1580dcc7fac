# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._needs import NeedsError, host_needs, lost_ports
from ansible_collections.fabric.rdma.plugins.module_utils._tree import open_tree
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, facts_of

NOTHING = {"needed": False, "reasons": [], "packages": False, "modules": []}
TOOLS = ("ib_write_bw", "ib_write_lat", "ibstat", "ibv_devinfo", "rdma")
MODULES = ("ib_umad", "ib_uverbs", "rdma_ucm", "ib_ipoib")


def node(
    tools: tuple[str, ...] = TOOLS,
    loaded: tuple[str, ...] = MODULES,
    persisted: tuple[str, ...] = MODULES,
    available: tuple[str, ...] = MODULES,
) -> dict[str, Any]:
    machine = Machine()
    machine.file("/proc/sys/kernel/osrelease", "6.8.0\n")
    for name in tools:
        machine.file(f"/usr/bin/{name}")
    for name in loaded:
        machine.files(f"/sys/module/{name}", initstate="live")
    machine.file("/etc/modules-load.d/rdma.conf", "\n".join(persisted))
    machine.file("/lib/modules/6.8.0/modules.dep", "".join(f"kernel/{name}.ko:\n" for name in available))
    return facts_of(machine)


@pytest.mark.parametrize(
    ("facts", "wishes", "needs"),
    [
        (node(), {}, {}),
        (node(), {"ofed": None}, {}),
        (node(tools=(), loaded=()), {"ofed": {"method": "none"}}, {}),
        (
            node(tools=TOOLS[:3]),
            {},
            {"needed": True, "packages": True, "reasons": ["not installed: ibv_devinfo, rdma"]},
        ),
        (
            node(loaded=MODULES[1:]),
            {},
            {"needed": True, "modules": ["ib_umad"], "reasons": ["ib_umad is not loaded"]},
        ),
        (
            node(persisted=("ib-umad", "rdma_ucm", "ib_ipoib")),
            {},
            {"needed": True, "modules": ["ib_uverbs"], "reasons": ["ib_uverbs is not loaded at boot"]},
        ),
        (
            node(loaded=MODULES[:3], persisted=MODULES[:3]),
            {"link_layer": "InfiniBand"},
            {
                "needed": True,
                "modules": ["ib_ipoib"],
                "reasons": ["ib_ipoib is not loaded", "ib_ipoib is not loaded at boot"],
            },
        ),
        (node(loaded=MODULES[:3], persisted=MODULES[:3]), {"link_layer": "Ethernet"}, {}),
        # what the packages bring cannot be missed before they are there
        (
            node(tools=(), loaded=MODULES[1:], available=MODULES[1:]),
            {},
            {
                "needed": True,
                "packages": True,
                "modules": ["ib_umad"],
                "reasons": [f"not installed: {', '.join(sorted(TOOLS))}", "ib_umad is not loaded"],
            },
        ),
    ],
)
def test_needs(facts: dict[str, Any], wishes: dict[str, Any], needs: dict[str, Any]) -> None:
    assert host_needs(facts, wishes) == {"ofed": {**NOTHING, **needs}}


@pytest.mark.parametrize(
    ("facts", "ofed", "message"),
    [
        (node(), {"mehtod": "inbox"}, "rdma_ofed has no key mehtod; it knows method"),
        (node(), {"method": "doca"}, "rdma_ofed.method is 'doca'; expected one of none, inbox"),
        (node(), {"method": None}, "rdma_ofed.method is None; expected one of none, inbox"),
        (
            node(loaded=MODULES[1:], available=MODULES[1:]),
            {},
            "kernel module ib_umad is not there for kernel 6.8.0; install the modules of this kernel "
            "(Debian: linux-image, Ubuntu: linux-modules-extra, RHEL: kernel-modules), then run again",
        ),
    ],
)
def test_wishes_that_cannot_be_fulfilled(facts: dict[str, Any], ofed: dict[str, Any], message: str) -> None:
    with pytest.raises(NeedsError, match=f"^{re.escape(message)}$"):
        host_needs(facts, {"ofed": ofed})


def test_lost_ports() -> None:
    before = facts_of(open_tree(str(CAPTURES / "ib-a100-1.capture")), ["devices"])
    after = copy.deepcopy(before)
    assert lost_ports(before, after) == []
    # a driver may rename its devices
    after["devices"][1]["name"] = "ibp161s0"
    assert lost_ports(before, after) == []
    after["devices"][1]["ports"][0].update(state="Init", phys_state="LinkUp")
    assert lost_ports(before, after) == ["mlx5_1 (0000:a1:00.0) port 1 was Active and is Init (phys state LinkUp)"]
    # the port that was Down before may go
    del after["devices"][0]
    del after["devices"][0]["ports"][0]
    assert lost_ports(before, after) == ["mlx5_1 (0000:a1:00.0) port 1 was Active and is gone"]
    assert len(lost_ports(before, {})) == 2
    assert lost_ports({}, before) == []
