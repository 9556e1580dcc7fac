# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import (
    ManifestError,
    class_slug,
    group_value,
    node_scope,
)

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


@given(st.text(min_size=1, max_size=120))
def test_a_slug_is_a_label_with_room_for_a_prefix(name: str) -> None:
    try:
        slug = class_slug(name)
    except ManifestError:
        assert not re.search("[a-z0-9]", name.lower())
        return
    assert LABEL.fullmatch(slug)
    assert len("rdma-shared-dp-" + slug) <= 63


@pytest.mark.parametrize(
    ("name", "slug"), [("ib-a100", "ib-a100"), ("IB_A100", "ib-a100"), ("_a..b_", "a-b"), ("é1", "1")]
)
def test_a_slug_has_small_letters_digits_and_single_hyphens(name: str, slug: str) -> None:
    assert class_slug(name) == slug


def test_long_names_stay_apart() -> None:
    assert class_slug("a" * 100) != class_slug("a" * 101)


def test_every_group_has_a_label_value() -> None:
    assert group_value("GB_200") == "gb-200"
    assert LABEL.fullmatch(group_value("__"))
    assert group_value("__") != group_value("..")


def test_hosts_that_leave_are_nodes_and_groups() -> None:
    found = node_scope(["n1", "n2"], ["n3", "GB_200"], {"n2": "two", "n3": "three"}, ["n4"])
    assert found == {"known": ["n1", "two"], "remove": ["GB_200", "gb-200", "n3", "n4", "three"]}
