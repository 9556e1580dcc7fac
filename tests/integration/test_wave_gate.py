# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waves in plays of a user's own: a role changes no node after one that came to no good end, however Ansible counts failures.

What Ansible does without the gate is tested as well: where it once stops by itself, the gate is not needed there any more.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

HOSTS = [f"n{number}" for number in range(1, 6)]
# n2 is of the second wave; n4 and n5 are of the third.
SERIAL = [1, 2, "100%"]


def play(directory: Path, fault: str, strategy: str, gate: bool) -> list[dict[str, t.Any]]:
    """A play with waves, in which n2 fails or is lost in the middle of its change."""
    faults: dict[str, dict[str, t.Any]] = {
        "failed": {"ansible.builtin.fail": {"msg": "no space"}},
        # nothing listens there
        "lost": {
            "ansible.builtin.ping": {},
            "vars": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9},
        },
    }

    def step(state: str) -> list[dict[str, t.Any]]:
        name = "begun" if state == "begin" else "ended"
        return [{"fabric.rdma.wave_gate": {"state": state}, "register": f"__ofed_{name}"}] if gate else []

    change = [
        {
            "ansible.builtin.file": {
                "path": f"{directory}/{{{{ inventory_hostname }}}}",
                "state": "touch",
                "mode": "0644",
            }
        },
        {
            "block": [{**faults[fault], "when": "inventory_hostname == 'n2'"}],
            "always": [{"ansible.builtin.debug": {"msg": "put away what was used"}}],
        },
    ]
    return [
        {
            "hosts": "all",
            "gather_facts": False,
            "serial": SERIAL,
            "strategy": strategy,
            "max_fail_percentage": 0,
            "tasks": [*step("begin"), *change, *step("end")],
        }
    ]


def touched(user: User, tmp_path: Path, fault: str, strategy: str, gate: bool) -> tuple[set[str], str]:
    """Hosts that were changed, and the output."""
    changed = tmp_path / "changed"
    changed.mkdir()
    hosts = {name: {"ansible_connection": "local", "ansible_python_interpreter": "python3"} for name in HOSTS}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    (tmp_path / "play.yml").write_text(json.dumps(play(changed, fault, strategy, gate)))
    arguments = ["-i", str(tmp_path / "hosts.json"), str(tmp_path / "play.yml")]
    done = user.run("ansible-playbook", *arguments, check=False)
    assert done.returncode, done.stdout
    return {path.name for path in changed.iterdir()}, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("fault", ["failed", "lost"])
@pytest.mark.parametrize(
    ("whose", "strategy"), [("user", "linear"), ("user", "free"), ("user", "host_pinned"), ("oldest_user", "linear")]
)
def test_no_later_wave_is_changed(
    whose: str, fault: str, strategy: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    hosts, output = touched(request.getfixturevalue(whose), tmp_path, fault, strategy, gate=True)
    assert {"n1", "n2"} <= hosts <= {"n1", "n2", "n3"}
    assert "n4 is not changed, and nothing was done there: n2 began the change of the role ofed" in output


@pytest.mark.parametrize("fault", ["failed", "lost"])
def test_ansible_alone_goes_on(fault: str, user: User, tmp_path: Path) -> None:
    hosts, _output = touched(user, tmp_path, fault, "linear", gate=False)
    assert hosts == set(HOSTS)
