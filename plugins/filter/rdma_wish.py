# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_wish
short_description: Tell what is wrong with one wish
version_added: "0.1.0"
description:
  - Checks the keys, types and choices of the value of one variable C(rdma_*). P(fabric.rdma.rdma_wishes#filter) checks all of them,
    and whether they fit together.
positional: variable
options:
  _input:
    description: The value.
    type: raw
    required: true
  variable:
    description: The name of the variable, such as C(rdma_rollout).
    type: str
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Check the variables
  ansible.builtin.assert:
    that: rdma_rollout | fabric.rdma.rdma_wish('rdma_rollout') | length == 0
"""

RETURN = r"""
_value:
  description: A sentence for each problem. Empty if there is none.
  type: list
  elements: str
  sample: ["rdma_want.state is 'active'; expected one of Active, any; did you mean Active?"]
"""

import typing as t

from ansible.errors import AnsibleFilterError


def rdma_wish(value: t.Any, variable: str) -> list[str]:
    from ansible_collections.fabric.rdma.plugins.module_utils._base.words import nearest
    from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import VARIABLES, problems
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import Plainer, PlainError

    if str(variable) not in VARIABLES:
        raise AnsibleFilterError(
            f"fabric.rdma.rdma_wish knows no variable {variable}{nearest(str(variable), list(VARIABLES))}"
        )
    try:
        return problems(str(variable), Plainer()(value))
    except PlainError as exc:
        return [f"{variable} {exc}"]


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_wish": rdma_wish}
