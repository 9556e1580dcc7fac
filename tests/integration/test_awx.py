# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook awx and the file for `awx import` make the same, by the specifications of awx.awx and with the code of awxkit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader

from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import VARIABLES, problems
from ansible_collections.fabric.rdma.tests.integration.awx_api import KINDS, Awx, Server, survey_problems
from ansible_collections.fabric.rdma.tests.receptor.controller import copy_project
from ansible_collections.fabric.rdma.tests.unit.documentation import options, variables, wrong_option

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
URL = "https://git.example.com/rdma.git"
SOURCE = "inventories/example/hosts.yml"
PLAYBOOK = (BIN / "ansible-playbook", "playbooks/awx.yml", "-e", f"awx_scm_url={URL} awx_source_path={SOURCE}")
FILE = (sys.executable, "tools/awx.py", f"--scm-url={URL}", f"--source-path={SOURCE}")
Json = dict[str, t.Any]


@pytest.fixture(scope="module")
def specifications() -> dict[str, Json]:
    """What the modules of awx.awx take: {module: {option: its specification}}."""
    names = [f"awx.awx.{name}" for name in set(KINDS.values()) - {"workflow_approval_template"}]
    done = subprocess.run([BIN / "ansible-doc", "--json", *names], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name: entry["doc"]["options"] for name, entry in json.loads(done.stdout).items()}


@pytest.fixture(scope="module")
def fields(specifications: dict[str, Json]) -> dict[str, set[str]]:
    own = {
        place: set(specifications[f"awx.awx.{kind}"])
        for place, kind in KINDS.items()
        if f"awx.awx.{kind}" in specifications
    }
    return own | {"workflow_approval_templates": {"name", "description", "timeout"}}


@pytest.fixture
def server(fields: dict[str, set[str]]) -> t.Iterator[Server]:
    there = Server(Awx(fields))
    yield there
    there.shutdown()
    there.server_close()


