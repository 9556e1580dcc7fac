# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All groups together on a real API server, with real controllers and a real scheduler: one story, in the order of the tests."""

from __future__ import annotations

import json
import re
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import OPERATOR
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.rollout import Rollout

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

RAILS = "roce-rails-rails-c922ab37"
CLASSES = {
    "v100-1": "ib-v100-device-1017",
    "v100-2": "ib-v100-device-1017",
    "a100-1": "ib-a100-ibp161s0",
    "a100-2": "ib-a100-ibp33s0",
    "a100-3": "ib-a100-ibp161s0",
    "gb200-1": "gb200-device-1021",
    "gb200-2": "gb200-device-1021",
    "rail-1": RAILS,
    "rail-2": RAILS,
}


RESOURCES = {
    "ib-v100": ["rdma_v100"],
    "ib-a100": ["rdma_a100"],
    "gb200": ["rdma_gb200"],
    "roce-rails": [f"rdma_roce_gpu{number}" for number in range(1, 9)],
}


def changed(output: str) -> int:
    return sum(int(number) for number in re.findall(r"changed=(\d+)", output))


def test_every_node_offers_its_resources(converged: Site) -> None:
    assert converged.classes() == CLASSES
    names = [f"{kind} rdma-shared-dp-{name}" for kind in ("ConfigMap", "DaemonSet") for name in set(CLASSES.values())]
    assert sorted(converged.objects()) == sorted(names)
    for group, resources in RESOURCES.items():
        for name in converged.groups[group]["hosts"]:
            allocatable = converged.node(name)["status"]["allocatable"]
            found = {resource: count for resource, count in allocatable.items() if resource.startswith("rdma/")}
            assert found == {f"rdma/{resource}": "63" for resource in resources}, name
    # one that is cordoned, and tainted as an accounting system might, is served like the others
    assert converged.node("a100-2")["spec"]["unschedulable"] is True
    assert "account" in [taint["key"] for taint in converged.node("a100-2")["spec"]["taints"]]
    namespace = converged.kube.find("/api/v1/namespaces/rdma", "read")
    assert namespace is not None
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def test_a_wish_of_one_group_touches_only_what_is_its_own(converged: Site) -> None:
    before = converged.objects()
    converged.groups["ib-v100"]["rdma_resource"]["hca_max"] = 31
    output = converged.run("rollout", "--check")
    assert '"rdmaHcaMax": 31' in output or "rdmaHcaMax: 31" in output, "the diff shows what would change"
    assert converged.objects() == before, "check mode changes nothing"
    converged.run("rollout")
    after = converged.objects()
    assert {name for name in after if after[name] != before.get(name)} == {
        "ConfigMap rdma-shared-dp-ib-v100-device-1017",
        "DaemonSet rdma-shared-dp-ib-v100-device-1017",
    }
    assert set(after) == set(before)
    assert converged.node("v100-1")["status"]["allocatable"]["rdma/rdma_v100"] == "31"


def insist_that_nothing_goes_by_accident(converged: Site) -> None:
    """The third kind of A100 node has gone, and the group gb200: the files of earlier runs know the hosts, and so do their nodes."""
    before = converged.objects()
    output = " ".join(converged.run("rollout", fails=True).split())
    assert "gb200-1, gb200-2 of group gb200; a100-2 of group ib-a100" in output
    (converged.directory / "output").rename(converged.directory / "elsewhere")
    lost = "3 nodes have the label rdma.fabric/class"
    # no program of that name: who is refused installs nothing
    operator = {
        **converged.rollout,
        "engine": "network_operator",
        "operator_version": OPERATOR,
        "helm": {"binary": "/no"},
    }
    for playbook, rollout in (("site", {"method": "apply"}), ("rollout", {}), ("rollout", operator)):
        given = json.dumps({"rdma_rollout": {**converged.rollout, **rollout}})
        output = " ".join(converged.run(playbook, "-e", given, fails=True).split())
        assert lost in output
        assert "a100-2 (class ib-a100-ibp33s0), gb200-1 (class gb200-device-1021), gb200-2" in output
        assert "Nothing was written or changed." in output
        assert "Gather the facts" not in output
        assert not (converged.directory / "output").exists()
    # whoever rolls out without the playbooks is refused, too
    rollout = Rollout(converged.kube)
    rollout.look([], {}, [])
    with pytest.raises(KubeError, match=f"^Nothing was changed. {lost}"):
        rollout.insist(["v100-1", "v100-2", "a100-1", "a100-3", "rail-1", "rail-2"], [])
    assert converged.objects() == before
    assert converged.classes() == CLASSES
    (converged.directory / "elsewhere").rename(converged.directory / "output")


def test_what_is_gone_goes_and_what_is_not_ours_stays(converged: Site) -> None:
    space = "/api/v1/namespaces/rdma/configmaps"
    # somebody has copied our labels
    copied = {
        "app.kubernetes.io/managed-by": "fabric.rdma",
        "app.kubernetes.io/name": "rdma-shared-dp",
        "rdma.fabric/group": "elsewhere",
    }
    for name, labels in (("copied", copied), ("other", {})):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}
        converged.kube.request("POST", space, "make", body=body)
    converged.kube.merge("/api/v1/nodes/gb200-1", "label", {"metadata": {"labels": {"mine": "yes"}}}, dry_run=False)
    before = converged.objects()
    # the third kind of A100 node goes, and a whole group
    del converged.groups["ib-a100"]["hosts"]["a100-2"]
    del converged.groups["gb200"]
    insist_that_nothing_goes_by_accident(converged)
    # said by host and by group; the diff of a check shows who leaves
    converged.rollout["remove"] = ["a100-2", "gb200"]
    output = converged.run("rollout", "--check", "--diff")
    assert "label rdma.fabric/class of nodes that leave their class" in output
    assert "taken out on purpose (rdma_rollout.remove): gb200-1, gb200-2 of group gb200; a100-2" in " ".join(
        output.split()
    ) or "a100-2 of group ib-a100; " in " ".join(output.split())
    assert converged.objects() == before
    # a run that plans one group only leaves the others alone, also those that the inventory still has
    converged.run("rollout", "-e", '{"rdma_groups": ["ib-v100"]}', "--limit", "ib-v100")
    assert {name for name in before if name not in converged.objects()} == {
        "ConfigMap rdma-shared-dp-gb200-device-1021",
        "DaemonSet rdma-shared-dp-gb200-device-1021",
    }, "a group that the inventory no longer has is gone; one that was not planned is not"
    output = converged.run("rollout")
    assert "copied has our label, but was not applied by" in " ".join(output.split())
    gone = {
        f"{kind} rdma-shared-dp-{name}"
        for kind in ("ConfigMap", "DaemonSet")
        for name in ("ib-a100-ibp33s0", "gb200-device-1021")
    }
    after = converged.objects()
    assert set(before) - set(after) == gone
    assert all(after[name] == before[name] for name in after)
    assert converged.kube.find(f"{space}/other", "read")
    assert converged.node("gb200-1")["metadata"]["labels"] == {"mine": "yes"}
    assert converged.classes() == {
        name: value for name, value in CLASSES.items() if name not in ("a100-2", "gb200-1", "gb200-2")
    }
    assert changed(converged.run("rollout")) == 0
