# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/rollout.yml on a real API server: what it refuses, and what it does when something is in its way."""

from __future__ import annotations

import re
import time
import typing as t

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit

if t.TYPE_CHECKING:
    from conftest import Kubelets, Limited, Site

pytestmark = pytest.mark.cluster


def test_check_mode_shows_what_would_come(small: Site) -> None:
    output = small.run("rollout", "--check")
    assert "kind: DaemonSet" in output
    assert small.objects() == {}
    assert small.classes() == {}
    assert small.kube.find("/api/v1/namespaces/rdma", "read") is None


def test_a_node_without_its_resource_is_named(site: Site, kubelets: Kubelets) -> None:
    site.rollout["timeout"] = int(limit(8))
    site.groups = {"ib-a100": site.groups["ib-a100"]}
    site.nodes()
    kubelets.breaks("a100-3")
    output = " ".join(site.run("rollout", fails=True).split())
    assert "class ib-a100-ibp161s0 does not serve after" in output
    assert "rdma/rdma_a100: allocatable is 0, not 63 on a100-3" in output


def test_a_node_that_is_missing_is_named_before_anything_is_changed(site: Site) -> None:
    site.nodes()
    site.kube.request("DELETE", "/api/v1/nodes/gb200-2", "delete")
    output = " ".join(site.run("rollout", fails=True).split())
    assert "1 of 9 nodes of the plan are not in the cluster: gb200-2" in output
    assert "rdma_rollout.node_names" in output
    assert site.objects() == {}
    assert site.kube.find("/api/v1/nodes/gb200-2", "read") is None, "nor is one made"


def test_the_whole_job_rolls_out_and_reports_also_what_went_wrong(small: Site) -> None:
    """A rollout that fails does not cost playbooks/site.yml its report."""
    report = small.directory / "output" / "report.html"
    small.rollout.update(method="apply", kubeconfig=str(small.directory / "nothing"))
    output = " ".join(small.run("site", fails=True).split())
    assert "The rollout failed: " in output
    assert str(small.directory / "nothing") in output
    assert report.exists()
    del small.rollout["kubeconfig"]
    small.run("site")
    assert set(small.classes()) == {host for group in small.groups.values() for host in group["hosts"]}


# --- refusals --------------------------------------------------------------------------------------------------------


def refused(site: Site, **options: t.Any) -> str:
    """Output of a run that is refused and changes nothing."""
    output = " ".join(site.run("rollout", fails=True, **options).split())
    assert site.classes() == {}
    assert not [name for name in site.objects() if name.startswith("DaemonSet")]
    return output


def test_too_few_rights_are_named_and_those_of_the_readme_suffice(small: Site, limited: Limited) -> None:
    """Each missing right is named; with exactly those of the README the rollout works."""
    user = limited.kubeconfig
    output = refused(small, user=user)
    assert re.search(rf"cannot \S+.*: user \S+:{limited.name} may not (get|list) \w+", output), output
    assert "ClusterRole" in output
    rules = limited.documented("device_plugin")
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]}
    limited.grant(
        "fabric-rdma-test", *[{**rule, "verbs": ["get", "list"]} if rule == nodes else rule for rule in rules]
    )
    assert nodes in rules
    output = refused(small, user=user)
    assert "Nothing was changed." in output
    assert f":{limited.name} may not patch nodes" in output
    assert small.objects() == {}
    limited.grant("fabric-rdma-test-nodes", nodes)
    small.run("rollout", user=user)
    assert set(small.classes()) == {"v100-1", "v100-2"}


def test_no_kubeconfig_and_no_server(small: Site) -> None:
    small.rollout["kubeconfig"] = "/nonexistent/kubeconfig"
    output = refused(small)
    assert "no kubeconfig: /nonexistent/kubeconfig does not exist" in output
    assert "Set rdma_rollout.kubeconfig to a file that is there" in output
    # discard: nothing listens
    small.rollout["kubeconfig"] = str(small.changed_kubeconfig("elsewhere", server="https://127.0.0.1:9"))
    output = refused(small)
    assert "no answer from the API server https://127.0.0.1:9" in output
    assert "Look whether it runs and can be reached from here" in output
    small.rollout["kubeconfig"] = str(small.changed_kubeconfig("expired", {"token": "expired"}))
    output = refused(small)
    assert "does not accept the credentials" in output
    assert "log in again" in output


def test_fields_of_another_manager_stay_unless_force_is_set(small: Site) -> None:
    small.run("rollout")
    (name,) = [each.split()[1] for each in small.objects() if each.startswith("DaemonSet")]
    path = f"/apis/apps/v1/namespaces/rdma/daemonsets/{name}"
    body = {"spec": {"template": {"spec": {"priorityClassName": "system-cluster-critical"}}}}
    query = [("fieldManager", "somebody")]
    small.kube.request("PATCH", path, "edit", query, body, "application/merge-patch+json")
    before = small.objects()
    output = " ".join(small.run("rollout", fails=True).split())
    assert "Nothing was changed." in output
    assert '.spec.template.spec.priorityClassName (set by "somebody"' in output
    assert "rdma_rollout.force" in output
    assert small.objects() == before
    small.rollout["force"] = True
    small.run("rollout")
    found = small.kube.find(path, "read")
    assert found is not None
    assert found["spec"]["template"]["spec"]["priorityClassName"] == "system-node-critical"


def test_an_exceeded_quota_refuses_the_rollout(small: Site) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rdma"}}
    small.kube.request("POST", "/api/v1/namespaces", "make", body=body)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"count/daemonsets.apps": "0"}},
    }
    small.kube.request("POST", "/api/v1/namespaces/rdma/resourcequotas", "make", body=quota)
    # it counts once its controller has seen it
    path, end = "/api/v1/namespaces/rdma/resourcequotas/none", time.monotonic() + limit(60)
    while "used" not in ((small.kube.find(path, "read") or {}).get("status") or {}):
        assert time.monotonic() < end, "the quota is not counted"
        time.sleep(0.2)
    output = refused(small)
    assert "exceeded quota: none" in output
    assert "Raise the ResourceQuota" in output
    assert small.objects() == {}


def test_what_the_server_does_not_know(small: Site) -> None:
    small.rollout["tolerations"] = [{"operator": "Exists", "effekt": "NoSchedule"}]
    assert "rdma_rollout.tolerations[0] has no key effekt" in refused(small)
    small.rollout["tolerations"] = [{"operator": "Exists", "value": "x", "key": "y"}]
    assert "value must be empty when `operator` is 'Exists'" in refused(small)
    small.rollout.pop("tolerations")
    # what any server would refuse is told with the wishes
    small.rollout["namespace"] = "n" * 64
    assert "expected at most 63 small letters, digits and hyphens" in refused(small)
    small.rollout["namespce"] = "x"
    assert "rdma_rollout has no key namespce" in refused(small)
