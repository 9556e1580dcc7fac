# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who brings Multus, Whereabouts and Spiderpool: one of each, as far as wishes tell."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import SPIDERPOOL, SPIDERPOOL_CHARTS
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.secondary_network import request
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import a_site
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.network_sites import (
    IB,
    ONE,
    OPERATOR,
    asked,
    infiniband,
    networked,
    networked_site,
    of_kind,
    sane,
)

Json = dict[str, t.Any]
IPOIB: Json = {"name": "ib", "kind": "ipoib", "ipam": ONE}
NV_IPAM: Json = {**IPOIB, "ipam": {**ONE, "type": "nv_ipam"}}
OLD: Json = {**OPERATOR, "operator_version": "25.7.0"}
NEW: Json = {**OPERATOR, "operator_version": "25.10.0"}

REFUSED: dict[str, tuple[Json, Json, str]] = {
    "ours and the operator's Multus": (
        IPOIB,
        {"multus": {"install": True, "operator": True}, "rollout": OPERATOR},
        "rdma_multus.install and rdma_multus.operator (the NicClusterPolicy) bring one Multus each, and two in one cluster each treat "
        "the other as the Pod network: keep one",
    ),
    "ours and Spiderpool's Multus": (
        IPOIB,
        {"multus": {"install": True}, "spiderpool": {"install": True, "multus": True}},
        "rdma_multus.install and rdma_spiderpool.multus bring one Multus each",
    ),
    "the operator's Multus without the operator": (
        IPOIB,
        {"multus": {"install": False, "operator": True}},
        "rdma_multus.operator is for rdma_rollout.engine: network_operator; take install: true",
    ),
    "Whereabouts by the operator of 25.10": (
        IPOIB,
        {"whereabouts": {"install": False, "operator": True}, "rollout": NEW},
        "Network Operator 25.10.0 brings no Whereabouts (spec.secondaryNetwork of the NicClusterPolicy.ipamPlugin went with 25.10); take "
        "install: true, or ipam.type: nv_ipam",
    ),
    "Whereabouts that nobody brings since 25.10": (
        IPOIB,
        {"whereabouts": {}, "rollout": NEW},
        "set rdma_whereabouts.install: true, or false where somebody else brings it, or take ipam.type: nv_ipam",
    ),
    "two of Whereabouts": (
        IPOIB,
        {"whereabouts": {"install": True, "operator": True}, "rollout": OLD},
        "rdma_whereabouts.install and rdma_whereabouts.operator bring one Whereabouts each: keep one",
    ),
    "the operator's Whereabouts without the operator": (
        IPOIB,
        {"whereabouts": {"install": False, "operator": True}},
        "rdma_whereabouts.operator is for rdma_rollout.engine: network_operator",
    ),
    "an operator of no release": (
        IPOIB,
        {"rollout": {"engine": "network_operator"}},
        "rdma_rollout.operator_version is not set",
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_exactly_one_of_each_is_required(name: str) -> None:
    network, wish, message = REFUSED[name]
    found = infiniband(network, wish=wish)
    assert any(message in text for text in found["problems"]), found["problems"]
    assert found["objects"] == []


@pytest.mark.parametrize(
    ("network", "wish", "message"),
    [
        (
            IPOIB,
            {"multus": {}},
            "networks need Multus, and the inventory does not say who brings it: rdma_multus.install: true does",
        ),
        (IPOIB, {"whereabouts": {}}, "network ib needs Whereabouts, and the inventory does not say who brings it"),
        (NV_IPAM, {"multus": {"install": True}, "rollout": OPERATOR}, "leave multus out of spec.secondaryNetwork"),
        (
            NV_IPAM,
            {"multus": {"operator": True}, "rollout": OPERATOR},
            "spec.secondaryNetwork of the NicClusterPolicy has to have cniPlugins, ipoib, multus",
        ),
        (
            IPOIB,
            {"whereabouts": {"operator": True}, "rollout": OLD, "multus": {"install": True}},
            "leave multus out of",
        ),
    ],
)
def test_what_wishes_cannot_tell_is_warned_of(network: Json, wish: Json, message: str) -> None:
    found = sane(infiniband(network, wish=wish))
    assert any(message in text for text in found["warnings"]), found["warnings"]


def test_a_wish_that_says_who_brings_them_is_not_warned_of() -> None:
    for wish in ({"install": True}, {"install": False}):
        found = sane(infiniband(IPOIB, wish={"multus": wish, "whereabouts": wish}))
        assert not any("does not say who brings it" in text for text in found["warnings"])


def test_a_cluster_without_multus_is_refused_unless_somebody_brings_it() -> None:
    site = networked_site({"ib": networked(IB, NV_IPAM)})
    for multus in ({}, {"install": False}):
        (text,) = asked({"multus": multus}, site, ["apps"])["problems"]
        assert "the cluster serves no k8s.cni.cncf.io, which comes with it" in text
    sane(asked({"multus": {"install": True}}, site, ["apps"]))
    sane(asked({"multus": {"install": False}}, site, ["apps", "k8s.cni.cncf.io"]))


def test_a_cluster_without_whereabouts_is_refused_unless_somebody_brings_it() -> None:
    """No object of ours is of its kinds, so that nothing but the Pods would tell."""
    site = networked_site({"ib": networked(IB, IPOIB)})
    multus, served = {"install": False}, ["apps", "k8s.cni.cncf.io"]
    for whereabouts in ({}, {"install": False}):
        (text,) = asked({"multus": multus, "whereabouts": whereabouts}, site, served)["problems"]
        assert text == (
            "group ib: network ib needs Whereabouts, and the cluster serves no whereabouts.cni.cncf.io, which comes with it: set "
            "rdma_whereabouts.install: true, or install it by other means first"
        )
    sane(asked({"multus": multus, "whereabouts": {"install": True}}, site, served))
    sane(asked({"multus": multus, "whereabouts": {"install": False}}, site, [*served, "whereabouts.cni.cncf.io"]))
    # the operator brings it after this
    older = {"rollout": {**OPERATOR, "operator_version": "25.7.0"}, "whereabouts": {"operator": True}}
    sane(asked({"multus": multus, **older}, site, served))


def test_a_spiderpool_of_others_is_named_as_one_that_may_bring_a_multus() -> None:
    site = networked_site({"ib": networked(IB, NV_IPAM)})
    found = sane(asked({"multus": {"install": True}}, site, ["spiderpool.spidernet.io"]))
    assert any("the cluster has Spiderpool, whose chart brings a Multus" in text for text in found["warnings"])


def test_a_distribution_with_a_multus_of_its_own_is_named() -> None:
    site = a_site({"ib": networked(IB, IPOIB)})
    for facts in site["facts"].values():
        facts["runtime"]["distribution"] = "rke2"
    found = sane(asked({"multus": {"install": True}, "whereabouts": {"install": True}}, site))
    assert any(
        "rke2 can bring a Multus of its own (cni: multus in its configuration)" in text for text in found["warnings"]
    )


def test_nodes_of_two_distributions_are_a_problem_only_where_we_install() -> None:
    site = a_site({"ib": networked(IB, NV_IPAM)})
    site["facts"]["ib-a100-2"]["runtime"]["distribution"] = "k3s"
    assert any("one DaemonSet mounts one" in text for text in asked({"multus": {"install": True}}, site)["problems"])
    sane(asked({"multus": {"install": False}}, site))


def test_the_operators_chart_brings_the_definition_unless_it_is_wished() -> None:
    for wish, there in (({"install": True}, False), ({"install": True, "crd": True}, True)):
        found = sane(infiniband(NV_IPAM, wish={"multus": wish, "rollout": OPERATOR}))
        assert bool(of_kind(found, "CustomResourceDefinition")) == there
    found = sane(infiniband(NV_IPAM, wish={"multus": {"install": True}}))
    assert of_kind(found, "CustomResourceDefinition")


def test_what_is_installed_is_waited_for() -> None:
    found = sane(infiniband(IPOIB, wish={"multus": {"install": True}, "whereabouts": {"install": True}}))
    assert [(wait["kind"], wait["name"], wait["path"]) for wait in found["waits"]] == [
        ("DaemonSet", "kube-multus-ds", ""),
        ("DaemonSet", "whereabouts", ""),
        ("Deployment", "whereabouts-reconciler", ""),
    ]
    order = [item["kind"] for item in found["objects"]]
    assert order.index("DaemonSet") < order.index("NetworkAttachmentDefinition")


@pytest.mark.parametrize(
    ("there", "wished", "said"),
    [
        ("1.2.2", "1.2.2", None),
        ("1.2.1", "1.2.2", None),
        ("1.1.4", "1.2.2", "apply those of 1.2.2 first (helm show crds)"),
        ("1.2.2", "1.2.1", "Spiderpool 1.2.2 is installed and rdma_spiderpool.version is 1.2.1, which is older"),
        ("1.10.0", "1.2.2", "set 1.10.0 or newer"),
        ("1.3.0-rc1", "1.2.2", "which is not a complete release"),
    ],
)
def test_spiderpool_does_not_go_back(there: str, wished: str, said: str | None) -> None:
    network = {"name": "ib", "kind": "spiderpool", "ipam": {"range": "10.20.0.0/24"}}
    site = networked_site({"ib": networked(IB, network)})
    wish = {"multus": {"install": True}, "spiderpool": {"install": True, "version": wished}}
    installed = {"spiderpool": {"chart": "spiderpool", "version": there, "namespace": "spiderpool", "values": {}}}
    before, found = asked(wish, site), request(wish, site, installed=installed)
    more = [text for text in found["problems"] + found["warnings"] if text not in before["warnings"]]
    assert len(more) == bool(said)
    assert said is None or said in more[0]
    assert bool(found["problems"]) is bool(said and "helm show" not in said)
    # it is not asked for
    assert request({"multus": {"install": True}}, site, installed=installed)["problems"] == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"multus": {"multusCNI": {"install": True}}}, "multus.multusCNI.install: set rdma_spiderpool.multus instead"),
        ({"rdma": {"rdmaSharedDevicePlugin": {"install": True}}}, "the plan's device plugin offers the same ports"),
        ({"global": {"cniBinHostPath": "/opt/cni/bin"}}, "global.cniBinHostPath: set rdma_multus.cni_bin_dir instead"),
        ({"multus": {"multusCNI": {"log": {"logLevel": "info"}}}, "rdma": None, "global": {"x": 1}}, None),
    ],
)
def test_values_of_spiderpool_go_round_no_wish(values: Json, said: str | None) -> None:
    network = {"name": "ib", "kind": "spiderpool", "ipam": {"range": "10.20.0.0/24"}}
    site = networked_site({"ib": networked(IB, network)})
    found = asked({"multus": {"install": True}, "spiderpool": {"install": True, "values": values}}, site)["problems"]
    assert len(found) == bool(said)
    assert said is None or said in found[0]


