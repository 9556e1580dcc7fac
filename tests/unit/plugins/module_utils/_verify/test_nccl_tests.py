# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of nccl-tests, and what NCCL says beside them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._verify.nccl_tests import parse_nccl

HEADERS = {
    "new": "size count type redop root time algbw busbw #wrong time algbw busbw #wrong",
    "no root": "size count type redop time algbw busbw error time algbw busbw error",
    "no redop": "size count type root time algbw busbw error time algbw busbw error",
}
MIDDLE = {"new": "float sum -1", "no root": "float sum", "no redop": "float 0"}
LAUNCHERS = ["", "0: ", "[1,0]<stdout>:", "2026-01-02T03:04:05.123456789Z "]


def a_table(*busbw: float, layout: str = "new", prefix: str = "", wrong: str = "0", more: str = "") -> str:
    """One row for each, of 2^n bytes, out of place and in place."""
    lines = ["# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor)", *more.splitlines()]
    lines += [f"#  {HEADERS[layout]}", "#  (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)"]
    for place, figure in enumerate(busbw):
        half = f"{10.5 + place:.2f} {figure / 2:.2f} {figure:.2f} {wrong}"
        lines.append(f"  {1 << place}  {1 << place}  {MIDDLE[layout]}  {half}  {half}")
    lines += ["# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {sum(busbw) / max(1, len(busbw)):.4f}"]
    return "\n".join(prefix + line for line in lines) + "\n"


@given(
    st.lists(st.floats(0, 900), min_size=1, max_size=40),
    st.sampled_from(sorted(HEADERS)),
    st.sampled_from(LAUNCHERS),
    st.sampled_from(["0", "N/A", "5e-07"]),
)
def test_rows_survive_every_layout_and_launcher(busbw: list[float], layout: str, prefix: str, wrong: str) -> None:
    report = parse_nccl(a_table(*busbw, layout=layout, prefix=prefix, wrong=wrong))
    assert [row.size_bytes for row in report.rows] == [1 << place for place in range(len(busbw))]
    assert [row.busbw for row in report.rows] == [float(f"{figure:.2f}") for figure in busbw]
    assert {half.wrong for row in report.rows for half in (row.out_of_place, row.in_place) if half} == {
        None if wrong == "N/A" else wrong
    }
    assert report.average_busbw == float(f"{sum(busbw) / len(busbw):.4f}")
    assert report.best is not None
    assert report.best.busbw == max(row.busbw for row in report.rows)
    assert report.findings == ()


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    parse_nccl(text)
    parse_nccl(a_table(1.0) + text)
    parse_nccl(f"# {HEADERS['new']}\n{text}")


