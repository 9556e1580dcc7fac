# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real control plane, nodes that kwok plays, and what a device plugin does to the status of its node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import CLASS_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import OWN_SELECTOR
from ansible_collections.fabric.rdma.tests.cluster import cluster as control_plane, kubelets as kubelets_program

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
CAPTURES = ROOT / "tests" / "captures"


def groups() -> dict[str, dict[str, t.Any]]:
    """The groups of the inventory: their hosts with the captures that stand for them, and their wishes."""
    children = yaml.safe_load(Path(__file__).with_name("inventory.yml").read_text())["rdma"]["children"]
    return {
        name: {"hosts": {host: entry["capture"] for host, entry in group["hosts"].items()}, **group["vars"]}
        for name, group in children.items()
    }


class Kubelets:
    """What kubelets.py plays, and what a test does to it."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube

    def annotate(self, node: str, key: str, value: str | None) -> None:
        body = {"metadata": {"annotations": {key: value}}}
        self.kube.merge(f"/api/v1/nodes/{node}", "annotate", body, dry_run=False)

    def breaks(self, node: str) -> None:
        """No plugin starts on it."""
        self.annotate(node, kubelets_program.NODE_ANNOTATION, "broken")

    def falls_silent(self, node: str) -> None:
        """What a test reports of it stays."""
        self.annotate(node, kubelets_program.NODE_ANNOTATION, "silent")

    def functions(self, node: str, count: int) -> None:
        """So many the SR-IOV plugin finds on it."""
        self.annotate(node, kubelets_program.FUNCTIONS_ANNOTATION, str(count))

    def patch(self, node: str, status: dict[str, t.Any]) -> None:
        self.kube.merge(f"/api/v1/nodes/{node}/status", "report", {"status": status}, dry_run=False)

    def give_up(self, node: str, resource: str) -> None:
        """The five minutes are over."""
        self.patch(node, {"capacity": {resource: "0"}, "allocatable": {resource: "0"}})


class Run(subprocess.Popen[str]):
    """A playbook under way. It goes on for ever when nobody reads what it says: where a test fails meanwhile, it is killed."""

    def __exit__(self, kind: t.Any, *others: t.Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, *others)


class Site:
    """An inventory, and the playbooks run on it as a user runs them."""

    def __init__(self, directory: Path, kubeconfig: Path, kubelets: Kubelets, others: t.Collection[str]) -> None:
        self.directory, self.kubeconfig, self.kube, self.kubelets = directory, kubeconfig, kubelets.kube, kubelets
        # namespaces that are not of the tests
        self.others = others
        self.groups = groups()
        self.rollout: dict[str, t.Any] = {"namespace": "rdma", "timeout": int(limit(60))}

    def write(self) -> Path:
        inventory = self.directory / "hosts.yml"
        children = {}
        for name, group in self.groups.items():
            wishes = {key: value for key, value in group.items() if key != "hosts"}
            captures = {host: str(CAPTURES / f"{capture}.capture") for host, capture in group["hosts"].items()}
            hosts = {host: {"rdma_capture": path} for host, path in captures.items()}
            children[name] = {"hosts": hosts, "vars": wishes}
        everyone = {"rdma_groups": list(self.groups), "rdma_rollout": self.rollout}
        inventory.write_text(yaml.safe_dump({"rdma": {"children": children, "vars": everyone}}))
        return inventory

    def start(self, playbook: str, *arguments: str, user: Path | None = None) -> subprocess.Popen[str]:
        command = [BIN / "ansible-playbook", ROOT / "playbooks" / f"{playbook}.yml", "-i", self.write(), *arguments]
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            # the captures do not change between runs: they are looked at once
            "ANSIBLE_CACHE_PLUGIN": "jsonfile",
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(self.kubeconfig.parent / "facts"),
            "KUBECONFIG": str(user or self.kubeconfig),
        }
        command += ["-e", json.dumps({"rdma_output_dir": str(self.directory / "output")})]
        return Run(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, playbook: str, *arguments: str, user: Path | None = None, fails: bool = False) -> str:
        """What a playbook prints. It fails exactly when it is to."""
        start = time.monotonic()
        with self.start(playbook, *arguments, user=user) as done:
            output = done.communicate(timeout=limit(600))[0]
        print(
            f"{playbook} {' '.join(arguments)}: {time.monotonic() - start:.0f} s, exit code {done.returncode}",
            flush=True,
        )
        assert (done.returncode != 0) is fails, output
        return output

    def changed_kubeconfig(self, name: str, user: t.Any = None, **cluster: t.Any) -> Path:
        """A copy of the kubeconfig with another user or server."""
        config = json.loads(self.kubeconfig.read_text())
        config["users"][0]["user"] = user or config["users"][0]["user"]
        config["clusters"][0]["cluster"].update(cluster)
        path = self.directory / name
        path.write_text(json.dumps(config))
        return path

    # what is there

    def nodes(self, labels: t.Mapping[str, str] | None = None) -> None:
        for name in [name for group in self.groups.values() for name in group["hosts"]]:
            annotations = {kubelets_program.NODE_ANNOTATION: "yes"}
            metadata = {"name": name, "labels": labels or {}, "annotations": annotations}
            body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
            self.kube.request("POST", "/api/v1/nodes", f"make {name}", body=body)

    def node(self, name: str) -> dict[str, t.Any]:
        found = self.kube.find(f"/api/v1/nodes/{name}", "read")
        assert found is not None
        return found

    def classes(self) -> dict[str, str]:
        labels = {
            item["metadata"]["name"]: item["metadata"].get("labels") or {}
            for item in self.kube.list("/api/v1/nodes", "list")
        }
        return {name: each[CLASS_LABEL] for name, each in labels.items() if CLASS_LABEL in each}

    def objects(self) -> dict[str, str]:
        """Ours, with the version that the server gives them: it changes with every write."""
        found = {}
        for kind, path in (("ConfigMap", "/api/v1/configmaps"), ("DaemonSet", "/apis/apps/v1/daemonsets")):
            for item in self.kube.list(path, "list", labelSelector=OWN_SELECTOR):
                # a DaemonSet's status is the controller's
                version = item["metadata"]["generation"] if kind == "DaemonSet" else item["metadata"]["resourceVersion"]
                found[f"{kind} {item['metadata']['name']}"] = f"{item['metadata']['uid']} {version}"
        return found

    def clear(self) -> None:
        for item in self.kube.list("/apis/apps/v1/daemonsets", "list", labelSelector=OWN_SELECTOR):
            place = f"/apis/apps/v1/namespaces/{item['metadata']['namespace']}/daemonsets/{item['metadata']['name']}"
            try:
                self.kube.request("DELETE", place, "delete")
            except KubeError as exc:
                # its owner went a moment before, and the garbage collector was quicker
                if exc.code != 404:
                    raise
        for name in self.namespaces():
            self.kube.request("DELETE", f"/api/v1/namespaces/{name}", "delete")
        end = time.monotonic() + limit(60)
        while (left := self.namespaces() + self.pods()) and time.monotonic() < end:
            time.sleep(0.2)
        # after the Pods, which only kwok ends, and only on nodes that are there
        for item in self.kube.list("/api/v1/nodes", "list"):
            if kubelets_program.NODE_ANNOTATION in (item["metadata"].get("annotations") or {}):
                self.kube.request("DELETE", f"/api/v1/nodes/{item['metadata']['name']}", "delete")
        assert not left

    def namespaces(self) -> list[str]:
        """Those that tests have made."""
        names = [item["metadata"]["name"] for item in self.kube.list("/api/v1/namespaces", "list")]
        return [name for name in names if name not in self.others]

    def pods(self) -> list[str]:
        items = self.kube.list("/api/v1/pods", "list", labelSelector=OWN_SELECTOR)
        return [item["metadata"]["name"] for item in items]


@pytest.fixture(scope="session")
def cluster() -> t.Iterator[t.Any]:
    if directory := os.environ.get("FABRIC_RDMA_CLUSTER"):
        yield control_plane.Running(Path(directory))
        return
    with control_plane.cluster() as there:
        yield there


@pytest.fixture
def mortal(cluster: t.Any) -> t.Any:
    if not cluster.mortal:
        pytest.skip("the cluster of KUBECONFIG is not ours: its API server is not ended")
    return cluster


@pytest.fixture(scope="session")
def kube(cluster: t.Any) -> Kube:
    return Kube(str(cluster.kubeconfig()))


@pytest.fixture(scope="session")
def kubelets(kube: Kube) -> Kubelets:
    return Kubelets(kube)


@pytest.fixture(scope="session")
def others(kube: Kube) -> set[str]:
    return {item["metadata"]["name"] for item in kube.list("/api/v1/namespaces", "list")} - {"rdma"}


@pytest.fixture
def site(tmp_path: Path, cluster: t.Any, kubelets: Kubelets, others: set[str]) -> t.Iterator[Site]:
    there = Site(tmp_path, cluster.kubeconfig(), kubelets, others)
    # what an earlier run, or the scenario, has left
    there.clear()
    yield there
    there.clear()


@pytest.fixture(scope="module")
def converged(
    tmp_path_factory: pytest.TempPathFactory, cluster: t.Any, kubelets: Kubelets, others: set[str]
) -> t.Iterator[Site]:
    """All groups, rolled out: by the scenario of molecule that runs the tests, else here."""
    there = Site(tmp_path_factory.mktemp("converged"), cluster.kubeconfig(), kubelets, others)
    if not there.objects():
        there.clear()
        there.nodes()
        taint = {"key": "account", "value": "x", "effect": "NoExecute"}
        body = {"spec": {"unschedulable": True, "taints": [taint]}}
        there.kube.merge("/api/v1/nodes/a100-2", "cordon and taint", body, dry_run=False)
        there.run("rollout")
    yield there
    there.clear()


@pytest.fixture
def small(site: Site) -> Site:
    """One group, of two nodes."""
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    return site


class Limited:
    """A user who may do nothing but what a test grants."""

    name = "fabric-rdma-limited"
    account = "/api/v1/namespaces/default/serviceaccounts"

    def __init__(self, site: Site) -> None:
        self.kube = site.kube
        self.made = [f"{self.account}/{self.name}"]
        self.kube.request("POST", self.account, "make", body={"metadata": {"name": self.name}})
        token = self.kube.request("POST", f"{self.made[0]}/token", "ask for a token", body={"spec": {}})
        self.kubeconfig = site.changed_kubeconfig("limited", {"token": token["status"]["token"]})

    def grant(self, name: str, *rules: dict[str, t.Any]) -> None:
        group = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": "default"}],
        }
        role = {"metadata": {"name": name}, "rules": list(rules)}
        for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)):
            self.kube.request("POST", f"/apis/{group}/v1/{plural}", "make", body=body)
            self.made.append(f"/apis/{group}/v1/{plural}/{name}")

    def documented(self, role: str) -> list[dict[str, t.Any]]:
        """The rules that the README of a role asks for, without those that only cleanup_stale needs."""
        lines = (ROOT / "roles" / role / "README.md").read_text().splitlines()
        rules = yaml.safe_load("\n".join(line for line in lines if line.startswith("  - {apiGroups")))
        return [rule for rule in rules if rule["resources"] != ["nodes/status"]]

    def remove(self) -> None:
        for path in self.made:
            self.kube.request("DELETE", path, "delete")


@pytest.fixture
def limited(site: Site) -> t.Iterator[Limited]:
    user = Limited(site)
    yield user
    user.remove()
