# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The module wave_gate: it needs the variables of the other hosts, which only the controller has."""

import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.fabric.rdma.plugins.module_utils._waves import ROLES, open_changes


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
            alive = set(variables.get("ansible_play_hosts", ()))
            gone = [host for host in variables.get("ansible_play_hosts_all", ()) if host not in alive]
            known = {}
            for host in gone:
                own = variables["hostvars"][host]
                known[str(host)] = {
                    role: (own.get("__%s_begun" % role), own.get("__%s_ended" % role)) for role in ROLES
                }
            reasons = open_changes(known)
            if reasons:
                raise AnsibleActionFail(
                    "%s is not changed, and nothing was done there: %s. Look at what failed there, put it right, then run again."
                    % (variables.get("inventory_hostname"), "; ".join(reasons))
                )
        result.update(changed=False, at=time.time())
        return result
