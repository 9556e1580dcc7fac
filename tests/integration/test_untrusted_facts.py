# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node calls itself is data: no version of ansible-core evaluates it on the way into plan, objects and report."""

from __future__ import annotations

import base64
import json
import re
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.tests.integration.stand_ins import BUILT, INBOX, RESTORED, interpreter
from ansible_collections.fabric.rdma.tests.unit.contracts import load
from ansible_collections.fabric.rdma.tests.unit.kubeconfigs import kubeconfig_of

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
# A template that would show whether it was evaluated, and one that would leave a file behind.
NAME = "{{6*7}}{%set.x=1%}"
DESCRIPTION = "{{ lookup('ansible.builtin.pipe', 'touch evaluated') }}"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Two nodes of one group with templates for device and description, replayed."""
    names = ("evil-1", "evil-2")
    for name in names:
        text = (CAPTURES / "ib-v100-1.capture").read_text()
        assert "mlx5_0" in text
        lines = text.replace("mlx5_0", NAME).splitlines()
        lines = [
            line.rpartition(" ")[0] + " " + json.dumps(DESCRIPTION + "\n")
            if line.split(" ")[1].endswith("fw_ver")
            else line
            for line in lines[1:]
        ]
        (tmp_path / f"{name}.capture").write_text(
            "\n".join(["# fabric.rdma capture 1", *sorted(lines, key=path_of)]) + "\n"
        )
    path = tmp_path / "hosts.json"
    variables = {
        "rdma_groups": ["evil"],
        "rdma_resource": {"name": "rdma_evil"},
        "rdma_want": {"link_layer": "InfiniBand"},
    }
    group = {
        "hosts": {name: {"rdma_capture": str(tmp_path / f"{name}.capture")} for name in names},
        "vars": variables,
    }
    path.write_text(json.dumps({"rdma": {"children": {"evil": group}}}))
    return path


def path_of(line: str) -> str:
    return line.split(" ")[1]


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_templates_in_facts_stay_text(
    whose: str, inventory: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    user: User = request.getfixturevalue(whose)
    output = tmp_path / "output"
    user.run("ansible-playbook", "fabric.rdma.site", "-i", str(inventory), "-e", f"rdma_output_dir={output}")
    facts = load(output / "facts.json")
    assert [device["name"] for device in facts["evil-1"]["devices"]].count(NAME) == 1
    assert {device["firmware"] for device in facts["evil-1"]["devices"]} == {DESCRIPTION}
    plan = load(output / "plan.json")
    assert NAME in {wanted["device"] for wanted in plan["groups"]["evil"]["wanted"]["evil-2"]}
    assert "{{6*7}}" in (output / "report.html").read_text()
    assert not list(user.home.rglob("evaluated"))


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_what_a_job_tells_the_next_one_is_no_template(
    whose: str, inventory: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """AWX makes a variable of it, and whoever starts a playbook with -e makes one that Ansible trusts."""
    user: User = request.getfixturevalue(whose)
    user = user._replace(env=user.env | {"ANSIBLE_SHOW_CUSTOM_STATS": "true"})
    compare = ("ansible-playbook", "fabric.rdma.compare", "-i", str(inventory), "-e", f"rdma_output_dir={tmp_path}")
    user.run(*compare)
    capture = tmp_path / "evil-1.capture"
    capture.write_text(capture.read_text().replace("touch evaluated", "touch again"))
    told = user.run(*compare).stdout.partition("CUSTOM STATS")[2]
    assert "touch again" in told
    assert "{ { lookup(" in told
    assert "{{" not in told


# --- facts of another host ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_a_host_is_never_planned_by_the_facts_of_another(
    whose: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """ansible-core 2.21 lets hosts share their facts after a task that runs once, as a play before ours may have one."""
    user: User = request.getfixturevalue(whose)
    captures = {"a1": "ib-a100-1", "v1": "ib-v100-1"}
    hosts = {name: {"rdma_capture": str(CAPTURES / f"{capture}.capture")} for name, capture in captures.items()}
    groups = {
        group: {"hosts": {name: hosts[name]}, "vars": {"rdma_resource": {"name": f"rdma_{group}"}}}
        for group, name in (("a100", "a1"), ("v100", "v1"))
    }
    (tmp_path / "hosts.json").write_text(
        json.dumps({"rdma": {"children": groups, "vars": {"rdma_groups": ["a100", "v100"]}}})
    )
    before = {
        "hosts": "rdma",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.debug": {"msg": "Let us begin"}, "run_once": True}],
    }
    (tmp_path / "play.json").write_text(
        json.dumps([before, {"ansible.builtin.import_playbook": "fabric.rdma.site", "vars": {"rdma_rollout": None}}])
    )
    output = tmp_path / "output"
    arguments = ["-i", str(tmp_path / "hosts.json"), "-e", f"rdma_output_dir={output}", str(tmp_path / "play.json")]
    done = user.run("ansible-playbook", *arguments, check=False)
    if done.returncode:
        said = re.sub(r"\s+", " ", done.stdout + done.stderr)
        assert re.search(r"host (a1|v1) has the facts of host '(a1|v1)'", said), said
        assert "meta: clear_facts after it" in said
        return
    plan = load(output / "plan.json")
    names = {
        name: {device["name"] for device in facts["devices"]} for name, facts in load(output / "facts.json").items()
    }
    assert names["a1"] != names["v1"]
    assert [plan["groups"][group]["hosts"] for group in ("a100", "v100")] == [["a1"], ["v1"]]


@pytest.mark.parametrize(
    "what", ["prepare", "containerd_memlock", "nvidia_imex", "nvidia_peermem", "ofed", "roce_host", "storage_prereqs"]
)
def test_no_node_is_changed_by_the_facts_of_another(what: str, newest_user: User, tmp_path: Path) -> None:
    """Neither the one that has them, nor the one whose facts are its own, which would be compared with them."""
    hosts = {}
    for name, capture in (("bare", "ib-v100-unprepared"), ("ready", "ib-v100-1")):
        facts = gather(open_tree(str(CAPTURES / f"{capture}.capture")))
        # of the last one that answers, both have them
        facts["storage"]["iscsi"] |= {"initiator_name": f"iqn.1993-08.org.debian:01:{name}", "service": "running"}
        answers = {
            "": {"failed": True, "msg": f"{name} was touched"},
            "ib_facts": {"ansible_facts": {"rdma": facts}},
            "setup": {"ansible_facts": {"os_family": "Debian", "pkg_mgr": "apt"}},
        }
        hosts[name] = {**interpreter(tmp_path / name, answers), "ansible_become": False}
    variables = {
        "rdma_groups": ["nodes"],
        "rdma_resource": {"name": "rdma_nodes"},
        "rdma_ofed": {"method": "inbox"},
        "rdma_storage": {"iscsi": True},
        "ofed_method": "inbox",
        "rdma_output_dir": str(tmp_path / "output"),
    }
    inventory = {"rdma": {"children": {"nodes": {"hosts": hosts}}, "vars": variables}}
    (tmp_path / "hosts.json").write_text(json.dumps(inventory))
    begin = {**role("x"), "tasks": [{"ansible.builtin.debug": {"msg": "Let us begin"}, "run_once": True}]}
    use = (
        {"ansible.builtin.import_playbook": "fabric.rdma.prepare"} if what == "prepare" else role(f"fabric.rdma.{what}")
    )
    (tmp_path / "play.json").write_text(json.dumps([begin, use]))
    done = newest_user.run(
        "ansible-playbook", "-f", "1", "-i", str(tmp_path / "hosts.json"), str(tmp_path / "play.json"), check=False
    )
    said = re.sub(r"\s+", " ", done.stdout + done.stderr)
    if "core 2.21." not in newest_user.run("ansible", "--version").stdout:
        # hosts have their own facts there
        assert "PLAY RECAP" in said
        assert "has the facts of" not in said
        return
    assert done.returncode
    assert "host bare has the facts of host 'ready'" in said
    assert "bare was touched" not in said
    # it decides by what the node itself says
    assert ("ready was touched" in said) == (what == "containerd_memlock")


# --- every leaf ----------------------------------------------------------------------------------------------------------

# Facts as a node gives them that somebody else controls. An action costs no process, and Ansible treats what it returns as it does a
# module's answer: all facts are data, wherever they come from.
ACTION = """
import json

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        with open(self._task.args["path"]) as handle:
            return {"changed": False, "ansible_facts": {"rdma": json.load(handle)}}
