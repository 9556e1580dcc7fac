# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a host's RoCE settings has to change, and what stands against it. Private to the collection. Pure.

Both the facts alone (prepare, before a node is touched) and the module roce_host (on the node) decide by plan_roce(); only what the
firmware of a card is set to is known to the module alone.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.words import first_of
from ansible_collections.fabric.rdma.plugins.module_utils._discover.roce import PRIORITIES
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce_files import changed_files, wanted_files
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce_wish import (
    Wished,
    chosen_devices,
    chosen_ports,
    pfc_list,
    read_want,
    read_wish,
)

__all__ = [
    "FIRMWARE_PROGRAMS",
    "Plan",
    "Step",
    "firmware_functions",
    "parse_firmware",
    "parse_tos",
    "plan_roce",
    "roce_needs",
]

Json = t.Mapping[str, t.Any]
Firmware = t.Mapping[str, t.Mapping[int, t.Optional[str]]]

# mstconfig of mstflint is the twin that distributions package.
FIRMWARE_PROGRAMS = ("mlxconfig", "mstconfig")
_LINK_LAYERS = {"ETH": "Ethernet", "IB": "InfiniBand"}
_LINK_TYPES = {"IB": 1, "ETH": 2}
_PARAMETER = re.compile(r"^[ \t]*\*?[ \t]*LINK_TYPE_P([1-9])[ \t]+(\S.*)$", re.MULTILINE)
# Settings that cost what runs something: the link goes, packets are paused or lost, or devices are seen no more. What a new connection
# carries, which packets are marked, and who answers for an address costs it nothing.
_HURTS = ("netns", "mtu", "trust", "pfc", "link_type")
_VALUE = re.compile(r"\b(IB|ETH|VPI)(?:\(\d\))?")


class Step(t.NamedTuple):
    """One change: of a file of /sys or /proc (path, value, and old that puts it back), or by a program (command, undo).

    before, after: in words, for the difference. directory: what has to be there first. later: it happens at the next boot all the same, so
    that it may fail now.
    """

    setting: str
    target: str
    before: str
    after: str
    path: t.Optional[str] = None
    value: str = ""
    old: t.Optional[str] = None
    command: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    directory: t.Optional[str] = None
    later: bool = False


class Plan(t.NamedTuple):
    """steps: in the order in which they are taken. files: what is written for the next boot, by path; None for one that goes.

    problems: why nothing of it may be done, in words. pending: what only a boot brings. reasons: what is not as wished. noted: link types
    that the firmware has, and that the port gets with a boot, by PCI address and parameter. drain: whether Pods that use the devices
    would be hurt.
    """

    steps: list[Step]
    files: dict[str, t.Optional[bytes]]
    problems: list[str]
    pending: list[str]
    reasons: list[str]
    noted: dict[str, str]
    drain: bool


def parse_firmware(text: str) -> dict[int, t.Optional[str]]:
    """{port: ETH|IB|None} from the next boot on, of what ``mlxconfig -d PCI -e q`` prints, which has columns Default, Current, Next Boot.

    Without -e there is the last one only. A port that it does not name has one protocol. None: a value that is neither, such as VPI.
    """
    found: dict[int, t.Optional[str]] = {}
    for port, values in _PARAMETER.findall(text):
        words = _VALUE.findall(values)
        found[int(port)] = words[-1] if words and words[-1] in _LINK_TYPES else None
    return found


def parse_tos(text: str) -> t.Optional[int]:
    """The ToS that cma_roce_tos prints, in its last line; None when it prints no number up to 255."""
    lines = text.split()
    return int(lines[-1]) if lines and re.fullmatch(r"[0-9]{1,3}", lines[-1]) and int(lines[-1]) <= 255 else None


def _names(names: t.Iterable[str]) -> str:
    return first_of(list(dict.fromkeys(names)), 8)


def _words(value: t.Any) -> str:
    if value is None:
        return "unknown"
    return "none" if value == [] else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


