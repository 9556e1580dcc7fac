# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab: nodes that can be reached with SSH, as QEMU virtual machines with Soft-RoCE devices or as containers that boot.

Private to the collection. Runs on the controller only.

A lab is a directory. `state.json` in it says which nodes there are; a node runs when its pid file names a QEMU process that was started
with this very pid file. Nodes are linked by socket pairs that QEMU inherits, so that their second network needs no port and nobody else
can join it; the price is that nodes are started together: when one of them has died, all are started again (their disks are kept).
Containers (_lab_container) are started one by one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import typing as t
from dataclasses import asdict, dataclass, field

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab_container import (
    CONTAINER_DIRECTORIES,
    READY_WORD,
    SETUP,
    bridge_name,
    bring_up,
    container_command,
    container_trouble,
    end_container,
    is_our_container,
    link_local,
    machine_name,
    make_directories,
    places_here,
    remove_bridge,
    unpack_configuration,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab_image import (
    Image,
    LabError,
    Progress,
    build_image,
    cached_image,
    choose_sources,
    default_recipe,
    find_tool,
    locked,
    machine_sources,
    parse_os_release,
    require_tools,
)

__all__ = [
    "Lab",
    "LabError",
    "LabResult",
    "LabSpec",
    "NodePlan",
    "config_archive",
    "console_tail",
    "fabric_links",
    "fabric_netdevs",
    "is_our_process",
    "known_hosts",
    "plan_nodes",
    "qemu_command",
    "ssh_config",
]

# RFC 5737, TEST-NET-2: never routed anywhere.
FABRIC_NETWORK = "198.51.100"
# What QEMU's user-mode network calls itself and its one guest.
MANAGEMENT_GATEWAY = "10.0.2.2"
MANAGEMENT_ADDRESS = "10.0.2.15"
MAX_NODES = 32
# Measured with two emulated nodes on two cores: pc is ready some seconds before q35, one processor a node before two, and a processor
# with four levels of page tables and without wide vectors ten seconds before one that has all that QEMU can emulate.
MACHINE = "pc"
TCG_CPU = "max,la57=off,-avx,-avx2,-erms,-smap,-smep,-pku,-xsave"
# Without them, and with these arguments, a boot takes 26.5 s of processor time instead of 30.2 s. Under emulation "rep stos" and "rep movs"
# go byte by byte, so that a page is cleared in a third of the time without them.
TCG_ARGUMENTS = "clearcpuid=erms,rep_good init_on_alloc=0 hardened_usercopy=off randomize_kstack_offset=off psi=0 transparent_hugepage=never"
STATE_FORMAT = 1
# What the image's setup script says on the console, and the file that it leaves.
READY_TEXT = " is set up"
READY_FILE = "/run/fabric-rdma-lab"
RUN_TOOLS = ("qemu-system-x86_64", "qemu-img", "ssh", "ssh-keygen")

# Exists in every lab directory and says that its content is ours to remove.
STATE_FILE = "state.json"
LOCK_FILE = "lock"
TOP_FILES = ("ssh_config", "known_hosts", "id_ed25519", "id_ed25519.pub", STATE_FILE)
NODE_FILES = (
    "disk.qcow2",
    "config.tar",
    "console.log",
    "qemu.pid",
    "qemu.log",
    "container.pid",
    # of systemd-nspawn, when it was killed
    ".#root.lck",
    "ssh_host_ed25519_key",
    "ssh_host_ed25519_key.pub",
)


@dataclass(frozen=True)
class NodePlan:
    """One node as it is wished for."""

    name: str
    index: int
    memory_mib: int
    cpus: int

    @property
    def address(self) -> str:
        """Address of the RDMA network card, without prefix length."""
        return f"{FABRIC_NETWORK}.{self.index + 1}"

    def mac(self, card: int) -> str:
        """Hardware address of network card 0 (management) or 1 (RDMA)."""
        return f"52:54:00:fa:{card:02x}:{self.index + 1:02x}"


@dataclass(frozen=True)
class LabSpec:
    """A lab as it is wished for."""

    directory: str
    cache_dir: str
    nodes: tuple[NodePlan, ...]
    accel: str = "auto"
    boot_timeout: int = 600
    engine: str = "qemu"

    def key(self, image: Image) -> str:
        """Changes when running nodes do not fit the wish any more."""
        nodes = [asdict(node) for node in self.nodes]
        text = json.dumps([STATE_FORMAT, image.key, self.accel, self.engine, nodes], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass
class NodeStatus:
    """One node as it is."""

    name: str
    address: str
    port: int
    running: bool
    pid: int | None
    console: str


@dataclass
class LabResult:
    """What a call did or found."""

    changed: bool
    directory: str
    nodes: list[NodeStatus]
    engine: str | None = None
    accel: str | None = None
    image: str | None = None
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


# --- pure parts ----------------------------------------------------------------------------------------------------------


def plan_nodes(value: object, memory_mib: int, cpus: int) -> tuple[NodePlan, ...]:
    """The nodes that a user asked for.

    `value` is a number of nodes (lab1, lab2, ...) or a list of names or of dicts with name and, if they differ from the lab's,
    memory_mib and cpus. Raises LabError, naming the entry.
    """
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, list, tuple)):
        raise LabError(
            f"nodes is {value!r}: give a number of nodes, or a list of names or of dicts with name, memory_mib and cpus"
        )
    entries: t.Sequence[object] = [{"name": f"lab{n + 1}"} for n in range(value)] if isinstance(value, int) else value
    if not 1 <= len(entries) <= MAX_NODES:
        raise LabError(f"the lab has {len(entries)} nodes: give 1 to {MAX_NODES}")
    result: list[NodePlan] = []
    for position, entry in enumerate(entries):
        item: object = {"name": entry} if isinstance(entry, str) else entry
        where = f"nodes[{position}]"
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise LabError(f"{where} is {entry!r}: give a name or a dict with name")
        unknown = sorted(str(key) for key in set(item) - {"name", "memory_mib", "cpus"})
        if unknown:
            raise LabError(f"{where} has the unknown keys {', '.join(unknown)}: it may have name, memory_mib and cpus")
        name = item["name"]
        if not re.match(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?\Z", name):
            raise LabError(f"{where}.name is {name!r}: use 1 to 32 of a-z, 0-9 and -, with no - at either end")
        if any(node.name == name for node in result):
            raise LabError(f"{where}.name is {name!r}, and so is an earlier one: names must differ")
        result.append(
            NodePlan(
                name,
                position,
                _number(item.get("memory_mib", memory_mib), where + ".memory_mib", 256, 65536),
                _number(item.get("cpus", cpus), where + ".cpus", 1, 64),
            )
        )
    return tuple(result)


def _number(value: object, where: str, least: int, most: int) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise LabError(f"{where} is {value!r}: give a whole number from {least} to {most}")
    return number


def fabric_links(count: int) -> list[tuple[int, int]]:
    """Which nodes are joined by a cable: all with the first one, whose QEMU has a hub when there are more than two."""
    return [(0, other) for other in range(1, count)]


def fabric_netdevs(index: int, count: int, descriptors: t.Sequence[int]) -> list[str]:
    """QEMU's arguments for the network behind the second card (netdev `fabric`) of a node.

    `descriptors` are the ends of this node's cables, in the order of `fabric_links`.
    """
    if count == 2 or (index > 0 and count > 2):
        return ["-netdev", f"socket,id=fabric,fd={descriptors[0]}"]
    result = ["-netdev", "hubport,id=fabric,hubid=0"]
    for number, descriptor in enumerate(descriptors):
        result += ["-netdev", f"socket,id=cable{number},fd={descriptor}"]
        result += ["-netdev", f"hubport,id=port{number},hubid=0,netdev=cable{number}"]
    return result


def _quoted(path: str) -> str:
    """A path as a value in one of QEMU's comma-separated options."""
    return path.replace(",", ",,")


def kernel_arguments(node: NodePlan, accel: str) -> str:
    """The kernel command line of a node."""
    machine_id = hashlib.sha256(("fabric.rdma lab " + node.name).encode()).hexdigest()[:32]
    return " ".join(
        [
            "root=/dev/vda rw rootfstype=ext4 console=ttyS0 net.ifnames=0",
            f"systemd.hostname={node.name} systemd.machine_id={machine_id}",
            # Nothing here protects anything, and each costs time under emulation.
            "mitigations=off audit=0 selinux=0 apparmor=0 nowatchdog fsck.mode=skip",
            "random.trust_cpu=on loglevel=5 systemd.show_status=1",
            *([] if accel == "kvm" else [TCG_ARGUMENTS]),
        ]
    )


def qemu_command(
    node: NodePlan, count: int, image: Image, directory: str, accel: str, port: int, descriptors: t.Sequence[int]
) -> list[str]:
    """The command that starts a node in the background.

    `directory` is the node's own; `port` the one of 127.0.0.1 that leads to its SSH server. The management network reaches nothing but
    this port (restrict=on).
    """
    cpu = "host" if accel == "kvm" else TCG_CPU
    accelerator = "kvm" if accel == "kvm" else "tcg,thread=multi"

    def path(name: str) -> str:
        return _quoted(os.path.join(directory, name))

    return [
        "qemu-system-x86_64",
        *("-name", node.name),
        *("-machine", MACHINE),
        *("-accel", accelerator),
        *("-cpu", cpu),
        *("-smp", str(node.cpus)),
        *("-m", str(node.memory_mib)),
        *("-nodefaults", "-no-user-config", "-vga", "none", "-display", "none", "-monitor", "none"),
        *("-chardev", f"file,id=console,path={path('console.log')}", "-serial", "chardev:console"),
        *("-kernel", image.kernel, "-initrd", image.initrd, "-append", kernel_arguments(node, accel)),
        # cache=unsafe: losing a node's disk with the machine's power is no loss, and syncs are what package installation waits for.
        *("-drive", f"file={path('disk.qcow2')},if=none,id=root,format=qcow2,cache=unsafe"),
        *("-device", "virtio-blk-pci,drive=root"),
        *("-drive", f"file={path('config.tar')},if=none,id=config,format=raw,readonly=on"),
        *("-device", "virtio-blk-pci,drive=config"),
        *("-netdev", f"user,id=management,restrict=on,hostfwd=tcp:127.0.0.1:{port}-{MANAGEMENT_ADDRESS}:22"),
        *("-device", f"virtio-net-pci,netdev=management,mac={node.mac(0)},romfile="),
        *fabric_netdevs(node.index, count, descriptors),
        *("-device", f"virtio-net-pci,netdev=fabric,mac={node.mac(1)},romfile="),
        *("-device", "virtio-rng-pci"),
        *("-daemonize", "-pidfile", os.path.join(directory, "qemu.pid")),
    ]


def ssh_config(nodes: t.Sequence[NodePlan], places: t.Mapping[str, tuple[str, int]], directory: str) -> str:
    """An ssh_config(5) with one alias a node: `ssh -F <directory>/ssh_config lab1`. places: address and port of each node."""

    def path(name: str) -> str:
        # % starts a token in ssh_config(5), and a path may have blanks.
        return '"%s"' % os.path.join(directory, name).replace("%", "%%")

    lines = ["# Written by fabric.rdma.lab; removed with the lab."]
    for node in nodes:
        lines += [
            f"Host {node.name}",
            # of a link-local address, % comes before the name of its device
            f"  HostName {places[node.name][0].replace('%', '%%')}",
            f"  Port {places[node.name][1]}",
            f"  HostKeyAlias {node.name}",
        ]
    lines += [
        "Host %s" % " ".join(node.name for node in nodes),
        "  User root",
        f"  IdentityFile {path('id_ed25519')}",
        "  IdentitiesOnly yes",
        "  IdentityAgent none",
        "  PasswordAuthentication no",
        "  StrictHostKeyChecking yes",
        f"  UserKnownHostsFile {path('known_hosts')}",
        "  GlobalKnownHostsFile /dev/null",
        "  CheckHostIP no",
        "  UpdateHostKeys no",
        "  LogLevel ERROR",
    ]
    return "\n".join(lines) + "\n"


def known_hosts(keys: t.Mapping[str, str]) -> str:
    """A known_hosts file that pins the nodes' host keys; `keys` maps a node to the text of its public key file."""
    return "".join(f"{name} {' '.join(keys[name].split()[:2])}\n" for name in keys)


def config_archive(
    node: NodePlan,
    nodes: t.Sequence[NodePlan],
    host_key: str,
    host_public: str,
    client_public: str,
    management: str = MANAGEMENT_ADDRESS + "/24",
) -> bytes:
    """What makes a node this node, as a tar archive: the second disk of a virtual machine."""
    hosts = "127.0.0.1 localhost\n" + "".join(f"{other.address} {other.name}\n" for other in nodes)
    settings = {
        "LAB_NAME": node.name,
        "LAB_MANAGEMENT_ADDRESS": management,
        "LAB_GATEWAY": MANAGEMENT_GATEWAY,
        "LAB_FABRIC_ADDRESS": node.address + "/24",
    }
    files = {
        "etc/hostname": (0o644, node.name + "\n"),
        "etc/hosts": (0o644, hosts),
        "etc/fabric-rdma-lab.conf": (0o644, "".join(f"{key}={shlex.quote(settings[key])}\n" for key in settings)),
        "etc/ssh/ssh_host_ed25519_key": (0o600, host_key),
        "etc/ssh/ssh_host_ed25519_key.pub": (0o644, host_public),
        "root/.ssh/authorized_keys": (0o600, client_public),
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (mode, content) in files.items():
            info = tarfile.TarInfo(name)
            info.mode, info.size = mode, len(content.encode())
            archive.addfile(info, io.BytesIO(content.encode()))
    return buffer.getvalue()


def console_tail(text: str, lines: int = 20) -> str:
    """The last lines of a console log, without the colours and carriage returns that systemd writes there."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1bc|[\x00-\x08\x0b-\x1f]", "", text.replace("\r", "\n"))
    kept = [line.rstrip() for line in plain.split("\n") if line.strip()]
    return "\n".join(kept[-lines:])


def is_our_process(arguments: t.Sequence[str], pidfile: str) -> bool:
    """Whether a process with these arguments is the QEMU that was started with this pid file."""
    if not arguments or not os.path.basename(arguments[0]).startswith("qemu-system-"):
        return False
    return any(a == "-pidfile" and b == pidfile for a, b in itertools.pairwise(arguments))


# --- the machine -----------------------------------------------------------------------------------------------------------


def _write(path: str, content: str | bytes, mode: int = 0o644) -> None:
    """Writes a file at once or not at all."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path + ".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
    os.replace(temporary, path)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _run(command: t.Sequence[str], what: str, pass_fds: t.Sequence[int] = (), timeout: float = 60) -> None:
    """Runs a program to its end. Raises LabError with what it said when it fails."""
    program = find_tool(command[0]) or command[0]
    try:
        result = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=pass_fds,
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LabError(f"{what} failed: {exc}") from exc
    if result.returncode != 0:
        raise LabError(f"{what} failed ({command[0]} ended with {result.returncode}): {_text(result.stdout)}")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip() or "it said nothing"


def _free_port() -> int:
    """A TCP port of 127.0.0.1 that is free now. Somebody else may take it before QEMU does; the caller then tries another."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def _termination_is_an_exception() -> t.Iterator[None]:
    """Lets the clean-up run when this process is told to end (Ansible ends its workers with SIGTERM after Ctrl-C)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: object) -> t.NoReturn:
        raise SystemExit(128 + number)

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class Lab:
    """A lab directory and what runs from it."""

    def __init__(self, directory: str, progress: Progress) -> None:
        self.directory = os.path.realpath(os.path.expanduser(directory))
        self.progress = progress
        self._parent = os.getppid()

    def _alive(self) -> None:
        """Ansible's workers live on, unheard, when the process that started them was interrupted."""
        if os.getppid() != self._parent:
            raise LabError(f"the process that wanted the lab in {self.directory} has ended")

    # -- looking

    def state(self) -> dict[str, t.Any]:
        """What `present` has written: {} when there is no lab here."""
        text = _read(os.path.join(self.directory, STATE_FILE))
        if not text:
            return {}
        try:
            state = json.loads(text)
        except ValueError as exc:
            raise LabError(f"{STATE_FILE} is damaged ({exc}): remove the directory {self.directory} by hand") from exc
        if not isinstance(state, dict) or state.get("format") != STATE_FORMAT:
            raise LabError(
                "%s/%s was written by another version of the lab (format %r, this one writes %d): remove the lab with that version, or the "
                "directory by hand"
                % (self.directory, STATE_FILE, state.get("format") if isinstance(state, dict) else None, STATE_FORMAT)
            )
        return state

    def node_path(self, name: str, file: str) -> str:
        """Path of a node's file."""
        return os.path.join(self.directory, name, file)

    def pid(self, name: str) -> int | None:
        """The process of a node, when it runs and is ours."""
        for file, ours in (("qemu.pid", is_our_process), ("container.pid", is_our_container)):
            pidfile = self.node_path(name, file)
            text = _read(pidfile).strip()
            if text.isdigit() and ours(_read(f"/proc/{text}/cmdline").split("\0"), pidfile):
                return int(text)
        return None

    def nodes(self) -> list[NodeStatus]:
        """The nodes that the state names, and whether they run."""
        result: list[NodeStatus] = []
        for node in self.state().get("nodes", []):
            pid = self.pid(node["name"])
            result.append(
                NodeStatus(
                    name=node["name"],
                    address=node["address"],
                    port=node["port"],
                    running=pid is not None,
                    pid=pid,
                    console=self.node_path(node["name"], "console.log"),
                )
            )
        return result

    def _result(self, changed: bool, **more: t.Any) -> LabResult:
        state = self.state()
        nodes = self.nodes()
        result = LabResult(
            changed=changed,
            directory=self.directory,
            nodes=nodes,
            # a state without the word is of virtual machines
            engine=state.get("engine", "qemu") if state else None,
            accel=state.get("accel"),
            image=state.get("image"),
        )
        result.after = [_line(node) for node in nodes]
        for key, value in more.items():
            setattr(result, key, value)
        return result

    def status(self) -> LabResult:
        """What runs."""
        return self._result(False)

    # -- present

    def present(self, spec: LabSpec, check: bool = False) -> LabResult:
        """Makes the lab run as wished: builds the image, starts the nodes, waits until each can be used.

        In check mode nothing is done, and `changed` says whether something would be.
        """
        notes: list[str] = []
        engine = self._engine(spec, notes)
        require_tools(RUN_TOOLS if engine == "qemu" else ("ssh", "ssh-keygen"))
        self._refuse_foreign()
        os_release = parse_os_release(_read("/etc/os-release"))
        suite, sources = choose_sources(machine_sources(), os_release)
        recipe = default_recipe(suite, sources, os_release)
        image = cached_image(spec.cache_dir, recipe)
        before = [_line(node) for node in self.nodes()]
        if check:
            wanted = image is not None and self._fits(spec, image)
            after = before if wanted else [f"{node.name} running {node.address}" for node in spec.nodes]
            return self._result(not wanted, before=before, after=after)
        seconds: dict[str, float] = {}
        with _termination_is_an_exception(), self._lock():
            if image is None:
                started = time.monotonic()
                image = build_image(spec.cache_dir, recipe, sources, self.progress, self._alive)
                seconds["image"] = time.monotonic() - started
            if self._fits(spec, image):
                self._wait(spec, self.state()["accel"], spec.boot_timeout)
                return self._result(False, before=before, seconds=seconds, notes=notes)
            started = time.monotonic()
            if engine == "container":
                engine = self._start_containers(spec, image, notes)
            if engine == "qemu":
                require_tools(RUN_TOOLS)
                self._prepare(spec, image, engine)
                self._start_with_accelerator(spec, image, notes)
            seconds["boot"] = time.monotonic() - started
            # how fast this machine is: the time limits of tests follow it
            if engine == "qemu":
                # the measure of how busy the machine is; what containers take is too little to be one
                self._save({**self.state(), "boot_seconds": round(seconds["boot"], 1)})
        return self._result(True, before=before, seconds=seconds, notes=notes)

    def _engine(self, spec: LabSpec, notes: list[str]) -> str:
        """What nodes are to be, and in a note why they are no containers where they could have been some."""
        if spec.engine == "qemu":
            return "qemu"
        state = self.state()
        if spec.engine == "auto" and state.get("engine") == "qemu" and any(node.running for node in self.nodes()):
            # What was found out once need not be found out again while it runs.
            return "qemu"
        reason = container_trouble()
        if reason is None:
            return "container"
        if spec.engine == "container":
            raise LabError(f"nodes cannot be containers here: {reason}", "use engine: qemu, or auto")
        notes.append(f"virtual machines: {reason}")
        self.progress(f"lab: nodes are virtual machines, since {reason}")
        return "qemu"

    def _start_containers(self, spec: LabSpec, image: Image, notes: list[str]) -> str:
        """Starts those nodes that do not run, and waits for all. What was started: `qemu` when nothing was, and may be then."""
        try:
            self._prepare(spec, image, "container")
            with self._guard(spec):
                bring_up(bridge_name(self.directory))
                for node in spec.nodes:
                    if self.pid(node.name) is None:
                        self._start_container(node, image)
                self.progress("lab: started %s as containers" % ", ".join(node.name for node in spec.nodes))
                self._wait(spec, "container", min(120, spec.boot_timeout))
            return "container"
        except LabError as exc:
            self._stop_all()
            if spec.engine == "container":
                raise LabError(f"{exc}\nAll nodes have been stopped.") from exc
            notes.append("virtual machines: containers did not come up")
            self.progress(f"lab: containers did not come up, starting virtual machines: {exc}")
            self._remove_files()
            return "qemu"
        except BaseException:
            self._stop_all()
            raise

    def _start_container(self, node: NodePlan, image: Image) -> None:
        machine = machine_name(self.directory, node.index)
        # What a node that was killed has left in the kernel, where the first of all looks like the second.
        end_container(None, machine)
        directory = os.path.join(self.directory, node.name)
        bridge = bridge_name(self.directory)
        command = container_command(node.name, machine, bridge, image.disk, directory, places_here())
        with open(os.path.join(directory, "console.log"), "wb") as log:
            try:
                done = subprocess.run(
                    [find_tool(command[0]) or command[0], *command[1:]],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=60,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as exc:
                raise LabError(f"starting {node.name} failed: {exc}") from exc
        if done.returncode != 0:
            raise LabError(f"starting {node.name} failed (setsid ended with {done.returncode})")
        deadline = time.monotonic() + 30
        while self.pid(node.name) is None:
            if time.monotonic() > deadline:
                raise LabError(self._epitaph(node.name, "it has not started", "container"))
            time.sleep(0.02)

    @contextlib.contextmanager
    def _lock(self) -> t.Iterator[None]:
        """One at a time in this directory."""
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        with locked(os.path.join(self.directory, LOCK_FILE), self.progress, self._alive, "lab"):
            yield

    def _refuse_foreign(self) -> None:
        """What is not a lab is not ours to write to."""
        if os.path.isdir(self.directory) and not self.state() and set(os.listdir(self.directory)) - {LOCK_FILE}:
            raise LabError(f"{self.directory} is not empty and has no lab in it: name a directory of the lab's own")

    def _fits(self, spec: LabSpec, image: Image) -> bool:
        return self.state().get("spec") == spec.key(image) and all(node.running for node in self.nodes())

    def _prepare(self, spec: LabSpec, image: Image, engine: str) -> None:
        """Stops what runs, and lays out keys and disks. Disks are kept when the wish is the one that they were made for.

        Containers that run as they are wished for are left alone.
        """
        state = self.state()
        same = bool(state) and state.get("spec") == spec.key(image) and state.get("engine", "qemu") == engine
        if not (same and engine == "container"):
            self._stop_all()
        if state and not same:
            self._remove_files()
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        state = {
            "format": STATE_FORMAT,
            "spec": spec.key(image),
            "image": image.directory,
            "engine": engine,
            "accel": None,
            "nodes": [
                {"name": node.name, "address": node.address, "port": 22 if engine == "container" else 0}
                for node in spec.nodes
            ],
        }
        # First of all: from now on `absent` knows what to remove.
        self._save(state)
        client = os.path.join(self.directory, "id_ed25519")
        _keypair(client, "fabric.rdma lab")
        keys: dict[str, str] = {}
        for node in spec.nodes:
            os.makedirs(os.path.join(self.directory, node.name), exist_ok=True)
            key = self.node_path(node.name, "ssh_host_ed25519_key")
            _keypair(key, node.name)
            keys[node.name] = _read(key + ".pub")
            texts = (_read(key), keys[node.name], _read(client + ".pub"))
            if engine == "container":
                if self.pid(node.name) is None:
                    archive = config_archive(node, spec.nodes, *texts, management=link_local(node.index) + "/64")
                    self._lay_out(node, archive)
                continue
            archive = config_archive(node, spec.nodes, *texts)
            _write(self.node_path(node.name, "config.tar"), archive, 0o600)
            disk = self.node_path(node.name, "disk.qcow2")
            if not os.path.exists(disk):
                _run(
                    ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", image.disk, disk],
                    f"making the disk of {node.name}",
                )
        _write(os.path.join(self.directory, "known_hosts"), known_hosts(keys))
        if engine == "container":
            bridge = bridge_name(self.directory)
            places = {node.name: (f"{link_local(node.index)}%{bridge}", 22) for node in spec.nodes}
            _write(os.path.join(self.directory, "ssh_config"), ssh_config(spec.nodes, places, self.directory))

    def _lay_out(self, node: NodePlan, archive: bytes) -> None:
        """The directories of a container, and what is its own in them."""
        for name in CONTAINER_DIRECTORIES:
            os.makedirs(self.node_path(node.name, name), mode=0o755, exist_ok=True)
        upper = self.node_path(node.name, "upper")
        unpack_configuration(archive, upper)
        for path, mode, text in (
            ("usr/local/sbin/fabric-rdma-lab-setup", 0o755, SETUP),
            # The modules of the running kernel are the controller's: none of them can be loaded from here.
            (f"usr/lib/modules/{os.uname().release}/modules.builtin", 0o644, ""),
            (f"usr/lib/modules/{os.uname().release}/modules.order", 0o644, ""),
        ):
            target = os.path.join(upper, path)
            make_directories(upper, os.path.dirname(path))
            # what somebody has written there since is kept
            if text or not os.path.exists(target):
                _write(target, text, mode)

    def _save(self, state: t.Mapping[str, t.Any]) -> None:
        _write(os.path.join(self.directory, STATE_FILE), json.dumps(state, indent=1, sort_keys=True) + "\n")

    def _start_with_accelerator(self, spec: LabSpec, image: Image, notes: list[str]) -> None:
        """Starts and waits with KVM where it works, else with emulation."""
        accels = [spec.accel] if spec.accel != "auto" else ["tcg"]
        if spec.accel == "auto":
            reason = kvm_trouble(image)
            if reason is None:
                accels = ["kvm", "tcg"]
            else:
                notes.append(f"plain emulation: {reason}")
                self.progress(f"lab: KVM is of no use here ({reason}); using plain emulation")
        for accel in accels:
            last = accel == accels[-1]
            try:
                with self._guard(spec):
                    self._start(spec, image, accel)
                    self._wait(spec, accel, spec.boot_timeout if last else min(90, spec.boot_timeout))
                return
            except LabError as exc:
                self._stop_all()
                if last:
                    raise LabError(f"{exc}\nAll nodes have been stopped.") from exc
                notes.append("plain emulation: nodes did not come up with KVM")
                self.progress(
                    f"lab: nodes did not come up with KVM, trying plain emulation: {str(exc).splitlines()[0]}"
                )
            except BaseException:
                self._stop_all()
                raise

    @contextlib.contextmanager
    def _guard(self, spec: LabSpec) -> t.Iterator[None]:
        """Ends the nodes when this process is killed before the body is through: then nobody knows that they are there."""
        files = ("qemu.pid", "container.pid")
        pidfiles = [self.node_path(node.name, file) for node in spec.nodes for file in files]
        with subprocess.Popen(
            [sys.executable, "-I", "-c", _GUARD, *pidfiles],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                yield
            finally:
                # Whatever has happened, this process has lived to deal with it.
                process.communicate(b"alive")

    def _start(self, spec: LabSpec, image: Image, accel: str) -> None:
        state = self.state()
        state["accel"] = accel
        ports: dict[str, int] = {}
        with contextlib.ExitStack() as stack:
            ends: list[list[int]] = [[] for _node in spec.nodes]
            for one, other in fabric_links(len(spec.nodes)):
                # One datagram is one frame. A stream has been seen to lose its place between two frames after some 80 MB of
                # RoCE traffic, and then nothing arrives any more.
                pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
                for index, end in zip((one, other), pair, strict=True):
                    stack.callback(end.close)
                    ends[index].append(end.fileno())
            for node in spec.nodes:
                ports[node.name] = self._start_node(spec, node, image, accel, ends[node.index])
        for entry in state["nodes"]:
            entry["port"] = ports[entry["name"]]
        self._save(state)
        places = {name: ("127.0.0.1", port) for name, port in ports.items()}
        _write(os.path.join(self.directory, "ssh_config"), ssh_config(spec.nodes, places, self.directory))
        self.progress(
            "lab: started %s with %s"
            % (", ".join(n.name for n in spec.nodes), "KVM" if accel == "kvm" else "plain emulation (TCG)")
        )

    def _start_node(self, spec: LabSpec, node: NodePlan, image: Image, accel: str, descriptors: t.Sequence[int]) -> int:
        directory = os.path.join(self.directory, node.name)
        for attempt in range(5):
            port = _free_port()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, "console.log"))
            command = qemu_command(node, len(spec.nodes), image, directory, accel, port, descriptors)
            try:
                _run(command, f"starting {node.name}", pass_fds=descriptors)
                return port
            except LabError as exc:
                if "host forwarding" not in str(exc) or attempt == 4:
                    raise
        raise AssertionError("unreachable")

    def _wait(self, spec: LabSpec, accel: str, timeout: float) -> None:
        """Waits until every node answers over SSH and has its RDMA device. All are asked at the same time."""
        waiting = {node.name: _Probe(self, node.name) for node in spec.nodes}
        with contextlib.ExitStack() as stack:
            for probe in waiting.values():
                stack.callback(probe.close)
            self._wait_for(waiting, accel, timeout)

    def _wait_for(self, waiting: dict[str, _Probe], accel: str, timeout: float) -> None:
        started = time.monotonic()
        told = started
        while waiting:
            time.sleep(0.3)
            self._alive()
            now = time.monotonic()
            for name, probe in list(waiting.items()):
                if probe.ready():
                    del waiting[name]
                    if now - started > 2:
                        self.progress(f"{name}: ready after {now - started:.0f} s")
                elif self.pid(name) is None:
                    raise LabError(self._epitaph(name, "its process ended", accel))
                elif "Kernel panic" in _read(self.node_path(name, "console.log")):
                    raise LabError(self._epitaph(name, "its kernel panicked", accel))
                elif now - started > timeout:
                    raise LabError(
                        self._epitaph(
                            name,
                            f"no answer over SSH within {timeout:.0f} s (boot_timeout; last: {probe.last})",
                            accel,
                        )
                    )
            if waiting and now - told >= 8:
                told = now
                for name in waiting:
                    last = console_tail(_read(self.node_path(name, "console.log")), 1) or "(nothing on the console yet)"
                    self.progress(f"{name}: booting ({now - started:.0f} s): {last[:70]}")

    def _epitaph(self, name: str, what: str, accel: str) -> str:
        console = self.node_path(name, "console.log")
        tail = console_tail(_read(console)) or "(nothing)"
        return f"{name} did not come up with {accel}: {what}. Last lines of its console ({console}):\n{tail}"

    # -- absent

    def absent(self, check: bool = False) -> LabResult:
        """Stops the nodes and removes what `present` has made in the directory."""
        before = [_line(node) for node in self.nodes()]
        state = self.state()
        if not state:
            return self._result(False)
        if check:
            return self._result(True, before=before, after=[])
        with self._lock():
            self._stop_all()
            self._remove_files()
            # The lock last: who waits for it sees that it has gone, and takes a new one.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.directory, LOCK_FILE))
            with contextlib.suppress(OSError):
                # Not empty: there are files that are not ours.
                os.rmdir(self.directory)
        return self._result(True, before=before)

    def _stop_all(self) -> None:
        """Ends the nodes' processes, after a look at each that it is ours."""
        state = self.state()
        names = [node["name"] for node in state.get("nodes", [])]
        if state.get("engine") == "container":
            self._end_containers(names)
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            pids = {name: pid for name in names for pid in [self.pid(name)] if pid is not None}
            for pid in pids.values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            deadline = time.monotonic() + 10
            while any(self.pid(name) is not None for name in pids) and time.monotonic() < deadline:
                time.sleep(0.05)
        left = [name for name in names if self.pid(name) is not None]
        if left:
            raise LabError(f"cannot end the QEMU processes of {', '.join(left)}: end them by hand")
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.node_path(name, "qemu.pid"))

    def _end_containers(self, names: t.Sequence[str]) -> None:
        left = []
        for index, name in enumerate(names):
            if not end_container(self.pid(name), machine_name(self.directory, index)):
                left.append(name)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.node_path(name, "container.pid"))
        remove_bridge(bridge_name(self.directory))
        if left:
            raise LabError(f"cannot end the processes of {', '.join(left)}: end them by hand")

    def _remove_files(self) -> None:
        for node in self.state().get("nodes", []):
            for directory in CONTAINER_DIRECTORIES:
                self._remove_tree(self.node_path(node["name"], directory))
            for file in NODE_FILES:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.node_path(node["name"], file))
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(self.directory, node["name"]))
        # The state last: while it is there, a second attempt knows what is left.
        for file in TOP_FILES:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.directory, file))

    def _remove_tree(self, path: str) -> None:
        """Removes what a container had as its root. Whatever is mounted there is not ours to remove."""
        if not os.path.isdir(path) or os.path.islink(path):
            return
        mounts = [line.split(" ")[1] for line in _read("/proc/self/mounts").splitlines() if " " in line]
        if any(mount == path or mount.startswith(path + "/") for mount in mounts):
            raise LabError(f"{path} is mounted: unmount it before the lab is removed")
        shutil.rmtree(path)


