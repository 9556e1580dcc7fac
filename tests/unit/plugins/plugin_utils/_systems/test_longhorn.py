# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Longhorn, from wishes and the facts of captured nodes."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
import yaml
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    LONGHORN,
    LONGHORN_CHARTS,
    LONGHORN_IMAGES,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems as wish_problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Request, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.longhorn import request
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import Json, a_site

A100 = ["ib-a100-1", "ib-a100-2", "ib-a100-3"]
V100 = ["ib-v100-1", "ib-v100-2"]
LINES = list(map(in_dots, LONGHORN_IMAGES))
READY = {"loaded": True, "builtin": False, "available": True, "persisted": True}


def prepared(facts: Json, initiator: str) -> Json:
    """Facts of a node that storage_prereqs has prepared, also for the V2 data engine."""
    found = copy.deepcopy(facts)
    storage = found["storage"]
    storage["iscsi"].update(
        installed=True, service="listening", enabled=["iscsid.socket"], masked=[], initiator_file="present"
    )
    storage["iscsi"].update(initiator_name=initiator, generate_name=False, sessions=[])
    storage["nfs"].update(installed=True, versions=["4.1", "4.2"], default_version=None)
    storage["multipathd"].update(service=None)
    storage.update(tools_missing=[], filesystem_of={"/": "ext4"}, mount_propagation={"/": "shared"})
    storage["programs"].update(dict.fromkeys(storage["programs"], True))
    kernel = found["kernel"]
    wanted = ("iscsi_tcp", "nfs", "dm_crypt", "nvme_tcp", "uio_pci_generic", "vfio_pci")
    kernel["modules"].update({name: dict(READY) for name in wanted})
    kernel.update(release="6.8.0-45-generic", hugepages_2m=1024, cpu={"online": 64, "features": ["sse4_2"]})
    return found


def the_site(ready: bool = True, **more: t.Any) -> Site:
    site = a_site({"ib-a100": ({}, A100), "ib-v100": ({}, V100)}, **more)
    if ready:
        for host, facts in site["facts"].items():
            site["facts"][host] = prepared(facts, f"iqn.1993-08.org.debian:01:{host}")
    return site


def asked(site: Site | None = None, installed: str | None = None, **wish: t.Any) -> Request:
    given = {"version": LONGHORN, **wish}
    assert wish_problems("rdma_longhorn", given) == []
    there = {"longhorn": {"version": installed, "chart": "longhorn", "namespace": "longhorn-system", "values": {}}}
    return request(given, site or the_site(), installed=there if installed else {})


def values(found: Request) -> Json:
    return found["charts"][0]["values"]


def labelled(found: Request) -> list[str]:
    """Names of the nodes that get the label, and nothing else."""
    label = {"node.longhorn.io/create-default-disk": "true"}
    assert all(labels == label for labels in found["node_labels"].values())
    return sorted(found["node_labels"])


# --- what is asked for ------------------------------------------------------------------------------------------------


def test_a_request_without_problems_installs_longhorn() -> None:
    found = asked()
    assert (found["problems"], found["warnings"]) == ([], [])
    (chart,) = found["charts"]
    assert (chart["release"], chart["namespace"], chart["version"]) == ("longhorn", "longhorn-system", LONGHORN)
    assert (chart["chart"], chart["repository"], chart["privileged"]) == ("longhorn", LONGHORN_CHARTS, True)
    assert values(found)["persistence"] == {"defaultClass": True, "defaultClassReplicaCount": 3, "dataEngine": "v1"}
    settings = values(found)["defaultSettings"]
    assert (settings["createDefaultDiskLabeledNodes"], settings["defaultDataPath"]) == (True, "/var/lib/longhorn")
    assert [wait["name"] for wait in found["waits"]] == [
        "longhorn-manager",
        "longhorn-driver-deployer",
        "longhorn-csi-plugin",
    ]
    assert found["workloads"]["longhorn.yaml"][0]["spec"]["storageClassName"] == "longhorn"
    assert ("stores", "5 nodes at /var/lib/longhorn") in found["summary"]


def test_an_empty_wish_that_is_disabled_asks_for_nothing() -> None:
    found = asked(enabled=False, version="0.1")
    assert (found["charts"], found["problems"], found["summary"]) == ([], [], [("Longhorn", "not asked for")])


