# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's DRA driver and its workloads, from wishes and facts of GB200 nodes."""

from __future__ import annotations

import itertools
import json
import typing as t

import jsonschema
import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base import sources
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems as wish_problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import request_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.compute_domain import request
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Request, Site
from ansible_collections.fabric.rdma.tests.cluster import definitions
from ansible_collections.fabric.rdma.tests.unit.contracts import NOTHING_KNOWN
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import Json, a_site, insist
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.test_multus import (
    same_definition,
    structural,
)

GB200 = ["gb200-1", "gb200-2"]
NEW = "dra-driver-nvidia-gpu"
OLD = "nvidia-dra-driver-gpu"
OLDER = "25.12.0"
OPERATOR = {"version": "26.3.3"}
UUID = "7b968a6d-c8aa-45e1-9e07-e1e51be99c31"
SERVED = {"resource.k8s.io": ["v1"], "kubeflow.org": ["v2beta1"], "resource.nvidia.com": ["v1beta1"]}


def gb200(**wish: t.Any) -> Site:
    return a_site({"gb200": ({"rdma_compute_domain": {"gpus": False, **wish}}, GB200)})


def nodes(*cliques: str | None, kubelet: str = "v1.34.2") -> dict[str, Json]:
    return {
        name: {"labels": {"nvidia.com/gpu.clique": clique} if clique else {}, "kubelet": kubelet}
        for name, clique in zip(GB200, cliques or (f"{UUID}.1", f"{UUID}.1"), strict=True)
    }


def asked(site: Site, **told: t.Any) -> Request:
    """The request of a site with nothing wrong, on a cluster with all that it needs and without the driver."""
    return request({}, site, **{"installed": {}, "served": SERVED, "nodes": nodes(), **told})


def there(version: str, chart: str = NEW, **more: t.Any) -> Json:
    return {OLD: {"chart": chart, "version": version, "namespace": OLD, **more}}


def values(found: Request) -> Json:
    return found["charts"][0]["values"]


def test_a_request_without_problems_installs_the_driver() -> None:
    found = asked(gb200())
    assert (found["problems"], found["warnings"]) == ([], [])
    (chart,) = found["charts"]
    assert (chart["release"], chart["namespace"], chart["version"]) == (OLD, OLD, sources.DRA_DRIVER)
    assert chart["privileged"]
    assert {(wait["kind"], wait["name"], wait.get("nodes")) for wait in found["waits"]} == {
        ("Deployment", f"{NEW}-controller", None),
        ("DaemonSet", f"{NEW}-kubelet-plugin", len(gb200()["groups"]["gb200"])),
    }
    assert not found["objects"]


def test_nobody_counts_nodes_that_values_select() -> None:
    chosen = gb200(values={"kubeletPlugin": {"nodeSelector": {"rack": "7"}}})
    assert [wait.get("nodes") for wait in asked(chosen)["waits"]] == [None, None]
    others = gb200(values={"kubeletPlugin": {"priorityClassName": "system-node-critical"}})
    assert [wait.get("nodes") for wait in asked(others)["waits"]] == [None, len(GB200)]


def test_what_is_known_of_the_cluster_comes_by_the_catalogue() -> None:
    site = gb200(gpus=True, cliques="one")
    assert request_of("compute_domain", "", site, NOTHING_KNOWN)["problems"] == []
    found = request_of(
        "compute_domain",
        {},
        site,
        {
            "installed": there("0.5.0"),
            "served": {"apps": ["v1"]},
            "nodes": nodes(f"{UUID}.1", f"{UUID}.2"),
            "wishes": {"rdma_gpu_operator": {"version": "26.4.1"}},
        },
    )
    words = ("which is older", "no resource.k8s.io", "in 2 cliques", "serves the same GPUs")
    assert [sum(word in problem for problem in found["problems"]) for word in words] == [1, 1, 1, 1]


def test_a_site_without_the_wish_asks_for_nothing() -> None:
    found = asked(a_site({"gb200": ({}, GB200)}))
    assert not any(found[key] for key in ("charts", "waits", "workloads", "images", "problems", "warnings", "summary"))


@pytest.mark.parametrize(
    ("version", "chart", "repository"),
    [
        ("25.3.2", OLD, sources.CHARTS),
        (OLDER, OLD, sources.CHARTS),
        ("0.4.0", f"oci://registry.k8s.io/dra-driver-nvidia/charts/{NEW}", None),
        ("v0.5.1", f"oci://registry.k8s.io/dra-driver-nvidia/charts/{NEW}", None),
    ],
)
def test_the_version_decides_on_chart_and_registry(version: str, chart: str, repository: str | None) -> None:
    found = asked(gb200(version=version))
    assert found["problems"] == []
    (made,) = found["charts"]
    assert (made["chart"], made["repository"], made["version"]) == (chart, repository, version.lstrip("v"))
    image = values(found)["image"]
    assert f"{image['repository']}:{image['tag']}" in found["images"]
    assert image["tag"] == f"v{made['version']}"


