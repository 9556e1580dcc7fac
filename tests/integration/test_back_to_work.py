# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When prepare puts a node back into service and when it says that its change has ended: with stand-ins for the roles and the modules.

What the roles do with a node of a real cluster, tests/cluster/test_drain.py shows.
"""

from __future__ import annotations

import json
import sys
import typing as t

import pytest
import yaml

from ansible_collections.fabric.rdma.tests.integration.conftest import ROOT
from ansible_collections.fabric.rdma.tests.integration.stand_ins import stand_in

if t.TYPE_CHECKING:
    from pathlib import Path

    from conftest import User

pytestmark = pytest.mark.integration

# What the play that changes nodes knows besides.
PLAY = next(
    play["vars"]
    for play in yaml.safe_load((ROOT / "playbooks" / "prepare.yml").read_text())
    if "__prepare_nobody" in play.get("vars", {})
)
SINCE = "2026-01-31T12:00:00Z"


class Case(t.NamedTuple):
    """A change, and what follows from it."""

    roles: list[str]
    # what the driver's role has found, and the role that fails
    healthy: bool | None
    fails: str | None
    back: bool
    ended: bool
    earlier: bool = False
    # the cluster does not answer
    dark: bool = False
    # what a role has found that drains the node for a change of its own
    whole: bool | None = None
    # the decision has not foreseen that it leaves
    unforeseen: bool = False
    # the node was in work, and could not be drained
    stayed: bool = False
    # it was out of service already, and could not be drained
    late: bool = False
    # an earlier run has taken it out of service, and this one knows no cluster
    unknown: bool = False
    # whether the earlier run had come so far
    out: bool = True
    # what it was going to do, and what this one may find half done of that
    noted: t.Sequence[str] = ("ofed", "containerd_memlock")
    half: str | None = None


MEMLOCK = ["containerd_memlock"]
BOTH = ["ofed", "containerd_memlock"]
ROCE, IMEX = ["roce_host"], ["nvidia_imex"]
CASES = {
    "not about the driver": Case(MEMLOCK, None, None, back=False, ended=True),
    "not about the driver, failed": Case(MEMLOCK, None, "containerd_memlock", back=False, ended=True),
    "left open by an earlier run": Case(MEMLOCK, None, None, back=True, ended=True, earlier=True),
    "left open by an earlier run, failed": Case(
        MEMLOCK, None, "containerd_memlock", back=True, ended=True, earlier=True
    ),
    "nothing left to do but to end it": Case([], None, None, back=True, ended=True, earlier=True),
    "driver": Case(BOTH, True, None, back=True, ended=True),
    "driver came, nobody to ask": Case(["ofed"], True, None, back=False, ended=False, earlier=True, dark=True),
    "driver, then something else failed": Case(BOTH, True, "containerd_memlock", back=True, ended=True),
    "driver not drained": Case(BOTH, True, "ofed", back=True, ended=True, stayed=True),
    "driver not drained after half a change": Case(
        BOTH, True, "ofed", back=True, ended=False, earlier=True, stayed=True
    ),
    "out of service, and no cluster known": Case(
        MEMLOCK, None, None, back=False, ended=False, earlier=True, unknown=True
    ),
    "in work, and no cluster known": Case(
        MEMLOCK, None, None, back=False, ended=True, earlier=True, unknown=True, out=False
    ),
    "driver refused": Case(BOTH, None, "ofed", back=False, ended=True),
    "driver refused after half a change": Case(BOTH, None, "ofed", back=False, ended=False, earlier=True, half="ofed"),
    "driver failed and was put back": Case(BOTH, True, "ofed", back=True, ended=True),
    "driver failed and was not put back": Case(BOTH, False, "ofed", back=False, ended=False),
    "what was put back was half a change": Case(BOTH, True, "ofed", back=False, ended=False, earlier=True, half="ofed"),
    "what was put back was half a change that nobody can read": Case(
        BOTH, True, "ofed", back=False, ended=False, earlier=True, noted=["an unknown role"], half="ofed"
    ),
    "RoCE came after half a change, then something else failed": Case(
        [*ROCE, *MEMLOCK], None, "containerd_memlock", back=True, ended=True, earlier=True, whole=True, noted=ROCE
    ),
    "RoCE not drained after half a change": Case(
        ROCE,
        None,
        "roce_host",
        back=False,
        ended=False,
        earlier=True,
        whole=True,
        noted=ROCE,
        half="roce_host",
        late=True,
    ),
    "driver without a drain, then something else failed after half a change": Case(
        BOTH, None, "containerd_memlock", back=True, ended=True, earlier=True, unforeseen=True
    ),
    "RoCE put back half a change": Case(
        ROCE, None, "roce_host", back=True, ended=True, earlier=True, whole=True, noted=ROCE
    ),
    "driver put back before half a change of others came": Case(
        ["ofed", *ROCE, *IMEX],
        True,
        "ofed",
        back=False,
        ended=False,
        earlier=True,
        noted=[*ROCE, *IMEX],
        half="nvidia_imex, roce_host",
    ),
    "driver put back, and others had half a change that is not due": Case(
        ["ofed"], True, "ofed", back=True, ended=True, earlier=True, noted=ROCE
    ),
    "driver came after half a change": Case(BOTH, True, None, back=True, ended=True, earlier=True),
    "nobody to ask": Case(BOTH, True, None, back=False, ended=False, dark=True),
    "driver failed, nobody to ask": Case(BOTH, True, "ofed", back=False, ended=False, dark=True),
    "drained for RoCE": Case(ROCE, None, None, back=True, ended=True, whole=True),
    "drained for RoCE, put back": Case(ROCE, None, "roce_host", back=True, ended=True, whole=True),
    "drained for RoCE, not put back": Case(ROCE, None, "roce_host", back=False, ended=False, whole=False),
    "drained for IMEX, put back": Case(IMEX, None, "nvidia_imex", back=True, ended=True, whole=True),
    "drained for IMEX, not put back": Case(IMEX, None, "nvidia_imex", back=False, ended=False, whole=False),
    "drained for IMEX, nobody to ask": Case(IMEX, None, "nvidia_imex", back=False, ended=False, whole=True, dark=True),
    "drained for RoCE, unforeseen": Case(ROCE, None, None, back=True, ended=True, whole=True, unforeseen=True),
    "drained for RoCE, unforeseen, put back": Case(
        ROCE, None, "roce_host", back=True, ended=True, whole=True, unforeseen=True
    ),
    "nobody to ask, and nothing to be asked": Case(MEMLOCK, None, None, back=False, ended=True, dark=True),
}


HEALTHY = {
    "ansible.builtin.set_fact": {"ofed_healthy": "{{ healthy }}", "ofed_drained": True, "ofed_stayed": "{{ stayed }}"},
    "when": "healthy is not none",
}
OUT, LEFT_WORK = {"ofed_drained": True}, "{{ not (stayed or late) }}"
FAIL = {"ansible.builtin.fail": {"msg": "it does not work"}}
UNCORDON = [
    {"ansible.builtin.fail": {"msg": "the cluster does not answer"}, "when": "dark"},
    {"ansible.builtin.file": {"path": "{{ there }}/back", "state": "touch", "mode": "0644"}},
]


@pytest.fixture(scope="module")
def changed(user: User, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for each case, with what was called, and what was done and said last."""
    node = stand_in(user, tmp_path_factory.mktemp("nodes"))
    roles = node.collection / "roles"
    (roles / "ofed" / "tasks" / "uncordon.yml").write_text(json.dumps(UNCORDON))
    drained = [
        {
            "ansible.builtin.set_fact": {**OUT, f"{role}_whole": "{{ whole }}", f"{role}_left_work": LEFT_WORK},
            "when": "whole is not none",
        }
        for role in (*ROCE, *IMEX)
    ]
    for role, found in (
        ("ofed", [HEALTHY]),
        ("containerd_memlock", []),
        ("roce_host", drained[:1]),
        ("nvidia_imex", drained[1:]),
    ):
        tasks = [*found, {**FAIL, "when": f"fails == '{role}'"}]
        (roles / role / "tasks" / "main.yml").write_text(json.dumps(tasks))
    hosts = {}
    for name, case in CASES.items():
        there = node.directory / name
        there.mkdir()
        interrupted = {"since": SINCE, "roles": list(case.noted), "out_of_work": case.out} if case.earlier else None
        begun = {"node_change begun": [{"before": {"devices": []}, "interrupted": interrupted}]}
        (there / "answers.json").write_text(json.dumps(node.answers | begun))
        hosts[name.replace(" ", "-").replace(",", "")] = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "rdma_kubeconfig": "" if case.unknown else "/nowhere",
            "there": str(there),
            "name": name,
            "__prepare_roles": case.roles,
            "__prepare_away": case.roles != MEMLOCK and bool(case.roles) and not case.unforeseen,
            "__prepare_lost": [],
            **{key: PLAY[key] for key in ("__prepare_kubeconfig", "__prepare_nobody", "__prepare_has_left")},
            "__prepare_decision": {},
            **{
                key: value
                for key, value in case._asdict().items()
                if key in ("healthy", "fails", "dark", "whole", "stayed", "late")
            },
        }
    last = {"content": "{{ prepare_outcome }}", "dest": "{{ there }}/outcome", "mode": "0644"}
    tasks = [
        {"fabric.rdma.ib_facts": {}},
        {"ansible.builtin.include_tasks": "tasks/change.yml"},
        {"ansible.builtin.copy": last},
    ]
    play = {"hosts": "all", "gather_facts": False, "environment": {"STAND_IN": "{{ name }}"}, "tasks": tasks}
    (node.directory / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    # where prepare is
    playbook = node.collection / "playbooks" / "alone.yml"
    playbook.write_text(json.dumps([play]))
    node.user.run("ansible-playbook", "-i", str(node.directory / "hosts.json"), str(playbook))
    return node.directory


@pytest.mark.parametrize("name", CASES)
def test_a_node_goes_back_to_work_only_when_it_is_fit(name: str, changed: Path) -> None:
    case = CASES[name]
    outcome = json.loads((changed / name / "outcome").read_text())
    calls = [json.loads(line) for line in (changed / name / "calls").read_text().splitlines()]
    assert (changed / name / "back").exists() is case.back
    assert any(module == "node_change" and given["state"] == "ended" for module, given in calls) is case.ended
    failed = case.fails is not None or not (case.back or case.ended)
    assert outcome["state"] == ("failed" if failed else "finished")
    assert any(module == "node_change" and given["state"] == "back" for module, given in calls) is (
        case.earlier and case.stayed
    )
    if case.unknown and case.out:
        assert (
            "took it out of service and never finished, and nothing puts it back without rdma_kubeconfig"
            in outcome["message"]
        )
        return
    if case.fails:
        assert outcome["message"].startswith("it does not work")
    half = f"An earlier change of it, begun {SINCE}, never finished, and {case.half} may have left half of it"
    assert (half in outcome.get("message", "")) is (case.half is not None)
    assert ("may have left half" in outcome.get("message", "")) is (case.half is not None)
    if failed and case.dark:
        assert outcome["message"].endswith("which the next run does: the cluster does not answer")