@pytest.mark.parametrize("line", LINES)
def test_every_line_has_a_request(line: str) -> None:
    found = asked(version=f"{line}.0")
    assert found["problems"] == []
    tags = values(found)["defaultSettings"]["defaultReplicaCount"]
    assert tags == ("3" if line == "1.9" else json.dumps({"v1": "3", "v2": "3"}))


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.8.2", "is too old: choose a release of one of the lines 1.9, 1.10, 1.11, 1.12"),
        ("1.13.0", "is not known here"),
        ("1.12", "is not a complete release"),
        ("1.12.1-rc1", "is not a complete release"),
        ("", "is not set"),
        (112, "is not a complete release"),
    ],
)
def test_a_release_that_is_not_known_is_refused(version: t.Any, said: str) -> None:
    found = asked(version=version)
    assert found["charts"] == []
    assert len(found["problems"]) == 1
    assert said in found["problems"][0]


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_only_hosts_of_the_groups_store_by_the_names_of_their_nodes() -> None:
    found = asked(the_site(node_names={"ib-a100-2": "node-2"}), groups=["ib-a100"])
    assert labelled(found) == ["ib-a100-1", "ib-a100-3", "node-2"]


def test_nodes_that_fall_short_are_all_named_with_the_check_and_the_remedy() -> None:
    found = asked(the_site(ready=False), groups=["ib-a100"])
    (problem,) = found["problems"]
    assert problem.startswith("hosts ib-a100-1, ib-a100-2 and ib-a100-3 cannot store for Longhorn: Package ")
    assert "Package iscsi-initiator-utils is not installed (check packages); install it. " in problem
    assert "Module iscsi_tcp is not loaded (check modules); `modprobe iscsi_tcp`" in problem
    # those that only use volumes cannot use them, which stops nobody else
    assert any(
        each.startswith("hosts ib-v100-1 and ib-v100-2 cannot use volumes: Package open-iscsi")
        for each in found["warnings"]
    )


def test_one_host_that_falls_short_is_named_alone() -> None:
    site = the_site()
    site["facts"]["ib-v100-2"]["storage"]["iscsi"]["service"] = "stopped"
    assert asked(site)["problems"] == [
        "host ib-v100-2 cannot store for Longhorn: Neither iscsid.service nor iscsid.socket is running (check iscsid); "
        "`systemctl enable --now iscsid.socket`"
    ]


def test_volumes_go_over_iscsi_also_where_the_hosts_were_not_prepared_for_it() -> None:
    site = the_site()
    site["wishes"]["ib-v100"]["rdma_storage"] = {"iscsi": False}
    site["facts"]["ib-v100-2"]["storage"]["iscsi"]["installed"] = False
    assert "Package open-iscsi is not installed" in asked(site)["problems"][0]


def test_the_same_initiator_name_on_two_hosts_is_found() -> None:
    site = the_site()
    site["facts"]["ib-a100-1"]["storage"]["iscsi"]["initiator_name"] = "iqn.1993-08.org.debian:01:ib-v100-1"
    (said,) = asked(site)["problems"]
    assert said.startswith("host ib-v100-1 cannot store for Longhorn: InitiatorName ")


def test_the_path_of_the_wish_is_judged_and_not_that_of_the_preparation() -> None:
    site = the_site()
    site["wishes"]["ib-a100"]["rdma_storage"] = {"path": "/ok"}
    for host in A100:
        site["facts"][host]["storage"]["filesystem_of"] = {"/": "ext4", "/data": "btrfs"}
    (said,) = asked(site, data_path="/data/longhorn", groups=["ib-a100"])["problems"]
    assert "/data/longhorn is on btrfs (check file system)" in said


@pytest.mark.parametrize(("drop", "said"), [(None, "There are no facts of it"), ("storage", "do not tell of storage")])
def test_a_host_that_nobody_looked_at_is_named(drop: str | None, said: str) -> None:
    site = the_site()
    if drop:
        del site["facts"]["ib-a100-1"][drop]
    else:
        del site["facts"]["ib-a100-1"]
    (problem,) = asked(site)["problems"]
    assert problem.startswith("host ib-a100-1 cannot store for Longhorn: ")
    assert said in problem


def test_a_group_that_there_is_not_is_named_with_the_nearest() -> None:
    (said,) = asked(groups=["ib-a10"])["problems"]
    assert (
        said
        == "rdma_longhorn.groups names ib-a10, which is not in rdma_groups (ib-a100, ib-v100); did you mean ib-a100?"
    )