"""

SEEN = "(hostvars | fabric.rdma.rdma_view(groups, groups | difference(['all', 'ungrouped', 'rdma']))).facts"
ILL = f"{{{{ {{'facts': {SEEN}, 'groups': groups}} | fabric.rdma.rdma_diagnose }}}}"

Place = tuple[str, ...]


def places(value: t.Any, place: Place = ()) -> t.Iterator[Place]:
    """Where there is text: the way to it, with one name for all items of a list."""
    items = (
        value.items() if isinstance(value, dict) else (("*", item) for item in value) if isinstance(value, list) else ()
    )
    for key, item in items:
        yield from places(item, (*place, key))
    if isinstance(value, str):
        yield place


def poisoned(value: t.Any, text: str, at: Place | None, place: Place = ()) -> t.Any:
    """The facts with a text in one place, or with None as a key of every dictionary."""
    if isinstance(value, dict):
        found = {key: poisoned(item, text, at, (*place, key)) for key, item in value.items()}
        return {**found, text: next(iter(found.values()))} if at is None and found else found
    if isinstance(value, list):
        return [poisoned(item, text, at, (*place, "*")) for item in value]
    return text if isinstance(value, str) and place == at else value


def is_free(schema: t.Any, place: Place) -> bool:
    """Whether facts may have any text there: a closed list, or a pattern, refuses a template."""
    for alternative in schema.get("anyOf", schema.get("oneOf", [])):
        if alternative.get("type") != "null":
            return is_free(alternative, place)
    if not place:
        return not {"enum", "pattern", "const"} & set(schema)
    first, rest = place[0], place[1:]
    below = (
        schema.get("items")
        if first == "*"
        else schema.get("properties", {}).get(first) or schema.get("additionalProperties")
    )
    return isinstance(below, dict) and is_free(below, rest)


class Hostile(t.NamedTuple):
    """A node that hopes for somebody who evaluates its facts.

    text: a template that leaves a file behind then; free: whether it stands where any text may; kept: whether facts.json has the
    subset it stands in. It has no health, which changes with each look.
    """

    text: str
    facts: dict[str, t.Any]
    free: bool
    kept: bool


def hostile_facts(directory: Path) -> dict[str, Hostile]:
    """By host: its facts with a template in a place of its own, or as a key of every dictionary."""
    schema = json.loads((CAPTURES.parents[1] / "docs" / "facts.schema.json").read_text())
    captures = [json.loads(path.read_text()) for path in sorted(CAPTURES.glob("*.expected.json"))]
    by_place: dict[Place, t.Any] = {}
    for facts in captures:
        if "health" in facts:
            # what the captures say of it is a part; findings tell of cards that are too hot
            facts["health"] = {"netdevs": [], "ports": [], "temperatures": [], **facts["health"]}
            for sensor in facts["health"]["temperatures"]:
                sensor["celsius"] = sensor["critical"] = 120.0
        for place in places(facts):
            by_place.setdefault(place, facts)
    wanted: list[tuple[Place | None, t.Any]] = [(None, captures[0]), *sorted(by_place.items())]
    found = {}
    for number, (at, facts) in enumerate(wanted):
        name = re.sub(r"[^a-z0-9]+", "-", "-".join(["h", str(number), *(at or ("keys",))]).replace("*", "each"))
        text = "{{ lookup('ansible.builtin.pipe', 'touch %s') }}" % (directory / f"{name}.evaluated")
        free = at is not None and is_free(schema, at)
        found[name] = Hostile(text, poisoned(facts, text, at), free, kept=at is None or at[0] != "health")
    return found


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_a_template_in_any_leaf_of_the_facts_is_not_evaluated(
    whose: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Facts come from a module, and become variables, as they do where nobody has changed Ansible's defaults."""
    user: User = request.getfixturevalue(whose)
    assert "ANSIBLE_CONFIG" not in user.env
    hosts = hostile_facts(tmp_path)
    assert len(hosts) > 60
    (tmp_path / "action_plugins").mkdir()
    (tmp_path / "action_plugins" / "hostile.py").write_text(ACTION)
    groups = {}
    for number, (name, host) in enumerate(hosts.items()):
        (tmp_path / f"{name}.json").write_text(json.dumps(host.facts))
        resource = {"name": f"rdma_{number}"}
        groups[name.replace("h-", "g-", 1)] = {"hosts": {name: {}}, "vars": {"rdma_resource": resource}}
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        # Facts that no node of ours can have are shown and written, and not planned with.
        "rdma_groups": [group for group, host in zip(groups, hosts.values(), strict=True) if host.free],
        "rdma_output_dir": str(tmp_path / "output"),
        "rdma_allow_unusable": True,
    }
    (tmp_path / "hosts.json").write_text(json.dumps({"rdma": {"children": groups, "vars": variables}}))
    first = {
        "hosts": "rdma",
        "gather_facts": False,
        "tasks": [
            {"hostile": {"path": f"{tmp_path}/{{{{ inventory_hostname }}}}.json"}},
            {"ansible.builtin.include_role": {"name": "fabric.rdma.discover", "tasks_from": "write"}, "run_once": True},
            # health, which is in no file
            {"ansible.builtin.set_fact": {"ill": ILL}, "run_once": True},
            {"ansible.builtin.debug": {"var": "ill"}, "run_once": True},
        ],
    }
    stages = [{"ansible.builtin.import_playbook": f"fabric.rdma.{name}"} for name in ("plan", "report")]
    stages[0]["vars"] = {"plan_insist": False}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([first, *stages], sort_keys=False))
    done = user.run("ansible-playbook", str(tmp_path / "play.yml"), "-i", str(tmp_path / "hosts.json"), check=False)
    said = done.stdout + done.stderr
    assert not sorted(path.name for path in tmp_path.rglob("*.evaluated")), said
    assert "health-temperatures-each-label.evaluated" in said
    assert "Traceback" not in said
    # facts that no node of ours can have do not fit their schema
    written = json.loads((tmp_path / "output" / "facts.json").read_text())
    # where it stands in a place that is looked at, it is in what was written as it came
    there = {name for name, host in hosts.items() if json.dumps(host.text)[1:-1] in json.dumps(written.get(name))}
    assert there == {name for name, host in hosts.items() if host.kept}, said
    assert len(load(tmp_path / "output" / "plan.json")["groups"]) > 30, said
    assert "touch" in (tmp_path / "output" / "report.html").read_text(), said


