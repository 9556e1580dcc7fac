# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of objects has no secret, is short, and stays the same when it is reduced again."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.snapshot import (
    KINDS,
    kept_pods,
    part_of,
    reduced,
    requests_of,
    resources_of,
    sorted_snapshot,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._doctor import samples

OBJECTS = [
    samples.a_node(taints=[samples.TAINT], unschedulable=True),
    samples.a_daemon_set(tolerations=[{"operator": "Exists"}]),
    samples.a_config_map(),
    samples.a_pod(status=samples.waiting("CrashLoopBackOff", "x" * 5000)),
    samples.a_job(securityContext={"runAsUser": 0}),
    {**samples.EVENT, "lastTimestamp": "2026-02-02T00:00:00Z"},
    {"kind": "NicClusterPolicy", "metadata": {"name": "nic-cluster-policy"}, "spec": {"ofedDriver": {"version": "x"}}},
]
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "spec",
                    "status",
                    "template",
                    "containers",
                    "resources",
                    "limits",
                    "labels",
                    "name",
                    "env",
                    "data",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("item", OBJECTS, ids=lambda item: item["kind"])
def test_what_was_reduced_stays_as_it_is(item: dict[str, t.Any]) -> None:
    once = reduced(item["kind"], item)
    assert reduced(item["kind"], once) == once
    assert len(json.dumps(once)) < 3000


@pytest.mark.parametrize("kind", KINDS)
@given(item=DOCUMENTS)
def test_any_document_is_reduced_or_nothing_of_it(kind: str, item: t.Any) -> None:
    json.dumps(reduced(kind, item))


def test_nothing_secret_is_kept() -> None:
    container = {
        "env": [
            {"name": "NCCL_DEBUG", "value": "INFO"},
            {"name": "TOKEN", "value": "hunter2"},
            {"name": "NCCL_X", "valueFrom": {"a": "hunter2"}},
        ],
        "command": ["hunter2"],
        "args": ["hunter2"],
    }
    pod = samples.a_job(container=container, annotations={"token": "hunter2", "rdma.fabric/config-sha256": "0"})
    pod["spec"]["volumes"] = [
        {"name": "s", "secret": {"secretName": "hunter2"}},
        {"name": "m", "emptyDir": {"medium": "Memory"}},
    ]
    text = json.dumps(reduced("Pod", pod))
    assert "hunter2" not in text
    assert all(word in text for word in ("NCCL_DEBUG", "config-sha256", "Memory"))
    secret = {"metadata": {"name": "x"}, "data": {"password": "hunter2", "config.json": "{}"}}
    assert reduced("ConfigMap", secret)["data"] == {"config.json": "{}"}


def test_a_part_is_recognised_by_our_labels_or_by_its_image() -> None:
    own = samples.a_daemon_set(image="mirror.example/x@sha256:0")
    own["metadata"]["labels"] = {
        "app.kubernetes.io/managed-by": "fabric.rdma",
        "app.kubernetes.io/name": "rdma-shared-dp",
    }
    assert part_of(own) == "plugin"
    assert part_of(samples.a_daemon_set(image="registry.example/kube-proxy:1")) is None
    assert [part_of(each) for each in (samples.DRA, samples.TOOLKIT, samples.LONGHORN)] == [
        "dra",
        "toolkit",
        "longhorn",
    ]


def test_a_snapshot_keeps_pods_that_matter() -> None:
    """Those of the DaemonSets that are kept, those that ask for a resource, those that are named."""
    own, job = samples.a_pod(), samples.a_job(limits={"example.com/fast": "1"})
    named, other = (samples.a_pod(name, None) for name in ("named", "other"))
    kept = kept_pods([own, job, named, other], [samples.a_daemon_set()], set(), {"rdma/named"})
    assert [pod["metadata"]["name"] for pod in kept] == ["ds-1", "train", "named"]
    assert requests_of(job) == {"rdma/r", "example.com/fast"}
    assert resources_of(job, {"example.com/fast"}) == {"rdma/r", "example.com/fast"}
    assert resources_of(job, set()) == {"rdma/r"}


def test_the_order_of_what_comes_counts_for_nothing() -> None:
    pods = [reduced("Pod", samples.a_pod(name)) for name in ("b", "a")]
    nodes = {name: reduced("Node", samples.a_node(name)) for name in ("b", "a")}
    one, other = ({"nodes": dict(list(nodes.items())[::step]), "pods": pods[::step], "schema": 1} for step in (1, -1))
    assert json.dumps(sorted_snapshot(one)) == json.dumps(sorted_snapshot(other))
