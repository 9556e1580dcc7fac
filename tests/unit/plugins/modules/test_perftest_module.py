# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest as a process: a server, a client and their end, with a program that behaves like perftest and needs no device."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_perftest_run import PROGRAM
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.examples import run_examples
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run

Json = dict[str, t.Any]


def test_the_examples_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ib_write_bw").write_text(PROGRAM)
    (tmp_path / "ib_write_bw").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    runs = tmp_path / "run"
    runs.mkdir()
    prelude = (
        "import ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest_run as perftest_run\n"
        f"perftest_run._run_base = lambda: {str(runs)!r}\n"
    )

    def call(module: str, arguments: Json) -> Json:
        # both hosts are this machine, which need not have a default route
        here = {"address": "127.0.0.1", "first_port": 24000} if arguments["role"] == "server" else {}
        return run(module, prelude=prelude, **arguments, **here)

    server, client, stopped = run_examples("perftest", call)
    assert [server["started"], server["changed"], client["changed"], stopped["changed"]] == [True, True, False, True]
    assert client["results"][0]["bandwidth_gbps"] == {"peak": 97.2, "average": 97.1}
    # the spare one
    assert stopped["stopped"] == 1
    assert list(runs.iterdir()) == []
