# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's GPU Operator, from wishes and the facts of captured nodes."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import CHARTS, GPU_LINES, GPU_OPERATOR
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems as wish_problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Request, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.gpu_operator import request
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import Json, a_site, insist

A100, V100, GB200 = ["ib-a100-1", "ib-a100-2"], ["ib-v100-1", "ib-v100-2"], ["gb200-1", "gb200-2"]
LINES = {in_dots(line): row.release for line, row in GPU_LINES.items()}
OFED_CONTAINER = {"engine": "network_operator", "ofed_driver": {"version": "x"}, "helm": {"nfd": False}}


def the_site(bare: bool = True, ofed: bool = False, wishes: Json | None = None, **groups: list[str]) -> Site:
    """bare: no host has an NVIDIA driver, as before the operator comes. wishes: of all groups."""
    chosen = groups or {"a100": A100, "gb200": GB200}
    site = a_site({name: (dict(wishes or {}), hosts) for name, hosts in chosen.items()})
    for facts in site["facts"].values():
        if bare:
            facts["nvidia"].update(driver=None, flavour=None)
            for name in ("nvidia", "nvidia_peermem"):
                facts["kernel"]["modules"][name] = {
                    "loaded": False,
                    "builtin": False,
                    "available": False,
                    "persisted": False,
                }
        if ofed:
            facts["ofed"]["flavour"] = "doca"
    return site


def asked(
    site: Site | None = None, installed: str | None = None, rollout: Json | None = None, **wish: t.Any
) -> Request:
    told = {"version": GPU_OPERATOR, **wish}
    assert wish_problems("rdma_gpu_operator", told) == []
    there = {"gpu-operator": {"version": installed, "chart": "gpu-operator", "namespace": "gpu-operator", "values": {}}}
    return request(told, site or the_site(), installed=there if installed else {}, rollout=rollout)


def values(found: Request) -> Json:
    return found["charts"][0]["values"]


# --- what is asked for ------------------------------------------------------------------------------------------------


def test_a_request_without_problems_installs_the_operator() -> None:
    found = asked()
    assert found["problems"] == []
    (chart,) = found["charts"]
    assert (chart["release"], chart["namespace"], chart["version"]) == ("gpu-operator", "gpu-operator", GPU_OPERATOR)
    assert (chart["chart"], chart["repository"], chart["privileged"]) == ("gpu-operator", CHARTS, True)
    assert values(found)["driver"]["enabled"] is True
    assert values(found)["driver"]["upgradePolicy"] == {"autoUpgrade": False}
    assert [(wait["kind"], wait["name"], wait["value"]) for wait in found["waits"]] == [
        ("Deployment", "gpu-operator", None),
        ("ClusterPolicy", "cluster-policy", "ready"),
    ]


def test_no_part_of_a_cluster_policy_is_ever_an_object() -> None:
    """A policy that is applied beside the chart's has to be whole, or takes the rest away."""
    for site, version in itertools.product((the_site(), the_site(ofed=True, v100=V100)), LINES.values()):
        assert asked(site, version=version)["objects"] == []
    for value in ({"clusterPolicy": {"deployCR": False}}, {"gpuCluster": {"deployCR": True}}):
        assert asked(version="v26.7.0", values=value)["problems"]


def test_a_wish_that_is_disabled_asks_for_nothing() -> None:
    found = asked(enabled=False, version="0.1")
    assert (found["charts"], found["problems"]) == ([], [])


@pytest.mark.parametrize("version", LINES.values())
def test_every_line_has_a_request(version: str) -> None:
    found = asked(version=version)
    assert found["problems"] == []
    assert ("useOpenKernelModules" in values(found)["driver"]) is version.startswith("v24.")
    assert values(found).get("operator", {}) == ({"defaultRuntime": "containerd"} if version.startswith("v24.") else {})


@pytest.mark.parametrize(
    ("version", "said"),
    [("v24.6.2", "too old"), ("v27.1.0", "not known here"), ("v26.3", "not a complete release"), ("", "is not set")],
)
def test_a_release_that_is_not_known_is_refused(version: str, said: str) -> None:
    found = asked(version=version)
    assert found["charts"] == []
    (problem,) = found["problems"]
    assert said in problem


# --- the driver -------------------------------------------------------------------------------------------------------


