# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers, clients and their ends, with programs that behave like perftest but need no device."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._verify import perftest_run as _perftest_run
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest_run import (
    RunError,
    default_address,
    listening_ports,
    run_clients,
    start_servers,
    stop_servers,
)

# Without an address it waits for one connection and reports, with one it connects and reports: what perftest does.
PROGRAM = f"""#!{sys.executable} -SE
import os, signal, socket, sys, time
if os.environ.get("LC_ALL") != "C":
    sys.exit("the output would not be English")
words = sys.argv[1:]
device, port = words[words.index("-d") + 1], int(words[words.index("-p") + 1])
if device == "none":
    sys.exit("IB device none not found")
if device == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
family = socket.AF_INET6 if "--ipv6-addr" in words else socket.AF_INET
if words[-1][0].isdigit() and "." in words[-1] or ":" in words[-1]:
    if (":" in words[-1]) != (family == socket.AF_INET6):
        sys.exit("Problem in resolving basic address and port")
    if device == "slow":
        time.sleep(60)
    socket.create_connection((words[-1], port), 60).close()
else:
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", port))
    if device == "deaf":
        time.sleep(60)
    listener.listen(1)
    listener.accept()
print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
marker = os.path.join(os.path.dirname(sys.argv[0]), "measured")
if device == "hopeless" or (device == "busy" and not os.path.exists(marker) and "." in words[-1]):
    print(" 65536      100             inf                inf                inf")
    open(marker, "w").close()
else:
    print(" 65536      100             97.20              97.10              0.185204")
"""

FIRST_PORT = 23000


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Path]:
    """Programs in front of all others; run directories where nobody else's lie. No server may survive a test."""
    where = tmp_path / "bin"
    where.mkdir()
    for name in ("ib_write_bw", "ib_read_bw"):
        (where / name).write_text(PROGRAM)
        (where / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(where), prepend=os.pathsep)
    runs = tmp_path / "run"
    runs.mkdir()
    monkeypatch.setattr(_perftest_run, "_run_base", lambda: str(runs))
    yield where
    for left in runs.iterdir():
        stop_servers(str(left))


def first_port() -> int:
    """Test processes that run side by side look for ports in different places."""
    return FIRST_PORT + 600 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])


def serve(*devices: str, deadline: int = 600, patience: float = 20) -> dict[str, t.Any]:
    commands = [
        ("ib_write_bw", lambda port, device=device: ["ib_write_bw", "-d", device, "-p", str(port)])
        for device in devices
    ]
    return start_servers(commands, first_port(), deadline, limit(patience))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for_the_end(pids: t.Iterable[int]) -> None:
    """A server reports and ends beside its client, and may be the later of the two."""
    end = time.monotonic() + limit(20)
    left = set(pids)
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left = {pid for pid in left if running(pid)}
    assert not left


def test_servers_listen_when_they_are_returned() -> None:
    found = serve("one", "two")
    ports = [result["tcp_port"] for result in found["results"]]
    assert found["started"]
    assert [result["problem"] for result in found["results"]] == [None, None]
    assert len(set(ports)) == 2
    assert set(ports) <= listening_ports()
    mode = os.stat(found["run_dir"]).st_mode
    assert stat.S_IMODE(mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in Path(found["run_dir"]).glob("*.out"))
    stopped = stop_servers(found["run_dir"])
    assert (stopped["changed"], stopped["stopped"]) == (False, 2)
    assert not set(ports) & listening_ports()
    assert not os.path.exists(found["run_dir"])
    assert stop_servers(found["run_dir"]) == {"changed": False, "stopped": 0, "results": []}


def test_both_sides_say_what_was_measured_and_nothing_runs_on() -> None:
    found = serve("one")
    port = found["results"][0]["tcp_port"]
    (client,) = run_clients([["ib_write_bw", "-d", "one", "-p", str(port), "127.0.0.1"]], int(limit(20)))
    assert (client["status"], client["timed_out"], client["problem"]) == (0, False, None)
    assert "97.10" in client["output"]
    wait_for_the_end([found["results"][0]["pid"]])
    stopped = stop_servers(found["run_dir"])
    assert stopped["stopped"] == 0
    assert "97.10" in stopped["results"][0]["output"]


def test_kernel_ends_servers_at_their_deadline() -> None:
    """Nobody comes back, and nothing of ours runs any more that could end them."""
    found = serve("stubborn", deadline=2)
    pid = found["results"][0]["pid"]
    wait_for_the_end([pid])
    assert stop_servers(found["run_dir"])["stopped"] == 0


