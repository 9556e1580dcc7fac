# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Multus as we install it: on the nodes' own paths, with no more rights than it needs, and as its definition is known elsewhere."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import MULTUS
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import CLASS_LABEL, DRA_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import ManifestError
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cni_install import cni_directories, node_set
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.multus import multus_objects
from ansible_collections.fabric.rdma.tests.cluster import definitions
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import a_site
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.network_sites import IB, networked_site

Json = dict[str, t.Any]
NAME = "network-attachment-definitions.k8s.cni.cncf.io"


def made(wish: Json | None = None, site: Site | None = None) -> list[Json]:
    wish = wish or {}
    assert problems("rdma_multus", wish) == []
    site = site or networked_site({"ib": IB})
    directories, wrong = cni_directories(site, wish)
    assert wrong == []
    return multus_objects(wish, site, directories)[0]


def one(objects: list[Json], kind: str) -> Json:
    (found,) = [item for item in objects if item["kind"] == kind]
    return found


def pod_of(item: Json) -> Json:
    pod: Json = item["spec"]["template"]["spec"]
    return pod


def structural(schema: Json) -> bool:
    """As the API server insists: every field has a type."""
    return "type" in schema and all(
        structural(each)
        for each in [
            *schema.get("properties", {}).values(),
            *(schema[key] for key in ("items", "additionalProperties") if key in schema),
        ]
    )


def same_definition(own: Json) -> None:
    """Ours serves the same kinds as the one of its project, which others rely on. Where there is none, the summary of the run says so."""
    if not definitions.FOLDER.is_dir():
        return
    name = own["metadata"]["name"]
    plural, _dot, group = name.partition(".")
    known = definitions.read(f"{group}_{plural}.yaml")[name]
    spec, other = own["spec"], known["spec"]
    assert (spec["group"], spec["scope"]) == (other["group"], other["scope"])
    for key in ("kind", "plural", "singular", "shortNames"):
        assert spec["names"].get(key) == other["names"].get(key)
    assert [(row["name"], row["served"], row["storage"]) for row in spec["versions"]] == [
        (row["name"], row["served"], row["storage"]) for row in other["versions"]
    ]


def test_the_definition_is_that_of_multus() -> None:
    own = one(made(), "CustomResourceDefinition")
    assert own["metadata"]["name"] == NAME
    assert structural(own["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    same_definition(own)


def test_the_definition_comes_first_and_may_be_left_to_others() -> None:
    assert made()[0]["kind"] == "CustomResourceDefinition"
    assert all(item["kind"] != "CustomResourceDefinition" for item in made({"crd": False}))


def test_names_are_those_that_any_other_multus_has() -> None:
    """A second one is then somebody else's object, which nothing takes over by itself."""
    names = {(item["kind"], item["metadata"]["name"]) for item in made()}
    assert {("DaemonSet", "kube-multus-ds"), ("ClusterRole", "multus"), ("ClusterRoleBinding", "multus")} <= names


def test_it_needs_no_more_rights_than_it_uses() -> None:
    rules = one(made(), "ClusterRole")["rules"]
    verbs = {
        (group, resource): set(rule["verbs"])
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert all("*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]] for rule in rules)
    assert (
        verbs[("", "pods")] == verbs[("k8s.cni.cncf.io", "network-attachment-definitions")] == {"get", "list", "watch"}
    )
    # the annotation with the state of the networks
    assert {"get", "update"} <= verbs[("", "pods/status")]
    binding = one(made({"namespace": "cni"}), "ClusterRoleBinding")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "multus", "namespace": "cni"}]
    assert binding["roleRef"]["name"] == one(made(), "ClusterRole")["metadata"]["name"]


def test_its_pods_are_in_the_network_of_the_node_and_not_privileged() -> None:
    pod = pod_of(one(made(), "DaemonSet"))
    (container,) = pod["containers"]
    assert pod["hostNetwork"] is True
    assert pod["serviceAccountName"] == "multus"
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["priorityClassName"] == "system-node-critical"
    assert container["image"] == MULTUS
    security = container["securityContext"]
    assert "privileged" not in security
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]}
    # a memory limit on a Pod that only watches files: the program itself runs as a child of the container runtime
    assert container["resources"]["limits"]["memory"] == "256Mi"


def test_every_path_of_an_argument_is_mounted_or_on_the_node() -> None:
    item = one(made(), "DaemonSet")
    pod = pod_of(item)
    (container,) = pod["containers"]
    arguments = dict(argument.lstrip("-").split("=", 1) for argument in container["args"])
    mounts = {row["mountPath"]: row["name"] for row in container["volumeMounts"]}
    places = {row["name"]: row["hostPath"]["path"] for row in pod["volumes"]}
    assert (
        places[mounts[arguments["cni-conf-dir"]]]
        == places[mounts[arguments["multus-autoconfig-dir"]]]
        == "/etc/cni/net.d"
    )
    assert places[mounts[arguments["cni-bin-dir"]]] == "/opt/cni/bin"
    assert arguments["multus-kubeconfig-file-host"] == "/etc/cni/net.d/multus.d/multus.kubeconfig"
    assert arguments["multus-conf-file"] == "auto"
    # only so does it renew its token, and leave a node that can start Pods when it goes
    assert arguments["cleanup-config-on-exit"] == "true"
    assert "skip-config-watch" not in arguments


