# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules: ports, devices and queue pairs that do not find each other. Private to the collection. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.case import Case, Line, quoted, shown_pod
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Hit, Json, Rule

__all__ = ["RULES", "devices_of"]

# perftest (src/perftest_parameters.c, src/perftest_resources.c)
_STATE = "Port number "
_DOWN = re.compile(r"Port number (\d{1,3}) state is (\w{1,20})")
_NOT_FOUND = "IB device "
_DEVICE = re.compile(r"IB device (\S{1,64}) not found")
_NO_DEVICE = ("Unable to find the Infiniband/RoCE device", "Did not detect devices", "No IB devices found")
_OF_INFINIBAND = re.compile(r"Link type {1,20}: IB\b|NET/IB : Using [^\n]{0,400}/IB\b")
# Characters of a log in which a program says what it was told.
_HEAD = 200_000
_RTR = re.compile(r"Failed to modify (?:UD )?QP(?: \w{1,12})? to RTR")
# perftest, and NCCL from 2.20 on
_GID_INDEX = re.compile(r"GID index\s{1,20}:\s{1,4}(\d{1,3})")
_LOCAL_INDEX = re.compile(r"local GID index (\d{1,3})")
# NCCL (src/misc/ibvwrap.cc, src/transport/net_ib)
_NCCL_QP = "Call to ibv_modify_qp failed"
_RETRIES = (
    "Failed status 12",
    "transport retry counter exceeded",
    "status=12 ",
    "(12) opcode",
    "with error 12, opcode",
)
# perftest of an InfiniBand port that nobody has given an address
_NO_LID = "Local lid 0x0 detected"


def devices_of(facts: Json) -> list[Json]:
    return list(facts.get("devices") or ())


def _ports(facts: Json) -> t.Iterator[tuple[Json, Json]]:
    for device in devices_of(facts):
        for port in device["ports"]:
            yield device, port


def _in_state(case: Case, *states: str) -> t.Iterator[Hit]:
    for line in case.lines(_STATE):
        found = _DOWN.search(line.raw)
        if found and found.group(2).startswith(states):
            facts = case.facts.get((*case.hosts_of_log(line.log), "")[0], {})
            bad = [device["name"] for device, port in _ports(facts) if str(port["state"]).startswith(states)]
            known = [f"ports in this state there: {', '.join(bad)}"] if bad else []
            yield case.hit(line.log, [str(line), *known])


def _port_down(case: Case) -> t.Iterator[Hit]:
    yield from _in_state(case, "Down")


def _port_init(case: Case) -> t.Iterator[Hit]:
    yield from _in_state(case, "Init", "Arm")
    yield from case.told(_NO_LID)
    for host, facts in case.facts.items():
        waiting = [
            f"{host}: {device['name']} port {port['number']} is {port['state']}"
            for device, port in _ports(facts)
            if port["link_layer"] == "InfiniBand" and port["state"] in ("Init", "Armed") and device["kind"] != "smi"
        ]
        if waiting:
            yield Hit((host,), tuple(waiting[:3]))


def _missing(case: Case) -> t.Iterator[tuple[Line, str]]:
    """(line, device that was asked for, '' where none was)."""
    for line in case.lines(_NOT_FOUND, *_NO_DEVICE):
        found = _DEVICE.search(line.raw)
        if found or any(text in line.raw for text in _NO_DEVICE):
            yield line, found.group(1) if found else ""


def _not_asked_for(case: Case) -> t.Iterator[Hit]:
    for line, _device in _missing(case):
        pod = case.pod_of(line.log)
        if pod is not None and case.asks_for_none(pod):
            yield case.hit(line.log, [f"{shown_pod(pod)} asks for no RDMA resource", str(line)])


def _bonds_of(facts: Json, name: str) -> list[str]:
    """Devices that stand for a bond, where a name may be that of one of its members: the driver counts both of a card."""
    bonds = [device for device in devices_of(facts) if device["lag"]]
    count = len(devices_of(facts)) + sum(max(len(device["lag"]["members"]), 2) - 1 for device in bonds)
    numbered = re.fullmatch(r"mlx5_(\d{1,3})", name)
    absent = name not in {device["name"] for device in devices_of(facts)}
    return [str(device["name"]) for device in bonds] if absent and numbered and int(numbered.group(1)) < count else []


def _is_bond(case: Case) -> t.Iterator[Hit]:
    for line, device in _missing(case):
        for host in case.hosts_of_log(line.log):
            bonds = _bonds_of(case.facts.get(host, {}), device)
            if bonds:
                yield case.hit(
                    line.log,
                    [str(line)],
                    remedy=f"name the device of the bond: -d {quoted(bonds[0])} (NCCL_IB_HCA={quoted(bonds[0])})",
                )


