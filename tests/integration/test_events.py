# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run tells ansible-runner and AWX of: no event that grows with the cluster, and little of each host."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.tests.integration.stand_ins import interpreter
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import documented

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
Json = dict[str, t.Any]
# What a page, a plan and metrics have; each of them is as long as the cluster is large.
LARGE = ("<!doctype html", '"classes":', "# help rdma_")
# Bytes of the largest result in an event, and of an event as it is kept, with what is printed for it.
MOST, WHOLE = 20_000, 100_000


def inventory(directory: Path, hosts: int, capture: str = "roce-rails-1", name: str = "n{}", silent: int = 0) -> Path:
    """Of these, some are silent: nobody finds their captures."""
    names: Json = {
        name.format(number): {
            "rdma_capture": str(CAPTURES / f"{capture if number <= hosts - silent else 'nowhere'}.capture")
        }
        for number in range(1, hosts + 1)
    }
    variables = {
        "rdma_groups": ["gpu"],
        "rdma_resource": {"name": "rdma_gpu"},
        "rdma_want": {"link_layer": "Ethernet"},
        "rdma_output_dir": str(directory / "output"),
        "ansible_connection": "local",
    }
    path = directory / "hosts.json"
    group = {"children": {"gpu": {"hosts": names}}}
    path.write_text(json.dumps({"all": {"vars": variables, "children": {"rdma": group}}}))
    return path


def events(user: User, directory: Path, playbook: str, *arguments: str) -> list[str]:
    """What ansible-runner has written down, an event each."""
    private = directory / playbook
    private.mkdir()
    hosts = inventory(directory, 6)
    given = ["--playbook", f"fabric.rdma.{playbook}", "--inventory", str(hosts), "--quiet", *arguments]
    user.run("ansible-runner", "run", str(private), *given)
    return [path.read_text() for path in private.glob("artifacts/*/job_events/*.json")]


def test_no_event_is_as_large_as_the_cluster(user: User, tmp_path: Path) -> None:
    seen = {name: events(user, tmp_path, name) for name in ("site", "doctor", "doctor_bundle")}
    for name, told in seen.items():
        assert len(told) > 50, name
        for text in told:
            event = json.loads(text)
            result = event["event_data"].get("res") or {}
            task = event["event_data"].get("task")
            assert len(json.dumps(result)) < MOST, (name, task, len(text))
            # a host's facts are longer than all else that it says
            assert "rdma" not in (result.get("ansible_facts") or {}), (name, task)
            assert len(text) < WHOLE, (name, event["event"], task)
            assert not [words for words in LARGE if words in json.dumps(result).lower()], (name, task)
    # and yet all of it is there
    output = tmp_path / "output"
    assert all((output / each).stat().st_size > MOST for each in ("report.html", "plan.json"))
    assert (output / "bundle").is_dir()


# Bytes by which an event may grow with each host, half as many as a name has: a count may have a digit more, one name may be another.
GROWTH, NAME = 30, "n{:03}-" + "x" * 55
# What needs neither nodes nor a cluster, in plays of one run.
QUIET = ("verify", "plan", "rollout", "fabric", "doctor", "doctor_bundle", "capture", "report")


def sizes(events: t.Iterable[Json]) -> dict[tuple[str, str, str], int]:
    """{(event, play, task): bytes of the largest}, without what Ansible itself says of all hosts: its recap, and for whom a file is."""
    found: dict[tuple[str, str, str], int] = {}
    for event in events:
        data = event.get("event_data") or {}
        if event["event"] == "playbook_on_stats":
            event = {"told": data["artifact_data"]}
        elif event["event"] == "playbook_on_include":
            event = {**event, "stdout": ""}
        key = (event.get("event", "stats"), data.get("play", ""), data.get("task", ""))
        found[key] = max(found.get(key, 0), len(json.dumps(event)))
    return found


