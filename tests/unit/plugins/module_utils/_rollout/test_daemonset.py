# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import (
    label_scope,
    label_scripts,
    plan_manifests,
    rollout_request,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import CLASS_LABEL, INVENTORY_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import ManifestError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.operator import operator_request
from ansible_collections.fabric.rdma.tests.unit.contracts import a_class, a_config, a_group, a_plan

DEFAULTS = Path(__file__).resolve().parents[5] / "roles" / "device_plugin" / "defaults" / "main.yml"
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
SETTINGS = {
    "namespace": "kube-system",
    "image": "registry.example/plugin:v1",
    "priority_class": "system-node-critical",
    "kubelet_root": "/var/lib/kubelet/",
    "tolerations": [{"operator": "Exists"}],
    "resources": {"limits": {"memory": "100Mi"}},
}


def entry(name: str, **selectors: list[str]) -> dict[str, Any]:
    return a_class(name, "n", selectors=selectors, config=a_config("x", **selectors) if selectors else None)


def plan(**groups: list[dict[str, Any]]) -> dict[str, Any]:
    return a_plan(**{name: a_group(*classes) for name, classes in groups.items()})


def test_the_objects_of_a_class_belong_together() -> None:
    objects = plan_manifests(plan(ib_a100=[entry("ib_a100-ib0", ifNames=["ib0"])]), SETTINGS)
    assert list(objects) == ["ib_a100/ib-a100-ib0-configmap.yaml", "ib_a100/ib-a100-ib0-daemonset.yaml"]
    config_map, daemon_set = list(objects.values())
    for each in objects.values():
        assert each["metadata"]["name"] == "rdma-shared-dp-ib-a100-ib0"
        assert each["metadata"]["namespace"] == "kube-system"
    assert json.loads(config_map["data"]["config.json"])["configList"][0]["selectors"] == {"ifNames": ["ib0"]}
    template = daemon_set["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert (
        daemon_set["metadata"]["labels"] == config_map["metadata"]["labels"] == {**labels, INVENTORY_LABEL: "default"}
    )
    assert INVENTORY_LABEL not in labels, "Pods do not restart when an inventory gets a name"
    assert daemon_set["spec"]["selector"]["matchLabels"].items() <= labels.items()
    pod = template["spec"]
    assert pod["nodeSelector"] == {CLASS_LABEL: "ib-a100-ib0"}
    assert (pod["tolerations"], pod["priorityClassName"]) == (SETTINGS["tolerations"], SETTINGS["priority_class"])
    assert pod["volumes"][0]["hostPath"]["path"] == "/var/lib/kubelet/device-plugins"
    [container] = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert pod["volumes"][-1]["configMap"]["name"] == config_map["metadata"]["name"]


def checksum(value: dict[str, Any]) -> str:
    daemon_set = plan_manifests(value, SETTINGS)["g/g-daemonset.yaml"]
    annotations = daemon_set["spec"]["template"]["metadata"]["annotations"]
    return str(annotations["rdma.fabric/config-sha256"])


def test_the_checksum_follows_the_configuration() -> None:
    first = plan(g=[entry("g", vendors=["15b3"], deviceIDs=["1017"])])
    same = plan(g=[entry("g", deviceIDs=["1017"], vendors=["15b3"])])
    other = plan(g=[entry("g", vendors=["15b3"], deviceIDs=["101b"])])
    assert checksum(first) == checksum(copy.deepcopy(first)) == checksum(same)
    assert checksum(first) != checksum(other)
    moved = copy.deepcopy(first)
    moved["groups"]["g"]["classes"][0]["hosts"] = ["another"]
    assert checksum(first) == checksum(moved), "a host more must not roll the Pods"


def test_software_devices_have_no_objects() -> None:
    assert plan_manifests(plan(soft=[entry("soft")]), SETTINGS) == {}


TAKEN = "classes '{}' of group {} and '{}' of group {} would both be named '{}' in Kubernetes; rename one of the groups"


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"a-b": ["a-b"], "a_b": ["a_b"]}, TAKEN.format("a-b", "a-b", "a_b", "a_b", "a-b")),
        # a group may be called what a class of another one is called
        ({"ib": ["ib-eth0"], "ib-eth0": ["ib-eth0"]}, TAKEN.format("ib-eth0", "ib", "ib-eth0", "ib-eth0", "ib-eth0")),
        ({"__": ["__"]}, "class '__' has no letter or digit to make an object name of"),
    ],
)
def test_names_that_cannot_be_are_refused(groups: dict[str, list[str]], message: str) -> None:
    classes = {group: [entry(name, vendors=["x"]) for name in names] for group, names in groups.items()}
    with pytest.raises(ManifestError, match=f"^{re.escape(message)}$"):
        plan_manifests(plan(**classes), SETTINGS)


