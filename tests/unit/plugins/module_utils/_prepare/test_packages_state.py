# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states that a change of packages goes through, and what each does in check mode."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._prepare import packages_state
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.packages_run import PackagesError, Record
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.packages_state import reach
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._prepare.test_packages_run import Small


class Asked(Small):
    """With repositories that a node first has to ask, and perhaps a change of dpkg that was cut short."""

    def __init__(self, directory: Path, **packages: str) -> None:
        super().__init__(directory, **packages)
        self.refused = ""
        self.refreshed = 0
        self.due: list[str] = []

    def offered(self, names: Sequence[str]) -> list[tuple[str, str]]:
        return sorted(pair for pair in self.offers if pair[0] in names)

    def refresh(self) -> None:
        self.refreshed += 1
        if self.refused:
            raise PackagesError(self.refused)

    def unsettled(self) -> list[str]:
        return list(self.due)

    def settle(self) -> None:
        self.due = []

    def change(self, install: Sequence[tuple[str, str]], remove: Sequence[str]) -> None:
        # as apt does
        self.settle()
        super().change(install, remove)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    (tmp_path / "etc").mkdir()
    path = str(tmp_path / "state" / "packages.json")
    monkeypatch.setattr(packages_state, "Record", functools.partial(Record, path=path))
    return Asked(tmp_path / "etc", clusterkit="1", other="1")


def changed(node: Asked) -> None:
    """A change that has ended: another version of what was there, and something new."""
    assert reach(node, "opened", False, ["doca-ofed"]) == {"changed": False, "found": False}
    node.packages.update({"clusterkit": "2", "doca-ofed": "1"})
    assert reach(node, "closed", False) == {"changed": False, "found": True}


def test_a_driver_whose_packages_are_still_offered_has_a_way_back(node: Asked) -> None:
    assert reach(node, "checked", False) == {"changed": False, "no_way_back": []}
    assert node.refreshed == 1, "a node that nobody has asked for long knows versions that are gone"


def test_packages_that_nobody_offers_are_named(node: Asked) -> None:
    node.offers = {("clusterkit", "2")}
    assert reach(node, "checked", False)["no_way_back"] == ["clusterkit 1"]
    # the lists of repositories are files of the node: check mode leaves them alone
    assert reach(node, "checked", True)["no_way_back"] == ["clusterkit 1"]
    assert node.refreshed == 1


def test_repositories_that_do_not_answer_are_told(node: Asked) -> None:
    node.refused = "apt-get update: E: no route to host"
    assert reach(node, "checked", False)["no_way_back"] == [f"what its repositories no longer have ({node.refused})"]


def test_a_node_without_a_driver_has_nothing_to_go_back_to(node: Asked) -> None:
    del node.packages["clusterkit"]
    node.refused = "apt-get update: E: no route to host"
    assert reach(node, "checked", False)["no_way_back"] == []


def test_what_is_asked_for_is_the_driver_from_before_the_change(node: Asked) -> None:
    changed(node)
    node.offers = {("clusterkit", "2")}
    assert reach(node, "checked", True)["no_way_back"] == ["clusterkit 1"]


def test_what_was_cut_short_is_ended_once(node: Asked) -> None:
    node.due = ["dpkg ends what it has begun"]
    expected = {"changed": True, "diff": [{"prepared": "dpkg ends what it has begun\n"}]}
    assert reach(node, "settled", True) == expected
    assert node.due, "check mode promises"
    assert reach(node, "settled", False) == expected
    assert reach(node, "settled", False) == {"changed": False}


def test_check_mode_opens_and_closes_and_forgets_nothing(node: Asked) -> None:
    assert reach(node, "opened", True, ["doca-ofed"]) == {"changed": False, "found": False}
    assert reach(node, "opened", False)["found"] is False
    node.packages["clusterkit"] = "2"
    assert reach(node, "closed", True)["found"]
    # the window is still open: this belongs to the change, too
    node.packages["doca-ofed"] = "1"
    reach(node, "closed", False)
    reach(node, "forgotten", True)
    assert reach(node, "restored", True)["restored"] == ["clusterkit is 1", "doca-ofed is out"]


def test_check_mode_promises_what_the_way_back_does(node: Asked) -> None:
    changed(node)
    promised = reach(node, "restored", True)
    assert promised["changed"]
    assert promised["restored"] == ["clusterkit is 1", "doca-ofed is out"]
    assert promised["diff"] == [
        {"before": "clusterkit 2\ndoca-ofed 1\n", "after": "clusterkit 1\ndoca-ofed not there\n"}
    ]
    assert node.packages["clusterkit"] == "2"
    assert reach(node, "restored", False) == promised
    assert node.packages == {"clusterkit": "1", "other": "1"}
    assert reach(node, "restored", False) == {
        "changed": False,
        "found": False,
        "restored": [],
        "left": [],
        "complete": True,
    }


def test_check_mode_promises_to_undo_what_a_run_that_was_cut_short_has_done(node: Asked) -> None:
    assert reach(node, "opened", False, ["doca-ofed"])["found"] is False
    node.packages.update({"clusterkit": "2", "doca-ofed": "1"})
    promised = [reach(node, "restored", True) for _look in range(2)]
    assert promised[0]["restored"] == ["clusterkit is 1", "doca-ofed is out"]
    assert node.packages["clusterkit"] == "2"
    assert reach(node, "restored", False) == promised[0] == promised[1]


def test_what_somebody_else_has_put_back_is_no_change(node: Asked) -> None:
    changed(node)
    node.packages["clusterkit"] = "1"
    del node.packages["doca-ofed"]
    for check in (True, False):
        result = reach(node, "restored", check)
        assert (result["changed"], "diff" in result) == (False, False)
        assert result["restored"] == ["clusterkit is 1", "doca-ofed is out"]


@pytest.mark.parametrize("state", ["opened", "restored"])
def test_what_was_cut_short_is_ended_before_all_else_and_told(node: Asked, state: str) -> None:
    node.due = ["dpkg ends what it has begun"]
    for check in (True, False):
        result = reach(node, state, check)
        assert (result["changed"], result["diff"]) == (True, [{"prepared": "dpkg ends what it has begun\n"}])
    assert node.due == []
    assert reach(node, state, False)["changed"] is False


def test_a_driver_that_is_proved_is_not_gone_back_from(node: Asked) -> None:
    changed(node)
    assert reach(node, "forgotten", False) == {"changed": False, "found": True}
    assert reach(node, "restored", False)["restored"] == []
    assert node.packages["clusterkit"] == "2"