def test_storage_nodes_of_others_count_and_are_not_proved() -> None:
    found = asked(groups=[], nodes=["store-1", "store-2", "store-3"], replicas=3)
    assert found["problems"] == []
    assert labelled(found) == ["store-1", "store-2", "store-3"]
    assert any(
        "nodes store-1, store-2 and store-3 of rdma_longhorn.nodes are not discovered" in each
        for each in found["warnings"]
    )


def test_a_node_that_the_cluster_does_not_have_is_named() -> None:
    given = {"version": LONGHORN, "groups": ["ib-v100"], "nodes": ["store-1"]}
    cluster: Json = {"ib-v100-1": {}, "node-2": {}}
    site = the_site(node_names={"ib-v100-2": "node-2"})
    (said,) = request(given, site, nodes=cluster)["problems"]
    assert said.startswith(
        "the cluster has no node store-1, which would store for Longhorn: correct rdma_longhorn.nodes"
    )
    assert request(given, site, nodes={**cluster, "store-1": {}})["problems"] == []
    # nobody has looked
    assert request(given, site)["problems"] == []


def test_no_host_at_all_is_a_problem() -> None:
    assert asked(groups=[])["problems"][0].startswith("no host would store for Longhorn")


# --- replicas and classes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "hosts", "expected"), [(None, 5, 3), (None, 2, 2), (None, 1, 1), (2, 2, 2), (5, 5, 5)]
)
def test_there_are_never_more_replicas_than_nodes(replicas: int | None, hosts: int, expected: int) -> None:
    site = the_site()
    kept = (A100 + V100)[:hosts]
    site["groups"] = {"ib-a100": kept}
    found = asked(site, **({} if replicas is None else {"replicas": replicas}))
    assert found["problems"] == []
    assert values(found)["persistence"]["defaultClassReplicaCount"] == expected
    assert bool(found["warnings"]) is (replicas is None and expected < 3)


def test_more_replicas_than_nodes_are_refused() -> None:
    assert asked(groups=["ib-v100"], replicas=3)["problems"] == [
        "rdma_longhorn.replicas is 3 and 2 nodes store: no volume would ever be healthy; set at most 2, or have more groups or nodes store"
    ]


def test_a_second_default_class_is_warned_of_on_k3s() -> None:
    site = the_site()
    for facts in site["facts"].values():
        facts["runtime"]["distribution"] = "k3s"
    assert "local-path" in asked(site)["warnings"][0]
    assert asked(site, default_class=False)["warnings"] == []
    assert values(asked(site, default_class=False))["persistence"]["defaultClass"] is False


# --- taints -----------------------------------------------------------------------------------------------------------


def test_tolerations_come_to_all_three_places() -> None:
    tolerations = [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "value": "research", "effect": "NoExecute"},
        {"operator": "Exists"},
    ]
    found = values(asked(tolerations=tolerations))
    assert found["longhornManager"]["tolerations"] == found["longhornDriver"]["tolerations"] == tolerations
    assert found["defaultSettings"]["taintToleration"] == (
        "nvidia.com/gpu:NoSchedule;team=research:NoExecute;:NoSchedule;:PreferNoSchedule;:NoExecute"
    )


