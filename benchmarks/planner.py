# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure what the plan of a large cluster costs: hosts with eight HCAs each, four groups, of which one is split and one has rails.

python benchmarks/planner.py              prints the curve; exits 1 beyond a bound, or when the curve is no line
python benchmarks/planner.py --hosts N    one point of it, as JSON, in a process of its own
"""

from __future__ import annotations

import argparse
import collections.abc
import gc
import itertools
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.fabric.rdma.plugins.module_utils._facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._selectors import plan_groups
from ansible_collections.fabric.rdma.plugins.module_utils._tree import open_tree
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import cluster_view

CAPTURE = ROOT / "tests" / "captures" / "roce-rails-1.capture"
HOSTS = (1250, 2500, 5000, 10000)
# The bounds are on the processor's time of the plan, which a busy machine does not change, and on all memory of a process
# that holds the facts of all hosts. The view, which reads a fact cache, is measured beside it: Ansible's part is in there.
BOUND_SECONDS = 5.0
BOUND_MB = 500.0
# Twice the hosts may take that much more than twice the time: clocks of shared machines are not steadier. What takes less than
# half a second tells nothing: it fits into the processor's caches.
SLACK = 1.35
SHORT_SECONDS = 0.5

Json = dict[str, Any]


class Hostvars(collections.abc.Mapping[str, Json]):
    """Variables of hosts as Ansible hands them over: each look makes them anew, out of what a fact cache has of the host.

    Every host has GUIDs and LIDs of its own, so that no two hosts have the same facts.
    """

    def __init__(self, hosts: int) -> None:
        template = gather(open_tree(str(CAPTURE)), ("devices", "gpus", "kernel", "management"))
        self._text = json.dumps(template)
        self.groups: dict[str, list[str]] = {"plain": [], "split": [], "rails": [], "ids": []}
        self._numbers = {}
        for number in range(hosts):
            group = list(self.groups)[number % 4]
            host = f"{group}-{number:05d}.example.org"
            self.groups[group].append(host)
            self._numbers[host] = number

    def __iter__(self) -> collections.abc.Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, host: str) -> Json:
        number, group = self._numbers[host], host.partition("-")[0]
        own = json.loads(self._text)
        for index, device in enumerate(own["devices"]):
            device["node_guid"] = f"0200:{number >> 16:04x}:{number & 0xFFFF:04x}:{index:04x}"
            device["ports"][0]["lid"] = 8 * number + index
            if group == "split" and index == number // 4 % 2:
                device["ports"][0].update(state="Down", phys_state="Polling", rate_gbps=10.0)
            if group == "ids" and index > 3:
                device.update(device="101b")
        want: Json = {"link_layer": "Ethernet", "min_rate_gbps": 100}
        if group == "ids":
            want["exclude"] = [f"mlx5_{index}" for index in range(4)]
        wishes = {"rdma_resource": {"name": group}, "rdma_want": want, "rdma_rails": group == "rails"}
        return {"ansible_facts": {"rdma": own}, **wishes}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(hosts: int) -> Json:
    """Seconds of one view and one plan of all hosts, by the clock and the processor, and the peak of the whole process' memory."""
    variables = Hostvars(hosts)
    start = time.process_time()
    view = cluster_view(variables, variables.groups, list(variables.groups))
    gathered = time.process_time() - start
    gc.collect()
    start, cpu = time.perf_counter(), time.process_time()
    plan = plan_groups(view["facts"], view["groups"])
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - start
    classes = {name: len(entry["classes"]) for name, entry in plan["groups"].items()}
    assert classes == {"plain": 1, "split": 2, "rails": 1, "ids": 1}, classes
    served = sum(len(entry["hosts"]) for group in plan["groups"].values() for entry in group["classes"])
    assert served == hosts, served
    return {"hosts": hosts, "seconds": seconds, "cpu": cpu, "view_cpu": gathered, "mb": peak_mb()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int)
    chosen = parser.parse_args().hosts
    if chosen:
        print(json.dumps(measure(chosen)))
        return 0
    points = []
    print("  hosts     HCAs   view s  seconds   CPU s   us/host  peak MB")
    for hosts in HOSTS:
        done = subprocess.run(
            [sys.executable, __file__, "--hosts", str(hosts)], capture_output=True, text=True, check=True
        )
        point = json.loads(done.stdout)
        points.append(point)
        per_host = point["cpu"] / hosts * 1e6
        stroke = "#" * round(point["cpu"] * 8)
        print(
            f"{hosts:7d} {8 * hosts:8d} {point['view_cpu']:8.2f} {point['seconds']:8.2f} {point['cpu']:7.2f} "
            f"{per_host:9.0f} {point['mb']:8.0f}  {stroke}",
            flush=True,
        )
    last = points[-1]
    long = [point for point in points if point["cpu"] >= SHORT_SECONDS]
    steps = [after["cpu"] / before["cpu"] for before, after in itertools.pairwise(long)]
    linear = all(step <= 2 * SLACK for step in steps)
    print(
        f"planner: {last['hosts']} hosts with 8 HCAs: {last['cpu']:.2f} s (bound: {BOUND_SECONDS:g} s), "
        f"{last['mb']:.0f} MB with all facts (bound: {BOUND_MB:g} MB); "
        f"twice the hosts take {', '.join(f'{step:.2f}' for step in steps)} times as long"
    )
    return 0 if last["cpu"] <= BOUND_SECONDS and last["mb"] <= BOUND_MB and linear else 1


if __name__ == "__main__":
    sys.exit(main())
