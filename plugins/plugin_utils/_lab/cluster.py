# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab as a Kubernetes cluster: a control plane on the controller, a kubelet on each node. Private to the collection.

What nodes run comes on a disk that they share, read-only: one program and the images of containers. It is made once and kept in the cache.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
import typing as t
from dataclasses import dataclass

from ansible_collections.fabric.rdma.plugins.module_utils._base.fingerprint import fingerprint
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    DEVICE_PLUGIN,
    DIGESTS,
    DRANET,
    MULTUS,
    WHEREABOUTS,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.archives import (
    ContainerImage,
    digest_of_file,
    layer_of,
    write_images,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.control_plane import (
    CLIENT_CERTIFICATE,
    ControlPlane,
    Ports,
    control_plane_runs,
    ports_of,
    start_control_plane,
    stop_control_plane,
    tokens_of,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.egress import PORTS_FILE
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.golang import (
    DRANET_PROGRAM,
    NETWORKS,
    build_go_program,
    device_plugin_program,
    kubernetes_programs,
    places,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.image import Image
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.kubelet import (
    API_ADDRESS,
    API_PORT,
    IMPORT_SCRIPT,
    KUBELET_PORT,
    kubelet_files,
    kubelet_user,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import (
    Alive,
    LabError,
    Progress,
    free_ports,
    locked,
    port_is_free,
    read,
    room,
    run,
    sweep,
    write,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import NodePlan
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import CLUSTER_DIRECTORY, LabDirectory, LabSpec
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.waiting import insist_that_nodes_live

__all__ = [
    "POD_IMAGE",
    "SYSTEMS",
    "Kubernetes",
    "build_kubernetes",
    "cached_kubernetes",
    "forwarding",
    "join_files",
    "kubeconfig_of",
    "note_heartbeats",
    "runs",
    "start",
    "stop",
    "tell_ports",
    "wait_until_joined",
]

# What tests run: a shell and perftest. It is the runtime's pause image, too.
POD_IMAGE = "localhost/fabric-rdma-lab:1"
# What nodes can have the images of beside those, by the roles that ask for them.
SYSTEMS = ("dra", "secondary_network")
# How often a control plane is started, when others take its ports.
_STARTS = 3
_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")


@dataclass(frozen=True)
class Kubernetes:
    """What a cluster is made of, built. key: changes with the content of any of it."""

    programs: t.Mapping[str, str]
    disk: str
    key: str = ""


class _Content(t.NamedTuple):
    """An image of the disk: its name, what it has beside the files of every container (path -> file), and what runs in it."""

    name: str
    files: t.Mapping[str, str]
    command: tuple[str, ...]


def build_kubernetes(
    cache_dir: str, image: Image, progress: Progress, alive: Alive, systems: t.Collection[str] = ()
) -> Kubernetes:
    """Everything that a cluster runs, built where it is not in the cache. Takes 5 to 15 minutes on two cores then.

    systems: of SYSTEMS.
    """
    programs = kubernetes_programs(cache_dir, progress, alive, _PROGRAMS)
    plugin = device_plugin_program(cache_dir, progress, alive)
    for system, program in (("dra", DRANET_PROGRAM), ("secondary_network", NETWORKS)):
        if system in systems:
            build_go_program(program, cache_dir, progress, alive)
    contents = _contents(cache_dir, plugin, systems)
    built = _made_of(cache_dir, programs, contents, image)
    disk, kubelet = built.disk, programs["kubelet"]
    if not os.path.exists(disk):
        # in the end, and as the root file system from which it is made, with a layer for each image
        files = [file for content in contents for file in content.files.values()]
        mib = 1 + (2 * sum(map(os.path.getsize, (kubelet, image.pod, image.pod, *files, *files))) >> 20)
        with room("the disk of the nodes", cache_dir, f"{mib} MiB"), locked(disk + ".lock", progress, alive, "disk"):
            if not os.path.exists(disk):
                sweep(disk)
                _make_disk(disk, kubelet, contents, image)
    return built


def cached_kubernetes(cache_dir: str, image: Image, systems: t.Collection[str] = ()) -> Kubernetes | None:
    """The same when all of it is built already."""
    there, plugin = places(cache_dir)
    programs = {name: there[name] for name in _PROGRAMS}
    contents = _contents(cache_dir, plugin, systems)
    files = [file for content in contents for file in content.files.values()]
    if not all(map(os.path.exists, (*programs.values(), *files))):
        return None
    built = _made_of(cache_dir, programs, contents, image)
    return built if os.path.exists(built.disk) else None


def _contents(cache_dir: str, plugin: str, systems: t.Collection[str]) -> list[_Content]:
    """The images of the disk. Programs are where their publishers' images have them."""
    found = [
        _Content(POD_IMAGE, {}, ("sleep", "1000000000")),
        _Content(DEVICE_PLUGIN, {"bin/k8s-rdma-shared-dp": plugin}, ("/bin/k8s-rdma-shared-dp",)),
    ]
    if "dra" in systems:
        driver = os.path.join(DRANET_PROGRAM.place(cache_dir), DRANET_PROGRAM.name)
        found.append(_Content(DRANET, {"dranet": driver}, ("/dranet",)))
    if "secondary_network" in systems:
        place = NETWORKS.place(cache_dir)
        own = {name: os.path.join(place, name) for name in (*NETWORKS.packages, *NETWORKS.files)}
        multus, entrypoint = own.pop("multus"), own.pop("thin_entrypoint")
        files = {"thin_entrypoint": entrypoint, "usr/src/multus-cni/bin/multus": multus}
        found += [
            _Content(MULTUS, files, ("/thin_entrypoint",)),
            # all that is left is Whereabouts'
            _Content(WHEREABOUTS, own, ("/install-cni.sh",)),
        ]
    return found


def _made_of(cache_dir: str, programs: t.Mapping[str, str], contents: t.Sequence[_Content], image: Image) -> Kubernetes:
    """What it is, or will be, when it is made of these programs. Names and times of files do not count: their content does."""
    digests: dict[str, str] = {}

    def digest(path: str) -> str:
        # one program may have all the names
        path = os.path.realpath(path)
        if path not in digests:
            digests[path] = digest_of_file(path)
        return digests[path]

    images = [
        (content.name, content.command, {path: digest(file) for path, file in content.files.items()})
        for content in contents
    ]
    disk = fingerprint([IMPORT_SCRIPT, DIGESTS, images, digest(programs["kubelet"]), digest(image.pod)], 16)
    key = fingerprint([disk, *(digest(programs[name]) for name in _PROGRAMS)], 16)
    return Kubernetes(programs, os.path.join(cache_dir, f"kubernetes-disk-{disk}.ext4"), key)


def runs(directory: LabDirectory) -> bool:
    """Whether the control plane does."""
    return control_plane_runs(_place(directory))


def _make_disk(disk: str, kubelet: str, contents: t.Sequence[_Content], image: Image) -> None:
    """Writes the disk of the nodes, and renames it into place when it is complete."""
    place, name = os.path.split(disk)
    with tempfile.TemporaryDirectory(prefix=f"building-{name}-", dir=place) as building:
        root = os.path.join(building, "root")
        os.mkdir(root, 0o755)
        shutil.copy(kubelet, os.path.join(root, "kubelet"))
        os.chmod(os.path.join(root, "kubelet"), 0o755)
        images = []
        for number, content in enumerate(contents):
            layers = [image.pod]
            if content.files:
                layers.append(os.path.join(building, f"{number}.tar"))
                write(layers[-1], layer_of(content.files))
            images.append(ContainerImage((content.name,), tuple(layers), content.command))
        write_images(os.path.join(root, "images.tar"), images)
        write(os.path.join(root, "import"), IMPORT_SCRIPT, 0o755)
        write(os.path.join(root, "names"), "".join(name + "\n" for each in images for name in each.names))
        aliases = {name: f"{name.rpartition(':')[0]}@{digest}" for name, digest in DIGESTS.items()}
        write(os.path.join(root, "aliases"), "".join(f"{name} {alias}\n" for name, alias in aliases.items()))
        size = sum(os.path.getsize(os.path.join(root, name)) for name in os.listdir(root))
        unfinished = os.path.join(building, "disk.ext4")
        command = [
            "mke2fs",
            *["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-L", "lab-kubernetes", "-d"],
            root,
        ]
        run([*command, unfinished, f"{(size >> 20) * 11 // 10 + 16}M"], "making the disk of the nodes", timeout=600)
        os.chmod(unfinished, 0o444)
        os.rename(unfinished, disk)


# --- the control plane -----------------------------------------------------------------------------------------------------


def _place(directory: LabDirectory) -> str:
    return directory.file(CLUSTER_DIRECTORY)


def kubeconfig_of(directory: LabDirectory) -> str:
    """The administrator's kubeconfig."""
    return os.path.join(_place(directory), "kubeconfig")


def start(
    directory: LabDirectory,
    spec: LabSpec,
    built: Kubernetes,
    progress: Progress,
    alive: Alive,
    nodes_run: bool = False,
) -> Ports:
    """Makes the control plane run, with what an earlier one has left. Its ports, of which the last is the API server's.

    nodes_run: the port of the API server is what they know, and stays.
    """
    place = _place(directory)
    if control_plane_runs(place):
        ports = ports_of(place)
        _keep(directory, ports=ports)
    else:
        users = dict(kubelet_user(node) for node in spec.nodes)
        ports = _start_where_free(directory, built, progress, alive, users, nodes_run)
    _make_nodes(ControlPlane(place, built.programs, ports), [node.name for node in spec.nodes])
    return ports


def _start_where_free(
    directory: LabDirectory,
    built: Kubernetes,
    progress: Progress,
    alive: Alive,
    users: t.Mapping[str, str],
    nodes_run: bool,
) -> Ports:
    """Starts the control plane; on other ports where somebody takes one before its server does, which is seconds later. Its ports."""
    for attempt in range(_STARTS):
        ports = _choose_ports(_kept(directory).get("ports") or (), nodes_run)
        # Before it runs: whoever finds it running after this process was killed has to know where.
        _keep(directory, ports=ports)
        try:
            start_control_plane(_place(directory), built.programs, ports, progress, alive, users=users)
            return ports
        except LabError as exc:
            # as etcd and the API server quote it
            if os.strerror(errno.EADDRINUSE).lower() not in exc.message.lower() or attempt == _STARTS - 1:
                raise
            progress("control plane: another program has taken one of its ports")
    raise AssertionError("unreachable")


def _kept(directory: LabDirectory) -> dict[str, t.Any]:
    """What the state has of the cluster."""
    return directory.state().get("kubernetes") or {}


def _keep(directory: LabDirectory, **more: object) -> None:
    directory.save({**directory.state(), "kubernetes": {**_kept(directory), **more}})


def _choose_ports(kept: t.Sequence[int], nodes_run: bool) -> Ports:
    """Those that it had, others where somebody else has taken one since."""
    taken = [port for port in kept if not port_is_free(port)]
    if nodes_run and kept and kept[-1] in taken:
        raise LabError(
            f"another program listens on port {kept[-1]} of 127.0.0.1, on which running nodes look for their API server",
            "End it, or recreate the lab: lab_state=absent, then lab_state=present",
        )
    fresh = [port for port in free_ports(6) if port not in kept]
    etcd, peer, server = (fresh.pop() if port is None or port in taken else port for port in (*kept, *[None] * 3)[:3])
    return etcd, peer, server


def _make_nodes(server: ControlPlane, names: t.Iterable[str]) -> None:
    """Makes the objects of nodes, which kubelets then make theirs.

    A kubelet that asks for its node a moment before it has registered it waits for up to two minutes until it asks again
    (pkg/volume/csi/nodeinfomanager, initBackoff), and on an emulated node that moment is long.
    """
    for name in names:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        code, text = server.ask("/api/v1/nodes", body)
        if code not in (201, 409):
            raise LabError(f"the API server does not make the node {name}: {code} {text[:500]}")


def stop(directory: LabDirectory, keep: bool = False) -> None:
    """Ends the control plane; keep: without removing what it has kept."""
    stop_control_plane(_place(directory), keep)


def join_files(directory: LabDirectory, node: NodePlan) -> dict[str, tuple[int, str]]:
    """The files of a node's kubelet. The control plane has to run, or to have run."""
    place = _place(directory)
    server = read(os.path.join(place, "certificates", "apiserver.crt"))
    client = read(os.path.join(place, CLIENT_CERTIFICATE))
    return kubelet_files(node, server, client, tokens_of(place)[kubelet_user(node)[0]])


def tell_ports(directory: LabDirectory, ports: t.Mapping[str, int]) -> None:
    """Tells the control plane which port of the controller leads to the kubelet of each node. ports: address of the node -> port."""
    text = json.dumps({f"{address}:{KUBELET_PORT}": port for address, port in ports.items()})
    write(os.path.join(_place(directory), PORTS_FILE), text + "\n", 0o600)


def forwarding(port: int) -> str:
    """What QEMU has to know to bring a node to the API server on a port of the controller: a part of its option -netdev user."""
    relay = os.path.join(os.path.dirname(os.path.realpath(__file__)), "relay.py")
    command = shlex.join([sys.executable, "-I", relay, str(port)])
    return f",guestfwd=tcp:{API_ADDRESS}:{API_PORT}-cmd:{command.replace(',', ',,')}"


def wait_until_joined(
    directory: LabDirectory,
    names: t.Collection[str],
    built: Kubernetes,
    timeout: float,
    progress: Progress,
    alive: Alive,
) -> None:
    """Waits until the API server says of every node that it is ready, for as long as all of them live."""
    server, accel = _server(directory, built), directory.state()["accel"]
    before = _kept(directory).get("heartbeats", {})
    started = told = time.monotonic()
    waiting = dict.fromkeys(sorted(names), "its kubelet has not reported yet")
    while waiting:
        alive()
        if not control_plane_runs(_place(directory)):
            raise LabError("the control plane has ended", f"See the logs in {_place(directory)}")
        # one that is a node of the cluster by now, too: the API server learns of its end much later
        insist_that_nodes_live(directory, names, accel, "nodes joined the cluster")
        now = time.monotonic()
        for name, (heartbeat, trouble) in (_conditions(server) or {}).items():
            if name in waiting and heartbeat and heartbeat == before.get(name):
                waiting[name] = "its kubelet has not reported since it was started"
            elif name in waiting and trouble is None:
                del waiting[name]
                progress(f"{name}: ready as a node of the cluster after {now - started:.0f} s")
            elif name in waiting:
                waiting[name] = str(trouble)
        if waiting and now - started > timeout:
            text = "; ".join(f"{name}: {trouble}" for name, trouble in waiting.items())
            raise LabError(
                f"nodes have not joined the cluster within {timeout:.0f} s: {text}",
                f"Look at journalctl --unit=kubelet on it (ssh -F {shlex.quote(str(directory.file('ssh_config')))} {next(iter(waiting))})",
            )
        if waiting and now - told >= 10:
            told = now
            for name, trouble in waiting.items():
                progress(f"{name}: joining ({now - started:.0f} s): {trouble[:100]}")
        time.sleep(1)


def note_heartbeats(directory: LabDirectory, built: Kubernetes) -> None:
    """Notes when kubelets have reported last, before they or their API server are started again.

    The API server shows what it was told last for as long as nobody tells it something else: a node that was ready is.
    """
    found = _conditions(_server(directory, built))
    if found is None:
        raise LabError("the API server does not list its nodes", f"See the logs in {_place(directory)}")
    _keep(directory, heartbeats={name: heartbeat for name, (heartbeat, _trouble) in found.items() if heartbeat})


def _server(directory: LabDirectory, built: Kubernetes) -> ControlPlane:
    etcd, peer, port = _kept(directory)["ports"]
    return ControlPlane(_place(directory), built.programs, (etcd, peer, port))


def _conditions(server: ControlPlane) -> dict[str, tuple[str, str | None]] | None:
    """Of each node that the API server knows: when its kubelet has reported, and why it is not ready, None when it is."""
    code, text = server.ask("/api/v1/nodes")
    if code != 200:
        return None
    found: dict[str, tuple[str, str | None]] = {}
    for node in json.loads(text)["items"]:
        (ready,) = [each for each in node["status"].get("conditions", []) if each["type"] == "Ready"] or [{}]
        why = ready.get("message") or "its kubelet has not reported yet"
        trouble = None if ready.get("status") == "True" else why
        found[node["metadata"]["name"]] = ready.get("lastHeartbeatTime") or "", trouble
    return found
