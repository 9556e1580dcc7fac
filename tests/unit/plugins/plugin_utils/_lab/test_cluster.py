# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab as a cluster: its disk, what is told of its nodes. (That they join is molecule's to prove.)"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    DEVICE_PLUGIN,
    DIGESTS,
    DRANET,
    MULTUS,
    WHEREABOUTS,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import cluster
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.cluster import (
    Kubernetes,
    build_kubernetes,
    cached_kubernetes,
    forwarding,
    note_heartbeats,
    tell_ports,
    wait_until_joined,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.golang import DRANET_PROGRAM, NETWORKS, places
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.image import Image
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError, find_tool, port_is_free
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import CLUSTER_DIRECTORY, LabDirectory
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.waiting import Panicked
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import spec

READY = {"type": "Ready", "status": "True"}
NOT_READY = {"type": "Ready", "status": "False", "message": "container runtime network not ready"}


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    """An image, and programs that a user has."""
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in (*cluster._PROGRAMS, "k8s-rdma-shared-dp"):
        (assets / name).write_text(f"#!/bin/sh\necho {name}\n")
        (assets / name).chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    monkeypatch.setenv("FABRIC_RDMA_DEVICE_PLUGIN", str(assets / "k8s-rdma-shared-dp"))
    image = Image("0", str(tmp_path / "image"))
    (tmp_path / "image").mkdir()
    subprocess.run(["tar", "-cf", image.pod, "-C", str(assets), "kubelet"], check=True)
    return image


def made_of(cache: Path, image: Image, *systems: str) -> Kubernetes:
    programs, plugin = places(str(cache))
    return cluster._made_of(str(cache), programs, cluster._contents(str(cache), plugin, systems), image)


def read_disk(disk: str, *names: str) -> dict[str, str]:
    """Files of a disk, read by the file system's own tool."""
    program = find_tool("debugfs")
    assert program, "bindep.txt has it: e2fsprogs"
    found = {}
    for name in names:
        command = [program, "-R", f"cat /{name}", disk]
        done = subprocess.run(command, check=True, capture_output=True, timeout=limit(60))
        found[name] = done.stdout.decode("utf-8", "replace")
    return found


def test_the_disk_of_the_nodes_is_built_once_and_whole(tmp_path: Path, given: Image) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    assert cached_kubernetes(str(cache), given) is None
    # what a build that was killed has left
    name = os.path.basename(made_of(cache, given).disk)
    (cache / f"building-{name}-x" / "root").mkdir(parents=True)
    built = build_kubernetes(str(cache), given, lambda _text: None, lambda: None)
    assert cached_kubernetes(str(cache), given) == built
    found = read_disk(built.disk, "kubelet", "names", "aliases", "images.tar")
    assert found["kubelet"] == "#!/bin/sh\necho kubelet\n"
    assert found["names"].splitlines() == [cluster.POD_IMAGE, DEVICE_PLUGIN]
    # as the DaemonSet asks for it
    repository = DEVICE_PLUGIN.rpartition(":")[0]
    assert found["aliases"] == f"{DEVICE_PLUGIN} {repository}@{DIGESTS[DEVICE_PLUGIN]}\n"
    assert DEVICE_PLUGIN in found["images.tar"]
    assert Path(built.disk).stat().st_mode & 0o777 == 0o444
    # nothing but the disk and its lock is left
    assert sorted(path.suffix for path in cache.iterdir()) == [".ext4", ".lock"]
    assert build_kubernetes(str(cache), given, lambda _text: None, lambda: None) == built


def test_content_counts_and_nothing_else(tmp_path: Path, given: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the disk: what is on it. For nodes and control plane, which are recreated when it changes: every program."""
    cache, assets = tmp_path / "cache", tmp_path / "assets"
    cache.mkdir()

    def made() -> tuple[str, str]:
        found = made_of(cache, given)
        return found.disk, found.key

    first = made()
    # the same programs, newer and elsewhere
    shutil.copytree(assets, tmp_path / "elsewhere")
    os.utime(assets / "kubelet", (1, 1))
    assert made() == first
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("FABRIC_RDMA_DEVICE_PLUGIN", str(tmp_path / "elsewhere" / "k8s-rdma-shared-dp"))
    assert made() == first
    last, keys = first[0], {first[1]}
    # of the same size and time as before
    for name in (*cluster._PROGRAMS, "k8s-rdma-shared-dp"):
        program = tmp_path / "elsewhere" / name
        before = program.stat()
        program.write_text(program.read_text().replace("echo", "ECHO"))
        os.utime(program, ns=(before.st_atime_ns, before.st_mtime_ns))
        disk, key = made()
        assert (disk == last) is (name not in ("kubelet", "k8s-rdma-shared-dp"))
        assert key not in keys
        last, keys = disk, {*keys, key}
    assert build_kubernetes(str(cache), given, lambda _text: None, lambda: None).key == made()[1]
    (tmp_path / "elsewhere" / "kubelet").unlink()
    assert cached_kubernetes(str(cache), given) is None
    # what check mode says is what the run says
    plugin = tmp_path / "elsewhere" / "k8s-rdma-shared-dp"
    plugin.unlink()
    for make in (plugin.mkdir, plugin.rmdir):
        with pytest.raises(LabError, match=r"FABRIC_RDMA_DEVICE_PLUGIN=\S+ is not a program; name one"):
            cached_kubernetes(str(cache), given)
        make()


def test_a_system_brings_its_images(tmp_path: Path, given: Image) -> None:
    """With what nodes are given of it, the disk is another one, and changes with each file."""
    cache = tmp_path / "cache"
    place = Path(NETWORKS.place(str(cache)))
    place.mkdir(parents=True)
    assert cached_kubernetes(str(cache), given, cluster.SYSTEMS) is None
    for name in (*NETWORKS.packages, *NETWORKS.files):
        (place / name).write_text(name)
    driver = Path(DRANET_PROGRAM.place(str(cache)))
    driver.mkdir()
    (driver / DRANET_PROGRAM.name).write_text("driver")
    built = build_kubernetes(str(cache), given, lambda _text: None, lambda: None, cluster.SYSTEMS)
    assert cached_kubernetes(str(cache), given, cluster.SYSTEMS) == built
    assert made_of(cache, given).key != built.key
    found = read_disk(built.disk, "names", "images.tar")
    assert found["names"].splitlines() == [cluster.POD_IMAGE, DEVICE_PLUGIN, DRANET, MULTUS, WHEREABOUTS]
    inside: dict[str, list[str]] = {}
    with tarfile.open(fileobj=io.BytesIO(found["images.tar"].encode())) as archive:
        manifest = json.load(t.cast(t.IO[bytes], archive.extractfile("manifest.json")))
        for each in manifest:
            with tarfile.open(fileobj=archive.extractfile(each["Layers"][-1])) as layer:
                inside[each["RepoTags"][0]] = layer.getnames()
    # where the DaemonSets look for them
    assert inside[DRANET] == ["dranet"]
    assert inside[MULTUS] == ["thin_entrypoint", "usr/src/multus-cni/bin/multus"]
    scripts = {"install-cni.sh", "lib.sh", "token-watcher.sh"}
    assert set(inside[WHEREABOUTS]) == {"whereabouts", "ip-control-loop", "ip-reconciler", *scripts}
    (place / "lib.sh").write_text("another")
    assert made_of(cache, given, *cluster.SYSTEMS).disk != built.disk


class Plane:
    """Stands in for a control plane: whether it runs, and on which ports it was started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = False
        self.started: list[tuple[int, ...]] = []
        self.then: t.Callable[[], None] = lambda: None
        monkeypatch.setattr(cluster, "control_plane_runs", lambda _place: self.runs)
        monkeypatch.setattr(cluster, "start_control_plane", self.start)
        monkeypatch.setattr(cluster, "_make_nodes", lambda *_all: None)

    def start(self, place: str, _programs: object, ports: tuple[int, ...], *_all: object, **_more: object) -> None:
        self.started.append(tuple(ports))
        self.runs = True
        os.makedirs(place, exist_ok=True)
        Path(place, "settings.json").write_text(json.dumps({"ports": ports}))
        self.then()


def a_cluster(
    directory: Path, nodes_run: bool = False, progress: t.Callable[[str], None] = lambda _text: None
) -> tuple[int, int, int]:
    wish, built = spec(directory, kubernetes=True), Kubernetes({}, "")
    place = LabDirectory(str(directory))
    return cluster.start(place, wish, built, progress, lambda: None, nodes_run)


def test_ports_are_known_when_who_has_started_it_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, or a moment later, when the state was lost: nodes are told where it listens, and no other ports."""
    plane = Plane(monkeypatch)
    directory = LabDirectory(str(tmp_path))
    directory.save({"format": 1})

    def kill() -> t.NoReturn:
        raise SystemExit

    plane.then = kill
    with pytest.raises(SystemExit):
        a_cluster(tmp_path)
    assert tuple(directory.state()["kubernetes"]["ports"]) == plane.started[0]
    for state in (directory.state(), {"format": 1}):
        directory.save(state)
        assert a_cluster(tmp_path) == plane.started[0]
        assert tuple(directory.state()["kubernetes"]["ports"]) == plane.started[0]
    assert len(plane.started) == 1


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_port_that_somebody_has_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    """Another one is taken, but for that by which nodes that run look for the API server. The others stay."""
    plane = Plane(monkeypatch)
    LabDirectory(str(tmp_path)).save({"format": 1})
    first = a_cluster(tmp_path)
    plane.runs = False
    assert a_cluster(tmp_path, nodes_run=True) == first
    with socket.create_server(("127.0.0.1", first[taken])):
        plane.runs = False
        if taken == 2:
            with pytest.raises(
                LabError, match=rf"listens on port {first[2]} of 127.0.0.1.* End it, or recreate the lab"
            ):
                a_cluster(tmp_path, nodes_run=True)
        second = a_cluster(tmp_path, nodes_run=taken != 2)
        assert [index for index in range(3) if first[index] != second[index]] == [taken]
        assert port_is_free(second[taken])
        assert plane.started[-1] == second


def test_a_port_that_is_taken_after_it_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server listens seconds after the choice. Other ports are tried, twice, but not for what else goes wrong."""
    plane, told = Plane(monkeypatch), list[str]()
    LabDirectory(str(tmp_path)).save({"format": 1})
    with contextlib.ExitStack() as stack:

        def take() -> t.NoReturn:
            plane.runs = False
            stack.enter_context(socket.create_server(("127.0.0.1", plane.started[-1][2])))
            raise LabError("no control plane:\nfailed to listen: bind: address already in use")

        plane.then = take
        with pytest.raises(LabError, match="address already in use"):
            a_cluster(tmp_path, progress=told.append)
        assert len(set(plane.started)) == 3
        assert told == ["control plane: another program has taken one of its ports"] * 2

        def take_once() -> None:
            plane.then = lambda: None
            take()

        plane.then = take_once
        ports = a_cluster(tmp_path)
        assert (len(plane.started), plane.started[-1]) == (5, ports)
        # what etcd listens on is free again
        assert ports[:2] == plane.started[0][:2]
        assert LabDirectory(str(tmp_path)).state()["kubernetes"]["ports"] == list(ports)

    def fail() -> t.NoReturn:
        plane.runs = False
        raise LabError("no control plane:\nno space left on device")

    plane.runs, plane.then = False, fail
    with pytest.raises(LabError, match="no space left"):
        a_cluster(tmp_path)
    assert len(plane.started) == 6


def test_a_node_reaches_the_api_server_over_its_relay() -> None:
    """As a part of an option of QEMU, where a comma has to be doubled."""
    text = forwarding(40001)
    assert text.startswith(",guestfwd=tcp:10.0.2.129:443-cmd:")
    assert text.endswith("relay.py 40001")


def test_kubelets_that_join_are_told_to_the_control_plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LabDirectory(str(tmp_path))
    (tmp_path / CLUSTER_DIRECTORY).mkdir()
    directory.save({"format": 1, "accel": "tcg", "kubernetes": {"ports": [1, 2, 3]}})
    monkeypatch.setattr(directory, "pid", lambda _name: 1)
    tell_ports(directory, {"198.51.100.1": 40001})
    assert json.loads((tmp_path / CLUSTER_DIRECTORY / "kubelets.json").read_text()) == {"198.51.100.1:10250": 40001}
    stale, fresh = ({**READY, "lastHeartbeatTime": f"2026-01-01T00:00:0{second}Z"} for second in (1, 2))
    answers: list[list[dict[str, t.Any]]] = [[stale]]

    def ask(_self: object, _path: str) -> tuple[int, str]:
        conditions = answers.pop(0) if len(answers) > 1 else answers[0]
        return 200, json.dumps({"items": [{"metadata": {"name": "lab1"}, "status": {"conditions": conditions}}]})

    monkeypatch.setattr(cluster.ControlPlane, "ask", ask)
    monkeypatch.setattr(cluster, "control_plane_runs", lambda _place: True)
    monkeypatch.setattr(cluster.time, "sleep", lambda _seconds: None)
    told: list[str] = []
    built = Kubernetes({}, "")
    # what the API server knows from before the nodes were started again does not count
    note_heartbeats(directory, built)
    answers[:] = [[stale], [], [NOT_READY], [fresh]]
    wait_until_joined(directory, ["lab1"], built, 60, told.append, lambda: None)
    assert answers == [[fresh]]
    assert told == ["lab1: ready as a node of the cluster after 0 s"]
    answers[:] = [[stale]]
    with pytest.raises(LabError, match=r"lab1: its kubelet has not reported since it was started\."):
        wait_until_joined(directory, ["lab1"], built, 0, told.append, lambda: None)
    answers[:] = [[NOT_READY]]
    with pytest.raises(LabError, match=r"within 0 s: lab1: container runtime network not ready\. Look at journalctl"):
        wait_until_joined(directory, ["lab1"], built, 0, told.append, lambda: None)
    monkeypatch.setattr(cluster, "control_plane_runs", lambda _place: False)
    with pytest.raises(LabError, match=r"the control plane has ended\. See the logs in"):
        wait_until_joined(directory, ["lab1"], built, 60, told.append, lambda: None)


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize(
    ("pid", "said", "error", "message"),
    [
        (1, "[  120.3] Kernel panic - not syncing: softlockup: hung tasks", Panicked, "its kernel panicked"),
        (None, "lab2 login: ", LabError, "its process ended"),
    ],
    ids=["panics", "ends"],
)
def test_nodes_that_join_are_not_waited_for_when_one_has_panicked_or_ended(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    joined: bool,
    pid: int | None,
    said: str,
    error: type[LabError],
    message: str,
) -> None:
    """Not even one that the API server shows as ready, which it does for a while. The end of the console is told."""
    directory = LabDirectory(str(tmp_path))
    directory.save({"format": 1, "accel": "tcg", "kubernetes": {"ports": [1, 2, 3]}})
    console = tmp_path / "lab2" / "console.log"
    console.parent.mkdir()
    console.write_text("lab2 login: ")
    pids: dict[str, int | None] = {"lab1": 1, "lab2": 1}
    monkeypatch.setattr(directory, "pid", pids.get)
    monkeypatch.setattr(cluster, "control_plane_runs", lambda _place: True)
    asked: list[int] = []

    def ask(_self: object, _path: str) -> tuple[int, str]:
        asked.append(1)
        conditions = {"lab1": [NOT_READY], "lab2": [{**READY, "lastHeartbeatTime": "now"}] if joined else [NOT_READY]}
        items = [{"metadata": {"name": name}, "status": {"conditions": found}} for name, found in conditions.items()]
        return 200, json.dumps({"items": items})

    def die(_seconds: float) -> None:
        console.write_text(f"{said}\n")
        pids["lab2"] = pid

    monkeypatch.setattr(cluster.ControlPlane, "ask", ask)
    monkeypatch.setattr(cluster.time, "sleep", die)
    with pytest.raises(LabError) as raised:
        wait_until_joined(directory, ["lab1", "lab2"], Kubernetes({}, ""), limit(60), lambda _text: None, lambda: None)
    assert raised.type is error
    assert len(asked) == 1
    assert str(raised.value).splitlines() == [
        f"lab2 did not come up with tcg: {message} while nodes joined the cluster. Last lines of its console ({console}):",
        said.strip(),
        "The next run starts all nodes again, with the disks that they had.",
    ]
