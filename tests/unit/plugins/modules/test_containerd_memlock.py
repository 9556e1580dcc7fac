# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd_memlock as a process, on a machine that is no node. What it does on one is tested with real containerds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run


def serving() -> bool:
    """Whether this machine runs a containerd, which a test must not restart."""
    return any(path.read_text().strip() == "containerd" for path in Path("/proc").glob("[0-9]*/comm") if path.exists())


@pytest.mark.skipif(serving(), reason="this machine runs a containerd")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "no containerd that serves Kubernetes runs here; start it, or set rdma_memlock.enabled to false"),
        ({"soft": "lots"}, "RLIMIT_MEMLOCK: soft is 'lots'; expected 'unlimited' or an integer from 0 to"),
        ({"hard": "5"}, "RLIMIT_MEMLOCK: soft 18446744073709551615 is above hard 5"),
        ({"method": "nri"}, "value of method must be one of: spec, limit, got: nri"),
    ],
)
def test_errors_are_told(arguments: dict[str, Any], message: str) -> None:
    result = run("containerd_memlock", check=True, **arguments)
    assert result["failed"] is True
    assert result["msg"].startswith(message)
    assert not result.get("changed")