def test_hosts_with_a_driver_of_their_own_get_none() -> None:
    found = asked(the_site(bare=False))
    assert (found["problems"], values(found)["driver"]["enabled"]) == ([], False)
    assert ("NVIDIA driver", "none; 4 with one of their own") in found["summary"]


def test_a_driver_comes_where_some_hosts_have_none() -> None:
    site = the_site(bare=False)
    site["facts"]["gb200-1"]["kernel"]["modules"]["nvidia"].update(loaded=False, available=False)
    site["facts"]["gb200-1"]["nvidia"]["driver"] = None
    found = asked(site)
    assert values(found)["driver"]["enabled"] is True
    assert found["warnings"][0].startswith(
        "hosts gb200-2, ib-a100-1 and ib-a100-2 with an NVIDIA driver of the host's own"
    )


@pytest.mark.parametrize("managed", [True, False])
def test_switching_off_a_driver_that_hosts_live_by_is_refused(managed: bool) -> None:
    site = the_site(gb200=GB200)
    site["facts"]["gb200-1"]["nvidia"]["operator"] = managed
    problems = asked(site, driver={"enabled": False})["problems"]
    assert any("gb200-1" in each and ("is the operator's" in each) is managed for each in problems)
    assert asked(the_site(bare=False), driver={"enabled": False})["problems"] == []


def test_what_is_wished_of_the_driver_comes_to_the_chart() -> None:
    driver = values(
        asked(driver={"version": "580.105.08", "auto_upgrade": True, "max_parallel_upgrades": 3, "precompiled": True})
    )["driver"]
    assert driver["version"] == "580.105.08"
    assert driver["upgradePolicy"] == {"autoUpgrade": True, "maxParallelUpgrades": 3}
    assert driver["usePrecompiled"] is True


# --- how HCAs reach the memory of GPUs --------------------------------------------------------------------------------


def driver_of(found: Request) -> tuple[bool, bool | None, str]:
    """rdma.enabled, rdma.useHostMofed, the kernel modules."""
    driver = values(found)["driver"]
    return driver["rdma"]["enabled"], driver["rdma"].get("useHostMofed"), driver["kernelModuleType"]


def test_dma_buf_needs_no_module_but_the_open_ones() -> None:
    found = asked()
    assert (found["problems"], driver_of(found)) == ([], (False, None, "open"))
    assert ("GPUDirect RDMA", "DMA-BUF") in found["summary"]


def test_gpus_without_dma_buf_get_peermem_where_ofed_is() -> None:
    found = asked(the_site(ofed=True, v100=V100))
    assert (found["problems"], driver_of(found)) == ([], (True, True, "auto"))
    assert ("GPUDirect RDMA", "nvidia_peermem, OFED on the hosts") in found["summary"]


def test_gpus_without_dma_buf_and_without_ofed_are_named() -> None:
    (said,) = asked(the_site(v100=V100))["problems"]
    assert "hosts ib-v100-1 and ib-v100-2 have the kernel's own: the driver's Pod would never get ready" in said
    assert "rdma_ofed" in said


def test_one_cluster_of_old_and_new_gpus_is_served_where_all_have_ofed() -> None:
    found = asked(the_site(ofed=True, v100=V100, a100=A100, gb200=GB200))
    assert (found["problems"], driver_of(found)) == ([], (True, True, "auto"))
    # with one sort of modules for all, it cannot be
    (said,) = asked(the_site(ofed=True, v100=V100, gb200=GB200), version="v24.9.2")["problems"]
    assert "one sort of kernel modules for all nodes" in said


def test_one_host_without_ofed_is_enough_to_refuse_peermem() -> None:
    site = the_site(ofed=True, v100=V100, a100=A100)
    site["facts"]["ib-a100-2"]["ofed"]["flavour"] = "inbox"
    (said,) = asked(site)["problems"]
    assert "host ib-a100-2 has the kernel's own" in said
    assert "ib-v100" not in said


def test_ofed_in_a_container_is_waited_for() -> None:
    found = asked(the_site(v100=V100), rollout=OFED_CONTAINER)
    assert (found["problems"], driver_of(found)) == ([], (True, False, "auto"))
    # nobody brings it as far as this inventory knows
    alone = asked(the_site(v100=V100), use_host_mofed=False)
    assert alone["problems"] == []
    assert any("waits until somebody brings OFED" in each for each in alone["warnings"])


