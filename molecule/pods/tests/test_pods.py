# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Pods have and can do after site.yml: nothing here is played, but for the hardware below the RDMA devices."""

from __future__ import annotations

import typing as t
from pathlib import PurePath

import pytest
from checks import SHARES, USER, assert_device_and_memory, assert_exact, assert_measured, bandwidth, offered
from pods import CABLED, NAMES, RESOURCE, Site

from ansible_collections.fabric.rdma.tests.unit.contracts import load


def test_site_has_measured_on_hosts_and_between_pods(site: Site) -> None:
    """What the run on bare nodes has written itself, before anything here writes more: the first test."""
    assert_measured(site)


def test_every_node_offers_what_the_plugin_reports(site: Site) -> None:
    for name in NAMES:
        assert site.allocatable(name) == offered(site, name) == SHARES
        pod = site.plugin_pod(name)
        assert pod["status"]["phase"] == "Running"


def pci_of(site: Site, node: str, netdev: str) -> str:
    """Where the kernel has a card of the node."""
    return PurePath(site.on(node, "readlink", "-f", f"/sys/class/net/{netdev}/device").strip()).name


def test_facts_of_the_nodes(site: Site) -> None:
    """What discovery says of live devices, two of which are of one model and differ in their cables alone."""
    facts = load(site.output / "facts.json")
    assert sorted(facts) == NAMES
    for name in NAMES:
        devices = {device["name"]: device for device in facts[name]["devices"]}
        assert sorted(devices) == ["mlx5_0", "mlx5_1", "mlx5_bond_0"]
        assert {device["kind"] for device in devices.values()} == {"software"}
        assert all(device["plugin"]["visible"] for device in devices.values())
        assert {hca: device["pci"] for hca, device in devices.items()} == {
            hca: pci_of(site, name, device["netdevs"][0]) for hca, device in devices.items()
        }
        states = {hca: device["ports"][0]["state"] for hca, device in devices.items()}
        assert {hca for hca, state in states.items() if state == "Active"} == {CABLED[name], "mlx5_bond_0"}
        assert set(states.values()) == {"Active", "Down"}
        lag = devices.pop("mlx5_bond_0")["lag"]
        assert (lag["netdev"], lag["mode"]) == ("bond0", "active-backup")
        assert [member["netdev"] for member in lag["members"]] == ["eth3", "eth4"]
        assert [member["pci"] for member in lag["members"]] == [pci_of(site, name, each) for each in ("eth3", "eth4")]
        assert [device["lag"] for device in devices.values()] == [None, None]


def test_the_plugin_exposes_what_was_planned(site: Site) -> None:
    """One of two cards of the same model, on each node another one, and not the bond."""
    for name in NAMES:
        assert assert_exact(site, name) == {CABLED[name]}


@pytest.mark.parametrize("user", [0, USER])
def test_a_pod_has_the_device_and_may_lock_memory(site: Site, user: int) -> None:
    assert_device_and_memory(site, user)


def test_a_pod_without_the_resource_has_no_device(site: Site) -> None:
    for name in NAMES:
        pod = site.pod(f"without-{name}", name, "ls /dev/infiniband 2> /dev/null || echo none", USER, resource=None)
        assert pod.result().split() == ["none"]


def numbers(site: Site, node: str) -> dict[str, str]:
    """Major and minor number of each character device of a node's HCAs."""
    text = site.on(node, "grep -H . /sys/class/infiniband_verbs/uverbs*/dev /sys/class/infiniband_mad/*/dev")
    found = (line.partition(":") for line in text.splitlines())
    return {path.split("/")[-2]: number.replace(":", " ") for path, _colon, number in found}


def kinds(files: t.Iterable[str]) -> list[str]:
    """What files of devices are, without their numbers."""
    return sorted(file.rstrip("0123456789") for file in files)


# root may make files of devices: it is the kernel that refuses what the kubelet has not allowed
OPEN = 'mknod /tmp/%(file)s c %(number)s || exit 1; echo "%(file)s $( (exec 3< /tmp/%(file)s) 2>&1 && echo opened)"; '


@pytest.mark.parametrize("resource", [RESOURCE, None], ids=["with", "without"])
def test_a_pod_opens_its_own_device_and_no_other(site: Site, resource: str | None) -> None:
    """Not even as root, that knows the numbers of every device, for verbs and for MADs. libibverbs lists what it finds below /dev."""
    for name in NAMES:
        devices = numbers(site, name)
        # one of each for each HCA
        assert [kinds(devices).count(kind) for kind in ("umad", "uverbs")] == [3, 3]
        own = site.files_of(name, CABLED[name]) & set(devices) if resource else set()
        assert [kinds(own).count(kind) for kind in ("umad", "uverbs")] == ([1, 1] if resource else [0, 0])
        script = "".join(OPEN % {"file": file, "number": number} for file, number in devices.items())
        pod = site.pod(f"opens-{name}", name, script + "ibv_devices 2> /dev/null | tail -n +3", resource=resource)
        lines = pod.result().splitlines()
        pod.delete()
        said = dict(line.split(" ", 1) for line in lines[: len(devices)])
        print(f"{name}: {said}")
        assert set(said) == set(devices)
        for file, answer in said.items():
            assert answer == "opened" if file in own else answer.endswith("Operation not permitted"), (file, answer)
        assert [line.split()[0] for line in lines[len(devices) :]] == ([CABLED[name]] if resource else [])


@pytest.mark.parametrize("user", [0, USER])
def test_traffic_between_pods(site: Site, user: int) -> None:
    figure = bandwidth(site, user)
    print(f"ib_write_bw between Pods as user {user}: {figure:.4f} Gb/s")
    assert figure > 0


def test_a_plugin_that_is_gone(site: Site) -> None:
    """What a node offers is what the plugin reports: nothing while there is none."""
    pod = site.plugin_pod("lab2")["metadata"]
    site.take_plugin("lab2")
    site.wait("it is back", lambda: site.allocatable("lab2") == SHARES, seconds=300)
    assert site.plugin_pod("lab2")["metadata"]["uid"] != pod["uid"]
    assert site.allocatable("lab1") == SHARES


def restarts(pod: dict[str, t.Any]) -> int:
    return sum(status["restartCount"] for status in pod["status"]["containerStatuses"])


def test_a_plugin_that_is_killed(site: Site) -> None:
    """Its process alone: the kubelet starts the container again, in the Pod that was there."""
    before = site.plugin_pod("lab2")

    def nothing() -> bool:
        # The first time the kubelet starts it again at once, perhaps before it tells the API server; later it waits for longer each time.
        site.on("lab2", "pkill -KILL -f '[k]8s-rdma-shared-dp' || test $? -eq 1")
        return site.allocatable("lab2") == 0

    site.wait("nothing is offered", nothing)
    site.wait("it is back", lambda: site.allocatable("lab2") == SHARES, seconds=300)
    after = site.plugin_pod("lab2")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert restarts(after) > restarts(before)
    assert site.allocatable("lab1") == SHARES
