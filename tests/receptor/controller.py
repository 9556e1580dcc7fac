# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What AWX does with a job, over real ansible-runner and Receptor; follows awx/main/tasks (jobs.py, receptor.py, facts.py) of AWX 24.

A job has a private data directory of its own, with the project, the inventory as a program that prints it, variables and settings. It is
transmitted to an execution node, worked there, and what comes back is processed. The facts of its hosts travel as files that are
called as the hosts are: those of earlier jobs there, those that the job has changed back. A slice has every n-th host.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import typing as t
from pathlib import Path

import ansible_runner
import yaml
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ansible_collections.fabric.rdma.molecule.shared.pace import limit

if t.TYPE_CHECKING:
    from ansible_collections.fabric.rdma.tests.receptor.mesh import Mesh

ROOT = Path(__file__).resolve().parents[2]

Json = dict[str, t.Any]


class Inventory(t.NamedTuple):
    """groups: {group: hosts}, all of them below "rdma". hostvars: {host: variables}, those of its groups with them, as AWX keeps them apart."""

    groups: dict[str, list[str]]
    groupvars: dict[str, Json]
    hostvars: dict[str, Json]

    def hosts(self, number: int = 1, count: int = 1) -> list[str]:
        """Those of a slice."""
        return sorted(self.hostvars)[number - 1 :: count]

    def program(self, hosts: t.Collection[str]) -> str:
        data: Json = {
            name: {"hosts": [host for host in own if host in hosts], "vars": self.groupvars.get(name, {})}
            for name, own in self.groups.items()
        }
        data["rdma"] = {"children": sorted(self.groups), "vars": self.groupvars.get("rdma", {})}
        data["_meta"] = {"hostvars": {host: self.hostvars[host] for host in hosts}}
        return f"#! /usr/bin/env python3\n# -*- coding: utf-8 -*-\nprint({json.dumps(data)!r})\n"


class Result(t.NamedTuple):
    """How a job ended. artifacts: what its tasks have told with set_stats."""

    status: str
    why: str
    events: list[Json]
    artifacts: Json
    directory: Path

    @property
    def said(self) -> str:
        """What was printed, as one line without colours: each line of wrapped words sets them again."""
        printed = " ".join(event.get("stdout", "") for event in self.events)
        return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", printed).split())

    @property
    def broke_off(self) -> bool:
        """Whether the job has ended with its execution node. What a node sent may end in the middle of a line."""
        words = "aborted|Failed to JSON parse a line from worker stream"
        return self.status == "error" and re.search(words, self.why) is not None


def copy_project(target: Path) -> None:
    """The project as git has it, links included; what is not committed yet, too."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    for name in filter(None, names):
        source = ROOT / name
        # a file that is listed and was deleted since
        if os.path.lexists(source):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)


class Unsafe(str):
    """A text that Ansible is to leave as it is."""


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(Unsafe, lambda dumper, text: dumper.represent_scalar("!unsafe", text))


class Credential(t.NamedTuple):
    """One of a type that is not AWX's own. injectors: those of the type. inputs: what somebody has typed."""

    injectors: Json
    inputs: dict[str, str]

    def inject(self, private: Path) -> tuple[dict[str, str], str]:
        """(environment, options of ansible-playbook) that it adds to a job, after its files are written."""
        render = ImmutableSandboxedEnvironment().from_string
        files: dict[str, str] = {}
        given: Json = {**self.inputs, "tower": {"filename": files}}
        for label, text in self.injectors.get("file", {}).items():
            path = private / "env" / f"file-{label}"
            path.write_text(render(text).render(given))
            path.chmod(0o660)
            files[label.partition(".")[2]] = str(path)
        env = {name: render(text).render(given) for name, text in self.injectors.get("env", {}).items()}
        own = {
            str(name): Unsafe(render(text).render(given)) for name, text in self.injectors.get("extra_vars", {}).items()
        }
        if not own:
            return env, ""
        (private / "env" / "file-vars").write_text(yaml.dump(own, Dumper=_Dumper))
        return env, f"-e @{private}/env/file-vars"


