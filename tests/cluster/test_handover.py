# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the device plugin to DRANET and back on a real API server. kwok runs the Pods of both, kubelets.py is the plugin, Dranet the driver."""

from __future__ import annotations

import json
import threading
import time
import typing as t

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import DRA_LABEL, DRANET_DRIVER
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import Lease
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cel import NOTHING
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import device_name
from ansible_collections.fabric.rdma.tests.cluster.conftest import CAPTURES
from ansible_collections.fabric.rdma.tests.cluster.test_all_systems import (
    LINUX,
    RESOURCES,
    allocated,
    changes,
    forget_claims,
)

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

Json = dict[str, t.Any]
RESOURCE = "rdma/rdma_gb200"
SLICES = f"{RESOURCES}/resourceslices"
PODS = "/api/v1/namespaces/training/pods"
BACK = ("-e", json.dumps({"rdma_handover_to": "daemonset"}))


class Dranet(threading.Thread):
    """What the driver publishes of its nodes, and kubelets of a driver that is gone. Looks all the time whether both offer a function."""

    def __init__(self, kubeconfig: str, nodes: t.Mapping[str, str]) -> None:
        """nodes: the recording of each."""
        super().__init__(daemon=True)
        self.kube, self.nodes = Kube(kubeconfig), nodes
        self.ends = threading.Event()
        self.both: list[str] = []
        self.trouble: list[str] = []

    def run(self) -> None:
        while not self.ends.is_set():
            try:
                self.look()
            except KubeError:
                # an API server that is slow for a moment is looked at again
                pass
            except Exception as exc:
                # a thread that ends unseen would prove nothing
                self.trouble.append(repr(exc))
            time.sleep(0.2)

    def published(self) -> dict[str, list[str]]:
        items = self.kube.list(SLICES, "list slices")
        return {
            item["spec"]["nodeName"]: [each["name"] for each in item["spec"].get("devices") or ()] for item in items
        }

    def offered(self) -> list[str]:
        """Nodes on which the device plugin offers something."""
        nodes = self.kube.list("/api/v1/nodes", "list nodes")
        return [
            item["metadata"]["name"]
            for item in nodes
            if {value for key, value in (item["status"].get("allocatable") or {}).items() if key.startswith("rdma/")}
            - {"0"}
        ]

    def wanted(self) -> dict[str, list[str]]:
        found = {}
        for pod in self.kube.list("/api/v1/pods", "list Pods", labelSelector="app.kubernetes.io/name=dranet"):
            if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp"):
                silent = f"--filter={NOTHING}" in pod["spec"]["containers"][0]["args"]
                found[pod["spec"]["nodeName"]] = [] if silent else devices(self.nodes[pod["spec"]["nodeName"]])
        return found

    def look(self) -> None:
        there, wanted = self.published(), self.wanted()
        self.both += [name for name in self.offered() if there.get(name)]
        for node in self.nodes:
            path = f"{SLICES}/{node}-dranet"
            if node in there and there[node] != wanted.get(node):
                self.kube.request("DELETE", path, "delete")
            if node in wanted and there.get(node) != wanted[node]:
                pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
                own = [{"name": name} for name in wanted[node]]
                spec = {"driver": DRANET_DRIVER, "nodeName": node, "pool": pool, "devices": own}
                body = {"metadata": {"name": f"{node}-dranet"}, "spec": spec}
                self.kube.request("POST", SLICES, "publish", body=body)


def devices(capture: str) -> list[str]:
    """Of a recorded node."""
    facts = json.loads((CAPTURES / f"{capture}.expected.json").read_text())
    return sorted(device_name(row["pci"]) for row in facts["devices"] if row["pci"])


@pytest.fixture
def both(site: Site) -> t.Iterator[tuple[Site, Dranet]]:
    site.groups = {"gb200": dict(site.groups["gb200"])}
    site.nodes(LINUX)
    site.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": "training"}})
    forget_claims(site)
    driver = Dranet(str(site.kubeconfig), dict(site.groups["gb200"]["hosts"]))
    driver.start()
    yield site, driver
    driver.ends.set()
    driver.join()
    forget_claims(site)
    for item in site.kube.list(SLICES, "list"):
        site.kube.request("DELETE", f"{SLICES}/{item['metadata']['name']}", "delete")
    assert driver.both == []
    assert not driver.trouble, driver.trouble[:3]


def daemon_sets(site: Site, app: str) -> list[str]:
    items = site.kube.list("/apis/apps/v1/daemonsets", "list", labelSelector=f"app.kubernetes.io/name={app}")
    return [item["metadata"]["name"] for item in items]


def until(what: t.Callable[[], bool], run: t.Any) -> None:
    end = time.monotonic() + limit(300)
    while not what():
        assert run.poll() is None, run.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.3)


