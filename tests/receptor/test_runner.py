# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks under ansible-runner, in private data directories as AWX makes them: what they tell, and what a cancelled one leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.tests.receptor.controller import (
    ROOT,
    Controller,
    Credential,
    Inventory,
    Json,
    Result,
    copy_project,
)
from ansible_collections.fabric.rdma.tests.receptor.test_mesh import GROUPS, OUTPUT, output, replayed, told
from ansible_collections.fabric.rdma.tests.unit.contracts import load

if t.TYPE_CHECKING:
    from ansible_collections.fabric.rdma.tests.receptor.mesh import Mesh

pytestmark = pytest.mark.integration

FEW = {name: (captures, 2, wishes) for name, (captures, _count, wishes) in GROUPS.items()}
RENDER = {"rdma_rollout_method": "render"}
# What ends well without a cluster; what each has to tell.
WELL: dict[str, tuple[Json, str]] = {
    "capture": ({}, "PLAY [Capture]"),
    "compare": ({}, "nothing was known of it"),
    "discover": ({}, "Show what the hosts have"),
    "doctor": ({"doctor_fail_on": "never"}, "Show what was found"),
    "doctor_bundle": ({}, "Bundle"),
    "everyone": ({}, "Bring back the hosts that dropped out"),
    "fabric": ({}, "Map the fabric"),
    "plan": ({}, "Show what is selected"),
    "prepare": ({}, "Show what was done and what is left"),
    "probe": ({}, "Gather the facts"),
    "report": ({}, "Show the summary"),
    "rollout": (RENDER, "Plan the groups"),
    "site": ({}, "Show the summary"),
    "verify": ({}, "Check the traffic"),
    "wishes": ({}, "Check the variables"),
}
# What each leaves: files below the output directory, and artifacts. The others leave nothing (a recorded host has nothing to be captured).
FILES = {
    "compare": ["before.json", "facts.json"],
    "discover": ["facts.json"],
    "doctor": ["doctor.json", "doctor.txt"],
    "doctor_bundle": ["bundle/context.json", "bundle/facts.json"],
    "fabric": ["fabric.json"],
    "plan": ["facts.json", "images.txt", "plan.json", *(f"plan/{name}.txt" for name in sorted(FEW))],
    "prepare": ["outcomes.json"],
    "report": ["metrics.prom", "report.html", "report.json", "report.md", "summary.txt"],
    "rollout": ["facts.json", "plan.json"],
}
FILES["site"] = sorted({*FILES["plan"], *FILES["prepare"], *FILES["report"]})
ARTIFACTS = {
    "compare": ["fabric_rdma_changes"],
    "prepare": ["fabric_rdma_prepare"],
    "report": ["fabric_rdma_report"],
    "site": ["fabric_rdma_prepare", "fabric_rdma_report", "fabric_rdma_verify"],
    "verify": ["fabric_rdma_verify"],
}
NOWHERE = "no kubeconfig: /nonexistent does not exist"
# What needs a cluster, or makes machines, says so without one: at its first question, and where it has got as far as that.
ILL: list[tuple[str, Json, str]] = [
    ("cleanup_stale", {}, "Set rdma_stale_resources to the list of resources to remove"),
    ("cleanup_stale", {"rdma_stale_resources": ["rdma/old"]}, NOWHERE),
    ("uninstall", {"rdma_uninstall_groups": ["other"]}, "rdma_uninstall_groups names other"),
    ("uninstall", {}, NOWHERE),
    ("handover", {}, NOWHERE),
    ("lab", {"lab_state": "other"}, "value of lab_state must be one of"),
    # its collection is where AWX is set up from, not in the execution environment
    (
        "awx",
        {"awx_scm_url": "https://git.example.com/rdma.git", "awx_source_path": "inventories/mine/hosts.yml"},
        "couldn't resolve module/action 'awx.awx.execution_environment'",
    ),
]


