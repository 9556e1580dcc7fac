# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, MemoryTree, open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import MODULES, SUBSETS
from ansible_collections.fabric.rdma.plugins.module_utils._discover.record import record
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, checked, facts_of

RELEASE = "6.8.0-64-generic"


def node() -> Machine:
    machine = Machine()
    machine.file("/proc/sys/kernel/osrelease", RELEASE + "\n")
    return machine


def test_an_empty_root_gives_empty_facts_without_a_warning() -> None:
    facts = facts_of(MemoryTree({}))
    assert (facts["devices"], facts["gpus"], facts["warnings"]) == ([], [], [])
    assert facts["management"] == {"default_route_netdevs": [], "rdma_backed": False, "mounts_over_rdma": []}
    assert {key: facts["kernel"][key] for key in ("release", "page_size", "rdma_netns")} == {
        "release": None,
        "page_size": None,
        "rdma_netns": None,
    }
    off = {"loaded": False, "builtin": False, "available": False, "persisted": False}
    assert facts["kernel"]["modules"] == dict.fromkeys(MODULES, off)


@pytest.mark.parametrize(
    ("subset", "keys"),
    [
        ("devices", {"devices", "bare_functions"}),
        ("gpus", {"gpus", "nvidia"}),
        ("kernel", {"kernel", "ofed"}),
        ("limits", {"limits"}),
        ("management", {"management"}),
        ("runtime", {"runtime"}),
        ("storage", {"storage"}),
    ],
)
def test_a_subset_brings_its_keys_and_the_same_values(subset: str, keys: set[str]) -> None:
    tree = open_tree(str(CAPTURES / "gb200-1.capture"))
    facts = facts_of(tree, [subset])
    assert set(facts) == {"schema", "warnings", *keys}
    whole = facts_of(tree, SUBSETS)
    assert {key: whole[key] for key in keys} == {key: facts[key] for key in keys}


# -- GPUs ------------------------------------------------------------------------------------------------------------

ROOT_A, ROOT_B = "pci0000:00/0000:00:01.0", "pci0000:00/0000:00:02.0"
HYPERV = "LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00"


def gpu(machine: Machine, pci: str, under: str, **values: Any) -> None:
    machine.function(pci, under, **{"vendor": "0x10de", "device": "0x2941", "class": "0x030200", **values})


@pytest.mark.parametrize(
    ("card", "first", "second", "nearest"),
    [
        (f"{ROOT_A}/0000:01:00.0/0000:02:00.0", f"{ROOT_A}/0000:01:00.0/0000:02:01.0", ROOT_A, ["mlx5_0"]),
        (
            f"{ROOT_A}/0000:01:00.0/0000:02:00.0",
            f"{ROOT_A}/0000:01:00.0",
            f"{ROOT_A}/0000:01:00.0",
            ["mlx5_0", "mlx5_1"],
        ),
        (f"{ROOT_A}/0000:01:00.0", ROOT_B, f"{ROOT_A}/0000:01:00.0/0000:02:01.0", ["mlx5_1"]),
        # nothing but the host bridge in common: the NUMA node decides
        (ROOT_A, ROOT_B, "pci0000:80/0000:80:01.0", ["mlx5_0"]),
        ("pci0008:00/0008:00:00.0", "pci0000:00/0000:00:00.0", "pci0010:00/0010:00:00.0", ["mlx5_0"]),
        # directories above the host bridge are not bridges
        (f"{HYPERV}/a/pci0101:00", f"{HYPERV}/b/pci0102:00", f"{HYPERV}/c/pci0103:00", ["mlx5_0"]),
        ("platform/4010000000.pcie/pci0000:00", "platform/4010000000.pcie/pci0000:00", ROOT_B, ["mlx5_0"]),
    ],
    ids=["one switch", "same depth", "deeper wins", "host bridge only", "own domains", "Hyper-V", "device tree"],
)
def test_the_nearest_hcas_share_the_most_bridges_with_a_gpu(
    card: str, first: str, second: str, nearest: list[str]
) -> None:
    machine = Machine()
    gpu(machine, "0000:0c:00.0", card, numa_node=0)
    for index, under in enumerate((first, second)):
        function = machine.function(f"0000:0d:00.{index}", under, numa_node=index)
        machine.hca(f"mlx5_{index}", function)
    [found] = facts_of(machine)["gpus"]
    bridges = [part for part in card.split("/") if part.count(":") == 2]
    assert found == {
        "pci": "0000:0c:00.0",
        "bridges": bridges,
        "vendor": "10de",
        "device": "2941",
        "numa_node": 0,
        "nearest": nearest,
    }


