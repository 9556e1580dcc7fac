# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers and clients of a measurement, with programs that behave like perftest but need no device."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._verify.measurement import check_settings, measure, serve
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest_run import stop_servers
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_perftest_run import (
    first_port,
    programs,
    wait_for_the_end,
)

__all__ = ["programs"]


def params(**values: t.Any) -> dict[str, t.Any]:
    return {"address": None, "timeout": int(limit(20)), "deadline": None, "first_port": first_port(), **values}


def one_test(**values: t.Any) -> dict[str, t.Any]:
    base = {"test": "ib_write_bw", "device": "one", "port": 1, "gid_index": None, "message_bytes": None}
    plain = {"all_sizes": False, "bidirectional": False, "memory": "host", "gpu": None, "traffic_class": None}
    return {**base, **plain, "iterations": 100, "qps": 1, "address": "127.0.0.1", **values}


def test_a_client_measures_what_its_server_listens_for() -> None:
    tests = [one_test(), one_test(device="none"), one_test(test="ib_read_bw")]
    server = serve(params(tests=tests, address="127.0.0.1"))
    assert [result["listening"] for result in server["results"]] == [True, False, True]
    assert server["results"][1]["problem"]["cause"] == "there is no RDMA device none"
    client = measure(params(tests=tests, servers=server["results"]))
    assert client["changed"] is False
    good, refused, read = client["results"]
    assert good["bandwidth_gbps"] == read["bandwidth_gbps"] == {"peak": 97.2, "average": 97.1}
    assert good["command"][-1] == "127.0.0.1"
    assert refused["problem"]["cause"] == "there is no RDMA device none"
    assert refused["status"] is None
    stop_servers(server["run_dir"])


@pytest.mark.parametrize(
    ("of_test", "of_host", "ipv6"), [(None, "::1", True), ("::1", None, True), ("127.0.0.1", "::1", False)]
)
def test_both_sides_meet_over_the_family_of_the_address(of_test: str | None, of_host: str | None, ipv6: bool) -> None:
    """A host without IPv4, a port of InfiniBand that names no address, a port of RoCE that does."""
    tests = [one_test(address=of_test)]
    server = serve(params(tests=tests, address=of_host))
    client = measure(params(tests=tests, servers=server["results"], address=server["address"]))
    (result,) = client["results"]
    assert result["problem"] is None
    assert ("--ipv6-addr" in result["command"]) is ipv6
    stop_servers(server["run_dir"])


def test_module_tells_a_client_that_fails() -> None:
    server = {"tcp_port": 1, "listening": True, "problem": None}
    (result,) = measure(params(tests=[one_test(device="none")], servers=[server]))["results"]
    assert result["problem"]["cause"] == "there is no RDMA device none"
    (result,) = measure(params(tests=[one_test(device="slow")], servers=[server], timeout=1))["results"]
    assert "did not end within 1 s" in result["problem"]["cause"]
    (result,) = measure(params(tests=[one_test(address=None)], servers=[server]))["results"]
    assert result["problem"]["cause"] == "the address of the server is not known"


def test_figures_that_cannot_be_are_measured_again() -> None:
    """Once, on the second server that waits for it; then it is an error with what was printed."""
    tests = [one_test(device="busy"), one_test(device="hopeless"), one_test()]
    server = serve(params(tests=tests))
    assert server["started"]
    assert len(server["results"]) == 3
    again, hopeless, good = measure(params(tests=tests, servers=server["results"]))["results"]
    assert [result["repeated"] for result in (again, hopeless, good)] == [True, True, False]
    assert (again["problem"], again["bandwidth_gbps"]) == (None, {"peak": 97.2, "average": 97.1})
    assert hopeless["bandwidth_gbps"] is None
    assert hopeless["problem"]["cause"] == (
        "perftest printed figures that cannot be: BW peak inf, BW average inf, MsgRate inf"
    )
    json.dumps([again, hopeless, good], allow_nan=False)
    # the spare one of the third test was not needed
    servers = json.loads(Path(server["run_dir"], "servers.json").read_text())["servers"]
    assert len(servers) == 6
    wait_for_the_end([one["pid"] for one in servers[:5]])
    assert stop_servers(server["run_dir"])["stopped"] == 1


def test_module_refuses_what_makes_no_sense() -> None:
    with pytest.raises(WishError, match="each test needs a server: tests are 1, servers 0"):
        check_settings(params(role="client", tests=[one_test()], servers=[]), check_mode=False)
    with pytest.raises(WishError, match="iterations is 1; allowed is 5 to"):
        check_settings(params(role="server", tests=[one_test(iterations=1)]), check_mode=True)
