# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose systemd is real: this machine's own system, booted in namespaces, with a layer over it that takes what is written.

It starts in less than a second. Its /etc/systemd/system is empty, and so is what this collection remembers there. Programs that are run in it
see its processes, files and services, and nothing that they write reaches this machine. Needs root, as containers that boot do.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.container import cgroup_places

# What the tools' Python has compiled and keeps (tools/bytecode.py): else each machine would compile it again.
_KEPT = Path(__file__).resolve().parents[2] / ".cache" / "bytecode"

# $1: directory; then directories of this machine that are used there as they are.
_BOOT = """\
set -eu
top=$1
shift
mount -t tmpfs tmpfs "$top"
mkdir "$top/upper" "$top/work" "$top/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root"
cd "$top/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
# what lies on file systems of its own
for place in "$@"; do mount --rbind "$place" ".$place"; done
for place in run var/lib/fabric.rdma; do mkdir -p "$place"; mount -t tmpfs tmpfs "$place"; done
if [ "$(stat --file-system --format=%T /sys/fs/cgroup)" = cgroup2fs ]; then
  mount -t cgroup2 cgroup2 sys/fs/cgroup
else
  # systemd mounts all of them again, and sees its own groups
  mount -t tmpfs tmpfs sys/fs/cgroup
fi
mount -t tmpfs tmpfs etc/systemd/system
printf '[Unit]\\nDefaultDependencies=no\\n' > etc/systemd/system/node.target
export container=test
exec chroot . /usr/lib/systemd/systemd --system --unit=node.target --log-target=null --show-status=no
"""
# $1: name of a group; then where the hierarchies are, up to "--"; then the command. A group of its own in each is the root of what it
# sees. One of the first version's cpuset has no processor until it is told which.
_ENTER = """\
set -eu
group=$1
shift
while [ "$1" != -- ]; do
  mkdir -p "$1/$group"
  for file in cpuset.cpus cpuset.mems; do
    [ ! -e "$1/$file" ] || cat "$1/$file" > "$1/$group/$file"
  done
  echo $$ > "$1/$group/cgroup.procs"
  shift
done
shift
exec "$@"
"""

# In the place of systemctl: before or after it does one of its words, whoever has called it is killed, up to the play.
_KILLS = """#!/bin/sh
die() {
  rm /run/kill
  pid=$$ all=
  while [ "$pid" -gt 0 ]; do
    all="$pid $all"
    pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status")
  done
  kill -9 $all
}
when= word=
[ ! -e /run/kill ] || read -r when word < /run/kill
case " $* " in *" $word "*) ;; *) when= ;; esac
[ "$when" != before ] || die
/usr/bin/systemctl.real "$@"
status=$?
[ "$when" != after ] || die
exit $status
"""


def _remove(group: str) -> None:
    """A control group, once the last of its processes has gone: who killed them has waited for one only."""
    end = time.monotonic() + limit(10)
    while True:
        try:
            os.rmdir(group)
            return
        except OSError as exc:
            if exc.errno != errno.EBUSY or time.monotonic() > end:
                raise
        time.sleep(0.1)


class Booted:
    """The node. `run` runs a program in it."""

    def __init__(self, directory: Path, *shared: Path) -> None:
        """shared: directories of this machine that the node uses as they are."""
        assert os.geteuid() == 0, "a system is booted in namespaces: run this as root"
        directory.mkdir()
        _KEPT.mkdir(mode=0o700, parents=True, exist_ok=True)
        places = cgroup_places(Path("/proc/self/mounts").read_text(encoding="utf-8"))
        group = f"fabric-rdma-test-{uuid.uuid4().hex[:12]}"
        self._groups = [os.path.join(place, group) for place in places]
        namespaces = [
            "--mount",
            "--propagation=private",
            "--pid",
            "--uts",
            "--ipc",
            "--cgroup",
            "--fork",
            "--kill-child",
        ]
        boot = ["sh", "-c", _BOOT, "boot", str(directory), *map(str, shared), str(_KEPT)]
        self._outer = subprocess.Popen(
            ["sh", "-c", _ENTER, "enter", group, *places, "--", "unshare", *namespaces, *boot],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.pid = 0
        end = time.monotonic() + limit(60)
        try:
            while not self._is_up():
                assert self._outer.poll() is None, self._outer.stdout and self._outer.stdout.read()
                assert time.monotonic() < end, "systemd does not come up"
                time.sleep(0.1)
        except BaseException:
            self.stop()
            raise

    def _is_up(self) -> bool:
        children = f"/proc/{self._outer.pid}/task/{self._outer.pid}/children"
        with open(children, encoding="ascii") as handle:
            found = handle.read().split()
        if not found:
            return False
        try:
            with open(f"/proc/{found[0]}/comm", encoding="ascii") as handle:
                if handle.read().strip() != "systemd":
                    return False
        except (FileNotFoundError, ProcessLookupError):
            # one of the programs that prepare the boot, which has ended meanwhile
            return False
        self.pid = int(found[0])
        return self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")

    def run(
        self, *command: str, check: bool = True, env: dict[str, str] | None = None, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program there; text: what it reads."""
        enter = [
            "nsenter",
            f"--target={self.pid}",
            *("--mount", "--pid", "--uts", "--ipc", "--cgroup", "--root", "--wd"),
        ]
        done = subprocess.run(
            [*enter, *command], env=env, input=text or "", capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done

    def write(self, path: str, text: str) -> None:
        """A file of the node."""
        self.run("sh", "-c", 'mkdir -p "$(dirname "$1")" && cat > "$1"', "write", path, text=text)

    def start(self, unit: str, *command: str) -> None:
        """A service, alone: what services need by default would set up this machine's kernel and devices, and empty the node's /tmp."""
        self.run("systemd-run", f"--unit={unit}", "--property=DefaultDependencies=no", *command)
        assert self.run("systemctl", "is-active", "sysinit.target", check=False).stdout.strip() == "inactive"

    def kill_at(self, when: str, word: str) -> None:
        """Whoever calls systemctl next with a word (restart, mask) is killed before or after it has done it. /run/kill is gone then."""
        if self.run("test", "-e", "/usr/bin/systemctl.real", check=False).returncode:
            self.run("mv", "/usr/bin/systemctl", "/usr/bin/systemctl.real")
            self.write("/usr/bin/systemctl", _KILLS)
            self.run("chmod", "755", "/usr/bin/systemctl")
        self.write("/run/kill", f"{when} {word}\n")

    def stop(self) -> None:
        """Ends it with all that runs there."""
        # where it has ended by itself, its number is free for another process
        if self.pid and self._outer.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        else:
            self._outer.kill()
        self._outer.wait()
        if self._outer.stdout:
            self._outer.stdout.close()
        for group in self._groups:
            for directory, _names, _files in os.walk(group, topdown=False):
                _remove(directory)
