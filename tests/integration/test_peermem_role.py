# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the role nvidia_peermem removes the ancestor of the module, on a node all of whose modules say what they are told to.

What it does with real modules, packages and services, the scenario driver shows.
"""

from __future__ import annotations

import copy
import json
import typing as t

import pytest

from ansible_collections.fabric.rdma.tests.integration.stand_ins import INBOX, interpreter

if t.TYPE_CHECKING:
    from pathlib import Path

    from conftest import User

pytestmark = pytest.mark.integration

# There, as what DKMS has built of a package is, and loaded or not.
ANCESTORS = {"loaded": (True, True), "left by a killed run": (False, True), "gone": (False, False)}


def test_what_a_killed_run_has_left_of_the_ancestor_is_removed(user: User, tmp_path: Path) -> None:
    """Unloaded, with its packages still there: what loads it at the next boot."""
    hosts = {}
    for name, (loaded, available) in ANCESTORS.items():
        facts = copy.deepcopy(INBOX)
        facts["kernel"]["modules"]["nv_peer_mem"] |= {"loaded": loaded, "available": available}
        answers: dict[str, t.Any] = {
            "ib_facts": {"ansible_facts": {"rdma": facts}},
            "service_facts": {"ansible_facts": {"services": {}}},
            "apt": {"changed": True, "packages": "are gone"},
            "": {},
        }
        place = interpreter(tmp_path / name.replace(" ", "-"), answers)
        hosts[name.replace(" ", "-")] = place
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    role = {"ansible.builtin.include_role": {"name": "fabric.rdma.nvidia_peermem"}}
    variables = {"nvidia_peermem_gpudirect": "none", "nvidia_peermem_remove_legacy": True, "discover_wait_timeout": 1}
    known = {"ansible.builtin.set_fact": {"pkg_mgr": "apt", "cacheable": True}}
    play = {"hosts": "all", "gather_facts": False, "vars": variables, "tasks": [known, role]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    done = user.run("ansible-playbook", "-i", str(tmp_path / "hosts.json"), str(tmp_path / "play.yml"), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    removal = done.stdout.partition("legacy | Remove its packages")[2].partition("TASK [")[0]
    assert {name for name in hosts if f"changed: [{name}]" in removal} == {"loaded", "left-by-a-killed-run"}
