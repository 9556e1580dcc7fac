# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with RoCE cards as files on the disk, and stand-ins for the programs that set them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import ANSWERS
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.tests.unit.machines import Machine

SUBSETS = ("devices", "kernel", "management", "roce")
ETHERNET = {"link_layer": "Ethernet"}
PROGRAMS = ("cma_roce_tos", "mlnx_qos", "mlxconfig", "rdma", "systemd-tmpfiles")
ROUTE = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"


def default_route(machine: Machine, netdev: str) -> None:
    line = f"{netdev}\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    machine.file("/proc/net/route", ROUTE + line)


def rails(
    count: int = 2, vendor: bool = True, layer: str = "Ethernet", programs: tuple[str, ...] = PROGRAMS
) -> Machine:
    """Cards mlx5_0, mlx5_1, ... with the netdevs eth0, eth1, ...; vendor: with the files of the vendor's driver."""
    machine = Machine()
    machine.files("/proc/sys/net/ipv4/conf/all", arp_announce=0, arp_filter=0, arp_ignore=0, rp_filter=0)
    machine.files("/sys/module/ib_core/parameters", netns_mode="Y")
    machine.files("/proc/sys/kernel/random", boot_id="b1")
    machine.directory("/sys/kernel/config/rdma_cm")
    for program in programs:
        machine.file(f"/usr/bin/{program}", "")
    for rail in range(count):
        function = machine.function(f"0000:{0x3B + rail:02x}:00.0", f"pci0000:{rail}0/0000:{rail}0:00.0")
        hca = machine.hca(f"mlx5_{rail}", function)
        machine.port(hca, link_layer=layer)
        name = f"eth{rail}" if layer == "Ethernet" else f"ib{rail}"
        path = machine.netdev(name, function, type=1 if layer == "Ethernet" else 32)
        machine.files(f"/proc/sys/net/ipv4/conf/{name}", arp_announce=0, arp_filter=0, arp_ignore=0, rp_filter=1)
        if vendor:
            for point in ("np", "rp"):
                machine.files(f"{path}/ecn/roce_{point}/enable", **{str(each): 1 for each in range(8)})
            machine.files(f"{hca}/tc/1", traffic_class="")
    return machine


def facts_of_host(machine: Machine) -> dict[str, Any]:
    return gather(machine.tree(), SUBSETS)


class Programs:
    """What mlnx_qos, cma_roce_tos, mlxconfig, rdma, systemctl and udevadm do, on files below a root.

    calls: command lines that were run to change something. broken: names of programs, or of their options, that end with status 1.
    idle: those that report no error and do nothing. hurts: an option of a program, after which the port of mlx5_0 is down.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[str] = []
        self.broken: set[str] = set()
        self.idle: set[str] = set()
        self.hurts = ""
        self.qos: dict[str, dict[str, str]] = {}
        self.firmware: dict[str, dict[str, str]] = {}
        self.tos: dict[str, int] = {}

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        name = os.path.basename(command[0])
        said = " ".join([name, *command[1:]])
        if any(word in said for word in self.broken):
            return 1, "", f"{name}: it does not work\n"
        quiet = any(word in said for word in self.idle)
        if self.hurts and self.hurts in said:
            port = self.root / "sys/class/infiniband/mlx5_0/ports/1"
            (port / "state").write_text("1: DOWN\n")
        run = getattr(self, "_" + name.replace("-", "_"))
        return 0, run([] if quiet else command[1:], command, said), ""

    def _mlnx_qos(self, given: list[str], command: list[str], said: str) -> str:
        own = self.qos.setdefault(command[2], {"trust": "pcp", "pfc": "0,0,0,0,0,0,0,0"})
        for option in command[3:]:
            self.calls.append(said)
            if given:
                key, _sign, value = option.lstrip("-").partition("=")
                own[key] = value
        flags = "   ".join(own["pfc"].split(","))
        printed = f"DCBX mode: OS controlled\nPriority trust state: {own['trust']}\nPFC configuration:\n\tenabled     {flags}\n"
        # where a tree that is not the live one looks for what the program would say
        answer = self.root / f"{ANSWERS.lstrip('/')}/qos/usr/bin/mlnx_qos/{command[2]}"
        answer.parent.mkdir(parents=True, exist_ok=True)
        answer.write_text(printed)
        return printed

    def _cma_roce_tos(self, given: list[str], command: list[str], said: str) -> str:
        self.calls.append(said)
        device, tos = command[2], int(command[6])
        if given:
            self.tos[device] = tos
        directory = self.root / "sys/kernel/config/rdma_cm" / device
        if directory.is_dir():
            # configfs fills a new directory by itself
            (directory / "ports/1").mkdir(parents=True, exist_ok=True)
            (directory / "ports/1/default_roce_tos").write_text(f"{self.tos.get(device, 0)}\n")
        return f"{self.tos.get(device, 0)}\n"

    def _mlxconfig(self, given: list[str], command: list[str], said: str) -> str:
        if command[-1] == "q":
            rows = self.firmware.get(command[2], {})
            return "Configurations:      Default   Current   Next Boot\n" + "".join(
                f"*       {name}           IB(1)     IB(1)     {value}\n" for name, value in rows.items()
            )
        self.calls.append(said)
        if given:
            name, _sign, value = command[-1].partition("=")
            self.firmware[command[3]][name] = {"1": "IB(1)", "2": "ETH(2)"}[value]
        return "Applying... Done!\n-I- Please reboot machine to load new configurations.\n"

    def _rdma(self, given: list[str], command: list[str], said: str) -> str:
        self.calls.append(said)
        if given:
            mode = "Y" if command[-1] == "shared" else "N"
            (self.root / "sys/module/ib_core/parameters/netns_mode").write_text(mode + "\n")
        return ""

    def _systemctl(self, _given: list[str], _command: list[str], said: str) -> str:
        self.calls.append(said)
        return ""

    _udevadm = _systemctl
