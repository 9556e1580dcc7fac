# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.change import active_ports, lost_ports
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_choice import (
    check_wish,
    ofed_needs,
    ofed_plan,
)
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, checked, facts_of

DOCA = {
    "method": "doca",
    "version": "2.9.1",
    "repository": "https://repo.example.org/doca/2.9.1/x/",
    "key": "files/key",
}
ISO = {"method": "mlnx_iso", "version": "24.10-1.1.4.0", "iso": "/srv/mlnx.iso"}
TOOLS = ("ib_write_bw", "ib_write_lat", "ibstat", "ibv_devinfo", "rdma")
MODULES = ("ib_umad", "ib_uverbs", "rdma_ucm", "ib_ipoib")


@pytest.mark.parametrize(
    ("capture", "wish", "model"),
    [
        ("gb200-1", {"method": "mlnx_iso", "version": "24.10-1.1.4.0"}, "BlueField-3"),
        ("gb200-1", {"method": "doca", "version": "3.2.0"}, None),
        ("ib-v100-1", {"method": "doca", "version": "2.9.1"}, None),
        ("ib-v100-1", {"method": "inbox"}, None),
        ("lab-soft-roce", {"method": "doca", "version": "3.2.0"}, None),
    ],
)
def test_a_driver_is_refused_for_each_card_that_it_would_leave_without_one(
    capture: str, wish: dict[str, Any], model: str | None
) -> None:
    facts = facts_of(open_tree(str(CAPTURES / f"{capture}.capture")))
    refusals = ofed_plan(facts, wish).refusals
    cards = [device for device in facts["devices"] if device["model"] == model and device["pci"]]
    assert [text.partition(" would")[0] for text in refusals] == [
        f"{card['name']} at {card['pci']} ({model})" for card in cards
    ]


def test_a_virtual_function_is_its_card() -> None:
    machine = Machine()
    owner = machine.nic(device="0x1023")
    function = machine.nic("mlx5_1", "eth1", "0000:3b:00.1", device="0x101e")
    machine.link(f"{function}/physfn", owner)
    refusals = ofed_plan(facts_of(machine), DOCA).refusals
    assert [text.partition(" would")[0] for text in refusals] == [
        "mlx5_0 at 0000:3b:00.0 (ConnectX-8)",
        "mlx5_1 at 0000:3b:00.1 (ConnectX-8)",
    ]


def test_a_software_device_is_no_card() -> None:
    machine = Machine()
    machine.soft_roce(vendor="0x15b3", device="0x1023", driver="mlx5_core")
    assert ofed_plan(facts_of(machine), DOCA) == ([], [])


# -- Wishes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"methd": "inbox"}, "rdma_ofed has no key methd; it knows activate, "),
        ({"method": "yum"}, "rdma_ofed.method is 'yum'; expected one of none, inbox, doca, mlnx_iso"),
        ({"activate": "now"}, "rdma_ofed.activate is 'now'; expected one of none, reload, reboot"),
        ({"method": "doca"}, "rdma_ofed.method doca also needs version, repository, key"),
        ({"method": "mlnx_iso", "version": "24.10"}, "rdma_ofed.method mlnx_iso also needs iso"),
        ({**DOCA, "version": "newest"}, "rdma_ofed.version is 'newest'; expected a release such as 2.9.1"),
        (
            {**DOCA, "version": "24.10-1.1.4.0"},
            "rdma_ofed.version is 24.10-1.1.4.0, which is the OFED inside a DOCA release",
        ),
        ({**DOCA, "repository": "ftp://x/"}, "rdma_ofed.repository is 'ftp://x/'; expected an address"),
        (
            {**DOCA, "repository": "https://x/doca/latest/rhel9/"},
            "rdma_ofed.repository is https://x/doca/latest/rhel9/, whose",
        ),
        (
            {**DOCA, "repository": "https://x/doca/3.2.0/rhel9/"},
            "rdma_ofed.version is 2.9.1, but rdma_ofed.repository is of 3.2.0",
        ),
        ({**DOCA, "key": "https://x/key"}, "rdma_ofed.key is an address: give rdma_ofed.key_checksum"),
        (
            {**DOCA, "key": "https://x/key", "key_checksum": "sha256:00"},
            "rdma_ofed.key_checksum is 'sha256:00'; expected sha256: and 64 hexadecimal digits",
        ),
        ({**DOCA, "key": "https://x/key", "key_checksum": "md5:" + 32 * "0"}, "rdma_ofed.key_checksum is 'md5:"),
        ({**ISO, "iso": "mlnx.iso"}, "rdma_ofed.iso is 'mlnx.iso'; expected an absolute path on the node"),
    ],
)
def test_an_invalid_wish_is_refused(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(WishError, match=f"^{re.escape(message)}"):
        check_wish(wish)


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"method": "none"},
        DOCA,
        ISO,
        {**DOCA, "key": "https://x/key", "key_checksum": "sha256:" + 64 * "0"},
        {**DOCA, "repository": "file:/srv/doca/"},
        # what the role hands over when nothing is set
        {"method": "inbox", "version": "", "repository": "", "key": "", "key_checksum": "", "iso": "", "packages": []},
    ],
)
def test_a_wish_that_makes_sense(wish: dict[str, Any]) -> None:
    assert check_wish(wish)["method"] == wish.get("method", "inbox")


