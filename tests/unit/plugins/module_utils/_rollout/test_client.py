# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said about a kubeconfig before anything is asked. What an API server answers is proved by tests/cluster."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import socket
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base import patience
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots, without_password
from ansible_collections.fabric.rdma.plugins.module_utils._rollout import client as _kube
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import (
    Kube,
    KubeError,
    Unreachable,
    redacted,
)
from ansible_collections.fabric.rdma.tests.unit.kubeconfigs import kubeconfig_of, written

ROOT = Path(__file__).resolve().parents[5]
SECRET = "hunter2"


def kubeconfig(tmp_path: Path, server: str, **cluster: Any) -> str:
    return written(tmp_path, kubeconfig_of(server, {"token": SECRET}, **cluster))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("https://admin:hunter2@host:6443/x", "https://host:6443/x"),
        ("see http://u:p@ss@[::1]:1 and https://b@c", "see http://[::1]:1 and https://c"),
        ("https://host/a@b", "https://host/a@b"),
        ("https://host:6443/a@b", "https://host:6443/a@b"),
        # no address, which is why it is shown
        ("cannot reach https://u:hunt/er2@repo/x", "cannot reach https://repo/x"),
        ("https://u:hunt?er#2@repo/x", "https://repo/x"),
        ("mail me@host", "mail me@host"),
    ],
)
def test_no_address_keeps_its_password(text: str, plain: str) -> None:
    assert without_password(text) == plain


@pytest.mark.parametrize("text", ["://" + ":" * 10**6, "://:" * 250_000, "://" * 300_000, "://a:" + "1" * 10**6])
def test_a_long_text_of_a_node_costs_no_more_than_it_is_long(text: str) -> None:
    """Hours, where each part of it is compared with each other: the test would never end."""
    assert without_password(text) == text


def test_what_was_given_is_not_in_a_message() -> None:
    given = {"a": ["top secret", {"b": 31337}], "c": True, "d": 'two\nlines "quoted"', "e": "x", "f": None}
    text = 'top secret! 31337 True two; lines "quoted", {"d": "two\\nlines \\"quoted\\""} x https://u:p@h/'
    assert redacted(text, given) == '***! *** True two; ***, {"d": "***"} x https://h/'


def test_a_password_in_the_address_of_the_server_is_not_told(tmp_path: Path) -> None:
    # discard: nothing listens
    kube = Kube(kubeconfig(tmp_path, f"https://admin:{SECRET}@127.0.0.1:9"))
    with pytest.raises(Unreachable) as refused:
        kube.find("/api/v1/namespaces", "look")
    assert "no answer from the API server https://127.0.0.1:9 " in str(refused.value)
    assert SECRET not in f"{refused.value}{kube.server}{kube.warnings}"


