# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command lines, outputs and errors of perftest. The files in perftest/ were recorded between two nodes of the lab (6.06)."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import (
    PROGRAMS,
    BandwidthRow,
    LatencyRow,
    command_line,
    explain,
    gbps,
    judge_bandwidth,
    judge_latency,
    kind_of,
    measured,
    parse,
    timed_out,
)

RECORDED = Path(__file__).parent / "perftest"

GBITS = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
MB = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
LATENCY = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec] \n"
)
CPU = "Conflicting CPU frequency values detected: 863.109000 != 2300.000000. CPU Frequency is not max.\n"


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


# --- command line --------------------------------------------------------------------------------------------------


def test_a_client_has_the_command_line_of_its_server_and_an_address() -> None:
    server = command_line("ib_write_bw", "mlx5_0", gid_index=3, iterations=5000, qps=2, tcp_port=18600)
    assert server == [
        *("ib_write_bw", "-F", "-d", "mlx5_0", "-i", "1", "-s", "65536", "-n", "5000", "-p", "18600"),
        *("-x", "3", "-q", "2", "--report_gbits"),
    ]
    client = command_line(
        "ib_write_bw", "mlx5_0", gid_index=3, iterations=5000, qps=2, tcp_port=18600, address="192.0.2.7"
    )
    assert client == [*server, "192.0.2.7"]


def test_command_line_of_infiniband_latency_has_neither_gid_nor_unit() -> None:
    command = command_line("ib_read_lat", "mlx5_bond_0", port=2, iterations=1000)
    assert command == [*("ib_read_lat", "-F", "-d", "mlx5_bond_0", "-i", "2", "-s", "2", "-n", "1000", "-p", "18515")]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"program": "ib_fly_bw"}, "test 'ib_fly_bw' is unknown; expected one of " + ", ".join(PROGRAMS)),
        ({"device": "--help"}, "device '--help' is not the name of an RDMA device"),
        ({"device": ""}, "device '' is not the name of an RDMA device"),
        ({"device": "a b"}, "device 'a b' is not the name of an RDMA device"),
        ({"address": "-x"}, "address '-x' is neither an IP address nor a host name"),
        ({"address": "a;b"}, "address 'a;b' is neither an IP address nor a host name"),
        ({"port": 0}, "port is 0; allowed is 1 to 254"),
        ({"gid_index": 256}, "gid_index is 256; allowed is 0 to 255"),
        ({"iterations": 2}, "iterations is 2; allowed is 5 to 100000000"),
        ({"tcp_port": 65536}, "tcp_port is 65536; allowed is 1 to 65535"),
        ({"program": "ib_write_lat", "qps": 2}, "qps is 2; ib_write_lat measures one queue pair"),
        (
            {"program": "ib_read_lat", "bidirectional": True},
            "bidirectional is true; ib_read_lat measures one direction",
        ),
        ({"program": "ib_atomic_bw", "all_sizes": True}, "all_sizes is true; ib_atomic_bw has one size, 8 bytes"),
        ({"memory": "cuda", "gpu": "0; reboot"}, "gpu '0; reboot' is not the PCI address of a GPU"),
        ({"traffic_class": 256}, "traffic_class is 256; allowed is 0 to 255"),
        ({"memory": "rocm"}, "memory 'rocm' is unknown; expected one of host, cuda, cuda_dmabuf"),
    ],
)
def test_wrong_values_are_named(values: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"program": "ib_write_bw", "device": "mlx5_0", **values}
    with pytest.raises(WishError, match=re.escape(message)):
        command_line(**arguments)  # type: ignore[arg-type]


def test_command_line_of_what_one_size_does_not_show() -> None:
    command = command_line("ib_send_bw", "mlx5_0", all_sizes=True, bidirectional=True, qps=4, memory="cuda_dmabuf")
    assert command == [
        *(
            "ib_send_bw",
            "-F",
            "-d",
            "mlx5_0",
            "-i",
            "1",
            "-a",
            "-n",
            "1000",
            "-p",
            "18515",
            "-q",
            "4",
            "--report_gbits",
            "-b",
        ),
        *("--use_cuda=0", "--use_cuda_dmabuf"),
    ]
    command = command_line("ib_write_bw", "mlx5_3", memory="cuda_dmabuf", gpu="0008:01:00.0")
    assert command[-2:] == ["--use_cuda_bus_id=0008:01:00.0", "--use_cuda_dmabuf"]
    assert command_line("ib_write_lat", "mlx5_3", gid_index=3, traffic_class=106)[-3:] == ["-x", "3", "--tclass=106"]
    assert not [word for word in command_line("ib_write_bw", "mlx5_3", gpu="0008:01:00.0") if "cuda" in word]
    assert command_line("ib_write_lat", "mlx5_0", memory="cuda", address="192.0.2.1")[-2:] == [
        "--use_cuda=0",
        "192.0.2.1",
    ]


