# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running perftest on a node: servers that wait in the background, clients, and the end of both. Private to the collection.

A server is one perftest process for each test, all waiting at once, each on its own TCP port: a perftest server takes
nothing from its device before a client has connected, so the clients set the order and no two sides need be in step.
Nothing supervises them, so nothing that supervises can die. The kernel ends each at its deadline, by two timers that outlive
execve(2): alarm(2), and RLIMIT_CPU for perftest that sets an alarm of its own (ib_send_*), which polls its CPU all the time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import read, replace
from ansible_collections.fabric.rdma.plugins.module_utils._base.places import BOOT_ID

__all__ = ["RunError", "default_address", "listening_ports", "run_clients", "start_servers", "stop_servers"]

Json = t.Dict[str, t.Any]

_PREFIX = "fabric-rdma-perftest-"
_STATE = "servers.json"
# More of an output says nothing: a table of all sizes is 3 kB.
_MAX_OUTPUT = 64 * 1024
_POLL_SECONDS = 0.05
# Between the making of a directory and the first server in it.
_YOUNG_SECONDS = 60
# /proc/net/tcp: connection state TCP_LISTEN (include/net/tcp_states.h).
_LISTEN = "0A"


class RunError(FabricError):
    """Arguments or a state of the node with which nothing can be started."""


def _environment() -> dict[str, str]:
    # The texts that are parsed are English, and the decimal point is a point.
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {**os.environ, "LC_ALL": "C", "LANGUAGE": "C", "PATH": path}


def _missing(program: str) -> t.Optional[Json]:
    if shutil.which(program, path=_environment()["PATH"]):
        return None
    return {
        "cause": f"{program} is not installed",
        "remedy": "install the package perftest (the role fabric.rdma.ofed does)",
    }