def test_a_node_that_stores_and_has_a_taint_that_nobody_tolerates_is_named() -> None:
    """No Pod of Longhorn would run there, and nobody would miss it: a DaemonSet does not count such a node."""
    gpu: Json = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    cluster: Json = {host: {"taints": [gpu]} for host in V100}
    # what a DaemonSet tolerates by itself, what only asks, and what is on nodes that do not store
    cluster["ib-v100-1"] = {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, gpu]}
    cluster["ib-v100-2"] = {"taints": [{"key": "old", "effect": "PreferNoSchedule"}]}
    cluster["cp-1"] = {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}
    given: Json = {"version": LONGHORN, "groups": ["ib-v100"]}
    (said,) = request(given, the_site(), nodes=cluster)["problems"]
    assert said == (
        "node ib-v100-1 has the taint nvidia.com/gpu=present:NoSchedule, which rdma_longhorn.tolerations do not tolerate, so that no Pod of "
        "Longhorn runs there and it stores nothing: add {key: nvidia.com/gpu, operator: Exists} to them, or let it not store "
        "(rdma_longhorn.groups, .nodes)"
    )
    for toleration in ({"key": "nvidia.com/gpu", "operator": "Exists"}, {"operator": "Exists"}, gpu):
        assert request({**given, "tolerations": [toleration]}, the_site(), nodes=cluster)["problems"] == []
    # they only use volumes
    cluster.update({host: {"taints": [gpu]} for host in A100})
    found = request(
        {**given, "groups": ["ib-v100"], "nodes": ["ib-a100-3"], "tolerations": []}, the_site(), nodes=cluster
    )
    (said,) = [text for text in found["warnings"] if "taint" in text]
    assert said == (
        "nodes ib-a100-1 and ib-a100-2 have the taint nvidia.com/gpu=present:NoSchedule, which rdma_longhorn.tolerations do not tolerate, so "
        "that no Pod of Longhorn runs there and no Pod there can use volumes: add {key: nvidia.com/gpu, operator: Exists} to them if some are to"
    )
    cluster["ib-v100-2"] = {"taints": [gpu]}
    (said,) = request(given, the_site(), nodes=cluster)["problems"]
    assert said.startswith("nodes ib-v100-1 and ib-v100-2 have the taint nvidia.com/gpu=present:NoSchedule, which")


@pytest.mark.parametrize(
    ("toleration", "said"),
    [
        ({"key": "a", "operator": "Gt", "value": "1"}, "cannot say operator Gt"),
        ({"key": "a", "operator": "Exists", "tolerationSeconds": 5}, "cannot say tolerationSeconds"),
        ({"value": "x"}, "has no key"),
        ({"key": "a", "operator": "Exists", "value": "x"}, "which the API refuses"),
        ({"key": "a;b", "operator": "Exists"}, "neither spaces nor any of"),
    ],
)
def test_a_toleration_that_the_setting_cannot_say_is_refused(toleration: Json, said: str) -> None:
    (problem,) = asked(tolerations=[toleration])["problems"]
    assert problem.startswith("rdma_longhorn.tolerations[0]")
    assert said in problem


def parsed_by_longhorn(setting: str) -> list[Json]:
    """types/setting.go of longhorn-manager, UnmarshalTolerations()."""
    found = []
    for part in setting.split(";") if setting else []:
        pair, effect = part.split(":")
        key, *value = pair.split("=")
        found.append(
            {"key": key, "operator": "Equal" if value else "Exists", "value": "".join(value), "effect": effect}
        )
    return found


WORD = st.text("abcz09.-/", min_size=1, max_size=8)
EFFECT = st.sampled_from(["", "NoSchedule", "PreferNoSchedule", "NoExecute"])


@given(st.lists(st.tuples(WORD, st.one_of(st.none(), WORD), EFFECT), max_size=4))
def test_longhorn_reads_the_tolerations_that_were_wished(rows: list[tuple[str, str | None, str]]) -> None:
    wished = [
        {"key": key, "operator": "Exists" if value is None else "Equal", "value": value or "", "effect": effect}
        for key, value, effect in rows
    ]
    found = values(asked(SITE, tolerations=[{key: value for key, value in each.items() if value} for each in wished]))
    every = ("NoSchedule", "PreferNoSchedule", "NoExecute")
    setting = found["defaultSettings"].get("taintToleration", "")
    assert parsed_by_longhorn(setting) == [
        {**each, "effect": effect} for each in wished for effect in ([each["effect"]] if each["effect"] else every)
    ]
    # charts up to 1.10 have no quotes around it
    assert yaml.safe_load(f"taint-toleration: {setting}") == {"taint-toleration": setting or None}


# --- the V2 data engine -----------------------------------------------------------------------------------------------


def v2(site: Site | None = None, **wish: t.Any) -> Request:
    return asked(site, data_engine="v2", data_path="/dev/nvme1n1", **wish)


