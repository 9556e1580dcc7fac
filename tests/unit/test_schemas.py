# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A document of another form than its schema's is told from one that is right, by where it is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of
from ansible_collections.fabric.rdma.tests.unit.schemas import checked


def whole() -> dict[str, Any]:
    machine = Machine()
    machine.nic()
    return facts_of(machine)


def change(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def made(facts: dict[str, Any]) -> None:
        facts["devices"][0][place] = value

    return made


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (change("kind", "px"), r"facts\.schema\.json: \$\.devices\[0\]\.kind: 'px' is not one of"),
        (change("other", 1), r"\$\.devices\[0\]: Additional properties are not allowed \('other'"),
        (change("numa_node", 0.5), r"\$\.devices\[0\]\.numa_node: 0\.5 is not"),
        (lambda facts: facts.pop("schema"), r"\$: 'schema' is a required property"),
        # what Python takes for the same
        (lambda facts: facts.update(warnings=()), "facts: JSON does not give it back as it is"),
        (lambda facts: facts["devices"][0].update({1: 1}), "facts: JSON does not give it back as it is"),
    ],
)
def test_what_is_wrong_is_told(wrong: Callable[[dict[str, Any]], None], message: str) -> None:
    facts = copy.deepcopy(whole())
    wrong(facts)
    with pytest.raises(AssertionError, match=message):
        checked("facts", facts)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_what_no_strict_json_holds_is_an_error(value: Any) -> None:
    facts = whole()
    facts["devices"][0]["fw_ver"] = value
    with pytest.raises(ValueError, match=r"not JSON compliant|surrogates not allowed"):
        checked("facts", facts)


def test_what_is_right_is_passed_on() -> None:
    facts = whole()
    assert checked("facts", facts) is facts
