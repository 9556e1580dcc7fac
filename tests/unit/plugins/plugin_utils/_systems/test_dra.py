# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import DRANET
from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems as wish_problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import request_of, wished_systems
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra import handover_classes, request
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_objects import without_devices
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.kept import scoped_plan
from ansible_collections.fabric.rdma.tests.unit.contracts import NOTHING_KNOWN
from ansible_collections.fabric.rdma.tests.unit.examples import examples
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._plan.plans import captured

Json = dict[str, Any]
SERVED = {"resource.k8s.io": ["v1", "v1beta2"], "apps": ["v1"]}
A100 = ("ib-a100-1", "ib-a100-2", "ib-a100-3")
RAILS = ("roce-rails-1", "roce-rails-2")
ETHERNET = {"link_layer": "Ethernet", "min_rate_gbps": 100}


def ready(facts: dict[str, Json]) -> dict[str, Json]:
    """The nodes with a containerd as DRANET needs it."""
    found = copy.deepcopy(facts)
    for own in found.values():
        own["runtime"]["containerd"].update(version="2.1.4", nri={"enabled": True, "socket": "/var/run/nri/nri.sock"})
        own["management"] = {"default_route_netdevs": [], "rdma_backed": False, "mounts_over_rdma": []}
    return found


def site(facts: dict[str, Json], groups: Json | None = None, allow_unusable: bool = False, **more: Any) -> Site:
    wishes = groups if groups is not None else {"g": {"hosts": list(facts), "resource": {"name": "rdma_x"}}}
    scoped, excusable = scoped_plan(plan_groups(facts, wishes), allow_unusable)
    found: Any = {
        "inventory": "default",
        "groups": {name: list(group["hosts"]) for name, group in wishes.items()},
        "wishes": {name: {} for name in wishes},
        "facts": facts,
        "plan": scoped,
        "excusable": excusable,
        "node_names": {},
        "registry": None,
        "pull_secrets": [],
        "charts": None,
        "cidrs": {},
        **more,
    }
    return found


def nodes(*names: str) -> dict[str, Json]:
    return ready(captured(*names))


def rails(**more: Any) -> Site:
    facts = nodes(*RAILS)
    return site(
        facts,
        {"roce": {"hosts": list(RAILS), "resource": {"name": "rdma_roce"}, "want": ETHERNET, "rails": True}},
        **more,
    )


def wish(**keys: Any) -> Json:
    found = {"engine": "dra", **keys}
    assert wish_problems("rdma_rollout", found) == []
    return found


def of_kind(found: Any, kind: str) -> list[Json]:
    return [item for item in found["objects"] if item["kind"] == kind]


def named(items: list[Json], name: str) -> Json:
    [item] = [item for item in items if item["metadata"]["name"] == name]
    return item


# -- What is asked for -----------------------------------------------------------------------------------------------


def test_a_class_gets_a_device_class_and_a_driver_on_its_nodes() -> None:
    found = request(wish(), site(nodes(*A100)), SERVED)
    assert found["problems"] == []
    assert [item["kind"] for item in found["objects"]] == [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "DeviceClass",
        "DeviceClass",
        "DaemonSet",
        "DaemonSet",
    ]
    for slug, numa in (("g-ibp33s0", 0), ("g-ibp161s0", 1)):
        attributes = 'device.attributes["dra.net"]'
        assert named(found["objects"], f"{slug}-rdma-x")["spec"] == {
            "selectors": [
                {
                    "cel": {
                        "expression": f'device.driver == "dra.net" && "rdma" in {attributes} && {attributes}.rdma && '
                        f'"pciAddress" in {attributes} && "pciDevice" in {attributes} && '
                        f'{attributes}.pciDevice == "MT28908 Family [ConnectX-6]" && "numaNode" in {attributes} && '
                        f"{attributes}.numaNode == {numa}"
                    }
                }
            ]
        }
        spec = named(found["objects"], f"dranet-{slug}")["spec"]["template"]["spec"]
        assert spec["nodeSelector"] == {"rdma.fabric/dra": slug}
    assert found["node_labels"] == {
        "ib-a100-2": {"rdma.fabric/dra": "g-ibp33s0"},
        "ib-a100-1": {"rdma.fabric/dra": "g-ibp161s0"},
        "ib-a100-3": {"rdma.fabric/dra": "g-ibp161s0"},
    }
    assert found["images"] == [DRANET]
    # their nodes get the label after them
    assert {wait["name"]: wait["nodes"] for wait in found["waits"]} == {"dranet-g-ibp33s0": 1, "dranet-g-ibp161s0": 2}


