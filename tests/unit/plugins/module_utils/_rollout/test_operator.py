# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import LINES
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import CLASS_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import ManifestError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.operator import (
    driver_objections,
    helm_values,
    operator_manifests,
    operator_release,
    operator_request,
    policy_kind,
    policy_name,
    reload_objections,
)
from ansible_collections.fabric.rdma.tests.unit.contracts import a_class, a_group, a_plan

VERSIONS = [f"{in_dots(line)}.0" for line in LINES]
NEW = ["26.4.0", "26.7.0"]
OLD = [version for version in VERSIONS if version not in NEW]
# releases whose images are still elsewhere
EARLY = ("24.10.0", "25.1.0", "25.4.0")


def pool(name: str, count: int = 63, **selectors: list[str]) -> dict[str, Any]:
    return {"resourceName": name, "resourcePrefix": "rdma", "rdmaHcaMax": count, "selectors": selectors}


def entry(name: str, resource: str, *hosts: str, **selectors: list[str]) -> dict[str, Any]:
    sriov = {
        "resourceName": resource,
        "resourcePrefix": "rdma",
        "deviceType": "netDevice",
        "selectors": {"isRdma": True},
    }
    match = {"device": "mlx5_0", "pci": "0000:3b:00.0", "if_name": "ib0", "ports": [1]}
    return a_class(
        name,
        *hosts,
        config={"periodicUpdateInterval": 300, "configList": [pool(resource, **selectors)]},
        matches={host: [match] for host in hosts},
        sriov={"config": {"resourceList": [sriov]}, "versions": "3.5.1 or newer", "reason": None},
    )


def plan(**groups: list[dict[str, Any]]) -> dict[str, Any]:
    pools = {
        each["resourceName"]: each for rows in groups.values() for row in rows for each in row["config"]["configList"]
    }
    config = {"periodicUpdateInterval": 300, "configList": list(pools.values())}
    cluster = {"config": config, "selectors": {}, "hosts": 4, "errors": [], "alternative": None}
    return a_plan({"cluster": cluster}, **{name: a_group(*classes) for name, classes in groups.items()})


def without_prefix(config: dict[str, Any]) -> dict[str, Any]:
    """The prefix is the plugin's default, which the operator's webhook refuses where it is said."""
    rows = [{key: value for key, value in row.items() if key != "resourcePrefix"} for row in config["configList"]]
    return {**config, "configList": rows}


PLAN = plan(
    a100=[
        entry("a100-ib0", "rdma_a100", "a1", "a2", ifNames=["ib0"]),
        entry("a100-ib1", "rdma_a100", "a3", ifNames=["ib1"]),
    ],
    v100=[entry("v100-vendor-15b3", "rdma_v100", "v1", vendors=["15b3"])],
)
TOLERATIONS = [{"operator": "Exists"}]


def only(objects: dict[str, Any]) -> dict[str, Any]:
    ((_path, item),) = list(objects.items())
    assert isinstance(item, dict)
    return item


# --- releases -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "operator_version is not set"),
        (24.1, "is not a complete release: name one, such as"),
        ("26.4", "is not a complete release: name one, such as"),
        ("latest", "is not a complete release: name one, such as"),
        (
            "24.7.0",
            "24.7.0 is too old: choose a release of one of the lines 24.10, 25.1, 25.4, 25.7, 25.10, 26.1, 26.4, 26.7",
        ),
        ("27.1.0", "27.1.0 is not known here: choose a release of one of the lines"),
        ("25.2.0", "25.2.0 is not known here"),
    ],
)
def test_releases_that_there_are_not(version: Any, message: str) -> None:
    with pytest.raises(ManifestError, match=rf"{re.escape(message)}.*; engine: daemonset needs no operator$"):
        operator_release(version)


def test_a_release_may_have_its_v() -> None:
    assert operator_release("v26.4.1") == operator_release("26.4.1") == ("26.4.1", (26, 4), 1)


