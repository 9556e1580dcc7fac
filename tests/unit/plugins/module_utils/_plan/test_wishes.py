# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every wish that makes no sense is told, with the nearest that does; what has been taken so far still is."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.words import nearest, unknown_keys
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import (
    VARIABLES,
    problems,
    with_defaults,
)

ROOT = Path(__file__).resolve().parents[5]


@pytest.mark.parametrize(
    ("variable", "value", "wrong"),
    [
        ("rdma_want", {"stat": "x"}, "rdma_want has no key stat; it knows .*, state; did you mean state[?]"),
        ("rdma_want", {"state": None}, "rdma_want.state is None; expected one of Active, any"),
        ("rdma_want", {"exclude": "bond0"}, "rdma_want.exclude is 'bond0'; expected a list of strings"),
        ("rdma_resource", {"prefix": "kubernetes.io"}, ".* none that ends with kubernetes.io or starts with requests."),
        ("rdma_resource", {"prefix": "requests.example.com"}, ".* none that ends .*"),
        ("rdma_resource", {"prefix": "x" * 250}, ".*domain-like prefix.*"),
        ("rdma_resource", {"hca_max": 10**12}, "rdma_resource.hca_max is 10+; expected an integer from 0 to 10000: .*"),
        ("rdma_selector_strategy", "ifname", ".*; did you mean ifnames[?]"),
        ("rdma_rails", "rail", "rdma_rails is 'rail'; expected true, false, or a pattern .*"),
        ("rdma_ofed", {"method": "Doca"}, ".*; did you mean doca[?]"),
        (
            "rdma_ofed",
            {"override": ["disk_space", "kernel_header"]},
            "rdma_ofed.override has no reason kernel_header; known are unsupported_card, .*; did you mean kernel_headers[?]",
        ),
        (
            "rdma_rollout",
            {"engine": "network_operator", "ofed_driver": {"override": ["kernel_headers"]}},
            "rdma_rollout.ofed_driver.override has no reason kernel_headers; known are default_route, .*",
        ),
        (
            "rdma_rollout",
            {"engine": "network_operator", "ofed_driver": {"override": ["host_drivers"]}},
            ".*; did you mean host_driver[?]",
        ),
        ("rdma_ofed", {"override": "default_route"}, "rdma_ofed.override is 'default_route'; expected a list of names"),
        ("rdma_ofed", "inbox", "rdma_ofed is of type str; expected a dictionary"),
        ("rdma_memlock", {"soft": "8G"}, "rdma_memlock.soft is '8G'; expected a number of bytes, or unlimited"),
        ("rdma_memlock", {"enabled": "maybe"}, "rdma_memlock.enabled is 'maybe'; expected true or false"),
        ("rdma_gpudirect", "peer_mem", ".*; did you mean peermem[?]"),
        ("rdma_storage", {"nfs": "no"}, "rdma_storage.nfs is 'no'; expected true or false"),
        ("rdma_storage", {"path": "data"}, "rdma_storage.path is 'data'; expected an absolute path.*"),
        ("rdma_groups", "ib-a100", "rdma_groups is 'ib-a100'; expected a list of groups of the inventory.*"),
        ("rdma_groups", [], "rdma_groups is []; .*".replace("[]", r"\[\]")),
        (
            "rdma_hosts",
            ["ib-a100", 1],
            r"rdma_hosts is \['ib-a100', 1\]; expected a pattern of hosts, such as .*, or a list of them",
        ),
        ("rdma_hosts", " ", "rdma_hosts is ' '; .*"),
        ("rdma_serial", [1, "110%"], "rdma_serial is '110%'; expected a number of nodes above 0.*"),
        ("rdma_serial", [], ".*at least one wave"),
        (
            "rdma_serial",
            [1] * 9,
            r"rdma_serial is \[1, .*\]; expected at most 8 waves; the last is repeated.*",
        ),
        (
            "rdma_serial",
            ["100%", "1"],
            r"rdma_serial is \['100%', '1'\]; expected nothing after '100%', which is all nodes: put the smallest wave first",
        ),
        ("rdma_serial", [1, "100%", "100%"], "rdma_serial is .*; expected nothing after '100%'.*"),
        ("rdma_slices", 0.5, "rdma_slices is 0.5; expected true, false, or how many slices there are"),
        ("rdma_slices", -4, "rdma_slices is -4; .*"),
        ("rdma_max_unavailable", 0, "rdma_max_unavailable is 0; .*"),
        ("rdma_max_unavailable", True, "rdma_max_unavailable is True; .*"),
        ("rdma_max_unavailable", 1.5, "rdma_max_unavailable is 1.5; .*"),
        ("rdma_max_unavailable", "0%", "rdma_max_unavailable is '0%'; .*"),
        ("rdma_rollout", [], "rdma_rollout is .*; expected a dictionary"),
        ("rdma_rollout", {"engine": "daemon_set"}, "rdma_rollout.engine .*; did you mean daemonset[?]"),
        ("rdma_rollout", {"remove": "old"}, "rdma_rollout.remove is 'old'; expected a list of names"),
        ("rdma_rollout", {"timeout": -1}, "rdma_rollout.timeout is -1; .*"),
        ("rdma_rollout", {"sriov": ["a"]}, "rdma_rollout has no key sriov with engine: daemonset; it knows .*"),
        (
            "rdma_rollout",
            {"engine": "network_operator", "image": "x:1"},
            "rdma_rollout has no key image with engine: network_operator; it knows .*",
        ),
        (
            "rdma_rollout",
            {"engine": "network_operator", "helm": {"valeus": {}}},
            "rdma_rollout.helm has no key valeus; .*; did you mean values[?]",
        ),
    ],
)
def test_an_invalid_wish_is_reported(variable: str, value: t.Any, wrong: str) -> None:
    found = problems(variable, value)
    assert len(found) == 1, found
    assert re.fullmatch(wrong, found[0]), found


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("rdma_slices", True),
        ("rdma_slices", 4),
        ("rdma_slices", "4"),
        ("rdma_max_unavailable", "2"),
        ("rdma_max_unavailable", "100%"),
        ("rdma_serial", "1"),
        ("rdma_serial", [1, "10%", "100%"]),
        ("rdma_serial", [1] * 8),
        # as many nodes as there may be, but no percentage of them
        ("rdma_serial", [100, 1]),
        ("rdma_serial", "100%"),
        ("rdma_ofed", {"override": ["kernel_headers", "no_way_back"]}),
        ("rdma_allow_unusable", "yes"),
        ("rdma_memlock", {"handlers": ["all"], "soft": 8388608, "hard": "unlimited"}),
        ("rdma_storage", {"path": None}),
        ("rdma_ofed", {"method": "doca", "version": "2.9", "repository": None, "key": "x"}),
        ("rdma_rollout", {"kubeconfig": None, "timeout": "60", "max_unavailable": "10%"}),
        ("rdma_rollout", {"engine": "network_operator", "operator_version": "26.4.1", "ofed_driver": {}}),
        *((variable, None) for variable in VARIABLES),
    ],
)
def test_a_wish_that_makes_sense_is_taken(variable: str, value: t.Any) -> None:
    assert problems(variable, value) == []