def run(server: Server, *command: str | Path, text: str | None = None) -> str:
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "CONTROLLER_", "TOWER_"))
    }
    env |= {"CONTROLLER_HOST": server.url, "CONTROLLER_OAUTH_TOKEN": "token", "TOWER_HOST": server.url, "NO_COLOR": "1"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=env,
        input=text or "",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{server.refused}"
    assert server.refused == []
    return done.stdout


def told() -> Json:
    data: Json = DataLoader().load_from_file(str(ROOT / "playbooks" / "vars" / "awx.yml"))
    return t.cast(Json, data["awx_objects"])


def test_arguments_are_those_of_the_modules(specifications: dict[str, Json]) -> None:
    [play] = yaml.safe_load((ROOT / "playbooks" / "awx.yml").read_text())
    seen = set()
    for task in play["tasks"]:
        if {"ansible.builtin.assert", "ansible.builtin.debug"} & set(task):
            continue
        [module] = [name for name in task if name.startswith("awx.awx.")]
        seen.add(module)
        options = specifications[module]
        assert set(task[module]) <= set(options), task["name"]
        required = {name for name, option in options.items() if option.get("required")}
        assert required <= set(task[module]), task["name"]
        for name, value in task[module].items():
            choices = options[name].get("choices")
            assert not choices or "{{" in str(value) or value in choices, (task["name"], name)
    assert seen == {f"awx.awx.{kind}" for kind in KINDS.values()} - {
        "awx.awx.organization",
        "awx.awx.workflow_approval_template",
    }


def test_what_is_named_is_there() -> None:
    what = told()
    templates = {entry["name"]: entry for entry in what["job_templates"]}
    assert len(templates) == len(what["job_templates"])
    for entry in templates.values():
        assert (ROOT / entry["playbook"]).is_file(), entry
        assert set(entry["survey"]) <= set(what["questions"]), entry
    for node in what["workflow"]["nodes"]:
        assert ("approval" in node) != (node.get("job_template") in templates), node
    assert {entry["job_template"] for entry in what["schedules"]} <= set(templates)
    # a job that is a slice has the name of its template as that of its workflow: no other workflow may have it
    assert what["workflow"]["name"] not in templates
    # what is for all hosts is never sliced
    sliced = {Path(entry["playbook"]).stem for entry in templates.values() if entry.get("job_slice_count", 1) > 1}
    assert sliced == {"discover", "prepare"}
    # AWX passes a default on before it asks what the inventory says: a limit of a site is not for a survey to lift
    assert {name for name, question in what["questions"].items() if question["default"]} == {"where", "method"}
    [prepare] = [entry for entry in templates.values() if entry["playbook"].endswith("/prepare.yml")]
    assert prepare["extra_vars"] == {"rdma_slices": prepare["job_slice_count"]}


def refused(values: Json) -> list[str]:
    """What a job would say of variables that AWX gives it."""
    wrong = [f"there is no variable {name}" for name in values if name not in variables()]
    wrong += [each for name, value in values.items() if name in VARIABLES for each in problems(name, value)]
    return wrong + [each for name, value in values.items() if name in options() for each in wrong_option(name, value)]


def test_jobs_take_all_that_awx_can_give_them() -> None:
    """Variables of templates, nodes and schedules, and each choice of a survey: who makes it would see the job fail, not the survey."""
    what = told()
    for key in ("extra_vars", "extra_data"):
        for entry in [*what["job_templates"], *what["workflow"]["nodes"], *what["schedules"]]:
            assert refused(entry.get(key, {})) == [], entry
    for name, question in what["questions"].items():
        wish = question["variable"]
        # no other is read by all plays
        assert wish in VARIABLES, name
        several = question["type"] == "multiselect"
        choices = [[each] if several else each for each in question.get("choices", [])]
        given = [*choices, *([question["default"]] if question["default"] else [])]
        assert [each for value in given for each in refused({wish: value})] == [], name
    # as many as the roles take, but for removing, which is a playbook of its own
    methods = [spec["choices"] for name, spec in options().items() if name.endswith("_method") and "choices" in spec]
    of_roles = {frozenset(choices) - {"remove"} for choices in methods if "render" in choices}
    assert of_roles == {frozenset(what["questions"]["method"]["choices"])}


def test_an_answer_that_no_job_takes_is_found() -> None:
    assert refused({"rdma_rollout_method": "aply"})
    assert refused({"rdma_serail": ["1"]}) == ["there is no variable rdma_serail"]
    assert refused({"rdma_serial": ["10 %"]})


WAYS = ("success", "failure")


def ways(nodes: dict[str, Json], ends: t.Mapping[str, bool]) -> tuple[list[str], bool]:
    """As AWX goes through a workflow (its WorkflowDAG): (the nodes that run, whether the workflow is called successful).

    ends: whether a node ends well. A job that fails and has somewhere to go does not fail the workflow.
    """
    followed = {name for node in nodes.values() for way in node.values() for name in way}
    ran = [name for name in nodes if name not in followed]
    for name in ran:
        ran += [each for each in nodes[name][WAYS[0] if ends[name] else WAYS[1]] if each not in ran]
    return ran, all(ends[name] or nodes[name]["failure"] for name in ran)


@pytest.mark.parametrize("broken", ["", "discover", "plan", "approve", "prepare", "rollout", "verify", "report"])
def test_whatever_fails_the_workflow_reports_and_fails(broken: str) -> None:
    """By the file for `awx import`, of which the playbook makes the same."""
    text = subprocess.run(FILE, cwd=ROOT, check=True, capture_output=True)
    [workflow] = json.loads(text.stdout)["workflow_job_templates"]
    made = {node["identifier"]: node for node in workflow["related"]["workflow_nodes"]}
    assert not any("always_nodes" in node["related"] for node in made.values())
    nodes = {
        name: {way: [each["identifier"] for each in node["related"].get(f"{way}_nodes", [])] for way in WAYS}
        for name, node in made.items()
    }
    # a report of a failure fails itself (test_a_report_of_a_failure_fails)
    told = {name for name, node in made.items() if "report_failures" in node["extra_data"]}
    ran, well = ways(nodes, {name: name not in {broken, *told} for name in nodes})
    assert well is (broken == "")
    reports = [name for name in ran if made[name].get("unified_job_template", {}).get("name") == "rdma report"]
    # nobody has failed who was told not to go on
    assert len(reports) == (broken != "approve"), ran
    assert broken in ("", "approve") or ran[-1] in (*told, "report"), ran
    order = ["discover", "plan", "approve", "prepare", "rollout", "verify", "report"]
    assert [name for name in ran if name in order] == order[: order.index(broken or "report") + 1]


# What AWX 24 takes for a playbook: a YAML file with such a line, in none of these directories.
PLAY = re.compile(r"^\s*?-?\s*?(?:hosts|(?:ansible\.builtin\.)?import_playbook|include):\s*?.*?$")
PASSED_OVER = {"roles", "tasks", "group_vars", "host_vars"}


def listed(project: Path) -> set[str]:
    """The playbooks that AWX offers of a project; whatever else lies there is none."""
    found = set()
    for directory, directories, files in os.walk(project):
        where = Path(directory).relative_to(project)
        directories[:] = [name for name in directories if name not in PASSED_OVER and not name.startswith(".")]
        for name in files:
            if name.endswith((".yml", ".yaml")):
                text = (project / where / name).read_text(errors="ignore")
                if any(map(PLAY.match, text.splitlines())):
                    found.add(str(where / name))
    return found


def test_awx_finds_the_playbooks_of_the_templates(tmp_path: Path) -> None:
    """AWX refuses a template whose playbook it has not found by itself."""
    copy_project(tmp_path)
    found = listed(tmp_path)
    assert {entry["playbook"] for entry in told()["job_templates"]} <= found
    # all of them, so that others can be made into templates, too
    assert {str(path.relative_to(ROOT)) for path in ROOT.glob("playbooks/*.yml")} <= found
    # and nothing that is a part of one
    assert not [name for name in found if name.startswith("playbooks/") and name.count("/") > 1]


def test_a_schedule_answers_what_its_template_has_to_ask() -> None:
    """Nobody is there at night: AWX refuses a schedule without an answer, whatever the default."""
    what = told()
    [compare] = [entry for entry in what["job_templates"] if entry["name"] == "rdma compare"]
    [nightly] = what["schedules"]
    assert nightly["job_template"] == compare["name"]
    asked = [what["questions"][name] for name in compare["survey"]]
    assert nightly["extra_data"] == {each["variable"]: each["default"] for each in asked if each["required"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"required": "yes"}, "x is required or not"),
        ({"type": "list"}, "x needs a known type"),
        ({"default": 4}, "the default of x is of another type"),
        ({"min": "1"}, "the bounds of x are numbers"),
        ({"type": "multiplechoice", "choices": ["a"], "default": "b"}, "x needs choices, of which its default is"),
        ({"type": "multiselect"}, "x needs choices"),
        ({"type": "multiplechoice", "choices": ["a", "b"], "default": "a\nb"}, "x has one default at most"),
        ({"required": False, "default": ""}, "x gives a job an empty text"),
        ({"required": False, "default": "", "min": 0}, "x gives a job an empty text"),
    ],
)
def test_a_survey_that_awx_refuses_is_refused(change: Json, said: str) -> None:
    question = {"variable": "x", "question_name": "x?", "type": "text", "required": True, "default": "a"}
    assert survey_problems({"name": "", "description": "", "spec": [question]}) == []
    [found] = survey_problems({"name": "", "description": "", "spec": [{**question, **change}]})
    assert said in found


