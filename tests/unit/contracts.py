# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documents that stages hand to each other: small ones for tests, and a check of each that is made in a test."""

from __future__ import annotations

import collections
import functools
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.fabric.rdma.plugins.module_utils._plan import cluster, groups
from ansible_collections.fabric.rdma.plugins.module_utils._prepare import waves
from ansible_collections.fabric.rdma.plugins.module_utils._verify import evidence
from ansible_collections.fabric.rdma.plugins.plugin_utils import _view
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems import files
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Surroundings
from ansible_collections.fabric.rdma.tests.unit.schemas import checked

Json = dict[str, Any]


def load(path: Path) -> Any:
    """What a run has written: facts, before, plan and outcomes, evidence of a group, state of a system. Every test reads them here."""
    document = json.loads(path.read_text("utf-8"))
    if path.stem in ("facts", "before"):
        return {host: checked("facts", facts) for host, facts in document.items()}
    return checked("evidence" if path.parent.name == "evidence" else path.stem, document)


# --- the check of all that is made -----------------------------------------------------------------------------------


def _of_plan(plan: Json) -> None:
    # what takes hosts out comes when plans are joined
    checked("plan", {"removed": {}, "remove": [], **plan})


def _of_group(found: tuple[Json, Any]) -> None:
    a_plan(g=found[0])


def _of_record(found: Json) -> None:
    # what became of it is known to who writes it
    checked("state", {**found, "state": "rendered"})


def _of_evidence(found: Json) -> None:
    for each in found["groups"].values():
        checked("evidence", each)


_MAKERS: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (groups, "plan_one", _of_group),
    (cluster, "plan_groups", _of_plan),
    (_view, "merged_plan", _of_plan),
    (evidence, "build_evidence", _of_evidence),
    (files, "record_of", _of_record),
    (waves, "outcomes", functools.partial(checked, "outcomes")),
)


_CHECKS: collections.Counter[str] = collections.Counter()


def checks() -> dict[str, int]:
    """By the name of each function that is watched: how often what it made was checked."""
    return {name: _CHECKS[name] for _module, name, _check in _MAKERS}


def _watched(make: Callable[..., Any], check: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def watched(*args: Any, **kwargs: Any) -> Any:
        found = make(*args, **kwargs)
        check(found)
        _CHECKS[make.__name__] += 1
        return found

    return watched


def watch() -> None:
    """Puts a check behind every function that makes such a document, before a test or a filter imports it."""
    for module, name, check in _MAKERS:
        make = getattr(module, name)
        if not hasattr(make, "__wrapped__"):
            early = [
                other
                for other, loaded in sys.modules.items()
                if getattr(loaded, name, None) is make and loaded not in (module, cluster)
            ]
            assert not early, f"{early} imported {name} before it was watched"
            setattr(module, name, _watched(make, check))


def plan_group(group: str, facts_by_host: Mapping[str, Json], wishes: Mapping[str, Any]) -> Any:
    """The plan of one group alone."""
    return groups.plan_one(group, facts_by_host, wishes)[0]


# What systems are told of a cluster at which nobody has looked.
NOTHING_KNOWN: Surroundings = {
    "installed": None,
    "served": None,
    "nodes": None,
    "service_cidrs": None,
    "wishes": {},
}

# --- small ones ------------------------------------------------------------------------------------------------------


def a_class(name: str, *hosts: str, **given: Any) -> Json:
    """A class of a plan that selects nothing, but for what is given."""
    return {
        "name": name,
        "wishes": "",
        "hosts": list(hosts),
        "selectors": {},
        "matched_later": [],
        "pools": [],
        "config": None,
        "matches": {},
        "reason": None,
        "sriov": {"config": None, "versions": None, "reason": None},
        **given,
    }


def a_group(*classes: Json, **given: Any) -> Json:
    """A group of a plan, with the hosts of its classes."""
    return {
        "resource": "rdma/r",
        "resources": [],
        "planned": True,
        "kept": None,
        "hosts": sorted(host for each in classes for host in each["hosts"]),
        "cached": {},
        "malformed": {},
        "classes": list(classes),
        "wanted": {},
        "rails": {},
        "exclusions": [],
        "environment": {},
        "warnings": [],
        "errors": [],
        **given,
    }


def a_plan(given: Json | None = None, /, **own: Json) -> Json:
    """A plan of groups; given: what else is in it."""
    none: Json = {"config": None, "selectors": {}, "hosts": 0, "errors": [], "alternative": None}
    plan = {"schema": 1, "groups": own, "cluster": none, "warnings": [], **(given or {})}
    _of_plan(plan)
    return plan


def a_config(name: str, hca_max: int = 63, **selectors: list[str]) -> Json:
    """A configuration of the shared device plugin with one resource."""
    pool = {"resourceName": name, "resourcePrefix": "rdma", "rdmaHcaMax": hca_max, "selectors": selectors}
    return {"periodicUpdateInterval": 300, "configList": [pool]}


def a_test(client: str, server: str, average: float | None = 195.0, **given: Any) -> Json:
    """A measurement of bandwidth between two hosts that has passed, but for what is given; average: None where there is not a figure."""
    ends = {
        side: {"host": host, "device": "mlx5_1", "port": 1, "gid_index": None, "address": None}
        for side, host in (("client", client), ("server", server))
    }
    return {
        "test": "ib_write_bw",
        **ends,
        "message_bytes": 65536,
        "iterations": 200,
        "qps": 1,
        "mtu_bytes": 4096,
        "bandwidth_gbps": None if average is None else {"peak": average, "average": average},
        "message_rate_mpps": None,
        "latency_us": None,
        "floor": {"min_gbps": 180},
        "verdict": "pass",
        "message": "",
        "remedy": None,
        **given,
    }


def evidence_of(group: str, *tests: Json) -> Json:
    """Evidence of a group, of which all was measured."""
    made: Json = checked("evidence", {"schema": 1, "group": group, "tests": list(tests), "untested": []})
    return made


def rollout_settings(**more: Any) -> dict[str, Any]:
    """rdma_rollout with the engine daemonset, with defaults, as filters get it."""
    return {
        "namespace": "rdma",
        "pod_security": True,
        "image": "registry.example/plugin:v1",
        "priority_class": "system-node-critical",
        "kubelet_root": "/var/lib/kubelet",
        "tolerations": [],
        "resources": {},
        **more,
    }
