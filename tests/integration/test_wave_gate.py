# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waves in plays of a user's own: a role changes no node after one that ended badly, however Ansible counts failures.

What Ansible does without the gate is tested as well: where it once stops by itself, the gate is not needed there any more.
"""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import documented

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

HOSTS = [f"n{number}" for number in range(1, 6)]
# n2 is of the second wave; n4 and n5 are of the third.
SERIAL = [1, 2, "100%"]
ROLES = ("ofed", "storage_prereqs")

Tasks = list[dict[str, t.Any]]


def fault(kind: str, host: str = "n2") -> Tasks:
    """A host that fails, in the way that max_fail_percentage does not count, is lost, or is ended by its user."""
    kinds: dict[str, dict[str, t.Any]] = {
        "failed": {"ansible.builtin.fail": {"msg": "no space"}},
        # nothing listens there
        "lost": {
            "ansible.builtin.ping": {},
            "vars": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9},
        },
        "ended": {"ansible.builtin.meta": "end_host"},
    }
    return [
        {
            "block": [{**kinds[kind], "when": f"inventory_hostname == '{host}'"}],
            "always": [{"ansible.builtin.debug": {"msg": "put away what was used"}}],
        }
    ]


def change(directory: Path, role: str, then: t.Sequence[dict[str, t.Any]] = (), gate: bool = True) -> Tasks:
    """What a role does: it begins, changes the host, and ends."""

    def step(state: str) -> Tasks:
        name = "begun" if state == "begin" else "ended"
        return [{"fabric.rdma.wave_gate": {"state": state}, "register": f"{role}_{name}"}] if gate else []

    path = f"{directory}/{role} {{{{ inventory_hostname }}}}"
    touch = {"ansible.builtin.file": {"path": path, "state": "touch", "mode": "0644"}}
    return [*step("begin"), touch, *then, *step("end")]


def play(*tasks: dict[str, t.Any], **keywords: t.Any) -> dict[str, t.Any]:
    """A play with waves."""
    common = {"hosts": "all", "gather_facts": False, "serial": SERIAL, "max_fail_percentage": 0}
    return {**common, **keywords, "tasks": list(tasks)}


def changed(
    user: User, tmp_path: Path, *plays: dict[str, t.Any], arguments: t.Sequence[str] = ()
) -> tuple[list[set[str]], str]:
    """Which hosts each role has changed, and the output. The directory of the changes is tmp_path."""
    hosts = {name: {"ansible_connection": "local", "ansible_python_interpreter": "python3"} for name in HOSTS}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    (tmp_path / "play.yml").write_text(json.dumps(plays))
    command = ["ansible-playbook", "-i", str(tmp_path / "hosts.json"), str(tmp_path / "play.yml")]
    done = user.run(*command, *arguments, check=False)
    found = [{path.name.split()[1] for path in tmp_path.glob(f"{role} *")} for role in ROLES]
    return found, " ".join((done.stdout + done.stderr).split())


def is_held_back(output: str, others: set[str], when: str) -> bool:
    """Whether the first host that n2 holds back says so; others: those that were not held back.

    n3 is of the wave of n2. Where hosts do not wait for each other it may come late, and is held back itself. Without any host of that
    wave Ansible ends the play: no later wave gets as far as the gate.
    """
    first = "n4" if "n3" in others else "n3"
    how = "failed or was lost" if first == "n4" else "(failed|was lost|failed or was lost)"
    return bool(re.search(f"{first} is left as it is: n2 {how} {when}[.] Look at", output))


@pytest.mark.parametrize("kind", ["failed", "lost"])
@pytest.mark.parametrize(
    ("whose", "strategy"),
    [("newest_user", "linear"), ("newest_user", "free"), ("newest_user", "host_pinned"), ("oldest_user", "linear")],
)
def test_no_later_wave_is_changed(
    whose: str, kind: str, strategy: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    tasks = change(tmp_path, "ofed", then=fault(kind))
    (hosts, _none), output = changed(request.getfixturevalue(whose), tmp_path, play(*tasks, strategy=strategy))
    assert {"n1", "n2"} <= hosts <= {"n1", "n2", "n3"}
    assert is_held_back(output, hosts, "in the middle of the role ofed"), output


@pytest.mark.parametrize("kind", ["failed", "lost"])
def test_ansible_alone_goes_on(kind: str, user: User, tmp_path: Path) -> None:
    (hosts, _none), _output = changed(user, tmp_path, play(*change(tmp_path, "ofed", fault(kind), gate=False)))
    assert hosts == set(HOSTS)


NEWEST_AND_OLDEST = pytest.mark.parametrize(
    ("whose", "strategy"),
    [("newest_user", "linear"), ("newest_user", "free"), ("newest_user", "host_pinned"), ("oldest_user", "linear")],
)


@pytest.mark.parametrize("kind", ["failed", "lost"])
@NEWEST_AND_OLDEST
def test_a_node_lost_between_roles_stops_later_waves(
    whose: str, kind: str, strategy: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """It ended one role well: the nodes of later waves are changed by none."""
    tasks = [*change(tmp_path, "ofed"), *fault(kind), *change(tmp_path, "storage_prereqs")]
    (first, second), output = changed(request.getfixturevalue(whose), tmp_path, play(*tasks, strategy=strategy))
    assert {"n1", "n2"} <= first <= {"n1", "n2", "n3"}
    assert {"n1"} <= second <= {"n1", "n3"}
    if strategy == "linear":
        assert "n3" in first
        # of the wave that is under way, Ansible tells who does not answer, and not who fails in a block with an always section
        assert ("n3" in second) is (kind == "failed")
    assert is_held_back(output, second, "after the role ofed"), output


@pytest.mark.parametrize("kind", ["failed", "lost"])
@NEWEST_AND_OLDEST
def test_lost_before_its_begin(
    whose: str, kind: str, strategy: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Nothing was changed there: those of its own wave go on, and no later wave begins."""
    tasks = [*fault(kind), *change(tmp_path, "ofed"), *change(tmp_path, "storage_prereqs")]
    hosts, output = changed(request.getfixturevalue(whose), tmp_path, play(*tasks, strategy=strategy))
    assert hosts == [{"n1", "n3"}] * 2
    assert "n5 is left as it is: n2, of an earlier wave, failed or was lost before a role changed it. Look at" in output


