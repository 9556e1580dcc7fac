# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role ofed does in which order, also when what it relies on fails: on a host whose modules of this collection are stand-ins.

A stand-in says what it is told to say and changes nothing. The role, its filters and Ansible's own modules are the real ones. What
the modules do on a node, the scenario driver shows.
"""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.change import active_ports
from ansible_collections.fabric.rdma.tests.integration.stand_ins import BUILT, INBOX, RESTORED, WISH

if t.TYPE_CHECKING:
    from ansible_collections.fabric.rdma.tests.integration.stand_ins import Node

pytestmark = pytest.mark.integration

WORKS = json.loads(json.dumps(INBOX))
WORKS["ofed"] |= {"flavour": "doca", "version": "24.10-1.1.4.0", "packages": {"doca-ofed": "2.9.1-1"}}
WORKS["ofed"]["mlx5_core"] = {"path_kind": "updates", "version": "24.10-1.1.4"}
FAILS = {"failed": True, "msg": "No space left on device"}
DOES_NOT_INSTALL = {"name": "Fill the disk", "ansible.builtin.fail": {"msg": "dpkg: no space left"}}
# as rdma_needs tells of a driver that is installed and that the kernel does not run yet
NEEDS_ACTIVATION = {
    "needed": True,
    "driver": False,
    "activate": True,
    "prove": False,
    "packages": False,
    "modules": [],
    "reasons": ["the kernel still runs the mlx5_core that came with it"],
    "pending": None,
}
INSTALLS = {"name": "Install", "ansible.builtin.debug": {"msg": "installed"}}


def due(*, booted: bool = True, state: str = "Active") -> dict[str, t.Any]:
    """What ib_facts says of a node with a driver that is installed and not yet proved; state: that of its first port, Active before."""
    rdma = json.loads(json.dumps(WORKS))
    proof = {"method": "doca", "release": "2.9.1", "installed": True, "booted": booted}
    rdma["ofed"]["proof"] = {**proof, "devices": active_ports(INBOX)}
    rdma["devices"][0]["ports"][0]["state"] = state
    return {"ansible_facts": {"rdma": rdma}}


def test_a_proof_is_due_before_anything_is_installed(node: Node) -> None:
    """And until it is done, with the way back kept for as long: a run may be killed anywhere."""
    proof = {"method": "doca", "release": "2.9.1", "installed": True, "booted": False, "devices": []}
    node.answers["ib_facts"] += [{"ansible_facts": {"rdma": WORKS | {"ofed": {**WORKS["ofed"], "proof": proof}}}}]
    node.answers["ib_facts"] += [{"ansible_facts": {"rdma": WORKS}}]
    (node.collection / "roles" / "ofed" / "tasks" / "activate.yml").write_text("[]")
    said = node.play(INSTALLS, ofed_activate="reload", ofed_log_window=0)
    assert "failed=0" in said
    states = [call for call in node.calls() if call.startswith(("driver_proof", "driver_packages"))]
    assert states == [
        "driver_packages checked",
        "driver_proof",
        "driver_packages opened",
        "driver_packages closed",
        "driver_proof",
        "driver_packages forgotten",
        "driver_proof done",
    ]
    calls = [json.loads(line) for line in (node.directory / "calls").read_text().splitlines()]
    looks = [given["before"] for name, given in calls if name == "ib_facts"]
    # a port may take its time to be Active again: with the new driver, what was Active before is waited for
    assert [bool(before) for before in looks] == [False, True, False, True]
    due = [given for name, given in calls if name == "driver_proof" and "version" in given]
    assert [given.get("installed", True) for given in due] == [False, True]


def test_no_proof_is_due_of_what_was_never_begun(node: Node) -> None:
    node.answers["driver_packages opened"] = [FAILS]
    node.answers["driver_packages restored"] = [{"found": False, "restored": [], "left": [], "complete": True}]
    node.play(INSTALLS)
    states = [call for call in node.calls() if call.startswith(("driver_proof", "driver_packages"))]
    assert states[-3:] == ["driver_packages opened", "driver_packages restored", "driver_proof done"]


def test_no_way_back_is_a_reason_not_to_begin(node: Node) -> None:
    node.answers["driver_packages checked"] = [{"no_way_back": ["rdma-core 44.0-2"]}]
    said = node.play(INSTALLS)
    assert (
        "n1: the driver stays as it is. no_way_back: after a failure, rdma-core 44.0-2 could not be restored, since no "
        "repository of the node is known to have this version (add one that has). To go on all the same, set "
        "ofed_override: [no_way_back]." in said
    )
    assert node.calls() == ["ib_facts", "driver_gate", "driver_packages checked"]


def test_headers_are_not_installed_where_there_is_no_way_back(node: Node) -> None:
    node.answers["driver_packages checked"] = [{"no_way_back": ["rdma-core 44.0-2"]}]
    node.answers["driver_gate"] = [{"blocked": ["kernel_headers"], "refusals": ["kernel_headers: none"]}]
    said = node.play(INSTALLS)
    assert "n1: the driver stays as it is. no_way_back: " in said
    assert "Install the headers" not in said
    assert node.calls() == ["ib_facts", "driver_gate", "driver_packages checked"]


NO_HEADERS: list[dict[str, t.Any]] = [{"blocked": ["kernel_headers"], "refusals": ["kernel_headers: none"]}]
WITH_HEADERS: list[dict[str, t.Any]] = [{"blocked": [], "refusals": []}]


def packages_called(node: Node) -> list[str]:
    return [call for call in node.calls() if call.startswith("driver_packages")]


def test_headers_are_a_part_of_the_change(node: Node) -> None:
    """They go with it when it fails. The package that stands for them is there already."""
    node.answers["driver_gate"] = NO_HEADERS + WITH_HEADERS
    node.answers["driver_packages opened"] = [{"found": False}, {"found": True}]
    said = node.play(DOES_NOT_INSTALL, __ofed_header_package="bash")
    assert "dpkg: no space left" in said
    assert packages_called(node) == [
        "driver_packages checked",
        "driver_packages opened",
        "driver_packages closed",
        "driver_packages opened",
        "driver_packages restored",
    ]
    calls = map(json.loads, (node.directory / "calls").read_text().splitlines())
    opened = next(given for _name, given in calls if given.get("state") == "opened")
    assert opened["packages"] == ["bash"]


@pytest.mark.parametrize("found", [False, True])
@pytest.mark.parametrize("package", ["bash", "there-is-no-such-package"])
def test_headers_go_where_there_is_no_change_after_all(node: Node, package: str, *, found: bool) -> None:
    """Nothing is remembered that was not before: it would be taken for a change that never finished."""
    node.answers["driver_gate"] = NO_HEADERS
    node.answers["driver_packages opened"] = [{"found": found}]
    said = node.play(INSTALLS, __ofed_header_package=package)
    reason = "kernel_headers: none." if package == "bash" else f"({package}) cannot be installed: "
    assert "n1: the driver stays as it is. " in said
    assert reason in said
    # what an earlier change left to be undone is undone with it, not here
    closed = ["driver_packages closed"] * (2 if package == "bash" else 1)
    restored = [] if found else ["driver_packages restored"]
    assert packages_called(node) == ["driver_packages checked", "driver_packages opened", *closed, *restored]


@pytest.mark.parametrize("due", ["driver", "prove"])
@pytest.mark.parametrize("headers", [False, True])
def test_a_node_that_work_has_not_left_keeps_the_driver_it_has(node: Node, due: str, *, headers: bool) -> None:
    """To take back what an earlier run installed would reboot it under its Pods."""
    node.answers["cluster_access"] = [{"failed": True, "msg": "Unauthorized"}]
    node.answers["node_change begun"] = [{"interrupted": None, "before": {}}]
    node.answers["driver_packages opened"] = [{"found": False}]
    if headers:
        node.answers["driver_gate"] = NO_HEADERS + WITH_HEADERS
    said = node.play(
        INSTALLS,
        __ofed_header_package="bash",
        __ofed_needs={**NEEDS_ACTIVATION, "activate": False, due: True},
        ofed_activate="reboot",
        ofed_kubeconfig=str(node.directory / "kubeconfig"),
    )
    assert "n1: Unauthorized. The driver stays as it is." in said
    # what it has noted on the node, it takes back
    assert [call.split()[1] for call in node.calls() if call.startswith("node_change")] == ["begun", "ended"]
    assert "TASK [fabric.rdma.ofed : restore |" not in said
    assert "driver_proof done" not in node.calls()
    restored = ["driver_packages restored"] if headers else []
    assert [call for call in packages_called(node) if call.endswith("restored")] == restored


EARLIER = {"since": "2026-01-31T12:00:00Z", "roles": ["ofed"], "out_of_work": True}


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("interrupted", [None, EARLIER])
def test_a_node_that_could_not_be_drained_goes_back_where_it_was_in_work(
    node: Node, interrupted: dict[str, t.Any] | None, *, away: bool
) -> None:
    """What an earlier run has left open stays so."""
    tasks = node.collection / "roles" / "ofed" / "tasks"
    leaves = {"ansible.builtin.set_fact": {"ofed_drained": True, "ofed_was_away": away}}
    (tasks / "drain.yml").write_text(json.dumps([leaves, {"ansible.builtin.fail": {"msg": "a Pod stays"}}]))
    (tasks / "uncordon.yml").write_text(json.dumps([{"ansible.builtin.debug": {"msg": "goes back"}}]))
    node.answers["node_change begun"] = [{"interrupted": interrupted, "before": {}}]
    said = node.play(INSTALLS, ofed_kubeconfig="/kubeconfig")
    assert "n1: a Pod stays. The driver stays as it is." in said
    assert ("goes back" in said) is not away
    assert ("It stays out of service, where an earlier run has left it." in said) is away
    assert ("node_change ended" in node.calls()) is (interrupted is None)
    assert ("node_change back" in node.calls()) is not away


def ended_of(node: Node) -> list[list[str]]:
    """Roles of which the note on the node was told that they are done."""
    calls = map(json.loads, (node.directory / "calls").read_text().splitlines())
    return [given.get("roles", []) for name, given in calls if name == "node_change" and given["state"] == "ended"]


@pytest.mark.parametrize(
    ("interrupted", "away", "back", "ended"),
    [
        (None, False, True, True),
        (EARLIER, True, True, True),
        # of another role, or of the whole playbook
        ({**EARLIER, "roles": ["ofed", "roce_host"]}, True, False, False),
        ({**EARLIER, "roles": ["roce_host"]}, False, True, False),
    ],
)
def test_a_role_used_alone_returns_no_node_that_the_change_of_another_has_left_out(
    node: Node, interrupted: dict[str, t.Any] | None, *, away: bool, back: bool, ended: bool
) -> None:
    tasks = node.collection / "roles" / "ofed" / "tasks"
    leaves = {"ansible.builtin.set_fact": {"ofed_drained": True, "ofed_was_away": away}}
    (tasks / "drain.yml").write_text(json.dumps([leaves]))
    (tasks / "uncordon.yml").write_text(json.dumps([{"ansible.builtin.debug": {"msg": "goes back"}}]))
    node.answers["node_change begun"] = [{"interrupted": interrupted, "before": INBOX}]
    node.answers["ib_facts"] += [{"ansible_facts": {"rdma": WORKS}}]
    said = node.play(INSTALLS, ofed_kubeconfig="/kubeconfig")
    assert ("goes back" in said) is back
    assert (
        "n1 stays out of service: a change of it by roce_host, begun 2026-01-31T12:00:00Z, never finished" in said
    ) is not back
    # what it was to do is done; what the other one was to do is not
    assert ended_of(node) == [["ofed"]]
    assert ("node_change back" in node.calls()) is (back and not ended)


@pytest.mark.parametrize(
    ("roles", "found", "headers", "back"),
    [
        (["ofed"], False, False, False),
        (["ofed"], True, False, True),
        (["roce_host"], False, False, True),
        # what was found are those of this run
        (["ofed"], True, True, False),
    ],
)
def test_half_a_driver_of_a_killed_run_goes_to_no_work(
    node: Node, roles: list[str], *, found: bool, headers: bool, back: bool
) -> None:
    """Where nothing was remembered, what this run found is what stays: it may be half of the earlier one's."""
    tasks = node.collection / "roles" / "ofed" / "tasks"
    (tasks / "drain.yml").write_text(
        json.dumps([{"ansible.builtin.set_fact": {"ofed_drained": True, "ofed_was_away": False}}])
    )
    (tasks / "uncordon.yml").write_text(json.dumps([{"ansible.builtin.debug": {"msg": "goes back"}}]))
    node.answers["node_change begun"] = [{"interrupted": {**EARLIER, "roles": roles}, "before": INBOX}]
    node.answers["driver_packages restored"] = [{**RESTORED, "found": found}]
    given: dict[str, t.Any] = {"ofed_kubeconfig": "/kubeconfig"}
    if headers:
        node.answers["driver_gate"] = NO_HEADERS + WITH_HEADERS
        node.answers["driver_packages opened"] = [{"found": False}]
        # before anything of the driver is touched
        node.answers["driver_proof"] = [FAILS]
        given["__ofed_header_package"] = "bash"
    said = node.play(DOES_NOT_INSTALL, **given)
    assert ("No space left on device" if headers else "dpkg: no space left") in said
    assert ("goes back" in said) is back
    assert ("It stays out of service" in said) is not back
    assert bool(ended_of(node)) is back