def test_the_v2_data_engine_is_switched_on_for_nodes_that_can() -> None:
    found = v2()
    assert found["problems"] == []
    assert values(found)["persistence"]["dataEngine"] == "v2"
    assert values(found)["defaultSettings"]["v2DataEngine"] is True
    assert "hugepages-2Mi" in found["warnings"][0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hugepages_2m": 512}, "512 huge pages of 2 MiB are reserved, and 1024 are needed (check hugepages)"),
        ({"hugepages_2m": None}, "0 huge pages of 2 MiB are reserved"),
        ({"cpu": {"online": 64, "features": []}}, "has neither SSE4.2 nor ASIMD (check CPU)"),
        ({"cpu": {"online": 2, "features": ["asimd"]}}, "2 CPUs are online, and the data engine keeps 2 of them busy"),
        (
            {"release": "5.15.0-119-generic"},
            "is older than 5.19: errors of a V2 volume may reboot the host (check kernel)",
        ),
        ({"modules": {"nvme_tcp": {**READY, "loaded": False}}}, "Module nvme_tcp is not loaded (check modules)"),
        (
            {"modules": {"vfio_pci": {**READY, "loaded": False, "available": False}}},
            "Module vfio_pci is not there for kernel",
        ),
    ],
)
def test_what_a_node_lacks_for_v2_volumes_is_named(change: Json, said: str) -> None:
    site = the_site()
    kernel = site["facts"]["ib-a100-1"]["kernel"]
    kernel["modules"].update(change.pop("modules", {}))
    kernel.update(change)
    (problem,) = v2(site)["problems"]
    assert problem.startswith("host ib-a100-1 cannot store for Longhorn: ")
    assert said in problem
    # nobody asked for it: nobody has to have it
    assert asked(site)["problems"] == []


def test_what_older_facts_do_not_tell_is_asked_for() -> None:
    site = the_site()
    kernel = site["facts"]["ib-a100-1"]["kernel"]
    for name in ("hugepages_2m", "cpu"):
        del kernel[name]
    del kernel["modules"]["nvme_tcp"]
    (problem,) = v2(site)["problems"]
    reasons = problem.partition(": ")[2].split(". ")
    assert len(reasons) == 3
    assert all("It is not known" in each and each.endswith("discover the host again") for each in reasons)


@pytest.mark.parametrize(
    ("version", "settings", "pages", "fits"),
    [
        (LONGHORN, {"dataEngineMemorySize": '{"v2":"1024"}'}, 512, True),
        (LONGHORN, {"dataEngineMemorySize": {"v2": 4096}}, 1024, False),
        (LONGHORN, {"dataEngineHugepageEnabled": '{"v2":"false"}'}, 0, True),
        ("1.9.2", {"v2DataEngineHugepageLimit": 512}, 256, True),
        (LONGHORN, {"dataEngineMemorySize": "{broken"}, 1023, False),
    ],
)
def test_huge_pages_follow_the_values(version: str, settings: Json, pages: int, fits: bool) -> None:
    site = the_site()
    for facts in site["facts"].values():
        facts["kernel"]["hugepages_2m"] = pages
    found = v2(site, version=version, values={"defaultSettings": settings})
    assert (found["problems"] == []) is fits


def test_cpus_follow_the_mask() -> None:
    site = the_site()
    site["facts"]["ib-a100-1"]["kernel"]["cpu"]["online"] = 4
    assert v2(site)["problems"] == []
    (said,) = v2(site, values={"defaultSettings": {"dataEngineCPUMask": '{"v2":"0xff"}'}})["problems"]
    assert "keeps 8 of them busy" in said


def test_a_directory_cannot_hold_v2_volumes_nor_a_device_v1_volumes() -> None:
    assert any("V2 volumes need block devices" in each for each in asked(data_engine="v2")["warnings"])
    assert asked(data_path="/dev/sdb")["problems"][0].startswith("rdma_longhorn.data_path is the device /dev/sdb")


# --- upgrades ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "wished", "said"),
    [
        ("1.12.1", "1.12.1", None),
        ("v1.12.0", "1.12.1", None),
        ("1.11.3", "1.12.1", None),
        ("1.8.2", "1.9.2", None),
        ("1.10.2", "1.12.1", "it goes up one minor release at a time; set 1.11.3 first"),
        ("1.7.1", "1.9.2", "set 1.8.x first"),
        ("1.12.1", "1.12.0", "which is older: Longhorn never goes back; set 1.12.1 or newer"),
        ("1.12.0", "1.11.3", "which is older"),
        ("2.0.0", "1.12.1", "which is older"),
        ("1.12.1-dev", "1.12.1", "which is not a complete release"),
    ],
)
def test_upgrades_go_one_minor_release_at_a_time_and_never_back(there: str, wished: str, said: str | None) -> None:
    problems = asked(installed=there, version=wished)["problems"]
    assert [said in each for each in problems] == ([True] if said else [])


