# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.waves import (
    STAYED,
    earlier,
    gone,
    outcome_lines,
    outcomes,
    plan_turns,
    refusals,
    share,
    stops,
    told_elsewhere,
)

TEN = [f"n{number}" for number in range(10)]


def members(turns: list[dict[str, t.Any]]) -> list[list[str]]:
    return [turn["hosts"] for turn in turns]


@pytest.mark.parametrize(
    ("value", "count", "number"), [(1, 5, 1), ("3", 5, 3), ("10%", 21, 2), ("1%", 5, 1), ("100%", 7, 7), (9, 5, 9)]
)
def test_a_share_is_read_as_ansible_reads_serial(value: t.Any, count: int, number: int) -> None:
    assert share(value, count, "rdma_serial") == number


@pytest.mark.parametrize("value", [0, -1, "0%", "101%", "ten", "", None, True, 1.5, "1 %", [1], "1e9", "٣"])
def test_a_share_that_makes_no_sense_is_refused_by_name(value: t.Any) -> None:
    with pytest.raises(WishError, match="rdma_max_unavailable is "):
        share(value, 5, "rdma_max_unavailable")


def test_waves_follow_the_sizes_and_repeat_the_last() -> None:
    turns = plan_turns(TEN, [1, 2, 3], 1, 10)
    assert members(turns) == [["n0"], ["n1", "n2"], ["n3", "n4", "n5"], ["n6", "n7", "n8"], ["n9"]]
    assert [(turn["wave"], turn["level"]) for turn in turns] == [(1, 0), (2, 1), (3, 2), (4, 2), (5, 2)]


def test_those_that_go_away_take_turns_within_their_wave() -> None:
    turns = plan_turns(TEN[:6], [1, "100%"], 2, 10, away=["n0", "n1", "n2", "n3", "n5"])
    # n4 stays in work and goes with the first of its wave
    assert members(turns) == [["n0"], ["n1", "n2", "n4"], ["n3", "n5"]]
    assert [turn["wave"] for turn in turns] == [1, 2, 2]


def test_a_percentage_of_unavailable_hosts_is_one_of_all_hosts() -> None:
    assert members(plan_turns(TEN[:4], ["100%"], "2%", 100, away=TEN)) == [["n0", "n1"], ["n2", "n3"]]


@pytest.mark.parametrize(
    ("limit", "slices", "most"), [(8, 4, 2), (9, "4", 2), ("2%", 4, 2), (8, True, 1), (8, "true", 1), (8, False, 8)]
)
def test_slices_share_the_limit(limit: t.Any, slices: t.Any, most: int) -> None:
    """A slice has 100 of 400 hosts, and all slices change hosts at the same time."""
    turns = plan_turns(
        [f"n{number}" for number in range(8)], ["100%"], limit, 100, [f"n{n}" for n in range(8)], slices=slices
    )
    assert {len(turn["hosts"]) for turn in turns} == {most}


def test_slices_that_have_no_room_for_each_other_are_refused_before_any_host_leaves() -> None:
    with pytest.raises(WishError, match=r"is '1', and each of 4 slices .* set it to 4 or more"):
        plan_turns(TEN, ["100%"], "1", 10, away=["n3"], slices=4)
    # where nobody leaves, nobody needs room
    assert members(plan_turns(TEN, ["100%"], "1", 10, slices=4)) == [TEN]


def test_a_host_that_was_interrupted_comes_first() -> None:
    assert members(plan_turns(TEN[:4], [1, "100%"], 1, 4, interrupted=["n2"])) == [["n2"], ["n0", "n1", "n3"]]


@pytest.mark.parametrize("serial", [[], [1] * 9, {}, ["100%", 1]])
def test_sizes_that_make_no_waves_are_refused(serial: t.Any) -> None:
    with pytest.raises(WishError, match="rdma_serial"):
        plan_turns(TEN, serial, 1, 10)


SIZES = st.one_of(st.integers(1, 12), st.integers(1, 100).map(lambda number: f"{number}%"))
# behind that of all hosts there is none
SERIALS = st.lists(SIZES, min_size=1, max_size=8).filter(lambda sizes: "100%" not in sizes[:-1])


