# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every rollout does with objects: whose they are, what the API server says of them, one precise change after the other. Private."""

from __future__ import annotations

import functools
import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.brief import differences
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError, Unreachable
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import MANAGED_BY, SYSTEM_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import (
    applied_by_us,
    changed_by,
    comparable,
    describe,
    other_managers,
    same,
    some,
    stranger,
)

__all__ = ["RECORD", "Changes", "Json", "Pair", "Step", "opened_by_systems"]

Json = t.Dict[str, t.Any]
# What is being done, in words, and how.
Step = t.Tuple[str, t.Callable[[], t.Any]]
# What changes, in words, before and after; None where it is not there.
Pair = t.Tuple[str, t.Any, t.Any]

# ConfigMaps that say what a system has: where they are, and how their names begin.
_RECORDS, RECORD = "kube-system", "fabric-rdma-"
# Tries the objects of a namespace that does not exist yet: one that every cluster has.
_STAND_IN = "default"

# How often an object is looked at again that a controller has changed before we could.
_LOOKS = 5


def _may_be_done(exc: KubeError) -> bool:
    """Whether what was asked may have been done all the same: it was not answered, or timed out on the way."""
    # a webhook that cannot be asked answers with 500, too, and before anything is written
    return isinstance(exc, Unreachable) or (exc.code in (500, 502, 504) and "failed calling webhook" not in str(exc))


