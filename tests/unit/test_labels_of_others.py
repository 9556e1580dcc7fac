# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of nodes that somebody else has set to another value. tests/cluster/test_systems.py asks a real API server for all else."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    INVENTORY_LABEL,
    MANAGED_BY,
    SYSTEM_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import FIELD_MANAGER
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.systems import SystemRollout

Json = dict[str, t.Any]
DISK = "node.longhorn.io/create-default-disk"
SWITCH = "nvidia.com/gpu.deploy.device-plugin"


class Cluster:
    """A node with a label, and the record of a system that has set some."""

    def __init__(self, labels: Json, *recorded: str) -> None:
        self.labels, self.recorded = labels, recorded

    def kinds(self, _version: str) -> Json:
        return {"ConfigMap": ("configmaps", True)}

    def path(self, item: Json) -> str:
        return f"/api/v1/namespaces/kube-system/configmaps/{item['metadata']['name']}"

    def find(self, path: str, _doing: str) -> Json | None:
        if not self.recorded or not path.endswith("/configmaps/fabric-rdma-longhorn"):
            return None
        marks = {"app.kubernetes.io/managed-by": MANAGED_BY, INVENTORY_LABEL: "default", SYSTEM_LABEL: "longhorn"}
        applied = [{"manager": FIELD_MANAGER, "operation": "Apply"}]
        metadata = {"name": "fabric-rdma-longhorn", "namespace": "kube-system", "labels": marks}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**metadata, "managedFields": applied},
            "data": {"labels": json.dumps(list(self.recorded))},
        }

    def list(self, path: str, _doing: str, metadata_only: bool = False, **_query: str) -> list[Json]:
        del metadata_only
        return [{"metadata": {"name": "n1", "labels": self.labels}}] if path == "/api/v1/nodes" else []


def labelled(cluster: Cluster, key: str, value: str, adopt: bool = False) -> Json:
    rollout = SystemRollout(t.cast("t.Any", cluster), "longhorn", "kube-system", adopt=adopt)
    rollout.look([], labels={"n1": {key: value}})
    return rollout.labels


def test_a_value_that_somebody_else_has_set_is_not_overwritten() -> None:
    """Longhorn makes the disks of an annotation where it is "config"."""
    with pytest.raises(KubeError, match=f"^Nothing was changed. .*: n1 {DISK}=config[.] .*rdma_rollout[.]adopt: true"):
        labelled(Cluster({DISK: "config"}), DISK, "true")
    assert labelled(Cluster({DISK: "config"}), DISK, "true", adopt=True) == {"n1": {DISK: "true"}}


def test_what_a_rollout_has_set_changes_with_the_wish() -> None:
    assert labelled(Cluster({DISK: "config"}, f"n1 {DISK} config"), DISK, "true") == {"n1": {DISK: "true"}}


def test_what_an_operator_sets_by_itself_is_nobodys() -> None:
    assert labelled(Cluster({SWITCH: "true"}), SWITCH, "false") == {"n1": {SWITCH: "false"}}
