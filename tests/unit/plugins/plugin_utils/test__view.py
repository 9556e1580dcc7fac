# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._view import ViewError, cluster_view


class Text(str):
    """A string with something attached, as templating engines make them."""


class Number(int):
    pass


FACTS = {"schema": 1, "devices": []}


def host(facts: Any = None, **variables: Any) -> dict[str, Any]:
    facts = FACTS if facts is None else facts
    return {"ansible_facts": {"rdma": facts} if facts else {}, "rdma_resource": {"name": "x"}, **variables}


def test_a_view() -> None:
    hostvars = {
        "b": host(rdma_want={"state": Text("any")}, rdma_capture="b.capture"),
        "a": host(rdma_want={"state": "any"}, rdma_selector_strategy=None),
        "c": host(facts={}),
        "d": {},
    }
    groups = {"g": ["b", "a"], "none": ["c", "d"], "empty": [], "other": ["a"]}
    view = cluster_view(hostvars, groups, ["g", "none", "empty"])
    assert view == {
        "groups": {
            "g": {
                "hosts": ["a", "b"],
                "resource": {"name": "x"},
                "want": {"state": "any"},
                "strategy": None,
                "replayed": ["b"],
            }
        },
        "facts": {"a": FACTS, "b": FACTS},
        "without_facts": ["none", "empty"],
    }


def test_values_are_plain() -> None:
    facts = {Text("k"): [Text("v"), Number(3), (True, None, 1.5)], "path": re.compile("x").pattern}
    view = cluster_view({"a": host(facts)}, {"g": ["a"]}, ["g"])
    found = view["facts"]["a"]
    assert found == {"k": ["v", 3, [True, None, 1.5]], "path": "x"}
    values = [*found, *found["k"][:2], *found["k"][2]]
    assert {type(value) for value in values} == {str, int, bool, type(None), float}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["x", "g", "y"], "rdma_groups names x, y, which the inventory does not have; it has g, h"),
        (["h"], "group h: rdma_want differs between hosts a and b; set it for the group, not for a host"),
    ],
)
def test_an_inventory_that_makes_no_sense(names: list[str], message: str) -> None:
    hostvars = {"a": host(), "b": host(facts={}, rdma_want={"state": "any"})}
    with pytest.raises(ViewError, match=f"^{re.escape(message)}$"):
        cluster_view(hostvars, {"g": ["a"], "h": ["a", "b"]}, names)
