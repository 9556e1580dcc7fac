# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout that ends between two changes: what was done is the beginning of what is to do, and the next run does the rest."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import rollout_request
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import Lease
from ansible_collections.fabric.rdma.tests.cluster.gate import PATIENCE, Gate
from ansible_collections.fabric.rdma.tests.unit.contracts import load

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
SPACE = "/api/v1/namespaces/rdma"
CLASS = "rdma-shared-dp-ib-v100-device-1017"
# What a rollout of the small site changes, in this order.
STEPS = [
    f"PATCH {SPACE}",
    f"PATCH {SPACE}/configmaps/{CLASS}",
    f"PATCH /apis/apps/v1/namespaces/rdma/daemonsets/{CLASS}",
    "PATCH /api/v1/nodes/v100-1",
    "PATCH /api/v1/nodes/v100-2",
]


@pytest.fixture
def gate(small: Site) -> t.Iterator[Gate]:
    with Gate(small.kubeconfig) as there:
        yield there


def there(site: Site, step: str) -> bool:
    """Whether a step of STEPS has been done."""
    path = step.split()[1]
    found = site.kube.find(path, "read")
    return found is not None and (path.rpartition("/")[2] in site.classes() or "/nodes/" not in path)


def kill(pid: int) -> None:
    """End a process and all that it has started at once, as a machine that loses its power does."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        # stopped first, so that it starts nothing while its children are ended
        os.kill(pid, signal.SIGSTOP)
        children = [
            text for task in Path(f"/proc/{pid}/task").iterdir() for text in (task / "children").read_text().split()
        ]
        for child in children:
            kill(int(child))
        os.kill(pid, signal.SIGKILL)


def breaks(site: Site) -> bool:
    """Whether somebody held the Lease, which is broken now: it would expire, too (test_lease.py)."""
    return Lease(site.kube, "rdma", "").release(whoever=True) is not None


def completes(site: Site, gate: Gate, done: int) -> None:
    """The next run does what is missing, once, and the one after it nothing."""
    assert [there(site, step) for step in STEPS] == [number < done for number in range(len(STEPS))]
    user = site.changed_kubeconfig("gate", server=gate.url)
    gate.arm(0)
    assert breaks(site), "the Lease of who was killed is still there"
    site.run("rollout", user=user)
    assert gate.changes == STEPS[done:], "what is done is not done twice"
    assert site.classes() == {"v100-1": "ib-v100-device-1017", "v100-2": "ib-v100-device-1017"}
    for node in ("v100-1", "v100-2"):
        assert site.node(node)["status"]["allocatable"]["rdma/rdma_v100"] == "63"
    gate.arm(0)
    assert re.search(r"changed=0 ", site.run("rollout", user=user))
    assert gate.changes == []


def test_the_run_is_killed_before_a_change(small: Site, gate: Gate) -> None:
    gate.arm(3)
    with small.start("rollout", user=small.changed_kubeconfig("gate", server=gate.url)) as run:
        assert gate.held.wait(PATIENCE), run.poll()
        kill(run.pid)
        gate.released.set()
        run.communicate()
    assert gate.changes == STEPS[:2]
    completes(small, gate, done=2)


def test_the_server_dies_before_it_answers(small: Site, gate: Gate, mortal: t.Any) -> None:
    """What nobody has confirmed is neither called done nor not done."""
    gate.arm(4, answered=True)
    with small.start("rollout", user=small.changed_kubeconfig("gate", server=gate.url)) as run:
        assert gate.held.wait(PATIENCE), run.poll()
        mortal.end_apiserver()
        gate.released.set()
        output = " ".join(run.communicate()[0].split())
    mortal.start_apiserver()
    assert run.returncode != 0
    assert f"cannot label node v100-1: no answer from the API server {gate.url}" in output
    done = f"apply ConfigMap rdma/{CLASS}, apply DaemonSet rdma/{CLASS}, apply Namespace rdma"
    assert f"Done before that: {done}. Not known: label node v100-1. Not done: label node v100-2. Run again" in output
    assert gate.changes == STEPS[:4]
    completes(small, gate, done=4)


# --- the module alone, at every step ---------------------------------------------------------------------------------

# The module as a process that reads its arguments.
PROGRAM = """
import json, runpy, sys
from ansible.module_utils.testing import patch_module_args
with patch_module_args(json.load(sys.stdin)):
    runpy.run_module("ansible_collections.fabric.rdma.plugins.modules." + sys.argv[1], run_name="__main__")