def test_a_gpu_on_another_node_has_no_nearest_hca() -> None:
    machine = Machine()
    gpu(machine, "0000:0c:00.0", ROOT_A, numa_node=-1)
    gpu(machine, "0001:0c:00.0", ROOT_B, numa_node=1)
    machine.hca("mlx5_0", machine.function(under="pci0000:80", numa_node=0))
    assert [(row["numa_node"], row["nearest"]) for row in facts_of(machine)["gpus"]] == [(None, []), (1, [])]


def test_what_carries_no_data_is_not_near() -> None:
    machine = Machine()
    gpu(machine, "0000:0c:00.0", ROOT_A)
    function = machine.function(under=ROOT_A)
    machine.hca("mlx5_0", function)
    machine.hca("smi1", function)
    machine.hca("rxe0", None)
    machine.hca("rxe1", function, parent="eth0")
    machine.hca("mlx5_sf", f"{function}/mlx5_core.sf.4")
    assert [row["nearest"] for row in facts_of(machine)["gpus"]] == [["mlx5_0"]]


@pytest.mark.parametrize(
    ("vendor", "pci_class", "counts"),
    [
        ("0x10de", "0x030200", True),
        ("0x10de", "0x030000", True),
        ("0x1002", "0x030000", True),
        ("0x1002", "0x120000", True),
        ("0x1da3", "0x120000", True),
        ("0x1002", "0x038000", True),
        # engines of a processor that compress
        ("0x19e5", "0x120000", False),
        ("0x1a03", "0x030000", False),
        ("0x1a03", "0x038000", False),
        ("0x10de", "0x068000", False),
        ("0x10de", "0x040300", False),
        ("0x10de", "nonsense", False),
    ],
)
def test_gpus_are_told_by_vendor_and_class(vendor: str, pci_class: str, counts: bool) -> None:
    machine = Machine()
    gpu(machine, "0000:0c:00.0", ROOT_A, vendor=vendor, **{"class": pci_class})
    assert len(facts_of(machine)["gpus"]) == counts


def test_a_virtual_function_of_a_gpu_is_no_gpu_more_but_in_a_guest() -> None:
    machine = Machine()
    gpu(machine, "0000:0c:00.0", ROOT_A)
    gpu(machine, "0000:0c:00.4", ROOT_A)
    assert len(facts_of(machine)["gpus"]) == 2
    machine.link(f"/sys/devices/{ROOT_A}/0000:0c:00.4/physfn", f"/sys/devices/{ROOT_A}/0000:0c:00.0")
    assert [row["pci"] for row in facts_of(machine)["gpus"]] == ["0000:0c:00.0"]


def test_an_entry_that_is_no_address_is_no_gpu() -> None:
    machine = Machine()
    gpu(machine, "something", ROOT_A)
    assert facts_of(machine)["gpus"] == []


# -- Kernel ----------------------------------------------------------------------------------------------------------

