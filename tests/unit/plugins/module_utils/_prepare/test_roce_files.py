# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that bring RoCE settings back after a boot."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.digest import digest
from ansible_collections.fabric.rdma.plugins.module_utils._discover.roce import MODPROBE, RULES, SYSCTL
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce_files import changed_files, wanted_files
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce_wish import chosen_ports, read_want, read_wish
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._prepare.roce_node import (
    ETHERNET,
    facts_of_host,
    rails,
)

UNIT = "/etc/systemd/system/fabric-rdma-roce-mlx5_0.service"
VALUES = "/etc/fabric.rdma/roce-mlx5_0.conf"
ALL = {
    "mtu": 9000,
    "trust": "dscp",
    "pfc": {"priorities": [3]},
    "ecn": {"priorities": [3]},
    "dscp": 26,
    "multi_rail": True,
    "netns": "shared",
}


def files(wish: dict[str, Any], count: int = 1) -> dict[str, str]:
    """Their lines without comments."""
    facts = facts_of_host(rails(count))
    found = wanted_files(chosen_ports(facts, read_want(ETHERNET)), read_wish(wish), facts["roce"]["programs"])
    return {path: re.sub(rb"(?m)^#.*\n", b"", data).decode() for path, data in found.items()}


def test_everything_that_can_be_kept() -> None:
    found = files(ALL)
    assert set(found) == {MODPROBE, SYSCTL, RULES, UNIT, VALUES}
    assert found[MODPROBE] == "options ib_core netns_mode=1\n"
    assert found[SYSCTL] == (
        "net/ipv4/conf/eth0/arp_announce = 2\nnet/ipv4/conf/eth0/arp_ignore = 1\nnet/ipv4/conf/eth0/rp_filter = 2\n"
    )
    assert found[RULES] == (
        'ACTION!="remove", SUBSYSTEM=="infiniband", KERNEL=="mlx5_0", TAG+="systemd", '
        'ENV{SYSTEMD_WANTS}+="fabric-rdma-roce-mlx5_0.service"\n'
    )
    lines = found[VALUES].splitlines()
    assert lines[0] == "w /sys/class/net/eth0/mtu - - - - 9000"
    assert lines[-1] == "w /sys/class/infiniband/mlx5_0/tc/1/traffic_class - - - - 106"
    ecn = [f"/sys/class/net/eth0/ecn/roce_{point}/enable/{each}" for point in ("np", "rp") for each in range(8)]
    assert lines[1:-1] == [f"w {path} - - - - {int(path.endswith('3'))}" for path in ecn]
    assert found[UNIT] == (
        "[Unit]\nDescription=RoCE settings of mlx5_0\nRequires=sys-subsystem-net-devices-eth0.device\n"
        "After=sys-subsystem-net-devices-eth0.device\n\n[Service]\nType=oneshot\n"
        f"ExecStart=-/usr/bin/systemd-tmpfiles --create {VALUES}\n"
        "ExecStart=-/usr/bin/mlnx_qos -i eth0 --trust=dscp\n"
        "ExecStart=-/usr/bin/mlnx_qos -i eth0 --pfc=0,0,0,1,0,0,0,0\n"
        "ExecStart=-/sbin/modprobe rdma_cm\n"
        "ExecStart=-/bin/mkdir -p /sys/kernel/config/rdma_cm/mlx5_0\n"
        "ExecStart=-/usr/bin/cma_roce_tos -d mlx5_0 -p 1 -t 106\n"
    )


@pytest.mark.parametrize(
    ("wish", "paths"),
    [
        ({}, set()),
        ({"link_type": "ETH"}, set()),
        ({"netns": "exclusive"}, {MODPROBE}),
        ({"rp_filter": 2}, {SYSCTL}),
        ({"mtu": 9000}, {RULES, UNIT, VALUES}),
        ({"trust": "pcp"}, {RULES, UNIT}),
    ],
)
def test_only_what_is_wished_is_kept(wish: dict[str, Any], paths: set[str]) -> None:
    assert set(files(wish)) == paths


def test_the_tos_does_not_wait_for_who_loads_rdma_cm() -> None:
    """The device appears before it: without the module there is no place for the ToS, and cma_roce_tos does not load it."""
    commands = [line.partition("=-")[2] for line in files({"dscp": 26})[UNIT].splitlines() if "ExecStart" in line]
    (module,) = (index for index, line in enumerate(commands) if line.endswith("modprobe rdma_cm"))
    assert all(module < index for index, line in enumerate(commands) if "/rdma_cm/" in line or "cma_roce_tos" in line)


def test_each_device_has_a_unit_of_its_own() -> None:
    """One that appears later, or again, starts its own."""
    found = files({"mtu": 9000}, count=3)
    assert [path for path in found if path.endswith(".service")] == [
        f"/etc/systemd/system/fabric-rdma-roce-mlx5_{rail}.service" for rail in range(3)
    ]
    assert found[RULES].count("\n") == 3


def test_only_what_differs_is_written_and_what_is_ours_goes() -> None:
    wanted = {"/a": b"1", "/b": b"2"}
    assert changed_files({"/a": digest(b"1"), "/b": digest(b"x"), "/c": digest(b"3")}, wanted) == {
        "/b": b"2",
        "/c": None,
    }
    assert changed_files({path: digest(data) for path, data in wanted.items()}, wanted) == {}
    # one that cannot be read is written again
    assert changed_files({"/a": None}, {"/a": b"1"}) == {"/a": b"1"}


def test_systemd_tmpfiles_writes_the_values_that_have_a_place(tmp_path: Path) -> None:
    """The very file, with sysfs below another root: what is there gets its value, what is not is passed over."""
    text = files(ALL)[VALUES]
    mtu = tmp_path / "sys/class/net/eth0/mtu"
    mtu.parent.mkdir(parents=True)
    mtu.write_text("1500\n")
    path = tmp_path / "roce.conf"
    path.write_text(text)
    command = ["systemd-tmpfiles", f"--root={tmp_path}", "--create", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit(60))
    assert done.returncode == 0, done.stderr
    assert mtu.read_text().startswith("9000")
    assert not (tmp_path / "sys/class/infiniband").exists()
