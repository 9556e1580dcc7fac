# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Pods that measure look like, what their script does, and what is read out of what they print."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import explain
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import (
    CONTAINER,
    SCRIPT,
    Wish,
    bytes_of,
    checked,
    in_words,
    insist_on_memory,
    look_words,
    misplaced,
    parse_log,
    pod_body,
    problem_of,
    result_of,
    senseless,
    stage_of,
    succeeded,
    words_of,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import free_ports

RECORDED = Path(__file__).parent / "perftest"
Json = dict[str, t.Any]
LABELS = {"app.kubernetes.io/managed-by": "fabric.rdma", "rdma.fabric/inventory": "default"}
HOSTILE = ["$(touch x)", "`touch x`", "a;touch x", "a b", "-d", "'", '"', "a\nb", "../x", "*", ""]


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


def a_wish(**given: t.Any) -> Wish:
    default = {"image": "registry.example/perftest:1", "namespace": "default", "host_network": True, "user": 1000}
    more = {"timeout": 5, "first_port": 18515, "labels": LABELS, "run": "abc"}
    return Wish(**{**default, **more, **given})


def a_pair(*tests: str, address: str | None = "198.51.100.2", **given: t.Any) -> Json:
    """A pair as rdma_pairs gives it."""
    ends = {
        "client": {"host": "lab1", "device": "mlx5_0", "port": 1, "gid_index": 1, "address": "198.51.100.1"},
        "server": {"host": "lab2", "device": "mlx5_1", "port": 1, "gid_index": 1, "address": address},
    }
    made = [
        {
            "test": name,
            **ends,
            "message_bytes": 65536,
            "iterations": 100,
            "qps": 1,
            "floor": {"min_gbps": 0.001} if name.endswith("_bw") else {"max_us": 1e6},
            "floor_reason": "as set for software devices",
        }
        for name in tests or ("ib_write_bw", "ib_write_lat")
    ]
    own = {side: {"resources": ["rdma/rdma_a100"], "devices": [ends[side]["device"]]} for side in ends}
    return {"group": "a100", "client": "lab1", "server": "lab2", "tests": made, "pods": own, **given}


def a_log(
    *runs: tuple[int, str], user: int = 1000, soft: str = "unlimited", hard: str = "unlimited", files: str = "0"
) -> str:
    """What the script prints: the status and the output of each test."""
    lines = [f"@fabric.rdma user {user}", f"@fabric.rdma memlock {soft} {hard}"]
    lines += [f"@fabric.rdma file {name}" for name in (f"issm{files}", "rdma_cm", f"umad{files}", f"uverbs{files}")]
    for number, (status, output) in enumerate(runs):
        lines.append(f"@fabric.rdma begin {number}")
        lines += [f"@fabric.rdma out {number} {line}" for line in output.split("\n")]
        lines.append(f"@fabric.rdma end {number} {status}")
    return "\n".join(lines) + "\n"


# --- bodies ----------------------------------------------------------------------------------------------------------


def test_a_pod_asks_for_the_resource_and_for_no_privilege() -> None:
    words = words_of(checked(a_pair(), {})["tests"], "client", a_wish(), 18515)
    body = pod_body(a_wish(), "p", "node1.example", ["rdma/a", "rdma/b"], words)
    spec = body["spec"]
    (container,) = spec["containers"]
    assert container["resources"] == {"limits": {"rdma/a": "1", "rdma/b": "1"}}
    assert container["securityContext"] == {
        "runAsUser": 1000,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["command"][:4] == ["sh", "-c", SCRIPT, "fabric-rdma"]
    # the scheduler decides, and has no choice
    assert "nodeName" not in spec
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node1.example"]}]}
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["hostNetwork"] is True
    assert spec["restartPolicy"] == "Never"
    assert spec["terminationGracePeriodSeconds"] == 0
    assert spec["automountServiceAccountToken"] is False
    # it ends by itself, later than all that it may do
    assert spec["activeDeadlineSeconds"] > 2 * 2 * 5
    assert body["metadata"] == {"name": "p", "namespace": "default", "labels": LABELS}


def test_values_are_arguments_and_no_part_of_the_script() -> None:
    tests = checked(a_pair(), {})["tests"]
    side, limit, bandwidth, latency = words_of(tests, "client", a_wish(), 18515)
    assert (side, limit) == ("client", "5")
    assert bandwidth == ("ib_write_bw -F -d mlx5_0 -i 1 -s 65536 -n 100 -p 18515 -x 1 -q 1 --report_gbits 198.51.100.2")
    assert latency == "ib_write_lat -F -d mlx5_0 -i 1 -s 65536 -n 100 -p 18516 -x 1 198.51.100.2"
    server = words_of(tests, "server", a_wish(), 18515)
    assert server[2] == "ib_write_bw -F -d mlx5_1 -i 1 -s 65536 -n 100 -p 18515 -x 1 -q 1 --report_gbits"
    assert int(server[1]) > 2 * 5


@pytest.mark.parametrize(
    ("host_network", "known", "reached"),
    [
        (True, "198.51.100.2", "198.51.100.2"),
        # InfiniBand: the planner knows no address
        (True, None, "10.0.0.9"),
        (False, "198.51.100.2", "10.0.0.9"),
    ],
)
def test_where_the_server_is_reached(host_network: bool, known: str | None, reached: str) -> None:
    tests = checked(a_pair("ib_write_bw", address=known), {})["tests"]
    words = words_of(tests, "client", a_wish(host_network=host_network), 18515, "10.0.0.9")
    assert words[2].split()[-1] == reached


@pytest.mark.parametrize(
    ("pod_ip", "known", "family"),
    [
        ("2001:db8::9", None, ["--ipv6-addr"]),
        ("192.0.2.9", None, []),
        ("2001:db8::9", "198.51.100.2", []),
        # in the node's network, where its host is reached
        ("192.0.2.9", "2001:db8::2", ["--ipv6-addr"]),
        ("", None, []),
    ],
)
def test_the_server_listens_where_its_client_comes(
    tmp_path: Path, pod_ip: str, known: str | None, family: list[str]
) -> None:
    """Of which family the address of a Pod is, nobody knows before it runs."""
    tests = checked(a_pair("ib_write_bw", address=known), {})["tests"]
    words = words_of(tests, "server", a_wish(), 18515)
    (container,) = pod_body(a_wish(), "p", "n", ["rdma/a"], words)["spec"]["containers"]
    (variable,) = container["env"]
    assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    executable(tmp_path, "ib_write_bw", 'echo "$@"')
    with started(tmp_path, *words, **{variable["name"]: pod_ip}) as process:
        output = process.communicate(timeout=limit(60))[0]
    client = words_of(tests, "client", a_wish(), 18515, pod_ip or "192.0.2.9")[2].split()
    assert parse_log(output)["runs"][0]["output"].split()[-len(family) - 1 :] == ["--report_gbits", *family]
    assert ("--ipv6-addr" in client) is bool(family)


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("where", ["device", "address", "resource", "node", "test"])
def test_no_value_of_a_node_is_more_than_a_word(where: str, value: str) -> None:
    pair, names = a_pair(), {}
    if where == "device":
        pair["tests"][1]["client"] = {**pair["tests"][1]["client"], "device": value}
    elif where == "address":
        pair["tests"][0]["server"] = {**pair["tests"][0]["server"], "address": value}
    elif where == "resource":
        pair["pods"]["server"] = {"resources": [value], "devices": []}
    elif where == "test":
        pair["tests"][0]["test"] = value
    elif value:
        names = {"lab1": value}
    else:
        pair["client"] = ""
    with pytest.raises(WishError):
        words_of(checked(pair, names)["tests"], "client", a_wish(), 18515)


@pytest.mark.parametrize(
    "given",
    [
        {"image": "a b"},
        {"image": ""},
        {"image": "-x"},
        {"namespace": "a/b"},
        {"namespace": "A"},
        {"user": -1},
        {"timeout": 0},
        {"first_port": 70000},
    ],
    ids=str,
)
def test_an_invalid_wish_is_named(given: Json) -> None:
    with pytest.raises(WishError, match=re.escape(str(next(iter(given.values()))).partition("'")[0] or "image ''")):
        a_wish(**given)


def test_an_inventory_is_a_value_of_a_label() -> None:
    with pytest.raises(WishError, match=r"'a,b=c' cannot be the value of the label rdma.fabric/inventory"):
        a_wish(labels={"rdma.fabric/inventory": "a,b=c"})


@pytest.mark.parametrize("pair", [{}, None, "x", {"tests": 5}, {**a_pair(), "pods": None}, {**a_pair(), "tests": [1]}])
def test_what_is_no_pair_is_an_error(pair: t.Any) -> None:
    with pytest.raises(WishError, match="a pair is not one of"):
        checked(pair, {})


def test_a_node_may_have_another_name() -> None:
    assert checked(a_pair(), {"lab1": "node-1.example"})["nodes"] == {"client": "node-1.example", "server": "lab2"}


def test_what_would_be_measured_is_told() -> None:
    assert in_words([[a_pair()], []]) == "between Pods would be measured: lab1 and lab2 (ib_write_bw, ib_write_lat)"
    assert in_words([]) == "between Pods would be measured: nothing"
    assert "and 5 more pairs" in in_words([[a_pair()] * 25])


# --- the script, run by a real shell ---------------------------------------------------------------------------------


def run(tmp_path: Path, *words: str, **programs: str) -> subprocess.CompletedProcess[str]:
    """programs: what stands for perftest, each a script of its own."""
    for name, text in programs.items():
        executable(tmp_path, name, text)
    with started(tmp_path, *words) as process:
        output = process.communicate(timeout=limit(60))[0]
    return subprocess.CompletedProcess(process.args, process.returncode, output)


def executable(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def started(
    tmp_path: Path, *words: str, shell: str = "sh", output: int = subprocess.PIPE, **variables: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [shell, "-c", SCRIPT, "fabric-rdma", *words],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **variables},
        stdin=subprocess.DEVNULL,
        stdout=output,
        text=True,
        start_new_session=True,
    )


def end_group(process: subprocess.Popen[str]) -> None:
    """Ends the script with all that it has started, as a container ends."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_the_script_tells_what_it_was_given_and_runs_each_test(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "server",
        "20",
        "ib_write_bw -d mlx5_0",
        "ib_write_lat -p 5",
        ib_write_bw='echo "$@"',
        ib_write_lat="exit 3",
    )
    found = parse_log(done.stdout)
    assert done.returncode == 1
    assert found["user"] == os.getuid()
    assert set(found["memlock"]) == {"soft", "hard"}
    assert None not in found["memlock"].values()
    assert found["runs"] == {0: {"status": 0, "output": "-d mlx5_0"}, 1: {"status": 3, "output": ""}}


def test_the_script_evaluates_nothing(tmp_path: Path) -> None:
    line = "ib_write_bw $(touch x) `touch x` ; touch x * ~ ${PATH}"
    done = run(tmp_path, "client", "5", line, ib_write_bw='printf "%s\\n" "$@"')
    assert not (tmp_path / "x").exists()
    assert parse_log(done.stdout)["runs"][0]["output"].split("\n") == line.split()[1:]


def test_a_client_waits_for_its_server(tmp_path: Path) -> None:
    program = (
        '[ -e tried ] && { echo done; exit 0; }; touch tried; echo "Couldn\'t connect to 198.51.100.2:18515"; exit 1'
    )
    done = run(tmp_path, "client", "20", "ib_write_bw", ib_write_bw=program)
    assert parse_log(done.stdout)["runs"][0] == {"status": 0, "output": "done"}
    assert done.returncode == 0


def test_a_client_does_not_wait_for_ever_and_repeats_no_other_failure(tmp_path: Path) -> None:
    programs = {
        "ib_write_bw": 'echo "Couldn\'t connect to 198.51.100.2:18515"; exit 1',
        "ib_write_lat": "echo x >> runs; echo Failed status 12; exit 1",
    }
    found = parse_log(run(tmp_path, "client", "2", *programs, **programs).stdout)
    assert [found["runs"][number]["status"] for number in (0, 1)] == [1, 1]
    assert (tmp_path / "runs").read_text() == "x\n"


def test_a_test_that_hangs_is_ended(tmp_path: Path) -> None:
    programs = {"ib_write_bw": "echo begun; exec sleep 50", "ib_write_lat": "echo well"}
    for side in ("client", "server"):
        found = parse_log(run(tmp_path, side, "1", *programs, **programs).stdout)
        assert found["runs"][0] == {"status": 137, "output": "begun"}
        assert found["runs"][1] == {"status": 0, "output": "well"}
    (late, well) = result_of(
        run(tmp_path, "client", "1", *programs).stdout, "p", [{"test": "ib_write_bw"}] * 2, a_wish()
    )["results"]
    assert (late["timed_out"], well["timed_out"]) == (True, False)


def test_a_test_that_is_killed_before_its_time_is_not_called_slow(tmp_path: Path) -> None:
    """As the kernel kills it where the Pod's memory is used up."""
    programs = {"ib_write_bw": "echo begun; kill -9 $$", "ib_write_lat": "echo well"}
    for side in ("client", "server"):
        said = run(tmp_path, side, "20", *programs, **programs).stdout
        tests = [{"test": name} for name in programs]
        (killed, well) = result_of(said, "p", tests, a_wish())["results"]
        assert (killed["timed_out"], well["status"]) == (False, 0)
        assert "ib_write_bw was killed before its time was over" in killed["problem"]["cause"]
        assert "verify_pod_memory" in killed["problem"]["remedy"]


# What perftest does before it measures: a device, then a connection, by the port and the address of its arguments.
PROGRAM = """
import socket, sys
words = sys.argv[1:]
if words[words.index("-d") + 1] == "missing":
    sys.exit("IB device missing not found")
port = int(words[words.index("-p") + 1])
if words[-1] == "127.0.0.1":
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as other:
            other.sendall(b"x" * 10)
    except OSError:
        print(f"Couldn't connect to 127.0.0.1:{port}")
        sys.exit(1)
else:
    with socket.create_server(("127.0.0.1", port)) as listening, listening.accept()[0] as other:
        while other.recv(5):
            pass
print("measured on", port)
"""


@pytest.mark.parametrize("missing", ["client", "server"])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_test_that_fails_before_it_connects_costs_no_other(tmp_path: Path, missing: str, shell: str) -> None:
    """One HCA of several is not there, at either end."""
    (tmp_path / "program").write_text(PROGRAM)
    executable(tmp_path, "ib_write_bw", f'exec {sys.executable} -u {tmp_path}/program "$@"')
    ports = free_ports(3)

    def words(side: str) -> list[str]:
        devices = ["missing" if side == missing else "mlx5_0", "mlx5_1", "mlx5_2"]
        end = " 127.0.0.1" if side == "client" else ""
        return [f"ib_write_bw -d {device} -p {port}{end}" for device, port in zip(devices, ports, strict=True)]

    log = tmp_path / "log"
    with open(log, "wb") as stream:
        server = started(tmp_path, "server", "1000", *words("server"), shell=shell, output=stream.fileno())
    try:
        client = started(tmp_path, "client", "4", *words("client"), shell=shell)
        found = parse_log(client.communicate(timeout=limit(90))[0])["runs"]
        # a server to which nobody has come waits on
        ends = 3 if missing == "server" else 2
        end = time.monotonic() + limit(30)
        while log.read_text().count("@fabric.rdma end") < ends and time.monotonic() < end:
            time.sleep(0.05)
        served = parse_log(log.read_text())["runs"]
    finally:
        end_group(server)
    assert [run["status"] for run in found.values()] == [1, 0, 0]
    assert [run["status"] for run in served.values()] == [1 if missing == "server" else None, 0, 0]
    for runs in (found, served):
        assert [runs[number]["output"] for number in (1, 2)] == [f"measured on {port}" for port in ports[1:]]
    assert explain(found[0]["output"], served[0]["output"]).cause == "there is no RDMA device missing"


def test_outputs_at_the_same_time_are_told_apart(tmp_path: Path) -> None:
    """Of servers that all end at once, a line without an end included."""
    program = 'n=0; while [ $n -lt 200 ]; do echo "$1 $n"; n=$((n + 1)); done; printf "end of $1"; exit $1'
    done = run(tmp_path, "server", "20", *(f"ib_write_bw {number}" for number in range(4)), ib_write_bw=program)
    found = parse_log(done.stdout)["runs"]
    for number in range(4):
        lines = [f"{number} {line}" for line in range(200)]
        assert found[number] == {"status": number, "output": "\n".join([*lines, f"end of {number}"])}
    assert done.returncode == 1


def test_a_program_says_nothing_in_the_name_of_the_script(tmp_path: Path) -> None:
    lies = ["user 0", "memlock unlimited unlimited", "file uverbs99", "end 0 0", "begin 7", "out 0 x"]
    program = "\n".join([*(f'echo "@fabric.rdma {lie}"' for lie in lies), "exit 3"])
    for side in ("client", "server"):
        found = parse_log(run(tmp_path, side, "5", "ib_write_bw", ib_write_bw=program).stdout)
        assert found["runs"] == {0: {"status": 3, "output": "\n".join(f"@fabric.rdma {lie}" for lie in lies)}}
        assert found["user"] == os.getuid()
        assert "uverbs99" not in found["files"]


def test_what_was_given_is_told_before_the_first_test() -> None:
    """What comes later is not of the script."""
    log = a_log((0, "x")) + "@fabric.rdma user 0\n@fabric.rdma memlock 1 2\n@fabric.rdma file uverbs99\n"
    assert parse_log(log) == parse_log(a_log((0, "x")))


def test_a_program_that_is_not_in_the_image(tmp_path: Path) -> None:
    log = run(tmp_path, "server", "5", "ib_read_bw -d x").stdout
    (result,) = result_of(log, "p", [{"test": "ib_read_bw"}], a_wish())["results"]
    assert result["status"] is None
    assert result["problem"]["cause"] == "ib_read_bw is not in the image registry.example/perftest:1"


# --- what it printed -------------------------------------------------------------------------------------------------


def test_a_log_tells_user_limit_devices_and_runs() -> None:
    output = recorded("bandwidth-gbits-two-qps-client")
    found = parse_log("a line of the image\n" + a_log((0, output), (1, "")))
    assert found["user"] == 1000
    assert found["memlock"] == {"soft": "unlimited", "hard": "unlimited"}
    assert found["files"] == ["issm0", "rdma_cm", "umad0", "uverbs0"]
    assert found["runs"][0]["output"].strip() == output.strip()
    assert found["runs"][1]["status"] == 1


def test_a_log_that_breaks_off_fails_the_tests_that_it_does_not_end() -> None:
    log = a_log((0, "x"), (0, "y")).rpartition("@fabric.rdma end")[0]
    results = result_of(log, "p", [{"test": "ib_write_bw"}] * 3, a_wish())["results"]
    assert [each["status"] for each in results] == [0, None, None]
    assert results[1]["problem"]["cause"] == "the Pod default/p ended before ib_write_bw did"
    given = result_of(log, "p", [{"test": "ib_write_bw"}] * 3, a_wish(), {"cause": "c", "remedy": "r"})
    assert [each["problem"] for each in given["results"]] == [
        None,
        {"cause": "c", "remedy": "r"},
        {"cause": "c", "remedy": "r"},
    ]


@given(
    st.text(
        alphabet=st.characters() | st.sampled_from("@fabric.rdma \nbeginendusermemlockfile0123456789-"), max_size=400
    )
)
def test_any_log_is_read(text: str) -> None:
    for log in (text, "@fabric.rdma begin 0\n" + text, "@fabric.rdma " + text):
        found = result_of(log, "p", [{"test": "ib_write_bw"}], a_wish())
        assert len(found["results"]) == 1


def test_only_figures_that_cannot_be_are_worth_a_second_try() -> None:
    row = " 65536      100              {0}               {0}               0.000139"
    head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    tests = [{"test": "ib_write_bw"}] * 4
    log = a_log((0, head + row.format("0.07")), (0, head + row.format("inf")), (1, head + row.format("inf")), (0, ""))
    assert senseless(tests, result_of(log, "p", tests, a_wish())) == [1]


# --- how it is doing -------------------------------------------------------------------------------------------------


def a_pod(phase: str = "Pending", **state: t.Any) -> Json:
    ours = {"name": CONTAINER, "state": state}
    return {"metadata": {"name": "p", "uid": "u"}, "status": {"phase": phase, "containerStatuses": [ours]}}


def test_another_container_of_a_pod_is_none_of_it() -> None:
    """One that admission has put there, in whatever state and place."""
    for state in ({"running": {}}, {"terminated": {"exitCode": 1}}, {"waiting": {"reason": "ImagePullBackOff"}}):
        other = {"name": "proxy", "state": state}
        pod = a_pod("Running", terminated={"exitCode": 0})
        assert (stage_of(pod), succeeded(pod)) == ("ended", True)
        pod["status"]["containerStatuses"].insert(0, other)
        assert (stage_of(pod), succeeded(pod)) == ("ended", True)
        pod = a_pod("Pending", waiting={"reason": "ContainerCreating"})
        pod["status"]["containerStatuses"].insert(0, other)
        assert stage_of(pod) == "pending"
        del pod["status"]["containerStatuses"][1]
        assert stage_of(pod) == "pending"


UNSCHEDULABLE = {
    "status": {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/2 nodes are available: 1 Insufficient rdma/rdma_a100.",
            }
        ],
    }
}


