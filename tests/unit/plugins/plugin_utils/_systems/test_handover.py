# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import rollout_request
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.handover import Seen, unmet
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import RequestError
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_objects import without_devices
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.handover import handover, handover_plan
from ansible_collections.fabric.rdma.tests.unit.contracts import rollout_settings
from ansible_collections.fabric.rdma.tests.unit.examples import examples
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import a_site

Json = dict[str, Any]
RESOURCE = "rdma/rdma_x"


def a_class(name: str, *nodes: str) -> Any:
    meta = {"name": f"dranet-{name}", "namespace": "kube-system"}
    container = {"name": "dranet", "args": ["/dranet", "--filter=all"]}
    template = {"spec": {"nodeSelector": {"rdma.fabric/dra": name}, "containers": [container]}}
    return {
        "name": name,
        "group": "g",
        "nodes": list(nodes),
        "resources": {RESOURCE: 63},
        "devices": {node: ["pci-0000-3b-00-0"] for node in nodes},
        "daemon_set": {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": {"template": template}},
        "device_classes": [
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": f"{name}-x"}}
        ],
        "templates": [],
    }


def plugin_of(name: str) -> list[Json]:
    meta = {"name": f"rdma-shared-dp-{name}", "namespace": "kube-system"}
    template = {"spec": {"nodeSelector": {"rdma.fabric/class": name}, "containers": [{"name": "rdma-shared-dp"}]}}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta},
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": {"template": template}},
    ]


CLASSES = [a_class("a", "n1", "n2"), a_class("b", "n3")]
PLUGIN = {each["name"]: plugin_of(each["name"]) for each in CLASSES}
NODES = {"n1": "a", "n2": "a", "n3": "b"}
DEVICE = "pci-0000-3b-00-0"


