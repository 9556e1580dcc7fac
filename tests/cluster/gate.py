# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy before an API server that counts what is changed, holds one change while a test ends something, and has no time for others."""

from __future__ import annotations

import http.server
import json
import threading
import typing as t
from pathlib import Path

import kubernetes
import urllib3

from ansible_collections.fabric.rdma.molecule.shared.pace import limit

# Seconds that a held change, and the test that waits for one, are given.
PATIENCE = limit(120)


def _no_time() -> urllib3.BaseHTTPResponse:
    return urllib3.HTTPResponse(b'{"kind": "Status", "message": "no time", "code": 503}', status=503)


class Gate:
    """Plain HTTP on 127.0.0.1 for whoever connects, with the rights of a kubeconfig.

    A change is a request that writes, is not a dry run, and is of no Lease. The one with the number hold is held: before the server has
    seen it, or with answered after it was carried out, in place of its answer. From then on nobody gets an answer.

    busy, busy_reads: for each of the next changes, and looks at a node, whether it is refused (503), as by a server that has no time.
    silent: paths of which nothing is told (503).
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.client = kubernetes.config.new_client_from_config(str(kubeconfig))
        self.changes: list[str] = []
        self.hold, self.answered = 0, False
        self.busy: list[bool] = []
        self.busy_reads: list[bool] = []
        self.silent: set[str] = set()
        self.held, self.released = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        gate = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                answer = gate.pass_on(self.command, self.path, dict(self.headers), body)
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
                self.send_header("Content-Length", str(len(answer.data)))
                self.end_headers()
                self.wfile.write(answer.data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *_arguments: t.Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Gate:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def arm(self, hold: int, answered: bool = False) -> None:
        """Start counting again. 0 holds nothing."""
        self.changes = []
        self.hold, self.answered = hold, answered
        self.held.clear()
        self.released.clear()

    def pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> urllib3.BaseHTTPResponse | None:
        if "/leases" in path:
            # who rolls out is not part of what is rolled out
            return None if self.held.is_set() else self._ask(method, path, headers, body)
        if path.partition("?")[0] in self.silent:
            return _no_time()
        if method == "GET" and "/nodes/" in path and self.busy_reads and self.busy_reads.pop(0):
            return _no_time()
        rehearsal = "dryRun=All" in path or (method == "DELETE" and json.loads(body or b"{}").get("dryRun"))
        if method == "GET" or rehearsal:
            return None if self.held.is_set() else self._ask(method, path, headers, body)
        with self._lock:
            if self.held.is_set():
                return None
            if self.busy and self.busy.pop(0):
                return _no_time()
            last = len(self.changes) + 1 == self.hold
            answer = None if last and not self.answered else self._ask(method, path, headers, body)
            if answer is not None and answer.status != 409:
                # one that was refused for an older version changes nothing, and comes once more
                assert answer.status < 300, (method, path, answer.data)
                self.changes.append(f"{method} {path.partition('?')[0]}")
            if not last:
                return answer
            self.held.set()
        self.released.wait(PATIENCE)
        return None

    def _ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> urllib3.BaseHTTPResponse:
        mine = {key: headers[key] for key in ("Accept", "Content-Type") if key in headers}
        bearer = self.client.configuration.auth_settings().get("BearerToken")
        if bearer:
            mine[bearer["key"]] = bearer["value"]
        url = self.client.configuration.host + path
        pool = self.client.rest_client.pool_manager
        return t.cast("urllib3.BaseHTTPResponse", pool.request(method, url, headers=mine, body=body))
