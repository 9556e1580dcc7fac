# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controller part of the module cluster_snapshot: what was read is for whoever registers it, and for no event."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display


class ActionModule(ActionBase):
    """Runs the module. Its result is as long as the cluster is large."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the documentation of the module."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        name = "fabric.rdma.cluster_snapshot"
        result.update(self._execute_module(module_name=name, module_args=self._task.args, task_vars=task_vars))
        if result.get("failed") or result.get("unreachable"):
            return result
        # callbacks get a note in place of the result, which would not have these
        for warning in result.pop("warnings", None) or []:
            Display().warning(str(warning))
        return {**result, "_ansible_no_log": True}
