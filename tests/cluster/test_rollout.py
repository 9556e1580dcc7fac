# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/rollout.yml on a real API server, with real controllers and a real scheduler."""

from __future__ import annotations

import re
import time
import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._kube import Kube

if t.TYPE_CHECKING:
    from conftest import Kubelets, Site

pytestmark = pytest.mark.cluster

CLASSES = {
    "v100-1": "ib-v100-vendor-15b3",
    "v100-2": "ib-v100-vendor-15b3",
    "a100-1": "ib-a100-ibp161s0",
    "a100-2": "ib-a100-ibp33s0",
    "a100-3": "ib-a100-ibp161s0",
    "gb200-1": "gb200-device-1021",
    "gb200-2": "gb200-device-1021",
    "rail-1": "roce-rails-vendor-15b3",
    "rail-2": "roce-rails-vendor-15b3",
}


def changed(output: str) -> int:
    return sum(int(number) for number in re.findall(r"changed=(\d+)", output))


def test_four_groups_at_once(site: Site) -> None:
    """Everything comes, is seen to work, and a second run finds nothing to do."""
    site.nodes()
    # cordoned, and tainted as an accounting system might
    site.kube.merge(
        "/api/v1/nodes/a100-2",
        "taint",
        {"spec": {"unschedulable": True, "taints": [{"key": "account", "value": "x", "effect": "NoExecute"}]}},
        dry_run=False,
    )
    shown = site.run("rollout", "--check")
    assert site.objects() == {}
    assert site.classes() == {}
    assert "kind: DaemonSet" in shown, "check mode shows what would come"
    site.run("rollout")
    assert site.classes() == CLASSES
    before = site.objects()
    assert len(before) == 2 * len(set(CLASSES.values()))
    for node, resource in (("a100-2", "rdma/rdma_a100"), ("rail-1", "rdma/rdma_roce"), ("v100-2", "rdma/rdma_v100")):
        assert site.node(node)["status"]["allocatable"][resource] == "63"
    namespace = site.kube.find("/api/v1/namespaces/rdma", "read")
    assert namespace is not None
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    again = site.run("rollout")
    assert changed(again) == 0, again
    assert site.objects() == before
    # and a change of one group's wish touches only what is its own
    site.groups["ib-v100"]["rdma_resource"]["hca_max"] = 31
    third = site.run("rollout")
    after = site.objects()
    assert {name for name in after if after[name] != before[name]} == {
        "ConfigMap rdma-shared-dp-ib-v100-vendor-15b3",
        "DaemonSet rdma-shared-dp-ib-v100-vendor-15b3",
    }
    assert '"rdmaHcaMax": 31' in third or "rdmaHcaMax: 31" in third, "the diff shows what changes"
    assert site.node("v100-1")["status"]["allocatable"]["rdma/rdma_v100"] == "31"


def test_what_is_gone_goes_and_what_is_not_ours_stays(site: Site) -> None:
    site.nodes()
    site.run("rollout")
    space = "/api/v1/namespaces/rdma/configmaps"
    # somebody has copied our labels
    copied = {
        "app.kubernetes.io/managed-by": "fabric.rdma",
        "app.kubernetes.io/name": "rdma-shared-dp",
        "rdma.fabric/group": "elsewhere",
    }
    for name, labels in (("copied", copied), ("other", {})):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}
        site.kube.request("POST", space, "make", body=body)
    site.kube.merge("/api/v1/nodes/gb200-1", "label", {"metadata": {"labels": {"mine": "yes"}}}, dry_run=False)
    before = site.objects()
    # the third kind of A100 node goes, and a whole group
    del site.groups["ib-a100"]["hosts"]["a100-2"]
    del site.groups["gb200"]
    # a run that plans one group only leaves the others alone, also those that the inventory still has
    site.run("rollout", "-e", '{"rdma_groups": ["ib-v100"]}', "--limit", "ib-v100")
    assert {name for name in before if name not in site.objects()} == {
        "ConfigMap rdma-shared-dp-gb200-device-1021",
        "DaemonSet rdma-shared-dp-gb200-device-1021",
    }, "a group that the inventory does not have any more is gone; one that was not planned is not"
    output = site.run("rollout")
    assert "copied has our label, but was not applied by" in " ".join(output.split())
    gone = {
        f"{kind} rdma-shared-dp-{name}"
        for kind in ("ConfigMap", "DaemonSet")
        for name in ("ib-a100-ibp33s0", "gb200-device-1021")
    }
    after = site.objects()
    assert set(before) - set(after) == gone
    assert all(after[name] == before[name] for name in after)
    assert site.kube.find(f"{space}/other", "read")
    assert site.node("gb200-1")["metadata"]["labels"] == {"mine": "yes"}
    assert site.classes() == {
        name: value for name, value in CLASSES.items() if name not in ("a100-2", "gb200-1", "gb200-2")
    }
    assert changed(site.run("rollout")) == 0