def measured(
    user: User, directory: Path, hosts: Path, plays: list[Json], variables: Json
) -> dict[tuple[str, str, str], int]:
    (directory / "play.yml").write_text(json.dumps(plays))
    (directory / "variables.json").write_text(json.dumps({"ansible_become": False, **variables}))
    given = ["--playbook", str(directory / "play.yml"), "--inventory", str(hosts), "--quiet"]
    done = user.run(
        "ansible-runner", "run", str(directory / "private"), *given, f"--cmdline=-e @{directory}/variables.json"
    )
    assert done.returncode == 0
    paths = (directory / "private").glob("artifacts/*/job_events/*.json")
    return sizes(json.loads(path.read_text()) for path in paths)


def plays(*names: str) -> list[Json]:
    return [{"ansible.builtin.import_playbook": f"fabric.rdma.{name}"} for name in names]


def of_the_quiet(user: User, directory: Path, hosts: int) -> dict[tuple[str, str, str], int]:
    variables = {"rdma_rollout_method": "render", "doctor_fail_on": "never"}
    return measured(user, directory, inventory(directory, hosts, name=NAME), plays(*QUIET), variables)


def of_all(user: User, directory: Path, hosts: int) -> dict[tuple[str, str, str], int]:
    return measured(user, directory, inventory(directory, hosts, name=NAME), plays("site"), {})


