# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The little of an API server and of kubelets that Pods which measure need; what they print is given. Also over HTTP."""

from __future__ import annotations

import json
import threading
import typing as t
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import CONTAINER
from ansible_collections.fabric.rdma.tests.unit.kubeconfigs import kubeconfig_of, written

Json = dict[str, t.Any]
# labels of what a killed run has left
LEFT = {"app.kubernetes.io/managed-by": "fabric.rdma", "rdma.fabric/inventory": "default", "rdma.fabric/traffic": "old"}


class Refused(KubeError):
    """A refusal, or with the code 0 no answer."""

    def __init__(self, message: str, code: int, reason: str = "") -> None:
        super().__init__(message, code, reason=reason)
        self.passing = self.passing or code == 0


class PodCluster:
    """Pods by name. status: what a Pod of a name is after how many looks; logs: what it printed."""

    def __init__(
        self,
        status: t.Callable[[Json, int], Json],
        log: t.Callable[[Json], str],
        refuse: t.Callable[[str, str], int] | None = None,
    ) -> None:
        self.pods: dict[str, Json] = {}
        self.made: list[Json] = []
        self.deleted: list[str] = []
        self.asked: list[tuple[str, str]] = []
        # seconds for which the log that is asked for last is waited for, None for as long as for anything
        self.within: float | None = None
        # the node whose kubelet has to give it
        self.asked_of = ""
        self._looks: dict[str, int] = {}
        self._status, self._log = status, log
        self._refuse = refuse or (lambda _method, _path: 0)

    # as Kube

    def request(
        self, method: str, path: str, doing: str, query: t.Sequence[tuple[str, str]] = (), body: t.Any = None
    ) -> Json:
        name = path.rpartition("/")[2]
        self._insist(method, path, doing)
        if method == "POST":
            body = json.loads(json.dumps(body))
            name = body["metadata"]["name"]
            assert name not in self.pods
            body["metadata"]["uid"] = f"uid-{len(self.made)}"
            self.made.append(body)
            self.pods[name] = body
            return t.cast("Json", body)
        assert method == "DELETE"
        if name not in self.pods:
            raise Refused(f"cannot {doing}: not found", 404)
        assert body["preconditions"]["uid"] == self.pods[name]["metadata"]["uid"]
        self.deleted.append(name)
        return self.pods.pop(name)

    def list(self, path: str, doing: str, metadata_only: bool = False, **query: str) -> list[Json]:
        self._insist("GET", path, doing)
        assert not metadata_only
        return [self._seen(pod) for pod in list(self.pods.values()) if self._selected(pod, query["labelSelector"])]

    def text(self, path: str, doing: str, within: float | None = None, node: str = "", /, **query: str) -> str:
        self.within, self.asked_of = within, node
        self._insist("GET", path, doing)
        assert query["limitBytes"].isdigit()
        assert query["container"] == CONTAINER
        pod = self.pods.get(path.split("/")[-2])
        if pod is None:
            raise Refused(f"cannot {doing}: not found", 404)
        return self._log(pod)

    def _insist(self, method: str, path: str, doing: str) -> None:
        self.asked.append((method, path))
        code = self._refuse(method, path)
        if code:
            raise Refused(f"cannot {doing}: refused", 0 if code < 0 else code)

    def _seen(self, pod: Json) -> Json:
        name = pod["metadata"]["name"]
        self._looks[name] = self._looks.get(name, 0) + 1
        return {**pod, "status": self._status(pod, self._looks[name])}

    @staticmethod
    def _selected(pod: Json, selector: str) -> bool:
        labels = pod["metadata"].get("labels", {})
        for term in selector.split(","):
            key, _sign, value = term.partition("!=" if "!=" in term else "=")
            if ("!=" in term and labels.get(key) == value) or ("=" not in term and term not in labels):
                return False
            if "!=" not in term and "=" in term and labels.get(key) != value:
                return False
        return True


def _ours(**state: Json) -> Json:
    return {"name": CONTAINER, "state": state}


def running(ip: str = "10.0.0.9") -> Json:
    return {"phase": "Running", "podIP": ip, "containerStatuses": [_ours(running={"startedAt": "x"})]}


def ended(code: int = 0) -> Json:
    reason = "Error" if code else "Completed"
    state = _ours(terminated={"exitCode": code, "reason": reason})
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": [state]}


def side_of(pod: Json) -> str:
    return str(pod["metadata"]["name"].rpartition("-")[2])


def on(pod: Json, node: str) -> bool:
    """Whether a Pod is for a node."""
    return f"'{node}'" in str(pod["spec"]["affinity"])


def healthy(pod: Json, looks: int) -> Json:
    """Pending, running, and the client's ends."""
    if looks == 1:
        return {"phase": "Pending"}
    return running() if side_of(pod) == "server" or looks == 2 else ended()


class OverHttp:
    """What plays over HTTP, with a kubeconfig of it. Beside it stands the class of what plays."""

    def __init__(self, *given: t.Any, **more: t.Any) -> None:
        super().__init__(*given, **more)
        cluster: t.Any = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self, method: str) -> None:
                address = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(address.query))
                query.pop("limit", None)
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                code, kind = 200, "application/json"
                try:
                    if method != "GET":
                        answer: t.Any = cluster.request(method, address.path, "do it", body=body)
                    elif address.path.endswith("/log"):
                        answer, kind = cluster.text(address.path, "do it", **query), "text/plain"
                    else:
                        answer = cluster.got(address.path, query)
                except Refused as exc:
                    code, answer = exc.code, {"kind": "Status", "message": exc.message, "code": exc.code}
                data = (answer if isinstance(answer, str) else json.dumps(answer)).encode("utf-8", "surrogateescape")
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                self._answer("GET")

            def do_POST(self) -> None:
                self._answer("POST")

            def do_DELETE(self) -> None:
                self._answer("DELETE")

            def log_message(self, *_words: t.Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def got(self, path: str, query: Json) -> Json:
        """What is at a path that is read."""
        cluster: t.Any = self
        return {"items": cluster.list(path, "do it", **query)}

    def __enter__(self) -> t.Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, directory: Path) -> str:
        return written(directory, kubeconfig_of(f"http://127.0.0.1:{self._server.server_port}", {"token": "t"}))


class Served(OverHttp, PodCluster):
    """Pods over HTTP."""
