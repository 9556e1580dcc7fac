# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage filters' own part: which types they take, which hosts they compare, and that an error of the core is one of Ansible."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.filter.rdma_initiator_duplicates import rdma_initiator_duplicates
from ansible_collections.fabric.rdma.plugins.filter.rdma_storage import rdma_storage
from ansible_collections.fabric.rdma.plugins.filter.rdma_table import rdma_table
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import read_storage

MODULE = {"loaded": True, "builtin": False, "available": True, "persisted": True}
FACTS = {
    "kernel": {"release": "6.1.0", "modules": dict.fromkeys(("dm_crypt", "iscsi_tcp", "nfs"), MODULE)},
    "storage": read_storage(MemoryTree({}), []),
}
EXPECTED = "fabric.rdma.rdma_storage expects facts of a host, gathered by fabric.rdma.ib_facts with the subsets kernel and storage, found "


@pytest.mark.parametrize("facts", [None, {"kernel": {}}, {"storage": {}}])
def test_anything_but_facts_is_refused(facts: Any) -> None:
    with pytest.raises(AnsibleFilterError, match=re.escape(EXPECTED)):
        rdma_storage(facts)


def test_an_invalid_wish_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="rdma_storage has no key x; it knows dm_crypt"):
        rdma_storage(FACTS, {"x": 1})


def test_the_table_has_what_a_host_lacks_with_its_remedy() -> None:
    result = rdma_storage(FACTS, {"nfs": False})
    assert (result["needed"], result["parts"]) == (True, ["iscsi"])
    lines = rdma_table({"b": result, "a": {"checks": []}}).splitlines()
    assert lines[0] == "a: 0 of 0 checks in order"
    assert lines[1].startswith("b: 2 of 11 checks in order")
    assert "  error    Package open-iscsi is not installed (packages). Remedy: install it" in lines


def host(name: str | None, **variables: Any) -> dict[str, Any]:
    return {"ansible_facts": {"rdma": {"storage": {"iscsi": {"initiator_name": name}}}}, **variables}


def test_hosts_that_are_compared() -> None:
    hostvars = {
        "n1": host("iqn.x"),
        "n2": host("iqn.x"),
        "other": host("iqn.x"),
        "replayed": host("iqn.x", rdma_capture="/srv/n3"),
        "new": {},
        "odd": {"ansible_facts": None},
    }
    (found,) = rdma_initiator_duplicates(hostvars, ["n2", "n1", "replayed", "new", "odd"])
    assert (found["hosts"], found["keeper"]) == (["n1", "n2"], "n1")


def test_names_of_a_fact_cache_are_not_compared() -> None:
    seen = {"discover_gathered": {"ansible_facts": {}}}
    hostvars = {
        "cached": host("iqn.x"),
        "n1": host("iqn.x", **seen),
        "lost": host("iqn.x", discover_gathered={"msg": ""}),
    }
    assert rdma_initiator_duplicates(hostvars, list(hostvars), fresh=True) == []
    hostvars["n2"] = host("iqn.x", **seen)
    (found,) = rdma_initiator_duplicates(hostvars, list(hostvars), fresh=True)
    assert (found["hosts"], found["regenerate"]) == (["n1", "n2"], ["n2"])


@pytest.mark.parametrize(
    ("hostvars", "hosts", "message"),
    [
        ([], [], "fabric.rdma.rdma_initiator_duplicates expects hostvars, found list"),
        ({}, "n1", "fabric.rdma.rdma_initiator_duplicates expects a list of host names, found 'n1'"),
    ],
)
def test_input_that_is_not_of_hosts_is_refused(hostvars: Any, hosts: Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=re.escape(message)):
        rdma_initiator_duplicates(hostvars, hosts)