def test_an_atomic_operation_has_no_size() -> None:
    assert command_line("ib_atomic_bw", "mlx5_0", message_bytes=65536) == [
        *("ib_atomic_bw", "-F", "-d", "mlx5_0", "-i", "1", "-n", "1000", "-p", "18515", "-q", "1", "--report_gbits"),
    ]


@pytest.mark.parametrize("address", ["::1", "2001:db8::7", "fe80::1%eth0", "node1.example.com", "192.0.2.1"])
def test_an_address_comes_last(address: str) -> None:
    command = command_line("ib_write_bw", "rxe0", address=address)
    assert command[-1] == address
    assert ("--ipv6-addr" in command) is (":" in address)


def test_a_server_listens_in_the_family_of_its_clients() -> None:
    """SYMMETRIC, as perftest's own help says; without it, both sides know IPv4 only."""
    server = command_line("ib_write_lat", "mlx5_0", ipv6=True)
    assert [*server, "2001:db8::7"] == command_line("ib_write_lat", "mlx5_0", address="2001:db8::7")


def test_a_program_measures_bandwidth_or_latency() -> None:
    assert [kind_of(program) for program in PROGRAMS] == ["bandwidth", "latency"] * 4


# --- outputs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["client", "server"])
def test_bandwidth_in_gbits_over_two_queue_pairs_is_read(side: str) -> None:
    report = parse(recorded(f"bandwidth-gbits-two-qps-{side}"))
    assert (report.test, report.kind, report.units) == ("ib_write_bw", "bandwidth", ("Gb/sec",))
    assert (report.device, report.link_type, report.mtu_bytes, report.qps) == ("rxe0", "Ethernet", 1024, 2)
    assert report.gid_index == 1
    assert report.rows == (BandwidthRow(65536, 200, 0.105706, 0.072918, 0.000139, "Gb/sec"),)
    assert report.bandwidth[0].average_gbps == 0.072918
    assert report.latency == ()


@pytest.mark.parametrize("side", ["client", "server"])
def test_mebibytes_become_gigabits(side: str) -> None:
    (row,) = parse(recorded(f"bandwidth-mb-{side}")).bandwidth
    assert (row.peak, row.average, row.unit) == (13.34, 6.45, "MB/sec")
    # 65536 bytes at 0.000103 Mpps, independently of the conversion
    assert row.average_gbps == pytest.approx(65536 * 8 * 0.000103e6 / 1e9, rel=0.01)
    assert row.average_gbps == pytest.approx(0.0541, rel=0.001)


@pytest.mark.parametrize("side", ["client", "server"])
def test_latency_is_read_of_both_sides(side: str) -> None:
    report = parse(recorded(f"latency-{side}"))
    assert (report.test, report.kind, report.units) == ("ib_write_lat", "latency", ("usec",))
    (row,) = report.latency
    assert (row.message_bytes, row.iterations) == (2, 100)
    assert row.minimum is not None
    assert row.typical is not None
    assert row.maximum is not None
    assert 0 < row.minimum <= row.typical <= row.maximum
    assert row.p999 == row.maximum


def test_every_unit_becomes_gbps() -> None:
    assert gbps(100.0, "Gb/sec") == 100.0
    # a ConnectX-6 at 200 Gb/s
    assert gbps(23317.65, "MB/sec") == gbps(23317.65, "MiB/sec") == pytest.approx(195.6, abs=0.05)


def test_warnings_between_rows_do_not_hide_a_size() -> None:
    text = GBITS + CPU + " 2          5000           0.045656            0.045526            2.845402\n" + CPU
    text += " 4          5000           0.091312            0.091284            2.852624\n"
    assert [row.message_bytes for row in parse(text).rows] == [2, 4]


