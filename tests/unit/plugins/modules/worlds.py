# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules of the matrix act in: directories, actions, and the real parts that some of them need."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleError
from ansible.module_utils import basic

from ansible_collections.fabric.rdma.tests.unit.plugins.action.test_wave_gate_action import Run as Waves
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_jobs_run import JobCluster
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_nccl_tests import INFO, a_table
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils.containerd_node import (
    CONFIG_2,
    HIGH,
    Machine,
    programs,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import Json, World, content, here
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_driver_modules import (
    STATUS,
    remembered_in,
    repository_in,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_pod_traffic import SOON, good
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import a_lab
from ansible_collections.fabric.rdma.tests.unit.pod_cluster import LEFT, OverHttp, Served, healthy

Enter = Callable[[str, Path], contextlib.AbstractContextManager[World]]
IN_PLACE = (
    "import ansible_collections.fabric.rdma.plugins.module_utils._discover.boot_modules as boot_modules\n"
    "boot_modules.DIRECTORIES = ('DIRECTORY', 'DIRECTORY/run')\n"
    "import ansible_collections.fabric.rdma.plugins.module_utils._base.places as places\n"
    "places.DRIVER_PROOF = 'DIRECTORY/driver-proof.json'\n"
)


class Process:
    """A module as a process, whose files are in a directory."""

    def __init__(self, module: str, directory: Path, prelude: str = IN_PLACE) -> None:
        self.module, self.directory = module, directory
        self.prelude = prelude.replace("DIRECTORY", str(directory))

    def call(self, arguments: Json, check: bool = False) -> Json:
        return run(self.module, check, self.prelude, _ansible_diff=True, **here(arguments, self.directory))

    def content(self) -> t.Any:
        return content(self.directory)


class Action(Process):
    """A module whose action does it all, in the process of the controller."""

    def call(self, arguments: Json, check: bool = False) -> Json:
        try:
            result = self.act(here(arguments, self.directory), check)
        except AnsibleError as exc:
            return {"failed": True, "msg": str(exc)}
        return {key: value for key, value in result.items() if not key.startswith("_")}

    def act(self, arguments: Json, check: bool) -> Json:
        plugin = importlib.import_module(f"ansible_collections.fabric.rdma.plugins.action.{self.module}").ActionModule
        given = {"async_val": 0, "check_mode": check, "diff": True, "action": f"fabric.rdma.{self.module}"}
        task = SimpleNamespace(**given, args=arguments)
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None), has_pipelining=True)
        return dict(plugin(task, connection, SimpleNamespace(), None, None, None).run(task_vars={}))


class Gate(Action):
    """With the inventory and variables of a play."""

    def __init__(self, module: str, directory: Path) -> None:
        super().__init__(module, directory)
        self.waves = Waves()

    def act(self, arguments: Json, check: bool) -> Json:
        return self.waves.act("n1", check, **arguments)


