# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A release that a run meant to install, and that it never asked Helm for, is not remembered as ours."""

from __future__ import annotations

import http.server
import json
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import OPERATOR
from ansible_collections.fabric.rdma.tests.integration.test_failures import replayed, write_inventory
from ansible_collections.fabric.rdma.tests.integration.test_secrets import HELM
from ansible_collections.fabric.rdma.tests.integration.test_secrets_systems import Serving, ran
from ansible_collections.fabric.rdma.tests.unit.kubeconfigs import kubeconfig_of

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

RECORDS = "/api/v1/namespaces/kube-system/configmaps/fabric-rdma-"


class Closed(Serving):
    """An API server that keeps ConfigMaps, and in which nobody may make a namespace."""

    # ConfigMaps, too
    leases: t.ClassVar[dict[str, bytes]] = {}

    def do_PATCH(self) -> None:
        path = self.path.partition("?")[0]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if path.startswith("/api/v1/namespaces/") and path.count("/") == 4:
            refusal = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "namespaces is forbidden"}
            self._say(403, json.dumps(refusal).encode())
            return
        ours = [{"manager": "fabric.rdma", "operation": "Apply"}]
        body["metadata"] |= {"uid": "1", "resourceVersion": "1", "managedFields": ours}
        if "/configmaps/" in path and "dryRun" not in self.path:
            self.leases[path] = json.dumps(body).encode()
        self._say(200, json.dumps(body).encode())


@pytest.fixture
def closed_cluster() -> t.Iterator[str]:
    """The address of such a server."""
    Closed.leases.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Closed) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_operator_whose_namespace_cannot_be_made_is_forgotten(
    user: User, tmp_path: Path, closed_cluster: str
) -> None:
    program = tmp_path / "helm"
    program.write_text(HELM.replace("@OPERATOR@", OPERATOR))
    program.chmod(0o755)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(kubeconfig_of(closed_cluster)))
    rollout = {
        "engine": "network_operator",
        "operator_version": OPERATOR,
        "kubeconfig": str(kubeconfig),
        "helm": {"binary": str(program)},
    }
    inventory = write_inventory(tmp_path, {"v100": replayed("ib-v100-1")}, rdma_rollout=rollout)
    done = user.run("ansible-playbook", "fabric.rdma.rollout", "-i", str(inventory), check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert "namespaces is forbidden" in said
    assert "cannot do" not in said, "Helm was not asked"
    assert json.loads(Closed.leases[RECORDS + "network-operator"])["data"]["charts"] == "[]"
    assert not [path for path in Closed.leases if "/leases/" in path], "others can roll out"


def test_a_chart_whose_namespace_cannot_be_made_is_forgotten(user: User, tmp_path: Path, closed_cluster: str) -> None:
    program = tmp_path / "helm"
    program.write_text(HELM.replace("@OPERATOR@", OPERATOR))
    program.chmod(0o755)
    code, said = ran(user, tmp_path, closed_cluster, ["longhorn"], "apply")
    assert code == 2, said[-3000:]
    assert "namespaces is forbidden" in said
    assert json.loads(Closed.leases[RECORDS + "longhorn"])["data"]["charts"] == "[]"
