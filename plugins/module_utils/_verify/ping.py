# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that ping each other over secondary networks: what they look like, what they say. Private to the collection. Pure.

Multus puts a Pod into the networks of its annotation, with the name of the interface behind an @, and says its addresses in another one
(k8s-network-plumbing-working-group, Multi-Network Specification 1.3). ping is that of iputils or of busybox.
"""

from __future__ import annotations

import ipaddress
import json
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import Wish, pod_body

__all__ = ["NETWORKS", "addresses_of", "networks_problem", "parse_ping", "peer_body", "ping_body"]

Json = t.Dict[str, t.Any]

NETWORKS, _STATUS = "k8s.v1.cni.cncf.io/networks", "k8s.v1.cni.cncf.io/network-status"
_COUNT, _WAIT_SECONDS = 5, 2
# Longer than any round of pings; the module deletes it before.
_PEER_SECONDS = 3600
_MOST = 1 << 16


def _interface(number: int) -> str:
    return f"net{number + 1}"


def _in_networks(body: Json, wish: Wish) -> Json:
    """The Pod in all networks, and in that of the cluster, as root with the right to send what ping sends."""
    named = ", ".join(f"{network}@{_interface(number)}" for number, network in enumerate(wish.networks))
    body["metadata"]["annotations"] = {NETWORKS: named}
    body["spec"]["hostNetwork"] = False
    (container,) = body["spec"]["containers"]
    container["securityContext"]["capabilities"] = {"drop": ["ALL"], "add": ["NET_RAW"]}
    return body


def peer_body(wish: Wish, name: str, node: str, resources: t.Sequence[str]) -> Json:
    """A Pod that only has addresses."""
    words = ["server", str(_PEER_SECONDS), f"sleep {_PEER_SECONDS}"]
    return _in_networks(pod_body(wish, name, node, resources, words, 0), wish)


def ping_body(wish: Wish, name: str, node: str, resources: t.Sequence[str], addresses: t.Sequence[str]) -> Json:
    """A Pod that pings an address in each network, through its own interface there."""
    lines = [
        f"ping -c {_COUNT} -W {_WAIT_SECONDS} -I {_interface(number)} {address}"
        for number, address in enumerate(addresses)
    ]
    return _in_networks(pod_body(wish, name, node, resources, ["client", str(wish.timeout), *lines], 0), wish)


def addresses_of(pod: t.Mapping[str, t.Any], networks: t.Sequence[str]) -> t.Optional[list[str]]:
    """The first address of a Pod in each of the networks, None when it does not have all of them."""
    told = ((pod.get("metadata") or {}).get("annotations") or {}).get(_STATUS)
    try:
        rows = json.loads(str(told)[:_MOST]) if told else []
        by_interface: Json = {str(row.get("interface")): row.get("ips") for row in rows if isinstance(row, t.Mapping)}
        # what comes from the API server ends in a word of a command: an address and nothing else
        return [str(ipaddress.ip_address(by_interface[_interface(number)][0])) for number in range(len(networks))]
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        return None


def networks_problem(name: str, networks: t.Sequence[str]) -> Json:
    """{cause, remedy} of a Pod that runs and has no address in its networks."""
    return {
        "cause": f"the Pod {name} runs without an address in all of {', '.join(networks)}",
        "remedy": "see that Multus runs on its node, that the NetworkAttachmentDefinitions are there, and that their ranges have free addresses",
    }


def parse_ping(text: str) -> Json:
    """{sent, received, rtt_us: {min, average, max}} of what ping printed; None: it was not."""
    text = text[:_MOST]
    counts = re.search(r"(\d{1,9}) packets transmitted, (\d{1,9}) (?:packets )?received", text)
    times = re.search(r"min/avg/max(?:/mdev)? = ([\d.]{1,15})/([\d.]{1,15})/([\d.]{1,15})", text)
    figures: t.Optional[Json] = None
    if times and all(re.fullmatch(r"\d+(?:\.\d+)?", one) for one in times.groups()):
        low, middle, high = (round(float(one) * 1000, 3) for one in times.groups())
        figures = {"min": low, "average": middle, "max": high}
    return {
        "sent": int(counts.group(1)) if counts else None,
        "received": int(counts.group(2)) if counts else None,
        "rtt_us": figures,
    }