@pytest.mark.parametrize("version", ["0.3.0", "26.1.0", "25.12", "latest", 25])
def test_a_version_that_is_not_known_is_refused(version: t.Any) -> None:
    (problem,) = asked(gb200(version=version))["problems"]
    assert f"rdma_compute_domain.version {version}" in problem
    assert "25.3, 25.8, 25.12, 0.4, 0.5" in problem


@given(pair=st.tuples(*[st.sampled_from([(line, patch) for line in sources.DRA_LINES for patch in (0, 3)])] * 2))
def test_going_back_is_refused_whatever_the_numbers_say(pair: tuple[t.Any, t.Any]) -> None:
    (old, old_patch), (new, new_patch) = pair
    order = list(sources.DRA_LINES)
    found = asked(gb200(version=in_dots((*new, new_patch))), installed=there(in_dots((*old, old_patch))))
    back = (order.index(new), new_patch) < (order.index(old), old_patch)
    assert [("older" in problem, "0.4 follows 25.12" in problem) for problem in found["problems"]] == [
        (True, True)
    ] * back


def test_an_upgrade_from_25_12_keeps_the_names_of_objects() -> None:
    found = asked(gb200(version="0.4.1"), installed=there(OLDER, OLD))
    assert found["problems"] == []
    assert values(found)["nameOverride"] == OLD
    assert {wait["name"] for wait in found["waits"]} == {f"{OLD}-controller", f"{OLD}-kubelet-plugin"}
    (warning,) = found["warnings"]
    assert f"from {OLDER} to 0.4.1" in warning
    assert "helm show crds" in warning


@pytest.mark.parametrize(
    ("installed", "kept"),
    [
        ({}, False),
        (there("0.4.0"), False),
        (there("0.4.0", values={"nameOverride": OLD}), True),
        # nobody has asked the cluster: other names would be a second set of Pods where 25.12 is
        (None, True),
    ],
)
def test_names_stay_what_they_were(installed: Json | None, kept: bool) -> None:
    assert ("nameOverride" in values(asked(gb200(), installed=installed))) is kept


def test_a_second_release_of_the_driver_is_refused() -> None:
    other = {"dra": {"chart": NEW, "version": "0.4.0", "namespace": "gpu"}}
    (problem,) = asked(gb200(), installed=other)["problems"]
    assert "release dra in namespace gpu" in problem
    assert asked(gb200(release="dra", namespace="gpu"), installed=other)["problems"] == []


def test_an_installed_version_that_is_not_known_is_reported() -> None:
    (problem,) = asked(gb200(), installed=there("0.9.0-rc.1"))["problems"]
    assert "0.9.0-rc.1" in problem


def test_the_gpu_operators_device_plugin_keeps_the_gpus() -> None:
    plain = values(asked(gb200()))
    assert plain["resources"]["gpus"] == {"enabled": False}
    assert "gpuResourcesEnabledOverride" not in plain
    found = asked(gb200(gpus=True))
    assert found["problems"] == []
    assert values(found)["resources"]["gpus"] == {"enabled": True}
    assert values(found)["gpuResourcesEnabledOverride"] is True
    (problem,) = asked(gb200(gpus=True), gpu_operator=OPERATOR)["problems"]
    assert "serves the same GPUs" in problem
    for off in ({"device_plugin": False}, {"values": {"devicePlugin": {"enabled": False}}}):
        assert asked(gb200(gpus=True), gpu_operator=off)["problems"] == []
    # which installs nothing, and removes nothing
    for groups, count in (({}, 0), ({"nvidia.com": ["v1"]}, 1)):
        served = {**SERVED, **groups}
        found = asked(gb200(gpus=True), gpu_operator={**OPERATOR, "enabled": False}, served=served)
        assert len(found["problems"]) == count, found["problems"]


def test_the_root_of_the_driver_follows_how_it_is_installed() -> None:
    site = gb200()
    assert values(asked(site))["nvidiaDriverRoot"] == "/"
    for name in GB200:
        site["facts"][name]["nvidia"]["operator"] = True
    assert values(asked(site))["nvidiaDriverRoot"] == "/run/nvidia/driver"
    site["facts"]["gb200-2"]["nvidia"]["operator"] = False
    (problem,) = asked(site)["problems"]
    assert "host gb200-1 with the driver of the GPU Operator" in problem
    assert "host gb200-2" in problem


@pytest.mark.parametrize(
    ("root", "problem"),
    [("/run/nvidia/driver", "host"), ("run/nvidia", "expected auto"), ("/opt/driver", None), ("/", None)],
)
def test_a_root_that_is_given_is_checked(root: str, problem: str | None) -> None:
    found = asked(gb200(driver_root=root))
    assert [problem in each for each in found["problems"]] == [True] * (problem is not None)  # type: ignore[operator]
    assert values(found)["nvidiaDriverRoot"] == root