# --- facts that would be variables ---------------------------------------------------------------------------------------

# What a node that somebody else controls would like to wish. It would also have this run look elsewhere than at itself.
FOREIGN = {
    "rdma_rollout": {"method": "render", "image": "registry.example/evil:1"},
    "rdma_groups": ["good"],
    "ofed_kubeconfig": "/nowhere/evil",
    "__wishes_checked": {"skipped": False},
    "__discover_failure": {"state": "failed", "message": "x"},
}
RETURN = """
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        return {"changed": False, "ansible_facts": dict(self._task.args["facts"])}
"""


@pytest.mark.parametrize(
    ("whose", "way", "playbook"),
    [
        *(("newest_user", "cache", name) for name in ("site", "plan")),
        *(("newest_user", "module", name) for name in ("discover", "plan", "prepare", "report", "capture")),
        ("oldest_user", "cache", "plan"),
        ("oldest_user", "module", "report"),
    ],
)
def test_facts_that_are_variables_of_ours_end_the_run(
    whose: str, way: str, playbook: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """With Ansible's defaults, whatever module the facts come from, and before a wish of such a host is used."""
    user: User = request.getfixturevalue(whose)
    assert "ANSIBLE_CONFIG" not in user.env
    hostile = {**FOREIGN, "rdma_output_dir": str(tmp_path / "evil")}
    groups: dict[str, t.Any] = {
        # the first host of all, of which Ansible takes the variables of what is done once
        "bad": {"hosts": {"a-bad": {"rdma_capture": str(CAPTURES / "ib-v100-1.capture")}}},
        "good": {"hosts": {"good": {"rdma_capture": str(CAPTURES / "ib-v100-2.capture")}}},
    }
    for name, group in groups.items():
        group["vars"] = {"rdma_resource": {"name": f"rdma_{name}"}}
    variables = {"rdma_groups": ["bad", "good"], "rdma_output_dir": str(tmp_path / "output")}
    (tmp_path / "hosts.json").write_text(json.dumps({"rdma": {"children": groups, "vars": variables}}))
    first = {"hosts": "a-bad", "gather_facts": False, "tasks": [{"foreign": {"facts": hostile}}]}
    stage = {"ansible.builtin.import_playbook": f"fabric.rdma.{playbook}"}
    (tmp_path / "action_plugins").mkdir()
    (tmp_path / "action_plugins" / "foreign.py").write_text(RETURN)
    (tmp_path / "play.yml").write_text(yaml.safe_dump([first, stage] if way == "module" else [stage], sort_keys=False))
    if way == "cache":
        cache = {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp_path / "cache")}
        user = user._replace(env=user.env | cache)
        # an earlier run of anything, in the form in which this version of ansible-core keeps facts
        (tmp_path / "earlier.yml").write_text(yaml.safe_dump([first]))
        user.run("ansible-playbook", str(tmp_path / "earlier.yml"), "-i", str(tmp_path / "hosts.json"))
        assert any("evil:1" in path.read_text() for path in (tmp_path / "cache").iterdir())
    done = user.run("ansible-playbook", str(tmp_path / "play.yml"), "-i", str(tmp_path / "hosts.json"), check=False)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, said
    assert "host a-bad has facts named __discover_failure, __wishes_checked, ofed_kubeconfig, rdma_groups" in said
    assert not (tmp_path / "evil").exists(), said
    assert not (tmp_path / "output").exists(), said
    assert "evil:1" not in said