def test_the_driver_is_as_its_release_has_it() -> None:
    found = request(wish(), site(nodes("ib-v100-1")), SERVED)
    [item] = of_kind(found, "DaemonSet")
    assert item["spec"]["selector"]["matchLabels"].items() <= item["spec"]["template"]["metadata"]["labels"].items()
    spec = item["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert (spec["hostNetwork"], spec["serviceAccountName"], spec["tolerations"]) == (
        True,
        "dranet",
        [{"operator": "Exists"}],
    )
    assert container["securityContext"] == {"privileged": True}
    assert container["image"] == DRANET
    assert [argument for argument in container["args"] if not argument.startswith("--filter=")] == [
        "/dranet",
        "--v=2",
        "--hostname-override=$(NODE_NAME)",
        "--bind-address=:9177",
        "--cloud-provider-hint=NONE",
        "--kubelet-root-dir=/var/lib/kubelet",
        "--move-ib-interfaces=true",
    ]
    assert [volume["hostPath"]["path"] for volume in spec["volumes"]] == [
        "/var/lib/kubelet/plugins",
        "/var/lib/kubelet/plugins_registry",
        "/var/run/nri",
        "/var/run/netns",
        "/dev/infiniband",
        "/sys/fs/bpf",
        "/var/run/dranet",
    ]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    # kubelet and driver tell each other paths: they are the same inside
    assert all(mounts[volume["name"]] == volume["hostPath"]["path"] for volume in spec["volumes"])


def test_the_driver_may_what_its_release_asks_for() -> None:
    found = request(wish(), site(nodes("ib-v100-1")), SERVED)
    [role] = of_kind(found, "ClusterRole")
    allowed = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    group = "resource.k8s.io"
    assert allowed == {
        ("", "nodes", "get"),
        *(("", "events", verb) for verb in ("create", "patch", "update")),
        *((group, "resourceslices", verb) for verb in ("list", "watch", "create", "update", "delete")),
        (group, "resourceclaims", "get"),
        (group, "deviceclasses", "get"),
        *((group, "resourceclaims/status", verb) for verb in ("patch", "update")),
        *((group, "resourceclaims/driver", f"associated-node:{verb}") for verb in ("patch", "update")),
    }
    [binding] = of_kind(found, "ClusterRoleBinding")
    [account] = of_kind(found, "ServiceAccount")
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", **{key: account["metadata"][key] for key in ("name", "namespace")}}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


@pytest.mark.parametrize("share", ["²", "٣", "0", "101%", "some"])
def test_a_share_that_makes_no_sense_is_a_problem(share: str) -> None:
    """Some digits are none of a number, for Python or for Kubernetes."""
    found = request({**wish(), "dranet": {"max_unavailable": share}}, site(nodes("ib-v100-1")), SERVED)
    [problem] = found["problems"]
    assert problem.startswith(
        f"rdma_rollout.dranet.max_unavailable '{share}' is neither a number of nodes above 0 nor "
    )