def test_groups_have_one_driver() -> None:
    wishes = ({"version": "0.4.1", "feature_gates": {}}, {"version": "0.4.0", "values": {"a": "secret"}})
    groups = {f"rack-{i}": ({"rdma_compute_domain": wish}, [GB200[i]]) for i, wish in enumerate(wishes)}
    found = asked(a_site(groups))
    assert len(found["problems"]) == 2
    assert all("groups rack-0 and rack-1 wish for" in problem for problem in found["problems"])
    assert "'0.4.1' and '0.4.0'" in found["problems"][0]
    assert "secret" not in found["problems"][1]
    # keys of groups may differ
    groups = {
        f"rack-{i}": ({"rdma_compute_domain": {"cliques": own}}, [GB200[i]]) for i, own in enumerate(("one", "any"))
    }
    assert asked(a_site(groups))["problems"] == []


@pytest.mark.parametrize(
    ("offered", "wished", "used"),
    [
        (["v1", "v1beta2", "v1beta1"], "auto", "v1"),
        (["v1beta1", "v1beta2"], "auto", "v1beta2"),
        (["v1beta1"], "auto", "v1beta1"),
        (["v1", "v1beta1"], "v1beta1", "v1beta1"),
        (["v1"], "v1beta1", None),
        (["v1alpha3"], "auto", None),
        ([], "auto", None),
    ],
)
def test_the_api_version_is_what_the_server_offers(offered: list[str], wished: str, used: str | None) -> None:
    found = asked(gb200(api_version=wished, gpus=True), served={**SERVED, "resource.k8s.io": offered})
    assert (found["problems"] == []) is (used is not None)
    if used is None:
        assert "resourceApiVersion" not in values(found)
        return
    assert values(found)["resourceApiVersion"] == f"resource.k8s.io/{used}"
    (template,) = [
        item for item in found["workloads"]["nvbandwidth-gb200.yaml"] if item["kind"] == "ResourceClaimTemplate"
    ]
    assert template["apiVersion"] == f"resource.k8s.io/{used}"
    (one,) = template["spec"]["spec"]["devices"]["requests"]
    assert (one if used == "v1beta1" else one["exactly"])["deviceClassName"] == "gpu.nvidia.com"


def test_a_chart_that_knows_no_option_for_the_api_version_gets_none() -> None:
    assert "resourceApiVersion" not in values(asked(gb200(version="25.8.1")))
    assert "resourceApiVersion" not in values(asked(gb200(), served=None))


@pytest.mark.parametrize(
    ("version", "gates", "problem"),
    [
        ("0.4.1", {"DeviceMetadata": True, "PassthroughSupport": True}, None),
        ("0.4.1", {"IMEXDaemonsWithDNSNames": False, "ComputeDomainCliques": False}, None),
        ("25.3.2", {"MPSSupport": True}, "has none"),
        ("25.12.0", {"DeviceMetadata": True, "PassthroughSupport": True}, "no gate DeviceMetadata"),
        ("0.4.1", {"ComputeDomainClique": True}, "did you mean ComputeDomainCliques?"),
        ("0.4.1", {"IMEXDaemonsWithDNSNames": False}, "ComputeDomainCliques needs IMEXDaemonsWithDNSNames"),
        ("0.4.1", {"DeviceMetadata": True}, "DeviceMetadata needs PassthroughSupport"),
        ("0.4.1", {"DynamicMIG": True, "MPSSupport": True}, "DynamicMIG and MPSSupport exclude each other"),
    ],
)
def test_feature_gates_are_those_of_the_release(version: str, gates: dict[str, bool], problem: str | None) -> None:
    found = asked(gb200(version=version, feature_gates=gates))
    assert [str(problem) in each for each in found["problems"]] == [True] * (problem is not None)
    if problem is None:
        assert values(found)["featureGates"] == gates


@pytest.mark.parametrize(
    "key",
    ["featureGates", "gpuResourcesEnabledOverride", "image", "namespaceOverride", "nvidiaDriverRoot", "resources"],
)
def test_values_do_not_go_round_the_checks(key: str) -> None:
    (problem,) = asked(gb200(values={key: "x"}))["problems"]
    assert f"rdma_compute_domain.values has {key}" in problem


def test_other_values_reach_the_chart() -> None:
    more = {"logVerbosity": "6", "kubeletPlugin": {"tolerations": [{"operator": "Exists"}]}}
    site = gb200(values=more)
    for name in GB200:
        site["facts"][name]["runtime"]["distribution"] = "k0s"
    found = values(asked(site))
    assert found["logVerbosity"] == "6"
    assert found["kubeletPlugin"] == {
        "tolerations": [{"operator": "Exists"}],
        "kubeletRegistrarDirectoryPath": "/var/lib/k0s/kubelet/plugins_registry",
        "kubeletPluginsDirectoryPath": "/var/lib/k0s/kubelet/plugins",
    }


