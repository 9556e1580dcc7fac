# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The containerd that serves kubelet on a node: which process, unit, configuration, rights; is it healthy. Private.

Everything about it is asked of the process that runs, or of the programs that lie beside its own: k3s, RKE2 and others
bring their own containerd, and what is on the PATH or in /etc may belong to nobody.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import read
from ansible_collections.fabric.rdma.plugins.module_utils._base.go_paths import glob
from ansible_collections.fabric.rdma.plugins.module_utils._base.places import MEMLOCK
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.config import global_flag
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.cri import Cri
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.daemon import (
    generation_of,
    in_user_namespace,
    printed_version,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.limits import Limit, parse_limits
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.units import CONTAINERD_CONFIG, CONTAINERD_UNITS
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_plan import MemlockError

__all__ = [
    "Daemon",
    "Node",
    "check_cri",
    "cri_status",
    "find_daemon",
    "read_daemon",
    "unit_log",
]

Json = t.Dict[str, t.Any]

# include/uapi/linux/capability.h
_CAP_SYS_RESOURCE = 24

# The containerd of the Docker engine has its CRI plugin switched off.
_NOT_CRI = ("docker.service",)

_PROPERTIES = (
    "ActiveState",
    "SubState",
    "MainPID",
    "KillMode",
    "NeedDaemonReload",
    "LimitMEMLOCK",
    "LimitMEMLOCKSoft",
    "DropInPaths",
)


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


class Node:
    """Everything that is outside of this process, in one place, so that tests can stand in for parts of it.

    command: runs a program with arguments: (exit status, output, error output). step: called between any two things that
    are done, with a name; a place at which a process can be killed.
    """

    proc = "/proc"
    dev = "/dev"
    unit_directory = "/etc/systemd/system"
    state_directory = MEMLOCK

    def __init__(self, command: t.Callable[[list[str]], tuple[int, str, str]], scratch: str) -> None:
        self.command = command
        # a directory in memory, for files without a name that are never loaded by the daemon
        self.scratch = scratch

    def step(self, name: str) -> None:
        """Nothing; for tests."""

    def clock(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def cri(self, socket_path: str) -> Cri:
        return Cri(socket_path)

    def read(self, path: str) -> t.Optional[bytes]:
        """Content of a file; None when there is none. OSError when it is there and cannot be read."""
        return read(path)

    def glob(self, pattern: str) -> list[str]:
        """Paths that a pattern names, as Go reads it, in its order."""
        return glob(pattern, _names, os.path.lexists)

    def modified(self, path: str) -> t.Optional[float]:
        """When a file was changed last, also by a rename or with an old time of modification, in seconds since 1970."""
        try:
            return os.stat(path).st_ctime
        except OSError:
            return None

    def proc_text(self, path: str) -> str:
        """A file below /proc; empty when the process is gone."""
        try:
            with open(os.path.join(self.proc, path), "rb") as handle:
                return handle.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def proc_link(self, path: str) -> str:
        try:
            return os.readlink(os.path.join(self.proc, path))
        except OSError:
            return ""

    def pids(self) -> list[int]:
        return sorted(int(name) for name in os.listdir(self.proc) if name.isdigit())

    def unit(self, name: str) -> dict[str, str]:
        """Properties of a unit."""
        status, output, error = self.command(["systemctl", "show", name, "--property", ",".join(_PROPERTIES)])
        if status != 0:
            raise MemlockError(f"`systemctl show {name}` ended with {status}: {error.strip()}")
        properties = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
        if not properties.get("KillMode"):
            raise MemlockError(
                f"`systemctl show {name}` did not say what a restart of it kills: {error.strip() or output.strip() or 'nothing'}"
            )
        return properties

    def unlinked_gpus(self) -> list[str]:
        """GPUs without their link in /dev/char, by which runc tells systemd that a container may use a device."""
        found = []
        for name in sorted(_names(self.dev)):
            if re.fullmatch(r"nvidia[0-9]{1,3}", name):
                with contextlib.suppress(OSError):
                    number = os.stat(os.path.join(self.dev, name)).st_rdev
                    if not os.path.exists(os.path.join(self.dev, f"char/{os.major(number)}:{os.minor(number)}")):
                        found.append(name)
        return found

    def can_raise_limits(self) -> bool:
        """Whether the service manager has CAP_SYS_RESOURCE; without it, systemd passes over LimitMEMLOCK in silence."""
        return _has_sys_resource(self.proc_text("1/status"))


class Daemon(t.NamedTuple):
    """The process, as it was when it was asked. started is in clock ticks since boot, started_at in seconds since 1970."""

    pid: int
    started: str
    started_at: float
    unit: str
    main_pid: int
    distribution: str
    program: str
    ctr: str
    config_path: str
    socket: t.Optional[str]
    version: str
    generation: tuple[int, int]
    kill_mode: str
    user_namespace: bool
    limits: dict[str, Limit]
    properties: dict[str, str]


class CriPlugin(t.NamedTuple):
    """A line of `ctr plugins ls`."""

    type: str
    id: str
    status: str


def _has_sys_resource(status: str) -> bool:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    return bool(found and int(found.group(1), 16) >> _CAP_SYS_RESOURCE & 1)


def _unit_of(cgroups: str) -> str:
    """The service in whose control group a process is (proc(5), cgroups(7)); empty for none of the system manager's."""
    for line in cgroups.splitlines():
        _number, controllers, path = ([*line.split(":", 2), "", ""])[:3]
        if controllers in ("", "name=systemd"):
            parts = path.split("/")
            # a service of a user, or of a systemd in a container, is further down
            if "kubepods.slice" in parts or "kubepods" in parts or "user.slice" in parts:
                return ""
            services = [part for part in parts if part.endswith(".service")]
            return services[0] if services else ""
    return ""


def find_daemon(node: Node) -> tuple[int, str]:
    """(pid, unit) of the containerd that serves CRI; MemlockError when there is none, or not one that is known."""
    own = node.proc_link("self/ns/pid")
    found: list[tuple[int, str]] = []
    strange: list[str] = []
    for pid in node.pids():
        if node.proc_text(f"{pid}/comm").strip() != "containerd" or node.proc_link(f"{pid}/ns/pid") != own:
            continue
        unit = _unit_of(node.proc_text(f"{pid}/cgroup"))
        if unit in CONTAINERD_UNITS:
            # an auxiliary process (`containerd config dump`) is a child of the one that serves
            if not any(other == unit for _pid, other in found):
                found.append((pid, unit))
        elif unit and unit not in _NOT_CRI:
            strange.append(unit)
    # beside that of a distribution, the plain one is the Docker engine's
    found = [one for one in found if CONTAINERD_UNITS[one[1]] != "none"] or found
    if len(found) > 1:
        raise MemlockError("several containerds run: {}; expected one".format(", ".join(unit for _pid, unit in found)))
    if found:
        return found[0]
    if strange:
        raise MemlockError(
            f"containerd is run by {', '.join(sorted(set(strange)))}, which is not one of "
            f"{', '.join(sorted(CONTAINERD_UNITS))}",
            "raise the limit as that distribution documents it, or lift it in the unit (LimitMEMLOCK=infinity)",
        )
    raise MemlockError(
        "no containerd that serves Kubernetes runs here",
        "start it, or set rdma_memlock.enabled to false "
        "(for the Docker engine set default-ulimits in /etc/docker/daemon.json, for CRI-O default_ulimits in crio.conf.d)",
    )


def _start(node: Node, pid: int) -> tuple[str, float]:
    """Start of a process in clock ticks since boot (proc(5), stat, field 22) and in seconds since 1970."""
    fields = node.proc_text(f"{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 20:
        raise MemlockError(f"process {pid} of containerd is gone", "run again")
    # not /proc/stat's btime, which is off by up to a second
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return fields[19], booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _version(node: Node, program: str) -> tuple[str, tuple[int, int]]:
    status, output, error = node.command([program, "--version"])
    version = printed_version(output)
    generation = generation_of(version)
    if status != 0 or version is None or generation is None:
        raise MemlockError(
            f"`{program} --version` ended with {status} and gave no version: {(error or output).strip()}"
        )
    return version, generation


def read_daemon(node: Node) -> Daemon:
    """The running daemon; MemlockError when there is none."""
    pid, unit = find_daemon(node)
    started, started_at = _start(node, pid)
    arguments = node.proc_text(f"{pid}/cmdline").rstrip("\0").split("\0")
    # The file of a program that was upgraded meanwhile is another one; what is there now is what starts next.
    executable = node.proc_link(f"{pid}/exe")
    if executable.endswith(" (deleted)"):
        executable = executable[: -len(" (deleted)")]
    directory = os.path.dirname(executable)
    # k3s and RKE2 have one program with many names
    program = os.path.join(directory, "containerd")
    config_path = global_flag(arguments, "-c", "--config") or CONTAINERD_CONFIG
    if not os.path.isabs(config_path):
        config_path = os.path.normpath(os.path.join(node.proc_link(f"{pid}/cwd") or "/", config_path))
    properties = node.unit(unit)
    version, generation = _version(node, program)
    return Daemon(
        pid=pid,
        started=started,
        started_at=started_at,
        unit=unit,
        main_pid=int(properties.get("MainPID") or 0),
        distribution="plain" if CONTAINERD_UNITS[unit] == "none" else CONTAINERD_UNITS[unit],
        program=program,
        ctr=os.path.join(directory, "ctr"),
        config_path=config_path,
        socket=global_flag(arguments, "-a", "--address"),
        version=version,
        generation=generation,
        kill_mode=properties.get("KillMode", ""),
        user_namespace=bool(in_user_namespace(node.proc_text(f"{pid}/uid_map"))),
        limits=parse_limits(node.proc_text(f"{pid}/limits")),
        properties=properties,
    )


def _cri_plugins(node: Node, ctr: str, socket_path: str) -> list[CriPlugin]:
    """The plugins that make CRI, with their states, from the daemon; MemlockError when it does not answer."""
    command = [ctr, "--address", socket_path, "--connect-timeout", "5s", "--timeout", "20s", "plugins", "ls"]
    status, output, error = node.command(command)
    if status != 0:
        raise MemlockError(f"containerd does not answer: {error.strip() or output.strip()}")
    found = []
    for line in output.splitlines():
        words = line.split()
        if len(words) >= 3 and (words[1] == "cri" or (words[0] == "io.containerd.cri.v1" and words[1] == "runtime")):
            found.append(CriPlugin(words[0], words[1], words[-1]))
    return found


def plugin_error(node: Node, ctr: str, socket_path: str, plugin: CriPlugin) -> str:
    """Why a plugin does not run, in containerd's words."""
    filters = f"id=={plugin.id},type=={plugin.type}"
    _status, output, _error = node.command([ctr, "--address", socket_path, "plugins", "ls", "-d", filters])
    found = re.search(r"^\s*Message:\s*(.+)$", output, re.MULTILINE)
    return found.group(1).strip() if found else "containerd does not say why"


def check_cri(node: Node, ctr: str, socket_path: str) -> t.Optional[tuple[bool, str]]:
    """Whether the CRI plugins run: None, or (it stays so, reason). A daemon without them is "active" and runs no Pod."""
    try:
        plugins = _cri_plugins(node, ctr, socket_path)
    except MemlockError as exc:
        return False, str(exc)
    if not any(plugin.id == "cri" for plugin in plugins):
        return True, (
            "containerd has no CRI plugin; is it in disabled_plugins, as the Docker engine has it? Without Kubernetes there, set "
            "rdma_memlock.enabled to false"
        )
    for plugin in plugins:
        if plugin.status != "ok":
            reason = plugin_error(node, ctr, socket_path, plugin)
            return True, f"the plugin {plugin.id} of {plugin.type} is in state {plugin.status}: {reason}"
    return None


def cri_status(node: Node, socket_path: str) -> Json:
    """The status of the runtime; MemlockError when it does not answer."""
    try:
        return node.cri(socket_path).status()
    except FabricError as exc:
        raise MemlockError(f"containerd's CRI does not answer: {exc}") from exc


def unit_log(node: Node, unit: str) -> str:
    """What a daemon that did not start said last. Only its own error line: the log may hold its configuration."""
    status, output, _error = node.command(
        ["journalctl", "--unit", unit, "--lines", "30", "--output", "cat", "--no-pager"]
    )
    lines = [line.strip() for line in output.splitlines() if line.startswith("containerd: ")] if status == 0 else []
    return lines[-1] if lines else f"its log says why (journalctl --unit {unit})"
