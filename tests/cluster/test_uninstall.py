# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What rollouts have brought goes again, of one group or of all, and nothing else."""

from __future__ import annotations

import json
import typing as t

import pytest

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

FOREIGN = "/api/v1/namespaces/rdma/configmaps"


def test_groups_go_one_after_the_other_and_others_stay(site: Site) -> None:
    site.groups = {name: site.groups[name] for name in ("ib-v100", "ib-a100")}
    site.nodes()
    site.run("rollout")
    before, classes = site.objects(), site.classes()
    assert len(before) > 2
    metadata = {"name": "theirs", "labels": {"app.kubernetes.io/managed-by": "fabric.rdma"}}
    site.kube.request("POST", FOREIGN, "make", [("fieldManager", "somebody")], {"metadata": metadata, "data": {}})

    # a look says what would go, and changes nothing
    said = " ".join(site.run("uninstall", "--check").split())
    for name in before:
        kind, _blank, own = name.partition(" ")
        assert f"{kind} rdma/{own}: removed" in said
    assert (site.objects(), site.classes()) == (before, classes)

    site.run("uninstall", "-e", json.dumps({"rdma_uninstall_groups": ["ib-v100"]}))
    assert {name: version for name, version in before.items() if "v100" not in name} == site.objects()
    assert {node: name for node, name in classes.items() if "v100" not in name} == site.classes()

    site.run("uninstall")
    assert (site.objects(), site.classes()) == ({}, {})
    assert site.kube.find(f"{FOREIGN}/theirs", "read") is not None
    # there is nothing left to take out
    assert "changed=0" in site.run("uninstall").splitlines()[-2]


def test_a_group_that_there_is_not_is_named(small: Site) -> None:
    output = small.run("uninstall", "-e", json.dumps({"rdma_uninstall_groups": ["ib-v10"]}), fails=True)
    assert "rdma_uninstall_groups names ib-v10; the RDMA groups of this inventory are ib-v100" in " ".join(
        output.split()
    )
