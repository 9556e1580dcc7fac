# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes with a real containerd, one generation after the other."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils.containerd_node import (
    CONFIG_2,
    GENERATIONS,
    PLAIN,
    Layout,
    Machine,
    programs,
)

Start = Callable[..., Machine]


@pytest.fixture(params=GENERATIONS)
def generation(request: pytest.FixtureRequest) -> str:
    """Each generation of containerd."""
    found: str = request.param
    return found


@pytest.fixture
def start(generation: str) -> Iterator[Start]:
    """Makes nodes on which a containerd of this generation runs."""
    # the path of a socket has at most 107 bytes
    with tempfile.TemporaryDirectory(prefix="c-", ignore_cleanup_errors=True) as directory:
        machines: list[Machine] = []

        def make(config: str = CONFIG_2, layout: Layout = PLAIN) -> Machine:
            root = Path(directory) / str(len(machines))
            root.mkdir()
            machine = Machine(root, programs(generation), config, layout)
            machines.append(machine)
            started = machine.start()
            # whether it ended, or was waited for in vain
            status = machine.process.poll() if machine.process else "not begun"
            assert started, f"containerd {generation}, exit status {status}:\n" + (root / "log").read_text()
            return machine

        yield make
        for machine in machines:
            machine.stop()