@pytest.mark.parametrize(
    ("group", "directory"), [("..", "_"), ("../up", "__up"), (".hidden", "_hidden"), ("a/b", "a_b")]
)
def test_no_group_leads_out_of_the_directory(group: str, directory: str) -> None:
    objects = plan_manifests(plan(**{group: [entry("ib", ifNames=["ib0"])]}), SETTINGS)
    assert {path.rpartition("/")[0] for path in objects} == {directory}


def test_the_labels_are_what_the_daemon_set_selects() -> None:
    value = plan(ib_a100=[entry("ib_a100-ib0", ifNames=["ib0"])], soft=[entry("soft-software")])
    value["groups"]["ib_a100"]["classes"][0]["hosts"] = ["n1.example.com", "n2"]
    ((path, script),) = list(label_scripts(value).items())
    assert path == "ib_a100/ib-a100-ib0-labels.sh"
    selector = plan_manifests(value, SETTINGS)["ib_a100/ib-a100-ib0-daemonset.yaml"]["spec"]["template"]["spec"]
    [(key, label)] = selector["nodeSelector"].items()
    assert [line for line in script.splitlines() if line.startswith("kubectl")] == [
        f"kubectl label node '{host}' '{key}={label}' --overwrite" for host in ("n1.example.com", "n2")
    ]
    assert "exit" not in script


def test_scripts_label_nodes_by_the_names_that_they_have() -> None:
    """Of two hosts with the names of each other's node, too: a label on the wrong one brings it the plugin of another class."""
    value = plan(a=[entry("a", vendors=["a"])], b=[entry("b", vendors=["b"])])
    for name, host in (("a", "n1"), ("b", "not a node")):
        value["groups"][name]["classes"][0]["hosts"] = [host]
    scripts = label_scripts(value, {"n1": "n2", "not a node": "n1"})
    lines = [line for script in scripts.values() for line in script.splitlines()]
    assert [line for line in lines if line.startswith(("kubectl", "exit"))] == [
        f"kubectl label node 'n2' '{CLASS_LABEL}=a' --overwrite",
        f"kubectl label node 'n1' '{CLASS_LABEL}=b' --overwrite",
    ]


@given(st.text(min_size=1, max_size=80))
def test_no_name_of_a_host_is_more_than_a_word_of_a_script(name: str) -> None:
    value = plan(g=[entry("g", vendors=["15b3"])])
    value["groups"]["g"]["classes"][0]["hosts"] = [name]
    (script,) = list(label_scripts(value).values())
    lines = script.split("\n")
    node = re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", name, re.ASCII)
    if node and not re.search(r"\.\.|\.-|-\.", name):
        assert lines[-2] == f"kubectl label node '{name}' 'rdma.fabric/class=g' --overwrite"
    else:
        assert [line for line in lines if not line.startswith("#")] == [
            "set -eu",
            "echo '1 hosts are not labelled, see the end of this file' >&2",
            "exit 1",
            "",
        ]
        assert script.isascii()


def test_a_group_that_was_not_planned_keeps_its_names_and_gets_no_objects() -> None:
    value = plan(a=[entry("x", vendors=["x"])], b=[entry("x", vendors=["x"])])
    value["groups"]["a"]["planned"] = False
    with pytest.raises(ManifestError, match="would both be named 'x'"):
        plan_manifests(value, SETTINGS)
    value["groups"]["b"]["classes"][0]["name"] = "y"
    assert {path.split("/")[0] for path in (*plan_manifests(value, SETTINGS), *label_scripts(value))} == {"b"}


# --- rollout -------------------------------------------------------------------------------------------------------


def pools(name: str, *hosts: str, count: int = 63) -> dict[str, Any]:
    return a_class(name, *hosts, config=a_config("rdma_x", count, vendors=["15b3"]))


def daemon_set(settings: dict[str, Any], **distributions: str) -> dict[str, Any]:
    value = plan(g=[pools("g", *(distributions or {"n": ""}))])
    result: dict[str, Any] = plan_manifests(value, {**settings, "distributions": distributions})["g/g-daemonset.yaml"]
    return result


