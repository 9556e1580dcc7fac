# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Pods have and can do after site.yml, and what becomes of it: nothing here is played, but for the hardware below the RDMA devices."""

from __future__ import annotations

import re
import subprocess
import typing as t

import nodes
import pytest
import yaml
from pods import ADDRESS, CABLED, INVENTORY, NAMES, POD_IMAGE, PODS, RESOURCE, Site

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import TRAFFIC_LABEL
from ansible_collections.fabric.rdma.tests.unit.contracts import load

USER = 1000
SHARES = 63
ISCSI = ("iscsid.socket", "iscsid.service")


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


def test_site_has_measured_on_hosts_and_between_pods(site: Site) -> None:
    """What the run on bare nodes has written itself, before anything here writes more: the first test."""
    evidence = load(site.output / "evidence" / "a100.json")
    for level in ("hosts", "pods"):
        tests = [test for test in evidence["tests"] if test["level"] == level]
        assert {test["verdict"] for test in tests} == {"pass"}, level
        assert {test[side]["host"] for test in tests for side in ("client", "server")} == set(NAMES)
    assert {look["host"] for look in evidence["inspections"]} == set(NAMES)
    assert {look["verdict"] for look in evidence["inspections"]} == {"pass"}
    for name in ("summary.txt", "report.html"):
        assert "between Pods" in (site.output / name).read_text(), name


def test_every_node_offers_what_the_plugin_reports(site: Site) -> None:
    for name in NAMES:
        assert site.allocatable(name) == SHARES
        pod = site.plugin_pod(name)
        assert pod["status"]["phase"] == "Running"


def test_facts_of_the_nodes(site: Site) -> None:
    """What discovery says of live devices, two of which are of one model and differ in their cables alone."""
    facts = load(site.output / "facts.json")
    assert sorted(facts) == NAMES
    for name in NAMES:
        devices = {device["name"]: device for device in facts[name]["devices"]}
        assert sorted(devices) == ["mlx5_0", "mlx5_1", "mlx5_bond_0"]
        assert {device["kind"] for device in devices.values()} == {"software"}
        assert all(device["plugin"]["visible"] for device in devices.values())
        assert len({device["pci"] for device in devices.values()} - {None}) == len(devices)
        states = {hca: device["ports"][0]["state"] for hca, device in devices.items()}
        assert {hca for hca, state in states.items() if state == "Active"} == {CABLED[name], "mlx5_bond_0"}
        assert set(states.values()) == {"Active", "Down"}
        lag = devices.pop("mlx5_bond_0")["lag"]
        assert (lag["netdev"], lag["mode"]) == ("bond0", "active-backup")
        assert [member["netdev"] for member in lag["members"]] == ["eth3", "eth4"]
        assert len({member["pci"] for member in lag["members"]} - {None}) == 2
        assert [device["lag"] for device in devices.values()] == [None, None]


def test_the_plugin_exposes_what_was_planned(site: Site) -> None:
    """One of two cards of the same model, on each node another one, and not the bond."""
    for name in NAMES:
        assert assert_exact(site, name) == {CABLED[name]}


@pytest.mark.parametrize("user", [0, USER])
def test_a_pod_has_the_device_and_may_lock_memory(site: Site, user: int) -> None:
    """Exactly the character devices of the one HCA, which another than root may open, and no limit, without any capability."""
    for name in NAMES:
        script = "id -u; ls /dev/infiniband; ulimit -l; ulimit -H -l; ibv_devinfo -d $HCA | grep state"
        pod = site.pod(f"has-{name}", name, script.replace("$HCA", CABLED[name]), user)
        uid, *files, soft, hard, state = pod.result().splitlines()
        assert int(uid) == user
        assert set(files) == site.files_of(name, CABLED[name])
        assert (soft, hard) == ("unlimited", "unlimited")
        assert "PORT_ACTIVE" in state


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


@pytest.mark.parametrize("user", [0, USER])
def test_traffic_between_pods(site: Site, user: int) -> None:
    figure = bandwidth(site, user)
    print(f"ib_write_bw between Pods as user {user}: {figure:.4f} Gb/s")
    assert figure > 0


