# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has grown on the links of a host between two readings of its counters, and what of that is a failure. Private. Pure.

A reading is what the module link_counters returns; nodes made it, so nothing in it is taken for granted. A counter that is missing in
one of both readings is not zero: nothing is said of it. The counters of errors in ports/N/counters stop at the highest value of their 4 to
16 bits (InfiniBand Architecture, 16.1.3.5); mlx5's counters of queue pairs wrap at 32 bits; a driver that is loaded again begins at 0.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.text import WIDTH, fold_text, printable

__all__ = ["HostLink", "LinkHealth", "compare_links", "failures_of_links", "links_table"]

Verdict = t.Literal["pass", "note", "fail"]


class Grown(t.TypedDict):
    """growth: at least, where the counter stopped at its highest value. per_second: None where nobody knows how long it took."""

    counter: str
    growth: int
    per_second: t.Optional[float]
    verdict: Verdict
    meaning: str


class LinkHealth(t.TypedDict):
    """One port of an RDMA device, or one of its netdevs. reset: why growth counts from 0; None as a rule. grown: the worst first."""

    device: str
    port: t.Optional[int]
    netdev: t.Optional[str]
    seconds: t.Optional[float]
    reset: t.Optional[str]
    verdict: Verdict
    grown: list[Grown]
    message: str
    remedy: t.Optional[str]


class _Rule(t.NamedTuple):
    """sort: wire (any growth fails), again (retransmissions: a share of the packets fails), note. bits: of a counter that stops."""

    sort: str
    meaning: str
    bits: int = 0


