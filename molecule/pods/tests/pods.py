# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster of the scenario: its nodes, Pods in it, and the playbooks as an operator runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import kubernetes

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "molecule" / "shared"))

import nodes
import pace

from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import patiently
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import OWN_SELECTOR
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.cluster import POD_IMAGE
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import plan_nodes

# Of the three nodes of the scenario cluster. Others have fewer.
INVENTORY = Path(os.environ.get("FABRIC_RDMA_INVENTORY") or ROOT / "inventories" / "cluster")
BIN = Path(sys.executable).parent
# which of the two cards of a node has its cable in
CABLED = {"lab1": "mlx5_0", "lab2": "mlx5_1", "lab3": "mlx5_0"}
NAMES = list(CABLED)[: int(os.environ.get("FABRIC_RDMA_NODES") or 3)]
# of the first card of lab1
ADDRESS = plan_nodes(NAMES, 1024, 1)[0].address
RESOURCE = "rdma/rdma_a100"
PODS = "/api/v1/namespaces/default/pods"
NETWORKS = "k8s.v1.cni.cncf.io/networks"


class Pod:
    """A Pod of the image of the lab on one of the nodes. networks: it is in that of the cluster and in these, and not in the node's.

    templates: of ResourceClaims, each of which it has a claim by. Then it is gone once its kubelet has given back what it had.
    """

    def __init__(
        self,
        site: Site,
        name: str,
        node: str,
        command: str,
        user: int,
        resource: str | None,
        networks: t.Sequence[str] | None = None,
        templates: t.Sequence[str] = (),
    ) -> None:
        self.site, self.name, self.path = site, name, f"{PODS}/{name}"
        # without any, the API server forgets a Pod before it has ended
        self.grace = 1 if templates else 0
        resources: dict[str, t.Any] = {"limits": {resource: 1}} if resource else {}
        if templates:
            resources["claims"] = [{"name": each} for each in templates]
        container = {
            "name": "main",
            "image": POD_IMAGE,
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", command],
            "resources": resources,
            # no IPC_LOCK: the limit is what the node gives
            "securityContext": {"runAsUser": user, "allowPrivilegeEscalation": False},
        }
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_named(node)]}}
        spec = {
            "containers": [container],
            "resourceClaims": [{"name": each, "resourceClaimTemplateName": each} for each in templates] or None,
            "restartPolicy": "Never",
            # RoCE addresses are those of the node
            "hostNetwork": networks is None,
            "affinity": {"nodeAffinity": affinity},
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": self.grace,
            "automountServiceAccountToken": False,
        }
        metadata: dict[str, t.Any] = {"name": name, "labels": {"test": "yes"}}
        if networks:
            metadata["annotations"] = {NETWORKS: ", ".join(networks)}
        body = {"metadata": metadata, "spec": spec}
        site.kube.request("POST", PODS, f"make {name}", body=body)

    def status(self) -> dict[str, t.Any]:
        found = self.site.kube.find(self.path, "read")
        return dict((found or {}).get("status") or {})

    def wait(self, *phases: str) -> str:
        """Waits for one of these phases; which one came."""
        phase = ""

        def there() -> bool:
            nonlocal phase
            phase = str(self.status().get("phase"))
            return phase in (*phases, "Failed")

        self.site.wait(f"{self.name} is {' or '.join(phases)}", there, lambda: json.dumps(self.status(), indent=1))
        assert phase in phases, f"{self.name} is {phase}: {self.log()}"
        return phase

    def addresses(self) -> dict[str, str]:
        """Network that was wished for -> address in it, as Multus says it."""
        found = self.site.kube.find(self.path, "read") or {}
        told = json.loads(found["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"])
        return {entry["name"]: entry["ips"][0] for entry in told if not entry.get("default")}

    def log(self) -> str:
        """What it has printed."""
        return self.site.log(self.path)

    def result(self) -> str:
        """What it has printed at its end."""
        self.wait("Succeeded")
        return self.log()

    def delete(self) -> None:
        if self.status():
            self.site.core.delete_namespaced_pod(self.name, "default", grace_period_seconds=self.grace)