def test_a_kubeconfig_that_is_no_yaml_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(f"users:\n- user: {{token: {SECRET}\nx: [")
    with pytest.raises(KubeError, match=r"kubeconfig \S+ is not YAML, line \d+: ") as refused:
        Kube(str(path))
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("server", "cluster", "words"),
    [
        (
            "https://a:b@host",
            {"insecure-skip-tls-verify": True},
            "skips the verification of the API server's certificate",
        ),
        ("http://a:b@host", {}, r"over plain HTTP \(http://host\)"),
        ("http://127.0.0.1:8001", {}, None),
        ("https://host", {}, None),
    ],
)
def test_a_connection_that_others_can_read_is_told(
    tmp_path: Path, server: str, cluster: dict[str, Any], words: str | None
) -> None:
    warnings = Kube(kubeconfig(tmp_path, server, **cluster)).warnings
    assert len(warnings) == (words is not None)
    assert not words or re.search(words, warnings[0])
    assert "a:b" not in str(warnings)


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_is_deleted_is_what_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry_run: bool) -> None:
    kube = Kube(kubeconfig(tmp_path, "https://127.0.0.1:9"))
    asked: list[tuple[str, str, dict[str, Any]]] = []
    monkeypatch.setattr(kube, "kinds", lambda _version: {"ConfigMap": ("configmaps", True)})
    monkeypatch.setattr(kube, "request", lambda method, path, _doing, body: asked.append((method, path, body)))
    metadata = {"name": "a", "namespace": "n", "uid": "u-1", "resourceVersion": "7"}
    kube.delete({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, dry_run)
    ((method, path, body),) = asked
    assert (method, path) == ("DELETE", "/api/v1/namespaces/n/configmaps/a")
    assert body["preconditions"] == {"uid": "u-1", "resourceVersion": "7"}
    assert body.get("dryRun") == (["All"] if dry_run else None)


@contextlib.contextmanager
def refusing(*refusals: tuple[int, str | None]) -> Iterator[tuple[str, list[str]]]:
    """An API server that refuses with a status and a Retry-After, one after the other, and answers then: (address, what was asked)."""
    left, asked = list(refusals), []

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(f"{self.command} {self.path}")
            code, after = left.pop(0) if left else (200, None)
            body = json.dumps({"kind": "Status", "code": code, "reason": "Busy"} if code != 200 else {"items": []})
            self.send_response(code)
            if after is not None:
                self.send_header("Retry-After", after)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def do_GET(self) -> None:
            self._answer()

        def do_PATCH(self) -> None:
            self._answer()

        def log_message(self, *_words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr(patience.time, "sleep", taken.append)
    return taken


NODE = "/api/v1/nodes/n1"


@pytest.mark.parametrize(
    ("method", "refusals", "asked"),
    [
        ("GET", [(429, "1")], 2),
        ("GET", [(503, "1"), (500, "1")], 3),
        # what was not done can be done
        ("PATCH", [(429, "1"), (503, "7")], 3),
    ],
)
def test_a_server_that_says_when_it_has_time_is_asked_again(
    tmp_path: Path, naps: list[float], method: str, refusals: list[tuple[int, str | None]], asked: int
) -> None:
    with refusing(*refusals) as (address, seen):
        Kube(kubeconfig(tmp_path, address)).request(method, NODE, "do it")
    assert seen == [f"{method} {NODE}"] * asked
    # as long as it says, and no less than a moment
    assert naps == [max(2, int(str(after))) for _code, after in refusals]


@pytest.mark.parametrize(
    ("method", "refusals", "asked"),
    [
        ("GET", [(429, "1")] * 9, 3),
        ("GET", [(429, None)] * 9, 1),
        ("GET", [(503, "20")] * 9, 1),
        ("GET", [(503, "Sun, 01 Nov 2026 08:49:37 GMT")] * 9, 1),
        ("GET", [(403, "1")] * 9, 1),
        # it may have been done
        ("PATCH", [(504, "1")] * 9, 1),
    ],
)
def test_a_server_that_does_not_say_so_or_has_no_time_for_long_is_not(
    tmp_path: Path, naps: list[float], method: str, refusals: list[tuple[int, str | None]], asked: int
) -> None:
    with refusing(*refusals) as (address, seen), pytest.raises(KubeError) as refused:
        Kube(kubeconfig(tmp_path, address)).request(method, NODE, "do it")
    assert (refused.value.code, refused.value.reason) == (refusals[0][0], "Busy")
    assert len(seen) == asked
    assert len(naps) == asked - 1


def test_a_log_is_waited_for_as_long_as_is_said(tmp_path: Path, naps: list[float]) -> None:
    """By a server that takes the connection and says nothing; and by one that has time later than that."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kube = Kube(kubeconfig(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}"))
        begun = time.monotonic()
        words = r"cannot read it: no log within 0.2 s, most likely because the kubelet of n1 does not answer the API server\. Look at n1"
        with pytest.raises(Unreachable, match=words):
            kube.text("/log", "read it", 0.2, "n1")
        with pytest.raises(Unreachable, match="because the kubelet of its node does not answer"):
            kube.text("/log", "read it", 0.2)
        assert time.monotonic() - begun < limit(20)
    # by one that is not there, it is not the kubelet's
    with pytest.raises(Unreachable, match="no answer from the API server"):
        kube.text("/log", "read it", 5, "n1")
    with refusing((503, "5")) as (address, seen), pytest.raises(KubeError) as refused:
        Kube(kubeconfig(tmp_path, address)).text("/log", "read it", 5)
    assert (len(seen), naps) == (1, [])
    # whoever has more patience may ask again
    assert (refused.value.later, refused.value.passing) == (0, True)


def test_a_server_that_is_slow_to_say_that_it_has_no_time_is_not_asked_for_long(
    tmp_path: Path, naps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    # twelve seconds between any two looks at the clock
    clock = types.SimpleNamespace(monotonic=iter(range(0, 1000, 12)).__next__, time=time.time)
    monkeypatch.setattr(_kube, "time", clock)
    with refusing(*[(503, "1")] * 9) as (address, seen), pytest.raises(KubeError):
        Kube(kubeconfig(tmp_path, address)).request("GET", NODE, "do it")
    assert (len(seen), len(naps)) == (2, 1)


PAGE = (404, "404 page not found")
ITS_OWN = (404, json.dumps({"kind": "Status", "reason": "NotFound", "message": "not there"}))
THINGS = (200, json.dumps({"resources": [{"name": "things", "kind": "Thing", "namespaced": True}]}))
GROUPS = (200, json.dumps({"groups": [{"name": "example.com", "versions": [{"version": "v1"}]}]}))
SERVING = {"/apis": GROUPS, "/apis/example.com/v1": THINGS}
THING = "/apis/example.com/v1/namespaces/one/things/a"


@contextlib.contextmanager
def kube_of(tmp_path: Path, answers: dict[str, tuple[int, str]]) -> Iterator[Kube]:
    """A client of a server that answers by path, and else with the page that a load balancer, or an API server, has for none."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            code, body = {"/api": (200, '{"versions": ["v1"]}'), **answers}.get(self.path.partition("?")[0], PAGE)
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_DELETE = do_PUT = _answer

        def log_message(self, *_words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield Kube(kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_address[1]}"))
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("path", "answers", "served"),
    [
        (THING, SERVING, True),
        (THING, {**SERVING, THING: ITS_OWN}, False),
        # the kind went, or the API server never had one
        (THING, {"/apis": GROUPS, "/apis/example.com/v1": (200, '{"resources": []}')}, False),
        (THING, {"/apis": (200, '{"groups": []}')}, False),
        ("/apis/example.com/v1", {"/apis": (200, '{"groups": []}')}, False),
        # nothing behind the load balancer, or not all of it
        (THING, {}, True),
        (THING, {"/apis": GROUPS}, True),
        ("/apis/example.com/v1", {"/apis": GROUPS}, True),
        ("/apis/example.com/v1", {"/apis": (200, '{"status": "UP"}')}, True),
        ("/apis", {}, True),
        (
            "/api/v1/namespaces/one",
            {"/api/v1": (200, '{"resources": [{"name": "pods", "kind": "Pod", "namespaced": true}]}')},
            False,
        ),
        (
            "/api/v1/namespaces/one",
            {"/api/v1": (200, '{"resources": [{"name": "namespaces", "kind": "Namespace", "namespaced": false}]}')},
            True,
        ),
        (
            "/api/v1/namespaces/one/pods/a/log",
            {"/api/v1": (200, '{"resources": [{"name": "pods", "kind": "Pod", "namespaced": true}]}')},
            True,
        ),
    ],
)
def test_a_page_counts_as_missing_only_where_the_api_server_has_no_such_path(
    tmp_path: Path, path: str, answers: dict[str, tuple[int, str]], served: bool
) -> None:
    with kube_of(tmp_path, answers) as kube:
        if not served:
            assert kube.find(path, "read it") is None
            return
        for method in ("GET", "DELETE", "PUT"):
            with pytest.raises(Unreachable) as refused:
                kube.request(method, path, "do it")
            assert (refused.value.code, refused.value.passing) == (0, True)


def test_what_a_kind_was_called_is_known_after_it_went(tmp_path: Path) -> None:
    """Whoever removes the objects of a kind, one after the other, while somebody takes its definition."""
    answers = dict(SERVING)
    with kube_of(tmp_path, answers) as kube:
        place = kube.path(
            {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "one"}}
        )
        answers.update({"/apis/example.com/v1": PAGE, "/apis": (200, '{"groups": []}')})
        for _number in range(2):
            with pytest.raises(KubeError) as refused:
                kube.request("DELETE", place, "delete it")
            assert refused.value.code == 404
            assert (
                kube.path(
                    {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "one"}}
                )
                == place
            )


