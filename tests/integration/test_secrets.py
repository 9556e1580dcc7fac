# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is secret in the wishes is in no output, however much of it is asked for."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import OPERATOR
from ansible_collections.fabric.rdma.tests.integration.stand_ins import interpreter
from ansible_collections.fabric.rdma.tests.integration.test_failures import replayed, write_inventory
from ansible_collections.fabric.rdma.tests.unit.kubeconfigs import kubeconfig_of
from ansible_collections.fabric.rdma.tests.unit.served import served

if t.TYPE_CHECKING:
    from ansible_collections.fabric.rdma.tests.integration.stand_ins import Node
    from conftest import User

pytestmark = pytest.mark.integration


class Empty(http.server.BaseHTTPRequestHandler):
    """An API server that has no release of Helm, and takes a Lease and ConfigMaps: as far as a rollout gets before Helm."""

    leases: t.ClassVar[dict[str, bytes]] = {}

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in self.leases:
            self._say(200, self.leases[path])
        elif path in ("/api/v1", "/apis/coordination.k8s.io/v1"):
            kinds = [{"kind": kind, "name": kind.lower() + "s", "namespaced": True} for kind in ("ConfigMap", "Lease")]
            self._say(200, json.dumps({"resources": kinds}).encode())
        elif path.endswith("/secrets"):
            self._say(200, b'{"items": []}')
        else:
            self._say(404, json.dumps({"kind": "Status", "reason": "NotFound", "message": "not there"}).encode())

    def _taken(self, path: str, status: int) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        space = path.partition("/namespaces/")[2].partition("/")[0]
        body["metadata"] |= {"uid": "1", "resourceVersion": "1", "namespace": space}
        if "/leases/" in path:
            self.leases[path.partition("?")[0]] = json.dumps(body).encode()
        self._say(status, json.dumps(body).encode())

    def do_POST(self) -> None:
        self._taken(self.path.partition("?")[0] + "/fabric-rdma-rollout", 201)

    def do_PATCH(self) -> None:
        self._taken(self.path, 200)

    do_PUT = do_PATCH

    def do_DELETE(self) -> None:
        self.leases.pop(self.path.partition("?")[0], None)
        self._say(200, b'{"kind": "Status", "status": "Success"}')

    def log_message(self, *_words: t.Any) -> None:
        """Nothing on the terminal."""


@pytest.fixture
def empty_cluster() -> t.Iterator[str]:
    """The address of such a server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


SECRET, PASSWORD = "hunter2-of-the-values", "hunter2-of-the-repository"
# A helm that fails, and quotes all that it was given.
HELM = """#!/bin/sh
case " $* " in
  *" version "*) echo 'version.BuildInfo{Version:"v3.17.2", GitCommit:"x"}'; exit 0 ;;
  *" list "*) echo '[]'; exit 0 ;;
  *" show chart "*) echo 'name: network-operator'; echo 'version: @OPERATOR@'; exit 0 ;;
