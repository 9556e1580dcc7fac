# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RoCE settings are made, proved and put back on a host whose files lie on the disk, with stand-ins for its programs."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base import places
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import DirectoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.default_routes import default6_answer
from ansible_collections.fabric.rdma.plugins.module_utils._discover.live import live_answers
from ansible_collections.fabric.rdma.plugins.module_utils._discover.roce import read_roce
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce_run import Host, RoceError
from ansible_collections.fabric.rdma.tests.unit.machines import lay
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._prepare.roce_node import (
    ETHERNET,
    Programs,
    rails,
)

ALL: dict[str, Any] = {
    "netns": "exclusive",
    "mtu": 9000,
    "trust": "dscp",
    "pfc": {"priorities": [3]},
    "ecn": {"priorities": [3]},
    "dscp": 26,
    "multi_rail": True,
}


class Node:
    """A host below a directory."""

    def __init__(self, root: Path, wish: dict[str, Any], **machine: Any) -> None:
        self.root = root
        self.programs = Programs(root)
        lay(rails(**machine).entries, root)
        self.wish = wish

    def host(self, live: bool = True, wait: float = 0) -> Host:
        return Host(str(self.root), self.programs, self.wish, ETHERNET, wait, live)

    def run(self, live: bool = True) -> tuple[bool, list[str]]:
        """(whether there was anything to do, what is pending)."""
        host = self.host(live)
        facts = host.facts()
        plan = host.plan(facts)
        assert plan.problems == []
        changes = bool(plan.steps or plan.files or facts["roce"]["unfinished"])
        if not changes and not plan.noted:
            return False, plan.pending
        _after, pending = host.change(facts, plan)
        return changes, pending

    def files(self) -> dict[str, str]:
        """Every file below the root."""
        return {
            str(path.relative_to(self.root)): path.read_text()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and not path.is_symlink()
        }

    def text(self, path: str) -> str:
        return (self.root / path).read_text()