@pytest.fixture
def own_env(job_env: dict[str, str], nodes_env: dict[str, str]) -> dict[str, str]:
    """Of jobs that this machine runs itself."""
    return {**job_env, "PATH": nodes_env["PATH"], "HOME": nodes_env["HOME"], "KUBECONFIG": "/nonexistent"}


@pytest.fixture
def controller(tmp_path: Path, own_env: dict[str, str]) -> Controller:
    return Controller(tmp_path / "awx", replayed(FEW), own_env)


def test_every_playbook_is_tried() -> None:
    names = {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
    assert names == {*WELL, *(name for name, _variables, _told in ILL)}


@pytest.mark.parametrize("playbook", sorted(WELL))
def test_playbooks_run_as_jobs(playbook: str, controller: Controller) -> None:
    variables, told = WELL[playbook]
    result = controller.run_here(f"playbooks/{playbook}.yml", {**OUTPUT, **variables})
    assert result.status == "successful", result.said[-3000:]
    assert told in result.said
    left = [path for path in output(result).rglob("*") if path.is_file()]
    names = sorted(str(path.relative_to(output(result))) for path in left)
    # a class has files of its own
    assert [name for name in names if not name.startswith("rendered/")] == FILES.get(playbook, [])
    assert {Path(name).parts[1] for name in names if name.startswith("rendered/")} == (
        {*FEW, "images.txt"} if playbook in ("plan", "rollout", "site") else set()
    )
    assert all(path.stat().st_size > 0 for path in left)
    assert sorted(result.artifacts) == ARTIFACTS.get(playbook, [])
    # nothing is kept where the project lies
    assert not (result.directory / "project" / "rdma-output").exists()
    if playbook == "site":
        assert result.artifacts["fabric_rdma_report"]["page"].endswith("/report.html")
        assert (output(result) / "report.html").stat().st_size > 50_000
        assert len(json.dumps(result.artifacts)) < 4000


AWX = DataLoader().load_from_file(str(ROOT / "playbooks" / "vars" / "awx.yml"))["awx_objects"]


TEMPLATES = {entry["name"]: entry for entry in AWX["job_templates"]}
# What somebody types.
TYPED = {"rdma_hosts": "ib-a100:gb200", "rdma_max_unavailable": "50%"}


def answers(names: t.Iterable[str], given: bool) -> Json:
    """{variable: value} as AWX gives them to a job: texts, and lists of texts where several may be chosen.

    Where nobody answers, the default counts; AWX drops one that does not answer, such as an empty text where a list is asked for.
    """
    found: Json = {}
    for question in map(AWX["questions"].get, names):
        several = question["type"] == "multiselect"
        choices = question.get("choices", [])
        chosen = list(choices) if several else (choices or [TYPED.get(question["variable"])])[0]
        if value := chosen if given else question["default"]:
            found[question["variable"]] = value
    return found


@pytest.mark.parametrize("given", [False, True])
def test_wishes_take_answers_as_awx_gives_them(given: bool, controller: Controller) -> None:
    variables = {**TEMPLATES["rdma prepare"]["extra_vars"], **answers(AWX["questions"], given)}
    # as they are written into the job
    written = json.loads(json.dumps(variables))
    assert set(map(type, written.values())) == {str, int} | ({list} if given else set())
    result = controller.run_here("playbooks/wishes.yml", {**OUTPUT, **variables})
    assert result.status == "successful", result.said[-3000:]


@pytest.mark.parametrize("template", ["rdma plan", "rdma prepare", "rdma rollout"])
def test_templates_run_with_answers_as_awx_gives_them(template: str, controller: Controller) -> None:
    """The slices of prepare with their number, which AWX gives as a number."""
    entry = TEMPLATES[template]
    variables = {**entry.get("extra_vars", {}), **answers(entry["survey"], given=True)}
    slices = entry.get("job_slice_count", 1)
    result = controller.run_here(entry["playbook"], {**OUTPUT, **variables}, slice_of=(1, slices))
    assert result.status == "successful", result.said[-3000:]
    if template == "rdma plan":
        plan = load(output(result) / "plan.json")
        assert sorted(name for name, group in plan["groups"].items() if group["classes"]) == sorted(FEW)


@pytest.mark.parametrize("nothing", ["", []])
@pytest.mark.parametrize("variable", ["rdma_groups", "rdma_serial", "rdma_max_unavailable"])
def test_no_answer_is_never_taken_for_one(variable: str, nothing: str | list[str], controller: Controller) -> None:
    """A program that starts a job may send it. The inventory can decide no more, so nothing is done instead of something else."""
    optional = [each["variable"] for each in AWX["questions"].values() if not each["required"]]
    assert variable in optional
    result = controller.run_here("playbooks/prepare.yml", {**OUTPUT, variable: nothing})
    assert result.status == "failed", result.said[-3000:]
    assert f"{variable} is {nothing!r}; expected" in result.said, result.said[-3000:]
    assert "Nothing was changed" in result.said


def listed(project: Path, source: str, env: dict[str, str]) -> Inventory:
    """The inventory that lies in the project, as AWX takes it from there."""
    command = ["ansible-inventory", "-i", source, "--playbook-dir", str(project), "--list", "--export"]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    groups = {name: found[name]["hosts"] for name in found["rdma"]["children"]}
    own = found["_meta"]["hostvars"]
    return Inventory(
        groups,
        {name: found[name].get("vars", {}) for name in ("rdma", *groups)},
        {host: own.get(host, {}) for hosts in groups.values() for host in hosts},
    )


def test_the_project_runs_with_its_own_inventory_and_without_its_configuration(
    tmp_path: Path, own_env: dict[str, str]
) -> None:
    """Where AWX is told to take neither: it looks for collections where it always does, and groups have names that Ansible warns of."""
    paths = own_env["ANSIBLE_COLLECTIONS_PATH"].split(":")
    env = {**own_env, "ANSIBLE_COLLECTIONS_PATH": ":".join(path for path in paths if path != ".collections")}
    project = tmp_path / "project"
    copy_project(project)
    (project / "ansible.cfg").unlink()
    inventory = listed(project, "inventories/example/hosts.yml", {**os.environ, **env})
    assert len(inventory.hosts()) == 74
    controller = Controller(tmp_path / "awx", inventory, env)
    (controller.project / "ansible.cfg").unlink()
    wishes = controller.run_here("playbooks/wishes.yml", OUTPUT)
    assert wishes.status == "successful", wishes.said[-3000:]
    # the nodes of two groups are recorded ones: none is connected to
    few = ["gb200", "roce-rails"]
    capture = "{{ playbook_dir }}/../tests/captures/{{ group_names | select('in', rdma_groups) | first }}-1.capture"
    asked = {"rdma_groups": few, "rdma_hosts": ":".join(few), "rdma_capture": capture}
    result = controller.run_here("playbooks/plan.yml", {**OUTPUT, **asked})
    assert result.status == "successful", result.said[-3000:]
    plan = load(output(result) / "plan.json")
    assert sorted(name for name, group in plan["groups"].items() if group["classes"]) == few
    # and the facts are there for the next job
    assert sorted(controller.facts) == sorted(host for name in few for host in inventory.groups[name])


def test_a_report_of_a_failure_fails_when_it_is_written(controller: Controller) -> None:
    """As the workflow runs it when a job has failed: AWX calls a workflow successful when all of its last jobs are."""
    [given] = [node["extra_data"] for node in AWX["workflow"]["nodes"] if node["identifier"] == "failure"]
    result = controller.run_here("playbooks/report.yml", {**OUTPUT, **given})
    assert result.status == "failed", result.said[-3000:]
    [told] = given["report_failures"]
    assert f"{told}. The page is written" in result.said
    assert told in (output(result) / "summary.txt").read_text()
    assert told in (output(result) / "report.html").read_text()
    assert result.artifacts["fabric_rdma_report"]["page"].endswith("/report.html")


@pytest.mark.parametrize(("playbook", "variables", "told"), ILL)
def test_what_cannot_run_here_says_so(playbook: str, variables: Json, told: str, controller: Controller) -> None:
    result = controller.run_here(f"playbooks/{playbook}.yml", {**OUTPUT, **variables})
    assert result.status == "failed", result.said[-3000:]
    assert told in result.said, result.said[-3000:]


# Nothing answers there.
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "u", "user": {"token": "hunter2"}}],
}


