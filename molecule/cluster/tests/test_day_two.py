# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of nodes and Pods after site.yml: faults, second runs, cables and wishes that change."""

from __future__ import annotations

import subprocess

import nodes
import pytest
import yaml
from checks import (
    SHARES,
    USER,
    assert_bandwidth,
    assert_device_and_memory,
    assert_exact,
    assert_measured,
    bandwidth,
    changes,
)
from pods import CABLED, INVENTORY, NAMES, POD_IMAGE, PODS, RESOURCE, Site

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import TRAFFIC_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import OWN_SELECTOR
from ansible_collections.fabric.rdma.tests.unit.contracts import load

ISCSI = ("iscsid.socket", "iscsid.service")


def test_verify_measures_between_pods(site: Site) -> None:
    """What the playbook makes of it: traffic, limits and files of Pods in evidence and report, and no Pod is left."""
    site.run("verify", verify_level="pods", verify_pod_image=POD_IMAGE, verify_pod_users=[USER, 0])
    evidence = load(site.output / "evidence" / "a100.json")
    tests, looks = evidence["tests"], evidence["inspections"]
    # as an ordinary user and as root, on every node
    assert sorted((look["host"], look["user"]) for look in looks) == sorted((n, u) for n in NAMES for u in (USER, 0))
    for look in looks:
        assert look["verdict"] == "pass", look["message"]
        assert (look["memlock"], look["ipc_lock"]) == ({"soft": "unlimited", "hard": "unlimited"}, False)
        assert look["devices"] == [CABLED[look["host"]]]
        assert set(look["files"]) == site.files_of(look["host"], CABLED[look["host"]])
        assert look["memory_bytes"] is None
    assert {test["test"] for test in tests} == {"ib_write_bw", "ib_write_lat"}
    # no node is left out
    assert {test[side]["host"] for test in tests for side in ("client", "server")} == set(NAMES)
    for test in tests:
        print(f"{test['test']} between Pods: {test['message']}")
        assert (test["level"], test["verdict"]) == ("pods", "pass")
        assert test["client"]["host"] != test["server"]["host"]
        assert test["pods"]["user"] == USER
        assert test["pods"]["memlock"] == {"soft": "unlimited", "hard": "unlimited"}
        for side in ("client", "server"):
            host = test[side]["host"]
            assert test[side]["device"] == CABLED[host]
            assert set(test["pods"]["files"][side]) == site.files_of(host, CABLED[host])
    assert_bandwidth(evidence)
    assert site.kube.list(PODS, "list", labelSelector=TRAFFIC_LABEL) == []
    site.run("report")
    assert "between Pods" in (site.output / "summary.txt").read_text()


def test_a_cordoned_and_tainted_node_keeps_its_resource(site: Site) -> None:
    taint = {"key": "account", "value": "x", "effect": "NoExecute"}
    before = site.plugin_pod("lab1")["metadata"]["uid"]
    site.core.patch_node("lab1", {"spec": {"unschedulable": True, "taints": [taint]}})
    try:
        site.take_plugin("lab1")
        site.wait("it is back", lambda: site.allocatable("lab1") == SHARES, seconds=300)
        assert site.plugin_pod("lab1")["metadata"]["uid"] != before
    finally:
        site.core.patch_node("lab1", {"spec": {"unschedulable": None, "taints": None}})


def units(site: Site, node: str) -> set[str]:
    """Those of iscsid's units that are active and are started at boot, which a service is not that its socket has started."""
    said = site.on(node, f"systemctl is-active {' '.join(ISCSI)}; systemctl is-enabled {' '.join(ISCSI)}; true").split()
    states = zip(ISCSI, said[: len(ISCSI)], said[len(ISCSI) :], strict=True)
    return {unit for unit, active, enabled in states if (active, enabled) == ("active", "enabled")}


def test_a_node_that_restarts(site: Site) -> None:
    """Resource, plugin, devices, limits, what waits for iSCSI: all of it is back without us."""
    before, started = nodes.boot_id("lab2"), units(site, "lab2")
    assert before
    assert started
    subprocess.run(nodes.command("lab2", "systemctl", "reboot"), stdin=subprocess.DEVNULL, check=False)
    site.wait("it has started again", lambda: nodes.boot_id("lab2") not in ("", before), seconds=300)
    now = nodes.boot_id("lab2")

    def at_work() -> bool:
        """As its kubelet says it that has started since."""
        found = site.node("lab2")["status"]["nodeInfo"]["bootID"] == now
        return found and site.allocatable("lab2") == SHARES

    site.wait("the plugin has registered again", at_work, seconds=400)
    for user in (USER, 0):
        assert_device_and_memory(site, user)
    assert bandwidth(site, USER) > 0
    assert units(site, "lab2") == started
    assert set(site.on("lab2", "ls /sys/module").split()) >= {"iscsi_tcp", "nfs"}


