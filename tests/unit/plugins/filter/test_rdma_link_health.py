# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.filter.rdma_link_health import rdma_link_health
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.health import read_counters
from ansible_collections.fabric.rdma.tests.unit.contracts import a_test, evidence_of
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES
from ansible_collections.fabric.rdma.tests.unit.schemas import checked

Json = dict[str, Any]


def a_reading(uptime: float, **counters: int) -> Json:
    """Of a recorded node, at a time."""
    reading = json.loads(json.dumps(read_counters(open_tree(str(CAPTURES / "ib-a100-1.capture")))))
    port = next(port for port in reading["ports"] if port["device"] == "mlx5_1")
    port["counters"].update(counters)
    return {**reading, "uptime_s": uptime}


def evidence() -> Json:
    group = evidence_of("a100", a_test("n1", "n2"))
    return {"groups": {"a100": group}, "tables": {"a100": "table"}, "failures": ["one"], "expected": ["n1", "n2"]}


GROUPS = {"a100": ["n2", "n1", "n3"], "other": ["x"]}


def test_what_grows_under_load_fails_the_run_and_is_in_the_evidence() -> None:
    readings = {
        "n1": [a_reading(10), a_reading(20, symbol_error=5)],
        "n2": [a_reading(10), a_reading(20)],
        "n3": [a_reading(10), {}],
    }
    found = rdma_link_health(evidence(), readings, GROUPS)
    links = checked("evidence", json.loads(json.dumps(found["groups"]["a100"])))["links"]
    assert {row["host"] for row in links} == {"n1", "n2"}
    assert [(row["host"], row["device"]) for row in links if row["verdict"] == "fail"] == [("n1", "mlx5_1")]
    assert found["failures"][0] == "one"
    assert found["failures"][1].startswith("n1 mlx5_1 port 1: symbol_error grew by 5 (0.5 per second)")
    assert len(found["failures"]) == 2
    table = found["tables"]["a100"].splitlines()
    assert (table[0], table[-1]) == ("table", "  not looked at: n3")
    assert found["expected"] == ["n1", "n2"]
    assert found["groups"]["a100"]["untested"] == []


def test_a_host_that_measured_and_whose_counters_nobody_read_is_among_what_was_not_measured() -> None:
    """In the file, too, which the report reads. One that took no part in it (n3) has nothing to tell."""
    readings = {"n1": [a_reading(10), a_reading(20)], "n2": [a_reading(10), {}], "n3": [{}, {}]}
    found = rdma_link_health(evidence(), readings, GROUPS)
    [missing] = checked("evidence", json.loads(json.dumps(found["groups"]["a100"])))["untested"]
    assert (missing["host"], missing["device"], missing["port"], missing["defect"]) == ("n2", None, None, False)
    assert missing["reason"].startswith("what grew on its links: ")
    assert found["failures"] == ["one"]


def test_evidence_without_readings_stays_as_it_is() -> None:
    assert rdma_link_health(evidence(), {}, GROUPS) == evidence()


@pytest.mark.parametrize("given", [({}, {}, {}), (evidence(), [], {}), (evidence(), {}, []), ([], {}, {})])
def test_malformed_input_is_refused(given: tuple[Any, Any, Any]) -> None:
    with pytest.raises(AnsibleFilterError, match="rdma_link_health expects"):
        rdma_link_health(*given)
