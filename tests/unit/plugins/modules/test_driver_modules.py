# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""driver_gate, driver_check and driver_packages run for real, as a process on this machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, unpacked
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.examples import run_examples
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import content, differs, insist_on_return
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run

A100 = unpacked(CAPTURES / "ib-a100-1.capture")


@pytest.mark.parametrize("check", [False, True])
def test_the_gate_blocks_what_is_not_overridden_on_a_captured_node(check: bool) -> None:
    arguments = {"version": "2.9.1", "root": A100, "override": ["kernel_headers", "not_drained"]}
    assert run("driver_gate", check, activate="reboot", **arguments)["blocked"] == []
    result = run("driver_gate", check, activate="reload", **arguments)
    assert not result["changed"]
    names = [reason["name"] for reason in result["reasons"]]
    assert names == ["default_route", "not_drained", "kernel_headers"]
    assert result["blocked"] == ["default_route"]
    assert [reason["overridden"] for reason in result["reasons"]] == [False, True, True]
    (text,) = result["refusals"]
    assert text.startswith("default_route: the default route goes over bond0 -> ")


def test_the_gate_lets_this_machine_pass_where_it_is_overridden() -> None:
    result = run("driver_gate", version="2.9.1", min_free_mib=1 << 40, activate="reload", override=["disk_space"])
    assert "disk_space" not in result["blocked"]
    assert "disk_space" in [reason["name"] for reason in result["reasons"]]


def test_the_gate_asks_the_kernel_of_this_machine_for_the_tables_of_routes() -> None:
    base = "import ansible_collections.fabric.rdma.plugins.module_utils."
    prelude = (
        f"{base}_discover.default_routes as default_routes\n"
        "default_routes.default6_answer = lambda path: 'eth7\\n'\n"
        f"{base}_prepare.driver_gate as core\n"
        "core.gate = lambda tree, asked: [core.Reason('default_route', tree.answer('default6', '') or '', '')]\n"
    )
    (reason,) = run("driver_gate", prelude=prelude, version="2.9.1")["reasons"]
    assert reason["found"] == "eth7\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"override": ["everything"]}, "ofed_override has no reason everything; known are unsupported_card, "),
        ({"version": "newest"}, "rdma_ofed.version is 'newest'; expected a release"),
        ({"root": "/nowhere"}, "root '/nowhere' is not a directory"),
    ],
)
def test_gate_of_what_makes_no_sense(arguments: dict[str, object], message: str) -> None:
    result = run("driver_gate", **{"version": "2.9.1", "root": A100, **arguments})
    assert result["failed"]
    assert result["msg"].startswith(message)


def test_a_driver_that_this_machine_lacks_is_a_problem() -> None:
    result = run("driver_check", driver="no_such_driver")
    assert result["kernel"] == os.uname().release
    assert not result["changed"]
    assert "log" not in result
    assert any("no_such_driver" in text for text in result["problems"])


# The kernel's log as a machine has it on which it may be read: one record, and nothing after it for now.
KERNEL_LOG = """
import os as _os
_open = _os.open
_reader, _writer = _os.pipe2(_os.O_NONBLOCK)
_os.write(_writer, b"6,339,5140900,-;usb 1-1: new device")
_os.open = lambda path, *more, **named: _reader if path == "/dev/kmsg" else _open(path, *more, **named)
"""


def test_the_log_of_the_kernel_is_looked_at_for_as_long_as_asked() -> None:
    assert run("driver_check", prelude=KERNEL_LOG, log_window=1)["log"]["seconds"] >= 1


