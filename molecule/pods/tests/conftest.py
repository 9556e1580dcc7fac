# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster of the scenario, in which no test leaves a Pod."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

import pytest

# of the scenario cluster, too, by a link
sys.path.insert(0, str(Path(__file__).resolve().parent))

from pods import Site


@pytest.fixture(scope="session")
def site() -> Site:
    return Site()


@pytest.fixture(autouse=True)
def _no_pods_are_left(site: Site) -> t.Iterator[None]:
    yield
    site.clear()