@given(st.integers(0, 40), SERIALS, SIZES, st.randoms(use_true_random=False))
def test_every_host_has_one_turn_and_never_are_too_many_away(
    count: int, serial: list[t.Any], limit: t.Any, random: t.Any
) -> None:
    hosts = [f"n{number}" for number in range(count)]
    away = {host for host in hosts if random.random() < 0.5}
    broken = {host for host in hosts if random.random() < 0.1}
    turns = plan_turns(hosts, serial, limit, 40, away, broken)
    assert sorted(host for turn in turns for host in turn["hosts"]) == sorted(hosts)
    assert all(turn["hosts"] for turn in turns)
    # a killed run may have left those that were interrupted out of service
    assert all(len((away | broken) & set(turn["hosts"])) <= share(limit, 40, "rdma_max_unavailable") for turn in turns)
    assert [turn["number"] for turn in turns] == list(range(1, len(turns) + 1))
    # levels and waves never go back, waves are as large as their size says
    for key in ("level", "wave"):
        assert [turn[key] for turn in turns] == sorted(turn[key] for turn in turns)
    sizes = [share(entry, count, "rdma_serial") for entry in serial] if count else []
    for wave in {turn["wave"] for turn in turns}:
        inside = [turn for turn in turns if turn["wave"] == wave]
        assert sum(len(turn["hosts"]) for turn in inside) <= sizes[inside[0]["level"]]
    if broken:
        first = [host for turn in turns if turn["wave"] == 1 for host in turn["hosts"]]
        assert set(first) <= broken or len(first) > len(broken)


def host(turn: int, level: int, state: str | None = None, **more: str) -> dict[str, t.Any]:
    return {"turn": turn, "level": level, "state": {"state": state, **more} if state else None}


def test_a_turn_begins_when_all_before_have_finished() -> None:
    hosts = {"a": host(1, 0, "finished"), "b": host(2, 1), "c": host(3, 2)}
    assert stops(hosts, 2) == []
    assert stops({**hosts, "b": host(2, 1, "finished")}, 3) == []


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (host(1, 0, "failed", step="ofed", message="no\n space"), "a failed in ofed: no space"),
        (host(1, 0, "worse", step="ofed", message="mlx5_0 is Down"), "a is worse than before in ofed: mlx5_0 is Down"),
        (host(1, 0, "begun", step="ofed"), "a was lost in ofed: it no longer answers"),
        (host(1, 0, "held"), "a was held back"),
        (host(1, 0), "a is of an earlier wave and has not had its turn"),
    ],
)
def test_whatever_became_of_a_host_before_stops_the_turn(state: dict[str, t.Any], reason: str) -> None:
    hosts = {"a": state, "b": host(2, 1), "c": host(3, 2)}
    assert stops(hosts, 2) == [reason]
    # and all that come after, also when the one between was held back
    assert stops({**hosts, "b": host(2, 1, "held")}, 3)[0] == reason or state["state"] == {"state": "held"}


def test_turns_of_one_level_do_not_wait_for_each_other_but_for_the_end_of_what_has_begun() -> None:
    hosts = {"a": host(1, 0, "finished"), "b": host(2, 1), "c": host(3, 1, "finished")}
    assert stops(hosts, 2) == []
    assert stops({**hosts, "c": host(3, 1, "begun", step="ofed")}, 2) == ["c was lost in ofed: it no longer answers"]


def test_what_the_turns_own_hosts_say_is_not_asked() -> None:
    assert stops({"a": host(1, 0, "begun"), "b": host(1, 0, "failed")}, 1) == []


def test_outcomes_say_who_at_which_step_and_what_to_do() -> None:
    document = outcomes(
        {
            "a": {"state": "finished", "wave": 1},
            "b": {
                "state": "failed",
                "wave": 2,
                "step": "ofed",
                "task": "apt | Install",
                "message": "Task failed: Module failed: no\nspace.",
            },
            "c": {"state": "begun", "wave": 2, "step": "storage_prereqs"},
            "d": {"wave": 3},
            "e": {"state": "unreachable", "step": "discover", "message": "timed out"},
        }
    )
    states = {name: one["state"] for name, one in document["hosts"].items()}
    assert states == {"a": "finished", "b": "failed", "c": "lost", "d": "held", "e": "unreachable"}
    assert document["schema"] == 1
    assert document["hosts"]["a"]["remedy"] is None
    assert all(document["hosts"][name]["remedy"] for name in "bcde")
    lines = outcome_lines(document)
    assert lines[0].startswith("b failed in the step ofed at 'apt | Install': no space. Remedy: put right")
    assert lines[1].startswith(
        "c was lost in the step storage_prereqs: it no longer answers since the step storage_prereqs began. Remedy: "
    )
    assert lines[2].startswith("e is unreachable in the step discover: timed out. Remedy: ")
    assert lines[3] == "Held back, and not touched: d."