@pytest.mark.parametrize(
    ("pod", "stage", "cause", "remedy"),
    [
        ({}, "pending", "is gone: no reason is given", "describe pod"),
        (UNSCHEDULABLE, "unschedulable", "1 Insufficient rdma/rdma_a100.", "lists the resource as allocatable"),
        (
            a_pod(waiting={"reason": "ImagePullBackOff", "message": "Back-off pulling image"}),
            "stuck",
            "is Pending: ImagePullBackOff: Back-off pulling image",
            "registry.example/perftest:1",
        ),
        (a_pod(waiting={"reason": "ErrImagePull", "message": "x"}), "pending", "ErrImagePull: x", "verify_pod_image"),
        (a_pod(waiting={"reason": "ContainerCreating"}), "pending", "ContainerCreating", "describe pod"),
        (a_pod("Running", running={"startedAt": "x"}), "running", "is Running", "describe pod"),
        (
            a_pod("Failed", terminated={"reason": "StartError", "message": 'exec: "sh": not found', "exitCode": 128}),
            "ended",
            'is Failed: StartError: exec: "sh": not found (exit status 128)',
            "sh and perftest",
        ),
        (
            {
                "status": {
                    "phase": "Failed",
                    "reason": "UnexpectedAdmissionError",
                    "message": "Allocate failed due to x",
                }
            },
            "ended",
            "UnexpectedAdmissionError: Allocate failed due to x",
            "log of the device plugin",
        ),
        ({"status": {"phase": "Failed", "reason": "DeadlineExceeded"}}, "ended", "DeadlineExceeded", "verify_timeout"),
    ],
)
def test_a_pod_is_told_with_its_phase_and_message(pod: Json, stage: str, cause: str, remedy: str) -> None:
    assert stage_of(pod) == stage
    problem = problem_of(pod, a_wish(), "p", "lab1")
    assert problem["cause"].startswith("the Pod default/p on lab1 is ")
    assert cause in problem["cause"]
    assert remedy in problem["remedy"]


