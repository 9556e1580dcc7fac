# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removing NVIDIA's DRA driver, against an API server that plays: its Pods take devices back, and nobody else does."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.integration.test_longhorn_removal import (
    GIVEN_UP,
    LEASE,
    RECORDS,
    RELEASE,
    Cluster,
    kinds,
    the_record,
)

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

Json = dict[str, t.Any]
NAME = "nvidia-dra-driver-gpu"
RECORD = f"{RECORDS}/fabric-rdma-compute-domain"
CLAIMS, DOMAINS = "/apis/resource.k8s.io/v1", "/apis/resource.nvidia.com/v1beta1"
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: fabric.rdma.compute_domain}
      vars: {compute_domain_method: remove}
"""


def named(name: str, **more: t.Any) -> Json:
    return {"metadata": {"namespace": "training", "name": name}, **more}


def cluster(claims: t.Sequence[Json] = (), domains: t.Sequence[Json] = ()) -> Cluster:
    """One with a release of the driver that is ours, and that has gone once it is looked for again."""
    found = Cluster(ours=False, volumes=0)
    record = the_record("")
    record["metadata"]["name"] = "fabric-rdma-compute-domain"
    record["metadata"]["labels"]["rdma.fabric/system"] = "compute-domain"
    record["data"]["charts"] = json.dumps([f"{NAME}/{NAME}"])
    releases = f"/api/v1/namespaces/{NAME}/secrets"
    for group, version in (("resource.k8s.io", "v1"), ("resource.nvidia.com", "v1beta1")):
        row = {"groupVersion": f"{group}/{version}", "version": version}
        found.answers["/apis"]["groups"].append({"name": group, "versions": [row], "preferredVersion": row})
    found.answers |= {
        RECORD: record,
        RECORDS: {"apiVersion": "v1", "kind": "ConfigMapList", "items": [record]},
        releases: {"metadata": {}, "items": [RELEASE]},
        "/api/v1/nodes": {"metadata": {}, "items": []},
        "/apis/networking.k8s.io/v1/servicecidrs": {"metadata": {}, "items": []},
        CLAIMS: kinds("resource.k8s.io/v1", resourceclaims="ResourceClaim"),
        f"{CLAIMS}/resourceclaims": {"metadata": {}, "items": list(claims)},
        DOMAINS: kinds("resource.nvidia.com/v1beta1", computedomains="ComputeDomain"),
        f"{DOMAINS}/computedomains": {"metadata": {}, "items": list(domains)},
    }
    return found


def remove(user: User, directory: Path, found: Cluster, **variables: t.Any) -> str:
    """What is said of a removal that fails: of one that nothing keeps from it, for want of a Helm."""
    given = {
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "rdma_groups": ["all"],
        "rdma_output_dir": str(directory / "output"),
        "rdma_rollout": {"kubeconfig": found.kubeconfig(directory), "helm": {"binary": str(directory / "no-helm")}},
        **variables,
    }
    hosts = {"all": {"hosts": {"node": {"ansible_connection": "local"}}, "vars": given}}
    (directory / "hosts.json").write_text(json.dumps(hosts))
    (directory / "play.yml").write_text(PLAY)
    done = user.run("ansible-playbook", "-i", str(directory / "hosts.json"), str(directory / "play.yml"), check=False)
    assert done.returncode != 0, done.stdout
    assert found.answers[RECORD] is not None
    # whatever becomes of it
    assert (found.answers[LEASE], found.changes) == (None, [GIVEN_UP])
    return " ".join((done.stdout + done.stderr).split())


def test_a_driver_that_somebody_uses_stays(user: User, tmp_path: Path) -> None:
    results = [{"driver": "gpu.nvidia.com", "pool": "gb200-1", "device": "gpu-0"}]
    held = named("job-0", status={"allocation": {"devices": {"results": results}}})
    with cluster([held, named("other")], [named("domain")]) as found:
        said = remove(user, tmp_path, found)
    assert "Nothing of NVIDIA's DRA driver was removed: claims have devices" in said
    assert "training/job-0 (node gb200-1)" in said
    assert "training/domain" in said
    assert "training/other" not in said
    assert "Remove the release" not in said


@pytest.mark.parametrize("path", [f"{CLAIMS}/resourceclaims", f"{DOMAINS}/computedomains"])
def test_a_cluster_that_does_not_tell_keeps_the_driver(user: User, tmp_path: Path, path: str) -> None:
    with cluster() as found:
        found.refusals[path] = 403
        said = remove(user, tmp_path, found)
    assert "list objects of the kind" in said, said
    assert "Remove the release" not in said


def test_a_driver_that_nobody_uses_goes(user: User, tmp_path: Path) -> None:
    with cluster([named("other")]) as found:
        said = remove(user, tmp_path, found)
    assert "Remove the release" in said