def test_nodes_get_policies_of_their_own_where_the_release_has_them() -> None:
    for version in VERSIONS:
        release = operator_release(version)
        able = version in NEW
        assert policy_kind(release, "auto") == ("NicNodePolicy" if able else "NicClusterPolicy")
        assert policy_kind(release, "cluster") == "NicClusterPolicy"
        if able:
            assert policy_kind(release, "node") == "NicNodePolicy"
        else:
            with pytest.raises(ManifestError, match=r"has no NicNodePolicy, which came with 26\.4"):
                policy_kind(release, "node")
    with pytest.raises(ManifestError, match="expected auto, cluster or node"):
        policy_kind(operator_release("26.4.0"), "both")


@given(
    st.lists(st.from_regex(r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?", fullmatch=True), unique=True, min_size=2, max_size=6)
)
def test_names_of_policies_are_short_and_stay_apart(slugs: list[str]) -> None:
    names = [policy_name(slug) for slug in slugs]
    assert all(len(name) <= 30 and re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name) for name in names)
    assert len(set(names)) == len(slugs)
    assert all(name == slug for name, slug in zip(names, slugs, strict=True) if len(slug) <= 30)


# --- objects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", OLD)
def test_older_operators_get_one_policy_for_the_cluster(version: str) -> None:
    item = only(operator_manifests(PLAN, {"version": version, "tolerations": TOLERATIONS}))
    assert (item["kind"], item["metadata"]["name"]) == ("NicClusterPolicy", "nic-cluster-policy")
    spec = item["spec"]
    assert set(spec) == {"tolerations", "nodeAffinity", "rdmaSharedDevicePlugin"}, "and nothing that is another's"
    (term,) = spec["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": CLASS_LABEL, "operator": "In", "values": ["a100-ib0", "a100-ib1", "v100-vendor-15b3"]}
    ]
    plugin = spec["rdmaSharedDevicePlugin"]
    assert json.loads(plugin["config"]) == without_prefix(PLAN["cluster"]["config"])
    if version in EARLY:
        assert plugin["repository"] == "ghcr.io/mellanox"
        assert plugin["version"].startswith("v1.5.")
    else:
        assert (plugin["repository"], plugin["version"]) == ("nvcr.io/nvidia/mellanox", f"network-operator-v{version}")
    assert item["metadata"]["annotations"] == {
        "rdma.fabric/groups": "a100-ib0=a100,a100-ib1=a100,v100-vendor-15b3=v100",
        "rdma.fabric/inventory": "default",
    }
    assert "labels" not in item["metadata"], "the object is not ours as a whole"