@pytest.mark.parametrize("body", ['{"status": "UP"}', "null", "[]", '"well"'])
def test_what_is_not_an_object_is_not_taken_for_one_or_for_none(tmp_path: Path, body: str) -> None:
    with kube_of(tmp_path, {THING: (200, body)}) as kube, pytest.raises(Unreachable, match="answered with"):
        kube.find(THING, "read it")


def test_a_version_without_a_list_of_kinds_does_not_count_as_one_without_kinds(tmp_path: Path) -> None:
    answers = {"/apis/example.com/v1": (200, '{"status": "UP"}')}
    with kube_of(tmp_path, answers) as kube, pytest.raises(Unreachable, match="something other than a list"):
        kube.kinds("example.com/v1")


def test_a_package_that_is_not_tested_is_told() -> None:
    assert [
        _kube._version_warning(text) is None for text in ("24.1.0", "24.2.0", "37.0.2", "38.0.0", "", "snapshot")
    ] == [*(False, True, True, False, False, False)]
    (wanted,) = re.findall(r"^kubernetes(.*)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert wanted == f">={in_dots(_kube._OLDEST)}.0,<{in_dots(_kube._BEYOND)}", (
        "what the module says is what is installed"
    )


class Slow(Kube):
    """An API server that has forgotten where a list of pages began when the second one is asked for."""

    def __init__(self, *codes: int) -> None:
        self.server, self.codes, self.asked = "https://api.example", list(codes), list[dict[str, str]]()

    def request(  # type: ignore[override]
        self, method: str, path: str, doing: str, query: Any = (), **_more: str
    ) -> dict[str, Any]:
        self.asked.append(dict(query))
        if "continue" in self.asked[-1]:
            raise KubeError("the provided continue parameter is too old", self.codes.pop(0))
        paged = "limit" in self.asked[-1]
        return {"metadata": {"continue": "c"} if paged else {}, "items": [{"n": 1}] if paged else [{"n": 1}, {"n": 2}]}


def test_a_list_whose_beginning_is_forgotten_is_read_at_once() -> None:
    kube = Slow(410)
    assert kube.list("/api/v1/pods", "list Pods", labelSelector="a=b") == [{"n": 1}, {"n": 2}]
    first = {"limit": "500", "labelSelector": "a=b"}
    assert kube.asked == [first, {**first, "continue": "c"}, {"labelSelector": "a=b"}]
    with pytest.raises(KubeError, match="too old"):
        Slow(400).list("/api/v1/pods", "list Pods")
