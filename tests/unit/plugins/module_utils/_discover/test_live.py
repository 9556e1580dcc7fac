# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What discovery asks a live node: of processes, files and the kernel of this machine, and of a stand-in for containerd."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.recorder import Recorder
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import ANSWERS, DirectoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.cri import Cri
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.grpc import GrpcError
from ansible_collections.fabric.rdma.plugins.module_utils._discover import live as _live
from ansible_collections.fabric.rdma.plugins.module_utils._discover.default_routes import default6_answer
from ansible_collections.fabric.rdma.plugins.module_utils._discover.live import live_answers


def no_program(command: list[str]) -> tuple[int, str, str]:
    raise AssertionError(command)


@contextlib.contextmanager
def sleeper() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        yield process.pid


def test_a_file_that_changed_after_a_process_started_is_told(tmp_path: Path) -> None:
    ask = live_answers(no_program)
    late = tmp_path / "late"
    with sleeper() as pid:
        assert ask("changed", f"{pid}{__file__}") == "0"
        time.sleep(0.05)
        late.write_text("")
        # the time of modification can be set back, as a restored backup has it
        os.utime(late, (0, 0))
        assert ask("changed", f"{pid}{late}") == "1"
        assert ask("changed", f"{pid}{tmp_path}/none") is None
    assert ask("changed", f"999999999{late}") is None
    assert ask("changed", f"x{late}") is None


def test_a_file_written_just_before_a_start_is_not_newer(tmp_path: Path) -> None:
    """Otherwise every run would restart what the last one had restarted."""
    for turn in range(5):
        path = tmp_path / str(turn)
        path.write_text("")
        with sleeper() as pid:
            assert live_answers(no_program)("changed", f"{pid}{path}") == "0"


def test_of_a_live_node_the_kernel_tells_the_tables_of_routes() -> None:
    told = live_answers(no_program)("default6", "")
    assert told is not None
    assert told == default6_answer("")


def test_a_program_that_fails_has_no_version(tmp_path: Path) -> None:
    program = tmp_path / "containerd"
    asked = []

    def run(command: list[str]) -> tuple[int, str, str]:
        asked.append(command)
        return (0 if len(asked) == 1 else 1), "containerd c 1.7.24 x\n", "e"

    ask = live_answers(run)
    assert ask("version", str(program)) is None
    program.write_text("")
    program.chmod(0o755)
    assert ask("version", str(program)) == "containerd c 1.7.24 x"
    assert ask("version", str(program)) is None
    assert asked == [[str(program), "--version"]] * 2


SYMBOL = "ib_register_peer_memory_client"
LINE = f"ffffffffc0a01000 T {SYMBOL}\t[ib_uverbs]\n"
# as much as is read at once, less than the beginning of that line
FILL = "x" * ((1 << 20) - 30)


@pytest.mark.parametrize(
    ("listing", "said"),
    [
        (LINE, "1"),
        (FILL + LINE, "1"),
        (LINE.replace(SYMBOL, f"{SYMBOL}_x").replace("T ", "T x_"), "0"),
        (FILL + "y" * 60, "0"),
        # a kernel that shows its symbols to nobody
        ("", None),
        (None, None),
    ],
    ids=["there", "between two reads", "another of its name", "not there", "empty", "no file"],
)
def test_a_symbol_is_there_when_the_kernel_lists_it(
    listing: str | None, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kallsyms = tmp_path / "kallsyms"
    if listing is not None:
        kallsyms.write_text(listing)
    real = open
    monkeypatch.setattr(_live, "open", lambda _path, *given, **named: real(kallsyms, *given, **named), raising=False)
    assert live_answers(no_program)("symbol", SYMBOL) == said


class StandIn:
    """A containerd whose answers are written down; its configuration holds a password."""

    errors: ClassVar[list[FabricError]] = []

    def __init__(self, path: str, timeout: float) -> None:
        assert timeout <= 10

    def version(self) -> tuple[str, str]:
        for error in self.errors:
            raise error
        return "containerd", "v1.7.24"

    def status(self) -> dict[str, Any]:
        conditions = {"RuntimeReady": {"status": True, "reason": "", "message": ""}}
        return {"conditions": conditions, "default_handler": "runc", "handlers": {"runc": {}}, "registry": "hunter2"}


def test_a_runtime_is_asked_only_where_its_socket_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_live, "Cri", StandIn)
    ask = live_answers(no_program)
    path = str(tmp_path / "s")
    assert ask("cri", path) is None
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        answer = json.loads(ask("cri", path) or "")
        monkeypatch.setattr(StandIn, "errors", [GrpcError(12, "unknown  service\nruntime.v1.RuntimeService")])
        failed = json.loads(ask("cri", path) or "")
    assert answer == {"version": "v1.7.24", "ready": True, "default_handler": "runc", "handlers": {"runc": {}}}
    assert failed == {"error": "unknown service runtime.v1.RuntimeService"}


def test_an_answer_that_cannot_be_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is a message, and a part of it is none."""
    monkeypatch.setattr(Cri, "call", lambda _cri, method, message=b"": bytes.fromhex("0a030a010a"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        answer = live_answers(no_program)("cri", str(tmp_path / "s"))
    assert json.loads(answer or "") == {"error": "the message ends within a number"}


def test_answers_are_recorded_and_replayed(tmp_path: Path) -> None:
    recorder = Recorder(DirectoryTree("/", lambda question, path: f"{question} {path}"))
    assert recorder.answer("version", "/usr/bin/a b") == "version /usr/bin/a b"
    assert list(recorder.entries) == [f"{ANSWERS}/version/usr/bin/a b"]
    assert MemoryTree(recorder.entries).answer("version", "/usr/bin/a b") == "version /usr/bin/a b"
    assert MemoryTree(recorder.entries).answer("cri", "/x") is None
    # an unpacked capture is not asked, the live node without anybody who answers neither
    assert DirectoryTree(str(tmp_path), lambda question, path: "live").answer("cri", "/x") is None
    assert DirectoryTree("/").answer("cri", "/x") is None


def test_packages_of_the_stack_that_rpm_has(tmp_path: Path) -> None:
    program = tmp_path / "rpm"
    program.touch(mode=0o755)
    output = "rdma-core 2410mlnx54-1.2410114\nbash 5.1-9.el9\ndoca-ofed 2.9.1-0.1.8.el9\n"
    ask = live_answers(lambda command: (0, output, ""))
    assert ask("packages", str(program)) == "doca-ofed 2.9.1-0.1.8.el9\nrdma-core 2410mlnx54-1.2410114\n"
    assert live_answers(lambda command: (1, output, ""))("packages", str(program)) is None
    assert ask("packages", str(tmp_path / "nothing")) is None
