# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sliced job on two real execution nodes of Receptor: its facts are joined, and the plan is that of one machine."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.tests.receptor.controller import Controller, Inventory, Json, Result
from ansible_collections.fabric.rdma.tests.receptor.mesh import Authority, Mesh
from ansible_collections.fabric.rdma.tests.unit.contracts import load

pytestmark = pytest.mark.integration

# group: its captures, how many hosts it has, and what it wishes for
GROUPS: dict[str, tuple[list[str], int, Json]] = {
    "ib-v100": (["ib-v100-1", "ib-v100-2"], 16, {"rdma_resource": {"name": "rdma_v100"}}),
    "ib-a100": (["ib-a100-1", "ib-a100-2", "ib-a100-3"], 18, {"rdma_resource": {"name": "rdma_a100"}}),
    "gb200": (["gb200-1", "gb200-2"], 8, {"rdma_resource": {"name": "rdma_gb200"}}),
    "roce-rails": (
        ["roce-rails-1", "roce-rails-2"],
        8,
        {"rdma_resource": {"name": "rdma_roce"}, "rdma_want": {"link_layer": "Ethernet"}, "rdma_rails": True},
    ),
}


def replayed(groups: t.Mapping[str, tuple[list[str], int, Json]]) -> Inventory:
    """50 hosts. Where their captures are, the project knows that a job brings with it."""
    names, hostvars = {}, {}
    for group, (captures, count, _wishes) in groups.items():
        names[group] = [f"{group}-{number:02}" for number in range(1, count + 1)]
        for number, host in enumerate(names[group]):
            capture = captures[number % len(captures)]
            hostvars[host] = {"rdma_capture": f"{{{{ playbook_dir }}}}/../tests/captures/{capture}.capture"}
    wishes: dict[str, Json] = {group: wish for group, (_captures, _count, wish) in groups.items()}
    return Inventory(names, {**wishes, "rdma": {"rdma_groups": sorted(names)}}, hostvars)


@pytest.fixture
def controller(tmp_path: Path, job_env: dict[str, str]) -> Controller:
    return Controller(tmp_path / "awx", replayed(GROUPS), job_env)


def sliced(controller: Controller, mesh: Mesh, playbook: str, variables: Json | None = None) -> list[Result]:
    """Two slices at the same time, one on each node."""
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(controller.run, mesh, node, playbook, variables, slice_of=(number, 2))
            for number, node in enumerate(("exec1", "exec2"), 1)
        ]
        return [job.result() for job in jobs]


def output(result: Result) -> Path:
    """The directory that the tests have a job write, which comes back with its artifacts."""
    return result.directory / "artifacts" / result.directory.name.rpartition("_")[2] / "rdma"


# The playbook's own directory would be deleted with the job.
OUTPUT = {"rdma_output_dir": "{{ playbook_dir }}/../../artifacts/{{ awx_job_id }}/rdma"}


def told(result: Result, name: str) -> Json:
    """What a job leaves for the next one; a slice under a name of its own. Below ansible-core 2.19, what a template makes is a text."""
    (found,) = (value for key, value in result.artifacts.items() if re.fullmatch(rf"{name}(_[1-9][0-9]*)?", key))
    return {
        key: int(value) if isinstance(value, str) else value
        for key, value in found.items()
        if key not in ("run", "written")
    }


def looked_at(result: Result) -> list[str]:
    """Hosts that a job has asked for their facts."""
    return sorted(
        event["event_data"]["host"]
        for event in result.events
        if event["event"] == "runner_on_ok" and event["event_data"].get("resolved_action") == "fabric.rdma.ib_facts"
    )


def planned(directory: Path) -> Json:
    """A plan without what tells of when its facts are."""
    plan = load(directory / "plan.json")
    assert all("fact cache" in each for each in plan["warnings"])
    return {**plan, "warnings": [], "groups": {name: {**group, "cached": {}} for name, group in plan["groups"].items()}}