@pytest.mark.parametrize(
    ("facts", "wishes", "wish", "said"),
    [
        (
            {"ofed": True, "v100": V100},
            {},
            {"rdma": False},
            "rdma is false, and HCAs of hosts ib-v100-1 and ib-v100-2 reach",
        ),
        ({"ofed": True}, {"rdma_gpudirect": "peermem"}, {"rdma": False}, "rdma_gpudirect is peermem for hosts gb200-1"),
        ({"ofed": True}, {"rdma_gpudirect": "dmabuf"}, {"rdma": True}, "is dmabuf: set rdma: false"),
        ({"ofed": True}, {"rdma_gpudirect": "none"}, {"rdma": True}, "is none: set rdma: false"),
        ({}, {}, {"rdma": True}, "have the kernel's own"),
        ({"bare": False}, {}, {"rdma": True}, "brings no driver to any host"),
        ({"ofed": True, "v100": V100}, {}, {"use_host_mofed": False}, "would wait for ever"),
        ({"v100": V100}, {"rdma_gpudirect": "dmabuf"}, {}, "whose modules export no DMA-BUF"),
        ({"ofed": True, "v100": V100}, {}, {"kernel_module_type": "open"}, "which only the proprietary modules drive"),
        ({"gb200": GB200}, {}, {"kernel_module_type": "proprietary"}, "only the open modules drive"),
        ({"a100": A100}, {}, {"kernel_module_type": "proprietary"}, "whose modules export no DMA-BUF"),
        ({"ofed": True, "v100": V100}, {}, {"gds": True}, "gds needs the open kernel modules"),
        (
            {},
            {},
            {"gds": True, "driver": {"precompiled": True}},
            "set rdma_gpu_operator.gds: false, or precompiled: false",
        ),
        ({}, {}, {"gdrcopy": True, "driver": {"precompiled": True}}, "set rdma_gpu_operator.gdrcopy: false, or"),
        ({}, {"rdma_gpudirect": "sometimes"}, {}, "rdma_gpudirect is 'sometimes'"),
    ],
)
def test_what_contradicts_the_hosts_is_refused_before_anything_is_applied(
    facts: Json, wishes: Json, wish: Json, said: str
) -> None:
    problems = asked(the_site(wishes=wishes, **facts), **wish)["problems"]
    assert any(said in each for each in problems), problems


@pytest.mark.parametrize(
    ("change", "said"),
    [({"page_size": 131072}, "pages larger than those of the GPU"), ({"modules": "nv_peer_mem"}, "nv_peer_mem loaded")],
)
def test_what_keeps_peermem_from_loading_is_named(change: Json, said: str) -> None:
    site = the_site(ofed=True, v100=V100)
    kernel = site["facts"]["ib-v100-1"]["kernel"]
    if "modules" in change:
        kernel["modules"]["nv_peer_mem"] = {"loaded": True, "builtin": False, "available": True, "persisted": True}
    else:
        kernel.update(change)
    (problem,) = asked(site)["problems"]
    assert problem.startswith("host ib-v100-1 has ")
    assert said in problem


def test_ofed_in_two_places_is_refused() -> None:
    site = the_site(ofed=True, v100=V100)
    site["facts"]["ib-v100-2"]["ofed"]["flavour"] = "inbox"
    (said,) = asked(site, rollout=OFED_CONTAINER)["problems"]
    assert "host ib-v100-1 has OFED on the host, and host ib-v100-2 would get it in a container" in said


def test_a_host_that_nobody_looked_at_is_named() -> None:
    site = the_site()
    del site["facts"]["gb200-1"]
    del site["facts"]["ib-a100-1"]["gpus"]
    (said,) = asked(site)["problems"]
    assert said.startswith("hosts gb200-1 and ib-a100-1: GPUs, driver and kernel are not known")


def test_groups_that_are_not_meant_are_not_looked_at() -> None:
    site = the_site(v100=V100, gb200=GB200)
    assert asked(site)["problems"] != []
    assert asked(site, groups=["gb200"])["problems"] == []
    (said,) = asked(site, groups=["gb20"])["problems"]
    assert said.endswith("did you mean gb200?")


