# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Pods keep a node from being changed."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.drains import staying

Json = dict[str, t.Any]
EVERYTHING: Json = {"operator": "Exists"}
CORDON = "node.kubernetes.io/unschedulable"


def pod(uid: str = "1", *, owner: str = "ReplicaSet", tolerations: t.Sequence[Json] = (), **metadata: t.Any) -> Json:
    owners = [{"kind": owner}] if owner else []
    named = {"namespace": "training", "name": "job", "uid": uid, "ownerReferences": owners, **metadata}
    return {"metadata": named, "spec": {"tolerations": list(tolerations)}, "status": {"phase": "Running"}}


def test_what_was_there_and_what_is_told_to_end_has_to_go() -> None:
    assert staying([pod()], [pod()]) == ["training/job (not told to end)"]
    ending = pod(deletionTimestamp="2026-01-31T12:00:30Z")
    assert staying([ending], [pod()]) == ["training/job (told to end by 2026-01-31T12:00:30Z)"]
    # also of what tolerates a cordon
    tolerant = pod("2", tolerations=[EVERYTHING], deletionTimestamp="2026-01-31T12:00:30Z")
    assert staying([tolerant], [pod("1", tolerations=[EVERYTHING])])
    assert staying([pod(tolerations=[EVERYTHING])], [pod(tolerations=[EVERYTHING])])


@pytest.mark.parametrize(
    ("toleration", "counts"),
    [
        (EVERYTHING, False),
        ({"operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": CORDON, "operator": "Exists"}, False),
        ({"key": CORDON, "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": CORDON}, False),
        ({"key": CORDON, "operator": "Equal", "value": ""}, False),
        ({"key": CORDON, "operator": "Equal", "value": "true"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({}, True),
    ],
)
def test_a_pod_that_has_come_since_counts_unless_a_cordon_does_not_keep_it_away(toleration: Json, counts: bool) -> None:
    assert bool(staying([pod("2", tolerations=[toleration])], [pod("1")])) is counts


@pytest.mark.parametrize(
    "stays",
    [
        pod(owner="DaemonSet"),
        pod(owner="Node"),
        pod(owner="", annotations={"kubernetes.io/config.mirror": "f00"}),
        {**pod(), "status": {"phase": "Succeeded"}},
        {**pod(), "status": {"phase": "Failed"}},
    ],
    ids=["DaemonSet", "kubelet", "old kubelet", "ended", "failed"],
)
def test_what_a_drain_leaves_does_not_count(stays: Json) -> None:
    assert staying([stays], [stays]) == []


def test_a_pod_of_nobody_counts() -> None:
    """One that somebody has allowed to be deleted (force)."""
    assert staying([pod(owner="")], [pod(owner="")]) == ["training/job (not told to end)"]
