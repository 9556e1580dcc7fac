# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of the lab as containers that boot: systemd-nspawn over the very image that the virtual machines have.

Private to the collection. Runs on the controller only, as root.

A node is one process tree in a PID namespace and a mount namespace of its own, so that the end of its first process ends it, and no
mount of it is ever seen outside. Its root is an overlay: the image, read-only, below a directory of the node. Nodes share a bridge
without an address, named after the lab; the controller reaches them over its link-local address, which no other lab can be confused with.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
import signal
import subprocess
import tarfile
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.archives import unpack
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError, find_tool

__all__ = [
    "CONTAINER_DIRECTORIES",
    "SETUP",
    "bridge_name",
    "bring_up",
    "cgroup_places",
    "container_command",
    "container_trouble",
    "end_container",
    "is_our_container",
    "link_local",
    "machine_name",
    "make_directories",
    "places_here",
    "remove_bridge",
    "unpack_configuration",
]

_CONTAINER_TOOLS = ("systemd-nspawn", "unshare", "setsid", "mount", "ip")

# Of a node's directory: the image, what the node has written, overlayfs's own, both as one, and what containerd's own overlays need
# below them: a file system that is not an overlay.
CONTAINER_DIRECTORIES = ("lower", "upper", "work", "root", "containerd")

# In place of the script of a virtual machine. The modules are those of the controller's kernel: without a directory of that name
# depmod and modinfo fail, and which modules are built in is said there.
SETUP = """\
#!/bin/sh
# Makes this container the node that its files describe. Runs at every boot.
set -eu
. /etc/fabric-rdma-lab.conf
# runc makes groups of its own, and systemd-nspawn has made all of this read-only
for place in /sys/fs/cgroup /sys/fs/cgroup/*; do
  ! mountpoint --quiet "$place" || mount -o remount,bind,rw "$place"
done
ip link set lo up
ip link set host0 name eth1
ip link set eth1 up
ip address replace "$LAB_FABRIC_ADDRESS" dev eth1
ip address replace "$LAB_MANAGEMENT_ADDRESS" dev eth1 nodad
depmod
echo container >/run/fabric-rdma-lab
echo "fabric.rdma lab: $LAB_NAME is set up" >/dev/console
"""

# $1: pid file; $2: name of the control group; then the mount points of the hierarchies up to "--", then the command.
# What it starts has this very process id. A new group of the first version's cpuset has no processor until it is told which.
_ENTER = """\
set -eu
pidfile=$1 group=$2
shift 2
while [ "$1" != -- ]; do
  mkdir -p "$1/$group"
  for file in cpuset.cpus cpuset.mems; do
    [ ! -e "$1/$file" ] || cat "$1/$file" >"$1/$group/$file"
  done
  echo $$ >"$1/$group/cgroup.procs"
  shift
done
shift
echo $$ >"$pidfile"
exec "$@"
"""

# $1: pid file, so that the process can be recognised by it; $2: directory of the node; $3: image; then systemd-nspawn and its arguments.
# A mount that is made here is seen here only. noload: the image is shared, and nobody may replay its journal. A node that reboots ends
# systemd-nspawn with 133, which leaves the new start to whoever has started it.
_MOUNT = """\
set -eu
cd "$2"
mount -t ext4 -o ro,loop,noload "$3" lower
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root
shift 3
code=133
while [ "$code" -eq 133 ]; do
  code=0
  "$@" || code=$?
done
exit "$code"
"""


def _lab_hash(directory: str) -> str:
    return hashlib.sha256(directory.encode()).hexdigest()[:6]


def bridge_name(directory: str) -> str:
    """The network device that joins the nodes of the lab in a directory."""
    return "lab" + _lab_hash(directory)


def machine_name(directory: str, index: int) -> str:
    """The name of a node among all containers of the machine. Short: vb- and the name is the name of a network device, too."""
    return f"{bridge_name(directory)}-{index + 1}"


def link_local(index: int) -> str:
    """The address of a node on the bridge that the controller connects to."""
    return f"fe80::fab:{index + 1:x}"


def cgroup_places(mounts: str) -> list[str]:
    """Where control groups are made for a node: in each hierarchy that is mounted. mounts: text of /proc/self/mounts."""
    found = []
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) > 3 and fields[2] in ("cgroup", "cgroup2"):
            found.append(fields[1])
    return sorted(set(found))


def container_command(
    name: str, machine: str, bridge: str, image: str, directory: str, places: t.Sequence[str]
) -> list[str]:
    """The command that starts a node in the background. `directory` is the node's own; `places` as `cgroup_places` says."""
    pidfile = os.path.join(directory, "container.pid")
    machine_id = hashlib.sha256(("fabric.rdma lab " + name).encode()).hexdigest()[:32]
    nspawn = [
        *("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit"),
        *("--directory=root", f"--machine={machine}", f"--hostname={name}", f"--uuid={machine_id}"),
        f"--network-bridge={bridge}",
        # The runtime's own overlays cannot lie on an overlay.
        "--bind={}:/var/lib/containerd".format(os.path.join(directory, "containerd").replace(":", "\\:")),
        # What runc and the watch over the kernel's log want. The log is the controller's.
        "--bind=/dev/kmsg",
        "--capability=CAP_SYSLOG",
        "--system-call-filter=@keyring bpf",
        *("--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=read-only"),
    ]
    return [
        *("setsid", "--fork", "sh", "-c", _ENTER, "lab", pidfile, "fabric-rdma-lab-" + machine, *places, "--"),
        # --kill-child: whoever kills unshare kills the first process of the namespace, and the kernel all others.
        *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *("sh", "-c", _MOUNT, "lab", pidfile, directory, image, *nspawn),
    ]


