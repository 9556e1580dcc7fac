# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts that are not those of their host: of another host, or wishes that a node makes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.filter.rdma_foreign import rdma_foreign
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import ViewError, checked_facts, cluster_view

CAPTURE = Path(__file__).resolve().parents[3] / "captures" / "ib-v100-1.capture"
OTHERS = "host b has the facts of host 'a'"


def facts(of: Any) -> dict[str, Any]:
    return {"rdma": {"devices": [], "gathered_of": of}}


def test_the_facts_of_another_host_are_found_with_both_names() -> None:
    hostvars = {name: {"ansible_facts": facts("a")} for name in ("a", "b", "c")}
    (said,) = rdma_foreign(hostvars, ["a", "b"])
    assert OTHERS in said
    assert "meta: clear_facts" in said
    assert rdma_foreign(facts("a"), host="b") == [said]
    assert rdma_foreign(facts("a"), host="a") == []


def test_of_many_hosts_with_wishes_the_first_ten_are_named_and_the_others_counted() -> None:
    """What is said is one message, and a fact cache may have them for each host of a cluster."""
    wishes = {f"rdma_{'x' * 5000}{number}": 1 for number in range(9)}
    hostvars = {f"n{number}": {"ansible_facts": wishes} for number in range(3000)}
    said = rdma_foreign(hostvars, list(hostvars))
    assert len(said) == 11
    assert said[-1] == "The same is wrong with 2990 more hosts"
    assert sum(map(len, said)) < 10_000


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"rdma": None},
        {"rdma": []},
        {"rdma": {"devices": []}},
        *(facts(of) for of in (None, 7, 16**5000, [], {"b": 1})),
    ],
    ids=[
        "none",
        "null",
        "list",
        "of an earlier version",
        "null name",
        "number",
        "huge number",
        "list name",
        "dictionary",
    ],
)
def test_facts_that_do_not_say_whose_they_are_are_the_hosts(found: dict[str, Any]) -> None:
    assert rdma_foreign(found, host="b") == []
    assert rdma_foreign({"b": {"ansible_facts": found}}, ["b"]) == []


def test_a_node_that_makes_wishes_is_not_called_by_the_name_that_it_claims() -> None:
    (said,) = rdma_foreign({**facts("a"), "inventory_hostname": "b"}, host="b")
    assert said.startswith("this host has facts named inventory_hostname")


def test_a_long_or_unprintable_name_does_not_spoil_the_message() -> None:
    (said,) = rdma_foreign(facts("\x1b[2J" + "x" * 100_000), host="b")
    assert len(said) < 1000
    assert "\x1b" not in said


def test_no_plan_is_made_of_them() -> None:
    own = gather(open_tree(str(CAPTURE)))
    hostvars = {
        name: {"ansible_facts": {"rdma": {**own, "gathered": "2026-03-01T08:15:00Z", "gathered_of": "a"}}}
        for name in ("a", "b")
    }
    with pytest.raises(ViewError, match=re.escape(OTHERS)):
        cluster_view(hostvars, {"g": ["a", "b"]}, ["g"])
    view = cluster_view(hostvars, {"g": ["a"]}, ["g"])
    assert view["facts"] == {"a": checked_facts(own)[0]}
    assert view["malformed"] == {}
    assert view["cached"] == {"a": "2026-03-01T08:15:00Z"}
    # who runs beside it counts, too
    with pytest.raises(ViewError, match=re.escape(OTHERS)):
        cluster_view(hostvars, {"g": ["a"]}, ["g"], run=["a", "b"])
