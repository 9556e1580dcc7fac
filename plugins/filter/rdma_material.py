# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_material
short_description: Put together what a diagnosis looks at
version_added: "0.1.0"
description:
  - Takes what a run has gathered, or the directory of a bundle, of logs and of captures.
  - Files of a directory are recognised by their content. A capture, and the facts of one host, take the name of their host from their path.
    These are C(facts.json), C(plan.json) and captures of this
    collection, what M(fabric.rdma.cluster_snapshot) returns, objects as C(kubectl get -o json) or C(-o yaml) prints them, and logs.
    Archives of captures are read; links are not followed.
  - A log belongs to the host or Pod whose name is in its path.
  - Malformed facts, plans and captures are left out, and named in C(unread). What else is malformed is left out.
options:
  _input:
    description:
      - The path of a directory, or a dictionary with any of the keys C(facts) (by host), C(plan), C(cluster), C(logs), C(groups) (hosts by
        group), C(node_names) (nodes by host) and C(unread).
      - C(plan) may be the path of a file that an earlier run left. It need not exist.
      - C(node_logs) has what M(fabric.rdma.node_logs) has returned, by host. It is added to C(logs) and C(unread).
    type: raw
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: See what is in a directory
  ansible.builtin.debug:
    msg: "{{ ('/srv/rdma' | fabric.rdma.rdma_material).unread }}"

- name: Put together what is known of the hosts
  ansible.builtin.set_fact:
    material: "{{ {'facts': facts_by_host, 'plan': plan_result} | fabric.rdma.rdma_material }}"
"""

RETURN = r"""
_value:
  description: C(facts), C(plan), C(cluster), C(logs), C(groups), C(node_names) and C(unread).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping


def _of_nodes(results: t.Mapping[str, t.Any]) -> tuple[list[t.Any], list[str]]:
    """(logs, what could not be read) of what the module node_logs has returned on each host."""
    logs: list[t.Any] = []
    unread: list[str] = []
    for host, result in results.items():
        found = result if isinstance(result, t.Mapping) else {}
        told, missing = found.get("logs"), found.get("unread")
        # it is a node that answers
        for name, text in told.items() if isinstance(told, t.Mapping) else ():
            source = "kernel" if name == "kernel" else "journal"
            logs.append({"name": f"{host} {name}", "source": source, "host": host, "pod": None, "text": text})
        unread += (
            [f"{host}: {words}" for words in missing if isinstance(words, str)] if isinstance(missing, list) else []
        )
        if found.get("failed") or found.get("unreachable"):
            unread.append(f"{host}: {found.get('msg') or 'its logs could not be read'}")
    return logs, unread


def _of_hosts(facts: t.Any) -> tuple[dict[str, t.Any], list[str]]:
    """(facts of the hosts that have any, what is to be said of the others)."""
    every = facts if isinstance(facts, t.Mapping) else {}
    known = {str(host): own for host, own in every.items() if own}
    return known, [
        f"host {host} has no facts: nobody has looked at it, or it did not answer"
        for host in every
        if host not in known
    ]


def _of_plan(plan: t.Any) -> tuple[t.Any, list[str]]:
    """(a plan, what is wrong with the file that it is to be in)."""
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import loaded

    try:
        return loaded(plan, "plan"), []
    except FabricError as exc:
        return None, [str(exc)]


def rdma_material(given: t.Any) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.module_utils._base.words import unknown_keys
    from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.directory import (
        MATERIAL,
        material_of,
        read_directory,
    )
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import Plainer

    try:
        if isinstance(given, str):
            return t.cast(dict[str, t.Any], wrap_var(read_directory(given)))
        insist_on_mapping("rdma_material", given, "a path or a dictionary")
        problem = unknown_keys("fabric.rdma.rdma_material", map(str, given), {*MATERIAL, "node_logs"})
        if problem:
            raise AnsibleFilterError(problem)
        # facts are looked at host by host, each within bounds of its own
        plain: dict[str, t.Any] = {
            key: given.get(key) if key == "facts" else Plainer(whole=True)(given.get(key)) for key in MATERIAL
        }
        nodes = given.get("node_logs")
        logs, unread = _of_nodes(nodes if isinstance(nodes, t.Mapping) else {})
        plain["facts"], missing = _of_hosts(plain["facts"])
        plain["plan"], wrong = _of_plan(plain["plan"])
        plain["logs"] = [*(plain["logs"] or []), *logs]
        plain["unread"] = [*(plain["unread"] or []), *missing, *wrong, *unread]
        # logs are text of others, and never to be templated
        return t.cast(dict[str, t.Any], wrap_var(material_of(**plain)))
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_material": rdma_material}
