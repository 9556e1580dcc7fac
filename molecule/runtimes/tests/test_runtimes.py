# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role left on three generations of containerd, and what becomes of nodes in layouts and with faults."""

from __future__ import annotations

import json
import typing as t

import nodes
import pytest

# These go to the nodes by themselves, all at the same time.
testinfra_hosts = ["local://"]

NODES = ["lab1", "lab2", "lab3"]
UNLIMITED = ["unlimited", "unlimited"]


@pytest.fixture(scope="session")
def seen() -> dict[str, t.Any]:
    """What containers on the nodes are allowed, as the role left them; looked at before any fault is tried."""
    return nodes.everywhere(NODES, nodes.look)


@pytest.fixture(scope="session")
def results(seen: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    """What became of each case on each node. All cases of a node share a connection, and the nodes work at the same time."""
    assert seen
    # the code as it is now: a scenario may be verified many times after one preparation
    nodes.everywhere(NODES, nodes.push)
    lines = nodes.everywhere(
        NODES, lambda node: [json.loads(line) for line in nodes.output(node, "node.py").splitlines()]
    )
    return {node: {line["case"]: line for line in found} for node, found in lines.items()}


@pytest.mark.parametrize("node", NODES)
def test_memlock_of_new_containers_is_unlimited_and_was_not(seen: dict[str, t.Any], node: str) -> None:
    """Through CRI, as root and as an ordinary user; how many files they may open has not changed."""
    for user in ("root", "user"):
        before, after = seen[node]["before"][user], seen[node]["after"][user]
        assert before["memlock"] == ["8388608", "8388608"]
        assert after["memlock"] == UNLIMITED
        assert after["nofile"] == before["nofile"]


@pytest.mark.parametrize("node", NODES)
def test_a_running_container_runs_on_with_its_old_limit(seen: dict[str, t.Any], node: str) -> None:
    assert [old["memlock"] for old in seen[node]["old"]] == [["8388608", "8388608"]]


@pytest.mark.parametrize("node", NODES)
def test_every_layout_and_fault_ends_as_it_should(results: dict[str, dict[str, t.Any]], node: str) -> None:
    """Every case on every node; what is wrong is listed at once, a run takes minutes."""
    names = nodes.output(node, "node.py", "--list").splitlines()
    assert len(names) > 6
    assert list(results[node]) == names
    problems = {name: result["problems"] for name, result in results[node].items() if result["problems"]}
    assert not problems, json.dumps(problems, indent=1)
