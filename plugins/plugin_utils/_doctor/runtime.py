# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules: containerd, its configuration, and services beside it. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.config_edit import TOOLKIT_DROP_IN
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.case import Case, name_of, quoted
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Hit, Json, Rule

__all__ = ["RULES"]

_OURS = "fabric-rdma-"
_NOT_SERVING = (
    "unknown service runtime.v1.RuntimeService",
    "unknown service runtime.v1alpha2.RuntimeService",
    "CRI v1 runtime API is not implemented",
)
_BROKEN = (
    "failed to load TOML",
    "failed to load base runtime spec",
    "invalid plugin config",
    "can't load base OCI spec",
)
# runc from 1.1 on, older ones, crun
_RLIMIT = ("error setting rlimit type 8", "setrlimit RLIMIT_MEMLOCK: ", "setrlimit `RLIMIT_MEMLOCK`: ")
_IMEX = ("Failed to allocate Imex session", "Failed to allocate IMEX session")


def _owners(case: Case, host: str, facts: Json) -> list[str]:
    """Who writes containerd's configuration on a host, in words."""
    containerd = (facts.get("runtime") or {}).get("containerd") or {}
    node = case.node_of(host)
    pods = case.pods_on(node["metadata"]["name"], "toolkit") if node else []
    agents = sorted({f"DaemonSet {name_of_owner(pod)}" for pod in pods})
    handlers = containerd.get("handlers") or {}
    ours = sorted(name for name, own in handlers.items() if _OURS in str(own.get("base_runtime_spec")))
    if ours and any(str(handlers[name].get("file")).endswith(TOOLKIT_DROP_IN) for name in ours):
        agents.append(
            f"the role containerd_memlock, whose base_runtime_spec of {', '.join(ours)} is in {TOOLKIT_DROP_IN}"
        )
    return agents


def name_of_owner(pod: Json) -> str:
    owners = pod["metadata"].get("owners") or []
    return f"{pod['metadata'].get('namespace')}/{owners[0]['name']}" if owners else name_of(pod)


def _two_owners(case: Case) -> t.Iterator[Hit]:
    for host, facts in case.facts.items():
        agents = _owners(case, host, facts)
        if len(agents) > 1:
            yield Hit((host,), (f"{host}: containerd's configuration is written by {quoted(' and by '.join(agents))}",))


def _stale(case: Case) -> t.Iterator[Hit]:
    for host, facts in case.facts.items():
        if ((facts.get("runtime") or {}).get("containerd") or {}).get("stale"):
            yield Hit((host,), (f"{host}: containerd runs with something else than its files say",))


def _not_serving(case: Case) -> t.Iterator[Hit]:
    for host, facts in case.facts.items():
        running = ((facts.get("runtime") or {}).get("containerd") or {}).get("running") or {}
        if running.get("error") or running.get("ready") is False:
            yield Hit((host,), (f"{host}: {quoted(running.get('error') or 'RuntimeReady is false')}",))
    yield from case.told(*_NOT_SERVING)


def _imex(case: Case) -> t.Iterator[Hit]:
    drivers = case.daemon_sets("dra")
    for host, facts in case.facts.items():
        service = ((facts.get("nvidia") or {}).get("imex") or {}).get("service")
        node = case.node_of(host)
        if service == "running" and drivers and node and any(node in case.nodes_for(each) for each in drivers):
            yield Hit(
                (host,), (f"{host}: nvidia-imex.service runs, and DaemonSet {name_of(drivers[0])} is for its node",)
            )
    yield from case.told(*_IMEX)


RULES = (
    Rule(
        "imex-on-host",
        "nvidia-imex of the host runs beside the DRA driver",
        "error",
        ("facts", "cluster", "logs"),
        "nvidia-imex.service of the host runs, and the DRA driver starts one of its own for each ComputeDomain: only one can have "
        "the fabric",
        "rdma_compute_domain: {host_imex: mask} and ansible-playbook fabric.rdma.prepare; by hand: systemctl disable --now "
        "nvidia-imex && systemctl mask nvidia-imex",
        _imex,
    ),
    Rule(
        "containerd-two-owners",
        "Two write containerd's configuration",
        "warning",
        ("facts", "cluster"),
        "two programs write containerd's configuration, and each start of one may undo what the other has written",
        "let one of them do it: rdma_memlock: {method: limit} leaves the configuration to the toolkit",
        _two_owners,
    ),
    Rule(
        "containerd-stale",
        "containerd runs with an older configuration",
        "warning",
        ("facts",),
        "containerd's files were changed after it was started: the next start brings something else than what runs",
        "look at what changed (`containerd config dump`), then on a drained node: systemctl restart containerd",
        _stale,
        ("containerd-two-owners",),
    ),
    Rule(
        "containerd-configuration-broken",
        "containerd cannot read its configuration",
        "error",
        ("logs",),
        "containerd cannot read its configuration, or the base runtime specification that this names",
        "containerd config dump names the line; ansible-playbook fabric.rdma.prepare writes its own part again, and the last good "
        "file lies beside it",
        lambda case: case.told(*_BROKEN),
    ),
    Rule(
        "containerd-not-serving",
        "containerd does not serve the kubelet",
        "error",
        ("facts", "logs"),
        "containerd runs, and its part for the kubelet (CRI) does not: no container starts there",
        "ctr plugins ls -d id==cri says why; most often a base runtime specification or a handler in its configuration",
        _not_serving,
        ("containerd-configuration-broken",),
    ),
    Rule(
        "rlimit-refused",
        "runc may not raise the limit of locked memory",
        "error",
        ("logs",),
        "the limit of locked memory in the base runtime specification is higher than containerd's own, which it may not exceed",
        "rdma_memlock: {method: spec} sets LimitMEMLOCK of the unit, too: ansible-playbook fabric.rdma.prepare; inside of a "
        "container only the outer host can raise it",
        lambda case: case.told(*_RLIMIT),
    ),
)