def test_an_upgrade_says_what_has_to_be_looked_at() -> None:
    found = asked(installed="1.9.2", version="1.10.2")
    assert "v1beta1" in found["warnings"][0]
    assert ("Longhorn", "from 1.9.2 to 1.10.2 in longhorn-system") in found["summary"]
    assert any("V2 volumes have to be detached" in each for each in v2(installed="1.11.3")["warnings"])
    assert asked(installed=LONGHORN)["warnings"] == []


@pytest.mark.parametrize(
    ("settings", "wish", "said"),
    [
        ({}, {}, None),
        ({"defaultDataPath": "/var/lib/longhorn/"}, {}, None),
        ({"defaultDataPath": "/data"}, {"data_path": "/data"}, None),
        ({}, {"data_path": "/data"}, "data_path is /data, and was /var/lib/longhorn:"),
        ({"defaultDataPath": "/data"}, {}, "data_path is /var/lib/longhorn, and was /data:"),
        (
            {},
            {"data_path": "/dev/nvme1n1", "data_engine": "v2"},
            "data_path is /dev/nvme1n1, and was /var/lib/longhorn:",
        ),
    ],
)
def test_a_path_that_comes_late_makes_no_disk(settings: Json, wish: Json, said: str | None) -> None:
    """Longhorn makes one where a node has none (longhorn-manager, controller/node_controller.go)."""
    release = {"version": LONGHORN, "namespace": "longhorn-system", "values": {"defaultSettings": settings}}
    found = request({"version": LONGHORN, **wish}, the_site(), installed={"longhorn": release})
    warnings = [each for each in found["warnings"] if "data_path is" in each]
    assert [said in each for each in warnings] == ([True] if said else [])


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "path", "said"),
    [
        ("1.9.2", "defaultSettings.orphanAutoDeletion", "set defaultSettings.orphanResourceAutoDeletion"),
        ("1.9.2", "persistence.removeSnapshotsDuringFilesystemTrim", "set persistence.unmapMarkSnapChainRemoved"),
        ("1.10.0", "defaultSettings.v2DataEngineCPUMask", "1.9.2 was the last with it"),
        ("1.12.1", "defaultSettings.v2DataEngineHugepageLimit", "set defaultSettings.dataEngineMemorySize instead"),
        ("1.11.3", "persistence.createStorageClass", "came with Longhorn 1.12.0"),
        ("1.9.0", "httproute.enabled", "came with Longhorn 1.11.0"),
        ("1.12.1", "defaultSettings.defaultReplicaCuont", "has no such value, and would ignore it"),
        ("1.12.1", "persistance.reclaimPolicy", "did you mean persistence?"),
    ],
)
def test_a_value_that_the_release_does_not_have_is_named(version: str, path: str, said: str) -> None:
    section, key = path.split(".")
    problems = asked(version=version, values={section: {key: 1}})["problems"]
    assert any(said in each for each in problems)


def test_a_value_of_a_newer_release_may_be_new() -> None:
    found = asked(version="1.12.9", values={"defaultSettings": {"brandNew": 1}})
    assert found["problems"] == []
    assert any("brandNew" in each for each in found["warnings"])
    # what is gone does not come back
    assert asked(version="1.12.9", values={"defaultSettings": {"v2DataEngineCPUMask": "0x1"}})["problems"]


@pytest.mark.parametrize(
    "path",
    [
        "persistence.defaultClassReplicaCount",
        "defaultSettings.deletingConfirmationFlag",
        "defaultSettings.taintToleration",
        "privateRegistry.registryPasswd",
        "global.imageRegistry",
        "csi.kubeletRootDir",
    ],
)
def test_what_a_wish_stands_for_is_no_value(path: str) -> None:
    section, key = path.split(".")
    (said,) = asked(values={section: {key: "s3cret"}})["problems"]
    assert said.startswith(f"rdma_longhorn.values.{section}")
    assert "s3cret" not in said


def test_values_go_over_what_the_wish_makes() -> None:
    found = values(asked(values={"persistence": {"reclaimPolicy": "Retain"}, "longhornUI": {"replicas": 1}}))
    assert found["persistence"]["reclaimPolicy"] == "Retain"
    assert found["persistence"]["defaultClassReplicaCount"] == 3


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SECTIONS = st.sampled_from(["persistence", "defaultSettings", "csi", "global", "longhornManager", "x"])
SITE = the_site()