LOADED = {"/sys/module/ib_umad/initstate": "live\n"}
DEPENDENCIES = f"/lib/modules/{RELEASE}/modules.dep"


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({}, ""),
        (LOADED, "loaded available"),
        ({"/sys/module/ib_umad/parameters/x": "1"}, "loaded builtin available persisted"),
        ({f"/lib/modules/{RELEASE}/modules.builtin": "kernel/a/ib_umad.ko\n"}, "loaded builtin available persisted"),
        ({f"/lib/modules/{RELEASE}/modules.builtin": "kernel/a/ib-umad.ko\n"}, "loaded builtin available persisted"),
        ({f"/lib/modules/{RELEASE}/modules.builtin": "kernel/a/not_ib_umad.ko\n"}, ""),
        ({DEPENDENCIES: "kernel/a/ib_umad.ko.xz: kernel/a/ib_core.ko.xz\n"}, "available"),
        ({DEPENDENCIES: "kernel/a/ib-umad.ko:\n"}, "available"),
        ({DEPENDENCIES: "kernel/x.ko:\nextra/ib_umad.ko.zst: kernel/y.ko\n"}, "available"),
        ({DEPENDENCIES: "kernel/a/x.ko: kernel/a/ib_umad.ko\n"}, ""),
        ({DEPENDENCIES: "kernel/a/x.ko: kernel/a/ib_umad.ko\nkernel/a/ib_umad.ko:\n"}, "available"),
        ({DEPENDENCIES: "kernel/a/ib_umad_extra.ko:\n"}, ""),
        ({"/lib/modules/5.4.0/modules.dep": "kernel/a/ib_umad.ko:\n"}, ""),
        ({"/etc/modules": "# ib_uverbs\nib-umad\n"}, "persisted"),
        ({"/etc/modules-load.d/a.conf": "ib_umad\n"}, "persisted"),
        ({"/etc/modules-load.d/a.conf": "  ib_umad  # with a remark\n"}, "persisted"),
        ({"/etc/modules-load.d/a.conf": "ib-umad"}, "persisted"),
        ({"/usr/lib/modules-load.d/a.conf": "x\nib_umad\n"}, "persisted"),
        ({"/run/modules-load.d/a.conf": "ib_umad\n"}, "persisted"),
        ({"/etc/modules-load.d/a.conf": "#ib_umad\n;ib_umad\n\n"}, ""),
        ({"/etc/modules-load.d/a.txt": "ib_umad\n"}, ""),
        ({"/etc/rdma/modules/rdma.conf": "ib_umad\n"}, ""),
        ({"/usr/lib/modules-load.d/a.conf": "ib_umad\n", "/etc/modules-load.d/a.conf": "x\n"}, ""),
        ({"/usr/lib/modules-load.d/a.conf": "ib_umad\n", "/run/modules-load.d/a.conf": ""}, ""),
        ({"/run/modules-load.d/a.conf": "x\n", "/etc/modules-load.d/a.conf": "ib_umad\n"}, "persisted"),
        ({"/usr/lib/modules-load.d/a.conf": "ib_umad\n", "/etc/modules-load.d/b.conf": "x\n"}, "persisted"),
    ],
)
def test_a_module_is_loaded_built_in_available_or_persisted(files: dict[str, str], state: str) -> None:
    machine = node()
    for path, text in files.items():
        machine.file(path, text)
    found = facts_of(machine)["kernel"]["modules"]["ib_umad"]
    assert " ".join(key for key in ("loaded", "builtin", "available", "persisted") if found[key]) == state


def test_a_mask_hides_the_file_of_the_distribution() -> None:
    machine = node()
    machine.file("/usr/lib/modules-load.d/a.conf", "ib_umad\n")
    machine.link("/etc/modules-load.d/a.conf", "/dev/null")
    assert not facts_of(machine)["kernel"]["modules"]["ib_umad"]["persisted"]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2097152", 4096),
        ("33554432", 16384),
        ("536870912", 65536),
        ("0", None),
        ("-1", None),
        ("3000000", None),
        ("9" * 5000, None),
        ("", None),
    ],
)
def test_the_page_size_follows_from_that_of_huge_pages(text: str, size: int | None) -> None:
    machine = node()
    machine.file("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", text)
    assert facts_of(machine)["kernel"]["page_size"] == size


