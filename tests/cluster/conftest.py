# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real control plane, nodes that kwok plays, and what a device plugin does to the status of its node."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._kube import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._manifests import CLASS_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout import OWN_SELECTOR

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
CAPTURES = ROOT / "tests" / "captures"

_spec = importlib.util.spec_from_file_location("fabric_rdma_test_cluster", Path(__file__).with_name("cluster.py"))
assert _spec is not None
assert _spec.loader is not None
control_plane = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(control_plane)


# Pods that the Network Operator makes for its policies.
OPERATOR_SELECTOR = "ds-owner"

# Which capture stands for which host, and what its group wants: the groups of the example inventory.
GROUPS: dict[str, dict[str, t.Any]] = {
    "ib-v100": {
        "hosts": {"v100-1": "ib-v100-1", "v100-2": "ib-v100-2"},
        "rdma_resource": {"name": "rdma_v100"},
        "rdma_want": {"link_layer": "InfiniBand", "min_rate_gbps": 100},
    },
    "ib-a100": {
        "hosts": {"a100-1": "ib-a100-1", "a100-2": "ib-a100-2", "a100-3": "ib-a100-3"},
        "rdma_resource": {"name": "rdma_a100"},
        "rdma_want": {"link_layer": "InfiniBand", "min_rate_gbps": 200},
    },
    "gb200": {
        "hosts": {"gb200-1": "gb200-1", "gb200-2": "gb200-2"},
        "rdma_resource": {"name": "rdma_gb200"},
        "rdma_want": {"link_layer": "InfiniBand", "min_rate_gbps": 400},
    },
    "roce-rails": {
        "hosts": {"rail-1": "roce-rails-1", "rail-2": "roce-rails-2"},
        "rdma_resource": {"name": "rdma_roce"},
        "rdma_want": {"link_layer": "Ethernet", "min_rate_gbps": 100, "exclude": ["bond0"]},
    },
}


class Kubelets:
    """What device plugins and kubelets do to the status of nodes, which kwok does not.

    A node on which a Pod of the device plugin is ready offers the resources of its configuration. One whose Pod went lists them
    with an allocatable count of 0, and its capacity keeps the count, as a kubelet's does for five minutes.
    """

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        # no plugin starts on these
        self.broken: set[str] = set()
        # how many functions the SR-IOV plugin finds
        self.functions: dict[str, int] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Kubelets:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.3):
            # the API server is killed in one of the tests
            try:
                self.report()
            except KubeError:
                continue

    def report(self) -> None:
        offered: dict[str, dict[str, int]] = {}
        for selector in (OWN_SELECTOR, OPERATOR_SELECTOR):
            for pod in self.kube.list("/api/v1/pods", "list", labelSelector=selector):
                node = pod["spec"].get("nodeName")
                if (
                    pod["status"].get("phase") != "Running"
                    or pod["metadata"].get("deletionTimestamp")
                    or node in self.broken
                ):
                    continue
                offered.setdefault(node, {}).update(self.offer(pod))
        for node in self.kube.list("/api/v1/nodes", "list"):
            name, status = node["metadata"]["name"], node.get("status") or {}
            mine = offered.get(name, {})
            allocatable = status.get("allocatable") or {}
            listed = {resource for resource in {*(status.get("capacity") or {}), *allocatable} if "/" in resource}
            wanted = {resource: str(mine.get(resource, 0)) for resource in {*listed, *mine}}
            if {resource: allocatable.get(resource) for resource in wanted} != wanted:
                capacity = {resource: str(count) for resource, count in mine.items()}
                self.patch(name, {"capacity": capacity, "allocatable": wanted})

    def offer(self, pod: dict[str, t.Any]) -> dict[str, int]:
        """What the plugin in a Pod advertises, by the ConfigMap that it mounts."""
        (mounted,) = [each["configMap"]["name"] for each in pod["spec"]["volumes"] if each.get("configMap")]
        found = self.kube.find(f"/api/v1/namespaces/{pod['metadata']['namespace']}/configmaps/{mounted}", "read")
        config = json.loads(found["data"]["config.json"]) if found else {}
        offers = {
            f"{pool.get('resourcePrefix') or 'rdma'}/{pool['resourceName']}": pool["rdmaHcaMax"]
            for pool in config.get("configList", [])
        }
        for row in config.get("resourceList", []):
            offers[f"{row['resourcePrefix']}/{row['resourceName']}"] = self.functions.get(pod["spec"]["nodeName"], 0)
        return offers

    def patch(self, node: str, status: dict[str, t.Any]) -> None:
        self.kube.merge(f"/api/v1/nodes/{node}/status", "report", {"status": status}, dry_run=False)

    def give_up(self, node: str, resource: str) -> None:
        """The five minutes are over."""
        self.patch(node, {"capacity": {resource: "0"}, "allocatable": {resource: "0"}})


