# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers on a lab node as a kubelet makes them: through CRI, from an image that has nothing but busybox.

Runs on the node, as root, and needs nothing there but Python, busybox-static and containerd. Also a module for other scripts of
the scenarios.

usage: containers.py before       before anything is changed: give containerd the image, keep what limits its containers have,
                                  and leave one running
       containers.py look         what there is to see afterwards, as JSON: {"before": ..., "after": ..., "old": ...}
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import typing as t

import pace

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.cri import Cri
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.grpc import Field, Message, decode, encode, text

SOCKET = "/run/containerd/containerd.sock"
BUSYBOX = "/bin/busybox"
IMAGE = "localhost/fabric-rdma/busybox:lab"
LOGS = "/var/log/fabric-rdma-lab"
BEFORE = "/var/lib/fabric-rdma-lab/limits-before.json"
OLD_POD = "old"
# Of an ordinary user inside a container; the image has no /etc/passwd that would know it.
USER = 65534

# NamespaceMode of the CRI API
CONTAINER, NODE = 1, 2
# ContainerState
EXITED = 2


class Pod:
    """A pod sandbox in the node's network, with containers, removed at the end. `handler` is a runtime handler, "" the default one."""

    def __init__(self, name: str, handler: str = "", socket: str = SOCKET) -> None:
        self._cri = Cri(socket, pace.limit(120))
        self.name = name
        logs = os.path.join(LOGS, name)
        shutil.rmtree(logs, ignore_errors=True)
        os.makedirs(logs)
        namespaces: list[Field] = [(1, NODE), (2, CONTAINER)]
        self._config: list[Field] = [
            (1, [(1, name), (2, f"uid-{name}"), (3, "lab")]),
            (3, logs),
            (8, [(2, [(1, namespaces)])]),
        ]
        self._namespaces = namespaces
        self._logs = logs
        self._number = 0
        self.id = text(self._call("RunPodSandbox", [(1, self._config), (2, handler)]), 1)

    def _call(self, method: str, fields: list[Field]) -> Message:
        return decode(self._cri.call("RuntimeService/" + method, encode(fields)))

    def __enter__(self) -> Pod:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._call("StopPodSandbox", [(1, self.id)])
        self._call("RemovePodSandbox", [(1, self.id)])

    def start(self, command: t.Sequence[str], user: int = 0) -> str:
        """Starts a container, and gives its id."""
        self._number += 1
        name = f"container{self._number}"
        # A user id of 0 is the default of its message, which is then empty but there.
        account: list[Field] = [(1, user)] if user else []
        config: list[Field] = [
            (1, [(1, name)]),
            (2, [(1, IMAGE)]),
            *((3, part) for part in command),
            (11, f"{name}.log"),
            (15, [(2, [(3, self._namespaces), (5, account)])]),
        ]
        request: list[Field] = [(1, self.id), (2, config), (3, self._config)]
        container = text(self._call("CreateContainer", request), 1)
        self._call("StartContainer", [(1, container)])
        return container

    def run(self, command: t.Sequence[str], user: int = 0) -> str:
        """Runs a container to its end, and gives what it wrote to standard output."""
        container = self.start(command, user)
        deadline = time.monotonic() + pace.limit(60)
        while True:
            (status,) = self._call("ContainerStatus", [(1, container)])[1]
            fields = decode(t.cast(bytes, status))
            if fields.get(3) == [EXITED]:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"container {container} of pod {self.name} does not end")
            time.sleep(0.1)
        with open(os.path.join(self._logs, f"container{self._number}.log"), encoding="utf-8") as stream:
            # a line of the log: time, stream, tag (F: a full line), and what was written
            output = "".join(line.split(" ", 3)[3] for line in stream if line.split(" ", 2)[1] == "stdout")
        if fields.get(7, [0]) != [0]:
            raise RuntimeError(f"container {container} of pod {self.name} ended with {fields.get(7)}: {output}")
        return output