@pytest.mark.parametrize(("text", "mode"), [("Y", "shared"), ("N", "exclusive"), ("1", None), ("", None)])
def test_the_mode_of_rdma_namespaces_is_that_of_ib_core(text: str, mode: str | None) -> None:
    machine = node()
    machine.file("/sys/module/ib_core/parameters/netns_mode", text + "\n")
    assert facts_of(machine)["kernel"]["rdma_netns"] == mode


@pytest.mark.parametrize("text", ["../../etc", "a b", "6.1\n6.2"])
def test_a_malformed_kernel_release_is_unknown(text: str) -> None:
    machine = node()
    machine.file("/proc/sys/kernel/osrelease", text)
    facts = facts_of(machine)
    assert facts["kernel"]["release"] is None
    assert facts["warnings"] == [f"/proc/sys/kernel/osrelease says '{text}', which is not a kernel release"]


INBOX, UPDATES = "kernel/net/mlx5_core.ko:\n", "updates/dkms/mlx5_core.ko:\n"


@pytest.mark.parametrize(
    ("script", "modules", "doca", "expected"),
    [
        (None, INBOX, False, ("inbox", None, "inbox")),
        (None, None, False, ("inbox", None, None)),
        (None, UPDATES, False, ("inbox", None, "updates")),
        ("echo MLNX_OFED_LINUX-24.10-0.7.0.0:", UPDATES, False, ("mlnx_ofed", "24.10-0.7.0.0", "updates")),
        ("echo OFED-internal-25.04-0.6.1:", UPDATES, False, ("doca", "25.04-0.6.1", "updates")),
        (None, UPDATES, True, ("doca", None, "updates")),
        (None, INBOX, True, ("inbox", None, "inbox")),
        ("no release", INBOX, False, ("inbox", None, "inbox")),
    ],
)
def test_a_driver_stack_is_known_by_what_it_installs(
    script: str | None, modules: str | None, doca: bool, expected: tuple[str, str | None, str | None]
) -> None:
    machine = node()
    if script:
        machine.file("/usr/bin/ofed_info", f"#!/bin/bash\n{script}\n")
    if modules:
        machine.file(DEPENDENCIES, modules)
    if doca:
        machine.directory("/opt/mellanox/doca")
    ofed = facts_of(machine)["ofed"]
    assert (ofed["flavour"], ofed["version"], ofed["mlx5_core"]["path_kind"]) == expected


STATUS = "Package: {}\nStatus: install ok installed\nVersion: 2.9.1-0.1.8\n\n"
LISTING = "doca-ofed 2.9.1-0.1.8\n"


@pytest.mark.parametrize(
    ("script", "status", "listing", "expected"),
    [
        (None, STATUS.format("doca-ofed"), None, None),
        ("echo OFED-internal-24.10-1:", STATUS.format("doca-ofed"), None, {"doca-ofed": "2.9.1-0.1.8"}),
        ("echo OFED-internal-24.10-1:", STATUS.format("bash"), None, {}),
        ("echo OFED-internal-24.10-1:", None, LISTING, {"doca-ofed": "2.9.1-0.1.8"}),
        # dpkg as a mere program on a system of RPMs
        ("echo OFED-internal-24.10-1:", "", LISTING, {"doca-ofed": "2.9.1-0.1.8"}),
        ("echo OFED-internal-24.10-1:", None, None, None),
    ],
)
def test_packages_of_a_vendors_stack_have_their_versions(
    script: str | None, status: str | None, listing: str | None, expected: dict[str, str] | None
) -> None:
    machine = node()
    for path, text in (
        ("/usr/bin/ofed_info", script and f"#!/bin/bash\n{script}\n"),
        ("/var/lib/dpkg/status", status),
        ("/.answers/packages/usr/bin/rpm", listing),
    ):
        if text is not None:
            machine.file(path, text)
    facts = facts_of(machine)
    assert facts["ofed"]["packages"] == expected
    assert facts_of(MemoryTree(record(machine.tree()))) == facts


PROOF = {
    "version": 1,
    "method": "doca",
    "release": "2.9.1",
    "boot_id": "one",
    "devices": [{"name": "mlx5_0", "pci": "0000:3b:00.0", "ports": [{"number": 1, "state": "Active"}]}],
}