_WIRE = "damaged on the wire"
_RULES: dict[str, _Rule] = {
    # ports/N/counters
    "symbol_error": _Rule("wire", f"symbols {_WIRE}", 16),
    "link_error_recovery": _Rule("wire", "the link recovered from errors", 8),
    "link_downed": _Rule("wire", "the link was lost", 8),
    "port_rcv_errors": _Rule("wire", f"packets received that were {_WIRE}", 16),
    "port_rcv_remote_physical_errors": _Rule("wire", "packets received that a switch had marked as damaged", 16),
    "local_link_integrity_errors": _Rule("wire", "too many errors in a row on the wire", 4),
    "excessive_buffer_overrun_errors": _Rule("wire", "buffers ran over: flow control fails", 4),
    "port_rcv_constraint_errors": _Rule("note", "packets of a partition that is not allowed", 8),
    "port_xmit_constraint_errors": _Rule("note", "packets of a partition that is not allowed", 8),
    "port_rcv_switch_relay_errors": _Rule("note", "packets that a switch could not pass on", 16),
    "port_xmit_discards": _Rule("note", "packets discarded while the port was congested or down", 16),
    "VL15_dropped": _Rule("note", "management packets dropped", 16),
    "port_xmit_wait": _Rule("note", "ticks with data and without credits: congestion", 32),
    # ports/N/hw_counters
    "out_of_sequence": _Rule("again", "packets out of sequence: some were lost"),
    "packet_seq_err": _Rule("again", "the other side asked for lost packets again"),
    "implied_nak_seq_err": _Rule("again", "the other side missed packets"),
    "local_ack_timeout_err": _Rule("again", "no answer in time: sent again"),
    "out_of_seq_request": _Rule("again", "requests out of sequence: some were lost"),
    "rcvd_seq_err": _Rule("again", "the other side asked for lost packets again"),
    "completer_retry_err": _Rule("again", "no answer in time: sent again"),
    "retry_exceeded_err": _Rule("wire", "gave up after all retries"),
    "rx_icrc_encapsulated": _Rule("wire", "RoCE packets with a wrong checksum"),
    "rnr_nak_retry_err": _Rule("note", "the receiver had no buffer ready"),
    "rcvd_rnr_err": _Rule("note", "the receiver had no buffer ready"),
    "send_rnr_err": _Rule("note", "no buffer was ready for what came"),
    "out_of_buffer": _Rule("note", "no buffer was ready for what came"),
    "duplicate_request": _Rule("note", "requests came twice"),
    "roce_adp_retrans": _Rule("note", "adaptive retransmissions"),
    "roce_slow_restart": _Rule("note", "slow restarts after losses"),
    "send_err": _Rule("note", "packets that could not be sent"),
    "np_cnp_sent": _Rule("note", "congestion notifications sent (ECN)"),
    "np_ecn_marked_roce_packets": _Rule("note", "packets marked by ECN: congestion"),
    "rp_cnp_handled": _Rule("note", "congestion notifications obeyed (ECN)"),
    "rp_cnp_ignored": _Rule("note", "congestion notifications ignored: ECN is off on this side"),
    # netdevs
    "carrier_downs": _Rule("wire", "the link was lost"),
    "link_down_events_phy": _Rule("wire", "the link was lost"),
    "rx_crc_errors": _Rule("wire", f"frames {_WIRE}"),
    "rx_crc_errors_phy": _Rule("wire", f"frames {_WIRE}"),
    "rx_symbol_err_phy": _Rule("wire", f"symbols {_WIRE}"),
    "rx_pcs_symbol_err_phy": _Rule("wire", f"symbols {_WIRE} beyond what FEC corrects"),
    "tx_pause_storm_error_events": _Rule("wire", "a storm of pauses: the card stopped sending them"),
    "tx_pause_storm_warning_events": _Rule("note", "pauses sent for a long time"),
    "rx_discards_phy": _Rule("note", "frames dropped because the card's buffers were full"),
    "rx_dropped": _Rule("note", "packets dropped"),
    "rx_errors": _Rule("note", "packets that could not be received"),
    "tx_dropped": _Rule("note", "packets dropped"),
    "tx_errors": _Rule("note", "packets that could not be sent"),
    "rx_global_pause": _Rule("note", "pauses that the switch asked for"),
    "rx_pause_ctrl_phy": _Rule("note", "pauses that the switch asked for"),
    "tx_global_pause": _Rule("note", "pauses that this host asked for"),
    "tx_pause_ctrl_phy": _Rule("note", "pauses that this host asked for"),
    **{f"rx_prio{number}_pause": _Rule("note", "pauses that the switch asked for (PFC)") for number in range(8)},
    **{f"tx_prio{number}_pause": _Rule("note", "pauses that this host asked for (PFC)") for number in range(8)},
}
# Of packets, where the card or Soft-RoCE counts them: more of them are sent again than this share only on a sick link. Soft-RoCE on a busy
# machine loses some without one, and answers late however few packets there are.
_SHARE, _SOFTWARE_SHARE = 1e-5, 0.01
_SOFTWARE_LEAST = 10
_PACKETS = ("port_xmit_packets", "port_rcv_packets")
_SOFTWARE_PACKETS = ("sent_pkts", "rcvd_pkts")
_WRAP = 1 << 32
_MOST_ROWS, _MOST_TEXT, _MOST_COUNT, _MOST_LINES = 4096, 64, 1 << 64, 20
_UNKNOWN = "it shows no counter of errors, so whether some grew is not known"
_ORDER = {"fail": 0, "note": 1, "pass": 2}
_REMEDIES = {
    "wire": "clean or replace the cable and its transceivers, look at the same counters of the switch's port, and measure again",
    "again": "look for where packets are lost: discards of the switch's port, PFC and ECN of both sides (rdma_roce_host), then the cable",
    "gone": "look at dmesg of the host: the driver was unloaded, or the card fell off the bus",
}


class HostLink(LinkHealth):
    """A row of the evidence."""

    host: str


_Key = t.Tuple[str, t.Optional[int], t.Optional[str]]
_Counts = t.Dict[str, int]
# What begins at 0 at the same time: perfquery -R and the PerfMgr of OpenSM clear ports/N/counters alone, mlxlink --pc those of the wire.
_Parts = t.Tuple[_Counts, ...]


