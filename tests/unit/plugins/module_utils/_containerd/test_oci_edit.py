# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import os
import re
import subprocess
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci import UNLIMITED, SpecError, load_spec
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci_edit import (
    RLIMITS,
    Change,
    Rlimit,
    changes_in_words,
    differences,
    dump_spec,
    parse_rlimits,
    plan,
    start_from,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._containerd.specs import spec
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils.containerd_node import programs

MEMLOCK = Rlimit("RLIMIT_MEMLOCK", UNLIMITED, UNLIMITED)
INVENTED = {"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}


def entry(name: str, soft: int, hard: int | None = None) -> dict[str, Any]:
    return {"type": f"RLIMIT_{name}", "hard": soft if hard is None else hard, "soft": soft}


def test_memlock_is_added_and_the_invented_nofile_goes() -> None:
    new, changes = plan(spec(INVENTED), [MEMLOCK])
    assert new["process"]["rlimits"] == [entry("MEMLOCK", UNLIMITED)]
    assert changes == [
        Change("RLIMIT_MEMLOCK", None, "soft unlimited hard unlimited"),
        Change("RLIMIT_NOFILE", "soft 1024 hard 1024", None),
    ]


def test_a_nofile_that_somebody_chose_stays() -> None:
    new, changes = plan(spec(entry("NOFILE", 65535)), [MEMLOCK])
    assert new["process"]["rlimits"] == [entry("NOFILE", 65535), entry("MEMLOCK", UNLIMITED)]
    assert [change.type for change in changes] == ["RLIMIT_MEMLOCK"]


def test_the_invented_nofile_stays_when_it_is_asked_for() -> None:
    new, changes = plan(spec(INVENTED), [Rlimit("RLIMIT_NOFILE", 1024, 1024)])
    assert (new["process"]["rlimits"], changes) == ([INVENTED], [])


def test_entries_that_are_there_twice_become_one() -> None:
    old = spec(entry("MEMLOCK", 1), entry("CORE", 0), entry("MEMLOCK", 2, 3))
    new, changes = plan(old, [MEMLOCK])
    assert new["process"]["rlimits"] == [entry("MEMLOCK", UNLIMITED), entry("CORE", 0)]
    assert changes == [Change("RLIMIT_MEMLOCK", "soft 1 hard 1, soft 2 hard 3", "soft unlimited hard unlimited")]


def test_a_specification_without_rlimits_gets_the_wished_one() -> None:
    old = spec()
    del old["process"]["rlimits"]
    assert plan(old, [MEMLOCK])[0]["process"]["rlimits"] == [entry("MEMLOCK", UNLIMITED)]


limits = st.builds(
    lambda name, pair: {"type": name, "soft": min(pair), "hard": max(pair)},
    st.sampled_from(RLIMITS),
    st.tuples(st.integers(0, UNLIMITED), st.integers(0, UNLIMITED)),
)
others = st.dictionaries(
    st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=5), max_size=4
)


@given(st.lists(limits, max_size=5), st.lists(limits, min_size=1, max_size=3, unique_by=lambda x: x["type"]), others)
def test_only_what_is_asked_for_changes(old: list[Any], wishes: list[Any], rest: dict[str, Any]) -> None:
    before = {**rest, **spec(*old, **rest)}
    kept = copy.deepcopy(before)
    rlimits = parse_rlimits(wishes)
    new, changes = plan(before, rlimits)
    assert before == kept
    asked = {rlimit.type for rlimit in rlimits}
    after = new["process"]["rlimits"]
    for rlimit in rlimits:
        assert [e for e in after if e["type"] == rlimit.type] == [rlimit._asdict()]
    untouched = [e for e in old if e["type"] not in asked and e != INVENTED]
    assert [e for e in after if e["type"] not in asked] == untouched
    assert {**new, "process": {**new["process"], "rlimits": old}} == before
    assert bool(changes) == (new != before)
    # again, and through a file
    read = load_spec(dump_spec(new), "file")
    assert read == new
    assert plan(read, rlimits) == (read, [])


def test_integers_stay_integers_in_the_file() -> None:
    text = dump_spec(plan(spec(), [MEMLOCK])[0]).decode()
    assert re.findall(r'"(?:hard|soft)": (\S+?),?\n', text) == ["18446744073709551615"] * 2


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ([], "no rlimit is asked for"),
        ([{"type": "NOPE", "soft": 1}], "unknown rlimit 'NOPE'; known are " + ", ".join(RLIMITS)),
        ([{"type": "CPU", "soft": 1}, {"type": "rlimit_cpu", "soft": 2}], "RLIMIT_CPU is asked for twice"),
        ([{"type": "CPU", "soft": 2, "hard": 1}], "RLIMIT_CPU: soft 2 is above hard 1"),
        ([{"type": "CPU", "soft": "unlimited", "hard": 1}], f"RLIMIT_CPU: soft {UNLIMITED} is above hard 1"),
        *(
            (
                [{"type": "CPU", "soft": value}],
                f"RLIMIT_CPU: soft is {value!r}; expected 'unlimited' or an integer from 0 to {UNLIMITED}",
            )
            for value in (-1, "-1", True, 1.0, None, "", "many", UNLIMITED + 1, "2" * 20, "\u0663")
        ),
    ],
)
def test_an_invalid_wish_is_refused(wishes: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(SpecError, match=f"^{re.escape(message)}$"):
        parse_rlimits(wishes)


@pytest.mark.parametrize("value", ["unlimited", "infinity", " Unlimited ", UNLIMITED, str(UNLIMITED)])
def test_every_spelling_of_no_limit_is_taken(value: Any) -> None:
    assert parse_rlimits([{"type": "memlock", "soft": value}]) == [MEMLOCK]


@pytest.mark.parametrize(
    ("mine", "fresh", "places"),
    [
        (spec(INVENTED), spec(), []),
        ({**spec(), "ociVersion": "1.0"}, spec(), []),
        ({**spec(), "hostname": "x"}, spec(), ["hostname"]),
        ({**spec(), "linux": {"maskedPaths": ["/b", "/a"]}}, {**spec(), "linux": {"maskedPaths": ["/a", "/b"]}}, []),
        (
            {**spec(), "linux": {"maskedPaths": ["/a"]}},
            {**spec(), "linux": {"maskedPaths": ["/a", "/b"]}},
            ["linux.maskedPaths"],
        ),
        (spec(noNewPrivileges=True), spec(noNewPrivileges=1), ["process.noNewPrivileges"]),
        (spec(env=["A"]), spec(), ["process.env"]),
    ],
)
def test_what_differs_from_a_fresh_specification_is_named(
    mine: dict[str, Any], fresh: dict[str, Any], places: list[str]
) -> None:
    assert differences(mine, fresh) == places


def test_what_ctr_really_prints_is_changed_in_its_rlimits_alone(generation: str) -> None:
    ctr = os.path.join(programs(generation), "ctr")
    fresh = load_spec(subprocess.run([ctr, "oci", "spec"], check=True, capture_output=True).stdout, "ctr")
    assert fresh["process"]["rlimits"] == [INVENTED]
    new, changes = plan(fresh, [MEMLOCK])
    assert [change.type for change in changes] == ["RLIMIT_MEMLOCK", "RLIMIT_NOFILE"]
    assert differences(new, fresh) == []
    assert plan(load_spec(dump_spec(new), "file"), [MEMLOCK])[1] == []


def test_a_file_is_made_from_itself_else_from_what_is_adopted_else_from_what_ctr_prints() -> None:
    own, other = spec(entry("MEMLOCK", 1)), spec(entry("MEMLOCK", 2))
    path, adopt = "/etc/a.json", "/etc/b.json"
    assert start_from(path, dump_spec(own), adopt, dump_spec(other)) == ("path", own)
    assert start_from(path, dump_spec(own), adopt, None) == ("path", own)
    assert start_from(path, None, adopt, dump_spec(other)) == ("adopt", other)
    assert start_from(path, None, None, None) == ("ctr", None)
    with pytest.raises(SpecError, match=f"^adopt '{adopt}' is not there, and neither is '{path}'"):
        start_from(path, None, adopt, None)
    with pytest.raises(SpecError, match=r"^path 'a[.]json' is not absolute"):
        start_from("a.json", None, None, None)
    with pytest.raises(SpecError, match=f"^{adopt}"):
        start_from(path, None, adopt, b"")


def test_the_difference_says_what_a_new_file_is_made_from() -> None:
    change = Change("RLIMIT_MEMLOCK", None, "soft 1 hard 2")
    shown = changes_in_words("/a", "ctr", [change])
    assert (shown["before"], shown["after"]) == ("", "RLIMIT_MEMLOCK: soft 1 hard 2\n")
    assert changes_in_words("/a", "ctr", [])["after"] == "made from ctr\n"
