# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster of the scenario, in which no test leaves a Pod, or a node without an RDMA device that was there."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "pods" / "tests")]

from claims import Cluster
from pods import ROOT


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster(ROOT / "inventories" / "dranet")


@pytest.fixture(autouse=True)
def _no_pods_are_left(cluster: Cluster) -> t.Iterator[None]:
    yield
    cluster.clear()
