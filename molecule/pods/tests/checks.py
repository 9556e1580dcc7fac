# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What several tests ask of Pods, of the device plugin and of what a run has written."""

from __future__ import annotations

import re
import typing as t

from pods import ADDRESS, CABLED, NAMES, RESOURCE, Site

from ansible_collections.fabric.rdma.tests.unit.contracts import load

USER = 1000
SHARES = 63


def changes(output: str) -> dict[str, int]:
    """What a run of a playbook has changed: how many tasks, by host, as its recap says."""
    recap = re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", output, re.MULTILINE)
    return {name: int(changed) for name, changed in recap}


def plan_of(site: Site) -> dict[str, t.Any]:
    return dict(load(site.output / "plan.json"))


def planned(plan: dict[str, t.Any], group: str = "a100") -> dict[str, set[str]]:
    """Host -> HCAs that the plan says that the plugin exposes there."""
    return {
        host: {match["device"] for match in matches}
        for each in plan["groups"][group]["classes"]
        for host, matches in each["matches"].items()
    }


def exposed(site: Site, node: str) -> set[str]:
    """The files that the device plugin of a node says that it has given to Pods (pkg/resources/server.go, Allocate)."""
    pod = site.plugin_pod(node)["metadata"]
    log = site.log(f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}")
    given = [line for line in log.splitlines() if "allocate response:" in line]
    print(f"{node}: the plugin says: {given[-1] if given else log}", flush=True)
    return set(re.findall(r"HostPath:/dev/infiniband/(\w+)", given[-1])) if given else set()


def offered(site: Site, node: str) -> int:
    """How many shares the device plugin of a node says that it offers (pkg/resources/server.go, sendDevices)."""
    pod = site.plugin_pod(node)["metadata"]
    log = site.log(f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}")
    return int(re.findall(r'exposing "(\d+)" devices', log)[-1])


def assert_exact(site: Site, node: str, resource: str = RESOURCE) -> set[str]:
    """What a Pod has, what the plugin says that it gives, and what the plan says that it will, are the same. The HCAs."""
    hcas = planned(plan_of(site))[node]
    expected = {file for hca in hcas for file in site.files_of(node, hca)}
    pod = site.pod(f"exact-{node}", node, "ls /dev/infiniband", resource=resource)
    found = set(pod.result().split())
    pod.delete()
    print(f"{node}: planned {sorted(hcas)}, in the Pod {sorted(found)}")
    assert found == expected
    assert exposed(site, node) == expected
    return hcas


def assert_measured(site: Site) -> None:
    """What site.yml has written: every node was measured, as a host and with Pods, and all of it passed."""
    evidence = load(site.output / "evidence" / "a100.json")
    for level in ("hosts", "pods"):
        tests = [test for test in evidence["tests"] if test["level"] == level]
        assert {test["verdict"] for test in tests} == {"pass"}, level
        assert {test[side]["host"] for test in tests for side in ("client", "server")} == set(NAMES)
    assert {look["host"] for look in evidence["inspections"]} == set(NAMES)
    assert {look["verdict"] for look in evidence["inspections"]} == {"pass"}
    figures = assert_bandwidth(evidence)
    group = load(site.output / "report.json")["groups"]["a100"]
    shown = [each for each in group["measurements"] if (each["level"], each["test"]) == ("pods", "ib_write_bw")]
    assert sorted(each["value"] for each in shown) == sorted(figures)
    for name in ("summary.txt", "report.html"):
        assert "between Pods" in (site.output / name).read_text(), name
    page = (site.output / "report.html").read_text()
    for figure in figures:
        assert f"{figure:.3g} Gb/s" in page, figure


def assert_bandwidth(evidence: dict[str, t.Any]) -> list[float]:
    """Every ib_write_bw between Pods has a figure. All of them, in Gb/s."""
    tests = [test for test in evidence["tests"] if (test["level"], test["test"]) == ("pods", "ib_write_bw")]
    assert tests
    figures = [test["bandwidth_gbps"]["average"] for test in tests]
    assert all(figure > 0 for figure in figures)
    return figures


def assert_device_and_memory(site: Site, user: int) -> None:
    """Exactly the character devices of the one HCA, which another than root may open, and no limit, without any capability."""
    for name in NAMES:
        script = "id -u; ls /dev/infiniband; ulimit -l; ulimit -H -l; ibv_devinfo -d $HCA | grep state"
        pod = site.pod(f"has-{name}-{user}", name, script.replace("$HCA", CABLED[name]), user)
        uid, *files, soft, hard, state = pod.result().splitlines()
        assert int(uid) == user
        assert set(files) == site.files_of(name, CABLED[name])
        assert (soft, hard) == ("unlimited", "unlimited")
        assert "PORT_ACTIVE" in state


def bandwidth(site: Site, user: int) -> float:
    """Gb/s between Pods on the two nodes. perftest's own clock has been seen to say 0 and inf on a node that had to wait for its turn."""
    for number in range(3):
        figure = _measured(site, user, number)
        if 0 < figure < 1000:
            return figure
    raise AssertionError("perftest gives no figure")


def _measured(site: Site, user: int, number: int) -> float:
    common = "-x 1 -n 100 -s 65536 -F"
    server = site.pod(f"server-{number}", "lab1", f"ib_write_bw -d {CABLED['lab1']} {common}", user)
    server.wait("Running")
    script = f"for n in 1 2 3 4 5; do ib_write_bw -d {CABLED['lab2']} {common} {ADDRESS} && exit; sleep 5; done; exit 1"
    result = site.pod(f"client-{number}", "lab2", script, user).result()
    server.wait("Succeeded")
    # MiB/s: in Gb/s, two digits after the point leave nothing of what an emulated node can do
    figures = re.search(r"^\s*65536\s+100\s+\S+\s+(\S+)\s", result, re.MULTILINE)
    assert figures, result
    print(f"user {user}: {figures[0].strip()}", flush=True)
    return float(figures[1]) * 8 * 2**20 / 1e9