def test_selectors_are_part_of_the_labels() -> None:
    spec = one(made(), "DaemonSet")["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert spec["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "10%"}
    for wished in (3, "3"):
        own = one(made({"max_unavailable": wished}), "DaemonSet")["spec"]
        assert own["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 3}


def test_a_share_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ManifestError, match="max_unavailable '²' is neither a number of nodes above 0 nor "):
        node_set("x", "x", "kube-system", {}, {"max_unavailable": "²"})


@pytest.mark.parametrize(
    ("distribution", "config", "programs"),
    [
        ("kubeadm", "/etc/cni/net.d", "/opt/cni/bin"),
        ("rke2", "/etc/cni/net.d", "/opt/cni/bin"),
        ("k0s", "/etc/cni/net.d", "/opt/cni/bin"),
        ("k3s", "/var/lib/rancher/k3s/agent/etc/cni/net.d", "/var/lib/rancher/k3s/data/cni"),
        ("microk8s", "/var/snap/microk8s/current/args/cni-network", "/var/snap/microk8s/current/opt/cni/bin"),
    ],
)
def test_paths_are_those_of_the_distribution(distribution: str, config: str, programs: str) -> None:
    site = a_site({"ib": IB})
    for facts in site["facts"].values():
        facts["runtime"]["distribution"] = distribution
    pod = pod_of(one(made(site=site), "DaemonSet"))
    assert [row["hostPath"]["path"] for row in pod["volumes"]] == [config, programs]
    assert f"--multus-kubeconfig-file-host={config}/multus.d/multus.kubeconfig" in pod["containers"][0]["args"]


def test_paths_are_those_that_containerd_is_told() -> None:
    """Debian's package brings a configuration with another directory of plugins; facts of earlier versions do not tell."""
    site = a_site({"ib": IB})
    told = {"config": "/etc/cni/net.d", "programs": "/usr/lib/cni"}
    for facts in site["facts"].values():
        facts["runtime"]["containerd"]["cni"] = told
    pod = pod_of(one(made(site=site), "DaemonSet"))
    assert [row["hostPath"]["path"] for row in pod["volumes"]] == ["/etc/cni/net.d", "/usr/lib/cni"]
    # of another node
    own = site["facts"]["ib-a100-2"]["runtime"]
    del own["containerd"]["cni"]
    _directories, (wrong,) = cni_directories(site, {})
    assert "/etc/cni/net.d and /usr/lib/cni on ib-a100-1 (kubeadm)" in wrong
    assert "/etc/cni/net.d and /opt/cni/bin on ib-a100-2 (kubeadm)" in wrong
    own["containerd"] = None
    assert len(cni_directories(site, {})[1]) == 1
    # its own containerd is told a directory of the version
    for facts in site["facts"].values():
        facts["runtime"]["distribution"] = "k3s"
    assert cni_directories(site, {})[0].programs == "/var/lib/rancher/k3s/data/cni"


def test_nodes_of_two_distributions_are_refused_unless_paths_are_given() -> None:
    site = a_site({"ib": IB})
    site["facts"]["ib-a100-2"]["runtime"]["distribution"] = "k3s"
    _directories, wrong = cni_directories(site, {})
    assert len(wrong) == 1
    assert "/etc/cni/net.d and /opt/cni/bin on ib-a100-1 (kubeadm)" in wrong[0]
    assert "/var/lib/rancher/k3s/agent/etc/cni/net.d and /var/lib/rancher/k3s/data/cni on ib-a100-2 (k3s)" in wrong[0]
    given = {"cni_conf_dir": "/cni/conf", "cni_bin_dir": "/cni/bin"}
    assert cni_directories(site, given) == (("/cni/conf", "/cni/bin"), [])
    # of which nobody knows where its own are
    for host in set(site["facts"]) - {"ib-a100-2"}:
        del site["facts"][host]["runtime"]
    directories, wrong = cni_directories(site, {})
    assert (directories.programs, wrong) == ("/var/lib/rancher/k3s/data/cni", [])


def test_wishes_reach_the_pods() -> None:
    site = networked_site({"ib": IB}, registry="mirror.example.com/all/", pull_secrets=["pull"])
    wish = {
        "version": "4.2.4",
        "namespace": "cni",
        "nodes": "rdma",
        "api_server": "[2001:db8::1]:6443",
        "priority_class": "mine",
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "resources": {"limits": {"memory": "1Gi"}},
    }
    item = one(made(wish, site), "DaemonSet")
    pod = pod_of(item)
    (container,) = pod["containers"]
    assert item["metadata"]["namespace"] == "cni"
    assert container["image"] == "mirror.example.com/all/k8snetworkplumbingwg/multus-cni:v4.2.4"
    assert container["env"] == [
        {"name": "KUBERNETES_SERVICE_HOST", "value": "2001:db8::1"},
        {"name": "KUBERNETES_SERVICE_PORT", "value": "6443"},
    ]
    assert container["resources"] == wish["resources"]
    assert (pod["priorityClassName"], pod["tolerations"]) == ("mine", wish["tolerations"])
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    # nodes that DRANET serves have the second one
    assert terms == [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in (CLASS_LABEL, DRA_LABEL)]
    # an image of the user's own is taken as it is
    (own,) = pod_of(one(made({"image": "example.com/multus:1"}, site), "DaemonSet"))["containers"]
    assert own["image"] == "example.com/multus:1"