class Controller:
    """Jobs on one inventory. facts: {host: the file}, of all jobs that ended."""

    def __init__(self, directory: Path, inventory: Inventory, env: dict[str, str]) -> None:
        """env: what AWX sets for every job."""
        directory.mkdir(exist_ok=True)
        self.directory, self.inventory, self.env = directory, inventory, env
        self.facts: dict[str, str] = {}
        self._number = self._first = 0
        self._lock = threading.Lock()
        self.project = directory / "project"
        copy_project(self.project)

    def _build(self, playbook: str, variables: Json, number: int, count: int) -> tuple[Path, str, set[str]]:
        """(private data directory, ident, hosts) of a new job."""
        with self._lock:
            self._number += 1
            ident = str(self._number)
        private = self.directory / f"awx_{ident}"
        for name in ("env", "inventory", "cp"):
            (private / name).mkdir(parents=True)
        shutil.copytree(self.project, private / "project", symlinks=True)
        hosts = set(self.inventory.hosts(number, count))
        (private / "inventory" / "hosts").write_text(self.inventory.program(hosts))
        (private / "inventory" / "hosts").chmod(0o700)
        name = Path(playbook).stem
        # that a job is a slice, its name in the workflow says alone
        if number == 1:
            self._first = int(ident)
        workflow = {
            f"{maker}_workflow_job_{key}": value
            for maker in ("awx", "tower")
            for key, value in (("name", name), ("id", self._first))
            if count > 1
        }
        own = {
            f"{maker}_job_{key}": value
            for maker in ("awx", "tower")
            for key, value in (("id", int(ident)), ("template_name", name))
        }
        (private / "env" / "extravars").write_text(json.dumps({**own, **workflow, **variables}))
        settings = {"job_timeout": 0, "suppress_ansible_output": True, "suppress_output_file": True}
        (private / "env" / "settings").write_text(json.dumps(settings))
        cache = private / "artifacts" / ident / "fact_cache"
        cache.mkdir(parents=True)
        for host in hosts & set(self.facts):
            (cache / host).write_text(self.facts[host])
        return private, ident, hosts

    def run(
        self,
        mesh: Mesh,
        node: str,
        playbook: str,
        variables: Json | None = None,
        slice_of: tuple[int, int] = (1, 1),
        event: t.Callable[[Json], None] = lambda event: None,
    ) -> Result:
        """A job on an execution node, from its beginning to its end."""
        private, ident, hosts = self._build(playbook, variables or {}, *slice_of)
        kwargs: Json = {
            "private_data_dir": str(private),
            "ident": ident,
            "playbook": playbook,
            "envvars": self.env,
            "suppress_env_files": True,
            "fact_cache_type": "jsonfile",
        }
        unit = self._transmit(mesh, node, kwargs)
        # all of it is at the node now, and what comes back counts
        shutil.rmtree(private / "artifacts")
        result = self._process(mesh, node, unit, kwargs, event)
        self._keep(private, ident, hosts)
        return result

    def _keep(self, private: Path, ident: str, hosts: set[str]) -> None:
        """The facts that a job has left, of its own hosts."""
        cache = private / "artifacts" / ident / "fact_cache"
        if cache.is_dir():
            with self._lock:
                self.facts.update({path.name: path.read_text() for path in cache.iterdir() if path.name in hosts})

    def _transmit(self, mesh: Mesh, node: str, kwargs: Json) -> str:
        """The number of the unit of work."""
        with open(f"{kwargs['private_data_dir']}.stream", "w+b") as buffer:
            ansible_runner.interface.run(streamer="transmit", _output=buffer, **kwargs)
            buffer.seek(0)
            return self._submit(mesh, node, buffer, Path(kwargs["private_data_dir"]).name)

    @staticmethod
    def _submit(mesh: Mesh, node: str, buffer: t.BinaryIO, name: str) -> str:
        there = mesh.nodes[node].directory / name
        with contextlib.closing(mesh.ask()) as control:
            params = {"params": f"--private-data-dir={there} --delete"}
            answer = control.submit_work(
                "ansible-runner", buffer, node=node, tlsclient="client", signwork=True, params=params
            )
        return str(answer["unitid"])

    def _process(self, mesh: Mesh, node: str, unit: str, kwargs: Json, event: t.Callable[[Json], None]) -> Result:
        events: list[Json] = []
        last: Json = {}

        def take(data: Json) -> bool:
            events.append(data)
            event(data)
            return True

        def note(data: Json, **_rest: t.Any) -> None:
            last.update(data)

        with contextlib.closing(mesh.ask()) as control:
            sock, stream = control.get_work_results(unit, return_socket=True, return_sockfile=True)
        ended = threading.Event()
        # AWX looks at its nodes again and again, and gives up a job of one that is gone
        watcher = threading.Thread(target=self._watch, args=(mesh, node, sock, ended))
        watcher.start()
        try:
            ansible_runner.interface.run(
                streamer="process", quiet=True, _input=stream, event_handler=take, status_handler=note, **kwargs
            )
        finally:
            ended.set()
            watcher.join()
            sock.close()
        if node in mesh.known():
            # of a node that is gone, Receptor itself goes on looking for the unit, and ends when it is released by force
            with contextlib.closing(mesh.ask()) as control, contextlib.suppress(RuntimeError):
                control.simple_command(f"work release {unit}")
        why = str(last.get("job_explanation", ""))
        return Result(str(last.get("status")), why, events, _artifacts(events), Path(kwargs["private_data_dir"]))

    @staticmethod
    def _watch(mesh: Mesh, node: str, sock: socket.socket, ended: threading.Event) -> None:
        while not ended.wait(0.5):
            if node not in mesh.known():
                # not by a glance alone: a busy machine may have missed one
                if ended.wait(limit(1)) or node in mesh.known():
                    continue
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                return

    def run_here(
        self,
        playbook: str,
        variables: Json | None = None,
        cancel: t.Callable[[], bool] | None = None,
        slice_of: tuple[int, int] = (1, 1),
        credential: Credential | None = None,
    ) -> Result:
        """The same without a mesh: what an execution node does with a job."""
        private, ident, hosts = self._build(playbook, variables or {}, *slice_of)
        env, options = credential.inject(private) if credential else ({}, "")
        events: list[Json] = []
        last: Json = {}

        def take(data: Json) -> bool:
            events.append(data)
            return False

        def note(data: Json, **_rest: t.Any) -> None:
            last.update(data)

        done = ansible_runner.interface.run(
            private_data_dir=str(private),
            ident=ident,
            playbook=playbook,
            envvars={**self.env, **env},
            cmdline=options,
            suppress_env_files=True,
            fact_cache_type="jsonfile",
            quiet=True,
            event_handler=take,
            status_handler=note,
            cancel_callback=cancel,
        )
        self._keep(private, ident, hosts)
        return Result(done.status, str(last.get("job_explanation", "")), events, _artifacts(events), private)


def _artifacts(events: list[Json]) -> Json:
    """What tasks have told with set_stats."""
    found: Json = {}
    for each in events:
        if each.get("event") == "playbook_on_stats":
            found.update((each.get("event_data") or {}).get("artifact_data") or {})
    return found