@pytest.mark.parametrize("boot_id", ["one", "two"])
def test_a_due_proof_says_whether_the_node_has_booted(boot_id: str) -> None:
    machine = node()
    machine.file("/proc/sys/kernel/random/boot_id", f"{boot_id}\n")
    machine.file("/var/lib/fabric.rdma/driver-proof.json", json.dumps(PROOF))
    expected = {key: PROOF[key] for key in ("method", "release", "devices")}
    assert facts_of(machine)["ofed"]["proof"] == {**expected, "installed": True, "booted": boot_id == "two"}


@pytest.mark.parametrize("proof", [None, "nonsense", json.dumps({**PROOF, "installed": False})])
def test_a_change_that_never_came_to_its_end(proof: str | None) -> None:
    """What the packages were is nothing that facts or captures tell."""
    machine = node()
    machine.file("/var/lib/fabric.rdma/driver-packages.json", "secret")
    if proof is not None:
        machine.file("/var/lib/fabric.rdma/driver-proof.json", proof)
    facts = facts_of(machine)
    assert facts["ofed"]["proof"]["installed"] is False
    assert facts["ofed"]["proof"]["release"] == ("2.9.1" if proof and proof.startswith("{") else None)
    recorded = record(machine.tree())
    assert facts_of(MemoryTree(recorded)) == facts
    assert "secret" not in str(recorded)


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[]", "null", '{"method": 1}', json.dumps({**PROOF, "devices": [{}]}), "[" * 100000]
)
def test_a_proof_that_makes_no_sense(text: str) -> None:
    machine = node()
    machine.file("/var/lib/fabric.rdma/driver-proof.json", text)
    facts = facts_of(machine)
    assert facts["ofed"]["proof"] is None
    assert facts["warnings"][0].startswith("/var/lib/fabric.rdma/driver-proof.json makes no sense (")


def test_a_program_counts_where_its_link_leads_somewhere() -> None:
    machine = node()
    machine.file("/usr/sbin/ibstat")
    machine.link("/usr/local/bin/rdma", "/opt/rdma")
    machine.file("/sys/module/mlx5_core/version", "24.10-0.7.0\n")
    ofed = facts_of(machine)["ofed"]
    assert [name for name, there in ofed["tools"].items() if there] == ["ibstat"], "a dangling link is not a program"
    assert ofed["mlx5_core"]["version"] == "24.10-0.7.0"


def test_a_recording_keeps_only_the_lines_that_matter() -> None:
    machine = node()
    kept = "kernel/a/ib_core.ko: kernel/b.ko\nupdates/nvidia-peermem.ko.xz:\n"
    machine.file(DEPENDENCIES, "kernel/x.ko:\n" + kept + "kernel/y.ko: kernel/a/ib_core.ko\n")
    entries = record(machine.tree())
    assert entries[DEPENDENCIES].data.decode() == kept
    assert facts_of(MemoryTree(entries)) == facts_of(machine)


# -- Management ------------------------------------------------------------------------------------------------------

HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
ANY, NONE6 = "00000000", "0" * 32


def route(name: str, destination: str = ANY, mask: str = ANY) -> str:
    return f"{name}\t{destination}\t010200C0\t0003\t0\t0\t100\t{mask}\t0\t0\t0   \n"


def route6(name: str, destination: str = NONE6, length: str = "00") -> str:
    return f"{destination} {length} {NONE6} 00 {NONE6} 00000400 00000001 00000000 00000003 {name:>8}\n"


def over_vlan_and_bond(machine: Machine, driver: str) -> None:
    """bond0.100 on bond0 on two ports of a card that has no RDMA device."""
    functions = [machine.function(f"0000:3b:00.{index}", driver=driver) for index in (0, 1)]
    bond, vlan = machine.netdev("bond0"), machine.netdev("bond0.100")
    machine.link(f"{vlan}/lower_bond0", bond)
    for index, function in enumerate(functions):
        slave = machine.netdev(f"ens1f{index}", function, master="bond0")
        machine.link(f"{bond}/lower_ens1f{index}", slave)