class Cluster:
    """What controllers, kubelets, drivers and users do, each a little behind: objects as the API has them come of it.

    DaemonSets change Pods on nodes one by one; a plugin's or driver's Pod that starts or ends changes what is offered some time later;
    users ask for what is offered, and end when they like. Nothing waits for anything but for what it sees.
    """

    def __init__(self, engine: str) -> None:
        self.sets: dict[str, Json] = {}
        self.classes: set[str] = set()
        # those of nodes; the plugin's is on all of them
        self.labels: dict[str, str | None] = dict.fromkeys(NODES)
        # node -> name and specification of the Pods of DaemonSets there
        self.running: dict[str, dict[str, Json]] = {node: {} for node in NODES}
        # what is offered on nodes, as kubelets and API say it
        self.plugin: set[str] = set()
        self.published: dict[str, bool] = {}
        # who has the function of a node, and through whom
        self.users: dict[str, tuple[str, str]] = {}
        self.count = 0
        for each in CLASSES:
            if engine == "daemonset":
                for item in PLUGIN[each["name"]]:
                    self.apply(item)
            else:
                for item in (*each["device_classes"], each["daemon_set"]):
                    self.apply(item)
                self.labels.update(dict.fromkeys(each["nodes"], each["name"]))

    # -- the API

    def apply(self, item: Json) -> None:
        if item["kind"] == "DaemonSet":
            self.sets[item["metadata"]["name"]] = copy.deepcopy(item)
        if item["kind"] == "DeviceClass":
            self.classes.add(item["metadata"]["name"])

    def delete(self, item: Json) -> None:
        self.sets.pop(item["metadata"]["name"], None) if item["kind"] == "DaemonSet" else None
        self.classes.discard(item["metadata"]["name"])

    def label(self, labels: Any) -> None:
        for node, own in labels.items():
            self.labels[node] = own["rdma.fabric/dra"]

    def here(self, item: Json, node: str) -> bool:
        """Whether a DaemonSet is for a node."""
        [(key, slug)] = item["spec"]["template"]["spec"]["nodeSelector"].items()
        return bool(slug == (self.labels[node] if key == "rdma.fabric/dra" else NODES[node]))

    def seen(self) -> Seen:
        nodes = [
            {"metadata": {"name": node}, "status": {"allocatable": {RESOURCE: "63" if node in self.plugin else "0"}}}
            for node in NODES
        ]
        pods = []
        for node, running in self.running.items():
            for name in running:
                owner = {"kind": "DaemonSet", "name": name}
                meta = {"name": f"{name}-{node}", "namespace": "kube-system", "ownerReferences": [owner]}
                pods.append({"metadata": meta, "spec": {"nodeName": node, "containers": []}})
        claims = []
        for node, (user, way) in self.users.items():
            asked = {"limits": {RESOURCE: "1"}} if way == "plugin" else {}
            container = {"name": "main", "resources": asked}
            meta = {"name": user, "namespace": "default"}
            pods.append({"metadata": meta, "spec": {"nodeName": node, "containers": [container]}})
            if way == "dra":
                row = {"driver": "dra.net", "pool": node, "device": DEVICE, "request": "rdma"}
                claims.append({"metadata": meta, "status": {"allocation": {"devices": {"results": [row]}}}})
        slices = [
            {
                "metadata": {"name": f"{node}-dra.net"},
                "spec": {"driver": "dra.net", "nodeName": node, "devices": [{"name": DEVICE}] if devices else []},
            }
            for node, devices in self.published.items()
        ]
        sets = []
        for name, item in self.sets.items():
            own = [node for node in NODES if self.here(item, node)]
            updated = sum(self.running[node].get(name) == item["spec"] for node in own)
            there = sum(name in self.running[node] for node in own)
            meta = {**item["metadata"], "generation": 1}
            status = {
                "observedGeneration": 1,
                "desiredNumberScheduled": len(own),
                "updatedNumberScheduled": updated,
                "numberReady": there,
            }
            sets.append({"metadata": meta, "status": status})
        return {"nodes": nodes, "pods": pods, "daemon_sets": sets, "slices": slices, "claims": claims}

    # -- the others

    def events(self) -> list[Any]:
        """What may happen next, in a stable order."""
        found: list[Any] = []
        for node, slug in NODES.items():
            running = self.running[node]
            for name, item in sorted(self.sets.items()):
                if self.here(item, node) and running.get(name) != item["spec"]:
                    found.append(("roll", node, name))
            found += [
                ("end", node, name)
                for name in sorted(running)
                if name not in self.sets or not self.here(self.sets[name], node)
            ]
            if (f"rdma-shared-dp-{slug}" in running) != (node in self.plugin):
                found.append(("kubelet", node, slug))
            driver = running.get(f"dranet-{slug}")
            wanted = None if driver is None else "--filter=all" in driver["template"]["spec"]["containers"][0]["args"]
            # a kubelet tells of a driver that is gone; the driver itself of what it publishes
            if wanted != self.published.get(node):
                found.append(("slice", node, wanted))
            if node in self.users:
                # a driver that is gone takes nothing back
                if self.users[node][1] == "plugin" or f"dranet-{slug}" in running:
                    found.append(("leave", node, ""))
            else:
                if node in self.plugin:
                    found.append(("ask", node, "plugin"))
                if self.published.get(node) and f"{slug}-x" in self.classes:
                    found.append(("ask", node, "dra"))
        return found

    def happen(self, event: Any) -> None:
        what, node, more = event
        if what == "roll":
            self.running[node][more] = copy.deepcopy(self.sets[more]["spec"])
        elif what == "end":
            del self.running[node][more]
        elif what == "kubelet":
            self.plugin ^= {node}
        elif what == "slice":
            self.published.pop(node, None) if more is None else self.published.update({node: more})
        elif what == "leave":
            del self.users[node]
        else:
            self.count += 1
            self.users[node] = (f"user-{self.count}", more)

    def settle(self) -> None:
        while ahead := [event for event in self.events() if event[0] not in ("ask", "leave")]:
            self.happen(ahead[0])

    def check(self) -> None:
        for node, slug in NODES.items():
            offers = {name for name, on in (("plugin", node in self.plugin), ("dra", self.published.get(node))) if on}
            users = {self.users[node][1]} if node in self.users else set()
            assert len(offers | users) < 2, (node, offers, users)
            if users == {"dra"}:
                assert f"dranet-{slug}" in self.running[node], "nobody would take the device back"


