# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volcano and its vGPU device plugin, from a wish and the facts of V100 and A100 nodes."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base import sources
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems as wish_problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import request_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Request, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.vgpu import request
from ansible_collections.fabric.rdma.tests.unit.contracts import NOTHING_KNOWN
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import Json, a_site

V100 = ["ib-v100-1", "ib-v100-2"]
A100 = ["ib-a100-1", "ib-a100-2", "ib-a100-3"]
OFF = {"labels": {"nvidia.com/gpu.deploy.device-plugin": "false"}}
OPERATOR = {"version": "26.3.3"}
NO_GPUDIRECT = {"rdma_gpudirect": "none"}


def site_of(**more: t.Any) -> Site:
    return a_site({"ib-v100": (NO_GPUDIRECT, V100), "ib-a100": ({}, A100)}, **more)


def asked(site: Site, wish: Json | None = None, **told: t.Any) -> Request:
    full = {"groups": ["ib-v100"], "memory_factor": 100, **(wish or {})}
    return request(full, site, **{"installed": {}, "served": {}, "nodes": {}, **told})


def of_kind(found: Request, kind: str) -> list[Json]:
    return [item for item in found["objects"] if item["kind"] == kind]


def scheduler(found: Request) -> Json:
    configuration: Json = json.loads(found["charts"][0]["values"]["custom"]["scheduler_config_override"])
    return configuration


def plugins(found: Request) -> dict[str, Json]:
    return {row["name"]: row for tier in scheduler(found)["tiers"] for row in tier["plugins"]}


