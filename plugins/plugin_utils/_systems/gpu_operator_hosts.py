# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the GPU Operator's driver has to be, by what was found on the hosts, and what contradicts it. Private. Pure.

How HCAs reach the memory of GPUs is judged as nvidia_peermem judges it (_prepare/gpudirect.py), as if the driver were the operator's
already. The rest follows the operator's documentation (GPUDirect RDMA) and assets/state-driver: with driver.rdma.enabled, a container beside the
driver loads nvidia-peermem, and until it has done so the driver's Pod is not ready.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.gpudirect import OPEN_ONLY, PROPRIETARY_ONLY, decide
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import Version
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import named

__all__ = ["VARIABLE", "DriverPlan", "Host", "driver_plan", "gpu_hosts"]

VARIABLE = "rdma_gpu_operator"
_MODULE_TYPE = (25, 3)
# nvidia_peermem counts in GPU pages of 64 KiB.
_GPU_PAGE = 65536


class Host(t.NamedTuple):
    """A host with NVIDIA GPUs. own: the release of a driver that is not the operator's, "" when it is not known; None without one.

    managed: the operator's driver runs there. way: peermem, dmabuf or none, if the driver is or were the operator's. wish: rdma_gpudirect
    of its group.
    """

    name: str
    own: t.Optional[str]
    managed: bool
    way: str
    wish: str
    generations: tuple[str, ...]
    ofed: bool
    hcas: bool
    page_size: int
    legacy: bool
    release: str


class DriverPlan(t.NamedTuple):
    """Values of the chart that follow from the hosts, with what is wrong."""

    enabled: bool
    rdma: bool
    host_mofed: bool
    module_type: str
    problems: list[str]
    warnings: list[str]
    # hosts whose driver the operator brings
    brought: list[Host]


def gpu_hosts(site: Site, groups: t.Iterable[str]) -> tuple[list[Host], list[str]]:
    """(hosts with NVIDIA GPUs, problems: hosts of which nothing is known)."""
    found: list[Host] = []
    unknown: list[str] = []
    problems: list[str] = []
    for group in sorted(groups):
        wish = site["wishes"].get(group, {}).get("rdma_gpudirect") or defaults_of("rdma_gpudirect")
        for name in site["groups"][group]:
            facts = site["facts"].get(name)
            if facts is None or not {"kernel", "ofed", "gpus", "devices"} <= set(facts):
                unknown.append(name)
                continue
            try:
                host = _host(name, facts, wish)
            except WishError as exc:
                problems.append(f"group {group}: {exc}")
                break
            found += [host] if host else []
    if unknown:
        problems.append(
            f"{named('host', unknown, len(unknown))}: GPUs, driver and kernel are not known; discover again (discover.yml, without "
            "discover_gather_subset)"
        )
    return found, problems


def _host(name: str, facts: Json, wish: t.Any) -> t.Optional[Host]:
    """None without NVIDIA GPUs."""
    nvidia, kernel = facts.get("nvidia") or {}, facts["kernel"]
    managed = bool(nvidia.get("operator"))
    decision = decide({**facts, "nvidia": {**nvidia, "operator": True}}, wish)
    if not any(gpu["vendor"] == "10de" for gpu in facts["gpus"]):
        return None
    there = kernel["modules"]["nvidia"]["available"]
    return Host(
        name=name,
        own=str(nvidia.get("driver") or "") if there and not managed else None,
        managed=managed,
        way=decision["way"],
        wish=str(wish),
        generations=tuple(decision["generations"]),
        ofed=facts["ofed"]["flavour"] != "inbox",
        hcas=any(device["kind"] in ("pf", "vf", "sf") for device in facts["devices"]),
        page_size=kernel["page_size"] or 0,
        legacy=bool(kernel["modules"].get("nv_peer_mem", {}).get("loaded")),
        release=str(kernel["release"] or ""),
    )


def _names(hosts: t.Iterable[Host]) -> str:
    return named("host", [host.name for host in hosts], 20)


def _has(hosts: t.Collection[Host]) -> str:
    return f"{_names(hosts)} {'has' if len(hosts) == 1 else 'have'}"


