# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role containerd_memlock does with Pods that still have the old limit: pods.yml of its tasks."""

from __future__ import annotations

import time
import typing as t

import pytest
import yaml

from ansible_collections.fabric.rdma.molecule.shared.pace import limit

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

PODS = "/api/v1/namespaces/rdma/pods"


def uids(site: Site) -> dict[str, str]:
    items = site.kube.list(PODS, "list")
    return {
        item["metadata"]["name"]: item["metadata"]["uid"]
        for item in items
        if not item["metadata"].get("deletionTimestamp")
    }


def test_only_pods_that_are_named_and_have_the_old_limit_are_deleted(small: Site) -> None:
    small.run("rollout")
    for name in ("named", "stale", "fresh"):
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"nodeName": "v100-1", "containers": [{"name": "work", "image": "work"}]},
        }
        small.kube.request("POST", PODS, "make work", body=body)
    before = uids(small)
    assert {"named", "stale", "fresh"} <= set(before)
    containers = [
        {"namespace": "rdma", "pod": "named"},
        {"namespace": "rdma", "pod": "named"},
        {"namespace": "rdma", "pod": "stale"},
        # not of Kubernetes
        {"namespace": "default", "pod": None},
    ]
    options = {
        "containerd_memlock_result": {"stale_containers": containers},
        # the second is of this cluster, and has the new limit
        "containerd_memlock_restart_pods": ["rdma/named", "rdma/fresh"],
        "containerd_memlock_kubeconfig": str(small.kubeconfig),
    }
    role = {"name": "fabric.rdma.containerd_memlock", "tasks_from": "pods"}
    tasks = [{"ansible.builtin.include_role": role, "vars": options}]
    path = small.directory / "restart.yml"
    play = {"hosts": "v100-1", "gather_facts": False, "connection": "local", "tasks": tasks}
    path.write_text(yaml.safe_dump([play]))
    output = " ".join(small.run(str(path.with_suffix(""))).split())
    assert (
        "4 running containers of v100-1 still have the old limit, until their Pods are recreated: rdma/named, rdma/stale"
        in output
    )
    del before["named"]
    end = time.monotonic() + limit(60)
    while uids(small) != before:
        assert time.monotonic() < end, uids(small)
        time.sleep(0.2)
