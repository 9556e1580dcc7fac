# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wishes that modules on nodes read: their checks and defaults. Private. Pure.

Apart from wishes.py, which has those of every variable, so that no node gets it.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.checks import (
    Check,
    Json,
    choice,
    flag,
    keys,
    listing,
    name,
    number,
    rate,
    some_of,
    strings,
    truth,
    wrong,
)

__all__ = ["NODE_DEFAULTS", "NODE_WISHES", "node_problems"]


def _limit(where: str, value: t.Any) -> list[str]:
    if value in ("unlimited", "infinity") or not number(0, None, "")(where, value):
        return []
    if isinstance(value, int) and not isinstance(value, bool) and value >= -1:
        return []
    return wrong(where, value, "a number of bytes, or unlimited")


def _handlers(where: str, value: t.Any) -> list[str]:
    if value == "all" or not listing(name, "", 1)(where, value):
        return []
    return wrong(where, value, "'all' or a list of names of runtime handlers")


_PRIORITIES = keys(priorities=listing(number(0, 7, ""), "a list of priorities from 0 to 7"))

# Sysctls of a netdev: Documentation/networking/ip-sysctl.rst.
_ROCE_HOST = keys(
    link_type=choice("ETH", "IB"),
    netns=choice("shared", "exclusive"),
    mtu=number(1280, 9978, "a number of bytes from 1280 to 9978, such as 9000"),
    multi_rail=flag,
    arp=keys(announce=number(0, 2, "0, 1 or 2"), filter=number(0, 1, "0 or 1"), ignore=number(0, 2, "0, 1 or 2")),
    rp_filter=number(0, 2, "0 (off), 1 (strict) or 2 (loose)"),
    trust=choice("dscp", "pcp"),
    pfc=_PRIORITIES,
    ecn=_PRIORITIES,
    dscp=number(0, 63, "a DSCP from 0 to 63, such as 26"),
    tos=number(0, 255, "a ToS from 0 to 255, such as 106"),
    persist=flag,
)


def _roce_host(where: str, value: t.Any) -> list[str]:
    found = _ROCE_HOST(where, value)
    if found:
        return found
    for key in ("pfc", "ecn"):
        if key in value and "priorities" not in value[key]:
            found.append(f"{where}.{key} has no priorities; name them, such as [3], or none with []")
    if "dscp" in value and "tos" in value:
        found.append(
            f"{where} has both dscp and tos, which say the same thing in two ways; keep one (dscp 26 is the ToS 106)"
        )
    return found


NODE_WISHES: dict[str, Check] = {
    "rdma_want": keys(
        link_layer=choice("InfiniBand", "Ethernet"),
        state=choice("Active", "any"),
        min_rate_gbps=rate,
        kinds=some_of("pf", "vf", "sf", "software"),
        exclude=strings,
    ),
    "rdma_memlock": keys(
        enabled=truth,
        method=choice("spec", "limit"),
        handlers=_handlers,
        soft=_limit,
        hard=_limit,
    ),
    "rdma_roce_host": _roce_host,
}

# defaults.py has those of every variable.
NODE_DEFAULTS: Json = {
    "rdma_want": {"link_layer": "InfiniBand", "state": "Active", "min_rate_gbps": 0, "kinds": ["pf"], "exclude": []},
    "rdma_memlock": {"enabled": True, "method": "spec", "handlers": "all", "soft": "unlimited", "hard": "unlimited"},
    "rdma_roce_host": {"persist": True},
}


def node_problems(variable: str, value: t.Any) -> list[str]:
    """What is wrong with the value of one of NODE_WISHES. None is a variable that is not set."""
    return [] if value is None else NODE_WISHES[variable](variable, value)
