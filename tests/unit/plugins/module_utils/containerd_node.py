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
from pathlib import Path
from typing import Any

from ansible_collections.fabric.rdma.molecule.shared import pace
from ansible_collections.fabric.rdma.plugins.module_utils._containerd_daemon import Node

UNIT = "containerd.service"
LOW = 4 * 1024 * 1024
HIGH = 8 * 1024 * 1024
# Machines on which whole generations lie beside each other name their directories here, separated by colons.
DIRECTORIES = [
    *os.environ.get("FABRIC_RDMA_CONTAINERDS", "").split(":"),
    os.path.dirname(shutil.which("containerd") or ""),
]


def version(program: str) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"\sv?(\d+)\.(\d+)\.", said)
        if found:
            return int(found[1]), int(found[2])
    return None


@functools.cache
def generations() -> dict[str, str]:
    """Directory of the programs by generation, such as {"1.6": "/usr/bin"}."""
    found = {}
    for directory in filter(None, DIRECTORIES):
        generation = version(os.path.join(directory, "containerd"))
        if generation:
            found[".".join(map(str, generation))] = directory
    return found


def reason_not_here() -> str | None:
    """Why no containerd can run here; None when one can."""
    if not generations():
        return "no containerd is installed"
    if os.geteuid() != 0:
        return "containerd runs as root only"
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] not in (resource.RLIM_INFINITY,) and (
        resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] < HIGH
    ):
        return "the limit of this machine is below 8 MiB"
    return None


class Killed(BaseException):
    """Nobody catches it, as nobody catches SIGKILL."""


class Machine(Node):
    """A node with one containerd. Steps can be killed, and any command be answered by a test."""

    def __init__(self, root: Path, directory: str, config: str) -> None:
        super().__init__(self._command, str(root / "scratch"))
        self.root = root
        self.directory = directory
        self.config = root / "etc/config.toml"
        self.unit_directory = str(root / "units")
        self.state_directory = str(root / "lib")
        self.address = str(root / "c.sock")
        for name in ("etc", "scratch", "units"):
            (root / name).mkdir()
        self.config.write_text(config.replace("ROOT", str(root)))
        self.process: subprocess.Popen[bytes] | None = None
        self.limit = LOW
        self.loaded = LOW
        self.starts = 0
        self.steps: list[str] = []
        self.kill_at: int | None = None
        self.answers: dict[str, tuple[int, str, str]] = {}
        self.properties: dict[str, str] = {}
        self.may_raise = True

    # --- seams --------------------------------------------------------------------------------------------------------

    def step(self, name: str) -> None:
        self.steps.append(name)
        if self.kill_at == len(self.steps):
            raise Killed(name)

    def sleep(self, seconds: float) -> None:
        # a daemon of a test that is well now stays so
        time.sleep(min(seconds, 0.2))

    def can_raise_limits(self) -> bool:
        return self.may_raise

    def pids(self) -> list[int]:
        return [self.process.pid] if self.process and self.process.poll() is None else []

    def proc_text(self, path: str) -> str:
        if path.endswith("/cgroup"):
            return "0::/system.slice/containerd.service\n"
        if path.endswith("/uid_map"):
            return "         0          0 4294967295\n"
        return super().proc_text(path)

    def _command(self, arguments: list[str]) -> tuple[int, str, str]:
        line = " ".join(arguments)
        for pattern, answer in self.answers.items():
            if re.search(pattern, line):
                return answer
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
            for path in sorted((Path(self.unit_directory) / f"{UNIT}.d").glob("*.conf")):
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
        limit = self.loaded
        with open(self.root / "log", "wb") as log:
            self.process = subprocess.Popen(
                [os.path.join(self.directory, "containerd"), "--config", str(self.config)],
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
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(pace.limit(10))
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def files(self) -> dict[str, bytes]:
        """Everything that a run may change, by name."""
        found = {}
        for directory in ("etc", "units"):
            for path in sorted((self.root / directory).rglob("*")):
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

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    SystemdCgroup = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
"""