def test_a_proof_that_is_due_is_not_forgotten_for_headers(node: Node) -> None:
    """Of a driver that somebody else installed, and that fails its proof, nothing but the headers can be put back."""
    node.answers["driver_gate"] = NO_HEADERS + WITH_HEADERS
    node.answers["driver_packages opened"] = [{"found": False}]
    node.answers["driver_packages restored"] = [{**RESTORED, "restored": ["bash is out"]}]
    node.answers["driver_check"] = [{**BUILT, "problems": ["it was not built"]}]
    works = json.loads(json.dumps(WORKS))
    works["ofed"]["mlx5_core"]["version"] = None
    works["kernel"]["modules"]["mlx5_core"]["loaded"] = True
    node.answers["ib_facts"] = [{"ansible_facts": {"rdma": works}}]
    said = node.play(INSTALLS, __ofed_header_package="bash", __ofed_needs={**NEEDS_ACTIVATION}, ofed_activate="reload")
    assert "it was not built" in said
    assert "driver_packages restored" in node.calls()
    assert "driver_proof done" not in node.calls()


def test_the_proof_of_what_did_not_go_is_still_due(node: Node) -> None:
    """Else the next run would find the driver there, and take it for proved."""
    node.answers["driver_packages restored"] = [{**RESTORED, "left": ["doca-ofed is 2.9.1"], "complete": False}]
    said = node.play(DOES_NOT_INSTALL)
    assert "not put back: doca-ofed is 2.9.1" in said
    assert "driver_proof done" not in node.calls()