@given(
    st.booleans(),
    st.sampled_from(["auto", True, False]),
    st.sampled_from(["auto", True, False]),
    st.sampled_from(["auto", "open", "proprietary"]),
)
def test_what_is_asked_without_problems_never_waits_for_an_ofed_that_is_not_there(
    ofed: bool, rdma: t.Any, mofed: t.Any, kind: str
) -> None:
    """With rdma.enabled, the driver's Pod waits for the OFED of the host, or of a container, as it was told."""
    site = SITES[ofed]
    found = asked(site, rdma=rdma, use_host_mofed=mofed, kernel_module_type=kind)
    enabled, host, modules = driver_of(found)
    if found["problems"]:
        return
    assert not (enabled and host and not ofed)
    assert not (enabled and host is False and ofed)
    assert modules != "open" or not enabled


SITES = {ofed: the_site(ofed=ofed, v100=V100) for ofed in (True, False)}


# --- the toolkit ------------------------------------------------------------------------------------------------------


def on(
    distribution: str, site: Site | None = None, hosts: t.Collection[str] | None = None, **containerd: t.Any
) -> Site:
    site = site or the_site()
    for name, facts in site["facts"].items():
        if hosts is None or name in hosts:
            facts["runtime"]["distribution"] = distribution
            facts["runtime"]["containerd"].update(containerd)
    return site


def env_of(found: Request) -> Json:
    return {each["name"]: each["value"] for each in values(found)["toolkit"].get("env", [])}


RANCHER = "/var/lib/rancher/k3s/agent/etc/containerd"
K3S_SOCKET, K0S_SOCKET = "/run/k3s/containerd/containerd.sock", "/run/k0s/containerd.sock"


def test_a_usual_containerd_needs_nothing_but_the_source() -> None:
    """A dump of its configuration, which is the toolkit's own first choice, would say that no runtime has a specification."""
    assert env_of(asked()) == {"RUNTIME_CONFIG_SOURCE": "file"}
    assert env_of(asked(version="v25.3.4")) == {}


@pytest.mark.parametrize(("version", "directory"), [(2, "config.toml.d"), (3, "config-v3.toml.d")])
def test_k3s_has_the_toolkits_file_in_the_directory_that_it_imports(version: int, directory: str) -> None:
    site = on("k3s", config_path=f"{RANCHER}/config.toml", socket=K3S_SOCKET, config_version=version)
    assert env_of(asked(site)) == {
        "CONTAINERD_CONFIG": f"{RANCHER}/config.toml",
        "CONTAINERD_SOCKET": K3S_SOCKET,
        "RUNTIME_CONFIG_SOURCE": "file",
        "RUNTIME_DROP_IN_CONFIG": f"{RANCHER}/{directory}/99-nvidia.toml",
    }
    old = asked(site, version="v25.3.4")
    assert env_of(old) == {"CONTAINERD_CONFIG": f"{RANCHER}/config.toml", "CONTAINERD_SOCKET": K3S_SOCKET}
    assert any("rewrite at each start" in each for each in old["warnings"])


def test_k0s_has_it_where_it_merges_from() -> None:
    site = on("k0s", config_path="/etc/k0s/containerd.toml", socket=K0S_SOCKET)
    new, old = env_of(asked(site)), env_of(asked(site, version="v25.3.4"))
    assert (new["CONTAINERD_CONFIG"], new["RUNTIME_DROP_IN_CONFIG"]) == (
        "/run/k0s/containerd-cri.toml",
        "/etc/k0s/containerd.d/nvidia.toml",
    )
    assert (old["CONTAINERD_CONFIG"], "RUNTIME_DROP_IN_CONFIG" in old) == ("/etc/k0s/containerd.d/nvidia.toml", False)
    assert new["CONTAINERD_SOCKET"] == old["CONTAINERD_SOCKET"] == K0S_SOCKET


def test_microk8s_has_it_in_the_template_of_whatever_revision() -> None:
    site = on("microk8s", config_path="/var/snap/microk8s/8000/args/containerd.toml", socket="/var/snap/x.sock")
    site["facts"]["gb200-1"]["runtime"]["containerd"]["config_path"] = "/var/snap/microk8s/8001/args/containerd.toml"
    assert env_of(asked(site))["CONTAINERD_CONFIG"] == "/var/snap/microk8s/current/args/containerd-template.toml"


