# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._discover.health import COUNTERS, HW_COUNTERS, STATISTICS
from ansible_collections.fabric.rdma.plugins.module_utils._verify.links import (
    LinkHealth,
    compare_links,
    failures_of_links,
    links_table,
)

Json = dict[str, Any]
# those that a port has and that tell of something wrong
ERRORS = {*COUNTERS, *HW_COUNTERS} - {
    "port_rcv_data",
    "port_rcv_packets",
    "port_xmit_data",
    "port_xmit_packets",
    "rcvd_pkts",
    "req_cqe_error",
    "req_remote_access_errors",
    "resp_cqe_error",
    "resp_remote_access_errors",
    "sent_pkts",
}
PACKETS = {"port_xmit_packets": 0, "port_rcv_packets": 0}
MOVED = {"port_xmit_packets": 600_000, "port_rcv_packets": 400_000}


def reading(uptime: float | None = 100.0, boot: str | None = "b1", **counters: int | None) -> Json:
    hardware = {name: counters.pop(name) for name in list(counters) if name in HW_COUNTERS}
    port = {"device": "mlx5_0", "port": 1, "counters": counters, "hw_counters": hardware}
    return {"uptime_s": uptime, "boot_id": boot, "ports": [port], "netdevs": []}


def wire(carrier_downs: int = 0, **counters: int) -> Json:
    statistics = {name: counters.pop(name) for name in list(counters) if name in STATISTICS}
    row = {"netdev": "eth0", "device": "mlx5_0", "carrier_downs": carrier_downs, "statistics": statistics}
    return {"uptime_s": 1.0, "boot_id": "b", "ports": [], "netdevs": [{**row, "counters": counters, "cable": None}]}


def compared(before: Json, after: Json) -> LinkHealth:
    [row] = compare_links(before, after)
    return row


def test_errors_that_grow_fail_with_the_counter_and_its_rate() -> None:
    row = compared(reading(100.0, symbol_error=5, **PACKETS), reading(108.0, symbol_error=17, **MOVED))
    assert (row["verdict"], row["seconds"], row["reset"]) == ("fail", 8.0, None)
    [grown] = row["grown"]
    assert (grown["counter"], grown["growth"], grown["per_second"]) == ("symbol_error", 12, 1.5)
    [words] = failures_of_links("n1", [row])
    assert words.startswith(
        "n1 mlx5_0 port 1: symbol_error grew by 12 (1.5 per second): symbols damaged on the wire in 8 s"
    )
    assert "cable" in words


def test_errors_from_before_are_no_failure() -> None:
    row = compared(
        reading(symbol_error=9999, link_downed=3, **PACKETS), reading(108, symbol_error=9999, link_downed=3, **MOVED)
    )
    assert (row["verdict"], row["grown"], row["message"], row["remedy"]) == ("pass", [], "nothing has grown", None)
    assert failures_of_links("n1", [row]) == []


FAIL = (
    "symbol_error link_downed link_error_recovery port_rcv_errors local_link_integrity_errors excessive_buffer_overrun_errors "
    "port_rcv_remote_physical_errors rx_icrc_encapsulated retry_exceeded_err out_of_sequence packet_seq_err implied_nak_seq_err "
    "local_ack_timeout_err out_of_seq_request rcvd_seq_err completer_retry_err"
)
NOTE = (
    "port_xmit_discards port_xmit_wait VL15_dropped np_cnp_sent np_ecn_marked_roce_packets rp_cnp_handled rnr_nak_retry_err "
    "out_of_buffer port_rcv_switch_relay_errors"
)


@pytest.mark.parametrize(
    ("name", "verdict"), [(name, "fail") for name in FAIL.split()] + [(name, "note") for name in NOTE.split()]
)
def test_what_is_a_failure_and_what_a_note(name: str, verdict: str) -> None:
    row = compared(reading(**{name: 1}), reading(108, **{name: 4}))
    assert (row["verdict"], [grown["counter"] for grown in row["grown"]]) == (verdict, [name])
    assert (row["remedy"] is not None) == (verdict == "fail")


