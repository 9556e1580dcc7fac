# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import ipaddress
import os
import subprocess
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, MemoryTree, open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Space
from ansible_collections.fabric.rdma.plugins.module_utils._plan.reasons import REASONS
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_gate import (
    Asked,
    free_space,
    gate,
    parse_overrides,
    verbs_users,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.networks import (
    route_netdev,
    ssh_connection,
    ssh_netdevs,
)
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine

HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
KERNEL = "6.8.0"


def little(address: str) -> str:
    return ipaddress.IPv4Address(address).packed[::-1].hex().upper()


def route(netdev: str, network: str = "0.0.0.0/0", metric: int = 0, flags: int = 3) -> str:
    net = ipaddress.IPv4Network(network)
    fields = [
        netdev,
        little(str(net.network_address)),
        "00000000",
        f"{flags:04X}",
        0,
        0,
        metric,
        little(str(net.netmask)),
        0,
        0,
        0,
    ]
    return "\t".join(map(str, fields)) + "\n"


def route6(netdev: str, network: str = "::/0", metric: int = 1024, flags: int = 3) -> str:
    net = ipaddress.IPv6Network(network)
    zero = "0" * 32
    return (
        f"{net.network_address.packed.hex()} {net.prefixlen:02x} {zero} 00 {zero} {metric:08x} 00000001 00000000 {flags:08x} "
        f"{netdev:>8}\n"
    )


def ready() -> Machine:
    """A node with a ConnectX-6, an ordinary card for everything else, and headers of its kernel: nothing rules a change out."""
    machine = Machine()
    machine.nic(device="0x101b")
    machine.netdev("eno1", machine.function("0000:01:00.0", vendor="0x8086", device="0x1521", driver="igb"))
    machine.file("/proc/sys/kernel/osrelease", f"{KERNEL}\n")
    machine.file(f"/usr/src/linux-headers-{KERNEL}/Makefile")
    machine.link(f"/lib/modules/{KERNEL}/build", f"/usr/src/linux-headers-{KERNEL}")
    machine.file(
        "/proc/net/route",
        HEAD + route("eno1") + route("eno1", "192.0.2.0/24", flags=1) + route("eth0", "198.51.100.0/24", flags=1),
    )
    return machine


def found(machine: Machine, **asked: Any) -> list[tuple[str, str]]:
    reasons = gate(machine.tree(), Asked(**{"version": "2.9.1", **asked}))
    assert all(reason.remedy == REASONS[reason.name] for reason in reasons)
    return [(reason.name, reason.found) for reason in reasons]


def test_nothing_stands_in_the_way_of_a_ready_host() -> None:
    assert found(ready()) == []
    assert found(ready(), activate="reload", ssh="192.0.2.9 51000 192.0.2.1 22", free_mib={"/usr": (5000, 3072)}) == []


def test_of_an_empty_tree_only_headers_are_missing() -> None:
    assert [name for name, _text in found(Machine())] == ["kernel_headers"]


# -- Networks ----------------------------------------------------------------------------------------------------------


def over_bond(machine: Machine) -> str:
    machine.bond("bond0", "eth0")
    return "bond0"


def over_vlan(machine: Machine) -> str:
    machine.directory(machine.netdev("bond0.7") + "/lower_bond0")
    over_bond(machine)
    return "bond0.7"


def over_bridge(machine: Machine) -> str:
    machine.directory(machine.netdev("br0") + "/lower_eth0")
    return "br0"


def over_open_vswitch(machine: Machine) -> str:
    machine.netdev("br-ex")
    member = machine.entries["/sys/class/net/eth0"].target.replace("../../", "/sys/", 1)
    machine.link(f"{member}/master", machine.netdev("ovs-system"))
    return "br-ex"


@pytest.mark.parametrize(
    ("build", "way"),
    [
        (lambda _machine: "eth0", "eth0 (mlx5_core)"),
        (lambda _machine: "eno1", None),
        (over_bond, "bond0 -> eth0 (mlx5_core)"),
        (over_vlan, "bond0.7 -> bond0 -> eth0 (mlx5_core)"),
        (over_bridge, "br0 -> eth0 (mlx5_core)"),
        (over_open_vswitch, "br-ex -> eth0 (mlx5_core)"),
    ],
)
def test_a_reload_cuts_networks_that_go_over_the_driver(build: Any, way: str | None) -> None:
    machine = ready()
    netdev = build(machine)
    machine.file("/proc/net/route", HEAD + route(netdev))
    machine.file("/proc/self/mounts", "192.0.2.5:/home /home nfs4 rw,proto=tcp,addr=192.0.2.5 0 0\n")
    expected = [
        ("default_route", f"the default route goes over {way}"),
        ("ssh_path", f"this very connection goes over {way}"),
        ("storage_mounts", f"192.0.2.5:/home on /home (nfs4) goes over {way}"),
    ]
    ssh = "203.0.113.9 51000 192.0.2.1 22"
    assert found(machine, activate="reload", ssh=ssh) == (expected if way else [])
    # what is installed, and what a boot brings, cuts nothing
    assert found(machine, activate="none", ssh=ssh) == []
    assert found(machine, activate="reboot", ssh=ssh) == []


@pytest.mark.parametrize("drivers", ["mlx5_core", "mlx4_core", "mlx5_core.sf"])
def test_every_driver_that_a_reload_takes_out_counts(drivers: str) -> None:
    machine = ready()
    machine.netdev("x0", machine.function("0000:7f:00.0", vendor="0x15b3", device="0x0000", driver=drivers))
    machine.file("/proc/net/route", HEAD + route("x0"))
    assert [name for name, _text in found(machine, activate="reload")] == ["default_route"]


@pytest.mark.parametrize(
    ("address", "netdev"),
    [
        ("192.0.2.7", "near"),
        ("198.51.100.7", "cheap"),
        ("203.0.113.1", "far"),
        ("10.0.0.1", "far"),
        ("2001:db8::1", "six"),
        ("fe80::1", None),
    ],
)
def test_the_narrowest_and_cheapest_route_gives_the_netdev(address: str, netdev: str | None) -> None:
    machine = Machine()
    lines = [
        route("far"),
        route("near", "192.0.2.0/24", flags=1),
        route("dear", "198.51.100.0/24", 200),
        route("cheap", "198.51.100.0/24", 100),
        # not up, a blackhole, and what is not a route at all
        route("down", "203.0.113.1/32", flags=0),
        route("*", "203.0.113.1/32"),
        "nonsense\n",
    ]
    machine.file("/proc/net/route", HEAD + "".join(lines))
    machine.file("/proc/net/ipv6_route", route6("six", "2001:db8::/64") + route6("lo", flags=0x200) + "nonsense\n")
    assert route_netdev(machine.tree(), ipaddress.ip_address(address)) == netdev


@pytest.mark.parametrize(
    ("connection", "netdevs"),
    [
        ("192.0.2.9 51000 198.51.100.1 22", {"eno1", "eth0"}),
        ("::ffff:198.51.100.9 51000 ::ffff:198.51.100.1 22", {"eth0"}),
        ("fe80::1%eth0 51000 fe80::2%eth0 22", {"eth0"}),
        ("127.0.0.1 51000 127.0.0.1 22", set()),
        (None, set()),
        ("", set()),
        ("nobody knows what this", set()),
        ("192.0.2.9 51000", set()),
    ],
)
def test_a_connection_goes_over_the_netdev_of_its_route_and_of_its_address(
    connection: str | None, netdevs: set[str]
) -> None:
    assert ssh_netdevs(ready().tree(), connection) == netdevs


def test_sudo_does_not_hide_the_connection() -> None:
    machine = Machine()
    machine.file("/proc/7/environ", "SUDO_USER=admin\0HOME=/root")
    machine.file("/proc/7/status", "Name:\tpython3\nPPid:\t5\n")
    machine.file("/proc/5/environ", b"HOME=/home/\xff\0SSH_CONNECTION=192.0.2.9 51000 192.0.2.1 22\0A=b")
    assert ssh_connection(machine.tree(), 7) == "192.0.2.9 51000 192.0.2.1 22"
    machine.file("/proc/5/environ", "NOT_SSH_CONNECTION=x")
    machine.file("/proc/5/status", "Name:\tsshd\nPPid:\t5\n")
    assert ssh_connection(machine.tree(), 7) is None
    assert ssh_connection(machine.tree(), 8) is None


def test_the_connection_is_that_of_the_process_environment() -> None:
    said = "192.0.2.9 51000 192.0.2.1 22"
    # it reads until we end it, and has its environment once it has said something
    command = ["sh", "-c", "echo ready; read line"]
    environment = {**os.environ, "SSH_CONNECTION": said}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            assert ssh_connection(open_tree("/"), process.pid) == said
        finally:
            process.kill()


def test_who_holds_a_device_is_named() -> None:
    machine = Machine()
    machine.file("/proc/7/comm", "opensm\n")
    for pid, device in ((7, "infiniband/umad0"), (8, "null"), (9, "infiniband/rdma_cm"), (10, "infiniband/uverbs0")):
        machine.entries[f"/proc/{pid}/fd/0"] = Entry("l", target="/dev/null")
        machine.entries[f"/proc/{pid}/fd/3"] = Entry("l", target=f"/dev/{device}")
    machine.entries["/proc/driver/fd/3"] = Entry("l", target="/dev/infiniband/uverbs0")
    assert verbs_users(machine.tree()) == ["a program (10)", "opensm (7)"]


@given(st.text(), st.binary(max_size=200), st.binary(max_size=200))
def test_nothing_that_a_node_says_is_a_traceback(ssh: str, routes: bytes, mounts: bytes) -> None:
    machine = ready()
    machine.file("/proc/net/route", HEAD.encode() + routes)
    machine.file("/proc/net/ipv6_route", routes)
    machine.file("/proc/self/mounts", b"a b nfs addr=" + mounts)
    found(machine, activate="reload", ssh=ssh)


# -- Storage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "server:/x /x nfs4 rw,addr=198.51.100.5 0 0",
        "//server/x /x cifs rw,addr=198.51.100.5 0 0",
        "198.51.100.5:6789,198.51.100.6:6789:/ /x ceph rw 0 0",
        "198.51.100.5:6789:/ /x ceph rw 0 0",
        "192.0.2.5:6789,198.51.100.6:6789:/ /x ceph rw 0 0",
        "192.0.2.5:6789:/ /x ceph rw 0 0",
        "admin@f00dcafe-0000-4000-8000-00000000cafe.fs=/ /x ceph rw,mon_addr=192.0.2.5:6789/198.51.100.6:3300 0 0",
        "admin@f00dcafe-0000-4000-8000-00000000cafe.fs=/ /x ceph rw,mon_addr=192.0.2.5 0 0",
        "[2001:db8:198:51::5]:6789:/ /x ceph rw 0 0",
        "[2001:db8::5]:6789,[2001:db8:198:51::5]:6789:/ /x ceph rw 0 0",
        "admin@f00dcafe-0000-4000-8000-00000000cafe.fs=/ /x ceph rw,mon_addr=[2001:db8:198:51::5]:6789 0 0",
        "[2001:db8::5]:6789:/ /x ceph rw 0 0",
        "198.51.100.5@tcp:/fs /x lustre rw 0 0",
        "192.0.2.5@tcp:198.51.100.6@tcp:/fs /x lustre rw 0 0",
        "192.0.2.5@tcp0:198.51.100.6@tcp0:/fs /x lustre rw 0 0",
        "2001:db8::5@tcp1:2001:db8:198:51::5@tcp1:/fs /x lustre rw 0 0",
        "server:/x /x nfs4 rw,addr=192.0.2.5 0 0",
        "server:/x /x ext4 rw,addr=198.51.100.5 0 0",
        "server:/x /x nfs4 rw,addr=nowhere 0 0",
    ],
)
def test_a_reload_cuts_mounts_whose_server_is_beyond_the_driver(line: str) -> None:
    machine = ready()
    machine.file("/proc/net/ipv6_route", route6("eno1", "2001:db8::/64") + route6("eth0", "2001:db8:198:51::/64"))
    machine.file("/proc/self/mounts", line + "\n")
    names = [name for name, _text in found(machine, activate="reload")]
    beyond = "198.51.100" in line or "198:51" in line
    assert set(names) == ({"storage_mounts"} if beyond and "ext4" not in line else set())