def test_all_that_is_wrong_is_reported_at_once() -> None:
    found = problems("rdma_want", {"lnk": 1, "state": "up", "min_rate_gbps": "9"})
    assert [text.split(" ")[0] for text in found] == ["rdma_want", "rdma_want.state", "rdma_want.min_rate_gbps"]
    _checked, found = with_defaults({"want": {"lnk": 1}, "strategy": "x", "rails": 1})
    assert len(found) == 4, "a resource without a name, too"


def test_a_registry_has_no_password() -> None:
    """Names of images are shown everywhere."""
    wish = {"engine": "dra", "registry": "user:word@mirror.example.com"}
    assert problems("rdma_rollout", wish) == [
        "rdma_rollout.registry has a user or a password in it; take it out, and name pull secrets in image_pull_secrets"
    ]


def test_secrets_are_not_shown() -> None:
    for key in ("repository", "key"):
        assert problems("rdma_ofed", {key: ["https://user:secret@x"]}) == [
            f"rdma_ofed.{key} is of type list; expected a text"
        ]
    # the name of the key was forgotten
    for variable in ("rdma_ofed", "rdma_rollout"):
        assert "has no key https://x/doca;" in problems(variable, {"https://user:secret@x/doca": None})[0]
    helm = {"engine": "network_operator", "helm": {"values": "secret", "repository": 5}}
    assert "secret" not in " ".join(problems("rdma_rollout", helm))
    address = "https://user:secret@x"
    for variable, value in (
        ("rdma_ofed", f"doca {address}"),
        ("rdma_ofed", {"method": address}),
        ("rdma_ofed", {"iso": [address]}),
        ("rdma_rollout", address),
        ("rdma_rollout", {"engine": "network_operator", "helm": address}),
        ("rdma_rollout", {"engine": "network_operator", "ofed_driver": {"repository": [address]}}),
        ("rdma_rollout", {"engine": "network_operator", "registry": [address]}),
    ):
        found = problems(variable, value)
        assert found
        assert "secret" not in " ".join(found)