@pytest.mark.parametrize(
    "before",
    [
        "Task failed: Module failed: ",
        "Finalization of task args for 'ansible.builtin.set_fact' failed: Error while resolving value for 'x': "
        "The filter plugin 'fabric.rdma.rdma_needs' failed: ",
    ],
)
def test_what_ansible_puts_before_a_message_is_left_out(before: str) -> None:
    document = outcomes({"a": {"state": "failed", "step": "decide", "message": f"{before}no module ib_umad"}})
    assert document["hosts"]["a"]["message"] == "no module ib_umad"


def test_of_many_hosts_the_first_are_told_of_and_the_others_counted() -> None:
    many: dict[str, dict[str, t.Any]] = {f"n{number:03}": {"state": "failed", "wave": 1} for number in range(100)}
    many |= {f"z{number:03}": {"wave": 2} for number in range(100)}
    document = outcomes(many)
    lines = outcome_lines(document, 20)
    assert [line.split()[0] for line in lines[:20]] == sorted(many)[:20]
    assert lines[20:] == [
        "80 more are not well: see outcomes.json.",
        f"Held back, and not touched: {', '.join(sorted(many)[100:108])} and 92 more.",
    ]
    assert len(outcome_lines(document)) == 101
    # what stops a turn is as short
    held = {name: {"turn": 2, "level": 1, "state": {"state": "held"}} for name in many}
    [reason] = stops({**held, "own": {"turn": 3, "level": 1}}, 3)
    assert reason.endswith(" and 192 more was held back")


def test_nothing_is_said_where_all_is_well() -> None:
    assert outcome_lines(outcomes({"a": {"state": "finished", "wave": 1}})) == []


JUNK = st.recursive(
    st.none() | st.text(max_size=5) | st.integers() | st.floats(), lambda inner: st.lists(inner, max_size=3)
)


@given(st.dictionaries(st.sampled_from(["state", "step", "task", "message", "remedy", "wave"]), JUNK))
def test_a_damaged_document_is_no_traceback(one: dict[str, t.Any]) -> None:
    assert len(outcome_lines({"hosts": {"a": one}})) <= 1


FIVE = ["n1", "n2", "n3", "n4", "n5"]


def test_who_has_left_a_play_is_of_an_earlier_wave_or_of_a_later_one() -> None:
    left = gone(FIVE, there=["n3"], wave=["n2", "n3"], running=["n3"], failed=[], in_order=True)
    assert {host: one["wave"] for host, one in left.items()} == {
        "n1": "earlier",
        "n2": "own",
        "n4": "later",
        "n5": "later",
    }
    # those of other waves Ansible does not tell of
    assert {host for host, one in left.items() if one["how"]} == {"n2"}


def test_where_waves_are_in_no_known_order_all_that_have_left_are_of_earlier_ones() -> None:
    left = gone(FIVE, there=["n3"], wave=["n2", "n3"], running=["n3"], failed=[], in_order=False)
    assert {host for host, one in left.items() if one["wave"] == "earlier"} == {"n1", "n4", "n5"}


def test_how_a_host_of_the_same_wave_has_left() -> None:
    left = gone(FIVE, there=["n5"], wave=FIVE, running=["n1", "n4", "n5"], failed=["n2"], in_order=True)
    assert {host: one["how"] for host, one in left.items()} == {"n1": None, "n2": "failed", "n3": "lost", "n4": None}


BEGUN, ENDED = {"at": 5.0}, {"at": 6.0}
SKIPPED = {"skipped": True}
REFUSED = {"failed": True, "msg": "n1 was lost"}


@pytest.mark.parametrize("how", [None, "failed", "lost"])
@pytest.mark.parametrize("wave", ["earlier", "own", "later"])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"ofed": (BEGUN, ENDED), "storage_prereqs": ({"at": 7.0}, None)},
            " in the middle of the role storage_prereqs",
        ),
        # a second time
        ({"ofed": ({"at": 7.0}, ENDED)}, " in the middle of the role ofed"),
        ({"storage_prereqs": ({"at": 1}, {"at": 2}), "ofed": (BEGUN, ENDED)}, " after the role ofed"),
        ({"ofed": (None, None), "storage_prereqs": (SKIPPED, SKIPPED)}, " before a role changed it"),
        ({}, " before a role changed it"),
    ],
)
def test_why_a_host_that_left_its_play_stops_the_others(
    changes: dict[str, t.Any], reason: str, wave: str, how: str | None
) -> None:
    found = refusals({"a": {"wave": wave, "how": how, "changes": changes}})
    said = {None: "failed or was lost", "failed": "failed", "lost": "was lost"}[how]
    if "before" in reason:
        assert found == ([f"a, of an earlier wave, {said}{reason}"] if wave == "earlier" else [])
    elif "after" in reason and (wave, how) == ("own", None):
        # its user may have ended it there
        assert found == []
    else:
        assert found == [f"a {said}{reason}"]


