# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role ofed does with a node of a cluster around a change of the driver: drain.yml and uncordon.yml of its tasks."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
import time
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.tests.cluster.gate import Gate
from ansible_collections.fabric.rdma.tests.integration.conftest import ROOT, User
from ansible_collections.fabric.rdma.tests.integration.stand_ins import INBOX, RESTORED, Node, stand_in
from ansible_collections.fabric.rdma.tests.unit.kubeconfigs import kubeconfig_of

if t.TYPE_CHECKING:
    from conftest import Limited, Site

pytestmark = pytest.mark.cluster

PODS = "/api/v1/namespaces/rdma/pods"


def drained(site: Site, fails: bool = False, then: t.Collection[str] = (), **options: t.Any) -> str:
    """Output of the tasks for the host v100-1. then: tasks of the role that come after them."""
    options = {"ofed_kubeconfig": str(site.kubeconfig), **options}
    tasks: list[dict[str, t.Any]] = [
        {"ansible.builtin.include_role": {"name": "fabric.rdma.ofed", "tasks_from": name}, "vars": options}
        for name in ("drain", *then)
    ]
    play = {"hosts": "v100-1", "gather_facts": False, "connection": "local", "tasks": tasks}
    play["vars"] = {"ansible_python_interpreter": sys.executable}
    path = site.directory / "drain"
    path.with_suffix(".yml").write_text(yaml.safe_dump([play]))
    return " ".join(site.run(str(path), fails=fails).split())


AWAY = "rdma.fabric/away"


def away(site: Site, name: str = "v100-1") -> str | None:
    """What the label of a node that is away says; None for one that is not."""
    labels: dict[str, str] = site.node(name)["metadata"].get("labels", {})
    return labels.get(AWAY)


def label(site: Site, name: str, value: str | None) -> None:
    """Sets or removes that label."""
    site.kube.merge(f"/api/v1/nodes/{name}", "label", {"metadata": {"labels": {AWAY: value}}}, dry_run=False)


def names(site: Site) -> list[str]:
    """Pods on the node."""
    items = site.kube.list("/api/v1/pods", "list", fieldSelector="spec.nodeName=v100-1")
    return sorted(item["metadata"]["name"] for item in items if not item["metadata"].get("deletionTimestamp"))


def work(site: Site, kind: str, finalizers: t.Sequence[str] = (), **spec_of_pod: t.Any) -> None:
    """Somebody's Pod on the node, with a controller or without. finalizers: what keeps it from ending."""
    pod: dict[str, t.Any] = {
        **spec_of_pod,
        "nodeSelector": {"work": "here"},
        "containers": [{"name": "work", "image": "work"}],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    metadata = {"name": "work", "labels": {"app": "work"}}
    body: dict[str, t.Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}
    path = PODS
    if kind == "ReplicaSet":
        template = {"metadata": {"labels": {"app": "work"}, "finalizers": list(finalizers)}, "spec": pod}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "work"}}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
        path = "/apis/apps/v1/namespaces/rdma/replicasets"
    site.kube.merge("/api/v1/nodes/v100-1", "label", {"metadata": {"labels": {"work": "here"}}}, dry_run=False)
    site.kube.request("POST", path, "make work", body=body)
    end = time.monotonic() + limit(60)
    while not [name for name in names(site) if name.startswith("work")]:
        assert time.monotonic() < end, "nothing runs there"
        time.sleep(0.2)


def test_work_goes_and_the_device_plugin_stays(small: Site) -> None:
    small.run("rollout")
    work(small, "ReplicaSet")
    (plugin,) = [name for name in names(small) if name.startswith("rdma-shared-dp")]
    drained(small)
    assert names(small) == [plugin]
    assert small.node("v100-1")["spec"]["unschedulable"] is True
    assert away(small) == "was-in-work"
    # a run after one that was killed finds it cordoned by us, and still knows that it was in work
    drained(small)
    assert away(small) == "was-in-work"


def test_a_node_goes_back_to_work(small: Site) -> None:
    drained(small)
    assert small.node("v100-1")["spec"]["unschedulable"] is True
    assert away(small) == "was-in-work"
    # by the run after one that was killed, too
    drained(small, then=["uncordon"])
    assert "unschedulable" not in small.node("v100-1")["spec"]
    assert away(small) is None


