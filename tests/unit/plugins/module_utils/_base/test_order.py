# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key


@given(st.lists(st.integers(0, 10**30), min_size=2))
def test_natural_order_is_the_order_of_numbers(numbers: list[int]) -> None:
    assert sorted((f"mlx5_{n}" for n in numbers), key=natural_key) == [f"mlx5_{n}" for n in sorted(numbers)]


@pytest.mark.parametrize(
    "names",
    [
        ["", "1", "2", "10", "a", "a1", "a1b", "a2", "a10", "a-1", "b"],
        ["n2.r1", "n2.r10", "n10.r1"],
        # equal numbers: the order does not depend on where a name comes from
        ["n001", "n01", "n1", "n02", "n2"],
        ["n" + "8" * 5000, "n" + "9" * 5000],
        # numbers are those of ASCII
        ["n3", "n²"],
    ],
    ids=lambda names: names[-1][:10],
)
def test_names_are_in_natural_order(names: list[str]) -> None:
    assert sorted(set(names), key=natural_key) == names


@given(st.sets(st.text("a-10", max_size=6)))
def test_no_two_names_are_the_same_in_natural_order(names: set[str]) -> None:
    assert len({repr(natural_key(name)) for name in names}) == len(names)
