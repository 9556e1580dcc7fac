# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Kubernetes control plane on the controller, on 127.0.0.1 and without root. Private to the collection.

The programs (golang.py) run in a directory that has all that they keep: etcd's data, keys, certificates, logs, and `kubeconfig` for the
administrator. They end with the process that started them. `start_control_plane` leaves one such process running; it ends with its
directory. Standing alone, this file is that process: `python -m ...control_plane serve DIRECTORY`.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import fcntl
import http.client
import io
import ipaddress
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import time
import typing as t
import urllib.error
import urllib.request
from types import MappingProxyType

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.egress import SOCKET_FILE
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.kubelet import (
    API_ADDRESS,
    SERVICES,
    kubeconfig,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import (
    Alive,
    LabError,
    Progress,
    free_ports,
    read,
    termination_is_an_exception,
    write,
)

# ansible-core brings it; ansible-test imports this file where it is not.
with contextlib.suppress(ImportError):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

__all__ = [
    "CLIENT_CERTIFICATE",
    "LOCK_FILE",
    "LOG_FILE",
    "UP_FILE",
    "ControlPlane",
    "Parts",
    "Ports",
    "claim",
    "control_plane_runs",
    "hold",
    "last_lines",
    "leave_running",
    "ports_of",
    "start_control_plane",
    "stop_control_plane",
    "tokens_of",
]

# Held, with the number of the process in it, by what runs in a directory, for as long as that lives.
LOCK_FILE = "lock"
# Tokens of users; what the API server shows to kubelets; where it asks for the way to them.
TOKENS_FILE = "tokens.csv"
CLIENT_CERTIFICATE = "certificates/kubelet-client.crt"
ADMINISTRATOR = "admin"
# There while all of it runs.
UP_FILE = "up"
LOG_FILE = "serve.log"
SETTINGS_FILE = "settings.json"
Own = t.TypeVar("Own", bound="Parts")
# of etcd, of etcd for others of its kind, of the API server
Ports = tuple[int, int, int]
# Seconds for a program to be there. The time limit of one question to it is a part of that.
PATIENCE = 300.0
QUESTIONS = 12


def last_lines(path: str) -> str:
    return "\n".join(read(path).splitlines()[-20:])


def tokens_of(directory: str) -> dict[str, str]:
    """User -> token, of the control plane in a directory."""
    return {row[1]: row[0] for row in csv.reader(read(os.path.join(directory, TOKENS_FILE)).splitlines())}


# --- keys --------------------------------------------------------------------------------------------------------------


def _pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _alternative(name: str) -> x509.GeneralName:
    """An address or a name by which a certificate holds."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _make_certificate(path: str, name: str, others: t.Sequence[str] = (), group: str = "") -> None:
    """A certificate for 127.0.0.1 and other names in path.crt, its key in path.key. It is its own authority; those that are there stay.

    group: which Kubernetes takes whoever shows it for a member of.
    """
    if os.path.exists(path + ".crt"):
        return
    key = ec.generate_private_key(ec.SECP256R1())
    organization = [x509.NameAttribute(x509.oid.NameOID.ORGANIZATION_NAME, group)] if group else []
    subject = x509.Name([*organization, x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    uses = [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH, x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    names = list(map(_alternative, ["127.0.0.1", *others]))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    write(path + ".key", _pem(key), 0o600)
    write(path + ".crt", certificate.public_bytes(serialization.Encoding.PEM), 0o600)


# --- programs that run in a directory ------------------------------------------------------------------------------------


class Parts:
    """Programs that run in a directory, and end with the process that started them: ``with ControlPlane(...) as there: ...``."""

    def __init__(self, directory: str, patience: float = PATIENCE, alive: Alive = lambda: None) -> None:
        self.directory = os.path.abspath(directory)
        self.patience = patience
        self.alive = alive
        self.parts: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self: Own) -> Own:
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            self.begin()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def begin(self) -> None:
        """Starts all of them."""
        raise NotImplementedError

    def file(self, name: str) -> str:
        """Path of a file of the directory."""
        return os.path.join(self.directory, name)

    def start(self, name: str, *command: str, **environment: str) -> None:
        """Starts a part."""
        with open(self.file(f"{name}.log"), "ab") as log:
            self.parts[name] = subprocess.Popen(  # pylint: disable=consider-using-with
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ["PATH"], "HOME": self.directory, **environment},
            )

    def end(self, name: str) -> None:
        """Ends a part at once, as a crash would."""
        part = self.parts.pop(name)
        part.kill()
        part.wait()

    def check(self, name: str) -> None:
        """Raises LabError when a part has ended."""
        if (code := self.parts[name].poll()) is not None:
            raise LabError(f"{name} ended with {code}:\n{last_lines(self.file(f'{name}.log'))}")

    def wait(self, what: str, name: str, test: t.Callable[[], bool]) -> None:
        """Waits for something that a part brings."""
        end = time.monotonic() + self.patience
        while not test():
            self.alive()
            self.check(name)
            if time.monotonic() > end:
                log = last_lines(self.file(f"{name}.log"))
                raise LabError(f"{what} not there after {self.patience:.0f} s:\n{log}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Ends all of them. What they have written stays."""
        for name in reversed(list(self.parts)):
            self.end(name)


class ControlPlane(Parts):
    """etcd, API server, controllers and scheduler. What an earlier one has left in the directory is continued.

    users: kubelets, which the API server knows by a token each, with their groups; of the administrator's it always has one.
    grace: how long the controllers wait for a node that says nothing (--node-monitor-grace-period), Kubernetes' own time when None.
    """

    def __init__(
        self,
        directory: str,
        programs: t.Mapping[str, str],
        ports: Ports | None = None,
        grace: str | None = None,
        patience: float = PATIENCE,
        alive: Alive = lambda: None,
        users: t.Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(directory, patience, alive)
        self.programs = dict(programs)
        self.users = {ADMINISTRATOR: "system:masters", **users}
        # they are not where they say that they are: there is a way to each
        self.kubelets = bool(users)
        self.grace = grace
        self.etcd_port, self.peer_port, self.port = ports or free_ports(3)
        self.server = f"https://127.0.0.1:{self.port}"
        self.certificate = self.file("certificates/apiserver.crt")
        self.token = tokens_of(self.directory).get(ADMINISTRATOR, "")

    def begin(self) -> None:
        """Starts all of them, and waits until the controllers work."""
        self.make_keys()
        self.start_etcd()
        self.start_apiserver()
        self.start_others()
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.wait("controllers", "kube-controller-manager", lambda: self.ask(account)[0] == 200)

    def make_keys(self) -> None:
        """Writes what the parts know each other by, and the administrator's kubeconfig. What is there stays."""
        os.makedirs(self.file("certificates"), mode=0o700, exist_ok=True)
        # Each of etcd and the API server has this one, and trusts no other: nobody else on this machine reads or writes there.
        _make_certificate(self.file("certificates/etcd"), "etcd")
        service = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        _make_certificate(self.file("certificates/apiserver"), "kube-apiserver", ["localhost", API_ADDRESS, *service])
        if not os.path.exists(self.file("sa.key")):
            # what the tokens of service accounts are signed with
            write(self.file("sa.key"), _pem(rsa.generate_private_key(public_exponent=65537, key_size=2048)), 0o600)
        client = self.file(CLIENT_CERTIFICATE).removesuffix(".crt")
        _make_certificate(client, "kube-apiserver-kubelet-client", group="system:masters")
        known = tokens_of(self.directory)
        text = io.StringIO()
        rows = [(known.get(user) or secrets.token_urlsafe(32), user, user, group) for user, group in self.users.items()]
        csv.writer(text, lineterminator="\n").writerows(rows)
        write(self.file(TOKENS_FILE), text.getvalue(), 0o600)
        self.token = rows[0][0]
        config = kubeconfig(self.server, read(self.certificate), ADMINISTRATOR, self.token)
        write(self.file("kubeconfig"), json.dumps(config, indent=2) + "\n", 0o600)

    def start_etcd(self) -> None:
        client, peer = (f"https://127.0.0.1:{port}" for port in (self.etcd_port, self.peer_port))
        certificate, key = self.file("certificates/etcd.crt"), self.file("certificates/etcd.key")
        tls = {"cert-file": certificate, "key-file": key, "trusted-ca-file": certificate, "client-cert-auth": "true"}
        self.start(
            "etcd",
            self.programs["etcd"],
            f"--data-dir={self.file('etcd')}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            *(f"--{prefix}{name}={value}" for prefix in ("", "peer-") for name, value in tls.items()),
            # nothing here is to survive a power cut
            "--unsafe-no-fsync",
        )
        context = ssl.create_default_context(cafile=certificate)
        context.load_cert_chain(certificate, key)
        self.wait("etcd", "etcd", lambda: self._get(f"{client}/health", context)[0] == 200)

    def start_apiserver(self) -> None:
        key = self.file("sa.key")
        self.start(
            "kube-apiserver",
            self.programs["kube-apiserver"],
            f"--etcd-servers=https://127.0.0.1:{self.etcd_port}",
            f"--etcd-cafile={self.file('certificates/etcd.crt')}",
            f"--etcd-certfile={self.file('certificates/etcd.crt')}",
            f"--etcd-keyfile={self.file('certificates/etcd.key')}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={self.certificate}",
            f"--tls-private-key-file={self.file('certificates/apiserver.key')}",
            f"--service-cluster-ip-range={SERVICES}",
            "--service-account-issuer=https://127.0.0.1",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={self.file(TOKENS_FILE)}",
            # as kubeadm sets it up
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--kubelet-client-certificate={self.file(CLIENT_CERTIFICATE)}",
            f"--kubelet-client-key={self.file('certificates/kubelet-client.key')}",
            *([f"--egress-selector-config-file={self._egress()}"] if self.kubelets else []),
            "--kubelet-preferred-address-types=InternalIP,Hostname",
            # the device plugin is privileged
            "--allow-privileged=true",
        )
        self.wait("the API server", "kube-apiserver", lambda: self.ask("/readyz")[0] == 200)

    def _egress(self) -> str:
        """The file that says how the API server finds kubelets: over the socket of egress.py, whose directory both work in."""
        connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": SOCKET_FILE}}}
        kind = {"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration"}
        path = self.file("egress.json")
        write(path, json.dumps({**kind, "egressSelections": [{"name": "cluster", "connection": connection}]}), 0o600)
        return path

    def end_apiserver(self) -> None:
        """Ends the API server at once, as a crash would."""
        self.end("kube-apiserver")

    def start_others(self) -> None:
        """Starts what needs the API server, and waits for none of it."""
        common = [f"--kubeconfig={self.file('kubeconfig')}", "--leader-elect=false", "--secure-port=0"]
        self.start(
            "kube-controller-manager",
            self.programs["kube-controller-manager"],
            *common,
            f"--service-account-private-key-file={self.file('sa.key')}",
            *([f"--node-monitor-grace-period={self.grace}"] if self.grace else []),
        )
        self.start("kube-scheduler", self.programs["kube-scheduler"], *common)
        if self.kubelets:
            program = os.path.join(os.path.dirname(os.path.realpath(__file__)), "egress.py")
            self.start("egress", sys.executable, "-I", program, "serve", self.directory)

    def ask(self, path: str, body: t.Mapping[str, t.Any] | None = None) -> tuple[int, str]:
        """Status and body of the API server's answer; 0 while nothing answers. body: an object to make."""
        context = ssl.create_default_context(cafile=self.certificate)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        return self._get(self.server + path, context, json.dumps(body).encode() if body else None, headers)

    def _get(
        self,
        url: str,
        context: ssl.SSLContext,
        data: bytes | None = None,
        headers: t.Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[int, str]:
        try:
            # no proxy leads to 127.0.0.1
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
            )
            query = urllib.request.Request(url, data, dict(headers))
            with opener.open(query, timeout=self.patience / QUESTIONS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""


# --- a process that stays ------------------------------------------------------------------------------------------------


def _file(directory: str, name: str) -> str:
    return os.path.join(directory, name)


def control_plane_runs(directory: str) -> bool:
    """Whether something runs in a directory."""
    try:
        with open(_file(directory, LOCK_FILE), encoding="utf-8") as lock:
            # shared: two who ask do not take each other for what runs there
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def hold(directory: str, parts: Parts, turn: t.Callable[[], None] = lambda: None) -> None:
    """Runs parts until SIGTERM, until their directory goes, or until one of them ends by itself. turn is called again and again.

    The process that started this one may go once all of it runs, not before.
    """
    parent = os.getppid()

    def wanted() -> None:
        if os.getppid() != parent:
            raise LabError(f"the process that asked for what runs in {directory} has ended")

    up = _file(directory, UP_FILE)
    with open(_file(directory, LOCK_FILE), "r+", encoding="utf-8") as lock, termination_is_an_exception():
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        parts.alive = wanted
        with parts:
            parts.alive = lambda: None
            write(up, "")
            while os.path.exists(directory):
                turn()
                for name in parts.parts:
                    parts.check(name)
                time.sleep(0.05)


def claim(directory: str) -> None:
    """Makes a directory ready for what is to run there. What an earlier one has kept stays; one of something else is refused."""
    if control_plane_runs(directory):
        raise LabError(f"a control plane runs in {directory}", "stop it first")
    if os.path.isdir(directory) and os.listdir(directory) and not os.path.exists(_file(directory, LOCK_FILE)):
        raise LabError(f"{directory} is not empty and has no control plane in it", "name a directory of its own")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    os.chmod(directory, 0o700)
    # at once: without it, nothing else here is ours
    os.close(os.open(_file(directory, LOCK_FILE), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))


def leave_running(
    directory: str, command: t.Sequence[str], alive: Alive, cwd: str | None = None, **environment: str
) -> None:
    """Starts a process that holds parts in a directory that was claimed, waits until they run, and leaves it."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_file(directory, UP_FILE))
    log_path = _file(directory, LOG_FILE)
    with open(log_path, "wb") as log:
        process = subprocess.Popen(  # pylint: disable=consider-using-with
            command,
            cwd=cwd,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while not os.path.exists(_file(directory, UP_FILE)):
            alive()
            if process.poll() is not None:
                raise LabError(f"no control plane:\n{last_lines(log_path)}")
            time.sleep(0.1)
    except BaseException:
        process.kill()
        process.wait()
        raise
    # It stays: nobody waits for it.
    process.returncode = 0


def start_control_plane(
    directory: str,
    programs: t.Mapping[str, str],
    ports: Ports,
    progress: Progress,
    alive: Alive,
    grace: str | None = None,
    patience: float = PATIENCE,
    users: t.Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Leaves a control plane running. It ends, with its process, on `stop_control_plane` or when its directory goes.

    What an earlier one has kept in the directory is continued, also by clients when the ports are the same.
    """
    directory = os.path.abspath(directory)
    claim(directory)
    settings = {"programs": dict(programs), "ports": ports, "grace": grace, "patience": patience}
    settings["users"] = dict(users)
    write(_file(directory, SETTINGS_FILE), json.dumps(settings) + "\n", 0o600)
    started = time.monotonic()
    progress("control plane: starting")
    # From /, where nothing is that Python would import.
    command = [sys.executable, "-m", __name__, "serve", directory]
    leave_running(directory, command, alive, cwd="/", PYTHONPATH=_collections())
    progress(f"control plane: answers on port {ports[2]} after {time.monotonic() - started:.0f} s")


def _collections() -> str:
    """The directory that has the package ansible_collections, whoever imported this from there."""
    return os.path.abspath(os.path.join(__file__, *[os.pardir] * 7))


def ports_of(directory: str) -> Ports:
    """The ports of the control plane that runs in a directory."""
    etcd, peer, server = json.loads(read(_file(directory, SETTINGS_FILE)))["ports"]
    return etcd, peer, server


def serve(directory: str) -> None:
    """Runs the control plane of a directory until it is told to end, or its directory goes."""
    settings = json.loads(read(_file(directory, SETTINGS_FILE)))
    hold(
        directory,
        ControlPlane(
            directory,
            settings["programs"],
            ports_of(directory),
            settings["grace"],
            settings["patience"],
            users=settings["users"],
        ),
    )


def _is_there(pid: str, directory: str) -> bool:
    """Whether a process that holds a directory is there still: it has let go of the lock some time before it ends."""
    return pid.isdigit() and os.path.abspath(directory) in read(f"/proc/{pid}/cmdline").split("\0")


def stop_control_plane(directory: str, keep: bool = False, patience: float = PATIENCE) -> None:
    """Ends what runs in a directory, and removes that; keep: what it has written stays. Nothing to do is not an error."""
    end = time.monotonic() + patience
    told = ""
    # also of one that has let go before this looks
    pid = read(_file(directory, LOCK_FILE)).strip()
    while (runs := control_plane_runs(directory)) or _is_there(pid, directory):
        pid = read(_file(directory, LOCK_FILE)).strip() or pid
        if runs and pid.isdigit() and pid != told:
            # once: the second signal would end it before it has ended its parts
            told = pid
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGTERM)
        if time.monotonic() > end:
            raise LabError(f"the control plane of {directory} does not end", f"End process {pid} by hand")
        time.sleep(0.05)
    if os.path.exists(_file(directory, LOCK_FILE)) and not keep:
        # the lock last: while it is there, a second attempt knows that what is left is ours
        for entry in list(os.scandir(directory)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            elif entry.name != LOCK_FILE:
                os.unlink(entry.path)
        shutil.rmtree(directory)


if __name__ == "__main__" and sys.argv[1:2] == ["serve"]:
    try:
        serve(sys.argv[2])
    except LabError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
