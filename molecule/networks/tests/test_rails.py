# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods in networks of two rails after site.yml: Multus, Whereabouts and macvlan as their publishers wrote them, and nothing is played."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from pods import POD_IMAGE, PODS, Pod, Site

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import MANAGED_BY, TRAFFIC_LABEL
from ansible_collections.fabric.rdma.tests.unit.contracts import load

NAMES = ["lab1", "lab2"]
RESOURCE = "rdma/rdma_rails"
# network -> its netdev in a Pod that is in both, its addresses
RAILS = {
    "rail1": ("net1", ipaddress.ip_network("198.51.100.0/24")),
    "rail2": ("net2", ipaddress.ip_network("198.18.1.0/24")),
}
MULTUS = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-multus-ds"
WHEREABOUTS = "/apis/apps/v1/namespaces/kube-system/daemonsets/whereabouts"
RECONCILER = "/apis/apps/v1/namespaces/kube-system/deployments/whereabouts-reconciler"
POOLS = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools"
DEFINITIONS = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions"
SLEEP = "exec sleep 1000000"


def in_networks(
    site: Site, name: str, node: str, command: str = SLEEP, networks: t.Sequence[str] = tuple(RAILS)
) -> Pod:
    return site.pod(name, node, command, resource=RESOURCE, networks=networks)


def addresses(pod: Pod) -> dict[str, str]:
    """network -> address of a Pod that runs."""
    pod.wait("Running")
    return {name.rpartition("/")[2]: address for name, address in pod.addresses().items()}


def ping(netdev: str, address: str, name: str) -> str:
    """Says of an address whether it answers on a netdev."""
    return f"if ping -c 3 -W 5 -I {netdev} {address} >&2; then echo {name} reached; else echo {name} silent; fi"


def leases(site: Site) -> dict[str, str]:
    """Pod and netdev -> range, of all addresses that Whereabouts has given."""
    return {
        f"{lease['podref']} {lease.get('ifname')}": pool["spec"]["range"]
        for pool in site.kube.list(POOLS, "list")
        for lease in pool["spec"]["allocations"].values()
    }


def test_what_brings_networks_runs_on_every_node(site: Site) -> None:
    for path in (MULTUS, WHEREABOUTS):
        found = site.kube.find(path, "read") or {}
        assert found["status"]["numberReady"] == len(NAMES)
        assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == MANAGED_BY
    assert (site.kube.find(RECONCILER, "read") or {})["status"]["readyReplicas"] == 1
    assert {item["metadata"]["name"] for item in site.kube.list(DEFINITIONS, "list")} == set(RAILS)
    for name in NAMES:
        # where Debian's containerd looks
        site.on(
            name, "test -x /usr/lib/cni/multus && test -x /usr/lib/cni/whereabouts && ! test -e /opt/cni/bin/multus"
        )


def test_pods_reach_each_other_on_each_rail_and_on_no_other(site: Site) -> None:
    """Each has an address of each rail, which answers on this rail alone, in both directions."""
    peers = {name: in_networks(site, f"peer-{name}", name) for name in NAMES}
    theirs = {name: addresses(pod) for name, pod in peers.items()}
    print(theirs)
    for own in theirs.values():
        assert own.keys() == RAILS.keys()
        assert all(ipaddress.ip_address(own[rail]) in network for rail, (_netdev, network) in RAILS.items())
    assert len({address for own in theirs.values() for address in own.values()}) == 4
    for here, there in (NAMES, reversed(NAMES)):
        asked = [
            ping(netdev, theirs[there][rail], f"{rail} on {netdev}")
            for netdev, _network in RAILS.values()
            for rail in RAILS
        ]
        asking = in_networks(site, f"asks-{here}", here, "; ".join(["ip -4 address", *asked]))
        said = asking.result()
        print(said)
        found = set(re.findall(r"^(rail\d) on (net\d) (reached|silent)$", said, re.MULTILINE))
        assert found == {
            (rail, netdev, "reached" if own == netdev else "silent")
            for netdev, _network in RAILS.values()
            for rail, (own, _addresses) in RAILS.items()
        }


