# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results that are for whoever registers them, and for no event: they are as long as the cluster is large. Private."""

from __future__ import annotations

import typing as t

from ansible import template
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

__all__ = ["QuietAction", "hidden"]

# ansible-core 2.19 shows the warnings of a result that is hidden. Only it and later ones have this name.
SHOWS_WARNINGS = hasattr(template, "trust_as_template")


def hidden(result: dict[str, t.Any]) -> dict[str, t.Any]:
    """A result of which callbacks get a note in its place. Its warnings are shown; what is registered has all of it."""
    # until ansible-core 2.18, what is hidden hides them, too
    for warning in [] if SHOWS_WARNINGS else result.get("warnings") or []:
        Display().warning(str(warning))
    return {**result, "_ansible_no_log": True}


class QuietAction(ActionBase):
    """Runs its module, and hides what was read."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False
    # with its namespace
    module = ""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the documentation of the module. A failure is told."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        result.update(self._execute_module(module_name=self.module, module_args=self._task.args, task_vars=task_vars))
        return result if result.get("failed") or result.get("unreachable") else hidden(result)