def test_verify_measures_between_pods(site: Site) -> None:
    """What the playbook makes of it: traffic, limits and files of Pods in evidence and report, and no Pod is left."""
    site.run("verify", verify_level="pods", verify_pod_image=POD_IMAGE, verify_pod_users=[USER, 0])
    evidence = load(site.output / "evidence" / "a100.json")
    tests, looks = evidence["tests"], evidence["inspections"]
    # as an ordinary user and as root, on every node
    assert sorted((look["host"], look["user"]) for look in looks) == sorted((n, u) for n in NAMES for u in (USER, 0))
    for look in looks:
        assert look["verdict"] == "pass", look["message"]
        assert (look["memlock"], look["ipc_lock"]) == ({"soft": "unlimited", "hard": "unlimited"}, False)
        assert look["devices"] == [CABLED[look["host"]]]
        assert set(look["files"]) == site.files_of(look["host"], CABLED[look["host"]])
        assert look["memory_bytes"] is None
    assert {test["test"] for test in tests} == {"ib_write_bw", "ib_write_lat"}
    # no node is left out
    assert {test[side]["host"] for test in tests for side in ("client", "server")} == set(NAMES)
    for test in tests:
        print(f"{test['test']} between Pods: {test['message']}")
        assert (test["level"], test["verdict"]) == ("pods", "pass")
        assert test["client"]["host"] != test["server"]["host"]
        assert test["pods"]["user"] == USER
        assert test["pods"]["memlock"] == {"soft": "unlimited", "hard": "unlimited"}
        for side in ("client", "server"):
            host = test[side]["host"]
            assert test[side]["device"] == CABLED[host]
            assert set(test["pods"]["files"][side]) == site.files_of(host, CABLED[host])
        if test["bandwidth_gbps"]:
            assert test["bandwidth_gbps"]["average"] > 0
    assert site.kube.list(PODS, "list", labelSelector=TRAFFIC_LABEL) == []
    site.run("report")
    assert "between Pods" in (site.output / "summary.txt").read_text()


def test_a_plugin_that_is_gone(site: Site) -> None:
    """What a node offers is what the plugin reports: nothing while there is none."""
    pod = site.plugin_pod("lab2")["metadata"]
    site.core.delete_namespaced_pod(pod["name"], pod["namespace"])
    site.wait("nothing is offered", lambda: site.allocatable("lab2") == 0)
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


def test_a_cordoned_and_tainted_node_keeps_its_resource(site: Site) -> None:
    taint = {"key": "account", "value": "x", "effect": "NoExecute"}
    before = site.plugin_pod("lab1")["metadata"]["uid"]
    site.core.patch_node("lab1", {"spec": {"unschedulable": True, "taints": [taint]}})
    try:
        pod = site.plugin_pod("lab1")["metadata"]
        site.core.delete_namespaced_pod(pod["name"], pod["namespace"])
        site.wait("it is there again", lambda: site.allocatable("lab1") == 0)
        site.wait("it is back", lambda: site.allocatable("lab1") == SHARES, seconds=300)
        assert site.plugin_pod("lab1")["metadata"]["uid"] != before
    finally:
        site.core.patch_node("lab1", {"spec": {"unschedulable": None, "taints": None}})


def test_a_second_run_changes_nothing(site: Site) -> None:
    output = site.run("site")
    recap = re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", output, re.MULTILINE)
    assert sorted(name for name, _changed in recap) == [*NAMES, "localhost"]
    assert [entry for entry in recap if entry[1] != "0"] == []
    test_site_has_measured_on_hosts_and_between_pods(site)


def cable(site: Site, first: bool, second: bool) -> None:
    """Plugs the cables of the two cards of lab1 in or out."""
    wished = yaml.safe_load((INVENTORY / "group_vars" / "all.yml").read_text())["lab_nodes"]
    wished[0]["hcas"][:2] = [{"name": "mlx5_0", "cable": first}, {"name": "mlx5_1", "cable": second}]
    assert "changed=1" in site.run("lab", lab_nodes=wished)


@pytest.mark.parametrize(
    ("first", "second", "hcas"),
    [(False, True, {"mlx5_1"}), (True, True, {"mlx5_0", "mlx5_1"}), (True, False, {"mlx5_0"})],
    ids=["the other card", "both cards", "the first card again"],
)
def test_plan_plugin_and_pods_follow_the_cable(site: Site, first: bool, second: bool, hcas: set[str]) -> None:
    """The fabric moves to other cards of a node: the plan, the plugin and Pods go with it, and the resource stays."""
    cable(site, first, second)
    site.run("rollout")
    site.wait("it is offered", lambda: site.allocatable("lab1") == SHARES, seconds=300)
    assert assert_exact(site, "lab1") == hcas