def test_rdma_on_each_rail(site: Site) -> None:
    """The ends find each other by their addresses in the network of the rail, and write by its device. By the GID of its netdev, that is:

    Soft-RoCE knows that of the Pod's own address, and cannot send from it, since it routes in the node's own network namespace.
    """
    commands = {
        rail: f"ib_write_bw -d mlx5_{number} -x 1 -F -n 20 -s 4096 -p 1860{number}" for number, rail in enumerate(RAILS)
    }
    server = in_networks(site, "writes-lab2", "lab2", "; ".join([*commands.values(), SLEEP]))
    theirs = addresses(server)
    # the server takes the second rail when it is done with the first
    asked = [f"sleep 5; {command} {theirs[rail]} && echo {rail} written" for rail, command in commands.items()]
    said = in_networks(site, "writes-lab1", "lab1", "; ".join(asked)).result()
    print(said)
    assert re.findall(r"^(rail\d) written$", said, re.MULTILINE) == list(RAILS)


def test_a_pod_that_asks_for_one_rail_is_in_that_one(site: Site) -> None:
    pod = in_networks(site, "one", "lab1", "ls /sys/class/net", ["rail2"])
    assert set(pod.result().split()) == {"eth0", "lo", "net1"}
    (lease,) = pod.addresses().values()
    assert ipaddress.ip_address(lease) in RAILS["rail2"][1]


def test_verify_pings_over_each_network(site: Site) -> None:
    """By what Multus says of its Pods, and the ping of their image; none of them is left."""
    networks = [f"default/{rail}" for rail in RAILS]
    wishes = {"verify_pod_image": POD_IMAGE, "verify_tests": ["ib_write_lat"], "verify_pod_networks": networks}
    site.run("verify", verify_level="pods", **wishes)
    pings = load(site.output / "evidence" / "rails.json")["pings"]
    print("\n".join(f"{each['client']} to {each['server']} in {each['network']}: {each['message']}" for each in pings))
    assert sorted(each["network"] for each in pings) == networks
    for each in pings:
        assert each["verdict"] == "pass", each
        assert {each["client"], each["server"]} == set(NAMES)
        assert ipaddress.ip_address(each["address"]) in RAILS[each["network"].rpartition("/")[2]][1]
        assert each["received"] == each["sent"] > 0
        assert each["rtt_us"]["average"] > 0
    assert site.kube.list(PODS, "list", labelSelector=TRAFFIC_LABEL) == []
    site.wait("addresses are given back", lambda: leases(site) == {})


def test_addresses_are_given_back(site: Site) -> None:
    pod = in_networks(site, "lease", "lab1")
    addresses(pod)
    assert leases(site).keys() == {"default/lease net1", "default/lease net2"}
    site.clear()
    site.wait("addresses are given back", lambda: leases(site) == {})


def test_a_second_run_changes_nothing(site: Site) -> None:
    """Nor does it take the addresses of Pods that run for those of nodes: they are in the GID tables of the nodes' ports."""
    addresses(in_networks(site, "runs", "lab1"))
    output = site.run("site")
    recap = re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", output, re.MULTILINE)
    assert sorted(name for name, _changed in recap) == [*NAMES, "localhost"]
    assert [entry for entry in recap if entry[1] != "0"] == []
    site.clear()
    site.wait("addresses are given back", lambda: leases(site) == {})


def ours(site: Site) -> list[str]:
    """All objects of the cluster with our label."""
    selector = f"app.kubernetes.io/managed-by={MANAGED_BY}"
    found = []
    for group, resources in served(site).items():
        for resource in resources:
            found += [
                f"{resource} {item['metadata']['name']}"
                for item in site.kube.list(f"{group}/{resource}", "list", labelSelector=selector)
            ]
    return found


def served(site: Site) -> dict[str, list[str]]:
    """Path of a group -> its resources that can be listed."""
    groups = ["/api/v1"]
    for group in site.kube.request("GET", "/apis", "list the groups")["groups"]:
        groups.append(f"/apis/{group['preferredVersion']['groupVersion']}")
    return {
        path: [
            row["name"]
            for row in site.kube.request("GET", path, "list the kinds")["resources"]
            if "list" in row["verbs"] and "/" not in row["name"]
        ]
        for path in groups
    }


def test_what_is_taken_away_is_gone(site: Site) -> None:
    """Objects, and Multus' place before the cluster's own network; Pods start as before.

    Whereabouts has made its pools itself. They have no address any more, so that they go with what they are made of.
    """
    assert ours(site)
    assert leases(site) == {}
    site.run("uninstall")
    site.wait("nothing of ours is left", lambda: ours(site) == [], lambda: "\n".join(ours(site)))
    for name in NAMES:
        found = site.on(name, "ls /etc/cni/net.d").split()
        print(f"{name}: {found}")
        assert not [file for file in found if file.startswith("00-multus")]
    pod = site.pod("after", "lab1", "ls /sys/class/net", resource=None, networks=[])
    assert set(pod.result().split()) == {"eth0", "lo"}