# --- what a Pod is given ---------------------------------------------------------------------------------------------


def test_a_pod_that_only_looks_tells_and_ends(tmp_path: Path) -> None:
    """What its image lacks, too; it measures nothing."""
    done = run(tmp_path, *look_words(["ib_write_bw", "ib_fly_bw", "ib_write_bw"]), ib_write_bw="touch ran")
    found = parse_log(done.stdout)
    assert done.returncode == 0
    assert not (tmp_path / "ran").exists()
    assert found["lacks"] == ["ib_fly_bw"]
    assert found["runs"] == {}
    effective = next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "CapEff" in line)
    assert found["ipc_lock"] == bool(int(effective, 16) >> 14 & 1)


def test_a_log_says_what_a_pod_was_given() -> None:
    lines = [
        "user 0",
        "memlock 64 8192",
        "caps 0000000000004000",
        "memory 536870912",
        "file uverbs0 mlx5_0",
        "file rdma_cm ",
        "lacks ib_read_bw",
        "lacks $(x)",
    ]
    found = parse_log("".join(f"@fabric.rdma {line}\n" for line in lines))
    assert found == {
        "user": 0,
        "memlock": {"soft": "64", "hard": "8192"},
        "ipc_lock": True,
        "memory": 536870912,
        "files": ["rdma_cm", "uverbs0"],
        "hcas": {"uverbs0": "mlx5_0"},
        "lacks": ["ib_read_bw"],
        "runs": {},
    }