def test_a_bond_and_a_renamed_device_reach_pods(site: Site) -> None:
    """The bond in place of the cards, and a card whose RDMA device has another name."""
    want = {"link_layer": "Ethernet", "kinds": ["software"], "exclude": ["mlx5_0", "mlx5_1"]}
    site.run("rollout", rdma_want=want)
    for name in NAMES:
        site.wait("it is offered", lambda name=name: site.allocatable(name) == SHARES, seconds=300)
        assert assert_exact(site, name) == {"mlx5_bond_0"}
    site.on("lab1", "rdma dev set mlx5_0 name roce0")
    try:
        site.run("rollout")
        site.wait("it is offered", lambda: site.allocatable("lab1") == SHARES, seconds=300)
        assert assert_exact(site, "lab1") == {"roce0"}
    finally:
        site.on("lab1", "rdma dev set roce0 name mlx5_0")
    site.run("rollout")


def units(site: Site, node: str) -> set[str]:
    """Those of iscsid's units that are active and are started at boot, which a service is not that its socket has started."""
    said = site.on(node, f"systemctl is-active {' '.join(ISCSI)}; systemctl is-enabled {' '.join(ISCSI)}; true").split()
    states = zip(ISCSI, said[: len(ISCSI)], said[len(ISCSI) :], strict=True)
    return {unit for unit, active, enabled in states if (active, enabled) == ("active", "enabled")}


def test_a_node_that_restarts(site: Site) -> None:
    """Resource, plugin, devices, limits, what waits for iSCSI: all of it is back without us."""
    before, started = nodes.boot_id("lab2"), units(site, "lab2")
    assert before
    assert started
    subprocess.run(nodes.command("lab2", "systemctl", "reboot"), stdin=subprocess.DEVNULL, check=False)
    site.wait("it has started again", lambda: nodes.boot_id("lab2") not in ("", before), seconds=300)
    now = nodes.boot_id("lab2")

    def at_work() -> bool:
        """As its kubelet says it that has started since."""
        found = site.node("lab2")["status"]["nodeInfo"]["bootID"] == now
        return found and site.allocatable("lab2") == SHARES

    site.wait("the plugin has registered again", at_work, seconds=400)
    test_a_pod_has_the_device_and_may_lock_memory(site, USER)
    assert bandwidth(site, USER) > 0
    assert units(site, "lab2") == started
    assert set(site.on("lab2", "ls /sys/module").split()) >= {"iscsi_tcp", "nfs"}


def test_a_wish_that_changes(site: Site) -> None:
    """The DaemonSet is rolled, the new resource comes, and the old one goes for good from real kubelets."""
    new, fewer = "rdma/rdma_new", 31
    before = {name: site.plugin_pod(name)["metadata"]["uid"] for name in NAMES}
    site.run("rollout", rdma_resource={"name": "rdma_new", "hca_max": fewer})
    for name in NAMES:
        site.wait("the new one is offered", lambda name=name: site.allocatable(name, new) == fewer, seconds=300)
        assert site.plugin_pod(name)["metadata"]["uid"] != before[name]
        site.wait("the old one is not", lambda name=name: not site.allocatable(name), seconds=60)
    pod = site.pod("new", "lab1", "ls /dev/infiniband", resource=new)
    assert set(pod.result().split()) == site.files_of("lab1", CABLED["lab1"])
    # for five minutes the kubelet would put it back
    for name in NAMES:
        site.wait("the kubelet has given it up", lambda name=name: capacity(site, name) == 0, seconds=400)
    rollout = {"kubeconfig": str(site.kubeconfig)}
    site.run("cleanup_stale", rdma_stale_resources=[RESOURCE], rdma_rollout=rollout, rdma_stale_verify=60)
    for name in NAMES:
        assert capacity(site, name) is None
        assert site.allocatable(name) is None
        assert site.allocatable(name, new) == fewer
    # as it was
    site.run("rollout")
    for name in NAMES:
        site.wait("the first one is offered again", lambda name=name: site.allocatable(name) == SHARES, seconds=300)


def capacity(site: Site, node: str) -> int | None:
    found = site.node(node)["status"].get("capacity", {}).get(RESOURCE)
    return None if found is None else int(found)
