# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A class in the hands of the real DRANET after site.yml: scheduler, kubelets, containerd and its NRI are real, too, and nothing is played.

The tests are one story, in their order.
"""

from __future__ import annotations

import concurrent.futures
import re
import time
import typing as t
from pathlib import Path

import pytest
from claims import ADDRESSES, API, HCA, NAMES, NETDEV, RESOURCE, TEMPLATES, Cluster
from pods import Pod

from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cel import NOTHING, expression
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_objects import (
    Want,
    claim_template,
    device_class,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dranet import NO_LINK, published
from ansible_collections.fabric.rdma.tests.unit.contracts import load

SHARES = 63
SLEEP = "exec sleep 1000000"
# What DRANET tells of a netdev that no selector of ours reads; of a bond's member, facts do not have the last two.
UNREAD = {f"dra.net/{name}" for name in ("alias", "ebpf", "ipv4", "ipv6", "mac", "pciSubsystem", "mtu", "state")}
BOND = "mlx5_bond_0"
# the first card of the bond
FIRST = "eth3"


def changes(output: str) -> list[str]:
    """Hosts on which a run has changed something."""
    return re.findall(r"^(\S+)\s+: ok=\d+\s+changed=[1-9]", output, re.MULTILINE)


def test_a_class_goes_to_dranet_and_never_do_both_offer_it(cluster: Cluster) -> None:
    assert [cluster.allocatable(name, RESOURCE) for name in NAMES] == [SHARES, SHARES]
    assert cluster.published() == {}
    with cluster.watch() as seen:
        cluster.run("handover", rdma_rollout=cluster.wish())
    assert seen == {name: ["plugin", "nobody", "dranet"] for name in NAMES}
    assert cluster.drivers("rdma-shared-dp") == []
    # the rollout finds what it would have made
    assert changes(cluster.run("rollout", rdma_rollout=cluster.wish())) == []


def test_what_is_published_is_what_facts_foretell(cluster: Cluster) -> None:
    """Of each function with RDMA, by every attribute that a selector can read, and of no other."""
    facts = load(cluster.output / "facts.json")
    seen = cluster.published()
    assert sorted(seen) == NAMES
    for name in NAMES:
        foretold = {each.name: each.views for each in published(facts[name]) if each.pci}
        assert seen[name].keys() == foretold.keys()
        assert len(foretold) == 3
        for device, real in seen[name].items():
            print(f"{name} {device}: {real}")
            views = [view for view in foretold[device] if view.items() <= real.items()]
            assert views, foretold[device]
            assert any(real.keys() - view.keys() <= UNREAD for view in views), views
        assert cluster.wanted()[name] in foretold


SCRIPT = """\
for file in /sys/class/net/*/; do file=${{file%/}}; echo "net ${{file##*/}}"; done
for file in /dev/infiniband/*; do [ ! -e "$file" ] || echo "file ${{file##*/}}"; done
ip -4 -o address show dev {netdev}
until ping -c 1 -W 2 -I {netdev} {peer} > /dev/null; do sleep 1; done
ping -c 3 -W 5 -I {netdev} {peer} && echo "reached {peer}"
{sleep}
"""


def named(log: str, kind: str) -> set[str]:
    """What a script has printed of a kind."""
    return set(re.findall(rf"^{kind} (\S+)$", log, re.MULTILINE))


def test_a_pod_has_the_function_of_its_class_and_reaches_the_other_node(cluster: Cluster) -> None:
    """All that the class selects is the one function that is wanted, and the scheduler finds nothing of it for another Pod."""
    own, wanted = cluster.device_class(), cluster.wanted()
    files = {name: cluster.files_of(name, HCA) for name in NAMES}
    assert all(len(each) == 4 for each in files.values())
    pods: dict[str, Pod] = {}
    for name, peer in zip(NAMES, reversed(NAMES), strict=True):
        script = SCRIPT.format(netdev=NETDEV, peer=ADDRESSES[peer], sleep=SLEEP)
        pods[name] = cluster.claiming(f"all-{name}", name, script, f"{own}-all")
    for name, pod in pods.items():
        pod.wait("Running")
        assert cluster.given(pod) == {(name, wanted[name])}
    second = cluster.claiming("second", "lab1", SLEEP, own)
    without = cluster.claiming("without", "lab1", "ls /sys/class/net /dev/infiniband; true")
    assert set(without.result().split()) >= {"eth0", "lo"}
    assert not {NETDEV, "uverbs0", "rdma_cm"} & set(without.log().split())
    for name, pod in pods.items():
        peer = ADDRESSES[next(each for each in NAMES if each != name)]
        cluster.wait(f"{pod.name} reaches {peer}", lambda pod=pod, peer=peer: f"reached {peer}" in pod.log(), pod.log)
        print(pod.log())
        # with the address that the node had there
        assert f" {ADDRESSES[name]}/24 " in pod.log()
        assert named(pod.log(), "net") == {"eth0", "lo", NETDEV}
        assert named(pod.log(), "file") == files[name]
        assert NETDEV not in cluster.on(name, "ls /sys/class/net").split()

    def refused() -> bool:
        rows = [row for row in second.status().get("conditions", []) if row["type"] == "PodScheduled"]
        return any(row["status"] == "False" and "cannot allocate all claims" in row["message"] for row in rows)

    cluster.wait("nothing is left for the second Pod", refused, lambda: str(second.status()))
    assert cluster.given(second) == set()
    second.delete()
    for pod in pods.values():
        pod.delete()
    for name in NAMES:
        found = cluster.on(name, f"until [ -e /sys/class/net/{NETDEV} ]; do sleep 1; done; ip -o address show {NETDEV}")
        # what the README of the role warns of
        assert ADDRESSES[name] not in found


@pytest.fixture
def bare(cluster: Cluster) -> t.Iterator[str]:
    """The template of a class that selects functions without a netdev, of which each node has one: as one of InfiniBand that stays."""
    paths = {name: cluster.on(name, f"readlink -f /sys/class/net/{FIRST}/device").strip() for name in NAMES}
    for name, path in paths.items():
        cluster.on(name, f"echo {path.rpartition('/')[2]} > /sys/bus/pci/drivers/e1000e/unbind")
    kind = device_class("bare", "bare", "roce", expression({"encapsulation": [NO_LINK]}))
    cluster.kube.request("POST", f"{API}/deviceclasses", "make", body=kind)
    template = claim_template("bare", "default", "bare", "roce", [Want("rdma", "bare")])
    cluster.kube.request("POST", TEMPLATES, "make", body=template)
    yield "bare"
    cluster.clear()
    for path in (f"{API}/deviceclasses/bare", f"{TEMPLATES}/bare"):
        cluster.kube.request("DELETE", path, "delete")
    for name, path in paths.items():
        card = path.rpartition("/")[2]
        cluster.on(
            name,
            f"echo {card} > /sys/bus/pci/drivers/e1000e/bind && ip link set $(ls {path}/net) down master bond0 && "
            f"ip link set $(ls {path}/net) up",
        )


def index_of(cluster: Cluster, node: str, hca: str) -> int:
    """The GID of a device that is made of an IPv4 address and is of RoCE v2."""
    place = f"/sys/class/infiniband/{hca}/ports/1"
    lines = cluster.on(node, f"grep -H 0000:0000:0000:0000:0000:ffff {place}/gids/*").splitlines()
    indices = sorted(int(line.partition(":")[0].rpartition("/")[2]) for line in lines)
    return next(i for i in indices if "v2" in cluster.on(node, f"cat {place}/gid_attrs/types/{i}"))


def test_pods_write_with_the_devices_of_their_claims(cluster: Cluster, bare: str) -> None:
    """Soft-RoCE does not go with a netdev, so that what is written with is a device whose netdev stays on the node.

    The ends find each other over the netdevs of their other claim.
    """
    own, wanted = cluster.device_class(), cluster.wanted()

    def there() -> bool:
        seen = cluster.published()
        without = [
            row.get("dra.net/rdmaDevice")
            for each in seen.values()
            for row in each.values()
            if "dra.net/ifName" not in row
        ]
        return without == [BOND, BOND] and all(wanted[name] in seen[name] for name in NAMES)

    cluster.wait("DRANET publishes functions without a netdev", there, lambda: str(cluster.published()))
    files = {name: cluster.files_of(name, HCA) | cluster.files_of(name, BOND) for name in NAMES}
    call = "ib_write_bw -d {hca} -x {index} -F -n 20 -s 4096"
    calls = {name: call.format(hca=BOND, index=index_of(cluster, name, BOND)) for name in NAMES}
    show = 'for file in /dev/infiniband/*; do echo "file ${file##*/}"; done; '
    server = cluster.claiming("server", "lab2", show + f"while :; do {calls['lab2']}; sleep 1; done", own, bare)
    client = cluster.claiming(
        "client",
        "lab1",
        show + f"until {calls['lab1']} {ADDRESSES['lab2']}; do sleep 2; done; echo written",
        own,
        bare,
    )
    said = client.result()
    print(said)
    assert said.splitlines()[-1] == "written"
    assert named(said, "file") == files["lab1"]
    assert named(server.log(), "file") == files["lab2"]
    assert {node for node, _device in cluster.given(server)} == {"lab2"}
    assert len(cluster.given(server)) == 2


def test_a_class_goes_back_once_pods_have_ended_and_never_do_both_offer_it(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By facts from before the Pods began, which a fact cache keeps: a function that a Pod has is not on the node."""
    monkeypatch.setenv("ANSIBLE_CACHE_PLUGIN", "ansible.builtin.jsonfile")
    monkeypatch.setenv("ANSIBLE_CACHE_PLUGIN_CONNECTION", str(tmp_path))
    cluster.run("discover")
    own = cluster.device_class()
    cluster.wait(
        "both functions are published",
        lambda: all(device in cluster.published()[name] for name, device in cluster.wanted().items()),
    )
    with cluster.watch() as seen, concurrent.futures.ThreadPoolExecutor(1) as pool:
        pod = cluster.claiming("holds", "lab1", SLEEP, own)
        pod.wait("Running")
        back = pool.submit(cluster.run, "handover", rdma_rollout=cluster.wish(), rdma_handover_to="daemonset")

        def silent() -> bool:
            assert not back.done(), back.result()
            (driver,) = cluster.drivers("dranet")
            arguments = driver["spec"]["template"]["spec"]["containers"][0]["args"]
            new = driver["status"].get("updatedNumberScheduled"), driver["status"].get("numberReady")
            return f"--filter={NOTHING}" in arguments and new == (2, 2) and not any(cluster.published().values())

        cluster.wait("DRANET publishes nothing", silent, lambda: str(cluster.published()), seconds=600)
        for _look in range(10):
            # the Pod has a function: DRANET has to be there to take it back
            assert not back.done(), back.result()
            assert len(cluster.drivers("dranet")) == 1
            assert cluster.drivers("rdma-shared-dp") == []
            time.sleep(1)
        assert NETDEV not in cluster.on("lab1", "ls /sys/class/net").split()
        cluster.clear()
        back.result()
    assert seen == {name: ["dranet", "nobody", "plugin"] for name in NAMES}
    assert cluster.published() == {}
    assert cluster.drivers("dranet") == []
    assert [cluster.allocatable(name, RESOURCE) for name in NAMES] == [SHARES, SHARES]
    for name in NAMES:
        pod = cluster.pod(f"again-{name}", name, "ls /dev/infiniband", resource=RESOURCE)
        assert set(pod.result().split()) == cluster.files_of(name, HCA)
    # as the inventory has it: engine: daemonset
    assert changes(cluster.run("rollout")) == []