@given(st.dictionaries(SECTIONS, JUNK, max_size=4), st.sampled_from(["v1", "v2"]))
def test_no_values_end_in_a_traceback(junk: Json, engine: str) -> None:
    found = asked(SITE, values=junk, data_engine=engine)
    assert found["problems"] or all(isinstance(inner, dict) for inner in junk.values())


# --- images and charts ------------------------------------------------------------------------------------------------


def test_everything_comes_from_one_registry() -> None:
    found = asked(the_site(registry="mirror.example.com/all", pull_secrets=["pull"]))
    assert values(found)["global"] == {"imageRegistry": "mirror.example.com/all", "imagePullSecrets": ["pull"]}
    assert "mirror.example.com/all/longhornio/longhorn-manager:v1.12.1" in found["images"]
    old = values(asked(the_site(registry="mirror.example.com/all", pull_secrets=["pull"]), version="1.9.0"))
    assert old["privateRegistry"] == {"registryUrl": "mirror.example.com/all", "registrySecret": "pull"}


def test_images_are_those_of_the_release() -> None:
    found = asked()
    assert len(found["images"]) == 13
    assert "docker.io/longhornio/csi-provisioner:v5.3.0" in found["images"]
    other = asked(version="1.11.1")
    assert "docker.io/longhornio/longhorn-engine:v1.11.1" in other["images"]
    assert any("sidecars" in each for each in other["warnings"])


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({"chart": "oci://charts.example.com/longhorn"}, ("oci://charts.example.com/longhorn", None)),
        ({"repository": "https://charts.example.com"}, ("longhorn", "https://charts.example.com")),
    ],
)
def test_the_chart_may_come_from_elsewhere(wish: Json, expected: tuple[str, str | None]) -> None:
    (chart,) = asked(**wish)["charts"]
    assert (chart["chart"], chart["repository"]) == expected


@pytest.mark.parametrize(("distribution", "root"), [("k0s", "/var/lib/k0s/kubelet"), ("kubeadm", None)])
def test_the_kubelets_directory_follows_the_distribution(distribution: str, root: str | None) -> None:
    site = the_site()
    for facts in site["facts"].values():
        facts["runtime"]["distribution"] = distribution
    assert values(asked(site)).get("csi") == ({"kubeletRootDir": root} if root else None)
    site["facts"]["ib-a100-1"]["runtime"]["distribution"] = "microk8s"
    (said,) = asked(site)["problems"]
    assert "one directory of kubelets for all nodes" in said
    assert "host ib-a100-1" in said


@pytest.mark.parametrize("known", [False, True])
def test_a_host_of_which_nothing_is_known_has_no_kubelet_of_its_own(known: bool) -> None:
    """It only uses volumes, and is warned of where its facts do not tell of storage."""
    site = the_site()
    for facts in site["facts"].values():
        facts["runtime"]["distribution"] = "k0s"
    if known:
        del site["facts"]["ib-a100-2"]["runtime"]
    else:
        del site["facts"]["ib-a100-2"]
    found = asked(site, groups=["ib-v100"])
    assert found["problems"] == []
    assert values(found)["csi"] == {"kubeletRootDir": "/var/lib/k0s/kubelet"}
    assert any("host ib-a100-2 cannot use volumes" in text for text in found["warnings"]) is not known


# --- the table of wishes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"version": 1.12}, "put it in quotes"),
        ({"replica": 2}, "did you mean replicas?"),
        ({"replicas": 0}, "from 1 to 20"),
        ({"data_engine": "V2"}, "did you mean v2?"),
        ({"data_path": "var/lib"}, "an absolute path"),
        ({"data_path": "/var/../etc"}, "an absolute path"),
        ({"tolerations": [{"key": "a", "effect": "NoShedule"}]}, "did you mean NoSchedule?"),
        ({"groups": "ib-a100"}, "a list of names"),
        ({"default_class": "yes"}, "true or false"),
        ({"values": []}, "expected a dictionary"),
    ],
)
def test_an_invalid_wish_is_reported(wish: Json, said: str) -> None:
    (problem,) = wish_problems("rdma_longhorn", wish)
    assert said in problem
