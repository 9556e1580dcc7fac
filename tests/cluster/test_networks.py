# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every kind of secondary network, and HyperNodes, with the real definitions of their operators: strict dry run, what comes, stays, changes, goes.

Nobody serves these kinds here. Whether Pods reach each other is proved by test_pods_on_rails.py and on nodes of the lab.
"""

from __future__ import annotations

import copy
import time
import typing as t

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import SYSTEM_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import describe
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.systems import SystemRollout
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import request_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Request
from ansible_collections.fabric.rdma.tests.cluster import definitions
from ansible_collections.fabric.rdma.tests.unit.contracts import NOTHING_KNOWN
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import a_site
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.network_sites import (
    ADDRESSES,
    ONE,
    OPERATOR,
    infiniband,
    roce,
    sane,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.test_secondary_network import (
    HOSTDEV,
    IPOIB,
    MACVLAN,
    NO_SHARES,
    NV_PREFIX,
    SPIDER,
    SRIOV,
)

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

Json = dict[str, t.Any]
PLACE = "kube-system"
# API groups of the definitions that these kinds are of
GROUPS = (
    "k8s.cni.cncf.io",
    "mellanox.com",
    "nv-ipam.nvidia.com",
    "spiderpool.spidernet.io",
    "sriovnetwork.openshift.io",
    "topology.volcano.sh",
)
OTHER: Json = {"type": "whereabouts", "range": "10.30.0.0/16", "per_rail": 24}
VFS: Json = {"name": "vfs", "kind": "sriov", "sriov": {"vfs": 4}, "ipam": ONE}


def hypernodes(captures: tuple[str, ...]) -> Request:
    """With the other system's Pods and chart left out: these are their own tests' (test_all_systems.py)."""
    wish = {"groups": ["v100"], "stop_device_plugin": True, "hypernodes": True}
    site = a_site({"v100": ({"rdma_gpudirect": "none"}, list(captures)), "gb200": ({}, ["gb200-1"])})
    request = request_of("vgpu", wish, site, NOTHING_KNOWN)
    return {**request, "objects": [item for item in request["objects"] if item["kind"] == "HyperNode"]}


class Case(t.NamedTuple):
    """What is wished for first, then; the kinds that it takes."""

    first: t.Callable[[], Request]
    then: t.Callable[[], Request]
    kinds: set[str]


def on_roce(network: Json, change: Json, *kinds: str, **more: t.Any) -> Case:
    return Case(lambda: roce(network, **more), lambda: roce({**network, **change}, **more), {*kinds})


def on_infiniband(network: Json, change: Json, *kinds: str, **more: t.Any) -> Case:
    return Case(lambda: infiniband(network, **more), lambda: infiniband({**network, **change}, **more), {*kinds})


DEFINED = "NetworkAttachmentDefinition"
CASES = {
    "macvlan": on_roce(MACVLAN, {"mtu": 1500}, DEFINED),
    "macvlan by the operator": on_roce(
        {**MACVLAN, "operator": True}, {"mtu": 1500}, "MacvlanNetwork", wish={"rollout": OPERATOR}
    ),
    "macvlan with addresses of nv-ipam": on_roce(
        {**MACVLAN, "ipam": {**ADDRESSES, "type": "nv_ipam"}}, {"ipam": {**OTHER, "type": "nv_ipam"}}, DEFINED, "IPPool"
    ),
    "macvlan with addresses of Spiderpool": on_roce(
        {**MACVLAN, "ipam": {**ADDRESSES, "type": "spiderpool"}},
        {"ipam": {**OTHER, "type": "spiderpool"}},
        DEFINED,
        "SpiderIPPool",
    ),
    "ipoib": on_infiniband(IPOIB, {"ipam": {**ONE, "range": "10.30.0.0/24"}}, DEFINED),
    "ipoib by the operator": on_infiniband(
        {**IPOIB, "operator": True},
        {"ipam": {**ONE, "range": "10.30.0.0/24"}},
        "IPoIBNetwork",
        wish={"rollout": OPERATOR},
    ),
    "hostdevice with the plugin alone": on_roce(
        HOSTDEV, {"ipam": OTHER}, DEFINED, "ConfigMap", "DaemonSet", wishes=NO_SHARES
    ),
    "hostdevice by the operator": on_roce(
        {**HOSTDEV, "operator": True},
        {"ipam": OTHER},
        "HostDeviceNetwork",
        wishes=NV_PREFIX,
        wish={"rollout": {**OPERATOR, "sriov": ["roce"]}},
    ),
    "sriov by policies": on_roce(SRIOV, {"sriov": {"vfs": 4}}, DEFINED, "SriovNetworkNodePolicy"),
    "sriov by the operator": on_roce(
        {**SRIOV, "operator": True}, {"vlan": 7}, "SriovNetwork", "SriovNetworkNodePolicy"
    ),
    "sriov on InfiniBand by the operator": on_infiniband(
        {**VFS, "operator": True}, {"sriov": {"vfs": 2}}, "SriovIBNetwork", "SriovNetworkNodePolicy"
    ),
    "spiderpool": on_roce(
        SPIDER, {"ipam": {"range": "10.30.0.0/16", "per_rail": 24}}, "SpiderMultusConfig", "SpiderIPPool"
    ),
    "hypernodes": Case(
        lambda: hypernodes(("ib-v100-1",)), lambda: hypernodes(("ib-v100-1", "ib-v100-2")), {"HyperNode"}
    ),
}


@pytest.fixture(scope="module")
def defined(kube: Kube) -> t.Iterator[Kube]:
    """A cluster that has the definitions of the operators, until these tests end."""
    if not definitions.FOLDER.is_dir():
        pytest.skip(
            f"no definitions in {definitions.FOLDER}: the kinds of operators were not tried {definitions.ELSEWHERE}"
        )
    there = {item["metadata"]["name"] for item in kube.list(definitions.PLACE, "list")}
    wanted = {
        name: item for name, item in definitions.read().items() if item["spec"]["group"] in GROUPS and name not in there
    }
    for item in wanted.values():
        kube.apply(item, dry_run=False)
    end = time.monotonic() + limit(60)
    for name in wanted:
        while True:
            found = kube.find(f"{definitions.PLACE}/{name}", "read") or {}
            conditions = {each["type"]: each["status"] for each in (found.get("status") or {}).get("conditions") or ()}
            if conditions.get("Established") == "True":
                break
            assert time.monotonic() < end, name
            time.sleep(0.2)
    kube.forget_kinds()
    yield kube
    for name in wanted:
        kube.request("DELETE", f"{definitions.PLACE}/{name}", "delete")
    while {item["metadata"]["name"] for item in kube.list(definitions.PLACE, "list")} & set(wanted):
        assert time.monotonic() < end + limit(120)
        time.sleep(0.5)
    kube.forget_kinds()


@pytest.fixture
def place(defined: Kube, site: Site) -> t.Iterator[Kube]:
    """With the namespaces that objects of these kinds lie in, which go with the test."""
    have = {item["metadata"]["name"] for item in defined.list("/api/v1/namespaces", "list")}
    for name in {"nvidia-network-operator", "sriov-network-operator"} - have:
        defined.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": name}})
    yield defined
    # what a test that failed has left is not the next one's
    looked(defined, None).perform()


def looked(kube: Kube, request: Request | None) -> SystemRollout:
    """A rollout after its dry run, under strict validation; None removes the system."""
    kube.forget_kinds()
    rollout = SystemRollout(kube, "secondary_network", PLACE)
    rollout.look(copy.deepcopy(request["objects"]) if request else [])
    rollout.rehearse()
    return rollout


def there(kube: Kube, request: Request) -> dict[str, Json]:
    """Those of its objects that the cluster has."""
    found = {describe(item): kube.find(kube.path(item), "read") for item in request["objects"]}
    return {name: item for name, item in found.items() if item is not None}


def specs(items: t.Mapping[str, Json]) -> dict[str, t.Any]:
    return {name: item.get("spec") or item.get("data") for name, item in items.items()}


def has(kept: t.Any, wished: t.Any) -> bool:
    """Whether all that was wished for is there, whatever the server has added as a default."""
    if isinstance(wished, dict):
        return isinstance(kept, dict) and all(key in kept and has(kept[key], wished[key]) for key in wished)
    if isinstance(wished, list):
        return isinstance(kept, list) and len(kept) == len(wished) and all(map(has, kept, wished))
    return bool(kept == wished)


@pytest.mark.parametrize("name", CASES)
def test_a_kind_is_tried_comes_stays_changes_and_goes(place: Kube, name: str) -> None:
    first, then = sane(CASES[name].first()), sane(CASES[name].then())
    assert {item["kind"] for item in first["objects"]} >= CASES[name].kinds

    # the server has accepted all of it, and nothing is there
    rollout = looked(place, first)
    assert set(rollout.actions().values()) == {"created"}
    assert there(place, first) == {}
    rollout.perform()
    made = there(place, first)
    assert len(made) == len(first["objects"])
    for item in made.values():
        assert item["metadata"]["labels"][SYSTEM_LABEL] == "secondary-network"
    # all of what is wished for has been kept: no definition has dropped a field
    for item in first["objects"]:
        if item["kind"] in CASES[name].kinds - {"ConfigMap", "DaemonSet"}:
            assert has(made[describe(item)]["spec"], item["spec"]), describe(item)

    again = looked(place, first)
    assert (again.changed, again.diff()) == (False, [])

    changing = looked(place, then)
    assert "changed" in changing.actions().values()
    assert specs(there(place, first)) == specs(made)
    changing.perform()
    assert looked(place, then).changed is False
    changed = there(place, then)
    assert len(changed) == len(then["objects"])
    assert specs(changed) != specs(made)

    leaving = looked(place, None)
    assert set(leaving.actions().values()) == {"removed"}
    assert there(place, then) == changed
    leaving.perform()
    assert there(place, then) == {}
    assert looked(place, None).changed is False


@pytest.mark.parametrize("name", CASES)
def test_a_field_that_a_kind_does_not_have_is_refused_before_anything_comes(place: Kube, name: str) -> None:
    """So that a wish that an operator would pass over in silence is told."""
    request = copy.deepcopy(sane(CASES[name].first()))
    own = [item for item in request["objects"] if item["kind"] in CASES[name].kinds - {"ConfigMap", "DaemonSet"}]
    own[-1]["spec"]["noSuchField"] = "x"
    with pytest.raises(KubeError, match=r"Nothing was changed.*noSuchField"):
        looked(place, request)
    assert there(place, request) == {}
