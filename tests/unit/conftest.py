# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the unit tests share: where things lie, and how hypothesis behaves on a slow machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ansible_collections.fabric.rdma.tests.cluster import definitions
from ansible_collections.fabric.rdma.tests.unit.contracts import watch

ROOT = Path(__file__).resolve().parents[2]

# Two busy cores must not turn into a failure; a failing example is printed, so a run can be repeated exactly.
settings.register_profile(
    "fabric", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
# For the inner loop (make check): fewer examples.
settings.register_profile("check", settings.get_profile("fabric"), max_examples=15)
settings.load_profile(os.environ.get("FABRIC_RDMA_HYPOTHESIS", "fabric"))

# Their tests run for minutes: on three real containerd daemons, on dracut, or once for each system call of a module.
PARTS = {
    "test_containerd_distributions.py",
    "test_containerd_faults.py",
    "test_containerd_toolkit.py",
    "test_driver_check_dracut.py",
    "test_memlock_apply.py",
    "test_oci_rlimits.py",
    "test_writers.py",
}

# These try whatever there is, one after the other: every field of the facts, every file of a node, every step, every address.
EVERY = {
    "test_dra_select.py::test_random_groups_have_all_outcomes",
    "test_facts.py::test_any_one_file_at_fault_gives_facts_all_the_same",
    "test_facts.py::test_any_one_link_at_fault_gives_facts_all_the_same",
    "test_malformed.py::test_any_field_may_be_anything",
    "test_malformed.py::test_any_text_may_be_a_very_long_number",
    "test_rails.py::test_a_dead_hca_shifts_no_rail_whatever_the_addresses",
    "test_rules.py::test_anything_in_any_field_of_the_cluster_costs_nothing_else",
    "test_transaction.py::test_killed_anywhere_the_next_one_undoes_it",
}

# As many hosts, or lines, as the largest cluster has.
LARGE = {
    "test__inventory.py::test_ten_thousand_hosts_with_the_same_wishes_are_looked_at_once",
    "test_cables.py::test_a_thousand_hosts_take_seconds",
    "test_captures.py::test_a_listing_of_a_million_entries_is_refused_at_once",
    "test_dra_select.py::test_a_list_that_no_device_class_takes_is_reported",
    "test_metrics.py::test_a_thousand_nodes_are_few_megabytes",
    "test_outliers.py::test_many_hosts_are_compared_at_once",
    "test_page.py::test_a_page_of_a_thousand_hosts_stays_small",
    "test_rounds.py::test_everyone_of_six_hundred_meets_everyone_in_seconds",
    "test_solver.py::test_hundreds_of_different_machines_are_planned_in_seconds",
    "test_solver.py::test_machines_that_all_differ_cost_as_much_each_as_few_do",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in PARTS or f"{item.path.name}::{item.name.partition('[')[0]}" in EVERY | LARGE:
            item.add_marker("parts")
        # without what others have recorded, it cannot run
        if "shared_captures" in getattr(item, "fixturenames", ()):
            item.add_marker("captures")


# No test makes a plan, evidence or outcomes that their schemas do not allow.
watch()


@pytest.fixture(scope="session")
def repo() -> Path:
    """Root directory of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_captures() -> Path:
    """Directory of recorded nodes beside the checkout, for tests that are marked `captures`."""
    captures = ROOT.parent / "shared" / "captures"
    assert captures.is_dir(), f"no recorded nodes at {captures}"
    return captures


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the same tests look at on one machine and cannot on another."""
    if not definitions.FOLDER.is_dir():
        said = f"Not looked at: whether objects are as their projects define them. No {definitions.FOLDER} {definitions.ELSEWHERE}"
        terminalreporter.write_line(said)
