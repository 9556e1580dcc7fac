# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's own IMEX service is masked and given back with consent only, and what it was is never forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._prepare.imex import imex_needs

BEFORE = {"enabled": True, "running": True}


def facts(**state: Any) -> dict[str, Any]:
    off = {"service": "stopped", "enabled": False, "masked": False, "remembered": None, "channel_major": 511}
    return {"nvidia": {"imex": {**off, **state}}}


@pytest.mark.parametrize(
    ("state", "consent", "action", "before"),
    [
        ({"service": "running", "enabled": True}, "mask", "mask", BEFORE),
        ({"enabled": True}, "mask", "mask", {"enabled": True, "running": False}),
        ({}, "mask", "mask", {"enabled": False, "running": False}),
        # a run that ended before it masked anything has remembered what counts
        ({"enabled": False, "remembered": BEFORE}, "mask", "mask", BEFORE),
        ({"service": "running", "masked": True}, "mask", "mask", {"enabled": False, "running": True}),
        ({"masked": True}, "mask", None, None),
        ({"service": None}, "mask", None, None),
        ({"masked": True, "remembered": BEFORE}, "mask", None, None),
        ({"masked": True, "remembered": BEFORE}, "restore", "restore", BEFORE),
        # one that ended before it forgot
        ({"service": "running", "enabled": True, "remembered": BEFORE}, "restore", "restore", BEFORE),
        # the package was removed since
        ({"service": None, "masked": True, "remembered": BEFORE}, "restore", "restore", None),
        # somebody else has masked it
        ({"masked": True}, "restore", None, None),
        ({"service": "running", "enabled": True}, "keep", None, None),
        ({"service": "running", "enabled": True}, None, None, None),
        ({"masked": True, "remembered": BEFORE}, "keep", None, None),
    ],
)
def test_only_consent_changes_the_service(
    state: dict[str, Any], consent: str | None, action: str | None, before: dict[str, bool] | None
) -> None:
    found = imex_needs(facts(**state), {"host_imex": consent} if consent else None)
    assert (found["action"], found["before"]) == (action, before)
    assert found["needed"] is (action is not None)
    assert bool(found["reasons"]) is found["needed"]


@pytest.mark.parametrize(
    ("state", "consent", "drain"),
    [
        ({"service": "running", "enabled": True}, "mask", True),
        ({"service": "running", "masked": True}, "mask", True),
        # nobody uses what does not run
        ({"enabled": True}, "mask", False),
        ({"masked": True, "remembered": BEFORE}, "restore", True),
        ({"service": None, "masked": True, "remembered": BEFORE}, "restore", False),
        ({"masked": True, "remembered": {"enabled": True, "running": False}}, "restore", False),
        ({"service": "running", "remembered": {"enabled": True, "running": False}}, "restore", True),
        ({"service": "running"}, "keep", False),
    ],
)
def test_pods_leave_where_the_daemon_stops_or_starts(state: dict[str, Any], consent: str, drain: bool) -> None:
    assert imex_needs(facts(**state), {"host_imex": consent})["drain"] is drain


def was(enabled: bool, running: bool, masked: bool, remembered: dict[str, bool] | None) -> dict[str, Any]:
    return {"enabled": enabled, "running": running, "masked": masked, "remembered": remembered}


@pytest.mark.parametrize(
    ("state", "consent", "expected"),
    [
        ({"service": "running", "enabled": True}, "mask", was(True, True, False, None)),
        ({"service": "running", "masked": True}, "mask", was(False, True, True, None)),
        # killed after it was remembered, stopped, disabled
        ({"service": "running", "enabled": True, "remembered": BEFORE}, "mask", was(True, True, False, None)),
        ({"enabled": True, "remembered": BEFORE}, "mask", was(True, True, False, None)),
        ({"remembered": BEFORE}, "mask", was(True, True, False, None)),
        ({"masked": True, "remembered": BEFORE}, "restore", was(False, False, True, BEFORE)),
        # killed after it was unmasked, started
        ({"remembered": BEFORE}, "restore", was(False, False, True, BEFORE)),
        ({"service": "running", "enabled": True, "remembered": BEFORE}, "restore", was(True, True, False, BEFORE)),
        ({}, "keep", None),
    ],
)
def test_a_failure_puts_back_what_was_before_a_run_that_was_killed_too(
    state: dict[str, Any], consent: str, expected: dict[str, Any] | None
) -> None:
    assert imex_needs(facts(**state), {"host_imex": consent})["was"] == expected


@pytest.mark.parametrize("known", [{}, {"nvidia": None}, {"nvidia": {}}, {"nvidia": {"imex": None}}])
def test_a_host_that_tells_nothing_of_it_is_left_alone(known: dict[str, Any]) -> None:
    assert not imex_needs(known, {"host_imex": "mask"})["needed"]
