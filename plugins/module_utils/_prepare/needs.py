# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host needs to have changed, decided from its facts alone. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_choice import ofed_needs
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.gpudirect import gpudirect_needs
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.imex import imex_needs
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_plan import memlock_needs
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.package_names import names_of_family
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce import roce_needs
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage_needs import storage_needs

__all__ = ["due", "host_needs"]

Json = t.Dict[str, t.Any]


def _headers(prefix: str, release: str) -> str:
    """The package with the headers of a kernel. RHEL's kernels of other kinds say it last: 5.14.0-427.el9.aarch64+64k is kernel-64k's."""
    base, _plus, kind = release.partition("+")
    if kind and prefix.startswith("kernel-"):
        return prefix.replace("kernel-", f"kernel-{kind}-", 1) + base
    return prefix + release


def _rdma_names(os_family: t.Any, release: t.Optional[str]) -> Json:
    names = names_of_family(os_family)
    headers = _headers(names.headers, release) if names.headers and release else None
    return {"user_space": list(names.user_space), "driver": list(names.driver), "headers": headers}


def host_needs(facts: t.Mapping[str, t.Any], wishes: t.Mapping[str, t.Any]) -> Json:
    """What each preparing role has to do on a host: {role: {needed, reasons, ...}}, in the order in which the roles have to run.

    facts: ansible_facts.rdma with the subset kernel; ``roce_host`` is told with the subsets devices, management and roce where it is
    wished for, ``storage_prereqs`` with storage, ``containerd_memlock`` with runtime, ``nvidia_peermem`` and ``nvidia_imex`` with
    devices and gpus. wishes: {ofed, link_layer, want, roce_host, storage, duplicates, host, memlock, gpudirect, rdma_compute_domain},
    each as the group has it, and os_family, what Ansible calls the family of distributions, all optional. With os_family, ``ofed``
    has names: {user_space, driver, headers}, the packages as they are called there. What else is in the value of a role, the
    function that makes it tells.

    A host for which every `needed` is false is converged: no role has to run on it. FabricError for a wish that cannot be
    fulfilled there.
    """
    needs: Json = {
        "ofed": ofed_needs(
            facts, wishes.get("ofed") or {}, wishes.get("link_layer") or defaults_of("rdma_want", "link_layer")
        )
    }
    if wishes.get("os_family") is not None:
        needs["ofed"]["names"] = _rdma_names(wishes["os_family"], facts["kernel"]["release"])
    if wishes.get("roce_host") and {"devices", "management", "roce"} <= set(facts):
        needs["roce_host"] = roce_needs(facts, wishes["roce_host"], wishes.get("want"))
    if "storage" in facts:
        needs["storage_prereqs"] = storage_needs(
            facts,
            wishes.get("storage"),
            wishes.get("duplicates") or (),
            wishes.get("host"),
            wishes.get("os_family"),
        )
    if "runtime" in facts:
        needs["containerd_memlock"] = memlock_needs(facts, wishes.get("memlock") or {})
    if "nvidia" in facts and "devices" in facts:
        needs["nvidia_peermem"] = gpudirect_needs(facts, wishes.get("gpudirect") or defaults_of("rdma_gpudirect"))
        needs["nvidia_imex"] = imex_needs(facts, wishes.get("rdma_compute_domain"))
    roce = needs.get("roce_host")
    if roce and roce["blocked"] and needs["ofed"]["needed"]:
        # the driver stack may bring what is missing; the role, which decides again with the facts of then, may have to drain the node
        roce["drain"] = True
    peermem = needs.get("nvidia_peermem")
    if peermem and needs["ofed"].get("driver") and peermem["problems"] and not peermem["managed"]:
        # another driver may bring the symbol; the role decides again with the facts of then
        peermem.update(needed=True, reasons=["the driver stack comes first", *peermem["reasons"]])
    return needs


def due(needs: t.Mapping[str, t.Any]) -> Json:
    """What host_needs says in short: {roles, away}, the roles that have to run, in order, and whether the host is out of service meanwhile."""
    ofed = needs.get("ofed") or {}
    drains = [needs.get(role) or {} for role in ("nvidia_imex", "roce_host")]
    away = any(ofed.get(key) for key in ("driver", "activate", "prove")) or any(each.get("drain") for each in drains)
    return {"roles": [role for role, need in needs.items() if need["needed"]], "away": away}