def test_what_the_rollout_of_a_plan_asks_for() -> None:
    value = plan(a=[pools("a", "a2", "a1")], b=[pools("b", "b1", count=5)])
    request = rollout_request(
        value, {**SETTINGS, "node_names": {"b1": "node-7"}, "pod_security": True}, ["a", "b", "all"]
    )
    assert [each["kind"] for each in request["objects"]] == ["Namespace", *["ConfigMap"] * 2, *["DaemonSet"] * 2]
    assert request["nodes"] == {"a1": "a", "a2": "a", "node-7": "b"}
    assert request["classes"][1] == {
        "name": "b",
        "group": "b",
        "daemon_set": "rdma-shared-dp-b",
        "namespace": "kube-system",
        "nodes": ["node-7"],
        "resources": {"rdma/rdma_x": 5},
    }
    assert request["keep"] == ["all"]


RAILS = [{"resource": f"rdma/r{rail}", "rail": rail, "selectors": {"ifNames": [f"eth{rail}"]}} for rail in (1, 2)]


@pytest.mark.parametrize("cdi", [True, "yes", False])
def test_cdi_with_several_rails_is_warned_of(cdi: bool | str) -> None:
    """pkg/cdi of the plugin: annotations of all resources have one key, and the kubelet skips those that it has."""
    value = plan(a=[{**pools("a", "a1"), "pools": RAILS[:1]}], b=[{**pools("b", "b1"), "pools": RAILS}])
    daemonset = rollout_request(value, {**SETTINGS, "cdi": cdi})
    operator = operator_request(value, {"version": "26.4.1", "cdi": cdi})
    assert daemonset["warnings"] == operator["warnings"]
    assert [text.split(",", maxsplit=1)[0] for text in daemonset["warnings"]] == (
        ["rdma_rollout.cdi: on nodes of class b"] if cdi else []
    )


@pytest.mark.parametrize(
    ("namespace", "wish", "opened"),
    [
        ("kube-system", "auto", False),
        ("kube-system", False, False),
        ("kube-system", "true", True),
        ("rdma", "auto", True),
        ("rdma", "False", False),
    ],
)
def test_labels_of_kube_system_are_set_only_for_who_asks(namespace: str, wish: bool | str, opened: bool) -> None:
    settings = {**SETTINGS, "namespace": namespace, "pod_security": wish}
    request = rollout_request(plan(a=[pools("a", "a1")]), settings)
    assert ("Namespace" in [each["kind"] for each in request["objects"]]) is opened


def test_a_group_that_kubernetes_calls_as_a_planned_one_keeps_nothing() -> None:
    """Kubespray's inventories have kube-node beside kube_node: what is no longer asked for would never be removed."""
    value = plan(kube_node=[pools("a", "a1")], other=[pools("b", "b1")])
    groups = ["all", "kube-node", "kube_node", "other"]
    assert rollout_request(value, SETTINGS, groups)["keep"] == ["all"]
    value["groups"]["kube_node"]["planned"] = False
    assert rollout_request(value, SETTINGS, groups)["keep"] == ["all", "kube-node"]


def test_a_group_with_hosts_that_lost_their_ports_stays_as_it_is() -> None:
    value = plan(a=[pools("a", "a1")], b=[pools("b", "b1")])
    value["groups"]["b"]["errors"] = ["b2: no usable port"]
    kept = rollout_request(value, SETTINGS)
    assert (kept["keep"], kept["nodes"]) == (["b"], {"a1": "a"})
    assert rollout_request(value, SETTINGS, allow_unusable=True)["nodes"] == {"a1": "a", "b1": "b"}


def test_a_group_with_hosts_whose_facts_cannot_be_used_stays_as_it_is_whatever_is_allowed() -> None:
    value = plan(a=[pools("a", "a1")], b=[pools("b", "b1")])
    value["groups"]["b"].update(malformed={"b2": "host b2: its facts cannot be used"}, errors=["host b2: ..."])
    for allow in (False, True):
        kept = rollout_request(value, SETTINGS, allow_unusable=allow)
        assert (kept["keep"], kept["nodes"]) == (["b"], {"a1": "a"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image": "registry.example:5000/plugin"}, "image 'registry.example:5000/plugin' is not pinned"),
        ({"image": "plugin:latest"}, "is not pinned"),
        ({"image_digest": "sha256:12"}, "is not sha256: and 64 hexadecimal digits"),
        ({"max_unavailable": 0}, "max_unavailable '0' is neither"),
        ({"max_unavailable": "²"}, "max_unavailable '²' is neither"),
        ({"max_unavailable": "٣"}, "max_unavailable '٣' is neither"),
        ({"max_unavailable": "101%"}, "max_unavailable '101%' is neither"),
        ({"node_names": {"n": "Not_A_Node"}}, "host n of class 'g': 'Not_A_Node' cannot be the name of a node"),
    ],
)
def test_settings_that_no_object_can_have(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match=re.escape(message)):
        rollout_request(plan(g=[pools("g", "n")]), {**SETTINGS, **settings})


