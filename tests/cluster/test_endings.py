# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that get another device plugin, with the Pods that the real controllers make: the old one has ended before the next one comes."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import rollout_request
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import OWN_SELECTOR
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.rollout import Rollout
from ansible_collections.fabric.rdma.tests.cluster.test_ownership import looked
from ansible_collections.fabric.rdma.tests.unit.contracts import a_class, a_config, a_group, a_plan, rollout_settings

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

PODS = "/api/v1/namespaces/rdma/pods"


def prepared(kube: Kube, **hosts: list[str]) -> Rollout:
    """The rollout of classes of one resource, each with its nodes."""
    config = a_config("r", vendors=["15b3"])
    plan = a_plan(**{name: a_group(a_class(name, *own, config=config)) for name, own in hosts.items()})
    wanted = rollout_request(plan, rollout_settings())
    return looked(kube, wanted, place="rdma")


def plugins(kube: Kube, node: str) -> dict[str, dict[str, t.Any]]:
    """{class: metadata of its Pod} of a node."""
    pods = kube.list(PODS, "list", labelSelector=OWN_SELECTOR, fieldSelector="spec.nodeName=" + node)
    return {pod["metadata"]["labels"]["app.kubernetes.io/instance"]: pod["metadata"] for pod in pods}


def hold(kube: Kube, pod: str, finalizers: list[str]) -> None:
    body = {"metadata": {"finalizers": finalizers}}
    kube.request("PATCH", f"{PODS}/{pod}", "hold", [], body, "application/merge-patch+json")


def wait_for(kube: Kube, node: str, name: str) -> None:
    end = time.monotonic() + limit(30)
    while set(plugins(kube, node)) != {name}:
        assert time.monotonic() < end, plugins(kube, node)
        time.sleep(0.2)


@pytest.mark.parametrize("stays", [True, False], ids=["moved to another class", "of a renamed group"])
def test_a_node_has_one_plugin_at_a_time(small: Site, stays: bool) -> None:
    kube = small.kube
    node, other = sorted(small.groups["ib-v100"]["hosts"])
    prepared(kube, old=[node, other]).perform()
    wait_for(kube, node, "old")
    pod = plugins(kube, node)["old"]["name"]
    # it takes its time to end
    hold(kube, pod, ["rdma.example/busy"])
    ending: list[set[str]] = []

    def look() -> None:
        found = plugins(kube, node)
        if "deletionTimestamp" in found.get("old", {}):
            ending.append(set(found))
            if len(ending) == 4:
                hold(kube, pod, [])

    try:
        rollout = prepared(kube, **({"old": [other], "new": [node]} if stays else {"new": [node, other]}))
        rollout.perform(look)
        assert ending == [{"old"}] * 4
        wait_for(kube, node, "new")
        wait_for(kube, other, "old" if stays else "new")
    finally:
        if len(ending) < 4:
            hold(kube, pod, [])