@pytest.mark.parametrize("line", ["memory max", "memory 9223372036854771712", "memory", "memory -1", "memory x"])
def test_a_cgroup_without_a_limit_of_memory_says_so(line: str) -> None:
    assert parse_log(f"@fabric.rdma {line}\n")["memory"] is None


@pytest.mark.parametrize("line", ["caps 00000000a80425fb", "caps 0"])
def test_a_pod_without_the_capability_says_so(line: str) -> None:
    assert parse_log(f"@fabric.rdma {line}\n")["ipc_lock"] is False


def test_a_capability_and_a_limit_are_only_there_where_wished_for() -> None:
    wish = a_wish(ipc_lock=True, memory=bytes_of("2Gi"))
    (container,) = pod_body(wish, "p", "n", ["rdma/a"], look_words([]), 0)["spec"]["containers"]
    assert container["resources"]["limits"] == {"rdma/a": "1", "memory": str(2 << 30)}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert container["securityContext"]["runAsUser"] == 0


@pytest.mark.parametrize(("text", "size"), [("", None), ("5", 5), ("2Gi", 2 << 30), ("3M", 3_000_000), ("1Ki", 1024)])
def test_a_quantity_of_memory_is_read_as_bytes(text: str, size: int | None) -> None:
    assert bytes_of(text) == size