@pytest.mark.parametrize("piece", [" ", "\n", "a", "0: ", "size count busbw ", "9 ", " via NET/", "segmentation fault"])
def test_what_a_node_sends_stops_nobody(piece: str) -> None:
    assert parse_nccl(piece * (4_000_000 // len(piece))).rows == ()


def test_a_figure_that_cannot_be_is_no_row() -> None:
    assert parse_nccl(a_table(1.0).replace("1.00 0", "nan 0")).rows == ()
    assert parse_nccl(a_table(1.0).replace("1.00 0", "-1.00 0")).rows == ()


INFO = "n1:95:120 [0] NCCL INFO Channel 0{0}/0 : {0}[0] -> 8[0] [send] via {1}\n"


def test_each_way_of_the_data_is_named_once() -> None:
    ways = ["NET/IB/0/GDRDMA", "NET/IB/1/GDRDMA(8)", "P2P/CUMEM", "NET/IB/0/GDRDMA"]
    more = "".join(INFO.format(place, way) for place, way in enumerate(ways))
    report = parse_nccl(a_table(100.0, more=more, prefix="[1,3]<stdout>:"))
    assert report.transports == ("NET/IB/0/GDRDMA", "NET/IB/1/GDRDMA", "P2P/CUMEM")
    assert report.findings == ()


def channel(host: str, way: str) -> str:
    return INFO.format(0, way).replace("n1", host)


def test_a_way_through_another_gpu_of_the_host_is_named_without_it() -> None:
    """PXN: NCCL names the rank that sends for this one between the HCA and what else it says."""
    more = channel("n1", "NET/IB/0(4)/GDRDMA") + channel("n1", "NET/IB/1(12)/GDRDMA(PCI)/Shared")
    report = parse_nccl(a_table(100.0, more=more))
    assert (report.transports, report.findings) == (("NET/IB/0/GDRDMA", "NET/IB/1/GDRDMA"), ())


@pytest.mark.parametrize("network", ["IB", "IBext_v10", "gIB", "AWS Libfabric"])
def test_a_log_without_ways_says_nothing_of_gpudirect(network: str) -> None:
    """It tells the network alone, as one of which the rest is missing."""
    report = parse_nccl(a_table(100.0, more=f"n1:95:120 [0] NCCL INFO Using network {network}"))
    assert (report.transports, report.findings) == ((f"NET/{network}",), ())


def test_hosts_without_gpudirect_among_others_are_named() -> None:
    """One without nvidia_peermem slows all; GPUs that are far from their HCA do without on any host."""
    near, far = "NET/IB/0/GDRDMA", "NET/IB/0"
    more = "".join(channel(host, way) for host, way in [("n1", near), ("n1", far), ("n10", far), ("n2", far)])
    (found,) = parse_nccl(a_table(100.0, more=more, prefix="[1,3]<stdout>:")).findings
    assert (
        found.cause
        == "NCCL used RDMA without GPUDirect on n10, n2: all data of these goes through the memory of the hosts"
    )
    assert "nvidia_peermem" in found.remedy
    assert parse_nccl(a_table(100.0, more=channel("n1", near) + channel("n1", far))).findings == ()
    assert found.line == far
    # as Open MPI 5 says whose line it is
    tagged = "".join("[prterun-h-1@1,0]<stdout>: " + channel(host, way) for host, way in (("n1", near), ("n2", far)))
    assert parse_nccl(a_table(100.0, more=tagged)).staged == ("n2",)
    # whose way is one too many to be kept
    names = "".join(channel("n1", f"P2P/w{number}") for number in range(70))
    (found,) = parse_nccl(a_table(100.0, more=names + channel("n1", near) + channel("n2", far))).findings
    assert "without GPUDirect on n2" in found.cause
    many = "".join(channel(f"n{number}", far) for number in range(30)) + channel("m", near)
    assert " and 22 more: " in parse_nccl(a_table(100.0, more=many)).findings[0].cause


def test_a_header_of_nccl_gives_ranks_and_hosts() -> None:
    lines = [f"#  Rank {rank:2} Group  0 Pid 1 on n{rank // 4} device {rank % 4} [0x01] NVIDIA" for rank in range(8)]
    report = parse_nccl(a_table(1.0, more="NCCL version 2.26.6+cuda12.8\n" + "\n".join(lines)))
    assert (report.ranks, report.hosts, report.version) == (8, ("n0", "n1"), "2.26.6+cuda12.8")


TEXTS = [
    (INFO.format(0, "NET/Socket/0"), "over TCP, not over RDMA"),
    (INFO.format(0, "NET/IB/0"), "without GPUDirect"),
    (
        "n1:1:2 [0] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
        "memlock",
    ),
    ("n1:1:2 [0] NCCL WARN Call to ibv_create_qp failed with error Cannot allocate memory errno 12", "too low"),
    (
        "n1:1:2 [0] NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out",
        "cannot reach that of the other side",
    ),
    ("n1:1:2 [0] NCCL INFO NET/IB : No device found.", "NCCL found no HCA"),
    ("n1:1:2 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<4> with status=12 opcode=0", "(status 12;"),
    ("n1:1:2 NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 32631, vendor err 129", "(status 12;"),
    ("n1:1:2 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<4> with error 12, opcode 0, len 0", "(status 12;"),
    (
        "n1:1:2 NCCL WARN NET/IB: Got completion from peer 10.0.0.1<4> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0)",
        "(status 12;",
    ),
    ("include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device", "/dev/shm"),
    ("NCCL WARN Error while creating shared memory segment /dev/shm/nccl-x (size 5)", "/dev/shm"),
    ("[n1:1] segmentation fault in ncclProxyServiceUDS", "segmentation fault"),
    ("n1:1:2 [0] NCCL WARN Cuda failure 'out of memory'", "CUDA failed: Cuda failure 'out of memory'"),
    ("n1: Test NCCL failure all_reduce.cu:44 'unhandled system error'", "NCCL gave up (unhandled system error)"),
    ("There are not enough slots available in the system", "fewer places than ranks"),
    ("ssh: Could not resolve hostname nccl-worker-0: Name or service not known", "cannot reach a worker"),
]


@pytest.mark.parametrize(("text", "cause"), TEXTS)
def test_what_went_wrong_is_a_finding_with_words(text: str, cause: str) -> None:
    findings = parse_nccl(a_table(1.0, more=text)).findings
    assert any(cause in finding.cause for finding in findings)
    assert all(finding.remedy for finding in findings)
    assert parse_nccl(a_table(1.0)).findings == ()


@pytest.mark.parametrize("call", ["ibv_reg_mr", "ibv_reg_mr_iova2", "ibv_reg_dmabuf_mr"])
@pytest.mark.parametrize(
    ("why", "word"),
    [
        ("Cannot allocate memory", "memlock"),
        ("Bad address", "of a GPU"),
        ("Invalid argument", "of a GPU"),
        ("Operation not supported", "of a GPU"),
    ],
)
def test_memory_of_a_gpu_is_not_refused_for_a_limit(call: str, why: str, word: str) -> None:
    text = f"n1:1:2 [0] misc/ibvwrap.cc:288 NCCL WARN Call to {call} failed with error {why}"
    (found,) = parse_nccl(a_table(1.0, more=text)).findings
    assert word in found.cause
    assert ("containerd_memlock" in found.remedy) is (word == "memlock")


def test_wrong_values_are_a_finding_and_no_figures_are_one() -> None:
    (wrong,) = parse_nccl(a_table(1.0).replace("values : 0 OK", "values : 7 FAILED")).findings
    assert wrong.cause == "the collective gave 7 wrong values"
    (none,) = parse_nccl("").findings
    assert none.cause == "nccl-tests printed no figures"


def test_an_output_that_is_cut_off_is_a_finding() -> None:
    """The largest sizes, and whether what arrived was right, are behind the cut."""
    whole = a_table(1.0, 2.0)
    (cut,) = parse_nccl(whole.partition("# Out of bounds")[0]).findings
    assert cut.cause.startswith("the output of nccl-tests has no end")
    (cut,) = parse_nccl(whole.partition("# Avg")[0]).findings
    assert cut.remedy


def test_wrong_values_of_a_row_are_a_finding_where_nobody_has_summed_them_up() -> None:
    wrong, cut = parse_nccl(a_table(1.0, wrong="3").partition("# Out of bounds")[0]).findings
    assert wrong.cause == "the collective gave wrong values with 1 bytes"
    assert wrong.remedy
    assert "no end" in cut.cause


def test_tcp_that_was_asked_for_is_no_finding() -> None:
    asked = "n1:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
    assert parse_nccl(a_table(1.0, more=asked + INFO.format(0, "NET/Socket/0"))).findings == ()


def test_braces_in_an_output_are_only_text() -> None:
    (found, *_more) = parse_nccl(a_table(1.0, more="NCCL WARN Cuda failure {0.__class__}")).findings
    assert "{0.__class__}" in found.cause
