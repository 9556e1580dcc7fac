# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real containerd with files of its own, and the least of systemd that there has to be around it.

The daemon, its merge of configurations, its `ctr` and its CRI are the real ones. What a build machine has no systemd for
(a unit that is restarted, its properties, its journal) is done here; a limit is set as systemd would, as far as the machine
may, which mostly is at most 8 MiB.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from ansible_collections.fabric.rdma.molecule.shared import pace
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_daemon import Node
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils.processes import Ask, Killed, apart, watch

T = TypeVar("T")

GENERATIONS = ("1.6", "1.7", "2")
# What a process may lock that nobody has given more to; systemd's default is 8 MiB.
_HARD = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
HIGH = 8 * 1024 * 1024 if _HARD == resource.RLIM_INFINITY else min(_HARD, 8 * 1024 * 1024)
LOW = HIGH // 2


def generation_of(program: str) -> str | None:
    """Of a containerd: 1.6, 1.7, 2; None when it cannot be run."""
    with contextlib.suppress(OSError):
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"\sv?(1\.\d+|2)\.\d+", said)
        if found:
            return found[1]
    return None


@functools.cache
def generations() -> dict[str, str]:
    """Directory of the programs by generation, such as {"1.6": "/opt/containerd-1.6"}.

    FABRIC_RDMA_CONTAINERDS names them, separated by colons; without it, they are where tools/containerds.py keeps them.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fabric.rdma" / "packages"
    named = os.environ.get("FABRIC_RDMA_CONTAINERDS")
    directories = named.split(":") if named else [str(path) for path in cache.glob("containerd-*/usr/bin")]
    found = {generation_of(os.path.join(directory, "containerd")): directory for directory in filter(None, directories)}
    return {generation: directory for generation, directory in found.items() if generation in GENERATIONS}


def programs(generation: str) -> str:
    """The directory of a generation's programs. Skips the test where there is none: the number of tests is the same everywhere."""
    if generation not in generations():
        pytest.skip(f"no containerd {generation} is here: `make unit` fetches it (tools/containerds.py)")
    return generations()[generation]


