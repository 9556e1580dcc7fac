# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a failed change of the driver forgets that a proof is due, as the tasks of the role ofed say it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment

TASKS = Path(__file__).resolve().parents[2] / "roles" / "ofed" / "tasks"


@pytest.mark.parametrize(
    ("needs", "installed", "found", "headers", "complete", "forgets"),
    [
        # what was changed is undone
        ("driver", True, True, None, True, True),
        # the proof of an earlier run, whose packages are put back
        ("prove", False, True, None, True, True),
        # its opening failed, so that nothing was installed: the proof that became due before it is of nothing
        ("driver", False, False, None, True, True),
        # somebody forgot what the installation did: what is there now is not proved
        ("driver", True, False, None, True, False),
        # of an earlier run's driver, which stays and has just failed
        ("prove", False, False, None, True, False),
        ("activate", False, False, None, True, False),
        # headers came with this run, and nothing else goes
        ("activate", False, True, False, True, False),
        ("prove", False, True, False, True, False),
        # the same, and what an earlier run installed goes, too
        ("prove", False, True, True, True, True),
        ("driver", True, True, False, True, True),
        # what did not go is not proved
        ("driver", True, True, None, False, False),
        ("prove", False, True, None, False, False),
    ],
)
def test_which_proof_is_forgotten(
    needs: str, installed: bool, found: bool, headers: bool | None, complete: bool, forgets: bool
) -> None:
    """headers: whether something was remembered when they came, None when none had to. complete: whether all of it was put back."""
    environment = NativeEnvironment()
    driver = yaml.safe_load((TASKS / "driver.yml").read_text())
    [change] = [task for task in driver if task["name"] == "driver | Change it, or leave the node as it was"]
    values: dict[str, object] = {"__ofed_needs": {name: name == needs for name in ("driver", "prove", "activate")}}
    values["__ofed_opened"] = {} if headers is None else {"found": headers}
    begun = {
        name: environment.from_string(str(value)).render(values)
        for name, value in change["block"][0]["ansible.builtin.set_fact"].items()
    }
    [forget] = [
        task
        for task in yaml.safe_load((TASKS / "restore.yml").read_text())
        if task["name"] == "restore | Forget that a proof was due"
    ]
    values = {**begun, "__ofed_installed": installed, "__ofed_restored": {"found": found, "complete": complete}}
    wanted = " and ".join(f"({condition})" for condition in forget["when"])
    assert environment.from_string(f"{{{{ {wanted} }}}}").render(values) is forgets