@pytest.mark.parametrize("version", NEW)
def test_newer_operators_get_a_policy_for_each_class(version: str) -> None:
    objects = operator_manifests(PLAN, {"version": version, "tolerations": TOLERATIONS})
    assert list(objects) == [
        "a100/a100-ib0-nicnodepolicy.yaml",
        "a100/a100-ib1-nicnodepolicy.yaml",
        "v100/v100-vendor-15b3-nicnodepolicy.yaml",
    ]
    for item, name in zip(objects.values(), ("a100-ib0", "a100-ib1", "v100-vendor-15b3"), strict=True):
        assert (item["kind"], item["metadata"]["name"]) == ("NicNodePolicy", name)
        assert item["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "fabric.rdma"
        assert item["spec"]["nodeSelector"] == {CLASS_LABEL: name}
        assert set(item["spec"]) == {"nodeSelector", "tolerations", "rdmaSharedDevicePlugin"}
        assert item["spec"]["rdmaSharedDevicePlugin"]["version"] == f"network-operator-v{version}"


def test_an_apostrophe_does_not_end_the_configuration() -> None:
    value = plan(g=[entry("g", "x", "n", ifNames=["o'ib"])])
    text = only(operator_manifests(value, {"version": "26.4.0"}))["spec"]["rdmaSharedDevicePlugin"]["config"]
    assert "'" not in text
    assert json.loads(text)["configList"][0]["selectors"] == {"ifNames": ["o'ib"]}


def test_a_mirror_and_its_secrets_are_said_where_the_release_reads_them() -> None:
    settings = {"registry": "mirror.example:5000/nv", "image_pull_secrets": ["pull"], "policy": "cluster"}
    old = only(operator_manifests(PLAN, {"version": "26.1.0", **settings}))["spec"]
    assert "global" not in old
    assert old["rdmaSharedDevicePlugin"]["repository"] == "mirror.example:5000/nv"
    assert old["rdmaSharedDevicePlugin"]["imagePullSecrets"] == ["pull"]
    new = only(operator_manifests(PLAN, {"version": "26.4.0", **settings}))["spec"]
    assert new["global"] == {"repository": "mirror.example:5000/nv", "imagePullSecrets": ["pull"]}
    assert not {"repository", "imagePullSecrets"} & set(new["rdmaSharedDevicePlugin"])
    # spec.global of the cluster policy does not reach node policies
    for item in operator_manifests(PLAN, {"version": "26.4.0", **settings, "policy": "node"}).values():
        assert item["spec"]["rdmaSharedDevicePlugin"]["repository"] == "mirror.example:5000/nv"
        assert item["spec"]["rdmaSharedDevicePlugin"]["imagePullSecrets"] == ["pull"]
    with pytest.raises(ManifestError, match=r"rdma_rollout\.registry is 'https://mirror'"):
        operator_manifests(PLAN, {"version": "26.4.0", "registry": "https://mirror"})


def test_settings_of_the_plugin_reach_each_policy() -> None:
    resources = {"limits": {"memory": "128Mi"}}
    settings = {"version": "26.4.0", "cdi": True, "resources": resources}
    for item in operator_manifests(PLAN, settings).values():
        plugin = item["spec"]["rdmaSharedDevicePlugin"]
        assert plugin["useCdi"] is True
        assert plugin["containerResources"] == [{"name": "rdma-shared-dp", **resources}]
        assert "tolerations" not in item["spec"]


@pytest.mark.parametrize(
    ("version", "remedy"), [("26.1.0", "Network Operator 26.4 or later"), ("26.4.0", "policy: node")]
)
def test_a_configuration_that_is_not_exact_is_refused_with_the_counter_example(version: str, remedy: str) -> None:
    value = {**PLAN, "cluster": {"config": None, "errors": ["mlx5_2 of host a1 cannot be told from mlx5_0 of v1"]}}
    with pytest.raises(ManifestError) as caught:
        operator_manifests(value, {"version": version, "policy": "cluster"})
    assert "mlx5_2 of host a1 cannot be told from mlx5_0 of v1" in str(caught.value)
    assert remedy in str(caught.value)
    assert "engine: daemonset" in str(caught.value)


def test_a_group_that_stays_as_it_is() -> None:
    value = {
        **PLAN,
        "groups": {**PLAN["groups"], "v100": {**PLAN["groups"]["v100"], "errors": ["v2 has no usable port"]}},
    }
    # with node policies the others go on
    request = operator_request(value, {"version": "26.4.0"}, ["a100", "v100", "all"])
    assert (request["keep"], {each["group"] for each in request["classes"]}) == (["all", "v100"], {"a100"})
    # one configuration for all cannot
    with pytest.raises(ManifestError, match=r"group v100 is not planned \(v2 has no usable port\)"):
        operator_request(value, {"version": "26.1.0"})
    assert len(operator_request(value, {"version": "26.1.0"}, allow_unusable=True)["classes"]) == 3
    # nobody knows what hosts have whose facts cannot be used
    wrong = "host v3: its facts cannot be used (devices is 3; expected a list)"
    value["groups"]["v100"].update(malformed={"v3": wrong}, errors=[wrong, "v2 has no usable port"])
    assert operator_request(value, {"version": "26.4.0"}, allow_unusable=True)["keep"] == ["v100"]
    with pytest.raises(ManifestError, match=r"group v100 is not planned \(host v3: its facts cannot be used"):
        operator_request(value, {"version": "26.1.0"}, allow_unusable=True)


def test_where_the_kubelet_is_elsewhere() -> None:
    for policy in ("node", "cluster"):
        with pytest.raises(ManifestError, match=r"host a3 of class 'a100-ib1' runs k0s.*Use engine: daemonset"):
            operator_manifests(
                PLAN, {"version": "26.4.0", "policy": policy, "distributions": {"a3": "k0s", "a1": "k3s"}}
            )


def test_a_request_names_nodes_resources_and_the_policy_of_each_class() -> None:
    request = operator_request(PLAN, {"version": "26.4.0", "node_names": {"v1": "node-9"}})
    assert request["nodes"] == {"a1": "a100-ib0", "a2": "a100-ib0", "a3": "a100-ib1", "node-9": "v100-vendor-15b3"}
    assert request["classes"][0] == {
        "name": "a100-ib0",
        "group": "a100",
        "policy": {"kind": "NicNodePolicy", "name": "a100-ib0", "section": "rdmaSharedDevicePlugin", "nodes": 2},
        "nodes": ["a1", "a2"],
        "resources": {"rdma/rdma_a100": 63},
        "node_resources": {},
    }
    one = operator_request(PLAN, {"version": "25.10.0"})
    assert {each["policy"]["nodes"] for each in one["classes"]} == {4}, "its DaemonSet runs on the nodes of all classes"
    free = operator_request(PLAN, {"version": "25.10.0", "node_affinity": False})
    assert "nodeAffinity" not in free["objects"][0]["spec"]
    assert {each["policy"]["nodes"] for each in free["classes"]} == {None}


# --- SR-IOV ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("namespace", "wish", "opened"),
    [
        ("kube-system", None, False),
        ("kube-system", "auto", False),
        ("kube-system", True, True),
        ("nvidia-network-operator", "auto", True),
        ("nvidia-network-operator", False, False),
    ],
)
def test_labels_of_kube_system_are_set_only_for_who_asks(namespace: str, wish: Any, opened: bool) -> None:
    request = operator_request(PLAN, {"version": "26.4.0", "namespace": namespace, "pod_security": wish})
    assert (request["namespace"] is not None) is opened
    assert request["place"] == namespace


