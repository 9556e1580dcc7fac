# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text has all of a finding, and fits a terminal."""

from __future__ import annotations

from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.rules import RULES, diagnose
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.words import findings_text
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._doctor import samples


def test_the_text_fits_and_has_everything() -> None:
    for rule in RULES:
        findings = diagnose(samples.samples()[rule.id][0])
        text = findings_text(findings, ["the plan cannot be used: " + "x" * 300], {"hosts": 1})
        assert all(len(line) <= 100 and (line.isprintable() or not line) for line in text.splitlines())
        squeezed = "".join(text.split())
        for each in findings:
            for part in (each["severity"].upper(), each["id"], each["cause"], *each["evidence"], each["remedy"]):
                assert "".join(part.split()) in squeezed


def test_nothing_is_said_to_be_nothing() -> None:
    some = {"hosts": 0, "nodes": 0, "pods": 0, "objects": 0, "logs": 1}
    assert findings_text([], [], some) == "Nothing that a rule knows is wrong\n"
    assert findings_text([], [], {**some, "logs": 0, "objects": 1}) == "Nothing that a rule knows is wrong\n"
    # and what nobody looked at is not well
    assert findings_text([], [], {**some, "logs": 0}).startswith("Nothing was looked at: ")
    assert findings_text([], ["no cluster"], some).endswith("Not looked at:\n         no cluster\n")