@pytest.mark.parametrize(("address", "there"), [("198.51.100.5", True), ("192.0.2.5", False)])
def test_a_reload_cuts_disks_whose_target_is_beyond_the_driver(address: str, there: bool) -> None:
    machine = ready()
    machine.files("/sys/class/iscsi_connection/connection1:0", address=address)
    machine.files("/sys/class/nvme/nvme0", transport="tcp", address=f"traddr={address},trsvcid=4420")
    machine.files("/sys/class/nvme/nvme1", transport="pcie", address="0000:05:00.0")
    texts = [f"iSCSI connection1:0 to {address}", f"NVMe over TCP nvme0 to {address}"]
    expected = [("storage_mounts", f"{text} goes over eth0 (mlx5_core)") for text in texts]
    assert found(machine, activate="reload") == (expected if there else [])


def test_storage_that_is_mounted_over_rdma_is_named() -> None:
    machine = ready()
    machine.file("/proc/self/mounts", "server:/x /x nfs4 rw,proto=rdma,addr=192.0.2.5 0 0\n")
    machine.files("/sys/class/nvme/nvme0", transport="rdma")
    machine.files("/sys/class/scsi_host/host3", proc_name="iscsi_iser")
    machine.files("/sys/class/scsi_host/host4", proc_name="ahci")
    assert found(machine, activate="reload") == [
        ("rdma_storage", "server:/x on /x (nfs-rdma)"),
        ("rdma_storage", "NVMe controller nvme0 (nvme-rdma)"),
        ("rdma_storage", "SCSI host3 (iscsi_iser)"),
    ]
    assert found(machine, activate="reboot") == []


