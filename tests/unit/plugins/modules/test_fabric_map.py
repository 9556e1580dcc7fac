# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module asks programs that this machine does not have: stand-ins that say what they were called with."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run

Json = dict[str, Any]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def a_program(path: Path, name: str, body: str) -> None:
    (path / name).write_text(f"#!/bin/sh\n{body}\n")
    (path / name).chmod(0o755)


def test_every_port_is_searched_from_and_each_subnet_reported_once(programs: Path) -> None:
    a_program(programs, "ibnetdiscover", 'echo "# looked from $2 $4"; [ "$2" = mlx5_2 ] && echo other || echo same')
    a_program(programs, "lldpctl", 'echo "{\\"called\\": \\"$*\\"}"')
    ports = [{"device": f"mlx5_{number}", "port": 1} for number in range(3)]
    assert run("fabric_map", ports=ports) == {
        "changed": False,
        "programs": [
            {"program": "ibnetdiscover", "text": "# looked from mlx5_0 1\nsame\n", "error": None},
            {"program": "ibnetdiscover", "text": "# looked from mlx5_2 1\nother\n", "error": None},
            {"program": "lldpctl", "text": '{"called": "-f json"}\n', "error": None},
        ],
    }


def test_a_program_that_fails_or_hangs_is_reported(programs: Path) -> None:
    a_program(programs, "ibnetdiscover", "echo ibpanic: no umad >&2; exit 255")
    a_program(programs, "lldpctl", "sleep 60")
    found = run("fabric_map", timeout=1)["programs"]
    assert [(row["text"], row["error"]) for row in found] == [
        ("", "ibpanic: no umad"),
        ("", "it did not end in 1 seconds"),
    ]


def test_a_missing_program_is_named_with_its_package() -> None:
    # where the module looks; this machine may have one of them
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    packages = {"ibnetdiscover": "infiniband-diags", "lldpctl": "lldpd"}
    missing = [name for name in packages if shutil.which(name, path=path) is None]
    assert missing, "this machine has all of them"
    found = run("fabric_map", programs=missing, ports=[{"device": "mlx5_0", "port": 1}])["programs"]
    assert [row["error"] for row in found] == [f"{name} is not there (package {packages[name]})" for name in missing]


def test_names_of_devices_reach_no_shell(programs: Path) -> None:
    a_program(programs, "ibnetdiscover", 'echo "$2"')
    found = run("fabric_map", programs=["ibnetdiscover"], ports=[{"device": f"$(touch {programs}/x)"}])["programs"]
    assert found[0]["text"] == f"$(touch {programs}/x)\n"
    assert not (programs / "x").exists()