def test_a_busy_api_server_keeps_no_node_out_of_work(small: Site) -> None:
    drained(small)
    kubeconfig = small.directory / "busy"
    with Gate(small.kubeconfig) as gate:
        kubeconfig.write_text(json.dumps(kubeconfig_of(gate.url, {})))
        # of each change twice; of the looks at the node the one before the drain and that of the drain once, and the one after it twice
        gate.busy = [True, True, False] * 2
        gate.busy_reads = [True, False, True, False, True, True, False]
        drained(small, then=["uncordon"], ofed_kubeconfig=str(kubeconfig))
        assert (gate.busy, gate.busy_reads) == ([], [])
    assert "unschedulable" not in small.node("v100-1")["spec"]
    assert away(small) is None


def test_a_busy_api_server_ends_no_drain(small: Site) -> None:
    small.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": "rdma"}})
    work(small, "ReplicaSet")
    kubeconfig = small.directory / "busy"
    with Gate(small.kubeconfig) as gate:
        kubeconfig.write_text(json.dumps(kubeconfig_of(gate.url, {})))
        # the label, the cordon, and the eviction of the one Pod: each is refused once
        gate.busy = [True, False] * 3
        drained(small, ofed_kubeconfig=str(kubeconfig))
        assert gate.busy == []
        assert [change.rpartition("/")[2] for change in gate.changes] == ["v100-1", "v100-1", "eviction"]
    assert names(small) == []
    assert small.node("v100-1")["spec"]["unschedulable"] is True


def test_a_node_whose_work_does_not_end_is_not_changed(small: Site) -> None:
    """k8s_drain only warns when its time is over."""
    small.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": "rdma"}})
    work(small, "ReplicaSet", ["test.example/stays"])
    (name,) = names(small)
    try:
        options = {"ignore_daemonsets": True, "delete_emptydir_data": True, "wait_timeout": 3, "wait_sleep": 1}
        said = drained(small, fails=True, ofed_drain_options=options)
    finally:
        for pod in small.kube.list(PODS, "list"):
            path = f"{PODS}/{pod['metadata']['name']}"
            small.kube.merge(path, "let go", {"metadata": {"finalizers": None}}, dry_run=False)
    assert re.search(rf"v100-1 is not drained: rdma/{name} \(told to end by \S+\) is still there after 3 seconds", said)
    # the next run goes on where this one has ended
    assert small.node("v100-1")["spec"]["unschedulable"] is True
    assert away(small) == "was-in-work"


def test_a_pod_that_comes_back_in_spite_of_the_cordon_keeps_no_node_from_a_change(small: Site) -> None:
    """The scheduler puts what tolerates a cordon on the node again, as often as it is evicted."""
    small.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": "rdma"}})
    work(small, "ReplicaSet", tolerations=[{"operator": "Exists"}])
    (before,) = names(small)
    drained(small)
    end = time.monotonic() + limit(60)
    while not names(small):
        assert time.monotonic() < end, "it has not come back"
        time.sleep(0.2)
    assert names(small) != [before]
    # again, with one that is there from the beginning
    drained(small)


def test_an_eviction_that_nobody_has_allowed_ends_a_drain_at_once(small: Site, limited: Limited) -> None:
    small.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": "rdma"}})
    work(small, "ReplicaSet")
    limited.grant(
        "fabric-rdma-looks",
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
    )
    said = drained(small, fails=True, ofed_kubeconfig=str(limited.kubeconfig))
    assert "forbidden" in said
    assert "RETRYING" not in said


def test_a_drain_with_an_option_that_there_is_not_ends_at_once(small: Site) -> None:
    said = drained(small, fails=True, ofed_drain_options={"ignore_daemonset": True})
    assert "ignore_daemonset" in said
    assert "RETRYING" not in said


def test_a_budget_is_waited_for(small: Site) -> None:
    """As that of Pods whose replacements are not ready yet."""
    small.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": "rdma"}})
    work(small, "ReplicaSet")
    budgets = "/apis/policy/v1/namespaces/rdma/poddisruptionbudgets"
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "work"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "work"}, "spec": spec}
    small.kube.request("POST", budgets, "make a budget", body=budget)
    allowed: list[float] = []

    def allow() -> None:
        # once the node takes no more work, the budget has refused, or is about to
        end = time.monotonic() + limit(120)
        while not small.node("v100-1")["spec"].get("unschedulable") and time.monotonic() < end:
            time.sleep(0.2)
        time.sleep(2)
        allowed.append(time.monotonic())
        small.kube.request("DELETE", f"{budgets}/work", "take the budget away", body={})

    other = threading.Thread(target=allow)
    other.start()
    said = drained(small)
    other.join()
    assert allowed
    assert "disruption budget" in said or "FAILED - RETRYING" in said
    assert names(small) == []


