# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a group wishes of the RoCE settings of its hosts, with all that the wish leaves out. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._discover.roce import PRIORITIES
from ansible_collections.fabric.rdma.plugins.module_utils._plan.node_wishes import NODE_DEFAULTS, node_problems
from ansible_collections.fabric.rdma.plugins.module_utils._plan.ports import device_refusal

__all__ = ["Wished", "chosen_devices", "chosen_ports", "pfc_list", "read_want", "read_wish"]

Json = t.Mapping[str, t.Any]

# Several netdevs of a host in one subnet. Documentation/networking/ip-sysctl.rst: answer ARP only for addresses of the netdev that
# was asked (1), announce the address of the netdev that asks (2), accept what another netdev has the route back for (2, loose).
_MULTI_RAIL = {"arp_announce": 2, "arp_ignore": 1, "rp_filter": 2}
# ECT(0) in the two lowest bits, as NVIDIA's guides have it: DSCP 26 is the ToS 106.
_ECT = 2


class Wished(t.NamedTuple):
    """None and empty: no wish. Numbers are those of the kernel; sysctls by name, pfc and ecn the priorities that have it."""

    link_type: t.Optional[str]
    netns: t.Optional[str]
    mtu: t.Optional[int]
    sysctls: t.Mapping[str, int]
    trust: t.Optional[str]
    pfc: t.Optional[list[int]]
    ecn: t.Optional[list[int]]
    tos: t.Optional[int]
    persist: bool


def _number(value: t.Any) -> t.Optional[int]:
    # what comes from the command line is text
    return None if value is None else int(value)


def _priorities(part: t.Any) -> t.Optional[list[int]]:
    return None if part is None else sorted({int(priority) for priority in part["priorities"]})


def read_wish(wish: t.Any) -> Wished:
    """The wish rdma_roce_host; WishError with everything that is wrong with it."""
    wrong = node_problems("rdma_roce_host", wish)
    if wrong:
        raise WishError("; ".join(wrong))
    given: Json = wish or {}
    sysctls = dict(_MULTI_RAIL) if given.get("multi_rail") else {}
    sysctls.update({f"arp_{name}": int(value) for name, value in (given.get("arp") or {}).items()})
    if given.get("rp_filter") is not None:
        sysctls["rp_filter"] = int(given["rp_filter"])
    dscp = _number(given.get("dscp"))
    return Wished(
        link_type=given.get("link_type"),
        netns=given.get("netns"),
        mtu=_number(given.get("mtu")),
        sysctls=dict(sorted(sysctls.items())),
        trust=given.get("trust"),
        pfc=_priorities(given.get("pfc")),
        ecn=_priorities(given.get("ecn")),
        tos=_number(given.get("tos")) if dscp is None else dscp << 2 | _ECT,
        persist=given.get("persist", NODE_DEFAULTS["rdma_roce_host"]["persist"]),
    )


def read_want(want: t.Any) -> dict[str, t.Any]:
    """The wish rdma_want with its defaults; WishError as read_wish()."""
    wrong = node_problems("rdma_want", want)
    if wrong:
        raise WishError("; ".join(wrong))
    return {**NODE_DEFAULTS["rdma_want"], **(want or {})}


def chosen_devices(facts: Json, want: t.Mapping[str, t.Any]) -> list[Json]:
    """The RDMA devices whose kind the group wants, and that it does not exclude by name, whatever their ports are now."""
    return [device for device in facts["devices"] if device_refusal(device, dict(want)) is None]


def chosen_ports(facts: Json, want: t.Mapping[str, t.Any]) -> list[Json]:
    """The Ethernet ports (ansible_facts.rdma.roce.ports) of these devices; none for a group that wants InfiniBand."""
    if want["link_layer"] != "Ethernet":
        return []
    names = {device["name"] for device in chosen_devices(facts, want)}
    return [port for port in facts["roce"]["ports"] if port["device"] in names]


def pfc_list(priorities: t.Collection[int]) -> str:
    """As mlnx_qos wants it: 0,0,0,1,0,0,0,0."""
    return ",".join(str(int(priority in priorities)) for priority in PRIORITIES)
