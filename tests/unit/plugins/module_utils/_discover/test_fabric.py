# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that tell of the fabric, played by shell scripts; tests of the module fabric_map have the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._discover import fabric
from ansible_collections.fabric.rdma.plugins.module_utils._discover.fabric import look


def at(path: Path, **bodies: str) -> fabric.Find:
    for name, body in bodies.items():
        (path / name).write_text(f"#!/bin/sh\n{body}\n")
        (path / name).chmod(0o755)
    return lambda name: str(path / name) if name in bodies else "/usr/bin/timeout" if name == "timeout" else None


def test_ports_of_one_subnet_are_told_once_and_failures_each(tmp_path: Path) -> None:
    find = at(tmp_path, ibnetdiscover='[ "$2" = bad ] && exit 3; echo "# from $2"; echo switch')
    ports = [{"device": name, "port": 1} for name in ("a", "bad", "b")]
    assert look(["ibnetdiscover"], ports, 9, find) == [
        {"program": "ibnetdiscover", "text": "# from a\nswitch\n", "error": None},
        {"program": "ibnetdiscover", "text": "", "error": "it ended with status 3"},
    ]


def test_a_failure_is_told_in_the_same_words_again(tmp_path: Path) -> None:
    """libibmad puts the number of its process into warnings."""
    find = at(tmp_path, ibnetdiscover='echo "ibwarn: [$$] mad_rpc_open_port: no port" >&2; exit 1')
    (told,) = look(["ibnetdiscover"], [], 9, find)
    assert told["error"] == "ibwarn: mad_rpc_open_port: no port"


def test_only_what_is_asked_for_runs(tmp_path: Path) -> None:
    find = at(tmp_path, ibnetdiscover="touch ran", lldpctl="echo neighbours")
    assert [each["program"] for each in look(["lldpctl"], [], 9, find)] == ["lldpctl"]


def test_a_program_that_cannot_be_started_or_prints_without_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fabric, "_MOST_TEXT", 8)
    find = at(tmp_path, lldpctl="echo 123456789")
    assert look(["lldpctl"], [], 9, find)[0]["error"] == "it printed more than any fabric has"
    (told,) = look(["lldpctl"], [], 9, lambda name: str(tmp_path) if name == "lldpctl" else None)
    assert told == {"program": "lldpctl", "text": "", "error": f"{tmp_path}: Permission denied"}