@given(st.integers(1, 64), st.sampled_from([65536, 8 << 20]), st.booleans(), st.booleans(), st.integers(1, 8))
def test_a_limit_that_would_break_registration_is_refused(
    qps: int, size: int, all_sizes: bool, both: bool, count: int
) -> None:
    """Never without a word: with less than the buffers of all tests, the kernel would end the Pod."""
    test = {**a_pair("ib_write_bw")["tests"][0], "qps": qps, "message_bytes": size}
    more = {**({"all_sizes": True} if all_sizes else {}), **({"bidirectional": True} if both else {})}
    pair = {**a_pair(), "tests": [{**test, **more}] * count}
    buffers = count * qps * (8 << 20 if all_sizes else size) * (4 if both else 2)
    with pytest.raises(WishError, match="which count since they are locked"):
        insist_on_memory(a_wish(memory=buffers), [[pair]])
    insist_on_memory(a_wish(memory=buffers + count * (64 << 20)), [[pair]])
    insist_on_memory(a_wish(), [[pair]])


def test_a_pod_that_came_to_another_node_is_named() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n2"}}
    problem = misplaced(pod, "n1")
    assert problem is not None
    assert problem["cause"].startswith("the Pod p landed on the node n2 and not on n1")
    assert misplaced(pod, "n2") is None
    assert misplaced({"spec": {}}, "n1") is None