def test_endless_run_has_no_peak() -> None:
    (row,) = parse(GBITS + " 65536      927940           0.00               97.28\t\t     0.185548\n").bandwidth
    assert (row.peak, row.peak_gbps, row.average_gbps) == (None, None, 97.28)


def test_unit_is_that_of_the_nearest_header() -> None:
    row = " 65536      5000             183.66             183.61   \t\t   0.350214\n"
    report = parse(MB + "----\n" + GBITS + row + "----\n" + row)
    assert report.units == ("MB/sec", "Gb/sec")
    assert {one.average_gbps for one in report.bandwidth} == {183.61}


def test_a_table_is_read_without_its_header() -> None:
    assert parse(" 65536   5000   92.42   92.40   0.176230\n").bandwidth[0].average_gbps == 92.4
    assert parse(" 2 1000 0.87 4.70 0.89 0.90 0.08 0.95 4.70\n").latency == (
        LatencyRow(2, 1000, 0.87, 4.7, 0.89, 0.9, 0.08, 0.95, 4.7),
    )


def test_columns_that_options_add() -> None:
    """--cpu_util and --report-per-port append, --sl (QoS) inserts, --duration shortens: perftest_parameters.h."""
    extended = GBITS[:-1] + "    CPU_Util[%]\n 65536  5000  92.42  92.40  0.176230  3.50\n"
    assert parse(extended).bandwidth[0].average == 92.4
    qos = " #bytes    #sl      #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    assert parse(qos + " 65536    1    5000   92.42   92.40   0.176230\n").bandwidth == (
        BandwidthRow(65536, 5000, 92.42, 92.4, 0.17623, "Gb/sec"),
    )
    short = (
        " #bytes        #iterations       t_avg[usec]    tps average\n 2       1000            1.85        540540.54\n"
    )
    assert parse(short).latency == (LatencyRow(2, 1000, None, None, None, 1.85, None, None, None),)


def test_the_newer_name_of_mebibytes_is_known() -> None:
    (row,) = parse(MB.replace("MB/", "MiB/") + " 65536 5000 23326.82 23317.65 0.373082\n").bandwidth
    assert row.average_gbps == pytest.approx(195.6, abs=0.05)


def test_both_sides_in_one_text_are_two_rows() -> None:
    both = recorded("bandwidth-gbits-two-qps-server") + recorded("bandwidth-gbits-two-qps-client")
    assert len(parse(both).rows) == 2


def test_title_beats_the_command_in_front_of_it() -> None:
    assert parse("$ ib_read_bw -d mlx5_0\n                    RDMA_Read BW Test\n").test == "ib_read_bw"
    assert parse("                    Send Latency Test\n").test == "ib_send_lat"
    assert parse("$ ib_write_lat -a node1\n" + LATENCY).test == "ib_write_lat"
    assert parse("").test is None


TITLES = [
    ("RDMA_Write BW", "ib_write_bw", False),
    ("RDMA_Write Bidirectional BW", "ib_write_bw", True),
    ("RDMA_Read BW", "ib_read_bw", False),
    ("RDMA_Read Latency", "ib_read_lat", False),
    ("Send Bidirectional BW", "ib_send_bw", True),
    ("Send BW Multicast", "ib_send_bw", False),
    ("RDMA_Write BW Post List", "ib_write_bw", False),
    ("RDMA_Write BW Dual-port", "ib_write_bw", False),
    ("Atomic FETCH_AND_ADD BW", "ib_atomic_bw", False),
    ("Atomic CMP_AND_SWAP Bidirectional BW", "ib_atomic_bw", True),
    ("Atomic FETCH_AND_ADD Latency", "ib_atomic_lat", False),
]


@pytest.mark.parametrize(("title", "program", "both"), TITLES)
def test_a_title_says_program_and_direction(title: str, program: str, both: bool) -> None:
    report = parse(f"----\n                    {title} Test\n Dual-port       : OFF          Device : mlx5_0\n")
    assert (report.test, report.kind, report.bidirectional) == (program, kind_of(program), both)


ROW = " {:<7d}    {:<10d}       {:<7.2f}            {:<7.2f}\t\t     {:<7.6f}\n"


