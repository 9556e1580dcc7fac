# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions to a container runtime over CRI, the interface that kubelet uses. Private to the collection.

Field numbers are those of k8s.io/cri-api, pkg/apis/runtime/v1/api.proto, which never change. Served by containerd 1.6 and
newer under this name. What containerd adds to the verbose answers is JSON (internal/cri/server, StatusResponse.info and
ContainerStatusResponse.info). It may hold registry credentials, so only what is named here leaves this file.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.grpc import (
    UNIMPLEMENTED,
    GrpcError,
    WireError,
    decode,
    encode,
    message_texts,
    text,
    unary,
)

__all__ = ["Cri"]

Json = t.Dict[str, t.Any]

# gRPC says NOT_FOUND of a container that went away between two questions.
_NOT_FOUND = 5
_CONTAINER_STATES = ("created", "running", "exited", "unknown")
_RUNNING = 1


def _messages(message: t.Mapping[int, list[t.Union[int, bytes]]], number: int) -> list[bytes]:
    return [value for value in message.get(number, []) if isinstance(value, bytes)]


def _number(message: t.Mapping[int, list[t.Union[int, bytes]]], number: int) -> int:
    value = message.get(number, [0])[-1]
    return value if isinstance(value, int) else 0


def _object(value: str) -> Json:
    """A JSON object of the verbose information; an empty one when it is something else."""
    try:
        found = json.loads(value or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _at(value: t.Any, *path: str) -> t.Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


class Cri:
    """The runtime behind a socket. Each question is a connection of its own, so a restart in between does not matter."""

    def __init__(self, socket_path: str, timeout: float = 10.0) -> None:
        self.socket_path = socket_path
        self.timeout = timeout

    def call(self, method: str, message: bytes = b"") -> bytes:
        """Calls a method such as RuntimeService/Status with an encoded message; the encoded answer."""
        try:
            return unary(self.socket_path, "/runtime.v1." + method, message, self.timeout)
        except GrpcError as exc:
            if exc.status == UNIMPLEMENTED and "unknown service" in str(exc):
                hint = "its CRI plugin is disabled or in error; `ctr plugins ls` and its log say why"
                raise GrpcError(exc.status, f"{exc} ({hint})") from exc
            raise

    def _ask(self, method: str, *fields: tuple[int, t.Any]) -> dict[int, list[t.Union[int, bytes]]]:
        try:
            return decode(self.call(method, encode(fields)))
        except WireError as exc:
            raise GrpcError(0, f"{self.socket_path}: the answer to {method} cannot be read: {exc}") from exc

    def version(self) -> tuple[str, str]:
        """(name, version) of the runtime, such as ("containerd", "1.7.24")."""
        answer = self._ask("RuntimeService/Version", (1, "v1"))
        return text(answer, 2), text(answer, 3)

    def status(self) -> Json:
        """Conditions by type, and the handlers with the base runtime specification that the running daemon has.

        {conditions: {RuntimeReady: {status, reason, message}, ...}, default_handler,
        handlers: {runc: {base_runtime_spec: path or null, runtime_type}}}. No handlers when it is not containerd.
        """
        answer = self._ask("RuntimeService/Status", (1, True))
        conditions = {}
        for status in _messages(answer, 1):
            for data in _messages(decode(status), 1):
                condition = decode(data)
                conditions[text(condition, 1)] = {
                    "status": bool(_number(condition, 2)),
                    "reason": text(condition, 3),
                    "message": text(condition, 4),
                }
        containerd = _at(_object(message_texts(answer, 2).get("config", "")), "containerd")
        handlers = {}
        for name, runtime in sorted((_at(containerd, "runtimes") or {}).items()):
            handlers[name] = {
                "base_runtime_spec": _at(runtime, "baseRuntimeSpec") or None,
                "runtime_type": _at(runtime, "runtimeType") or None,
            }
        return {
            "conditions": conditions,
            "default_handler": _at(containerd, "defaultRuntimeName") or None,
            "handlers": handlers,
        }

    def pods(self) -> list[Json]:
        """Pod sandboxes, ready or not: {id, pod, namespace, uid, handler, ready}. The default handler is an empty text."""
        found = []
        for data in _messages(self._ask("RuntimeService/ListPodSandbox"), 1):
            item = decode(data)
            metadata = decode((_messages(item, 2) or [b""])[-1])
            found.append(
                {
                    "id": text(item, 1),
                    "pod": text(metadata, 1),
                    "namespace": text(metadata, 3),
                    "uid": text(metadata, 2),
                    "handler": text(item, 7),
                    "ready": _number(item, 3) == 0,
                }
            )
        return sorted(found, key=lambda pod: (pod["namespace"], pod["pod"], pod["id"]))

    def containers(self) -> list[Json]:
        """Running containers: {id, pid, pod, namespace, container, handler, state}, by namespace, Pod and container.

        The pause container of a Pod is left out. pid is the first process on the node; null when it is not known.
        """
        pods = {pod["id"]: pod for pod in self.pods()}
        found = []
        # ListContainersRequest.filter.state.state
        for data in _messages(self._ask("RuntimeService/ListContainers", (1, [(2, [(1, _RUNNING)])])), 1):
            item = decode(data)
            state = _number(item, 6)
            if state != _RUNNING:
                continue
            identifier = text(item, 1)
            try:
                details = self._ask("RuntimeService/ContainerStatus", (1, identifier), (2, True))
            except GrpcError as exc:
                if exc.status == _NOT_FOUND:
                    continue
                raise
            pod = pods.get(text(item, 2), {})
            pid = _at(_object(message_texts(details, 2).get("info", "")), "pid")
            found.append(
                {
                    "id": identifier,
                    "pid": pid if isinstance(pid, int) and pid > 0 else None,
                    "pod": pod.get("pod"),
                    "namespace": pod.get("namespace"),
                    "container": text(decode((_messages(item, 3) or [b""])[-1]), 1),
                    "handler": pod.get("handler", ""),
                    "state": _CONTAINER_STATES[state],
                }
            )
        return sorted(found, key=lambda one: (one["namespace"] or "", one["pod"] or "", one["container"], one["id"]))
