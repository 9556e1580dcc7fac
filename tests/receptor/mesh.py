# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of Receptor on this machine, joined as those of AWX are: each end shows a certificate, and work is taken with a signature only.

One node is the controller, which signs work; the others are execution nodes, which run ansible-runner. They speak over the loopback
interface. All that a node has started ends with it, as on a machine that loses its power.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import typing as t
from pathlib import Path

import receptorctl
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ansible_collections.fabric.rdma.molecule.shared.pace import limit

CONTROLLER = "controller"
# Each process of a node has this variable, with what names the node.
_MARK = "FABRIC_RDMA_RECEPTOR_NODE"


def signing_keys(directory: Path) -> tuple[Path, Path]:
    """(private key, public key), with which work is signed."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = directory / "sign.pem", directory / "verify.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    private.chmod(0o600)
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


class Authority:
    """Who signs the certificates of the nodes."""

    def __init__(self, program: Path, directory: Path) -> None:
        self.program, self.directory = program, directory
        directory.mkdir()
        self.certificate = directory / "ca.crt"
        self._run(
            "--cert-init", "commonname=mesh", "bits=2048", f"outcert={self.certificate}", f"outkey={directory}/ca.key"
        )

    def _run(self, *arguments: str) -> None:
        done = subprocess.run([str(self.program), *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"

    def issue(self, name: str) -> dict[str, str]:
        """{cert, key} of a node."""
        base = self.directory / name
        made = f"outreq={base}.csr", f"outkey={base}.key"
        self._run("--cert-makereq", "bits=2048", f"commonname={name}", f"nodeid={name}", "dnsname=localhost", *made)
        keys = f"cacert={self.certificate}", f"cakey={self.directory}/ca.key"
        self._run("--cert-signreq", f"req={base}.csr", f"outcert={base}.crt", "verify=true", *keys)
        return {"cert": f"{base}.crt", "key": f"{base}.key"}


class Node:
    """A node that runs. control: the socket over which it is asked."""

    def __init__(self, program: Path, directory: Path, name: str, config: list[t.Any], env: dict[str, str]) -> None:
        self.name, self.directory = name, directory
        directory.mkdir()
        self.control = directory / "control.sock"
        common: list[t.Any] = [
            {"node": {"id": name, "datadir": str(directory / "data")}},
            {"log-level": {"level": "info"}},
            {"control-service": {"service": "control", "filename": str(self.control), "tls": "server"}},
        ]
        (directory / "receptor.json").write_text(json.dumps([*common, *config]))
        self._mark = str(directory)
        with open(directory / "log", "wb") as log:
            self._process = subprocess.Popen(
                [str(program), "--config", str(directory / "receptor.json")],
                env={**env, _MARK: self._mark},
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def running(self) -> list[int]:
        """All processes that the node has started, and those that they have."""
        wanted = f"{_MARK}={self._mark}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if wanted in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def kill(self) -> None:
        """Ends it at once, with all that it runs."""
        while True:
            found = self.running()
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.poll()
            if not found:
                break
            time.sleep(0.05)
        self._process.wait()


class Mesh:
    """A controller and its execution nodes."""

    def __init__(self, program: Path, directory: Path, env: dict[str, str], *executing: str) -> None:
        """env: of the execution nodes, with the PATH on which they find ansible-runner."""
        self.program, self.directory, self.env = program, directory, env
        self.authority = Authority(program, directory / "ca")
        private, self._public = signing_keys(directory)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        listener = {"tcp-listener": {"bindaddr": "127.0.0.1", "port": self.port, "tls": "server"}}
        signing = {"work-signing": {"privatekey": str(private), "tokenexpiration": "5m"}}
        # it takes work as well, unsigned: nobody but the tests of it asks it to
        controller = [*self._tls(CONTROLLER, self.authority), listener, signing]
        self.nodes = {CONTROLLER: Node(program, directory / CONTROLLER, CONTROLLER, controller, env)}
        for name in executing:
            self.add(name)
        self.wait_for(*executing)

    def _tls(self, name: str, authority: Authority) -> list[dict[str, t.Any]]:
        # whoever has signed its own certificate, it trusts those of the mesh
        own = authority.issue(name)
        certificate = str(self.authority.certificate)
        server = {"name": "server", **own, "requireclientcert": True, "clientcas": certificate, "mintls13": True}
        return [
            {"tls-server": server},
            {"tls-client": {"name": "client", **own, "rootcas": certificate, "mintls13": True}},
        ]

    def add(self, name: str, authority: Authority | None = None) -> Node:
        """Starts an execution node."""
        config = [
            *self._tls(name, authority or self.authority),
            {"tcp-peer": {"address": f"localhost:{self.port}", "tls": "client", "redial": True}},
            {"work-verification": {"publickey": str(self._public)}},
            {
                "work-command": {
                    "worktype": "ansible-runner",
                    "command": "ansible-runner",
                    "params": "worker",
                    "allowruntimeparams": True,
                    "verifysignature": True,
                }
            },
        ]
        self.nodes[name] = Node(self.program, self.directory / name, name, config, self.env)
        return self.nodes[name]

    def ask(self) -> receptorctl.ReceptorControl:
        """A connection to the controller's node."""
        return receptorctl.ReceptorControl(str(self.nodes[CONTROLLER].control))

    def known(self) -> set[str]:
        """The nodes to which the controller knows a way. What work they take, they tell once a minute only."""
        try:
            with contextlib.closing(self.ask()) as control:
                return set(control.simple_command("status").get("RoutingTable") or {})
        except (OSError, RuntimeError, ValueError):
            return set()

    def wait_for(self, *names: str) -> None:
        end = time.monotonic() + limit(60)
        while not set(names) <= self.known():
            logs = "\n".join(f"{node.name}: {node.log()}" for node in self.nodes.values())
            assert time.monotonic() < end, f"{names} do not come\n{logs}"
            time.sleep(0.1)

    def stop(self) -> None:
        for node in self.nodes.values():
            node.kill()
