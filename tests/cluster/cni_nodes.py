# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes as network namespaces of this machine: CNI plugins, containers of DaemonSets and Pods' networks are real, kubelets are not.

Each node has a directory that is its root file system for what runs on it, and cards whose cables lead to a bridge for each rail. What
is done here goes with the namespaces and the directory; the machine's own network stays as it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import socket
import subprocess
import threading
import time
import typing as t
from pathlib import Path

from ansible_collections.fabric.rdma.molecule.shared.pace import limit

Json = dict[str, t.Any]
_CLONE_NEWNET = 0x40000000
# What a container runtime and kubelet do before a program starts: directories of others in place of its own.
_INSIDE = 'root=$1; shift; while [ "$1" != -- ]; do mkdir -p "$root$2"; mount --rbind "$1" "$root$2"; shift 2; done; shift; exec chroot "$root" "$@"'
_MACHINE = ("/dev", "/proc", "/sys", "/usr", "/run")


def run(*words: object, **more: t.Any) -> str:
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, check=False, timeout=limit(120), **more
    )
    assert done.returncode == 0, f"{words} ended with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class Fabric:
    """The namespaces of a test, which have its prefix, and a bridge for each rail."""

    def __init__(self, prefix: str) -> None:
        self.prefix, self._names = prefix, list[str]()
        self.bridges = self.namespace("fabric")

    def namespace(self, name: str) -> str:
        made = f"{self.prefix}-{name}"
        run("ip", "netns", "add", made)
        self._names.append(made)
        run("ip", "-n", made, "link", "set", "lo", "up")
        return made

    def inside(self, namespace: str, *words: object) -> str:
        return run("ip", "netns", "exec", namespace, *words)

    def rail(self, name: str) -> None:
        run("ip", "-n", self.bridges, "link", "add", name, "type", "bridge")
        run("ip", "-n", self.bridges, "link", "set", name, "up")

    def cable(self, node: str, netdev: str, rail: str, number: int) -> None:
        """A card of a node, with its cable to a rail."""
        end = f"port{number}"
        run("ip", "link", "add", netdev, "netns", node, "type", "veth", "peer", "name", end, "netns", self.bridges)
        run("ip", "-n", self.bridges, "link", "set", end, "master", rail, "up")
        run("ip", "-n", node, "link", "set", netdev, "up")

    def remove(self) -> None:
        for name in reversed(self._names):
            run("ip", "netns", "delete", name)


def _listen_in(namespace: str) -> socket.socket:
    """A socket that listens on 127.0.0.1 of a namespace: it stays there, wherever it is read."""
    found: list[socket.socket] = []

    def listen() -> None:
        # of this thread alone
        with open(f"/run/netns/{namespace}", "rb") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"setns {namespace}")
        found.append(socket.create_server(("127.0.0.1", 0)))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    return found[0]


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _join(near: socket.socket, port: int) -> None:
    """Brings what comes to a port of this machine, and back what it says."""
    with near, socket.create_connection(("127.0.0.1", port)) as far:
        there = threading.Thread(target=_pump, args=(near, far), daemon=True)
        there.start()
        _pump(far, near)
        there.join()


def _serve(server: socket.socket, port: int) -> None:
    while True:
        try:
            near, _address = server.accept()
        except OSError:
            return
        threading.Thread(target=_join, args=(near, port), daemon=True).start()