@pytest.mark.parametrize("activate", ["none", "reload", "reboot"])
@pytest.mark.parametrize("target", ["/", "/usr", "/var/lib"])
def test_a_node_that_runs_from_rdma_storage_keeps_its_driver(target: str, activate: str) -> None:
    """A node that boots over the driver does not boot with one that its image does not have, whoever brings it into the kernel."""
    machine = ready()
    machine.file("/proc/self/mounts", f"server:/x {target} nfs4 rw,proto=rdma,addr=192.0.2.5 0 0\n")
    assert found(machine, activate=activate) == [("rdma_storage", f"server:/x on {target} (nfs-rdma)")]


OF_A_RELOAD = ["default_route", "ssh_path", "storage_mounts", "rdma_storage", "storage_modules", "rdma_in_use"]


@pytest.mark.parametrize("activate", ["none", "reload", "reboot"])
def test_a_remedy_is_one_that_works(activate: str) -> None:
    """Where a reboot is the remedy, a run with it does not meet the reason again."""
    machine = ready()
    machine.file("/proc/net/route", HEAD + route("eth0"))
    machine.file(
        "/proc/self/mounts",
        "192.0.2.5:/home /home nfs4 rw,addr=192.0.2.5 0 0\nserver:/x /x nfs4 rw,proto=rdma,addr=192.0.2.5 0 0\n",
    )
    machine.directory("/sys/module/ib_iser")
    ssh = "203.0.113.9 51000 192.0.2.1 22"
    names = dict(found(machine, activate=activate, ssh=ssh, holders=["opensm (7)"]))
    assert list(names) == (OF_A_RELOAD if activate == "reload" else [])
    assert [name for name, remedy in REASONS.items() if "ofed_activate: reboot" in remedy] == OF_A_RELOAD


