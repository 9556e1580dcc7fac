# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iSCSI initiator names that several hosts have, and who keeps which. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

__all__ = ["duplicate_initiators"]

Json = t.Dict[str, t.Any]
Facts = t.Mapping[str, t.Any]


def _mapping(value: t.Any) -> t.Mapping[str, t.Any]:
    return value if isinstance(value, t.Mapping) else {}


def duplicate_initiators(facts_by_host: t.Mapping[str, Facts]) -> list[Json]:
    """Initiator names that several hosts have: [{name, hosts, keeper: host or None, regenerate: [host], refused: [host]}].

    facts_by_host: ansible_facts.rdma by host; hosts without the subset storage are passed over. The keeper is the host with
    open sessions, or without any the first by name: whatever order hosts are treated in, and in however many waves, the
    answer is the same. With sessions on several hosts nobody is the keeper, and those are in refused: to take a name from under
    a session is to lose its disk. Sorted by name.
    """
    hosts: dict[str, list[str]] = {}
    sessions: dict[str, bool] = {}
    for host in sorted(facts_by_host):
        # a host whose facts make no sense is not prepared, and keeps no other from it
        storage = _mapping(_mapping(facts_by_host[host]).get("storage"))
        iscsi = _mapping(storage.get("iscsi"))
        name = iscsi.get("initiator_name")
        # names are compared without regard to case (RFC 3722)
        if name and isinstance(name, str) and not iscsi.get("generate_name"):
            hosts.setdefault(name.lower(), []).append(host)
            sessions[host] = bool(iscsi.get("sessions"))
    found = []
    for name, sharing in sorted(hosts.items()):
        if len(sharing) < 2:
            continue
        busy = [host for host in sharing if sessions[host]]
        keeper = None if len(busy) > 1 else (busy or sharing)[0]
        found.append(
            {
                "name": name,
                "hosts": sharing,
                "keeper": keeper,
                "regenerate": [host for host in sharing if host != keeper and host not in busy],
                "refused": busy if len(busy) > 1 else [],
            }
        )
    return found