def _enabled(wish: Json, hosts: t.Sequence[Host]) -> tuple[bool, list[str], list[str]]:
    asked = wish["driver"]["enabled"]
    bare = [host for host in hosts if host.own is None]
    own = [host for host in hosts if host.own is not None]
    problems, warnings = [], []
    if asked is False and bare:
        managed = [host for host in bare if host.managed]
        without = [host for host in bare if not host.managed]
        if managed:
            problems.append(
                f"{VARIABLE}.driver.enabled is false, and the NVIDIA driver of {_names(managed)} is the operator's, which would go with "
                "all that uses its GPUs: install a driver on the hosts first, or leave it to auto"
            )
        if without:
            problems.append(
                f"{VARIABLE}.driver.enabled is false, and {_has(without)} no NVIDIA driver for its kernel: install one there, or "
                "leave it to auto"
            )
    enabled = bool(bare) if asked == "auto" else bool(asked)
    if enabled and own:
        warnings.append(
            f"{_names(own)} with an NVIDIA driver of the host's own, which the operator leaves as it is; what it is and how HCAs reach its GPUs is the "
            "business of the host (role nvidia_peermem)"
        )
    return enabled, problems, warnings


def _module_problems(wish: Json, brought: t.Sequence[Host]) -> list[str]:
    asked = wish["kernel_module_type"]
    problems = []
    old = [host for host in brought if set(host.generations) & set(PROPRIETARY_ONLY)]
    new = [host for host in brought if set(host.generations) & set(OPEN_ONLY)]
    if asked == "open" and old:
        problems.append(
            f"{VARIABLE}.kernel_module_type is open, and {_has(old)} GPUs older than Turing, which only the proprietary modules drive: "
            "set auto, or keep such hosts out of the groups"
        )
    if asked == "proprietary" and new:
        problems.append(
            f"{VARIABLE}.kernel_module_type is proprietary, and {_has(new)} GPUs that only the open modules drive: set auto"
        )
    if wish["gds"] and (old or asked == "proprietary"):
        problems.append(
            f"{VARIABLE}.gds needs the open kernel modules{' on ' + _names(old) if old else ''}: set gds: false, or kernel_module_type: auto"
        )
    beside = [name for name in ("gds", "gdrcopy") if wish[name]]
    if brought and wish["driver"]["precompiled"] and beside:
        problems.append(
            f"{VARIABLE}.driver.precompiled is true, and so is {' and '.join(beside)}, whose kernel modules are built beside the driver: the "
            f"operator brings no driver with both; set {VARIABLE}.{beside[0]}: false, or precompiled: false"
        )
    impossible = [host for host in old if host.wish == "dmabuf"]
    if impossible:
        problems.append(
            f"rdma_gpudirect is dmabuf, and {_has(impossible)} GPUs whose modules export no DMA-BUF: set it to peermem or auto for the group"
        )
    return problems


def _module_type(release: Version, wish: Json, brought: t.Sequence[Host]) -> tuple[str, list[str]]:
    """(auto, open or proprietary, problems). Before 25.3 there is no auto: it is one for all nodes."""
    asked = str(wish["kernel_module_type"])
    kinds = {"proprietary" if set(host.generations) & set(PROPRIETARY_ONLY) else "open" for host in brought}
    if asked != "auto" or not brought:
        return asked, []
    if kinds == {"open"}:
        return "open", []
    if release.line >= _MODULE_TYPE:
        return "auto", []
    if len(kinds) > 1:
        return "open", [
            f"GPU Operator {release.text} has one sort of kernel modules for all nodes, and these GPUs need the open ones and the "
            "proprietary ones: set version to 25.3 or newer, or keep the groups apart"
        ]
    return "proprietary", []


def _peermem_problems(wish: Json, brought: t.Sequence[Host], container: bool) -> list[str]:
    """What keeps nvidia_peermem from being loaded beside the operator's driver."""
    problems = []
    with_hcas = [host for host in brought if host.hcas]
    refused = [host for host in with_hcas if host.wish in ("dmabuf", "none")]
    if refused:
        problems.append(
            f"{VARIABLE}.rdma loads nvidia_peermem on all nodes, and rdma_gpudirect of {_names(refused)} is "
            f"{refused[0].wish}: set rdma: false, or rdma_gpudirect: auto for the group"
        )
    large = [host for host in with_hcas if host.page_size > _GPU_PAGE]
    if large:
        problems.append(
            f"{_has(large)} pages larger than those of the GPU, with which nvidia_peermem cannot work: boot a kernel with smaller ones"
        )
    legacy = [host for host in with_hcas if host.legacy]
    if legacy:
        problems.append(
            f"{_has(legacy)} nv_peer_mem loaded, the ancestor of nvidia_peermem, and both register under the same name: remove it "
            "(nvidia_peermem_remove_legacy: true)"
        )
    inbox = [host for host in brought if not host.ofed]
    if inbox and not container and wish["use_host_mofed"] is not False:
        problems.append(
            f"driver.rdma needs an ib_core that exports ib_register_peer_memory_client, and {_has(inbox)} the kernel's own"
            ": the driver's Pod would never get ready; install MLNX_OFED or DOCA-OFED there (rdma_ofed), or let the "
            f"Network Operator bring it (rdma_rollout.ofed_driver), or do without (rdma_gpudirect: none, {VARIABLE}.rdma: false)"
        )
    return problems


