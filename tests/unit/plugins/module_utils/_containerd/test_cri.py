# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CRI: answers as the messages are defined, and those of a real containerd where one can run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._containerd import cri as _cri
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.cri import Cri
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.grpc import GrpcError, decode, encode, text
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils.containerd_node import CONFIG_2, Machine, programs


def answer(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> list[tuple[str, bytes]]:
    """Puts encoded messages, or errors, in the place of a server's answers by method; the calls that were made."""
    calls: list[tuple[str, bytes]] = []

    def unary(socket_path: str, path: str, message: bytes, timeout: float) -> bytes:
        calls.append((path, message))
        found = answers[path.rpartition("/")[2]]
        found = found(message) if callable(found) else found
        if isinstance(found, Exception):
            raise found
        return encode(found) if isinstance(found, list) else found

    monkeypatch.setattr(_cri, "unary", unary)
    return calls


def info(key: str, value: Any) -> tuple[int, Any]:
    return (2, [(1, key), (2, json.dumps(value))])


def test_status_has_conditions_and_handlers_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {
        "registry": {"configs": {"r": {"auth": {"password": "never"}}}},
        "containerd": {
            "defaultRuntimeName": "runc",
            "runtimes": {
                "runc": {"baseRuntimeSpec": "", "runtimeType": "io.containerd.runc.v2"},
                "nvidia": {"baseRuntimeSpec": "/x.json", "runtimeType": "io.containerd.runc.v2"},
            },
        },
    }
    conditions = [(1, [(1, [(1, "RuntimeReady"), (2, True)]), (1, [(1, "NetworkReady"), (3, "no"), (4, "why")])])]
    calls = answer(monkeypatch, {"Status": [*conditions, info("golang", "go1"), info("config", config)]})
    status = Cri("/s").status()
    assert status == {
        "conditions": {
            "RuntimeReady": {"status": True, "reason": "", "message": ""},
            "NetworkReady": {"status": False, "reason": "no", "message": "why"},
        },
        "default_handler": "runc",
        "handlers": {
            "nvidia": {"base_runtime_spec": "/x.json", "runtime_type": "io.containerd.runc.v2"},
            "runc": {"base_runtime_spec": None, "runtime_type": "io.containerd.runc.v2"},
        },
    }
    assert calls == [("/runtime.v1.RuntimeService/Status", b"\x08\x01")]
    for other in ([], [info("config", [])], [info("config", {"containerd": 5})]):
        answer(monkeypatch, {"Status": other})
        assert Cri("/s").status()["handlers"] == {}


def test_running_containers_come_with_pod_and_process(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [
        (1, [(1, "p1"), (2, [(1, "trainer-0"), (2, "u1"), (3, "jobs")]), (7, "nvidia")]),
        (1, [(1, "p0"), (2, [(1, "agent"), (2, "u0"), (3, "default")]), (3, 1)]),
    ]
    containers = [
        (1, [(1, "c1"), (2, "p1"), (3, [(1, "trainer")]), (6, 1)]),
        (1, [(1, "c2"), (2, "p1"), (3, [(1, "gone")]), (6, 1)]),
        (1, [(1, "c3"), (2, "lost"), (3, [(1, "orphan")]), (6, 1)]),
        (1, [(1, "c4"), (2, "p1"), (3, [(1, "done")]), (6, 2)]),
    ]

    def status(message: bytes) -> Any:
        fields = decode(message)
        assert fields[2] == [1]
        if text(fields, 1) == "c2":
            return GrpcError(5, "not found")
        return [info("info", {"pid": 4711, "runtimeSpec": {}} if text(fields, 1) == "c1" else {"pid": 0})]

    answers = {"ListPodSandbox": pods, "ListContainers": containers, "ContainerStatus": status}
    calls = answer(monkeypatch, answers)
    cri = Cri("/s")
    assert cri.containers() == [
        {
            "id": "c3",
            "pid": None,
            "pod": None,
            "namespace": None,
            "container": "orphan",
            "handler": "",
            "state": "running",
        },
        {
            "id": "c1",
            "pid": 4711,
            "pod": "trainer-0",
            "namespace": "jobs",
            "container": "trainer",
            "handler": "nvidia",
            "state": "running",
        },
    ]
    # filter: {state: {state: CONTAINER_RUNNING}}
    assert calls[1] == ("/runtime.v1.RuntimeService/ListContainers", bytes.fromhex("0a0412020801"))
    assert [(pod["pod"], pod["ready"]) for pod in cri.pods()] == [("agent", False), ("trainer-0", True)]
    answer(monkeypatch, {**answers, "ContainerStatus": GrpcError(4, "/s: no answer in 10 seconds")})
    with pytest.raises(GrpcError, match=r"^/s: no answer in 10 seconds$"):
        cri.containers()


def test_a_refused_call_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(
        monkeypatch,
        {"Status": GrpcError(12, "/s: unknown service runtime.v1.RuntimeService"), "Version": b"\x0a\x05"},
    )
    with pytest.raises(GrpcError, match=r"its CRI plugin is disabled or in error") as error:
        Cri("/s").status()
    assert error.value.status == 12
    with pytest.raises(
        GrpcError, match=r"^/s: the answer to RuntimeService/Version cannot be read: field 1 has 5 bytes"
    ):
        Cri("/s").version()


def test_a_real_containerd_tells_its_status(tmp_path: Path, generation: str) -> None:
    machine = Machine(tmp_path, programs(generation), CONFIG_2)
    spec = tmp_path / "etc/spec.json"
    _status, output, _error = machine.command([os.path.join(machine.directory, "ctr"), "oci", "spec"])
    spec.write_text(output)
    header = "runtimes.nvidia]\n"
    text_of_config = machine.config.read_text()
    machine.config.write_text(text_of_config.replace(header, f'{header}base_runtime_spec = "{spec}"\n'))
    cri = Cri(machine.address)
    try:
        assert machine.start(), (tmp_path / "log").read_text()
        name, version = cri.version()
        assert (name, version.startswith(generation)) == ("containerd", True)
        status = cri.status()
        assert status["conditions"]["RuntimeReady"]["status"] is True
        assert (status["default_handler"], sorted(status["handlers"])) == ("runc", ["nvidia", "runc"])
        assert [status["handlers"][name]["base_runtime_spec"] for name in ("nvidia", "runc")] == [str(spec), None]
        assert (cri.pods(), cri.containers()) == ([], [])
        with pytest.raises(GrpcError, match="unknown method Nonsense") as error:
            cri.call("RuntimeService/Nonsense")
        assert error.value.status == 12
        # and with the CRI plugin in error
        spec.write_text("[]")
        machine.stop()
        assert machine.start()
        with pytest.raises(GrpcError, match=r"unknown service runtime\.v1\.RuntimeService \(its CRI plugin"):
            cri.status()
    finally:
        machine.stop()
    with pytest.raises(GrpcError, match=r"nobody listens there|there is no such socket"):
        cri.status()
