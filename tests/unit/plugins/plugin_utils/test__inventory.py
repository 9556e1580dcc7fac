# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wishes of a whole inventory: all groups at once, and whose they are."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleError

from ansible_collections.fabric.rdma.plugins.plugin_utils import _inventory
from ansible_collections.fabric.rdma.plugins.plugin_utils._inventory import inventory_problems

Json = dict[str, t.Any]
GROUPS = {"all": ["a1", "a2", "b1"], "a": ["a1", "a2"], "b": ["b1"], "empty": []}


def hostvars(**changes: Json) -> dict[str, Json]:
    """changes: variables by group or host; those of a host go over those of its group."""
    found = {}
    for group in ("a", "b"):
        for host in GROUPS[group]:
            own: Json = {"rdma_groups": ["a", "b"], "rdma_resource": {"name": f"rdma_{group}"}, "ansible_facts": {}}
            found[host] = {**own, **changes.get("all", {}), **changes.get(group, {}), **changes.get(host, {})}
    return found


def wrong(plans: bool = True, hosts: t.Sequence[str] = ("a1",), **changes: Json) -> list[str]:
    return inventory_problems(hostvars(**changes), GROUPS, hosts, plans)


def test_what_is_given_may_be_odd() -> None:
    found = inventory_problems(hostvars(), GROUPS, ["a1"], plans=True, given={"rdma_rollout": deep()})
    assert any(text.startswith("rdma_rollout cannot be read: ") for text in found)


@pytest.mark.parametrize(
    "wish",
    [
        {"rdma_ofed": {"method": "inbox", "activate": "none", "version": "", "packages": ["rdma-core"]}},
        {"rdma_memlock": {"enabled": False, "method": "limit", "handlers": ["runc"]}},
    ],
)
def test_what_says_nothing_else_is_no_mistake(wish: Json) -> None:
    assert wrong(a=wish) == []


def test_an_inventory_without_faults_has_no_problems() -> None:
    assert wrong() == []


def test_two_groups_of_one_name_in_kubernetes_are_refused() -> None:
    """To remove what is rolled out for one would remove it for the other."""
    own = {"a1": {"rdma_resource": {"name": "r"}}, "a2": {"rdma_resource": {"name": "s"}}}
    groups = {"all": ["a1", "a2"], "gpu_a": ["a1"], "GPU-a": ["a2"]}
    names = ["gpu_a", "GPU-a", "gpu_a"]
    assert inventory_problems(own, groups, ["a1"], plans=True, given={"rdma_groups": names}) == [
        "groups gpu_a and GPU-a are both called gpu-a in Kubernetes; rename one"
    ]
    # one that nothing is rolled out for is in nobody's way
    assert inventory_problems(own, groups, ["a1"], plans=True, given={"rdma_groups": ["gpu_a"]}) == []


def test_all_groups_at_once_whatever_the_run_is_for() -> None:
    found = wrong(a={"rdma_want": {"stat": 1}}, b={"rdma_ofed": {"methd": 1}}, a2={"rdma_memlock": {"methd": 1}})
    assert [text.split(" has no key")[0] for text in found] == [
        "group a: rdma_want",
        "group a, host a2: rdma_memlock",
        "group b: rdma_ofed",
    ]
    assert all("did you mean" in text for text in found)