def test_a_node_without_its_resource_is_named(site: Site, kubelets: Kubelets) -> None:
    kubelets.broken.add("a100-3")
    site.rollout["timeout"] = 8
    site.groups = {"ib-a100": site.groups["ib-a100"]}
    site.nodes()
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


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(site: Site) -> Site:
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    return site


def refused(site: Site, **options: t.Any) -> str:
    """Output of a run that is refused and changes nothing."""
    output = " ".join(site.run("rollout", fails=True, **options).split())
    assert site.classes() == {}
    assert not [name for name in site.objects() if name.startswith("DaemonSet")]
    return output


def grant(kube: Kube, name: str, rules: list[dict[str, t.Any]]) -> None:
    base = "/apis/rbac.authorization.k8s.io/v1"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }
    kube.request("POST", f"{base}/clusterroles", "make", body=role)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}],
    }
    kube.request("POST", f"{base}/clusterrolebindings", "make", body=binding)


def test_too_few_rights(small: Site, cluster: t.Any) -> None:
    """Each missing right is named; with exactly those of the README the rollout works."""
    limited = cluster.kubeconfig("limited")
    output = refused(small, user=limited)
    assert re.search(r"cannot \S+.*: user limited may not (get|list) \w+", output), output
    assert "ClusterRole" in output
    rules = [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create", "patch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "patch", "delete"]},
        {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get", "list", "create", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["list"]},
    ]
    grant(small.kube, "rollout", rules)
    output = refused(small, user=limited)
    assert "Nothing was changed." in output
    assert "user limited may not patch nodes" in output
    assert small.objects() == {}
    grant(small.kube, "rollout-nodes", [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}])
    small.run("rollout", user=limited)
    assert set(small.classes()) == {"v100-1", "v100-2"}


def test_no_kubeconfig_and_no_server(small: Site, cluster: t.Any) -> None:
    small.rollout["kubeconfig"] = "/nonexistent/kubeconfig"
    output = refused(small)
    assert "no kubeconfig: /nonexistent/kubeconfig does not exist" in output
    elsewhere = small.directory / "elsewhere"
    port = 9  # discard: nothing listens
    elsewhere.write_text(cluster.kubeconfig().read_text().replace(cluster.server, f"https://127.0.0.1:{port}"))
    small.rollout["kubeconfig"] = str(elsewhere)
    output = refused(small)
    assert f"no answer from the API server https://127.0.0.1:{port}" in output
    token = small.directory / "token"
    token.write_text(cluster.kubeconfig().read_text().replace("admin-token", "expired-token"))
    small.rollout["kubeconfig"] = str(token)
    assert "does not accept the credentials" in refused(small)


def test_another_field_manager(small: Site) -> None:
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


def test_quota(small: Site) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rdma"}}
    small.kube.request("POST", "/api/v1/namespaces", "make", body=body)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"count/daemonsets.apps": "0"}},
    }
    small.kube.request("POST", "/api/v1/namespaces/rdma/resourcequotas", "make", body=quota)
    time.sleep(2)  # the quota counts once its controller has seen it
    output = refused(small)
    assert "exceeded quota: none" in output
    assert "Raise the ResourceQuota" in output
    assert small.objects() == {}


def test_what_the_server_does_not_know(small: Site) -> None:
    small.rollout["tolerations"] = [{"operator": "Exists", "effekt": "NoSchedule"}]
    output = refused(small)
    assert re.search(r"does not know a field: spec\.template\.spec\.tolerations\S*effekt", output), output
    small.rollout["tolerations"] = [{"operator": "Exists", "value": "x", "key": "y"}]
    assert "value must be empty when `operator` is 'Exists'" in refused(small)
    small.rollout.pop("tolerations")
    small.rollout["namespace"] = "n" * 64
    assert "too long" in refused(small)
    small.rollout["namespce"] = "x"
    assert "rdma_rollout has no key namespce" in refused(small)


def test_the_server_dies_in_the_middle(small: Site, cluster: t.Any) -> None:
    """What has been applied stays, the error says so, and the next run does the rest."""
    run = small.start("rollout")
    assert run.stdout is not None
    with run:
        end = time.monotonic() + 120
        # the ConfigMap is the second thing that is applied
        while not small.objects() and time.monotonic() < end:
            time.sleep(0.01)
        cluster.end("kube-apiserver")
        output = " ".join(run.stdout.read().split())
    assert run.returncode != 0
    cluster.start_apiserver()
    time.sleep(1)
    assert "no answer from the API server" in output or "does not serve" in output, output
    small.run("rollout")
    assert set(small.classes()) == {"v100-1", "v100-2"}
    assert changed(small.run("rollout")) == 0
