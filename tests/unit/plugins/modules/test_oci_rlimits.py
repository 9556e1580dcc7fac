# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""oci_rlimits as a process: make, again, edit, bad files; each with and without check mode."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run

UNLIMITED = 2**64 - 1
MEMLOCK = {"type": "RLIMIT_MEMLOCK", "hard": UNLIMITED, "soft": UNLIMITED}
INVENTED = {"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}
FRESH = {
    "ociVersion": "1.2.0",
    "process": {"cwd": "/", "rlimits": [INVENTED]},
    "linux": {"maskedPaths": ["/proc/kcore"]},
}


@pytest.fixture
def ctr(tmp_path: Path) -> str:
    """A program in the place of ctr: what it prints is the least that a specification has."""
    program = tmp_path / "ctr"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(FRESH)}\nEND\n")
    program.chmod(0o755)
    return str(program)


def rlimits(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_bytes())["process"]["rlimits"]
    return found


def test_a_second_run_changes_nothing_and_an_edit_does(tmp_path: Path, ctr: str) -> None:
    path = tmp_path / "spec.json"
    made = {"path": str(path), "ctr": ctr}

    predicted = run("oci_rlimits", check=True, **made)
    assert not path.exists()
    result = run("oci_rlimits", **made)
    assert predicted == {key: value for key, value in result.items() if key != "size"}
    assert (result["changed"], result["source"], result["rlimits"], result["drift"]) == (True, "ctr", [MEMLOCK], [])
    assert result["diff"]["before"] == "RLIMIT_NOFILE: soft 1024 hard 1024\n"
    assert result["diff"]["after"] == "RLIMIT_MEMLOCK: soft unlimited hard unlimited\n"
    assert json.loads(path.read_bytes()) == {**FRESH, "process": {"cwd": "/", "rlimits": [MEMLOCK]}}
    assert path.stat().st_mode & 0o777 == 0o644

    data = path.read_bytes()
    again = run("oci_rlimits", **made)
    assert (again["changed"], again["source"], path.read_bytes()) == (False, "path", data)

    path.chmod(0o600)
    wish = {"rlimits": [{"type": "nofile", "soft": "65536", "hard": 1048576}]}
    edit = run("oci_rlimits", check=True, **made, **wish)
    assert (edit["changed"], path.read_bytes()) == (True, data)
    edit = run("oci_rlimits", **made, **wish)
    assert rlimits(path) == [MEMLOCK, {"type": "RLIMIT_NOFILE", "hard": 1048576, "soft": 65536}]
    assert Path(edit["backup_file"]).read_bytes() == data
    assert path.stat().st_mode & 0o777 == 0o600
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".oci")]


def test_adopt_keeps_what_somebody_made(tmp_path: Path, ctr: str) -> None:
    foreign = {
        **FRESH,
        "hostname": "kept",
        "process": {"rlimits": [{"type": "RLIMIT_NOFILE", "hard": 65535, "soft": 65535}]},
    }
    adopt = tmp_path / "cri-base.json"
    adopt.write_text(json.dumps(foreign))
    path = tmp_path / "spec.json"
    result = run("oci_rlimits", path=str(path), adopt=str(adopt), ctr=ctr)
    assert (result["source"], result["drift"]) == ("adopt", ["hostname", "process.cwd"])
    assert json.loads(path.read_bytes())["hostname"] == "kept"
    assert rlimits(path) == [*foreign["process"]["rlimits"], MEMLOCK]
    assert json.loads(adopt.read_bytes()) == foreign


DEEP = b'{"ociVersion": "1.2.0", "process": {}, "x": ' + b"[" * 1200 + b"]" * 1200 + b"}"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"ociVersion": "1.2.0", "process"', b"\xff", DEEP], ids=["", "list", "cut", "bytes", "deep"]
)
def test_a_bad_file_is_an_error_and_stays(tmp_path: Path, ctr: str, data: bytes) -> None:
    path = tmp_path / "spec.json"
    path.write_bytes(data)
    result = run("oci_rlimits", path=str(path), ctr=ctr)
    assert result["failed"] is True
    assert str(path) in result["msg"]
    assert path.read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["ctr", "spec.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rlimits": [{"type": "MEMLOCK", "soft": 2, "hard": 1}]}, "RLIMIT_MEMLOCK: soft 2 is above hard 1"),
        (
            {"rlimits": [{"type": "MEMLOCK", "soft": -1}]},
            "RLIMIT_MEMLOCK: soft is -1; expected 'unlimited' or an integer",
        ),
        ({"rlimits": [{"type": "NOPE", "soft": 1}]}, "unknown rlimit 'NOPE'; known are "),
        ({"adopt": "/nowhere/base.json"}, "adopt '/nowhere/base.json' is not there, and neither is '"),
        ({"ctr": "/nowhere/ctr"}, "ctr '/nowhere/ctr' is not there, so there is nothing to start from"),
        ({"path": "/nowhere/spec.json"}, "/nowhere"),
    ],
)
def test_bad_input_writes_nothing(tmp_path: Path, ctr: str, arguments: dict[str, Any], message: str) -> None:
    result = run("oci_rlimits", **{"path": str(tmp_path / "spec.json"), "ctr": ctr, **arguments})
    assert result["failed"] is True
    assert result["msg"].startswith(message)
    assert os.listdir(tmp_path) == ["ctr"]