def test_a_class_has_one_of_the_two_plugins() -> None:
    request = operator_request(PLAN, {"version": "26.4.1", "sriov": ["v100"], "node_names": {"v1": "node-9"}})
    by_name = {item["metadata"]["name"]: item["spec"] for item in request["objects"]}
    spec = by_name["v100-vendor-15b3"]
    assert "rdmaSharedDevicePlugin" not in spec, "one of the two has a function, not both"
    assert spec["sriovDevicePlugin"]["image"] == "sriov-network-device-plugin"
    assert json.loads(spec["sriovDevicePlugin"]["config"])["resourceList"][0]["resourceName"] == "rdma_v100"
    assert "sriovDevicePlugin" not in by_name["a100-ib0"]
    entries = {each["name"]: each for each in request["classes"]}
    assert entries["v100-vendor-15b3"]["node_resources"] == {"node-9": {"rdma/rdma_v100": 1}}
    assert entries["v100-vendor-15b3"]["policy"]["section"] == "sriovDevicePlugin"


def test_where_there_is_none_for_functions() -> None:
    with pytest.raises(ManifestError, match=r"rdma_rollout\.sriov: .* needs NicNodePolicies"):
        operator_manifests(PLAN, {"version": "25.10.0", "sriov": ["v100"]})
    with pytest.raises(ManifestError, match=r"rdma_rollout\.sriov names x100"):
        operator_manifests(PLAN, {"version": "26.4.0", "sriov": ["x100"]})
    older = {"config": {"resourceList": []}, "versions": "3.5.1 to 3.7.0", "reason": None}
    with pytest.raises(ManifestError, match=r"class 'g': its .* is exact for versions 3\.5\.1 to 3\.7\.0 only"):
        operator_manifests(plan(g=[{**entry("g", "x", "n"), "sriov": older}]), {"version": "26.4.0", "sriov": ["g"]})
    none = {"config": None, "versions": None, "reason": "it has 8 virtual functions"}
    value = plan(g=[{**entry("g", "x", "n"), "sriov": none}])
    with pytest.raises(
        ManifestError, match="class 'g' has no configuration of the SR-IOV device plugin: it has 8 virtual"
    ):
        operator_manifests(value, {"version": "26.4.0", "sriov": ["g"]})


# --- the driver -----------------------------------------------------------------------------------------------------

QUIET = {
    "management": {"default_route_netdevs": ["eno1"], "rdma_backed": False, "mounts_over_rdma": []},
    "ofed": {"flavour": "inbox"},
}
HOSTS = ("a1", "a2", "a3", "v1")
READY = {"facts": dict.fromkeys(HOSTS, QUIET), "ofed_methods": dict.fromkeys(HOSTS, "none")}


def test_no_driver_unless_asked_for() -> None:
    for version in VERSIONS:
        for item in operator_manifests(PLAN, {"version": version, **READY, "ofed_driver": {}}).values():
            assert "ofedDriver" not in item["spec"]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version != "26.7.0"])
