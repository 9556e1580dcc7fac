# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks doctor and doctor_bundle on recorded nodes: what cannot be looked at costs nothing else, and files say when they change."""

from __future__ import annotations

import getpass
import json
import re
import typing as t

import pytest

from ansible_collections.fabric.rdma.tests.integration.stand_ins import CAPTURES, INBOX, interpreter
from ansible_collections.fabric.rdma.tests.unit.contracts import load
from ansible_collections.fabric.rdma.tests.unit.schemas import checked

if t.TYPE_CHECKING:
    from pathlib import Path

    from conftest import User

pytestmark = pytest.mark.integration

Json = dict[str, t.Any]
RECORDED = ["a100-1", "a100-2"]
NO_CLUSTER = "the cluster was not looked at: no kubeconfig: /nowhere does not exist"
NO_JOURNAL = "n1: sudo: a password is required"


def play(user: User, directory: Path, playbook: str, *arguments: str, **variables: t.Any) -> tuple[int, str]:
    """How many tasks changed something, and what was said: of two recorded nodes, and of one whose journal cannot be read."""
    n1 = interpreter(
        directory / "n1",
        {
            "ib_facts": {"ansible_facts": {"rdma": INBOX}},
            "node_logs": {"failed": True, "msg": "sudo: a password is required"},
        },
    )
    hosts: Json = {name: {"rdma_capture": str(CAPTURES / f"ib-{name}.capture")} for name in RECORDED}
    hosts["n1"] = {**n1, "ansible_become_user": getpass.getuser()}
    (directory / "hosts.json").write_text(json.dumps({"all": {"children": {"rdma": {"hosts": hosts}}}}))
    extra = {"rdma_output_dir": str(directory / "output"), "doctor_kubeconfig": "/nowhere", **variables}
    done = user.run(
        *("ansible-playbook", f"fabric.rdma.{playbook}", "-i", str(directory / "hosts.json")),
        *("-e", json.dumps(extra), *arguments),
    )
    return sum(map(int, re.findall(r" changed=(\d+)", done.stdout))), done.stdout


def files(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


def test_what_cannot_be_looked_at_is_named_and_costs_nothing_else(user: User, tmp_path: Path) -> None:
    changed, said = play(user, tmp_path, "doctor", "--check")
    assert changed
    assert not (tmp_path / "output").exists()
    changed, said = play(user, tmp_path, "doctor")
    assert changed
    document = checked("doctor", json.loads((tmp_path / "output" / "doctor.json").read_text()))
    assert document["looked_at"]["hosts"] == 3
    assert NO_JOURNAL in document["unread"]
    assert [line for line in document["unread"] if line.startswith(NO_CLUSTER)]
    assert "failed=0" in said
    written = files(tmp_path / "output")
    assert play(user, tmp_path, "doctor")[0] == 0
    assert files(tmp_path / "output") == written


def test_a_wrong_argument_is_an_error_even_without_a_cluster(user: User, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="pods has 'train-0'; expected NAMESPACE/NAME"):
        play(user, tmp_path, "doctor", doctor_pods=["train-0"])


@pytest.mark.parametrize("name", ["notes.txt", "logs/by-hand.log", "deeper/facts.json"])
def test_what_others_have_put_where_a_bundle_goes_stays(name: str, user: User, tmp_path: Path) -> None:
    theirs = tmp_path / "output" / "bundle" / name
    theirs.parent.mkdir(parents=True)
    theirs.write_text("ours\n")
    said = play(user, tmp_path, "doctor_bundle")[1]
    assert theirs.read_text() == "ours\n"
    assert name in " ".join(said.split())


def test_a_bundle_is_what_the_run_has_seen_and_nothing_of_an_earlier_one(user: User, tmp_path: Path) -> None:
    bundle = tmp_path / "output" / "bundle"
    assert play(user, tmp_path, "doctor_bundle")[0]
    written = files(bundle)
    assert sorted(load(bundle / "facts.json")) == [*RECORDED, "n1"]
    assert {path.stat().st_mode & 0o777 for path in bundle.rglob("*") if path.is_file()} == {0o600}
    # an earlier one had more
    (bundle / "logs" / "0001-gpu-7_kernel.log").write_text("of another time\n")
    (bundle / "cluster.json").write_text("{}\n")
    kept = files(bundle)
    assert play(user, tmp_path, "doctor_bundle", "--check")[0] == 1
    assert files(bundle) == kept
    assert play(user, tmp_path, "doctor_bundle")[0] == 1
    assert files(bundle) == written
    assert play(user, tmp_path, "doctor_bundle")[0] == 0
    # and the doctor finds the same in it
    play(user, tmp_path, "doctor", doctor_directory=str(bundle))
    document = checked("doctor", json.loads((tmp_path / "output" / "doctor.json").read_text()))
    assert document["looked_at"]["hosts"] == 3
    assert NO_JOURNAL in document["unread"]