def test_what_only_a_reload_stumbles_over() -> None:
    machine = ready()
    machine.directory("/sys/module/ib_iser")
    machine.directory("/sys/module/rpcrdma")
    assert found(machine, holders=["opensm (7)"]) == []
    assert found(machine, holders=["opensm (7)"], activate="reload") == [
        ("storage_modules", "ib_iser, rpcrdma hold the driver"),
        ("rdma_in_use", "opensm (7) use verbs devices"),
    ]


def test_a_parallel_file_system_holds_the_driver_where_it_uses_it() -> None:
    """BeeGFS, Lustre and SMB are modules above rdma_cm when they are built with RDMA; openibd breaks off half-way then."""
    machine = ready()
    for holder in (
        "rdma_cm/holders/beegfs",
        "ib_core/holders/rdma_cm",
        "ib_core/holders/mlx5_ib",
        "rdma_cm/holders/ko2iblnd",
        "ib_core/holders/smc",
    ):
        machine.directory(f"/sys/module/{holder}")
    machine.directory("/sys/module/cifs")
    assert found(machine, activate="reboot") == []
    assert found(machine, activate="reload") == [("storage_modules", "beegfs, ko2iblnd, smc hold the driver")]


# -- The rest ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kubelet", "k3s-agent", "rke2", "kubelite"])
def test_a_node_of_a_cluster_has_to_be_drained(name: str) -> None:
    machine = ready()
    machine.files("/proc/417", comm=name)
    assert found(machine) == [("not_drained", f"{name} runs: the node is in a cluster and has not been drained")]
    assert found(machine, drained=True) == []