def test_from_which_nodes_a_label_may_go() -> None:
    value = {
        **plan(g=[pools("g", "n1")]),
        "remove": ["Old Group", "n9", "gone"],
        "removed": {"o1": "Old Group", "n9": "g"},
    }
    inventory = {"g": ["n1", "n2"], "all": ["n1", "n2", "x"]}
    scope = label_scope(value, {"node_names": {"n2": "node-2", "n9": "node-9"}}, inventory)
    assert scope["known"] == ["n1", "node-2"], "hosts of the groups of the plan, by the names of their nodes"
    assert {"o1", "node-9", "old-group", "gone"} <= set(scope["remove"])
    assert label_scope(plan(g=[pools("g", "n1")]), {}, {}) == {"known": [], "remove": []}


def test_two_hosts_are_not_one_node() -> None:
    value = plan(g=[pools("g", "n1")], h=[pools("h", "n2")])
    with pytest.raises(ManifestError, match="node n1 would be in the classes 'g' and 'h'"):
        rollout_request(value, {**SETTINGS, "node_names": {"n2": "n1"}})


def test_settings_of_the_daemon_set() -> None:
    digest = "sha256:" + "0" * 64
    spec = daemon_set(
        {**SETTINGS, "image_digest": digest, "max_unavailable": "10%", "cdi": True, "image_pull_secrets": ["mirror"]}
    )["spec"]
    pod = spec["template"]["spec"]
    assert spec["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "10%"}
    assert pod["imagePullSecrets"] == [{"name": "mirror"}]
    assert pod["containers"][0]["image"] == "registry.example/plugin:v1@" + digest
    assert pod["containers"][0]["args"] == ["--use-cdi"]
    assert pod["volumes"][-1]["hostPath"] == {"path": "/var/run/cdi", "type": "DirectoryOrCreate"}


def test_the_default_image_comes_from_the_mirror_that_all_images_come_from() -> None:
    """With the digest that it has everywhere; an image that is named comes from where it is named."""
    (line,) = re.findall(r"^device_plugin_image: .*default\('(.*)'\)", DEFAULTS.read_text(), re.MULTILINE)
    mirrored = {**SETTINGS, "image": line, "registry": "mirror.example:5000/all/"}
    (container,) = daemon_set(mirrored)["spec"]["template"]["spec"]["containers"]
    assert re.fullmatch(
        r"mirror\.example:5000/all/mellanox/k8s-rdma-shared-dev-plugin:v[0-9.]+@sha256:[0-9a-f]{64}", container["image"]
    )
    (container,) = daemon_set({**mirrored, "image": "own.example/plugin:v1"})["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "own.example/plugin:v1"


def test_the_default_image_is_pinned() -> None:
    (line,) = re.findall(r"^device_plugin_image: .*default\('(.*)'\)", DEFAULTS.read_text(), re.MULTILINE)
    for image, wanted in (
        (line, f"{line}@sha256:[0-9a-f]{{64}}"),
        ("mirror.example/plugin:v1.5.3", "mirror.example/plugin:v1.5.3"),
        (f"{line}@sha256:{'0' * 64}", f"{line}@sha256:{'0' * 64}"),
    ):
        pod = daemon_set({**SETTINGS, "image": image})["spec"]["template"]["spec"]
        assert re.fullmatch(wanted, pod["containers"][0]["image"])
    pod = daemon_set({**SETTINGS, "image": line, "image_digest": "sha256:" + "0" * 64})["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"].endswith("0" * 64), "who knows better says so"


@pytest.mark.parametrize(
    ("distribution", "root"),
    [("kubeadm", "/var/lib/kubelet"), ("k3s", "/var/lib/kubelet"), ("k0s", "/var/lib/k0s/kubelet")],
)
def test_the_directory_of_the_kubelet_follows_the_distribution(distribution: str, root: str) -> None:
    pod = daemon_set({**SETTINGS, "kubelet_root": "auto"}, n=distribution)["spec"]["template"]["spec"]
    assert pod["volumes"][0]["hostPath"]["path"] == root + "/device-plugins"
    assert pod["containers"][0]["volumeMounts"][0]["mountPath"] == "/var/lib/kubelet/device-plugins"


def test_one_class_on_two_distributions_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"the kubelet of host \w has its directory in .* make them groups"):
        daemon_set({**SETTINGS, "kubelet_root": "auto"}, a="k0s", b="kubeadm")
