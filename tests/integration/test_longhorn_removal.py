# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removing Longhorn, against an API server that plays: its uninstaller deletes all volumes once its own setting allows it."""

from __future__ import annotations

import datetime
import json
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.unit.kubeconfigs import kubeconfig_of, written

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

Json = dict[str, t.Any]
LONGHORN = "/apis/longhorn.io/v1beta2"
EXTENSIONS = "/apis/apiextensions.k8s.io/v1"
DEFINITION = "CustomResourceDefinition"
LEASES = "/apis/coordination.k8s.io/v1"
RECORDS = "/api/v1/namespaces/kube-system/configmaps"
SECRETS = "/api/v1/namespaces/longhorn-system/secrets"
RELEASE = {"metadata": {"name": "sh.helm.release.v1.longhorn.v1", "uid": "1", "labels": {"owner": "helm"}}}
LEASE = f"{LEASES}/namespaces/kube-system/leases/fabric-rdma-rollout"
SETTING = f"{LONGHORN}/namespaces/longhorn-system/settings/deleting-confirmation-flag"
# on the setting while a removal has it unlocked
UNLOCKED = "rdma.fabric/unlocked"
REASONS = {403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable"}
# the Lease
GIVEN_UP = "fabric-rdma-rollout"
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: fabric.rdma.longhorn}
      vars: {longhorn_method: remove}