# What may happen, by its sort. An order of them says what is slow: the last happens when nothing else can.
SORTS = ("roll", "end", "kubelet", "slice", "ask", "leave")


def run(before: str, after: str, draw: Any, cluster: Cluster, stop: int | None = None) -> bool:
    """Follows the steps as an engine does; False when it gave up in the middle (stop: after so many looks)."""
    looks = 0
    order = draw(st.none() | st.permutations(SORTS))
    for step in handover(before, after, CLASSES, PLUGIN):
        for item in step["delete"]:
            cluster.delete(item)
            cluster.check()
        cluster.label(step["labels"])
        for item in step["apply"]:
            cluster.apply(item)
            cluster.check()
        while any(unmet(condition, cluster.seen()) for condition in step["wait"]):
            looks += 1
            if looks == stop:
                return False
            # users end when the run is long enough
            ahead = [event for event in cluster.events() if event[0] != "ask" or looks <= 40]
            assert ahead, "it waits for what never comes"
            if order:
                first = min(order.index(event[0]) for event in ahead)
                ahead = [event for event in ahead if order.index(event[0]) == first]
            cluster.happen(ahead[draw(st.integers(0, len(ahead) - 1))])
            cluster.check()
    return True


WAYS = st.sampled_from([("daemonset", "dra"), ("dra", "daemonset")])


def started(engine: str) -> Cluster:
    cluster = Cluster(engine)
    cluster.settle()
    cluster.check()
    return cluster


def offering(cluster: Cluster) -> str:
    if cluster.plugin == set(NODES) and not cluster.published:
        return "daemonset"
    return "dra" if not cluster.plugin and cluster.published == dict.fromkeys(NODES, True) else "something else"


@examples(150)
@given(WAYS, st.data())
def test_at_no_moment_do_both_offer_or_lend_a_function(way: tuple[str, str], data: st.DataObject) -> None:
    cluster = started(way[0])
    assert offering(cluster) == way[0]
    assert run(*way, data.draw, cluster)
    cluster.settle()
    cluster.check()
    assert offering(cluster) == way[1]
    assert set(cluster.labels.values()) == ({"a", "b"} if way[1] == "dra" else {None})


@examples(100)
@given(WAYS, st.integers(1, 30), st.data())
def test_a_run_that_ends_in_the_middle_is_taken_up_by_the_next_or_turned_back(
    way: tuple[str, str], stop: int, data: st.DataObject
) -> None:
    cluster = started(way[0])
    run(*way, data.draw, cluster, stop)
    there = way if data.draw(st.booleans()) else way[::-1]
    assert run(*there, data.draw, cluster)
    cluster.settle()
    cluster.check()
    assert offering(cluster) == there[1]


def test_a_second_run_changes_nothing() -> None:
    cluster = started("daemonset")
    for item in handover("daemonset", "dra", CLASSES, PLUGIN):
        for each in item["delete"]:
            cluster.delete(each)
        cluster.label(item["labels"])
        for each in item["apply"]:
            cluster.apply(each)
        cluster.settle()
        assert [unmet(condition, cluster.seen()) for condition in item["wait"]] == [[] for _each in item["wait"]]
    before = copy.deepcopy(vars(cluster))
    for item in handover("daemonset", "dra", CLASSES, PLUGIN)[:2]:
        for each in item["delete"]:
            cluster.delete(each)
        assert not any(unmet(condition, cluster.seen()) for condition in item["wait"])
    assert vars(cluster) == before


def test_one_class_is_through_before_the_next_begins() -> None:
    for way in (("daemonset", "dra"), ("dra", "daemonset")):
        names = [step["class_name"] for step in handover(*way, CLASSES, PLUGIN)]
        assert names == sorted(names)
        assert set(names) == {"a", "b"}


