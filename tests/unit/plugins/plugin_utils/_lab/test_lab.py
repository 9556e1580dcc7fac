# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab: what it ends, removes and says. (That its nodes boot is molecule's to prove.)"""

from __future__ import annotations

import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import lab
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.cluster import Kubernetes
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.lab import Lab
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import plan_nodes
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import STATE_FORMAT, LabSpec
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.waiting import Panicked
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import IMAGE, a_lab, spec


def test_absent_leaves_a_foreign_process_and_foreign_files_alone(tmp_path: Path) -> None:
    directory = tmp_path / "lab"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as foreign:
        try:
            mine = a_lab(directory, foreign.pid)
            (directory / "notes.txt").write_text("somebody's")
            assert mine.status().nodes[0].running is False
            assert mine.absent(check=True).changed is True
            assert (directory / "state.json").exists()
            result = mine.absent()
            assert (result.changed, result.before, result.after) == (True, ["lab1 stopped 198.51.100.1"], [])
            assert foreign.poll() is None
            assert [path.name for path in directory.iterdir()] == ["notes.txt"]
            assert mine.absent().changed is False
        finally:
            foreign.kill()


def test_absent_ends_our_process_and_removes_the_directory(tmp_path: Path) -> None:
    directory = (tmp_path / "lab").resolve()
    program = tmp_path / "qemu-system-x86_64"
    program.symlink_to("/bin/sh")
    # The arguments are what counts; sh takes what follows its script as parameters.
    command = [str(program), "-c", "sleep 60; :", "sh", "-pidfile", str(directory / "lab1/qemu.pid")]
    with subprocess.Popen(command) as process:
        mine = a_lab(directory, process.pid)
        # For a moment after exec(2) the kernel shows no arguments yet.
        deadline = time.monotonic() + limit(10)
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert mine.status().nodes[0].pid == process.pid
        assert mine.absent().changed is True
        assert process.wait(limit(5)) < 0
    assert not directory.exists()


@pytest.mark.parametrize("engine", ["qemu", "container"])
def test_absent_removes_a_lab_whose_node_has_the_name_of_a_file(tmp_path: Path, engine: str) -> None:
    """As an earlier version accepted it."""
    mine = Lab(str(tmp_path / "lab"), pytest.fail)
    (tmp_path / "lab").mkdir()
    nodes = [{"name": "lock", "address": "198.51.100.1", "port": 0}]
    mine.place.save({"format": STATE_FORMAT, "engine": engine, "nodes": nodes})
    assert mine.absent().changed is True
    assert not (tmp_path / "lab").exists()


def test_nobody_else_reads_a_lab_in_a_directory_that_was_there(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with Lab(str(tmp_path), pytest.fail)._lock():
        assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_an_engine_that_does_not_work_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "container_trouble", lambda: "containers that boot need root")
    told: list[str] = []
    mine, notes = Lab(str(tmp_path), told.append), list[str]()
    assert mine._engine(spec(tmp_path), notes) == "qemu"
    assert (notes, told) == ([], [])
    assert mine._engine(spec(tmp_path, engine="auto"), notes) == "qemu"
    assert notes == ["virtual machines: containers that boot need root"]
    assert told == ["lab: nodes are virtual machines, since containers that boot need root"]
    with pytest.raises(
        LabError, match=r"cannot be containers here: containers that boot need root; use engine: qemu, or auto"
    ):
        mine._engine(spec(tmp_path, engine="container"), notes)
    monkeypatch.setattr(lab, "container_trouble", lambda: None)
    assert mine._engine(spec(tmp_path, engine="auto"), notes) == "container"
    assert len(notes) == 1


@pytest.mark.parametrize(
    "changes", [{"kubernetes": True}, {"nodes": plan_nodes([{"name": "lab1", "hcas": ["mlx5_0"]}], 1024, 1)}]
)
def test_containers_are_no_nodes_of_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, t.Any]
) -> None:
    monkeypatch.setattr(lab, "container_trouble", lambda: None)
    mine = Lab(str(tmp_path), pytest.fail)
    notes: list[str] = []
    assert mine._engine(spec(tmp_path, engine="auto", **changes), notes) == "qemu"
    assert notes == ["virtual machines: containers have no RDMA devices and no kubelet"]
    with pytest.raises(LabError, match="containers have no RDMA devices and no kubelet; use engine: qemu, or auto"):
        mine._engine(spec(tmp_path, engine="container", **changes), [])


