# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""roce_host run for real, as a process, on files of a host below a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.tests.unit.machines import lay
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._prepare.roce_node import (
    ETHERNET,
    default_route,
    rails,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run

SYSCTL = "/etc/sysctl.d/99-fabric-rdma-roce.conf"


def call(root: Path, wish: Any, check: bool = False) -> dict[str, Any]:
    return run("roce_host", check, root=str(root), wish=wish, want=ETHERNET, wait_timeout=0, _ansible_diff=True)


def test_before_and_after_are_reported(tmp_path: Path) -> None:
    lay(rails(1).entries, tmp_path)
    result = call(tmp_path, {"rp_filter": 2})
    assert result["before"]["ports"][0]["ipv4"]["rp_filter"] == 1
    assert result["after"]["ports"][0]["ipv4"]["rp_filter"] == 2
    assert (result["files"], list(result["after"]["files"])) == ([SYSCTL], [SYSCTL])
    settings, file = result["diff"]
    assert (settings["before"], settings["after"]) == ("eth0 rp_filter 1\n", "eth0 rp_filter 2\n")
    assert (file["before_header"], file["before"]) == (SYSCTL, "")
    assert file["after"] == (tmp_path / SYSCTL.lstrip("/")).read_text()


def test_that_a_change_has_not_finished_is_a_difference(tmp_path: Path) -> None:
    lay(rails(1).entries, tmp_path)
    killed = (
        "import ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce_run as roce_run\n"
        "roce_run.remembered.forget = lambda path: None\n"
    )
    given = {"root": str(tmp_path), "wish": {"rp_filter": 2}, "want": ETHERNET, "wait_timeout": 0}
    assert run("roce_host", prelude=killed, **given)["after"]["unfinished"] is True
    for check in (True, False):
        result = call(tmp_path, {"rp_filter": 2}, check)
        (shown,) = result["diff"]
        assert (result["changed"], result["files"]) == (True, [])
        assert (shown["before"], shown["after"]) == ("a change that has not finished\n", "")
    again = call(tmp_path, {"rp_filter": 2})
    assert (again["changed"], "diff" in again) == (False, False)


@pytest.mark.parametrize("check", [True, False])
def test_a_refusal_comes_before_anything_is_changed(tmp_path: Path, check: bool) -> None:
    """All of them at once, also in a check."""
    machine = rails(2)
    default_route(machine, "eth0")
    lay(machine.entries, tmp_path)
    (tmp_path / "usr/bin/mlnx_qos").unlink()
    result = call(tmp_path, {"mtu": 9000, "trust": "dscp"}, check)
    assert result["failed"]
    assert [problem.partition(";")[0] for problem in result["problems"]] == [
        "eth0 carries the default route or the connection to the host, so its MTU is not changed",
        "rdma_roce_host.trust needs mlnx_qos, which is not there",
    ]
    assert result["msg"] == ". ".join(result["problems"])
    assert (tmp_path / "sys/class/net/eth1/mtu").read_text() == "1500\n"
    assert not (tmp_path / "etc").exists()


@pytest.mark.parametrize(
    ("root", "wish", "message"),
    [
        (None, {"pfc": {"priorities": [9]}}, "rdma_roce_host.pfc.priorities is [9]; expected a list of priorities"),
        (None, {"mtu": 9000, "mut": 1}, "rdma_roce_host has no key mut; it knows "),
        ("/nowhere", {"mtu": 9000}, "root '/nowhere' cannot be read"),
    ],
)
def test_an_invalid_wish_is_refused(tmp_path: Path, root: str | None, wish: Any, message: str) -> None:
    lay(rails(1).entries, tmp_path)
    result = call(Path(root) if root else tmp_path, wish)
    assert result["failed"]
    assert result["msg"].startswith(message)


def test_a_file_of_the_kernel_that_takes_nothing_puts_all_back(tmp_path: Path) -> None:
    """An MTU that the driver refuses: the message has the path and its reason."""
    lay(rails(2).entries, tmp_path)
    real = (tmp_path / "sys/class/net/eth1").resolve() / "mtu"
    fault = (
        "import errno as _errno, os as _os\n"
        "_write = _os.write\n"
        "def write(handle, data):\n"
        f"    if _os.readlink('/proc/self/fd/%d' % handle) == {str(real)!r}:\n"
        "        raise OSError(_errno.EINVAL, _os.strerror(_errno.EINVAL))\n"
        "    return _write(handle, data)\n"
        "_os.write = write\n"
    )
    arguments = {"root": str(tmp_path), "wish": {"mtu": 9000}, "want": ETHERNET, "wait_timeout": 0}
    real.write_text("1500\n")
    result = run("roce_host", prelude=fault, **arguments)
    assert result["failed"]
    assert result["msg"].startswith("/sys/class/net/eth1/mtu: Invalid argument")
    assert (tmp_path / "sys/class/net/eth0/mtu").read_text() == "1500\n"
    assert not (tmp_path / "etc").exists()