def test_a_default_route_is_one_of_either_family_with_an_empty_mask() -> None:
    machine = Machine()
    text = HEAD + route("eth1") + route("*") + route("eth2", "0002A8C0", "00FFFFFF") + route("eth3", mask="00000080")
    machine.file("/proc/net/route", text + "short\n")
    text = route6("eth0") + route6("eth1") + route6("lo") + route6("eth4", "fe80" + "0" * 28, "40") + "x y\n"
    machine.file("/proc/net/ipv6_route", text)
    assert facts_of(machine)["management"]["default_route_netdevs"] == ["eth0", "eth1"]


@pytest.mark.parametrize("family", ["route", "ipv6_route"])
@pytest.mark.parametrize(
    ("driver", "backed"), [("mlx5_core", True), ("mlx4_core", True), ("tg3", False), (None, False)]
)
def test_a_route_over_vlan_and_bond_is_backed_by_the_card_below(family: str, driver: str | None, backed: bool) -> None:
    machine = Machine()
    over_vlan_and_bond(machine, driver or "")
    machine.file(f"/proc/net/{family}", HEAD + route("bond0.100") if family == "route" else route6("bond0.100"))
    management = facts_of(machine)["management"]
    assert (management["default_route_netdevs"], management["rdma_backed"]) == (["bond0.100"], backed)


def test_a_route_over_a_bond_is_backed_by_its_members_also_without_lower_links() -> None:
    machine = Machine()
    machine.nic(netdev="ens1f0")
    machine.bond("bond0", "ens1f0")
    machine.file("/proc/net/route", HEAD + route("bond0"))
    assert facts_of(machine)["management"]["rdma_backed"]


def test_a_route_over_open_vswitch_is_backed_by_any_of_its_members() -> None:
    """Its internal port has no link to its members, which have ovs-system as their master."""
    machine = Machine()
    machine.nic(netdev="ens1f0")
    machine.netdev("br-ex")
    machine.file("/proc/net/route", HEAD + route("br-ex"))
    assert not facts_of(machine)["management"]["rdma_backed"]
    member = machine.entries["/sys/class/net/ens1f0"].target.replace("../../", "/sys/", 1)
    machine.link(f"{member}/master", machine.netdev("ovs-system"))
    assert facts_of(machine)["management"]["rdma_backed"]


def test_soft_roce_does_not_back_a_route() -> None:
    machine = Machine()
    machine.netdev("eth0", machine.function(driver="virtio-pci"))
    machine.hca("rxe0", None)
    machine.files("/sys/devices/virtual/infiniband/rxe0", parent="eth0")
    machine.file("/proc/net/route", HEAD + route("eth0"))
    facts = facts_of(machine)
    assert (facts["devices"][0]["netdevs"], facts["management"]["rdma_backed"]) == (["eth0"], False)


def test_soft_roce_at_a_function_does_not_back_a_route() -> None:
    machine = Machine()
    machine.soft_roce(netdev="eth0")
    machine.file("/proc/net/route", HEAD + route("eth0"))
    facts = facts_of(machine)
    assert (facts["devices"][0]["pci"], facts["management"]["rdma_backed"]) == ("0000:00:05.0", False)


def test_netdevs_in_a_circle_end() -> None:
    machine = Machine()
    for index in range(3000):
        machine.directory(f"/sys/class/net/d{index}/lower_d{(index + 1) % 3000}")
    machine.file("/proc/net/route", HEAD + route("d0"))
    assert facts_of(machine)["management"]["default_route_netdevs"] == ["d0"]


