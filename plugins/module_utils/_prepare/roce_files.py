# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that bring RoCE settings back after a boot, and when a driver recreates a device. Private to the collection. Pure.

Values in sysfs, PFC, trust and ToS live in the driver and go with its netdev: a unit for each RDMA device sets them, which a udev
rule starts whenever the device appears, once its netdev is there. systemd-tmpfiles writes the files of sysfs, so that no shell reads
a name. Settings below net/ipv4/conf are systemd-sysctl's, which udev runs for each new netdev (99-systemd.rules).
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.digest import digest
from ansible_collections.fabric.rdma.plugins.module_utils._discover.roce import (
    MODPROBE,
    PRIORITIES,
    RULES,
    SYSCTL,
    UNITS,
    VALUES,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce_wish import Wished, pfc_list

__all__ = ["changed_files", "wanted_files"]

Json = t.Mapping[str, t.Any]

_HEAD = "# Made by fabric.rdma.roce_host. Changes are overwritten: set rdma_roce_host in the inventory.\n"


def _values(port: Json, wished: Wished) -> list[str]:
    """Lines of tmpfiles.d(5) that write to sysfs. A file that is not there is passed over."""
    found: list[tuple[str, t.Any]] = []
    if wished.mtu is not None:
        found.append((f"/sys/class/net/{port['netdev']}/mtu", wished.mtu))
    for card in port["cards"] if wished.ecn is not None else ():
        found += [
            (f"/sys/class/net/{card['netdev']}/ecn/roce_{point}/enable/{priority}", int(priority in (wished.ecn or ())))
            for point in ("np", "rp")
            for priority in PRIORITIES
        ]
    if wished.tos is not None and port["has_traffic_class"]:
        found.append((f"/sys/class/infiniband/{port['device']}/tc/{port['port']}/traffic_class", wished.tos))
    return [f"w {path} - - - - {value}\n" for path, value in found]


def _commands(port: Json, wished: Wished, programs: Json) -> list[str]:
    """Command lines of a unit. No name in them has a space or a sign that systemd reads (_discover/roce.py)."""
    found = []
    for card in port["cards"]:
        qos = f"{programs.get('mlnx_qos')} -i {card['netdev']}"
        if wished.trust is not None:
            found.append(f"{qos} --trust={wished.trust}")
        if wished.pfc is not None:
            found.append(f"{qos} --pfc={pfc_list(wished.pfc)}")
    if wished.tos is not None:
        # Without it there is no place for the ToS, and cma_roce_tos does not load it. rdma-core does when the device appears, which is
        # when the unit starts, too.
        found.append("/sbin/modprobe rdma_cm")
        # without the directory nobody could see the value afterwards
        found.append(f"/bin/mkdir -p /sys/kernel/config/rdma_cm/{port['device']}")
        found.append(f"{programs.get('cma_roce_tos')} -d {port['device']} -p {port['port']} -t {wished.tos}")
    return found


def _unit(device: str, netdevs: t.Iterable[str], commands: t.Iterable[str]) -> str:
    # systemd.unit(5), "String escaping for inclusion in unit names"
    needs = " ".join(f"sys-subsystem-net-devices-{name.replace('-', chr(92) + 'x2d')}.device" for name in netdevs)
    lines = [
        "[Unit]",
        f"Description=RoCE settings of {device}",
        f"Requires={needs}",
        f"After={needs}",
        "",
        "[Service]",
        "Type=oneshot",
        # each is tried, whatever became of the one before
        *(f"ExecStart=-{command}" for command in commands),
    ]
    return _HEAD + "".join(line + "\n" for line in lines)


def wanted_files(ports: t.Sequence[Json], wished: Wished, programs: Json) -> dict[str, bytes]:
    """What the files of a host have to say, by path. programs: their paths by name (ansible_facts.rdma.roce.programs)."""
    texts: dict[str, str] = {}
    if wished.netns is not None:
        texts[MODPROBE] = f"{_HEAD}options ib_core netns_mode={int(wished.netns == 'shared')}\n"
    if wished.sysctls and ports:
        netdevs = sorted({port["address_netdev"] for port in ports})
        # with slashes, since a netdev's name may have dots (sysctl.d(5))
        lines = [
            f"net/ipv4/conf/{netdev}/{name} = {value}\n" for netdev in netdevs for name, value in wished.sysctls.items()
        ]
        texts[SYSCTL] = _HEAD + "".join(lines)
    rules = []
    for device in sorted({port["device"] for port in ports}):
        own = [port for port in ports if port["device"] == device]
        values = [line for port in own for line in _values(port, wished)]
        commands = [line for port in own for line in _commands(port, wished, programs)]
        if values:
            path = VALUES.replace("*", device)
            texts[path] = _HEAD + "".join(values)
            commands.insert(0, f"{programs.get('systemd-tmpfiles') or '/usr/bin/systemd-tmpfiles'} --create {path}")
        if commands:
            path = UNITS.replace("*", device)
            netdevs = sorted({name for port in own for name in (port["netdev"], *(c["netdev"] for c in port["cards"]))})
            texts[path] = _unit(device, netdevs, commands)
            rules.append(
                f'ACTION!="remove", SUBSYSTEM=="infiniband", KERNEL=="{device}", TAG+="systemd", '
                f'ENV{{SYSTEMD_WANTS}}+="{path.rpartition("/")[2]}"\n'
            )
    if rules:
        texts[RULES] = _HEAD + "".join(rules)
    return {path: text.encode("ascii") for path, text in texts.items()}


def changed_files(found: Json, wanted: t.Mapping[str, bytes]) -> dict[str, t.Optional[bytes]]:
    """What has to be written, by path; None for a file of ours that goes. found: digests by path (ansible_facts.rdma.roce.files)."""
    changes: dict[str, t.Optional[bytes]] = {path: None for path in found if path not in wanted}
    changes.update((path, data) for path, data in wanted.items() if found.get(path) != digest(data))
    return dict(sorted(changes.items()))