"""


def module(
    kubeconfig: Path, request: dict[str, t.Any], check: bool = False, name: str = "rollout"
) -> subprocess.Popen[str]:
    arguments = dict(request)
    if name == "rollout":
        options = ("objects", "nodes", "keep", "place", "remove", "hold", "lease", "known")
        arguments = {key: request[key] for key in options if key in request}
    given = {**arguments, "kubeconfig": str(kubeconfig), "_ansible_check_mode": check, "_ansible_remote_tmp": "/tmp"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, name],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections")},
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(given))
    process.stdin.close()
    process.stdin = None
    return process


def test_killed_before_every_change(small: Site, gate: Gate) -> None:
    """From one class to another and back: the DaemonSet goes, objects come, nodes change their label, the rest goes."""
    small.run("plan")
    text = json.dumps(load(small.directory / "output" / "plan.json"))
    settings = {
        "namespace": "rdma",
        "pod_security": True,
        "image": "registry.example/plugin:v1",
        "image_digest": "",
        "image_pull_secrets": [],
        "priority_class": "system-node-critical",
        "kubelet_root": "/var/lib/kubelet",
        "tolerations": [{"operator": "Exists"}],
        "resources": {},
        "max_unavailable": 1,
        "cdi": False,
        "node_names": {},
    }
    names = ["ib-v100", "renamed"]
    requests = [rollout_request(json.loads(text.replace(names[0], name)), settings, [name]) for name in names]
    user = small.changed_kubeconfig("gate", server=gate.url)

    def run(request: dict[str, t.Any], hold: int = 0, check: bool = False) -> dict[str, t.Any]:
        gate.arm(hold)
        with module(user, request, check) as process:
            if hold:
                assert gate.held.wait(PATIENCE), process.communicate()[0]
                process.kill()
                gate.released.set()
            output = process.communicate()[0]
        if hold:
            assert breaks(small)
        return {} if hold else t.cast("dict[str, t.Any]", json.loads(output))

    def look() -> tuple[list[str], dict[str, str]]:
        return sorted(small.objects()), small.classes()

    # undisturbed, there and back: what is done each way, and what comes of it
    run(requests[0])
    ways = []
    for request in (requests[1], requests[0]):
        run(request)
        ways.append((request, gate.changes, look()))
    assert [len(steps) for _request, steps, _after in ways] == [6, 6]
    assert [step.split()[0] for step in ways[0][1]] == ["DELETE", *["PATCH"] * 4, "DELETE"]
    before = ways[1][2]
    for number in range(1, 7):
        request, steps, after = ways[(number - 1) % 2]
        run(request, hold=number)
        assert gate.changes == steps[: number - 1]
        objects, classes = look()
        come = [step.rpartition("/")[2] for step in steps[: number - 1] if step.startswith("PATCH")]
        gone = [step.rpartition("/")[2] for step in steps[: number - 1] if step.startswith("DELETE")]
        assert len(objects) == len(before[0]) + len([name for name in come if name.startswith("rdma")]) - len(gone)
        assert classes == {node: (after if node in come else before)[1][node] for node in before[1]}
        assert run(request)["changed"] is True
        assert gate.changes == steps[number - 1 :], "what is done is not done twice"
        assert look() == after
        assert run(request, check=True)["changed"] is False
        before = after
