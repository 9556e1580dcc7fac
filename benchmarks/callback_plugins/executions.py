# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts what a run of a playbook does: results of tasks, and how many of them changed something."""

from __future__ import annotations

DOCUMENTATION = r"""
name: executions
type: notification
short_description: Count results of tasks
version_added: "0.1.0"
description:
  - Writes a JSON object to a file at the end of the run, with how many results tasks had on all hosts, skipped ones apart.
  - For the benchmarks.
options:
  path:
    description: The file.
    env:
      - name: FABRIC_RDMA_EXECUTIONS
    required: true
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

import collections
import json
import os
import typing as t

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    """One object for the run."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "executions"

    def __init__(self) -> None:
        super().__init__()
        self._counts: collections.Counter[str] = collections.Counter()

    def _count(self, result: t.Any) -> None:
        found = result._result
        # of a loop, the items are told one by one
        for one in found.get("results", [found]) if isinstance(found.get("results"), list) else [found]:
            if isinstance(one, dict):
                self._counts["results"] += 1
                self._counts["changed"] += bool(one.get("changed"))

    def v2_runner_on_ok(self, result: t.Any) -> None:
        self._count(result)

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        self._count(result)

    def v2_runner_on_skipped(self, result: t.Any) -> None:
        self._counts["skipped"] += 1

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        with open(os.environ["FABRIC_RDMA_EXECUTIONS"], "w", encoding="utf-8") as file:
            json.dump(dict(self._counts), file)
