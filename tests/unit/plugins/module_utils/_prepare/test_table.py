# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.filter.rdma_table import rdma_table
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.table import open_ends, prepared_rows

RIGHT: dict[str, Any] = {"needed": False, "reasons": []}
DUE = {"needed": True, "reasons": ["ib_umad is not loaded", "ib_umad is not loaded at boot"]}


def host(before: dict[str, Any], after: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "replayed": False, "stale_containers": [], **more}


def prepared_table(hosts: dict[str, Any], check: bool = False) -> list[str]:
    found = prepared_rows(hosts, check)
    return rdma_table(found).splitlines()


def rows(hosts: dict[str, Any], check: bool = False) -> list[str]:
    lines = prepared_table(hosts, check)
    assert all(len(line) <= 100 for line in lines)
    return [" ".join(line.split()) for line in lines]


def test_what_was_done_and_what_was_right() -> None:
    before, after = {"ofed": DUE, "storage_prereqs": RIGHT}, {"ofed": RIGHT, "storage_prereqs": RIGHT}
    hosts = {"node1": host(before, after), "node2": host(before, after), "node3": host(after)}
    assert rows(hosts) == [
        "HOSTS WHAT DETAILS",
        "node1, node2 changed ofed: ib_umad is not loaded; ib_umad is not loaded at boot",
        "node1, node2 was right storage_prereqs",
        "node3 was right ofed, storage_prereqs",
    ]


def test_check_mode_replays_and_what_is_still_missing() -> None:
    before = {"ofed": DUE}
    assert rows({"node1": host(before, before)}, check=True)[1].startswith("node1 would change ofed: ib_umad")
    assert rows({"node1": host(before, replayed=True)})[1].startswith("node1 not touched ofed: ib_umad")
    assert (
        rows({"node1": host(before, {"ofed": {"needed": True, "reasons": ["no"]}})})[1]
        == "node1 still missing ofed: no"
    )
    # a node that no longer tells of it has not shown that it is done
    assert rows({"node1": host(before, {})})[1].startswith("node1 still missing ofed: ib_umad")
    assert prepared_table({}) == []


def test_what_is_left_to_people() -> None:
    needs = {
        "ofed": {**RIGHT, "pending": "the kernel still runs the mlx5_core that came with it"},
        "nvidia_peermem": {**RIGHT, "managed": True, "helm_values": {"driver.rdma.enabled": True}},
    }
    stale = [{"namespace": "a", "pod": f"p{number}", "container": "c"} for number in range(7)] + [{"pod": None}]
    assert open_ends(needs, stale) == [
        "reboot: the kernel still runs the mlx5_core that came with it",
        "recreate these Pods, which have the old limit: a/p0, a/p1, a/p2, a/p3, a/p4 and 2 more",
        "1 containers without a Pod have the old limit until they are restarted",
        "GPU Operator's chart: driver.rdma.enabled=true",
    ]
    none = {"nvidia_peermem": {**RIGHT, "way": "none", "problems": [{"cause": "no symbol", "remedy": "install OFED"}]}}
    assert open_ends(none) == ["no GPUDirect: no symbol; install OFED"]
    assert open_ends(None) == open_ends({}) == []


@pytest.mark.parametrize("text", ["a" * 500, "x\x1b[31my", "\u202egnp"])
def test_texts_of_nodes_fit_and_are_harmless(text: str) -> None:
    lines = prepared_table({"node1": host({"ofed": {"needed": True, "reasons": [text]}}, {"ofed": RIGHT})})
    assert all(len(line) <= 100 and line.isprintable() for line in lines)