def test_spiderpool_takes_nothing_of_others_along_when_it_is_uninstalled() -> None:
    """Its hook would delete the pools, endpoints and definitions of everybody, and those of the SR-IOV operator."""
    network = {"name": "ib", "kind": "spiderpool", "ipam": {"range": "10.20.0.0/24"}}
    site = networked_site({"ib": networked(IB, network)})
    for own in ({}, {"values": {"spiderpoolController": {"replicas": 2}}}):
        (chart,) = sane(asked({"multus": {"install": True}, "spiderpool": {"install": True, **own}}, site))["charts"]
        assert chart["values"]["spiderpoolController"]["cleanup"] == {"enable": False}


def test_spiderpool_comes_without_a_multus_and_a_device_plugin_of_its_own() -> None:
    network = {"name": "ib", "kind": "spiderpool", "ipam": {"range": "10.20.0.0/24"}}
    site = networked_site({"ib": networked(IB, network)}, registry="mirror.example.com", pull_secrets=["pull"])
    wish = {
        "multus": {"install": True},
        "spiderpool": {"install": True, "inject": True, "values": {"global": {"x": 1}}},
    }
    (chart,) = sane(asked(wish, site))["charts"]
    assert (chart["repository"], chart["chart"], chart["version"]) == (SPIDERPOOL_CHARTS, "spiderpool", SPIDERPOOL)
    assert chart["values"]["multus"] == {"multusCNI": {"install": False}}
    assert chart["values"]["rdma"] == {"rdmaSharedDevicePlugin": {"install": False}}
    assert chart["values"]["spiderpoolController"]["podResourceInject"] == {"enabled": True}
    assert chart["values"]["global"]["imageRegistryOverride"] == "mirror.example.com"
    assert chart["values"]["global"]["x"] == 1
    assert chart["values"]["spiderpoolAgent"]["image"]["imagePullSecrets"] == ["pull"]
    # Helm's word for what is to be as if the chart had it not
    nothing = {"spiderpoolAgent": None, "plugins": {"image": None}}
    (chart,) = sane(asked({**wish, "spiderpool": {"install": True, "values": nothing}}, site))["charts"]
    assert {key: chart["values"][key] for key in nothing} == nothing
    assert chart["values"]["spiderpoolInit"]["image"]["imagePullSecrets"] == ["pull"]
    other = sane(asked({**wish, "spiderpool": {"install": True, "version": "1.1.2"}}, site))
    assert any("images of Spiderpool 1.1.2 are not known here" in text for text in other["warnings"])
