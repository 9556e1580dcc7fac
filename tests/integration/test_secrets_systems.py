# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is secret in the wishes for systems (GPU Operator, storage, networks, ...) is in no output, however much of it is asked for."""

from __future__ import annotations

import http.server
import json
import stat
import threading
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.catalog import SYSTEMS as CATALOGUE
from ansible_collections.fabric.rdma.tests.integration.test_failures import replayed, write_inventory
from ansible_collections.fabric.rdma.tests.integration.test_secrets import PASSWORD, SECRET, Empty
from ansible_collections.fabric.rdma.tests.unit.kubeconfigs import kubeconfig_of

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

Json = dict[str, t.Any]
CIDRS = {"pods": ["10.244.0.0/16"], "services": ["10.96.0.0/12"]}
CHARTS = f"https://admin:{PASSWORD}@charts.example/stable"
PROXY = f"http://admin:{PASSWORD}@proxy.example:3128"
CAPTURES = {"gb200": ("gb200-1",), "shares": ("gb200-2",), "a100": ("ib-a100-1",)}


NETWORK = {
    "name": "fabric",
    "kind": "ipoib",
    "ipam": {"type": "whereabouts", "range": "192.168.0.0/16"},
}
# by group
OF_GROUPS: dict[str, Json] = {
    "gb200": {"rdma_compute_domain": {"values": {"logVerbosity": SECRET}}},
    "a100": {"rdma_networks": [NETWORK]},
}
OF_ALL: Json = {
    "rdma_gpu_operator": {
        "version": "v26.3.3",
        "repository": CHARTS,
        "values": {"validator": {"imagePullPolicy": SECRET}},
        "toolkit": {"env": {"HTTPS_PROXY": PROXY, "TOKEN": SECRET}},
    },
    "rdma_vgpu": {"groups": ["shares"], "stop_device_plugin": True, "values": {"custom": {"token": SECRET}}},
    "rdma_longhorn": {
        "version": "1.12.1",
        "repository": CHARTS,
        # what nobody discovers is not checked
        "groups": [],
        "nodes": ["store-1"],
        "values": {"defaultBackupStore": {"backupTarget": SECRET}},
    },
    "rdma_cluster_cidrs": CIDRS,
    "rdma_multus": {"install": True},
    "rdma_whereabouts": {"install": True},
    "rdma_spiderpool": {"install": True, "values": {"global": {"token": SECRET}}},
}
# all of the catalogue but for the device plugin, whose secrets test_secrets.py is about
SYSTEMS = [system.name for system in CATALOGUE if system.name != "device_plugin"]
CHARTED = {"gpu-operator", "nvidia-dra-driver-gpu", "spiderpool", "volcano", "longhorn"}
KINDS = {
    "v1": "ConfigMap:configmaps Namespace:namespaces: Node:nodes: Secret:secrets Service:services ServiceAccount:serviceaccounts",
    "apps/v1": "DaemonSet:daemonsets Deployment:deployments",
    "batch/v1": "CronJob:cronjobs",
    "rbac.authorization.k8s.io/v1": (
        "ClusterRole:clusterroles: ClusterRoleBinding:clusterrolebindings: Role:roles RoleBinding:rolebindings"
    ),
    "apiextensions.k8s.io/v1": "CustomResourceDefinition:customresourcedefinitions:",
    "k8s.cni.cncf.io/v1": "NetworkAttachmentDefinition:network-attachment-definitions",
    "resource.k8s.io/v1": (
        "DeviceClass:deviceclasses: ResourceClaim:resourceclaims ResourceClaimTemplate:resourceclaimtemplates"
    ),
    "coordination.k8s.io/v1": "Lease:leases",
    "kubeflow.org/v2beta1": "MPIJob:mpijobs",
    "scheduling.volcano.sh/v1beta1": "Queue:queues:",
}


def served(version: str) -> Json:
    name, _slash, number = version.partition("/")
    own = {"groupVersion": version, "version": number}
    return {"name": name, "versions": [own], "preferredVersion": own}