@pytest.mark.parametrize(
    ("line", "via"),
    [
        ("server:/export /data nfs4 rw,vers=4.1,proto=rdma,port=20049 0 0", "nfs-rdma"),
        ("server:/export /data nfs rw,proto=rdma,vers=3 0 0", "nfs-rdma"),
        ("[2001:db8::1]:/export /data nfs4 rw,proto=rdma6 0 0", "nfs-rdma"),
        ("server:/export /data nfs4 rw,proto=tcp 0 0", None),
        ("server:/export /data nfs4 rw,clientaddr=proto=rdma 0 0", None),
        ("192.0.2.1@o2ib:/fs /data lustre rw 0 0", "lustre-o2ib"),
        ("192.0.2.1@o2ib1:192.0.2.2@o2ib1:/fs /data lustre rw 0 0", "lustre-o2ib"),
        ("192.0.2.1@tcp:/fs /data lustre rw 0 0", None),
        ("/dev/nvme1n1 /data xfs rw 0 0", "nvme-rdma"),
        ("/dev/nvme1n1p2 /data xfs rw 0 0", "nvme-rdma"),
        ("/dev/nvme0n1 /data xfs rw 0 0", None),
        ("/dev/nvme11n1 /data xfs rw 0 0", None),
        ("short /data", None),
    ],
)
def test_a_mount_over_rdma_says_by_what_way(line: str, via: str | None) -> None:
    machine = Machine()
    machine.files("/sys/class/nvme/nvme0", transport="pcie")
    machine.files("/sys/class/nvme/nvme1", transport="rdma")
    machine.file("/proc/self/mounts", f"proc /proc proc rw 0 0\n{line}\n")
    expected = [{"target": "/data", "source": line.split(maxsplit=1)[0], "via": via}] if via else []
    assert facts_of(machine)["management"]["mounts_over_rdma"] == expected


@pytest.mark.parametrize(
    ("source", "via"),
    [
        # a logical volume on an NVMe namespace, under each of its names
        ("/dev/mapper/data-scratch--1", "nvme-rdma"),
        ("/dev/data/scratch-1", "nvme-rdma"),
        ("/dev/dm-0", "nvme-rdma"),
        # udev's link is believed before the name
        ("/dev/disk/by-label/scratch", "nvme-rdma"),
        # md over a partition of an iSER disk
        ("/dev/md0", "iser"),
        ("/dev/sda1", "iser"),
        ("/dev/sdb", "srp"),
        ("/dev/sdc1", None),
        # the number in the name is the subsystem's
        ("/dev/nvme3n1", "nvme-rdma"),
        ("/dev/nvme7n1", None),
        # a circle, and what is not there
        ("/dev/dm-8", None),
        ("/dev/mapper/gone", None),
        ("tmpfs", None),
    ],
)
def test_a_mount_on_a_disk_over_rdma_counts_however_many_layers_are_between(source: str, via: str | None) -> None:
    machine = Machine()

    def block(name: str, under: str = "/sys/devices/virtual/block", slaves: tuple[str, ...] = ()) -> str:
        path = f"{under}/{name}"
        machine.directory(f"{path}/slaves")
        for slave in slaves:
            machine.directory(f"{path}/slaves/{slave}")
        machine.link(f"/sys/class/block/{name}", path)
        return path

    machine.files("/sys/class/nvme/nvme7", transport="pcie")
    machine.files("/sys/class/nvme/nvme4", transport="rdma")
    machine.link("/sys/class/nvme-subsystem/nvme-subsys3/nvme4", "/sys/class/nvme/nvme4")
    block("nvme3n1")
    block("nvme7n1")
    machine.files(block("dm-0", slaves=("nvme3n1",)) + "/dm", name="data-scratch--1")
    machine.link("/dev/disk/by-label/scratch", "/dev/dm-0")
    for host, (disk, proc_name) in enumerate({"sda": "iscsi_iser", "sdb": "ib_srp", "sdc": "ahci"}.items()):
        machine.files(f"/sys/class/scsi_host/host{host}", proc_name=proc_name)
        path = block(disk, f"/sys/devices/host{host}/block")
        machine.link(f"{path}/device", f"/sys/devices/host{host}/{host}:0:0:0")
        machine.files(block(f"{disk}1", path), partition=1)
    block("md0", slaves=("sda1",))
    block("dm-8", slaves=("dm-9",))
    block("dm-9", slaves=("dm-8",))
    machine.file("/proc/self/mounts", f"{source} /data xfs rw 0 0\n")
    expected = [{"target": "/data", "source": source, "via": via}] if via else []
    assert facts_of(machine)["management"]["mounts_over_rdma"] == expected


