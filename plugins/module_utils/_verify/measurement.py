# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host does as the server or the client of a measurement with perftest. Private to the collection.

params: those of the module perftest, tests and servers with all their keys.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import (
    command_line,
    explain,
    explain_senseless,
    measured,
    timed_out,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest_run import (
    default_address,
    run_clients,
    start_servers,
)

__all__ = ["check_settings", "measure", "serve"]

Json = t.Dict[str, t.Any]


def _command(test: Json, tcp_port: int, address: t.Optional[str] = None, ipv6: bool = False) -> list[str]:
    return command_line(
        test["test"],
        test["device"],
        port=test["port"],
        gid_index=test["gid_index"],
        message_bytes=test["message_bytes"],
        iterations=test["iterations"],
        qps=test["qps"],
        all_sizes=test["all_sizes"],
        bidirectional=test["bidirectional"],
        memory=test["memory"],
        gpu=test["gpu"],
        traffic_class=test["traffic_class"],
        tcp_port=tcp_port,
        address=address,
        ipv6=ipv6,
    )


def check_settings(params: Json, check_mode: bool) -> None:
    """WishError for values that make no sense, before anything is started. What only a run of the other side gives is missing in a check."""
    if params["timeout"] < 1 or (params["deadline"] is not None and params["deadline"] < 1):
        raise WishError(f"timeout is {params['timeout']}, deadline is {params['deadline']}; allowed is 1 or more")
    for test in params["tests"] or []:
        _command(test, params["first_port"], test["address"] or params["address"])
    if check_mode:
        return
    if params["role"] == "stop" and not params["run_dir"]:
        raise WishError("role is stop but run_dir is missing")
    if params["role"] == "client" and len(params["servers"]) != len(params["tests"]):
        raise WishError(f"each test needs a server: tests are {len(params['tests'])}, servers {len(params['servers'])}")


def serve(params: Json) -> Json:
    """Starts the servers of the tests, and a spare one for each. What the module returns for the role server; OSError, FabricError."""
    commands = []
    address = params["address"] or default_address()
    for test in params["tests"]:
        # where its client will come
        ipv6 = ":" in (test["address"] or address or "")
        commands.append((test["test"], lambda port, test=test, ipv6=ipv6: _command(test, port, ipv6=ipv6)))
    deadline = params["deadline"] or params["timeout"] * (2 * len(commands) + 1) + 120
    # The spare ones cost a process that waits each. Only a second visit could start them later.
    outcome = start_servers(commands * 2, params["first_port"], deadline, params["timeout"])
    results, spares = outcome["results"][: len(commands)], outcome["results"][len(commands) :]
    for result, spare in zip(results, spares):
        if not result["listening"] and not result["problem"]:
            problem = explain(result["output"])
            result["problem"] = {"cause": problem.cause, "remedy": problem.remedy}
        result["spare"] = {key: spare[key] for key in ("tcp_port", "listening")}
    outcome.update(results=results, started=bool(results) and all(result["listening"] for result in results))
    return {"changed": False, "address": address, **outcome}


def _run_test(test: Json, tcp_port: int, address: str, timeout: int) -> Json:
    line = _command(test, tcp_port, address)
    (run,) = run_clients([line], timeout)
    return {**measured(test["test"], run["output"]), **run, "command": line, "address": address}


def measure(params: Json) -> Json:
    """Runs the clients, one after the other, against the servers that were started. What the module returns for the role client.

    A test whose figures cannot be is run once more, against its spare server.
    """
    results = []
    for test, server in zip(params["tests"], params["servers"]):
        address = test["address"] or params["address"]
        if not server["tcp_port"] or not server["listening"] or not address:
            problem = server["problem"] or {
                "cause": "no server was started" if address else "the address of the server is not known",
                "remedy": "see the other host" if address else "give the address",
            }
            results.append({**measured(test["test"], ""), "status": None, "problem": problem, "address": address})
            continue
        run = _run_test(test, server["tcp_port"], address, params["timeout"])
        spare = server.get("spare") or {}
        again = bool(run["senseless"] and spare.get("listening") and spare.get("tcp_port"))
        if again:
            run = _run_test(test, spare["tcp_port"], address, params["timeout"])
        if not run["problem"] and (run["status"] != 0 or not (run["bandwidth_gbps"] or run["latency_us"])):
            if run["timed_out"]:
                why = timed_out(params["timeout"], run["output"])
            elif run["senseless"] and run["status"] == 0:
                why = explain_senseless(run["senseless"])
            else:
                why = explain(run["output"], "", run["status"])
            run["problem"] = {"cause": why.cause, "remedy": why.remedy}
        results.append({**run, "repeated": again})
    return {"changed": False, "results": results}
