# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the cluster-wide steps look at: groups with their wishes, and the facts of their hosts. Private to the collection."""

from __future__ import annotations

import typing as t

__all__ = ["ViewError", "cluster_view"]

_WISHES = {"resource": "rdma_resource", "want": "rdma_want", "strategy": "rdma_selector_strategy"}


class ViewError(Exception):
    """An inventory that makes no sense; the text is for the user."""


def _plain(value: t.Any) -> t.Any:
    """Plain dictionaries, lists and scalars out of whatever the templating engine of this ansible-core hands over."""
    if isinstance(value, t.Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return str(value)


def cluster_view(
    hostvars: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Sequence[str]], names: t.Sequence[str]
) -> t.Dict[str, t.Any]:
    """{groups: {name: {hosts, resource, want, strategy, replayed}}, facts: {host: facts}, without_facts: [group]}.

    A group of which no host has facts (a run with --limit) is not in groups, but in without_facts. Hosts of one group must
    agree in their wishes: a wish is a group's, and a host with another one would silently be planned with its neighbour's.
    """
    unknown = [name for name in names if name not in groups]
    if unknown:
        raise ViewError(
            "rdma_groups names %s, which the inventory does not have; it has %s"
            % (", ".join(unknown), ", ".join(sorted(groups)))
        )
    view: t.Dict[str, t.Any] = {"groups": {}, "facts": {}, "without_facts": []}
    for name in names:
        hosts = sorted(groups[name])
        facts = {}
        for host in hosts:
            found = (hostvars[host].get("ansible_facts") or {}).get("rdma")
            if found:
                facts[host] = _plain(found)
        if not facts:
            view["without_facts"].append(name)
            continue
        wishes: t.Dict[str, t.Any] = {}
        for key, variable in _WISHES.items():
            values = [_plain(hostvars[host].get(variable)) for host in hosts]
            differing = [host for host, value in zip(hosts, values, strict=True) if value != values[0]]
            if differing:
                raise ViewError(
                    "group %s: %s differs between hosts %s and %s; set it for the group, not for a host"
                    % (name, variable, hosts[0], differing[0])
                )
            wishes[key] = values[0]
        replayed = [host for host in hosts if hostvars[host].get("rdma_capture")]
        view["groups"][name] = {"hosts": hosts, **wishes, "replayed": replayed}
        view["facts"].update(facts)
    return view