def test_stubborn_server_is_killed() -> None:
    found = serve("stubborn")
    assert stop_servers(found["run_dir"])["stopped"] == 1
    assert not running(found["results"][0]["pid"])


def test_process_with_the_number_of_a_server_is_left_alone() -> None:
    found = serve("one")
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        state = Path(found["run_dir"], "servers.json")
        pid = found["results"][0]["pid"]
        state.write_text(state.read_text().replace(str(pid), str(stranger.pid), 1))
        assert stop_servers(found["run_dir"])["stopped"] == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
        os.kill(pid, signal.SIGKILL)


def test_one_that_fails_does_not_hold_up_the_others() -> None:
    found = serve("none", "one")
    assert not found["started"]
    assert [result["listening"] for result in found["results"]] == [False, True]
    assert found["results"][0]["output"] == "IB device none not found\n"


def test_server_that_never_listens() -> None:
    found = serve("deaf", patience=0.5)
    assert "did not listen on TCP port" in found["results"][0]["problem"]["cause"]


def test_client_that_hangs_is_ended() -> None:
    begin = time.monotonic()
    (client,) = run_clients([["ib_write_bw", "-d", "slow", "-p", "1", "127.0.0.1"]], 1)
    assert (client["timed_out"], client["status"]) == (True, -signal.SIGKILL)
    assert time.monotonic() - begin < limit(10)


def test_a_missing_program_is_the_cause() -> None:
    (client,) = run_clients([["ib_never_bw", "-d", "one"]], 5)
    assert client["problem"]["cause"] == "ib_never_bw is not installed"
    found = start_servers([("ib_never_bw", lambda port: ["ib_never_bw"])], first_port(), 5, 5)
    assert (found["run_dir"], found["started"]) == (None, False)


def test_busy_ports_are_passed_over() -> None:
    first, second = serve("one"), serve("one")
    assert second["results"][0]["tcp_port"] > first["results"][0]["tcp_port"]


@pytest.mark.parametrize("name", ["fabric-rdma-other", "fabric-rdma-perftest-../x", "elsewhere"])
def test_foreign_directories_are_refused(tmp_path: Path, name: str) -> None:
    where = tmp_path / "run" / name.replace("/", "_")
    where.mkdir(mode=0o700)
    with pytest.raises(RunError, match="is not one that role server has made"):
        stop_servers(str(where))
    where.rmdir()


def test_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "run" / "fabric-rdma-perftest-abc"
    link.symlink_to(real)
    with pytest.raises(RunError, match="is not a private directory of this user"):
        stop_servers(str(link))
    link.unlink()


def test_cut_off_state_is_survived(tmp_path: Path) -> None:
    where = tmp_path / "run" / "fabric-rdma-perftest-abc"
    where.mkdir(mode=0o700)
    (where / "servers.json").write_text('{"boot": "x", "serv')
    assert stop_servers(str(where)) == {"changed": False, "stopped": 0, "results": []}


def test_only_what_nobody_uses_any_more_is_swept(tmp_path: Path) -> None:
    mine = serve("one")
    left = tmp_path / "run" / "fabric-rdma-perftest-left"
    left.mkdir(mode=0o700)
    young = tmp_path / "run" / "fabric-rdma-perftest-young"
    young.mkdir(mode=0o700)
    other = tmp_path / "run" / "other"
    other.mkdir()
    for path in (left, other, Path(mine["run_dir"])):
        os.utime(path, (1, 1))
    stop_servers(serve("two")["run_dir"])
    assert (left.exists(), young.exists(), other.exists()) == (False, True, True)
    assert running(mine["results"][0]["pid"])
    other.rmdir()


def test_listening_ports_are_those_of_both_families(tmp_path: Path) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    (tmp_path / "tcp").write_text(
        head
        + "   0: 00000000:48A8 00000000:0000 0A 00000000:0 00:0 0 0 0 1\n   1: 0100007F:1F90 0100007F:C350 01 0:0 0:0\n"
    )
    (tmp_path / "tcp6").write_text(
        head + "   0: 00000000000000000000000000000000:0016 0:0000 0A 0:0 00:0 0 0 0 1\nstrange\n"
    )
    assert listening_ports([str(tmp_path / name) for name in ("tcp", "tcp6", "absent")]) == {18600, 22}


def test_default_address_is_one_or_none() -> None:
    address = default_address()
    assert address is None or "." in address or ":" in address