@pytest.mark.parametrize("way", ["rescue", "ignore_unreachable"])
@NEWEST_AND_OLDEST
def test_kept_in_the_play(whose: str, way: str, strategy: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """It has failed, or does not answer, and whoever wrote the play lets it go on: that ends no change well."""
    keywords: dict[str, t.Any] = {"strategy": strategy}
    if way == "rescue":
        tasks = change(tmp_path, "ofed", then=fault("failed"))
        tasks = [{"block": tasks, "rescue": [{"ansible.builtin.debug": {"msg": "we go on"}}]}]
    else:
        nowhere = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}
        gone = {"ansible.builtin.set_fact": nowhere, "when": "inventory_hostname == 'n2'"}
        tasks = change(tmp_path, "ofed", then=[gone, {"ansible.builtin.ping": {}}])
        keywords["ignore_unreachable"] = True
    (hosts, _none), output = changed(request.getfixturevalue(whose), tmp_path, play(*tasks, **keywords))
    assert {"n1", "n2"} <= hosts <= {"n1", "n2", "n3"}
    assert "n4 is left as it is: n2, of an earlier wave, has begun the role ofed and not ended it. Look at" in output


@pytest.mark.parametrize(("whose", "again"), [("newest_user", False), ("oldest_user", False), ("newest_user", True)])
def test_kept_in_the_play_it_is_changed_by_no_other_role(
    whose: str, again: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """What one role has left half done is nothing for the next to build on; the same role may be tried again."""
    rescue = change(tmp_path, "ofed") if again else [{"ansible.builtin.debug": {"msg": "we go on"}}]
    kept = {"block": change(tmp_path, "ofed", then=fault("failed")), "rescue": rescue}
    tasks = [kept, *change(tmp_path, "storage_prereqs")]
    # that n2 fails then does count
    everybody = play(*tasks, max_fail_percentage=100)
    (_first, second), output = changed(request.getfixturevalue(whose), tmp_path, everybody)
    assert second == (set(HOSTS) if again else {"n1", "n3"})
    assert ("n2 is left as it is: it has begun the role ofed and not ended it. Look at" in output) is not again


IGNORED = {"ignore_errors": True}


@pytest.mark.parametrize(
    ("whose", "of_play", "of_block", "arguments", "begins"),
    [
        ("newest_user", IGNORED, {}, [], False),
        ("oldest_user", IGNORED, {}, [], False),
        ("newest_user", {}, {"ignore_errors": "{{ not ansible_check_mode }}"}, [], False),
        ("newest_user", {}, {"ignore_errors": "{{ ansible_check_mode }}"}, [], True),
        ("newest_user", IGNORED, {}, ["--check"], True),
    ],
)
def test_no_change_begins_whose_errors_would_be_ignored(
    whose: str,
    of_play: dict[str, t.Any],
    of_block: dict[str, t.Any],
    arguments: list[str],
    begins: bool,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """A task that fails would not end it: the role would go on as if it had succeeded, on one host after the other. A rehearsal changes none."""
    block = {"block": change(tmp_path, "ofed"), **of_block}
    _hosts, output = changed(request.getfixturevalue(whose), tmp_path, play(block, **of_play), arguments=arguments)
    assert ("changed: [n1]" in output) is begins
    assert ("n1 is left as it is: ignore_errors is in effect here, so that" in output) is not begins


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_a_handler_that_fails_after_the_role_stops_later_waves(user: User, strategy: str, tmp_path: Path) -> None:
    """Handlers run when all tasks of a wave have."""
    notify = {"ansible.builtin.command": "true", "notify": "Use it", "when": "inventory_hostname == 'n2'"}
    handler = {"name": "Use it", "ansible.builtin.command": "false"}
    # all of them may fail
    keywords = {"handlers": [handler], "strategy": strategy, "max_fail_percentage": 100}
    (hosts, _none), output = changed(user, tmp_path, play(*change(tmp_path, "ofed"), notify, **keywords))
    assert {"n1", "n2"} <= hosts <= {"n1", "n2", "n3"}
    assert is_held_back(output, hosts, "after the role ofed"), output


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
def test_a_host_that_its_user_ends_stops_nobody(whose: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    tasks = [*change(tmp_path, "ofed"), *fault("ended"), *change(tmp_path, "storage_prereqs")]
    hosts, _output = changed(request.getfixturevalue(whose), tmp_path, play(*tasks))
    assert hosts == [set(HOSTS), set(HOSTS) - {"n2"}]


def test_waves_in_another_order_hold_back_what_comes_later_in_time(user: User, tmp_path: Path) -> None:
    """n4 is of the second wave, and before the third in time only."""
    tasks = [*fault("lost", "n4"), *change(tmp_path, "ofed")]
    (hosts, _none), output = changed(user, tmp_path, play(*tasks, order="reverse_inventory"))
    assert hosts == {"n5", "n3"}
    assert "n1 is left as it is: n4, of an earlier wave," in output


# Beside the play, Ansible finds it by itself. Every look at this clock is earlier than the one before, in the processes of tasks, too.
BACKWARDS = """
import time

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = "{name: backwards, type: aggregate, short_description: The clock runs backwards, description: [It does.]}"
time.time = lambda: 2e9 - time.monotonic()
print("The clock runs backwards.")


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "backwards"
"""


@pytest.mark.parametrize("whose", ["newest_user", "oldest_user"])
@pytest.mark.parametrize("kind", ["none", "failed"])
def test_a_clock_that_is_set_back_hides_no_failure_and_makes_none(
    kind: str, whose: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """n2 ends the role well, and does not the second time: what it has ended was the time before, whatever the clock says of it."""
    (tmp_path / "callback_plugins").mkdir()
    (tmp_path / "callback_plugins/backwards.py").write_text(BACKWARDS)
    again = change(tmp_path, "ofed", fault(kind) if kind != "none" else ())
    tasks = [*change(tmp_path, "ofed"), *again, *change(tmp_path, "storage_prereqs")]
    (_hosts, others), output = changed(request.getfixturevalue(whose), tmp_path, play(*tasks))
    assert "The clock runs backwards." in output
    if kind == "none":
        assert others == set(HOSTS), output
    else:
        assert others == {"n1"}, output
        assert "n3 is left as it is: n2 failed or was lost in the middle of the role ofed. Look at" in output


def test_what_was_lost_before_its_wave_stops_those_after_it(user: User, tmp_path: Path) -> None:
    """In an earlier play of the run; without waves, nobody waits for it."""
    lost = play(*fault("lost", "n3"), serial="100%")
    (hosts, others), output = changed(
        user,
        tmp_path,
        lost,
        play(*change(tmp_path, "storage_prereqs"), serial="100%"),
        play(*change(tmp_path, "ofed")),
    )
    assert others == {"n1", "n2", "n4", "n5"}
    assert hosts == {"n1", "n2"}
    assert "n4 is left as it is: n3, of an earlier wave, failed or was lost before a role changed it." in output


@pytest.mark.parametrize("kind", ["failed", "lost"])
@NEWEST_AND_OLDEST
def test_a_role_does_not_even_look_at_a_node_of_the_next_wave(
    whose: str, kind: str, strategy: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A role of ours on its own, which looks at a node first; nodes of the wave that is under way are looked at, and may need nothing."""
    role = {"ansible.builtin.include_role": {"name": "fabric.rdma.discover", "tasks_from": "before_change"}}
    seen = {
        "ansible.builtin.copy": {
            "content": "",
            "dest": f"{tmp_path}/storage_prereqs {{{{ inventory_hostname }}}}",
            "mode": "0644",
        }
    }
    tasks = [role, seen, *change(tmp_path, "ofed", fault(kind))]
    (first, looked), output = changed(request.getfixturevalue(whose), tmp_path, play(*tasks, strategy=strategy))
    assert {"n1", "n2"} <= first <= {"n1", "n2", "n3"}
    assert {"n1", "n2"} <= looked <= {"n1", "n2", "n3"}
    assert is_held_back(output, first, "in the middle of the role ofed"), output
    # one that was held back is not named as a reason
    assert "n3, of an earlier wave" not in output


@pytest.mark.parametrize("kind", ["failed", "lost"])
def test_nor_after_an_earlier_play_has_changed_one_that_comes_later_here(kind: str, user: User, tmp_path: Path) -> None:
    """The waves of a play begin again with the first host, which is well; the last one is not."""
    look: dict[str, t.Any] = {"fabric.rdma.wave_gate": {"state": "look"}, "register": "discover_wave"}
    first = play(*change(tmp_path, "ofed", fault(kind, "n4")))
    # touches a host that it looks at
    second = play(look, *change(tmp_path, "storage_prereqs", gate=False))
    (hosts, looked), output = changed(user, tmp_path, first, second)
    assert {"n1", "n2", "n3", "n4"} <= hosts
    assert looked == set()
    assert "n1 is left as it is: n4 failed or was lost in the middle of the role ofed. Look at" in output


@pytest.mark.parametrize("kind", ["failed", "lost"])
def test_a_play_of_its_own_is_a_wave(kind: str, user: User, tmp_path: Path) -> None:
    """Of other hosts: what became of those of the play before counts, as where one play takes all hosts in waves."""
    first = play(*change(tmp_path, "ofed", fault(kind)), hosts="n1,n2", serial="100%")
    (hosts, _none), output = changed(user, tmp_path, first, play(*change(tmp_path, "ofed"), hosts="n3,n4,n5"))
    assert hosts == {"n1", "n2"}
    assert "n3 is left as it is: n2, of an earlier wave, has begun the role ofed and not ended it. Look at" in output


@pytest.mark.parametrize("state", ["begun", "failed", "worse", "finished"])
def test_what_the_playbook_prepare_has_left_counts(state: str, user: User, tmp_path: Path) -> None:
    """It has waves of its own, and keeps what became of a node in a variable of it (playbooks/tasks/change.yml)."""
    said = {"prepare_outcome": {"state": state, "step": "ofed"}}
    prepare = play(
        {"ansible.builtin.set_fact": said, "when": "inventory_hostname == 'n2'"}, hosts="n1,n2", serial="100%"
    )
    (hosts, _none), output = changed(user, tmp_path, prepare, play(*change(tmp_path, "ofed"), hosts="n3,n4,n5"))
    assert hosts == ({"n3", "n4", "n5"} if state == "finished" else set())
    reason = "n3 is left as it is: n2, of an earlier wave, has begun the playbook prepare and not ended it. Look at"
    assert (reason in output) is (state != "finished")


def test_the_examples_begin_and_end(user: User, tmp_path: Path) -> None:
    look, begin, end = documented("wave_gate", "EXAMPLES")
    told = {
        "ansible.builtin.assert": {
            "that": [f"{task['register']}.at is float and not {task['register']}.changed" for task in (begin, end)]
        }
    }
    (hosts, _none), output = changed(
        user, tmp_path, play(look, begin, *change(tmp_path, "ofed", gate=False), end, told)
    )
    assert hosts == set(HOSTS), output
    assert output.count("failed=0") == len(HOSTS), output
