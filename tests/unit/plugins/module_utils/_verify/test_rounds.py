# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who meets whom in which round."""

from __future__ import annotations

import itertools
import time
import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._verify.rounds import TOPOLOGIES, merged, schedule

Rounds = list[list[tuple[str, str]]]


def names(count: int) -> list[str]:
    return [f"n{index}" for index in range(count)]


def met(rounds: Rounds) -> list[frozenset[str]]:
    return [frozenset(pair) for one in rounds for pair in one]


@given(
    st.integers(2, 41), st.sampled_from(TOPOLOGIES), st.integers(1, 45), st.integers(0, 9), st.sets(st.integers(0, 40))
)
def test_no_two_pairs_of_a_round_share_a_host_and_none_meet_twice(
    count: int, topology: str, partners: int, seed: int, canaries: set[int]
) -> None:
    rounds = schedule(names(count), topology, partners, seed, {f"n{number}" for number in canaries})
    assert rounds
    for one in rounds:
        assert one
        hosts = [host for pair in one for host in pair]
        assert len(hosts) == len(set(hosts))
    assert all(len(pair) == 2 for pair in met(rounds))
    # a ring of two has both directions
    assert len(set(met(rounds))) == len(met(rounds)) or (topology, count) == ("ring", 2)
    assert rounds == schedule(names(count), topology, partners, seed, {f"n{number}" for number in canaries})


@given(st.integers(2, 41))
def test_pairs_have_every_host_in_one_round_or_two(count: int) -> None:
    rounds = schedule(names(count), "pairs")
    assert frozenset().union(*met(rounds)) == set(names(count))
    assert len(rounds) == 1 + count % 2


@given(st.integers(2, 41))
def test_a_ring_has_every_host_once_as_client_and_once_as_server(count: int) -> None:
    pairs = [pair for one in schedule(names(count), "ring") for pair in one]
    assert sorted(client for client, _server in pairs) == sorted(names(count))
    assert sorted(server for _client, server in pairs) == sorted(names(count))
    assert len(schedule(names(count), "ring")) <= 3


@given(st.integers(2, 41))
def test_everyone_meets_everyone_in_as_many_rounds_as_there_are_hosts(count: int) -> None:
    rounds = schedule(names(count), "full")
    assert sorted(map(sorted, met(rounds))) == sorted(map(sorted, itertools.combinations(names(count), 2)))
    assert len(rounds) == count - 1 + count % 2


@given(st.integers(2, 41), st.integers(1, 45), st.integers(0, 99))
def test_a_sample_gives_everyone_enough_partners_and_hardly_more(count: int, partners: int, seed: int) -> None:
    rounds = schedule(names(count), "sample", partners, seed)
    wanted = min(partners, count - 1)
    found = {host: sum(host in pair for pair in met(rounds)) for host in names(count)}
    assert min(found.values()) >= wanted
    assert max(found.values()) <= wanted + 2 * (count % 2)
    assert len(rounds) <= wanted + 2 * (count % 2)


def test_a_sample_depends_on_its_seed() -> None:
    assert schedule(names(40), "sample", 3, 1) != schedule(names(40), "sample", 3, 2)


@given(st.integers(2, 41), st.sets(st.integers(0, 45)))
def test_canaries_meet_somebody_once_and_nobody_else_does(count: int, numbers: set[int]) -> None:
    named = {f"n{number}" for number in numbers}
    chosen = (named & set(names(count))) or {"n0"}
    rounds = schedule(names(count), "canary", canaries=named)
    assert len(rounds) <= 3
    assert all(pair & chosen for pair in met(rounds))
    assert chosen <= frozenset().union(*met(rounds))
    assert len(met(rounds)) <= len(chosen)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_nobody_measures_against_itself(topology: str) -> None:
    assert schedule([], topology) == schedule(["one"], topology) == []


@given(st.lists(st.tuples(st.sampled_from(TOPOLOGIES), st.sets(st.integers(0, 9), min_size=2)), max_size=4))
def test_fabrics_and_groups_share_rounds_and_lose_no_pair(fabrics: list[tuple[str, set[int]]]) -> None:
    rounds: list[list[tuple[tuple[str, str], dict[str, t.Any]]]] = []
    for number, (topology, members) in enumerate(fabrics):
        for one in schedule([f"n{index}" for index in sorted(members)], topology):
            rounds.append([(pair, {"pair": pair, "fabrics": [number]}) for pair in one])
    found = merged(rounds, lambda first, other: first["fabrics"].extend(other["fabrics"]))
    for content in found:
        hosts = [host for each in content for host in each["pair"]]
        assert len(hosts) == len(set(hosts))
    given_pairs = sorted((pair, number) for one in rounds for pair, content in one for number in content["fabrics"][:1])
    assert len({each["pair"] for content in found for each in content}) == len({pair for pair, _number in given_pairs})
    # never more rounds than one after the other
    assert len(found) <= len(rounds)


def test_everyone_of_six_hundred_meets_everyone_in_seconds() -> None:
    begin = time.monotonic()
    rounds = schedule(names(600), "full")
    found = merged([[(pair, [pair]) for pair in one] for one in rounds], lambda first, other: first.extend(other))
    assert (len(found), sum(map(len, found))) == (599, 600 * 599 // 2)
    assert time.monotonic() - begin < limit(15)
