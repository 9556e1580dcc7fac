# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done on a node for Longhorn, iSCSI and NFS volumes, out of the checks. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._prepare.package_names import names_of, names_of_family
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage import storage_findings

__all__ = ["storage_needs"]

Json = t.Dict[str, t.Any]
Facts = t.Mapping[str, t.Any]
_PARTS = ("iscsi", "nfs", "dm_crypt")


def storage_needs(
    facts: Facts,
    wish: t.Optional[t.Mapping[str, t.Any]] = None,
    duplicates: t.Sequence[Facts] = (),
    host: t.Optional[str] = None,
    os_family: t.Any = None,
) -> Json:
    """What has to be done on a host; arguments as of storage_checks().

    os_family: what Ansible calls the family of distributions, which decides what packages are called there; None: the facts do.

    ``needed``, ``reasons`` (the messages of what has to be repaired, and of errors that only people can repair), ``blocked``
    (those errors, with their remedies), ``packages`` (any at all), ``parts`` (of [iscsi, nfs, dm_crypt], those whose packages
    are missing), ``tools`` (programs that are missing), ``install`` (the packages of both, by name), ``modules`` (to load and
    persist), ``unit`` (None, or {name, start}: the unit to enable), ``initiator`` (None, or {taken}: a new name is due, none of
    these), ``multipath`` (a drop-in is due), ``restarts`` (of [iscsid, multipathd], those that an earlier run has not restarted).
    """
    findings = storage_findings(facts, wish, duplicates, host)
    fixes = {found.fix for found in findings if found.fix}
    blocked = [found for found in findings if found.status == "error" and found.fix is None]
    iscsi = facts["storage"]["iscsi"]
    unit = None
    if "service" in fixes:
        # a socket cannot be started beside its running service (systemd.socket(5))
        sockets = [name for name in iscsi["enabled"] or iscsi["units"] if name.endswith(".socket")]
        unit = {
            "name": (sockets or iscsi["enabled"] or ["iscsid.service"])[0],
            "start": iscsi["service"] not in ("running", "listening"),
        }
    modules = sorted(fix.split()[-1] for fix in fixes if fix.startswith("modules "))
    parts = [part for part in _PARTS if "packages " + part in fixes]
    tools = sorted(fix.split()[-1] for fix in fixes if fix.startswith("packages tools "))
    names = names_of(facts["storage"]["family"]) if os_family is None else names_of_family(os_family)
    install = [name for part in parts for name in getattr(names, part)]
    # a program that only the node speaks of is not the name of a package
    install += [names.tools[tool] for tool in tools if tool in names.tools]
    return {
        "needed": bool(fixes or blocked),
        "reasons": [found.message for found in findings if found.fix or found in blocked],
        "blocked": [f"{found.message}: {found.remedy}" for found in blocked],
        "packages": bool(parts or tools),
        "parts": parts,
        "tools": tools,
        "install": list(dict.fromkeys(install)),
        "modules": modules,
        "unit": unit,
        "initiator": {"taken": sorted({str(entry["name"]) for entry in duplicates})} if "initiator" in fixes else None,
        "multipath": "multipath" in fixes,
        "restarts": sorted(fix.split()[-1] for fix in fixes if fix.startswith("restart ")),
    }