class _Planner:
    """What there is to do, collected setting by setting."""

    def __init__(
        self,
        facts: Json,
        wished: Wished,
        want: dict[str, t.Any],
        firmware: t.Optional[Firmware],
        ssh: t.Collection[str],
    ) -> None:
        self.facts, self.wished, self.want, self.firmware = facts, wished, want, firmware
        self.roce: Json = facts["roce"]
        self.programs: Json = self.roce["programs"]
        self.ports = chosen_ports(facts, want)
        self.steps: list[Step] = []
        self.problems: list[str] = []
        self.pending: list[str] = []
        self.reasons: list[str] = []
        self.noted: dict[str, str] = {}
        self.management = {*self.roce["under_default_route"], *ssh}
        # cards are still of the other sort, and their ports come with a boot
        self.ports_come = False

    def _problem(self, cause: str, remedy: str) -> None:
        sentence = f"{cause}; {remedy}"
        if sentence not in self.problems:
            self.problems.append(sentence)

    def _program(self, name: str, wish: str) -> t.Optional[str]:
        found: t.Optional[str] = self.programs.get(name)
        if found is None:
            self._problem(
                f"rdma_roce_host.{wish} needs {name}, which is not there",
                "install mlnx-tools (a driver of the vendor brings it, rdma_ofed), or take the wish out",
            )
        return found

    def netns(self) -> None:
        wish, now = self.wished.netns, self.roce["netns"]
        if wish is None or now["mode"] == wish:
            return
        what = f"the RDMA network namespace mode is {now['mode'] or 'unknown'}, {wish} is wanted"
        if self.wished.persist and now["persisted"] == wish:
            self.pending.append(f"{what}: it comes with the next boot")
            return
        program = self.programs.get("rdma")
        if program is None and not self.wished.persist:
            self._problem("rdma_roce_host.netns needs the program rdma, which is not there", "install iproute2 with it")
        elif program is None or now["mode"] is None:
            self.pending.append(f"{what}: it comes with the next boot")
        else:
            undo = (program, "system", "set", "netns", now["mode"])
            self.steps.append(
                Step(
                    "netns",
                    "RDMA devices",
                    now["mode"],
                    wish,
                    command=(*undo[:4], wish),
                    undo=undo,
                    later=self.wished.persist,
                )
            )

    def mtu(self) -> None:
        wish = self.wished.mtu
        for port in self.ports if wish is not None else ():
            netdev, now = port["netdev"], port["mtu"]
            if now == wish:
                continue
            if port["master"]:
                self._problem(
                    f"{netdev} is a member of {port['master']}, which gives it its MTU",
                    f"set the MTU where {port['master']} is configured, or leave {port['device']} out (rdma_want.exclude)",
                )
            elif netdev in self.management:
                self._problem(
                    f"{netdev} carries the default route or the connection to the host, so its MTU is not changed",
                    f"set it in the host's network configuration, or leave {port['device']} out (rdma_want.exclude)",
                )
            elif now is None:
                self._problem(f"{netdev} tells no MTU", "look at it with ip link")
            else:
                path = f"/sys/class/net/{netdev}/mtu"
                self.steps.append(Step("mtu", netdev, str(now), str(wish), path, str(wish), str(now)))

    def _cards(self, wish: str) -> list[Json]:
        cards = [card for port in self.ports for card in port["cards"]]
        if self.ports and not cards:
            self._problem(
                f"rdma_roce_host.{wish} is a setting of cards, and {_names(port['device'] for port in self.ports)} is not one",
                "take the wish out for this group, whose devices are virtual functions or software",
            )
        return cards

    def qos(self) -> None:
        """Trust before PFC: with another trust the priorities mean something else."""
        wishes: tuple[tuple[str, t.Any, t.Callable[[t.Any], str]], ...] = (
            ("trust", self.wished.trust, str),
            ("pfc", self.wished.pfc, pfc_list),
        )
        for name, wish, argument in wishes:
            cards = [card for card in self._cards(name) if card[name] != wish] if wish is not None else []
            program = self._program("mlnx_qos", name) if cards else None
            for card in cards if program else ():
                start = (str(program), "-i", card["netdev"])
                now = card[name]
                undo = () if now is None else (*start, f"--{name}={argument(now)}")
                command = (*start, f"--{name}={argument(wish)}")
                self.steps.append(Step(name, card["netdev"], _words(now), _words(wish), command=command, undo=undo))

    def ecn(self) -> None:
        wish = self.wished.ecn
        for card in self._cards("ecn") if wish is not None else ():
            if card["ecn"] is None:
                self._problem(
                    f"{card['netdev']} has no files for ECN (/sys/class/net/{card['netdev']}/ecn)",
                    "they come with the driver of MLNX_OFED or DOCA (rdma_ofed); the kernel's own has none",
                )
                continue
            for point in ("np", "rp"):
                for priority in PRIORITIES:
                    now, then = int(priority in card["ecn"][point]), int(priority in (wish or ()))
                    if now != then:
                        path = f"/sys/class/net/{card['netdev']}/ecn/roce_{point}/enable/{priority}"
                        where = f"{card['netdev']} {point} priority {priority}"
                        self.steps.append(Step("ecn", where, str(now), str(then), path, str(then), str(now)))

    def tos(self) -> None:
        wish = self.wished.tos
        for port in self.ports if wish is not None else ():
            device, number = port["device"], str(port["port"])
            if port["default_tos"] != wish:
                program = self._program("cma_roce_tos", "tos")
                if program:
                    start = (program, "-d", device, "-p", number, "-t")
                    self.steps.append(
                        Step(
                            "tos", f"{device} port {number}", _words(port["default_tos"]), str(wish),
                            command=(*start, str(wish)),
                            # the kernel begins with 0
                            undo=(*start, str(port["default_tos"] or 0)),
                            directory=f"/sys/kernel/config/rdma_cm/{device}",
                        )
                    )  # fmt: skip
            if port["has_traffic_class"] and port["traffic_class"] != wish:
                now = port["traffic_class"]
                path = f"/sys/class/infiniband/{device}/tc/{number}/traffic_class"
                # -1: each packet its own, as before anybody set one
                old = str(-1 if now is None else now)
                step = Step("traffic_class", f"{device} port {number}", _words(now), str(wish), path, str(wish), old)
                self.steps.append(step)

    def sysctls(self) -> None:
        netdevs = {port["address_netdev"]: port["ipv4"] for port in self.ports}
        for name, wish in self.wished.sysctls.items():
            most = self.roce["all"][name]
            if netdevs and most is not None and most > wish:
                self._problem(
                    f"net.ipv4.conf.all.{name} is {most}, and the kernel takes the larger one, so no netdev gets {wish}",
                    f"set net.ipv4.conf.all.{name} to {wish} at most where your site sets it, or wish for {most}",
                )
                continue
            for netdev, values in sorted(netdevs.items()):
                now = values[name]
                path = f"/proc/sys/net/ipv4/conf/{netdev}/{name}"
                if now is None:
                    self._problem(f"{path} is not there", f"see whether {netdev} has IPv4")
                elif now != wish:
                    self.steps.append(Step(name, netdev, str(now), str(wish), path, str(wish), str(now)))

    def link_type(self) -> None:
        wish = self.wished.link_type
        for device in chosen_devices(self.facts, self.want) if wish is not None else ():
            layer = _LINK_LAYERS[str(wish)]
            others = [port for port in device["ports"] if port["link_layer"] not in (layer, None)]
            if device["kind"] != "pf" or not device["pci"] or not others:
                continue
            for port in others:
                number = _firmware_port(device, port)
                key = f"{device['pci']}/LINK_TYPE_P{number}"
                self.ports_come = True
                if self.roce["pending"].get(key) == wish:
                    self.pending.append(f"{device['name']} ({device['pci']}) is {layer} from the next boot on")
                elif self.firmware is None:
                    self.reasons.append(f"{device['name']} is {port['link_layer']}, {layer} is wanted")
                else:
                    self._firmware(device, number, str(wish))

    def _firmware(self, device: Json, number: int, wish: str) -> None:
        """A card whose firmware the module has asked."""
        known = (self.firmware or {}).get(device["pci"])
        where = f"{device['name']} ({device['pci']})"
        program = next((self.programs[name] for name in FIRMWARE_PROGRAMS if self.programs.get(name)), None)
        if program is None or known is None:
            self._problem(
                f"the link type of {where} cannot be asked for: "
                + ("neither mlxconfig nor mstconfig is there" if program is None else f"{program} says nothing of it"),
                "install mft or mstflint, and see that the firmware may be changed (Secure Boot, lockdown)",
            )
            return
        # one function of a card with several hosts knows its own port only
        number = number if number in known or list(known) != [1] else 1
        parameter = f"LINK_TYPE_P{number}"
        netdevs = {*device["netdevs"], *(netdev["name"] for port in device["ports"] for netdev in port["netdevs"])}
        netdevs |= {member["netdev"] for member in (device["lag"] or {}).get("members") or []}
        mounts = self.facts["management"]["mounts_over_rdma"]
        if number not in known:
            self._problem(
                f"{where} has no {parameter}: it is a card of one protocol", "take out rdma_roce_host.link_type"
            )
        elif netdevs & self.management:
            self._problem(
                f"{_names(sorted(netdevs & self.management))} of {where} carries the default route or the connection to the host, "
                "which would not come back after the boot",
                f"leave {device['name']} out (rdma_want.exclude)",
            )
        elif mounts:
            self._problem(
                f"{mounts[0]['source']} is mounted over RDMA on {mounts[0]['target']}, which may need {where} as it is",
                f"unmount it, or leave {device['name']} out (rdma_want.exclude)",
            )
        elif known[number] == wish:
            self.noted[f"{device['pci']}/{parameter}"] = wish
            self.pending.append(
                f"the firmware of {where} has {parameter} {wish}, which comes with a reboot, or with power off and on"
            )
        else:
            start = (program, "-y", "-d", device["pci"], "set")
            now = known[number]
            undo = (*start, f"{parameter}={_LINK_TYPES[now]}") if now else ()
            command = (*start, f"{parameter}={_LINK_TYPES[wish]}")
            self.noted[f"{device['pci']}/{parameter}"] = wish
            self.steps.append(Step("link_type", where, now or "unknown", wish, command=command, undo=undo))
            self.pending.append(f"reboot: {where} gets the link type {wish} with it")

    def plan(self) -> Plan:
        wished = self.wished
        for decide in (self.netns, self.mtu, self.qos, self.ecn, self.tos, self.sysctls, self.link_type):
            decide()
        of_ports = [name for name in ("mtu", "trust", "pfc", "ecn", "tos") if getattr(wished, name) is not None]
        of_ports += ["arp, rp_filter"] if wished.sysctls else []
        if of_ports and not self.ports and not self.ports_come:
            self._problem(
                f"the host has no Ethernet port that rdma_want lets pass, so {', '.join(of_ports)} of rdma_roce_host has nowhere to go",
                "set rdma_want.link_layer: Ethernet for the group, or take the wish out",
            )
        elif of_ports and not self.ports:
            self.pending.append(f"{', '.join(of_ports)} follow when the ports are Ethernet: run again after the boot")
        files = changed_files(
            self.roce["files"], wanted_files(self.ports, wished, self.programs) if wished.persist else {}
        )
        # what a run that was killed has left
        self.reasons += ["a change of RoCE settings has not finished"] if self.roce.get("unfinished") else []
        reasons = [*_reasons(self.steps, files), *self.reasons]
        # of link types, as long as nobody has asked the firmware, there are reasons alone
        drain = bool(self.reasons) or any(step.setting in _HURTS for step in self.steps)
        return Plan(self.steps, files, self.problems, self.pending, reasons, self.noted, drain)