# --- facts that come in the middle of a run ------------------------------------------------------------------------------

WORK = {"changed": True, "stale_containers": [{"namespace": "default", "pod": "web", "container": "c"}], "pods": []}
# What the role ofed comes by on its way to an installation. Nothing of this machine is changed.
OFED = {
    "": {},
    "ib_facts": {"ansible_facts": {"rdma": INBOX}},
    "setup": {"ansible_facts": {"ansible_os_family": "Debian", "ansible_pkg_mgr": "apt", "ansible_distribution": "x"}},
    "driver_gate": {"blocked": [], "refusals": []},
    "driver_packages": {"no_way_back": [], **RESTORED},
    "driver_check": BUILT,
}


def run_on_evil_node(
    user: User, directory: Path, run: dict[str, t.Any], answers: dict[str, t.Any], **variables: t.Any
) -> str:
    """What a run says, on one line; run: a play, or a playbook to import."""
    bad = {**interpreter(directory / "bad", answers), "ansible_become": False}
    inventory = {"rdma": {"hosts": {"bad": bad}, "vars": {"rdma_output_dir": str(directory / "output"), **variables}}}
    # a host whose facts are well, for one that calls itself by its name
    inventory["good"] = {"hosts": {"good": {}}}
    (directory / "hosts.json").write_text(json.dumps(inventory))
    (directory / "play.yml").write_text(yaml.safe_dump([run]))
    done = user.run("ansible-playbook", "-i", str(directory / "hosts.json"), str(directory / "play.yml"), check=False)
    return " ".join((done.stdout + done.stderr).split())


