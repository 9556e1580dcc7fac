# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that holds programs, and the keys of a control plane. (That it is one is proved by tests/cluster/test_control_plane.py.)"""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import control_plane
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.control_plane import (
    LOG_FILE,
    ControlPlane,
    claim,
    control_plane_runs,
    leave_running,
    start_control_plane,
    stop_control_plane,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.golang import KUBERNETES_PROGRAMS
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError, free_ports, read
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import (
    COLLECTIONS,
    HOLDER,
    eventually,
    gone,
    held,
    sleeper,
)


def ignore(_text: str = "") -> None:
    pass


def says(directory: Path, text: str) -> bool:
    return eventually(lambda: text in (directory / LOG_FILE).read_text())


@pytest.fixture
def directory(tmp_path: Path) -> t.Iterator[Path]:
    yield tmp_path / "held"
    stop_control_plane(str(tmp_path / "held"), patience=limit(30))


# --- a process that stays --------------------------------------------------------------------------------------------


def test_it_runs_until_it_is_stopped(directory: Path) -> None:
    assert not control_plane_runs(str(directory))
    pid = held(directory)
    assert control_plane_runs(str(directory))
    assert directory.stat().st_mode & 0o777 == 0o700
    with pytest.raises(LabError, match=r"a control plane runs in \S+; stop it first"):
        claim(str(directory))
    stop_control_plane(str(directory), keep=True)
    assert not control_plane_runs(str(directory))
    assert gone(pid)
    assert (directory / "word").exists()
    # and once more in the same place
    pid = held(directory)
    stop_control_plane(str(directory))
    assert gone(pid)
    assert not directory.exists()
    stop_control_plane(str(directory))


@pytest.mark.parametrize("ends_by_itself", [False, True])
def test_its_own_process_is_gone_too_when_it_is_stopped(directory: Path, ends_by_itself: bool) -> None:
    """An interpreter takes a while to end after it has let go of the lock: on a busy machine, long enough to be seen."""
    held(directory, "import atexit, time\natexit.register(time.sleep, 1)\n" + HOLDER)
    pid = int((directory / "lock").read_text())
    if ends_by_itself:
        os.kill(pid, signal.SIGTERM)
        assert eventually(lambda: not control_plane_runs(str(directory)))
    stop_control_plane(str(directory), patience=limit(30))
    assert read(f"/proc/{pid}/cmdline") == ""


def test_it_ends_with_its_directory(directory: Path) -> None:
    pid = held(directory)
    shutil.rmtree(directory)
    assert eventually(lambda: gone(pid))


def test_its_programs_end_with_it_however_that_was(directory: Path) -> None:
    pid = held(directory)
    os.kill(int((directory / "lock").read_text()), 9)
    assert eventually(lambda: gone(pid))
    assert not control_plane_runs(str(directory))


def test_it_ends_with_any_of_its_programs_and_says_so(directory: Path) -> None:
    os.kill(held(directory), 9)
    assert eventually(lambda: not control_plane_runs(str(directory)))
    assert says(directory, "LabError: sleeper ended with -9")


def test_it_ends_when_whoever_starts_it_gives_up(directory: Path) -> None:
    claim(str(directory))

    def alive() -> None:
        sleeper(directory)
        raise LabError("gone")

    command = [sys.executable, "-c", HOLDER, str(directory)]
    with pytest.raises(LabError, match="gone"):
        leave_running(str(directory), command, alive, PYTHONPATH=str(COLLECTIONS))
    assert eventually(lambda: gone(sleeper(directory)))
    assert not control_plane_runs(str(directory))


def test_it_ends_when_whoever_starts_it_is_killed_before_all_runs(directory: Path) -> None:
    claim(str(directory))
    text = f"from {control_plane.__name__} import leave_running\n"
    text += (
        f"leave_running({str(directory)!r}, [{sys.executable!r}, '-c', {HOLDER!r}, {str(directory)!r}], lambda: None)"
    )
    environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS)}
    with subprocess.Popen([sys.executable, "-c", text], env=environment) as starter:
        try:
            pid = sleeper(directory)
        finally:
            starter.kill()
    assert eventually(lambda: gone(pid))
    assert eventually(lambda: not control_plane_runs(str(directory)))
    assert says(directory, "the process that asked for what runs in")