@pytest.mark.parametrize("panics", [0, 1, 2, 3])
def test_a_guest_that_panics_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, panics: int) -> None:
    """Twice, and it is said. (Of one that has booted, the scenario cluster proves it: while it boots, none does it at will.)"""
    started: list[str] = []
    monkeypatch.setattr(lab, "start_virtual_machines", lambda *_all: started.append("start"))
    monkeypatch.setattr(lab, "stop_all", lambda _place: started.append("stop"))
    told: list[str] = []
    mine = Lab(str(tmp_path), told.append)

    def wait(*_all: object) -> None:
        if started.count("start") <= panics:
            raise Panicked("lab1 did not come up with tcg: its kernel panicked. Last lines")

    monkeypatch.setattr(mine, "_wait", wait)
    notes: list[str] = []
    wish = spec(tmp_path, accel="tcg")
    if panics < 3:
        mine._start_with_accelerator(wish, IMAGE, notes, None)
    else:
        with pytest.raises(LabError, match=r"its kernel panicked(.|\n)*All nodes have been stopped"):
            mine._start_with_accelerator(wish, IMAGE, notes, None)
    assert started.count("start") == min(panics, 2) + 1
    assert started.count("stop") == panics
    assert notes == ["started again: lab1 did not come up with tcg: its kernel panicked"] * min(panics, 2)
    assert len(told) == min(panics, 2)


@pytest.mark.parametrize(
    "panics",
    [["join"], ["boot", "join"], ["join", "boot"], ["join"] * 3, ["boot", "join", "join"], ["join", "boot", "boot"]],
)
def test_a_guest_that_panics_while_it_joins_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, panics: list[str]
) -> None:
    """As one that panics while it boots, and both together not more often. With what it runs is not found out again."""
    done: list[str] = []
    for name in ("start_virtual_machines", "stop_all", "require_tools", "prepare", "lay_out", "kvm_trouble"):
        monkeypatch.setattr(lab, name, lambda *_all, name=name: done.append(name) or "no KVM")
    for name, value in (("start", (1, 2, 3)), ("stop", None), ("note_heartbeats", None)):
        monkeypatch.setattr(lab.cluster, name, lambda *_all, value=value, **_more: value)
    told: list[str] = []
    mine = Lab(str(tmp_path), told.append)
    mine.place.save({"format": STATE_FORMAT})

    def panic(when: str) -> None:
        if [when] == panics[done.count("start_virtual_machines") - 1 :][:1]:
            raise Panicked(f"lab1 did not come up with tcg: its kernel panicked ({when}). Last lines")

    monkeypatch.setattr(mine, "_wait", lambda *_all: panic("boot"))
    monkeypatch.setattr(mine, "_join", lambda *_all: panic("join"))
    notes: list[str] = []
    asked = (
        spec(tmp_path, kubernetes=True, accel="auto"),
        IMAGE,
        Kubernetes({}, "/disk"),
        "qemu",
        notes,
        dict[str, float](),
    )
    if len(panics) < 3:
        mine._bring_up(*asked)
    else:
        with pytest.raises(LabError, match=rf"its kernel panicked \({panics[-1]}\)"):
            mine._bring_up(*asked)
    assert done.count("start_virtual_machines") == min(len(panics) + 1, 3)
    assert done.count("kvm_trouble") == 1
    text = "lab1 did not come up with tcg: its kernel panicked"
    assert [note for note in notes if note != "plain emulation: no KVM"] == [
        f"started again: {text} ({when})" for when in panics[:2]
    ]
    assert [line for line in told if "panicked" in line] == [
        f"lab: {text} ({when}); all nodes are started again ({number} of 2)"
        for number, when in enumerate(panics[:2], 1)
    ]


def test_a_guest_that_panics_while_running_nodes_join_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes that run as they are wished for are waited for, too: when their control plane has died, they join once more."""
    mine, wish = Lab(str(tmp_path), lambda _text: None), spec(tmp_path, accel="tcg")
    mine.place.save({"format": STATE_FORMAT})
    for name, value in (("require_tools", None), ("choose_sources", ("bookworm", [])), ("cached_image", IMAGE)):
        monkeypatch.setattr(lab, name, lambda *_all, value=value: value)
    done: list[str] = []
    monkeypatch.setattr(lab, "stop_all", lambda _place: done.append("stop"))
    monkeypatch.setattr(mine.place, "fits", lambda _key: True)

    def resume(*_all: object) -> t.NoReturn:
        raise Panicked("lab2 did not come up with tcg: its kernel panicked. Last lines")

    monkeypatch.setattr(mine, "_resume", resume)
    monkeypatch.setattr(mine, "_bring_up", lambda *_all: done.append("start"))
    found = mine.present(wish)
    assert (found.changed, done) == (True, ["stop", "start"])
    assert found.notes == ["started again: lab2 did not come up with tcg: its kernel panicked"]


def test_how_busy_the_machine_is_follows_the_last_boot_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that is told is that of all."""
    mine, seconds, now = Lab(str(tmp_path), lambda _text: None), dict[str, float](), [0.0]
    mine.place.save({"format": STATE_FORMAT})
    monkeypatch.setattr(lab, "stop_all", lambda _place: None)
    monkeypatch.setattr(lab.time, "monotonic", lambda: now[0])

    def start(*_all: object) -> str:
        with lab._timed(seconds, "boot"):
            now[0] += 30
        return "qemu"

    def join(*_all: object) -> None:
        now[0] += 5
        if now[0] < 60:
            raise Panicked("its kernel panicked")

    monkeypatch.setattr(mine, "_start", start)
    monkeypatch.setattr(mine, "_join", join)
    mine._bring_up(spec(tmp_path, kubernetes=True), IMAGE, Kubernetes({}, "/disk"), "qemu", [], seconds)
    assert mine.place.state()["boot_seconds"] == 30
    assert seconds == {"boot": 60, "join": 10}


