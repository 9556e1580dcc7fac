# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure what the plan of a large cluster costs, for five kinds of cluster of hosts with eight HCAs each.

python benchmarks/planner.py                          prints the curves; exits 1 beyond a bound, or when a curve is not a line
python benchmarks/planner.py --generous               the same on smaller clusters, as a part of make test
python benchmarks/planner.py --kind KIND --hosts N    one point of one, as JSON, in a process of its own
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

from ansible_collections.fabric.rdma.benchmarks.kept import keep, place
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.plugins.plugin_utils._collector import paused
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import cluster_view

CAPTURE = ROOT / "tests" / "captures" / "roce-rails-1.capture"
HOSTS = (1250, 2500, 5000, 10000)
# What the hosts of a cluster have in common is what the plan of it costs: alike ones are looked at once.
KINDS = {
    "alike": "four groups of hosts that differ little: one class, two classes, rails, device IDs",
    "names": "one group, where each interface of each host has a name of its own",
    "names, ports down": "the same, and 1 % of the ports are Down",
    "ports down": "one group of hosts with the same names, and 1 % of the ports are Down",
    "names, rails": "one group with rails, where each interface has a name of its own",
}
# The bounds are on the processor's time of the plan, which a busy machine does not change, and on all memory of a process
# that holds the facts of all hosts. The view, which reads a fact cache, is measured beside it: Ansible's part is in there.
BOUND_SECONDS = {"alike": 5.0}
BOUND_SECONDS_OF_NAMES = 30.0
BOUND_MB = 700.0
# On a machine that does other things, too: what takes this many times as long has another algorithm.
GENEROUS_HOSTS = (625, 1250, 2500)
GENEROUS_FACTOR, GENEROUS_SLACK = 6.0, 1.7
# Twice the hosts may take that much more than twice the time: clocks of shared machines are not steadier. What takes less than
# half a second tells nothing: it fits into the processor's caches.
SLACK = 1.35
SHORT_SECONDS = 0.5
# A processor that others share is slow for moments; an algorithm is slow each time.
REPEATS = 2

Json = dict[str, Any]


class Hostvars(collections.abc.Mapping[str, Json]):
    """Variables of hosts as Ansible hands them over: each look makes them again, out of what a fact cache has of the host.

    Every host has GUIDs and LIDs of its own, so that no two hosts have the same facts.
    """

    def __init__(self, hosts: int, kind: str = "alike") -> None:
        template = gather(open_tree(str(CAPTURE)), ("devices", "gpus", "kernel", "management"))
        self._text = json.dumps(template)
        self._kind = kind
        groups = {"alike": ("plain", "split", "rails", "ids"), "names, rails": ("rails",)}
        self.groups: dict[str, list[str]] = {name: [] for name in groups.get(kind, ("plain",))}
        self._numbers = {}
        for number in range(hosts):
            group = list(self.groups)[number % len(self.groups)]
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
            if "names" in self._kind:
                rename(device, f"enx{number:08x}{index:x}")
            if "down" in self._kind and (8 * number + index) % 100 == 7:
                device["ports"][0].update(state="Down", phys_state="Polling", rate_gbps=10.0)
        want: Json = {"link_layer": "Ethernet", "min_rate_gbps": 100}
        if group == "ids":
            want["exclude"] = [f"mlx5_{index}" for index in range(4)]
        wishes = {"rdma_resource": {"name": group}, "rdma_want": want, "rdma_rails": group == "rails"}
        return {"ansible_facts": {"rdma": own}, **wishes}


