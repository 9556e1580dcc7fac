# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All wishes of an inventory, looked at before anything is done. Private to the collection."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleError
from jinja2.exceptions import UndefinedError

from ansible_collections.fabric.rdma.plugins.module_utils._base.words import nearest
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import (
    CLUSTER_WIDE,
    OF_A_GROUP,
    OF_A_RUN,
    PLANNED,
    foreign_facts,
    misspelt,
    problems,
    with_defaults,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_choice import OfedError, check_wish
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_plan import MemlockError, parse_wish
from ansible_collections.fabric.rdma.plugins.module_utils._rollout import daemonset as _manifests
from ansible_collections.fabric.rdma.plugins.module_utils._rollout import operator as _operator
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.departures import slice_in_words
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import Plainer, foreign_in_words

__all__ = ["inventory_problems"]

Json = t.Dict[str, t.Any]

# What the planner calls its wishes.
_PLANNER_KEYS = {
    "resource": "rdma_resource",
    "want": "rdma_want",
    "strategy": "rdma_selector_strategy",
    "rails": "rdma_rails",
}
# What only planning asks for.
_FOR_A_PLAN = (
    "rdma_groups is not set. It is the list of the inventory's groups that RDMA is planned for, each with its own rdma_resource. Set "
    'it for all RDMA hosts, for example in group_vars/rdma.yml: "rdma_groups: [ib-a100]"'
)


class _Unreadable(t.NamedTuple):
    """A variable that is there and cannot be had, such as one with a template of something that is not."""

    reason: str


def _value(own: t.Mapping[str, t.Any], variable: str, plain: Plainer) -> t.Any:
    if variable not in own:
        return None
    try:
        return plain(own[variable])
    except (AnsibleError, UndefinedError) as exc:
        return _Unreadable((str(exc).strip().splitlines() or ["its template fails"])[0])


class _Finder:
    """Problems with the hosts that have them; one that a whole group has is the group's."""

    def __init__(self) -> None:
        self.found: t.Dict[t.Tuple[str, str], t.List[str]] = {}
        self.hosts: t.Dict[str, t.List[str]] = {}

    def add(self, group: str, host: str, texts: t.Iterable[str]) -> None:
        for text in texts:
            self.found.setdefault((group, text), []).append(host)

    def words(self) -> t.List[str]:
        lines = []
        for (group, text), hosts in sorted(self.found.items()):
            own = self.hosts.get(group, [])
            more = " (and %d more)" % (len(hosts) - 1) if len(hosts) > 1 else ""
            if not group:
                lines.append("host %s%s: %s" % (hosts[0], more, text))
            elif len(hosts) == len(own):
                lines.append("group %s: %s" % (group, text))
            else:
                lines.append("group %s, host %s%s: %s" % (group, hosts[0], more, text))
        return lines


def _wide_problems(variable: str, value: t.Any) -> t.List[str]:
    if isinstance(value, _Unreadable):
        return ["%s cannot be read: %s" % (variable, value.reason)]
    return problems(variable, value)


def _own_problems(variable: str, value: t.Any) -> t.List[str]:
    """What is wrong with a wish, by itself and in what goes together in it."""
    found = _wide_problems(variable, value)
    if found or value is None:
        return found
    try:
        if variable == "rdma_ofed":
            check_wish(value)
        elif variable == "rdma_memlock":
            parse_wish(value)
    except (OfedError, MemlockError) as exc:
        return [str(exc)]
    return []


def _rollout_problems(wish: t.Any, methods: t.Mapping[str, t.Collection[str]]) -> t.List[str]:
    if not isinstance(wish, t.Mapping) or problems("rdma_rollout", wish):
        return []
    try:
        if wish.get("engine") == "network_operator":
            _manifests.check_places(wish)
            _operator.check_settings(wish, methods)
        else:
            _manifests.check_settings(wish)
    except _manifests.ManifestError as exc:
        return [str(exc)]
    return []


def inventory_problems(
    hostvars: t.Mapping[str, t.Any],
    groups: t.Mapping[str, t.Sequence[str]],
    hosts: t.Sequence[str],
    plans: bool = False,
    given: t.Optional[t.Mapping[str, t.Any]] = None,
) -> t.List[str]:
    """A sentence for everything that is wrong with the wishes of the RDMA groups, and with those of further hosts.

    hosts: those that the run is for. plans: also what only a plan needs (rdma_groups, rdma_resource). given: values of
    CLUSTER_WIDE variables that the run reads elsewhere than from its hosts, such as from a play. Nothing is read from a host but its
    variables, and the names of its facts. Where nothing is planned, a slice of a sliced job is wrong by itself: a node that fails in
    one slice would stop no other.
    """
    plain, finder = Plainer(), _Finder()
    found: t.List[str] = []
    wide: t.Dict[str, t.Tuple[str, t.Any]] = {
        name: ("", plain(value)) for name, value in (given or {}).items() if value is not None
    }
    names = wide.get("rdma_groups", ("", None))[1]
    if names is None and hosts:
        names = _value(hostvars[hosts[0]], "rdma_groups", plain)
    if names is None and plans:
        found.append(_FOR_A_PLAN)
    # found_departures() tells a plan of it, with the hosts that it would lose
    sliced = slice_in_words(hostvars[hosts[0]]) if hosts and not plans else None
    if sliced:
        found.append(sliced)
    asked = [] if names is None or _wide_problems("rdma_groups", names) else [str(name) for name in names]
    for name in asked:
        if name not in groups:
            found.append(
                "rdma_groups names %s, which the inventory does not have; it has %s%s"
                % (name, ", ".join(sorted(groups)), nearest(name, list(groups)))
            )
        elif not groups[name]:
            found.append("group %s has no hosts; put some in, or take it out of rdma_groups" % name)
    finder.hosts = {name: sorted(groups[name]) for name in asked if name in groups}
    owner: t.Dict[str, str] = {}
    for name, own_hosts in finder.hosts.items():
        twice = [host for host in own_hosts if owner.setdefault(host, name) != name]
        if twice:
            found.append("host %s is in two RDMA groups, %s and %s; put it in one" % (twice[0], owner[twice[0]], name))
    everyone = [*owner, *hosts]
    running = set(hosts)
    planned: t.Dict[str, t.Dict[str, t.Tuple[str, t.Any]]] = {}
    methods: t.Dict[str, t.Set[str]] = {name: set() for name in finder.hosts}
    # values of many hosts are one object: each is looked at once
    known: t.Dict[t.Tuple[str, int], t.Tuple[t.Any, t.List[str]]] = {}
    differing: t.Set[str] = set()
    seen: t.Dict[str, t.List[str]] = {}
    for host in dict.fromkeys(everyone):
        own, group = hostvars[host], owner.get(host, "")
        foreign = foreign_facts(own.get("ansible_facts") or {})
        if foreign:
            # what they hide of the inventory cannot be judged
            found.append(foreign_in_words(host, foreign))
            continue
        for name in own:
            if name not in seen:
                seen[name] = misspelt([name])
            if seen[name]:
                finder.add(group, host, seen[name])
        for variable in (*CLUSTER_WIDE, *OF_A_RUN):
            if variable in OF_A_RUN and host not in running:
                continue
            value = _value(own, variable, plain)
            if variable in OF_A_RUN and isinstance(value, _Unreadable):
                # the role that reads it says so
                continue
            first, same = wide.setdefault(variable, (host, value))
            if same != value and first and variable not in differing:
                differing.add(variable)
                found.append(
                    "%s differs between hosts %s and %s: it is read once for all; set it for all RDMA hosts"
                    % (variable, first, host)
                )
        for variable in OF_A_GROUP:
            value = _value(own, variable, plain)
            key = (variable, id(value))
            if key not in known:
                known[key] = (value, _own_problems(variable, value))
            if variable == "rdma_ofed" and group:
                method = value.get("method") if isinstance(value, t.Mapping) else None
                methods[group].add(str(method or "inbox"))
            if variable not in PLANNED or not group:
                finder.add(group, host, known[key][1])
                continue
            first, same = planned.setdefault(group, {}).setdefault(variable, (host, value))
            if same != value and (group + variable) not in differing:
                differing.add(group + variable)
                found.append(
                    "group %s: %s differs between hosts %s and %s; set it for the group, not for a host"
                    % (group, variable, first, host)
                )
    for variable in CLUSTER_WIDE:
        if variable in wide:
            found += _wide_problems(variable, wide[variable][1])
    for name, wishes in planned.items():
        own = {key: wishes[variable][1] for key, variable in _PLANNER_KEYS.items()}
        if own["resource"] is None and not plans:
            own["resource"] = {"name": "any"}
        unreadable = [
            text
            for variable, (_host, value) in wishes.items()
            if isinstance(value, _Unreadable)
            for text in _wide_problems(variable, value)
        ]
        found += ["group %s: %s" % (name, text) for text in unreadable or with_defaults(own)[1]]
    found += _rollout_problems(wide.get("rdma_rollout", ("", None))[1], methods)
    return list(dict.fromkeys([*found, *finder.words()]))