def _named(node: str) -> dict[str, t.Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


class Site:
    """The cluster, and the playbooks."""

    def __init__(self, inventory: Path = INVENTORY) -> None:
        self.inventory = inventory
        self.kubeconfig = nodes.lab() / "control-plane" / "kubeconfig"
        self.kube = Kube(str(self.kubeconfig))
        self.core = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(self.kubeconfig)))
        self.output = Path(os.environ["FABRIC_RDMA_OUTPUT"])
        self.pods: list[Pod] = []

    def wait(
        self, what: str, test: t.Callable[[], bool], more: t.Callable[[], str] = lambda: "", seconds: float = 180
    ) -> None:
        end = time.monotonic() + pace.limit(seconds)
        while not test():
            assert time.monotonic() < end, f"not within {pace.limit(seconds):.0f} s: {what}\n{more()}"
            time.sleep(0.5)

    # nodes

    def on(self, node: str, *words: str) -> str:
        """What a program on a node prints."""
        done = subprocess.run(
            nodes.command(node, *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=pace.limit(300),
            check=False,
        )
        assert done.returncode == 0, f"{node}: {words} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def node(self, name: str) -> dict[str, t.Any]:
        found = self.kube.find(f"/api/v1/nodes/{name}", "read")
        assert found is not None
        return found

    def allocatable(self, node: str, resource: str = RESOURCE) -> int | None:
        found = self.node(node)["status"].get("allocatable", {}).get(resource)
        return None if found is None else int(found)

    def plugin_pods(self, node: str) -> list[dict[str, t.Any]]:
        """The Pods of the device plugin on a node that are not on their way out."""
        return [
            dict(item)
            for item in self.kube.list("/api/v1/pods", "list", labelSelector=OWN_SELECTOR)
            if item["spec"].get("nodeName") == node and not item["metadata"].get("deletionTimestamp")
        ]

    def plugin_pod(self, node: str) -> dict[str, t.Any]:
        """The one that is there."""
        (found,) = self.plugin_pods(node)
        return found

    def take_plugin(self, node: str) -> None:
        """Deletes the Pod of the device plugin on a node, until the kubelet has said that nothing is offered.

        It tells the API server every five seconds, and on a fast node the next Pod may have offered the resource before that: it is deleted, too.
        """

        assert self.plugin_pods(node)

        def nothing() -> bool:
            for pod in self.plugin_pods(node):
                name = f"metadata.name={pod['metadata']['name']}"
                # no complaint about one that has gone meanwhile
                self.core.delete_collection_namespaced_pod(pod["metadata"]["namespace"], field_selector=name)
            return self.allocatable(node) == 0

        self.wait("nothing is offered", nothing)

    def files_of(self, node: str, hca: str) -> set[str]:
        """The character devices of an HCA, as the kernel says it on the node, and the one that all share."""
        text = self.on(node, "grep -H . /sys/class/infiniband_verbs/uverbs*/ibdev /sys/class/infiniband_mad/*/ibdev")
        found = dict(line.split(":", 1) for line in text.splitlines())
        return {path.split("/")[-2] for path, name in found.items() if name == hca} | {"rdma_cm"}

    # Pods

    def log(self, path: str) -> str:
        """What a Pod has printed."""
        # a node that is busy may have no time for it
        return patiently(lambda: self.kube.text(f"{path}/log", "read the log"))

    def pod(
        self,
        name: str,
        node: str,
        command: str,
        user: int = 0,
        resource: str | None = RESOURCE,
        networks: t.Sequence[str] | None = None,
        templates: t.Sequence[str] = (),
    ) -> Pod:
        made = Pod(self, name, node, command, user, resource, networks, templates)
        self.pods.append(made)
        return made

    def clear(self) -> None:
        for pod in self.pods:
            pod.delete()
        self.wait("Pods of tests are gone", lambda: not self.kube.list(PODS, "list", labelSelector="test=yes"))
        self.pods = []

    # the playbooks

    def run(self, playbook: str, fails: bool = False, **wishes: t.Any) -> str:
        """What a playbook prints. It fails exactly when it is to."""
        start = time.monotonic()
        command = [BIN / "ansible-playbook", ROOT / "playbooks" / f"{playbook}.yml"]
        command += ["-i", self.inventory]
        command += ["-e", f"@{ROOT / 'molecule' / 'shared' / 'vars' / 'limits.yml'}"]
        wishes["rdma_output_dir"] = str(self.output)
        done = subprocess.run(
            [*command, "-e", json.dumps(wishes)],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=pace.limit(1800),
            check=False,
        )
        print(f"{playbook}: {time.monotonic() - start:.0f} s, exit code {done.returncode}", flush=True)
        assert (done.returncode != 0) is fails, done.stdout
        return done.stdout
