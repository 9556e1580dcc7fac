# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which containerd of several is the one of Kubernetes. Real ones are asked in test_memlock_apply.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_daemon import Node, find_daemon
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_plan import MemlockError


class Crowd(Node):
    """A node with a containerd in each of some units."""

    def __init__(self, *units: str) -> None:
        super().__init__(lambda _command: (0, "", ""), "")
        self.units = dict(enumerate(units, 100))

    def pids(self) -> list[int]:
        return sorted(self.units)

    def proc_text(self, path: str) -> str:
        pid, _slash, name = path.partition("/")
        return {"comm": "containerd\n", "cgroup": f"0::/system.slice/{self.units[int(pid)]}\n"}[name]

    def proc_link(self, path: str) -> str:
        return "pid:[4026531836]"


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        (["containerd.service", "rke2-agent.service"], (101, "rke2-agent.service")),
        (["k3s.service", "containerd.service", "containerd.service"], (100, "k3s.service")),
        (["docker.service", "containerd.service"], (101, "containerd.service")),
    ],
)
def test_beside_that_of_a_distribution_the_plain_one_is_the_docker_engines(
    units: list[str], expected: tuple[int, str]
) -> None:
    assert find_daemon(Crowd(*units)) == expected


def test_of_two_distributions_neither_is_taken() -> None:
    with pytest.raises(
        MemlockError, match=r"^several containerds run: k3s\.service, rke2-agent\.service; expected one$"
    ):
        find_daemon(Crowd("containerd.service", "k3s.service", "rke2-agent.service"))


def test_gpus_without_their_links(tmp_path: Path) -> None:
    node = Crowd()
    node.dev = str(tmp_path)
    assert node.unlinked_gpus() == []
    for name, target in (
        ("nvidia0", "/dev/null"),
        ("nvidia1", "/dev/zero"),
        ("nvidia2", "/nowhere"),
        ("nvidiactl", "/dev/null"),
    ):
        (tmp_path / name).symlink_to(target)
    assert node.unlinked_gpus() == ["nvidia0", "nvidia1"]
    (tmp_path / "char").mkdir()
    number = os.stat("/dev/null").st_rdev
    (tmp_path / f"char/{os.major(number)}:{os.minor(number)}").symlink_to("../nvidia0")
    assert node.unlinked_gpus() == ["nvidia1"]