def test_a_build_is_read_as_dkms_prints_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = os.uname().release
    for name, text in {
        "dkms": f"mlnx-ofed-kernel/24.10, {kernel}, x86_64: installed",
        "modinfo": f"/lib/modules/{kernel}/updates/dkms/mlx5_core.ko",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{text}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    result = run("driver_check")
    assert result["problems"] == []
    assert [(build["name"], build["state"]) for build in result["dkms"]] == [("mlnx-ofed-kernel", "installed")]
    assert result["driver"]["path"] == "updates/dkms/mlx5_core.ko"
    assert result["driver"]["kind"] == "updates"


STATUS = """\
Package: {name}
Status: install ok installed
Maintainer: fabric.rdma contributors <nobody@example.org>
Architecture: all
Version: {version}
Description: stand-in

"""
APT = """\
Dir::State "{0}/state";
Dir::State::status "{0}/dpkg/status";
Dir::Cache "{0}/cache";
Dir::Log "{0}/log";
Dir::Etc "{0}/etc";
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    repository_in(tmp_path, monkeypatch)
    return tmp_path


def repository_in(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository, and what apt and dpkg of this machine know: three packages, and that there is a repository, but not its content."""
    for name in ("dpkg/info", "etc", "state/lists/partial", "cache/archives/partial", "log", "repository"):
        (directory / name).mkdir(parents=True)
    installed = {"rdma-core": "44.0-2", "libibverbs1": "44.0-2", "bash": "5.2"}
    (directory / "dpkg/status").write_text("".join(STATUS.format(name=n, version=v) for n, v in installed.items()))
    offered = [("rdma-core", "44.0-3"), ("libibverbs1", "44.0-2")]
    stanza = "Package: {0}\nVersion: {1}\nArchitecture: all\nFilename: {0}.deb\nSize: 1\nSHA256: " + 64 * "0" + "\n\n"
    (directory / "repository/Packages").write_text("".join(stanza.format(*pair) for pair in offered))
    (directory / "etc/sources.list").write_text(f"deb [trusted=yes] copy:{directory}/repository ./\n")
    (directory / "apt.conf").write_text(APT.format(directory))
    monkeypatch.setenv("APT_CONFIG", str(directory / "apt.conf"))
    monkeypatch.setenv("DPKG_ADMINDIR", str(directory / "dpkg"))


def test_versions_that_cannot_be_put_back_are_named(packages: Path) -> None:
    """After a look at what the repositories have now, which check mode does not take."""
    arguments = {"state": "checked", "manager": "apt"}
    unknown = ["libibverbs1 44.0-2", "rdma-core 44.0-2"]
    assert run("driver_packages", True, **arguments) == {"changed": False, "no_way_back": unknown}
    assert run("driver_packages", **arguments) == {"changed": False, "no_way_back": ["rdma-core 44.0-2"]}
    (packages / "etc/sources.list").write_text("")
    assert run("driver_packages", **arguments)["no_way_back"] == unknown


def test_a_version_that_a_repository_has_dropped_cannot_be_put_back(packages: Path) -> None:
    """The node's lists are of yesterday."""
    arguments = {"state": "checked", "manager": "apt"}
    index = packages / "repository/Packages"
    today = index.read_text()
    index.write_text(today.replace("44.0-3", "44.0-2"))
    assert run("driver_packages", **arguments)["no_way_back"] == []
    index.write_text(today)
    assert run("driver_packages", **arguments)["no_way_back"] == ["rdma-core 44.0-2"]


def test_a_repository_that_does_not_answer_is_a_reason_and_not_the_end(packages: Path) -> None:
    """Whoever has the release as a file may go on: an operator can name the reason."""
    (packages / "repository/Packages").unlink()
    (told,) = [
        each for each in run("driver_packages", state="checked", manager="apt")["no_way_back"] if "44.0-2" not in each
    ]
    assert told.startswith("what its repositories no longer have (apt-get update: ")


def remembered_in(packages: Path) -> str:
    """What lets the module remember here."""
    return (
        "import ansible_collections.fabric.rdma.plugins.module_utils._base.places as places\n"
        f"places.DRIVER_PACKAGES = {str(packages / 'remembered.json')!r}\n"
        "from ansible_collections.fabric.rdma.plugins.module_utils._prepare.packages_run import Apt\n"
        f"Apt.lists = {str(packages)!r}\n"
    )


def test_what_others_held_is_put_back_as_predicted(packages: Path) -> None:
    """Every step of a change: a check predicts and changes nothing, a second run has nothing to do, and the difference is shown."""
    status = packages / "dpkg/status"

    def call(state: str, check: bool = False) -> dict[str, Any]:
        kept = content(packages)
        result = run("driver_packages", check, remembered_in(packages), _ansible_diff=True, state=state, manager="apt")
        assert not check or content(packages) == kept
        insist_on_return("driver_packages", result)
        assert differs(result.get("diff")) is result["changed"]
        return result

    assert call("opened", check=True)["found"] is False
    assert call("opened")["found"] is False
    # the change holds a package of the stack
    status.write_text(status.read_text().replace("install ok", "hold ok", 1))
    held = status.read_text()
    call("closed")
    predicted = call("restored", check=True)
    assert (predicted["changed"], status.read_text()) == (True, held)
    restored = call("restored")
    assert (restored["changed"], restored["complete"], restored["left"]) == (True, True, [])
    assert restored["restored"] == predicted["restored"] != []
    assert restored["diff"] == predicted["diff"]
    assert "hold ok" not in status.read_text()
    again = call("restored")
    assert (again["changed"], again["restored"]) == (False, [])
    assert call("opened")["found"] is False
    assert [call("forgotten")["found"] for _time in range(2)] == [True, False]
    refused = run("driver_packages", state="gone")
    assert "value of state must be one of" in refused["msg"]


def test_what_dpkg_has_not_ended_is_ended_as_predicted(packages: Path) -> None:
    """As a loss of power leaves it: dpkg itself reads the step that is in its journal, and the state that it was to lead to is there."""
    (packages / "dpkg/triggers").mkdir()
    (packages / "dpkg/updates").mkdir()
    journal = packages / "dpkg/updates/0001"
    journal.write_text(STATUS.format(name="rdma-core", version="44.0-3"))
    prelude = (
        "from ansible_collections.fabric.rdma.plugins.module_utils._prepare.packages_run import Apt\n"
        f"Apt.journal = {str(journal.parent)!r}\n"
        f"Apt.lists = {str(packages / 'lists')!r}\n"
    )

    def call(check: bool) -> tuple[bool, bool, bool]:
        result = run("driver_packages", check, prelude, _ansible_diff=True, state="settled", manager="apt")
        insist_on_return("driver_packages", result)
        assert bool(result.get("diff")) is result["changed"]
        return result["changed"], journal.exists(), (packages / "lists").is_dir()

    assert call(check=True) == (True, True, False)
    assert call(check=False) == (True, False, True)
    assert "Version: 44.0-3" in (packages / "dpkg/status").read_text()
    assert call(check=False) == (False, False, True)
    (packages / "lists").rmdir()
    assert call(check=True) == (True, False, False)
    before = os.umask(0o077)
    try:
        assert call(check=False) == (True, False, True)
    finally:
        os.umask(before)
    # apt downloads as a user of its own, and nobody takes it for read just now
    made = (packages / "lists").stat()
    assert (stat.S_IMODE(made.st_mode), made.st_mtime) == (0o755, 0)


def test_the_examples_of_driver_packages_put_back(packages: Path) -> None:
    prelude = remembered_in(packages)
    opened, restored = run_examples("driver_packages", lambda module, given: run(module, prelude=prelude, **given))
    assert (opened["found"], restored["found"]) == (False, True)
    assert (restored["changed"], restored["restored"], restored["left"], restored["complete"]) == (False, [], [], True)