def parse_limits(content: str) -> dict[str, list[str]]:
    """/proc/PID/limits: memlock and nofile, soft and hard as the kernel writes them."""
    names = {"memlock": "Max locked memory", "nofile": "Max open files"}
    result: dict[str, list[str]] = {}
    for name, title in names.items():
        match = re.search(rf"^{title}\s+(\S+)\s+(\S+)", content, re.MULTILINE)
        if match is None:
            raise ValueError(f"no line {title!r} in {content!r}")
        result[name] = [match[1], match[2]]
    return result


def limits(handler: str = "") -> dict[str, dict[str, list[str]]]:
    """The limits that new containers of a runtime handler have, as root and as an ordinary user, as they themselves see them."""
    with Pod("limits", handler) as pod:
        command = [BUSYBOX, "cat", "/proc/self/limits"]
        return {name: parse_limits(pod.run(command, user)) for name, user in (("root", 0), ("user", USER))}


def image_archive(names: t.Sequence[str]) -> bytes:
    """An image with busybox alone, in the format of `docker save`, which `ctr images import` reads. It sleeps if not told otherwise."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        archive.add(BUSYBOX, BUSYBOX.lstrip("/"), recursive=False)
    content = layer.getvalue()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": [BUSYBOX, "sleep", "1000000000"]},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": list(names), "Layers": ["layer.tar"]}]).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in (("config.json", config), ("layer.tar", content), ("manifest.json", manifest)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def import_image() -> None:
    """Gives containerd the image, under its own name and that of the pause image that it is configured for."""
    dump = subprocess.run(["containerd", "config", "dump"], check=True, capture_output=True, text=True).stdout
    pause = re.search(r"^\s*(?:sandbox_image|sandbox) = ['\"]([^'\"]+)['\"]$", dump, re.MULTILINE)
    if pause is None:
        raise ValueError("containerd config dump names no pause image")
    command = ["ctr", "--namespace", "k8s.io", "images", "import", "-"]
    subprocess.run(command, input=image_archive([IMAGE, pause[1]]), check=True, stdout=subprocess.DEVNULL)
    # The CRI plugin takes notice of it a moment later, which on a busy machine is long, and would try to pull it before that.
    managed = 'labels."io.cri-containerd.image"==managed'
    known = ["ctr", "--namespace", "k8s.io", "images", "list", "--quiet", managed]
    end = time.monotonic() + pace.limit(60)
    while not {IMAGE, pause[1]} <= set(
        subprocess.run(known, check=True, capture_output=True, text=True).stdout.split()
    ):
        if time.monotonic() > end:
            raise TimeoutError("the CRI plugin of containerd takes no notice of the image that was imported")
        time.sleep(0.5)


def process_limits(pid: int) -> dict[str, list[str]]:
    """The limits of a process of the node."""
    with open(f"/proc/{pid}/limits", encoding="utf-8") as stream:
        return parse_limits(stream.read())


def before() -> None:
    """Keeps what limits containers have now; leaves a Pod with a container that runs on."""
    import_image()
    found = limits()
    Pod(OLD_POD).start([BUSYBOX, "sleep", "1000000000"], USER)
    with open(BEFORE, "w", encoding="utf-8") as stream:
        json.dump(found, stream)


def look() -> dict[str, t.Any]:
    """Limits of containers before and now, and of the one that was left running."""
    with open(BEFORE, encoding="utf-8") as stream:
        earlier = json.load(stream)
    old = [one for one in Cri(SOCKET, pace.limit(120)).containers() if one["pod"] == OLD_POD]
    return {"before": earlier, "after": limits(), "old": [process_limits(one["pid"]) for one in old]}


def main() -> None:
    """The command line."""
    if sys.argv[1:] == ["before"]:
        before()
    elif sys.argv[1:] == ["look"]:
        print(json.dumps(look()))
    else:
        sys.exit((__doc__ or "").strip())


if __name__ == "__main__":
    main()