def test_hosts_of_earlier_waves_are_those_ahead_in_the_order() -> None:
    there = ["n1", "n2", "n4", "n5"]
    assert earlier(FIVE, there, wave=["n4", "n5"], in_order=True) == ["n1", "n2"]
    assert earlier(FIVE, there, wave=["n1"], in_order=True) == []
    assert earlier(FIVE, there, wave=["n2"], in_order=False) == ["n1", "n4", "n5"]


def test_a_host_that_somebody_has_kept_in_the_play_is_no_better_for_it() -> None:
    kept = {"wave": "earlier", "how": STAYED}
    assert refusals({"a": {**kept, "changes": {"ofed": (BEGUN, ENDED)}}}) == []
    assert refusals({"a": {**kept, "changes": {}}, "b": {**kept, "changes": {"ofed": (REFUSED, None)}}}) == []
    assert refusals({"a": {**kept, "changes": {"ofed": (BEGUN, None)}}}) == [
        "a, of an earlier wave, has begun the role ofed and not ended it"
    ]
    itself = {"wave": "own", "how": STAYED}
    assert refusals({"a": {**itself, "changes": {"ofed": (BEGUN, ENDED)}}}) == []
    assert refusals({"a": {**itself, "changes": {"ofed": (BEGUN, None)}}}) == [
        "it has begun the role ofed and not ended it"
    ]


def test_a_host_that_was_held_back_is_no_reason_beside_the_one_it_waits_for() -> None:
    held = {"wave": "earlier", "how": None, "changes": {"ofed": (BEGUN, ENDED), "storage_prereqs": (REFUSED, None)}}
    lost = {"wave": "earlier", "how": None, "changes": {"ofed": (BEGUN, ENDED)}}
    assert refusals({"a": held, "b": lost}) == ["b failed or was lost after the role ofed"]
    assert refusals({"a": held}) == ["a was held back"]


def test_no_more_reasons_are_shown_than_anybody_reads() -> None:
    lost = {"wave": "earlier", "how": None, "changes": {"ofed": (BEGUN, ENDED)}}
    found = refusals({f"n{number:02}": lost for number in range(20)})
    assert len(found) == 9
    assert found[0].startswith("n00 ")
    assert found[-1] == "and 12 more"


def told(run: t.Any, *lines: str, failed: t.Any = None) -> dict[str, t.Any]:
    return {"run": run, "hosts": 9, "failed": len(lines) if failed is None else failed, "lines": list(lines)}


@pytest.mark.parametrize(
    ("artifacts", "kept", "lines", "file"),
    [
        ({}, True, [], True),
        ({}, False, [], True),
        # slices write no file: what is there is of another run
        ({"_11": told(5, "a"), "_12": told("5", "b")}, True, ["a", "b"], False),
        # of the last run, all slices
        ({"_11": told(5, "a"), "_12": told(5), "_21": told(6), "_22": told(6, "c")}, True, ["c"], False),
        # a whole job writes one, which may end with it
        ({"": told(7, "d")}, True, [], True),
        ({"": told(7, "d")}, False, ["d"], False),
        # or cannot write it
        ({"": {**told(7, "d"), "written": "False"}}, True, ["d"], False),
        ({"": {**told(7, "d"), "written": True}}, True, [], True),
        ({"": told(7, "d"), "_11": told(5, "a")}, True, [], True),
        ({"": told(7, "d"), "_11": told(8, "a")}, True, ["a"], False),
        (
            {"_1": told(1, *"abcdefghij", failed="14"), "_2": told(1, "k")},
            False,
            [*"abcdefghijk", "15 nodes in all were not prepared; the output of the jobs names them"],
            False,
        ),
        # whatever else somebody calls so
        ({"_1": None, "_2": [1], "_x": told(1, "a"), "": "text"}, True, [], True),
        ({"_1": {"hosts": 1}}, False, [], False),
        ({"_1": {"lines": "abc", "failed": "many", "run": -1}}, False, [], False),
    ],
)
def test_what_the_last_prepare_of_a_workflow_has_told_counts(
    artifacts: dict[str, t.Any], kept: bool, lines: list[str], file: bool
) -> None:
    variables = {f"fabric_rdma_prepare{name}": value for name, value in artifacts.items()}
    assert told_elsewhere({**variables, "fabric_rdma_verify": told(99, "x"), "other": 1}, kept) == (lines, file)
