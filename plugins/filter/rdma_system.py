# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_system
short_description: Make what a system of the cluster side asks of a cluster
version_added: "0.1.0"
description:
  - Gives the charts and objects of a system, what is waited for, workloads to copy from, and what is wrong with the wish.
  - With problems, nothing of it may be applied.
positional: name, site, apis, releases
options:
  _input:
    description: The wish for the system; of a system that groups wish for, it is taken from O(site).
    type: raw
    required: true
  name:
    description: The name of the system, which is that of its role.
    type: str
    required: true
  site:
    description: What P(fabric.rdma.rdma_site#filter) gives.
    type: dict
    required: true
  apis:
    description: API versions that the cluster serves, such as C(apps/v1). Empty when nobody has looked.
    type: list
    elements: str
    default: []
  releases:
    description: Results of M(kubernetes.core.helm_info).
    type: list
    elements: dict
    default: []
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what storage would ask of the cluster
  ansible.builtin.debug:
    msg: "{{ {'version': '1.12.1'} | fabric.rdma.rdma_system('longhorn', site) }}"
  vars:
    site: "{{ hostvars | fabric.rdma.rdma_site(groups, rdma_groups, plan_result) }}"
"""

RETURN = r"""
_value:
  description:
    - The keys C(charts), C(objects), C(waits), C(workloads), C(images), C(problems), C(warnings) and C(summary).
    - C(files) has the text and the mode of each file in which all of this is rendered.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import request_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Site, Surroundings
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.files import charts_for_helm, files_of


def _around(apis: t.Iterable[t.Any], releases: t.Iterable[t.Mapping[str, t.Any]]) -> Surroundings:
    around: Surroundings = {"installed": {}, "served": {}}
    for name in map(str, apis):
        group, _slash, version = name.rpartition("/")
        around["served"].setdefault(group, []).append(version)
    for release in releases:
        status = release.get("status") or {}
        if status.get("chart"):
            # NAME-VERSION, of which both may have hyphens in them
            name, chart = str(status.get("name") or ""), str(status["chart"])
            around["installed"][name] = str(status.get("chart_version") or _version(chart))
    return around


def _version(chart: str) -> str:
    """The version in what Helm calls a chart: what follows the last hyphen that stands before a digit, or before v and a digit."""
    parts = chart.split("-")
    for index in range(1, len(parts)):
        word = parts[index].removeprefix("v")
        if word[:1].isdigit() and "." in word:
            return "-".join(parts[index:]).removeprefix("v")
    return chart


def rdma_system(wish: t.Any, name: str, site: t.Any, apis: t.Any = (), releases: t.Any = ()) -> t.Dict[str, t.Any]:
    if not isinstance(site, t.Mapping) or "plan" not in site:
        raise AnsibleFilterError(
            f"fabric.rdma.rdma_system expects what fabric.rdma.rdma_site gives, found {type(site).__name__}"
        )
    whole = t.cast(Site, site)
    try:
        request = request_of(str(name), wish, whole, _around(apis or (), releases or ()))
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc
    return {**request, "charts": charts_for_helm(request["charts"], whole), "files": files_of(request)}


class FilterModule:
    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        return {"rdma_system": rdma_system}
