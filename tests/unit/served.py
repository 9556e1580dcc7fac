# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A web server of this machine that has files, some of them for those only who know a password."""

from __future__ import annotations

import base64
import contextlib
import http.server
import threading
from collections.abc import Iterator


class Served:
    """address: where it listens; asked: the paths that it was asked for, with what it answered."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.asked: list[tuple[str, int]] = []


@contextlib.contextmanager
def served(files: dict[str, bytes], password: str | None = None) -> Iterator[Served]:
    """The files by their paths; with a password, for the user admin only."""
    wanted = None if password is None else f"Basic {base64.b64encode(f'admin:{password}'.encode()).decode()}"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = 200 if self.path in files else 404
            status = 401 if wanted is not None and self.headers.get("Authorization") != wanted else status
            there.asked.append((self.path, status))
            body = files[self.path] if status == 200 else b""
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="files"')
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            # who has read enough goes
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        there = Served(f"http://127.0.0.1:{server.server_address[1]}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield there
        finally:
            server.shutdown()
