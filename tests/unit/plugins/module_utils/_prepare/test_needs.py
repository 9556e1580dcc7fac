# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.change import active_ports, lost_ports, snapshot, worse
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError, WishError
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.needs import due, host_needs
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
    return facts_of(machine, ["kernel"])


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
def test_a_host_needs_what_its_wish_lacks(facts: dict[str, Any], wishes: dict[str, Any], needs: dict[str, Any]) -> None:
    assert host_needs(facts, wishes) == {"ofed": {**NOTHING, **needs}}


@pytest.mark.parametrize(
    ("facts", "ofed", "message"),
    [
        (
            node(),
            {"mehtod": "inbox"},
            "rdma_ofed has no key mehtod; it knows activate, install_options, iso, key, key_checksum, "
            "method, override, packages, repository, version; did you mean method?",
        ),
        (
            node(),
            {"method": "doka"},
            "rdma_ofed.method is 'doka'; expected one of none, inbox, doca, mlnx_iso; did you mean doca?",
        ),
        (node(), {"method": None}, "rdma_ofed.method is None; expected one of none, inbox, doca, mlnx_iso"),
        (
            node(loaded=MODULES[1:], available=MODULES[1:]),
            {},
            "kernel module ib_umad is not there for kernel 6.8.0; install the modules of this kernel "
            "(Debian: linux-image, Ubuntu: linux-modules-extra, RHEL: kernel-modules), then run again",
        ),
    ],
)
def test_wishes_that_cannot_be_fulfilled(facts: dict[str, Any], ofed: dict[str, Any], message: str) -> None:
    with pytest.raises(FabricError, match=f"^{re.escape(message)}$"):
        host_needs(facts, {"ofed": ofed})


def test_a_port_that_was_active_and_is_not_is_lost() -> None:
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


def test_a_port_of_a_card_is_not_that_of_the_software_device_at_it() -> None:
    machine = Machine()
    function = machine.nic()
    machine.port(machine.hca("rxe0", function, parent="eth0"))
    before = facts_of(machine, ["devices"])
    after = copy.deepcopy(before)
    assert lost_ports(before, after) == lost_ports(snapshot(before), after) == []
    after["devices"][0]["ports"][0].update(state="Down", phys_state="Disabled")
    assert lost_ports(before, after) == ["mlx5_0 (0000:3b:00.0) port 1 was Active and is Down (phys state Disabled)"]
    assert lost_ports({"devices": active_ports(before)}, after) == lost_ports(snapshot(before), after)
    del after["devices"][1]
    assert lost_ports(before, after)[1] == "rxe0 (rxe0) port 1 was Active and is gone"


ROLES = ["ofed", "storage_prereqs", "containerd_memlock", "nvidia_peermem", "nvidia_imex"]


def test_every_subset_brings_its_role_in_the_order_of_running() -> None:
    tree = open_tree(str(CAPTURES / "ib-v100-1.capture"))
    assert list(host_needs(facts_of(tree), {})) == ROLES
    assert list(host_needs(facts_of(tree, ["kernel", "storage"]), {})) == ROLES[:2]
    assert list(host_needs(facts_of(tree, ["kernel", "runtime"]), {})) == ["ofed", "containerd_memlock"]
    assert list(host_needs(facts_of(tree, ["kernel", "gpus"]), {})) == ["ofed"]
    for needs in host_needs(facts_of(tree), {}).values():
        assert isinstance(needs["needed"], bool)
        assert needs["needed"] == bool(needs["reasons"])


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"storage": {"nsf": True}}, "rdma_storage has no key nsf"),
        ({"memlock": {"method": "x"}}, "rdma_memlock.method is 'x'; expected one of spec, limit"),
        ({"gpudirect": "x"}, "rdma_gpudirect is 'x'; expected one of auto, peermem, dmabuf, none"),
    ],
)
def test_wishes_that_make_no_sense(wishes: dict[str, Any], message: str) -> None:
    facts = facts_of(open_tree(str(CAPTURES / "ib-v100-1.capture")))
    with pytest.raises(FabricError, match=f"^{re.escape(message)}"):
        host_needs(facts, wishes)