def _host_mofed(wish: Json, brought: t.Sequence[Host], container: bool) -> tuple[bool, list[str], list[str]]:
    asked = wish["use_host_mofed"]
    there = [host for host in brought if host.ofed]
    inbox = [host for host in brought if not host.ofed]
    if asked == "auto":
        if there and inbox and container:
            return (
                True,
                [
                    f"driver.rdma.useHostMofed is one for all nodes: {_has(there)} OFED on the host, and {_names(inbox)} would get it in a "
                    "container; have it in the same place everywhere"
                ],
                [],
            )
        return not container or bool(there), [], []
    if asked is False and there:
        return (
            False,
            [
                f"{VARIABLE}.use_host_mofed is false, and {_has(there)} OFED on the host: the driver's Pod would wait for ever for "
                "one in a container (/run/mellanox/drivers/.driver-ready); leave it to auto"
            ],
            [],
        )
    if asked is False and not container:
        return (
            False,
            [],
            [
                f"{VARIABLE}.use_host_mofed is false: the driver's Pod waits until somebody brings OFED in a container, and "
                "rdma_rollout.ofed_driver does not"
            ],
        )
    return bool(asked), [], []


def _without_rdma(wish: Json, brought: t.Sequence[Host]) -> list[str]:
    needing = [host for host in brought if host.way == "peermem"]
    if wish["rdma"] is False and needing:
        explicit = [host for host in needing if host.wish == "peermem"]
        why = (
            f"rdma_gpudirect is peermem for {_names(explicit)}"
            if explicit
            else f"HCAs of {_names(needing)} reach the GPUs by nvidia_peermem only"
        )
        return [f"{VARIABLE}.rdma is false, and {why}: set it to auto, or rdma_gpudirect: none for the group"]
    forced = [host for host in brought if host.way == "dmabuf"] if wish["kernel_module_type"] == "proprietary" else []
    if forced:
        return [
            f"{VARIABLE}.kernel_module_type is proprietary, whose modules export no DMA-BUF, and {_has(forced)} no other way to its GPUs: "
            "set it to auto, or rdma: true, which needs OFED"
        ]
    return []


def driver_plan(release: Version, wish: Json, hosts: t.Sequence[Host], container: bool) -> DriverPlan:
    """What the chart is told of the driver. container: the Network Operator brings OFED in one (rdma_rollout.ofed_driver)."""
    enabled, problems, warnings = _enabled(wish, hosts)
    brought = [host for host in hosts if host.own is None] if enabled else []
    kind, wrong = _module_type(release, wish, brought)
    problems += [*wrong, *_module_problems(wish, brought)]
    rdma = any(host.way == "peermem" for host in brought) if wish["rdma"] == "auto" else bool(wish["rdma"])
    mofed = False
    if wish["rdma"] is True and not brought:
        problems.append(
            f"{VARIABLE}.rdma is true, and the operator brings no driver to any host, so that nobody would load nvidia_peermem: the role "
            "nvidia_peermem does, where the host has a driver of its own; leave it to auto"
        )
    elif rdma:
        problems += _peermem_problems(wish, brought, container)
        mofed, wrong, careful = _host_mofed(wish, brought, container)
        if wish["use_host_mofed"] is True and not all(host.ofed for host in brought) and not problems:
            problems.append(f"{VARIABLE}.use_host_mofed is true, and not every host has OFED: leave it to auto")
        problems += wrong
        warnings += careful
    else:
        problems += _without_rdma(wish, brought)
    return DriverPlan(enabled, rdma, mofed, kind, problems, warnings, brought)
