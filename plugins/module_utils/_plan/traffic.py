# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What packets of a RoCE port have to carry to be in the class of their host. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

__all__ = ["traffic_class"]


def traffic_class(facts: t.Mapping[str, t.Any], device: str, port: int) -> t.Optional[int]:
    """What a program that connects without RDMA-CM, as NCCL, UCX and perftest do, has to give its packets: the ToS of RDMA-CM, 1 to 255.

    Without it they are outside of the PFC and ECN that the ToS brings. None where there is none, or the driver gives all packets a class.
    """
    rows = (facts.get("roce") or {}).get("ports") or ()
    row: t.Mapping[str, t.Any] = next((row for row in rows if (row["device"], row["port"]) == (device, port)), {})
    tos = row.get("default_tos") if row.get("traffic_class") is None else None
    return tos if isinstance(tos, int) and tos is not True and 0 < tos < 256 else None
