# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OCI runtime specifications for tests."""

from __future__ import annotations

from typing import Any


def spec(*rlimits: dict[str, Any], **process: Any) -> dict[str, Any]:
    return {"ociVersion": "1.2.0", "process": {"cwd": "/", "rlimits": list(rlimits), **process}, "linux": {"x": 1}}