def _wrong_name(case: Case) -> t.Iterator[Hit]:
    for line, device in _missing(case):
        names = [each["name"] for host in case.hosts_of_log(line.log) for each in devices_of(case.facts.get(host, {}))]
        remedy = f"give -d one of {quoted(', '.join(names))}" if names and device not in names else ""
        yield case.hit(line.log, [str(line)], remedy=remedy)


def _stuck(case: Case) -> t.Iterator[Line]:
    for line in case.lines("to RTR", _NCCL_QP):
        if _RTR.search(line.raw) or _NCCL_QP in line.raw:
            yield line


def _layers(case: Case, line: Line) -> set[str]:
    hosts = case.hosts_of_log(line.log) or tuple(case.facts)
    found = {
        str(port["link_layer"])
        for host in hosts
        for device, port in _ports(case.facts.get(host, {}))
        if port["state"] == "Active" and device["kind"] != "smi"
    }
    if "RoCE" in line.log["text"] or "Link type       : Ethernet" in line.log["text"]:
        return {"Ethernet"}
    # what perftest was told of its own device counts more than other ports of the host
    return {"InfiniBand"} if _OF_INFINIBAND.search(line.log["text"][:_HEAD]) else found


def _subnets(case: Case, hosts: t.Collection[str]) -> dict[str, list[str]]:
    """{InfiniBand subnet prefix: those of the hosts with an active port in it}."""
    found: dict[str, set[str]] = {}
    for host in hosts:
        for device, port in _ports(case.facts.get(host, {})):
            own = [row["gid"] for row in port["gids"] if row["index"] == 0]
            if port["link_layer"] == "InfiniBand" and port["state"] == "Active" and device["kind"] != "smi" and own:
                found.setdefault(":".join(own[0].split(":")[:4]), set()).add(host)
    return {prefix: sorted(hosts) for prefix, hosts in found.items()}


def _different_fabrics(case: Case) -> t.Iterator[Hit]:
    for line in _stuck(case):
        if "InfiniBand" not in _layers(case, line):
            continue
        # groups that never meet may have fabrics of their own
        subnets = _subnets(case, case.hosts_beside(line.log))
        everyone = {host for hosts in subnets.values() for host in hosts}
        # over one that all of them share they meet; the others are those of other rails, one of which a host may lack
        apart = {prefix: hosts for prefix, hosts in subnets.items() if set(hosts) != everyone}
        if len(apart) > 1:
            shown = [f"subnet {prefix}: {', '.join(hosts[:5])}" for prefix, hosts in sorted(apart.items())]
            yield case.hit(line.log, [str(line), *shown[:4]])


def _used_index(line: Line) -> t.Optional[int]:
    found = _LOCAL_INDEX.search(line.raw) or _GID_INDEX.search(line.log["text"][:_HEAD])
    return int(found.group(1)) if found else None


def _gid_index(case: Case) -> t.Iterator[Hit]:
    for line in _stuck(case):
        index = _used_index(line)
        rows = [
            (device["name"], row)
            for host in case.hosts_of_log(line.log)
            for device, port in _ports(case.facts.get(host, {}))
            if port["link_layer"] == "Ethernet"
            for row in port["gids"]
        ]
        good = sorted({row["index"] for _name, row in rows if row["type"] == "RoCE v2" and row["ipv4"]})
        refused = "Invalid argument" in line.raw or "errno 22" in line.raw
        unused = index is not None and bool(good) and index not in good
        if (refused or unused) and "Ethernet" in _layers(case, line):
            remedy = f"give -x {good[0]} (NCCL_IB_GID_INDEX={good[0]})" if good else ""
            used = [f"GID index {index} was used"] if index is not None else []
            yield case.hit(line.log, [str(line), *used], remedy=remedy)


def _roce_route(case: Case) -> t.Iterator[Hit]:
    for line in _stuck(case):
        layers = _layers(case, line)
        if "Ethernet" in layers or not layers:
            yield case.hit(line.log, [str(line)])


def _infiniband_way(case: Case) -> t.Iterator[Hit]:
    for line in _stuck(case):
        if _layers(case, line) == {"InfiniBand"}:
            hosts = case.hosts_of_log(line.log) or tuple(case.facts)
            ports = [
                f"{host}: {device['name']} port {port['number']} has the LID {port['lid']}, its subnet manager {port['sm_lid']}"
                for host in hosts[:4]
                for device, port in _ports(case.facts.get(host, {}))
                if port["link_layer"] == "InfiniBand" and port["state"] == "Active" and device["kind"] != "smi"
            ]
            yield case.hit(line.log, [str(line), *ports[:4]])


