# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make demo` and `make demo-cluster`: what they would start is there, and the lab ends however they end.

Nothing boots here: the lab and ansible-playbook only write down what they are asked for.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

NOTE = '#!/bin/sh\nprintf "%s\\n" "$(basename "$0")|$*" >> calls\n'
# what site.yml leaves where it was told to, or a site that fails
SITE = 'while [ "$1" != --extra-vars ]; do shift; done\ncp said "$(echo "$2" | cut -d \'"\' -f 4)/summary.txt"\n'


@pytest.fixture
def checkout(repo: Path, tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(repo / "tools" / "demo", tmp_path / "tools" / "demo")
    (tmp_path / "said").write_text("all is well\n")
    for name, text in {"tools/lab": NOTE, ".venv/bin/ansible-playbook": NOTE + SITE}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def demo(checkout: Path, *arguments: str, **variables: str) -> tuple[int, str, list[str]]:
    """Exit code, output, and what was called."""
    environment = {key: value for key, value in os.environ.items() if key not in ("KEEP_LAB", "FABRIC_RDMA_LAB")}
    done = subprocess.run(
        [str(checkout / "tools" / "demo"), *arguments],
        env={**environment, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    calls = checkout / "calls"
    return done.returncode, done.stdout, calls.read_text().splitlines() if calls.exists() else []


@pytest.mark.parametrize(("target", "inventory"), [("demo", "demo"), ("demo-cluster", "cluster")])
def test_what_a_demo_starts_is_there(repo: Path, checkout: Path, target: str, inventory: str) -> None:
    """From the target of the Makefile to inventory and playbook; only that of the cluster rolls out."""
    printed = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", target],
        cwd=repo,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MAKEFLAGS": ""},
    )
    program, *arguments = shlex.split(printed.stdout.splitlines()[-1])
    assert program == "tools/demo"
    assert os.access(repo / program, os.X_OK)
    code, output, calls = demo(checkout, *arguments)
    assert code == 0, output
    assert "all is well" in output
    place = f"inventories/{inventory}"
    wishes = json.dumps({"rdma_output_dir": str(checkout / "out" / inventory)})
    assert calls == [
        f"lab|present --inventory {place}",
        f"ansible-playbook|playbooks/site.yml --inventory {place} --extra-vars {wishes}",
        "lab|absent",
    ]
    assert (repo / "playbooks" / "site.yml").is_file()
    groups = yaml.safe_load((repo / place / "hosts.yml").read_text())["rdma"]["children"]
    wanted = yaml.safe_load((repo / place / "group_vars" / "rdma.yml").read_text())
    assert set(wanted["rdma_groups"]) == set(groups)
    assert ("rdma_rollout" in wanted) is (inventory == "cluster")
    assert os.access(repo / "tools" / "lab", os.X_OK)


def test_the_lab_ends_with_a_demo_that_fails(checkout: Path) -> None:
    (checkout / "said").unlink()
    code, _output, calls = demo(checkout)
    assert code == 1
    assert [call.partition(" ")[0] for call in calls] == [
        "lab|present",
        "ansible-playbook|playbooks/site.yml",
        "lab|absent",
    ]


def test_nodes_that_are_to_stay_run_on(checkout: Path) -> None:
    code, _output, calls = demo(checkout, KEEP_LAB="1")
    assert code == 0
    assert "lab|absent" not in calls


@pytest.mark.parametrize("arguments", [["--help"], ["networks"], ["cluster", "lab"], ["../demo"]])
def test_what_is_no_demo_is_told_the_usage_and_starts_nothing(checkout: Path, arguments: list[str]) -> None:
    code, output, calls = demo(checkout, *arguments)
    assert (code, calls) == (2, [])
    assert "usage: tools/demo" in output
    assert "tools/demo cluster" in output
    assert not (checkout / "out").exists()
