# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whoever compares each with each is found, however it is written."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.tests.unit.steps import counted


def in_loops(size: int) -> int:
    found = 0
    for one in range(size):
        for other in range(size):
            found += one == other
    return found


EACH_WITH_EACH: dict[str, t.Callable[[int], int]] = {
    "loops": in_loops,
    "comprehension": lambda size: len([1 for one in range(size) for other in range(size) if one == other]),
    "generator": lambda size: sum(one == other for one in range(size) for other in range(size)),
}


@pytest.mark.parametrize("name", EACH_WITH_EACH)
def test_twice_as_many_that_are_compared_with_each_other_take_four_times_the_steps(name: str) -> None:
    (few, least), (many, most) = (counted(lambda size=size: EACH_WITH_EACH[name](size)) for size in (100, 200))  # type: ignore[misc]
    assert (few, many) == (100, 200)
    assert 3.8 * least < most < 4.2 * least


def test_twice_as_many_in_one_loop_take_twice_the_steps() -> None:
    least, most = (counted(lambda size=size: [each + 1 for each in range(size)])[1] for size in (1000, 2000))  # type: ignore[misc]
    assert 1.9 * least < most < 2.1 * least
