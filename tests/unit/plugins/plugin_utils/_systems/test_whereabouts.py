# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whereabouts as we install it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import WHEREABOUTS
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cni_install import CniDirectories, cni_directories
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.whereabouts import (
    whereabouts_file,
    whereabouts_objects,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import a_site
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.network_sites import (
    IB,
    config,
    infiniband,
    networked_site,
    of_kind,
    sane,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.test_multus import (
    one,
    pod_of,
    same_definition,
    structural,
)

Json = dict[str, t.Any]
USUAL = CniDirectories("/etc/cni/net.d", "/opt/cni/bin")
K3S = CniDirectories("/var/lib/rancher/k3s/agent/etc/cni/net.d", "/var/lib/rancher/k3s/data/cni")
KINDS = ("IPPool", "NodeSlicePool", "OverlappingRangeIPReservation")


def made(wish: Json | None = None, directories: CniDirectories = USUAL, **more: t.Any) -> list[Json]:
    assert problems("rdma_whereabouts", wish or {}) == []
    return whereabouts_objects(wish or {}, networked_site({"ib": IB}, **more), directories)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_definitions_are_those_of_whereabouts(kind: str) -> None:
    (own,) = [
        item for item in made() if item["kind"] == "CustomResourceDefinition" and item["spec"]["names"]["kind"] == kind
    ]
    assert structural(own["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    same_definition(own)


def test_definitions_come_first_and_may_be_left_to_others() -> None:
    assert [item["kind"] for item in made()[:3]] == ["CustomResourceDefinition"] * 3
    assert all(item["kind"] != "CustomResourceDefinition" for item in made({"crd": False}))


def test_the_schema_of_a_pool_knows_what_is_written_into_it() -> None:
    pool = made()[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert set(pool["required"]) == {"range", "allocations"}
    assert set(pool["properties"]["allocations"]["additionalProperties"]["properties"]) == {"id", "ifname", "podref"}


def test_a_pool_that_has_given_no_address_keeps_no_definition() -> None:
    """Whereabouts makes pools itself, and leaves them; what says that an address is in use has no such field."""
    definitions = {item["spec"]["names"]["kind"]: item["metadata"].get("annotations") for item in made()[:3]}
    assert definitions == {
        "IPPool": {"rdma.fabric/spent-without": "spec.allocations"},
        "NodeSlicePool": None,
        "OverlappingRangeIPReservation": None,
    }


def test_its_pods_write_where_the_plugin_on_the_node_reads() -> None:
    pod = pod_of(one(made(), "DaemonSet"))
    (container,) = pod["containers"]
    variables = {row["name"]: row.get("value") for row in container["env"]}
    mounts = {row["mountPath"]: row["name"] for row in container["volumeMounts"]}
    places = {row["name"]: row["hostPath"]["path"] for row in pod["volumes"]}
    # its script takes /host away to know the path on the node
    assert (
        places[mounts[variables["CNI_CONF_DIR"]]] == variables["CNI_CONF_DIR"].removeprefix("/host") == "/etc/cni/net.d"
    )
    assert places[mounts[variables["CNI_BIN_DIR"]]] == "/opt/cni/bin"
    # the script would sleep for ever, and the control loop never start
    assert variables["SLEEP"] == "false"
    fields = {row["name"]: row["valueFrom"]["fieldRef"]["fieldPath"] for row in container["env"] if "valueFrom" in row}
    assert fields == {"NODENAME": "spec.nodeName", "WHEREABOUTS_NAMESPACE": "metadata.namespace"}
    assert container["image"] == WHEREABOUTS
    assert container["command"][:2] == ["/bin/sh", "-c"]
    # what is stopped with the Pod is the control loop itself, not a shell that passes no signal on
    assert container["command"][2].splitlines()[-1].startswith("exec /ip-control-loop")
    assert pod["hostNetwork"] is True
    assert "privileged" not in container["securityContext"]


def test_elsewhere_the_plugin_is_told_of_its_file_and_the_control_loop_finds_it() -> None:
    pod = pod_of(one(made(directories=K3S), "DaemonSet"))
    mounts = {row["mountPath"] for row in pod["containers"][0]["volumeMounts"] if row["name"] == "cni-config"}
    assert mounts == {"/host" + K3S.config, "/host/etc/cni/net.d"}
    assert whereabouts_file(USUAL) is None
    assert whereabouts_file(K3S) == f"{K3S.config}/whereabouts.d/whereabouts.conf"
    wish = {"name": "ib", "kind": "ipoib", "ipam": {"type": "whereabouts", "range": "10.20.0.0/24"}}
    found = sane(
        infiniband(
            wish, wish={"whereabouts": {"install": True, "cni_conf_dir": K3S.config, "cni_bin_dir": K3S.programs}}
        )
    )
    plugin = config(of_kind(found, "NetworkAttachmentDefinition")[0])["plugins"][0]
    assert plugin["ipam"]["configuration_path"] == whereabouts_file(K3S)


def test_one_reconciler_gives_back_what_lost_nodes_had() -> None:
    item = one(made({"reconcile": "*/30 * * * *"}), "Deployment")
    assert (item["spec"]["replicas"], item["spec"]["strategy"]) == (1, {"type": "Recreate"})
    pod = pod_of(item)
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["volumeMounts"] == [{"name": "schedule", "mountPath": "/cron-schedule"}]
    schedule = one(made({"reconcile": "*/30 * * * *"}), "ConfigMap")
    assert schedule["data"] == {"cron-expression": "*/30 * * * *"}
    (volume,) = pod["volumes"]
    assert volume["configMap"]["name"] == schedule["metadata"]["name"]
    assert volume["configMap"]["items"] == [{"key": "cron-expression", "path": "config"}]


def test_selectors_are_part_of_the_labels_and_tell_its_workloads_apart() -> None:
    selectors = []
    for kind in ("DaemonSet", "Deployment"):
        spec = one(made(), kind)["spec"]
        assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
        selectors.append(spec["selector"]["matchLabels"])
    assert selectors[0] != selectors[1]


def test_wishes_reach_both() -> None:
    wish = {"version": "v0.9.2", "namespace": "cni", "api_server": "127.0.0.1:6443"}
    objects = made(wish, registry="mirror.example.com", pull_secrets=["pull"])
    for kind in ("DaemonSet", "Deployment"):
        item = one(objects, kind)
        pod = pod_of(item)
        (container,) = pod["containers"]
        assert item["metadata"]["namespace"] == "cni"
        assert container["image"] == "mirror.example.com/k8snetworkplumbingwg/whereabouts:v0.9.2"
        assert {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"} in container["env"]
        assert pod["imagePullSecrets"] == [{"name": "pull"}]


def test_it_needs_no_more_rights_than_it_uses() -> None:
    rules = one(made(), "ClusterRole")["rules"]
    assert all("*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]] for rule in rules)
    changed = {resource for rule in rules if "delete" in rule["verbs"] for resource in rule["resources"]}
    assert changed == {"ippools", "nodeslicepools", "overlappingrangeipreservations", "leases"}


def test_a_site_of_two_distributions_is_refused_before_anything_is_installed() -> None:
    site = a_site({"ib": IB})
    site["facts"]["ib-a100-2"]["runtime"]["distribution"] = "k3s"
    assert cni_directories(site, {})[1]