def test_a_second_run_changes_nothing(site: Site) -> None:
    """Also of a node that has started again since the first one."""
    assert changes(site.run("site")) == dict.fromkeys((*NAMES, "localhost"), 0)
    assert_measured(site)


def cable(site: Site, first: bool, second: bool) -> None:
    """Plugs the cables of the two cards of lab1 in or out."""
    wished = yaml.safe_load((INVENTORY / "group_vars" / "all.yml").read_text())["lab_nodes"]
    wished[0]["hcas"][:2] = [{"name": "mlx5_0", "cable": first}, {"name": "mlx5_1", "cable": second}]
    assert sum(changes(site.run("lab", lab_nodes=wished)).values()) == 1


@pytest.mark.parametrize(
    ("first", "second", "hcas"),
    [(False, True, {"mlx5_1"}), (True, True, {"mlx5_0", "mlx5_1"}), (True, False, {"mlx5_0"})],
    ids=["the other card", "both cards", "the first card again"],
)
def test_plan_plugin_and_pods_follow_the_cable(site: Site, first: bool, second: bool, hcas: set[str]) -> None:
    """The fabric moves to other cards of a node: the plan, the plugin and Pods go with it, and the resource stays."""
    cable(site, first, second)
    site.run("rollout")
    site.wait("it is offered", lambda: site.allocatable("lab1") == SHARES, seconds=300)
    assert assert_exact(site, "lab1") == hcas


def test_a_bond_and_a_renamed_device_reach_pods(site: Site) -> None:
    """The bond in place of the cards, and a card whose RDMA device has another name."""
    want = {"link_layer": "Ethernet", "kinds": ["software"], "exclude": ["mlx5_0", "mlx5_1"]}
    site.run("rollout", rdma_want=want)
    for name in NAMES:
        site.wait("it is offered", lambda name=name: site.allocatable(name) == SHARES, seconds=300)
        assert assert_exact(site, name) == {"mlx5_bond_0"}
    site.on("lab1", "rdma dev set mlx5_0 name roce0")
    try:
        site.run("rollout")
        site.wait("it is offered", lambda: site.allocatable("lab1") == SHARES, seconds=300)
        assert assert_exact(site, "lab1") == {"roce0"}
    finally:
        site.on("lab1", "rdma dev set roce0 name mlx5_0")
    site.run("rollout")


def test_a_changed_wish_rolls_the_plugin_and_retires_the_old_resource(site: Site) -> None:
    """The DaemonSet is rolled, the new resource comes, and the old one goes for good from real kubelets."""
    new, fewer = "rdma/rdma_new", 31
    before = {name: site.plugin_pod(name)["metadata"]["uid"] for name in NAMES}
    rolled = daemon_sets(site)
    site.run("rollout", rdma_resource={"name": "rdma_new", "hca_max": fewer})
    for name in NAMES:
        # the rollout itself has waited for it
        assert site.allocatable(name, new) == fewer
        assert site.plugin_pod(name)["metadata"]["uid"] != before[name]
        site.wait("the old one is not", lambda name=name: not site.allocatable(name), seconds=60)
    # the very one, with another template
    assert daemon_sets(site).keys() == rolled.keys()
    assert all(generation > rolled[uid] for uid, generation in daemon_sets(site).items())
    pod = site.pod("new", "lab1", "ls /dev/infiniband", resource=new)
    assert set(pod.result().split()) == site.files_of("lab1", CABLED["lab1"])
    # for five minutes the kubelet would put it back
    for name in NAMES:
        site.wait("the kubelet has given it up", lambda name=name: capacity(site, name) == 0, seconds=400)
    rollout = {"kubeconfig": str(site.kubeconfig)}
    site.run("cleanup_stale", rdma_stale_resources=[RESOURCE], rdma_rollout=rollout, rdma_stale_verify=60)
    for name in NAMES:
        assert capacity(site, name) is None
        assert site.allocatable(name) is None
        assert site.allocatable(name, new) == fewer
    # as it was
    site.run("rollout")
    for name in NAMES:
        site.wait("the first one is offered again", lambda name=name: site.allocatable(name) == SHARES, seconds=300)


def daemon_sets(site: Site) -> dict[str, int]:
    """uid -> generation of those of the device plugin."""
    items = site.kube.list("/apis/apps/v1/daemonsets", "list", labelSelector=OWN_SELECTOR)
    assert items
    return {item["metadata"]["uid"]: item["metadata"]["generation"] for item in items}


def capacity(site: Site, node: str) -> int | None:
    found = site.node(node)["status"].get("capacity", {}).get(RESOURCE)
    return None if found is None else int(found)
