# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with some hosts keeps nobody from the plan of the others and from the report; and the run fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.tests.unit.contracts import a_test, evidence_of, load

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

CAPTURES = Path(__file__).resolve().parents[1] / "captures"


def write_inventory(directory: Path, groups: dict[str, dict[str, dict[str, t.Any]]], **common: t.Any) -> Path:
    """An inventory of RDMA groups: {group: {host: variables}}; common: variables of all."""
    children = {
        name: {"hosts": hosts, "vars": {"rdma_resource": {"name": f"rdma_{name}"}}} for name, hosts in groups.items()
    }
    variables = {"rdma_groups": sorted(groups), "rdma_output_dir": str(directory / "output"), **common}
    path = directory / "hosts.json"
    path.write_text(json.dumps({"rdma": {"children": children, "vars": variables}}))
    return path


def replayed(*names: str) -> dict[str, dict[str, t.Any]]:
    return {name: {"rdma_capture": str(CAPTURES / f"{name}.capture")} for name in names}


def said(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join((done.stdout + done.stderr).split())


def measured(group: str, client: str, server: str) -> str:
    return json.dumps(evidence_of(group, a_test(client, server)))


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_a_group_with_nothing_usable(whose: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    user: User = request.getfixturevalue(whose)
    inventory = write_inventory(tmp_path, {"good": replayed("ib-v100-1", "ib-v100-2"), "bare": replayed("no-rdma")})
    evidence = tmp_path / "output" / "evidence"
    evidence.mkdir(parents=True)
    for group in ("good", "gone"):
        (evidence / f"{group}.json").write_text(measured(group, "ib-v100-1", "ib-v100-2"))
        os.utime(evidence / f"{group}.json", (1700000000, 1700000000))
    done = user.run("ansible-playbook", "fabric.rdma.site", "-i", str(inventory), check=False)
    assert done.returncode == 2, done.stdout
    conclusion = said(done).partition("PLAY [Conclude]")[2]
    assert "host no-rdma has no usable port (no RDMA device)" in conclusion
    assert list((tmp_path / "output" / "rendered" / "good").glob("*-daemonset.yaml"))
    assert sorted(load(tmp_path / "output" / "plan.json")["groups"]) == ["bare", "good"]
    page = (tmp_path / "output" / "report.html").read_text()
    assert "no-rdma has no usable port (no RDMA device)" in page
    summary = (tmp_path / "output" / "summary.txt").read_text()
    assert summary.startswith("✕  1 of 2 groups has a problem: bare\n")
    # an old measurement is called so, and one of a group that is gone is not shown
    for text in (page, summary):
        assert "measured earlier: 2023-11-14 22:13 UTC" in text
        assert "Earlier measurements of groups that are no longer RDMA groups are left out: gone" in text


NEED_HOSTS = sorted(
    path.stem
    for path in (Path(__file__).resolve().parents[2] / "playbooks").glob("*.yml")
    if path.stem not in {"awx", "everyone", "lab"}
)
EMPTY = {"others": {"hosts": {"one": {}}}, "rdma": {"hosts": {}}}


@pytest.mark.parametrize("name", NEED_HOSTS)
def test_a_playbook_that_finds_no_hosts_fails(user: User, tmp_path: Path, name: str) -> None:
    """Ansible alone would do nothing and succeed, and a job with a misspelt group be green."""
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps(EMPTY))
    done = user.run("ansible-playbook", f"fabric.rdma.{name}", "-i", str(inventory), check=False)
    assert done.returncode not in (0, 1), done.stdout
    assert "The inventory has no hosts that match rdma." in said(done)
    assert [path.name for path in tmp_path.iterdir()] == ["hosts.json"]


@pytest.mark.parametrize("name", ["cleanup_stale", "uninstall"])
def test_what_works_on_the_cluster_alone_takes_the_one_of_the_group(user: User, tmp_path: Path, name: str) -> None:
    """Not the one that the controller would ask where nobody names any (KUBECONFIG, ~/.kube/config)."""
    wanted = str(tmp_path / "the-right-one")
    inventory = write_inventory(tmp_path, {"good": replayed("ib-v100-1")}, rdma_rollout={"kubeconfig": wanted})
    command = ("ansible-playbook", f"fabric.rdma.{name}", "-i", str(inventory))
    done = user.run(*command, "-e", json.dumps({"rdma_stale_resources": ["rdma/old"]}), check=False)
    assert done.returncode == 2, done.stdout
    assert f"{wanted} does not exist" in said(done)


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_the_syntax_of_playbooks_can_be_checked_without_an_inventory(
    whose: str, request: pytest.FixtureRequest
) -> None:
    """As Galaxy and linters do."""
    user: User = request.getfixturevalue(whose)
    names = [f"fabric.rdma.{name}" for name in NEED_HOSTS]
    done = user.run("ansible-playbook", "--syntax-check", "-i", "localhost,", *names)
    assert "no hosts that match" not in said(done)


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
@pytest.mark.parametrize("name", ["discover", "prepare", "verify", "plan", "report"])
def test_only_a_slice_that_has_something_to_do_without_the_others_may_find_none(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, whose: str
) -> None:
    """AWX deals out all hosts of an inventory, and each slice gets some."""
    user: User = request.getfixturevalue(whose)
    groups = {"ib-v100": replayed("ib-v100-1"), "ib-a100": {}}
    inventory = write_inventory(tmp_path, groups)
    slices = {"awx_workflow_job_name": "rdma work", "awx_job_template_name": "rdma work", "rdma_slices": 4}
    words = ("-i", str(inventory), "-e", json.dumps({"rdma_hosts": "ib-a100", "verify_level": "hosts", **slices}))
    done = user.run("ansible-playbook", f"fabric.rdma.{name}", *words, check=False)
    if name in ("plan", "report"):
        assert done.returncode != 0, done.stdout
        assert "The inventory has no hosts that match ib-a100." in said(done)
    else:
        assert done.returncode == 0, done.stdout + done.stderr
        assert "ib-v100-1" not in done.stdout
        assert "skipping: no hosts matched" in done.stdout or name == "verify"


def test_hosts_that_have_left_the_inventory_fail_a_nightly_job(user: User, tmp_path: Path) -> None:
    """An inventory that AWX fills may lose hosts silently. Those that a run leaves out have not left it."""
    inventory = write_inventory(tmp_path, {"good": replayed("ib-v100-1", "ib-v100-2", "ib-a100-1")})
    compare = ("ansible-playbook", "fabric.rdma.compare", "-i", str(inventory), "-e", "compare_insist=true")
    user.run(*compare, check=False)
    assert "nothing changed" in said(user.run(*compare, "-e", "rdma_hosts=ib-v100-1"))
    write_inventory(tmp_path, {"good": replayed("ib-v100-1", "ib-v100-2")})
    done = user.run(*compare, check=False)
    assert done.returncode == 2, done.stdout
    assert "ib-a100-1: no longer in the inventory" in said(done)
    assert "1 have left the inventory" in said(done)


def test_what_a_killed_comparison_has_found_is_told_by_the_next(user: User, tmp_path: Path) -> None:
    """Its discovery has written facts.json, of which the next run would find nothing new. With --check, it compares and writes nothing."""
    inventory = write_inventory(tmp_path, {"good": replayed("ib-v100-1", "ib-v100-2")})
    compare = ("ansible-playbook", "fabric.rdma.compare", "-i", str(inventory), "-e", "compare_insist=true")
    user.run(*compare, check=False)
    known, told = (tmp_path / "output" / name for name in ("facts.json", "before.json"))
    then = load(known)
    assert load(told) == then
    then["ib-v100-1"]["devices"][0]["firmware"] = "1.2.3"
    known.write_text(json.dumps(then))
    # the first comparison of all, as it were
    told.unlink()
    looked = said(user.run(*compare, "--check", check=False))
    assert "now 16.35" in looked
    assert load(known) == then
    assert not told.exists()
    # as far as a run comes that is killed when it has discovered
    plays = yaml.safe_load((user.collection / "playbooks" / "compare.yml").read_text())[:2]
    plays[1]["ansible.builtin.import_playbook"] = "fabric.rdma.discover"
    (tmp_path / "begin.yml").write_text(yaml.safe_dump(plays))
    user.run("ansible-playbook", str(tmp_path / "begin.yml"), "-i", str(inventory))
    assert "1.2.3" not in known.read_text()
    # which a comparison of others leaves to be told
    assert "nothing changed" in said(user.run(*compare, "-e", "rdma_hosts=ib-v100-2"))
    done = user.run(*compare, check=False)
    assert done.returncode == 2, done.stdout
    assert "firmware: 1.2.3, now 16.35" in said(done)
    assert "nothing changed" in said(user.run(*compare))


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_what_somebody_else_discovers_first_is_told_by_the_next_comparison(
    whose: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The workflow of the day discovers, too, and would take from the night what it has to tell."""
    user: User = request.getfixturevalue(whose)
    hosts = replayed("ib-v100-1", "ib-v100-2")
    inventory = write_inventory(tmp_path, {"good": hosts})
    compare = ("ansible-playbook", "fabric.rdma.compare", "-i", str(inventory), "-e", "compare_insist=true")
    user.run(*compare, check=False)
    # one changes, one comes, and one is taken out of the inventory
    write_inventory(tmp_path, {"good": {"ib-v100-1": hosts["ib-v100-2"], **replayed("ib-a100-1")}})
    user.run("ansible-playbook", "fabric.rdma.discover", "-i", str(inventory))
    looked = said(user.run(*compare, "--check", check=False))
    done = user.run(*compare, check=False)
    assert done.returncode == 2, done.stdout
    for text in (looked, said(done)):
        assert "ib-v100-1: devices" in text
        assert "1 hosts changed, 1 are new, 1 have left the inventory" in text
    # until it is taken out on purpose
    known = tmp_path / "output" / "facts.json"
    assert "0 hosts changed, 0 are new, 1 have left the inventory" in said(user.run(*compare, check=False))
    known.write_text(json.dumps({host: facts for host, facts in load(known).items() if host != "ib-v100-2"}))
    assert "nothing changed" in said(user.run(*compare))
    assert sorted(load(tmp_path / "output" / "before.json")) == ["ib-a100-1", "ib-v100-1"]


@pytest.mark.parametrize("name", ["prepare", "site"])
def test_outcomes_that_cannot_be_written_end_nothing_else(user: User, tmp_path: Path, name: str) -> None:
    """What became of the nodes is told, site goes on to plan and report, and nobody is said to have failed by it."""
    inventory = write_inventory(tmp_path, {"good": replayed("ib-v100-1", "ib-v100-2", "nowhere")})
    (tmp_path / "output" / "outcomes.json").mkdir(parents=True)
    user = user._replace(env=user.env | {"ANSIBLE_SHOW_CUSTOM_STATS": "true"})
    done = user.run("ansible-playbook", f"fabric.rdma.{name}", "-i", str(inventory), check=False)
    assert done.returncode == 2, done.stdout
    end = said(done).partition("PLAY [Conclude]")[2] if name == "site" else said(done)
    assert "outcomes.json: Is a directory" in end
    assert "nowhere failed in the step discover" in end
    assert "Out of the run" not in said(done)
    told = said(done).partition("CUSTOM STATS")[2]
    assert "outcomes.json: Is a directory" in told
    if name == "site":
        page = (tmp_path / "output" / "report.html").read_text()
        assert "nowhere" in page
        assert "Out of the run" not in page


@pytest.mark.parametrize("name", ["plan.json", "outcomes.json"])
def test_a_report_does_without_a_file_that_is_damaged(user: User, tmp_path: Path, name: str) -> None:
    inventory = write_inventory(tmp_path, {"good": replayed("ib-v100-1")})
    user.run("ansible-playbook", "fabric.rdma.plan", "-i", str(inventory))
    (tmp_path / "output" / name).write_text('{"schema": 1, "hos')
    user.run("ansible-playbook", "fabric.rdma.report", "-i", str(inventory))
    page = (tmp_path / "output" / "report.html").read_text()
    assert f"{name} cannot be read as the {name.partition('.')[0]} of an earlier run" in page
    assert "ib-v100-1" in page


@pytest.mark.parametrize("name", ["discover", "doctor", "report"])
def test_groups_as_a_text_are_refused(user: User, tmp_path: Path, name: str) -> None:
    """Its letters would be the groups, none of which is there to be looked at."""
    inventory = write_inventory(tmp_path, {"bare": replayed("no-rdma")})
    words = ("-i", str(inventory), "-e", json.dumps({"rdma_groups": "bare"}))
    done = user.run("ansible-playbook", f"fabric.rdma.{name}", *words, check=False)
    assert done.returncode == 2, done.stdout
    assert "rdma_groups is a string; it must be a list of groups" in said(done)


def test_the_home_directory_is_the_same_for_who_writes_and_who_reads(user: User, tmp_path: Path) -> None:
    """A plan that shrinks is refused there, too, and the report finds what is there."""
    user = user._replace(env=user.env | {"HOME": str(tmp_path)})
    inventory = write_inventory(tmp_path, {"good": replayed("ib-v100-1", "ib-v100-2")}, rdma_output_dir="~/own")
    user.run("ansible-playbook", "fabric.rdma.plan", "-i", str(inventory))
    assert (tmp_path / "own" / "plan.json").exists()
    user.run("ansible-playbook", "fabric.rdma.report", "-i", str(inventory))
    assert "planned, not measured" in (tmp_path / "own" / "summary.txt").read_text()
    write_inventory(tmp_path, {"good": replayed("ib-v100-1")}, rdma_output_dir="~/own")
    done = user.run("ansible-playbook", "fabric.rdma.plan", "-i", str(inventory), check=False)
    assert done.returncode == 2, done.stdout
    assert "1 hosts that earlier runs know are not in the RDMA groups of this inventory" in said(done)


def test_a_relative_directory_is_where_the_run_was_started(user: User, tmp_path: Path) -> None:
    """For who writes and who reads, and not where the playbook is, which is in the collection."""
    inventory = write_inventory(tmp_path, {"good": replayed("ib-v100-1", "ib-v100-2")}, rdma_output_dir="out")
    (tmp_path / "out" / "evidence").mkdir(parents=True)
    (tmp_path / "out" / "evidence" / "good.json").write_text(measured("good", "ib-v100-1", "ib-v100-2"))
    for name in ("plan", "report"):
        user._replace(home=tmp_path).run("ansible-playbook", f"fabric.rdma.{name}", "-i", str(inventory))
    assert "k8s-rdma-shared-dev-plugin" in (tmp_path / "out" / "images.txt").read_text()
    assert "measured earlier: " in (tmp_path / "out" / "report.html").read_text()
    assert not (user.collection / "playbooks" / "out").exists()


def test_a_private_directory_stays_private(user: User, tmp_path: Path) -> None:
    """Who may read it is up to who made it."""
    inventory = write_inventory(tmp_path, {"good": replayed("ib-v100-1", "ib-v100-2")})
    evidence = tmp_path / "output" / "evidence"
    for path in (evidence.parent, evidence):
        path.mkdir(mode=0o700)
    for name in ("compare", "report"):
        user.run("ansible-playbook", f"fabric.rdma.{name}", "-i", str(inventory))
    assert [path.stat().st_mode & 0o777 for path in (evidence.parent, evidence)] == [0o700, 0o700]


@pytest.mark.parametrize("failures", ["The plan failed", ["The plan failed"], "", []])
def test_a_failure_elsewhere_may_be_told_as_a_text(user: User, tmp_path: Path, failures: str | list[str]) -> None:
    """As somebody types it under Prompt; without an answer nothing failed, and an empty path stands for the default."""
    inventory = write_inventory(tmp_path, {"good": replayed("ib-v100-1")}, rdma_output_dir="")
    words = ("-i", str(inventory), "-e", json.dumps({"report_failures": failures}))
    done = user._replace(home=tmp_path).run("ansible-playbook", "fabric.rdma.report", *words, check=False)
    assert done.returncode == (2 if failures else 0), done.stdout
    assert ("The plan failed" in (tmp_path / "rdma-output" / "report.html").read_text()) == bool(failures)


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_a_host_that_fails_on_the_way(whose: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Its capture cannot be read: that fails the host at once, and the others go on to the report. On a site where one ends a play."""
    user: User = request.getfixturevalue(whose)
    user = user._replace(env=user.env | {"ANSIBLE_ANY_ERRORS_FATAL": "true"})
    groups = {"good": replayed("ib-v100-1", "ib-v100-2"), "lost": replayed("ib-a100-1", "nowhere")}
    inventory = write_inventory(tmp_path, groups)
    done = user.run("ansible-playbook", "fabric.rdma.site", "-i", str(inventory), check=False)
    assert done.returncode == 2, done.stdout
    summary = (tmp_path / "output" / "summary.txt").read_text()
    assert summary.startswith("✕  1 node did not finish: nowhere; 1 of 2 groups has a problem: lost\n")
    assert "nowhere failed in the step discover" in summary
    assert "Check that all nodes are well" in done.stdout
    assert "1 host without facts" in (tmp_path / "output" / "report.html").read_text()
    assert list((tmp_path / "output" / "rendered" / "good").glob("*-daemonset.yaml"))


def test_verify_alone_goes_on_without_a_host_that_cannot_be_read(user: User, tmp_path: Path) -> None:
    """The others are judged, and the run fails for it; it is no reason for them to go without their part."""
    inventory = write_inventory(tmp_path, {"good": replayed("ib-v100-1", "ib-v100-2", "nowhere")}, ansible_become=False)
    done = user.run("ansible-playbook", "fabric.rdma.verify", "-i", str(inventory), check=False)
    assert done.returncode == 2, done.stdout
    assert "nowhere: Gather the facts of the hosts: " in said(done)
    assert "nowhere.capture" in said(done)
    # the two that are read go through it, without traffic: they are replayed
    assert "Check that all measurements passed" in said(done)
    recap = done.stdout.partition("PLAY RECAP")[2]
    assert re.search(r"ib-v100-2 .*failed=0", recap)
    assert re.search(r"nowhere .*failed=1", recap)


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_hosts_that_do_not_answer(whose: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """None of those that are connected to: Ansible ends a run of whose play no host is left, and the report is written all the same."""
    user: User = request.getfixturevalue(whose)
    dark = {name: {"ansible_host": "127.0.0.1", "ansible_port": 9} for name in ("dark1", "dark2")}
    inventory = write_inventory(tmp_path, {"fabric": dark})
    done = user.run("ansible-playbook", "fabric.rdma.site", "-i", str(inventory), check=False)
    assert done.returncode == 2, done.stdout
    outcomes = load(tmp_path / "output" / "outcomes.json")["hosts"]
    assert {name: (one["state"], one["step"]) for name, one in outcomes.items()} == dict.fromkeys(
        dark, ("unreachable", "discover")
    )
    page = (tmp_path / "output" / "report.html").read_text()
    assert "Nodes to look at" in page
    assert "dark1 is unreachable in the step discover" in page
    assert "Remedy: see that it answers ssh" in page
    summary = (tmp_path / "output" / "summary.txt").read_text()
    assert summary.startswith("✕  2 nodes did not finish: dark1, dark2; group fabric has a problem\n")
    assert "dark2 is unreachable" in said(done).partition("PLAY [Conclude]")[2]


def test_traffic_that_cannot_even_begin(user: User, tmp_path: Path) -> None:
    """A wish of the role verify that makes no sense fails it on every host: the plan and the report are there all the same."""
    groups = {"good": replayed("ib-v100-1", "ib-v100-2")}
    inventory = write_inventory(tmp_path, groups, verify_min_gbps="eighty")
    done = user.run("ansible-playbook", "fabric.rdma.site", "-i", str(inventory), check=False)
    assert done.returncode == 2, done.stdout
    summary = " ".join((tmp_path / "output" / "summary.txt").read_text().split())
    assert "The run did not do all of its work; group good is planned, not measured" in summary
    assert "Traffic could not be moved on ib-v100-1, ib-v100-2: " in summary
    assert (tmp_path / "output" / "report.html").exists()
    conclusion = said(done).partition("PLAY [Conclude]")[2]
    assert "Traffic could not be moved on ib-v100-1, ib-v100-2: " in conclusion
    assert "verify_min_gbps" in conclusion
    alone = user.run("ansible-playbook", "fabric.rdma.verify", "-i", str(inventory), check=False)
    assert alone.returncode == 2, alone.stdout
    assert "verify_min_gbps" in said(alone)


def test_a_plan_that_cannot_be_made(user: User, tmp_path: Path) -> None:
    """Nothing of an earlier run takes its place. On a site that prefers another strategy for its plays."""
    inventory = write_inventory(tmp_path, {"good": replayed("ib-v100-1", "ib-v100-2")})
    # where the directory of the objects should be
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "rendered").write_text("")
    user = user._replace(env=user.env | {"ANSIBLE_STRATEGY": "free"})
    done = user.run("ansible-playbook", "fabric.rdma.site", "-i", str(inventory), check=False)
    assert done.returncode == 2, done.stdout
    page = (tmp_path / "output" / "report.html").read_text()
    assert "ib-v100-1" in page
    assert "<span>The plan failed: " in page
    conclusion = said(done).partition("PLAY [Conclude]")[2]
    assert "The plan failed: " in conclusion
    # a task that ran once has failed, for all of them
    assert "Out of the run" not in conclusion
    assert "rendered" in conclusion


def end_of_site(user: User, directory: Path, begin: str = "Plan", *then: dict[str, t.Any]) -> Path:
    """What site.yml does after the nodes are prepared, begin: the first play of it; hosts with facts_of get them from that capture and
    count as live. then: what happens to the hosts, with the controller among them, after that."""
    plays = yaml.safe_load((user.collection / "playbooks" / "site.yml").read_text())
    plays = plays[next(number for number, play in enumerate(plays) if play["name"] == begin) :]
    for play in plays:
        for key in [key for key in play if key.endswith("import_playbook")]:
            play[key] = "fabric.rdma." + play[key].removesuffix(".yml")
    gather = {
        "fabric.rdma.ib_facts": {"capture": "{{ facts_of }}"},
        "delegate_to": "localhost",
        "when": "facts_of is defined",
    }
    first = {"hosts": "rdma", "gather_facts": False, "tasks": [gather]}
    second = {"hosts": ["rdma", "localhost"], "gather_facts": False, "tasks": list(then)}
    # they include what lies beside them
    (directory / "tasks").symlink_to(user.collection / "playbooks" / "tasks")
    path = directory / "end.yml"
    path.write_text(yaml.safe_dump([first, second, *plays], sort_keys=False))
    return path


def live(**variables: t.Any) -> dict[str, dict[str, t.Any]]:
    """Two nodes with InfiniBand, going by their facts."""
    facts = {f"n{number}": str(CAPTURES / f"ib-v100-{number}.capture") for number in (1, 2)}
    return {
        name: {"facts_of": path, "ansible_become": False, "rdma_ofed": {"method": "none"}, **variables}
        for name, path in facts.items()
    }


def test_traffic_that_fails_ends_the_run_and_is_in_the_report(user: User, tmp_path: Path) -> None:
    """This machine, which plays both nodes, has neither these devices nor, as a rule, the programs."""
    here = live(ansible_connection="local", ansible_python_interpreter=sys.executable)
    # the first of the inventory was lost while the nodes were prepared, and is not measured
    lost = {"n0": {"facts_of": str(CAPTURES / "ib-a100-1.capture"), "rdma_ofed": {"method": "none"}}}
    inventory = write_inventory(tmp_path, {"fabric": lost | here, "good": replayed("ib-v100-2")})
    inventory.write_text(json.dumps(json.loads(inventory.read_text()) | {"rdma_lost": {"hosts": {"n0": {}}}}))
    arguments = ["-i", str(inventory), "-e", "verify_timeout=5"]
    done = user.run("ansible-playbook", str(end_of_site(user, tmp_path)), *arguments, check=False)
    assert done.returncode == 2, done.stdout
    conclusion = said(done).partition("PLAY [Conclude]")[2]
    assert "fabric: ib_write_bw from n1 mlx5_0 to n2 mlx5_0: " in conclusion
    assert f"All of it is in {tmp_path}/output/evidence." in conclusion
    evidence = load(tmp_path / "output" / "evidence" / "fabric.json")
    assert {test["verdict"] for test in evidence["tests"]} == {"error"}
    assert "ib_write_bw from n1 mlx5_0 to n2 mlx5_0: " in (tmp_path / "output" / "report.html").read_text()
    summary = (tmp_path / "output" / "summary.txt").read_text()
    assert summary.startswith("✕  1 of 2 groups has a problem: fabric\n")
    assert "measured earlier" not in summary


def test_nodes_that_are_gone_when_traffic_is_to_move(user: User, tmp_path: Path) -> None:
    """All of them: they are lost to the measurement, and still judged and reported."""
    gone = live(ansible_host="127.0.0.1", ansible_port=1)
    inventory = write_inventory(tmp_path, {"fabric": gone})
    done = user.run("ansible-playbook", str(end_of_site(user, tmp_path)), "-i", str(inventory), check=False)
    assert done.returncode == 2, done.stdout
    assert "n2 could not be reached" in said(done).partition("PLAY [Conclude]")[2]
    assert "n2 could not be reached" in (tmp_path / "output" / "report.html").read_text()


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_a_map_is_not_drawn_of_hosts_of_which_none_answers(
    whose: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Their facts come from a cache, and the programs would have to be started there: an earlier map stays, and the run fails."""
    user: User = request.getfixturevalue(whose)
    inventory = write_inventory(tmp_path, {"fabric": live(ansible_host="127.0.0.1", ansible_port=1)})
    earlier = tmp_path / "output" / "fabric.json"
    earlier.parent.mkdir()
    earlier.write_text("{}")
    play = tmp_path / "fabric.yml"
    facts = {"hosts": "rdma", "gather_facts": False, "tasks": [{"fabric.rdma.ib_facts": {"capture": "{{ facts_of }}"}}]}
    play.write_text(yaml.safe_dump([facts, {"import_playbook": "fabric.rdma.fabric"}]))
    done = user.run("ansible-playbook", str(play), "-i", str(inventory), check=False)
    assert done.returncode != 0, done.stdout
    assert "None of the hosts asked about their cables answered: n1, n2. fabric.json stays as it is." in said(done)
    assert earlier.read_text() == "{}"


@pytest.mark.parametrize("who", ["n1", "all"])
def test_hosts_that_drop_out_for_an_error_that_nobody_foresaw(who: str, user: User, tmp_path: Path) -> None:
    """Ansible leaves them out of later plays: they are planned and reported all the same, and the run fails for them."""
    inventory = write_inventory(tmp_path, {"fabric": live(), "good": replayed("ib-v100-2")})
    condition = "inventory_hostname != 'localhost'" if who == "all" else f"inventory_hostname == '{who}'"
    error = {"ansible.builtin.fail": {"msg": "nobody foresaw it"}, "when": condition}
    end = end_of_site(user, tmp_path, "Bring every host back for the next plays", error)
    done = user.run("ansible-playbook", str(end), "-i", str(inventory), check=False)
    assert done.returncode == 2, done.stdout
    conclusion = said(done).partition("PLAY [Conclude]")[2]
    names = ["ib-v100-2", "n1", "n2"] if who == "all" else ["n1"]
    told = f"Out of the run, for an error that the output has where it happened: {', '.join(names)}"
    assert f'{told}"' in conclusion
    assert told in (tmp_path / "output" / "report.html").read_text()
    assert sorted(load(tmp_path / "output" / "plan.json")["groups"]) == ["fabric", "good"]