@pytest.mark.parametrize(
    ("counters", "verdict"),
    [
        ({"carrier_downs": 1}, "fail"),
        ({"rx_crc_errors": 1}, "fail"),
        ({"rx_symbol_err_phy": 1}, "fail"),
        ({"tx_pause_storm_error_events": 1}, "fail"),
        ({"rx_prio3_pause": 100}, "note"),
        ({"rx_global_pause": 100}, "note"),
        ({"rx_discards_phy": 100}, "note"),
        ({"rx_prio3_pause_duration": 100}, "pass"),
    ],
)
def test_errors_on_the_wire_fail_the_netdev(counters: dict[str, int], verdict: str) -> None:
    row = compared(wire(**dict.fromkeys(counters, 0)), wire(**counters))
    assert (row["verdict"], row["netdev"], row["port"]) == (verdict, "eth0", None)
    assert [text.startswith("n1 mlx5_0 (eth0): ") for text in failures_of_links("n1", [row])] == [True] * (
        verdict == "fail"
    )


@pytest.mark.parametrize(("growth", "verdict"), [(10, "note"), (11, "fail")])
def test_a_few_retransmissions_in_a_million_packets_are_a_note(growth: int, verdict: str) -> None:
    row = compared(reading(out_of_sequence=0, **PACKETS), reading(out_of_sequence=growth, **MOVED))
    assert row["verdict"] == verdict
    assert row["remedy"] is None or "PFC" in row["remedy"]


@pytest.mark.parametrize(("growth", "verdict"), [(100, "note"), (101, "fail")])
def test_software_loses_one_in_a_hundred_without_a_sick_link(growth: int, verdict: str) -> None:
    row = compared(
        reading(rcvd_seq_err=0, sent_pkts=0, rcvd_pkts=0), reading(rcvd_seq_err=growth, sent_pkts=9000, rcvd_pkts=1000)
    )
    assert row["verdict"] == verdict


@pytest.mark.parametrize(("growth", "verdict"), [(10, "note"), (11, "fail")])
def test_software_on_a_busy_machine_answers_late_however_few_packets_there_are(growth: int, verdict: str) -> None:
    before = reading(completer_retry_err=0, sent_pkts=0, rcvd_pkts=0)
    row = compared(before, reading(completer_retry_err=growth, sent_pkts=60, rcvd_pkts=60))
    assert row["verdict"] == verdict


def test_a_missing_counter_is_not_zero() -> None:
    for before, after in ((None, 9), (9, None), (None, None)):
        assert compared(reading(symbol_error=before), reading(symbol_error=after))["grown"] == []


def test_a_counter_of_32_bits_that_wraps_goes_on() -> None:
    row = compared(reading(local_ack_timeout_err=2**32 - 3), reading(local_ack_timeout_err=4))
    assert (row["reset"], row["grown"][0]["growth"]) == (None, 7)


def test_a_driver_that_was_loaded_again_counts_from_zero() -> None:
    row = compared(
        reading(symbol_error=500, local_ack_timeout_err=7, link_downed=1),
        reading(symbol_error=2, local_ack_timeout_err=3, link_downed=2),
    )
    assert row["reset"]
    assert "loaded again" in row["message"]
    assert {grown["counter"]: grown["growth"] for grown in row["grown"]} == {
        "symbol_error": 2,
        "local_ack_timeout_err": 3,
        "link_downed": 2,
    }
    quiet = compared(reading(symbol_error=500), reading(symbol_error=0))
    assert (quiet["verdict"], quiet["grown"]) == ("note", [])


