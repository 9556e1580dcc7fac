# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_system
short_description: Make the charts and objects that a system needs in a cluster
version_added: "0.1.0"
description:
  - Returns the charts and objects of a system, what to wait for, workloads to copy from, and what is wrong with the wish.
  - If there are problems, none of it may be applied.
positional: name, site, state, releases, wishes
options:
  _input:
    description: The wish for the system. It is ignored for a system that groups wish for, whose wishes are in O(site).
    type: raw
    required: true
  name:
    description: The name of the system, the same as its role. The device plugin has P(fabric.rdma.rdma_rollout#filter).
    type: str
    required: true
  site:
    description: What P(fabric.rdma.rdma_site#filter) gives.
    type: dict
    required: true
  state:
    description:
      - What M(fabric.rdma.cluster_state) returned. Empty if the cluster was not read.
      - Of the system C(dra), also C(drivers), DaemonSets of the device plugin and of DRANET, and C(claims), all ResourceClaims.
      - Of the system C(vgpu), also C(hypernodes), those of this inventory.
    type: dict
    default: {}
  releases:
    description: Results of M(kubernetes.core.helm_info).
    type: list
    elements: dict
  wishes:
    description: Wishes of other systems that count for the whole cluster, by variable.
    type: dict
    default: {}
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
    - The keys C(system), C(node_labels), C(charts), C(objects), C(waits), C(workloads), C(images), C(problems), C(warnings) and C(summary).
    - C(pages) has, by group that it is for, C(rows) of what it brings, C(errors) and C(warnings), for
      P(fabric.rdma.rdma_plan_pages#filter).
    - C(files) has the text and the mode of each file in which all of this is rendered, C(record) what the report shows.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping

if t.TYPE_CHECKING:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Surroundings


def _around(state: t.Mapping[str, t.Any], releases: t.Any, wishes: t.Any) -> Surroundings:
    around: Surroundings = {
        "installed": None,
        "served": state.get("served"),
        "nodes": state.get("nodes"),
        "service_cidrs": state.get("service_cidrs"),
        "wishes": dict(wishes or {}),
        "drivers": state.get("drivers"),
        "claims": state.get("claims"),
        "hypernodes": state.get("hypernodes"),
    }
    if releases is not None:
        installed = {}
        for status in (release.get("status") or {} for release in releases):
            if status.get("chart"):
                chart, version = _parted(str(status["chart"]))
                installed[str(status.get("name"))] = {
                    "chart": chart,
                    "version": version,
                    "namespace": str(status.get("namespace")),
                    "values": status.get("values") or {},
                }
        around["installed"] = installed
    return around


def _parted(chart: str) -> tuple[str, str]:
    """(name, version without v) in what Helm calls a chart: NAME-VERSION, of which both may have hyphens in them."""
    parts = chart.split("-")
    for index in range(1, len(parts)):
        word = parts[index].removeprefix("v")
        if word[:1].isdigit() and "." in word:
            return "-".join(parts[:index]), "-".join([word, *parts[index + 1 :]])
    return chart, ""


def rdma_system(
    wish: t.Any, name: str, site: t.Any, state: t.Any = None, releases: t.Any = None, wishes: t.Any = None
) -> dict[str, t.Any]:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import page_parts, request_of
    from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Site
    from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.files import charts_for_helm, files_of, record_of
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import Plainer

    insist_on_mapping("rdma_system", site, "what fabric.rdma.rdma_site gives", "plan")
    whole = t.cast(Site, site)
    # plain: what ansible-core hangs on values of an inventory is nothing for objects and files
    wish, wishes = Plainer()(wish), Plainer()(wishes or {})
    try:
        request = request_of(str(name), wish, whole, _around(state or {}, releases, wishes))
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc
    charts = charts_for_helm(request["charts"], whole, wish)
    made = {"charts": charts, "files": files_of(request), "record": record_of(request)}
    answer = {**request, **made, "pages": page_parts(request, wish, whole)}
    # the pages have them
    del answer["group_rows"]
    return answer


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_system": rdma_system}