def _no_answer(case: Case) -> t.Iterator[Hit]:
    for line in case.lines(*_RETRIES):
        if "Failed status 12" in line.raw or "ompletion" in line.raw or "retry counter" in line.raw:
            yield case.hit(line.log, [str(line)])


RULES = (
    Rule(
        "port-down",
        "A port is Down",
        "error",
        ("logs", "facts"),
        "a test was given a port that is Down: no cable, no partner at the other end, or the network interface is down",
        "name a port that is Active (`ibstat`, or rdma_want: {state: Active} in the plan); to bring it up look at cable and "
        "switch, and: ip link set NETDEV up",
        _port_down,
    ),
    Rule(
        "port-init",
        "A port waits for a subnet manager",
        "error",
        ("logs", "facts"),
        "an InfiniBand port has a link, and no subnet manager has brought it up (state Init)",
        "start a subnet manager in that fabric (systemctl enable --now opensm on one host, or that of a switch); `sminfo` names it",
        _port_init,
    ),
    Rule(
        "device-not-asked-for",
        "A Pod has no RDMA device, and asks for none",
        "error",
        ("logs", "cluster"),
        "the Pod asks for no RDMA resource, so it has no device in /dev/infiniband",
        "resources: {limits: {RESOURCE: 1}} in the container, with the resource of its group (plan.json, `kubectl get nodes -o "
        "json | grep rdma/`)",
        _not_asked_for,
    ),
    Rule(
        "device-is-bond",
        "The device is a bond",
        "error",
        ("logs", "facts"),
        "the card is in a bond, for which the driver has one device of another name",
        "name the device of the bond, such as -d mlx5_bond_0",
        _is_bond,
        ("device-not-asked-for",),
    ),
    Rule(
        "device-wrong-name",
        "There is no device of this name",
        "error",
        ("logs", "facts"),
        "there is no RDMA device of the name that was given",
        "give -d a device that `ibv_devinfo -l` lists there; names may change at a boot",
        _wrong_name,
        ("device-not-asked-for", "device-is-bond"),
    ),
    Rule(
        "qp-different-fabrics",
        "The ends are in different InfiniBand fabrics",
        "error",
        ("logs", "facts"),
        "the two ends are in different InfiniBand subnets, between which there is no way",
        "pair ports of one subnet: compare the first half of `cat /sys/class/infiniband/*/ports/1/gids/0` of both hosts; give "
        "groups of their own to "
        "hosts of different fabrics",
        _different_fabrics,
    ),
    Rule(
        "qp-gid-index",
        "The GID index has no address",
        "error",
        ("logs", "facts"),
        "the GID index that was used has no RoCE v2 address with IPv4 on that host",
        "take an index that `show_gids` or /sys/class/infiniband/*/ports/1/gid_attrs/types lists as RoCE v2 with the port's "
        "address: -x N, NCCL_IB_GID_INDEX=N",
        _gid_index,
        ("qp-different-fabrics",),
    ),
    Rule(
        "qp-roce-route",
        "A RoCE address cannot be reached",
        "error",
        ("logs", "facts"),
        "the address of the other end cannot be reached: no address on the port, another subnet without a route, or its MAC "
        "address is not found",
        "ping -I NETDEV ADDRESS between the two hosts; with several rails in one subnet: rdma_roce_host: {multi_rail: true} and "
        "ansible-playbook fabric.rdma.prepare",
        _roce_route,
        ("qp-different-fabrics", "qp-gid-index"),
    ),
    Rule(
        "qp-infiniband-way",
        "There is no way to an InfiniBand port",
        "error",
        ("logs", "facts"),
        "the other end cannot be reached in InfiniBand: a GID index was given that it does not need, one end lost its LID, or the two "
        "are in fabrics of their own that have the same subnet prefix",
        "leave -x and NCCL_IB_GID_INDEX out; compare base lid and sm lid in `ibstat` of both hosts, and ask `ibtracert LID LID` for the "
        "way; ansible-playbook fabric.rdma.fabric says at which leaf each port is",
        _infiniband_way,
        ("qp-different-fabrics", "qp-gid-index", "qp-roce-route"),
    ),
    Rule(
        "no-answer",
        "Packets do not reach the other end",
        "error",
        ("logs",),
        "packets did not reach the other end, or its answers did not come back (retries exceeded)",
        "look at the counters of both ports, at MTU and VLAN on the way, and at a firewall (UDP 4791): ansible-playbook fabric.rdma.verify",
        _no_answer,
    ),
)
