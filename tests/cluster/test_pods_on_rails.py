# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods on the rails of a plan: what we bring of Multus and Whereabouts does what it is brought for, with the rights that we give it.

Two hosts with a GPU for each of eight rails, as a capture has them. Multus, Whereabouts, macvlan, the API server and what moves between the
Pods are real; that a kubelet starts all of it is the scenario networks' to prove, whose nodes have no GPU to number rails by.
"""

from __future__ import annotations

import concurrent.futures
import json
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import MULTUS, WHEREABOUTS
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import cluster as lab_cluster
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.control_plane import ControlPlane
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.golang import NETWORKS, build_go_program
from ansible_collections.fabric.rdma.tests.cluster import cluster as control_plane
from ansible_collections.fabric.rdma.tests.cluster.cni_nodes import Fabric, Node, Pod
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.network_sites import (
    ROCE,
    asked,
    networked,
    networked_site,
    of_kind,
    sane,
)

pytestmark = pytest.mark.cluster

Json = dict[str, t.Any]
RAILS: Json = {
    "name": "fabric",
    "kind": "macvlan",
    "rails": True,
    "ipam": {"type": "whereabouts", "range": "192.168.0.0/16", "per_rail": 24},
}
PLURALS = {"NetworkAttachmentDefinition": "network-attachment-definitions"}
PODS = "/api/v1/namespaces/default/pods"
POOLS = "/apis/whereabouts.cni.cncf.io/v1alpha1/ippools"
PROGRAMS = Path("/usr/lib/cni")


def make(kube: Kube, item: Json) -> Json:
    version, namespace = item["apiVersion"], item["metadata"].get("namespace")
    path = "/api/v1" if version == "v1" else f"/apis/{version}"
    path += f"/namespaces/{namespace}" if namespace else ""
    return kube.request("POST", f"{path}/{PLURALS.get(item['kind'], item['kind'].lower() + 's')}", "make", body=item)


def image_of(directory: Path, name: str) -> Path:
    """The files of an image of the lab, on busybox."""
    root = directory / name.rpartition("/")[2].partition(":")[0]
    (root / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin")
    subprocess.run(["chroot", root, "/bin/busybox", "--install", "-s", "/bin"], check=True)
    (content,) = [
        each
        for each in lab_cluster._contents(str(control_plane.cache_directory()), "", ["secondary_network"])
        if each.name == name
    ]
    for path, file in content.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / path)
        (root / path).chmod(0o755)
    return root


class Rails:
    """The cluster: two nodes with a card for each rail, and what our request brings to them."""

    def __init__(self, directory: Path, plane: ControlPlane, fabric: Fabric) -> None:
        self.directory, self.plane, self.fabric = directory, plane, fabric
        self.kube = Kube(str(directory / "plane" / "kubeconfig"))
        site = networked_site({"roce": networked(ROCE, RAILS)})
        self.asked = sane(asked({"multus": {"install": True}, "whereabouts": {"install": True}}, site))
        definitions = [item for item in self.asked["objects"] if item["kind"] == "CustomResourceDefinition"]
        others = [item for item in self.asked["objects"] if item["kind"] != "CustomResourceDefinition"]
        for item in definitions:
            make(self.kube, item)
        with concurrent.futures.ThreadPoolExecutor(len(definitions)) as pool:
            list(pool.map(self._served, definitions))
        for item in others:
            make(self.kube, item)
        self.networks = {
            item["metadata"]["name"]: json.loads(item["spec"]["config"])["plugins"][0]["master"]
            for item in of_kind(self.asked, "NetworkAttachmentDefinition")
        }
        for rail in self.networks:
            fabric.rail(rail[-5:])
        self.nodes: list[Node] = []
        self._count = len(site["groups"]["roce"])

    def _served(self, definition: Json) -> None:
        spec = definition["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        self.plane.wait(path, "kube-apiserver", lambda: self.plane.ask(path)[0] == 200)

    def _node(self, number: int) -> Node:
        name = f"node{number}"
        self.kube.request("POST", "/api/v1/nodes", "make", body={"metadata": {"name": name}})
        subnet = {"subnet": f"10.244.{number + 1}.0/24"}
        ipam = {"type": "host-local", "ranges": [[subnet]]}
        own = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": ipam}
        conflist = {"cniVersion": "1.0.0", "name": "own", "plugins": [own]}
        node = Node(self.fabric, name, self.directory / name, self.plane.port, conflist)
        for place, (rail, netdev) in enumerate(self.networks.items()):
            self.fabric.cable(node.namespace, netdev, rail[-5:], 100 * number + place)
        for program in ("bridge", "host-local", "macvlan", "tuning"):
            shutil.copy(PROGRAMS / program, node.root / "opt/cni/bin")
        return node

    def start(self) -> None:
        """The containers of the DaemonSets, on each node."""
        self.nodes += [self._node(number) for number in range(self._count)]
        images = {name: image_of(self.directory / "images", name) for name in (MULTUS, WHEREABOUTS)}
        ca = Path(self.plane.certificate).read_text()
        for item in of_kind(self.asked, "DaemonSet"):
            spec = item["spec"]["template"]["spec"]
            path = f"/api/v1/namespaces/kube-system/serviceaccounts/{spec['serviceAccountName']}/token"
            token = self.kube.request("POST", path, "make a token", body={"spec": {}})["status"]["token"]
            for node in self.nodes:
                node.container(spec, images[spec["containers"][0]["image"]], token, ca)

    def pod(self, name: str, node: Node, networks: t.Collection[str]) -> Pod:
        annotations = {"k8s.v1.cni.cncf.io/networks": ", ".join(networks)} if networks else {}
        spec = {"containers": [{"name": "main", "image": "none"}], "nodeName": node.name}
        made = self.kube.request(
            "POST", PODS, "make", body={"metadata": {"name": name, "annotations": annotations}, "spec": spec}
        )
        return Pod(node, name, made["metadata"]["uid"])

    def addresses(self, pod: Pod) -> dict[str, str]:
        """netdev -> address of a Pod in its networks, as Multus tells."""
        found = self.kube.request("GET", f"{PODS}/{pod.name}", "read")["metadata"]["annotations"]
        told = json.loads(found["k8s.v1.cni.cncf.io/network-status"])
        assert [entry["interface"] for entry in told if entry.get("default")] == ["eth0"]
        return {entry["interface"]: entry["ips"][0] for entry in told if not entry.get("default")}

    def given(self) -> dict[str, int]:
        """Pool of Whereabouts -> how many addresses it has given."""
        return {item["spec"]["range"]: len(item["spec"]["allocations"]) for item in self.kube.list(POOLS, "list")}


@pytest.fixture(scope="module")
def rails(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Rails]:
    directory = tmp_path_factory.mktemp("rails")
    build_go_program(NETWORKS, str(control_plane.cache_directory()), control_plane.say, lambda: None)
    fabric = Fabric(f"rails{directory.name[-4:]}")
    plane = ControlPlane(str(directory / "plane"), control_plane.programs(), patience=limit(120))
    made: Rails | None = None
    try:
        with plane:
            made = Rails(directory, plane, fabric)
            made.start()
            yield made
    finally:
        for node in made.nodes if made else []:
            node.close()
        fabric.remove()


def test_nodes_are_set_up(rails: Rails) -> None:
    """Multus' configuration comes before that of the cluster's own network, which it names."""
    for node in rails.nodes:
        node.wait_for("00-multus.conf*")
        node.wait_for("whereabouts.d/whereabouts.conf")
        (first,) = (node.root / "etc/cni/net.d").glob("00-multus.conf*")
        assert '"own"' in first.read_text()
        assert {"multus", "whereabouts"} <= {path.name for path in (node.root / "opt/cni/bin").iterdir()}


def test_a_rail_reaches_itself_and_no_other(rails: Rails) -> None:
    """Every netdev of a Pod to every address of the other, in both directions; each rail has its own range, which gets all back.

    The nodes have no settings for several rails: that is the networks' own.
    """
    pods = [rails.pod(f"pod-{node.name}", node, rails.networks) for node in rails.nodes]
    for pod in pods:
        pod.node.plugin("ADD", pod)
    first, second = map(rails.addresses, pods)
    assert list(first) == list(second) == [f"net{number}" for number in range(1, 9)]
    assert rails.given() == {f"192.168.{number}.0/24": 2 for number in range(8)}
    asked_for = [
        (asker, netdev, other, theirs[other])
        for asker, theirs in ((pods[0], second), (pods[1], first))
        for netdev in theirs
        for other in theirs
    ]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        reached = list(pool.map(lambda row: row[0].reaches(row[1], row[3]), asked_for))
    found = {
        (asker.name, netdev, other)
        for (asker, netdev, other, _address), yes in zip(asked_for, reached, strict=True)
        if yes
    }
    assert found == {(pod.name, netdev, netdev) for pod in pods for netdev in first}
    for pod in pods:
        pod.node.plugin("DEL", pod)
    assert set(rails.given().values()) == {0}


def test_the_plugins_may_do_no_more_than_they_need(rails: Rails) -> None:
    """The kubeconfig that lies on a node is not a key to the cluster."""
    for name, path in (("multus", "/api/v1/secrets"), ("whereabouts", "/api/v1/secrets"), ("multus", POOLS)):
        (config,) = rails.nodes[0].root.glob(f"etc/cni/net.d/{name}.d/{name}.kubeconfig")
        own = rails.directory / f"{name}.kubeconfig"
        # by the port of this machine
        own.write_text(config.read_text().replace(f":{rails.nodes[0].port}", f":{rails.plane.port}"))
        with pytest.raises(KubeError) as refused:
            Kube(str(own)).list(path, "list")
        assert refused.value.code == 403


def test_pods_start_without_multus_when_it_has_gone(rails: Rails) -> None:
    """Its configuration goes with its Pod, and the cluster's own network is the first again."""
    for node in rails.nodes:
        for process in node.processes:
            process.terminate()
        node.wait_for("00-multus.conf*", there=False)
        pod = rails.pod(f"plain-{node.name}", node, [])
        result = node.plugin("ADD", pod)
        assert [entry["name"] for entry in result["interfaces"] if entry.get("sandbox")] == ["eth0"]
        node.plugin("DEL", pod)