def test_counters_that_somebody_cleared_say_nothing_of_the_others() -> None:
    """perfquery -R and the PerfMgr of OpenSM clear those of the port; those of queue pairs go on from where they were."""
    row = compared(
        reading(port_rcv_errors=3, symbol_error=500, out_of_sequence=90_000, **PACKETS),
        reading(108, port_rcv_errors=0, symbol_error=2, out_of_sequence=90_000, **MOVED),
    )
    assert {grown["counter"]: grown["growth"] for grown in row["grown"]} == {"symbol_error": 2}
    quiet = compared(
        reading(symbol_error=9, local_ack_timeout_err=7000, **MOVED),
        reading(108, symbol_error=0, local_ack_timeout_err=7000, port_xmit_packets=5, port_rcv_packets=5),
    )
    assert (quiet["verdict"], quiet["grown"], quiet["remedy"]) == ("note", [], None)
    assert quiet["reset"]
    # mlxlink --pc clears those of the wire, and the kernel's go on
    assert compared(wire(2, rx_symbol_err_phy=8), wire(2, rx_symbol_err_phy=0))["grown"] == []


def test_packets_from_before_excuse_nothing_where_only_errors_were_cleared() -> None:
    """ibqueryerrors -k leaves the packets of months."""
    before = {"port_xmit_packets": 10**12, "port_rcv_packets": 10**12}
    after = {name: count + 500_000 for name, count in before.items()}
    row = compared(
        reading(symbol_error=9, out_of_sequence=10, **before),
        reading(108, symbol_error=0, out_of_sequence=900, **after),
    )
    assert (row["verdict"], row["grown"][0]["growth"]) == ("fail", 890)


def test_an_error_counter_stops_and_does_not_wrap() -> None:
    assert compared(reading(symbol_error=65_000), reading(symbol_error=65_535))["grown"][0]["growth"] == 535
    assert compared(reading(symbol_error=65_535), reading(symbol_error=65_535))["verdict"] == "note"
    assert compared(reading(port_xmit_wait=2**32 - 1), reading(port_xmit_wait=5))["reset"]


@pytest.mark.parametrize(
    ("counters", "named"),
    [
        ({"symbol_error": 65535, "link_downed": 254}, ["symbol_error (65535) is at its highest value"]),
        ({"local_link_integrity_errors": 15}, ["local_link_integrity_errors (15) is at its highest value"]),
        (
            {"link_downed": 255, "symbol_error": 65535},
            ["link_downed (255), symbol_error (65535) are at their highest value"],
        ),
        # of those that tell of no error on the wire, many stand there
        ({"port_xmit_wait": 2**32 - 1, "symbol_error": 65534}, []),
    ],
)
def test_a_counter_that_has_stopped_has_not_passed(counters: dict[str, int], named: list[str]) -> None:
    """The worst link of a fabric has long counted as far as it can."""
    row = compared(reading(**counters, **PACKETS), reading(108, **counters, **MOVED))
    assert (row["verdict"], row["remedy"]) == ("note" if named else "pass", None)
    assert [words for words in named if words in row["message"]] == named
    assert ("perfquery -R" in row["message"]) is bool(named)
    grown = compared(reading(**counters, port_rcv_errors=0), reading(108, **counters, port_rcv_errors=1))
    assert grown["verdict"] == "fail"


def test_a_host_that_was_booted_meanwhile() -> None:
    row = compared(reading(5000, "b1", link_downed=7), reading(60, "b2", link_downed=9))
    assert (row["reset"], row["seconds"], row["grown"][0]["growth"]) == ("the host was rebooted in between", 60.0, 9)


def test_a_port_that_is_gone_fails() -> None:
    after = {**reading(), "ports": []}
    row = compared(reading(symbol_error=0), after)
    assert (row["verdict"], row["grown"]) == ("fail", [])
    assert "dmesg" in failures_of_links("n1", [row])[0]


def test_nobody_knows_the_rate_without_a_clock() -> None:
    for first, last in ((None, 108.0), (100.0, 100.0), (100.0, 50.0)):
        row = compared(reading(first, symbol_error=0), reading(last, symbol_error=3))
        assert (row["seconds"], row["grown"][0]["per_second"]) == (None, None)
        assert "per second" not in row["message"]


