# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module quiet_value: its argument is evaluated by Ansible, on the controller, and goes nowhere else."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Runs in the controller's process, whatever the host of the task is."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the documentation of the module."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        # not checked as arguments are elsewhere, which would copy the value
        if set(self._task.args) != {"value"}:
            raise AnsibleActionFail(f"quiet_value has one option, value, and was given {sorted(self._task.args)}")
        # callbacks get a note in place of the result; a failure to evaluate it has happened before, and is told
        return {**result, "changed": False, "value": self._task.args["value"], "_ansible_no_log": True}
