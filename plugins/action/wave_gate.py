# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The module wave_gate: it needs the variables of the other hosts, which only the controller has."""

import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.fabric.rdma.plugins.module_utils._prepare.waves import ROLES, gone, refusals


class ActionModule(ActionBase):
    """Runs in the controller's process, whatever the host of the task is."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the documentation of the module."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        spec = {"state": {"type": "str", "choices": ["begin", "end"], "required": True}}
        _unused, args = self.validate_argument_spec(argument_spec=spec)
        variables = task_vars or {}
        if args["state"] == "begin":
            reasons = refusals(self._left(variables))
            if reasons:
                raise AnsibleActionFail(
                    "%s is left as it is: %s. Look at what happened there, put it right, then run again."
                    % (variables.get("inventory_hostname"), "; ".join(reasons))
                )
        result.update(changed=False, at=time.time())
        return result

    def _left(self, variables: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
        """The hosts that have left the play, and what each role did there."""
        everyone, there = variables["ansible_play_hosts_all"], variables["ansible_play_hosts"]
        if len(there) == len(everyone):
            return {}
        hostvars = variables["hostvars"]
        left = gone(
            everyone,
            there,
            # the whole wave: no variable tells of those that have left it
            wave=[host.name for host in hostvars._inventory.get_hosts()],
            running=variables["ansible_current_hosts"],
            failed=variables["ansible_failed_hosts"],
            in_order=self._task.get_play().order in (None, "inventory"),
        )
        for host, one in left.items():
            own = hostvars[host]
            one["changes"] = {role: (own.get("__%s_begun" % role), own.get("__%s_ended" % role)) for role in ROLES}
        return left