def test_a_class_goes_to_dranet_and_back_and_never_do_both_offer_it(both: tuple[Site, Dranet]) -> None:
    site, driver = both
    site.run("rollout")
    nodes = list(site.groups["gb200"]["hosts"])
    assert driver.offered() == nodes
    container = {"name": "c", "image": "i", "resources": {"limits": {RESOURCE: "1"}}}
    pod = {"metadata": {"name": "user"}, "spec": {"nodeName": nodes[0], "containers": [container]}}
    site.kube.request("POST", PODS, "make", body=pod)

    site.rollout |= {"engine": "dra", "timeout": int(limit(300))}
    plugin = site.objects()
    said = " ".join(site.run("handover", "--check").split())
    assert "gb200-device-1021: take the device plugin away: nobody gets the resource any more" in said
    assert "gb200-device-1021: let DRANET publish the devices" in said
    assert site.objects() == plugin

    # a Pod has a function: DRANET does not come before it has ended
    with site.start("handover") as run:
        until(lambda: site.objects() == {} and driver.offered() == [], run)
        for _look in range(10):
            assert daemon_sets(site, "dranet") == []
            assert driver.published() == {}
            time.sleep(0.3)
        site.kube.request("DELETE", f"{PODS}/user", "delete")
        output = run.communicate(timeout=limit(600))[0]
    assert run.returncode == 0, output
    assert driver.published() == {node: devices(node) for node in nodes}
    assert [DRA_LABEL in site.node(node)["metadata"]["labels"] for node in nodes] == [True, True]
    # nothing is left to do, and the rollout finds what it would have made
    assert changes(site.run("handover")) == 0
    assert changes(site.run("rollout")) == 0

    # a claim has one: DRANET stays until it is given back, also when the run is killed meanwhile
    allocated(site, nodes[0])
    with site.start("handover", *BACK) as run:
        until(lambda: driver.published() == {node: [] for node in nodes}, run)
        time.sleep(3)
        assert daemon_sets(site, "dranet") == ["dranet-gb200-device-1021"]
        assert daemon_sets(site, "rdma-shared-dp") == []
        run.kill()
    Lease(site.kube, "rdma", "").release(whoever=True)
    site.kube.request("DELETE", f"{RESOURCES}/namespaces/training/resourceclaims/user", "delete")
    site.run("handover", *BACK)
    assert driver.offered() == nodes
    assert driver.published() == {}
    assert daemon_sets(site, "dranet") == []
    assert changes(site.run("handover", *BACK)) == 0


def test_one_class_goes_alone_and_is_through_before_the_next_begins(both: tuple[Site, Dranet]) -> None:
    site, driver = both
    hosts = site.groups["gb200"]["hosts"]
    site.groups["gb200-two"] = {
        **site.groups["gb200"],
        "hosts": {"gb200-2": hosts.pop("gb200-2")},
        "rdma_resource": {"name": "rdma_two"},
    }
    site.run("rollout")
    assert driver.offered() == ["gb200-1", "gb200-2"]
    plugin = site.objects()
    container = {"name": "c", "image": "i", "resources": {"limits": {RESOURCE: "1"}}}
    pod = {"metadata": {"name": "user"}, "spec": {"nodeName": "gb200-1", "containers": [container]}}
    site.kube.request("POST", PODS, "make", body=pod)
    site.rollout |= {"engine": "dra", "timeout": int(limit(300))}

    # the second class alone: what the other one has stays untouched, and its Pod is not waited for
    site.run("handover", "-e", json.dumps({"rdma_handover_groups": ["gb200-two"]}))
    assert driver.published() == {"gb200-2": devices("gb200-2")}
    assert driver.offered() == ["gb200-1"]
    assert site.objects() == {name: version for name, version in plugin.items() if "gb200-two" not in name}
    assert len(site.objects()) == len(plugin) / 2

    # all that is left: what has moved already goes on while the Pod of the first is waited for
    with site.start("handover") as run:
        until(lambda: site.objects() == {} and driver.offered() == [], run)
        for _look in range(10):
            assert driver.published() == {"gb200-2": devices("gb200-2")}
            time.sleep(0.3)
        site.kube.request("DELETE", f"{PODS}/user", "delete")
        output = run.communicate(timeout=limit(600))[0]
    assert run.returncode == 0, output
    assert driver.published() == {node: devices(node) for node in ("gb200-1", "gb200-2")}

    # back, with a claim on the second: the first is the plugin's again before the second begins, and before the claim ends
    allocated(site, "gb200-2")
    with site.start("handover", *BACK) as run:
        until(lambda: driver.offered() == ["gb200-1"] and driver.published() == {"gb200-2": []}, run)
        for _look in range(10):
            assert [name for name in daemon_sets(site, "dranet") if "gb200-two" not in name] == []
            assert driver.published() == {"gb200-2": []}
            time.sleep(0.3)
        site.kube.request("DELETE", f"{RESOURCES}/namespaces/training/resourceclaims/user", "delete")
        output = run.communicate(timeout=limit(600))[0]
    assert run.returncode == 0, output
    assert driver.offered() == ["gb200-1", "gb200-2"]
    assert (driver.published(), daemon_sets(site, "dranet")) == ({}, [])
    assert set(site.objects()) == set(plugin)