def test_who_asks_is_not_taken_for_what_runs(directory: Path) -> None:
    claim(str(directory))
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            control_plane_runs(str(directory))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        assert not any(control_plane_runs(str(directory)) for _number in range(2000))
    finally:
        stop.set()
        asking.join(limit(30))


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match=r"is not empty and has no control plane in it; name a directory of its own"):
        start_control_plane(str(tmp_path), {}, (1, 2, 3), ignore, ignore)
    stop_control_plane(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_what_a_killed_stop_has_left_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    directory = tmp_path / "held"
    claim(str(directory))
    for name in ("etcd/member", "certificates"):
        (directory / name).mkdir(parents=True)
    for name in ("a", "z"):
        (directory / name).touch()
    steps = [0]

    def killed(remove: t.Callable[..., None]) -> t.Callable[..., None]:
        def one(*given: t.Any, **more: t.Any) -> None:
            steps[0] += 1
            if steps[0] > step:
                raise KeyboardInterrupt
            remove(*given, **more)

        return one

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", killed(os.unlink))
        patch.setattr(shutil, "rmtree", killed(shutil.rmtree))
        with pytest.raises(KeyboardInterrupt):
            stop_control_plane(str(directory))
    assert (directory / "lock").exists()
    stop_control_plane(str(directory))
    assert not directory.exists()


def test_a_program_that_does_not_run_is_named(directory: Path) -> None:
    ports = free_ports(3)
    programs = dict.fromkeys(KUBERNETES_PROGRAMS, "false")
    with pytest.raises(LabError, match=r"^no control plane:\netcd ended with 1:"):
        start_control_plane(str(directory), programs, (ports[0], ports[1], ports[2]), ignore, ignore)
    assert not control_plane_runs(str(directory))


# --- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("users", [{}, {"system:node:lab1": "system:nodes"}])
def test_the_way_to_kubelets_is_there_when_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, users: dict[str, str]
) -> None:
    started: dict[str, tuple[str, ...]] = {}
    monkeypatch.setattr(ControlPlane, "start", lambda _self, name, *command: started.update({name: command}))
    monkeypatch.setattr(ControlPlane, "wait", lambda *_all: None)
    there = ControlPlane(str(tmp_path), dict.fromkeys(KUBERNETES_PROGRAMS, "program"), (1, 2, 3), users=users)
    there.start_apiserver()
    there.start_others()
    flags = [word for word in started["kube-apiserver"] if word.startswith("--egress-selector-config-file=")]
    assert bool(flags) is ("egress" in started) is bool(users)
    # by which everything that runs is found, whatever has become of the control plane (molecule/cluster/destroy.yml)
    assert [name for name, command in started.items() if not any(str(tmp_path) in word for word in command)] == []


def test_keys_are_made_once_and_for_their_owner_alone(tmp_path: Path) -> None:
    def keys(name: str) -> dict[str, str]:
        there = ControlPlane(str(tmp_path / name), {}, (1, 2, 3))
        (tmp_path / name).mkdir(exist_ok=True)
        there.make_keys()
        paths = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
        config = json.loads((tmp_path / name / "kubeconfig").read_text())
        assert config["users"][0]["user"]["token"] == there.token
        assert len(there.token) > 30
        return {path.name: path.read_text() for path in paths}

    first = keys("one")
    assert keys("one") == first
    other = keys("two")
    assert set(other) == {
        "apiserver.crt",
        "apiserver.key",
        "etcd.crt",
        "etcd.key",
        "kubeconfig",
        "kubelet-client.crt",
        "kubelet-client.key",
        "sa.key",
        "tokens.csv",
    }
    assert [name for name in first if first[name] == other[name]] == []
    # a key belongs to its certificate, and no other
    certificates = tmp_path / "one" / "certificates"
    context = ssl.create_default_context(cafile=str(certificates / "etcd.crt"))
    context.load_cert_chain(certificates / "etcd.crt", certificates / "etcd.key")
    with pytest.raises(ssl.SSLError):
        context.load_cert_chain(certificates / "etcd.crt", certificates / "apiserver.key")