class Containerd:
    """A node with a real containerd, and its module in a process of its own."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.directory = machine, machine.root

    def call(self, arguments: Json, check: bool = False) -> Json:
        given = {"soft": str(HIGH), "hard": str(HIGH), **arguments}
        result: Json = self.machine.apart(lambda: self._answer(given, check))
        result.pop("invocation", None)
        return result

    def _answer(self, arguments: Json, check: bool) -> Json:
        module: t.Any = importlib.import_module("ansible_collections.fabric.rdma.plugins.modules.containerd_memlock")
        # the least of systemd that there has to be around a daemon
        module.Node = lambda _run, _base: self.machine
        given = {**arguments, "_ansible_check_mode": check, "_ansible_diff": True, "_ansible_remote_tmp": "/tmp"}
        printed = io.StringIO()
        with _given(given), contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            module.main()
        return dict(json.loads(printed.getvalue()))

    def content(self) -> t.Any:
        return self.machine.files(), self.machine.starts


@contextlib.contextmanager
def _given(arguments: Json) -> Iterator[None]:
    if importlib.util.find_spec("ansible.module_utils.testing"):
        with importlib.import_module("ansible.module_utils.testing").patch_module_args(arguments):
            yield
    else:
        # ansible-core 2.17 and 2.18
        basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
        yield


class Packages(Process):
    """What apt and dpkg of this machine take for the packages of a node."""

    def content(self) -> t.Any:
        # what a run remembers, and what apt caches, is not of the node's packages
        return {part: content(self.directory / part) for part in ("dpkg", "etc")}

    def hold(self) -> None:
        """A change of the driver has held a package, and ended."""
        self.call({"state": "opened"})
        status = self.directory / "dpkg/status"
        status.write_text(status.read_text().replace("install ok", "hold ok", 1))
        self.call({"state": "closed"})

    def cut_short(self) -> None:
        """As a loss of power leaves dpkg."""
        for name in ("triggers", "updates"):
            (self.directory / "dpkg" / name).mkdir(exist_ok=True)
        (self.directory / "dpkg/updates/0001").write_text(STATUS.format(name="rdma-core", version="44.0-3"))


class Cluster(Process):
    """A cluster that plays, over HTTP."""

    def __init__(self, module: str, directory: Path, prelude: str, cluster: t.Any) -> None:
        super().__init__(module, directory, prelude)
        self.cluster, self.kubeconfig = cluster, cluster.kubeconfig(directory)

    def call(self, arguments: Json, check: bool = False) -> Json:
        return super().call({**arguments, "kubeconfig": self.kubeconfig}, check)


class Pods(Cluster):
    """Its kubelets run Pods."""

    def content(self) -> t.Any:
        return sorted(self.cluster.pods)

    def killed(self) -> None:
        """A run that was killed has left a Pod."""
        self.cluster.request("POST", "/pods", "make", body={"metadata": {"name": "left", "labels": LEFT}})


class ServedJobs(OverHttp, JobCluster):
    """MPIJobs over HTTP."""

    def got(self, path: str, query: Json) -> Json:
        return self.request("GET", path, "do it") if path in self.objects else super().got(path, query)


class Jobs(Cluster):
    """Its MPI Operator runs MPIJobs."""

    def content(self) -> t.Any:
        return sorted(self.cluster.objects)

    def killed(self) -> None:
        """A run that was killed has left an MPIJob, beside one of somebody else."""
        path = "/apis/kubeflow.org/v2beta1/namespaces/proof/mpijobs"
        for name, labels in (("left", LEFT), ("theirs", {})):
            body = {"kind": "MPIJob", "metadata": {"name": name, "namespace": "proof", "labels": labels}}
            self.cluster.request("POST", path, "leave", body=body)


def left_lab(world: Action) -> None:
    """A lab whose node has died."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as foreign:
        a_lab(world.directory / "lab", foreign.pid)
        foreign.kill()


@contextlib.contextmanager
def containerd(_module: str, _directory: Path) -> Iterator[World]:
    # the path of a socket has at most 107 bytes
    with tempfile.TemporaryDirectory(prefix="c-", ignore_cleanup_errors=True) as directory:
        root = Path(directory) / "0"
        root.mkdir()
        machine = Machine(root, programs("1.7"), CONFIG_2)
        try:
            assert machine.start()
            yield Containerd(machine)
        finally:
            machine.stop()


@contextlib.contextmanager
def packages(module: str, directory: Path) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patched:
        repository_in(directory, patched)
        prelude = remembered_in(directory) + f"Apt.journal = {str(directory / 'dpkg/updates')!r}\n"
        yield Packages(module, directory, prelude)


@contextlib.contextmanager
def pods(module: str, directory: Path) -> Iterator[World]:
    with Served(healthy, good) as cluster:
        yield Pods(module, directory, SOON, cluster)


@contextlib.contextmanager
def jobs(module: str, directory: Path) -> Iterator[World]:
    soon = SOON.replace("pods_run", "jobs_run")
    with ServedJobs(looks=1, log=a_table(846.82, more=INFO.format(0, "P2P/MNNVL"))) as cluster:
        yield Jobs(module, directory, soon, cluster)


# Where a module needs more than a directory.
WORLDS: dict[str, Enter] = {
    "containerd_memlock": containerd,
    "driver_packages": packages,
    "lab": lambda module, directory: contextlib.nullcontext(Action(module, directory)),
    "mpi_traffic": jobs,
    "output_files": lambda module, directory: contextlib.nullcontext(Action(module, directory)),
    "pod_traffic": pods,
    "quiet_value": lambda module, directory: contextlib.nullcontext(Action(module, directory)),
    "wave_gate": lambda module, directory: contextlib.nullcontext(Gate(module, directory)),
}


def world_of(module: str, directory: Path) -> contextlib.AbstractContextManager[World]:
    enter = WORLDS.get(module)
    return enter(module, directory) if enter else contextlib.nullcontext(Process(module, directory))
