# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of one system (networks, drivers, storage) in a cluster: look, rehearse, perform, wait, remove. Private.

A ConfigMap beside the Lease keeps in mind which kinds of objects the system has ever had, so that what is no longer asked for is found,
and a system can be removed without the wishes that made it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import typing as t
import zlib

from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import patiently
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.blocks import blocks_given_twice
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.brief import label_pairs, line_pair
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.changes import (
    RECORD,
    Changes,
    Json,
    Pair,
    Step,
    opened_by_systems,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError, NotServed, Unreachable
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    GROUP_LABEL,
    INVENTORY_LABEL,
    MANAGED_BY,
    POD_SECURITY,
    SYSTEM_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import (
    applied_by_us,
    class_groups,
    comparable,
    describe,
    pod_security_labels,
    some,
    stranger,
    value_at,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.records import grouped_lines, label_lines
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import Patience, wait_until_right

__all__ = ["SPENT_ANNOTATION", "SystemRollout"]

# On a CustomResourceDefinition of whose kind the system itself makes objects, beside ours: the field without which one of them holds
# nothing that anybody has.
SPENT_ANNOTATION = "rdma.fabric/spent-without"
_CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
# Seconds until a kind is served whose definition has just been applied.
_SERVED_TRIES, _SERVED_PAUSE = 120, 0.5
# For how long what was deleted is waited for.
_UNTIL_GONE = Patience(600, 1)
# Bytes of a release, unpacked: a Secret has 1 MiB at most, of which a file of the size of a disk may be made.
_MOST_OF_A_RELEASE = 64 * 1024 * 1024
# What else can be done about a release of somebody else than to take it over.
_INSTEAD = {"network_operator": ". rdma_rollout.helm.install: false uses the operator as it is"}
# Labels that an operator sets on each node by itself, and that are switches for whoever wishes otherwise: such a value is nobody's.
_BY_ITSELF = {("nvidia.com/gpu.deploy.device-plugin", "true")}
# What goes after what it serves; any other kind, such as a custom one, goes before all of these.
_LAST = (
    "Service",
    "Deployment",
    "DaemonSet",
    "ConfigMap",
    "Secret",
    "ClusterRoleBinding",
    "RoleBinding",
    "ClusterRole",
    "Role",
    "ServiceAccount",
    "CustomResourceDefinition",
)


def _defined(item: t.Mapping[str, t.Any]) -> list[tuple[str, str]]:
    """(API version, kind) pairs that a CustomResourceDefinition among the objects brings; none for any other object."""
    if (item.get("apiVersion"), item.get("kind")) != _CRD:
        return []
    spec = item["spec"]
    versions = [each["name"] for each in spec["versions"] if each.get("served")]
    return [(f"{spec['group']}/{version}", str(spec["names"]["kind"])) for version in versions]


def _opens(item: t.Mapping[str, t.Any]) -> bool:
    """Whether an object is a namespace that is to have privileged Pods."""
    labels = item["metadata"].get("labels") or {}
    return item["kind"] == "Namespace" and any(key.startswith(POD_SECURITY) for key in labels)


def _installed(item: t.Mapping[str, t.Any]) -> str:
    """When the release was installed that a Secret of Helm is a revision of: every upgrade keeps that. "" for what Helm has not written."""
    try:
        # pkg/storage/driver/util.go, encodeRelease(), and once more base64 as any Secret
        packed = base64.b64decode(base64.b64decode(item["data"]["release"]))
        text = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(packed, _MOST_OF_A_RELEASE)
        moment = str(json.loads(text)["info"]["first_deployed"])
    except (KeyError, TypeError, ValueError, RecursionError, zlib.error):
        return ""
    return moment if re.fullmatch(r"[0-9TZ:.+-]{1,64}", moment) else ""


def _kind_of(item: t.Mapping[str, t.Any]) -> tuple[str, str]:
    return str(item["apiVersion"]), str(item["kind"])


def _order_of_removal(item: t.Mapping[str, t.Any]) -> tuple[int, str]:
    kind = str(item["kind"])
    return (_LAST.index(kind) if kind in _LAST else -1, describe(item))


def _with_few_labels(what: str, before: t.Optional[Json], after: t.Optional[Json]) -> Pair:
    """The record of a system as a diff is to show it: its labels are shown with their nodes, too."""
    known = [label_lines(((side or {}).get("data") or {}).get("labels")) for side in (before, after)]
    if not any(isinstance(lines, list) for lines in known):
        return what, before, after
    shown = line_pair(*(lines if isinstance(lines, list) else [] for lines in known))
    sides = [
        side and {**side, "data": {**(side.get("data") or {}), "labels": lines}}
        for side, lines in zip((before, after), shown)
    ]
    return what, sides[0], sides[1]


class SystemRollout(Changes):
    """look, rehearse, perform: in this order. Only the last one changes anything."""

    def __init__(
        self,
        kube: Kube,
        system: str,
        place: str,
        force: bool = False,
        inventory: str = "default",
        adopt: bool = False,
        pending: bool = False,
    ) -> None:
        """As Changes. place: the namespace of the record. pending: kinds may be missing, since charts that bring them were only rehearsed."""
        super().__init__(kube, force, inventory, adopt)
        self.system = system
        self.place = place
        self.pending = pending
        # of charts that an earlier run has installed and that nobody asks for any more, as namespace/release, the last one first
        self.old_charts: list[str] = []
        # {node: {label: new value, None where it goes}}
        self.labels: dict[str, dict[str, t.Optional[str]]] = {}
        self._old_labels: dict[str, dict[str, t.Optional[str]]] = {}
        self._record: t.Optional[Json] = None
        # by namespace/release, as _release() gives it
        self._releases: dict[str, t.Optional[str]] = {}
        # the record as it is once all is done, where until then it has more in mind
        self._last_record: t.Optional[Json] = None
        self._defined_here: set[tuple[str, str]] = set()

    # look

    def look(
        self,
        objects: t.Sequence[Json],
        keep: t.Iterable[str] = (),
        charts: t.Sequence[str] = (),
        only: t.Optional[t.Iterable[str]] = None,
        labels: t.Optional[t.Mapping[str, t.Mapping[str, str]]] = None,
        known: t.Optional[t.Collection[str]] = None,
        opened: t.Sequence[str] = (),
    ) -> None:
        """objects: desired, without labels of ownership. keep: groups whose objects stay as they are.

        charts: namespace/release of those that are installed. labels: {node: {label: value}}. known: nodes whose labels may go, None for
        all; the others are not in this run. opened: namespaces that have privileged Pods for the charts. Without objects, charts and labels,
        the system is removed; with only, what of it is of these groups: known are their nodes then, beside those in a class of theirs.
        """
        # what is remembered: labels alone are a system, too
        asked = bool(objects or charts or labels)
        self._defined_here = {pair for item in objects for pair in _defined(item)}
        self._read_record()
        kinds = self._recorded_kinds() | {_kind_of(item) for item in objects}
        leaving = [
            name
            for name in reversed(self._recorded("charts"))
            if name not in charts and self._release(name) is not None
        ]
        self.old_charts = [name for name in leaving if self._is_ours(name)]
        self.warnings += [
            f"release {name} is not the one that a rollout has installed: somebody else has put another in its place, and it is left alone"
            for name in leaving
            if name not in self.old_charts
        ]
        if only is not None:
            self._look_at_groups(kinds, set(only), known or ())
            return
        marked = [self._marked(item) for item in objects]
        lines = self._look_at_nodes(labels or {}, known)
        spaces = [*opened, *(item["metadata"]["name"] for item in objects if _opens(item))]
        named = [*charts, *reversed(self.old_charts)]
        if asked:
            # What is still there is not forgotten: whoever removes it may be killed before.
            known_spaces = [*spaces, *self._recorded("namespaces")]
            identities = self._identities(charts, named)
            marked.insert(
                0, self._new_record(kinds, named, identities, [*lines, *self._recorded("labels")], known_spaces)
            )
        self._objects = marked
        self._before = [self._found(item) for item in marked]
        self._look_for_strangers()
        self._look_for_leftovers(kinds, set(keep), None)
        self._look_for_blocks_given_twice()
        spaces += self._look_at_namespaces(spaces)
        if asked:
            last = self._new_record(kinds, named, identities, lines, spaces)
            self._last_record = last if last != marked[0] else None

    def _look_for_blocks_given_twice(self) -> None:
        twice = list(blocks_given_twice(zip(self._objects, self._before), self._gone))
        if twice:
            more = f" (and {len(twice) - 3} more pools)" if len(twice) > 3 else ""
            raise KubeError("Nothing was changed. " + " | ".join(twice[:3]) + more)

    def _look_at_groups(self, kinds: t.Iterable[tuple[str, str]], only: set[str], nodes: t.Collection[str]) -> None:
        """What is of groups: their objects, and labels of nodes that are theirs, or in one of their classes."""
        # they serve the other groups, too
        self.old_charts = []
        self._look_for_leftovers(kinds, set(), only)
        recorded = self._recorded("labels")
        # the objects that go tell of which group a class is
        classes = class_groups(self._gone)
        in_class = {line.split(" ")[0] for line in recorded if line.rpartition(" ")[2] in classes}
        lines = self._look_at_nodes({}, {*nodes, *in_class})
        if sorted(lines) == sorted(set(recorded)):
            return
        charts, releases, spaces = (self._recorded(key) for key in ("charts", "releases", "namespaces"))
        # until the labels are gone, and the objects, it is known whose they are
        self._objects = [self._new_record(kinds, charts, releases, recorded, spaces)]
        self._last_record = self._new_record(kinds, charts, releases, lines, spaces)
        self._before = [self._found(item) for item in self._objects]
        self._look_for_strangers()

    def remember(self, charts: t.Sequence[str], opened: t.Sequence[str] = (), tried: t.Sequence[str] = ()) -> None:
        """In place of look(): only the record, before charts are installed. Whoever is killed then finds them again.

        tried: those that Helm has just worked on. What has come of them is remembered with the time at which it was installed, which tells it
        from a release that replaced it; what has not come is forgotten, since who installs it later is somebody else.
        KubeError for a release that is there and that no rollout of this inventory has installed, or that somebody else has put in the
        place of one.
        """
        self._read_record()
        recorded = self._recorded("charts")
        charts = [*charts, *(name for name in tried if self._release(name) is not None)]
        foreign = [
            name
            for name in charts
            if self._release(name) is not None and (name not in recorded or not self._is_ours(name))
        ]
        if foreign and not self.adopt:
            raise KubeError(
                f"Nothing was changed. Releases of these names are there already that no rollout of inventory '{self.inventory}' has "
                f"installed: {some(foreign)} (namespace/release). If they are to become this inventory's, which also means that its rollouts "
                "upgrade and remove them, run once with rdma_rollout.adopt: true" + _INSTEAD.get(self.system, "")
            )
        named = [*charts, *(name for name in recorded if name not in (*charts, *tried))]
        spaces = [*opened, *self._recorded("namespaces")]
        identities = self._identities(charts, named)
        self._objects = [self._new_record(self._recorded_kinds(), named, identities, self._recorded("labels"), spaces)]
        self._before = [self._found(item) for item in self._objects]
        self._look_for_strangers()

    def _read_record(self) -> None:
        path = f"/api/v1/namespaces/{self.place}/configmaps/{self._record_name()}"
        self._record = self.kube.find(path, "read the record")

    def _release(self, chart: str) -> t.Optional[str]:
        """When a release was installed, "" where nobody can tell; None where it is not in the cluster.

        Helm keeps a Secret of each of its revisions (pkg/storage/driver/secrets.go).
        """
        if chart not in self._releases:
            namespace, _slash, release = chart.partition("/")
            path, selector = f"/api/v1/namespaces/{namespace}/secrets", f"owner=helm,name={release}"
            found = self.kube.list(path, f"list releases of {namespace}", labelSelector=selector)
            self._releases[chart] = max(map(_installed, found), default=None)
        return self._releases[chart]

    def _is_ours(self, chart: str) -> bool:
        """Whether a recorded release is the one that a rollout has installed, whoever has upgraded it since.

        A run that was killed while Helm worked has not recorded when that was.
        """
        known = dict(line.split(" ") for line in self._recorded("releases") if line.count(" ") == 1).get(chart)
        return known is None or known == self._release(chart)

    def _identities(self, charts: t.Collection[str], named: t.Collection[str]) -> list[str]:
        """Lines of releases, each with when it was installed. charts: those that are ours from now on."""
        now = [f"{name} {self._release(name)}" for name in charts if self._release(name)]
        return now + [line for line in self._recorded("releases") if line.partition(" ")[0] in {*named} - {*charts}]

    def _record_name(self) -> str:
        """One for each inventory: two that share a cluster may have the same system, for groups of their own."""
        name = RECORD + self.system.replace("_", "-")
        if self.inventory == "default":
            return name
        # as a label, the name of an inventory may have what that of an object may not
        plain = re.sub(r"[^a-z0-9]+", "-", self.inventory.lower()).strip("-")
        return f"{name}.{plain}-{hashlib.sha256(self.inventory.encode()).hexdigest()[:8]}"

    def _labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/managed-by": MANAGED_BY,
            INVENTORY_LABEL: self.inventory,
            SYSTEM_LABEL: self.system.replace("_", "-"),
        }

    def _selector(self) -> str:
        return ",".join(f"{key}={value}" for key, value in sorted(self._labels().items()))

    def _marked(self, item: Json) -> Json:
        """An object with our labels. A namespace is everybody's, and has none."""
        if item["kind"] == "Namespace":
            return item
        metadata = item["metadata"]
        return {**item, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **self._labels()}}}

    def _new_record(
        self,
        kinds: t.Iterable[tuple[str, str]],
        charts: t.Sequence[str],
        identities: t.Iterable[str],
        lines: t.Iterable[str],
        spaces: t.Iterable[str],
    ) -> Json:
        """identities: of charts, each with the UID of a revision. lines: of labels that we have set, as node, label and value: none of them
        has a space in it; they are written by label and value. spaces: namespaces that we have opened."""
        data = {
            "kinds": json.dumps(sorted(" ".join(pair) for pair in kinds)),
            "charts": json.dumps(list(charts)),
            "releases": json.dumps(sorted(identities)),
            "labels": json.dumps(grouped_lines(lines), separators=(",", ":")),
            "namespaces": json.dumps(sorted(set(spaces))),
        }
        metadata: Json = {"name": self._record_name(), "namespace": self.place}
        return self._marked({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    def _recorded(self, key: str) -> list[str]:
        """A list of words that the record of an earlier run has. Of one that is somebody else's, nothing counts."""
        record = self._record
        if record is None or (not self.adopt and stranger({**record, "kind": "ConfigMap"}, self.inventory) is not None):
            return []
        text = (record.get("data") or {}).get(key) or "[]"
        try:
            words = label_lines(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            words = None
        if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
            raise KubeError(
                f"ConfigMap {self.place}/{self._record_name()} is not what a rollout wrote ({key} is {str(text)[:200]})",
                remedy="Delete it: without it, what is no longer asked for is not found",
            )
        return list(words)

    def _recorded_kinds(self) -> set[tuple[str, str]]:
        pairs = [word.partition(" ") for word in self._recorded("kinds")]
        return {(version, kind) for version, _space, kind in pairs}

    def _look_at_nodes(
        self, wanted: t.Mapping[str, t.Mapping[str, str]], known: t.Optional[t.Collection[str]]
    ) -> list[str]:
        """Which labels of nodes change; lines of those that are ours then.

        One that we have set goes when nobody asks for it, unless somebody has given it another value. One that was there before is
        somebody else's: KubeError where another value is wished for. Those of nodes that are not in this run stay.
        """
        recorded = [tuple(line.split(" ")) for line in self._recorded("labels") if line.count(" ") == 2]
        if not recorded and not wanted:
            return []
        nodes = self.kube.list("/api/v1/nodes", "list nodes", metadata_only=True)
        now = {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in nodes}
        missing = sorted(set(wanted) - set(now))
        if missing:
            raise KubeError(
                f"Nothing was changed. {len(missing)} of {len(wanted)} nodes to label are missing from the cluster: {some(missing)}",
                remedy="Name them in rdma_rollout.node_names ({host: node}), or let them join the cluster",
            )
        theirs = [
            f"{node} {key}={now[node][key]}"
            for node, labels in wanted.items()
            for key, value in labels.items()
            if now[node].get(key, value) != value
            and (node, key, now[node][key]) not in recorded
            and (key, now[node][key]) not in _BY_ITSELF
        ]
        if theirs and not self.adopt:
            raise KubeError(
                f"Nothing was changed. Nodes have other values of labels already, which no rollout has set: {some(theirs)}. They would be "
                "overwritten, and removed later. Take them off, or run once with rdma_rollout.adopt: true"
            )
        ours: list[str] = []
        changes: list[tuple[str, str, t.Optional[str]]] = []
        for node, labels in wanted.items():
            for key, value in labels.items():
                differs = now[node].get(key) != value
                if differs:
                    changes.append((node, key, value))
                if differs or (node, key, value) in recorded:
                    ours.append(f"{node} {key} {value}")
        seen = {*(known or ()), *wanted}
        for node, key, value in recorded:
            if known is not None and node not in seen:
                ours.append(f"{node} {key} {value}")
            elif key not in wanted.get(node, {}) and now.get(node, {}).get(key) == value:
                changes.append((node, key, None))
        changing = {node for node, _key, _new in changes}
        self._nodes = {item["metadata"]["name"]: item for item in nodes if item["metadata"]["name"] in changing}
        for node, key, new in changes:
            self.labels.setdefault(node, {})[key] = new
            self._old_labels.setdefault(node, {})[key] = now[node].get(key)
        return ours

    def _look_at_namespaces(self, asked: t.Collection[str]) -> list[str]:
        """Namespaces that we let have privileged Pods, and that no longer need it, are to be closed; those that still need it."""
        leaving = {describe(item) for item in self._gone}
        busy = {chart.partition("/")[0] for chart in self.old_charts}
        kept = []
        for name in sorted(set(self._recorded("namespaces")) - set(asked)):
            found = self.kube.find("/api/v1/namespaces/" + name, "read Namespace " + name)
            if found is None or not pod_security_labels(found):
                continue
            path = f"/apis/apps/v1/namespaces/{name}/daemonsets"
            selector = f"app.kubernetes.io/managed-by={MANAGED_BY}"
            running = self.kube.list(path, "list DaemonSets of " + name, True, labelSelector=selector)
            ours = {describe({**item, "kind": "DaemonSet"}) for item in running} - leaving
            if ours or name in busy | opened_by_systems(self.kube, self.place, self._record_name()):
                kept.append(name)
            else:
                self._opened.append(found)
        return kept

    def _node_steps(self, dry_run: bool) -> list[Step]:
        return self._label_steps(sorted(self.labels.items()), dry_run)

    @property
    def changed(self) -> bool:
        return bool(self.labels or self._last_record or super().changed)

    def actions(self) -> dict[str, str]:
        """What is done with each object."""
        done = super().actions()
        if self._last_record is not None and done[describe(self._last_record)] == "unchanged":
            done[describe(self._last_record)] = "changed"
        return done

    def _pairs(self) -> list[Pair]:
        pairs = self._pairs_of_objects()
        if self._last_record is not None:
            # it is written twice, and shown once
            shown, data = describe(self._last_record), self._last_record["data"]
            after = comparable({**self._after[0], "data": data})
            pairs = [(shown, comparable(self._before[0]), after), *(pair for pair in pairs if pair[0] != shown)]
        pairs += [*label_pairs(self._old_labels, self.labels), *self._pairs_of_removals(), *self._pairs_of_closings()]
        record = f"ConfigMap {self.place}/{self._record_name()}"
        return [_with_few_labels(*pair) if pair[0] == record else pair for pair in pairs]

    def _served(self, pair: tuple[str, str]) -> bool:
        return pair[1] in self.kube.kinds(pair[0])

    def _served_by_now(self, pair: tuple[str, str]) -> bool:
        """The same of what was defined a moment ago: its group may be listed, and not be there yet."""
        try:
            return self._served(pair)
        except NotServed:
            return False

    def _comes(self, item: Json) -> bool:
        """Whether the kind of an object is not there yet, and will be."""
        pair = _kind_of(item)
        return not self._served(pair) and (pair in self._defined_here or self.pending)

    def _found(self, item: Json) -> t.Optional[Json]:
        if self._comes(item):
            return None
        return self.kube.find(self.kube.path(item), "read " + describe(item))

    def _look_for_leftovers(
        self, kinds: t.Iterable[tuple[str, str]], keep: set[str], only: t.Optional[set[str]]
    ) -> None:
        wanted = {describe(item) for item in self._objects}
        found: list[Json] = []
        for version, kind in sorted(kinds):
            if kind == "Namespace" or not self._served((version, kind)):
                continue
            plural, _namespaced = self.kube.kinds(version)[kind]
            path = f"/{'apis' if '/' in version else 'api'}/{version}/{plural}"
            for item in self.kube.list(path, f"list {plural}", labelSelector=self._selector()):
                item.update(apiVersion=version, kind=kind)
                group = (item["metadata"].get("labels") or {}).get(GROUP_LABEL)
                if describe(item) in wanted or group in keep or (only is not None and group not in only):
                    continue
                if applied_by_us(item):
                    found.append(item)
                else:
                    self.warnings.append(
                        f"{describe(item)} has our labels, but others have made it: it is left alone; delete it if nobody needs it"
                    )
        self._gone = sorted((item for item in found if self._may_go(item, found)), key=_order_of_removal)
        if not self._objects and self._record is not None:
            record = {**self._record, "apiVersion": "v1", "kind": "ConfigMap"}
            # The last of all: whoever is killed before still finds everything. A definition that stays is not forgotten.
            stays = len([item for item in found if describe(item) != describe(record)]) > len(
                [item for item in self._gone if describe(item) != describe(record)]
            )
            others = (
                stays or stranger(record, self.inventory) is not None or keep or self.old_charts or only is not None
            )
            self._gone = [item for item in self._gone if describe(item) != describe(record)]
            self._gone += [] if others else [record]

    def _may_go(self, item: Json, going: t.Sequence[Json]) -> bool:
        """Not a definition of which somebody else has objects: they would be deleted with it.

        What the system has made itself, and what holds nothing any more, is nobody's (SPENT_ANNOTATION).
        """
        mine = {(describe(each), each["apiVersion"]) for each in going}
        field = str((item["metadata"].get("annotations") or {}).get(SPENT_ANNOTATION) or "")
        for version, kind in _defined(item):
            if not self._served((version, kind)):
                continue
            plural, _namespaced = self.kube.kinds(version)[kind]
            others = self.kube.list(f"/apis/{version}/{plural}", f"list {plural}", metadata_only=not field)
            left = [
                name
                for name, each in ((describe({**each, "kind": kind}), each) for each in others)
                if (name, version) not in mine and not (field and not value_at(each, field))
            ]
            if left:
                self.warnings.append(f"{describe(item)} stays: others have objects of it ({some(left)})")
                return False
        return True

    # rehearse

    def rehearse(self) -> None:
        """Dry run on the server of all there is to do. Raises KubeError with every refusal."""
        waiting = [describe(item) for item in self._objects if self._comes(item)]
        if waiting:
            self.warnings.append(f"not rehearsed, since their definitions come with this rollout: {some(waiting)}")
        steps = self._node_steps(dry_run=True) + self._closing_steps(dry_run=True)
        self._rehearse(steps + self._removal_steps(self._gone, dry_run=True))

    def _to_come(self) -> set[str]:
        """Also namespaces that a chart would make."""
        found = super()._to_come()
        if self.pending:
            names = {str(item["metadata"]["namespace"]) for item in self._objects if item["metadata"].get("namespace")}
            found |= {
                name for name in names if self.kube.find("/api/v1/namespaces/" + name, "read Namespace " + name) is None
            }
        return found

    def _tried(self, item: Json, to_come: t.Collection[str]) -> Json:
        return dict(item) if self._comes(item) else super()._tried(item, to_come)

    # perform

    def perform(self, before_each: t.Callable[[], None] = lambda: None, patience: Patience = _UNTIL_GONE) -> None:
        """Do it: objects in their order, then removals. When one fails nevertheless, the error says what has been done and what not.

        patience: for how long what is deleted is waited for until it has gone.
        """
        steps: list[Step] = [(doing, functools.partial(self._once_served, step)) for doing, step in self._apply_steps()]
        # the record is the first object, and the last that goes: whoever is killed between leaves no label that nobody remembers
        steps += self._node_steps(dry_run=False) + self._closing_steps(dry_run=False)
        steps += self._leaving_steps(before_each, patience)
        if self._last_record is not None:
            doing = "forget in " + describe(self._last_record) + " what has gone"
            steps.append((doing, functools.partial(self._apply, 0, self._last_record)))
        self._perform(steps, before_each, ())

    def _leaving_steps(self, renew: t.Callable[[], None], patience: Patience) -> list[Step]:
        """Removals. Nothing goes before what it may have to let go (finalizers) has gone, and nothing is forgotten before that.

        Where nothing goes that may have to, such as with a network that Pods still have addresses of, the rest is not waited for.
        """
        record = f"ConfigMap {self.place}/{self._record_name()}"
        going = [item for item in self._gone if describe(item) != record]
        first = [item for item in going if _order_of_removal(item)[0] < 0]
        if len(first) == len(going) == len(self._gone) and not self.old_charts:
            look = (f"look whether {len(first)} objects have gone", functools.partial(self._tell_of_those_left, first))
            return self._removal_steps(first, dry_run=False) + ([look] if first else [])
        steps: list[Step] = []
        for items in (first, [item for item in going if item not in first]):
            steps += self._removal_steps(items, dry_run=False)
            if items:
                wait = functools.partial(self._wait_until_gone, items, renew, patience)
                steps.append((f"wait until {len(items)} objects have gone", wait))
        return steps + self._removal_steps([item for item in self._gone if describe(item) == record], dry_run=False)

    def _still_there(self, items: t.Iterable[Json]) -> list[tuple[Json, str]]:
        """Those of deleted objects that have not gone, with what holds them."""
        found = []
        for item in items:
            now = self.kube.find(self.kube.path(item), "read " + describe(item))
            if now is not None and now["metadata"]["uid"] == item["metadata"]["uid"]:
                holders = ", ".join(map(str, now["metadata"].get("finalizers") or ())) or "none"
                found.append((item, f"{describe(item)} (finalizers: {holders})"))
        return found

    def _tell_of_those_left(self, items: t.Sequence[Json]) -> None:
        words = [text for _item, text in self._still_there(items)]
        if words:
            self.warnings.append(f"deleted, and still there until nobody uses them any more: {some(words)}")

    def _wait_until_gone(self, items: t.Sequence[Json], renew: t.Callable[[], None], patience: Patience) -> None:
        """KubeError with what holds those that are still there when the time is up."""
        ahead = list(items)

        def left() -> list[str]:
            found = self._still_there(ahead)
            ahead[:] = [item for item, _text in found]
            return [text for _item, text in found]

        words, waited = wait_until_right(left, patience, renew)
        if words:
            raise KubeError(
                f"{len(words)} deleted objects have not gone after {waited:.0f} s: {some(words)}",
                remedy="Whoever set these finalizers has to take them off: look whether it runs, and what it says. If it is gone for good, take them "
                "off yourself",
            )

    def _once_served(self, step: t.Callable[[], t.Any]) -> None:
        """A step on an object whose definition may be a moment old: the API server serves a kind some time after it took its definition."""
        pending = [pair for pair in self._defined_here if not self._served_by_now(pair)]

        def passes(exc: KubeError) -> bool:
            self.kube.forget_kinds()
            answered = not isinstance(exc, Unreachable) or isinstance(exc, NotServed)
            return bool(pending) and answered and exc.code in (0, 404)

        self.kube.forget_kinds()
        patiently(step, passes, _SERVED_TRIES if pending else 1, _SERVED_PAUSE)