def test_a_containerd_in_an_unusual_place_is_found() -> None:
    env = env_of(asked(on("kubeadm", config_path="/opt/containerd/config.toml", socket="/run/c.sock")))
    assert (env["CONTAINERD_CONFIG"], env["CONTAINERD_SOCKET"]) == ("/opt/containerd/config.toml", "/run/c.sock")


def test_hosts_that_need_several_sets_of_variables_are_named() -> None:
    site = on("k3s", hosts=["gb200-2"], config_path=f"{RANCHER}/config.toml", socket=K3S_SOCKET, config_version=3)
    (said,) = asked(site)["problems"]
    assert "its defaults on hosts gb200-1, ib-a100-1 and ib-a100-2" in said
    assert f"RUNTIME_DROP_IN_CONFIG={RANCHER}/config-v3.toml.d/99-nvidia.toml on host gb200-2" in said
    assert "nri: true" in said
    # with NRI nobody edits anything
    for facts in site["facts"].values():
        facts["runtime"]["containerd"]["nri"] = {"enabled": True, "socket": None}
    found = asked(site, nri=True)
    assert (found["problems"], env_of(found), values(found)["cdi"]) == (
        [],
        {},
        {"enabled": True, "nriPluginEnabled": True},
    )


@pytest.mark.parametrize(("enabled", "count"), [(False, (1, 0)), (None, (0, 1)), (True, (0, 0))])
def test_nri_has_to_be_on_in_containerd(enabled: bool | None, count: tuple[int, int]) -> None:
    site = on("kubeadm", the_site(gb200=GB200), ["gb200-1"], nri={"enabled": enabled, "socket": None})
    found = asked(site, nri=True, driver={"distributions": ["ubuntu24.04"]})
    assert (len(found["problems"]), len(found["warnings"])) == count
    assert all("host gb200-1" in each for each in [*found["problems"], *found["warnings"]])
    # nobody asks for it
    assert asked(site)["problems"] == []


def test_the_socket_of_nri_is_found() -> None:
    site = on("kubeadm", nri={"enabled": True, "socket": "/var/run/nri/nri.sock"})
    assert env_of(asked(site, nri=True)) == {}
    on("kubeadm", site, nri={"enabled": True, "socket": "/run/other.sock"})
    assert env_of(asked(site, nri=True)) == {"NRI_SOCKET": "/run/other.sock"}
    on("kubeadm", site, ["gb200-1"], nri={"enabled": True, "socket": None})
    (said,) = asked(site, nri=True)["problems"]
    assert "one socket of NRI for all nodes" in said


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"nri": True, "version": "v25.10.1"}, "nri came with GPU Operator 26.3"),
        ({"nri": True, "cdi": False}, "nri needs CDI"),
        ({"nri": True, "toolkit": {"enabled": False}}, "nri is the toolkit's"),
        ({"toolkit": {"env": {"RUNTIME_CONFIG_SOURCE": "command,file"}}}, "takes the limit away"),
    ],
)
def test_what_does_not_go_together_with_the_toolkit_is_refused(wish: Json, said: str) -> None:
    problems = asked(the_site(gb200=GB200), **wish)["problems"]
    assert any(said in each for each in problems)


def test_where_containerds_files_have_no_limit_the_source_is_free() -> None:
    wish = {"toolkit": {"env": {"RUNTIME_CONFIG_SOURCE": "command"}}}
    for memlock in ({"enabled": False}, {"method": "limit"}):
        assert asked(the_site(wishes={"rdma_memlock": memlock}), **wish)["problems"] == []


def test_what_the_user_tells_the_toolkit_goes_over_what_was_found() -> None:
    env = env_of(asked(toolkit={"env": {"CONTAINERD_SET_AS_DEFAULT": True, "CONTAINERD_SOCKET": "/x"}}))
    assert (env["CONTAINERD_SET_AS_DEFAULT"], env["CONTAINERD_SOCKET"]) == ("true", "/x")


# --- the rest of the chart --------------------------------------------------------------------------------------------