def test_a_port_without_counters_of_errors_is_not_well() -> None:
    """Soft-iWARP and some virtual functions have none, and those of packets say nothing of errors."""
    nothing = reading(symbol_error=None, out_of_sequence=None)
    for before, after in ((nothing, nothing), (reading(**PACKETS), reading(108, **MOVED)), (reading(), nothing)):
        row = compared(before, after)
        assert (row["verdict"], row["grown"], row["remedy"]) == ("note", [], None)
        assert row["message"] == "it shows no counter of errors, so whether some grew is not known"


def test_a_host_that_was_not_read_is_not_judged() -> None:
    assert compare_links(None, reading()) == compare_links(reading(), None) == compare_links([], {}) == []


def test_names_of_a_node_do_nothing_where_they_are_shown() -> None:
    """Neither to a terminal, nor to a file that has to be UTF-8."""
    before, after = reading(symbol_error=0, **PACKETS), reading(110.0, symbol_error=9, **MOVED)
    for each in (before, after):
        each["ports"][0]["device"] = "mlx5_0\x1b[2J\ud800"
        each["netdevs"] = [{"device": "mlx5_0", "netdev": "eth0\x1b\ud800", "carrier_downs": 0, "statistics": {}}]
    rows = compare_links(before, after)
    assert [(row["device"], row["netdev"]) for row in rows] == [("mlx5_0", "eth0??"), ("mlx5_0?[2J?", None)]
    assert failures_of_links("n1", rows)[0].startswith("n1 mlx5_0?[2J? port 1: ")


def test_a_table_of_links_names_the_sick_ones_first() -> None:
    """And no line is longer than a screen; hosts that did not tell are named."""
    well = compared(reading(symbol_error=0), reading(symbol_error=0))
    noted = compared(reading(port_xmit_wait=0), reading(108, port_xmit_wait=4))
    sick = compared(reading(symbol_error=0), reading(108, symbol_error=4))
    rows = [{"host": f"node{number}", **row} for number, row in enumerate([well, noted, sick])]
    lines = links_table(rows, ["node9"])  # type: ignore[arg-type]
    assert lines[0] == "links: 3 looked at before and after, 1 without findings"
    assert next(line.split()[:3] for line in lines[1:] if line.startswith("  ")) == ["fail:", "node2", "mlx5_0"]
    assert lines[-1] == "  not looked at: node9"
    assert max(len(line) for line in lines) <= 100
    assert links_table(rows * 40)[-1] == "  and 60 more"  # type: ignore[arg-type]


ODD = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["device", "port", "x"]), inner)
    ),
    max_leaves=8,
)
COUNTS = st.dictionaries(
    st.sampled_from([*COUNTERS, *HW_COUNTERS]), st.one_of(st.none(), st.integers(0, 2**64 - 1)), max_size=8
)


@given(
    st.dictionaries(st.sampled_from(["uptime_s", "boot_id", "ports", "netdevs"]), ODD),
    st.dictionaries(st.sampled_from(["uptime_s", "boot_id", "ports", "netdevs"]), ODD),
    COUNTS,
    COUNTS,
)
def test_only_counters_that_grew_are_judged_whatever_nodes_say(
    before: Json, after: Json, first: Json, last: Json
) -> None:
    compare_links(before, after)
    row = compared(reading(**first), reading(108.0, **last))
    assert all(grown["growth"] > 0 for grown in row["grown"])
    assert {grown["counter"] for grown in row["grown"]} <= {k for k in first if None not in (first[k], last.get(k))}
    assert (row["verdict"] == "fail") == any(grown["verdict"] == "fail" for grown in row["grown"])
    # what has not changed has not grown
    seen = any(first[name] is not None and name in ERRORS for name in first)
    assert compared(reading(**first), reading(108.0, **first))["verdict"] == ("pass" if seen else "note")