def test_slices_of_two_nodes_are_planned_as_on_one_machine(
    controller: Controller, mesh: Mesh, nodes_env: dict[str, str], job_env: dict[str, str], tmp_path: Path
) -> None:
    start = time.monotonic()
    for result in sliced(controller, mesh, "playbooks/discover.yml"):
        assert result.status == "successful", result.said[-3000:]
    assert sorted(controller.facts) == controller.inventory.hosts()
    # by itself a job that is a slice prepares nothing: whoever slices it says that it is meant
    refused = controller.run(mesh, "exec1", "playbooks/prepare.yml", slice_of=(1, 2))
    assert refused.status == "failed"
    assert "when rdma_slices is true or the number of slices" in refused.said
    for result in sliced(controller, mesh, "playbooks/prepare.yml", {"rdma_slices": 2}):
        assert result.status == "successful", result.said[-3000:]
        assert told(result, "fabric_rdma_prepare") == {"hosts": 0, "failed": 0, "bad": [], "lines": []}
    # what is for all hosts refuses a slice of them, with the facts of all in the cache or without
    for playbook in ("plan", "rollout", "report"):
        refused = controller.run(mesh, "exec2", f"playbooks/{playbook}.yml", slice_of=(2, 2))
        assert refused.status == "failed"
        assert "his run is a slice of a sliced job (awx_workflow_job_name, awx_job_template_name)" in refused.said
    result = controller.run(mesh, "exec2", "playbooks/plan.yml", OUTPUT)
    assert result.status == "successful", result.said[-3000:]
    assert looked_at(result) == []
    # the same project on this machine, with neither slices nor nodes
    (tmp_path / "hosts").write_text(controller.inventory.program(controller.inventory.hosts()))
    (tmp_path / "hosts").chmod(0o700)
    own = tmp_path / "own"
    done = subprocess.run(
        ["ansible-playbook", "playbooks/plan.yml", "-i", str(tmp_path / "hosts"), "-e", f"rdma_output_dir={own}"],
        cwd=controller.project,
        env={**nodes_env, **job_env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert planned(output(result)) == planned(own)
    print(f"50 hosts, 2 slices on 2 nodes, to the plan: {time.monotonic() - start:.0f} s")


def test_hosts_measure_within_their_slice(mesh: Mesh, job_env: dict[str, str], tmp_path: Path) -> None:
    """Their facts are those that slices have left. No device of this machine can do the tests, which are tried all the same."""
    few = replayed({"ib-v100": (["ib-v100-1", "ib-v100-2"], 4, GROUPS["ib-v100"][2])})
    seen = Controller(tmp_path / "seen", few, job_env)
    for result in sliced(seen, mesh, "playbooks/discover.yml"):
        assert result.status == "successful", result.said[-3000:]
    # hosts that are not replayed any more
    wishes = {"verify_tests": ["ib_write_bw"], "verify_timeout": 5, "ansible_become": False}
    groups = {**few.groupvars, "rdma": {**few.groupvars["rdma"], **wishes}}
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    measuring = Inventory(few.groups, groups, dict.fromkeys(few.hosts(), local))
    jobs = Controller(tmp_path / "measuring", measuring, job_env)
    jobs.facts = seen.facts
    for number, result in enumerate(sliced(jobs, mesh, "playbooks/verify.yml", OUTPUT), 1):
        assert result.status == "failed", result.said[-3000:]
        tests = load(output(result) / "evidence" / "ib-v100.json")["tests"]
        pairs = {frozenset(test[side]["host"] for side in ("client", "server")) for test in tests}
        assert pairs == {frozenset(few.hosts(number, 2))}
        assert {test["verdict"] for test in tests} == {"error"}
        # for whoever goes on in a workflow: how many, and what the first ones say, never all of it
        (figures,) = (
            value for name, value in result.artifacts.items() if re.fullmatch("fabric_rdma_verify_[1-9][0-9]*", name)
        )
        assert sorted(figures) == ["failed", "failures", "groups", "tests"]
        assert (figures["groups"], int(figures["tests"])) == (["ib-v100"], len(tests))
        assert int(figures["failed"]) == len(figures["failures"]) > 0
        assert all(any(host in line for host in few.hosts(number, 2)) for line in figures["failures"])
        assert len(json.dumps(result.artifacts)) < 4000


def test_a_node_that_is_killed_fails_its_slice_and_the_next_run_completes_it(
    controller: Controller, mesh: Mesh
) -> None:
    reached = threading.Event()

    def kill(event: Json) -> None:
        """In the middle: the first host has been discovered."""
        if (
            event["event"] == "runner_on_ok"
            and event["event_data"].get("resolved_action") == "fabric.rdma.ib_facts"
            and not reached.is_set()
        ):
            reached.set()
            mesh.nodes["exec2"].kill()

    with ThreadPoolExecutor(2) as pool:
        well = pool.submit(controller.run, mesh, "exec1", "playbooks/discover.yml", slice_of=(1, 2))
        lost = pool.submit(controller.run, mesh, "exec2", "playbooks/discover.yml", slice_of=(2, 2), event=kill)
    assert reached.is_set()
    assert well.result().status == "successful", well.result().said[-3000:]
    assert lost.result().broke_off, lost.result()
    # nothing of it counts, and nothing of it runs on
    assert sorted(controller.facts) == controller.inventory.hosts(1, 2)
    assert mesh.nodes["exec2"].running() == []
    # a plan does not make do with half of the hosts: it looks at those of which it knows nothing
    half = dict(controller.facts)
    result = controller.run(mesh, "exec1", "playbooks/plan.yml", OUTPUT)
    assert result.status == "successful", result.said[-3000:]
    assert looked_at(result) == controller.inventory.hosts(2, 2)
    controller.facts = half
    result = controller.run(mesh, "exec1", "playbooks/discover.yml", slice_of=(2, 2))
    assert result.status == "successful", result.said[-3000:]
    assert sorted(controller.facts) == controller.inventory.hosts()
    known = dict(controller.facts)
    result = controller.run(mesh, "exec1", "playbooks/compare.yml")
    nothing = {"hosts": 0, "new": 0, "gone": [], "gone_count": 0, "silent": [], "silent_count": 0, "lines": []}
    assert told(result, "fabric_rdma_changes") == nothing
    assert sorted(known) == sorted(controller.facts)


def test_nobody_works_without_a_signature(mesh: Mesh) -> None:
    for signed in (False, True):
        with contextlib.closing(mesh.ask()) as control:
            try:
                params = {"params": "--worker-info"}
                unit = control.submit_work(
                    "ansible-runner", "", node="exec1", tlsclient="client", signwork=signed, params=params
                )
            except RuntimeError as exc:
                said = str(exc)
            else:
                said = ended(mesh, unit["unitid"])
        assert ("Succeeded" in said) is signed, said
        assert signed or "signature" in said, said


def ended(mesh: Mesh, unit: str) -> str:
    """What became of a unit of work."""
    end = time.monotonic() + limit(60)
    while time.monotonic() < end:
        with contextlib.closing(mesh.ask()) as control:
            status = control.simple_command(f"work status {unit}")
        if status["StateName"] in ("Succeeded", "Failed"):
            return f"{status['StateName']}: {status['Detail']}"
        time.sleep(0.2)
    raise AssertionError(status)


def test_nobody_joins_without_a_certificate_of_the_mesh(mesh: Mesh, program: Path, tmp_path: Path) -> None:
    """A stranger that trusts the mesh is refused by it: what he says is what the controller has answered."""
    stranger = mesh.add("exec3", Authority(program, tmp_path / "other"))
    end = time.monotonic() + limit(60)
    while "remote error: tls" not in stranger.log():
        assert "exec3" not in mesh.known()
        assert time.monotonic() < end, stranger.log()
        time.sleep(0.2)
    assert "exec3" not in mesh.known()
    # with one of the mesh, it does
    stranger.kill()
    mesh.add("exec4")
    mesh.wait_for("exec4")