def test_each_file_system_needs_space_of_its_own() -> None:
    machine = ready()
    free = {"/var": (100, 3072), "/usr": (5000, 3072), "/boot": (299, 300)}
    assert found(machine, free_mib=free) == [
        ("disk_space", "299 MiB are free under /boot, 300 are wanted"),
        ("disk_space", "100 MiB are free under /var, 3072 are wanted"),
    ]


class Disks(MemoryTree):
    """Places with the file systems that they are on."""

    def __init__(self, disks: dict[str, Space]) -> None:
        super().__init__({path: Entry("d") for path in disks})
        self.disks = disks

    def space(self, path: str) -> Space | None:
        return self.disks.get(path)


def test_a_file_system_is_asked_for_space_once() -> None:
    root, boot = Space(1, 5000), Space(2, 299)
    everywhere = Disks(dict.fromkeys(("/usr", "/var", "/lib/modules", "/tmp"), root) | {"/boot": boot})
    assert free_space(everywhere, 3072, "doca") == {"/usr": (5000, 3072), "/boot": (299, 300)}
    # where less is wanted than an initramfs takes
    assert free_space(everywhere, 100, "doca")["/boot"] == (299, 100)
    apart = Disks({"/usr": root, "/tmp": boot})
    assert free_space(apart, 3072, "doca") == {"/usr": (5000, 3072)}
    assert free_space(apart, 3072, "mlnx_iso") == {"/usr": (5000, 3072), "/tmp": (299, 3072)}
    assert free_space(MemoryTree({"/usr": Entry("d")}), 3072, "doca") == {}


def test_headers_of_a_removed_kernel_are_missing() -> None:
    machine = ready()
    # the link is there, what it names is not: headers of a kernel that was removed
    machine.remove("/usr/src")
    text = f"no headers for the running kernel {KERNEL} (/lib/modules/{KERNEL}/build/Makefile is not there)"
    assert found(machine) == [("kernel_headers", text)]


GUARD = "-8be4df61-93ca-11d2-aa0d-00e098032b8c"
MOK = "/sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"


@pytest.mark.parametrize(
    ("state", "key", "enrolled", "text"),
    [
        (None, None, None, None),
        (b"\6\0\0\0\0", None, None, None),
        (b"\6\0\0\0", None, None, None),
        (b"\6\0\0\0\1", None, None, "Secure Boot is on, and there is no key to sign modules with"),
        (b"\6\0\0\0\1", b"KEY", None, "Secure Boot is on, and the key /var/lib/dkms/mok.pub is not enrolled"),
        (b"\6\0\0\0\1", b"KEY", b"....OTHER", "Secure Boot is on, and the key /var/lib/dkms/mok.pub is not enrolled"),
        (b"\6\0\0\0\1", b"KEY", b"....KEY....", None),
        (b"\6\0\0\0\1", b"", b"....", "Secure Boot is on, and the key /var/lib/dkms/mok.pub is not enrolled"),
    ],
)
def test_secure_boot_wants_an_enrolled_key(
    state: bytes | None, key: bytes | None, enrolled: bytes | None, text: str | None
) -> None:
    machine = ready()
    for path, content in (
        (f"/sys/firmware/efi/efivars/SecureBoot{GUARD}", state),
        ("/var/lib/dkms/mok.pub", key),
        (MOK, enrolled),
    ):
        if content is not None:
            machine.file(path, content)
    assert found(machine) == ([("secure_boot", text)] if text else [])


