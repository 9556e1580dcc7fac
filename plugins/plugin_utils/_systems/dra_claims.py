# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which claims a class has templates for: one function, all of them, a rail, all rails, each also with a GPU beside it. Private. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_objects import Want, claim_template, example_pod
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_select import Choice, pools_by_pci
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import DATA_DIRECT, pcie_root

__all__ = ["claims_of", "object_name"]

Json = dict[str, t.Any]

# k8s.io/api/resource/v1, AllocationResultsMaxSize: devices of one claim
_MOST_DEVICES = 32


def object_name(slug: str, pool: str) -> str:
    """The DeviceClass of a pool of a class, and what templates are named after: names of objects have no underscores and no capitals."""
    return f"{slug}-" + re.sub(r"[^a-z0-9]+", "-", pool.rpartition("/")[2].lower()).strip("-")


def _counts(entry: Class, pool: str) -> set[int]:
    """How many functions of a pool the hosts of a class have."""
    return {list(pools_by_pci(entry, host).values()).count(pool) for host in entry["hosts"]}


def _gpu_obstacle(entry: Class, pools: t.Collection[str], facts: t.Mapping[str, Json]) -> t.Optional[str]:
    """Why no claim for a function of these pools and a GPU under one PCIe root could be satisfied everywhere, None when it can."""
    for host in entry["hosts"]:
        own = facts.get(host) or {}
        gpus = {pcie_root(gpu) for gpu in own.get("gpus") or ()} - {None}
        wanted = pools_by_pci(entry, host)
        for row in own.get("devices") or ():
            if wanted.get(row["pci"]) in pools and row["kind"] != "smi":
                root = pcie_root(row)
                if root is None:
                    return f"facts do not tell the PCIe root of {row['name']} of host {host}"
                if root not in gpus:
                    return f"{row['name']} of host {host} is below {root}, where there is no GPU"
    return None


def _shared_root(entry: Class, pools: t.Collection[str], facts: t.Mapping[str, Json]) -> t.Optional[str]:
    """Where the root says less than it seems to: several GPUs are below one."""
    for host in entry["hosts"]:
        own = facts.get(host) or {}
        roots = [pcie_root(gpu) for gpu in own.get("gpus") or ()]
        wanted = pools_by_pci(entry, host)
        for row in own.get("devices") or ():
            root = pcie_root(row)
            if wanted.get(row["pci"]) in pools and roots.count(root) > 1:
                return (
                    f"{roots.count(root)} GPUs of host {host} are below {root}, as is {row['name']}: a claim for a device and a GPU "
                    "below one root may get any of them, not the nearest"
                )
    return None


def _data_direct(entry: Class, facts: t.Mapping[str, Json]) -> t.Optional[str]:
    for host in entry["hosts"]:
        wanted = pools_by_pci(entry, host)
        for row in (facts.get(host) or {}).get("devices") or ():
            if row["pci"] in wanted and (row["vendor"], row["device"]) in DATA_DIRECT:
                return (
                    f"{row['name']} of host {host} is a {row['model'] or 'ConnectX-8 or later'}, which reaches GPUs by its Data Direct "
                    "function: where the platform has one, the GPU beside the card is below the root of that function, and DRANET "
                    "publishes the root of the card itself"
                )
    return None


def _kinds(
    slug: str, entry: Class, choices: t.Sequence[Choice], gpu: t.Optional[str]
) -> tuple[list[tuple[str, list[Want]]], list[str]]:
    """([(name of a template, what it asks for)], warnings)."""
    found: list[tuple[str, list[Want]]] = []
    notes: list[str] = []
    suffix = "-gpu" if gpu else ""
    together: list[Want] = []
    for choice in choices:
        name = object_name(slug, choice.pool)
        counts = _counts(entry, choice.pool)
        if choice.rail is None:
            found.append((name + suffix, [Want("rdma", name, 1, gpu)]))
            if not gpu:
                found.append((f"{name}-all", [Want("rdma", name, None)]))
            continue
        alike = counts == {1} or bool(gpu)
        want = Want(f"rail{choice.rail}", name, 1 if alike else None, gpu)
        found.append((name + suffix, [want]))
        together.append(want)
        if 0 in counts:
            notes.append(
                f"class {slug}: rail {choice.rail} has nothing to offer on some hosts, so that a claim for all rails is never "
                "satisfied there"
            )
    devices = sum(max(_counts(entry, choice.pool)) + bool(gpu) for choice in choices)
    if len(together) > 1 and devices <= _MOST_DEVICES:
        found.append((f"{slug}-rails{suffix}", together))
    elif len(together) > 1:
        notes.append(
            f"class {slug}: a claim takes {_MOST_DEVICES} devices, and all rails are {devices}: there is one template for each"
        )
    return found, notes


def claims_of(
    slug: str,
    group: str,
    entry: Class,
    choices: t.Sequence[Choice],
    wish: t.Mapping[str, t.Any],
    facts: t.Mapping[str, Json],
) -> tuple[list[Json], dict[str, list[Json]], list[str]]:
    """(ResourceClaimTemplates to apply, files for users, warnings) of a class.

    wish: rdma_rollout.claims {namespaces: where templates are applied, gpu_class: the DeviceClass of GPUs}. Files have every template
    without a namespace, and a Pod that shows how one is used.
    """
    kinds, notes = _kinds(slug, entry, choices, None)
    gpu = wish.get("gpu_class")
    if gpu and choices:
        caveat = _data_direct(entry, facts)
        obstacle = _gpu_obstacle(entry, {choice.pool for choice in choices}, facts)
        if obstacle:
            notes.append(
                f"class {slug}: no template asks for a GPU beside its device, since {obstacle}, and such a claim would wait for ever"
                f"{'. ' + caveat if caveat else ''}"
            )
        else:
            kinds += _kinds(slug, entry, choices, str(gpu))[0]
            notes += [f"class {slug}: {caveat}: check on a node that it gets the GPU beside it"] if caveat else []
            shared = _shared_root(entry, {choice.pool for choice in choices}, facts)
            notes += [f"class {slug}: {shared}"] if shared else []
    applied = [
        claim_template(name, namespace, slug, group, wants)
        for namespace in wish.get("namespaces") or []
        for name, wants in kinds
    ]
    if not kinds:
        return applied, {}, notes
    shown = [claim_template(name, None, slug, group, wants) for name, wants in kinds]
    first = next((name for name, _wants in kinds if name == f"{slug}-rails"), kinds[0][0])
    return applied, {f"{slug}-dra.yaml": [*shown, example_pod(f"{slug}-example", slug, first)]}, notes