esac
echo "Error: cannot do $*" >&2
for word in "$@"; do file=${word#*=}; if [ -f "$file" ]; then cat "$file" >&2; fi; done
exit 1
"""


@pytest.mark.parametrize("method", ["render", "apply"])
def test_values_and_addresses_of_the_chart_are_shown_nowhere(
    user: User, tmp_path: Path, empty_cluster: str, method: str
) -> None:
    helm = tmp_path / "helm"
    helm.write_text(HELM.replace("@OPERATOR@", OPERATOR))
    helm.chmod(0o755)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(kubeconfig_of(empty_cluster)))
    rollout = {
        "method": method,
        "engine": "network_operator",
        "operator_version": OPERATOR,
        "kubeconfig": str(kubeconfig),
        "helm": {
            "binary": str(helm),
            "pod_security": False,
            "repository": f"https://admin:{PASSWORD}@charts.example/stable",
            "values": {"operator": {"nameOverride": SECRET}},
        },
    }
    groups = {"v100": replayed("ib-v100-1")}
    inventory = write_inventory(tmp_path, groups, rdma_rollout=rollout)
    playbook = "plan" if method == "render" else "rollout"
    done = user.run("ansible-playbook", f"fabric.rdma.{playbook}", "-i", str(inventory), "-vvv", "--diff", check=False)
    said = done.stdout + done.stderr
    if method == "render":
        assert done.returncode == 0, said
        written = tmp_path / "output" / "rendered" / "network-operator-values.yaml"
        assert yaml.safe_load(written.read_text())["operator"]["nameOverride"] == SECRET
        assert written.stat().st_mode & 0o777 == 0o600
    else:
        assert done.returncode == 2, said
        assert "It is not known which nodes earlier rollouts have labelled: " in said
        assert "Check that Helm succeeded: " in said, said[-2000:]
        assert "https://charts.example/stable" in said, "the cause is told all the same"
    assert SECRET not in said
    assert PASSWORD not in said


# --- the repository of the driver ----------------------------------------------------------------------------------------

REPOSITORY = f"https://admin:{PASSWORD}@repository.example/doca"
FAMILIES = {"apt": "Debian", "dnf": "RedHat"}


def written(node: Node, manager: str) -> Path:
    """Where the role of this test's collection writes the repository: nothing of this machine is changed."""
    top = node.directory / "etc"
    (top / "apt" / "preferences.d").mkdir(parents=True)
    for name in ("apt/sources.list.d", "yum.repos.d", "pki/rpm-gpg"):
        (top / name).mkdir(parents=True)
    role = node.collection / "roles" / "ofed"
    for path in [*role.glob("tasks/*.yml"), *role.glob("vars/*.yml")]:
        text = path.read_text().replace("/etc/apt/", f"{top}/apt/").replace("/etc/pki/", f"{top}/pki/")
        path.write_text(text.replace("/etc/yum.repos.d/", f"{top}/yum.repos.d/"))
    name = "apt/sources.list.d/fabric-rdma-ofed.sources" if manager == "apt" else "yum.repos.d/fabric-rdma-ofed.repo"
    return top / name


# neither UTF-8 nor any other text
KEY = bytes(range(256))
CHECKSUM = f"sha256:{hashlib.sha256(KEY).hexdigest()}"


def ofed(node: Node, manager: str, *options: str, user: User | None = None, **wish: t.Any) -> str:
    """What a run of the role says, with a package manager that fails and quotes the repository."""
    quotes = {"failed": True, "rc": 1, "msg": f"E: Failed to fetch {wish['repository']}/Packages"}
    facts = {"ansible_os_family": FAMILIES[manager], "ansible_pkg_mgr": manager, "ansible_distribution": "x"}
    setup = {"ansible_facts": facts}
    answers = {"": {"real": {}}, manager: quotes, "package": {}, "rpm_key": {}, "setup": setup}
    (node.directory / "answers.json").write_text(json.dumps(node.answers))
    host = interpreter(node.directory / "node", answers)
    (node.directory / "hosts.json").write_text(json.dumps({"all": {"hosts": {"n1": host}}}))
    wish = {"method": "doca", "version": "2.9.1", "key_checksum": CHECKSUM, "activate": "none", **wish}
    # nothing of this machine is written
    logs = {f"__ofed_{name}_log": str(node.directory / f"{name}.log") for name in ("kept", "staged")}
    play = {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.include_role": {"name": "fabric.rdma.ofed"}}],
        "vars": {"rdma_ofed": wish},
    }
    (node.directory / "play.yml").write_text(json.dumps([play]))
    inventory = str(node.directory / "hosts.json")
    command = ["-i", inventory, "-e", json.dumps(logs), *options, str(node.directory / "play.yml")]
    done = (user or node.user).run("ansible-playbook", *command, check=False)
    return " ".join((done.stdout + done.stderr).replace('\\"', '"').split())


@pytest.mark.parametrize(("whose", "manager"), [("newest_user", "apt"), ("newest_user", "dnf"), ("oldest_user", "apt")])
def test_the_password_of_a_repository_is_for_root_alone(
    node: Node, whose: str, manager: str, request: pytest.FixtureRequest
) -> None:
    """Of its address, and of that of its key. It has to be on the node, where nobody but root reads it."""
    core = request.getfixturevalue(whose)
    user = node.user._replace(bin=core.bin, env={**node.user.env, "PATH": core.env["PATH"]})
    source = written(node, manager)
    with served({"/key.gpg": KEY}, password=PASSWORD) as server:
        address = server.address.replace("://", f"://admin:{PASSWORD}@")
        wish: dict[str, t.Any] = {"repository": REPOSITORY, "key": f"{address}/key.gpg"}
        checked = ofed(node, manager, "--check", "--diff", "-vvv", user=user, **wish)
        assert not source.exists()
        said = ofed(node, manager, "--diff", "-vvv", user=user, **wish)
    keys = [path for path in (node.directory / "etc").rglob("*") if path.is_file() and "fabric-rdma-ofed" in path.name]
    assert [path.read_bytes() for path in keys if path.parent.name in ("keyrings", "rpm-gpg")] == [KEY]
    assert PASSWORD not in checked
    assert "from https://repository.example/doca" in checked
    assert f"admin:{PASSWORD}@repository.example/doca" in source.read_text()
    assert source.stat().st_mode & 0o777 == 0o600
    assert PASSWORD not in said
    assert "Failed to fetch https://repository.example/doca/Packages" in said, "the cause is told all the same"
    assert "What was done: put back" in said


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_the_password_of_a_key_that_is_not_there(node: Node, whose: str, request: pytest.FixtureRequest) -> None:
    core = request.getfixturevalue(whose)
    user = node.user._replace(bin=core.bin, env={**node.user.env, "PATH": core.env["PATH"]})
    written(node, "apt")
    wish: dict[str, t.Any] = {
        "repository": "https://repository.example/doca",
        "key": f"http://admin:{PASSWORD}@127.0.0.1:9/key.asc",
    }
    said = ofed(node, "apt", "--diff", "-vvv", user=user, **wish)
    assert PASSWORD not in said
    assert 'failed at "key | Download the key of the repository"' in said


@pytest.mark.parametrize(
    ("whose", "beside"), [("user", True), ("newest_user", True), ("oldest_user", True), ("user", False)]
)
def test_a_repository_without_a_password_is_shown(
    node: Node, whose: str, beside: bool, request: pytest.FixtureRequest
) -> None:
    """And its key, a file of the controller that lies beside the playbook or has its whole path, is on the node as it is."""
    core = request.getfixturevalue(whose)
    user = node.user._replace(bin=core.bin, env={**node.user.env, "PATH": core.env["PATH"]})
    source = written(node, "apt")
    key, other = node.directory / "files" / "key.gpg", b"of somebody else"
    key.parent.mkdir()
    key.write_bytes(KEY)
    for path in [node.directory / "key.gpg"] if beside else [key.parent / key.relative_to("/")]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(other)
    wish = {
        "repository": "https://repository.example/doca",
        "key": key.name if beside else str(key),
        "key_checksum": "",
    }
    said = ofed(node, "apt", "--diff", user=user, **wish)
    assert (node.directory / "etc" / "apt" / "keyrings" / "fabric-rdma-ofed.gpg").read_bytes() == KEY
    assert source.stat().st_mode & 0o777 == 0o644
    assert "+URIs: https://repository.example/doca" in said
    assert 'failed at "apt | Install the release"' in said
