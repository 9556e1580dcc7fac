# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What containers are allowed that a kubelet would start, before and after; and what was promised before anything was changed."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import nodes
import pytest

# These go to the nodes by themselves, to both at the same time.
testinfra_hosts = ["local://"]

NODES = ["lab1", "lab2"]


@pytest.fixture(scope="module")
def seen() -> dict[str, t.Any]:
    return nodes.everywhere(NODES, nodes.look)


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("user", ["root", "user"])
def test_memlock_is_unlimited_and_was_not(seen: dict[str, t.Any], node: str, user: str) -> None:
    before, after = seen[node]["before"][user], seen[node]["after"][user]
    assert before["memlock"] == ["8388608", "8388608"]
    assert after["memlock"] == ["unlimited", "unlimited"]
    assert after["nofile"] == before["nofile"]


@pytest.mark.parametrize("node", NODES)
def test_a_running_container_was_left_alone(seen: dict[str, t.Any], node: str) -> None:
    assert [old["memlock"] for old in seen[node]["old"]] == [["8388608", "8388608"]]


def test_check_mode_promised_exactly_what_was_changed() -> None:
    """Task by task, item by item, on fresh nodes; the first run of converge.yml is the real one."""
    lines = [json.loads(line) for line in Path(os.environ["FABRIC_RDMA_CHANGES"]).read_text().splitlines()]
    lines = [line for line in lines if line["play"] == "Prepare the nodes"]
    real = [line for line in lines if line["playbook"] == "converge.yml" and not line["check"]]
    promised = [line for line in lines if line["check"]]
    assert promised
    assert {line["run"] for line in real} == {real[0]["run"]}, "a second run changed something"

    def changes(found: list[dict[str, t.Any]]) -> list[str]:
        return sorted(f"{line['host']}: {line['task']} {line['item'] or ''}" for line in found)

    assert changes(promised) == changes(real)
