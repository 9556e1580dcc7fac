# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/rbac.yml on a real API server: the playbooks work with exactly its rights, and use all of them."""

from __future__ import annotations

import base64
import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.tests.cluster.cluster import AUDIT_FILE
from ansible_collections.fabric.rdma.tests.cluster.test_drain import away, drained, work
from ansible_collections.fabric.rdma.tests.cluster.test_interrupted import module
from ansible_collections.fabric.rdma.tests.cluster.test_operator import define, in_folder
from ansible_collections.fabric.rdma.tests.unit.documentation import blocks, commands
from ansible_collections.fabric.rdma.tests.unit.kubeconfigs import typed, written
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_pods import a_pair

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = yaml.safe_load((ROOT / "docs" / "rbac.yml").read_text())["items"]
NAME = "fabric-rdma"
USER = f"system:serviceaccount:{NAME}:{NAME}"
# A Lease is renewed by rollouts that take longer than these (test_lease.py).
RARE = {(NAME, "leases", "update")}

# Server-side apply of an object that is not there asks for this right, too; the audit log has it as a patch alone.
UNSEEN = {(NAME, "configmaps", "create"), (NAME, "daemonsets", "create")}

# (namespace or "" for all of the cluster, resource, verb)
Right = tuple[str, str, str]


def granted() -> set[Right]:
    return {
        (document["metadata"].get("namespace", ""), resource, verb)
        for document in DOCUMENTS
        if document["kind"] in ("Role", "ClusterRole")
        for rule in document["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(directory: Path) -> dict[str, set[Right]]:
    """What the user of the manifest has asked for, other than which kinds there are, by what the server decided: allow or forbid."""
    rights: dict[str, set[Right]] = {"allow": set(), "forbid": set()}
    namespaces = {where for where, _resource, _verb in granted()}
    for line in (directory / AUDIT_FILE).read_text().splitlines():
        event = json.loads(line)
        target = event.get("objectRef")
        if event["user"]["username"] == USER and target and "resource" in target:
            resource = "/".join(target[key] for key in ("resource", "subresource") if key in target)
            decision = event["annotations"]["authorization.k8s.io/decision"]
            # in a namespace of somebody else it has the rights that it has everywhere
            where = target.get("namespace", "")
            rights[decision].add((where if where in namespaces else "", resource, event["verb"]))
    return rights


@pytest.fixture
def account(site: Site) -> t.Iterator[Path]:
    """The kubeconfig that docs/security.md has a user type, of the manifest's ServiceAccount, which has its rights and no others."""
    for document in DOCUMENTS:
        # as kubectl does it: what the field manager fabric.rdma has applied would be the collection's own
        site.kube.request("POST", site.kube.path(document).rpartition("/")[0], "make", body=document)
    path = f"/api/v1/namespaces/{NAME}/serviceaccounts/{NAME}/token"
    token = site.kube.request("POST", path, "ask for a token", body={"spec": {}})
    (cluster,) = [each["cluster"] for each in json.loads(site.kubeconfig.read_text())["clusters"]]
    authority = site.directory / "ca.crt"
    authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    page = [line for block in blocks("docs/security.md", "console") for line in commands(block)]
    lines = [
        re.sub(r"\$\([^)]*\)", token["status"]["token"], line)
        .replace("https://api.example.com:6443", cluster["server"])
        .replace("/etc/kubernetes/pki/ca.crt", str(authority))
        for line in page
        if line.startswith("kubectl config ")
    ]
    assert lines
    yield Path(written(site.directory, typed(lines)))
    for document in DOCUMENTS:
        if document["kind"] not in ("Namespace", "ServiceAccount"):
            site.kube.request("DELETE", site.kube.path(document), "delete")


def test_the_manifest_suffices_and_has_nothing_too_much(site: Site, mortal: t.Any, account: Path) -> None:
    """All that the documentation has a user run against a cluster, first to last."""
    for definition in in_folder().values():
        define(site.kube, definition)
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    site.rollout.update(namespace=NAME, pod_security=False)
    site.run("rollout", "--check", user=account)
    site.run("rollout", user=account)
    assert sorted(site.classes()) == ["v100-1", "v100-2"]
    # The playbook measures on live hosts only; its module makes Pods, looks at them and removes them as it does there.
    pods = {"image": "registry.example/perftest:1", "namespace": NAME, "timeout": 2}
    pods["node_names"] = {"lab1": "v100-1", "lab2": "v100-2"}
    looks = [{"host": host, "resources": ["rdma/rdma_v100"]} for host in ("v100-1", "v100-2")]
    for measured in ({"looks": looks, "rounds": []}, {"rounds": [[a_pair()]]}):
        with module(account, {**pods, **measured}, check=False, name="pod_traffic") as process:
            said = process.communicate()[0]
        assert " may not " not in said, said
    site.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": "rdma"}})
    work(site, "ReplicaSet")
    drained(site, then=["uncordon"], ofed_kubeconfig=str(account))
    assert (away(site), site.node("v100-1")["spec"].get("unschedulable")) == (None, None)
    site.run("doctor", user=account)
    unread = json.loads((site.directory / "output" / "doctor.json").read_text())["unread"]
    assert not [line for line in unread if "may not" in line]
    site.kubelets.give_up("v100-2", "rdma/old")
    stale = {"rdma_stale_resources": ["rdma/old"], "rdma_stale_verify": int(limit(1))}
    assert "v100-2" in site.run("cleanup_stale", "-e", json.dumps(stale), user=account)
    # other systems need rights of their own, also to go
    only = {"rdma_uninstall_systems": ["device_plugin"]}
    site.run("uninstall", "-e", json.dumps(only), user=account)
    assert (site.objects(), site.classes()) == ({}, {})

    used = asked(Path(mortal.directory))
    print("asked for:", *sorted(used["allow"]), sep="\n")
    assert used["forbid"] == set()
    assert granted() - used["allow"] - RARE - UNSEEN == set(), "rights that nothing uses"