def test_a_release_without_a_method_is_no_wish(node: Node) -> None:
    said = node.play(INSTALLS, ofed_method="inbox")
    assert "n1: ofed_method is inbox, which does not use ofed_version, ofed_repository and ofed_iso." in said
    assert not (node.directory / "calls").exists(), "nobody has looked at the node"


@pytest.mark.parametrize("state", ["Active", "Down"])
def test_a_role_used_alone_ends_on_a_node_that_is_no_worse(node: Node, state: str) -> None:
    """Else the next wave would begin. n2 is the second one."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (node.directory / "hosts.json").write_text(json.dumps({"all": {"hosts": {"n1": local, "n2": local}}}))
    role = {"ansible.builtin.include_role": {"name": "fabric.rdma.containerd_memlock"}}
    play = [{"hosts": "all", "gather_facts": False, "serial": 1, "tasks": [role]}]
    (node.directory / "play.yml").write_text(json.dumps(play))
    after = json.loads(json.dumps(INBOX))
    after["devices"][0]["ports"][0]["state"] = state
    looks = [{"ansible_facts": {"rdma": facts}} for facts in (INBOX, after)]
    node.answers.update(containerd_memlock=[{"changed": True, "stale_containers": []}], ib_facts=looks)
    (node.directory / "answers.json").write_text(json.dumps(node.answers))
    arguments = ["-i", str(node.directory / "hosts.json"), str(node.directory / "play.yml")]
    done = node.user.run("ansible-playbook", *arguments, check=False)
    said = " ".join((done.stdout + done.stderr).split())
    calls = node.calls()
    if state == "Active":
        assert done.returncode == 0
        assert calls.count("containerd_memlock") == 2
    else:
        assert "n1 is worse than before: " in said
        assert "port 1 was Active and is Down" in said
        assert calls == ["ib_facts", "containerd_memlock", "ib_facts"], "n2 is left as it is"


def test_who_knows_better_goes_without_a_way_back(node: Node) -> None:
    node.answers["driver_packages checked"] = [{"no_way_back": ["rdma-core 44.0-2"]}]
    node.answers["ib_facts"] += [due(booted=False)]
    said = node.play(INSTALLS, ofed_override=["no_way_back"])
    assert "failed=0" in said
    states = [call for call in node.calls() if call.startswith("driver_packages")]
    assert states == ["driver_packages checked", "driver_packages opened", "driver_packages closed"]


def test_the_first_run_after_a_boot_does_the_proof(node: Node) -> None:
    """And nothing else: the driver is in the kernel already."""
    node.answers["ib_facts"] = [due(), due(), {"ansible_facts": {"rdma": WORKS}}]
    said = node.play(DOES_NOT_INSTALL, ofed_log_window=7, ofed_log_limit=9)
    assert "failed=0" in said
    # and, as after any change, a last look at the host
    proof = ["driver_check", "ib_facts", "driver_packages forgotten", "driver_proof done", "ib_facts"]
    assert node.calls() == ["ib_facts", *proof, "ib_facts"]
    calls = dict(json.loads(line) for line in (node.directory / "calls").read_text().splitlines())
    assert (calls["driver_check"]["log_window"], calls["driver_check"]["log_limit"]) == (7, 9)


FLOODS = "the kernel's log grows by 118 records a second (limit: 20), most often with 'mlx5_core: N'"


@pytest.mark.parametrize(
    ("check", "port", "task", "reason"),
    [
        ({"problems": [FLOODS]}, "Active", "Check that the new driver runs and the log is quiet", FLOODS),
        (
            {"driver": {"path": "updates/x.ko", "pending": True}},
            "Active",
            "Check that the new driver runs and the log is quiet",
            "the kernel runs another driver than updates/x.ko",
        ),
        (
            {},
            "Down",
            "Check that no port and no service was lost",
            "port 1 was Active and is Down (phys state LinkUp)",
        ),
    ],
    ids=["log", "driver", "port"],
)
def test_a_driver_that_fails_its_proof_after_a_boot_stays(
    node: Node, check: dict[str, t.Any], port: str, task: str, reason: str
) -> None:
    """This run has changed nothing, so there is nothing to be put back; the proof is due as before."""
    node.answers["ib_facts"] = [due(state=port)]
    node.answers["driver_check"] = [{**BUILT, **check}]
    said = node.play(DOES_NOT_INSTALL)
    assert f'n1: doca 2.9.1, which an earlier run installed, fails its proof at "judge | {task}": ' in said
    assert f"{reason}. Nothing was changed. With ofed_activate: reboot, the role restores the previous packages" in said
    assert set(node.calls()) == {"ib_facts", "driver_check"}


def test_a_log_that_finds_no_room_keeps_nothing_from_being_put_back(node: Node) -> None:
    log = node.directory / "make.log"
    log.write_text("gcc: no space left\n")
    problems = ["it was not built"]
    node.answers["driver_check"] = [{**BUILT, "build_log": {"path": str(log), "errors": "gcc"}, "problems": problems}]
    said = node.play(DOES_NOT_INSTALL, __ofed_kept_log="/proc/kept.log", __ofed_staged_log="/proc/staged.log")
    assert "driver_packages restored" in node.calls()
    assert 'failed at "Fill the disk": dpkg: no space left. it was not built. What was done: put back' in said
    assert "put back: doca-ofed is out. the log of the build is not kept: " in said
    assert "Its driver stack and its ports are as before." in said


def test_a_log_that_finds_room_afterwards_is_kept(node: Node) -> None:
    """The package that goes takes the log of its build along."""
    log = node.directory / "make.log"
    log.write_text("gcc: no space left\n")
    node.answers["driver_check"] = [{**BUILT, "build_log": {"path": str(log), "errors": "gcc"}, "problems": ["x"]}]
    kept = node.directory / "full"
    # in the way until then
    kept.write_text("")
    restore = node.collection / "roles" / "ofed" / "tasks" / "restore.yml"
    room = {"ansible.builtin.file": {"path": str(kept), "state": "absent"}}
    restore.write_text(restore.read_text() + "\n- " + json.dumps({"name": "Make room", **room}) + "\n")
    said = node.play(DOES_NOT_INSTALL, __ofed_kept_log=str(kept / "kept.log"))
    assert f"The log is kept in {kept / 'kept.log'}." in said
    assert (kept / "kept.log").read_text() == log.read_text()
    assert not (node.directory / "staged.log").exists()


def test_a_driver_in_use_keeps_no_packages(node: Node) -> None:
    """There is no openibd to be stopped here: as on a node where a module is in use, that fails."""
    said = node.play(INSTALLS, ofed_activate="reload")
    assert "driver_packages restored" in node.calls()
    assert 'failed at "activate | Load the new modules"' in said
    assert "What was done: put back: doca-ofed is out. the kernel may still run the new modules, which a reboot" in said


def test_a_node_on_which_everything_fails_tells_the_first_reason(node: Node) -> None:
    node.answers["driver_check"] = node.answers["driver_packages restored"] = [FAILS]
    node.answers["ib_facts"] = [*node.answers["ib_facts"], FAILS]
    said = node.play(DOES_NOT_INSTALL)
    assert "driver_packages restored" in node.calls()
    assert (
        'failed at "Fill the disk": dpkg: no space left. What was done: what was built cannot be looked at: No' in said
    )
    assert (
        'putting back what was there failed, too, at "restore | Put back packages, pins and holds": No space left'
        in said
    )
    assert "What it is now cannot be told: No space left on device." in said


# What nobody wishes for, so that the role ofed is all that there is to do.
NOTHING_ELSE = {
    "rdma_memlock": {"enabled": False},
    "rdma_gpudirect": "none",
    "rdma_storage": {"iscsi": False, "nfs": False, "dm_crypt": False, "multipath": False, "path": ""},
}


@pytest.mark.parametrize("what", ["roles", "prepare"])
def test_facts_of_a_cache_decide_nothing(node: Node, what: str) -> None:
    """Yesterday the driver was there. It no longer is."""
    roles = {"n1": "ofed", "n2": "storage_prereqs", "n3": "nvidia_peermem"}
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    wishes = {**NOTHING_ELSE, "rdma_ofed": {name.removeprefix("ofed_"): value for name, value in WISH.items()}}
    # what a module is told of its host is the directory for its files there
    names = roles if what == "roles" else ["n1"]
    hosts = {name: {**local, "ansible_remote_tmp": str(node.directory / name)} for name in names}
    groups = {"rdma": {"children": {"a": {"hosts": hosts, "vars": wishes}}, "vars": {"rdma_groups": ["a"]}}}
    # not in the run; yesterday it had the initiator name that the others have
    groups["elsewhere"] = {"hosts": {"n0": local}}
    (node.directory / "hosts.json").write_text(json.dumps(groups))
    (node.collection / "roles" / "ofed" / "tasks" / "doca.yml").write_text(json.dumps([INSTALLS]))
    env = {
        "ANSIBLE_CACHE_PLUGIN": "ansible.builtin.jsonfile",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(node.directory / "cache"),
    }
    user = node.user._replace(env=node.user.env | env)
    inventory = ("-i", str(node.directory / "hosts.json"))
    answers = node.directory / "answers.json"
    storage = {
        **WORKS["storage"],
        "iscsi": {**WORKS["storage"]["iscsi"], "initiator_name": "iqn.2026-01.com.example:a"},
    }
    answers.write_text(json.dumps({"ib_facts": [{"ansible_facts": {"rdma": {**WORKS, "storage": storage}}}]}))
    user.run("ansible", *inventory, "all", "-m", "fabric.rdma.ib_facts")
    (node.directory / "calls").write_text("")
    node.answers["ib_facts"] = [{"ansible_facts": {"rdma": {**INBOX, "storage": storage}}}]
    answers.write_text(json.dumps(node.answers))
    plays = [
        {
            "hosts": host,
            "gather_facts": False,
            "tasks": [
                {"ansible.builtin.include_role": {"name": f"fabric.rdma.{role}"}},
                {
                    "ansible.builtin.debug": {
                        "msg": "{{ __storage_prereqs_duplicates | default([]) | map(attribute='hosts') }}"
                    }
                },
            ],
        }
        for host, role in roles.items()
    ]
    (node.directory / "play.yml").write_text(json.dumps(plays))
    twice = node.directory / "twice.yml"
    twice.write_text(json.dumps([{"ansible.builtin.import_playbook": "fabric.rdma.prepare"}] * 2))
    playbook = node.directory / "play.yml" if what == "roles" else twice
    done = user.run("ansible-playbook", "--check", *inventory, str(playbook), check=False)
    asked: dict[str, set[str]] = {}
    for name, given in map(json.loads, (node.directory / "calls").read_text().splitlines()):
        asked.setdefault(name, set()).add(Path(given["tmp"]).name)
    assert asked.get("ib_facts") == set(hosts), done.stdout
    assert asked.get("driver_gate") == {"n1"}, done.stdout
    if what == "roles":
        assert '"msg": [ [ "n1", "n2" ] ]' in " ".join(done.stdout.split()), done.stdout
    # its nodes would take their turns again, outside of the waves of the second
    said = " ".join((done.stdout + done.stderr).split())
    assert ("Nodes have been prepared in this run: n1. Prepare all" in said) is (what == "prepare"), said
    assert (done.returncode != 0) is (what == "prepare")