def test_a_cluster_has_one_node_feature_discovery() -> None:
    both = {"engine": "network_operator"}
    (said,) = asked(rollout=both)["problems"]
    assert "set rdma_rollout.helm.nfd: false" in said
    assert asked(rollout=both, nfd=False)["problems"] == []
    for off in (False, "false", "no", 0):
        for key in ("nfd", "install"):
            told = {"engine": "network_operator", "helm": {key: off}}
            assert wish_problems("rdma_rollout", told) == []
            assert asked(rollout=told)["problems"] == []
    assert asked(rollout={"engine": "network_operator", "helm": {"nfd": "yes"}})["problems"] == [said]
    assert asked(rollout={"engine": "daemonset"})["problems"] == []


@pytest.mark.parametrize(
    ("there", "version", "problem", "warning"),
    [
        ("26.3.3", "v26.3.3", None, None),
        ("25.10.1", "v26.3.3", None, None),
        ("25.3.4", "v26.3.3", None, "GPUs come to Pods by CDI"),
        ("26.7.0", "v26.3.3", "which is older", None),
        ("26.3.3", "v26.3.2", "set v26.3.3 or newer", None),
        ("devel", "v26.3.3", "not a complete release", None),
    ],
)
def test_an_upgrade_that_the_operator_cannot_do_is_refused(
    there: str, version: str, problem: str | None, warning: str | None
) -> None:
    found = asked(installed=there, version=version, driver={"distributions": ["ubuntu24.04"]})
    assert [problem in each for each in found["problems"]] == ([True] if problem else [])
    assert (
        any(warning in each for each in found["warnings"])
        if warning
        else not any("CDI" in each for each in found["warnings"])
    )


@pytest.mark.parametrize(
    ("version", "given_values", "said"),
    [
        (
            GPU_OPERATOR,
            {"driver": {"rdma": {"enabled": True}}},
            "set rdma_gpu_operator.rdma and .use_host_mofed instead",
        ),
        (GPU_OPERATOR, {"driver": {"enabled": True}}, "set rdma_gpu_operator.driver.enabled instead"),
        (GPU_OPERATOR, {"driver": {"usePrecompiled": True}}, "set rdma_gpu_operator.driver.precompiled instead"),
        (GPU_OPERATOR, {"devicePlugin": {"enabled": False}}, "set rdma_gpu_operator.device_plugin instead"),
        (GPU_OPERATOR, {"toolkit": {"env": []}}, "set rdma_gpu_operator.toolkit.env instead"),
        (GPU_OPERATOR, {"driver": {"nvidiaDriverCRD": {"enabled": True}}}, "take it out: NVIDIADriver objects"),
        (GPU_OPERATOR, {"operator": {"defaultRuntime": "docker"}}, "no longer has it since 25.3"),
        (GPU_OPERATOR, {"draDriver": {}}, "came with GPU Operator 26.7"),
        (GPU_OPERATOR, {"dcgmExportr": {}}, "did you mean dcgmExporter?"),
        (GPU_OPERATOR, {"dcgm": True}, "expected a dictionary"),
    ],
)
def test_a_value_that_is_not_the_charts_or_that_a_wish_stands_for_is_named(
    version: str, given_values: Json, said: str
) -> None:
    (problem,) = asked(version=version, values=given_values)["problems"]
    assert said in problem


def test_values_go_over_what_the_wish_makes() -> None:
    found = asked(values={"driver": {"startupProbe": {"failureThreshold": 240}}, "dcgm": {"enabled": True}})
    assert found["problems"] == []
    assert values(found)["driver"]["startupProbe"] == {"failureThreshold": 240}
    assert any("cloud-native/dcgm:" in each for each in found["images"])
    assert not any("sandbox" in each for each in found["warnings"])
    assert any("sandbox" in each for each in asked(values={"sandboxWorkloads": {"enabled": True}})["warnings"])


# What the chart hands on as it is (templates/clusterpolicy.yaml).
HANDED_ON = (
    "driver",
    "toolkit",
    "devicePlugin",
    "gds",
    "gdrcopy",
    "cdi",
    "mig",
    "daemonsets",
    "migManager",
    "gfd",
    "dcgmExporter",
)


@pytest.mark.parametrize("version", ["v26.3.3", "v26.7.0"])
def test_the_values_are_what_a_cluster_policy_takes(version: str) -> None:
    """Field by field, and no other: what the definition does not have would be dropped or refused."""
    site = the_site(ofed=True, v100=V100)
    site.update(registry="mirror.example.com/all", pull_secrets=["pull"])
    wish = {"mig_strategy": "mixed", "tolerations": [{"operator": "Exists"}], "gdrcopy": True, "cdi": True}
    found = values(asked(site, version=version, driver={"version": "580.1", "max_parallel_upgrades": 2}, **wish))
    empty: Json = {"dcgm": {}, "nodeStatusExporter": {}, "operator": {}}
    spec = {**empty, **{section: found[section] for section in HANDED_ON}}
    policy = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": spec,
    }
    insist(policy, "clusterpolicies.nvidia.com")


