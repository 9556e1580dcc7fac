# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_change as a process: a change that begins, ends, begins again after one that never ended; with and without check mode."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.change import load_mark, open_change, snapshot, worse
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, facts_of
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run

FACTS = gather(open_tree(str(CAPTURES / "ib-a100-1.capture")))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lib" / "change.json"


def call(path: Path, state: str, check: bool = False, **arguments: Any) -> dict[str, Any]:
    return run("node_change", check, path=str(path), state=state, **arguments)


def begun(path: Path, facts: dict[str, Any], check: bool = False) -> dict[str, Any]:
    return call(path, "begun", check, before=facts, roles=["ofed"])


def down(facts: dict[str, Any]) -> dict[str, Any]:
    """The same node, without any port that works."""
    worse_now: dict[str, Any] = json.loads(json.dumps(facts))
    for device in worse_now["devices"]:
        for port in device["ports"]:
            port["state"] = "Down"
    return worse_now


def test_a_change_leaves_a_file_until_it_ends(path: Path) -> None:
    assert begun(path, FACTS, check=True)["changed"]
    assert not path.exists()
    result = begun(path, FACTS)
    assert (result["changed"], result["interrupted"], result["before"]) == (True, None, snapshot(FACTS))
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(path.parent) == ["change.json"]
    assert call(path, "ended", check=True)["changed"]
    assert path.exists()
    assert call(path, "ended")["changed"]
    assert not path.exists()
    assert not call(path, "ended")["changed"]


def test_the_state_before_a_change_that_never_ended_is_kept(path: Path) -> None:
    first = begun(path, FACTS)
    again = begun(path, down(FACTS))
    assert again["interrupted"]["roles"] == ["ofed"]
    assert again["before"] == first["before"]
    assert any("was Active and is Down" in text for text in worse(again["before"], down(FACTS)))
    assert not again["changed"]


def test_roles_of_a_change_that_never_ended_stay_in_the_note(path: Path) -> None:
    """Whoever changes the node next has not done their work."""
    begun(path, FACTS)
    call(path, "begun", before=FACTS, roles=["roce_host", "ofed"])
    assert load_mark(path.read_bytes())["roles"] == ["ofed", "roce_host"]  # type: ignore[index]


def test_that_a_node_is_out_of_work_is_in_the_note(path: Path) -> None:
    assert not call(path, "left")["changed"]
    assert not path.exists()
    assert begun(path, FACTS)["interrupted"] is None
    assert call(path, "left", check=True)["changed"]
    assert call(path, "left")["diff"]["after"].endswith("it is out of service meanwhile\n")
    assert not call(path, "left")["changed"]
    again = begun(path, FACTS)
    assert (again["changed"], again["interrupted"]["out_of_work"]) == (False, True)
    assert call(path, "back")["changed"]
    assert not call(path, "back")["changed"]
    assert begun(path, FACTS)["interrupted"]["out_of_work"] is False
    assert call(path, "ended")["changed"]


def test_the_note_goes_with_the_last_role_that_is_done(path: Path) -> None:
    begun(path, FACTS)
    call(path, "begun", before=FACTS, roles=["roce_host"])
    assert call(path, "ended", roles=["roce_host"], check=True)["changed"]
    assert call(path, "ended", roles=["roce_host"])["changed"]
    assert load_mark(path.read_bytes())["roles"] == ["ofed"]  # type: ignore[index]
    assert not call(path, "ended", roles=["roce_host"])["changed"]
    assert call(path, "ended", roles=["ofed"])["changed"]
    assert not path.exists()


@pytest.mark.parametrize(
    "junk", [b"", b"{", b"[]", b'{"version": 2}', b'{"version": 1, "before": 3}', b"\xff", b"[" * 100000]
)
def test_a_file_that_cannot_be_read_is_a_change_that_never_ended(path: Path, junk: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(junk)
    result = begun(path, FACTS)
    assert result["interrupted"] == {"since": "", "roles": ["an unknown role"], "out_of_work": True}
    assert result["before"] == snapshot(FACTS)
    assert load_mark(path.read_bytes())["before"] == snapshot(FACTS)  # type: ignore[index]


def test_a_note_of_an_earlier_version_may_be_of_a_node_that_is_out_of_work(path: Path) -> None:
    """It does not say whether the run that was killed had drained the node: who finishes the change looks in the cluster."""
    begun(path, FACTS)
    mark = json.loads(path.read_bytes())
    del mark["out_of_work"]
    path.write_text(json.dumps(mark))
    result = begun(path, FACTS)
    assert (result["interrupted"]["roles"], result["interrupted"]["out_of_work"]) == (["ofed"], True)
    assert json.loads(path.read_bytes())["out_of_work"] is True
    assert call(path, "back")["changed"]
    assert begun(path, FACTS)["interrupted"]["out_of_work"] is False


def test_a_role_that_is_done_takes_no_unknown_one_off_the_note(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"{")
    assert not call(path, "ended", roles=["ofed"])["changed"]
    begun(path, FACTS)
    assert call(path, "ended", roles=["ofed"])["changed"]
    mark = load_mark(path.read_bytes())
    assert mark is not None
    assert (mark["roles"], mark["out_of_work"]) == (["an unknown role"], True)
    assert call(path, "ended")["changed"]
    assert not path.exists()


def test_malformed_facts_are_refused(path: Path) -> None:
    for junk in (
        {"devices": [{}]},
        {"devices": [{"name": "m", "pci": None, "ports": "abc"}]},
        {"runtime": {"containerd": "x"}},
    ):
        assert "before: expected facts" in begun(path, junk)["msg"]
    assert not path.exists()


def test_a_directory_in_its_place_is_named(path: Path) -> None:
    path.mkdir(parents=True)
    assert str(path) in begun(path, FACTS)["msg"]


def test_facts_tell_of_a_change_that_never_ended() -> None:
    machine = Machine()
    machine.file("/proc/sys/kernel/osrelease", "6.8.0\n")
    assert "change" not in facts_of(machine, ["kernel"])
    machine.file("/var/lib/fabric.rdma/change.json", '{"version": 1, "since": "x", "roles": ["ofed"], "before": {}}')
    assert facts_of(machine, ["kernel"])["change"] == {"since": "x", "roles": ["ofed"]}


def test_a_snapshot_compares_as_the_facts_do() -> None:
    assert worse(snapshot(FACTS), FACTS) == []
    assert worse(snapshot(FACTS), down(FACTS)) == worse(FACTS, down(FACTS)) != []


@given(st.binary(max_size=200))
def test_no_content_is_a_traceback(data: bytes) -> None:
    assert open_change(data) is not None
