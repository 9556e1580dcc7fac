# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/rbac.yml on a real API server: each part suffices where the others that may be left out are left out, and all of it is used."""

from __future__ import annotations

import base64
import bisect
import contextlib
import datetime
import json
import re
import time
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
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube
    from conftest import Site

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = yaml.safe_load((ROOT / "docs" / "rbac.yml").read_text())["items"]
NAME = "fabric-rdma"
# What may be left out. Both also grant rights that others need, for whom they must not stand in: neither for NAME nor for each other.
CLEANUP, DRAIN = f"{NAME}-cleanup", f"{NAME}-drain"
PARTS = (NAME, CLEANUP, DRAIN)
USER = f"system:serviceaccount:{NAME}:{NAME}"
# A Lease is renewed by rollouts that take longer than these (test_lease.py).
RARE = {(NAME, "leases", "update")}

# Server-side apply of an object that is not there asks for this right, too; the audit log has it as a patch alone.
UNSEEN = {(NAME, "configmaps", "create"), (NAME, "daemonsets", "create")}

# (namespace or "" for all of the cluster, resource, verb)
Right = tuple[str, str, str]


def granted(*parts: str) -> set[Right]:
    return {
        (document["metadata"].get("namespace", ""), resource, verb)
        for document in DOCUMENTS
        if document["kind"] in ("Role", "ClusterRole") and document["metadata"]["name"] in parts
        for rule in document["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class Manifest:
    """docs/rbac.yml in the cluster: at first without what may be left out."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        # From when on which part was there: NAME stands for no other, any other for itself beside NAME.
        self.since: list[tuple[str, str]] = []

    def make(self, part: str) -> None:
        for document in DOCUMENTS:
            if document["metadata"]["name"] == part:
                # as kubectl does it: what the field manager fabric.rdma has applied would be the collection's own
                place = self.kube.path(document).rpartition("/")[0]
                self.kube.request("POST", place, "make", body=document)

    def delete(self, part: str) -> None:
        for document in DOCUMENTS:
            if document["metadata"]["name"] == part and document["kind"] not in ("Namespace", "ServiceAccount"):
                self.kube.request("DELETE", self.kube.path(document), "delete")

    def begins(self, part: str) -> None:
        # as the audit log has it
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.since.append((now, part))

    def may(self, right: Right) -> bool:
        namespace, resource, verb = right
        (main, _slash, sub) = resource.partition("/")
        attributes = {"namespace": namespace, "resource": main, "subresource": sub, "verb": verb}
        body = {"spec": {"user": USER, "resourceAttributes": attributes}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        answer = self.kube.request("POST", path, "ask who may", body=body)
        return bool(answer["status"]["allowed"])

    def waits(self, part: str, there: bool) -> None:
        """The server goes by a binding, or no longer does, a moment after it has been told."""
        own = granted(part) - granted(NAME)
        assert own, f"{part} grants nothing of its own"
        end = time.monotonic() + limit(30)
        while any(self.may(right) is not there for right in own):
            assert time.monotonic() < end, f"the server does not go by {part}"
            time.sleep(0.1)

    @contextlib.contextmanager
    def also(self, part: str) -> t.Iterator[None]:
        self.make(part)
        try:
            self.waits(part, there=True)
            self.begins(part)
            yield
        finally:
            self.delete(part)
        self.waits(part, there=False)
        self.begins(NAME)

    def asked(self, directory: Path) -> dict[str, dict[str, set[Right]]]:
        """What its user has asked for, other than which kinds there are: by the part that was there beside NAME, and by what the server
        decided (allow or forbid)."""
        rights: dict[str, dict[str, set[Right]]] = {part: {"allow": set(), "forbid": set()} for part in PARTS}
        namespaces = {where for where, _resource, _verb in granted(*PARTS)}
        for line in (directory / AUDIT_FILE).read_text().splitlines():
            event = json.loads(line)
            target = event.get("objectRef")
            # when it was asked, not when it was written: that may be a moment later
            number = bisect.bisect(self.since, (event["requestReceivedTimestamp"],))
            if event["user"]["username"] == USER and target and "resource" in target and number:
                resource = "/".join(target[key] for key in ("resource", "subresource") if key in target)
                decision = event["annotations"]["authorization.k8s.io/decision"]
                # in a namespace of somebody else it has the rights that it has everywhere
                where = target.get("namespace", "")
                right = (where if where in namespaces else "", resource, event["verb"])
                rights[self.since[number - 1][1]][decision].add(right)
        return rights


@pytest.fixture
def manifest(site: Site) -> t.Iterator[Manifest]:
    assert {document["metadata"]["name"] for document in DOCUMENTS} == set(PARTS)
    there = Manifest(site.kube)
    there.make(NAME)
    there.begins(NAME)
    yield there
    there.delete(NAME)


@pytest.fixture
def account(site: Site, manifest: Manifest) -> Path:
    """The kubeconfig that docs/security.md has a user type, of the manifest's ServiceAccount, which has its rights and no others."""
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
    return Path(written(site.directory, typed(lines)))


def test_the_manifest_suffices_and_has_nothing_too_much(
    site: Site, mortal: t.Any, manifest: Manifest, account: Path
) -> None:
    """rollout, doctor and uninstall, and of verify the module, without what may be left out. Then the rest, each with its own part only:
    cleanup_stale, and of prepare what drains a node and puts it back."""
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
    site.run("doctor", user=account)
    unread = json.loads((site.directory / "output" / "doctor.json").read_text())["unread"]
    assert not [line for line in unread if "may not" in line]

    # both on nodes that have a device plugin, as they are run
    site.kube.request("POST", "/api/v1/namespaces", "make", body={"metadata": {"name": "rdma"}})
    work(site, "ReplicaSet")
    with manifest.also(DRAIN):
        drained(site, then=["uncordon"], ofed_kubeconfig=str(account))
    assert (away(site), site.node("v100-1")["spec"].get("unschedulable")) == (None, None)
    site.kubelets.give_up("v100-2", "rdma/old")
    stale = {"rdma_stale_resources": ["rdma/old"], "rdma_stale_verify": int(limit(1))}
    with manifest.also(CLEANUP):
        assert "v100-2" in site.run("cleanup_stale", "-e", json.dumps(stale), user=account)

    # other systems need rights of their own, also to go
    only = {"rdma_uninstall_systems": ["device_plugin"]}
    site.run("uninstall", "-e", json.dumps(only), user=account)
    assert (site.objects(), site.classes()) == ({}, {})

    asked = manifest.asked(Path(mortal.directory))
    for part in PARTS:
        print(f"asked for with {part}:", *sorted(asked[part]["allow"]), sep="\n")
    assert {part: asked[part]["forbid"] for part in PARTS} == {part: set() for part in PARTS}
    unused = {part: granted(part) - asked[part]["allow"] - RARE - UNSEEN for part in PARTS}
    assert unused == {part: set() for part in PARTS}, "rights that nothing uses"