# The last step of an installation that fails. Modules that would change this machine are stand-ins, those that speak with the cluster are not.
DOES_NOT_INSTALL = {"name": "Install", "ansible.builtin.fail": {"msg": "it does not compile"}}
DOWN: dict[str, t.Any] = {**INBOX, "devices": []}


@pytest.fixture
def changing(small: Site, tmp_path: Path) -> Node:
    """v100-1, whose driver is changed by the whole role, and how its modules answer."""
    source = tmp_path / "source"
    there = source / "ansible_collections"
    for name in ("docs", "meta", "plugins", "roles"):
        shutil.copytree(ROOT / name, there / "fabric" / "rdma" / name)
    shutil.copy(ROOT / "galaxy.yml", there / "fabric" / "rdma")
    for other in (ROOT / ".collections" / "ansible_collections").iterdir():
        if other.name != "fabric":
            (there / other.name).symlink_to(other)
    return stand_in(User(tmp_path, source, {**os.environ, "ANSIBLE_NOCOLOR": "1"}), tmp_path)


@pytest.mark.parametrize(
    ("restored", "after", "reason"),
    [
        (RESTORED, INBOX, None),
        ({**RESTORED, "left": ["rdma-core: 50 is nowhere"], "complete": False}, INBOX, "not put back: rdma-core: 50"),
        (RESTORED, DOWN, "mlx5_0 (0000:5e:00.0) port 1 was Active and is gone"),
    ],
    ids=["as before", "not put back", "worse"],
)
def test_a_node_that_is_not_healthy_after_the_change_stays_out_of_work(
    small: Site, changing: Node, restored: dict[str, t.Any], after: dict[str, t.Any], reason: str | None
) -> None:
    """And one that is what it was before goes back, as somebody else is told of the failure."""
    changing.answers["driver_packages restored"] = [restored]
    changing.answers["ib_facts"] = [{"ansible_facts": {"rdma": facts}} for facts in (INBOX, after)]
    options = {"ofed_kubeconfig": str(small.kubeconfig), "ofed_node_name": "v100-1", "discover_wait_timeout": 1}
    said = changing.play(DOES_NOT_INSTALL, **options)
    assert "it does not compile" in said, said
    assert (reason or "as before") in said
    assert ("It stays out of service" in said) is (reason is not None)
    assert small.node("v100-1")["spec"].get("unschedulable", False) is (reason is not None)
    assert away(small) == ("was-in-work" if reason else None)


def test_a_node_that_somebody_else_has_cordoned_stays_so(small: Site) -> None:
    small.kube.merge("/api/v1/nodes/v100-1", "cordon", {"spec": {"unschedulable": True}}, dry_run=False)
    drained(small, then=["uncordon"])
    assert small.node("v100-1")["spec"]["unschedulable"] is True
    assert away(small) is None


HAD = "rdma.fabric/had"


def had(site: Site) -> str | None:
    """What is kept of a node that is away."""
    annotations: dict[str, str] = site.node("v100-1")["metadata"].get("annotations", {})
    return annotations.get(HAD)


def reported(site: Site) -> None:
    """Whatever the cluster says of the node comes from the test."""
    end = time.monotonic() + limit(60)
    while ("Ready", "True") not in [
        (condition["type"], condition["status"])
        for condition in site.node("v100-1").get("status", {}).get("conditions", [])
    ]:
        assert time.monotonic() < end, "the node is not ready"
        time.sleep(0.2)
    site.kubelets.falls_silent("v100-1")


def offer(site: Site, count: str) -> None:
    """The node's plugin, and one of somebody else, whose count does not matter."""
    counts = {"rdma/rdma_x": count, "example.com/none": "0", "example.com/gpu": "8", "x.kubernetes.io/y": "1"}
    site.kubelets.patch("v100-1", {"capacity": counts, "allocatable": counts})