@given(
    st.lists(st.integers(1, 23), min_size=2, unique=True),
    st.lists(st.booleans(), min_size=50, max_size=50),
    st.randoms(),
)
def test_a_table_of_all_sizes_is_read_from_the_mixed_output_of_both_sides(
    powers: list[int], sides: list[bool], random: Random
) -> None:
    """The server prints the largest size alone, or all; warnings and headers of both stand anywhere between."""
    figures = {2**power: float(power) + 0.25 for power in powers}
    client = [ROW.format(size, 5000, average + 0.5, average, 0.5) for size, average in sorted(figures.items())]
    server = [client[-1]] if random.random() < 0.5 else list(client)
    title = "                    RDMA_Write BW Test\n"
    streams = [[title, GBITS, CPU, *client], [title, GBITS, *server, CPU]]
    text = ""
    for side in sides + [False] * 50 + [True] * 50:
        text += streams[side].pop(0) if streams[side] else ""
    found = measured("ib_write_bw", text)
    assert found["sizes"] == [{"bytes": size, "gbps": figures[size]} for size in sorted(figures)]
    assert found["message_bytes"] == max(figures)
    assert parse(text).test == "ib_write_bw"


def test_sizes_of_latency_are_in_microseconds() -> None:
    rows = [
        " 2 1000 0.87 4.70 0.89 0.90 0.08 0.95 4.70\n",
        " 4 1000 0.87 4.70 inf 0.91 0.08 0.95 4.70\n",
        " 8 1000 0.9 5 1.1 1.2 0.1 1 5\n",
    ]
    assert measured("ib_write_lat", LATENCY + "".join(rows))["sizes"] == [
        {"bytes": 2, "us": 0.89},
        {"bytes": 8, "us": 1.1},
    ]
    assert measured("ib_write_lat", LATENCY + rows[0])["sizes"] is None


def test_a_latency_is_that_of_the_shortest_message_and_a_bandwidth_that_of_the_longest() -> None:
    """8 MiB at 400 Gb/s take 170 microseconds on the best link."""
    rows = [
        " 2 1000 0.87 4.70 0.89 0.90 0.08 0.95 4.70\n",
        " 8388608 1000 169.0 175.0 170.0 170.5 0.8 173.0 175.0\n",
    ]
    # both sides in one stream
    values = measured("ib_write_lat", LATENCY + "".join(rows) + rows[0])
    assert (values["message_bytes"], values["latency_us"] and values["latency_us"]["typical"]) == (2, 0.89)
    table = GBITS + ROW.format(2, 5000, 0.05, 0.05, 2.8) + ROW.format(8388608, 5000, 391.0, 390.5, 0.006)
    values = measured("ib_write_bw", table)
    assert (values["message_bytes"], values["bandwidth_gbps"] and values["bandwidth_gbps"]["average"]) == (
        8388608,
        390.5,
    )


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("Unsupported memory type\n", "built without the memory of GPUs"),
        (
            "ib_write_bw: unrecognized option '--use_cuda=0'\n Parser function exited with Error",
            "built without the memory of GPUs",
        ),
        ("DMA-BUF is not supported on this GPU\n", "does not give its memory as DMA-BUF"),
        (
            "We have an error from cuDeviceGetByPCIBusId: 101\n",
            "no GPU can be used here (error from cuDeviceGetByPCIBusId: 101)",
        ),
        ("cuInit(0) returned 100\n", "no GPU can be used here (cuInit(0) returned 100)"),
        # before 23.04, without the number of the error
        (
            "allocated GPU buffer address at 0000010013000000 pointer=0x10013000000\nCouldn't allocate MR\nfailed to create mr\n",
            "could not register the memory of the GPU",
        ),
        ("allocated GPU buffer address at 00 pointer=0x0\nCouldn't allocate MR with error=12\n", "memlock"),
    ],
)
def test_what_keeps_memory_of_a_gpu_away(text: str, cause: str) -> None:
    problem = explain(text, "", 1)
    assert cause in problem.cause
    assert problem.remedy


def test_measured_is_the_last_row() -> None:
    values = measured("ib_write_bw", recorded("bandwidth-mb-client"))
    assert values["bandwidth_gbps"] == {"peak": 0.111904, "average": 0.054107}
    assert (values["mtu_bytes"], values["iterations"], values["latency_us"]) == (1024, 100, None)
    assert measured("ib_write_lat", recorded("bandwidth-mb-client"))["latency_us"] is None
    assert set(measured("ib_write_lat", recorded("latency-client"))["latency_us"]) == {
        *("min", "max", "typical", "average", "stdev", "p99", "p999"),
    }