@pytest.mark.parametrize(
    "path", ["/etc/modprobe.d/blacklist-ofed-modules.conf", "/run/mellanox/drivers/.driver-ready", "/proc/self/mounts"]
)
def test_a_driver_of_a_container_is_left_alone(path: str) -> None:
    machine = ready()
    machine.file(path, "overlay /run/mellanox/drivers overlay rw 0 0\n")
    ((name, text),) = found(machine)
    assert name == "driver_container"
    assert text.startswith("/etc/modprobe.d/" if "modprobe" in path else "/run/mellanox/drivers")


@pytest.mark.parametrize(
    ("info", "method", "version", "there"),
    [
        ("MLNX_OFED_LINUX-5.8-1.0.1.1", "doca", "2.5.0", True),
        ("MLNX_OFED_LINUX-5.8-1.0.1.1", "doca", "2.6.0", False),
        ("MLNX_OFED_LINUX-5.8-1.0.1.1", "mlnx_iso", "24.10-1.1.4.0", False),
        ("OFED-internal-25.10-1.0.0", "mlnx_iso", "24.10-1.1.4.0", True),
        ("OFED-internal-24.10-1.0.0", "doca", "3.2.0", False),
    ],
)
def test_another_stack_is_not_installed_over(info: str, method: str, version: str, there: bool) -> None:
    machine = ready()
    machine.file("/usr/bin/ofed_info", f"echo {info}:\n")
    assert [name for name, _text in found(machine, method=method, version=version)] == ["installed_stack"] * there


def test_a_card_that_has_no_driver_now() -> None:
    machine = ready()
    machine.function("0000:af:00.0", device="0x1013", vendor="0x15b3", driver=None)
    machine.function("0000:b0:00.0", device="0x1979", vendor="0x15b3", driver="pcieport")
    assert found(machine) == []
    ((name, text),) = found(machine, version="3.2.0")
    assert name == "unsupported_card"
    assert text.startswith("0000:af:00.0 (ConnectX-4) would be without a driver under DOCA 3.2.0")


def test_a_card_whose_only_device_is_software_is_looked_at() -> None:
    machine = ready()
    machine.soft_roce("rxe0", "eth7", "0000:af:00.0", device="0x1013", vendor="0x15b3", driver="mlx5_core")
    ((name, text),) = found(machine, version="3.2.0")
    assert (name, text.partition(" would")[0]) == ("unsupported_card", "0000:af:00.0 (ConnectX-4)")


def test_recorded_nodes_with_their_default_route_over_the_driver_are_not_reloaded() -> None:
    """Nodes whose default route is a bond over the HCAs' driver, and nodes with a network card of their own."""
    for capture, expected in (("ib-a100-1", True), ("gb200-1", True), ("ib-v100-1", False)):
        for activate in ("none", "reload", "reboot"):
            reasons = gate(open_tree(str(CAPTURES / f"{capture}.capture")), Asked(version="2.9.1", activate=activate))
            there = "default_route" in [reason.name for reason in reasons]
            assert there == (expected and activate == "reload")


def test_only_reasons_that_there_are_can_be_overridden() -> None:
    assert parse_overrides(["disk_space", "ssh_path"]) == ["disk_space", "ssh_path"]
    with pytest.raises(
        WishError, match=r"^ofed_override has no reason all, ssh; known are unsupported_card, .*secure_boot$"
    ):
        parse_overrides(["all", "ssh", "ssh_path"])