def test_the_driver_of_the_operator_is_careful(version: str) -> None:
    wish = {"env": {"CREATE_IFNAMES_UDEV": True}, "force_precompiled": "no"}
    for item in operator_manifests(PLAN, {"version": version, **READY, "ofed_driver": wish}).values():
        driver = item["spec"]["ofedDriver"]
        assert driver["repository"] == "nvcr.io/nvidia/mellanox"
        assert version.partition(".")[0] in driver["version"]
        assert driver["env"] == [{"name": "CREATE_IFNAMES_UDEV", "value": "true"}]
        assert driver["forcePrecompiled"] is False
        policy = driver["upgradePolicy"]
        assert (policy["autoUpgrade"], policy["maxParallelUpgrades"], policy["safeLoad"]) == (False, 1, False)
        assert (policy["drain"]["force"], policy["drain"]["deleteEmptyDir"]) == (False, False)
        assert policy["drain"]["timeoutSeconds"] == 300


def test_a_driver_whose_version_nobody_knows() -> None:
    with pytest.raises(ManifestError, match=r"ofed_driver.version is not set.*Network Operator 26\.7\.0"):
        operator_manifests(PLAN, {"version": "26.7.0", **READY, "ofed_driver": {"upgrade_policy": {}}})
    wish = {"version": "doca3.5.0-26.07-1", "groups": ["v100"]}
    objects = operator_manifests(PLAN, {"version": "26.7.0", **READY, "ofed_driver": wish})
    assert [path for path, item in objects.items() if "ofedDriver" in item["spec"]] == [
        "v100/v100-vendor-15b3-nicnodepolicy.yaml"
    ]
    with pytest.raises(ManifestError, match="leaves out a100"):
        operator_manifests(PLAN, {"version": "26.7.0", **READY, "ofed_driver": wish, "policy": "cluster"})


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"versoin": "x"}, "ofed_driver has no key versoin"),
        ({"upgrade_policy": {"max_parallel_upgrades": 0}}, "all nodes at once"),
        ({"upgrade_policy": {"max_parallel_upgrades": True}}, "expected 1 or more"),
        ({"upgrade_policy": {"safe_load": True}}, "safe_load needs auto_upgrade"),
        ({"upgrade_policy": {"auto_upgrade": "yes"}}, "expected true or false"),
        ({"upgrade_policy": {"drain": {"timeout_seconds": "soon"}}}, "expected a number of seconds"),
        ({"upgrade_policy": {"wait_for_completion": ["app=x"]}}, "expected a dictionary"),
        ({"upgrade_policy": {"drain": {"froce": True}}}, "has no key froce"),
        ({"override": ["everything"]}, "override has no reason everything; known are default_route"),
        ({"override": "default_route"}, "expected a list of names"),
        ({"groups": ["x100"]}, "ofed_driver.groups names x100"),
        ({"env": {"UNLOAD_STORAGE_MODULES": "true"}}, "dangerous_env: UNLOAD_STORAGE_MODULES"),
    ],
)
def test_wishes_of_a_driver_that_are_refused(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match=re.escape(message)):
        operator_manifests(PLAN, {"version": "26.4.1", **READY, "ofed_driver": wish})


def test_what_is_named_is_done() -> None:
    # numbers of the command line are texts
    drain = {"force": True, "delete_empty_dir": True, "timeout_seconds": "60", "pod_selector": None}
    completion = {"pod_selector": "app=train", "timeout_seconds": 0}
    careful = {"auto_upgrade": True, "safe_load": True, "max_parallel_upgrades": "2"}
    wish = {"upgrade_policy": {**careful, "drain": drain, "wait_for_completion": completion}}
    for item in operator_manifests(PLAN, {"version": "26.4.1", **READY, "ofed_driver": wish}).values():
        policy = item["spec"]["ofedDriver"]["upgradePolicy"]
        assert policy == {
            "autoUpgrade": True,
            "safeLoad": True,
            "maxParallelUpgrades": 2,
            "drain": {"enable": True, "force": True, "deleteEmptyDir": True, "timeoutSeconds": 60},
            "waitForCompletion": {"podSelector": "app=train", "timeoutSeconds": 0},
        }