# -- Needs -------------------------------------------------------------------------------------------------------------


def node(
    info: str | None = None,
    path: str | None = "kernel",
    running: str | None = None,
    loaded: bool = True,
    tools: tuple[str, ...] = TOOLS,
    modules: tuple[str, ...] = MODULES,
    device: str = "0x101b",
    packages: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Facts of a node with a ConnectX-6: what ofed_info says, where mlx5_core is on disk, which one runs, what dpkg has."""
    machine = Machine()
    machine.nic(device=device)
    machine.file("/proc/sys/kernel/osrelease", "6.8.0\n")
    lines = "".join(f"kernel/{name}.ko:\n" for name in MODULES)
    machine.file("/lib/modules/6.8.0/modules.dep", lines + (f"{path}/mlx5_core.ko:\n" if path else ""))
    for name in tools:
        machine.file(f"/usr/bin/{name}")
    for name in modules:
        machine.files(f"/sys/module/{name}", initstate="live")
    machine.file("/etc/modules-load.d/rdma.conf", "\n".join(modules))
    if loaded:
        machine.files("/sys/module/mlx5_core", initstate="live", version=running)
    if info:
        machine.file("/usr/bin/ofed_info", f"#!/bin/bash\necho {info}:\n")
    if packages is not None:
        status = "Package: {}\nStatus: install ok installed\nVersion: {}\n\n"
        machine.file("/var/lib/dpkg/status", "".join(status.format(*item) for item in packages.items()))
    return facts_of(machine)


MLNX = {"info": "MLNX_OFED_LINUX-24.10-1.1.4.0", "path": "updates/dkms", "running": "24.10-1.1.4"}
DOCA_OFED = {
    "info": "OFED-internal-24.10-1.1.4.0.105",
    "path": "updates/dkms",
    "running": "24.10-1.1.4",
    "packages": {"doca-ofed": "2.9.1-0.1.8", "mlnx-ofed-kernel-dkms": "24.10.OFED.24.10.1.1.4.1-1"},
}
REBOOT = "the kernel still runs the mlx5_core that came with it"


@pytest.mark.parametrize(
    ("facts", "wish", "expected"),
    [
        (node(), DOCA, {"driver": True, "reasons": ["the driver is the kernel's own, not DOCA 2.9.1"]}),
        (node(), ISO, {"driver": True, "reasons": ["the driver is the kernel's own, not MLNX_OFED 24.10-1.1.4.0"]}),
        (node(**DOCA_OFED), DOCA, {}),
        (node(**MLNX), ISO, {}),
        (node(**MLNX), {**ISO, "version": "24.10"}, {}),
        # the release's own packages bring the programs; which ones is the operator's choice
        (node(**DOCA_OFED, tools=()), DOCA, {}),
        (
            node(**MLNX),
            {**ISO, "version": "24.10-1.1.4.01"},
            {"driver": True, "reasons": ["the driver is MLNX_OFED 24.10-1.1.4.0, not MLNX_OFED 24.10-1.1.4.01"]},
        ),
        (
            node(**DOCA_OFED),
            {**DOCA, "version": "3.2.0", "repository": "file:/srv/"},
            {"driver": True, "reasons": ["doca-ofed is 2.9.1-0.1.8, not of DOCA 3.2.0"]},
        ),
        (node(**MLNX), DOCA, {"driver": True, "reasons": ["the driver is MLNX_OFED 24.10-1.1.4.0, not DOCA 2.9.1"]}),
        # a new kernel without headers: the packages are there, the module is the kernel's
        (
            node(**{**DOCA_OFED, "path": "kernel", "running": None}),
            DOCA,
            {"driver": True, "reasons": ["DOCA's OFED 24.10-1.1.4.0.105 is installed, but not built for kernel 6.8.0"]},
        ),
        # installed and not yet loaded: due is a reboot, unless the wish says otherwise
        (node(**{**DOCA_OFED, "running": None}), DOCA, {"pending": REBOOT}),
        # mlx5_core of kernels before 5.10 calls itself 5.0-0
        (node(**{**DOCA_OFED, "running": "5.0-0"}), DOCA, {"pending": REBOOT}),
        (
            node(**{**DOCA_OFED, "running": None}),
            {**DOCA, "activate": "reboot"},
            {"pending": REBOOT, "activate": True, "reasons": [REBOOT]},
        ),
        (
            node(**{**DOCA_OFED, "running": "24.07-0.6.1"}),
            DOCA,
            {"pending": "the kernel still runs mlx5_core 24.07-0.6.1"},
        ),
        # no card, no driver in the kernel, nothing pending
        (node(**DOCA_OFED, loaded=False), {**DOCA, "activate": "reboot"}, {}),
        # modules of the new stack do not go into the old ib_core
        (node(**{**DOCA_OFED, "running": None}, modules=MODULES[1:]), DOCA, {"pending": REBOOT}),
        (
            node(**DOCA_OFED, modules=MODULES[1:]),
            DOCA,
            {"modules": ["ib_umad"], "reasons": ["ib_umad is not loaded", "ib_umad is not loaded at boot"]},
        ),
    ],
)
def test_a_host_needs_the_driver_that_it_lacks(
    facts: dict[str, Any], wish: dict[str, Any], expected: dict[str, Any]
) -> None:
    needs = ofed_needs(facts, wish, "InfiniBand")
    nothing = {
        "needed": False,
        "reasons": [],
        "packages": False,
        "modules": [],
        "driver": False,
        "activate": False,
        "pending": None,
        "prove": False,
        "warnings": [],
    }
    assert needs == {**nothing, **expected, "needed": "reasons" in expected}


DUE = "DOCA 2.9.1 is not yet proved, and the node has booted since it was installed"
INSTALLED = "DOCA 2.9.1 is installed and not yet proved"


@pytest.mark.parametrize(
    ("stack", "booted", "activate", "expected"),
    [
        # before the boot that brings it: nothing to do, unless the wish says how
        ({"running": None}, False, "none", {"needed": False, "pending": REBOOT}),
        ({"loaded": False}, False, "none", {"needed": False, "pending": INSTALLED}),
        (
            {"loaded": False},
            False,
            "reboot",
            {"needed": True, "pending": INSTALLED, "activate": True, "reasons": [INSTALLED]},
        ),
        # after it
        ({}, True, "none", {"needed": True, "prove": True, "reasons": [DUE]}),
        ({}, True, "reboot", {"needed": True, "prove": True, "reasons": [DUE]}),
        # a boot that did not bring it is what a proof finds out
        ({"running": None}, True, "none", {"needed": True, "prove": True, "pending": REBOOT, "reasons": [DUE]}),
        ({"running": None}, True, "reboot", {"needed": True, "activate": True, "pending": REBOOT, "reasons": [REBOOT]}),
        # another release is wished for by now
        ({"packages": {}}, True, "none", {"needed": True, "driver": True}),
    ],
)
def test_a_driver_that_nobody_proved_is_proved(
    stack: dict[str, Any], booted: bool, activate: str, expected: dict[str, Any]
) -> None:
    facts = node(**{**DOCA_OFED, **stack})
    facts["ofed"]["proof"] = {"method": "doca", "release": "2.9.1", "installed": True, "booted": booted, "devices": []}
    needs = ofed_needs(checked(facts), {**DOCA, "activate": activate}, "InfiniBand")
    nothing = {"driver": False, "activate": False, "prove": False, "pending": None}
    expected = {**nothing, **expected}
    assert {key: needs[key] for key in expected} == expected


@pytest.mark.parametrize("activate", ["none", "reload", "reboot"])
@pytest.mark.parametrize(
    ("method", "booted", "what"),
    [("doca", False, "DOCA 2.9.1"), ("doca", True, "DOCA 2.9.1"), (None, False, "the driver")],
)
def test_an_installation_that_was_killed_is_done_again(
    activate: str, method: str | None, booted: bool, what: str
) -> None:
    """dpkg finishes on its own; an initramfs and a proof that are missing show nowhere else."""
    facts = node(**DOCA_OFED)
    release = None if method is None else "2.9.1"
    proof = {"method": method, "release": release, "installed": False, "booted": booted, "devices": []}
    facts["ofed"]["proof"] = proof
    needs = ofed_needs(checked(facts), {**DOCA, "activate": activate}, "InfiniBand")
    expected = {"driver": True, "activate": False, "prove": False, "pending": None}
    assert {key: needs[key] for key in expected} == expected
    assert needs["reasons"] == [f"the installation of {what} never finished"]


def test_the_ports_that_a_proof_asks_for() -> None:
    facts = node()
    (device,) = facts["devices"]
    device["ports"][0]["state"] = "Active"
    due = active_ports(facts)
    assert due == [{"name": "mlx5_0", "pci": "0000:3b:00.0", "ports": [{"number": 1, "state": "Active"}]}]
    assert lost_ports({"devices": due}, facts) == []
    device["ports"][0]["state"] = "Down"
    assert lost_ports({"devices": due}, facts) == [
        f"mlx5_0 (0000:3b:00.0) port 1 was Active and is Down (phys state {device['ports'][0]['phys_state']})"
    ]
    assert active_ports(facts) == []


@pytest.mark.parametrize(
    ("wish", "packages", "reason"),
    [
        ({"version": "2.9.1"}, {"doca-ofed": "2.9.1-0.1.8"}, None),
        # NVIDIA writes the number of the build after the third number, too
        ({"version": "2.9.1"}, {"doca-ofed": "2.9.1018-1"}, None),
        ({"version": "2.9"}, {"doca-ofed": "2.9.3-0.1.8"}, None),
        ({"version": "2.9.3"}, {"doca-ofed": "2.9.1-0.1.8"}, "doca-ofed is 2.9.1-0.1.8, not of DOCA 2.9.3"),
        ({"version": "2.7.0"}, {"doca-ofed": "2.9.1-0.1.8"}, "doca-ofed is 2.9.1-0.1.8, not of DOCA 2.7.0"),
        ({"version": "3.5.0"}, {"doca-ofed": "2.9.1-0.1.8"}, "doca-ofed is 2.9.1-0.1.8, not of DOCA 3.5.0"),
        ({"version": "3.5.0"}, {"doca-ofed": "3.5.0-1"}, None),
        ({"version": "2.9.1"}, {"doca-ofed": "2.9.10-1"}, "doca-ofed is 2.9.10-1, not of DOCA 2.9.1"),
        ({"version": "2.9.1"}, {}, "doca-ofed is not installed"),
        # what the packages are called, and of which version, is the operator's choice
        (
            {"version": "2.9.1", "packages": ["mlnx-ofed-kernel-dkms=24.10.1*"]},
            {"mlnx-ofed-kernel-dkms": "24.10.1.1"},
            None,
        ),
        ({"version": "2.9.1", "packages": ["mlnx-ofed-kernel=24.10"]}, {"mlnx-ofed-kernel": "24.10-1.el9"}, None),
        (
            {"version": "2.9.1", "packages": ["doca-ofed", "mlnx-tools=24.10-0.1"]},
            {"doca-ofed": "2.9.1-0.1.8", "mlnx-tools": "24.10-0.2"},
            "mlnx-tools is 24.10-0.2, not 24.10-0.1",
        ),
        ({"version": "2.9.1", "packages": ["rdma-core=*"]}, {"rdma-core": "2410mlnx54-1.2410114"}, None),
        ({"version": "2.9.1"}, None, "the host does not say which packages it has"),
        # of packages that facts never have, the release tells
        (
            {"version": "2.9.3", "packages": ["acme-rdma=2.9.3*"]},
            {"doca-ofed": "2.9.1-1"},
            "doca-ofed is 2.9.1-1, not of",
        ),
        ({"version": "2.9.1", "packages": ["acme-rdma=2.9.1*"]}, {"doca-ofed": "2.9.1-1"}, None),
        ({"version": "2.9.1", "packages": ["acme-rdma=2.9.1*"]}, {}, "doca-ofed is not installed"),
        ({"version": "2.9.1", "packages": ["acme-rdma", "doca-ofed"]}, {"doca-ofed": "2.9.1-1"}, None),
    ],
)
def test_what_is_installed_is_compared_exactly(
    wish: dict[str, Any], packages: dict[str, str] | None, reason: str | None
) -> None:
    needs = ofed_needs(
        node(**{**DOCA_OFED, "packages": packages}), {**DOCA, "repository": "file:/srv/", **wish}, "InfiniBand"
    )
    assert needs["driver"] == (reason is not None)
    assert not needs["driver"] or reason in needs["reasons"][0]


@pytest.mark.parametrize(
    ("version", "there"), [("24.10", True), ("24.10-1", True), ("24.1", False), ("24.10-1.1.4", True)]
)
def test_a_release_of_mlnx_ofed_is_no_other_that_begins_alike(version: str, there: bool) -> None:
    assert ofed_needs(node(**MLNX), {**ISO, "version": version}, "InfiniBand")["driver"] is not there


@pytest.mark.parametrize(
    ("facts", "needs"),
    [
        (node(**MLNX), {"needed": False, "modules": []}),
        (node(**MLNX, modules=MODULES[1:]), {"needed": True, "modules": ["ib_umad"]}),
    ],
)
def test_inbox_over_a_vendors_stack_loads_modules_only(facts: dict[str, Any], needs: dict[str, Any]) -> None:
    found = ofed_needs(facts, {"method": "inbox"}, "InfiniBand")
    assert not found["packages"]
    assert {key: found[key] for key in needs} == needs


@pytest.mark.parametrize(
    ("stack", "name"), [(MLNX, "MLNX_OFED 24.10-1.1.4.0"), (DOCA_OFED, "DOCA's OFED 24.10-1.1.4.0.105")]
)
def test_inbox_packages_do_not_go_over_a_vendors_stack(stack: dict[str, Any], name: str) -> None:
    with pytest.raises(WishError, match=rf"^{re.escape(name)} is installed, and rdma is missing: .*\{{method: none\}}"):
        ofed_needs(node(**stack, tools=TOOLS[:4]), {"method": "inbox"}, "InfiniBand")


def test_a_refused_card_is_an_error() -> None:
    with pytest.raises(
        WishError, match=r"^mlx5_0 at 0000:3b:00\.0 \(ConnectX-4\) would be without a driver under DOCA 3\.2\.0"
    ):
        ofed_needs(node(device="0x1013"), {**DOCA, "version": "3.2.0", "repository": "file:/srv/"}, "InfiniBand")