def test_a_text_that_may_be_left_out_has_a_least_length() -> None:
    question = {"variable": "x", "question_name": "x?", "type": "text", "required": False, "default": "", "min": 1}
    assert survey_problems({"name": "", "description": "", "spec": [question]}) == []


def test_playbook_and_import_make_the_same(server: Server, fields: dict[str, set[str]]) -> None:
    said = run(server, *PLAYBOOK)
    made = server.awx.everything()
    assert len(made["job_templates"]) == len(told()["job_templates"])
    for name, advice in told()["advice"].items():
        assert " ".join(f"Without awx_{name}: {advice}".split()) in " ".join(said.split())
    assert len(made["workflow_job_template_nodes"]) == len(told()["workflow"]["nodes"])
    assert "failed=0" in said
    # the second time there is nothing to do
    server.awx.writes.clear()
    said = run(server, *PLAYBOOK)
    assert server.awx.everything() == made
    assert (server.awx.writes, "changed=0" in said) == ([], True), said
    other = Server(Awx(fields))
    try:
        text = run(other, *FILE)
        run(other, BIN / "awx", "--conf.host", other.url, "--conf.token", "token", "import", text=text)
        assert other.awx.everything() == made
        # and there the second time makes nothing new
        run(other, BIN / "awx", "--conf.host", other.url, "--conf.token", "token", "import", text=text)
        assert other.awx.everything() == made
    finally:
        other.shutdown()
        other.server_close()