def test_the_test_sees_a_way_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the waits, the same cluster has a moment with both."""
    cluster = started("daemonset")
    for step in handover("daemonset", "dra", CLASSES[:1], PLUGIN):
        for item in step["delete"]:
            cluster.delete(item)
        cluster.label(step["labels"])
        for item in step["apply"]:
            cluster.apply(item)
    for what in ("roll", "slice"):
        cluster.happen(next(event for event in cluster.events() if event[0] == what))
    with pytest.raises(AssertionError, match="plugin"):
        cluster.check()


@pytest.mark.parametrize(
    ("before", "after"),
    [("dra", "dra"), ("network_operator", "dra"), ("dra", "network_operator"), ("daemonset", "network_operator")],
)
def test_other_ways_are_refused(before: str, after: str) -> None:
    with pytest.raises(
        RequestError, match=re.escape(f"there is no way from engine {before} to {after}, one class at a time")
    ):
        handover(before, after, CLASSES, PLUGIN)


def test_a_class_without_its_plugin_is_refused() -> None:
    with pytest.raises(RequestError, match=r"no objects of class b\. Plan all groups in this run"):
        handover("daemonset", "dra", CLASSES, {"a": PLUGIN["a"]})


NOTHING: Seen = {"nodes": [], "pods": [], "daemon_sets": [], "slices": [], "claims": []}
SET = {"name": "d", "namespace": "kube-system"}


@pytest.mark.parametrize(
    ("condition", "seen", "words"),
    [
        ({"what": "rolled_out", "nodes": ["n1"], **SET}, {}, ["DaemonSet d is not there"]),
        (
            {"what": "rolled_out", "nodes": ["n1"], **SET},
            {"daemon_sets": [{"metadata": {**SET, "generation": 2}, "status": {"observedGeneration": 1}}]},
            ["DaemonSet d: its newest version is not looked at yet"],
        ),
        (
            {"what": "rolled_out", "nodes": ["n1"], **SET},
            {"daemon_sets": [{"metadata": {**SET, "generation": 1}, "status": {"observedGeneration": 1}}]},
            [
                f"DaemonSet d: {key} is 0 of 1"
                for key in ("desiredNumberScheduled", "updatedNumberScheduled", "numberReady")
            ],
        ),
        (
            {"what": "allocatable", "nodes": ["n1"], "resources": {RESOURCE: 63}},
            {},
            [f"node n1: allocatable {RESOURCE} is 0, not 63"],
        ),
        (
            {"what": "not_allocatable", "nodes": ["n1"], "resources": {RESOURCE: 0}},
            {"nodes": [{"metadata": {"name": "n1"}, "status": {"allocatable": {RESOURCE: "63"}}}]},
            [f"node n1: allocatable {RESOURCE} is 63, not 0"],
        ),
        (
            {"what": "not_requested", "nodes": ["n1"], "resources": {RESOURCE: 0}},
            {
                "pods": [
                    {
                        "metadata": {"name": "p", "namespace": "x"},
                        "spec": {
                            "nodeName": "n1",
                            "containers": [],
                            "initContainers": [{"resources": {"requests": {RESOURCE: 1}}}],
                        },
                    },
                    {
                        "metadata": {"name": "done", "namespace": "x"},
                        "spec": {"nodeName": "n1", "containers": [{"resources": {"limits": {RESOURCE: 1}}}]},
                        "status": {"phase": "Succeeded"},
                    },
                    {"metadata": {"name": "other", "namespace": "x"}, "spec": {"nodeName": "n2", "containers": []}},
                ]
            },
            [f"Pod x/p on node n1 has {RESOURCE}"],
        ),
        (
            {"what": "published", "nodes": ["n1"], "devices": {"n1": ["pci-a"]}},
            {
                "slices": [
                    {
                        "metadata": {"name": "s"},
                        "spec": {"driver": "gpu", "nodeName": "n1", "devices": [{"name": "pci-a"}]},
                    }
                ]
            },
            ["node n1: no ResourceSlice of dra.net has device pci-a"],
        ),
        (
            {"what": "no_slices", "nodes": ["n1"]},
            {"slices": [{"metadata": {"name": "s"}, "spec": {"driver": "dra.net", "nodeName": "n1"}}]},
            ["ResourceSlice s of node n1 is still there"],
        ),
        (
            {"what": "nothing_published", "nodes": ["n1"]},
            {
                "slices": [
                    {
                        "metadata": {"name": "s"},
                        "spec": {"driver": "dra.net", "nodeName": "n1", "devices": [{"name": "a"}]},
                    }
                ]
            },
            ["ResourceSlice s of node n1 still has 1 devices"],
        ),
    ],
)
def test_a_condition_says_what_is_missing(condition: Any, seen: Json, words: list[str]) -> None:
    assert unmet(condition, {**NOTHING, **seen}) == words  # type: ignore[typeddict-item]


# --- what is done to a cluster ------------------------------------------------------------------------------------------

WISH = {"namespace": "rdma"}
WANT = {"rdma_want": {"link_layer": "InfiniBand", "min_rate_gbps": 400}}
SERVED = {"resource.k8s.io": ["v1"]}
OURS = [{"manager": "fabric.rdma", "operation": "Apply"}]


def planned(site: Any, after: str, drivers: list[Json], **more: Any) -> tuple[list[Any], list[str]]:
    plugin = rollout_request(site["plan"], rollout_settings(inventory="default"))["objects"]
    # what a cluster has is ours unless it says otherwise
    there = []
    for item in drivers:
        labels = {"app.kubernetes.io/managed-by": "fabric.rdma", **item["metadata"].get("labels", {})}
        there.append({**item, "metadata": {"managedFields": OURS, **item["metadata"], "labels": labels}})
    return handover_plan(after, WISH, site, plugin, there, SERVED, **more)


@pytest.fixture(scope="module")
def two() -> Any:
    """Two groups with a class each."""
    return a_site({name: (WANT, [f"gb200-{number}"]) for number, name in ((1, "one"), (2, "two"))})


def standing(site: Any, group: str, inventory: str = "default") -> Json:
    """The DaemonSet of DRANET that serves the class of a group."""
    steps, _problems = planned(site, "dra", [])
    for step in steps:
        for item in (step["system"] or {}).get("objects", ()):
            labels = item["metadata"].get("labels") or {}
            if item["kind"] == "DaemonSet" and labels["rdma.fabric/group"] == group:
                own = copy.deepcopy(item)
                own["metadata"]["labels"]["rdma.fabric/inventory"] = inventory
                return own
    raise AssertionError(group)


def served(step: Any) -> list[str]:
    return [item["metadata"]["name"] for item in step["system"]["objects"] if item["kind"] == "DaemonSet"]


def test_what_has_moved_already_stays_while_another_class_moves(two: Any) -> None:
    one = standing(two, "one")
    steps, problems = planned(two, "dra", [one], groups=["two"])
    assert problems == []
    assert len({step["class_name"] for step in steps}) == 1
    (last,) = [step for step in steps if step["system"]]
    assert one["metadata"]["name"] in served(last)
    assert len(served(last)) == 2
    assert sorted(last["system"]["labels"]) == ["gb200-1", "gb200-2"]
    back, _problems = planned(two, "daemonset", [one, standing(two, "two")], groups=["two"])
    after = [served(step) for step in back if step["system"]]
    assert [len(names) for names in after] == [2, 1]
    assert after[1] == [one["metadata"]["name"]]


def test_a_class_that_an_earlier_run_has_silenced_stays_silent_until_its_turn(two: Any) -> None:
    silent = without_devices(standing(two, "two"))
    steps, _problems = planned(two, "dra", [silent])
    first, last = [step["system"]["objects"] for step in steps if step["system"]]

    def of_two(objects: list[Json]) -> bool:
        (own,) = [item for item in objects if item["metadata"]["name"] == silent["metadata"]["name"]]
        return own["spec"] == silent["spec"]

    assert (of_two(first), of_two(last)) == (True, False)


def test_what_cannot_be_handed_over_is_refused(two: Any) -> None:
    steps, problems = planned(two, "dra", [standing(two, "one", inventory="other")])
    assert steps == []
    assert "is of inventory 'other': hand its class over from there" in problems[0]
    stray = standing(two, "one")
    stray["metadata"]["labels"]["app.kubernetes.io/instance"] = "stray"
    assert planned(two, "dra", [stray])[1] == [
        "DRANET also serves stray, which rdma_rollout.classes leaves out, and what is left out would go: name all classes"
    ]
    assert planned(two, "dra", [], groups=["three"])[1] == [
        "rdma_handover_groups names three, for which rdma_rollout.classes has nothing to hand over"
    ]


def of_plugin(site: Any, group: str) -> list[Json]:
    """What a rollout has left of the device plugin of a group."""
    slug = standing(site, group)["metadata"]["labels"]["app.kubernetes.io/instance"]
    steps, _problems = planned(site, "daemonset", [])
    return [
        copy.deepcopy(item)
        for step in steps
        for item in step["apply"]
        if step["class_name"] == slug and item["kind"] != "Namespace"
    ]


@pytest.mark.parametrize("after", ["dra", "daemonset"])
def test_what_has_our_labels_and_somebody_else_has_made_is_not_handed_over(two: Any, after: str) -> None:
    """As a copy of our object has them: labels say nothing of who has made it."""
    there = of_plugin(two, "one") if after == "dra" else [standing(two, "one")]
    for item in there:
        item["metadata"]["managedFields"] = [{"manager": "kubectl-client-side-apply", "operation": "Update"}]
    steps, problems = planned(two, after, there, groups=["one"])
    assert steps == []
    assert "is made by kubectl-client-side-apply: roll out with rdma_rollout.adopt: true first" in problems[0]


def test_a_class_that_is_back_already_is_only_waited_for(two: Any) -> None:
    one = of_plugin(two, "one")
    steps, _problems = planned(two, "daemonset", [*one, standing(two, "two")])
    (only,) = [step for step in steps if step["class_name"].startswith("one-")]
    assert (only["delete"], only["system"], only["labels"], only["apply"]) == ([], None, {}, [])
    assert [each["what"] for each in only["wait"]] == ["rolled_out", "allocatable"]
    assert [served(step) for step in steps if step["system"]][-1] == []


def test_only_what_is_ours_is_deleted_also_under_an_older_name(two: Any) -> None:
    (first, *_rest), _problems = planned(two, "dra", [], groups=["one"])
    assert first["delete"] == []
    own = of_plugin(two, "one")
    old = copy.deepcopy(next(item for item in own if item["kind"] == "DaemonSet"))
    old["metadata"].update(name="older", namespace="elsewhere")
    there = copy.deepcopy([*own, old])
    for item in there:
        item["metadata"]["uid"] = f"{item['kind']} {item['metadata']['name']}"
    (first, *_rest), _problems = planned(two, "dra", there, groups=["one"])
    assert sorted(item["metadata"]["name"] for item in first["delete"]) == sorted(
        item["metadata"]["name"] for item in (*own, old)
    )
    # not what somebody makes in its place
    assert {item["metadata"].get("uid") for item in first["delete"]} == {item["metadata"]["uid"] for item in there}
    waits = [each for each in first["wait"] if each["what"] == "no_pods"]
    assert ("elsewhere", "older") in [(each["namespace"], each["name"]) for each in waits]


def test_nodes_that_the_plugin_has_never_served_are_labelled_for_it(two: Any) -> None:
    slug = standing(two, "one")["metadata"]["labels"]["app.kubernetes.io/instance"]
    steps, _problems = planned(
        two, "daemonset", [standing(two, "one")], groups=["one"], nodes={"gb200-1": {"labels": {}}}
    )
    assert [step["labels"] for step in steps] == [{}, {}, {}, {"gb200-1": {"rdma.fabric/class": slug}}]
    there = {"gb200-1": {"labels": {"rdma.fabric/class": slug}}}
    steps, _problems = planned(two, "daemonset", [standing(two, "one")], groups=["one"], nodes=there)
    assert [step["labels"] for step in steps] == [{}, {}, {}, {}]


def test_counts_are_read_as_the_api_server_writes_them() -> None:
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": {RESOURCE: "1k"}}}
    seen = {**NOTHING, "nodes": [node]}
    assert unmet({"what": "allocatable", "nodes": ["n1"], "resources": {RESOURCE: 1000}}, seen) == []  # type: ignore[typeddict-item]
    assert unmet({"what": "not_allocatable", "nodes": ["n1"], "resources": {RESOURCE: 0}}, seen) == [  # type: ignore[typeddict-item]
        f"node n1: allocatable {RESOURCE} is 1k, not 0"
    ]