# A process of its own that reads until the other end of its standard input is closed. SIGKILL closes it without the word that all is
# well. It stands alone, without an import from the collection, whose place only Ansible's import machinery knows.
_GUARD = """
import os, signal, sys, time
if sys.stdin.buffer.read() != b"alive":
    for attempt in range(20):  # a node that is just starting has no pid file yet
        for pidfile in sys.argv[1:]:
            try:
                with open(pidfile) as stream:
                    pid = int(stream.read())
                with open("/proc/%d/cmdline" % pid) as stream:
                    if pidfile in stream.read().split("\\0"):
                        os.kill(pid, signal.SIGKILL)
            except (OSError, ValueError):
                pass
        time.sleep(0.2)
"""


class _Probe:
    """Asks one node over SSH, in the background, whether it is set up: with its RDMA device, or as a container."""

    def __init__(self, lab: Lab, name: str) -> None:
        self._console = lab.node_path(name, "console.log")
        self._command = [
            "ssh",
            "-F",
            os.path.join(lab.directory, "ssh_config"),
            "-o",
            "BatchMode=yes",
            "-o",
            "ConnectTimeout=20",
        ]
        self._command += [name, "cat", READY_FILE]
        self._process: subprocess.Popen[bytes] | None = None
        self._announced = False
        self.last = "the node is not set up yet"

    def ready(self) -> bool:
        """Never blocks."""
        if not self._announced:
            # Every connection costs an emulated node a second of its processor: none before there is something to connect to.
            self._announced = READY_TEXT in _read(self._console)
        elif self._process is None:
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        elif self._process.poll() is not None:
            output, _unused = self._process.communicate()
            code, self._process = self._process.returncode, None
            self.last = _text(output)
            return code == 0 and any(word.encode() in output for word in ("rxe0", READY_WORD))
        return False

    def close(self) -> None:
        """Ends a question that nobody waits for any more."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def kvm_trouble(image: Image, seconds: float = 10) -> str | None:
    """Why KVM cannot run a node, None when it can.

    That /dev/kvm opens proves little inside virtual machines; what counts is a kernel that gets as far as its first process.
    """
    if not os.path.exists("/dev/kvm"):
        return "there is no /dev/kvm"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "/dev/kvm may not be opened by this user"
    command = [
        find_tool("qemu-system-x86_64") or "qemu-system-x86_64",
        *(
            "-machine",
            MACHINE,
            "-accel",
            "kvm",
            "-cpu",
            "host",
            "-m",
            "512",
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
        ),
        *("-vga", "none", "-display", "none", "-monitor", "none", "-serial", "stdio"),
        *("-kernel", image.kernel, "-initrd", image.initrd, "-append", "console=ttyS0 panic=-1 root=/dev/none"),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        if process.stdout is None:
            raise LabError("the output of QEMU cannot be read")
        os.set_blocking(process.stdout.fileno(), False)
        output = b""
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline:
                ended = process.poll() is not None
                output += process.stdout.read() or b""
                if b"Run /init as init process" in output:
                    return None
                if ended:
                    return f"QEMU with KVM ended at once: {console_tail(output.decode('utf-8', 'replace'), 1)[-80:]}"
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                process.kill()
    if not output.strip():
        return f"a guest with KVM shows nothing within {seconds:.0f} s"
    return (
        f"a guest with KVM got stuck within {seconds:.0f} s, at: {console_tail(output.decode('utf-8', 'replace'), 1)}"
    )


def _keypair(path: str, comment: str) -> None:
    if not os.path.exists(path):
        _run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path], "making an SSH key")


def _line(node: NodeStatus) -> str:
    """A node in a line, for the diff: without what differs from start to start."""
    return "%s %s %s" % (node.name, "running" if node.running else "stopped", node.address)