class Node:
    """A node of the cluster."""

    def __init__(self, fabric: Fabric, name: str, root: Path, port: int, own: Json) -> None:
        self.fabric, self.name, self.root = fabric, name, root
        self.namespace = fabric.namespace(name)
        self._server = _listen_in(self.namespace)
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=_serve, args=(self._server, port), daemon=True).start()
        for path in ("etc/cni/net.d", "opt/cni/bin", "var/lib/cni", "var/lib/kubelet/device-plugins", "tmp"):
            (root / path).mkdir(parents=True)
        for link in ("lib", "lib64", "bin", "sbin"):
            (root / link).symlink_to(f"usr/{link}")
        # the cluster's own network
        (root / "etc/cni/net.d/10-own.conflist").write_text(json.dumps(own))
        self.processes: list[subprocess.Popen[bytes]] = []

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        # the thread that waits there would keep it
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _command(self, root: Path, mounts: t.Mapping[str, str], *words: str) -> list[str]:
        pairs = [word for pair in mounts.items() for word in pair]
        begin = ["nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--mount", "--propagation", "private"]
        return [*begin, "sh", "-euc", _INSIDE, "sh", str(root), *pairs, "--", *words]

    def container(self, pod: Json, image: Path, token: str, ca: str) -> subprocess.Popen[bytes]:
        """Starts the container of a Pod of a DaemonSet: image has the files of its image."""
        (spec,) = pod["containers"]
        root = self.root.parent / f"{self.name}-{spec['name']}"
        shutil.copytree(image, root, symlinks=True)
        account = root / "var/run/secrets/kubernetes.io/serviceaccount"
        account.mkdir(parents=True)
        for name, text in (("token", token), ("ca.crt", ca), ("namespace", "kube-system")):
            (account / name).write_text(text)
        sources = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
        mounts = {f"{self.root}{sources[each['name']]}": each["mountPath"] for each in spec["volumeMounts"]}
        values = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port), "PATH": "/bin"}
        for entry in spec.get("env", []):
            field = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            values[entry["name"]] = {"spec.nodeName": self.name, "metadata.namespace": "kube-system"}.get(
                field, entry.get("value", "")
            )
        words = [*spec["command"], *spec.get("args", [])]
        with open(self.root.parent / f"{self.name}-{spec['name']}.log", "wb") as log:
            process = subprocess.Popen(
                self._command(root, {**mounts, "/dev": "/dev", "/proc": "/proc"}, *words),
                env={**values, "PATH": os.environ["PATH"]},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process

    def wait_for(self, pattern: str, there: bool = True) -> None:
        """Waits for a file of the CNI configuration, or until it is gone."""
        end = time.monotonic() + limit(60)
        while bool(list((self.root / "etc/cni/net.d").glob(pattern))) is not there:
            logs = "\n".join(log.read_text() for log in self.root.parent.glob(f"{self.name}-*.log"))
            assert time.monotonic() < end, f"{self.name}: {pattern} is {'not ' if there else ''}there\n{logs}"
            time.sleep(0.1)

    def plugin(self, command: str, pod: Pod) -> Json:
        """What the container runtime does with the network of a Pod: the first configuration counts."""
        path = min(path for path in (self.root / "etc/cni/net.d").iterdir() if path.suffix in (".conf", ".conflist"))
        config = json.loads(path.read_text())
        given = {"cniVersion": config["cniVersion"], "name": config["name"]}
        result: Json = {}
        for plugin in config.get("plugins", [config]):
            environment = {
                "CNI_COMMAND": command,
                "CNI_CONTAINERID": pod.name,
                "CNI_NETNS": f"/run/netns/{pod.namespace}",
                "CNI_IFNAME": "eth0",
                "CNI_PATH": "/opt/cni/bin",
                "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod.name}"
                f";K8S_POD_INFRA_CONTAINER_ID={pod.name};K8S_POD_UID={pod.uid}",
                "PATH": os.environ["PATH"],
            }
            more = {"prevResult": result} if result else {}
            said = run(
                *self._command(self.root, {path: path for path in _MACHINE}, f"/opt/cni/bin/{plugin['type']}"),
                env=environment,
                input=json.dumps({**plugin, **given, **more}),
            )
            result = json.loads(said) if said.strip() else {}
        return result


class Pod:
    """A Pod as far as its network goes."""

    def __init__(self, node: Node, name: str, uid: str) -> None:
        self.node, self.name, self.uid = node, name, uid
        self.namespace = node.fabric.namespace(name)

    def reaches(self, netdev: str, address: str) -> bool:
        """Whether an address answers to what is sent on a netdev."""
        words = [
            "ip",
            "netns",
            "exec",
            self.namespace,
            "/bin/busybox",
            "ping",
            "-c",
            "1",
            "-W",
            "2",
            "-I",
            netdev,
            address,
        ]
        return subprocess.run(words, capture_output=True, check=False, timeout=limit(60)).returncode == 0
