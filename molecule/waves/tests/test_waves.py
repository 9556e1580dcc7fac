# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waves of one, two and two nodes. Whatever becomes of a node of the second, no node of the third is touched."""

from __future__ import annotations

import os
import re
import signal
import time
import typing as t

import pace

if t.TYPE_CHECKING:
    from conftest import Result, Site

FIRST, SECOND, THIRD = ["lab1"], ["lab2", "lab3"], ["lab4", "lab5"]
NEW = {"driver": "installed", "source": "yes", "change": "no", "kubelet": "active"}
UNTOUCHED = {
    "driver": "no",
    "began": "0",
    "source": "no",
    "apt": "0",
    "nfs": "no",
    "containerd": "no",
    "change": "no",
    "kubelet": "active",
}


def assert_new(site: Site, *names: str) -> None:
    """They have the driver, installed once, and are at work."""
    for name, seen in site.look(*names).items():
        assert {key: seen[key] for key in NEW} == NEW, name
        assert seen["began"] == "1", f"{name}: the driver was installed {seen['began']} times"
    assert not set(names) & {*site.cordoned(), *site.marked()}


def assert_untouched(site: Site, result: Result, *names: str) -> None:
    """Nothing has been done to them, nor in the cluster."""
    assert {name: seen for name, seen in site.look(*names).items() if seen != UNTOUCHED} == {}
    assert not set(names) & {*result.watch.drained, *result.watch.marked}
    outcomes = result.outcomes()
    assert {name: outcomes[name]["state"] for name in names} == dict.fromkeys(names, "held")


def assert_second_wave_ends(site: Site, result: Result) -> None:
    """lab3 is the one of its wave that does not finish. lab2, of the same wave, had its turn before or never gets it."""
    assert_new(site, "lab1")
    if result.states()["lab2"] == "held":
        assert result.watch.drained == ["lab1", "lab3"]
        assert_untouched(site, result, "lab2", *THIRD)
    else:
        assert result.watch.drained == ["lab1", "lab2", "lab3"]
        assert_new(site, "lab2")
        assert_untouched(site, result, *THIRD)
    assert result.watch.most == 1


def assert_told(result: Result, name: str, state: str, step: str) -> dict[str, t.Any]:
    """The run has failed, and the report says for which node, where, and what to do. What it says, for more."""
    assert result.code != 0
    one = result.outcomes()[name]
    assert (one["state"], one["step"]) == (state, step), one
    assert one["remedy"]
    for file in ("report.html", "summary.txt"):
        text = result.text(file)
        assert name in text
        assert step in text
    # "facts": what was planned goes on being planned, and is kept
    assert (result.directory / "plan.json").exists()
    assert re.search(rf"{name} .{{0,40}}{step}", result.text("summary.txt")), result.text("summary.txt")
    # a page escapes what is in a remedy, so its first words are enough
    assert one["remedy"][:30] in result.text("report.html")
    return dict(one)


def assert_waves(drained: list[str]) -> None:
    """All have left, those of a wave after those of the one before."""
    assert drained[:1] == FIRST
    assert (sorted(drained[1:3]), sorted(drained[3:])) == (SECOND, THIRD)


def test_healthy_nodes_are_changed_once_and_leave_one_at_a_time(site: Site) -> None:
    result = site.run("prepare")
    assert result.code == 0, result.output
    assert_waves(result.watch.drained)
    assert result.watch.most == 1
    # back before the next one leaves
    assert [what for what, _name in result.watch.events] == ["away", "back"] * 5
    assert_new(site, *FIRST, *SECOND, *THIRD)
    assert set(result.states().values()) == {"finished"}

    again = site.run("prepare")
    assert again.code == 0, again.output
    assert again.watch.events == []
    assert not re.search(r"changed=[1-9]", again.output), again.output
    assert_new(site, *FIRST, *SECOND, *THIRD)


def test_a_driver_that_does_not_install(site: Site) -> None:
    site.on("lab3", "fault", "fail")
    result = site.run("site")
    assert "lab3" in assert_told(result, "lab3", "failed", "ofed")["message"]
    assert_second_wave_ends(site, result)
    # as it was, and at work
    assert site.look("lab3")["lab3"]["driver"] == "no"
    assert (site.cordoned(), site.marked()) == ([], [])