def test_what_is_long_is_cut() -> None:
    assert all(len(text) < 400 for text in problems("rdma_want", {"state": "x" * 10**6, "y" * 10**6: 1}))
    assert nearest("s" * 10**6, ["state"]) == ""
    assert len(str(unknown_keys("w", [str(number) for number in range(10**5)], ["a"]))) < 200


# --- secondary networks -----------------------------------------------------------------------------------------------


def a_network(**more: t.Any) -> list[dict[str, t.Any]]:
    return [{"name": "fabric", "kind": "macvlan", **more}]


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ({}, r"rdma_networks is {}; expected a list of networks, each with name and kind"),
        (["fabric"], r"rdma_networks\[0\] is of type str; expected a dictionary"),
        ([{"kind": "macvlan"}], r"rdma_networks\[0\] has no name"),
        ([{"name": "fabric"}], r"rdma_networks\[0\] has no kind"),
        (a_network(kind="mcvlan"), r"rdma_networks\[0\]\.kind is 'mcvlan'; .*; did you mean macvlan[?]"),
        (a_network(rail=True), r"rdma_networks\[0\] has no key rail; .*; did you mean rails[?]"),
        (a_network(rails="yes"), r"rdma_networks\[0\]\.rails is 'yes'; expected true or false"),
        (a_network(name="Fabric"), r"rdma_networks\[0\]\.name is 'Fabric'; expected a name of lower case letters.*"),
        (a_network(name="a" * 41), r"rdma_networks\[0\]\.name is 'a+'; .*at most 40.*"),
        (a_network(name="fabric-"), r"rdma_networks\[0\]\.name is 'fabric-'; .*"),
        (a_network(master="eth 1"), r"rdma_networks\[0\]\.master is 'eth 1'; expected the name of a netdev.*"),
        (a_network(master="a-name-of-16-chs"), r"rdma_networks\[0\]\.master is .*"),
        (a_network(master='eth1", "x'), r"rdma_networks\[0\]\.master is .*"),
        (a_network(master={}), r"rdma_networks\[0\]\.master is {}; expected netdevs by the number of their rail"),
        (a_network(master={"a": "eth1"}), r"rdma_networks\[0\]\.master has the key 'a'; expected numbers of rails.*"),
        (a_network(master={1: "eth/1"}), r"rdma_networks\[0\]\.master\.1 is 'eth/1'; .*"),
        (a_network(vlan=4095), r"rdma_networks\[0\]\.vlan is 4095; expected a VLAN from 1 to 4094"),
        (a_network(mtu=9000.5), r"rdma_networks\[0\]\.mtu is 9000\.5; .*"),
        (
            a_network(resource="hostdev"),
            r"rdma_networks\[0\]\.resource is 'hostdev'; expected a resource with its prefix.*",
        ),
        (
            a_network(ipam={"type": "nv-ipam"}),
            r"rdma_networks\[0\]\.ipam\.type is 'nv-ipam'; .*; did you mean nv_ipam[?]",
        ),
        (
            a_network(ipam={"range": []}),
            r"rdma_networks\[0\]\.ipam\.range is \[\]; expected a text, or a list of texts",
        ),
        (
            a_network(ipam={"exclude": "10.0.0.1"}),
            r"rdma_networks\[0\]\.ipam\.exclude is '10\.0\.0\.1'; expected a list of strings",
        ),
        (
            a_network(ipam={"per_rail": "/24"}),
            r"rdma_networks\[0\]\.ipam\.per_rail is '/24'; expected a prefix length, such as 26",
        ),
        (
            a_network(ipam={"per_rail": {"v4": 24}}),
            r"rdma_networks\[0\]\.ipam\.per_rail has no key v4; it knows ipv4, ipv6.*",
        ),
        (a_network(ipam={"pods_per_node": 0}), r"rdma_networks\[0\]\.ipam\.pods_per_node is 0; .*"),
        (
            a_network(ipam={"ranges": ["10.0.0.0/24"]}),
            r"rdma_networks\[0\]\.ipam\.ranges is .*; expected ranges by the number of their rail",
        ),
        (a_network() + a_network(), "rdma_networks names fabric twice"),
    ],
)
def test_a_network_that_makes_no_sense_is_reported(value: t.Any, wrong: str) -> None:
    found = problems("rdma_networks", value)
    assert len(found) == 1, found
    assert re.fullmatch(wrong, found[0]), found


