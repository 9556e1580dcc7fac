# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster of the scenario, with what DRANET publishes in it and what Pods have by claims."""

from __future__ import annotations

import contextlib
import threading
import time
import typing as t

from pods import Pod, Site

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import DRANET_DRIVER, SYSTEM_LABEL
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import device_name
from ansible_collections.fabric.rdma.tests.unit.contracts import load

Json = dict[str, t.Any]
API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
TEMPLATES = f"{API}/namespaces/default/resourceclaimtemplates"
RESOURCE = "rdma/rdma_roce"
# The card that goes to Pods, with its address.
NETDEV, HCA = "eth2", "mlx5_1"
ADDRESSES = {"lab1": "198.18.1.1", "lab2": "198.18.1.2"}
NAMES = list(ADDRESSES)

# What hardware keeps in a Pod and brings back, and Soft-RoCE does not: the kernel removes its device when the netdev goes to another
# network namespace. An address belongs to whoever sets it: outside the lab, to whatever manages the network of the node. A link that comes
# and goes tells DRANET that there is news.
RESTORE = """\
until [ -e /sys/class/net/{netdev} ]; do sleep 1; done
ip address replace {address}/24 dev {netdev}
if ! rdma link show {hca}/1 > /dev/null 2>&1; then
  rdma link add {hca} type rxe netdev {netdev}
  echo {hca} {netdev} > /sys/module/fabric_lab_pci/parameters/move
  ip link add news type dummy
  ip link delete news
fi
"""


def published_by(kube: Kube) -> dict[str, dict[str, Json]]:
    """Node -> device -> attributes, of all ResourceSlices of DRANET."""
    found: dict[str, dict[str, Json]] = {}
    for item in kube.list(f"{API}/resourceslices", "list"):
        if item["spec"]["driver"] == DRANET_DRIVER:
            own = found.setdefault(item["spec"]["nodeName"], {})
            for device in item["spec"].get("devices") or ():
                own[device["name"]] = {
                    name if "/" in name else f"{DRANET_DRIVER}/{name}": next(iter(value.values()))
                    for name, value in device["attributes"].items()
                }
    return found


class Watch(threading.Thread):
    """Looks all the time who offers the functions of the class on each node, and notes each change."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        # a client is of one thread
        self.kube = Kube(str(cluster.kubeconfig))
        self.ends = threading.Event()
        self.seen: dict[str, list[str]] = {name: [] for name in NAMES}
        self.trouble: list[str] = []
        self.looks = 0

    def run(self) -> None:
        wanted = self.cluster.wanted()
        while not self.ends.is_set():
            try:
                self.look(wanted)
            except KubeError as exc:
                print(f"not seen: {exc}", flush=True)
            except Exception as exc:
                # a thread that ends unseen would prove nothing
                self.trouble.append(repr(exc))
            time.sleep(0.3)

    def look(self, wanted: t.Mapping[str, str]) -> None:
        there = published_by(self.kube)
        for item in self.kube.list("/api/v1/nodes", "list"):
            name = item["metadata"]["name"]
            offers = {
                "plugin": (item["status"].get("allocatable") or {}).get(RESOURCE, "0") != "0",
                "dranet": wanted[name] in there.get(name, {}),
            }
            now = " and ".join(who for who, does in offers.items() if does) or "nobody"
            if self.seen[name][-1:] != [now]:
                self.seen[name].append(now)
                print(f"{name}: {now} offers {wanted[name]}", flush=True)
        self.looks += 1


class Cluster(Site):
    """Of two nodes, on which one function each is wanted."""

    def wish(self) -> Json:
        return {
            "method": "apply",
            "kubeconfig": str(self.kubeconfig),
            "timeout": 1800,
            "engine": "dra",
            "claims": {"namespaces": ["default"]},
        }

    def wanted(self) -> dict[str, str]:
        """Node -> what DRANET calls the function that the plan wants there."""
        plan = load(self.output / "plan.json")
        (own,) = plan["groups"]["roce"]["classes"]
        found = {host: [match["pci"] for match in matches] for host, matches in own["matches"].items()}
        assert sorted(found) == NAMES
        return {host: device_name(pci) for host, (pci,) in found.items()}

    def published(self) -> dict[str, dict[str, Json]]:
        return published_by(self.kube)

    def device_class(self) -> str:
        """The one that was made of the plan. Templates are named after it."""
        (own,) = self.kube.list(f"{API}/deviceclasses", "list", labelSelector=f"{SYSTEM_LABEL}=dra")
        return str(own["metadata"]["name"])

    def given(self, pod: Pod) -> set[tuple[str, str]]:
        """{(node, device)} that the scheduler has given to the claims of a Pod."""
        return {
            (row["pool"], row["device"])
            for item in self.kube.list(CLAIMS, "list")
            if [owner["name"] for owner in item["metadata"].get("ownerReferences") or ()] == [pod.name]
            for row in ((item.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results") or ()
        }

    def claiming(self, name: str, node: str, command: str, *templates: str) -> Pod:
        """A Pod in the cluster's network with a claim by each of the templates."""
        return self.pod(name, node, command, resource=None, networks=[], templates=templates)

    def drivers(self, app: str) -> list[Json]:
        """DaemonSets of the device plugin or of DRANET."""
        return self.kube.list("/apis/apps/v1/daemonsets", "list", labelSelector=f"app.kubernetes.io/name={app}")

    @contextlib.contextmanager
    def watch(self) -> t.Iterator[dict[str, list[str]]]:
        """Node -> who offered its function, one after the other, meanwhile."""
        watch = Watch(self)
        watch.start()
        try:
            yield watch.seen
        finally:
            watch.ends.set()
            watch.join()
        assert not watch.trouble, watch.trouble[:3]
        assert watch.looks > 10

    def restore(self, node: str) -> None:
        """Brings back what Soft-RoCE has lost in a Pod, once the netdev is on the node again."""
        self.on(node, RESTORE.format(netdev=NETDEV, hca=HCA, address=ADDRESSES[node]))

    def clear(self) -> None:
        used = bool(self.pods)
        super().clear()
        for node in NAMES if used else ():
            self.restore(node)