@given(st.text(max_size=300))
def test_any_text_is_parsed_and_explained(text: str) -> None:
    parse(text)
    parse(GBITS + text)
    parse(LATENCY + text)
    measured("ib_write_bw", text)
    assert explain(text, "", 1).cause
    assert timed_out(5, text).cause


@given(
    st.lists(
        st.tuples(
            st.integers(1, 1 << 23),
            st.integers(5, 10**8),
            st.floats(0.01, 800),
            st.floats(0.01, 800),
            st.floats(0, 200),
        ),
        max_size=24,
    )
)
def test_rows_survive_the_programs_own_format(rows: list[tuple[int, int, float, float, float]]) -> None:
    text = GBITS
    for size, count, peak, average, rate in rows:
        # REPORT_FMT of perftest_parameters.h
        text += f" {size:<7d}    {count:<10d}       {peak:<7.2f}            {average:<7.2f}\t\t     {rate:<7.6f}\n{CPU}"
    found = parse(text).bandwidth
    assert [(row.message_bytes, row.iterations) for row in found] == [row[:2] for row in rows]
    assert [row.average_gbps for row in found] == [float(f"{row[3]:.2f}") for row in rows]


# --- figures that make no sense ------------------------------------------------------------------------------------

# What a machine prints that has no time for its clock: no time at all has gone by, or it went backwards.
SENSELESS = ("inf", "-inf", "nan", "-nan", "0", "0.000000", "-1.5", "1e999", "9" * 400, "9" * 5000)
# 0: not measured; and always the same.
SENSE = {("peak", "0"), ("peak", "0.000000"), ("stdev", "0"), ("stdev", "0.000000")}
TABLES = {
    "ib_write_bw": ("bandwidth-gbits-two-qps-client", ("bytes", "iterations", "peak", "average", "rate")),
    "ib_write_lat": (
        "latency-client",
        ("bytes", "iterations", "min", "max", "typical", "average", "stdev", "p99", "p999"),
    ),
}
FIGURES = [(test, name) for test, (_file, names) in TABLES.items() for name in names]


def with_figure(test: str, name: str, value: str) -> str:
    """A recorded output with another figure in its row."""
    file, names = TABLES[test]
    text = recorded(file)
    (row,) = [line for line in text.splitlines() if re.match(r" \d+ ", line)]
    values = row.split()
    assert len(values) == len(names)
    values[names.index(name)] = value
    return text.replace(row, "  ".join(values))


@pytest.mark.parametrize("value", SENSELESS, ids=lambda value: value[:9])
@pytest.mark.parametrize(("test", "name"), FIGURES)
def test_a_figure_that_makes_no_sense_is_none(test: str, name: str, value: str) -> None:
    found = measured(test, with_figure(test, name, value))
    json.dumps(found, allow_nan=False)
    figures = [found["bandwidth_gbps"], found["latency_us"], found["message_rate_mpps"]]
    if (name, value) in SENSE:
        assert found["senseless"] is None
        assert figures != [None, None, None]
    else:
        assert figures == [None, None, None]
        assert found["senseless"] is None or value[:20] in found["senseless"]


def test_a_rate_that_has_too_few_digits() -> None:
    """Six of them: less than one message in two seconds is 0, and right for a slow port that sends large ones."""
    slow = GBITS + " 8388608   5   0.030000   0.030000   0.000000\n"
    assert measured("ib_write_bw", slow)["message_rate_mpps"] == 0
    assert measured("ib_write_bw", slow.replace("8388608", "65536"))["senseless"] == "MsgRate 0.000000"


def test_more_than_any_port_can_carry() -> None:
    """A time that is almost none gives a bandwidth that is almost infinite."""
    found = measured("ib_write_bw", GBITS + " 65536  100  52428.80  52428.80  0.100000\n")
    assert (found["bandwidth_gbps"], found["senseless"]) == (None, "BW peak 52428.80, BW average 52428.80")


