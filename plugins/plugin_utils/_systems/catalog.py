# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All systems of the cluster side in the order in which they come; they go in the other one. Private. Pure.

rollout.yml, site.yml and uninstall.yml read this order, and have none of their own.
"""

from __future__ import annotations

import importlib
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.words import nearest
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import VARIABLES, problems
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.images import images_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.charts import switched_off
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import (
    Json,
    Request,
    RequestError,
    Site,
    Surroundings,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.page import Part, concerned_groups, parts_of_groups
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.together import untried

__all__ = ["SYSTEMS", "page_parts", "request_of", "wished_systems"]


class System(t.NamedTuple):
    """A system is a role of its name."""

    name: str
    # the variable that asks for it, and whether it is a wish of groups
    variable: str
    of_groups: bool
    # those that have to be there before it, where they are wanted, too
    after: tuple[str, ...]
    # what its request() is told of the surroundings: their keys, and names of wishes without rdma_
    told: tuple[str, ...] = ()


# of what is told: what a system needs that looks at releases, definitions, nodes and who else serves GPUs
_OF_GPUS = ("installed", "served", "nodes", "gpu_operator")
SYSTEMS = (
    System("device_plugin", "rdma_rollout", False, ()),
    System("dra", "rdma_rollout", False, ("device_plugin",), ("served", "nodes", "drivers", "claims")),
    # its driver is built against the OFED that the Network Operator may bring
    System("gpu_operator", "rdma_gpu_operator", False, ("device_plugin",), ("installed", "rollout")),
    # where DRANET serves nodes, they have its label
    System("compute_domain", "rdma_compute_domain", True, (), (*_OF_GPUS, "rollout")),
    # Pods ask for what a device plugin offers, and pools are for the nodes that it labels
    System(
        "secondary_network",
        "rdma_networks",
        True,
        ("device_plugin",),
        ("installed", "served", "nodes", "service_cidrs"),
    ),
    # its Pods select nodes by the labels that the rollout of the device plugin or of DRANET sets
    System("vgpu", "rdma_vgpu", False, ("device_plugin",), (*_OF_GPUS, "hypernodes", "rollout")),
    System("topology", "rdma_topology", False, ()),
    System("longhorn", "rdma_longhorn", False, (), ("installed", "nodes")),
)


def wished_systems(wishes: t.Mapping[str, t.Mapping[str, t.Any]], cluster: t.Mapping[str, t.Any]) -> list[str]:
    """Names of the systems that somebody asks for, in order. wishes: by group; cluster: what counts for all."""
    found = []
    dra = (cluster.get("rdma_rollout") or {}).get("engine") == "dra"
    for system in SYSTEMS:
        given = (
            [group.get(system.variable) for group in wishes.values()]
            if system.of_groups
            else [cluster.get(system.variable)]
        )
        if system.variable == "rdma_rollout":
            # two systems of one variable, which is there or not: the engine says which
            given = [dra == (system.name == "dra")]
        # enabled: false asks for nothing, and removes nothing, either: that is what uninstall is for
        if any(each for each in given if not switched_off(each)):
            found.append(system.name)
    return found


def _wrong_wishes(system: System, wish: t.Any, site: Site, around: Surroundings) -> list[str]:
    """What is wrong with what a system looks at. The playbooks have looked before; who includes a role alone has not."""
    own = {system.variable: wish}
    if system.name == "secondary_network":
        if not isinstance(wish, t.Mapping):
            return [f"the wish for {system.name} is of type {type(wish).__name__}; expected a dictionary"]
        own = {"rdma_cluster_cidrs" if key == "cidrs" else f"rdma_{key}": value for key, value in wish.items()}
    found = [
        problem
        for variable, value in {**around["wishes"], **own}.items()
        if variable in VARIABLES
        for problem in problems(variable, value)
    ]
    return found + [
        f"group {group}: {problem}"
        for group, wishes in site["wishes"].items()
        for variable, value in wishes.items()
        if variable in VARIABLES
        for problem in problems(variable, value)
    ]


def request_of(name: str, wish: t.Any, site: Site, around: Surroundings) -> Request:
    """What a system asks of the cluster. RequestError for an unknown name, and for wishes that are of no use to anybody."""
    names = [system.name for system in SYSTEMS]
    if name not in names or name == "device_plugin":
        raise RequestError(f"there is no system '{name}'{nearest(name, names)}")
    module = importlib.import_module(f"ansible_collections.fabric.rdma.plugins.plugin_utils._systems.{name}")
    (system,) = (each for each in SYSTEMS if each.name == name)
    wrong = _wrong_wishes(system, wish or {}, site, around)
    if wrong:
        raise RequestError("; ".join(wrong))
    known: Json = {**around, **{key.removeprefix("rdma_"): value for key, value in around["wishes"].items()}}
    request = t.cast(Request, module.request(wish or {}, site, **{key: known.get(key) for key in system.told}))
    # what objects pull is read off them; what charts pull, only their system knows
    request["images"] = sorted({*request["images"], *images_of(request["objects"])})
    request["warnings"] += untried(request["charts"], around["nodes"], around["wishes"].get("rdma_gpu_operator"))
    return request


def page_parts(request: Request, wish: t.Any, site: Site) -> dict[str, Part]:
    """By group that it is for: what a system is to bring, what cannot be and what is to be known, for the page of the plan."""
    (system,) = (each for each in SYSTEMS if each.name == request["system"])
    return parts_of_groups(request, site, concerned_groups(system.variable, system.of_groups, wish, site))
