# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node calls itself is data: no version of ansible-core evaluates it on the way into plan, objects and report."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
# A template that would show whether it was evaluated, and one that would leave a file behind.
NAME = "{{6*7}}{%set.x=1%}"
DESCRIPTION = "{{ lookup('ansible.builtin.pipe', 'touch evaluated') }}"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Two nodes of one group with templates for device and description, replayed."""
    names = ("evil-1", "evil-2")
    for name in names:
        text = (CAPTURES / "ib-v100-1.capture").read_text()
        assert "mlx5_0" in text
        lines = text.replace("mlx5_0", NAME).splitlines()
        lines = [
            line.rpartition(" ")[0] + " " + json.dumps(DESCRIPTION + "\n")
            if line.split(" ")[1].endswith("fw_ver")
            else line
            for line in lines[1:]
        ]
        (tmp_path / f"{name}.capture").write_text(
            "\n".join(["# fabric.rdma capture 1", *sorted(lines, key=path_of)]) + "\n"
        )
    path = tmp_path / "hosts.json"
    variables = {
        "rdma_groups": ["evil"],
        "rdma_resource": {"name": "rdma_evil"},
        "rdma_want": {"link_layer": "InfiniBand"},
    }
    group = {
        "hosts": {name: {"rdma_capture": str(tmp_path / f"{name}.capture")} for name in names},
        "vars": variables,
    }
    path.write_text(json.dumps({"rdma": {"children": {"evil": group}}}))
    return path


def path_of(line: str) -> str:
    return line.split(" ")[1]


@pytest.mark.parametrize("whose", ["user", "oldest_user"])
def test_templates_in_facts_stay_text(
    whose: str, inventory: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    user: User = request.getfixturevalue(whose)
    output = tmp_path / "output"
    user.run("ansible-playbook", "fabric.rdma.site", "-i", str(inventory), "-e", f"rdma_output_dir={output}")
    facts = json.loads((output / "facts.json").read_text())
    assert [device["name"] for device in facts["evil-1"]["devices"]].count(NAME) == 1
    assert {device["firmware"] for device in facts["evil-1"]["devices"]} == {DESCRIPTION}
    plan = json.loads((output / "plan.json").read_text())
    assert NAME in {wanted["device"] for wanted in plan["groups"]["evil"]["wanted"]["evil-2"]}
    assert "{{6*7}}" in (output / "report.html").read_text()
    assert not list(user.home.rglob("evaluated"))