@given(st.sampled_from(FIGURES), st.floats())
def test_any_figure_is_sensible_or_none(figure: tuple[str, str], value: float) -> None:
    found = measured(figure[0], with_figure(*figure, f"{value:.6f}"))
    json.dumps(found, allow_nan=False)
    for part in ("bandwidth_gbps", "latency_us"):
        for name, number in (found[part] or {}).items():
            assert number is None or (math.isfinite(number) and (number > 0 or name == "stdev"))


@pytest.mark.parametrize("value", ["0", "-1", "9" * 5000, "x"], ids=lambda value: value[:9])
def test_a_malformed_mtu_is_unknown(value: str) -> None:
    text = recorded("latency-client")
    (line,) = [line for line in text.splitlines() if "Mtu" in line]
    assert measured("ib_write_lat", text.replace(line, f" Mtu             : {value}[B]"))["mtu_bytes"] is None


# --- errors --------------------------------------------------------------------------------------------------------

RECORDED_ERRORS = [
    ("memlock", "client", "the limit of locked memory (memlock) is too low", "LimitMEMLOCK=infinity"),
    ("empty-gid", "client", "an unused GID index, GIDs that do not fit, or no route", "GID indexes of both sides"),
    ("other-gid-type", "client", "GIDs of different types or IP versions", "the same type"),
    ("other-size", "client", "different tests or message sizes", "the same test and message size"),
    ("no-server", "client", "no server answers at 198.51.100.1, TCP port 18702", "firewall"),
    ("no-device", "client", "there is no RDMA device mlx5_9", "/sys/class/infiniband"),
    ("no-port", "client", "the device has no port 2", "/ports"),
    ("bad-option", "client", "does not accept the options: Iteration num should be between 5", "correct the values"),
    ("port-down", "client", "port 1 of the device is in state Down", "cable"),
]


@pytest.mark.parametrize(("name", "side", "cause", "remedy"), RECORDED_ERRORS)
def test_a_recorded_error_is_explained_with_side_and_remedy(name: str, side: str, cause: str, remedy: str) -> None:
    server = RECORDED / f"{name}-server.txt"
    problem = explain(recorded(f"{name}-client"), server.read_text() if server.exists() else "", 1)
    assert problem.side == side
    assert cause in problem.cause
    assert remedy in problem.remedy
    assert parse(recorded(f"{name}-client")).rows == ()


