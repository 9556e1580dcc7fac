# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd_memlock as a process, on a machine that is not a node. What it does on one is tested with real containerds."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run

# A machine without processes: one on which tests are developed may well run a containerd.
NOBODY = """
from ansible_collections.fabric.rdma.plugins.module_utils._prepare import memlock_daemon
memlock_daemon.Node.proc = "/var/empty"
memlock_daemon.Node.pids = lambda self: []
"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "no containerd that serves Kubernetes runs here; start it, or set rdma_memlock.enabled to false"),
        ({"soft": "lots"}, "rdma_memlock.soft is 'lots'; expected a number of bytes, or unlimited"),
        ({"hard": "5"}, "RLIMIT_MEMLOCK: soft 18446744073709551615 is above hard 5"),
        ({"method": "nri"}, "value of method must be one of: spec, limit, got: nri"),
    ],
)
def test_an_error_names_its_cause_and_changes_nothing(arguments: dict[str, Any], message: str) -> None:
    result = run("containerd_memlock", check=True, prelude=NOBODY, **arguments)
    assert result["failed"] is True
    assert result["msg"].startswith(message)
    assert not result.get("changed")