def _is_number(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _counts(*parts: t.Any) -> _Counts:
    """The counters of a row that are there and make sense."""
    found = {}
    for part in parts:
        for name, value in part.items() if isinstance(part, t.Mapping) else ():
            if isinstance(name, str) and _is_number(value) and 0 <= value < _MOST_COUNT:
                found[name] = value
    return found


def _rows(reading: t.Mapping[str, t.Any]) -> dict[_Key, _Parts]:
    """The counters of a reading by (device, port, netdev)."""
    found: dict[_Key, _Parts] = {}
    for key in ("ports", "netdevs"):
        rows = reading.get(key)
        for row in rows[:_MOST_ROWS] if isinstance(rows, (list, tuple)) else ():
            if not isinstance(row, t.Mapping) or not isinstance(row.get("device"), str):
                continue
            # a node may call them what it likes, and they are printed
            device = printable(row["device"][:_MOST_TEXT])
            if key == "ports" and _is_number(row.get("port")):
                found[(device, row["port"], None)] = _counts(row.get("counters")), _counts(row.get("hw_counters"))
            elif key == "netdevs" and isinstance(row.get("netdev"), str):
                kernel = _counts(row.get("statistics"), {"carrier_downs": row.get("carrier_downs")})
                found[(device, None, printable(row["netdev"][:_MOST_TEXT]))] = kernel, _counts(row.get("counters"))
    return found


def _wrapped(before: int, after: int) -> bool:
    """Whether a counter of 32 bits went on from 0, rather than began again."""
    return _WRAP * 3 // 4 <= before < _WRAP and after < _WRAP // 4


def _began_again(before: _Counts, after: _Counts) -> bool:
    """Whether somebody set the counters of a part to 0: one is less than it was, and has not wrapped."""
    shared = before.keys() & after.keys()
    # one that stops at its highest value does not wrap
    return any(
        after[name] < before[name]
        and not (_RULES.get(name, _Rule("note", "")).bits == 0 and _wrapped(before[name], after[name]))
        for name in shared
    )


def _growth(before: _Counts, after: _Counts, again: bool) -> _Counts:
    """By how much each counter has grown that both readings have. again: those of errors since they began at 0, after the first reading."""
    found = {}
    for name in before.keys() & after.keys():
        growth = after[name] - before[name]
        # packets may have gone on (ibqueryerrors -k), and those of months would excuse any error
        if again and (name in _RULES or growth < 0):
            growth = after[name]
        found[name] = growth + _WRAP if growth < 0 else growth
    return found


def _uptime(value: t.Any) -> t.Optional[float]:
    return float(value) if type(value) in (int, float) and 0 <= value < 1e12 else None


def _seconds(before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any], booted: bool) -> t.Optional[float]:
    first, last = (_uptime(reading.get("uptime_s")) for reading in (before, after))
    if first is None or last is None:
        return None
    passed = last - (0.0 if booted else first)
    return round(passed, 2) if passed > 0 else None


def _verdict(name: str, growth: int, packets: t.Optional[int], software: bool) -> t.Optional[Verdict]:
    """None for a counter that does not matter, such as those of packets. packets: None where nobody counts them."""
    rule = _RULES.get(name)
    if rule is None or growth == 0:
        return None
    if rule.sort == "again":
        share, least = (_SOFTWARE_SHARE, _SOFTWARE_LEAST) if software else (_SHARE, 0)
        return "fail" if packets is None or growth > max(share * packets, least) else "note"
    return "fail" if rule.sort == "wire" else "note"


def _judged(growth: _Counts, seconds: t.Optional[float]) -> list[Grown]:
    """What has grown, the worst first."""
    software = "sent_pkts" in growth
    packets: t.Optional[int] = None
    for name in _SOFTWARE_PACKETS if software else _PACKETS:
        if name in growth:
            packets = (packets or 0) + growth[name]
    # nothing moved that is counted there: the packets are somebody else's
    packets = packets or None
    found: list[Grown] = []
    for name, count in growth.items():
        verdict = _verdict(name, count, packets, software)
        if verdict is not None:
            rate = None if seconds is None else round(count / seconds, 3)
            meaning = _RULES[name].meaning
            found.append({"counter": name, "growth": count, "per_second": rate, "verdict": verdict, "meaning": meaning})
    return sorted(found, key=lambda each: (_ORDER[each["verdict"]], -each["growth"], each["counter"]))


def _in_words(grown: t.Sequence[Grown], seconds: t.Optional[float], reset: t.Optional[str]) -> str:
    words = []
    for each in [each for each in grown if each["verdict"] == "fail"] or grown:
        rate = "" if each["per_second"] is None else f" ({each['per_second']:g} per second)"
        words.append(f"{each['counter']} grew by {each['growth']}{rate}: {each['meaning']}")
    time = "" if seconds is None else f" in {seconds:g} s"
    text = "; ".join(words[:4]) + (f"; and {len(words) - 4} more" if len(words) > 4 else "")
    return ((text + time) if text else "nothing has grown") + (f"; {reset}" if reset else "")