def test_a_request_without_problems_has_all_that_shares_need() -> None:
    found = asked(site_of())
    assert found["problems"] == []
    (chart,) = found["charts"]
    assert (chart["chart"], chart["repository"], chart["version"]) == (
        "volcano",
        sources.VOLCANO_CHARTS,
        sources.VOLCANO,
    )
    kinds = [item["kind"] for item in found["objects"]]
    assert kinds == ["ConfigMap", "ConfigMap", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"]
    assert {(wait["kind"], wait["name"], wait.get("nodes")) for wait in found["waits"]} == {
        ("Deployment", "volcano-controllers", None),
        ("Deployment", "volcano-scheduler", None),
        ("Deployment", "volcano-admission", None),
        ("DaemonSet", of_kind(found, "DaemonSet")[0]["metadata"]["name"], len(V100)),
    }


def test_what_is_known_of_the_cluster_comes_by_the_catalogue() -> None:
    found = request_of(
        "vgpu",
        {"groups": ["ib-v100"], "version": "1.14.0"},
        site_of(),
        {
            "installed": {
                "volcano": {"chart": "volcano", "version": "1.15.0", "namespace": "volcano-system", "values": {}}
            },
            "served": {"apps": ["v1"]},
            "nodes": {"ib-v100-1": OFF},
            "wishes": {"rdma_gpu_operator": {"version": "26.4.1"}},
        },
    )
    older, forgotten = found["problems"]
    assert "which is older" in older
    assert "node ib-v100-2 with" in forgotten


def test_an_empty_wish_asks_for_nothing() -> None:
    found = request({}, site_of())
    assert not any(found[key] for key in ("charts", "objects", "waits", "images", "problems", "warnings", "summary"))


# --- Volcano ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_the_configuration_is_the_default_with_shares(policy: str) -> None:
    found = asked(site_of(), {"policy": policy})
    assert scheduler(found)["actions"] == "enqueue, allocate, backfill"
    assert set(plugins(found)) == {
        "priority",
        "gang",
        "conformance",
        "overcommit",
        "drf",
        "predicates",
        "proportion",
        "nodeorder",
        "binpack",
        "deviceshare",
    }
    # without a weight the policy would not choose among nodes
    assert plugins(found)["deviceshare"]["arguments"] == {
        "deviceshare.VGPUEnable": True,
        "deviceshare.ScheduleWeight": 10,
        "deviceshare.SchedulePolicy": policy,
    }


def test_a_configuration_of_the_users_keeps_what_it_has() -> None:
    own = {
        "actions": "allocate",
        "tiers": [
            {"plugins": [{"name": "gang"}, {"name": "deviceshare", "arguments": {"deviceshare.ScheduleWeight": 3}}]},
            {"plugins": [{"name": "capacity"}]},
        ],
    }
    before = json.dumps(own)
    found = asked(site_of(), {"scheduler": own, "arguments": {"deviceshare.NodeLockEnable": True}})
    assert found["problems"] == []
    assert scheduler(found)["actions"] == "allocate"
    assert list(plugins(found)) == ["gang", "deviceshare", "capacity"]
    assert plugins(found)["deviceshare"]["arguments"] == {
        "deviceshare.VGPUEnable": True,
        "deviceshare.ScheduleWeight": 3,
        "deviceshare.SchedulePolicy": "binpack",
        "deviceshare.NodeLockEnable": True,
    }
    assert json.dumps(own) == before


@pytest.mark.parametrize("key", ["deviceshare.GPUSharingEnable", "deviceshare.GPUNumberEnable"])
@pytest.mark.parametrize("value", [True, "true", "True"])
def test_what_volcanos_scheduler_dies_of_is_refused(key: str, value: t.Any) -> None:
    own = {"actions": "allocate", "tiers": [{"plugins": [{"name": "deviceshare", "arguments": {key: value}}]}]}
    for wish in ({"arguments": {key: value}}, {"scheduler": own}):
        (problem,) = asked(site_of(), wish)["problems"]
        assert f"{key} and deviceshare.VGPUEnable exclude each other" in problem
    assert asked(site_of(), {"arguments": {key: False}})["problems"] == []


def test_shares_that_are_switched_off_are_refused() -> None:
    (problem,) = asked(site_of(), {"arguments": {"deviceshare.VGPUEnable": False}})["problems"]
    assert "VGPUEnable is False" in problem


@pytest.mark.parametrize(
    "own", [{"tiers": []}, {"actions": "x", "tiers": [{}]}, {"actions": "x", "tiers": [{"plugins": [{}]}]}, {"a": 1}]
)
def test_what_is_no_configuration_is_refused(own: Json) -> None:
    (problem,) = asked(site_of(), {"scheduler": own})["problems"]
    assert "rdma_vgpu.scheduler is not a configuration" in problem


@pytest.mark.parametrize("version", ["1.11.0", "2.0.0", "1.15", "v1.16.0-alpha.1"])
def test_a_version_that_is_not_known_is_refused(version: str) -> None:
    (problem,) = asked(site_of(), {"version": version})["problems"]
    assert "1.12, 1.13, 1.14, 1.15" in problem


@given(old=st.sampled_from(sources.VOLCANO_LINES), new=st.sampled_from(sources.VOLCANO_LINES), patch=st.integers(0, 2))
def test_volcano_does_not_go_back(old: tuple[int, int], new: tuple[int, int], patch: int) -> None:
    there = {"volcano": {"chart": "volcano", "version": in_dots((*old, 1)), "namespace": "volcano-system"}}
    found = asked(SITE, {"version": in_dots((*new, patch))}, installed=there)
    assert bool(found["problems"]) is ((new, patch) < (old, 1))


def test_a_second_volcano_is_refused() -> None:
    there = {"sched": {"chart": "volcano", "version": "1.14.4", "namespace": "batch"}}
    (problem,) = asked(site_of(), installed=there)["problems"]
    assert "release sched in namespace batch" in problem
    assert asked(site_of(), {"release": "sched", "namespace": "batch"}, installed=there)["problems"] == []


@pytest.mark.parametrize(
    "values",
    [
        {"custom": {"scheduler_config_override": "x"}},
        {"basic": {"image_registry": "x"}},
        {"basic": "x"},
    ],
)
def test_values_do_not_go_round_the_checks(values: Json) -> None:
    assert len(asked(site_of(), {"values": values})["problems"]) == 1


def test_other_values_reach_the_chart() -> None:
    found = asked(site_of(), {"values": {"custom": {"admission_enable": False}, "service": {"ipFamilyPolicy": ""}}})
    values = found["charts"][0]["values"]
    assert values["custom"]["admission_enable"] is False
    assert values["custom"]["scheduler_config_override"]
    assert values["service"] == {"ipFamilyPolicy": ""}
    # what is not there is not waited for
    assert "volcano-admission" not in {wait["name"] for wait in found["waits"]}


def test_a_mirror_and_secrets_are_used() -> None:
    found = asked(site_of(registry="mirror.example.com/all/", pull_secrets=["one", "two"]))
    (chart,) = found["charts"]
    assert chart["values"]["basic"]["image_registry"] == "mirror.example.com/all"
    assert chart["values"]["basic"]["image_pull_secret"] == "one"
    assert any("one pull secret" in warning for warning in found["warnings"])
    assert all(image.startswith("mirror.example.com/all/") for image in found["images"])
    (daemons,) = of_kind(found, "DaemonSet")
    assert daemons["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]


def test_every_image_is_listed_and_pinned() -> None:
    found = asked(site_of())
    (daemons,) = of_kind(found, "DaemonSet")
    used = {each["image"] for each in daemons["spec"]["template"]["spec"]["containers"]}
    assert used == {sources.VGPU_PLUGIN}
    volcano = {f"{image}:v{sources.VOLCANO}" for image in sources.VOLCANO_IMAGES}
    assert set(found["images"]) == used | volcano
    assert found["charts"][0]["values"]["basic"]["image_tag_version"] == f"v{sources.VOLCANO}"


# --- the device plugin ------------------------------------------------------------------------------------------------


def test_each_class_of_the_groups_has_its_daemons() -> None:
    site = site_of()
    found = asked(site, {"groups": ["ib-v100", "ib-a100"]}, nodes=dict.fromkeys((*V100, *A100), OFF))
    slugs = {
        each["spec"]["template"]["spec"]["nodeSelector"]["rdma.fabric/class"] for each in of_kind(found, "DaemonSet")
    }
    classes = [each["name"] for group in ("ib-v100", "ib-a100") for each in site["plan"]["groups"][group]["classes"]]
    assert len(classes) > 2
    assert slugs == set(classes)
    assert len({each["metadata"]["name"] for each in of_kind(found, "DaemonSet")}) == len(classes)


def test_where_dranet_serves_the_nodes_have_its_label() -> None:
    daemons = of_kind(asked(site_of(), rollout={"engine": "dra"}), "DaemonSet")
    assert daemons
    assert {key for each in daemons for key in each["spec"]["template"]["spec"]["nodeSelector"]} == {"rdma.fabric/dra"}
    around = {**NOTHING_KNOWN, "wishes": {"rdma_rollout": {"engine": "dra"}}}
    wish = {"groups": ["ib-v100"], "memory_factor": 100}
    assert of_kind(request_of("vgpu", wish, site_of(), around), "DaemonSet") == daemons


def test_a_daemon_mounts_what_it_has_and_selects_its_own_pods() -> None:
    for monitor in (True, False):
        (daemons,) = of_kind(asked(site_of(), {"monitor": monitor}), "DaemonSet")
        template = daemons["spec"]["template"]
        assert daemons["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
        mounts = {mount["name"] for each in template["spec"]["containers"] for mount in each["volumeMounts"]}
        assert mounts == {volume["name"] for volume in template["spec"]["volumes"]}
        assert len(template["spec"]["containers"]) == 1 + monitor


def test_access_is_bound_to_the_account_that_the_daemons_have() -> None:
    found = asked(site_of())
    (account,), (role,), (binding,) = (
        of_kind(found, kind) for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    )
    (subject,) = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == (account["metadata"]["name"], account["metadata"]["namespace"])
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (daemons,) = of_kind(found, "DaemonSet")
    assert daemons["spec"]["template"]["spec"]["serviceAccountName"] == account["metadata"]["name"]
    assert not [rule for rule in role["rules"] if set(rule["verbs"]) & {"delete", "create", "*"}]


def test_the_kubelets_directory_is_that_of_the_nodes() -> None:
    site = site_of()
    for name in V100:
        site["facts"][name]["runtime"]["distribution"] = "k0s"
    (daemons,) = of_kind(asked(site), "DaemonSet")
    paths = {volume.get("hostPath", {}).get("path") for volume in daemons["spec"]["template"]["spec"]["volumes"]}
    assert "/var/lib/k0s/kubelet/device-plugins" in paths


def test_the_configuration_is_what_the_plugin_reads() -> None:
    wish = {
        "split": "4",
        "memory_scaling": 1.5,
        "memory_factor": 50,
        "nodes": {"ib-v100-1": {"split": 2, "ignore": [0]}},
    }
    found = asked(site_of(node_names={"ib-v100-1": "n1.example.com"}), wish)
    devices, nodes = of_kind(found, "ConfigMap")
    assert devices["metadata"]["name"] == "volcano-vgpu-device-config"
    nvidia = json.loads(devices["data"]["device-config.yaml"])["nvidia"]
    assert (nvidia["deviceSplitCount"], nvidia["deviceMemoryScaling"], nvidia["gpuMemoryFactor"]) == (4, 1.5, 50)
    assert nodes["metadata"]["name"] == "volcano-vgpu-node-config"
    (row,) = json.loads(nodes["data"]["config.json"])["nodeconfig"]
    assert (row["name"], row["devicesplitcount"], row["devicememoryscaling"]) == ("n1.example.com", 2, 1.5)
    assert row["filterdevices"] == {"uuid": [], "index": [0]}


def test_another_configuration_restarts_the_daemons() -> None:
    """It is read once."""
    wishes: list[Json] = [{}, {}, {"split": 3}, {"nodes": {"ib-v100-1": {}}}]
    made = [of_kind(asked(site_of(), wish), "DaemonSet")[0] for wish in wishes]
    sums = [each["spec"]["template"]["metadata"]["annotations"]["rdma.fabric/config"] for each in made]
    assert sums[0] == sums[1]
    assert len(set(sums)) == 3


def test_a_node_of_another_group_is_refused() -> None:
    (problem,) = asked(site_of(), {"nodes": {"ib-a100-1": {"split": 2}}})["problems"]
    assert "rdma_vgpu.nodes names ib-a100-1" in problem


# --- who else gives the GPUs away --------------------------------------------------------------------------------------


def test_the_gpu_operators_device_plugin_is_refused_with_the_way_out() -> None:
    told: Json
    for told in ({"gpu_operator": OPERATOR}, {"served": {"nvidia.com": ["v1"]}}):
        (problem,) = asked(site_of(), **told)["problems"]
        assert "nodes ib-v100-1 and ib-v100-2" in problem
        assert "nvidia.com/gpu.deploy.device-plugin=false" in problem
        assert "rdma_gpu_operator" in problem


@pytest.mark.parametrize(
    "told",
    [
        {"gpu_operator": {"device_plugin": False}},
        {"gpu_operator": {"values": {"devicePlugin": {"enabled": False}}}},
        {"gpu_operator": OPERATOR, "nodes": dict.fromkeys(V100, OFF)},
        {"served": {"nvidia.com": ["v1"]}, "nodes": dict.fromkeys(V100, OFF)},
        {"served": {"apps": ["v1"]}},
        # nobody wishes for the operator
        {"gpu_operator": {}},
        {"gpu_operator": {**OPERATOR, "enabled": False}},
    ],
)
def test_a_device_plugin_that_is_off_on_those_nodes_is_taken(told: Json) -> None:
    assert asked(site_of(), **told)["problems"] == []


def test_nodes_are_labelled_with_consent() -> None:
    site = site_of(node_names={"ib-v100-1": "n1.example.com"})
    found = asked(site, {"stop_device_plugin": True}, gpu_operator=OPERATOR)
    assert found["problems"] == []
    assert found["node_labels"] == dict.fromkeys(["n1.example.com", "ib-v100-2"], OFF["labels"])
    assert asked(site)["node_labels"] == {}


def test_one_node_that_is_forgotten_is_named() -> None:
    (problem,) = asked(site_of(), gpu_operator=OPERATOR, nodes={"ib-v100-1": OFF})["problems"]
    assert "node ib-v100-2 with" in problem


def test_a_wish_of_a_group_counts_as_well() -> None:
    site = site_of()
    site["wishes"]["ib-a100"]["rdma_gpu_operator"] = OPERATOR
    assert len(asked(site)["problems"]) == 1


def test_a_cluster_that_nobody_asked_is_warned_of() -> None:
    found = asked(site_of(), served=None, nodes=None)
    assert found["problems"] == []
    assert any("nobody asked the cluster" in warning for warning in found["warnings"])


# --- groups and nodes -------------------------------------------------------------------------------------------------


def test_groups_that_measure_between_nodes_are_warned_of() -> None:
    warnings = asked(site_of(), {"groups": ["ib-v100", "ib-a100"]}, gpu_operator={"device_plugin": False})["warnings"]
    assert [warning for warning in warnings if warning.startswith("group ib-v100: NCCL between nodes")]
    # rdma_gpudirect is auto where nobody says otherwise
    assert [warning for warning in warnings if "GPUDirect" in warning] == [
        warning for warning in warnings if warning.startswith("group ib-a100: GPUDirect RDMA (rdma_gpudirect: auto)")
    ]
    assert [warning for warning in warnings if warning.startswith("group ib-a100: GPUDirect")]


@pytest.mark.parametrize(
    ("groups", "problem"), [([], "names no group"), (["ib-v1oo"], "names ib-v1oo, which is not one of the RDMA groups")]
)
def test_groups_that_there_are_not_are_refused(groups: list[str], problem: str) -> None:
    assert any(problem in each for each in asked(site_of(), {"groups": groups})["problems"])


def test_a_group_of_compute_domains_is_refused() -> None:
    site = site_of()
    site["wishes"]["ib-v100"]["rdma_compute_domain"] = {"gpus": False}
    (problem,) = asked(site)["problems"]
    assert "whole GPUs" in problem


def test_nodes_without_gpus_or_facts_are_named() -> None:
    site = site_of()
    site["facts"]["ib-v100-1"]["gpus"] = []
    del site["facts"]["ib-v100-2"]
    problems = asked(site)["problems"]
    assert any("host ib-v100-1 without a GPU of NVIDIA" in problem for problem in problems)
    assert any("no facts of host ib-v100-2" in problem for problem in problems)


def test_a_group_that_is_not_planned_says_why() -> None:
    site = site_of()
    plan = site["plan"]["groups"]["ib-v100"]
    plan["classes"], plan["errors"] = [], ["no selectors are exact"]
    (problem,) = asked(site)["problems"]
    assert "no selectors are exact" in problem


def test_a_group_that_stays_as_it_is_keeps_its_shares() -> None:
    """Their DaemonSets have the label of their group, by which they are left alone."""
    site = site_of()
    both = {"groups": ["ib-v100", "ib-a100"], "stop_device_plugin": True}
    found = asked(site, both)
    groups = [item["metadata"]["labels"]["rdma.fabric/group"] for item in of_kind(found, "DaemonSet")]
    assert groups == ["ib-v100", "ib-a100", "ib-a100"]
    site["plan"]["groups"]["ib-v100"].update(planned=False, classes=[], errors=["a switch is down"])
    del site["facts"]["ib-v100-2"]
    less = asked(site, both)
    assert of_kind(less, "DaemonSet") == of_kind(found, "DaemonSet")[1:]
    assert set(less["node_labels"]) == set(A100)
    assert (
        "group ib-v100: shares of its GPUs stay as they are, since the group does: a switch is down" in less["warnings"]
    )
    assert [text for text in less["problems"] if "ib-v100" in text] == []


def test_the_runtime_that_hands_gpus_out_is_found() -> None:
    site = site_of()
    assert "runtimeClassName" not in of_kind(asked(site), "DaemonSet")[0]["spec"]["template"]["spec"]
    site["facts"]["ib-v100-1"]["runtime"]["containerd"]["default_handler"] = "runc"
    found = asked(site)
    assert of_kind(found, "DaemonSet")[0]["spec"]["template"]["spec"]["runtimeClassName"] == "nvidia"
    assert any("runtimeClassName: nvidia" in warning for warning in found["warnings"])
    del site["facts"]["ib-v100-1"]["runtime"]["containerd"]["handlers"]["nvidia"]
    (problem,) = asked(site)["problems"]
    assert "host ib-v100-1 without the runtime nvidia" in problem


def test_a_list_of_shares_that_a_kubelet_does_not_take_is_warned_of() -> None:
    site = site_of()
    many = site["facts"]["ib-v100-1"]["gpus"][:1] * 8
    site["facts"]["ib-v100-1"]["gpus"] = many
    (warning,) = [
        each for each in asked(site, {"memory_factor": 1})["warnings"] if each.startswith("host ib-v100-1: with")
    ]
    # 8 GPUs of 32 GiB are 262144 MiB, and 65536 fit
    assert "set 4 or more" in warning
    assert not [each for each in asked(site, {"memory_factor": 4})["warnings"] if "memory_factor" in each]


# --- wishes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "problem"),
    [
        ({"groups": []}, "a list of RDMA groups"),
        ({"policy": "pack"}, "one of binpack, spread"),
        ({"memory_factor": 0}, "1 or more"),
        ({"memory_scaling": 0}, "above 0"),
        ({"nodes": {"a": {"splits": 2}}}, "did you mean split?"),
        ({"version": 1.15}, "put it in quotes"),
        ({"hypernode": True}, "did you mean hypernodes?"),
        ({"tolerations": [{"operator": "Any"}]}, "tolerations[0].operator"),
    ],
)
def test_an_invalid_wish_is_reported(wish: Json, problem: str) -> None:
    (found,) = wish_problems("rdma_vgpu", wish)
    assert problem in found


SITE = site_of()
SCALARS = st.none() | st.booleans() | st.integers(0, 99) | st.sampled_from(["x", "true", "gang"])
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["actions", "tiers", "plugins", "name", "arguments", "custom", "basic"]), inner, max_size=3
        )
    ),
)
WISHES = st.fixed_dictionaries(
    {"groups": st.lists(st.sampled_from(["ib-v100", "ib-a100", "none"]), min_size=1, max_size=3)},
    optional={
        "arguments": st.dictionaries(st.sampled_from(["deviceshare.VGPUEnable", "x"]), SCALARS),
        "hypernodes": st.booleans(),
        "memory_factor": st.integers(1, 100) | st.just("7"),
        "nodes": st.dictionaries(
            st.sampled_from(["ib-v100-1", "x"]), st.fixed_dictionaries({}, optional={"ignore": st.just([0, "1"])})
        ),
        "scheduler": st.none() | st.dictionaries(st.sampled_from(["actions", "tiers"]), TREES),
        "values": st.dictionaries(st.sampled_from(["basic", "custom", "x"]), TREES),
        "version": st.sampled_from(["1.15.1", "1.12.0", "9", 3]),
    },
)


@given(wish=WISHES, cluster=st.booleans(), seen=st.sets(st.sampled_from([*V100, *A100])))
def test_no_wish_that_is_let_through_ends_in_a_traceback(wish: Json, cluster: bool, seen: set[str]) -> None:
    assert wish_problems("rdma_vgpu", wish) == []
    site: t.Any = {**SITE, "facts": {name: SITE["facts"][name] for name in seen}}
    found = asked(site, wish) if cluster else request(wish, site)
    json.dumps(found)
    assert all(isinstance(problem, str) for problem in found["problems"])
    assert found["objects"]