def test_kubelets_in_two_directories_are_refused() -> None:
    site = gb200()
    site["facts"]["gb200-2"]["runtime"]["distribution"] = "k0s"
    (problem,) = asked(site)["problems"]
    assert "/var/lib/k0s/kubelet: host gb200-2" in problem
    # of which nobody knows where its own is
    del site["facts"]["gb200-1"]["runtime"]
    found = asked(site)
    assert found["problems"] == []
    assert "kubeletPluginsDirectoryPath" in values(found)["kubeletPlugin"]


def test_a_mirror_and_a_secret_are_used() -> None:
    more = {"registry": "mirror.example.com/all", "pull_secrets": ["pull"]}
    site = a_site({"gb200": ({"rdma_compute_domain": {"gpus": False}}, GB200)}, **more)
    found = asked(site)
    assert values(found)["imagePullSecrets"] == [{"name": "pull"}]
    assert all(image.startswith("mirror.example.com/all/") for image in found["images"])


# --- nodes ------------------------------------------------------------------------------------------------------------


def changed(path: str, value: t.Any, host: str = "gb200-2", **wish: t.Any) -> Site:
    site = gb200(**wish)
    *ahead, last = path.split(".")
    where: t.Any = site["facts"][host]
    for key in ahead:
        where = where[key]
    where[last] = value
    return site


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("nvidia.driver", "570.158.00", "its NVIDIA driver is 570.158.00, and ComputeDomains need 570.158.01"),
        ("nvidia.driver", "565.57.01", "565.57.01"),
        ("nvidia.driver", None, "driver is not loaded"),
        ("nvidia", None, "no GPU of NVIDIA"),
        ("nvidia.imex.channel_major", None, "nvidia-caps-imex-channels"),
        ("runtime.containerd.version", "1.6.33", "CDI"),
    ],
)
def test_a_node_that_cannot_be_in_a_domain_is_named(path: str, value: t.Any, problem: str) -> None:
    (found,) = asked(changed(path, value))["problems"]
    assert found.startswith("host gb200-2: ")
    assert problem in found


@pytest.mark.parametrize("version", ["570.158.01", "570.172.08", "580.95.05", "595.91.07"])
def test_a_driver_that_is_new_enough_is_taken(version: str) -> None:
    assert asked(changed("nvidia.driver", version))["problems"] == []


def test_what_several_hosts_have_is_said_once() -> None:
    site = gb200()
    for name in GB200:
        site["facts"][name]["nvidia"]["driver"] = "565.57.01"
    (problem,) = asked(site)["problems"]
    assert problem.startswith("hosts gb200-1 and gb200-2: ")


def test_a_host_without_facts_is_named() -> None:
    site = gb200()
    del site["facts"]["gb200-2"]
    assert any("no facts of host gb200-2" in problem for problem in asked(site)["problems"])


def service(**state: t.Any) -> Json:
    off = {"service": "stopped", "enabled": False, "masked": False, "remembered": None, "channel_major": 511}
    return {**off, **state}


@pytest.mark.parametrize(
    ("imex", "wish", "problem", "warning"),
    [
        (service(masked=True), {}, None, None),
        (service(masked=True, enabled=True), {}, None, None),
        (service(service=None), {}, None, None),
        (service(), {}, None, "not masked"),
        (service(service="running", enabled=True), {}, "host_imex: mask", None),
        (service(enabled=True), {}, "starts at boot", None),
        (service(service="running"), {"host_imex": "mask"}, "run prepare.yml first", None),
        (service(masked=True), {"host_imex": "restore"}, "remove the DRA driver first", None),
        (service(service="running"), {"imex": "host", "version": "0.5.1"}, None, None),
        (service(masked=True), {"imex": "host", "version": "0.5.1"}, "which is stopped", None),
        (service(service="running"), {"imex": "host", "version": "0.4.1"}, "0.5 or newer", None),
        (None, {}, None, "discover it again"),
    ],
)
def test_only_one_runs_imex(imex: Json | None, wish: Json, problem: str | None, warning: str | None) -> None:
    site = changed("nvidia.imex", imex, **wish)
    site["facts"]["gb200-1"]["nvidia"]["imex"] = imex
    if imex is None:
        # as facts of an earlier version are
        for name in GB200:
            del site["facts"][name]["nvidia"]["imex"]
    found = asked(site)
    for expected, said in ((problem, found["problems"]), (warning, found["warnings"])):
        assert [str(expected) in each for each in said] == [True] * (expected is not None)


def test_the_chart_learns_who_runs_imex() -> None:
    site = changed("nvidia.imex.service", "running", imex="host", version="0.5.1")
    site["facts"]["gb200-1"]["nvidia"]["imex"]["service"] = "running"
    found = values(asked(site))
    assert found["featureGates"] == {"HostManagedIMEXDaemon": True}
    assert found["resources"]["computeDomains"]["imex"] == {"mode": "hostManaged"}


def test_containerd_without_cdi_by_default_is_warned_of() -> None:
    (warning,) = asked(changed("runtime.containerd.version", "1.7.27"))["warnings"]
    assert "enable_cdi" in warning