@pytest.mark.parametrize(
    ("os_family", "driver", "headers"),
    [
        ("Debian", ["doca-ofed"], "linux-headers-6.1.0"),
        ("RedHat", ["doca-ofed"], "kernel-devel-6.1.0"),
        ("Suse", [], None),
    ],
)
def test_names_of_packages_come_where_the_family_is_known(
    os_family: str, driver: list[str], headers: str | None
) -> None:
    facts = {"kernel": {"release": "6.1.0"}}
    wishes = {"ofed": {"method": "none"}}
    assert "names" not in host_needs(facts, wishes)["ofed"]
    names = host_needs(facts, {**wishes, "os_family": os_family})["ofed"]["names"]
    assert {"rdma-core", "infiniband-diags", "perftest"} <= set(names["user_space"])
    assert (names["driver"], names["headers"]) == (driver, headers)
    nobody_knows = host_needs({"kernel": {"release": None}}, {**wishes, "os_family": os_family})["ofed"]["names"]
    assert nobody_knows["headers"] is None
    with pytest.raises(WishError, match="package names are known for Debian, RedHat, Suse, and not for 'x'"):
        host_needs(facts, {**wishes, "os_family": "x"})


@pytest.mark.parametrize(
    ("os_family", "release", "headers"),
    [
        ("RedHat", "5.14.0-427.el9.aarch64+64k", "kernel-64k-devel-5.14.0-427.el9.aarch64"),
        ("RedHat", "5.14.0-427.el9.x86_64+rt-debug", "kernel-rt-debug-devel-5.14.0-427.el9.x86_64"),
        ("RedHat", "5.14.0-427.el9.x86_64", "kernel-devel-5.14.0-427.el9.x86_64"),
        ("Debian", "6.8.0-1010-nvidia-64k", "linux-headers-6.8.0-1010-nvidia-64k"),
        ("Debian", "6.12.9+deb12-amd64", "linux-headers-6.12.9+deb12-amd64"),
    ],
)
def test_headers_are_those_of_the_kind_of_kernel_that_runs(os_family: str, release: str, headers: str) -> None:
    found = host_needs({"kernel": {"release": release}}, {"ofed": {"method": "none"}, "os_family": os_family})
    assert found["ofed"]["names"]["headers"] == headers


def test_a_driver_that_comes_first_may_make_gpudirect_possible() -> None:
    facts = facts_of(open_tree(str(CAPTURES / "ib-v100-1.capture")))
    facts["nvidia"]["peer_memory"] = {"loaded": False, "installed": False}
    wish = {"method": "doca", "version": "2.9.1", "repository": "https://example.org/doca/2.9.1/", "key": "/k"}
    assert not host_needs(facts, {})["nvidia_peermem"]["needed"]
    needs = host_needs(facts, {"ofed": wish})["nvidia_peermem"]
    assert needs["needed"]
    assert needs["reasons"] == ["the driver stack comes first"]
    assert not host_needs(facts, {"ofed": wish, "gpudirect": "none"})["nvidia_peermem"]["needed"]


def running(ready: bool | None = True, error: str | None = None) -> dict[str, Any]:
    return {"ready": ready, "error": error, "default_handler": "runc", "handlers": {}}


def runtime(services: dict[str, bool], said: dict[str, Any] | None) -> dict[str, Any]:
    return {"runtime": {"services": services, "containerd": {"running": said}}}


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (runtime({"kubelet": True}, None), runtime({"kubelet": True}, None), []),
        (runtime({"kubelet": False}, None), runtime({"kubelet": False}, None), []),
        (
            runtime({"k3s": True, "kubelet": True}, None),
            runtime({"kubelet": False}, None),
            ["k3s ran and no longer runs", "kubelet ran and no longer runs"],
        ),
        (
            runtime({"containerd": True}, running()),
            runtime({"containerd": True}, running(None, "unknown service runtime.v1.RuntimeService")),
            ["the container runtime was ready and is not: unknown service runtime.v1.RuntimeService"],
        ),
        (
            runtime({"containerd": True}, running()),
            runtime({"containerd": True}, running(False)),
            ["the container runtime was ready and is not: RuntimeReady is false"],
        ),
        (
            runtime({"containerd": True}, running()),
            runtime({"containerd": False}, None),
            ["containerd ran and no longer runs"],
        ),
        # what was not ready, or was not asked, is not lost
        (runtime({"containerd": True}, running(False)), runtime({"containerd": True}, running(False)), []),
        (runtime({"containerd": True}, running()), runtime({"containerd": True}, None), []),
        ({}, runtime({"containerd": False}, None), []),
        (runtime({"containerd": True}, running()), {}, []),
        ({"runtime": {"services": {}, "containerd": None}}, {"runtime": {"services": {}, "containerd": None}}, []),
    ],
)
def test_what_was_lost_is_told(before: dict[str, Any], after: dict[str, Any], lost: list[str]) -> None:
    assert worse(before, after) == lost