class Changes:
    """Objects of a cluster that are to be as they are asked for, and those that are no longer asked for."""

    def __init__(self, kube: Kube, force: bool = False, inventory: str = "default", adopt: bool = False) -> None:
        """inventory: as in INVENTORY_LABEL. adopt: objects of our names that others have made, or an earlier version, become ours."""
        self.kube = kube
        self.force = force
        self.inventory = inventory
        self.adopt = adopt
        self.warnings: list[str] = []
        self._objects: list[Json] = []
        self._before: list[t.Optional[Json]] = []
        self._after: list[Json] = []
        self._adopted: dict[int, str] = {}
        # what was made of them, where something was
        self._now: dict[int, Json] = {}
        self._gone: list[Json] = []
        # namespaces that need not have privileged Pods any more, and how they are after that, by name
        self._opened: list[Json] = []
        self._closed: dict[str, Json] = {}
        # nodes whose labels change, as they were looked at, by name; their specification and status aside
        self._nodes: dict[str, Json] = {}

    # look

    def _shared(self, item: Json, before: t.Optional[Json]) -> bool:
        """Whether an object is everybody's, so that it does not matter who has made it."""
        return str(item["kind"]) == "Namespace"

    def _look_for_strangers(self) -> None:
        """Objects of our names that are not ours, which nothing is done to without a word."""
        for index, (item, before) in enumerate(zip(self._objects, self._before)):
            if before is None or self._shared(item, before):
                continue
            words = stranger({**before, "kind": item["kind"]}, self.inventory)
            if words is not None:
                self._adopted[index] = f"{describe(item)} ({words})"
        if not self._adopted:
            return
        named = some(self._adopted.values())
        if not self.adopt:
            raise KubeError(
                f"Nothing was changed. {len(self._adopted)} objects of our names are there already that are not of "
                f"inventory '{self.inventory}': {named}. If they should become this inventory's, which also means "
                "that its rollouts change and delete them, run once with rdma_rollout.adopt: true (with --check, the "
                "difference shows what that changes). If another inventory rolls out to this cluster, give each a "
                "name of its own (rdma_rollout.inventory), and groups of other names"
            )
        self.warnings.append(f"inventory '{self.inventory}' takes over {named}")

    # rehearse

    def _to_come(self) -> set[str]:
        """Namespaces that are among the objects and are not there yet."""
        return {
            item["metadata"]["name"]
            for item, before in zip(self._objects, self._before)
            if item["kind"] == "Namespace" and before is None
        }

    def _tried(self, item: Json, to_come: t.Collection[str]) -> Json:
        """An object as the API server would have it."""
        stand_in = _STAND_IN if item["metadata"].get("namespace") in to_come else None
        after = self.kube.apply(item, dry_run=True, force=self.force, stand_in=stand_in)
        if stand_in is not None:
            after["metadata"]["namespace"] = item["metadata"]["namespace"]
        return after

    def _after_refusal(self, item: Json, refusal: KubeError) -> t.Optional[Json]:
        """What is taken for the object after all, where a refusal does not count; None where it does."""
        return None

    def _rehearse(self, steps: t.Iterable[Step]) -> None:
        """Dry run of all objects, then of these steps. KubeError with every refusal."""
        refusals = []
        to_come = self._to_come()
        for item in self._objects:
            try:
                after = self._tried(item, to_come)
            except Unreachable:
                raise
            except KubeError as exc:
                found = self._after_refusal(item, exc)
                if found is None:
                    refusals.append(str(exc))
                    continue
                after = found
            self._after.append(after)
        for _doing, step in steps:
            try:
                step()
            except Unreachable:
                raise
            except KubeError as exc:
                refusals.append(str(exc))
        if refusals:
            unique = list(dict.fromkeys(refusals))
            more = f" (and {len(unique) - 3} more refusals)" if len(unique) > 3 else ""
            raise KubeError("Nothing was changed. " + " | ".join(unique[:3]) + more)

    def _changes(self, index: int) -> bool:
        before = self._before[index]
        return before is None or not applied_by_us(before) or comparable(before) != comparable(self._after[index])

    @property
    def changed(self) -> bool:
        return bool(self._gone or self._opened or any(self._changes(index) for index in range(len(self._objects))))

    def actions(self) -> dict[str, str]:
        """What is done with each object."""
        done = {}
        for index, item in enumerate(self._objects):
            what = "created" if self._before[index] is None else "changed" if self._changes(index) else "unchanged"
            done[describe(item)] = "taken over" if index in self._adopted else what
        done.update((describe(item), "removed") for item in self._gone)
        done.update((describe(item), "given up") for item in self._opened)
        return done

    def _pairs_of_objects(self) -> list[Pair]:
        return [
            (describe(item), comparable(self._before[index]), comparable(self._after[index]))
            for index, item in enumerate(self._objects)
            if self._changes(index)
        ]

    def _pairs_of_removals(self) -> list[Pair]:
        return [(describe(item), comparable(item), None) for item in self._gone]

    def _pairs_of_closings(self) -> list[Pair]:
        return [
            (describe(item), comparable(item), comparable(self._closed.get(item["metadata"]["name"])))
            for item in self._opened
        ]

    def _pairs(self) -> list[Pair]:
        """All that changes."""
        return self._pairs_of_objects() + self._pairs_of_removals() + self._pairs_of_closings()

    def diff(self) -> list[Json]:
        """One entry an object that changes: dictionaries, which Ansible shows line by line."""
        return differences(self._pairs())

    # perform

    def _precisely(
        self,
        seen: Json,
        step: t.Callable[[Json], t.Any],
        still: t.Callable[[Json, Json], bool] = same,
    ) -> None:
        """Do something to an object only while it is the one that was looked at, whatever has become of its status.

        still: whether it is, as it was looked at and as it is now.
        """
        named = {key: seen[key] for key in ("apiVersion", "kind", "metadata")}
        for left in range(_LOOKS, -1, -1):
            try:
                step(seen)
                return
            except KubeError as exc:
                if exc.code != 409 or not left:
                    raise
                now = self._look_again(named)
                if now is None:
                    raise KubeError(
                        f"{describe(named)} was deleted by somebody since it was looked at", 409, "Run again."
                    ) from exc
                now.update(apiVersion=named["apiVersion"], kind=named["kind"])
                if not still(seen, now):
                    raise KubeError(
                        f"{describe(named)} was changed by {changed_by(seen, now)} since it was looked at, and is left as it is",
                        409,
                        "Decide what it should be, then run again.",
                    ) from exc
                seen = now

    def _look_again(self, named: Json) -> t.Optional[Json]:
        if named["kind"] != "Node":
            return self.kube.find(self.kube.path(named), "read " + describe(named))
        # a rollout has to list nodes, and needs no right to get one
        selector = "metadata.name=" + named["metadata"]["name"]
        found = self.kube.list("/api/v1/nodes", "list nodes", metadata_only=True, fieldSelector=selector)
        return next(iter(found), None)

    def _apply(self, index: int, item: t.Optional[Json] = None) -> None:
        """item: what the object is to be once more, after it was what it was to be."""
        item, before = item or self._objects[index], self._now.get(index) or self._before[index]
        if before is not None:
            seen = {**before, "apiVersion": item["apiVersion"], "kind": item["kind"]}

            def apply(now: Json) -> None:
                self._now[index] = self.kube.apply(item, dry_run=False, force=self.force, seen=now)

            self._precisely(seen, apply)
            return
        self._now[index] = after = self.kube.apply(item, dry_run=False, force=self.force)
        # server-side apply cannot be told to make something new only
        others = other_managers(after)
        if others:
            raise KubeError(
                f"{describe(item)} was made by {some(others)} at the same time, and has fields of both now",
                409,
                "Decide whose it should be, then run again.",
            )

    def _delete(self, item: Json, dry_run: bool) -> None:
        try:
            self._precisely(item, lambda now: self.kube.delete(now, dry_run))
        except KubeError as exc:
            if exc.code != 404 and not (exc.code == 409 and self._goes(item)):
                raise

    def _goes(self, item: Json) -> bool:
        """Whether somebody deletes the object already, or has done so."""
        now = self._look_again(item)
        if now is None:
            return True
        return now["metadata"]["uid"] == item["metadata"]["uid"] and bool(now["metadata"].get("deletionTimestamp"))

    def _apply_steps(self) -> list[Step]:
        return [
            ("apply " + describe(item), functools.partial(self._apply, index))
            for index, item in enumerate(self._objects)
            if self._changes(index)
        ]

    def _label(self, node: str, labels: t.Mapping[str, t.Optional[str]], dry_run: bool) -> None:
        """Change labels of a node only while it has those that were looked at, whatever else has become of it."""

        def of(item: Json) -> tuple[t.Any, ...]:
            metadata = item["metadata"]
            return (metadata["uid"], *((metadata.get("labels") or {}).get(key) for key in labels))

        # a merge patch: server-side apply would make a node of that name
        path, doing, body = "/api/v1/nodes/" + node, f"label node {node}", {"metadata": {"labels": dict(labels)}}
        item = {**self._nodes[node], "apiVersion": "v1", "kind": "Node"}

        def change(now: Json) -> None:
            after = self.kube.merge(path, doing, body, dry_run, now)
            if not dry_run:
                # for a second change
                self._nodes[node] = {"metadata": after["metadata"]}

        try:
            self._precisely(item, change, lambda seen, now: of(seen) == of(now))
        except KubeError as exc:
            # a node that has left the cluster has lost all of them
            gives = any(value is not None for value in labels.values())
            if exc.code not in (404, 409) or gives or self._look_again(item) is not None:
                raise

    def _label_steps(
        self, changes: t.Iterable[tuple[str, t.Mapping[str, t.Optional[str]]]], dry_run: bool
    ) -> list[Step]:
        """changes: nodes, each with new values of its labels, None where one goes."""
        return [(f"label node {node}", functools.partial(self._label, node, each, dry_run)) for node, each in changes]

    def _removal_steps(self, items: t.Iterable[Json], dry_run: bool) -> list[Step]:
        return [("delete " + describe(item), functools.partial(self._delete, item, dry_run)) for item in items]

    def _closing_steps(self, dry_run: bool) -> list[Step]:
        """Take back the labels with which a namespace may have privileged Pods. Those that others have set, too, stay."""

        def perform(seen: Json) -> None:
            name = seen["metadata"]["name"]
            bare: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self._closed[name] = self.kube.apply(bare, dry_run, seen=seen)

        return [
            (
                "take our labels of Pod Security from " + describe(item),
                functools.partial(self._precisely, item, perform),
            )
            for item in self._opened
        ]

    def make_namespace(self, name: str) -> list[str]:
        """Make a namespace that is among the objects and is not there yet, before all else. What was done, in words."""
        for index, item in enumerate(self._objects):
            if item["kind"] == "Namespace" and item["metadata"]["name"] == name and self._before[index] is None:
                self._apply(index)
                return ["apply " + describe(item)]
        return []

    def _perform(self, steps: t.Sequence[Step], before_each: t.Callable[[], None], already: t.Sequence[str]) -> None:
        """One step after the other. When one fails, the error says what has been done and what not."""
        for number, (_doing, step) in enumerate(steps):
            asked = False
            try:
                before_each()
                asked = True
                step()
            except KubeError as exc:
                unknown = asked and _may_be_done(exc)
                if number == 0 and not already and not unknown:
                    raise KubeError(f"{exc} Nothing was changed.", exc.code) from exc
                sent = number + unknown
                names = [doing for doing, _step in steps]
                parts = (
                    ("Done before that", [*already, *names[:number]] or ["nothing"]),
                    ("Not known", names[number:sent]),
                    ("Not done", names[sent:]),
                )
                words = [f"{what}: {some(items)}." for what, items in parts if items]
                text = f"{str(exc).rstrip('.')}. {' '.join(words)} Run again: what is done is not done twice."
                raise KubeError(text, exc.code) from exc


def opened_by_systems(kube: Kube, place: str = _RECORDS, but: str = "") -> set[str]:
    """Namespaces in which systems of any inventory have privileged Pods, as their records tell. but: the name of a record that does not count.

    Whoever may not look there sees none: what it may not know of, it shares no namespace with on purpose.
    """
    path, selector = (
        f"/api/v1/namespaces/{place}/configmaps",
        f"app.kubernetes.io/managed-by={MANAGED_BY},{SYSTEM_LABEL}",
    )
    try:
        records = kube.list(path, "list records of systems", labelSelector=selector)
    except KubeError as exc:
        if exc.code != 403:
            raise
        return set()
    found: set[str] = set()
    for record in records:
        if record["metadata"]["name"] == but or not record["metadata"]["name"].startswith(RECORD):
            continue
        data = record.get("data") or {}
        try:
            found.update(map(str, json.loads(data.get("namespaces") or "[]")))
        except (ValueError, TypeError, RecursionError):
            # of a spoilt one, its own system tells
            continue
    return found
