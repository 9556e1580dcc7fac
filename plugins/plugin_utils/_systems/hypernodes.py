# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes as Volcano's HyperNodes, from what the plan knows of rails and fabrics. Private. Pure.

Follows topology.volcano.sh/v1alpha1. Three tiers, always: what is nearer has the lower number.

1. hosts of a group with the same rails at the same leaves and, where nodes say it, in the same NVLink clique
2. hosts of a group in one fabric
3. groups in one fabric

Leaves are known once the playbook fabric has drawn its map; without it, hosts are taken to be at the same ones.
"""

from __future__ import annotations

import hashlib
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Group, Port
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import group_value
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.operator import policy_name
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.compute_domain_nodes import CLIQUE_LABEL, NodeView
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.kept import halted, known_nodes

__all__ = ["hypernodes"]

_API = "topology.volcano.sh/v1alpha1"
_TIERS = 3
# What every subnet manager gives a subnet where nobody has told it another: two fabrics may both have it.
_DEFAULT_PREFIX = "fe80:0000:0000:0000"


class _Place(t.NamedTuple):
    """Where a host is. fabric: None where nobody can tell it from another."""

    group: str
    fabric: t.Optional[str]
    rails: tuple[str, ...]
    clique: str
    leaves: tuple[str, ...]


def _hash(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode("utf-8", "surrogateescape")).hexdigest()[:8]


def _fabric(facts: Json, wanted: t.Sequence[Port]) -> t.Optional[str]:
    """The subnets that the wanted InfiniBand ports of a host are in; GID 0 says each (InfiniBand Architecture, 4.1.1)."""
    prefixes = set()
    for row in wanted:
        device = next((each for each in facts.get("devices") or () if each["name"] == row["device"]), None)
        port = next((each for each in (device or {}).get("ports") or () if each["number"] == row["port"]), None)
        gid = next((each["gid"] for each in (port or {}).get("gids") or () if each["index"] == 0), None)
        prefix = ":".join(str(gid or "").split(":")[:4])
        if row["link_layer"] != "InfiniBand" or not prefix or prefix == _DEFAULT_PREFIX:
            return None
        prefixes.add(prefix)
    return " ".join(sorted(prefixes)) or None


def _places(name: str, plan: Group, site: Site, nodes: t.Optional[NodeView]) -> dict[str, _Place]:
    found = {}
    for host in sorted({host for each in plan["classes"] for host in each["hosts"]}):
        labels = (nodes or {}).get(site["node_names"].get(host, host), {}).get("labels") or {}
        rails = tuple(f"{row['rail']} {row['resource']}" for row in plan["rails"].get(host) or ())
        fabric = _fabric(site["facts"].get(host) or {}, plan["wanted"].get(host) or ())
        leaves = tuple(site.get("leaves", {}).get(host, ()))
        found[host] = _Place(name, fabric, rails, str(labels.get(CLIQUE_LABEL) or ""), leaves)
    return found


def _hypernode(name: str, tier: int, sort: str, members: t.Iterable[str]) -> Json:
    rows = [{"type": sort, "selector": {"exactMatch": {"name": each}}} for each in sorted(members)]
    return {
        "apiVersion": _API,
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": rows},
    }


def _names(place: _Place, one_leaf: bool) -> tuple[str, str, str]:
    """Names of the HyperNodes of a place, from the lowest tier. They stay while the place stays what it is."""
    slug = policy_name(group_value(place.group))
    own = f"{slug}-{_hash(place.fabric)}" if place.fabric else slug
    leaf = f"{own}-leaf" if one_leaf else f"{own}-{_hash(*place.rails, place.clique, *place.leaves)}"
    return f"rdma-{leaf}", f"rdma-{own}", f"rdma-fabric-{_hash(place.fabric) if place.fabric else slug}"


def _members(item: Json) -> set[str]:
    """Names of what is in a HyperNode, as we make them: with nothing else that selects."""
    rows = ((each.get("selector") or {}).get("exactMatch") or {} for each in item["spec"].get("members") or ())
    return {str(each["name"]) for each in rows if each.get("name")}


def _carried(standing: t.Sequence[Json], known: t.Collection[str]) -> t.Iterator[tuple[int, str, set[str]]]:
    """(tier from 0, name, members) of HyperNodes that have nodes in them of which this run says nothing, the lowest tier first."""
    below: t.Optional[set[str]] = None
    for tier in range(_TIERS):
        stay = set()
        for item in standing:
            if item["spec"].get("tier") == tier + 1:
                own = _members(item) - set(known) if below is None else _members(item) & below
                if own:
                    stay.add(item["metadata"]["name"])
                    yield tier, item["metadata"]["name"], own
        below = stay


def hypernodes(
    site: Site, nodes: t.Optional[NodeView], standing: t.Optional[t.Sequence[Json]] = None
) -> tuple[list[Json], list[str]]:
    """(HyperNodes of all planned hosts, the lowest tier first; warnings).

    A host without a fabric of its own name is in one with its group alone: to call two fabrics one would put a job on both.
    standing: HyperNodes of ours in the cluster, None where nobody has looked. What they have of nodes that are not in this run stays: a
    fabric is of several groups, and so is its HyperNode.
    """
    members: tuple[dict[str, set[str]], ...] = tuple({} for _tier in range(_TIERS))
    unnamed = set()
    stay = halted(site)
    for tier, above, own in _carried(standing or (), known_nodes(site)):
        members[tier].setdefault(above, set()).update(own)
    for name, plan in sorted(site["plan"]["groups"].items()):
        if name in stay:
            continue
        places = _places(name, plan, site, nodes)
        for host, place in places.items():
            alike = {(each.rails, each.clique, each.leaves) for each in places.values() if each.fabric == place.fabric}
            leaf, group, fabric = _names(place, len(alike) == 1)
            for tier, (above, below) in enumerate(
                ((leaf, site["node_names"].get(host, host)), (group, leaf), (fabric, group))
            ):
                members[tier].setdefault(above, set()).add(below)
            if place.fabric is None:
                unnamed.add(name)
    found = [
        _hypernode(name, tier + 1, "HyperNode" if tier else "Node", own)
        for tier, by_name in enumerate(members)
        for name, own in sorted(by_name.items())
    ]
    warnings = [
        f"group {name}: its HyperNodes stay as they are, since the group does{'' if standing is not None else ', and are not among these'}: "
        f"{why}"
        for name, why in stay.items()
    ]
    if len(unnamed) > 1:
        warnings.append(
            f"hypernodes: groups {', '.join(sorted(unnamed))} are each taken for a fabric of their own, since their ports do not say which "
            "they are in: Ethernet never does, and InfiniBand only with a subnet prefix other than the default"
        )
    return found, warnings
