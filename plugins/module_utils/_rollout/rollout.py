# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout in three steps: look at the cluster, rehearse every change on the server, perform them. Private."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import patiently
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.brief import value_pair
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.changes import (
    Changes,
    Json,
    Pair,
    Step,
    opened_by_systems,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.endings import (
    Ending,
    of_class,
    of_policies,
    wait_until_ended,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    CLASS_LABEL,
    DRANET_NAME,
    MANAGED_BY,
    POLICY_VERSION,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import (
    FIELD_MANAGER,
    OWN_SELECTOR,
    applied_by_us,
    class_groups,
    comparable,
    describe,
    instance_of,
    inventory_of,
    label_changes,
    lost_labels,
    pod_security_labels,
    removals,
    some,
    stranger,
    strays_in_words,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.policies import (
    PLUGIN_SECTIONS,
    POLICY_KINDS,
    PolicyConflict,
    Retreat,
    cluster_classes,
    field_owners,
    goes_first,
    in_its_way,
    named_cluster_policy,
    retreat,
    served_groups,
    side_effects,
    webhook_will_agree,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.reloads import (
    DRIVER_SECTION,
    left_nodes,
    offered,
    removal_objections,
    users,
)

__all__ = ["Rollout"]

# How often, and after how many seconds, a webhook is asked again that refuses for what has just gone.
_WEBHOOK_TRIES, _WEBHOOK_PAUSE = 20, 0.5


def _has_plugin(item: Json) -> bool:
    """Whether a device plugin goes at once with an object. With the operator's driver it does not: the next one waits for a driver."""
    spec = item.get("spec") or {}
    return item["kind"] == "DaemonSet" or (item["kind"] == "NicNodePolicy" and DRIVER_SECTION not in spec)


def _plugins_of(each: Retreat) -> list[str]:
    """The device plugins of the NicClusterPolicy that go with our part of it."""
    if each.how == "whole":
        return [*PLUGIN_SECTIONS]
    if each.how == "sections":
        return [section for section in PLUGIN_SECTIONS if section in each.sections]
    return [section for section in PLUGIN_SECTIONS if field_owners(each.item, section) == {FIELD_MANAGER}]


def _place(item: Json) -> t.Optional[str]:
    return t.cast("t.Optional[str]", item["metadata"].get("namespace"))


class Rollout(Changes):
    """look, rehearse, perform: in this order. Only the last one changes anything."""

    def __init__(
        self, kube: Kube, force: bool = False, inventory: str = "default", adopt: bool = False, place: str = ""
    ) -> None:
        """As Changes. place: the namespace of the Network Operator where its policies are rolled out."""
        super().__init__(kube, force, inventory, adopt)
        self.place = place
        self.labels: dict[str, t.Optional[str]] = {}
        self._retreats: list[Retreat] = []
        self._cluster_policy: t.Optional[Json] = None
        self._node_policies: list[Json] = []
        self._groups: dict[str, str] = {}
        self._left_by_drivers: list[str] = []
        self._left: dict[str, t.Optional[Json]] = {}
        self._old_labels: dict[str, t.Optional[str]] = {}
        # objects with a plugin that stay as they are, or change
        self._staying: list[Json] = []
        # classes of which nodes get another plugin
        self._handed_on: set[t.Optional[str]] = set()

    # look

    def look(self, objects: t.Sequence[Json], nodes: t.Mapping[str, str], keep: t.Iterable[str]) -> None:
        """objects: desired. nodes: {node: class}. keep: groups that are left alone."""
        self._objects = list(objects)
        keep = set(keep)
        self._before = [self.kube.find(self.kube.path(item), "read " + describe(item)) for item in objects]
        self._look_at_policies(objects)
        self._look_for_strangers()
        self._insist_on_one_offer(set(nodes.values()))
        existing = self._own(objects)
        self._insist_on_own_classes(existing, set(nodes.values()))
        self._groups = {**served_groups(self._cluster_policy), **class_groups(existing)}
        self._gone, warnings = removals(existing, objects, keep, self.inventory, self.adopt)
        self.warnings += warnings
        leaving = {describe(item) for item in self._gone}
        self._staying = [item for item in existing if _has_plugin(item) and describe(item) not in leaving]
        self._look_at_namespaces(existing)
        ours = self.adopt or not self._cluster_policy or not stranger(self._cluster_policy, self.inventory)
        try:
            self._retreats = retreat(self._cluster_policy, objects, keep, self.force, ours)
            in_its_way(objects, self._node_policies, self._gone)
        except PolicyConflict as exc:
            raise KubeError(f"Nothing was changed. {exc}.") from exc
        for item in objects:
            effects = side_effects(self._cluster_policy, item)
            if effects and not self.force:
                raise KubeError(f"Nothing was changed. {effects}.")
        present = self.kube.list("/api/v1/nodes", "list nodes", metadata_only=True)
        labels = {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in present}
        gone = {str(instance_of(item) or "") for item in self._gone}
        if ours and (self._retreats or any(item["kind"] == "NicClusterPolicy" for item in objects)):
            gone |= cluster_classes(self._cluster_policy)
        self.labels, missing = label_changes(labels, nodes, gone)
        if missing:
            raise KubeError(
                f"{len(missing)} of {len(nodes)} nodes of the plan are not in the cluster: {some(missing)}. Hosts of "
                "the inventory stand for nodes of the same name: name theirs in rdma_rollout.node_names ({host: node}), "
                "let them join the cluster, or take them out of rdma_groups. The cluster "
                f"{self.kube.server} has: {some(labels) or 'no node'}"
            )
        self._old_labels = {name: labels[name].get(CLASS_LABEL) for name in self.labels}
        moved = {self._old_labels[name] for name, value in self.labels.items() if value is not None}
        self._handed_on = {*nodes.values(), *moved}
        self._nodes = {item["metadata"]["name"]: item for item in present if item["metadata"]["name"] in self.labels}
        self._left_by_drivers = left_nodes(self._driver_policies(), labels, self.labels)

    def _driver_policies(self) -> list[tuple[Json, t.Optional[Json]]]:
        """Policies whose driver is ours, or is to be taken out by us, each with what becomes of it."""
        wanted = {describe(item): item for item in self._objects}
        leaving = {describe(item) for item in self._gone}
        found: list[tuple[Json, t.Optional[Json]]] = [
            (item, None if describe(item) in leaving else wanted.get(describe(item), item))
            for item in self._node_policies
            if applied_by_us(item)
        ]
        policy = self._cluster_policy
        if policy is None:
            return found
        owners = field_owners(policy, DRIVER_SECTION)
        alone = owners == {FIELD_MANAGER}
        ways = {each.how for each in self._retreats}
        taken = any(DRIVER_SECTION in each.sections for each in self._retreats)
        if taken or "whole" in ways or (alone and "fields" in ways):
            found.append((policy, None))
        elif FIELD_MANAGER in owners:
            after = wanted.get(describe(policy), policy)
            # what others have applied, too, stays
            kept: Json = {} if alone else {DRIVER_SECTION: {}}
            found.append((policy, {**after, "spec": {**kept, **after["spec"]}}))
        return found

    def insist_on_drivers(self, told: t.Mapping[str, t.Sequence[str]], undrained: bool) -> None:
        """Raises KubeError when the Network Operator's driver would leave a node that cannot be without its cards for a while.

        told: {node: sentences}, what rules out a reload of the driver of the node; a node that is not among them is not known. undrained:
        whether Pods may use it meanwhile, and nodes be unknown.
        """
        nodes = self._left_by_drivers
        if not nodes:
            return
        cordoned: set[str] = set()
        busy: dict[str, list[str]] = {}
        if not undrained:
            selector = "spec.unschedulable=true"
            found = self.kube.list("/api/v1/nodes", "list nodes", metadata_only=True, fieldSelector=selector)
            cordoned = {item["metadata"]["name"] for item in found} & {*nodes}
            resources = offered([*self._node_policies, *([self._cluster_policy] if self._cluster_policy else [])])
            for node in sorted(cordoned):
                doing = "list Pods of node " + node
                busy[node] = users(
                    self.kube.list("/api/v1/pods", doing, fieldSelector="spec.nodeName=" + node), resources
                )
        objections = removal_objections(nodes, told, cordoned, busy, undrained)
        if objections:
            more = f" (and {len(objections) - 5} more)" if len(objections) > 5 else ""
            raise KubeError(
                f"No policy and no label was changed. The Network Operator's driver would leave {some(nodes)}, and that reloads the one of the node at "
                f"once: {'; '.join(objections[:5])}{more}",
                remedy="rdma_rollout.ofed_driver.override names reasons that do not count; without the driver, beside enabled: false. Before "
                "the engine changes, take the driver out with engine: network_operator",
            )
        self.warnings.append(
            f"the Network Operator's driver leaves {some(nodes)}, and that of the node is reloaded there"
        )

    def insist(self, known: t.Collection[str], remove: t.Collection[str]) -> None:
        """Raises KubeError when a node would lose its label that this run neither knows nor is told to take out."""
        strays = self.strays(known, remove)
        if strays:
            raise KubeError("Nothing was changed. " + self.told(strays))

    def strays(self, known: t.Collection[str], remove: t.Collection[str]) -> dict[str, str]:
        """{node: class} of the nodes that would lose their label, and that this run neither knows nor is told to take out."""
        return lost_labels(self._old_labels, self.labels, self._groups, known, remove)

    def told(self, strays: t.Mapping[str, str]) -> str:
        """What strays() has found in words."""
        return strays_in_words(strays, self._groups)

    def _insist_on_one_offer(self, classes: t.Collection[str]) -> None:
        """Raises KubeError where DRANET of ours serves a class: both would offer the same functions."""
        if not classes:
            return
        selector = f"app.kubernetes.io/managed-by={MANAGED_BY},app.kubernetes.io/name={DRANET_NAME}"
        found = self.kube.list(
            "/apis/apps/v1/daemonsets", "list DaemonSets", metadata_only=True, labelSelector=selector
        )
        both = sorted({str(instance_of(item)) for item in found} & set(classes))
        if both:
            raise KubeError(
                f"Nothing was changed. DRANET serves {some(both)}, and the device plugin would offer the same functions to Pods",
                remedy="Take DRANET out of these classes first (README of the role dra), or roll them out with rdma_rollout.engine: dra",
            )

    def _insist_on_own_classes(self, existing: t.Iterable[Json], classes: t.Collection[str]) -> None:
        """Raises KubeError where another inventory has a class of that name: the nodes of both would have one label, and the plugins of both."""
        carriers = [item for item in existing if item["kind"] != "ConfigMap" and instance_of(item) in classes]
        policy = self._cluster_policy
        # with adopt, it makes way for what comes
        if not self.adopt and not cluster_classes(policy).isdisjoint(classes):
            carriers.append(t.cast(Json, policy))
        # what is taken over is of this inventory from then on
        ours = {describe(item) for item in self._objects} if self.adopt else set()
        theirs = {describe(item): inventory_of(item) for item in carriers if describe(item) not in ours}
        others = [f"{name} (inventory '{own}')" for name, own in theirs.items() if own not in (None, self.inventory)]
        if others:
            raise KubeError(
                f"Nothing was changed. Classes of this inventory ('{self.inventory}') are called like those of another one: {some(others)}. Their "
                f"nodes would have the same label {CLASS_LABEL}, and the device plugins of both",
                remedy="Rename the group in one of the two inventories. To take them over, roll out where they are with rdma_rollout.adopt: true",
            )

    def _shared(self, item: Json, before: t.Optional[Json]) -> bool:
        # of a NicClusterPolicy, others may have set what they like
        of_others = item["kind"] == "NicClusterPolicy" and before is not None and not applied_by_us(before)
        return of_others or super()._shared(item, before)

    def _look_at_policies(self, objects: t.Sequence[Json]) -> None:
        """Policies of the Network Operator, where the cluster has their kinds. Who rolls out none need not be allowed to see them."""
        kinds = self.kube.kinds(POLICY_VERSION)
        try:
            if "NicClusterPolicy" in kinds:
                item = named_cluster_policy()
                self._cluster_policy = self.kube.find(self.kube.path(item), "read " + describe(item))
            if "NicNodePolicy" in kinds:
                path = f"/apis/{POLICY_VERSION}/{kinds['NicNodePolicy'][0]}"
                self._node_policies = self.kube.list(path, "list NicNodePolicies")
        except KubeError as exc:
            if exc.code != 403 or any(item["kind"] in POLICY_KINDS for item in objects):
                raise
            self.warnings.append(
                f"policies of the Network Operator that an earlier rollout has left would not be seen: {exc}"
            )
        for item in self._node_policies:
            item.update(apiVersion=POLICY_VERSION, kind="NicNodePolicy")

    def _look_at_namespaces(self, existing: t.Sequence[Json]) -> None:
        """Namespaces that we let have privileged Pods, and that no longer need it: nothing of ours stays there, or nobody asks for it."""
        asked = {item["metadata"]["name"] for item in self._objects if item["kind"] == "Namespace"}
        if any(item["kind"] in POLICY_KINDS for item in self._objects):
            # its Pods are privileged, too
            asked.add(self.place)
        coming = {item["metadata"].get("namespace") for item in self._objects}
        leaving = {describe(item) for item in self._gone}
        staying = {item["metadata"].get("namespace") for item in existing if describe(item) not in leaving}
        places = {item["metadata"].get("namespace") for item in [*existing, *self._objects]}
        for name in sorted(place for place in places if place):
            if name in asked or (name in staying and name not in coming):
                continue
            path = "/api/v1/namespaces/" + name
            found = self.kube.find(path, "read Namespace " + name)
            if found is not None and pod_security_labels(found) and name not in opened_by_systems(self.kube):
                self._opened.append(found)

    def _own(self, objects: t.Sequence[Json]) -> list[Json]:
        """What earlier rollouts have left, wherever it is.

        ConfigMaps are looked for where a DaemonSet of ours is or will be, and in our place: of a removal that was killed, they are left.
        """
        daemon_sets = self.kube.list("/apis/apps/v1/daemonsets", "list DaemonSets", labelSelector=OWN_SELECTOR)
        for item in daemon_sets:
            item.update(apiVersion="apps/v1", kind="DaemonSet")
        # those of others have not our label, and removals() leaves them alone
        found = [*daemon_sets, *self._node_policies]
        places = {item["metadata"].get("namespace") for item in [*daemon_sets, *objects]}
        for namespace in sorted(place for place in {*places, self.place} if place):
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            try:
                items = self.kube.list(path, "list ConfigMaps of " + namespace, labelSelector=OWN_SELECTOR)
            except KubeError as exc:
                # who rolls out policies only need not be allowed to see any
                if exc.code != 403 or namespace in places:
                    raise
                continue
            found += [{**item, "apiVersion": "v1", "kind": "ConfigMap"} for item in items]
        return found

    # rehearse

    def rehearse(self) -> None:
        """Dry run on the server of all there is to do. Raises KubeError with every refusal."""
        steps = self._retreat_steps(dry_run=True) + self._node_steps(dry_run=True)
        self._rehearse(steps + self._removal_steps(self._gone, dry_run=True) + self._closing_steps(dry_run=True))

    def _after_refusal(self, item: Json, refusal: KubeError) -> t.Optional[Json]:
        return dict(item) if webhook_will_agree(str(refusal), self._first()) else None

    @property
    def changed(self) -> bool:
        return bool(self.labels or self._retreats or super().changed)

    def actions(self) -> dict[str, str]:
        """What is done with each object."""
        done = super().actions()
        for each in self._retreats:
            done[describe(each.item)] = "removed" if each.how == "whole" else "given up"
        return done

    def _pairs(self) -> list[Pair]:
        """Object by object, and one for all labels."""
        pairs = self._pairs_of_objects()
        # a node that leaves is not just another change
        for nodes, leaves in (("nodes", False), ("nodes that leave their class", True)):
            after = {node: value for node, value in self.labels.items() if (value is None) is leaves}
            if after:
                before = {node: self._old_labels[node] for node in after}
                pairs.append((f"label {CLASS_LABEL} of {nodes}", *value_pair(before, {} if leaves else after)))
        pairs += self._pairs_of_removals()
        for each in self._retreats:
            pairs.append((describe(each.item), comparable(each.item), self._left.get(each.how)))
        return pairs + self._pairs_of_closings()

    # perform

    def _node_steps(self, dry_run: bool) -> list[Step]:
        return self._label_steps([(node, {CLASS_LABEL: value}) for node, value in self.labels.items()], dry_run)

    def _first(self) -> list[t.Any]:
        """What has to go before anything comes."""
        return [*self._retreats, *self._early()]

    def _early(self) -> list[Json]:
        """Objects that go before anything comes: another kind of carrier, and plugins of which nodes get another one (endings.py).

        DaemonSets come last: of a run that is killed, they tell the next one where to look for the rest (_own()).
        """
        looked_at = {*(item["metadata"].get("namespace") for item in self._objects), self.place}
        found = [
            item
            for item in self._gone
            if goes_first(item, self._objects)
            or (self._is_handed_on(item) and (_has_plugin(item) or _place(item) not in looked_at))
        ]
        return sorted(found, key=lambda item: item["kind"] == "DaemonSet")

    def _is_handed_on(self, item: Json) -> bool:
        """Whether nodes of the class of an object get another plugin."""
        name = instance_of(item)
        return name is not None and name in self._handed_on

    def _ending_steps(self, early: t.Sequence[Json], before_each: t.Callable[[], None]) -> list[Step]:
        """Wait for the Pods of DaemonSets that have gone, also those that a killed run has removed: their ConfigMaps are left."""
        gone = [item for item in early if item["kind"] == "DaemonSet"]
        gone += [item for item in self._gone if item["kind"] == "ConfigMap" and self._is_handed_on(item)]
        leaving: list[tuple[Json, t.Collection[str], t.Optional[frozenset[str]]]] = [
            (item, PLUGIN_SECTIONS, None) for item in early if item["kind"] in POLICY_KINDS
        ]
        if self._objects:
            leaving += [(each.item, _plugins_of(each), None) for each in self._retreats]
        endings = [of_class(str(_place(item)), str(instance_of(item))) for item in gone if instance_of(item)]
        return self._waiting(
            endings + of_policies(self.kube, leaving), {instance_of(item) for item in gone}, before_each
        )

    def _moving_steps(self, before_each: t.Callable[[], None]) -> list[Step]:
        """Take nodes out of classes that stay, where they go to others, and wait for the plugins that end there."""
        moving: dict[str, list[str]] = {}
        for node, value in self.labels.items():
            if value is not None and self._old_labels[node]:
                moving.setdefault(str(self._old_labels[node]), []).append(node)
        left = [
            (item, frozenset(moving[str(instance_of(item))])) for item in self._staying if instance_of(item) in moving
        ]
        endings = [
            of_class(str(_place(item)), str(instance_of(item)), nodes)
            for item, nodes in left
            if item["kind"] == "DaemonSet"
        ]
        leaving = [(item, PLUGIN_SECTIONS, nodes) for item, nodes in left if item["kind"] in POLICY_KINDS]
        steps = [
            (f"take node {node} out of its class", functools.partial(self._label, node, {CLASS_LABEL: None}, False))
            for node in sorted({node for _item, nodes in left for node in nodes})
        ]
        return steps + self._waiting(
            endings + of_policies(self.kube, leaving), [instance_of(item) for item, _nodes in left], before_each
        )

    def _waiting(
        self, endings: t.Sequence[Ending], classes: t.Iterable[t.Optional[str]], before_each: t.Callable[[], None]
    ) -> list[Step]:
        if not endings:
            return []
        words = some(name for name in {*classes} if name) or "policies"
        step = functools.partial(wait_until_ended, self.kube, [*dict.fromkeys(endings)], before_each)
        return [(f"wait until the plugins of {words} have ended", step)]

    def _retreat_steps(self, dry_run: bool) -> list[Step]:
        """How we leave the NicClusterPolicy. What is left of it is kept for the diff."""
        # what the first of two steps has left is what the second one finds
        left: list[Json] = []

        def change(each: Retreat, seen: Json) -> None:
            if each.how == "fields":
                after = self.kube.apply(named_cluster_policy(), dry_run, seen=seen)
            else:
                path, doing = self.kube.path(each.item), "take sections from " + describe(each.item)
                after = self.kube.merge(path, doing, {"spec": dict.fromkeys(each.sections)}, dry_run, seen)
            self._left[each.how] = comparable(after)
            if not dry_run:
                left[:] = [after]

        def perform(each: Retreat) -> None:
            if each.how == "whole":
                self._delete(each.item, dry_run)
            else:
                self._precisely(left[0] if left else each.item, functools.partial(change, each))

        words = {"whole": "delete ", "fields": "give up our part of ", "sections": "take sections from "}
        return [(words[each.how] + describe(each.item), functools.partial(perform, each)) for each in self._retreats]

    def _patiently(self, step: t.Callable[[], t.Any]) -> None:
        """The operator's webhook hears a moment later than we do that what was in the way has gone."""
        patiently(step, lambda exc: webhook_will_agree(str(exc), self._first()), 1 + _WEBHOOK_TRIES, _WEBHOOK_PAUSE)

    def perform(self, before_each: t.Callable[[], None] = lambda: None, already: t.Sequence[str] = ()) -> None:
        """Do it: what is in the way, objects, labels, namespaces (first, if anything is in the way), then removals.

        When one fails nevertheless, the error says what has been done and what not.

        before_each: is called before each change, and stops all of it with a KubeError. already: what was done before that.
        """
        early, closing = self._early(), self._closing_steps(dry_run=False)
        steps = self._retreat_steps(dry_run=False)
        # A namespace is looked at as long as something of ours is in it: whoever is killed between the last two leaves no open one behind.
        # Pods that run there run on.
        steps += (closing if early else []) + self._removal_steps(early, dry_run=False)
        steps += self._ending_steps(early, before_each) + self._apply_steps()
        # DaemonSets are there before nodes change classes, so that a node is without a plugin for as short as can be
        late = [item for item in self._gone if item not in early]
        steps += self._moving_steps(before_each) + self._node_steps(dry_run=False) + ([] if early else closing)
        steps += self._removal_steps(late, dry_run=False)
        patient = [(doing, functools.partial(self._patiently, step)) for doing, step in steps]
        self._perform(patient, before_each, already)
