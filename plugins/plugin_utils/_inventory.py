# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All wishes of an inventory, looked at before anything is done. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ansible.errors import AnsibleError
from jinja2.exceptions import UndefinedError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import nearest
from ansible_collections.fabric.rdma.plugins.module_utils._plan.names import OF_A_RUN, misspelt
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import (
    CLUSTER_WIDE,
    OF_A_GROUP,
    PLANNED,
    problems,
    with_defaults,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_choice import check_pairs, check_wish
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_plan import parse_wish
from ansible_collections.fabric.rdma.plugins.module_utils._rollout import daemonset as _manifests, operator as _operator
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.departures import slice_in_words
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import group_value
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import (
    Plainer,
    PlainError,
    facts_of,
    foreign_facts_in_words,
)

__all__ = ["inventory_problems"]

Json = dict[str, t.Any]

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


_SLICES = (
    "Nodes are prepared in slices when rdma_slices is true or the number of slices: each slice then has waves (rdma_serial) of its own, "
    "and a failure in one slice does not stop the others"
)


def _slices_are_meant(value: t.Any) -> bool:
    """By true, or by their number."""
    return bool(re.fullmatch(r"(?i:true|yes|on)|0*[1-9][0-9]{0,8}", str(value)))


class _Unreadable(t.NamedTuple):
    """A variable that is there and cannot be had, such as one with a template of something that is not."""

    reason: str


def _value(own: t.Mapping[str, t.Any], variable: str, plain: Plainer) -> t.Any:
    if variable not in own:
        return None
    try:
        return plain(own[variable])
    except (AnsibleError, UndefinedError, PlainError) as exc:
        return _Unreadable((str(exc).strip().splitlines() or ["its template fails"])[0])


class _Finder:
    """Problems with the hosts that have them; one that a whole group has is the group's."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], list[str]] = {}
        self.hosts: dict[str, list[str]] = {}

    def add(self, group: str, host: str, texts: t.Iterable[str]) -> None:
        for text in texts:
            self.found.setdefault((group, text), []).append(host)

    def words(self) -> list[str]:
        lines = []
        for (group, text), hosts in sorted(self.found.items()):
            own = self.hosts.get(group, [])
            more = f" (and {len(hosts) - 1} more)" if len(hosts) > 1 else ""
            if not group:
                lines.append(f"host {hosts[0]}{more}: {text}")
            elif len(hosts) == len(own):
                lines.append(f"group {group}: {text}")
            else:
                lines.append(f"group {group}, host {hosts[0]}{more}: {text}")
        return lines


def _wide_problems(variable: str, value: t.Any) -> list[str]:
    if isinstance(value, _Unreadable):
        return [f"{variable} cannot be read: {value.reason}"]
    return problems(variable, value)


def _own_problems(variable: str, value: t.Any) -> list[str]:
    """What is wrong with a wish, by itself and in what goes together in it."""
    found = _wide_problems(variable, value)
    if found or value is None:
        return found
    try:
        if variable == "rdma_ofed":
            check_wish(value)
            check_pairs(value)
        elif variable == "rdma_memlock":
            parse_wish(value)
    except FabricError as exc:
        return [str(exc)]
    return []


def _rollout_problems(wish: t.Any, methods: t.Mapping[str, t.Collection[str]]) -> list[str]:
    if not isinstance(wish, t.Mapping) or problems("rdma_rollout", wish):
        return []
    try:
        if wish.get("engine") == "network_operator":
            _manifests.check_places(wish)
            _operator.check_settings(wish, methods)
        else:
            _manifests.check_settings(wish)
    except FabricError as exc:
        return [str(exc)]
    return []


def inventory_problems(
    hostvars: t.Mapping[str, t.Any],
    groups: t.Mapping[str, t.Sequence[str]],
    hosts: t.Sequence[str],
    plans: bool = False,
    given: t.Optional[t.Mapping[str, t.Any]] = None,
) -> list[str]:
    """A sentence for everything that is wrong with the wishes of the RDMA groups, and with those of further hosts.

    hosts: those that the run is for. plans: also what only a plan needs (rdma_groups, rdma_resource). given: values of
    CLUSTER_WIDE variables that the run reads elsewhere than from its hosts, such as from a play. Nothing is read from a host but its
    variables, and the names of its facts. Where nothing is planned, a slice of a sliced job is wrong unless rdma_slices says that it
    is meant: a failure in one slice does not stop the others. All hosts of a small group may be in other slices.
    """
    look = _Look(hosts, given or {})
    names = look.wide.get("rdma_groups", ("", None))[1]
    if names is None and hosts:
        names = _value(hostvars[hosts[0]], "rdma_groups", look.plain)
    if names is None and plans:
        look.found.append(_FOR_A_PLAN)
    # found_departures() tells a plan of it, with the hosts that it would lose
    sliced = slice_in_words(hostvars[hosts[0]]) if hosts and not plans else None
    if sliced and not _slices_are_meant(_value(hostvars[hosts[0]], "rdma_slices", look.plain)):
        look.found.append(f"{sliced[0].upper()}{sliced[1:]}. {_SLICES}")
    asked = [] if names is None or _wide_problems("rdma_groups", names) else [str(name) for name in names]
    look.take_groups([name for name in asked if groups.get(name)] if sliced else asked, groups)
    for host in dict.fromkeys([*look.owner, *hosts]):
        look.at(host, hostvars[host])
    look.sum_up(plans)
    return list(dict.fromkeys([*look.found, *look.finder.words()]))


class _Look:
    """A look at the wishes of one host after the other. hosts, given: as inventory_problems() has them."""

    def __init__(self, hosts: t.Collection[str], given: t.Mapping[str, t.Any]) -> None:
        self.plain, self.finder = Plainer(), _Finder()
        self.found: list[str] = []
        self.running = set(hosts)
        # the first host that has a value, and the value
        self.wide: dict[str, tuple[str, t.Any]] = {
            name: ("", _value(given, name, self.plain)) for name, value in given.items() if value is not None
        }
        self.planned: dict[str, dict[str, tuple[str, t.Any]]] = {}
        self.owner: dict[str, str] = {}
        self.methods: dict[str, set[str]] = {}
        # values of many hosts are one object: each is looked at once
        self.known: dict[tuple[str, int], tuple[t.Any, list[str]]] = {}
        self.differing: set[str] = set()
        self.spelt: dict[str, list[str]] = {}

    def take_groups(self, asked: t.Sequence[str], groups: t.Mapping[str, t.Sequence[str]]) -> None:
        """Looks at the groups that are to be planned: they are there, have hosts, and no host is in two of them."""
        for name in asked:
            if name not in groups:
                self.found.append(
                    f"rdma_groups names {name}, which the inventory does not have; it has "
                    f"{', '.join(sorted(groups))}{nearest(name, list(groups))}"
                )
            elif not groups[name]:
                self.found.append(f"group {name} has no hosts; put some in, or take it out of rdma_groups")
        values: dict[str, str] = {}
        for name in asked:
            # what is rolled out for one would be removed with the other
            if name in groups and values.setdefault(group_value(name), name) != name:
                self.found.append(
                    f"groups {values[group_value(name)]} and {name} are both called {group_value(name)} in Kubernetes; rename one"
                )
        self.finder.hosts = {name: sorted(groups[name]) for name in asked if name in groups}
        self.methods = {name: set() for name in self.finder.hosts}
        for name, hosts in self.finder.hosts.items():
            twice = [host for host in hosts if self.owner.setdefault(host, name) != name]
            if twice:
                self.found.append(
                    f"host {twice[0]} is in two RDMA groups, {self.owner[twice[0]]} and {name}; put it in one"
                )

    def at(self, host: str, own: t.Mapping[str, t.Any]) -> None:
        """Looks at the variables of a host."""
        group = self.owner.get(host, "")
        foreign = foreign_facts_in_words(host, facts_of(own))
        if foreign:
            # what they hide of the inventory cannot be judged
            self.found.append(foreign)
            return
        for name in own:
            if name not in self.spelt:
                self.spelt[name] = misspelt([name])
            if self.spelt[name]:
                self.finder.add(group, host, self.spelt[name])
        for variable in (*CLUSTER_WIDE, *OF_A_RUN):
            if variable not in OF_A_RUN or host in self.running:
                self._of_all(variable, host, _value(own, variable, self.plain))
        for variable in OF_A_GROUP:
            self._of_a_group(variable, host, group, _value(own, variable, self.plain))

    def _of_all(self, variable: str, host: str, value: t.Any) -> None:
        if variable in OF_A_RUN and isinstance(value, _Unreadable):
            # the role that reads it says so
            return
        first, same = self.wide.setdefault(variable, (host, value))
        if same != value and first and variable not in self.differing:
            self.differing.add(variable)
            self.found.append(
                f"{variable} differs between hosts {first} and {host}: it is read once for all; set it for all RDMA hosts"
            )

    def _of_a_group(self, variable: str, host: str, group: str, value: t.Any) -> None:
        key = (variable, id(value))
        if key not in self.known:
            self.known[key] = (value, _own_problems(variable, value))
        if variable == "rdma_ofed" and group:
            method = value.get("method") if isinstance(value, t.Mapping) else None
            self.methods[group].add(str(method or "inbox"))
        if variable not in PLANNED or not group:
            self.finder.add(group, host, self.known[key][1])
            return
        first, same = self.planned.setdefault(group, {}).setdefault(variable, (host, value))
        if same != value and (group + variable) not in self.differing:
            self.differing.add(group + variable)
            self.found.append(
                f"group {group}: {variable} differs between hosts {first} and {host}; set it for the group, not for a host"
            )

    def sum_up(self, plans: bool) -> None:
        """Looks at what is one wish for a group, or for all."""
        for variable in CLUSTER_WIDE:
            if variable in self.wide:
                self.found += _wide_problems(variable, self.wide[variable][1])
        for name, wishes in self.planned.items():
            own = {key: wishes[variable][1] for key, variable in _PLANNER_KEYS.items()}
            if own["resource"] is None and not plans:
                own["resource"] = {"name": "any"}
            unreadable = [
                text
                for variable, (_host, value) in wishes.items()
                if isinstance(value, _Unreadable)
                for text in _wide_problems(variable, value)
            ]
            self.found += [f"group {name}: {text}" for text in unreadable or with_defaults(own)[1]]
        self.found += _rollout_problems(self.wide.get("rdma_rollout", ("", None))[1], self.methods)