def _full(before: _Counts, after: _Counts) -> list[str]:
    """Counters of errors on the wire that have stopped at their highest value, with it."""
    return [
        f"{name} ({before[name]})"
        for name in sorted(before.keys() & after.keys() & _RULES.keys())
        if _RULES[name].sort == "wire" and before[name] == after[name] == (1 << _RULES[name].bits) - 1 > 0
    ]


def _whole(parts: _Parts) -> _Counts:
    return {name: count for part in parts for name, count in part.items()}


def _link(key: _Key, before: _Parts, after: t.Optional[_Parts], seconds: t.Optional[float], booted: bool) -> LinkHealth:
    device, port, netdev = key
    row: LinkHealth = {
        "device": device,
        "port": port,
        "netdev": netdev,
        "seconds": seconds,
        "reset": None,
        "verdict": "fail",
        "grown": [],
        "message": "it was there before the traffic, and no longer is",
        "remedy": _REMEDIES["gone"],
    }
    if after is None:
        return row
    if booted:
        row["reset"] = "the host was rebooted in between"
        before = tuple(dict.fromkeys(part, 0) for part in before)
    again = [_began_again(one, other) for one, other in zip(before, after)]
    if any(again):
        row["reset"] = "its counters began again: the driver was loaded again, or somebody set them to 0"
    grown = _judged(_whole(tuple(map(_growth, before, after, again))), seconds)
    row["grown"] = grown
    first, last = _whole(before), _whole(after)
    # what nobody can see has not passed
    silent = not (first.keys() & last.keys() & _RULES.keys())
    full = [] if row["reset"] else _full(first, last)
    row["verdict"] = grown[0]["verdict"] if grown else "note" if row["reset"] or silent or full else "pass"
    row["message"] = _UNKNOWN if silent and not row["reset"] else _in_words(grown, seconds, row["reset"])
    if full:
        names = f"{', '.join(full)} {'is at its' if len(full) == 1 else 'are at their'} highest value"
        row["message"] += (
            f"; {names}: further errors are not counted until the counters are cleared (perfquery -R, or the driver loaded again)"
        )
    row["remedy"] = None
    if row["verdict"] == "fail":
        sorts = {_RULES[each["counter"]].sort for each in grown if each["verdict"] == "fail"}
        row["remedy"] = _REMEDIES["wire" if "wire" in sorts else "again"]
    return row


def _is_reading(value: t.Any) -> bool:
    return isinstance(value, t.Mapping) and isinstance(value.get("ports"), (list, tuple))


def compare_links(before: t.Any, after: t.Any) -> list[LinkHealth]:
    """Each link that the first of two readings of a host has, sorted, with what has grown until the second.

    Missing readings (the host was lost) give nothing: what was not read is not judged here.
    """
    if not _is_reading(before) or not _is_reading(after):
        return []
    known = [reading.get("boot_id") for reading in (before, after)]
    booted = all(isinstance(each, str) for each in known) and known[0] != known[1]
    seconds = _seconds(before, after, booted)
    first, last = _rows(before), _rows(after)
    keys = sorted(first, key=lambda key: (key[0], -1 if key[1] is None else key[1], key[2] or ""))
    return [_link(key, first[key], last.get(key), seconds, booted) for key in keys]


def _name(row: LinkHealth) -> str:
    return f"{row['device']} ({row['netdev']})" if row["netdev"] else f"{row['device']} port {row['port']}"


def failures_of_links(host: str, rows: t.Iterable[LinkHealth]) -> list[str]:
    """A sentence on each link of a host that failed: which counter, by how much, what to do."""
    return [
        f"{host} {_name(row)}: {row['message']}. Remedy: {row['remedy']}" for row in rows if row["verdict"] == "fail"
    ]


def links_table(rows: t.Sequence[HostLink], unread: t.Sequence[str] = ()) -> list[str]:
    """Lines of at most 100 columns: how many links are well, and each that is not, the worst first. unread: hosts that did not tell."""
    told = sorted((row for row in rows if row["verdict"] != "pass"), key=lambda row: _ORDER[row["verdict"]])
    lines = [f"links: {len(rows)} looked at before and after, {len(rows) - len(told)} without findings"]
    for row in told[:_MOST_LINES]:
        lines += fold_text(f"  {row['verdict']}: {row['host']} {_name(row)}: {row['message']}", WIDTH)
    lines += [f"  and {len(told) - _MOST_LINES} more"] if len(told) > _MOST_LINES else []
    return lines + (fold_text(f"  not looked at: {', '.join(unread)}", WIDTH) if unread else [])
