# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both ends of the range of versions of the Python package kubernetes, on a real API server. The other cases use one between them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.cluster.test_ownership import request

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
ENDS = re.findall(r"^#ends: (kubernetes==\S+)$", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)

# A module as a process that reads its arguments.
PROGRAM = """
import json, runpy, sys
from ansible.module_utils.testing import patch_module_args
import kubernetes
assert kubernetes.__version__ == sys.argv[2], kubernetes.__version__
with patch_module_args(json.load(sys.stdin)):
    runpy.run_module("ansible_collections." + sys.argv[1], run_name="__main__")
"""


@pytest.fixture(scope="module", params=ENDS)
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A version, and a directory with it and what it needs."""
    target = tmp_path_factory.mktemp("package")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(target)]
    subprocess.run([*pip, request.param], check=True)
    return request.param.partition("==")[2], target


def run(package: tuple[str, Path], module: str, arguments: dict[str, t.Any], fails: bool = False) -> dict[str, t.Any]:
    """What a module says, of this collection or by its whole name."""
    version, target = package
    collection, _dot, name = module.rpartition(".")
    module = f"{collection or 'fabric.rdma'}.plugins.modules.{name}"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, module, version],
        input=json.dumps({**arguments, "_ansible_remote_tmp": "/tmp"}),
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{target}:{ROOT / '.collections'}"},
    )
    assert (done.returncode != 0) is fails, done.stdout + done.stderr
    return t.cast("dict[str, t.Any]", json.loads(done.stdout))


def test_there_are_two_ends() -> None:
    assert len(ENDS) == 2
    allowed = re.findall(r"^kubernetes>=([\d.]+),<(\d+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    oldest, newest = (end.partition("==")[2] for end in ENDS)
    assert [(oldest, str(int(newest.split(".")[0]) + 1))] == allowed


def test_every_request_works_with_each_version_of_the_package(site: Site, package: tuple[str, Path]) -> None:
    """Discovery, reading, lists, server-side apply, merge patches, deletion, refusals, nodes and their status."""
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    wanted = request("g")
    arguments = {"kubeconfig": str(site.kubeconfig), "objects": wanted["objects"], "keep": []}
    arguments |= {"nodes": {"v100-1": "g"}, "known": ["v100-1"]}
    done = run(package, "rollout", arguments)
    assert set(done["objects"].values()) == {"created"}
    assert site.classes() == {"v100-1": "g"}
    assert "tested are versions" not in str(done.get("warnings"))
    assert run(package, "rollout", arguments)["changed"] is False
    waited = {"name": "g", "namespace": "rdma", "daemon_set": "rdma-shared-dp-g", "nodes": ["v100-1"]}
    waited |= {"resources": {"rdma/r": 63}, "kubeconfig": str(site.kubeconfig), "timeout": 60}
    assert run(package, "rollout_ready", waited)["missing"] == []
    arguments["objects"][2]["spec"]["templat"] = {}
    assert "does not know a field: " in run(package, "rollout", arguments, fails=True)["msg"]
    done = run(package, "rollout", {**arguments, "objects": [], "nodes": {}})
    assert {what for name, what in done["objects"].items() if "-dp-g" in name} == {"removed"}
    site.kubelets.give_up("v100-2", "rdma/old")
    stale = {"kubeconfig": str(site.kubeconfig), "resources": ["rdma/old"], "verify": 0}
    assert run(package, "stale_resources", stale)["removed"] == {"v100-2": ["rdma/old"]}


def test_every_module_of_others_works(site: Site, package: tuple[str, Path]) -> None:
    """What roles ask of kubernetes.core: a namespace is applied, a node is labelled, drained and put to work again, a Pod is deleted."""
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    access = {"kubeconfig": str(site.kubeconfig)}
    assert run(package, "cluster_access", access)["server"] == site.kube.server
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "rdma", "labels": {"rdma.fabric/inventory": "x"}},
    }
    applied = {"apply": True, "server_side_apply": {"field_manager": "fabric.rdma"}, "definition": space}
    assert run(package, "kubernetes.core.k8s", {**access, **applied})["changed"] is True
    assert run(package, "kubernetes.core.k8s", {**access, **applied})["changed"] is False
    node = {**access, "api_version": "v1", "kind": "Node", "name": "v100-1"}
    labels = {"metadata": {"labels": {"rdma.fabric/away": "was-in-work"}}}
    run(package, "kubernetes.core.k8s", {**node, "state": "patched", "definition": labels})
    run(package, "kubernetes.core.k8s_drain", {**access, "name": "v100-1", "state": "drain", "delete_options": {}})
    away = {**access, "api_version": "v1", "kind": "Node", "label_selectors": ["rdma.fabric/away"]}
    (found,) = run(package, "kubernetes.core.k8s_info", away)["resources"]
    assert (found["metadata"]["name"], found["spec"]["unschedulable"]) == ("v100-1", True)
    run(package, "kubernetes.core.k8s_drain", {**access, "name": "v100-1", "state": "uncordon"})
    assert "unschedulable" not in site.node("v100-1")["spec"]
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "registry.example/c"}]}}
    site.kube.request("POST", "/api/v1/namespaces/rdma/pods", "make", body=pod)
    named = {**access, "api_version": "v1", "kind": "Pod", "namespace": "rdma", "name": "p"}
    gone = {**named, "state": "absent", "wait": True, "wait_timeout": 60}
    assert run(package, "kubernetes.core.k8s", gone)["changed"] is True
    assert run(package, "kubernetes.core.k8s_info", named)["resources"] == []