def test_a_node_that_has_panicked_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process does. It is told, and all are started again with the disks that they had, instead of being waited for."""
    told: list[str] = []
    mine = Lab(str(tmp_path / "lab"), told.append)
    wish = spec(tmp_path / "lab", accel="tcg")
    nodes = [{"name": node.name, "address": node.address, "port": 1} for node in wish.nodes]
    console = Path(mine.place.node_path("lab2", "console.log"))
    console.parent.mkdir(parents=True)
    mine.place.save({"format": STATE_FORMAT, "spec": wish.key(IMAGE), "engine": "qemu", "nodes": nodes})
    monkeypatch.setattr(mine.place, "pid", lambda _name: 1)
    for name, value in (("require_tools", None), ("choose_sources", ("bookworm", [])), ("cached_image", IMAGE)):
        monkeypatch.setattr(lab, name, lambda *_all, value=value: value)
    done: list[str] = []
    monkeypatch.setattr(mine, "_resume", lambda *_all: bool(done.append("resume")))

    def start(*_all: object) -> str:
        done.append("start")
        mine.place.save({**mine.place.state(), "accel": "tcg"})
        return "container"

    monkeypatch.setattr(mine, "_start", start)
    console.write_text("lab2 login: ")
    assert [node.running for node in mine.status().nodes] == [True, True]
    assert (mine.present(wish).notes, done) == ([], ["resume"])
    console.write_text("[   96.1] Kernel panic - not syncing: hung_task: blocked tasks\n")
    found = mine.status()
    assert [(node.running, node.pid) for node in found.nodes] == [(True, 1), (False, 1)]
    assert found.notes == [f"the kernel of lab2 has panicked, see {console}"]
    assert mine.present(wish, check=True).changed is True
    found = mine.present(wish)
    assert (found.changed, done) == (True, ["resume", "start"])
    assert found.notes == ["started again: the kernel of lab2 has panicked"]
    assert told == [f"lab: the kernel of lab2 has panicked, see {console}"]


@pytest.mark.parametrize("failure", [LabError("no answer"), SystemExit()])
def test_cables_that_were_changed_in_part_are_changed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    """Also when they are to be as they were before that."""

    def wish(cable: bool) -> LabSpec:
        hcas = ["mlx5_0", {"name": "mlx5_1", "cable": cable}]
        return spec(tmp_path, nodes=plan_nodes([{"name": "lab1", "hcas": hcas}], 1024, 1))

    mine, plugged = Lab(str(tmp_path), lambda _text: None), list[dict[str, bool]]()
    mine.place.save({"format": STATE_FORMAT, "engine": "qemu", "cables": {"lab1": {"card1": True, "card2": True}}})

    def plug(_place: object, _name: str, cables: dict[str, bool]) -> None:
        plugged.append(dict(cables))
        if len(plugged) == 1:
            raise failure

    monkeypatch.setattr(lab, "plug", plug)
    with pytest.raises(type(failure)):
        mine._plug(wish(False))
    assert mine._plug(wish(True)) is True
    assert plugged == [{"card1": True, "card2": False}, {"card1": True, "card2": True}]
    assert mine._plug(wish(True)) is False


def test_cables_are_changed_while_nodes_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are not as they are to be, and no others. (That the kernel sees it is molecule's to prove.)"""
    plugged: list[tuple[str, dict[str, bool]]] = []
    monkeypatch.setattr(lab, "plug", lambda _place, name, cables: plugged.append((name, dict(cables))))

    def wish(cable: bool) -> LabSpec:
        hcas = ["mlx5_0", {"name": "mlx5_1", "cable": cable, "bond": True}]
        return spec(tmp_path, nodes=plan_nodes([{"name": "lab1", "hcas": hcas}, "lab2"], 1024, 1))

    assert wish(True).key(IMAGE) == wish(False).key(IMAGE)
    told: list[str] = []
    mine = Lab(str(tmp_path), told.append)
    both = {"card1": True, "card2": True, "card3": True}
    mine.place.save({"format": STATE_FORMAT, "engine": "qemu", "cables": {"lab1": both, "lab2": {"card1": True}}})
    assert (mine._plug(wish(True)), plugged) == (False, [])
    assert mine._plug(wish(False))
    assert plugged == [("lab1", {"card1": True, "card2": False, "card3": False})]
    assert told == ["lab1: cables are in of card1"]
    assert not mine._plug(wish(False))