MOUNT = {"source": "srv:/data", "target": "/data", "via": "nfs-rdma"}


@pytest.mark.parametrize(
    ("reason", "facts", "method", "text"),
    [
        (
            "default_route",
            {"management": {**QUIET["management"], "rdma_backed": True}},
            "none",
            "route of host n (eno1)",
        ),
        (
            "rdma_storage",
            {"management": {**QUIET["management"], "mounts_over_rdma": [MOUNT]}},
            "none",
            "srv:/data on /data",
        ),
        ("installed_stack", {"ofed": {"flavour": "mlnx_ofed"}}, "none", "host n has MLNX_OFED installed"),
        ("installed_stack", {"ofed": {"flavour": "doca"}}, "none", "host n has DOCA-OFED installed"),
        ("host_driver", {}, "inbox", "rdma_ofed.method of host n (group g) is inbox"),
    ],
)
def test_a_host_that_rules_out_a_driver_is_named_unless_overridden(
    reason: str, facts: dict[str, Any], method: str, text: str
) -> None:
    known, methods = {"n": {**QUIET, **facts}}, {"n": method}
    (found,) = driver_objections({"g": ["n"]}, known, methods, {})
    assert found.startswith(reason + ": ")
    assert text in found
    assert driver_objections({"g": ["n"]}, known, methods, {"override": [reason]}) == []
    others = [name for name in ("default_route", "rdma_storage", "installed_stack", "host_driver") if name != reason]
    assert driver_objections({"g": ["n"]}, known, methods, {"override": others}) == [found]


def test_a_host_of_which_nothing_is_known() -> None:
    with pytest.raises(ManifestError, match="nothing is known of the routes and mounts of host n: run discover"):
        driver_objections({"g": ["n"]}, {"n": {"devices": []}}, {"n": "none"}, {})
    # a host that nobody has asked about its method has the role's default
    assert driver_objections({"g": ["n"]}, {"n": QUIET}, {}, {})[0].startswith("host_driver: ")


def test_what_a_reload_would_cut_is_told_of_each_node_also_where_the_driver_leaves() -> None:
    """As where it comes, by the names that nodes have in the cluster. A host of which nothing is known is left out."""
    routed = {"management": {**QUIET["management"], "rdma_backed": True, "mounts_over_rdma": [MOUNT]}}
    settings: dict[str, Any] = {"facts": {"n": routed, "quiet": QUIET, "new": {}}, "node_names": {"n": "node-n"}}
    both = driver_objections({"g": ["n"]}, {"n": routed}, {"n": "none"}, {})
    assert reload_objections(settings) == {"node-n": both, "quiet": []}
    settings["ofed_driver"] = {"enabled": False, "override": ["default_route", "removal"]}
    assert reload_objections(settings) == {"node-n": both[1:], "quiet": []}


def test_a_driver_that_is_not_enabled_does_not_come() -> None:
    without = {"version": "26.4.1", **READY}
    wanted = {**without, "ofed_driver": {"enabled": False, "override": ["removal"]}}
    assert operator_manifests(PLAN, wanted) == operator_manifests(PLAN, without)
    requests = [operator_request(PLAN, settings) for settings in (wanted, without)]
    assert [each["reload_undrained"] for each in requests] == [True, False]


# --- the chart ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_values_of_the_chart_are_the_users_over_ours(version: str) -> None:
    assert helm_values({"version": version}) == {
        "nfd": {"enabled": True, "deployNodeFeatureRules": True},
        "upgradeCRDs": True,
    }
    mirrored = helm_values(
        {
            "version": version,
            "registry": "mirror.example/nv",
            "image_pull_secrets": ["pull"],
            "helm": {
                "upgrade_crds": False,
                "values": {"operator": {"tolerations": TOLERATIONS}, "nfd": {"enabled": True}},
            },
        }
    )
    assert mirrored["operator"]["repository"] == "mirror.example/nv"
    assert mirrored["operator"]["tolerations"] == TOLERATIONS
    assert mirrored["imagePullSecrets"] == ["pull"]
    assert mirrored["upgradeCRDs"] is False
    assert mirrored["node-feature-discovery"]["imagePullSecrets"] == [{"name": "pull"}]
    assert ("image" in mirrored["node-feature-discovery"]) is (version not in EARLY)
    other = helm_values({"version": version, "registry": "mirror.example/nv", "helm": {"nfd": False}})
    assert other["nfd"] == {"enabled": False, "deployNodeFeatureRules": True}
    # as Ansible takes them
    words = helm_values({"version": version, "helm": {"nfd": "no", "upgrade_crds": "false"}})
    assert (words["nfd"]["enabled"], words["upgradeCRDs"]) == (False, False)
    assert helm_values({"version": version, "helm": {"nfd": "yes"}})["nfd"]["enabled"] is True
    assert "node-feature-discovery" not in other