def rename(device: Json, name: str) -> None:
    device["netdevs"] = [name]
    device["plugin"]["if_name"] = name
    for netdev in device["ports"][0]["netdevs"]:
        netdev["name"] = name


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(hosts: int, kind: str) -> Json:
    """Seconds of one view and one plan of all hosts, by the clock and the processor, and the peak of the whole process' memory."""
    variables = Hostvars(hosts, kind)
    start = time.process_time()
    view = cluster_view(variables, variables.groups, list(variables.groups))
    gathered = time.process_time() - start
    gc.collect()
    # as the filter plans
    with paused():
        start, cpu = time.perf_counter(), time.process_time()
        plan = plan_groups(view["facts"], view["groups"])
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - start
    classes = {name: len(entry["classes"]) for name, entry in plan["groups"].items()}
    assert kind != "alike" or classes == {"plain": 1, "split": 2, "rails": 1, "ids": 1}, classes
    served = sum(len(entry["hosts"]) for group in plan["groups"].values() for entry in group["classes"])
    assert served == hosts, served
    return {
        "hosts": hosts,
        "classes": sum(classes.values()),
        "seconds": seconds,
        "cpu": cpu,
        "view_cpu": gathered,
        "mb": peak_mb(),
    }


def point(kind: str, hosts: int, bound: float) -> Json:
    """Measures one point in a process of its own, and prints it."""
    done = subprocess.run(
        [sys.executable, __file__, "--kind", kind, "--hosts", str(hosts)], capture_output=True, text=True, check=True
    )
    measured: Json = json.loads(done.stdout)
    per_host = measured["cpu"] / hosts * 1e6
    stroke = "#" * round(measured["cpu"] / bound * 24)
    print(
        f"{hosts:7d} {8 * hosts:8d} {measured['classes']:8d} {measured['view_cpu']:8.2f} {measured['seconds']:8.2f} "
        f"{measured['cpu']:7.2f} {per_host:9.0f} {measured['mb']:8.0f}  {stroke}",
        flush=True,
    )
    return measured


def growth(points: list[Json]) -> list[float]:
    """How many times as long each point took as the one before it, which has half as many hosts. Short ones are left out."""
    long = [each["cpu"] for each in points if each["cpu"] >= SHORT_SECONDS]
    return [after / before for before, after in itertools.pairwise(long)]


def curve(kind: str, generous: bool) -> tuple[bool, list[Json]]:
    """Prints the curve of one kind of cluster; whether it is a line, and its end within the bounds; its points."""
    numbers, slack = (GENEROUS_HOSTS, GENEROUS_SLACK) if generous else (HOSTS, SLACK)
    print(f"{kind}: {KINDS[kind]}")
    print("  hosts     HCAs  classes   view s  seconds   CPU s   us/host  peak MB")
    bound = BOUND_SECONDS.get(kind, BOUND_SECONDS_OF_NAMES)
    if generous:
        bound *= GENEROUS_FACTOR * numbers[-1] / HOSTS[-1]

    def soon() -> bool:
        return bool(points[-1]["cpu"] <= bound and all(step <= 2 * slack for step in growth(points)))

    points = [point(kind, hosts, bound) for hosts in numbers]
    for _again in range(REPEATS):
        if soon():
            break
        print("  beyond its bounds: measured once more, and the shorter time of each counts")
        points = [min(before, point(kind, before["hosts"], bound), key=lambda one: one["cpu"]) for before in points]
    last = points[-1]
    steps = growth(points)
    grown = f"twice the hosts take {', '.join(f'{step:.2f}' for step in steps)} times as long"
    print(
        f"planner: {last['hosts']} hosts with 8 HCAs: {last['cpu']:.2f} s (bound: {bound:g} s), "
        f"{last['mb']:.0f} MB with all facts (bound: {BOUND_MB:g} MB); "
        f"{grown if steps else 'too quick to tell how it grows'}\n"
    )
    return soon() and last["mb"] <= BOUND_MB, points


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--generous", action="store_true")
    chosen = parser.parse_args()
    if chosen.hosts:
        print(json.dumps(measure(chosen.hosts, chosen.kind or "alike")))
        return 0
    curves = {kind: curve(kind, chosen.generous) for kind in ([chosen.kind] if chosen.kind else KINDS)}
    keep(place(chosen.generous), "planner", curves={kind: points for kind, (_good, points) in curves.items()})
    return 0 if all(good for good, _points in curves.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