def deep() -> t.Any:
    value: t.Any = 1
    for _level in range(100):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"a2": {"rdma_want": {}}},
            "group a: rdma_want differs between hosts a1 and a2; set it for the group, not for",
        ),
        ({"b1": {"rdma_rollout": {}}}, "rdma_rollout differs between hosts a1 and b1: it is read once for all"),
        ({"a": {"rdma_storge": {}}}, "group a: nobody reads the variable rdma_storge; did you mean rdma_storage?"),
        ({"a1": {"rdma_oefd": {}}}, "group a, host a1: nobody reads the variable rdma_oefd; did you mean rdma_ofed?"),
        (
            {"all": {"rdma_groups": ["a", "bb"]}},
            "rdma_groups names bb, which the inventory does not have; it has a, all",
        ),
        (
            {"all": {"rdma_groups": ["a", "empty"]}},
            "group empty has no hosts; put some in, or take it out of rdma_groups",
        ),
        ({"all": {"rdma_groups": ["a", "all"]}}, "host a1 is in two RDMA groups, a and all; put it in one"),
        ({"all": {"rdma_groups": "a"}}, "rdma_groups is 'a'; expected a list"),
        ({"all": {"rdma_groups": None}}, "rdma_groups is not set. It is the list"),
        ({"a": {"rdma_resource": None}}, "group a: rdma_resource.name is None; expected letters"),
        ({"a": {"rdma_rails": "{name}-{rail}"}}, "group a: rdma_rails is '{name}-{rail}'; expected"),
        ({"a": {"rdma_ofed": {"method": "doca", "version": "2.9.1"}}}, "group a: rdma_ofed.method doca also needs"),
        # what goes together, and what does nothing
        (
            {"a": {"rdma_ofed": {"version": "2.9.1", "repository": "https://x/doca/2.9.1"}}},
            "group a: rdma_ofed.method is inbox, the default, which does nothing with version, repository; set the method that is meant",
        ),
        (
            {"a": {"rdma_ofed": {"method": "none", "activate": "reboot"}}},
            "group a: rdma_ofed.method is none, which does nothing with activate;",
        ),
        (
            {
                "a": {
                    "rdma_ofed": {
                        "method": "mlnx_iso",
                        "version": "24.10-1.1.4.0",
                        "iso": "/x.iso",
                        "repository": "https://x",
                        "key": "/k",
                        "key_checksum": "sha256:0",
                        "packages": ["x"],
                    }
                }
            },
            "group a: rdma_ofed.method is mlnx_iso, which does nothing with repository, key, key_checksum, packages;",
        ),
        (
            {
                "a": {
                    "rdma_ofed": {
                        "method": "doca",
                        "version": "2.9.1",
                        "repository": "https://x/doca/2.9.1",
                        "key": "/k",
                        "iso": "/x.iso",
                        "install_options": ["x"],
                    }
                }
            },
            "group a: rdma_ofed.method is doca, which does nothing with iso, install_options;",
        ),
        (
            {"a": {"rdma_memlock": {"method": "limit", "handlers": ["runc"]}}},
            "group a: rdma_memlock.method limit is for all runtime handlers; take handlers out",
        ),
        (
            {"all": {"rdma_rollout": {"tolerations": [{"key": "a"}, {"operater": "Exists"}]}}},
            "rdma_rollout.tolerations[1] has no key operater; it knows effect, key, operator, tolerationSeconds, value; did you mean operator?",
        ),
        (
            {"all": {"rdma_rollout": {"resources": {"limit": {}}}}},
            "rdma_rollout.resources has no key limit; it knows limits",
        ),
        ({"a": {"rdma_storage": deep()}}, "group a: rdma_storage cannot be read: "),
        ({"a": {"rdma_memlock": {"soft": 2, "hard": 1}}}, "group a: RLIMIT_MEMLOCK: soft 2 is above hard 1"),
        (
            {"a": {"rdma_ofed": {"version": 24.10}}},
            "group a: rdma_ofed.version is the number 24.1; put it in quotes, since YAML takes",
        ),
        (
            {"a": {"rdma_ofed": {"method": "mlnx_iso", "version": "2.9.1", "iso": "/srv/x.iso"}}},
            "group a: rdma_ofed.version is 2.9.1, which is a DOCA release; method mlnx_iso wants that of MLNX_OFED",
        ),
        ({"all": {"rdma_rollout": {"image": "x:latest"}}}, "image 'x:latest' is not pinned"),
        ({"all": {"rdma_rollout": {"image_digest": "x"}}}, "image digest 'x' is not sha256: and 64 hexadecimal digits"),
        (
            {"all": {"rdma_rollout": {"kubelet_root": "var/lib"}}},
            "rdma_rollout.kubelet_root is 'var/lib'; expected an absolute",
        ),
        *(
            ({"all": {"rdma_rollout": {**engine, **wish}}}, expected)
            for engine in ({}, {"engine": "network_operator", "operator_version": "26.4.1"})
            for wish, expected in (
                (
                    {"namespace": "Kube_System"},
                    "rdma_rollout.namespace is 'Kube_System'; expected at most 63 small letters",
                ),
                ({"namespace": "a" * 64}, f"rdma_rollout.namespace is '{'a' * 64}'; expected at most 63 small letters"),
                (
                    {"node_names": {"a1": "Not_A_Node"}},
                    "rdma_rollout.node_names: host a1: 'Not_A_Node' cannot be the name of",
                ),
                ({"node_names": {"a1": "n", "b1": "n"}}, "rdma_rollout.node_names: hosts a1 and b1 are both node n"),
            )
        ),
        (
            {"all": {"rdma_rollout": {"engine": "network_operator"}}},
            "rdma_rollout.operator_version is not set",
        ),
        (
            {"all": {"rdma_rollout": {"engine": "network_operator", "operator_version": "25.4.0", "policy": "node"}}},
            "Network Operator 25.4.0 has no NicNodePolicy",
        ),
        (
            {"all": {"rdma_rollout": {"engine": "network_operator", "operator_version": "26.4.1", "sriov": ["c"]}}},
            "rdma_rollout.sriov names c, which is not a group of the plan; it has a, b",
        ),
        (
            {
                "all": {
                    "rdma_rollout": {
                        "engine": "network_operator",
                        "operator_version": "26.4.1",
                        "ofed_driver": {"groups": ["b"]},
                    }
                }
            },
            "rdma_rollout.ofed_driver and rdma_ofed.method inbox of group b would both see to the driver",
        ),
        (
            {"b1": {"ansible_facts": {"rdma": {}, "rdma_rollout": {"image": "evil"}}}},
            "host b1 has facts named rdma_rollout, which are variables of fabric.rdma or of Ansible: wishes come from the inventory",
        ),
    ],
)
def test_a_problem_names_whom_it_concerns(changes: dict[str, Json], expected: str) -> None:
    found = wrong(**changes)
    assert len(found) == 1, found
    assert found[0].startswith(expected), found