@pytest.mark.parametrize(
    ("variable", "value", "wrong"),
    [
        ("rdma_multus", {"install": "yes"}, "rdma_multus.install is 'yes'; expected true or false"),
        ("rdma_multus", {"api_server": "10.0.0.1"}, "rdma_multus.api_server is '10.0.0.1'; expected HOST:PORT.*"),
        ("rdma_multus", {"api_server": "https://10.0.0.1:6443"}, "rdma_multus.api_server is .*"),
        (
            "rdma_multus",
            {"cni_conf_dir": "etc/cni"},
            "rdma_multus.cni_conf_dir is 'etc/cni'; expected an absolute path.*",
        ),
        ("rdma_multus", {"cni_bin_dir": "/opt/$(x)"}, "rdma_multus.cni_bin_dir is .*"),
        ("rdma_multus", {"version": 4.3}, "rdma_multus.version is the number 4.3; put it in quotes.*"),
        ("rdma_multus", {"reconcile": "0 0 * * *"}, "rdma_multus has no key reconcile; .*"),
        (
            "rdma_whereabouts",
            {"reconcile": "daily"},
            "rdma_whereabouts.reconcile is 'daily'; expected five fields of cron.*",
        ),
        ("rdma_spiderpool", {"instal": True}, "rdma_spiderpool has no key instal; .*; did you mean install[?]"),
        ("rdma_cluster_cidrs", {"pod": []}, "rdma_cluster_cidrs has no key pod; .*; did you mean pods[?]"),
        ("rdma_cluster_cidrs", {"pods": "10.244.0.0/16"}, "rdma_cluster_cidrs.pods is .*; expected a list of strings"),
    ],
)
def test_what_comes_to_the_cluster_with_networks_is_reported(variable: str, value: t.Any, wrong: str) -> None:
    found = problems(variable, value)
    assert len(found) == 1, found
    assert re.fullmatch(wrong, found[0]), found


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("rdma_networks", []),
        ("rdma_networks", a_network(namespace=None, vlan="100", master={1: "eth1", "2": "eth2.100"})),
        ("rdma_networks", a_network() + a_network(namespace="jobs")),
        (
            "rdma_networks",
            a_network(ipam={"range": ["10.0.0.0/16", "fd00::/48"], "per_rail": {"ipv4": 24, "ipv6": "64"}}),
        ),
        ("rdma_networks", a_network(ipam={"ranges": {"1": "10.0.0.0/24", 2: ["10.0.1.0/24"]}, "gateway": "first"})),
        ("rdma_networks", a_network(kind="hostdevice", resource="nvidia.com/hostdev_{rail}")),
        ("rdma_multus", {"api_server": "[fd00::1]:6443", "version": "4.2.4", "max_unavailable": "20%"}),
        ("rdma_whereabouts", {"reconcile": "*/15 0-6,22 * * 1-5"}),
        ("rdma_cluster_cidrs", {"pods": ["10.244.0.0/16", "fd00::/56"]}),
    ],
)
def test_networks_that_are_taken(variable: str, value: t.Any) -> None:
    assert problems(variable, value) == []


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "kind", "ipam", "master", "ranges", "sriov", "x"]) | st.integers(),
            each,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.sampled_from(["rdma_networks", "rdma_multus", "rdma_whereabouts", "rdma_spiderpool", "rdma_cluster_cidrs"]), _ANY
)
def test_anything_at_all_is_a_wish_or_told(variable: str, value: t.Any) -> None:
    assert all(text.startswith(variable) for text in problems(variable, value))