def _bounded(seconds: int) -> t.Callable[[], None]:
    """What a child does before it becomes perftest: timers of the kernel that end it whatever happens to us."""

    def prepare() -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
        signal.alarm(seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return prepare


def _start(command: t.Sequence[str], seconds: int, output: int) -> subprocess.Popen[bytes]:
    # Into a file the C library writes blocks, and what was not written yet is lost when the program is killed.
    stdbuf = shutil.which("stdbuf", path=_environment()["PATH"])
    # run_command() of Ansible can neither leave a process behind nor bound one.
    return subprocess.Popen(  # pylint: disable=ansible-bad-function
        [stdbuf, "-oL", *command] if stdbuf else list(command),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=_environment(),
        cwd="/",
        close_fds=True,
        start_new_session=True,
        preexec_fn=_bounded(seconds),
    )


def _text(path: str) -> str:
    try:
        with open(path, "rb") as handle:
            return handle.read(_MAX_OUTPUT).decode("utf-8", "replace")
    except OSError:
        return ""


# --- ports and addresses ----------------------------------------------------------------------------------------------


def listening_ports(tables: t.Iterable[str] = ("/proc/net/tcp", "/proc/net/tcp6")) -> set[int]:
    """TCP ports on which something listens, over IPv4 or IPv6 (Documentation/networking/proc_net_tcp.rst)."""
    ports = set()
    for path in tables:
        try:
            with open(path) as handle:
                lines = handle.read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 3 and fields[3] == _LISTEN:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def _free_ports(first: int, count: int) -> list[int]:
    """The first ports from a given one on that nobody uses; bound once to see that they can be."""
    used = listening_ports()
    found: list[int] = []
    for port in range(first, min(first + 512, 65536)):
        if len(found) == count:
            break
        if port in used:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # perftest sets it too: a port in TIME_WAIT is free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
        found.append(port)
    if len(found) < count:
        raise RunError(
            f"fewer than {count} of the TCP ports {first} to {first + 511} are free", "give another first_port"
        )
    return found


def default_address() -> t.Optional[str]:
    """The address from which this host talks to others, None without a default route. Sends nothing."""
    for family, remote in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                # connect(2) of a datagram socket only looks up the route
                probe.connect((remote, 9))
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return None


# --- processes that may have ended meanwhile ----------------------------------------------------------------------------


def _start_time(pid: int) -> t.Optional[str]:
    """Start of a process in clock ticks since boot (field 22 of proc(5) stat), None when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as handle:
            fields = handle.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if len(fields) < 20 or fields[0] in "ZX" else fields[19]


def _boot() -> str:
    return _text(BOOT_ID).strip()


def _alive(server: Json, boot: str) -> bool:
    """Whether the very process still runs: a number is given again to others, also after a reboot."""
    return boot == _boot() and _start_time(int(server["pid"])) == server["started"]


def _kill(pid: int, number: int) -> None:
    for target in (os.killpg, os.kill):
        try:
            target(pid, number)
            return
        except ProcessLookupError:
            continue
        except PermissionError:
            return


def _end_servers(servers: t.Sequence[Json], boot: str) -> int:
    """Ends those that still run; how many that were."""
    alive = [server for server in servers if _alive(server, boot)]
    for number, patience in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + patience
        for server in alive:
            if _alive(server, boot):
                _kill(int(server["pid"]), number)
        while any(_alive(server, boot) for server in alive) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    return len(alive)


# --- servers ----------------------------------------------------------------------------------------------------------


def _run_base() -> str:
    return "/run" if os.access("/run", os.W_OK) else tempfile.gettempdir()


def _state(run_dir: str) -> Json:
    """What start_servers() noted: boot, and pid, start, port and output of each server. Nobody where that was cut off."""
    state: Json = {"boot": "", "servers": []}
    with contextlib.suppress(ValueError, RecursionError):
        state.update(json.loads(_text(os.path.join(run_dir, _STATE)) or "{}"))
    return state


def _sweep() -> None:
    """Removes the directories that a controller that died has left behind, once the kernel has ended their servers."""
    base = _run_base()
    for name in os.listdir(base):
        path = os.path.join(base, name)
        try:
            if not name.startswith(_PREFIX) or time.time() - os.lstat(path).st_mtime < _YOUNG_SECONDS:
                continue
            _checked(path)
            state = _state(path)
            # Those that run belong to a measurement of somebody else, which is none of our business.
            if not any(_alive(server, str(state["boot"])) for server in state["servers"]):
                shutil.rmtree(path, ignore_errors=True)
        except (OSError, RunError):
            continue


def start_servers(
    commands: t.Sequence[tuple[str, t.Callable[[int], list[str]]]], first_port: int, deadline: int, patience: float
) -> Json:
    """Starts a server for each (program, command for a TCP port), and waits until all listen.

    deadline: seconds after which the kernel ends them; patience: seconds to wait for them to listen.
    Returns {run_dir, started, results: [{tcp_port, pid, output, problem}]}; run_dir None when nothing was started.
    """
    missing = [_missing(program) for program, _command in commands]
    if any(missing):
        return {"run_dir": None, "started": False, "results": [_served(problem=problem) for problem in missing]}
    _sweep()
    run_dir = tempfile.mkdtemp(prefix=_PREFIX, dir=_run_base())
    ports = _free_ports(first_port, len(commands))
    servers: list[Json] = []
    children = []
    try:
        for index, (port, (_program, command)) in enumerate(zip(ports, commands)):
            path = os.path.join(run_dir, f"{index}.out")
            output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                child = _start(command(port), deadline, output)
            finally:
                os.close(output)
            children.append(child)
            servers.append({"pid": child.pid, "started": _start_time(child.pid), "port": port, "output": path})
            # After each one: whoever stops them must know all that run.
            _save(run_dir, {"boot": _boot(), "servers": servers})
        waiting = _wait_for_listeners(children, ports, patience)
    except BaseException:
        _end_servers(servers, _boot())
        shutil.rmtree(run_dir, ignore_errors=True)
        raise
    results = []
    for index, server in enumerate(servers):
        output_text = _text(server["output"])
        problem = None
        if index in waiting and children[index].poll() is None:
            problem = {
                "cause": f"the server did not listen on TCP port {server['port']} within {patience:g} s",
                "remedy": "see its output and the load of the host, or raise the time limit",
            }
        # One that ended tells why in its output, which the caller explains.
        results.append(_served(server["port"], server["pid"], output_text, problem, index not in waiting))
    for child in children:
        # They are left running on purpose; subprocess would warn of that.
        child.returncode = child.poll() or 0
    return {"run_dir": run_dir, "started": not waiting, "results": results}


def _served(
    port: t.Optional[int] = None,
    pid: t.Optional[int] = None,
    output: str = "",
    problem: t.Optional[Json] = None,
    listening: bool = False,
) -> Json:
    return {"tcp_port": port, "pid": pid, "output": output, "problem": problem, "listening": listening}


def _save(run_dir: str, state: Json) -> None:
    path = os.path.join(run_dir, _STATE)
    replace(path, json.dumps(state).encode("utf-8"), read(path), mode=0o600)


def _wait_for_listeners(
    children: t.Sequence[subprocess.Popen[bytes]], ports: t.Sequence[int], patience: float
) -> set[int]:
    """Indexes of the servers that do not listen, after all do, or time is up, or the others have ended."""
    deadline = time.monotonic() + patience
    waiting = set(range(len(ports)))
    while True:
        # Before the look at the ports: one that listened and then ended is told by the next look.
        ended = {index for index in waiting if children[index].poll() is not None}
        listening = listening_ports()
        waiting = {index for index in waiting if ports[index] not in listening}
        if waiting <= ended or time.monotonic() > deadline:
            return waiting
        time.sleep(_POLL_SECONDS)


def _checked(run_dir: str) -> None:
    """Refuses a directory that start_servers() did not make: what is in it says whom to kill and what to delete."""
    if not re.fullmatch(_PREFIX + r"\w+", os.path.basename(run_dir)) or os.path.dirname(run_dir) not in {
        "/run",
        tempfile.gettempdir(),
        _run_base(),
    }:
        raise RunError(f"run_dir '{run_dir}' is not one that role server has made")
    found = os.lstat(run_dir)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise RunError(f"run_dir '{run_dir}' is not a private directory of this user")


def stop_servers(run_dir: str) -> Json:
    """Ends the servers of a directory that still run, returns what they said, and removes it.

    Returns {changed: False, stopped, results: [{output}]}; a directory that is gone is not an error.
    """
    if not os.path.lexists(run_dir):
        return {"changed": False, "stopped": 0, "results": []}
    _checked(run_dir)
    state = _state(run_dir)
    stopped = _end_servers(state["servers"], str(state["boot"]))
    results = [{"output": _text(str(server["output"]))} for server in state["servers"]]
    shutil.rmtree(run_dir, ignore_errors=True)
    return {"changed": False, "stopped": stopped, "results": results}


# --- clients ----------------------------------------------------------------------------------------------------------


def run_clients(commands: t.Sequence[t.Sequence[str]], timeout: int) -> list[Json]:
    """Runs the clients one after the other, each for at most timeout seconds.

    Returns for each {output, status, timed_out, timeout, seconds, problem}; status: exit status, negative: signal, None: not run.
    """
    return [_run_client(command, timeout) for command in commands]


def _run_client(command: t.Sequence[str], timeout: int) -> Json:
    result: Json = {
        "output": "",
        "status": None,
        "timed_out": False,
        "timeout": timeout,
        "seconds": 0.0,
        "problem": None,
    }
    problem = _missing(command[0])
    if problem:
        return {**result, "problem": problem}
    begin = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            # The kernel's timer is the second one, for the case that this process dies.
            child = _start(command, timeout + 10, output.fileno())
        except OSError as exc:
            cause = f"{command[0]} cannot be started: {exc.strerror}"
            return {**result, "problem": {"cause": cause, "remedy": "reinstall the package perftest"}}
        try:
            result["status"] = child.wait(timeout)
        except subprocess.TimeoutExpired:
            result["timed_out"] = True
        finally:
            if child.poll() is None:
                _kill(child.pid, signal.SIGKILL)
                result["status"] = child.wait()
        output.seek(0)
        result["output"] = output.read(_MAX_OUTPUT).decode("utf-8", "replace")
    result["seconds"] = round(time.monotonic() - begin, 3)
    return result
