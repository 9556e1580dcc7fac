# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of the scenario with what they are in the cluster, and the playbooks as an operator runs them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

import kubernetes
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "molecule" / "shared"))

import nodes
import pace

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.tests.cluster.cluster import NODE_ANNOTATION
from ansible_collections.fabric.rdma.tests.unit import contracts

BIN = Path(sys.executable).parent
NAMES = ["lab1", "lab2", "lab3", "lab4", "lab5"]
# Ours on a Node that we have taken out of service.
AWAY = "rdma.fabric/away"


class Watch:
    """Which nodes of the cluster were out of service, in their order, and how many at the same time: every change that the server told."""

    def __init__(self, kubeconfig: Path) -> None:
        self.config = str(kubeconfig)
        self.away: dict[str, bool] = {}
        # (what, node): "away" and "back"
        self.events: list[tuple[str, str]] = []
        self.most = 0
        self.marked: set[str] = set()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._follow)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._thread.join()
        assert self._error is None, f"the watch over the nodes ended with {self._error!r}"

    @property
    def drained(self) -> list[str]:
        """Nodes in the order in which they left."""
        return [name for what, name in self.events if what == "away"]

    def _follow(self) -> None:
        try:
            with kubernetes.config.new_client_from_config(self.config) as client:
                api = kubernetes.client.CoreV1Api(client)
                found = api.list_node()
                version = found.metadata.resource_version
                # what an earlier run has left
                self.away = {node.metadata.name: bool(node.spec.unschedulable) for node in found.items}
                self.most = sum(self.away.values())
                last = False
                while not last:
                    # one look more after the end, for what the server has told meanwhile
                    last = self._ended.is_set()
                    stream = kubernetes.watch.Watch().stream(api.list_node, resource_version=version, timeout_seconds=1)
                    for event in stream:
                        version = event["raw_object"]["metadata"]["resourceVersion"]
                        self._see(event["raw_object"])
        # told in the thread that asks
        except Exception as exc:
            self._error = exc

    def _see(self, node: dict[str, t.Any]) -> None:
        name, away = node["metadata"]["name"], bool(node["spec"].get("unschedulable"))
        if is_marked(node):
            self.marked.add(name)
        if away != self.away.get(name, False):
            self.away[name] = away
            self.events.append(("away" if away else "back", name))
            self.most = max(self.most, sum(self.away.values()))


def is_marked(node: dict[str, t.Any]) -> bool:
    metadata = node["metadata"]
    return AWAY in {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}


class Result(t.NamedTuple):
    """What a run has said and done."""

    code: int
    output: str
    watch: Watch
    directory: Path

    def outcomes(self) -> dict[str, dict[str, t.Any]]:
        return dict(contracts.load(self.directory / "outcomes.json")["hosts"])

    def states(self) -> dict[str, str]:
        return {name: one["state"] for name, one in self.outcomes().items()}

    def text(self, name: str) -> str:
        return " ".join((self.directory / name).read_text().split())


class Site:
    """The five nodes, and the playbooks."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kubeconfig = Path(os.environ["FABRIC_RDMA_CLUSTER"]) / "kubeconfig"
        self.kube = Kube(str(self.kubeconfig))
        self.processes: list[subprocess.Popen[str]] = []

    # the nodes

    def on(self, node: str, *words: str) -> str:
        done = subprocess.run(
            nodes.command(node, "fabric-rdma-test", *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=pace.limit(600),
            check=False,
        )
        assert done.returncode == 0, (
            f"{node}: {' '.join(words)} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done.stdout

    def look(self, *names: str) -> dict[str, dict[str, str]]:
        """What has been done to nodes."""

        def one(name: str) -> dict[str, str]:
            return dict(line.split() for line in self.on(name, "look").splitlines())

        return nodes.everywhere(names or NAMES, one)

    def boot(self) -> None:
        """Starts what does not run."""
        play = [BIN / "ansible-playbook", ROOT / "playbooks" / "lab.yml"]
        engine = os.environ.get("FABRIC_RDMA_ENGINE") or "auto"
        wish = {"lab_dir": str(nodes.lab()), "lab_engine": engine, "lab_nodes": 5}
        done = subprocess.run(
            [*play, "-e", json.dumps(wish)],
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def reset(self) -> None:
        """Everything as the scenario has made it."""
        self.boot()
        nodes.everywhere(NAMES, lambda name: self.on(name, "reset"))
        for item in self.kube.list("/api/v1/nodes", "list"):
            self.kube.request("DELETE", f"/api/v1/nodes/{item['metadata']['name']}", "delete")
        for name in NAMES:
            metadata = {"name": name, "annotations": {NODE_ANNOTATION: "yes"}}
            self.kube.request("POST", "/api/v1/nodes", "make", body={"kind": "Node", "metadata": metadata})

    def cordoned(self) -> list[str]:
        items = self.kube.list("/api/v1/nodes", "list")
        return sorted(item["metadata"]["name"] for item in items if item["spec"].get("unschedulable"))

    def marked(self) -> list[str]:
        return sorted(item["metadata"]["name"] for item in self.kube.list("/api/v1/nodes", "list") if is_marked(item))

    # the playbooks

    def environment(self) -> dict[str, str]:
        return {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}

    def start(self, playbook: str, **wishes: t.Any) -> subprocess.Popen[str]:
        """Starts a playbook in a group of processes of its own."""
        wishes["rdma_output_dir"] = str(self.directory / "output")
        command = [BIN / "ansible-playbook", ROOT / "playbooks" / f"{playbook}.yml"]
        command += ["-i", ROOT / "molecule" / "waves" / "inventory" / "hosts.yml", "-e", json.dumps(wishes)]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=self.environment(),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def run(self, playbook: str, **wishes: t.Any) -> Result:
        """Runs a playbook to its end."""
        start = time.monotonic()
        with Watch(self.kubeconfig) as watch, self.start(playbook, **wishes) as process:
            output = process.communicate(timeout=pace.limit(1200))[0]
        print(f"{playbook}: {time.monotonic() - start:.0f} s, exit code {process.returncode}", flush=True)
        # what a failed case is looked into with
        (self.directory / f"{playbook}-{len(self.processes)}.log").write_text(output)
        return Result(process.returncode, output, watch, self.directory / "output")

    def end(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                if process.poll() is None:
                    os.killpg(process.pid, 9)
            if process.stdout is not None:
                process.stdout.close()
            process.wait()


@pytest.fixture
def site(tmp_path: Path) -> t.Iterator[Site]:
    there = Site(tmp_path)
    there.reset()
    yield there
    there.end()


__all__ = ["AWAY", "NAMES", "KubeError", "Result", "Site", "Watch"]