def role(name: str) -> dict[str, t.Any]:
    return {"hosts": "rdma", "gather_facts": False, "tasks": [{"ansible.builtin.include_role": {"name": name}}]}


@pytest.mark.parametrize(
    ("whose", "more"), [("newest_user", {}), ("newest_user", {"inventory_hostname": "good"}), ("oldest_user", {})]
)
def test_a_node_names_no_cluster_and_no_pods(
    whose: str, more: dict[str, t.Any], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A kubeconfig may name a program, which would be run on the controller."""
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "touch",
        "args": [str(tmp_path / "run")],
        "interactiveMode": "Never",
    }
    kubeconfig = kubeconfig_of("http://127.0.0.1:9", {"exec": program})
    facts = {"containerd_memlock_restart_pods": ["default/web"], "containerd_memlock_kubeconfig": kubeconfig, **more}
    said = run_on_evil_node(
        request.getfixturevalue(whose),
        tmp_path,
        role("fabric.rdma.containerd_memlock"),
        {"containerd_memlock": {**WORK, "ansible_facts": facts}},
    )
    assert not (tmp_path / "run").exists(), said
    assert "pods | Delete the Pods" not in said
    assert "has facts named containerd_memlock_kubeconfig, containerd_memlock_restart_pods" in said


@pytest.mark.parametrize(
    "role_name", ["containerd_memlock", "nvidia_imex", "nvidia_peermem", "ofed", "roce_host", "storage_prereqs"]
)
def test_a_role_does_nothing_for_a_node_that_makes_wishes(role_name: str, user: User, tmp_path: Path) -> None:
    """Also where it gathers no facts, as they are there."""
    facts = {"rdma": INBOX, f"{role_name}_x": 1}
    play = role(f"fabric.rdma.{role_name}")
    play["tasks"].insert(0, {"ansible.builtin.setup": {}})
    # as after a play that has discovered
    discovered = {"discover_gathered": {"ansible_facts": {}}}
    answers = {"": {"failed": True, "msg": "the node was asked"}, "setup": {"ansible_facts": facts}}
    said = run_on_evil_node(user, tmp_path, play, answers, **discovered)
    assert f"this host has facts named {role_name}_x" in said
    assert "the node was asked" not in said


@pytest.mark.parametrize(
    ("whose", "module", "fact"),
    [
        ("newest_user", "driver_proof", "ofed_method"),
        ("oldest_user", "driver_proof", "ofed_method"),
        ("newest_user", "driver_packages", "ofed_key"),
        ("newest_user", "node_file", "ofed_key"),
        ("newest_user", "ib_facts", "ofed_key"),
    ],
)
def test_a_node_names_no_file_of_the_controller(
    whose: str, module: str, fact: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Neither one that is included and evaluated, nor one that is sent to it, whichever module says so."""
    secret = tmp_path / "secret"
    secret.write_text("hunter2-of-the-controller")
    (tmp_path / "secret.yml").write_text(
        json.dumps(
            [
                {
                    "ansible.builtin.debug": {
                        "msg": f"{{{{ lookup('ansible.builtin.pipe', 'touch {tmp_path / 'run'}') }}}}"
                    }
                }
            ]
        )
    )
    answers = {**OFED, "stat": {"stat": {"exists": False}}}
    answers[module] = {**answers.get(module, {})}
    answers[module]["ansible_facts"] = {**answers[module].get("ansible_facts", {}), fact: str(secret)}
    said = run_on_evil_node(
        request.getfixturevalue(whose),
        tmp_path,
        role("fabric.rdma.ofed"),
        answers,
        rdma_ofed={
            "method": "doca",
            "version": "2.9.1",
            "repository": "https://repository.example/doca",
            "key": "https://repository.example/key.asc",
            "key_checksum": "sha256:" + 64 * "0",
        },
    )
    assert not (tmp_path / "run").exists(), said
    seen = tmp_path / "bad" / "seen"
    told = seen.read_text() if seen.exists() else ""
    assert "hunter2" not in told, said
    assert base64.b64encode(b"hunter2-of-the-controller").decode() not in told, said
    if module == "ib_facts":
        # of its answer nothing but the facts that it is for is taken
        assert "apt | Install the release" in said
    else:
        assert f"has facts named {fact}" in said


@pytest.mark.parametrize(("module", "fact"), [("tempfile", "rdma_output_dir"), ("capture", "inventory_hostname")])
def test_a_node_says_not_where_its_archive_goes(module: str, fact: str, user: User, tmp_path: Path) -> None:
    stolen = str(tmp_path / "stolen")
    said = run_on_evil_node(
        user,
        tmp_path,
        {"ansible.builtin.import_playbook": "fabric.rdma.capture"},
        {module: {"real": {fact: stolen if fact == "rdma_output_dir" else f"../../{Path(stolen).name}/x"}}},
    )
    assert not (tmp_path / "stolen").exists(), said
    assert f"this host has facts named {fact}" in said
    assert "PLAY [Capture]" in said
    assert not list(tmp_path.rglob("*.tar.gz"))