@pytest.mark.parametrize(
    ("then", "now", "lost"),
    [
        ("running", "running", False),
        # the first use of its socket starts it
        ("running", "listening", False),
        ("listening", "stopped", True),
        ("running", None, True),
        ("stopped", "stopped", False),
        (None, "running", False),
    ],
)
@pytest.mark.parametrize(("key", "daemon"), [("iscsi", "iscsid"), ("multipathd", "multipathd")])
def test_worse_names_the_daemons_of_volumes(
    key: str, daemon: str, then: str | None, now: str | None, lost: bool
) -> None:
    before = facts_of(open_tree(str(CAPTURES / "ib-a100-1.capture")))
    after = copy.deepcopy(before)
    before["storage"][key]["service"], after["storage"][key]["service"] = then, now
    assert worse(before, after) == ([f"{daemon} ran and no longer runs"] if lost else [])
    # what a node remembers of a change tells the same
    assert worse(snapshot(before), after) == worse(before, after)
    del before["storage"]
    assert worse(before, after) == []


RAN, STARTS = "nvidia-imex ran and no longer runs", "nvidia-imex started at boot and no longer does"
WAS = {"enabled": True, "running": True}


@pytest.mark.parametrize(
    ("then", "now", "lost"),
    [
        ({}, {}, []),
        ({}, {"service": "stopped"}, [RAN]),
        ({}, {"service": None, "enabled": False}, [RAN, STARTS]),
        ({}, {"enabled": False}, [STARTS]),
        ({"service": "stopped", "enabled": False}, {"service": "stopped", "enabled": False}, []),
        # given away with consent, and by nobody who says so
        ({}, {"service": "stopped", "masked": True, "remembered": WAS}, []),
        ({}, {"service": "stopped", "masked": True}, [RAN, STARTS]),
        # given back: as it was before it was given away
        ({"service": "stopped", "masked": True, "remembered": WAS}, {}, []),
        ({"service": "stopped", "masked": True, "remembered": WAS}, {"service": "stopped"}, [RAN]),
        ({"service": "stopped", "masked": True, "remembered": WAS}, {"masked": True}, [STARTS]),
        ({"remembered": {"enabled": False, "running": False}}, {"service": "stopped", "enabled": False}, []),
        # whose package was removed meanwhile
        ({"service": None, "masked": True, "remembered": WAS}, {"service": None, "enabled": False}, []),
    ],
)
def test_worse_names_the_service_of_imex(then: dict[str, Any], now: dict[str, Any], lost: list[str]) -> None:
    runs = {"service": "running", "enabled": True, "masked": False, "remembered": None, "channel_major": 511}
    before, after = ({"devices": [], "nvidia": {"imex": {**runs, **state}}} for state in (then, now))
    assert worse(before, after) == lost
    # what a node remembers of a change tells the same
    assert worse(snapshot(before), after) == lost
    assert worse({"devices": []}, after) == worse(before, {"nvidia": {"imex": None}}) == []


def test_worse_also_names_lost_ports() -> None:
    before = facts_of(open_tree(str(CAPTURES / "ib-a100-1.capture")))
    after = copy.deepcopy(before)
    after["devices"][1]["ports"][0].update(state="Init")
    assert worse(before, after) == ["mlx5_1 (0000:a1:00.0) port 1 was Active and is Init (phys state LinkUp)"]
    assert worse(before, {}) == []


@pytest.mark.parametrize(
    ("needs", "roles", "away"),
    [
        ({"ofed": {"needed": False}, "roce_host": {"needed": False}}, [], False),
        ({"ofed": {"needed": True}, "containerd_memlock": {"needed": True}}, ["ofed", "containerd_memlock"], False),
        ({"ofed": {"needed": True, "driver": True}}, ["ofed"], True),
        ({"ofed": {"needed": True, "activate": "reload"}}, ["ofed"], True),
        ({"ofed": {"needed": True, "prove": True}}, ["ofed"], True),
        ({"ofed": {"needed": False}, "roce_host": {"needed": True, "drain": True}}, ["roce_host"], True),
        ({"ofed": {"needed": False}, "nvidia_imex": {"needed": True, "drain": True}}, ["nvidia_imex"], True),
        ({"ofed": {"needed": False}, "nvidia_imex": {"needed": True, "drain": False}}, ["nvidia_imex"], False),
    ],
)
def test_a_host_is_out_of_work_only_for_what_takes_it_out(needs: dict[str, Any], roles: list[str], away: bool) -> None:
    assert due(needs) == {"roles": roles, "away": away}
