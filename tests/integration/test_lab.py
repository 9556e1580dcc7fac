# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Light nodes of the lab: one is booted, killed, started again and removed, and nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.container import (
    bridge_name,
    container_trouble,
    machine_name,
    places_here,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.lab import Lab
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import plan_nodes
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import LabSpec

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]


def traces(directory: Path) -> list[str]:
    """What a lab is in the kernel."""
    bridge, machine = bridge_name(str(directory)), machine_name(str(directory), 0)
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    places = [Path(place, "fabric-rdma-lab-" + machine) for place in places_here()]
    devices = Path("/sys/class/net").iterdir()
    return [
        *(line for line in mounts if str(directory) in line),
        *(str(place) for place in places if place.exists()),
        *(device.name for device in devices if device.name == bridge or machine in device.name),
        *(pid for pid in os.listdir("/proc") if pid.isdigit() and str(directory) in arguments(pid)),
    ]


def arguments(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_text()
    except OSError:
        return ""


def on_node(directory: Path, *words: str) -> str:
    command = ["ssh", "-F", str(directory / "ssh_config"), "-o", "ConnectTimeout=60", "lab1", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=limit(300)).stdout


def status(directory: Path) -> str:
    """What whoever asks is told, on one line."""
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "playbooks/lab.yml", "-e", "lab_state=status"]
    where = json.dumps({"lab_dir": str(directory)})
    done = subprocess.run([*command, "-e", where], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split())


def test_a_node_comes_dies_comes_back_and_leaves_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "lab"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fabric.rdma"
    lab = Lab(str(directory), lambda text: print(text, flush=True))
    wish = LabSpec(str(directory), str(cache), plan_nodes(1, 1024, 1), engine="auto")
    try:
        result = lab.present(wish)
        assert result.changed
        print(f"one node as {result.engine}: {result.seconds}, {result.notes}")
        # where nothing rules containers out, they come up
        assert (result.engine == "container") is (container_trouble() is None)
        assert (result.engine == "container") is (result.notes == [])
        assert "lab1 runs " in status(directory)
        assert on_node(directory, "hostname") == "lab1\n"
        assert on_node(directory, "systemctl", "is-active", "containerd") == "active\n"
        on_node(directory, "echo kept >/var/lib/word; sync")
        again = lab.present(wish)
        assert (again.changed, [node.pid for node in again.nodes]) == (False, [node.pid for node in result.nodes])

        # a machine that is gone, not one that was shut down
        pid = result.nodes[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + limit(30)
        while lab.status().nodes[0].running and time.monotonic() < end:
            time.sleep(0.05)
        assert [node.running for node in lab.status().nodes] == [False]
        assert "lab1 does not run, " in status(directory)
        assert lab.present(wish).changed
        assert on_node(directory, "cat", "/var/lib/word") == "kept\n"
    finally:
        lab.absent()
    assert not directory.exists()
    assert f"There is no lab in {directory}" in status(directory)
    end = time.monotonic() + limit(30)
    # the kernel takes its time with the network of a namespace
    while traces(directory) and time.monotonic() < end:
        time.sleep(0.1)
    assert traces(directory) == []