class Site:
    """An inventory, and the playbooks run on it as a user runs them."""

    def __init__(self, directory: Path, kubeconfig: Path, kube: Kube) -> None:
        self.directory, self.kubeconfig, self.kube = directory, kubeconfig, kube
        self.groups: dict[str, dict[str, t.Any]] = json.loads(json.dumps(GROUPS))
        self.rollout: dict[str, t.Any] = {"namespace": "rdma", "timeout": 60}

    def write(self) -> Path:
        inventory = self.directory / "hosts.yml"
        children = {}
        for name, group in self.groups.items():
            wishes = {key: value for key, value in group.items() if key != "hosts"}
            hosts = {
                host: {"rdma_capture": str(CAPTURES / f"{capture}.capture")} for host, capture in group["hosts"].items()
            }
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
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def run(self, playbook: str, *arguments: str, user: Path | None = None, fails: bool = False) -> str:
        start = time.monotonic()
        with self.start(playbook, *arguments, user=user) as done:
            output = done.communicate(timeout=600)[0]
        print(
            f"{playbook} {' '.join(arguments)}: {time.monotonic() - start:.0f} s, exit code {done.returncode}",
            flush=True,
        )
        assert (done.returncode != 0) is fails, output
        return output

    # what is there

    def nodes(self, labels: t.Mapping[str, str] | None = None) -> None:
        for group in self.groups.values():
            for name in group["hosts"]:
                node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}}
                self.kube.request("POST", "/api/v1/nodes", f"make {name}", body=node)

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
        for item in self.kube.list("/apis/apps/v1/daemonsets", "list"):
            place = f"/apis/apps/v1/namespaces/{item['metadata']['namespace']}/daemonsets/{item['metadata']['name']}"
            try:
                self.kube.request("DELETE", place, "delete")
            except KubeError as exc:
                # its owner went a moment before, and the garbage collector was quicker
                if exc.code != 404:
                    raise
        for item in self.kube.list("/api/v1/namespaces", "list"):
            name = item["metadata"]["name"]
            if name != "default" and not name.startswith("kube-"):
                self.kube.request("DELETE", f"/api/v1/namespaces/{name}", "delete")
        end = time.monotonic() + 60
        while (left := self.left()) and time.monotonic() < end:
            time.sleep(0.2)
        # after the Pods, which only kwok ends, and only on nodes that are there
        for item in self.kube.list("/api/v1/nodes", "list"):
            self.kube.request("DELETE", f"/api/v1/nodes/{item['metadata']['name']}", "delete")
        assert not left

    def left(self) -> list[str]:
        names = [item["metadata"]["name"] for item in self.kube.list("/api/v1/namespaces", "list")]
        pods = [item["metadata"]["name"] for item in self.kube.list("/api/v1/pods", "list")]
        return [name for name in names if name != "default" and not name.startswith("kube-")] + pods


@pytest.fixture(scope="session")
def cluster() -> t.Iterator[t.Any]:
    with control_plane.Cluster() as there:
        yield there


@pytest.fixture(scope="session")
def kube(cluster: t.Any) -> Kube:
    return Kube(str(cluster.kubeconfig()))


@pytest.fixture(scope="session")
def kubelets(kube: Kube) -> t.Iterator[Kubelets]:
    with Kubelets(kube) as there:
        yield there


@pytest.fixture
def site(tmp_path: Path, cluster: t.Any, kube: Kube, kubelets: Kubelets) -> t.Iterator[Site]:
    kubelets.broken.clear()
    kubelets.functions.clear()
    there = Site(tmp_path, cluster.kubeconfig(), kube)
    yield there
    there.clear()
