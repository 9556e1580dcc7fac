# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The module wave_gate: it needs the variables of the other hosts, which only the controller has."""

import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.fabric.rdma.plugins.module_utils._prepare.waves import (
    PREPARE,
    ROLES,
    STAYED,
    earlier,
    gone,
    prepared,
    refusals,
)

_IGNORED = (
    "ignore_errors is in effect here, so that a change that fails would go on as if it had succeeded. Take it out; a block with a "
    "rescue goes on after a failure"
)


class ActionModule(ActionBase):
    """Runs in the controller's process, whatever the host of the task is."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the documentation of the module."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        spec = {"state": {"type": "str", "choices": ["look", "begin", "end"], "required": True}}
        _unused, args = self.validate_argument_spec(argument_spec=spec)
        variables = task_vars or {}
        if args["state"] != "end":
            name = variables.get("inventory_hostname")
            ignored, self._task.ignore_errors = self._task.ignore_errors, False  # a refusal counts
            left = self._left(variables)
            if args["state"] == "look":
                # One of the same wave may need nothing. One that waits here for its turn may have been changed by an earlier play.
                left = {host: one for host, one in left.items() if one["wave"] != "own"}
            elif ignored and not self._task.check_mode:
                raise AnsibleActionFail(f"{name} is left as it is: {_IGNORED}.")
            reasons = refusals(left)
            if reasons:
                raise AnsibleActionFail(
                    f"{name} is left as it is: {'; '.join(reasons)}. Look at what happened there, put it right, then run again."
                )
        else:
            # with ignore_unreachable, tasks of the role may have gone nowhere
            answer: dict[str, t.Any] = self._execute_module("ansible.builtin.ping", module_args={}, task_vars=variables)
            if answer.get("failed"):
                return {**result, **answer}
        result["changed"] = False
        if args["state"] == "look":
            return result
        # only the order counts, which a clock that somebody sets would not keep; all processes of the run read the same one
        result["at"] = time.monotonic()
        return result

    def _left(self, variables: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
        """Hosts with what each role did there: that have left the play, of earlier waves that are still there, of other plays, and this one."""
        everyone, there = variables["ansible_play_hosts_all"], variables["ansible_play_hosts"]
        hostvars = variables["hostvars"]
        # the whole wave: no variable tells of those that have left it
        wave = [host.name for host in hostvars._inventory.get_hosts()]
        in_order = self._task.get_play().order in (None, "inventory")
        # What is registered, and no more: to put all variables of each host together would cost a large play its time.
        registered = hostvars._variable_manager._nonpersistent_fact_cache
        left: dict[str, dict[str, t.Any]] = {}
        if len(there) != len(everyone):
            running, failed = variables["ansible_current_hosts"], variables["ansible_failed_hosts"]
            left = gone(everyone, there, wave=wave, running=running, failed=failed, in_order=in_order)
        # a rescue, or ignore_unreachable, keeps a host in the play
        stayed = earlier(everyone, there, wave, in_order)
        left.update((host, {"wave": "earlier", "how": STAYED}) for host in stayed if host in registered)
        # other plays of the run may have been waves before this one: all that they have begun has to be ended
        elsewhere = set(registered).difference(everyone)
        left.update((host, {"wave": "earlier", "how": STAYED}) for host in elsewhere)
        for host, one in left.items():
            one["changes"] = _changes(registered.get(host) or {})
        # the host itself: the role that begins may be one that is tried again
        host, names = variables["inventory_hostname"], self._task.register or ()
        # newer versions of ansible-core have a mapping, with the names as keys
        names = [names] if isinstance(names, str) else list(names)
        changes = _changes(registered.get(host) or {})
        own = {role: pair for role, pair in changes.items() if f"{role}_begun" not in names}
        left[host] = {"wave": "own", "how": STAYED, "changes": own}
        return left


def _changes(variables: t.Mapping[str, t.Any]) -> dict[str, tuple[t.Any, t.Any]]:
    changes = {role: (variables.get(f"{role}_begun"), variables.get(f"{role}_ended")) for role in ROLES}
    # of a host that was held back before a role looked at it, and of one that the playbook prepare has changed
    return {
        **changes,
        "discover": (variables.get("discover_wave"), None),
        PREPARE: prepared(variables.get("prepare_outcome")),
    }
