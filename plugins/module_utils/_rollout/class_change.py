# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a step of a handover does to the device plugin of a class. Private."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.brief import label_pairs
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.changes import Changes, Json, Pair, Step
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import describe, some, stranger

__all__ = ["ClassChange"]

Labels = t.Dict[str, t.Dict[str, t.Optional[str]]]


class ClassChange(Changes):
    """look, rehearse, perform: in this order. Only the last one changes anything."""

    def __init__(self, kube: Kube, force: bool = False, inventory: str = "default", adopt: bool = False) -> None:
        super().__init__(kube, force, inventory, adopt)
        self.labels: Labels = {}
        self._old_labels: Labels = {}

    def look(self, gone: t.Sequence[Json], objects: t.Sequence[Json], labels: t.Mapping[str, Json]) -> None:
        """gone: objects as they were seen when the step was made; what has become of one since is not deleted, and is an error.

        objects: desired. labels: {node: {label: value}}. KubeError for what is somebody else's.
        """
        self._objects = list(objects)
        self._before = [self.kube.find(self.kube.path(item), "read " + describe(item)) for item in objects]
        self._look_for_strangers()
        self._gone = [item for item in gone if self._look_again(item) is not None]
        for item in self._gone:
            words = stranger(item, self.inventory)
            if words is not None:
                raise KubeError(f"Nothing was changed. {describe(item)} is {words}, and is not deleted.")
        if labels:
            self._look_at_nodes(labels)

    def _look_at_nodes(self, wanted: t.Mapping[str, Json]) -> None:
        present = self.kube.list("/api/v1/nodes", "list nodes", metadata_only=True)
        self._nodes = {item["metadata"]["name"]: item for item in present if item["metadata"]["name"] in wanted}
        missing = sorted(set(wanted) - set(self._nodes))
        if missing:
            raise KubeError(f"Nothing was changed. Not in the cluster {self.kube.server}: {some(missing)}.")
        for node, own in wanted.items():
            now = self._nodes[node]["metadata"].get("labels") or {}
            changed = {key: value for key, value in own.items() if now.get(key) != value}
            if changed:
                self.labels[node] = changed
                self._old_labels[node] = {key: now.get(key) for key in changed}

    def _first_steps(self, dry_run: bool) -> list[Step]:
        return self._removal_steps(self._gone, dry_run) + self._label_steps(sorted(self.labels.items()), dry_run)

    def rehearse(self) -> None:
        """Dry run on the server of all there is to do. Raises KubeError with every refusal."""
        self._rehearse(self._first_steps(dry_run=True))

    @property
    def changed(self) -> bool:
        return bool(self.labels or super().changed)

    def _pairs(self) -> list[Pair]:
        labels = label_pairs(self._old_labels, self.labels)
        return [*self._pairs_of_removals(), *labels, *self._pairs_of_objects()]

    def perform(self, before_each: t.Callable[[], None] = lambda: None) -> None:
        """Delete, label, apply: in this order. When one fails nevertheless, the error says what has been done and what not.

        before_each: is called before each change, and stops all of it with a KubeError.
        """
        self._perform(self._first_steps(dry_run=False) + self._apply_steps(), before_each, ())
