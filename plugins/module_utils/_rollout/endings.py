# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for the Pods of device plugins that have to end before others come in their place. Private.

Plugins of one resource have one socket. As one ends, it removes it (pkg/resources/server.go, Stop()), also where the next has made another one
by then, and then the kubelet takes the resource from the node until that one is restarted.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import APP_NAME
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import pod_selector
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.policies import STATE_LABEL, owned, state_name
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.waiting import Patience, wait_until_right

__all__ = ["Ending", "of_class", "of_policies", "wait_until_ended"]

Json = t.Dict[str, t.Any]
Nodes = t.Optional[t.FrozenSet[str]]

# How long there is no end of any. Plugins end within seconds, those of thousands of nodes one after the other, as the garbage collector
# comes to them. One of a node that is down ends when the node comes back, and is not waited for.
_UNTIL_ENDED = Patience(60, 1)


class Ending(t.NamedTuple):
    """Pods that are to end: of a namespace, by a label selector, of one owner (its uid) where one is named, on some nodes where they are named."""

    place: str
    selector: str
    owner: str = ""
    nodes: Nodes = None


def of_class(place: str, name: str, nodes: Nodes = None) -> Ending:
    """The Pods of the DaemonSet that we have made for a class."""
    return Ending(place, f"app.kubernetes.io/name={APP_NAME},app.kubernetes.io/instance={name}", nodes=nodes)


def of_policies(kube: Kube, leaving: t.Collection[tuple[Json, t.Collection[str], Nodes]]) -> list[Ending]:
    """The Pods of the DaemonSets that the operator has made for policies. leaving: policies, each with its sections, and nodes as in Ending."""
    found = []
    for section in sorted({name for _policy, sections, _nodes in leaving for name in sections}):
        selector = f"{STATE_LABEL}={state_name(section)}"
        made = kube.list("/apis/apps/v1/daemonsets", "list DaemonSets", labelSelector=selector)
        for policy, sections, nodes in leaving:
            item = owned(made, policy) if section in sections else None
            if item is not None:
                metadata = item["metadata"]
                found.append(Ending(metadata["namespace"], pod_selector(item), metadata["uid"], nodes))
    return found


def _left(kube: Kube, endings: t.Iterable[Ending]) -> list[str]:
    found = []
    for each in endings:
        path, doing = f"/api/v1/namespaces/{each.place}/pods", "list Pods of " + each.place
        # its metadata do not tell on which node a Pod is
        pods = kube.list(path, doing, metadata_only=each.nodes is None, labelSelector=each.selector)
        for pod in pods:
            owners = {str(owner.get("uid")) for owner in pod["metadata"].get("ownerReferences") or []}
            here = each.nodes is None or (pod.get("spec") or {}).get("nodeName") in each.nodes
            if here and (not each.owner or each.owner in owners):
                found.append(pod["metadata"]["name"])
    return found


def wait_until_ended(kube: Kube, endings: t.Collection[Ending], between: t.Callable[[], None]) -> None:
    """Until all have ended, or none has for as long as one is waited for. between: as in wait_until_right()."""
    patience, fewest = _UNTIL_ENDED, math.inf

    def stuck() -> list[str]:
        """Those that are left, if none has ended since the last look."""
        nonlocal fewest
        found, before = _left(kube, endings), fewest
        fewest = min(before, len(found))
        return found if len(found) >= before else []

    try:
        while fewest and not wait_until_right(stuck, patience, between)[0]:
            if fewest:
                patience.sleep(patience.interval)
    except KubeError as exc:
        # who rolls out policies only need not be allowed to see Pods
        if exc.code != 403:
            raise
        kube.warnings.append(
            f"It was not waited until the device plugins from before have ended: {exc}. Restart a new one that offers nothing (kubectl rollout restart)"
        )