def test_what_a_site_says_counts_in_both(fields: dict[str, set[str]]) -> None:
    server, other = Server(Awx(fields)), Server(Awx(fields))
    try:
        own = {
            "awx_scm_url": URL,
            "awx_scm_branch": "live",
            "awx_image": "hub.example.com/ee:1",
            "awx_output_dir": "/srv/rdma",
            "awx_forks": 100,
        }
        own |= {"awx_source_path": "inventories/mine/hosts.yml", "awx_groups": "h100,h200"}
        words = json.dumps(own | {"awx_groups": ["h100", "h200"]})
        assert "Without awx_" not in run(server, BIN / "ansible-playbook", "playbooks/awx.yml", "-e", words)
        options = [f"--{name.removeprefix('awx_').replace('_', '-')}={value}" for name, value in own.items()]
        text = run(other, sys.executable, "tools/awx.py", *options)
        run(other, BIN / "awx", "--conf.host", other.url, "--conf.token", "token", "import", text=text)
        assert server.awx.everything() == other.awx.everything()
        assert server.awx.everything()["projects"][0]["scm_url"] == own["awx_scm_url"]
        assert {made["forks"] for made in server.awx.everything()["job_templates"]} == {100}
        # where page, plan and evidence outlive their job; slices would overwrite each other's files
        for made in server.awx.everything()["job_templates"]:
            there = made.get("extra_vars", {}).get("rdma_output_dir")
            assert there == (None if made["job_slice_count"] > 1 else "/srv/rdma"), made["name"]
    finally:
        for each in (server, other):
            each.shutdown()
            each.server_close()


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example.com/rdma.git",
        "https://git.example.com:8443/a/rdma.git?ref=main",
        "git@git.example.com:rdma.git",
        "ssh://git@git.example.com:22/rdma.git",
        "file:///srv/rdma.git",
    ],
)
def test_an_address_without_a_password_is_no_secret(url: str) -> None:
    assert not re.search(told()["secret_address"], url)


@pytest.mark.parametrize(
    "url",
    [
        "HTTPS://admin:hunter2@git.example.com/rdma.git",
        "https://hunter2@git.example.com/rdma.git",
        "https://admin:hunt/er2@git.example.com/rdma.git",
        "ssh://git:hunter2@git.example.com/rdma.git",
        "ftp://admin:hunter2@git.example.com/rdma.git",
        "https://git.example.com/rdma.git?private_token=hunter2",
        " https://admin:hunter2@git.example.com/rdma.git",
        " ssh://git:hunter2@git.example.com/rdma.git",
        "git://hunter2@git.example.com/rdma.git",
    ],
)
def test_a_password_in_any_address_is_a_secret(url: str) -> None:
    assert re.search(told()["secret_address"], url)


def test_a_password_in_the_address_of_the_project_is_refused_and_not_shown(server: Server, tmp_path: Path) -> None:
    """AWX would show it to whoever sees the project, and the run to whoever sees its output."""
    url = "ssh://admin:hunter2@git.example.com/rdma.git"
    (tmp_path / "own.json").write_text(json.dumps({"awx_scm_url": url}))
    with pytest.raises(AssertionError) as caught:
        run(server, BIN / "ansible-playbook", "playbooks/awx.yml", "-vvv", "-e", f"@{tmp_path}/own.json")
    said = str(caught.value)
    assert "awx_scm_url has a password or a token in it" in said
    assert "hunter2" not in said
    with pytest.raises(AssertionError, match="has a password or a token in it"):
        run(server, *FILE[:2], f"--scm-url={url}", FILE[-1])
    assert server.awx.writes == []