def test_no_control_plane_is_left_of_nodes_that_did_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    monkeypatch.setattr(lab.cluster, "start", lambda *_all: (1, 2, 3))
    monkeypatch.setattr(lab.cluster, "stop", lambda _place, keep: ended.append(keep))
    monkeypatch.setattr(lab, "require_tools", lambda _names: None)

    def fail(*_all: object) -> None:
        raise LabError("no space left")

    monkeypatch.setattr(lab, "lay_out", fail)
    wish = spec(tmp_path / "lab", kubernetes=True)
    with pytest.raises(LabError, match="no space left"):
        Lab(wish.directory, pytest.fail)._start(wish, IMAGE, Kubernetes({}, "/disk"), "qemu", [], {})
    # its data stays for the next attempt
    assert ended == [True]


def test_the_time_of_the_control_plane_is_not_that_of_the_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By which the time limits of tests are stretched."""
    mine, seconds = Lab(str(tmp_path / "lab"), pytest.fail), dict[str, float]()
    now = [0.0]
    monkeypatch.setattr(lab.time, "monotonic", lambda: now[0])

    def pass_(time_: float, value: object = None) -> t.Callable[..., object]:
        def act(*_all: object) -> object:
            now[0] += time_
            return value

        return act

    monkeypatch.setattr(lab.cluster, "start", pass_(100, (1, 2, 3)))
    monkeypatch.setattr(lab, "lay_out", pass_(7))
    monkeypatch.setattr(mine, "_start_with_accelerator", pass_(30))
    mine._start_all(spec(tmp_path, kubernetes=True), IMAGE, Kubernetes({}, "/disk"), [], seconds)
    assert seconds == {"control_plane": 100, "boot": 30}


def test_what_is_changed_while_nodes_run_is_in_the_diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cable, a control plane that has died: also before it is done."""
    hcas = ["mlx5_0", {"name": "mlx5_1", "cable": False}]
    wish = spec(tmp_path, nodes=plan_nodes([{"name": "lab1", "hcas": hcas}], 1024, 1), kubernetes=True)
    mine = Lab(str(tmp_path), pytest.fail)
    state = {"format": STATE_FORMAT, "engine": "qemu", "kubernetes": {"ports": [1, 2, 3]}}
    nodes = [{"name": "lab1", "address": wish.nodes[0].address, "port": 1}]
    mine.place.save({**state, "nodes": nodes, "cables": {"lab1": {"card1": True, "card2": True}}})
    monkeypatch.setattr(mine.place, "pid", lambda _name: 1)
    found = mine.status()
    assert (found.control_plane, found.after) == (False, ["lab1 running 198.51.100.1", "control plane stopped"])
    wanted = ["lab1 running 198.51.100.1, cables out: eth2", "control plane running"]
    assert lab._lines_wanted(wish, "qemu") == wanted
    monkeypatch.setattr(lab, "plug", lambda *_all: None)
    monkeypatch.setattr(lab.cluster, "runs", lambda _place: True)
    mine.progress = lambda _text: None
    assert mine._plug(wish) is True
    assert mine.status().after == wanted


def test_a_control_plane_that_has_died_is_started_for_the_nodes_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what it knows of them from before is not taken for their word."""
    done: list[object] = []
    mine = Lab(str(tmp_path), pytest.fail)
    mine.place.save({"format": STATE_FORMAT, "accel": "tcg", "cables": {}})
    monkeypatch.setattr(lab.cluster, "runs", lambda _place: bool(done))
    monkeypatch.setattr(lab.cluster, "start", lambda *_all, nodes_run: done.append(nodes_run))
    monkeypatch.setattr(lab.cluster, "note_heartbeats", lambda *_all: done.append("noted"))
    for name in ("_wait", "_join"):
        monkeypatch.setattr(mine, name, lambda *_all: None)
    monkeypatch.setattr(mine, "_plug", lambda _spec: False)
    wish = spec(tmp_path, kubernetes=True)
    assert (mine._resume(wish, Kubernetes({}, "")), done) == (True, [True, "noted"])
    assert (mine._resume(wish, Kubernetes({}, "")), done) == (False, [True, "noted"])
