# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_pattern
short_description: Insist on a pattern of hosts
version_added: "0.1.0"
description:
  - Returns what C(hosts) of a play is to be, or says what is wrong with it where Ansible would find no host and say nothing.
  - Refuses a pattern of hosts to leave out alone (C(!rack-7), C(&rack-7)), for which Ansible would take all hosts in one play, and none in
    another one that has the controller, too.
  - Ansible evaluates C(hosts) itself, before it starts the processes that do the tasks of the hosts. So the filters of this collection are
    loaded once for all of these, with what decides what a host needs, and what facts are checked by is made once. Without it, each process
    does all of that again, which costs a run more than all else on many hosts.
options:
  _input:
    description: The pattern, or a list of patterns.
    type: raw
    required: true
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
# in a playbook, as hosts of its play: "{{ rdma_hosts | default('rdma') | fabric.rdma.rdma_pattern }}"
- name: Show whom a run is for
  ansible.builtin.debug:
    msg: "{{ rdma_hosts | default('rdma') | fabric.rdma.rdma_pattern }}"
"""

RETURN = r"""
_value:
  description: The same as one pattern, whose parts are separated by commas.
  type: str
  sample: ib-a100,&rack-7
"""

import importlib
import re
import typing as t

from ansible.errors import AnsibleFilterError
from ansible.inventory.manager import split_host_pattern

# An IPv6 address or a range of them, also one to leave out: Ansible splits only the latter, at its colons. And a regular expression.
WHOLE = re.compile(r"[!&]?(?:~.*|(?=.*::|(?:[^:]*:){7})[0-9a-fA-F:.\[\]]+)")


def split(part: str) -> list[str]:
    """The patterns in one text. Ansible does not split at a colon what it has split at a comma."""
    halves = [half.strip() for half in part.split(",")]
    if len(halves) == 1 and halves[0].startswith("~"):
        return t.cast("list[str]", split_host_pattern(part))
    return [one for half in halves if half for one in ([half] if WHOLE.fullmatch(half) else split_host_pattern(half))]


def rdma_pattern(pattern: t.Any) -> str:
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import facts_checker

    parts = pattern if isinstance(pattern, (list, tuple)) else [pattern]
    ones = [one for part in parts if isinstance(part, str) for one in split(part)]
    # Ansible ends with an error of its own for a mark alone
    if not ones or not all(isinstance(part, str) and split(part) for part in parts) or {"!", "&"} & set(ones):
        shown = repr(pattern)
        raise AnsibleFilterError(
            f"rdma_hosts is {shown[:200]}; expected a pattern of hosts, such as 'ib-a100' or 'ib-a100:!rack-7', or a list of them"
        )
    torn = [half for part in parts for half in part.split(",") if "::" in half and not WHOLE.fullmatch(half.strip())]
    if torn:
        raise AnsibleFilterError(
            f"rdma_hosts has {torn[0][:200]!r}, of which Ansible would split an IPv6 address; separate patterns by commas"
        )
    # Ansible adds all hosts to such a pattern, but not where a play has the controller, too.
    if all(one.startswith(("!", "&")) for one in ones):
        raise AnsibleFilterError(
            f"rdma_hosts is {','.join(ones)[:200]!r}, which names no hosts of which some are left out; begin with those, "
            f"such as {','.join(['rdma', *ones])[:200]!r}"
        )
    # for the processes of all hosts, which have what is loaded here
    facts_checker()
    importlib.import_module("ansible_collections.fabric.rdma.plugins.module_utils._prepare.needs")
    return ",".join(ones)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_pattern": rdma_pattern}