@pytest.mark.parametrize("given", [False, True])
def test_a_node_is_drained_in_the_cluster_of_the_credential_and_in_no_other(
    given: bool, tmp_path: Path, own_env: dict[str, str]
) -> None:
    """A job has the kubeconfig as a file whose name nobody knows before. The environment alone names no cluster to drain a node in."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    controller = Controller(tmp_path / "awx", Inventory({"gpu": ["n1"]}, {}, {"n1": local}), own_env)
    role = {"ansible.builtin.include_role": {"name": "fabric.rdma.ofed", "tasks_from": "drain"}}
    # as the playbook prepare decides whether there is a cluster
    task = {**role, "when": "ofed_kubeconfig | default(rdma_kubeconfig | default('', true)) | length > 0"}
    play = {"hosts": "gpu", "gather_facts": False, "tasks": [task]}
    (controller.project / "playbooks" / "drain.yml").write_text(json.dumps([play]))
    credential = Credential(AWX["credential_type"]["injectors"], {"kubeconfig": json.dumps(KUBECONFIG)})
    result = controller.run_here("playbooks/drain.yml", credential=credential if given else None)
    assert result.status == ("failed" if given else "successful"), result.said[-3000:]
    assert ("http://127.0.0.1:9" in result.said) is given, result.said[-3000:]
    assert "hunter2" not in json.dumps(result.events)


# --- a run that is cancelled ---------------------------------------------------------------------------------------------

# The Python of a node: its own record of changes is real, on a /var/lib of its own; its facts are those of a recorded node that lacks the
# limit, with what that record says. The module that lifts the limit takes for ever the first time, and notes that it was there.
PYTHON = """#!@PYTHON@
import json, os, pathlib, re, subprocess, sys, time