def is_our_container(arguments: t.Sequence[str], pidfile: str) -> bool:
    """Whether a process with these arguments is the one that `container_command` has started with this pid file."""
    if not arguments or os.path.basename(arguments[0]) != "unshare":
        return False
    return any(a == "lab" and b == pidfile for a, b in itertools.pairwise(arguments))


def unpack_configuration(archive: bytes, upper: str) -> None:
    """What makes a node this node, into its own layer, with the modes that the directories have in the image."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as found:
        for info in found.getmembers():
            make_directories(upper, os.path.dirname(info.name))
        unpack(found, upper)


def make_directories(upper: str, below: str) -> None:
    """Makes a directory in a node's own layer. Its mode is what the node sees, whatever the image says and the umask is here."""
    parts = below.split("/")
    for length in range(1, len(parts) + 1):
        name = "/".join(parts[:length])
        path = os.path.join(upper, name)
        if not os.path.isdir(path):
            os.mkdir(path)
            os.chmod(path, 0o700 if name in ("root", "root/.ssh") else 0o755)


# --- the machine -----------------------------------------------------------------------------------------------------------


def container_trouble() -> str | None:
    """Why nodes cannot be containers here, as far as that can be told without starting one; None when nothing rules it out."""
    if os.geteuid() != 0:
        return "containers that boot need root"
    missing = [name for name in _CONTAINER_TOOLS if find_tool(name) is None]
    if missing:
        return f"{', '.join(missing)} is not installed (Debian, Ubuntu: systemd-container)"
    if not os.path.exists("/proc/sys/net/ipv6/conf/all/disable_ipv6"):
        return "the kernel has no IPv6, over which containers are reached"
    places = places_here()
    if not places or any(os.statvfs(place).f_flag & os.ST_RDONLY for place in places):
        return "control groups cannot be made here"
    if not os.path.exists("/dev/loop-control"):
        return "there is no /dev/loop-control, and the image is mounted over a loop device"
    return None


def places_here() -> list[str]:
    """Where control groups are made on this machine."""
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as stream:
        return cgroup_places(stream.read())


def bring_up(bridge: str) -> None:
    """Makes the bridge when it is not there. It has no address but its link-local one: no other network is touched."""
    if not os.path.exists("/sys/class/net/" + bridge):
        _ip("link", "add", "name", bridge, "type", "bridge")
    settings = f"/proc/sys/net/ipv6/conf/{bridge}/"
    # accept_dad: nobody else can have the address, and to ask for it takes two seconds.
    for name in ("disable_ipv6", "accept_dad"):
        with contextlib.suppress(OSError), open(settings + name, "w", encoding="utf-8") as stream:
            stream.write("0\n")
    trouble = _ip("link", "set", "dev", bridge, "up")
    if trouble is not None:
        raise LabError(f"the bridge {bridge} of the lab cannot be made: {trouble}")


def _ip(*words: str) -> str | None:
    """What ip(8) says when it fails."""
    done = subprocess.run(
        [find_tool("ip") or "ip", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace").strip() or "it said nothing" if done.returncode else None


def remove_bridge(bridge: str) -> None:
    """Removes the bridge, with the devices on it: the kernel takes its time to remove those of a node that was killed."""
    below = f"/sys/class/net/{bridge}/brif"
    if os.path.isdir(below):
        for name in os.listdir(below):
            _ip("link", "delete", "dev", name)
        _ip("link", "delete", "dev", bridge)


def end_container(pid: int | None, machine: str, seconds: float = 10) -> bool:
    """Ends a node at once, and takes its control groups away; False when something of it is left.

    pid: what the pid file names, when it runs and is ours. Without it, whatever is left in the control groups is ended.
    """
    groups = [os.path.join(place, "fabric-rdma-lab-" + machine) for place in places_here()]
    end = time.monotonic() + seconds
    while True:
        left = {pid for group in groups for pid in _processes(group)}
        if pid is not None and os.path.exists(f"/proc/{pid}"):
            left.add(pid)
        if not left:
            break
        if time.monotonic() > end:
            return False
        for one in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        pid = None
        time.sleep(0.05)
    for group in groups:
        for directory, _directories, _files in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
    # made by systemd-nspawn, which had no time to take it away
    with contextlib.suppress(OSError):
        os.rmdir("/run/systemd/nspawn/propagate/" + machine)
    return not any(os.path.exists(group) for group in groups)


def _processes(group: str) -> list[int]:
    """The processes in a control group and in those below it."""
    found = []
    for directory, _directories, files in os.walk(group):
        if "cgroup.procs" in files:
            with (
                contextlib.suppress(OSError),
                open(os.path.join(directory, "cgroup.procs"), encoding="ascii") as stream,
            ):
                found += [int(word) for word in stream.read().split()]
    # 0: a process of another PID namespace
    return [pid for pid in found if pid > 0]