@pytest.mark.parametrize(
    ("version", "values", "message"),
    [
        ("26.4.1", {"nfdd": {}}, "(chart of Network Operator 26.4.1) has no key nfdd"),
        ("26.4.1", {"keepNCP": True}, "has no key keepNCP"),
        ("26.4.1", {"nicConfigurationOperator": {}}, "has no key nicConfigurationOperator"),
        ("24.10.1", {"maintenanceOperator": {}}, "has no key maintenanceOperator"),
        ("26.4.1", {"operator": {"replicas": 2}}, "operator (chart of Network Operator 26.4.1) has no key replicas"),
        ("25.4.0", {"operator": {"cniNetworkDirectory": "/x"}}, "has no key cniNetworkDirectory"),
        ("26.4.1", {"upgradeCRDs": "false"}, "expected true or false"),
        ("26.4.1", {"imagePullSecrets": [{"name": "x"}]}, "expected a list of names"),
        ("26.4.1", {"sriov-network-operator": []}, "expected a dictionary"),
    ],
)
def test_values_that_the_chart_does_not_know(version: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match=re.escape(message)):
        helm_values({"version": version, "helm": {"values": values}})


def test_a_value_that_a_newer_chart_knows() -> None:
    assert helm_values({"version": "26.7.1", "helm": {"values": {"keepNCP": False}}})["keepNCP"] is False
    assert helm_values({"version": "25.7.0", "helm": {"values": {"nicConfigurationOperator": {"enabled": True}}}})


# -- The admission webhook -------------------------------------------------------------------------------------------

# api/v1alpha1/validator/nicpolicy_webhook.go
FQDN = r"^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z]{2,})+$"


def refused_prefixes(objects: list[dict[str, Any]]) -> list[str]:
    """Prefixes that the operator's webhook refuses: one that is given has to be a dotted name."""
    texts = [
        item["spec"].get(name, {}).get("config")
        for item in objects
        for name in ("rdmaSharedDevicePlugin", "sriovDevicePlugin")
    ]
    configs = [json.loads(text) for text in texts if text]
    rows = [row for config in configs for row in config.get("configList", config.get("resourceList"))]
    assert rows
    return [
        row["resourcePrefix"] for row in rows if "resourcePrefix" in row and not re.search(FQDN, row["resourcePrefix"])
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_webhook_of_every_release_takes_the_default_prefix(version: str) -> None:
    request = operator_request(PLAN, {"version": version})
    assert refused_prefixes(request["objects"]) == []
    assert request["warnings"] == []
    assert {name for each in request["classes"] for name in each["resources"]} == {"rdma/rdma_a100", "rdma/rdma_v100"}


@pytest.mark.parametrize("prefix", ["rdma", "gpu", "k8s1.example.c0m", "rdma.example.com", "rdma.example"])
def test_what_the_webhook_refuses_is_reported(prefix: str) -> None:
    value = json.loads(json.dumps(PLAN).replace('"resourcePrefix": "rdma"', f'"resourcePrefix": "{prefix}"'))
    request = operator_request(value, {"version": "26.4.1", "sriov": ["v100"]})
    refused = refused_prefixes(request["objects"])
    assert bool(refused) == ("example.com" not in prefix and prefix != "rdma.example")
    assert set(refused) <= {prefix}
    policies = {warning.split(":")[0] for warning in request["warnings"]}
    # the shared plugin's own default can be left out, the SR-IOV plugin has another
    both = {f"NicNodePolicy {item['metadata']['name']}" for item in request["objects"]}
    told = {name for name in both if "v100" in name} if prefix == "rdma" else both if refused else set()
    assert policies == told
    assert all(f"refuses rdma_resource.prefix {prefix}" in warning for warning in request["warnings"])