def test_a_node_goes_back_once_it_offers_what_it_offered(small: Site) -> None:
    reported(small)
    offer(small, "63")
    drained(small)
    assert had(small) == "Ready,example.com/gpu,rdma/rdma_x"
    # what a plugin that has not registered leaves, and a run after one that was killed
    offer(small, "0")
    output = drained(small, then=["uncordon"], fails=True, ofed_reboot_timeout=5)
    assert (
        "v100-1 stays out of service: within 5 seconds, the cluster has not reported again what it did before the drain: rdma/rdma_x."
        in output
    )
    assert small.node("v100-1")["spec"]["unschedulable"] is True
    assert (away(small), had(small)) == ("was-in-work", "Ready,example.com/gpu,rdma/rdma_x")
    registers = threading.Timer(15, offer, (small, "1"))
    registers.start()
    drained(small, then=["uncordon"], ofed_reboot_timeout=int(limit(120)))
    # it was waited for
    assert not registers.is_alive()
    assert "unschedulable" not in small.node("v100-1")["spec"]
    assert (away(small), had(small)) == (None, None)


def test_a_node_whose_resource_is_gone_for_good_goes_back_when_it_is_told_to(small: Site) -> None:
    reported(small)
    offer(small, "63")
    drained(small)
    offer(small, "0")
    small.kubelets.annotate("v100-1", HAD, None)
    drained(small, then=["uncordon"], ofed_reboot_timeout=5)
    assert "unschedulable" not in small.node("v100-1")["spec"]
    assert (away(small), had(small)) == (None, None)


def test_a_node_that_stays_away_is_told_from_one_that_is_back(small: Site) -> None:
    """By the start of the machine that its kubelet has reported: until it does, the cluster says what it said before the boot."""
    reported(small)
    now = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    small.kubelets.patch("v100-1", {"nodeInfo": {"bootID": now}})
    drained(small)
    assert (had(small) or "").startswith("BootID,Ready")
    # the node of the test does not restart: it is the report that is of another start
    small.kubelets.patch("v100-1", {"nodeInfo": {"bootID": "of an earlier start"}})
    output = drained(small, then=["uncordon"], fails=True, ofed_reboot_timeout=5)
    assert "within 5 seconds: BootID." in output
    small.kubelets.patch("v100-1", {"nodeInfo": {"bootID": now}})
    drained(small, then=["uncordon"], ofed_reboot_timeout=5)
    assert (away(small), had(small)) == (None, None)


def test_not_more_nodes_are_away_than_allowed(small: Site) -> None:
    label(small, "v100-2", "was-in-work")
    output = drained(small, fails=True)
    assert (
        "v100-1 is not drained: v100-2 is away already (label rdma.fabric/away), and rdma_max_unavailable is 1"
        in output
    )
    assert "unschedulable" not in small.node("v100-1")["spec"]
    assert away(small) is None
    drained(small, ofed_max_unavailable=2)
    assert small.node("v100-1")["spec"]["unschedulable"] is True
    assert away(small, "v100-2") == "was-in-work"


def test_a_node_that_is_away_already_comes_back_whatever_the_limit_is_now(small: Site) -> None:
    """Two were away when their run was killed, and the next one lets one be away at a time."""
    for name in ("v100-1", "v100-2"):
        label(small, name, "was-in-work")
    drained(small, then=["uncordon"])
    assert "unschedulable" not in small.node("v100-1")["spec"]
    assert (away(small), away(small, "v100-2")) == (None, "was-in-work")


def test_a_pod_that_nobody_would_make_again_is_not_killed(small: Site) -> None:
    small.run("rollout")
    work(small, "Pod")
    output = drained(small, fails=True)
    assert "v100-1 is not drained: nothing would recreate rdma/work" in output
    assert "work" in names(small)
    assert "unschedulable" not in small.node("v100-1")["spec"]
    assert away(small) is None
    drained(small, ofed_drain_options={"force": True, "delete_emptydir_data": True, "ignore_daemonsets": True})
    assert "work" not in names(small)


def test_a_node_that_the_cluster_does_not_have_is_named(small: Site) -> None:
    output = drained(small, ofed_node_name="elsewhere", fails=True)
    assert "has no node elsewhere; set ofed_node_name of v100-1" in output
    assert "unschedulable" not in small.node("v100-1")["spec"]
