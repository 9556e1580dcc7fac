# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided for many hosts at once is what is decided for each, and no host spoils it for another."""

from __future__ import annotations

import json
import re
import typing as t

import pytest
from ansible.errors import AnsibleFilterError, AnsibleUndefinedVariable

from ansible_collections.fabric.rdma.plugins.plugin_utils._decisions import decisions
from ansible_collections.fabric.rdma.tests.unit.plugins.filter.test_filters import filter_named
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils.test_malformed import captured

Json = dict[str, t.Any]

HOSTS = ("ib-v100-1", "ib-a100-1", "roce-rails-1")
WISHES = {
    "rdma_ofed": {"method": "inbox"},
    "rdma_want": {"link_layer": "Ethernet"},
    "rdma_storage": {"multipath": True},
    "rdma_memlock": {"method": "limit"},
    "rdma_gpudirect": "none",
    "rdma_roce_host": {"mtu": 9000},
    "rdma_compute_domain": {"host_imex": "mask"},
}


def variables(host: str, **wishes: t.Any) -> Json:
    return {"inventory_hostname": host, "ansible_facts": {"rdma": json.loads(captured(host))}, **wishes}


def with_change(own: Json) -> Json:
    """With a change that never ended."""
    own["ansible_facts"]["rdma"]["change"] = {"since": "2026-01-01T00:00:00Z", "roles": ["ofed"]}
    return own


@pytest.mark.parametrize("wishes", [{}, WISHES], ids=["none", "all"])
def test_all_hosts_need_what_each_of_them_needs(wishes: Json) -> None:
    found = decisions({host: variables(host, **wishes) for host in HOSTS}, HOSTS)
    names = {"link_layer": (wishes.get("rdma_want") or {}).get("link_layer", "InfiniBand")}
    names |= {name.removeprefix("rdma_"): wish for name, wish in wishes.items()}
    for host in HOSTS:
        alone = filter_named("rdma_needs")(json.loads(captured(host)), host=host, **names)
        assert found["needs"][host] == alone
        roles = [role for role, need in alone.items() if need["needed"]]
        assert found["due"].get(host, {"roles": []})["roles"] == roles
    assert (found["failed"], found["open"], found["duplicates"]) == ({}, [], [])


def test_a_replayed_host_is_decided_for_and_never_due() -> None:
    hostvars = {
        "ib-v100-1": with_change(variables("ib-v100-1", rdma_capture="x")),
        "ib-a100-1": variables("ib-a100-1"),
    }
    found = decisions(hostvars, list(hostvars))
    assert list(found["needs"]) == list(hostvars)
    assert list(found["due"]) == ["ib-a100-1"]
    assert found["open"] == []


def test_a_change_that_never_finished_is_due_whatever_is_needed() -> None:
    nothing = {
        "rdma_memlock": {"enabled": False},
        "rdma_storage": {"iscsi": False, "nfs": False},
        "rdma_gpudirect": "none",
    }
    well = {"ib-v100-1": variables("ib-v100-1", **nothing)}
    assert decisions(well, list(well))["due"] == {}
    found = decisions({"ib-v100-1": with_change(well["ib-v100-1"])}, ["ib-v100-1"])
    assert found["due"] == {"ib-v100-1": {"roles": [], "away": False}}
    assert found["open"] == ["ib-v100-1"]


class Failing(dict[str, t.Any]):
    """Variables of which one cannot be read, as those of an inventory may be."""

    def get(self, key: str, default: t.Any = None) -> t.Any:
        if key == "rdma_storage":
            raise AnsibleUndefinedVariable("'site' is undefined")
        return super().get(key, default)


BROKEN: dict[str, tuple[t.Callable[[], Json], str]] = {
    "no facts": (lambda: {"ansible_facts": {}}, "host bad: its facts cannot be used"),
    "another subset": (
        lambda: {"ansible_facts": {"rdma": {**json.loads(captured("ib-v100-1")), "kernel": 3}}},
        "host bad: its facts cannot be used (kernel is 3; expected a dictionary)",
    ),
    "facts of another": (
        lambda: {"ansible_facts": {"rdma": {**json.loads(captured("ib-v100-1")), "gathered_of": "other"}}},
        "host bad has the facts of host 'other'",
    ),
    "a wish": (lambda: variables("ib-v100-1", rdma_ofed={"method": "x"}), "rdma_ofed.method is 'x'; expected one of"),
    "a wish of a type": (lambda: variables("ib-v100-1", rdma_memlock=[]), "rdma_memlock is of type list"),
    "a wish without end": (lambda: variables("ib-v100-1", rdma_want=1 << 5000), "rdma_want has a number of more than"),
    "a template": (
        lambda: Failing(variables("ib-v100-1", rdma_storage="{{ site }}")),
        "rdma_storage cannot be read: 'site' is undefined",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_host_for_which_nothing_can_be_decided_costs_no_other_anything(name: str) -> None:
    make, words = BROKEN[name]
    hostvars = {"ib-a100-1": variables("ib-a100-1")}
    alone = decisions(hostvars, list(hostvars))
    found = decisions({"bad": make(), **hostvars}, ["bad", *hostvars])
    assert found["failed"]["bad"].startswith(words)
    assert {**found, "failed": {}} == alone
    with pytest.raises(AnsibleFilterError, match="^" + re.escape(words)):
        filter_named("rdma_decisions")({"bad": make()}, ["bad"], insist=True)


def test_facts_without_the_kernel_are_too_few() -> None:
    own = variables("ib-v100-1")
    del own["ansible_facts"]["rdma"]["kernel"]
    assert decisions({"n": own}, ["n"])["failed"]["n"].startswith(
        "host n: its facts cannot be used (the subset kernel is missing)"
    )


def test_initiator_names_are_compared_between_those_that_are_not_replayed() -> None:
    hostvars = {}
    for name, more in (("a", {}), ("b", {}), ("c", {"rdma_capture": "x"})):
        own = variables("ib-a100-1", **more)
        iscsi = own["ansible_facts"]["rdma"]["storage"]["iscsi"]
        iscsi.update(installed=True, initiator_name="iqn.x:1", initiator_file="present")
        hostvars[name] = own
    found = decisions(hostvars, list(hostvars))
    assert [one["hosts"] for one in found["duplicates"]] == [["a", "b"]]
    # decided again for one of them, with what was found before
    again = decisions(hostvars, ["b"], found["duplicates"])
    assert again["needs"]["b"] == found["needs"]["b"]
    assert again["needs"]["b"]["storage_prereqs"]["initiator"] is not None
