# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What site.yml wrote on the controller: facts, plan, evidence, report."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pace
import pytest
import yaml

from ansible_collections.fabric.rdma.tests.unit import contracts

# These look at the controller; no host is needed for them.
testinfra_hosts = ["local://"]

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "inventories" / "demo"
OUTPUT = Path(os.environ["FABRIC_RDMA_OUTPUT"])
GROUPS = ["gb200", "ib-a100", "ib-v100", "roce-rails", "soft-roce"]


def check_evidence(directory: Path) -> None:
    """Both measurements ran between the two nodes and passed, with figures that only traffic gives."""
    evidence = contracts.load(directory / "evidence" / "soft-roce.json")
    tests = {entry["test"]: entry for entry in evidence["tests"]}
    assert set(tests) == {"ib_write_bw", "ib_write_lat"}
    for entry in tests.values():
        assert entry["verdict"] == "pass", entry["message"]
        assert {entry["client"]["host"], entry["server"]["host"]} == {"lab1", "lab2"}
        assert entry["client"]["device"] == entry["server"]["device"] == "rxe0"
    assert 0 < tests["ib_write_bw"]["bandwidth_gbps"]["average"] < 1000
    assert 0 < tests["ib_write_lat"]["latency_us"]["typical"] < 10_000_000


def test_the_lab_says_how_fast_this_machine_is() -> None:
    """The time limits of tests follow it."""
    state = json.loads((Path(os.environ["FABRIC_RDMA_LAB"]) / "state.json").read_text())
    assert state["boot_seconds"] > 1
    assert pace.factor() == round(min(max(state["boot_seconds"] / pace.BOOT_SECONDS, 1), pace.MOST), 2)


def test_facts_of_every_host() -> None:
    inventory = yaml.safe_load((DEMO / "hosts.yml").read_text())
    assert sorted(inventory["rdma"]["children"]) == GROUPS
    facts = contracts.load(OUTPUT / "facts.json")
    assert {"lab1", "lab2"} < set(facts)
    # two names that reach one node would let everything else pass
    assert facts["lab1"]["devices"][0]["node_guid"] != facts["lab2"]["devices"][0]["node_guid"]
    for name in ("lab1", "lab2"):
        (device,) = facts[name]["devices"]
        assert (device["name"], device["kind"]) == ("rxe0", "software")
        assert device["ports"][0]["state"] == "Active"
        # where an HCA is, so that device plugins find it
        assert (device["pci"], device["driver"], device["plugin"]["visible"]) == ("0000:00:05.0", "rdma_rxe", True)


def test_plan_covers_every_group() -> None:
    plan = contracts.load(OUTPUT / "plan.json")
    assert sorted(plan["groups"]) == GROUPS
    (entry,) = plan["groups"]["soft-roce"]["classes"]
    assert {host: [match["device"] for match in matches] for host, matches in entry["matches"].items()} == {
        "lab1": ["rxe0"],
        "lab2": ["rxe0"],
    }


def test_the_evidence_has_every_pair() -> None:
    check_evidence(OUTPUT)


@pytest.mark.parametrize(("name", "words"), [("report.html", [*GROUPS, "lab1", "lab2"]), ("summary.txt", GROUPS)])
def test_report_names_every_group_and_node(name: str, words: list[str]) -> None:
    """The summary names a node when there is something to say about it."""
    text = (OUTPUT / name).read_text()
    for word in words:
        assert word in text


def playbook(name: str, *arguments: str, inventory: Path = DEMO) -> str:
    """What a playbook of the checkout prints."""
    done = subprocess.run(
        ["ansible-playbook", str(ROOT / "playbooks" / f"{name}.yml"), "-i", str(inventory), *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ANSIBLE_SHOW_CUSTOM_STATS": "true", "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def test_a_capture_gives_the_facts_of_the_node(tmp_path: Path) -> None:
    """Captured on a live node and unpacked: discovery of that directory says what discovery on the node said."""
    live = tmp_path / "live"
    playbook("discover", "--limit", "lab1", "-e", f"rdma_output_dir={live}")
    playbook("capture", "--limit", "lab1", "-e", f"rdma_output_dir={tmp_path}")
    root = tmp_path / "unpacked"
    root.mkdir()
    subprocess.run(["tar", "-xf", str(tmp_path / "captures" / "lab1.tar.gz"), "-C", str(root)], check=True)
    replay = tmp_path / "replay"
    playbook("discover", "--limit", "lab1", "-e", f"rdma_capture={root}", "-e", f"rdma_output_dir={replay}")
    replayed = contracts.load(replay / "facts.json")["lab1"]
    assert replayed["devices"]
    assert replayed == contracts.load(live / "facts.json")["lab1"]


def test_hosts_of_a_slice_measure_against_each_other(tmp_path: Path) -> None:
    """A slice as AWX starts it: an inventory that lacks groups without hosts in it, and two names that are equal."""
    inventory = tmp_path / "slice"
    inventory.mkdir()
    (inventory / "group_vars").symlink_to(DEMO / "group_vars")
    hosts = {"rdma": {"children": {"soft-roce": {"hosts": dict.fromkeys(("lab1", "lab2"))}}}}
    (inventory / "hosts.yml").write_text(yaml.safe_dump(hosts))
    output, name = tmp_path / "output", "rdma verify"
    variables = {
        "awx_job_id": 8,
        "awx_workflow_job_id": 7,
        "awx_workflow_job_name": name,
        "awx_job_template_name": name,
    }
    said = playbook("verify", "-e", json.dumps({**variables, "rdma_output_dir": str(output)}), inventory=inventory)
    check_evidence(output)
    told = json.loads(said.partition("CUSTOM STATS: ")[2].partition("RUN: ")[2].partition("\n")[0])
    assert list(told) == ["fabric_rdma_verify_8"]
    assert (told["fabric_rdma_verify_8"]["groups"], int(told["fabric_rdma_verify_8"]["tests"])) == (["soft-roce"], 2)
    assert int(told["fabric_rdma_verify_8"]["failed"]) == 0


def test_a_base_runtime_spec_from_the_containerd_of_the_node() -> None:
    """Made from what the node's own ctr prints, once; the second time there is nothing to do."""
    command = ["ansible", "lab1", "-i", str(DEMO), "--one-line"]
    command += ["-m", "fabric.rdma.oci_rlimits", "-a", "path=/var/tmp/base-runtime-spec.json"]
    for changed in (True, False):
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        result = json.loads(done.stdout.partition("=>")[2])
        assert result["changed"] is changed
        assert result["rlimits"] == [{"type": "RLIMIT_MEMLOCK", "hard": 2**64 - 1, "soft": 2**64 - 1}]
        assert result["drift"] == []
