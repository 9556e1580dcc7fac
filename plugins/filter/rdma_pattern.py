# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_pattern
short_description: Check a pattern of hosts
version_added: "0.1.0"
description:
  - Returns the value for C(hosts) of a play, or reports what is wrong with it where Ansible would silently find no host.
  - Refuses a pattern that only excludes or intersects (C(!rack-7), C(&rack-7)), which Ansible reads as all hosts in one play, and as none
    in another that has the controller, too.
  - With O(groups), insists that the inventory has a host that matches, since Ansible succeeds when none does.
  - Ansible evaluates C(hosts) before it forks its workers. So this filter loads the filters of the collection and their checks once, and the
    workers inherit them, which saves much of the time of a run on many hosts.
options:
  _input:
    description: The pattern, or a list of patterns.
    type: raw
    required: true
  groups:
    description: C(groups) of the run. Without it, a pattern that no host matches is accepted.
    type: dict
  slices:
    description:
      - Whether no host of a slice of a sliced job of AWX has to match. AWX divides the hosts of an inventory among the slices.
    type: bool
    default: false
  taken:
    description: Hosts that were prepared earlier in the same run, and that would be changed once more with the others. If there are any,
      this is refused.
    type: list
    elements: str
    default: []
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
# in a playbook, as hosts of its play: "{{ rdma_hosts | default('rdma') | fabric.rdma.rdma_pattern }}"
- name: Show whom a run is for
  ansible.builtin.debug:
    msg: "{{ rdma_hosts | default('rdma') | fabric.rdma.rdma_pattern }}"

- name: Show it only where the inventory has such hosts
  ansible.builtin.debug:
    msg: "{{ rdma_hosts | default('rdma') | fabric.rdma.rdma_pattern(groups, slices=true) }}"
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

from ansible import context as command_line
from ansible.errors import AnsibleFilterError
from ansible.inventory.manager import split_host_pattern
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import test_loader
from ansible.plugins.lookup.inventory_hostnames import LookupModule
from jinja2 import pass_context

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_mapping

# An IPv6 address or a range of them, also one to leave out, which Ansible splits at its colons.
ADDRESS = re.compile(r"[!&]?(?=.*::|(?:[^:]*:){7})[0-9a-fA-F:.\[\]]+")


def ones_of(text: str) -> t.Iterator[str]:
    """The patterns in one text. Ansible does not split at a colon what it has split at a comma, and would leave nobody out then."""
    for half in filter(None, map(str.strip, text.split(","))):
        if ADDRESS.fullmatch(half):
            yield half
        elif "::" in half or ("~" in half and ":" in half):
            raise AnsibleFilterError(
                f"rdma_hosts has {half[:200]!r}, in which Ansible would split an IPv6 address or a regular expression at its colons; separate patterns by "
                "commas, and write regular expressions without colons"
            )
        else:
            yield from split_host_pattern(half)


def matches(pattern: str, groups: t.Mapping[str, t.Sequence[str]]) -> bool:
    """Whether one of the hosts of the groups matches, as Ansible's lookup inventory_hostnames finds them."""
    # most often it is the name of a group; the lookup takes a while for ten thousand hosts
    if groups.get(pattern):
        return True
    return bool(LookupModule(loader=DataLoader()).run([pattern], variables={"groups": groups}))


@pass_context
def in_its_run(
    context: t.Any, pattern: t.Any, groups: t.Any = None, slices: bool = False, taken: t.Sequence[t.Any] = ()
) -> str:
    """The filter: variables of the run say whether it is a slice."""
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.departures import slice_in_words

    if taken:
        before = ", ".join(map(str, taken))
        raise AnsibleFilterError(
            f"Nodes have been prepared in this run: {before if len(before) <= 200 else before[:197] + '...'}. Prepare all of them at once "
            "(rdma_hosts), or the others in a run of their own"
        )
    # whoever looks at the syntax of a playbook has no inventory
    looked_at = bool(command_line.CLIARGS.get("syntax"))
    return rdma_pattern(pattern, groups, looked_at or (slices and slice_in_words(context.get_all()) is not None))


def rdma_pattern(pattern: t.Any, groups: t.Any = None, may_have_none: bool = False) -> str:
    from ansible_collections.fabric.rdma.plugins.module_utils._plan.checks import pattern as problems
    from ansible_collections.fabric.rdma.plugins.plugin_utils._view import facts_checker

    for problem in problems("rdma_hosts", pattern):
        raise AnsibleFilterError(problem)
    texts = pattern if isinstance(pattern, (list, tuple)) else [pattern]
    ones = [one for text in texts for one in ones_of(text)]
    # Ansible ends with an error of its own for a mark alone. And it adds all hosts to a pattern that names none, but not where a play has
    # the controller, too.
    if {"!", "&"} & set(ones) or all(one.startswith(("!", "&")) for one in ones):
        raise AnsibleFilterError(
            f"rdma_hosts is {','.join(ones)[:200]!r}, which names no hosts, or has a '!' or '&' without a name; write which hosts, and then which of them "
            "are left out, such as 'rdma,!rack-7'"
        )
    joined = ",".join(ones)
    if groups is not None:
        insist_on_mapping("rdma_pattern", groups, "groups with their hosts")
        if not may_have_none and not matches(joined, groups):
            raise AnsibleFilterError(
                f"The inventory has no hosts that match {joined[:200]}. Put the RDMA groups under a group 'rdma', as in inventories/example, "
                "or name the hosts with -e rdma_hosts=PATTERN"
            )
    # for the processes of all hosts, which have what is loaded here
    facts_checker()
    importlib.import_module("ansible_collections.fabric.rdma.plugins.module_utils._prepare.needs")
    # tests that come with Ansible, such as "is defined", of which the first one in a template loads all
    test_loader.get("defined")
    return joined


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_pattern": in_its_run}
