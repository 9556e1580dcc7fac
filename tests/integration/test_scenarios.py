# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenarios of molecule begin where an earlier run of theirs was killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.lab import Lab
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import STATE_FORMAT

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
# what molecule itself keeps there
OF_MOLECULE = ("ansible.cfg", "inventory/hosts", "state.yml")


def endings() -> dict[str, Path]:
    """The playbook that ends a scenario, by the names of those that it ends."""
    found: dict[Path, list[str]] = {}
    for scenario in sorted((ROOT / "molecule").glob("*/molecule.yml")):
        playbooks = (yaml.safe_load(scenario.read_text()).get("provisioner") or {}).get("playbooks") or {}
        playbook = (scenario.parent / playbooks.get("destroy", "destroy.yml")).resolve()
        found.setdefault(playbook, []).append(scenario.parent.name)
    return {"-".join(names): playbook for playbook, names in found.items()}


def test_each_scenario_is_ended_by_a_playbook() -> None:
    assert all(playbook.is_file() for playbook in endings().values()), endings()


@pytest.mark.parametrize("scenarios", endings())
def test_what_a_killed_run_has_left_does_not_keep_the_next_from_starting(tmp_path: Path, scenarios: str) -> None:
    """Such as a repository that was fetched into the directory of the lab, beside nodes that have gone."""
    kept = [tmp_path / name for name in OF_MOLECULE]
    left = [tmp_path / "lab" / "repository.tar", tmp_path / "lab" / "output" / "plan.yml", tmp_path / "changes.jsonl"]
    for path in [*kept, *left]:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    state = {"format": STATE_FORMAT, "nodes": [{"name": "lab1", "address": "198.51.100.1", "port": 0}]}
    (tmp_path / "lab" / "state.json").write_text(json.dumps(state))
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", endings()[scenarios]],
        cwd=ROOT,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "MOLECULE_EPHEMERAL_DIRECTORY": str(tmp_path),
            "FABRIC_RDMA_LAB": str(tmp_path / "lab"),
            "FABRIC_RDMA_CLUSTER": str(tmp_path / "cluster"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    Lab(str(tmp_path / "lab"), print).place.refuse_foreign()
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
