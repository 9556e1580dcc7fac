# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node remembers of a change until it has finished, and whether it is worse after it. Private. Pure.

The state before a change lies in the memory of the controller, and is gone when that is killed. A copy on the node outlives
it: the next run begins with this node, and compares it with what it was before the change that never ended.
"""

from __future__ import annotations

import json
import typing as t

__all__ = ["active_ports", "address_of", "dump_mark", "load_mark", "lost_ports", "open_change", "snapshot", "worse"]

Json = t.Dict[str, t.Any]

# Stands for those of a mark that cannot be read.
_UNKNOWN_ROLE = "an unknown role"
_VERSION = 1
_MAX_BYTES = 1 << 20
# Daemons of volumes by their key of ansible_facts.rdma.storage, and the states of which either serves the next volume.
_DAEMONS = {"iscsi": "iscsid", "multipathd": "multipathd"}
_SERVES = ("running", "listening")


def address_of(device: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """The PCI address that a device is told by; None for a software device, which may be at the function of a card."""
    return None if device.get("kind") == "software" else device["pci"]


def snapshot(facts: t.Mapping[str, t.Any]) -> Json:
    """What of ansible_facts.rdma two states of a node are compared by (see `worse`): ports, services, a runtime that is ready."""
    found: Json = {
        "devices": [
            {
                "name": device["name"],
                "pci": address_of(device),
                "ports": [
                    {key: port.get(key) for key in ("number", "state", "phys_state")} for port in device["ports"]
                ],
            }
            for device in facts.get("devices") or []
        ]
    }
    runtime = facts.get("runtime")
    if runtime:
        running = (runtime["containerd"] or {}).get("running") or {}
        found["runtime"] = {
            "services": dict(runtime["services"]),
            "containerd": {"running": {"ready": running.get("ready")}},
        }
    storage = facts.get("storage")
    if storage:
        found["storage"] = {key: {"service": storage[key]["service"]} for key in _DAEMONS}
    imex = _imex(facts)
    if imex is not None:
        found["nvidia"] = {"imex": {key: imex[key] for key in ("service", "enabled", "masked", "remembered")}}
    return found


def _imex(facts: t.Mapping[str, t.Any]) -> t.Optional[t.Mapping[str, t.Any]]:
    found: t.Optional[t.Mapping[str, t.Any]] = (facts.get("nvidia") or {}).get("imex")
    return found


def dump_mark(since: str, roles: t.Sequence[str], before: t.Mapping[str, t.Any], out_of_work: bool = False) -> bytes:
    """The content of places.CHANGE. since: the time at which the change began, ISO 8601 in UTC. out_of_work: it takes the node there."""
    mark = {"version": _VERSION, "since": since, "roles": list(roles), "before": before, "out_of_work": out_of_work}
    return (json.dumps(mark, indent=2, sort_keys=True) + "\n").encode("utf-8")


def load_mark(data: t.Optional[bytes]) -> t.Optional[Json]:
    """{since, roles, before, out_of_work} of a change that has not ended; None without one.

    A mark that cannot be read: before is None, since is empty, the role unknown. Where one does not say, the node may be out of service.
    """
    if data is None:
        return None
    unknown: Json = {"since": "", "roles": [_UNKNOWN_ROLE], "before": None, "out_of_work": True}
    try:
        mark = json.loads(data[:_MAX_BYTES].decode("utf-8"))
    except (ValueError, RecursionError):
        return unknown
    if not isinstance(mark, dict) or mark.get("version") != _VERSION or not isinstance(mark.get("before"), dict):
        return unknown
    roles = mark.get("roles")
    return {
        "since": str(mark.get("since") or "")[:40],
        "roles": ([str(role)[:60] for role in roles[:20]] if isinstance(roles, list) else []) or [_UNKNOWN_ROLE],
        "before": mark["before"],
        "out_of_work": mark.get("out_of_work", True) is not False,
    }


def open_change(data: t.Optional[bytes]) -> t.Optional[Json]:
    """What the facts tell of it: {since, roles}; None when no change is open."""
    mark = load_mark(data)
    return None if mark is None else {"since": mark["since"], "roles": mark["roles"]}


def worse(before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any]) -> list[str]:
    """What a host had before a change and has not after it, in words: ports, services, a container runtime that is ready.

    Both are ansible_facts.rdma; a subset that one of them lacks is not compared.
    """
    lost = lost_ports(before, after) if "devices" in after else []
    if "storage" in before and "storage" in after:
        lost += _lost_daemons(before["storage"], after["storage"])
    lost += _lost_imex(_imex(before), _imex(after))
    if "runtime" not in before or "runtime" not in after:
        return lost
    then, now = before["runtime"], after["runtime"]
    for name, ran in sorted(then["services"].items()):
        if ran and not now["services"].get(name):
            lost.append(f"{name} ran and no longer runs")
    ready = ((then["containerd"] or {}).get("running") or {}).get("ready")
    running = (now["containerd"] or {}).get("running")
    if ready and now["services"].get("containerd") and running is not None and not running.get("ready"):
        lost.append(f"the container runtime was ready and is not: {running.get('error') or 'RuntimeReady is false'}")
    return lost


def _lost_daemons(then: t.Mapping[str, t.Any], now: t.Mapping[str, t.Any]) -> list[str]:
    """Daemons of volumes that ran, or that a socket would have started, and that neither is true of now (ansible_facts.rdma.storage)."""
    return [
        f"{daemon} ran and no longer runs"
        for key, daemon in _DAEMONS.items()
        if then[key]["service"] in _SERVES and now[key]["service"] not in _SERVES
    ]


def _lost_imex(then: t.Optional[t.Mapping[str, t.Any]], now: t.Optional[t.Mapping[str, t.Any]]) -> list[str]:
    """What nvidia-imex.service did and no longer does (ansible_facts.rdma.nvidia.imex).

    One that is masked and remembered was given away with consent. One that was remembered and no longer is, was given back, and has
    to do what it did then, unless there was none any more.
    """
    if then is None or now is None or then["service"] is None or (now["masked"] and now["remembered"] is not None):
        return []
    ran, started = then["service"] == "running", then["enabled"] and not then["masked"]
    if then["remembered"] is not None and now["remembered"] is None:
        ran, started = then["remembered"]["running"], then["remembered"]["enabled"]
    lost = ["nvidia-imex ran and no longer runs"] if ran and now["service"] != "running" else []
    if started and (now["masked"] or not now["enabled"]):
        lost.append("nvidia-imex started at boot and no longer does")
    return lost


def lost_ports(before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any]) -> list[str]:
    """Ports that were Active and no longer are, in words: the test that a change did not make a node worse.

    Both are ansible_facts.rdma with the subset devices. Devices are told by PCI address, since a driver may rename them;
    software devices by name.
    """

    def active(
        facts: t.Mapping[str, t.Any],
    ) -> dict[tuple[str, int], tuple[str, t.Optional[str], t.Optional[str]]]:
        return {
            (address_of(device) or device["name"], port["number"]): (
                device["name"],
                port["state"],
                port.get("phys_state"),
            )
            for device in facts.get("devices", [])
            for port in device["ports"]
        }

    now = active(after)
    lost = []
    for key, (name, state, _dummy) in sorted(active(before).items()):
        if state != "Active":
            continue
        there = now.get(key)
        if there is None:
            lost.append(f"{name} ({key[0]}) port {key[1]} was Active and is gone")
        elif there[1] != "Active":
            lost.append(f"{name} ({key[0]}) port {key[1]} was Active and is {there[1]} (phys state {there[2]})")
    return lost


def active_ports(facts: t.Mapping[str, t.Any]) -> list[Json]:
    """The devices of facts with those of their ports that are Active, in the form that lost_ports() takes."""
    devices = []
    for device in facts.get("devices", []):
        ports = [{"number": port["number"], "state": "Active"} for port in device["ports"] if port["state"] == "Active"]
        if ports:
            devices.append({"name": device["name"], "pci": address_of(device), "ports": ports})
    return devices
