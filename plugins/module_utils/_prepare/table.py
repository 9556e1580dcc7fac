# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What preparing hosts came to, as rows of a table for people. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.text import (
    hosts_label,
    printable,
    shared_domain,
    short,
)

__all__ = ["open_ends", "prepared_rows"]

Json = t.Mapping[str, t.Any]

# Pods that are named; a node has up to some hundred.
_MAX_PODS = 5


def open_ends(needs: t.Optional[Json], stale_containers: t.Sequence[Json] = ()) -> list[str]:
    """What is left for people on a host, in words: reboots, Pods to recreate, values of somebody else's chart.

    needs: what host_needs() says of the host afterwards. stale_containers: those with the old limit, as the module
    containerd_memlock returns them.
    """
    left: list[str] = []
    needs = needs or {}
    pending = (needs.get("ofed") or {}).get("pending")
    if pending:
        left.append(f"reboot: {pending}")
    left += list((needs.get("roce_host") or {}).get("pending") or [])
    pods = sorted({f"{one.get('namespace')}/{one['pod']}" for one in stale_containers if one.get("pod")})
    if pods:
        more = f" and {len(pods) - _MAX_PODS} more" if len(pods) > _MAX_PODS else ""
        left.append(f"recreate these Pods, which have the old limit: {', '.join(pods[:_MAX_PODS])}{more}")
    others = len([one for one in stale_containers if not one.get("pod")])
    if others:
        left.append(f"{others} containers without a Pod have the old limit until they are restarted")
    gpudirect = needs.get("nvidia_peermem") or {}
    if gpudirect.get("managed") and gpudirect.get("helm_values"):
        values = ", ".join(f"{key}={str(value).lower()}" for key, value in sorted(gpudirect["helm_values"].items()))
        left.append(f"GPU Operator's chart: {values}")
    elif gpudirect.get("way") == "none":
        left += [f"no GPUDirect: {one['cause']}; {one['remedy']}" for one in gpudirect.get("problems") or []]
    return left


def _role(name: str, needs: Json) -> str:
    reasons = "; ".join(str(reason) for reason in needs[name]["reasons"])
    return f"{name}: {reasons}" if reasons else name


def _rows(one: Json, check: bool) -> t.Iterator[tuple[str, str]]:
    before = one["before"]
    after = one["after"] if one["after"] is not None else before
    due = [name for name in before if before[name]["needed"]]
    if one["replayed"]:
        for name in due:
            yield "not touched", _role(name, before)
    elif check:
        for name in due:
            yield "would change", _role(name, before)
    else:
        for name in due:
            # a node that no longer says anything of it has not shown that it is done
            left = after if name in after else before
            yield (
                ("still missing" if left[name]["needed"] else "changed"),
                _role(name, left if left[name]["needed"] else before),
            )
    right = [name for name in before if name not in due]
    if right:
        yield "was right", ", ".join(right)
    for text in open_ends(after, one["stale_containers"]):
        yield "to do", text


def prepared_rows(hosts: t.Mapping[str, Json], check: bool = False) -> list[tuple[str, str, str]]:
    """(hosts, what, details); hosts with the same share a row.

    hosts: by name, {before: host_needs() of before, after: of after or None for a host on which nothing ran, replayed: bool,
    stale_containers}. check: nothing was changed, and what is told is what would have been.
    """
    domain = shared_domain(hosts)
    rows: dict[tuple[str, str], list[str]] = {}
    for host in sorted(hosts):
        for what, text in _rows(hosts[host], check):
            rows.setdefault((what, printable(text)), []).append(short(host, domain))
    order = ("would change", "changed", "still missing", "to do", "not touched", "was right")
    lines = sorted(rows.items(), key=lambda row: order.index(row[0][0]))
    return [(hosts_label(names), what, text) for (what, text), names in lines]
