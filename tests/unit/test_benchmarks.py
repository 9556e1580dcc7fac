# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of `make benchmark` keeps what was measured, also when a later run fails, and names what is wrong."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.benchmarks import kept as figures
from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.filter.rdma_needs import rdma_needs
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import eventually

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> t.Any:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


playbooks = load("playbooks")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "benchmark.json"


@pytest.fixture
def table(kept: Path) -> t.Any:
    return playbooks.Table(kept)


def of(seconds: float, **counts: int) -> t.Any:
    return playbooks.Run(seconds, 100.4, counts)


def test_a_row_is_a_ratio_and_counts_of_each_host(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = playbooks.Table(kept)
    table.add("ping", 50, 10, of(4.0, modules=50))
    table.add("site", 50, 10, of(6.0, modules=50, results=125, skipped=25), ("ping", of(4.0)), events=[3000, 2000])
    ping, site = json.loads(kept.read_text())["playbooks"]["rows"]
    assert (ping["ratio"], ping["compared_with"], ping["event_bytes_per_host"]) == (None, None, None)
    assert site == {
        "what": "site",
        "hosts": 50,
        "forks": 10,
        "seconds": 6.0,
        "compared_with": "ping",
        "ratio": 1.5,
        "modules_per_host": 1.0,
        "results_per_host": 2.5,
        "skipped_per_host": 0.5,
        "peak_mb": 100,
        "event_bytes_per_host": 100,
        "largest_event_bytes": 3000,
    }
    head, *rows = capsys.readouterr().out.splitlines()
    assert len({len(line) for line in (head, *rows)}) == 1
    assert rows[1].split() == ["site", "50", "10", "6.0", "1.5", "ping", "1.0", "2.5", "0.5", "100", "100", "3000"]


def test_few_hosts_are_measured_by_the_run_in_the_middle() -> None:
    """One that began cold, or met another program, counts neither for the product nor against it."""
    took = iter([9.0, 2.0, 3.0])
    assert playbooks.middle(lambda: of(next(took)), 3)() == of(3.0)
    assert list(took) == []


def test_rows_stay_when_a_later_run_fails(table: t.Any, kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> t.Any:
        raise playbooks.RunError("ansible-playbook site.yml ended with 2:\nno space left")

    assert table.measure("ping", 10, 5, lambda: of(2.0)) is not None
    assert table.measure("site", 10, 5, broken) is None
    assert table.measure("plan", 10, 5, lambda: of(3.0), ("site", None)) is not None
    told = json.loads(kept.read_text())["playbooks"]
    assert [(row["what"], row["ratio"]) for row in told["rows"]] == [("ping", None), ("plan", None)]
    assert told["machine"]["processors"] == os.cpu_count()
    assert [(each["what"], each["hosts"]) for each in told["failures"]] == [("site", 10)]
    assert table.wrong(2.5, 50) == ["site, 10 hosts: ansible-playbook site.yml ended with 2:\nno space left"]
    assert "failed" in capsys.readouterr().out


def test_a_command_that_fails_says_what_it_said(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('out of forks'); raise SystemExit(3)"]
    with pytest.raises(playbooks.RunError, match=r"ended with 3:\nout of forks"):
        playbooks.run(command, tmp_path, {})


@pytest.mark.parametrize(
    ("hosts", "seconds", "counts", "said"),
    [
        (50, 9.0, {}, []),
        (10, 12.0, {}, []),
        (10, 13.0, {}, ["prepare of 10 hosts takes 3.25 times as long as a ping of them; the bound is 3.125"]),
        (50, 11.0, {}, ["prepare of 50 hosts takes 2.75 times as long as a ping of them; the bound is 2.5"]),
        (10, 9.0, {"modules": 20}, ["prepare starts 2.0 modules on a host that needs nothing; one tells it all"]),
        (
            20,
            9.0,
            {"results": 60},
            ["prepare has 3.0 tasks for each of 20 hosts that need nothing; one, and those that run once, are all"],
        ),
        (20, 9.0, {"skipped": 50}, []),
        (
            20,
            9.0,
            {"skipped": 60},
            [
                "each of 20 hosts that need nothing skips 3.0 tasks of prepare; whether it is the controller is all that each is asked"
            ],
        ),
    ],
)
def test_a_converged_prepare_has_bounds(
    table: t.Any, hosts: int, seconds: float, counts: dict[str, int], said: list[str]
) -> None:
    told = {"modules": hosts, "results": hosts + 20} | counts
    table.add(playbooks.CONVERGED_ROW, hosts, 10, of(seconds, **told), ("ping", of(4.0)))
    assert table.wrong(2.5, 50) == said


def test_a_second_run_with_all_wishes_starts_one_module_too(table: t.Any) -> None:
    table.add(playbooks.SECOND_ROW, 10, 10, of(9.0, modules=20, results=30))
    assert len(table.wrong(2.5, 50)) == 1


@pytest.mark.parametrize(
    ("few", "many", "said"),
    [
        ((1000, 60.0), (10_000, 900.0), []),
        ((100, 1.0), (1000, 60.0), []),
        ((1000, 60.0), (10_000, 1500.0), ["plan, cached facts", "site.yml under ansible-runner"]),
        # what plan and report take anyway is a part of so few
        ((200, 10.0), (1000, 150.0), ["site.yml under ansible-runner"]),
    ],
)
def test_time_grows_as_the_number_of_hosts_does(
    table: t.Any, few: tuple[int, float], many: tuple[int, float], said: list[str]
) -> None:
    for hosts, seconds in (many, few):
        table.add(playbooks.PLAN_ROW, hosts, 10, of(seconds))
        table.add(playbooks.SITE_ROW, hosts, 10, of(seconds))
    told = f"{few[0]} hosts take {few[1]:g} s and {many[0]} take {many[1]:g} s, more than 2 times as much for each"
    assert table.wrong(2.5, 50) == [f"{what}: {told}" for what in said]


@pytest.mark.parametrize(
    ("hosts", "size", "said"),
    [
        (200, 40_000, []),
        (200, 40_001, ["site.yml under ansible-runner, 200 hosts: events of 40001 bytes a host; the bound is 40000"]),
        # the same tasks run once for few hosts as for many
        (199, 60_000, []),
    ],
)
def test_events_of_a_host_have_a_bound(table: t.Any, hosts: int, size: int, said: list[str]) -> None:
    table.add(playbooks.SITE_ROW, hosts, 10, of(9.0), events=[size] * hosts)
    assert table.wrong(2.5, 50) == said


@pytest.mark.parametrize(
    ("what", "hosts", "forks", "most"),
    [
        ("plan, cached facts", 10_000, 10, 6400),
        ("report, cached facts", 10_000, 10, 4400),
        ("site.yml under ansible-runner", 1000, 10, 2800),
        # each fork has memory of its own
        ("site.yml under ansible-runner", 1000, 100, 8200),
        ("report, cached facts", 10_000, 5, 4400),
    ],
)
def test_memory_has_a_bound(table: t.Any, what: str, hosts: int, forks: int, most: int) -> None:
    run = of(9.0)
    table.add(what, hosts, forks, run._replace(mb=float(most)))
    assert table.wrong(2.5, 50) == []
    table.add(what, hosts, forks, run._replace(mb=most + 1.0))
    assert table.wrong(2.5, 50) == [f"{what}, {hosts} hosts: {most + 1} MB; the bound is {most}"]


def test_a_size_is_left_out_only_where_memory_is_short(
    table: t.Any, kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(playbooks, "free_mb", lambda: 1000.0)
    assert not table.leave_out("plan", 1000, 500)
    assert table.leave_out("plan", 10_000, 3200)
    assert json.loads(kept.read_text())["playbooks"]["left_out"] == [
        "plan, 10000 hosts: takes 3200 MB, of which the machine has 1000"
    ]
    assert "left out: plan, 10000 hosts" in capsys.readouterr().out


def test_a_first_run_is_of_nodes_that_lack_what_roles_bring(tmp_path: Path) -> None:
    """Its stand-ins answer as such a node does: what a module brings is there when it was started, and needed no longer."""
    playbooks.lacking_hosts(tmp_path, 2)
    nodes = [tmp_path / "first" / f"node-{number:05d}" for number in (1, 2)]

    def start(node: Path, module: str) -> t.Any:
        command = [str(node / "python"), f"AnsiballZ_{module}.py"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def needed(node: Path) -> set[str]:
        facts = start(node, "ib_facts")["ansible_facts"]["rdma"]
        decided = rdma_needs(facts, {}, "Ethernet", storage={}, memlock={}, want={"link_layer": "Ethernet"})
        return {role for role, found in decided.items() if found["needed"]}

    assert needed(nodes[0]) == {"ofed", "storage_prereqs", "containerd_memlock"}
    for module in ("apt", "kernel_module"):
        assert "ofed" in needed(nodes[0])
        assert start(nodes[0], module)["changed"]
    assert needed(nodes[0]) == {"storage_prereqs", "containerd_memlock"}
    for module in ("apt", "kernel_module", "kernel_module", "systemd_service"):
        assert "storage_prereqs" in needed(nodes[0])
        start(nodes[0], module)
    assert needed(nodes[0]) == {"containerd_memlock"}
    start(nodes[0], "containerd_memlock")
    assert needed(nodes[0]) == set()
    # of the one nothing is the other's
    assert len(needed(nodes[1])) == 3
    assert len((tmp_path / "started").read_text()) == 7 + sum(
        (node / "calls").read_text().count("ib_facts") for node in nodes
    )


def test_the_table_has_the_sizes_of_a_large_site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By default, when the machine can."""
    asked: dict[str, list[int]] = {}
    for part in ("small", "cached", "site"):
        monkeypatch.setattr(
            playbooks, part, lambda _table, _place, sizes, _forks, part=part, **_more: asked.update({part: sizes})
        )
    monkeypatch.setattr(playbooks, "facts", lambda *_arguments: None)
    monkeypatch.setattr(sys, "argv", ["playbooks.py", "--json", str(tmp_path / "benchmark.json")])
    assert playbooks.main() == 0
    assert asked == {"small": [10, 50, 200], "cached": [100, 1000, 10_000], "site": [200, 1000]}


@pytest.mark.parametrize(("asked", "name"), [([], "benchmark"), (["--generous"], "bounds")])
def test_a_few_hosts_do_not_take_the_place_of_many(
    asked: list[str], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What `make bounds` measures is kept elsewhere."""
    for part in ("small", "cached", "site", "facts"):
        monkeypatch.setattr(playbooks, part, lambda table, *_others, **_more: table.keep())
    monkeypatch.setattr(playbooks, "furnish", lambda _place: None)
    monkeypatch.setattr(figures, "CACHE", tmp_path / ".cache")
    monkeypatch.setattr(sys, "argv", ["playbooks.py", *asked])
    assert playbooks.main() == 0
    assert [path.name for path in (tmp_path / ".cache").iterdir()] == [f"{name}.json"]


def test_what_one_measures_stays_when_another_does(kept: Path, table: t.Any) -> None:
    """The file is what is read later: of all measurements, each with its machine."""
    figures.keep(kept, "planner", curves={"alike": [1]})
    table.keep()
    figures.keep(kept, "planner", curves={"alike": [2]})
    told = json.loads(kept.read_text())
    assert sorted(told) == ["planner", "playbooks"]
    assert told["planner"]["curves"] == {"alike": [2]}
    assert {each["machine"]["kernel"] for each in told.values()} == {os.uname().release}


def test_figures_stay_when_later_ones_find_no_room(kept: Path) -> None:
    """Half a file would end each measurement that comes after."""
    figures.keep(kept, "planner", curves={"alike": [1]})
    before = kept.read_text()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            figures.keep(kept, "report", seconds=list(range(10_000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert kept.read_text() == before


@pytest.mark.parametrize("name", ["ib_facts", "planner", "report"])
def test_every_measurement_keeps_its_figures(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = load(name)
    monkeypatch.setattr(figures, "CACHE", tmp_path)
    point = {"hosts": 1, "classes": 1, "seconds": 1.0, "cpu": 1.0, "view_cpu": 1.0, "mb": 1.0}
    page = {
        "page": 1.0,
        "json": 1.0,
        "metrics": 1.0,
        "made": 1.0,
        "elements": 1,
        "first": 1.0,
        "opened": 1.0,
        "mb": 1.0,
    }
    said = types.SimpleNamespace(stdout=json.dumps({**point, **page}))
    monkeypatch.setattr(subprocess, "run", lambda *_arguments, **_more: said)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--generous"])
    script.main()
    assert len(json.loads((tmp_path / "bounds.json").read_text())[name]) > 1


def planner_that_takes(monkeypatch: pytest.MonkeyPatch, *rounds: tuple[float, ...]) -> t.Any:
    """The measurement of a plan, in which each point takes what its round says; the last one is repeated."""
    script = load("planner")
    turns: dict[int, int] = {}

    def run(command: list[str], **_more: t.Any) -> t.Any:
        hosts = int(command[-1])
        turn = turns[hosts] = turns.get(hosts, -1) + 1
        cpu = rounds[min(turn, len(rounds) - 1)][script.GENEROUS_HOSTS.index(hosts)]
        point = {"hosts": hosts, "classes": 1, "seconds": cpu, "cpu": cpu, "view_cpu": 1.0, "mb": 1.0}
        return types.SimpleNamespace(stdout=json.dumps(point))

    monkeypatch.setattr(subprocess, "run", run)
    return script


def test_a_slow_moment_is_no_curve(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script = planner_that_takes(monkeypatch, (1.1, 4.2, 7.6), (1.3, 2.5, 9.0))
    good, points = script.curve("names", True)
    assert (good, [point["cpu"] for point in points]) == (True, [1.1, 2.5, 7.6])
    assert "measured once more" in capsys.readouterr().out


@pytest.mark.parametrize("cpu", [(0.6, 2.4, 9.6), (0.1, 1.0, 3.6), (1.0, 2.0, 50.0)])
def test_what_takes_longer_each_time_is_beyond_its_bounds(
    cpu: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = planner_that_takes(monkeypatch, cpu)
    assert script.curve("names", True)[0] is False


def test_sizes_of_make_reach_the_measurement() -> None:
    """And a part that there is not is an error: a table without rows would have nothing wrong in it."""
    say = 'say: ; @echo "$$FABRIC_RDMA_SIZES"'
    command = ["make", "--eval", say, "SIZES=--only site,sight --site 50", "say"]
    given = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    assert given == command[3].partition("=")[2]
    environment = {key: value for key, value in os.environ.items() if key != "FABRIC_RDMA_BOUNDS"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "benchmark", "benchmarks/test_playbooks.py"],
        cwd=ROOT,
        env={**environment, "FABRIC_RDMA_SIZES": given},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    # shown as it comes, and not only when all has ended
    assert "'sight' is not one of small, facts, cached, site" in done.stdout + done.stderr


@pytest.mark.parametrize("at_once", [True, False])
def test_a_measurement_that_is_ended_leaves_nothing_running(at_once: bool, tmp_path: Path) -> None:
    """Each run of a playbook is in a group of its own. at_once: it has just begun, and nobody knows its number yet."""
    started = tmp_path / "started"
    program = tmp_path / "bin" / "ansible-playbook"
    program.parent.mkdir()
    end = "kill -TERM $PPID\n" if at_once else ""
    program.write_text(f"#!/bin/sh\necho $$ > {started}.new\nmv {started}.new {started}\n{end}exec sleep 300\n")
    program.chmod(0o755)
    measuring = subprocess.Popen(
        [sys.executable, "benchmarks/playbooks.py", "--only=cached", "--cached=1", f"--json={tmp_path}/benchmark.json"],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )
    assert eventually(started.exists)
    playbook = Path("/proc", started.read_text().strip())
    if not at_once:
        assert playbook.exists()
        measuring.terminate()
    assert measuring.wait(limit(60)) == 128 + signal.SIGTERM
    assert eventually(lambda: not playbook.exists())
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "started"}


def test_figures_say_of_which_commit_they_are(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        return subprocess.run(
            ["git", "-C", str(tmp_path), *identity, *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    assert figures.revision(tmp_path) is None
    git("init", "--quiet")
    assert figures.revision(tmp_path) is None, "nothing is committed yet"
    git("commit", "--quiet", "--allow-empty", "--message", "begin")
    head = git("rev-parse", "HEAD")
    assert figures.revision(tmp_path) == head[:12]
    (tmp_path / "changed").touch()
    assert figures.revision(tmp_path) == head[:12] + "+"
    (tmp_path / "copy").mkdir()
    assert figures.revision(tmp_path / "copy") is None, "somebody else's checkout"
