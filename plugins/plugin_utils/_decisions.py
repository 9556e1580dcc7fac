# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each host of a run has to have changed, from its facts and wishes. Private to the collection."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleError
from jinja2.exceptions import UndefinedError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.initiators import duplicate_initiators
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.needs import due, host_needs
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import (
    Plainer,
    PlainError,
    checked_facts,
    facts_of,
    malformed_in_words,
    others_in_words,
)

__all__ = ["decisions"]

Json = dict[str, t.Any]

# What host_needs() calls the wishes of a host.
_WISHES = {
    "ofed": "rdma_ofed",
    "want": "rdma_want",
    "storage": "rdma_storage",
    "memlock": "rdma_memlock",
    "gpudirect": "rdma_gpudirect",
    "roce_host": "rdma_roce_host",
    "rdma_compute_domain": "rdma_compute_domain",
}


class _Undecided(FabricError):
    """Nothing can be decided for a host."""


def _wishes(own: t.Mapping[str, t.Any], plain: Plainer) -> Json:
    """The wishes of a host, as host_needs() takes them. _Undecided for one that cannot be read, or makes no sense."""
    wishes: Json = {}
    for key, variable in _WISHES.items():
        try:
            wishes[key] = plain(own.get(variable))
        except PlainError as exc:
            raise _Undecided(f"{variable} {exc}") from exc
        except (AnsibleError, UndefinedError) as exc:
            reason = (str(exc).strip().splitlines() or ["its template fails"])[0]
            raise _Undecided(f"{variable} cannot be read: {reason}") from exc
        found = problems(variable, wishes[key])
        if found:
            raise _Undecided(". ".join(found))
    return {**wishes, "link_layer": (wishes["want"] or {}).get("link_layer")}


def _facts(own: t.Mapping[str, t.Any], host: str, plain: Plainer, seen: set[tuple[int, int]]) -> Json:
    """The facts of a host. _Undecided for those that are not of this host, or cannot be used."""
    known = facts_of(own)
    others = others_in_words(known, host)
    if others:
        raise _Undecided(others)
    facts, _when, malformed = checked_facts(known.get("rdma"), plain, seen)
    if not malformed and "kernel" not in facts:
        malformed = ["the subset kernel is missing"]
    if malformed:
        raise _Undecided(malformed_in_words(host, malformed))
    return t.cast(Json, facts)


def decisions(
    hostvars: t.Mapping[str, t.Any], hosts: t.Iterable[str], duplicates: t.Optional[t.Sequence[Json]] = None
) -> Json:
    """{needs: {host: what host_needs() says}, due: {host: {roles, away}}, open: [host], failed: {host: why}, duplicates}.

    hostvars: variables of all hosts, wishes and facts among them. due: the hosts on which something is to be done, in the order of
    `hosts`; a replayed host (rdma_capture) is never one. open: those of them whose last change never finished, which may lack nothing
    but the end of it. failed: for which nothing can be decided; that costs no other host anything. duplicates: what
    duplicate_initiators() says, by default of these hosts.
    """
    plain = Plainer()
    seen: set[tuple[int, int]] = set()
    failed: dict[str, str] = {}
    known: dict[str, tuple[Json, Json]] = {}
    replayed: set[str] = set()
    for host in map(str, hosts):
        # once a host: each look puts all of its variables together
        own = hostvars[host]
        try:
            known[host] = _facts(own, host, plain, seen), _wishes(own, plain)
        except _Undecided as exc:
            failed[host] = str(exc)
        if "rdma_capture" in own:
            replayed.add(host)
    if duplicates is None:
        duplicates = duplicate_initiators(
            {host: facts for host, (facts, _own) in known.items() if host not in replayed}
        )
    needs: Json = {}
    for host, (facts, wishes) in known.items():
        try:
            needs[host] = host_needs(facts, {**wishes, "duplicates": duplicates, "host": host})
        except FabricError as exc:
            failed[host] = str(exc)
    unfinished = [host for host in needs if "change" in known[host][0] and host not in replayed]
    told = {host: due(own) for host, own in needs.items() if host not in replayed}
    return {
        "needs": needs,
        "due": {host: own for host, own in told.items() if own["roles"] or host in unfinished},
        "open": unfinished,
        "failed": failed,
        "duplicates": duplicates,
    }