def test_what_only_a_plan_asks_for() -> None:
    assert wrong(plans=False, all={"rdma_groups": None, "rdma_resource": None}) == []
    assert wrong(plans=False, all={"rdma_resource": None}) == []
    # hosts of no group have wishes, too
    assert wrong(plans=False, all={"rdma_groups": None, "rdma_want": {"stat": 1}})[0].startswith(
        "host a1: rdma_want has"
    )


def test_nodes_are_prepared_in_slices_when_that_is_meant() -> None:
    """Each has waves of its own."""
    variables = hostvars()
    variables["a1"].update(awx_job_slice_number=1, awx_job_slice_count=2)
    [found] = inventory_problems(variables, GROUPS, ["a1"], False)
    assert found.startswith("This run is slice 1 of 2 of a sliced job (awx_job_slice_number, awx_job_slice_count)")
    assert "when rdma_slices is true or the number of slices" in found
    for meant in (True, 2, "2", "true", "yes"):
        for own in variables.values():
            own["rdma_slices"] = meant
        assert inventory_problems(variables, GROUPS, ["a1"], False) == []
    for meant in ("maybe", "9" * 5000):
        variables["a1"]["rdma_slices"] = meant
        assert len(inventory_problems(variables, GROUPS, ["a1"], False)) == 3


def test_a_slice_may_have_no_host_of_a_small_group() -> None:
    """AWX gives a slice a group without its hosts, and one that has no variables either, not at all."""
    variables = {"a1": {**hostvars()["a1"], "awx_job_slice_number": 1, "awx_job_slice_count": 2, "rdma_slices": 2}}
    for groups in ({"a": ["a1"], "b": []}, {"a": ["a1"]}):
        assert inventory_problems(variables, groups, ["a1"], False) == []
        # what plans has another answer for a slice, and lets no group go
        assert len(inventory_problems(variables, groups, ["a1"], True)) == 1


def test_a_variable_that_cannot_be_read() -> None:
    class Broken(dict[str, t.Any]):
        def __getitem__(self, key: str) -> t.Any:
            if key == "rdma_want":
                raise AnsibleError("'x' is undefined")
            return super().__getitem__(key)

    own = {host: Broken(found, rdma_want="{{ x }}") for host, found in hostvars().items()}
    found = inventory_problems(own, GROUPS, ["a1"], True)
    assert found == [f"group {name}: rdma_want cannot be read: 'x' is undefined" for name in ("a", "b")]


def test_a_number_that_python_does_not_print() -> None:
    """0xfff... in YAML. It has more than 4300 digits."""
    own = {host: {**found, "rdma_want": {"min_rate_gbps": 16**5000}} for host, found in hostvars().items()}
    found = inventory_problems(own, GROUPS, ["a1"], True)
    assert found == [
        f"group {name}: rdma_want cannot be read: has a number of more than 4096 bits" for name in ("a", "b")
    ]


def test_ten_thousand_hosts_with_the_same_wishes_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    real = _inventory.problems
    monkeypatch.setattr(_inventory, "problems", lambda variable, value: calls.append(variable) or real(variable, value))
    hosts = [f"h{number}" for number in range(10000)]
    own = {"rdma_groups": ["g"], "rdma_resource": {"name": "x"}, "rdma_want": {"state": "any"}}
    assert inventory_problems({host: dict(own) for host in hosts}, {"g": hosts}, hosts, True) == []
    assert len(calls) < 50


def test_what_a_role_reads_once_is_one_for_all_hosts_of_the_run() -> None:
    floor = {"a": {"verify_min_gbps": 180}, "b": {"verify_min_gbps": 80, "report_generated": "today"}}
    (found,) = wrong(hosts=["a1", "b1"], **floor)
    assert found.startswith("verify_min_gbps differs between hosts a1 and b1: it is read once for all")
    # each group with a run of its own
    assert wrong(hosts=["a1", "a2"], **floor) == wrong(hosts=["b1"], **floor) == []
