# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts fall short of what Longhorn needs of a node, in words. Private. Pure.

Nodes are judged as storage_prereqs judges them (_prepare/storage.py); for the V2 data engine as ``longhornctl check preflight
--enable-spdk`` does (longhorn/cli, pkg/local/preflight/checker.go), with the kernels of Longhorn's documentation.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import SPDK_MODULES
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.initiators import duplicate_initiators
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage import storage_checks
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.node_views import tolerated
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import named

__all__ = ["Spdk", "node_findings", "taint_findings"]

# Longhorn's documentation, V2 Data Engine, prerequisites: below 5.19, I/O errors of a volume may reboot the host.
_V2_KERNEL, _V2_KERNEL_WISHED = (5, 19), (6, 7)
# one page of what is reserved
_PAGE_MIB = 2
# k8s.io/kubernetes, pkg/controller/daemon/util: a DaemonSet tolerates these taints by itself
_OF_KUBERNETES = "node.kubernetes.io/"


class Spdk(t.NamedTuple):
    """What the V2 data engine takes of a node: huge pages (MiB, 0 for none) and whole CPUs."""

    pages_mib: int
    cpus: int


# (status: error|warning, check, message, remedy)
_Row = tuple[str, str, str, t.Optional[str]]


def _group_of(site: Site, host: str) -> str:
    return next((group for group, hosts in site["groups"].items() if host in hosts), "")