@pytest.mark.parametrize(("kubelet", "said"), [("v1.31.4", "problems"), ("v1.33.1", "warnings"), ("v1.34.2", None)])
def test_kubelets_are_new_enough(kubelet: str, said: str | None) -> None:
    found = asked(gb200(), nodes=nodes(kubelet=kubelet))
    assert {key for key in ("problems", "warnings") if found[key]} == ({said} if said else set())


def test_the_summary_names_nvlink_cliques_with_their_hosts() -> None:
    found = asked(gb200(), nodes=nodes(f"{UUID}.1", f"{UUID}.2"))
    assert found["problems"] == []
    assert (f"NVLink clique {UUID}.1", "group gb200, host gb200-1") in found["summary"]
    assert (f"NVLink clique {UUID}.2", "group gb200, host gb200-2") in found["summary"]


def test_a_group_that_is_to_be_one_clique_is_one() -> None:
    assert asked(gb200(cliques="one"))["problems"] == []
    (problem,) = asked(gb200(cliques="one"), nodes=nodes(f"{UUID}.1", f"{UUID}.2"))["problems"]
    assert f"{UUID}.1: host gb200-1; {UUID}.2: host gb200-2" in problem


@pytest.mark.parametrize(
    ("clique", "why"),
    [(None, "without the label nvidia.com/gpu.clique"), ("00000000-0000-0000-0000-000000000000.0", "fabric manager")],
)
def test_a_node_without_a_fabric_is_named(clique: str | None, why: str) -> None:
    (problem,) = asked(gb200(), nodes=nodes(f"{UUID}.1", clique))["problems"]
    assert "node gb200-2" in problem
    assert why in problem


def test_nodes_of_another_name_are_found() -> None:
    names = {name: f"{name}.example.com" for name in GB200}
    site = a_site({"gb200": ({"rdma_compute_domain": {"cliques": "one"}}, GB200)}, node_names=names)
    assert asked(site, nodes={names[name]: node for name, node in nodes().items()})["problems"] == []
    assert asked(site)["problems"]


def test_all_problems_are_reported_at_once() -> None:
    site = changed("nvidia.driver", "565.57.01", cliques="one", feature_gates={"X": True}, workloads={"nodes": 9})
    site["facts"]["gb200-1"]["nvidia"]["imex"].update(service="running", masked=False)
    found = asked(site, nodes=nodes(f"{UUID}.1", f"{UUID}.2"), served={}, installed=there("0.5.0"))
    assert len(found["problems"]) == 7


# --- workloads --------------------------------------------------------------------------------------------------------


ALL = {"nccl_image": "mirror.example.com/nccl-tests:v1"}


def workloads(**wish: t.Any) -> dict[str, list[Json]]:
    return asked(gb200(**wish))["workloads"]


@pytest.mark.parametrize("gpus", [True, False])
@pytest.mark.parametrize("version", ["25.3.2", "25.8.1", OLDER, "0.4.1", "0.5.1"])
def test_workloads_are_as_their_definitions_have_them(version: str, gpus: bool) -> None:
    found = workloads(version=version, gpus=gpus, workloads=ALL)
    kinds = [item["kind"] for items in found.values() for item in items]
    assert kinds.count("ComputeDomain") == 3
    assert kinds.count("MPIJob") == 4
    definitions = {"ComputeDomain": "computedomains.resource.nvidia.com", "MPIJob": "mpijobs.kubeflow.org"}
    for item in itertools.chain(*found.values()):
        if item["kind"] in definitions:
            insist(item, definitions[item["kind"]])


@pytest.mark.parametrize(
    ("version", "gates", "count"),
    [
        ("25.3.2", {}, 2),
        ("25.8.1", {}, 0),
        (OLDER, {}, 0),
        (OLDER, {"IMEXDaemonsWithDNSNames": False, "ComputeDomainCliques": False}, 2),
        ("0.4.1", {}, None),
        ("0.4.1", {"IMEXDaemonsWithDNSNames": False, "ComputeDomainCliques": False}, 2),
    ],
)
def test_the_number_of_nodes_is_there_where_the_driver_needs_it(version: str, gates: Json, count: int | None) -> None:
    domain = workloads(version=version, feature_gates=gates)["nvbandwidth-gb200.yaml"][0]
    assert domain["spec"].get("numNodes") == count


def test_every_claim_is_made_by_something_of_its_file() -> None:
    for gpus in (True, False):
        for name, items in workloads(workloads=ALL, gpus=gpus).items():
            made = {
                item["spec"]["channel"]["resourceClaimTemplate"]["name"]
                for item in items
                if item["kind"] == "ComputeDomain"
            }
            made |= {item["metadata"]["name"] for item in items if item["kind"] == "ResourceClaimTemplate"}
            asked_for = set()
            for item in items:
                specs = [item["spec"]] if item["kind"] == "Pod" else []
                if item["kind"] == "MPIJob":
                    specs = [role["template"]["spec"] for role in item["spec"]["mpiReplicaSpecs"].values()]
                for spec in specs:
                    claims = {claim["name"] for claim in spec.get("resourceClaims", ())}
                    used = {
                        claim["name"]
                        for each in spec["containers"]
                        for claim in each.get("resources", {}).get("claims", ())
                    }
                    assert claims == used
                    asked_for |= {claim["resourceClaimTemplateName"] for claim in spec.get("resourceClaims", ())}
            assert asked_for == made, name