"""


def kinds(version: str, namespaced: bool = True, **plurals: str) -> Json:
    verbs = ["get", "list", "patch", "create", "update", "delete"]
    resources = [
        {"name": plural, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind, "verbs": verbs}
        for plural, kind in plurals.items()
    ]
    return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}


def the_setting(unlocked: str) -> Json:
    metadata: Json = {"name": "deleting-confirmation-flag", "namespace": "longhorn-system", "resourceVersion": "1"}
    if unlocked == "by a killed run":
        metadata["annotations"] = {UNLOCKED: "true"}
    value = "true" if unlocked else "false"
    return {"apiVersion": "longhorn.io/v1beta2", "kind": "Setting", "metadata": metadata, "value": value}


def the_record(since: str) -> Json:
    """What the collection has written down of the Longhorn that it has installed."""
    labels = {"app.kubernetes.io/managed-by": "fabric.rdma", "rdma.fabric/inventory": "default"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "fabric-rdma-longhorn",
            "namespace": "kube-system",
            "labels": {**labels, "rdma.fabric/system": "longhorn"},
            "managedFields": [{"manager": "fabric.rdma", "operation": "Apply"}],
            "resourceVersion": "1",
            "uid": "1",
        },
        "data": {
            "charts": '["longhorn-system/longhorn"]',
            "releases": json.dumps([f"longhorn-system/longhorn {since}"] if since else []),
        },
    }


def lease_of_somebody() -> Json:
    renewed = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "somebody", "renewTime": renewed, "leaseDurationSeconds": 600}
    return {"metadata": {"name": "fabric-rdma-rollout", "namespace": "kube-system"}, "spec": spec}


def discovery() -> Json:
    """What the API server says of itself, by path."""
    versions = [{"groupVersion": "longhorn.io/v1beta2", "version": "v1beta2"}]
    extensions = [{"groupVersion": "apiextensions.k8s.io/v1", "version": "v1"}]
    return {
        "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {
            "kind": "APIGroupList",
            "groups": [
                {"name": "longhorn.io", "versions": versions, "preferredVersion": versions[0]},
                {"name": "apiextensions.k8s.io", "versions": extensions, "preferredVersion": extensions[0]},
            ],
        },
        EXTENSIONS: kinds("apiextensions.k8s.io/v1", namespaced=False, customresourcedefinitions=DEFINITION),
        f"{EXTENSIONS}/customresourcedefinitions/volumes.longhorn.io": {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": DEFINITION,
            "metadata": {"name": "volumes.longhorn.io"},
        },
        "/api/v1": kinds("v1", configmaps="ConfigMap"),
        LEASES: kinds("coordination.k8s.io/v1", leases="Lease"),
        LONGHORN: kinds("longhorn.io/v1beta2", volumes="Volume", settings="Setting"),
    }


class Cluster(ThreadingHTTPServer):
    """One with a Longhorn. It tells of its release once, and then fails to, or says that there is none: after releases, in this order."""

    def __init__(
        self,
        ours: bool,
        volumes: int,
        releases: tuple[list[Json] | None, ...] = ([RELEASE], None),
        held: bool = False,
        since: str = "",
        stubborn: bool = False,
        unlocked: str = "",
        busy: tuple[bool, ...] = (),
    ) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.changes: list[str] = []
        self.releases = list(releases)
        # whether the setting can be written once only
        self.stubborn = stubborn
        # for each time that it is asked what there is of Longhorn, whether it has no time
        self.busy = list(busy)
        # by path, what is answered in place of what is there
        self.refusals: dict[str, int] = {}
        self.setting = the_setting(unlocked)
        record = the_record(since) if ours else None
        self.answers: Json = {
            **discovery(),
            LEASE: lease_of_somebody() if held else None,
            f"{LONGHORN}/namespaces/longhorn-system/volumes": {
                "apiVersion": "longhorn.io/v1beta2",
                "kind": "VolumeList",
                "items": [{"metadata": {"name": f"pvc-{number}"}} for number in range(volumes)],
            },
            f"{RECORDS}/fabric-rdma-longhorn": record,
            RECORDS: {"apiVersion": "v1", "kind": "ConfigMapList", "items": [record] if record else []},
            SETTING: self.setting,
        }

    def __enter__(self) -> Cluster:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self.shutdown()
        self.server_close()

    def kubeconfig(self, directory: Path) -> str:
        return written(directory, kubeconfig_of(f"http://127.0.0.1:{self.server_port}", {"token": "t"}))


class Handler(BaseHTTPRequestHandler):
    server: Cluster

    def _send(self, answer: Json | None, code: int) -> None:
        found = answer is not None
        data = json.dumps(
            answer if found else {"kind": "Status", "code": code, "message": "no", "reason": REASONS.get(code)}
        ).encode()
        self.send_response(200 if found else code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == SECRETS:
            own = self.server.releases
            items = own.pop(0) if len(own) > 1 else own[0]
            self._send(None if items is None else {"metadata": {}, "items": items}, 404)
        elif path in self.server.refusals:
            self._send(None, self.server.refusals[path])
        elif path == LONGHORN and self.server.busy and self.server.busy.pop(0):
            self._send(None, 503)
        else:
            self._send(self.server.answers.get(path), 404)

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path.partition("?")[0] == SETTING
        if self.server.stubborn and self.server.changes:
            self._send(None, 403)
            return
        metadata = self.server.setting["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        for key, value in body["metadata"].get("annotations", {}).items():
            annotations = metadata.setdefault("annotations", {})
            annotations[key] = value
            if value is None:
                del annotations[key]
        self.server.setting["value"] = body["value"]
        self.server.changes.append(body["value"])
        self._send(self.server.setting, 200)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = f"{self.path.partition('?')[0]}/{body['metadata']['name']}"
        assert path == LEASE
        body["metadata"].update(resourceVersion="1", uid="1", namespace="kube-system")
        self.server.answers[path] = body
        self._send(body, 201)

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == LEASE
        # whoever goes on with it is the one that took it
        assert body["spec"]["holderIdentity"] == self.server.answers[LEASE]["spec"]["holderIdentity"]
        self._send(body, 200)

    def do_DELETE(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        if "dryRun" not in body:
            self.server.answers[path] = None
            self.server.changes.append(path.rpartition("/")[2])
        self._send({"kind": "Status", "status": "Success"}, 200)

    def log_message(self, *_words: t.Any) -> None:
        pass


def remove(user: User, directory: Path, cluster: Cluster, fails: bool = True, **variables: t.Any) -> str:
    given = {
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "rdma_groups": ["all"],
        "rdma_output_dir": str(directory / "output"),
        "rdma_rollout": {"kubeconfig": cluster.kubeconfig(directory)},
        **variables,
    }
    hosts = {"all": {"hosts": {"node": {"ansible_connection": "local"}}, "vars": given}}
    (directory / "hosts.json").write_text(json.dumps(hosts))
    (directory / "play.yml").write_text(PLAY)
    done = user.run("ansible-playbook", "-i", str(directory / "hosts.json"), str(directory / "play.yml"), check=False)
    assert (done.returncode != 0) is fails, done.stdout
    # whatever becomes of it
    assert (cluster.answers[LEASE] or {}).get("spec", {}).get("holderIdentity", "somebody") == "somebody"
    return " ".join((done.stdout + done.stderr).split())


def test_volumes_are_not_deleted_without_a_word(user: User, tmp_path: Path) -> None:
    with Cluster(ours=True, volumes=7) as cluster:
        said = remove(user, tmp_path, cluster)
    assert "Longhorn has 7 volumes (pvc-0, pvc-1, pvc-2, pvc-3, pvc-4, ...)" in said
    assert "rdma_longhorn.delete_volumes: true" in said
    assert cluster.changes == [GIVEN_UP]


@pytest.mark.parametrize("volumes", [0, 2])
def test_the_setting_is_put_back_when_the_removal_fails(user: User, tmp_path: Path, volumes: int) -> None:
    with Cluster(ours=True, volumes=volumes) as cluster:
        said = remove(user, tmp_path, cluster, rdma_longhorn={"delete_volumes": True})
    assert "cannot list releases" in said, said
    assert cluster.changes == ["true", "false", GIVEN_UP]


def test_the_setting_is_put_back_when_all_went_well(user: User, tmp_path: Path) -> None:
    """Somebody has removed the release a moment before, and what is left goes on to protect its volumes."""
    with Cluster(ours=True, volumes=0, releases=([RELEASE], [])) as cluster:
        remove(user, tmp_path, cluster, fails=False)
    assert cluster.changes == ["true", "fabric-rdma-longhorn", "false", GIVEN_UP]


def test_what_a_killed_removal_has_unlocked_is_locked_by_the_next_that_fails(user: User, tmp_path: Path) -> None:
    """Also by one that does not even begin."""
    with Cluster(ours=True, volumes=0, unlocked="by a killed run") as cluster:
        said = remove(user, tmp_path, cluster)
    assert "cannot list releases" in said, said
    assert cluster.changes == ["false", GIVEN_UP]
    assert cluster.setting["metadata"]["annotations"] == {}
    with Cluster(ours=True, volumes=7, unlocked="by a killed run") as cluster:
        said = remove(user, tmp_path, cluster)
    assert "Longhorn has 7 volumes" in said
    assert cluster.changes == ["false", GIVEN_UP]


def test_volumes_that_a_busy_server_does_not_tell_of_are_not_deleted_without_a_word(user: User, tmp_path: Path) -> None:
    with Cluster(ours=True, volumes=7, busy=(True, True)) as cluster:
        said = remove(user, tmp_path, cluster)
    assert "Longhorn has 7 volumes" in said
    assert cluster.changes == [GIVEN_UP]
    assert not cluster.busy


@pytest.mark.parametrize("code", [400, 404, 429, 503])
def test_an_answer_that_is_not_of_the_api_server_is_no_promise_that_there_are_no_volumes(
    user: User, tmp_path: Path, code: int
) -> None:
    """Such as that of a load balancer that has just lost its servers."""
    with Cluster(ours=True, volumes=7) as cluster:
        cluster.refusals[f"{LONGHORN}/namespaces/longhorn-system/volumes"] = code
        said = remove(user, tmp_path, cluster, rdma_longhorn={"delete_volumes": False})
    assert "list objects of the kind Volume" in said, said
    assert cluster.changes == [GIVEN_UP]


def test_a_busy_server_keeps_no_uninstaller_unlocked(user: User, tmp_path: Path) -> None:
    """Volumes are not looked at where groups keep them: the setting is what it is asked for first."""
    groups = {"rdma_groups": ["all", "ungrouped"], "rdma_uninstall_groups": ["ungrouped"]}
    with Cluster(ours=True, volumes=0, releases=([],), unlocked="by a killed run", busy=(True, True)) as cluster:
        remove(user, tmp_path, cluster, fails=False, **groups)
    assert cluster.changes == ["false", GIVEN_UP]
    assert not cluster.busy


def test_a_cluster_from_which_longhorn_has_gone_has_nothing_to_lock(user: User, tmp_path: Path) -> None:
    with Cluster(ours=True, volumes=0, releases=([RELEASE], [])) as cluster:
        for path in (LONGHORN, f"{EXTENSIONS}/customresourcedefinitions/volumes.longhorn.io", SETTING):
            cluster.answers[path] = None
        cluster.answers["/apis"]["groups"].pop(0)
        remove(user, tmp_path, cluster, fails=False)
    assert cluster.changes == ["fabric-rdma-longhorn", GIVEN_UP]


def test_what_somebody_else_has_unlocked_stays_so(user: User, tmp_path: Path) -> None:
    with Cluster(ours=True, volumes=0, unlocked="by its administrator") as cluster:
        remove(user, tmp_path, cluster)
    assert cluster.changes == [GIVEN_UP]


def test_a_removal_under_way_elsewhere_goes_on(user: User, tmp_path: Path) -> None:
    with Cluster(ours=True, volumes=0, held=True, unlocked="by a killed run") as cluster:
        remove(user, tmp_path, cluster)
    assert cluster.changes == []


def test_a_setting_that_cannot_be_put_back_is_told(user: User, tmp_path: Path) -> None:
    with Cluster(ours=True, volumes=0, stubborn=True) as cluster:
        said = remove(user, tmp_path, cluster)
    assert "cannot list releases" in said
    assert (
        "Longhorn's setting deleting-confirmation-flag may still be true, and lets its uninstaller delete all" in said
    )
    assert cluster.changes == ["true", GIVEN_UP]


@pytest.mark.parametrize("releases", [[], [RELEASE]])
def test_the_setting_is_not_touched_when_the_release_is_not_ours_any_more(
    user: User, tmp_path: Path, releases: list[Json]
) -> None:
    """Helm has forgotten it, or somebody else has installed another in its place."""
    with Cluster(ours=True, volumes=2, releases=(releases,), since="2026-01-01T00:00:00Z") as cluster:
        said = remove(user, tmp_path, cluster, fails=False)
    assert cluster.changes == ["fabric-rdma-longhorn", GIVEN_UP]
    assert ("release longhorn-system/longhorn is not the one that a rollout has installed" in said) is bool(releases)


def test_nothing_is_looked_at_while_somebody_else_rolls_out(user: User, tmp_path: Path) -> None:
    """Volumes that come between a look and the removal would be deleted."""
    with Cluster(ours=True, volumes=0, held=True) as cluster:
        said = remove(user, tmp_path, cluster)
    assert "Another rollout is under way: Lease kube-system/fabric-rdma-rollout is held by somebody" in said
    assert cluster.changes == []


def test_the_longhorn_of_somebody_else_is_not_touched(user: User, tmp_path: Path) -> None:
    with Cluster(ours=False, volumes=2) as cluster:
        remove(user, tmp_path, cluster, fails=False, rdma_longhorn={"delete_volumes": True})
    assert cluster.changes == [GIVEN_UP]


def test_groups_that_stay_keep_their_storage(user: User, tmp_path: Path) -> None:
    with Cluster(ours=True, volumes=0, releases=([],)) as cluster:
        remove(
            user, tmp_path, cluster, fails=False, rdma_groups=["all", "ungrouped"], rdma_uninstall_groups=["ungrouped"]
        )
    assert cluster.changes == [GIVEN_UP]