def a_node(name: str) -> Json:
    metadata = {"name": name, "uid": f"of-{name}", "resourceVersion": "1", "labels": {"nvidia.com/gpu.clique": "a.1"}}
    return {"metadata": metadata, "status": {"nodeInfo": {"kubeletVersion": "v1.34.0"}}}


class Serving(Empty):
    """An API server that knows kinds, has nodes and the Lease that was taken, and accepts whatever it is given."""

    nodes = (*(each for own in CAPTURES.values() for each in own), "store-1")
    leases: t.ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        version = path.removeprefix("/apis/").removeprefix("/api/")
        plurals = {each.split(":")[1] for kinds in KINDS.values() for each in kinds.split()}
        fixed: dict[str, Json] = {
            "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "groups": [served(each) for each in KINDS if "/" in each]},
            "/api/v1/nodes": {"items": [a_node(name) for name in self.nodes]},
        }
        if path in self.leases:
            self._say(200, self.leases[path])
        elif path in fixed:
            self._say(200, json.dumps(fixed[path]).encode())
        elif version in KINDS:
            resources = [
                {"kind": each[0], "name": each[1], "namespaced": len(each) == 2, "verbs": ["get", "list", "patch"]}
                for each in (words.split(":") for words in KINDS[version].split())
            ]
            answer = {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
            self._say(200, json.dumps(answer).encode())
        elif path.rpartition("/")[2] in plurals:
            self._say(200, b'{"kind": "List", "apiVersion": "v1", "items": []}')
        else:
            super().do_GET()


@pytest.fixture(scope="module")
def serving_cluster() -> t.Iterator[str]:
    """The address of such a server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Serving) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


# A helm that quotes all that it was given, and then fails, or says that it has installed another version than it was asked for.
HELM = """#!/usr/bin/python3
import json, pathlib, re, sys

words = sys.argv[1:]
at = pathlib.Path(__file__).with_name("installed")
if "version" in words:
    print('version.BuildInfo{Version:"v3.17.2", GitCommit:"x"}')
elif "show" in words:
    print("name: any\\nversion: 0.0.1")
elif "list" in words or "status" in words:
    release = {"name": at.read_text(), "namespace": "any", "revision": "1", "status": "deployed", "chart": "any-0.0.1",
               "app_version": "1"} if at.exists() else None
    print(json.dumps([release] if release and "list" in words else release or []))
elif "values" in words:
    print('token: "@SECRET@"')
else:
    files = [pathlib.Path(word.partition("=")[2] if "=" in word else word) for word in words]
    told = " ".join(words) + "\\n" + "\\n".join(each.read_text() for each in files if each.suffix in (".yml", ".yaml") and each.is_file())
    print("Error: cannot do " + told, file=sys.stderr)
    if "@FAILS@" == "False" and "upgrade" in words:
        at.write_text(words[-2])
        sys.exit(0)
    sys.exit(1)
"""


def helm(directory: Path, fails: bool) -> str:
    program = directory / "helm"
    program.write_text(HELM.replace("@SECRET@", SECRET).replace("@FAILS@", str(fails)))
    program.chmod(0o755)
    return str(program)


def ran(
    user: User, directory: Path, cluster: str, systems: t.Iterable[str], method: str, *options: str, **more: t.Any
) -> tuple[int, str]:
    """What a run of the roles of systems says: (exit code, words)."""
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(json.dumps(kubeconfig_of(cluster)))
    rollout = {
        "kubeconfig": str(kubeconfig),
        "helm": {"binary": str(directory / "helm")},
        "image_pull_secrets": ["mirror"],
        # the others' containerd has NRI off
        "engine": "dra",
        "classes": {"groups": ["gb200"]},
    }
    groups = {
        name: {host: {**own, **OF_GROUPS.get(name, {})} for host, own in replayed(*captures).items()}
        for name, captures in CAPTURES.items()
    }
    inventory = write_inventory(directory, groups, rdma_rollout=rollout, **{**OF_ALL, **more})
    tasks: list[Json] = [{"ansible.builtin.include_role": {"name": "fabric.rdma.discover"}}]
    for system in systems:
        role = {"name": f"fabric.rdma.{system}"}
        tasks.append({"ansible.builtin.include_role": role, "vars": {f"{system}_method": method}})
    tasks.append({"ansible.builtin.include_role": {"name": "fabric.rdma.report"}})
    playbook = directory / "play.yml"
    playbook.write_text(json.dumps([{"hosts": "rdma", "gather_facts": False, "tasks": tasks}]))
    done = user.run("ansible-playbook", str(playbook), "-i", str(inventory), "-vvv", "--diff", *options, check=False)
    return done.returncode, done.stdout + done.stderr


def insist_on_secrecy(said: str) -> None:
    for secret in (SECRET, PASSWORD):
        at = said.find(secret)
        assert at < 0, f"...{said[max(0, at - 600) : at + 100]}"


def test_rendered_systems_keep_secrets_in_files_of_their_owner(
    user: User, tmp_path: Path, serving_cluster: str
) -> None:
    """The files have what users gave, and nobody but their owner reads it; the report has what anybody may read."""
    helm(tmp_path, fails=True)
    code, said = ran(user, tmp_path, serving_cluster, SYSTEMS, "render")
    insist_on_secrecy(said)
    assert code == 0, said[-3000:]
    secret = [
        path
        for path in (tmp_path / "output").rglob("*")
        if path.is_file() and any(each in path.read_text() for each in (SECRET, PASSWORD))
    ]
    assert {path.name.removesuffix("-values.yaml") for path in secret} == CHARTED
    for path in secret:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert yaml.safe_load(path.read_text())
    page = (tmp_path / "output" / "report.html").read_text()
    assert page.count("Rendered, not applied") == len(SYSTEMS)
    # what Pods take of a network, and that shares of GPUs and GPUDirect do not go together
    assert "k8s.v1.cni.cncf.io/networks: default/fabric" in page
    assert "systems/secondary_network/workloads/a100-fabric.yaml" in page
    assert "rdma/rdma_a100: 1" in page
    for text in ("does not work with a share of a GPU", "NCCL between nodes fails or crashes in Pods with a share"):
        assert text in page
        assert text in said


def test_check_mode_of_systems_prints_no_secret(user: User, tmp_path: Path, serving_cluster: str) -> None:
    """Asked of an API server, with nothing changed."""
    helm(tmp_path, fails=True)
    code, said = ran(user, tmp_path, serving_cluster, SYSTEMS, "apply", "--check")
    insist_on_secrecy(said)
    assert code == 0, said[-3000:]
    assert "duplicate mapping key" not in said


def test_a_helm_that_fails_and_quotes_all(user: User, tmp_path: Path, serving_cluster: str) -> None:
    helm(tmp_path, fails=True)
    code, said = ran(user, tmp_path, serving_cluster, ["longhorn"], "apply")
    insist_on_secrecy(said)
    assert code == 2, said[-3000:]
    assert "cannot do " in said, "the cause is told all the same"
    assert not Serving.leases, "others can roll out"
    assert "https://charts.example/stable" in said
    assert "/var/lib/longhorn" in said, "what the user did not write is not a secret"


def test_a_chart_of_another_version_from_an_address_with_a_password(
    user: User, tmp_path: Path, serving_cluster: str
) -> None:
    helm(tmp_path, fails=False)
    wish = {**OF_ALL["rdma_longhorn"], "chart": f"{CHARTS}/longhorn-1.12.1.tgz"}
    code, said = ran(user, tmp_path, serving_cluster, ["longhorn"], "apply", rdma_longhorn=wish)
    insist_on_secrecy(said)
    assert code == 2, said[-3000:]
    assert "The chart https://charts.example/stable/longhorn-1.12.1.tgz that was installed is any-0.0.1" in said