def flags(items: list[Json]) -> dict[str, str]:
    (job,) = [item for item in items if item["kind"] == "MPIJob"]
    args = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["args"]
    return dict(args[at + 1].split("=", 1) for at, arg in enumerate(args) if arg == "-x")


def test_nccl_runs_over_what_the_variant_says() -> None:
    found = workloads(workloads=ALL)
    assert set(found) == {
        "compute-domain-gb200.yaml",
        "nvbandwidth-gb200.yaml",
        "nccl-mnnvl-gb200.yaml",
        "nccl-infiniband-gb200.yaml",
        "nccl-tcp-gb200.yaml",
    }
    ways = {way: flags(found[f"nccl-{way}-gb200.yaml"]) for way in ("mnnvl", "infiniband", "tcp")}
    switches = ("NCCL_MNNVL_ENABLE", "NCCL_IMEX_ENABLE", "NCCL_IB_DISABLE")
    assert {way: [own[key] for key in switches] for way, own in ways.items()} == {
        "mnnvl": ["1", "1", "0"],
        "infiniband": ["0", "0", "0"],
        "tcp": ["0", "0", "1"],
    }
    site = gb200()
    environment = site["plan"]["groups"]["gb200"]["environment"]["gb200-1"]
    assert ways["infiniband"]["NCCL_IB_HCA"] == environment["NCCL_IB_HCA"]
    assert environment["NCCL_IB_HCA"].startswith("=mlx5_")
    assert not [way for way in ("mnnvl", "tcp") if "NCCL_IB_HCA" in ways[way]]


def test_only_infiniband_asks_for_the_resource_of_the_group() -> None:
    asking = {name for name, items in workloads(workloads=ALL).items() if "rdma/gb200" in json.dumps(items)}
    assert asking == {"nccl-infiniband-gb200.yaml"}


def test_without_an_image_there_are_no_nccl_tests() -> None:
    assert set(workloads()) == {"compute-domain-gb200.yaml", "nvbandwidth-gb200.yaml"}


def test_ports_of_other_names_are_left_out() -> None:
    site = gb200(workloads=ALL)
    for own in site["plan"]["groups"]["gb200"]["environment"].values():
        own["NCCL_IB_TC"] = "106"
    assert flags(asked(site)["workloads"]["nccl-infiniband-gb200.yaml"])["NCCL_IB_TC"] == "106"
    site["plan"]["groups"]["gb200"]["environment"]["gb200-2"]["NCCL_IB_TC"] = "104"
    assert "NCCL_IB_TC" not in flags(asked(site)["workloads"]["nccl-infiniband-gb200.yaml"])
    site["plan"]["groups"]["gb200"]["environment"]["gb200-2"]["NCCL_IB_HCA"] = "=mlx5_0:1,mlx5_9:1"
    assert flags(asked(site)["workloads"]["nccl-infiniband-gb200.yaml"])["NCCL_IB_HCA"] == "=mlx5_0:1"
    site["plan"]["groups"]["gb200"]["environment"]["gb200-2"]["NCCL_IB_HCA"] = "=mlx5_9:1"
    found = asked(site)
    assert "nccl-infiniband-gb200.yaml" not in found["workloads"]
    (warning,) = found["warnings"]
    assert "no RDMA port of the same name" in warning


def test_pods_of_one_domain_are_in_one_clique_and_on_nodes_of_the_group() -> None:
    found = workloads(workloads=ALL)
    for way, one in (("nvbandwidth", True), ("nccl-mnnvl", True), ("nccl-tcp", False)):
        job = found[f"{way}-gb200.yaml"][-1]
        affinity = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["affinity"]
        text = json.dumps(affinity)
        assert ("podAffinity" in affinity) is one
        assert ("nvidia.com/gpu.clique" in text) is one
        assert '"rdma.fabric/class"' in text


@pytest.mark.parametrize(("classes", "served"), [({}, True), ({"groups": ["gb200"]}, True), ({"groups": ["x"]}, False)])
def test_where_dranet_serves_the_nodes_have_its_label_and_offer_no_resource(classes: Json, served: bool) -> None:
    found = asked(gb200(workloads=ALL), rollout={"engine": "dra", "classes": classes})
    text = json.dumps([found["workloads"]["compute-domain-gb200.yaml"], found["workloads"]["nvbandwidth-gb200.yaml"]])
    assert ('"rdma.fabric/dra"' in text, '"rdma.fabric/class"' in text) == (served, not served)
    assert ("nccl-infiniband-gb200.yaml" in found["workloads"]) is not served
    assert [text.split(", since ")[0] for text in found["warnings"]] == (
        ["group gb200: no workload nccl-infiniband-gb200"] if served else []
    )
    around = {**NOTHING_KNOWN, "wishes": {"rdma_rollout": {"engine": "dra", "classes": classes}}}
    assert request_of("compute_domain", {}, gb200(workloads=ALL), around)["workloads"] == found["workloads"]