def generation_number(generation: str) -> tuple[int, int]:
    """(1, 7) of "1.7", and of "2" what it really is."""
    said = subprocess.run(
        [os.path.join(programs(generation), "containerd"), "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"\sv?(\d+)\.(\d+)\.", said)
    assert found
    return int(found[1]), int(found[2])


class Layout(NamedTuple):
    """How a distribution lays its containerd out; every path is below a root of its own.

    arguments: those of its command line, with ROOT in them. generated: what it writes into the file at each start, with ROOT;
    None when the file is the administrator's. child: containerd is a child of the unit's main process. profile: a script that its
    start sources.
    """

    unit: str
    distribution: str
    programs: str
    config: str
    address: str
    arguments: tuple[str, ...]
    generated: bool = False
    child: bool = False
    profile: str | None = None
    # (path, content) of more files
    files: tuple[tuple[str, str], ...] = ()


PLAIN = Layout("containerd.service", "plain", "", "etc/config.toml", "c.sock", ("--config", "ROOT/etc/config.toml"))


class Machine(Node):
    """A node with one containerd. Runs can be killed, and any command be answered by a test."""

    def __init__(self, root: Path, directory: str, config: str, layout: Layout = PLAIN) -> None:
        super().__init__(self._command, str(root / "scratch"))
        self.root = root
        self.layout = layout
        self.directory = directory
        if layout.programs:
            # its own copy: what the process says of its program is part of the layout
            self.directory = str(root / layout.programs)
            os.makedirs(self.directory)
            for name in ("containerd", "ctr"):
                source, target = os.path.join(directory, name), os.path.join(self.directory, name)
                try:
                    os.link(source, target)
                except OSError:
                    shutil.copy2(source, target)
        self.config = root / layout.config
        self.unit_directory = str(root / "units")
        self.state_directory = str(root / "lib")
        self.address = str(root / layout.address)
        for path in (self.config.parent, root / "scratch", root / "units"):
            path.mkdir(parents=True)
        self.generated = config.replace("ROOT", str(root))
        self.config.write_text(self.generated)
        for name, content in layout.files:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content.replace("ROOT", str(root)))
        self.process: subprocess.Popen[bytes] | None = None
        self.limit = LOW
        self.loaded = LOW
        self.starts = 0
        self.steps: list[str] = []
        # how a process of its own asks this one
        self.ask: Ask | None = None
        # what the unit checks before each start
        self.may_start: Callable[[], bool] = lambda: True
        self.answers: dict[str, tuple[int, str, str]] = {}
        self.properties: dict[str, str] = {}
        self.may_raise = True

    def apart(self, work: Callable[[], T], at: str | None = None, occurrence: int = 1) -> T:
        """Does something in a process of its own, as Ansible runs a module. The daemon stays a child of this one, as it is one of systemd.

        at: where the process gets SIGKILL, as a pattern of a step, a command, or a change of the file system (os.rename OLD NEW), all
        without directories: after the step, before the command or the change. Killed, then; systemd does what it was told, though.
        """
        seen = 0

        def answer(kind: str, text: str) -> Any:
            nonlocal seen
            if kind == "step":
                self.steps.append(text)
            if at is not None and re.fullmatch(at, " ".join(map(os.path.basename, text.split()))):
                seen += 1
                if seen == occurrence:
                    raise Killed(text)
            if kind == "pids":
                return self.pids()
            return self._systemctl(text.split()[1:]) if kind == "systemctl" else None

        def watched(ask: Ask) -> T:
            self.ask = ask
            watch(lambda what: ask("change", what))
            return work()

        try:
            return apart(watched, answer)
        except Killed as exc:
            line = str(exc).split()
            if line[0] == "systemctl":
                self._systemctl(line[1:])
            raise

    # --- seams --------------------------------------------------------------------------------------------------------

    def step(self, name: str) -> None:
        self.steps.append(name)
        if self.ask:
            self.ask("step", name)

    def sleep(self, seconds: float) -> None:
        # a daemon of a test that is well now stays so
        time.sleep(min(seconds, 0.2))

    def can_raise_limits(self) -> bool:
        return self.may_raise

    def pids(self) -> list[int]:
        if self.ask:
            found: list[int] = self.ask("pids", "")
            return found
        if not self.process or self.process.poll() is not None:
            return []
        main = self.process.pid
        with contextlib.suppress(OSError), open(f"/proc/{main}/task/{main}/children") as stream:
            return [main, *map(int, stream.read().split())]
        return [main]

    def proc_text(self, path: str) -> str:
        if path.endswith("/cgroup"):
            return f"0::/system.slice/{self.layout.unit}\n"
        if path.endswith("/uid_map"):
            return "         0          0 4294967295\n"
        return super().proc_text(path)

    def _command(self, arguments: list[str]) -> tuple[int, str, str]:
        line = " ".join(arguments)
        for pattern, answer in self.answers.items():
            if re.search(pattern, line):
                return answer
        if self.ask:
            told: tuple[int, str, str] | None = self.ask(arguments[0], line)
            if told:
                return told
        if arguments[0] == "systemctl":
            return self._systemctl(arguments[1:])
        if arguments[0] == "journalctl":
            log = self.root / "log"
            return 0, log.read_text() if log.exists() else "", ""
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def _systemctl(self, arguments: list[str]) -> tuple[int, str, str]:
        if arguments[0] == "daemon-reload":
            self.loaded = LOW
            for path in sorted((Path(self.unit_directory) / f"{self.layout.unit}.d").glob("*.conf")):
                found = re.search(r"^LimitMEMLOCK=(\d+)$", path.read_text(), re.MULTILINE)
                self.loaded = int(found[1]) if found else self.loaded
        elif arguments[0] == "restart":
            self.stop()
            if not self.start():
                return 1, "", "Job for containerd.service failed."
        elif arguments[0] == "show":
            pids = self.pids()
            values: dict[str, Any] = {
                "ActiveState": "active" if pids else "activating",
                "SubState": "running" if pids else "auto-restart",
                "MainPID": pids[0] if pids else 0,
                "KillMode": "process",
                "NeedDaemonReload": "no",
                "LimitMEMLOCK": self.loaded,
                "LimitMEMLOCKSoft": self.loaded,
                "DropInPaths": "",
                **self.properties,
            }
            return 0, "".join(f"{key}={value}\n" for key, value in values.items()), ""
        return 0, "", ""

    # --- the daemon ---------------------------------------------------------------------------------------------------

    def start(self) -> bool:
        """As a unit of the type notify: it has started when it listens, and has not when it ends before."""
        self.starts += 1
        if not self.may_start():
            return False
        if self.layout.generated:
            self.config.write_text(self.generated)
        arguments = [argument.replace("ROOT", str(self.root)) for argument in self.layout.arguments]
        command = [os.path.join(self.directory, "containerd"), *arguments]
        if self.layout.profile:
            command = ["sh", "-euc", f'. "{self.root / self.layout.profile}"; exec "$@"', "sh", *command]
        if self.layout.child:
            command = ["sh", "-euc", '"$@" & wait', "sh", *command]
        if os.geteuid() != 0:
            # as much of a root as containerd and its CRI plugin need
            command = ["unshare", "--map-root-user", "--mount", *command]
        limit = self.loaded
        with open(self.root / "log", "wb") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, HIGH)),
            )
        deadline = time.monotonic() + pace.limit(30)
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return False
            if b"containerd successfully booted" in (self.root / "log").read_bytes():
                return True
            time.sleep(0.05)
        return False

    def stop(self) -> None:
        if not self.process:
            return
        for pid in reversed(self.pids()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        try:
            self.process.wait(pace.limit(10))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def files(self) -> dict[str, bytes]:
        """Everything that a run may change, by name."""
        found = {}
        for directory in sorted({str(self.config.parent), str(self.root / "etc"), self.unit_directory}):
            for path in sorted(Path(directory).rglob("*")):
                if path.is_file():
                    found[str(path.relative_to(self.root))] = path.read_bytes()
        return found


CONFIG_2 = """# kept
version = 2
root = "ROOT/root"
state = "ROOT/state"
imports = ["ROOT/etc/conf.d/*.toml"]

[grpc]
  address = "ROOT/c.sock"

[plugins."io.containerd.internal.v1.opt"]
  path = "ROOT/opt"

[plugins."io.containerd.nri.v1.nri"]
  disable = true
  socket_path = "ROOT/nri.sock"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.invalid/pause:1" # kept, too
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "ROOT/cni"
  [plugins."io.containerd.grpc.v1.cri".registry.configs."registry.invalid".auth]
    password = "never shown"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
    runtime_type = "io.containerd.runc.v2"
"""

CONFIG_3 = """version = 3
root = "ROOT/root"
state = "ROOT/state"

[grpc]
  address = "ROOT/c.sock"

[plugins."io.containerd.internal.v1.opt"]
  path = "ROOT/opt"

[plugins."io.containerd.nri.v1.nri"]
  disable = true
  socket_path = "ROOT/nri.sock"

[plugins."io.containerd.cri.v1.runtime".cni]
  conf_dir = "ROOT/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    SystemdCgroup = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
"""