# The texts of perftest_communication.c, perftest_parameters.c, perftest_resources.c and write_bw.c, and what libraries add.
TEXTS = [
    ("Couldn't allocate MR\nfailed to create mr\nFailed to create MR\n Couldn't create IB resources", "memlock"),
    ("Couldn't allocate MR with error=12\nfailed to create mr", "memlock"),
    ("Couldn't allocate MR with error=14\nfailed to create mr", "could not register the memory of the test (error 14)"),
    (" Port number 1 state is Down\n Couldn't set the link layer", "port 1 of the device is in state Down"),
    (" Port number 2 state is Init\n Couldn't set the link layer", "no subnet manager has brought it up"),
    (" Port number 1 state is Armed\n", "no subnet manager has brought it up"),
    (
        " Local lid 0x0 detected. Is an SM running? \nIf you're running RMDA over Ethernet",
        "no subnet manager has given it one",
    ),
    (
        "Failed to modify QP to RTR\n Unable to Connect the HCA's through the link",
        "cannot reach the other side's address",
    ),
    ("Failed to modify QP 22 to RTR\n", "cannot reach the other side's address"),
    ("Failed to modify QP to RTS\n", "refused to bring the queue pair to state RTS"),
    ("Failed to modify QP to INIT, ret=22\nFailed to create QP.", "refused to bring the queue pair to state INIT"),
    ("IB device mlx5_9 not found\n Unable to find the Infiniband/RoCE device", "there is no RDMA device mlx5_9"),
    (" Did not detect devices \n If device exists, check if driver is up\n", "no RDMA device was found"),
    (" Unable to find the Infiniband/RoCE device", "no RDMA device was found"),
    (
        "Couldn't connect to 192.0.2.1:18515\nUnable to open file descriptor for socket",
        "no server answers at 192.0.2.1",
    ),
    ("Couldn't connect to 2001:db8::1:18515\n", "no server answers at 2001:db8::1, TCP port 18515"),
    ("Failed to open device\n", "could not be opened"),
    (" Couldn't get context for the device\n", "could not be opened"),
    (" Couldn't get device attributes\n", "does not answer questions about itself"),
    (" Failed to query device attributes\n", "does not answer questions about itself"),
    ("Current implementation is not compatible with versions older than 5.70\n", "do not understand each other"),
    (" Failed to negotiate parameters\n", "could not agree on parameters"),
    (" Connection type mismatch: local=RC, remote=UC\n", "Connection type is RC here and UC there"),
    ("\n Found Incompatibility issue with GID types.\n Please Try to use a different IP version.\n", "different types"),
    (" Couldn't set GID\n", "the GID index is not in the table"),
    ("Couldn't listen to port 18515\n", "cannot listen on its TCP port"),
    ("Problem in resolving basic address and port\n", "cannot be resolved"),
    ("ib_write_bw: unrecognized option '--ipv6-addr'\n", "this perftest does not meet its other side over IPv6"),
    (" Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n", "transport retries exceeded"),
    (" Failed status 13: wr_id 0 syndrom 0x88\n", "no buffer ready"),
    (" Failed status 10: wr_id 0 syndrom 0x0\n", "different tests or message sizes"),
    (" Failed status 5: wr_id 0 syndrom 0x0\n", "ended with an error of the device"),
    ("Couldn't create CQ\nFailed to create CQs\n", "could not create its queues"),
    ("Unable to create QP.\n", "could not create its queues"),
    ("Couldn't allocate PD\n", "no resources left"),
    ("Link layer on port 1 is Unknown\n", "tells no link layer"),
    (
        "ib_write_bw: unrecognized option '--report_gbits'\n Parser function exited with Error",
        "does not accept the options",
    ),
    ("Error: BW result is below bw limit\n", "below the limit"),
    ("ib_write_bw: error while loading shared libraries: libibverbs.so.1: cannot open", "does not fit the libraries"),
    ("ethernet_read_keys: Couldn't read remote address\n Unable to read to socket/rdma_cm", "the other side ended"),
    (" Failed to exchange data between server and clients\n", "the other side ended"),
    ("something unheard of\n", "perftest ended with status 1 and without numbers"),
]


@pytest.mark.parametrize(("text", "cause"), TEXTS)
def test_every_text_has_a_cause_and_a_remedy(text: str, cause: str) -> None:
    problem = explain(text, "", 1)
    assert cause in problem.cause
    assert problem.remedy
    assert problem.line in text


def test_cause_is_found_on_the_side_that_knows_it() -> None:
    client, server = recorded("memlock-client"), recorded("memlock-server")
    # the one who ran out of memory says why, the other only that it was left alone
    problem = explain(server, client, 1)
    assert (problem.side, problem.line) == ("server", "Couldn't allocate MR")
    assert "the other side ended" in explain(server, "", 1).cause


def test_braces_and_escapes_in_an_output_are_only_text() -> None:
    assert "{0.__class__}" in explain("IB device {0.__class__} not found\n").cause


def test_an_end_without_words_is_explained() -> None:
    assert explain("", "", -9).cause == "perftest ended by signal 9 and without numbers"
    assert explain("").cause == "perftest gave no numbers"


def test_a_timeout_tells_how_far_both_sides_came() -> None:
    assert timed_out(60, "").cause.startswith("the test did not end within 60 s, the two sides did not even exchange")
    assert timed_out(60, " remote address: LID 0000").cause.endswith("though the two sides had found each other")
    assert "memlock" in timed_out(60, "", recorded("memlock-client")).cause


# --- verdicts ------------------------------------------------------------------------------------------------------


def test_a_verdict_compares_with_the_bound_in_words() -> None:
    assert judge_bandwidth(0.17, 0.01).message == "0.17 Gb/s >= 0.01 Gb/s"
    assert judge_bandwidth(0.17, 0.17).verdict == "pass"
    verdict = judge_bandwidth(51.2, 80.0, "80 % of the port's 100 Gb/s")
    assert (verdict.verdict, verdict.message) == ("fail", "51.2 Gb/s < 80 Gb/s (80 % of the port's 100 Gb/s)")
    assert verdict.remedy
    assert judge_latency(22000.4, 1000000).message == "22000 us <= 1000000 us"
    assert judge_latency(31.0, 20.0).verdict == "fail"
