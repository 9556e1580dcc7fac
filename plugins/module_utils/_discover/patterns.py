# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel calls ports and representors. Private to the collection."""

from __future__ import annotations

import re

__all__ = ["PORT", "REPRESENTOR"]

PORT = re.compile(r"0|[1-9][0-9]{0,2}")
# They share net/ with their uplink; drivers/net/ethernet/mellanox/mlx5/core/en_rep.c and net/core/devlink name them so.
REPRESENTOR = re.compile(r"(c\d+)?pf\d+((vf|sf)\d+)?")