def _v2_rows(kernel: Json, spdk: Spdk) -> t.Iterator[_Row]:
    again = "discover the host again"
    for name in SPDK_MODULES:
        state = kernel["modules"].get(name)
        if state is None:
            yield "error", "modules", f"It is not known whether module {name} is loaded", again
        elif not state["available"]:
            remedy = "install the modules of this kernel (Ubuntu: linux-modules-extra, RHEL: kernel-modules-extra)"
            yield "error", "modules", f"Module {name} is not there for kernel {kernel['release']}", remedy
        elif not state["loaded"]:
            yield (
                "error",
                "modules",
                f"Module {name} is not loaded",
                f"`modprobe {name}`, and add it to /etc/modules-load.d",
            )
        elif not state["persisted"]:
            yield "warning", "modules", f"Module {name} is loaded, but not at boot", "add it to /etc/modules-load.d"
    pages, needed = kernel.get("hugepages_2m"), -(-spdk.pages_mib // _PAGE_MIB)
    remedy = f"`sysctl -w vm.nr_hugepages={needed}`, persist it in /etc/sysctl.d, and restart the kubelet"
    if needed and "hugepages_2m" not in kernel:
        yield "error", "hugepages", "It is not known how many huge pages of 2 MiB are reserved", again
    elif needed and (pages or 0) < needed:
        yield "error", "hugepages", f"{pages or 0} huge pages of 2 MiB are reserved, and {needed} are needed", remedy
    yield from _v2_cpu_rows(kernel, spdk)


def _v2_cpu_rows(kernel: Json, spdk: Spdk) -> t.Iterator[_Row]:
    cpu = kernel.get("cpu")
    if cpu is None:
        yield "error", "CPU", "It is not known which CPUs there are", "discover the host again"
    else:
        if cpu["features"] == []:
            yield "error", "CPU", "The CPU has neither SSE4.2 nor ASIMD", "SPDK cannot run here: use data_engine: v1"
        elif cpu["features"] is None:
            yield (
                "warning",
                "CPU",
                "The kernel does not tell whether the CPU has SSE4.2 or ASIMD",
                "look at /proc/cpuinfo",
            )
        if cpu["online"] is not None and cpu["online"] <= spdk.cpus:
            message = (
                f"{cpu['online']} CPUs are online, and the data engine keeps {spdk.cpus} of them busy all the time"
            )
            yield "error", "CPU", message, "use data_engine: v1 here"
    match = re.match(r"(\d{1,4})\.(\d{1,4})", kernel["release"] or "")
    release = (int(match[1]), int(match[2])) if match else None
    if release is None:
        yield "warning", "kernel", "The release of the kernel is not known", "discover the host again"
    elif release < _V2_KERNEL:
        message = f"Kernel {kernel['release']} is older than 5.19: errors of a V2 volume may reboot the host"
        yield "error", "kernel", message, "install a newer kernel"
    elif release < _V2_KERNEL_WISHED:
        yield (
            "warning",
            "kernel",
            f"Kernel {kernel['release']} is older than 6.7, which Longhorn recommends for V2 volumes",
            None,
        )


def _rows(
    site: Site, host: str, duplicates: t.Sequence[t.Mapping[str, t.Any]], path: str, spdk: t.Optional[Spdk]
) -> t.Iterator[_Row]:
    facts = site["facts"].get(host)
    if facts is None or "storage" not in facts or "kernel" not in facts:
        what = "There are no facts of it" if facts is None else "Its facts do not tell of storage and kernel"
        yield "error", "facts", what, "discover it (discover.yml, without discover_gather_subset)"
        return
    wish = dict(site["wishes"].get(_group_of(site, host), {}).get("rdma_storage") or {})
    # Longhorn attaches its volumes over iSCSI, whatever else the hosts were prepared for
    wish.update(iscsi=True, path="" if path.startswith("/dev/") else path)
    try:
        checks = storage_checks(facts, wish, duplicates, host)
    except WishError as exc:
        yield "error", "rdma_storage", str(exc), "correct the wish of its group"
        return
    for check in checks:
        if check["status"] != "ok":
            yield check["status"], check["check"], check["message"], check["remedy"]
    if spdk is not None:
        yield from _v2_rows(facts["kernel"], spdk)


def _in_words(found: t.Mapping[tuple[str, _Row], t.Sequence[str]], most: t.Optional[int]) -> list[str]:
    """found: {(what hosts cannot, why): hosts}. All that the same hosts lack is told together, in the order in which it was found.

    most: so many hosts are named, None for all.
    """
    told: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (head, (_status, check, message, remedy)), hosts in found.items():
        end = f"; {remedy}" if remedy else ""
        told.setdefault((head, tuple(hosts)), []).append(f"{message} (check {check}){end}")
    return [
        f"{named('host', hosts, most or len(hosts))} {head}: {'. '.join(reasons)}"
        for (head, hosts), reasons in told.items()
    ]


def node_findings(
    site: Site, storing: t.Sequence[str], using: t.Sequence[str], path: str, spdk: t.Optional[Spdk]
) -> tuple[list[str], list[str]]:
    """(problems, warnings): all that hosts lack. A problem has all their names, a warning those of the first twenty.

    storing: hosts whose disks hold volumes. using: the other ones, whose Pods may only use them. path: of the volumes; a device below
    /dev has no file system. spdk: None without the V2 data engine.
    """
    duplicates = duplicate_initiators(site["facts"])
    problems: dict[tuple[str, _Row], list[str]] = {}
    warnings: dict[tuple[str, _Row], list[str]] = {}
    for host in sorted(storing):
        for row in _rows(site, host, duplicates, path, spdk):
            if row[0] == "error":
                problems.setdefault(("cannot store for Longhorn", row), []).append(host)
            else:
                warnings.setdefault(("may get into trouble", row), []).append(host)
    for host in sorted(using):
        for row in _rows(site, host, duplicates, "", spdk):
            if row[0] == "error":
                warnings.setdefault(("cannot use volumes", row), []).append(host)
    # a node that is not named is a node that is not prepared
    return _in_words(problems, None), _in_words(warnings, 20)


def _untolerated(
    names: t.Iterable[str], nodes: t.Mapping[str, Json], tolerations: t.Sequence[t.Mapping[str, t.Any]]
) -> dict[tuple[str, str], list[str]]:
    """{(key, taint in words): nodes}: on which no Pod of Longhorn would run."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in sorted(names):
        for taint in nodes.get(name, {}).get("taints") or ():
            key, effect = str(taint.get("key")), taint.get("effect")
            asks = effect == "PreferNoSchedule" or key.startswith(_OF_KUBERNETES)
            if not asks and not tolerated(taint, tolerations):
                value = f"={taint['value']}" if taint.get("value") else ""
                found.setdefault((key, f"{key}{value}:{effect}"), []).append(name)
    return found


def taint_findings(
    storing: t.Iterable[str],
    using: t.Iterable[str],
    nodes: t.Mapping[str, Json],
    tolerations: t.Sequence[t.Mapping[str, t.Any]],
) -> tuple[list[str], list[str]]:
    """(problems, warnings): nodes on which no Pod of Longhorn would run.

    storing, using: nodes; nodes: as cluster_state has them; tolerations: rdma_longhorn's.
    """

    def words(names: t.Sequence[str], most: int, taint: str) -> str:
        have = f"{named('node', names, most)} {'have' if len(names) > 1 else 'has'} the taint {taint}"
        return f"{have}, which rdma_longhorn.tolerations do not tolerate, so that no Pod of Longhorn runs there and"

    problems = [
        f"{words(names, len(names), taint)} it stores nothing: add {{key: {key}, operator: Exists}} to them, or let it not store "
        "(rdma_longhorn.groups, .nodes)"
        for (key, taint), names in _untolerated(storing, nodes, tolerations).items()
    ]
    warnings = [
        f"{words(names, 20, taint)} no Pod there can use volumes: add {{key: {key}, operator: Exists}} to them if some are to"
        for (key, taint), names in _untolerated(using, nodes, tolerations).items()
    ]
    return problems, warnings
