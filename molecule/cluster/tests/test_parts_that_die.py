# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab itself, when a part of it dies: what is told of it, and what the next run makes of it."""

from __future__ import annotations

import os
import signal

import nodes
from checks import SHARES, USER, assert_device_and_memory, changes
from pods import NAMES, Site

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.lab import Lab
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import LabResult


def status() -> LabResult:
    return Lab(str(nodes.lab()), print).status()


def boots() -> dict[str, str]:
    return {name: nodes.boot_id(name) for name in NAMES}


def all_at_work(site: Site) -> None:
    for name in NAMES:
        site.wait(f"{name} offers it", lambda name=name: site.allocatable(name) == SHARES, seconds=400)
    assert_device_and_memory(site, USER)


def test_a_node_whose_kernel_panics(site: Site) -> None:
    """Its process goes on. The next run says so, and starts all nodes again, with their disks and with what the API server knew."""
    before, known = boots(), {name: site.node(name)["metadata"]["uid"] for name in NAMES}
    site.on("lab2", "echo kept >/var/tmp/word; sync")
    # the answer comes before the end
    site.on("lab2", "nohup sh -c 'sleep 2; echo c >/proc/sysrq-trigger' >/dev/null 2>&1 </dev/null &")
    site.wait("its status says so", lambda: not status().nodes[1].running)
    assert [(node.name, node.running, node.pid is not None) for node in status().nodes] == [
        (name, name != "lab2", True) for name in NAMES
    ]
    (note,) = status().notes
    assert note.startswith("the kernel of lab2 has panicked, see ")

    output = site.run("lab")
    assert sum(changes(output).values()) == 1
    assert "started again: the kernel of lab2 has panicked" in output
    after = boots()
    assert all(after.values())
    assert not set(after.values()) & set(before.values())
    assert site.on("lab2", "cat /var/tmp/word") == "kept\n"
    assert {name: site.node(name)["metadata"]["uid"] for name in NAMES} == known
    all_at_work(site)


def test_a_control_plane_that_is_killed(site: Site) -> None:
    """The next run starts it again, with its data and its address; nodes and their Pods go on meanwhile."""
    before, plugin = boots(), site.plugin_pod("lab1")["metadata"]["uid"]
    kubeconfig = site.kubeconfig.read_text()
    os.kill(int((nodes.lab() / "control-plane" / "lock").read_text()), signal.SIGKILL)
    site.wait("its status says so", lambda: status().control_plane is False)
    assert [node.running for node in status().nodes] == [True] * len(NAMES)

    assert sum(changes(site.run("lab")).values()) == 1
    assert status().control_plane is True
    assert boots() == before
    assert site.kubeconfig.read_text() == kubeconfig
    assert site.plugin_pod("lab1")["metadata"]["uid"] == plugin
    all_at_work(site)
    assert "changed=0" in site.run("lab")