def _firmware_port(device: Json, port: Json) -> int:
    """Which port of the firmware it is: of a card with a function for each port, that of the function."""
    return int(port["number"]) if len(device["ports"]) > 1 else int(device["pci"].rpartition(".")[2]) + 1


def _reasons(steps: t.Iterable[Step], files: t.Collection[str]) -> list[str]:
    """What is not as wished, one sentence for all targets that are alike."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    cards: list[str] = []
    for step in steps:
        if step.setting == "ecn":
            # sixteen files a card say one thing
            cards.append(step.target.partition(" ")[0])
        else:
            alike.setdefault((step.setting, step.before, step.after), []).append(step.target)
    found = [f"{what} of {_names(targets)} is {now} instead of {then}" for (what, now, then), targets in alike.items()]
    found += [f"ECN of {_names(cards)} is not enabled for exactly the requested priorities"] if cards else []
    return found + (["files that keep it over a boot are not as wished"] if files else [])


def plan_roce(
    facts: Json,
    wish: t.Any,
    want: t.Any,
    firmware: t.Optional[Firmware] = None,
    ssh: t.Collection[str] = (),
) -> Plan:
    """What has to change on a host. facts: ansible_facts.rdma with the subsets devices, management and roce.

    wish, want: rdma_roce_host and rdma_want of its group; only what the wish names is changed, and only of devices that want lets pass
    (kinds, exclude). firmware: by PCI address what parse_firmware() found; None where nobody has asked, and then there is a reason in
    place of the step. ssh: netdevs that carry the connection to the host. WishError for a wish that makes no sense.
    """
    return _Planner(facts, read_wish(wish), read_want(want), firmware, ssh).plan()


def firmware_functions(facts: Json, wish: t.Any, want: t.Any) -> list[str]:
    """PCI addresses of the functions whose firmware has to be asked before plan_roce() can tell about the link type."""
    wished = read_wish(wish)
    layer = _LINK_LAYERS.get(wished.link_type or "")
    return [
        device["pci"]
        for device in chosen_devices(facts, read_want(want))
        if layer and device["kind"] == "pf" and device["pci"]
        and any(port["link_layer"] not in (layer, None) for port in device["ports"])
    ]  # fmt: skip


def roce_needs(facts: Json, wish: t.Any, want: t.Any) -> dict[str, t.Any]:
    """What the role roce_host has to do on a host: {needed, reasons, blocked, pending, drain}, the middle three in words.

    blocked: why it cannot be done there; the role says it and changes nothing. pending: what a boot brings, with which nothing is
    left to do for the role. drain: whether Pods have to leave first.
    """
    plan = plan_roce(facts, wish, want)
    return {
        "needed": bool(plan.reasons or plan.problems),
        "reasons": [*plan.reasons, *plan.problems],
        "blocked": plan.problems,
        "pending": plan.pending,
        "drain": plan.drain and not plan.problems,
    }
