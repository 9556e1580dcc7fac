# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between facts then and now is told by name; what grows by itself is not told."""

from __future__ import annotations

import copy
import json
import typing as t
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.plugin_utils._changes import changes
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import ViewError, merged_facts

CAPTURES = Path(__file__).resolve().parents[3] / "captures"
FACTS: dict[str, t.Any] = json.loads((CAPTURES / "ib-a100-1.expected.json").read_text())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=15,
)


def changed(**parts: t.Any) -> dict[str, t.Any]:
    return {**copy.deepcopy(FACTS), **parts}


def test_the_same_facts_are_no_change() -> None:
    now = changed(gathered="2026-01-02T03:04:05Z", health={"counters": 7}, change={"since": "now"})
    assert changes({"a": FACTS}, {"a": now}) == {"hosts": {}, "new": [], "gone": [], "lines": []}
    # lists of devices are compared by their names
    assert changes({"a": FACTS}, {"a": changed(devices=FACTS["devices"][::-1])})["lines"] == []


def test_a_node_that_has_started_again_is_the_same() -> None:
    """containerd has another process then, and that its process is gone is told by what else it says."""
    before, now = changed(), changed()
    before["runtime"]["containerd"]["pid"], now["runtime"]["containerd"]["pid"] = 1475, 364
    assert changes({"a": before}, {"a": now})["lines"] == []
    # nor does the file of facts change
    assert merged_facts({"a": now}, "nowhere.json") == merged_facts({"a": before}, "nowhere.json")
    # the facts of the run itself keep it
    assert now["runtime"]["containerd"]["pid"] == 364


def test_a_port_that_went_down_is_reported_by_name() -> None:
    now = changed()
    port = now["devices"][0]["ports"][0]
    port["state"], before = "Init", port["state"]
    found = changes({"a": FACTS}, {"a": now})
    name = now["devices"][0]["name"]
    assert found["lines"] == [f"a: devices {name} ports 1 state: {before}, now Init"]
    assert found["hosts"] == {"a": [f"devices {name} ports 1 state: {before}, now Init"]}


def test_a_host_that_has_left_the_inventory_is_told_and_one_that_this_run_leaves_out_is_not() -> None:
    before = {"a": FACTS, "b": FACTS, "c": FACTS}
    found = changes(before, {"a": FACTS}, ["a", "b"])
    assert found == {
        "hosts": {},
        "new": [],
        "gone": ["c"],
        "lines": ["c: no longer in the inventory (the next plan forgets it with rdma_rollout.remove)"],
    }
    assert changes(before, {"a": FACTS})["gone"] == []


def test_a_device_that_went_or_came_is_reported_once() -> None:
    name = FACTS["devices"][-1]["name"]
    less = changed(devices=FACTS["devices"][:-1])
    [line] = changes({"a": FACTS}, {"a": less})["lines"]
    assert line.startswith(f"a: devices {name}: ")
    assert line.endswith("entries, now not there")
    [line] = changes({"a": less}, {"a": FACTS})["lines"]
    assert line.startswith(f"a: devices {name}: not there, now ")
    [line] = changes({"a": FACTS}, {"a": changed(warnings=["b", "a"])})["lines"]
    assert line == "a: warnings: with b, with a"


def test_hosts_that_are_new_and_hosts_that_were_not_looked_at() -> None:
    found = changes({"gone": FACTS}, {"n10": FACTS, "n2": FACTS})
    assert (found["new"], found["hosts"]) == (["n2", "n10"], {})
    assert found["lines"][0] == "n2: nothing was known of it"


def test_facts_of_an_earlier_run_are_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    assert changes(str(path), {"a": FACTS})["new"] == ["a"]
    path.write_text(json.dumps({"a": FACTS}))
    assert changes(str(path), {"a": FACTS})["lines"] == []
    path.write_text("{")
    with pytest.raises(ViewError, match="cannot be read as the facts of an earlier run"):
        changes(str(path), {"a": FACTS})


@given(before=VALUES, now=VALUES)
def test_whatever_a_node_says_is_told_in_few_short_lines(before: t.Any, now: t.Any) -> None:
    many = {f"h{number}": {"x": now, "y": {str(key): key for key in range(50)}} for number in range(20)}
    found = changes({"h0": {"x": before}, **{host: {"x": before} for host in many}}, many)
    assert len(found["lines"]) <= 201
    assert all(len(line) < 800 and line.isprintable() for line in found["lines"])
    assert changes(many, many)["lines"] == []