def of_changed_hosts(user: User, directory: Path, hosts: int) -> dict[tuple[str, str, str], int]:
    """Each differs in all of its cards from what it was, and some do not answer."""
    path = inventory(directory, hosts, "roce-rails-2", NAME)
    user.run("ansible-playbook", "-i", str(path), "fabric.rdma.discover")
    path = inventory(directory, hosts, "roce-rails-1", NAME, silent=hosts // 6)
    return measured(user, directory, path, plays("compare"), {"__compare_shown": 1})


def of_changed_nodes(user: User, directory: Path, hosts: int) -> dict[tuple[str, str, str], int]:
    """Each node needs something, which is not done: nobody is to change this machine."""
    facts = gather(open_tree(str(CAPTURES / "ib-v100-unprepared.capture")))
    begun = {"before": {}, "interrupted": None}
    answers = {
        "ib_facts": {"ansible_facts": {"rdma": facts}},
        "node_change": begun,
        "containerd_memlock": {"stale_containers": []},
    }
    node = interpreter(directory / "node", answers)
    wishes = {
        "rdma_groups": ["gpu"],
        "rdma_resource": {"name": "rdma_gpu"},
        "rdma_ofed": {"method": "none"},
        "rdma_gpudirect": "none",
        "rdma_storage": {"iscsi": False, "nfs": False, "path": ""},
        "rdma_serial": ["100%"],
        "rdma_max_unavailable": "100%",
        "rdma_output_dir": str(directory / "output"),
        **node,
    }
    group = {"children": {"gpu": {"hosts": {NAME.format(number): {} for number in range(hosts)}}}}
    path = directory / "hosts.json"
    path.write_text(json.dumps({"all": {"vars": wishes, "children": {"rdma": group}}}))
    return measured(user, directory, path, plays("prepare"), {"__prepare_shown": 2})


# What it is measured of, with how many hosts. Where a list has an end, it is reached with the fewer.
MEASURED = {of_all: (3, 12), of_the_quiet: (9, 18), of_changed_hosts: (12, 24), of_changed_nodes: (3, 9)}


@pytest.mark.parametrize("measure", MEASURED)
def test_no_event_grows_with_the_cluster(
    measure: t.Callable[[User, Path, int], dict[tuple[str, str, str], int]], user: User, tmp_path: Path
) -> None:
    few, many = MEASURED[measure]
    seen = {}
    for hosts in (few, many):
        (tmp_path / str(hosts)).mkdir()
        seen[hosts] = measure(user, tmp_path / str(hosts), hosts)
    assert len(seen[few]) > 50
    assert set(seen[few]) == set(seen[many])
    growth = {key: (seen[many][key] - size) / (many - few) for key, size in seen[few].items()}
    assert {key: each for key, each in growth.items() if each > GROWTH} == {}


# Tasks that each further host costs: its facts are gathered; a check of the role's arguments, and whether to ask it about its cables; the
# same check, and its part in the traffic.
EACH = {"Discover": 1, "Map the fabric": 2, "Verify": 5}


def test_hosts_whose_facts_are_known_cost_no_task_each(user: User, tmp_path: Path) -> None:
    """Of thousands, a task that is skipped at each takes the controller as long as one that does something."""
    names = ("discover", "plan", "rollout", "fabric", "verify", "report")
    plays = [{"ansible.builtin.import_playbook": f"fabric.rdma.{name}"} for name in names]
    (tmp_path / "play.yml").write_text(json.dumps(plays))
    given = ["--playbook", str(tmp_path / "play.yml"), "--inventory", str(inventory(tmp_path, 4)), "--quiet"]
    variables = "-e rdma_rollout_method=render -e ansible_become=false"
    user.run("ansible-runner", "run", str(tmp_path / "private"), *given, "--cmdline", variables)
    seen: dict[tuple[str, str], int] = {}
    told = [json.loads(path.read_text()) for path in (tmp_path / "private").glob("artifacts/*/job_events/*.json")]
    for event in told:
        if event["event"] == "runner_on_start":
            key = (event["event_data"]["play"], event["event_data"]["host"])
            seen[key] = seen.get(key, 0) + 1
    assert {"Discover", "Plan", "Roll out", "Map the fabric", "Verify", "Report"} <= {play for play, _host in seen}
    # the first one stands for all in what is done once
    assert {play: count for (play, host), count in seen.items() if host == "n4"} == EACH


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_a_quiet_value_is_seen_by_those_who_use_it_alone(
    whose: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    there, module = request.getfixturevalue(whose), "quiet_value"
    value = "{{ range(1000) | map('string') | map('regex_replace', '^', 'secret-') | list }}"
    play = {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [
            {f"fabric.rdma.{module}": {"value": value}, "register": "made", "run_once": True},
            {
                "ansible.builtin.assert": {
                    "that": ["made.value | length == 1000", "made.value[7] == 'secret' ~ '-7'", "not made.changed"],
                    "quiet": True,
                }
            },
            {"ansible.builtin.debug": {"msg": "the last is {{ made.value[-1] }}"}},
        ],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    (tmp_path / "wrong.yml").write_text(json.dumps([{**play, "tasks": [{f"fabric.rdma.{module}": {"valu": 1}}]}]))
    broken = {f"fabric.rdma.{module}": {"value": "{{ {} | fabric.rdma.rdma_findings }}"}}
    (tmp_path / "broken.yml").write_text(json.dumps([{**play, "tasks": [broken]}]))
    arguments = ["-i", "n1,n2", "-c", "local", "-vvv"]
    for check in ([], ["--check"]):
        done = there.run("ansible-playbook", *arguments, *check, str(tmp_path / "play.yml"))
        assert "the last is secret-999" in done.stdout
        assert "secret-7" not in done.stdout + done.stderr
    wrong = there.run("ansible-playbook", *arguments, str(tmp_path / "wrong.yml"), check=False)
    assert "quiet_value has one option, value, and was given ['valu']" in " ".join(wrong.stdout.split())
    # an error of the expression is told
    done = there.run("ansible-playbook", *arguments, str(tmp_path / "broken.yml"), check=False)
    assert (done.returncode, "what rdma_diagnose returns" in done.stdout) == (2, True), done.stdout


def test_the_example_keeps_a_plan_quiet(user: User, tmp_path: Path) -> None:
    tasks = documented("quiet_value", "EXAMPLES")
    text = json.dumps(tasks).replace("ib-a100", "gpu")
    plays = [
        {"ansible.builtin.import_playbook": "fabric.rdma.discover"},
        {"hosts": "gpu", "gather_facts": False, "tasks": json.loads(text)},
    ]
    (tmp_path / "play.yml").write_text(json.dumps(plays))
    done = user.run("ansible-playbook", "-i", str(inventory(tmp_path, 2)), str(tmp_path / "play.yml"))
    assert "deviceIDs 1017" in done.stdout