@pytest.mark.parametrize("way", ["oldest_core", "newest_core", "file"])
def test_groups_and_slices_are_those_of_a_site_again_in_a_second_run(
    server: Server, way: str, request: pytest.FixtureRequest
) -> None:
    own = {"awx_groups": ["h100", "h200"], "awx_slices": 8, "awx_image": "", "awx_scm_branch": ""}
    for _number in range(2):
        if way != "file":
            program = request.getfixturevalue(way) / "ansible-playbook"
            run(server, program, *PLAYBOOK[1:], "-e", json.dumps(own))
        else:
            words = ("--groups=h100, h200", "--slices=8")
            run(server, BIN / "awx", "import", text=run(server, *FILE, *words))
        made = {entry["name"]: entry for entry in server.awx.everything()["job_templates"]}
        assert {
            entry["name"]: entry["job_slice_count"] for entry in made.values() if entry["job_slice_count"] != 1
        } == {
            "rdma discover": 8,
            "rdma prepare": 8,
        }
        assert made["rdma prepare"]["extra_vars"]["rdma_slices"] == 8
        assert not made["rdma prepare"].get("forks")
        asked = {
            question["variable"]: question
            for entry in made.values()
            for question in entry.get("survey", {"spec": []})["spec"]
        }
        assert asked["rdma_groups"]["choices"] == ["h100", "h200"]
    [project] = server.awx.everything()["projects"]
    assert project["scm_branch"] == "main"


@pytest.mark.parametrize(
    "own",
    [
        {"awx_slices": 0},
        {"awx_slices": "many"},
        {"awx_groups": "h100"},
        {"awx_groups": [1]},
        {"awx_groups": {"h100": 1}},
    ],
)
def test_odd_groups_and_slices_are_refused_before_anything_is_made(server: Server, own: Json) -> None:
    with pytest.raises(AssertionError, match="Set awx_groups to the list of your RDMA groups"):
        run(server, *PLAYBOOK, "-e", json.dumps(own))
    assert server.awx.writes == []


@pytest.mark.parametrize("forks", [0, "many", 1000, -1])
def test_odd_forks_are_refused_before_anything_is_made(server: Server, forks: int | str) -> None:
    with pytest.raises(AssertionError, match="Set awx_forks to the number of hosts that a job works on at once"):
        run(server, *PLAYBOOK, "-e", json.dumps({"awx_forks": forks}))
    with pytest.raises(AssertionError, match="is not a number from 1 to 999"):
        run(server, *FILE, f"--forks={forks}")
    assert server.awx.writes == []


def test_forks_that_somebody_has_set_stay(server: Server) -> None:
    run(server, *PLAYBOOK, "-e", "awx_forks=50")
    run(server, *PLAYBOOK)
    assert {made["forks"] for made in server.awx.everything()["job_templates"]} == {50}


def test_a_directory_that_ends_with_the_job_is_refused(server: Server) -> None:
    with pytest.raises(AssertionError, match="Set awx_output_dir to an absolute path"):
        run(server, *PLAYBOOK, "-e", "awx_output_dir=rdma")
    with pytest.raises(AssertionError, match="--output-dir is an absolute path"):
        run(server, *FILE, "--output-dir=rdma")
    assert server.awx.writes == []


def test_no_project_is_made_without_its_address(server: Server) -> None:
    """AWX would take any, and its first update would fail."""
    with pytest.raises(AssertionError, match="Set awx_scm_url to the URL of your copy of the project"):
        run(server, BIN / "ansible-playbook", "playbooks/awx.yml")
    with pytest.raises(AssertionError, match="the following arguments are required: --scm-url"):
        run(server, sys.executable, "tools/awx.py")
    assert server.awx.writes == []


def test_a_second_run_that_leaves_the_inventory_out_takes_no_host_from_awx(server: Server) -> None:
    """It would fill AWX from another one, and what is not in that leaves, with its facts."""
    run(server, *PLAYBOOK[:-1], f"awx_scm_url={URL} awx_source_path=inventories/mine/hosts.yml")
    server.awx.writes.clear()
    for left_out in ("", " awx_source_path=", " awx_source_path=' '"):
        with pytest.raises(
            AssertionError, match="Set awx_source_path to the file of the project that is your inventory"
        ):
            run(server, *PLAYBOOK[:-1], f"awx_scm_url={URL}{left_out}")
    with pytest.raises(AssertionError, match="the following arguments are required: --source-path"):
        run(server, *FILE[:-1])
    with pytest.raises(AssertionError, match="--source-path says which file of the project is your inventory"):
        run(server, *FILE[:-1], "--source-path= ")
    assert server.awx.writes == []
    [source] = server.awx.everything()["inventory_sources"]
    assert source["source_path"] == "inventories/mine/hosts.yml"
