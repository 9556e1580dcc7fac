# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes what a playbook changes, or in check mode would change, to the file FABRIC_RDMA_CHANGES: one JSON object a line."""

from __future__ import annotations

DOCUMENTATION = r"""
name: changes
type: notification
short_description: Keep what was changed
version_added: "0.1.0"
description:
  - Appends a line to a file for each task, or each item of a task, that changed something.
  - For the scenarios of molecule.
options:
  path:
    description: The file.
    env:
      - name: FABRIC_RDMA_CHANGES
    required: true
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

import json
import os
import typing as t

from ansible import context
from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    """One line a change."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "changes"

    def __init__(self) -> None:
        super().__init__()
        self._playbook = ""
        self._play = ""

    def v2_playbook_on_start(self, playbook: t.Any) -> None:
        self._playbook = os.path.basename(playbook._file_name)

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        self._play = play.get_name()

    def v2_runner_on_ok(self, result: t.Any) -> None:
        # of a loop, the items have been told one by one
        if "results" not in result._result:
            self._tell(result)

    def v2_runner_item_on_ok(self, result: t.Any) -> None:
        self._tell(result)

    def _tell(self, result: t.Any) -> None:
        if not result._result.get("changed"):
            return
        line = {
            "run": os.getpid(),
            "check": bool(context.CLIARGS.get("check")),
            "playbook": self._playbook,
            "play": self._play,
            "host": result._host.get_name(),
            "task": result._task.get_name(),
            "item": result._result.get("_ansible_item_label"),
        }
        with open(self.get_option("path"), "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
