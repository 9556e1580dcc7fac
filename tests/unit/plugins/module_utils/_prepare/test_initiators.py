# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the hosts with one initiator name keeps it, and that no session loses its name."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._prepare.initiators import duplicate_initiators
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage import storage_checks
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage_needs import storage_needs
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._discover.storage_node import (
    NAME,
    facts_of,
    node,
)

# -- duplicates ------------------------------------------------------------------------------------------------------


def host(name: str | None, sessions: int = 0, **more: Any) -> dict[str, Any]:
    facts = copy.deepcopy(facts_of(node()))
    open_sessions = [{"name": f"session{n}", "target": f"iqn.t:{n}", "state": "LOGGED_IN"} for n in range(sessions)]
    facts["storage"]["iscsi"].update(initiator_name=name, sessions=open_sessions, **more)
    return facts


@pytest.mark.parametrize("name", ["missing", "no name", "generate"])
def test_a_host_without_a_name_gets_one_unless_sessions_are_open(name: str) -> None:
    facts = {
        "missing": host(None, initiator_file="missing"),
        "no name": host(None),
        "generate": host(NAME, generate_name=True),
    }[name]
    assert storage_needs(facts)["initiator"] == {"taken": []}
    busy = copy.deepcopy(facts)
    busy["storage"]["iscsi"]["sessions"] = [{"name": "session1", "target": "iqn.t:1", "state": "LOGGED_IN"}]
    needs = storage_needs(busy)
    assert needs["initiator"] is None
    assert "the initiator name cannot change while sessions are open (iqn.t:1)" in needs["blocked"][0]


def test_unique_names_and_hosts_without_facts() -> None:
    hosts = {"a": host("iqn.a"), "b": host("iqn.b"), "c": host(None), "d": host(None), "e": {}, "f": {"kernel": {}}}
    assert duplicate_initiators(hosts) == []


def test_the_first_host_keeps_the_name() -> None:
    hosts = {"c": host(NAME), "a": host(NAME.upper()), "b": host(NAME), "d": host("iqn.d")}
    found = duplicate_initiators(hosts)
    assert found == [{"name": NAME, "hosts": ["a", "b", "c"], "keeper": "a", "regenerate": ["b", "c"], "refused": []}]
    assert storage_needs(hosts["a"], {}, found, "a")["needed"] is False
    assert storage_checks(hosts["a"], {}, found, "a")[1]["remedy"] == "this host keeps it; b, c must get others"
    needs = storage_needs(hosts["b"], {}, found, "b")
    assert needs["initiator"] == {"taken": [NAME]}
    assert needs["reasons"] == [f"InitiatorName {NAME} is also that of a, c"]
    assert storage_needs(hosts["d"], {}, found, "d")["needed"] is False
    # what was found before it got a name of its own
    assert storage_needs(host("iqn.new"), {}, found, "b")["needed"] is False


def test_the_host_with_sessions_keeps_the_name() -> None:
    (found,) = duplicate_initiators({"a": host(NAME), "b": host(NAME, 1), "c": host(NAME)})
    assert (found["keeper"], found["regenerate"], found["refused"]) == ("b", ["a", "c"], [])


def test_two_hosts_with_open_sessions_keep_their_name() -> None:
    hosts = {"a": host(NAME), "b": host(NAME, 1), "c": host(NAME, 2)}
    found = duplicate_initiators(hosts)
    assert (found[0]["keeper"], found[0]["regenerate"], found[0]["refused"]) == (None, ["a"], ["b", "c"])
    needs = storage_needs(hosts["c"], {}, found, "c")
    assert needs["initiator"] is None
    assert needs["blocked"] == [
        f"InitiatorName {NAME} is also that of a, b: the initiator name cannot change while sessions are open (iqn.t:0, iqn.t:1): drain the "
        "node, detach its volumes until `iscsiadm -m session` is empty, then run again"
    ]
    assert storage_needs(hosts["a"], {}, found, "a")["initiator"] == {"taken": [NAME]}


@given(st.lists(st.tuples(st.sampled_from(["iqn.a", "iqn.b"]), st.integers(0, 1)), max_size=5), st.data())
def test_waves_in_any_order_end_unique(states: list[tuple[str, int]], data: st.DataObject) -> None:
    """Whatever the order in which hosts are treated, the result is the same hosts with the same names, and no duplicates
    but between hosts with sessions."""
    hosts = {
        f"n{number}": {"storage": {"iscsi": {"initiator_name": name, "sessions": [0] * count}}}
        for number, (name, count) in enumerate(states)
    }
    before = {name: facts["storage"]["iscsi"]["initiator_name"] for name, facts in hosts.items()}
    first = {name for entry in duplicate_initiators(hosts) for name in entry["regenerate"]}
    fresh = itertools.count()
    for name in data.draw(st.permutations(sorted(hosts))):
        if any(name in entry["regenerate"] for entry in duplicate_initiators(hosts)):
            hosts[name]["storage"]["iscsi"]["initiator_name"] = f"iqn.new:{next(fresh)}"
    changed = {name for name in hosts if hosts[name]["storage"]["iscsi"]["initiator_name"] != before[name]}
    assert changed == first
    assert all(entry["hosts"] == entry["refused"] for entry in duplicate_initiators(hosts))