# -- Faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [lambda entry: None, lambda entry: Entry("f", b""), lambda entry: Entry("f", entry.data[: len(entry.data) // 2])],
    ids=["removed", "emptied", "truncated"],
)
def test_any_one_file_at_fault_gives_facts_all_the_same(change: Callable[[Entry], Entry | None]) -> None:
    """Discovery copes with each file of a node being gone, empty or cut in the middle."""
    entries = record(open_tree(str(CAPTURES / "ib-a100-1.capture")))
    files = sorted(path for path, entry in entries.items() if entry.kind == "f")
    assert len(files) > 150
    for path in files:
        changed = change(entries[path])
        rest = {key: entry for key, entry in entries.items() if key != path}
        facts = facts_of(MemoryTree(rest if changed is None else {**rest, path: changed}))
        assert len(facts["devices"]) == 3, path


def test_any_one_link_at_fault_gives_facts_all_the_same() -> None:
    entries = record(open_tree(str(CAPTURES / "ib-a100-1.capture")))
    links = sorted(path for path, entry in entries.items() if entry.kind == "l")
    assert len(links) > 30
    for path in links:
        for target in ("/nowhere", ".", "/", path.rpartition("/")[2]):
            facts_of(MemoryTree({**entries, path: Entry("l", target=target)}))


def test_the_check_of_facts_is_one() -> None:
    facts = facts_of(open_tree(str(CAPTURES / "ib-v100-1.capture")))
    facts["devices"][0]["ports"][0]["link_layer"] = "nonsense"
    with pytest.raises(Exception, match="'nonsense' is not one of"):
        checked(facts)


# --- what a data engine in user space needs ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("online", "modalias", "expected"),
    [
        (
            "0-127",
            "cpu:type:x86,ven0000fam0006mod008F:feature:,0000,0094,00A0",
            {"online": 128, "features": ["sse4_2"]},
        ),
        ("0,2-3", "cpu:type:x86,ven0000fam0006mod000F:feature:,0000,0093,0194", {"online": 3, "features": []}),
        ("0-143", "cpu:type:aarch64:feature:,0000,0001,0002", {"online": 144, "features": ["asimd"]}),
        ("0", "cpu:type:aarch64:feature:,0000,0094", {"online": 1, "features": []}),
        ("3-1,x", "cpu:type:ppc64:feature:,0094", {"online": None, "features": None}),
        (None, None, {"online": None, "features": None}),
    ],
)
def test_cpus_tell_whether_they_have_the_instructions_of_spdk(
    online: str | None, modalias: str | None, expected: dict[str, Any]
) -> None:
    machine = Machine()
    machine.files("/sys/devices/system/cpu", online=online, modalias=modalias)
    assert facts_of(machine)["kernel"]["cpu"] == expected


@pytest.mark.parametrize(("text", "expected"), [("1024", 1024), ("0", 0), ("many", None), (None, None)])
def test_huge_pages_count_as_far_as_they_are_reserved(text: str | None, expected: int | None) -> None:
    machine = Machine()
    machine.files("/sys/kernel/mm/hugepages/hugepages-2048kB", nr_hugepages=text)
    assert facts_of(machine)["kernel"]["hugepages_2m"] == expected


def test_modules_of_the_v2_data_engine_are_known() -> None:
    machine = Machine()
    machine.directory("/sys/module/nvme_tcp")
    machine.file("/sys/module/nvme_tcp/initstate", "live\n")
    modules = facts_of(machine)["kernel"]["modules"]
    assert [modules[name]["loaded"] for name in ("nvme_tcp", "uio_pci_generic", "vfio_pci")] == [True, False, False]