def test_a_configuration_of_containerd_that_cannot_be_read(site: Site) -> None:
    site.on("lab3", "containerd")
    limit = {"soft": "4194304", "hard": "4194304"}
    result = site.run("site", rdma_ofed={"method": "none"}, rdma_memlock={"enabled": True, **limit})
    told = assert_told(result, "lab3", "failed", "containerd_memlock")
    assert "/etc/containerd/config.toml" in told["message"]
    assert site.look("lab1")["lab1"]["containerd"] == "yes"
    # no work is taken off a node for this
    assert result.watch.events == []
    assert_untouched(site, result, *THIRD)


def test_packages_for_storage_that_are_nowhere(site: Site) -> None:
    site.on("lab3", "storage")
    wish = {"iscsi": False, "nfs": True, "multipath": False, "path": ""}
    result = site.run("site", rdma_ofed={"method": "none"}, rdma_storage=wish)
    assert_told(result, "lab3", "failed", "storage_prereqs")
    assert {name: seen["nfs"] for name, seen in site.look("lab1", "lab2", "lab3").items()} == {
        "lab1": "installed",
        "lab2": "installed",
        "lab3": "no",
    }
    assert result.watch.events == []
    assert_untouched(site, result, *THIRD)


def test_a_node_that_is_worse_afterwards(site: Site) -> None:
    site.on("lab3", "fault", "stop-kubelet")
    result = site.run("site")
    told = assert_told(result, "lab3", "worse", "ofed")
    assert "kubelet" in told["message"]
    assert_second_wave_ends(site, result)
    # no work for a node that lost something, and the next run compares it with what it was
    assert site.cordoned() == ["lab3"]
    seen = site.look("lab3")["lab3"]
    assert (seen["kubelet"], seen["change"]) == ("inactive", "yes")


def test_a_machine_that_is_gone_during_its_change(site: Site) -> None:
    site.on("lab3", "fault", "die")
    result = site.run("site")
    assert_told(result, "lab3", "lost", "ofed")
    assert_second_wave_ends(site, result)
    assert site.cordoned() == ["lab3"]


def test_a_controller_that_is_killed_and_started_again(site: Site) -> None:
    site.on("lab2", "fault", "wait")
    process = site.start("site")
    end = time.monotonic() + pace.limit(600)
    while site.look("lab2")["lab2"]["began"] == "0":
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end, "lab2 does not get its turn"
        time.sleep(0.5)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert site.cordoned() == ["lab2"]
    assert site.look("lab2")["lab2"]["change"] == "yes"
    # the installation goes on without whoever has begun it
    site.on("lab2", "fault", "none")
    site.on("lab2", "settle")
    # of the second wave, either may have had its turn first
    left = [name for name, seen in site.look().items() if name == "lab2" or seen["driver"] == "no"]
    assert left in (["lab2", *THIRD], [*SECOND, *THIRD])

    # no report tells of a node that would be left as it is
    assert not (site.directory / "output" / "report.html").exists()

    result = site.run("site", rdma_max_unavailable=2)
    assert set(result.states().values()) == {"finished"}, result.output
    # they have no cards, and that is all that the report has against them
    wrong = [
        line for line in (result.directory / "summary.txt").read_text().splitlines() if re.match(r"\S  nodes:", line)
    ]
    assert wrong[0] == "✕  nodes: 5 hosts: each has no usable port (no RDMA device)"
    assert not [line for line in wrong[1:] if line.startswith("✕")]
    assert "ofed" not in result.text("summary.txt")
    assert result.code != 0
    # with one node again: the one that was interrupted goes back into service before any other leaves
    assert result.watch.events[0] == ("back", "lab2")
    assert sorted(name for name in result.watch.drained if name != "lab2") == left[1:]
    # then two at a time, when two may be away
    assert result.watch.most == 2
    assert_new(site, *FIRST, *SECOND, *THIRD)
    assert result.states() == dict.fromkeys(left, "finished")