@pytest.mark.parametrize("resources", [{"requests": {"cpu": "1"}}, {}])
def test_what_is_wished_of_the_driver_is_done(resources: Json) -> None:
    own = {
        "namespace": "dranet",
        "image": "mirror.example.com/dranet:v1.4.0",
        "image_digest": "sha256:" + "0" * 64,
        "move_ib_interfaces": False,
        "cloud_provider": "AWS",
        "port": 9999,
        "max_unavailable": "10%",
        "kubelet_root": "/data/kubelet/",
        "resources": resources,
    }
    found = request(wish(dranet=own, image_pull_secrets=["s"], tolerations=[]), site(nodes("ib-v100-1")), SERVED)
    [namespace] = of_kind(found, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    [item] = of_kind(found, "DaemonSet")
    assert item["metadata"]["namespace"] == "dranet"
    assert item["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "10%"}
    spec = item["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert (spec["imagePullSecrets"], spec["tolerations"]) == ([{"name": "s"}], [])
    assert container["image"] == f"{own['image']}@{own['image_digest']}"
    assert {"--move-ib-interfaces=false", "--cloud-provider-hint=AWS", "--bind-address=:9999"} <= set(container["args"])
    assert "--kubelet-root-dir=/data/kubelet" in container["args"]
    assert container["readinessProbe"]["httpGet"]["port"] == container["startupProbe"]["httpGet"]["port"] == 9999
    assert container["resources"] == resources
    assert spec["volumes"][0]["hostPath"]["path"] == "/data/kubelet/plugins"


@pytest.mark.parametrize(
    ("own", "opened"), [({}, False), ({"pod_security": False}, False), ({"pod_security": True}, True)]
)
def test_labels_of_kube_system_are_set_only_for_who_asks(own: Json, opened: bool) -> None:
    found = request(wish(dranet={"namespace": "kube-system", **own}), site(nodes("ib-v100-1")), SERVED)
    assert found["problems"] == []
    assert bool(of_kind(found, "Namespace")) is opened


def test_images_come_from_the_registry_of_the_site() -> None:
    found = request(wish(), site(nodes("ib-v100-1"), registry="mirror.example.com/all/"), SERVED)
    assert found["images"] == ["mirror.example.com/all/" + DRANET.partition("/")[2]]


def test_all_images_are_listed() -> None:
    found = request(wish(), rails(), SERVED)
    used = set(re.findall(r'"image": "([^"]+)"', json.dumps(found["objects"])))
    assert used == set(found["images"])


def test_a_kubelet_elsewhere_is_found_by_distribution() -> None:
    facts = nodes("ib-v100-1")
    facts["ib-v100-1"]["runtime"]["distribution"] = "k0s"
    [item] = of_kind(request(wish(), site(facts), SERVED), "DaemonSet")
    assert "--kubelet-root-dir=/var/lib/k0s/kubelet" in item["spec"]["template"]["spec"]["containers"][0]["args"]


def test_a_driver_that_publishes_nothing_differs_in_nothing_else() -> None:
    [item] = of_kind(request(wish(), site(nodes("ib-v100-1")), SERVED), "DaemonSet")
    drained = without_devices(item)
    own, other = (each["spec"]["template"]["spec"]["containers"][0] for each in (item, drained))
    assert [pair for pair in zip(own["args"], other["args"], strict=True) if pair[0] != pair[1]] == [
        (next(argument for argument in own["args"] if argument.startswith("--filter=")), "--filter=false")
    ]
    other["args"] = own["args"]
    assert drained == item


# -- Claims ----------------------------------------------------------------------------------------------------------


def templates(found: Any, file: str) -> dict[str, Json]:
    items = found["workloads"][file]
    return {
        item["metadata"]["name"]: item["spec"]["spec"]["devices"]
        for item in items
        if item["kind"] == "ResourceClaimTemplate"
    }


def test_a_class_without_rails_has_a_claim_for_one_and_for_all() -> None:
    found = request(wish(claims={"namespaces": ["train", "infer"]}), site(nodes("ib-v100-1")), SERVED)
    name = "g-device-1017-rdma-x"
    one = {"requests": [{"name": "rdma", "exactly": {"deviceClassName": name}}]}
    every = {"requests": [{"name": "rdma", "exactly": {"deviceClassName": name, "allocationMode": "All"}}]}
    assert templates(found, "g-device-1017-dra.yaml") == {name: one, f"{name}-all": every}
    applied = of_kind(found, "ResourceClaimTemplate")
    assert {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in applied} == {
        (namespace, each) for namespace in ("train", "infer") for each in (name, f"{name}-all")
    }


def test_rails_have_a_claim_each_and_one_for_all_with_a_request_per_rail() -> None:
    found = request(wish(), rails(), SERVED)
    [file] = list(found["workloads"])
    own = templates(found, file)
    [together] = [name for name in own if name.endswith("-rails")]
    assert [row["name"] for row in own[together]["requests"]] == [f"rail{number}" for number in range(1, 9)]
    classes = {item["metadata"]["name"] for item in of_kind(found, "DeviceClass")}
    assert len(classes) == 8
    assert {row["exactly"]["deviceClassName"] for row in own[together]["requests"]} == classes
    assert set(own) == {*classes, together}
    assert of_kind(found, "ResourceClaimTemplate") == [], "no namespace was named"


def test_the_pod_of_the_example_goes_to_the_nodes_of_the_class_and_has_its_claim() -> None:
    found = request(wish(), rails(), SERVED)
    [(file, items)] = list(found["workloads"].items())
    pod = items[-1]
    slug = file.removesuffix("-dra.yaml")
    assert pod["spec"]["nodeSelector"] == {"rdma.fabric/dra": slug}
    [claim] = pod["spec"]["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == f"{slug}-rails"
    assert pod["spec"]["containers"][0]["resources"]["claims"] == [{"name": claim["name"]}]


def with_gpus(*roots: str) -> dict[str, Json]:
    """A node of two functions below pci0000:5a, and a GPU below each of these roots."""
    facts = nodes("ib-v100-1")
    gpu = {"vendor": "10de", "device": "1db6", "numa_node": 0, "nearest": []}
    facts["ib-v100-1"]["gpus"] = [{**gpu, "pci": f"{root}:00.0", "bridges": [f"{root}:00.0"]} for root in roots]
    return facts


GPU = {"claims": {"gpu_class": "gpu.nvidia.com"}}


def test_a_device_and_a_gpu_are_below_one_root() -> None:
    found = request(wish(**GPU), site(with_gpus("0000:5a")), SERVED)
    name = "g-device-1017-rdma-x"
    assert templates(found, "g-device-1017-dra.yaml")[name + "-gpu"] == {
        "requests": [
            {"name": "rdma", "exactly": {"deviceClassName": name}},
            {"name": "rdma-gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}},
        ],
        "constraints": [{"requests": ["rdma", "rdma-gpu"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}],
    }


@pytest.mark.parametrize(
    ("roots", "words", "there"),
    [
        (["0000:aa"], "mlx5_0 of host ib-v100-1 is below pci0000:5a, where there is no GPU", False),
        ([], "where there is no GPU, and such a claim would wait for ever", False),
        (["0000:5a", "0000:5a"], "2 GPUs of host ib-v100-1 are below pci0000:5a, as is mlx5_0", True),
    ],
)
def test_a_gpu_that_no_claim_would_get_is_reported(roots: list[str], words: str, there: bool) -> None:
    found = request(wish(**GPU), site(with_gpus(*roots)), SERVED)
    assert found["problems"] == []
    assert len([text for text in found["warnings"] if words in text]) == 1
    assert ("g-device-1017-rdma-x-gpu" in templates(found, "g-device-1017-dra.yaml")) is there


@pytest.mark.parametrize("roots", [["0000:5a"], ["0000:aa"]])
def test_data_direct_is_reported_with_cards_that_have_it(roots: list[str]) -> None:
    facts = with_gpus(*roots)
    for row in facts["ib-v100-1"]["devices"]:
        row.update(device="1023", model="ConnectX-8")
    found = request(wish(**GPU), site(facts), SERVED)
    assert (
        len(
            [
                text
                for text in found["warnings"]
                if "is a ConnectX-8, which reaches GPUs by its Data Direct function" in text
            ]
        )
        == 1
    )


def test_gpus_of_gb200_are_below_other_roots() -> None:
    found = request(wish(**GPU), site(nodes("gb200-1", "gb200-2")), SERVED)
    assert found["problems"] == []
    assert any(
        "mlx5_0 of host gb200-1 is below pci0000:00, where there is no GPU" in text for text in found["warnings"]
    )
    assert not any(name.endswith("-gpu") for file in found["workloads"] for name in templates(found, file))


# -- What it is for --------------------------------------------------------------------------------------------------


def test_classes_move_by_group_and_by_name() -> None:
    facts = nodes(*A100, "ib-v100-1")
    groups = {
        "a": {"hosts": list(A100), "resource": {"name": "rdma_a"}},
        "v": {"hosts": ["ib-v100-1"], "resource": {"name": "rdma_v"}},
    }

    def moved(**classes: Any) -> list[str]:
        found, _common, problems = handover_classes(wish(classes=classes), site(facts, groups), SERVED)
        assert problems == []
        return [each["name"] for each in found]

    assert sorted(moved()) == ["a-ibp161s0", "a-ibp33s0", "v-device-1017"]
    assert sorted(moved(groups=["a"])) == ["a-ibp161s0", "a-ibp33s0"]
    assert moved(groups=["a"], names=["a-ibp33s0"]) == ["a-ibp33s0"]
    assert moved(names=["v-device-1017"]) == ["v-device-1017"]


def test_a_moved_class_says_what_the_plugin_offers_and_dranet_publishes() -> None:
    [each], _common, problems = handover_classes(
        wish(), site(nodes("ib-v100-1"), node_names={"ib-v100-1": "node-1"}), SERVED
    )
    assert problems == []
    assert (each["nodes"], each["resources"]) == (["node-1"], {"rdma/rdma_x": 63})
    assert each["devices"] == {"node-1": ["pci-0000-5e-00-0", "pci-0000-5e-00-1"]}


def test_pods_that_others_would_get_name_the_nodes_they_need() -> None:
    facts = nodes("ib-v100-1", "ib-v100-2")
    groups = {
        "a": {"hosts": ["ib-v100-1"], "resource": {"name": "rdma_a"}},
        "b": {"hosts": ["ib-v100-2"], "resource": {"name": "rdma_b"}, "want": {"exclude": ["mlx5_1"]}},
    }
    found = request(wish(), site(facts, groups), SERVED)
    [text] = [text for text in found["warnings"] if "DeviceClass a-" in text]
    assert "also matches mlx5_0 of host ib-v100-2" in text
    assert re.search(
        r"Pods that ask for it need the nodeSelector rdma\.fabric/dra: a-\S+, as in the workload files", text
    )


def test_one_pod_at_a_time_is_told_where_many_shared() -> None:
    found = request(wish(), site(nodes("ib-v100-1")), SERVED)
    assert any("with DRANET a function is one Pod's at a time" in text for text in found["warnings"])
    alone = {"g": {"hosts": ["ib-v100-1"], "resource": {"name": "rdma_x", "hca_max": 1}}}
    assert request(wish(), site(nodes("ib-v100-1"), alone), SERVED)["warnings"] == []


# -- What is refused -------------------------------------------------------------------------------------------------


def refused(facts: dict[str, Json], served: Any = (), groups: Json | None = None, **keys: Any) -> list[str]:
    found = request(wish(**keys), site(facts, groups), SERVED if served == () else served)
    assert found["problems"]
    assert (found["objects"], found["images"], found["waits"], found["workloads"]) == ([], [], [], {})
    return found["problems"]


@pytest.mark.parametrize(
    ("served", "words"),
    [
        ({"apps": ["v1"]}, "does not serve resource.k8s.io/v1 (it serves no version of it)"),
        ({"resource.k8s.io": ["v1beta2", "v1beta1"]}, "does not serve resource.k8s.io/v1 (it serves v1beta1, v1beta2)"),
    ],
)
def test_an_api_server_without_claims_is_refused(served: Json, words: str) -> None:
    [problem] = refused(nodes("ib-v100-1"), served)
    assert words in problem
    assert "Kubernetes 1.34 or newer has it" in problem


def test_a_render_asks_no_api_server() -> None:
    assert request(wish(), site(nodes("ib-v100-1")))["problems"] == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": "1.7.15"}, "containerd 1.7.15 is too old for DRANET, which needs 1.7.16 or newer"),
        ({"version": "1.6.33"}, "containerd 1.6.33 is too old"),
        ({"nri": {"enabled": False, "socket": "/var/run/nri/nri.sock"}}, "NRI is off in containerd"),
        ({"nri": {"enabled": True, "socket": "/run/other.sock"}}, "NRI of containerd listens on /run/other.sock"),
    ],
)
def test_a_runtime_that_cannot_is_refused_with_its_host(change: Json, words: str) -> None:
    facts = nodes("ib-v100-1", "ib-v100-2")
    facts["ib-v100-2"]["runtime"]["containerd"].update(change)
    [problem] = refused(facts)
    assert problem.startswith(f"host ib-v100-2: {words}")


@pytest.mark.parametrize("version", ["1.7.16", "1.7.27", "2.0.0", "2.1.5-k3s1"])
def test_a_runtime_that_can_is_taken(version: str) -> None:
    facts = nodes("ib-v100-1")
    facts["ib-v100-1"]["runtime"]["containerd"]["version"] = version
    assert request(wish(), site(facts), SERVED)["problems"] == []


def test_what_is_not_known_of_a_runtime_is_reported() -> None:
    facts = nodes("ib-v100-1", "ib-v100-2")
    del facts["ib-v100-1"]["runtime"]["containerd"]["nri"]
    facts["ib-v100-2"]["runtime"]["containerd"]["version"] = None
    found = request(wish(), site(facts), SERVED)
    assert found["problems"] == []
    assert sum("it is not known whether NRI is on" in text for text in found["warnings"]) == 1
    assert sum("the version of containerd is not known there" in text for text in found["warnings"]) == 1


def test_a_node_without_containerd_is_refused_but_for_cri_o() -> None:
    facts = nodes("ib-v100-1")
    facts["ib-v100-1"]["runtime"]["containerd"] = None
    [problem] = refused(facts)
    assert "no containerd was found there" in problem
    facts["ib-v100-1"]["runtime"]["services"]["crio"] = True
    found = request(wish(), site(facts), SERVED)
    assert found["problems"] == []
    assert any("CRI-O runs there: see that NRI is on" in text for text in found["warnings"])


def test_nodes_with_old_runtimes_are_refused_with_one_sentence_a_reason() -> None:
    facts = captured(*A100, "ib-v100-1")
    groups = {
        "a": {"hosts": list(A100), "resource": {"name": "rdma_a"}},
        "v": {"hosts": ["ib-v100-1"], "resource": {"name": "rdma_v"}},
    }
    found = refused(facts, groups=groups)
    assert sum("containerd 1.6.33 is too old for DRANET" in text for text in found) == 1
    assert [text[:44] for text in found if "NRI is off" in text] == ["host ib-v100-1: NRI is off in containerd, th"]


def test_a_host_without_a_usable_port_keeps_its_group_as_it_is_unless_that_is_allowed() -> None:
    facts = nodes("ib-v100-1", "ib-v100-2")
    for row in facts["ib-v100-2"]["devices"]:
        for port in row["ports"]:
            port["state"] = "Down"
    found = request(wish(), site(facts), SERVED)
    assert [text.partition(":")[0] for text in found["problems"]] == ["group g has no whole plan of this run"]
    assert found["problems"][0].endswith("or rdma_allow_unusable is true")
    assert request(wish(), site(facts, allow_unusable=True), SERVED)["problems"] == []


def test_an_uplink_is_refused() -> None:
    facts = nodes("ib-v100-1")
    facts["ib-v100-1"]["management"]["default_route_netdevs"] = ["ibp94s0f1"]
    [problem] = refused(facts)
    assert problem == (
        "host ib-v100-1: mlx5_1 (0000:5e:00.1) carries the default route (ibp94s0f1), and DRANET publishes no such device: exclude it "
        "(rdma_want.exclude)"
    )


def test_a_netdev_below_the_default_route_is_refused() -> None:
    """Such as that of a VLAN: DRANET leaves out the netdev of the route, and what is enslaved to it, and moves this one."""
    facts = nodes("ib-v100-1")
    facts["ib-v100-1"]["management"]["default_route_netdevs"] = ["ibp94s0f1.8001"]
    facts["ib-v100-1"]["roce"] = {"under_default_route": ["ibp94s0f1", "ibp94s0f1.8001"]}
    [problem] = refused(facts)
    assert problem == (
        "host ib-v100-1: mlx5_1 (0000:5e:00.1) carries the default route (ibp94s0f1), and DRANET would move it into a Pod: exclude it "
        "(rdma_want.exclude)"
    )


def test_a_member_of_a_bond_is_refused() -> None:
    facts = nodes(*RAILS)
    facts["roce-rails-1"]["devices"][0]["ports"][0]["netdevs"][0]["master"] = "bond7"
    groups = {"g": {"hosts": list(RAILS), "resource": {"name": "r"}, "want": ETHERNET}}
    [problem] = refused(facts, groups=groups)
    assert "is part of bond7, and DRANET would take its netdev out of it" in problem


def test_mounts_over_rdma_are_refused_unless_their_netdevs_stay_or_the_operator_says_so() -> None:
    facts = nodes("ib-v100-1")
    mount = {"target": "/data", "source": "198.51.100.1:/x", "via": "nfs-rdma"}
    facts["ib-v100-1"]["management"]["mounts_over_rdma"] = [mount]
    [problem] = refused(facts)
    assert "host ib-v100-1 has 198.51.100.1:/x on /data (nfs-rdma)" in problem
    for own in ({"move_ib_interfaces": False}, {"allow_mounts": True}):
        assert request(wish(dranet=own), site(facts), SERVED)["problems"] == []
    facts = nodes(*RAILS)
    facts["roce-rails-1"]["management"]["mounts_over_rdma"] = [mount]
    groups = {"g": {"hosts": list(RAILS), "resource": {"name": "r"}, "want": ETHERNET}}
    assert len(refused(facts, groups=groups, dranet={"move_ib_interfaces": False})) == 1, (
        "those of Ethernet move all the same"
    )


def test_a_model_of_which_a_slice_takes_no_name_is_refused() -> None:
    facts = nodes("ib-v100-1")
    for row in facts["ib-v100-1"]["devices"]:
        row["device"] = "a2df"
    assert any("DRANET publishes nothing of a node with mlx5_0 (BF4 Family" in text for text in refused(facts))


def test_a_host_without_facts_is_refused() -> None:
    facts = nodes("ib-v100-1", "ib-v100-2")
    whole = site(facts)
    whole["facts"] = {"ib-v100-1": facts["ib-v100-1"]}
    found = request(wish(), whole, SERVED)
    assert found["objects"] == []
    assert any(text.startswith("host ib-v100-2: there are no facts") for text in found["problems"])


def test_a_group_without_a_whole_plan_is_refused() -> None:
    groups = {"g": {"hosts": ["ib-v100-1", "gone"], "resource": {"name": "rdma_x"}}}
    [problem] = refused(nodes("ib-v100-1"), groups=groups)
    assert problem.startswith("group g has no whole plan of this run: ")


def test_all_that_is_wrong_is_said_at_once() -> None:
    facts = nodes("ib-v100-1")
    facts["ib-v100-1"]["runtime"]["containerd"]["version"] = "1.6.0"
    found = refused(
        facts,
        {"resource.k8s.io": ["v1beta1"]},
        dranet={"version": "1.2.0", "image_digest": "sha256:1", "kubelet_root": "here"},
        classes={"groups": ["g", "h"], "names": ["other"]},
    )
    for words in (
        "rdma_rollout.dranet.version is 1.2.0; known here is the line 1.4, such as 1.4.0",
        "rdma_rollout.dranet.image_digest is sha256:1",
        "rdma_rollout.classes.groups names h, which this run did not plan (planned: g)",
        "rdma_rollout.classes.names: no class of the groups g, h is called other (there are g-device-1017)",
        "does not serve resource.k8s.io/v1",
    ):
        assert sum(words in text for text in found) == 1, words


@pytest.mark.parametrize(
    "image", ["registry.example.com:5000/dranet", "registry.example.com/dranet:latest", "dranet:stable"]
)
def test_an_image_that_may_change_is_refused(image: str) -> None:
    [problem] = refused(nodes("ib-v100-1"), dranet={"image": image})
    assert f"rdma_rollout.dranet.image is {image}, which is not pinned" in problem


def test_names_that_two_classes_would_share_are_refused() -> None:
    facts = nodes("ib-v100-1", "ib-v100-2")
    groups = {
        "a": {"hosts": ["ib-v100-1"], "resource": {"name": "device_1017_x"}, "want": {"exclude": ["none"]}},
        "a-device-1017": {"hosts": ["ib-v100-2"], "resource": {"name": "x"}},
    }
    whole = site(facts, groups)
    whole["plan"]["groups"]["a"]["classes"][0]["name"] = "a"
    whole["plan"]["groups"]["a-device-1017"]["classes"][0]["name"] = "a-device-1017"
    found = request(wish(), whole, SERVED)
    assert [text for text in found["problems"] if "DeviceClass" in text] == [
        "classes a and a-device-1017 would both have a DeviceClass a-device-1017-x: rename a group or a resource (rdma_resource.name)"
    ]


def test_nothing_to_move_asks_for_nothing() -> None:
    found = request(wish(), site({}, {}), SERVED)
    assert (found["objects"], found["problems"]) == ([], [])
    assert found["warnings"] == [
        "engine: dra has no class to serve: every class of the plan is left with the device plugin"
    ]


# -- Any wish --------------------------------------------------------------------------------------------------------

TRUTH = st.sampled_from([True, False, "yes", "no", 1, 0])
WORDS = st.sampled_from(
    ["g", "a:b", "a/b:latest", "sha256:x", "sha256:" + "0" * 64, "/x", "auto", "é", "x" * 300, "x@sha256:0"]
)
RESOURCES = st.fixed_dictionaries({}, optional={"limits": st.just({"cpu": 1}), "requests": st.just({})})
WISH = st.fixed_dictionaries(
    {},
    optional={
        "classes": st.fixed_dictionaries(
            {},
            optional=dict.fromkeys(
                ("groups", "names"), st.lists(st.sampled_from(["g", "g-device-1017", "other"]), max_size=2)
            ),
        ),
        "claims": st.fixed_dictionaries(
            {},
            optional={
                "gpu_class": st.sampled_from([None, "gpu.nvidia.com"]),
                "namespaces": st.lists(st.sampled_from(["default", "train"]), max_size=3),
            },
        ),
        "dranet": st.fixed_dictionaries(
            {},
            optional={
                **dict.fromkeys(("allow_mounts", "move_ib_interfaces", "pod_security"), TRUTH),
                **dict.fromkeys(("image", "kubelet_root", "priority_class"), WORDS),
                "image_digest": st.none() | WORDS,
                "namespace": st.sampled_from([None, "dranet", "kube-system"]),
                "cloud_provider": st.sampled_from(["NONE", "AWS"]),
                "max_unavailable": st.sampled_from([1, "1", "10%", "100%", 5]),
                "port": st.sampled_from([1024, "9177", 65535]),
                "resources": RESOURCES,
                "version": st.sampled_from([None, "1.4.0", "v1.4.1", "1.3.0", 1, "stable"]),
            },
        ),
        "namespace": st.sampled_from(["kube-system", "Kube", "x" * 64]),
        "tolerations": st.lists(st.just({"operator": "Exists"}), max_size=1),
        "image_pull_secrets": st.lists(WORDS, max_size=1),
    },
)


@examples(200)
@given(WISH, st.booleans())
def test_no_wish_that_is_let_through_ends_in_a_traceback(given_wish: Json, known: bool) -> None:
    found = request(wish(**given_wish), site(nodes("ib-v100-1")), SERVED if known else {"apps": ["v1"]})
    assert not (found["problems"] and found["objects"])
    assert known or found["problems"]
    json.dumps(found)


@pytest.mark.parametrize(
    ("given_wish", "words"),
    [
        ({"dranet": {"cloud_provider": "aws"}}, "rdma_rollout.dranet.cloud_provider is 'aws'; expected one of NONE"),
        ({"dranet": {"port": 80}}, "rdma_rollout.dranet.port is 80; expected a port from 1024 to 65535"),
        (
            {"dranet": {"namespace": "Kube_System"}},
            "rdma_rollout.dranet.namespace is 'Kube_System'; expected a namespace",
        ),
        ({"dranet": {"verison": "1.4.0"}}, "rdma_rollout.dranet has no key verison"),
        (
            {"claims": {"namespaces": ["a", "B"]}},
            "rdma_rollout.claims.namespaces is ['a', 'B']; expected a list of namespaces",
        ),
        ({"claims": {"gpu_class": "GPU"}}, "rdma_rollout.claims.gpu_class is 'GPU'; expected the name of an object"),
        ({"classes": {"groups": "g"}}, "rdma_rollout.classes.groups is 'g'; expected a list of names"),
        ({"operator_version": "26.4.1"}, "rdma_rollout has no key operator_version with engine: dra"),
    ],
)
def test_an_invalid_wish_is_not_let_through(given_wish: Json, words: str) -> None:
    [problem] = wish_problems("rdma_rollout", {"engine": "dra", **given_wish})
    assert problem.startswith(words)


def test_classes_that_stay_with_the_plugin_have_their_wishes_too() -> None:
    assert wish_problems("rdma_rollout", {"engine": "dra", "image": "a:1", "max_unavailable": 2}) == []


def test_keys_of_dranet_are_no_other_engines() -> None:
    [problem] = wish_problems("rdma_rollout", {"engine": "daemonset", "dranet": {}})
    assert problem.startswith("rdma_rollout has no key dranet with engine: daemonset")


@pytest.mark.parametrize(
    ("rollout", "names"),
    [
        (None, ["device_plugin"]),
        ({"engine": "daemonset"}, ["device_plugin"]),
        ({"engine": "dra"}, ["dra"]),
    ],
)
def test_the_engine_asks_for_it(rollout: Json | None, names: list[str]) -> None:
    assert wished_systems({"g": {}}, {"rdma_rollout": rollout}) == names


def test_it_is_found_by_its_name() -> None:
    assert request_of("dra", wish(), site(nodes("ib-v100-1")), {**NOTHING_KNOWN, "served": SERVED})["system"] == "dra"
    found = request_of("dra", wish(), site(nodes("ib-v100-1")), {**NOTHING_KNOWN, "served": {"apps": ["v1"]}})
    assert any("does not serve resource.k8s.io/v1" in text for text in found["problems"])