def test_gpus_are_those_that_every_host_has() -> None:
    site = gb200()
    job = asked(site)["workloads"]["nvbandwidth-gb200.yaml"][-1]
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]
    assert (worker["replicas"], job["spec"]["slotsPerWorker"]) == (2, 4)
    assert worker["template"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 4}
    site["facts"]["gb200-2"]["gpus"].pop()
    assert asked(site)["workloads"]["nvbandwidth-gb200.yaml"][-1]["spec"]["slotsPerWorker"] == 3


def test_more_nodes_than_the_group_has_are_refused() -> None:
    (problem,) = asked(gb200(workloads={"nodes": 3}))["problems"]
    assert "workloads.nodes is 3" in problem


def test_workloads_over_nvlink_ask_for_no_more_nodes_than_a_clique_has() -> None:
    def nodes_of(found: Request) -> dict[str, list[int]]:
        return {
            name.removesuffix("-gb200.yaml"): [
                item["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
                if item["kind"] == "MPIJob"
                else item["spec"]["numNodes"]
                for item in objects
                if item["kind"] in ("MPIJob", "ComputeDomain")
            ]
            for name, objects in found["workloads"].items()
        }

    site = gb200(workloads=ALL, feature_gates={"IMEXDaemonsWithDNSNames": False, "ComputeDomainCliques": False})
    whole = {
        "compute-domain": [1],
        "nvbandwidth": [2, 2],
        "nccl-mnnvl": [2, 2],
        "nccl-infiniband": [2],
        "nccl-tcp": [2],
    }
    assert nodes_of(asked(site)) == whole
    found = asked(site, nodes=nodes(f"{UUID}.1", f"{UUID}.2"))
    # the network joins racks, and NVLink does not
    assert nodes_of(found) == {**whole, "nvbandwidth": [1, 1], "nccl-mnnvl": [1, 1]}
    jobs = [item for items in found["workloads"].values() for item in items if item["kind"] == "MPIJob"]
    for job in jobs:
        (launcher,) = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
        workers = job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
        assert launcher["args"][launcher["args"].index("-np") + 1] == str(4 * workers)
    assert found["problems"] == []
    (warning,) = found["warnings"]
    assert warning == (
        "group gb200: workloads over NVLink (nvbandwidth, nccl-mnnvl) are for 1 node and not for 2: their Pods are in one NVLink clique, "
        f"and the largest of the group ({UUID}.1) has 1 host"
    )
    assert asked(site, nodes=None)["workloads"] == asked(site)["workloads"]
    # nodes of which the clique is not known are a problem of their own
    assert asked(site, nodes=nodes(None, None))["warnings"] == []


def test_names_leave_room_for_those_of_the_pods() -> None:
    group = "g" * 60
    found = asked(a_site({group: ({"rdma_compute_domain": {"workloads": ALL}}, GB200)}))
    jobs = [item for items in found["workloads"].values() for item in items if item["kind"] == "MPIJob"]
    assert len(jobs) == 4
    assert max(len(f"{job['metadata']['name']}-worker-9999") for job in jobs) <= 63


def test_groups_whose_names_come_out_the_same_are_refused() -> None:
    groups: dict[str, t.Any] = {
        group: ({"rdma_compute_domain": {"gpus": False}}, [name])
        for group, name in zip(("gb_200", "gb-200"), GB200, strict=True)
    }
    (problem,) = asked(a_site(groups))["problems"]
    assert "gb-200 and gb_200" in problem


def test_the_mpi_operator_is_asked_for_where_it_is_missing() -> None:
    served = {"resource.k8s.io": ["v1"], "kubeflow.org": ["v1"]}
    found = asked(gb200(), served=served)
    assert found["problems"] == []
    assert "install the MPI Operator" in found["warnings"][0]
    (problem,) = asked(gb200(mpi_operator=True), served=served)["problems"]
    assert "group gb200 with rdma_compute_domain.mpi_operator" in problem
    assert asked(gb200(mpi_operator=True))["problems"] == []


def test_the_mpi_operator_comes_where_it_is_asked_for() -> None:
    served = {"resource.k8s.io": ["v1"]}
    assert asked(gb200(), served=served)["objects"] == []
    found = asked(t.cast("t.Any", {**gb200(mpi_operator="install"), "pull_secrets": ["pull"]}), served=served)
    assert (found["problems"], found["warnings"]) == ([], [])
    kinds = [item["kind"] for item in found["objects"]]
    assert kinds[:2] == ["CustomResourceDefinition", "Namespace"]
    assert kinds[-1] == "Deployment"
    (container,) = found["objects"][-1]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == sources.MPI_OPERATOR
    assert found["objects"][-1]["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert sources.MPI_OPERATOR in found["images"]
    assert found["waits"][-1]["name"] == "mpi-operator"
    assert ("MPI Operator", "0.8.0 in namespace mpi-operator") in found["summary"]
    # it stays asked for once it is there
    again = asked(gb200(mpi_operator="install"), served={**served, "kubeflow.org": ["v2beta1"]})
    assert [item["kind"] for item in again["objects"]] == kinds


def test_the_mpi_operators_definition_is_that_of_its_jobs_and_takes_ours() -> None:
    found = asked(gb200(mpi_operator="install", workloads=ALL))
    own = found["objects"][0]
    jobs = [item for items in found["workloads"].values() for item in items if item["kind"] == "MPIJob"]
    assert {item["apiVersion"] for item in jobs} == {f"{own['spec']['group']}/{own['spec']['versions'][0]['name']}"}
    # the controller writes the status apart
    assert own["spec"]["versions"][0]["subresources"] == {"status": {}}
    same_definition(own)
    schema = own["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert structural(schema)
    for item in jobs:
        jsonschema.Draft202012Validator(schema).validate(item)
    if definitions.FOLDER.is_dir():
        known = definitions.read("kubeflow.org_mpijobs.yaml")["mpijobs.kubeflow.org"]["spec"]["versions"][0]
        fields = known["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        filled = {
            key: row["default"] for key, row in schema["properties"]["spec"]["properties"].items() if "default" in row
        }
        assert filled == {key: row["default"] for key, row in fields.items() if "default" in row}


def test_every_image_is_listed() -> None:
    found = asked(gb200(workloads=ALL, gpus=True))
    text = json.dumps([found["workloads"]])
    images = {part.split('"')[0] for part in text.split('"image": "')[1:]}
    assert images == {sources.NVBANDWIDTH, ALL["nccl_image"]}
    assert images < set(found["images"])


# --- wishes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "problem"),
    [
        ({"version": 0.4}, "put it in quotes"),
        ({"versoin": "0.4.1"}, "did you mean version?"),
        ({"cliques": "two"}, "one of any, one"),
        ({"feature_gates": {"MPSSupport": "yes"}}, "feature_gates.MPSSupport is 'yes'"),
        ({"feature_gates": []}, "expected a dictionary"),
        ({"release": "Nvidia_DRA"}, "small letters"),
        ({"workloads": {"nodes": 0}}, "1 or more"),
        ({"host_imex": "unmask"}, "one of keep, mask, restore"),
    ],
)
def test_an_invalid_wish_is_reported(wish: Json, problem: str) -> None:
    (found,) = wish_problems("rdma_compute_domain", wish)
    assert problem in found


NAMES = st.sampled_from(["x", "/", "auto", "v1", "mask", "any"])
SCALARS = st.none() | st.booleans() | st.integers(0, 10**6) | NAMES
TREES = st.recursive(
    SCALARS, lambda inner: st.dictionaries(st.text(max_size=6), inner, max_size=2) | st.lists(inner, max_size=2)
)
WISHES = st.fixed_dictionaries(
    {},
    optional={
        "api_version": st.sampled_from(["auto", "v1", "v1beta1"]),
        "cliques": st.sampled_from(["any", "one"]),
        "driver_root": NAMES,
        "feature_gates": st.dictionaries(
            st.sampled_from(["X", "DynamicMIG", "IMEXDaemonsWithDNSNames"]), st.booleans()
        ),
        "gpus": st.booleans(),
        "host_imex": st.sampled_from(["keep", "mask", "restore"]),
        "imex": st.sampled_from(["driver", "host"]),
        "values": st.dictionaries(st.sampled_from(["image", "kubeletPlugin", "nameOverride", "resources", "x"]), TREES),
        "version": st.sampled_from(["0.4.1", "0.5.0", "25.3.2", OLDER, "1", 3, "9" * 30]),
        "workloads": st.fixed_dictionaries(
            {}, optional={"nodes": st.integers(1, 5) | st.just("2"), "nccl_image": NAMES}
        ),
    },
)
SITE = a_site({"gb200": ({}, GB200)})


@given(wish=WISHES, cluster=st.booleans(), seen=st.sets(st.sampled_from(GB200)))
def test_no_wish_that_is_let_through_ends_in_a_traceback(wish: Json, cluster: bool, seen: set[str]) -> None:
    assert wish_problems("rdma_compute_domain", wish) == []
    site: t.Any = {
        **SITE,
        "wishes": {"gb200": {**SITE["wishes"]["gb200"], "rdma_compute_domain": wish}},
        "facts": {name: SITE["facts"][name] for name in seen},
    }
    found = asked(site) if cluster else request({}, site)
    json.dumps(found)
    assert all(isinstance(problem, str) for problem in found["problems"])
    assert bool(found["charts"]) or bool(found["problems"]) or not wish
