# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/cleanup_stale.yml on a real API server."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit

if t.TYPE_CHECKING:
    from conftest import Kubelets, Site

pytestmark = pytest.mark.cluster
RESOURCE = "rdma/old_name"


def listed(site: Site, name: str) -> set[str]:
    status = site.node(name)["status"]
    return {each for kind in ("capacity", "allocatable") for each in status[kind] if each == RESOURCE}


def test_only_resources_that_nobody_uses_are_removed(site: Site, kubelets: Kubelets) -> None:
    """One node where it is stale, one where a Pod asks for it, one whose plugin has just gone, one that never had it."""
    site.groups = {"ib-a100": site.groups["ib-a100"], "ib-v100": site.groups["ib-v100"]}
    site.nodes()
    for node in ("a100-1", "a100-2"):
        kubelets.give_up(node, RESOURCE)
    kubelets.patch("a100-3", {"capacity": {RESOURCE: "63"}, "allocatable": {RESOURCE: "0"}})
    container = {"name": "c", "image": "x", "resources": {"limits": {RESOURCE: "1"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train"},
        "spec": {"nodeName": "a100-2", "containers": [container], "tolerations": [{"operator": "Exists"}]},
    }
    site.kube.request("POST", "/api/v1/namespaces/default/pods", "make", body=pod)
    wanted = json.dumps({"rdma_stale_resources": [RESOURCE], "rdma_stale_verify": 2})
    site.run("cleanup_stale", "--check", "-e", wanted)
    assert listed(site, "a100-1"), "check mode changes nothing"
    output = " ".join(site.run("cleanup_stale", "-e", wanted).split())
    assert not listed(site, "a100-1")
    assert listed(site, "a100-2")
    assert listed(site, "a100-3")
    assert f"cluster: {site.kube.server}" in output
    assert "requested by Pod default/train" in output
    assert "its plugin went less than five minutes ago" in output
    assert "changed=0" in site.run("cleanup_stale", "-e", wanted)
    site.kube.request("DELETE", "/api/v1/namespaces/default/pods/train", "delete")


def test_a_resource_that_comes_back_is_a_failure(site: Site, kubelets: Kubelets) -> None:
    """A plugin that runs without any device advertises 0 of its resource, and its kubelet reports it again."""
    site.groups = {"ib-a100": site.groups["ib-a100"]}
    site.nodes()
    kubelets.give_up("a100-1", RESOURCE)
    wanted = json.dumps({"rdma_stale_resources": [RESOURCE], "rdma_stale_verify": int(limit(8))})
    with site.start("cleanup_stale", "-e", wanted) as run:
        while listed(site, "a100-1"):
            assert run.poll() is None
        kubelets.give_up("a100-1", RESOURCE)
        output = " ".join(run.communicate()[0].split())
    assert run.returncode != 0
    assert "rdma/old_name on a100-1: a kubelet has put it back" in output