def test_everything_comes_from_one_registry() -> None:
    site = the_site()
    site.update(registry="mirror.example.com/all", pull_secrets=["pull"])
    found = asked(site, driver={"distributions": ["ubuntu24.04", "rhel9.4"]})
    assert values(found)["toolkit"]["repository"] == "mirror.example.com/all/nvidia/k8s"
    assert values(found)["driver"]["manager"]["repository"] == "mirror.example.com/all/nvidia/cloud-native"
    assert values(found)["node-feature-discovery"] == {
        "image": {"repository": "mirror.example.com/all/nfd/node-feature-discovery"},
        "imagePullSecrets": [{"name": "pull"}],
    }
    assert all(each.startswith("mirror.example.com/all/") for each in found["images"])
    assert "mirror.example.com/all/nvidia/driver:580.126.20-rhel9.4" in found["images"]
    assert found["warnings"] == []


def test_a_precompiled_driver_is_of_each_kernel() -> None:
    site = the_site()
    site["facts"]["gb200-1"]["kernel"]["release"] = "6.8.0-1020-nvidia"
    kernels = {facts["kernel"]["release"] for facts in site["facts"].values()}
    for more in ({}, {"distributions": ["ubuntu24.04"]}):
        found = asked(site, driver={"version": "580", "precompiled": True, **more})
        assert found["problems"] == []
        end = "-ubuntu24.04" if more else ""
        assert {each for each in found["images"] if "/driver:" in each} == {
            f"nvcr.io/nvidia/driver:580-{kernel}{end}" for kernel in kernels
        }
    # it is built for none where every host has a driver of its own
    own = the_site(bare=False)
    assert asked(own, gds=True, driver={"precompiled": True})["problems"] == []


def test_images_are_those_that_the_release_pulls() -> None:
    images = asked()["images"]
    assert "nvcr.io/nvidia/gpu-operator:v26.3.3" in images
    assert not any("nvidia-fs" in each or "dcgm:" in each for each in images)
    assert any("nvidia-fs" in each for each in asked(gds=True)["images"])
    old = asked(version="v25.3.4")["images"]
    assert "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v25.3.4" in old
    assert any(
        "tags in the list of images are those of GPU Operator v26.3.3" in each
        for each in asked(version="v26.3.1")["warnings"]
    )
    without = asked(the_site(bare=False), nfd=False, toolkit={"enabled": False}, device_plugin=False)["images"]
    assert not any(word in each for each in without for word in ("driver:", "k8s-driver-manager", "toolkit", "feature"))


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SECTIONS = st.sampled_from(["driver", "toolkit", "operator", "cdi", "dcgm", "node-feature-discovery", "x"])
SITE = the_site()


@given(st.dictionaries(SECTIONS, JUNK, max_size=4), st.dictionaries(st.text(max_size=6), JUNK, max_size=3))
def test_no_values_end_in_a_traceback(junk: Json, env: Json) -> None:
    found = asked(SITE, values=junk, toolkit={"env": env})
    assert found["problems"] or "x" not in junk


# --- the table of wishes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"rdma": "yes"}, "auto, true or false"),
        ({"use_host_mofed": 1}, "auto, true or false"),
        ({"kernel_module_type": "opened"}, "did you mean open?"),
        ({"driver": {"enable": True}}, "did you mean enabled?"),
        ({"driver": {"version": 580.1}}, "put it in quotes"),
        ({"driver": {"max_parallel_upgrades": 0}}, "1 or more"),
        ({"toolkit": {"env": ["A=b"]}}, "expected a dictionary"),
        ({"mig_strategy": "one"}, "none, single, mixed"),
        ({"version": 26.3}, "put it in quotes"),
    ],
)
def test_an_invalid_wish_is_reported(wish: Json, said: str) -> None:
    (problem,) = wish_problems("rdma_gpu_operator", wish)
    assert said in problem