@pytest.fixture(autouse=True)
def remembers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "var/lib/fabric.rdma/roce.json"
    monkeypatch.setattr(places, "ROCE", str(path))
    return path


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file of the traffic class says in words of its own what was written."""
    write = os.write

    def in_words(handle: int, data: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{handle}").endswith("/traffic_class"):
            write(handle, b"" if data == b"-1\n" else b"Global tclass=" + data)
            return len(data)
        return write(handle, data)

    monkeypatch.setattr(os, "write", in_words)


@pytest.fixture
def node(tmp_path: Path, driver: None) -> Node:
    made = Node(tmp_path, dict(ALL))
    for rail in range(2):
        made.programs(["/usr/bin/mlnx_qos", "-i", f"eth{rail}"])
    return made


def test_the_host_itself_is_asked_what_is_asked_and_nothing_else() -> None:
    """No program tells of routes: a rail with a default route in a table of its own is not the way to the host."""
    ran = []

    def run(command: list[str]) -> tuple[int, str, str]:
        ran.append(command)
        return 1, "", ""

    facts = Host("/", run, dict(ALL), ETHERNET, 0).facts()
    assert (
        facts["roce"]["under_default_route"]
        == read_roce(DirectoryTree("/", live_answers(run)), facts["devices"])["under_default_route"]
    )
    assert [command for command in ran if "mlnx_qos" not in command[0]] == []
    assert Host("/", run, dict(ALL), ETHERNET, 0)._tree().answer("default6", "") == default6_answer("")


def test_all_is_made_and_the_second_run_finds_nothing_to_do(node: Node) -> None:
    assert node.run() == (True, [])
    assert [node.text(f"sys/class/net/eth{rail}/mtu") for rail in range(2)] == ["9000\n"] * 2
    assert node.text("sys/class/net/eth0/ecn/roce_np/enable/3") == "1\n"
    assert node.text("sys/class/net/eth0/ecn/roce_rp/enable/0") == "0\n"
    assert node.text("proc/sys/net/ipv4/conf/eth1/rp_filter") == "2\n"
    assert node.text("sys/module/ib_core/parameters/netns_mode") == "N\n"
    assert node.programs.qos == {f"eth{rail}": {"trust": "dscp", "pfc": "0,0,0,1,0,0,0,0"} for rail in range(2)}
    assert node.programs.tos == {"mlx5_0": 106, "mlx5_1": 106}
    assert node.programs.calls[-2:] == ["systemctl daemon-reload", "udevadm control --reload"]
    node.programs.calls.clear()
    before = node.files()
    assert node.run() == (False, [])
    assert (node.files(), node.programs.calls) == (before, [])


def test_drift_is_put_right_and_nothing_else_is_touched(node: Node) -> None:
    node.run()
    node.programs.calls.clear()
    node.programs.qos["eth1"]["pfc"] = "0,0,0,0,0,0,0,0"
    node.programs(["/usr/bin/mlnx_qos", "-i", "eth1"])
    (node.root / "sys/class/net/eth0/mtu").write_text("1500\n")
    assert node.run() == (True, [])
    assert node.programs.calls == ["mlnx_qos -i eth1 --pfc=0,0,0,1,0,0,0,0"]
    assert node.text("sys/class/net/eth0/mtu") == "9000\n"


def test_what_is_no_longer_wished_is_no_longer_kept(node: Node) -> None:
    node.run()
    kept = [path for path in node.files() if path.startswith("etc/")]
    assert len(kept) == 7
    node.wish = {"persist": False}
    assert node.run() == (True, [])
    assert [path for path in node.files() if path.startswith("etc/")] == []
    # the values stay until the next boot
    assert node.text("sys/class/net/eth0/mtu") == "9000\n"
    assert node.run() == (False, [])


def test_a_file_of_somebody_else_stays(node: Node) -> None:
    path = node.root / "etc/sysctl.d/50-theirs.conf"
    path.parent.mkdir(parents=True)
    path.write_text("net.ipv4.conf.eth0.rp_filter = 1\n")
    node.run()
    node.wish = {"persist": False}
    node.run()
    assert path.read_text() == "net.ipv4.conf.eth0.rp_filter = 1\n"


# In the order in which they are taken; the last is that of the second card.
STEPS = [
    "rdma system set netns exclusive",
    "--trust=dscp",
    "--pfc=0,0,0,1",
    "-d mlx5_0 -p 1 -t 106",
    "-d mlx5_1 -p 1 -t 106",
]


@pytest.mark.parametrize("step", STEPS[1:])
@pytest.mark.parametrize("fault", ["broken", "idle"])
def test_a_step_that_fails_or_does_nothing_puts_all_back(node: Node, step: str, fault: str) -> None:
    before = node.files()
    getattr(node.programs, fault).add(step)
    with pytest.raises(RoceError) as caught:
        node.run()
    assert "What it was before was put back" in str(caught.value)
    expected = (
        "ended with status 1: "
        if fault == "broken"
        else "expected 106"
        if "-t 106" in step
        else "not every setting took effect: "
    )
    assert expected in str(caught.value)
    after = {path: text for path, text in node.files().items() if "rdma_cm" not in path}
    assert {path: text for path, text in after.items() if before.get(path, "").strip() != text.strip()} == {}
    assert set(node.programs.tos.values()) <= {0}
    assert all(own["trust"] == "pcp" for own in node.programs.qos.values())


def test_settings_are_put_back_the_newest_first(node: Node) -> None:
    node.programs.broken.add("-d mlx5_1 -p 1 -t 106")
    with pytest.raises(RoceError):
        node.run()
    # programs and options without their values
    calls = [re.sub(r"[= ][^= ]*$", "", call) for call in node.programs.calls]
    done = [call for call in dict.fromkeys(calls) if calls.count(call) == 2]
    assert len(done) >= 5
    assert [call for call in calls if call in done] == [*done, *reversed(done)]


@pytest.mark.parametrize("option", ["--trust=dscp", "--pfc", "-t 106"])
def test_a_port_that_is_lost_puts_all_back(node: Node, option: str) -> None:
    node.programs.hurts = option
    with pytest.raises(RoceError) as caught:
        node.run()
    message = str(caught.value)
    assert message.startswith("the host is worse than before: mlx5_0 (0000:3b:00.0) port 1 was Active and is Down")
    assert message.endswith("What it was before was put back")
    assert node.text("sys/class/net/eth0/mtu") == "1500\n"
    assert node.text("proc/sys/net/ipv4/conf/eth0/rp_filter") == "1\n"
    assert not (node.root / "etc").exists()
    assert not {call for call in node.programs.calls if "reload" in call}


def test_a_port_that_takes_its_time_is_waited_for(node: Node) -> None:
    """It is down when the first look is taken, and Active at the second."""
    host = node.host(wait=5)
    facts = host.facts()
    port = node.root / "sys/class/infiniband/mlx5_0/ports/1/state"
    looks = []
    known = Host.facts

    def look(self: Host) -> dict[str, Any]:
        found = known(self)
        looks.append(found["devices"][0]["ports"][0]["state"])
        port.write_text("4: ACTIVE\n")
        return found

    node.programs.hurts = "-t 106"
    host.facts = look.__get__(host)  # type: ignore[method-assign]
    host.change(facts, host.plan(facts))
    assert looks[:2] == ["Down", "Active"]


@pytest.mark.parametrize("path", ["etc/sysctl.d", "etc/systemd", "etc/fabric.rdma", "etc/udev/rules.d"])
def test_a_file_that_cannot_be_written_puts_all_back(node: Node, path: str) -> None:
    """Something else is in the place of its directory."""
    (node.root / path).parent.mkdir(parents=True, exist_ok=True)
    (node.root / path).write_text("theirs")
    with pytest.raises(RoceError) as caught:
        node.run()
    assert str(node.root / path) in str(caught.value)
    assert "What it was before was put back" in str(caught.value)
    assert node.text("sys/class/net/eth0/mtu") == "1500\n"
    assert [each for each in node.files() if each.startswith("etc/")] == [path]


THEIRS = "# somebody else's\n"


def test_a_file_that_somebody_else_edits_meanwhile_stays(node: Node) -> None:
    """While settings are made and proved, which takes up to a minute."""
    node.run()
    sysctl = node.root / "etc/sysctl.d/99-fabric-rdma-roce.conf"
    host = node.host()
    facts = host.facts()
    plan = host.plan(facts)
    sysctl.write_text(THEIRS)
    with pytest.raises(RoceError, match=r"99-fabric-rdma-roce.conf was changed by somebody else") as caught:
        host.change(facts, plan._replace(files={**plan.files, "/" + str(sysctl.relative_to(node.root)): b"ours\n"}))
    assert caught.value.whole
    assert sysctl.read_text() == THEIRS
    assert not list(node.root.rglob("etc/**/*~"))


def test_what_somebody_else_writes_before_it_is_put_back_stays(node: Node) -> None:
    """Of a file that was written already, when another one fails."""
    node.run()
    rules, sysctl = (node.root / name for name in ("etc/udev/rules.d/99-fabric-rdma-roce.rules", "etc/sysctl.d/99-x"))
    host = node.host()
    facts = host.facts()
    known = host._reload
    old = rules.read_text()

    def edit() -> None:
        known()
        sysctl.write_text(THEIRS)
        raise RoceError("it does not reload")

    host._reload = edit  # type: ignore[method-assign]
    files: dict[str, bytes | None] = {
        "/etc/sysctl.d/99-x": b"ours\n",
        "/etc/udev/rules.d/99-fabric-rdma-roce.rules": b"new\n",
    }
    with pytest.raises(RoceError, match="99-x was changed by somebody else just now, and stays as it is") as caught:
        host.change(facts, host.plan(facts)._replace(files=files))
    assert not caught.value.whole
    assert (sysctl.read_text(), rules.read_text()) == (THEIRS, old)
    assert not list(node.root.rglob("etc/**/*~"))


def test_a_link_that_goes_comes_back_as_a_link(node: Node) -> None:
    node.run()
    path = node.root / "etc/modprobe.d/fabric-rdma-roce.conf"
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    before = node.files()
    node.wish = {"persist": False}
    node.programs.broken.add("daemon-reload")
    with pytest.raises(RoceError, match="What it was before was put back"):
        node.run()
    assert node.files() == before
    assert os.readlink(path) == "elsewhere"


def test_what_cannot_be_put_back_is_told(node: Node) -> None:
    node.programs.broken |= {"--pfc=0,0,0,1", "netns shared"}
    with pytest.raises(RoceError) as caught:
        node.run()
    assert "What it was before could not be put back in full: `/usr/bin/rdma system set netns shared`" in str(
        caught.value
    )
    assert caught.value.whole is False
    assert node.text("sys/class/net/eth0/mtu") == "1500\n"
    # the next run knows what it was, and puts it back where it fails, too
    assert node.host().facts()["roce"]["unfinished"] is True
    node.programs.broken.remove("netns shared")
    with pytest.raises(RoceError, match="What it was before was put back"):
        node.run()
    assert node.text("sys/module/ib_core/parameters/netns_mode") == "Y\n"
    assert node.host().facts()["roce"]["unfinished"] is False


def test_namespaces_that_are_in_use_wait_for_the_boot(node: Node) -> None:
    node.programs.broken.add("netns")
    node.wish = {"netns": "exclusive"}
    changed, [pending] = node.run()
    assert changed
    assert pending.startswith("netns exclusive comes with the next boot, since it cannot be set now: ")
    assert node.text("etc/modprobe.d/fabric-rdma-roce.conf").endswith("options ib_core netns_mode=0\n")
    assert node.run()[0] is False


def test_namespaces_that_are_in_use_and_nothing_kept(node: Node) -> None:
    node.programs.broken.add("netns")
    node.wish = {"netns": "exclusive", "persist": False}
    with pytest.raises(RoceError, match="ended with status 1: rdma: it does not work"):
        node.run()


def test_a_link_type_is_announced_and_set_once(tmp_path: Path, remembers: Path) -> None:
    node = Node(tmp_path, {"link_type": "ETH", "mtu": 9000}, count=1, layer="InfiniBand")
    node.programs.firmware["0000:3b:00.0"] = {"LINK_TYPE_P1": "IB(1)"}
    changed, pending = node.run()
    assert changed
    assert pending == [
        "reboot: mlx5_0 (0000:3b:00.0) gets the link type ETH with it",
        "mtu follow when the ports are Ethernet: run again after the boot",
    ]
    assert node.programs.calls == ["mlxconfig -y -d 0000:3b:00.0 set LINK_TYPE_P1=2"]
    assert json.loads(remembers.read_text())["link_types"] == {"0000:3b:00.0/LINK_TYPE_P1": "ETH"}
    assert node.run()[0] is False
    # a boot that did not bring it: the firmware has it, and so nothing is set again
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("b2\n")
    changed, [pending, _mtu] = node.run()
    assert not changed
    assert "which comes with a reboot, or with power off and on" in pending
    assert len(node.programs.calls) == 1


def test_a_firmware_that_takes_nothing(tmp_path: Path, remembers: Path) -> None:
    node = Node(tmp_path, {"link_type": "ETH"}, count=1, layer="InfiniBand")
    node.programs.firmware["0000:3b:00.0"] = {"LINK_TYPE_P1": "IB(1)"}
    node.programs.idle.add("LINK_TYPE")
    with pytest.raises(RoceError, match="not every setting took effect: link_type of mlx5_0"):
        node.run()
    assert not remembers.exists()


def test_programs_are_run_on_a_live_host_only(tmp_path: Path) -> None:
    node = Node(tmp_path, {"trust": "dscp"}, count=1)
    with pytest.raises(RoceError) as caught:
        node.run(live=False)
    assert str(caught.value) == (
        f"/usr/bin/mlnx_qos is run on a live host only, and {tmp_path} is the root of another one. Nothing was changed"
    )
    assert node.programs.calls == []


def test_files_are_written_below_another_root(tmp_path: Path) -> None:
    node = Node(tmp_path, {"mtu": 9000, "rp_filter": 2}, count=1)
    assert node.run(live=False) == (True, [])
    assert node.text("sys/class/net/eth0/mtu") == "9000\n"
    assert node.run(live=False) == (False, [])
    assert node.programs.calls == []


def test_no_link_of_a_root_leads_out_of_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    node = Node(root, {"mtu": 9000, "persist": False}, count=1)
    outside = tmp_path / "outside"
    outside.write_text("1500\n")
    (inside := root / "outside").write_text("1500\n")
    real = (root / "sys/class/net/eth0").resolve() / "mtu"
    real.unlink()
    real.symlink_to("../" * 30 + "outside")
    node.run(live=False)
    assert (outside.read_text(), inside.read_text()) == ("1500\n", "9000\n")


# --- a run that is killed ---------------------------------------------------------------------------------------------

# Files for boot that change, one that comes and one that goes.
FIRST: dict[str, Any] = {"mtu": 4200, "trust": "dscp", "multi_rail": True}
SECOND: dict[str, Any] = {"mtu": 9000, "netns": "exclusive", "pfc": {"priorities": [3]}, "dscp": 26}
JOURNAL = "var/lib/fabric.rdma/roce-change.json"
LAST_STEP = "systemctl daemon-reload"


def killed(node: Node, point: int) -> bool:
    """Whether the run was killed before the change of this number, be it by Python or by a program; with what its programs know by then."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        count = itertools.count(1)

        def die() -> None:
            if next(count) == point:
                os.write(writing, pickle.dumps((node.programs.qos, node.programs.tos)))
                os.kill(os.getpid(), signal.SIGKILL)

        def hook(event: str, words: Any) -> None:
            changes = event == "open" and (words[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if changes or event in ("os.remove", "os.rename", "os.mkdir", "os.symlink"):
                die()

        programs = node.programs

        def program(command: list[str]) -> tuple[int, str, str]:
            die()
            return programs(command)

        sys.addaudithook(hook)
        node.host = lambda *_words: Host(str(node.root), program, node.wish, ETHERNET, 0, True)  # type: ignore[method-assign]
        try:
            node.run()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        known = stream.read()
    _pid, status = os.waitpid(child, 0)
    if known:
        node.programs.qos, node.programs.tos = pickle.loads(known)
    return os.WIFSIGNALED(status)


def everything(node: Node) -> tuple[Any, ...]:
    """What a host is set to, now and for boot; copies of old files do not count."""
    files = {
        path: text.strip() for path, text in node.files().items() if not path.endswith("~") and "rdma_cm" not in path
    }
    return files, dict(node.programs.qos), {device: tos for device, tos in node.programs.tos.items() if tos}


def at_each_point(directory: Path, then: Callable[[Node, tuple[Any, ...]], None]) -> int:
    """Has a run killed before each of its changes, each time on a host of its own; how often."""
    for point in itertools.count(1):
        node = Node(directory / str(point), dict(FIRST), count=1)
        node.programs(["/usr/bin/mlnx_qos", "-i", "eth0"])
        node.run()
        before = everything(node)
        node.wish = dict(SECOND)
        if not killed(node, point):
            return point - 1
        then(node, before)
    raise AssertionError


@pytest.mark.parts
@pytest.mark.usefixtures("driver")
def test_killed_anywhere_the_next_run_completes_it(tmp_path: Path) -> None:
    whole = Node(tmp_path / "whole", dict(FIRST), count=1)
    whole.programs(["/usr/bin/mlnx_qos", "-i", "eth0"])
    whole.run()
    whole.wish = dict(SECOND)
    whole.run()
    expected = everything(whole)

    def then(node: Node, _before: tuple[Any, ...]) -> None:
        pending = node.run()[1]
        assert pending == []
        # of a file that was not whole yet, nothing is left
        assert everything(node) == expected
        assert not (node.root / JOURNAL).exists()
        assert "systemctl daemon-reload" in node.programs.calls
        node.programs.calls.clear()
        assert node.run() == (False, [])
        assert node.programs.calls == []

    assert at_each_point(tmp_path, then) > 30


@pytest.mark.parts
@pytest.mark.usefixtures("driver")
def test_killed_anywhere_and_the_next_run_fails_all_is_as_it_was_before_both(tmp_path: Path) -> None:
    def then(node: Node, before: tuple[Any, ...]) -> None:
        node.programs.broken.add(LAST_STEP)
        with pytest.raises(RoceError, match="What it was before was put back") as caught:
            node.run()
        assert caught.value.whole
        assert everything(node) == before
        assert not (node.root / JOURNAL).exists()

    assert at_each_point(tmp_path, then) > 30


def test_a_port_that_a_killed_run_has_cost_is_missed(tmp_path: Path) -> None:
    """Before the next run, it is down already."""
    node = Node(tmp_path, {"mtu": 9000, "rp_filter": 2}, count=1)
    # after the journal: its directories, the file, its name
    points = itertools.count(1)
    while killed(node, next(points)) and node.text("sys/class/net/eth0/mtu") == "1500\n":
        pass
    (tmp_path / "sys/class/infiniband/mlx5_0/ports/1/state").write_text("1: DOWN\n")
    with pytest.raises(RoceError, match="port 1 was Active and is Down"):
        node.run()
    assert node.text("sys/class/net/eth0/mtu") == "1500\n"


@pytest.mark.usefixtures("driver")
def test_what_goes_with_a_boot_is_not_put_back_after_it(tmp_path: Path) -> None:
    node = Node(tmp_path, {"mtu": 9000, "rp_filter": 2}, count=1)
    points = itertools.count(1)
    while killed(node, next(points)) and not list(tmp_path.glob("etc/sysctl.d/*.conf")):
        pass
    # the boot has brought an MTU of its own, and the file is there
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("b2\n")
    (tmp_path / "sys/class/net/eth0/mtu").write_text("1400\n")
    node.programs.broken.add("reload")
    with pytest.raises(RoceError, match="What it was before was put back"):
        node.run()
    assert node.text("sys/class/net/eth0/mtu") == "1400\n"
    assert [path for path in node.files() if path.startswith(("etc/", JOURNAL))] == []


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"version": 2}',
        '{"version": 1}',
        '{"version": 1, "boot_id": "x", "devices": [], "entries": {"x": {}}}',
    ],
)
def test_damaged_notes_of_a_killed_run_stop_the_next(tmp_path: Path, text: str) -> None:
    node = Node(tmp_path, {"mtu": 9000}, count=1)
    (tmp_path / JOURNAL).parent.mkdir(parents=True)
    (tmp_path / JOURNAL).write_text(text)
    before = node.files()
    with pytest.raises(RoceError) as caught:
        node.run()
    assert str(tmp_path / JOURNAL) in str(caught.value)
    assert str(caught.value).endswith("Nothing was changed")
    # and nobody knows what the killed one has left
    assert not caught.value.whole
    assert node.files() == before
