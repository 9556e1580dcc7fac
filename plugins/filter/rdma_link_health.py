# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_link_health
short_description: Judge the counters that grew while traffic moved
version_added: "0.1.0"
description:
  - Adds to the evidence of P(fabric.rdma.rdma_evidence#filter) how the counters of each port and netdev changed during the traffic.
  - Symbol errors, lost links, receive errors and link integrity errors must not grow under load. Retransmitted packets fail a port from a
    small share of all packets on, and are a note below it. Pauses, discards and congestion notifications are notes.
  - A counter that is missing in one of the two readings does not count as zero. Counters that wrapped, stopped at their highest value or
    started again are recognised.
positional: readings, groups
options:
  _input:
    description: The evidence.
    type: dict
    required: true
  readings:
    description:
      - For each host a list of two readings of M(fabric.rdma.link_counters), from before and after. A host without both does not fail. If
        it measured, it is listed in C(untested).
    type: dict
    required: true
  groups:
    description: Hosts by the groups of the evidence.
    type: dict
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show whose links are sick
  ansible.builtin.debug:
    msg: "{{ (evidence | fabric.rdma.rdma_link_health({inventory_hostname: [earlier.reading, later.reading]}, groups)).failures }}"
"""

RETURN = r"""
_value:
  description: The evidence with C(links) in each of its C(groups), and more in C(tables) and C(failures).
  type: dict
"""

import typing as t

from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping, plain

if t.TYPE_CHECKING:
    from ansible_collections.fabric.rdma.plugins.module_utils._verify.links import HostLink

_UNREAD = "what grew on its links: their counters were not read both before and after the traffic"


def _read(readings: t.Any) -> bool:
    return isinstance(readings, (list, tuple)) and all(isinstance(each, t.Mapping) and each for each in readings)


def _links(host: str, readings: t.Any) -> list[HostLink]:
    from ansible_collections.fabric.rdma.plugins.module_utils._verify.links import compare_links

    pair = readings if isinstance(readings, (list, tuple)) and len(readings) == 2 else (None, None)
    return [{"host": host, **row} for row in compare_links(*pair)]


def rdma_link_health(evidence: t.Any, readings: t.Any, groups: t.Any) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
    from ansible_collections.fabric.rdma.plugins.module_utils._verify.ends import not_measured
    from ansible_collections.fabric.rdma.plugins.module_utils._verify.links import failures_of_links, links_table

    insist_on_mapping(
        "rdma_link_health", evidence, "the value of fabric.rdma.rdma_evidence", "groups", "tables", "failures"
    )
    for name, value in (("readings", readings), ("groups", groups)):
        insist_on_mapping("rdma_link_health", value, f"{name} as a dictionary")
    found = plain(evidence)
    for name, group in found["groups"].items():
        rows: list[HostLink] = []
        unread: list[str] = []
        for host in sorted((str(host) for host in groups.get(name) or ()), key=natural_key):
            own = _links(host, readings.get(host))
            found["failures"] += failures_of_links(host, own)
            rows += own
            # a host without an RDMA device has no links, and has been read
            unread += [host] if not own and host in readings and not _read(readings[host]) else []
        measured = {str(entry[side]["host"]) for entry in group["tests"] for side in ("client", "server")}
        group["untested"] += [not_measured(host, None, None, _UNREAD, False) for host in unread if host in measured]
        if rows or unread:
            group["links"] = rows
            found["tables"][name] = "\n".join([found["tables"][name], "", *links_table(rows, unread)])
    # names of devices and netdevs are the nodes' own: older versions of ansible-core would template them
    return t.cast("dict[str, t.Any]", wrap_var(found))


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_link_health": rdma_link_health}