here = pathlib.Path(__file__).parent
[module] = re.findall(r"AnsiballZ_(\\w+)[.]py", " ".join(sys.argv))[:1] or [""]
with open(here / "calls", "a") as calls:
    calls.write(module + "\\n")
record = here / "lib" / "fabric.rdma" / "change.json"
if module == "ib_facts":
    facts = json.loads((here / "node.json").read_text())
    if record.exists():
        facts["change"] = {key: json.loads(record.read_text()).get(key) for key in ("since", "roles")}
    print(json.dumps({"changed": False, "ansible_facts": {"rdma": facts}}))
elif module == "containerd_memlock":
    if not (here / "begun").exists():
        (here / "begun").touch()
        time.sleep(600)
    if (here / "fails").exists():
        print(json.dumps({"failed": True, "msg": "it said no {{ 6 * 7 }}"}))
        sys.exit(1)
    (here / "done").touch()
    print(json.dumps({"changed": True, "stale_containers": []}))
else:
    mount = 'mount --bind "$1" /var/lib && shift && exec "$@"'
    os.execvp("unshare", ["unshare", "--mount", "sh", "-c", mount, "sh", str(here / "lib"), sys.executable, *sys.argv[1:]])
"""
HOSTS = ("n1", "n2", "n3")
WISHES: Json = {
    "rdma_groups": ["all-of-them"],
    "rdma_resource": {"name": "rdma_test"},
    "rdma_ofed": {"method": "none"},
    "rdma_gpudirect": "none",
    "rdma_storage": {"iscsi": False, "nfs": False, "path": ""},
    "rdma_serial": [1, "100%"],
    "ansible_connection": "local",
    "ansible_become": False,
}


def node(directory: Path) -> Json:
    """Variables of a host that is such a node."""
    (directory / "lib" / "fabric.rdma").mkdir(parents=True)
    facts = gather(open_tree(str(ROOT / "tests" / "captures" / "ib-v100-unprepared.capture")))
    (directory / "node.json").write_text(json.dumps(facts))
    path = directory / "python"
    path.write_text(PYTHON.replace("@PYTHON@", sys.executable))
    path.chmod(0o755)
    return {"ansible_python_interpreter": str(path)}


def there(directory: Path, name: str) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if (path / name).exists())


def test_a_cancelled_run_is_completed_by_the_next(tmp_path: Path, own_env: dict[str, str]) -> None:
    """As AWX cancels a job: the first node is in the middle of its change. Nothing runs on, and the next run begins with that node."""
    assert os.geteuid() == 0, "nodes have a /var/lib of their own: run this as root"
    hosts = {host: node(tmp_path / host) for host in HOSTS}
    inventory = Inventory({"all-of-them": list(HOSTS)}, {"rdma": WISHES}, hosts)
    # a module comes as a file
    controller = Controller(tmp_path / "awx", inventory, {**own_env, "ANSIBLE_PIPELINING": "False"})

    def prepare(cancel: t.Callable[[], bool] | None = None) -> Result:
        return controller.run_here("playbooks/prepare.yml", OUTPUT, cancel=cancel)

    cancelled = prepare(lambda: bool(there(tmp_path, "begun")))
    assert cancelled.status == "canceled", cancelled.said[-3000:]
    [first] = there(tmp_path, "begun")
    record = Path("lib/fabric.rdma/change.json")
    # what the node was before is kept there
    assert there(tmp_path, str(record)) == [first]
    assert there(tmp_path, "done") == []
    running = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in read(path)]
    assert running == []
    (tmp_path / first / "calls").unlink()
    # the others have had nothing done to them, and would take for ever
    for host in HOSTS:
        (tmp_path / host / "begun").touch()
    done = prepare()
    assert done.status == "successful", done.said[-3000:]
    assert f"{first}, wave 1: containerd_memlock" in done.said
    assert there(tmp_path, "done") == list(HOSTS)
    assert there(tmp_path, str(record)) == []
    assert told(done, "fabric_rdma_prepare") == {"hosts": len(HOSTS), "failed": 0, "bad": [], "lines": []}


def test_a_node_of_awx_that_is_killed_in_the_middle_of_a_change_is_made_good_by_the_next_run(
    tmp_path: Path, job_env: dict[str, str], mesh: Mesh
) -> None:
    """Two slices: one is through, the other dies with its second host, which has begun. That slice is run again elsewhere."""
    assert os.geteuid() == 0, "nodes have a /var/lib of their own: run this as root"
    (tmp_path / "hosts").mkdir()
    hosts = {host: node(tmp_path / "hosts" / host) for host in ("n1", "n2", "n3", "n4")}
    inventory = Inventory({"all-of-them": list(hosts)}, {"rdma": WISHES}, hosts)
    controller = Controller(tmp_path / "awx", inventory, {**job_env, "ANSIBLE_PIPELINING": "False"})
    places = tmp_path / "hosts"
    record = "lib/fabric.rdma/change.json"

    def prepare(number: int, where: str) -> Result:
        return controller.run(mesh, where, "playbooks/prepare.yml", {"rdma_slices": 2}, slice_of=(number, 2))

    # these do not take for ever
    for host in ("n1", "n2", "n3"):
        (places / host / "begun").touch()
    with ThreadPoolExecutor(2) as pool:
        well, lost = pool.submit(prepare, 1, "exec1"), pool.submit(prepare, 2, "exec2")
        while not (places / "n4" / "begun").exists():
            assert not lost.done(), lost.result().said[-3000:]
            time.sleep(0.1)
        mesh.nodes["exec2"].kill()
    assert well.result().status == "successful", well.result().said[-3000:]
    assert told(well.result(), "fabric_rdma_prepare") == {"hosts": 2, "failed": 0, "bad": [], "lines": []}
    assert lost.result().broke_off, lost.result()
    assert mesh.nodes["exec2"].running() == []
    assert lost.result().artifacts == {}
    # it is known at the host itself, and nothing of the job counts
    assert there(places, record) == ["n4"]
    assert there(places, "done") == ["n1", "n2", "n3"]
    assert sorted(controller.facts) == inventory.hosts(1, 2)
    result = prepare(2, "exec1")
    assert result.status == "successful", result.said[-3000:]
    # it comes first, before the one that came first before
    assert all(f"{host}, wave {wave}: containerd_memlock" in result.said for wave, host in enumerate(("n4", "n2"), 1))
    assert told(result, "fabric_rdma_prepare") == {"hosts": 2, "failed": 0, "bad": [], "lines": []}
    assert there(places, "done") == sorted(hosts)
    assert there(places, record) == []
    assert sorted(controller.facts) == sorted(hosts)


def test_the_report_of_a_workflow_shows_what_its_jobs_have_left(tmp_path: Path, own_env: dict[str, str]) -> None:
    """Each job has what artifacts those before it have, joined as AWX joins them, and a directory that all share but the slices."""
    assert os.geteuid() == 0, "nodes have a /var/lib of their own: run this as root"
    (tmp_path / "hosts").mkdir()
    names = ("n1", "n2", "n3")
    hosts = {host: node(tmp_path / "hosts" / host) for host in names}
    captures = ROOT / "tests" / "captures"
    facts = gather(open_tree(str(captures / "ib-v100-1.capture")))
    # they lack the limit alone
    facts["runtime"] = gather(open_tree(str(captures / "ib-v100-unprepared.capture")))["runtime"]
    for host in names:
        (tmp_path / "hosts" / host / "begun").touch()
        (tmp_path / "hosts" / host / "node.json").write_text(json.dumps(facts))
    # of the first slice: what the second one tells comes later
    (tmp_path / "hosts" / "n3" / "fails").touch()
    inventory = Inventory({"all-of-them": list(hosts)}, {"rdma": WISHES}, hosts)
    controller = Controller(tmp_path / "awx", inventory, {**own_env, "ANSIBLE_PIPELINING": "False"})
    shared = {"rdma_output_dir": str(tmp_path / "rdma")}
    artifacts: Json = {}

    def job(name: str, variables: Json, slices: int = 1) -> list[Result]:
        done = []
        for number in range(1, slices + 1):
            given = {**variables, **artifacts}
            done.append(controller.run_here(f"playbooks/{name}.yml", given, slice_of=(number, slices)))
        for result in done:
            artifacts.update(result.artifacts)
        return done

    ended = {
        name: [result.status for result in job(name, variables, slices)]
        for name, variables, slices in (
            ("discover", {"discover_allow_unusable": True}, 2),
            ("plan", shared, 1),
            ("prepare", {"rdma_slices": 2}, 2),
            ("rollout", {**shared, **RENDER}, 1),
            ("report", {**shared, "report_failures": ["A job before this report failed"]}, 1),
        )
    }
    well = ["successful"]
    assert ended == {
        "discover": well * 2,
        "plan": well,
        "prepare": ["failed", *well],
        "rollout": well,
        "report": ["failed"],
    }
    assert len([name for name in artifacts if name.startswith("fabric_rdma_prepare_")]) == 2
    document = load(tmp_path / "rdma" / "report.json")
    assert document["groups"]["all-of-them"]["resource"] == "rdma/rdma_test"
    (line, other) = document["failures"]
    assert line.startswith("n3 failed in the step")
    # what a node says is never a template, nor when it comes back
    assert "6 * 7" in line
    assert "42" not in line
    assert other == "A job before this report failed"


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
