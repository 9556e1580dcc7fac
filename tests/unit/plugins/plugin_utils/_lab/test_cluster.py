# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab as a cluster: its disk, what is told of its nodes. (That they join is molecule's to prove.)"""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import DEVICE_PLUGIN, DIGESTS
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import cluster
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.cluster import (
    Kubernetes,
    build_kubernetes,
    cached_disk,
    forwarding,
    tell_ports,
    wait_until_joined,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.image import Image
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError, find_tool
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import CLUSTER_DIRECTORY, LabDirectory

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


def test_the_disk_of_the_nodes(tmp_path: Path, given: Image) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    assert cached_disk(str(cache), given) is None
    built = build_kubernetes(str(cache), given, lambda _text: None, lambda: None)
    assert cached_disk(str(cache), given) == built.disk
    found = read_disk(built.disk, "kubelet", "names", "aliases", "images.tar")
    assert found["kubelet"] == "#!/bin/sh\necho kubelet\n"
    assert found["names"].splitlines() == [cluster.POD_IMAGE, DEVICE_PLUGIN]
    # as the DaemonSet asks for it
    repository = DEVICE_PLUGIN.rpartition(":")[0]
    assert found["aliases"] == f"{DEVICE_PLUGIN} {repository}@{DIGESTS[DEVICE_PLUGIN]}\n"
    assert DEVICE_PLUGIN in found["images.tar"]
    assert Path(built.disk).stat().st_mode & 0o777 == 0o444
    # nothing but the disk and its lock is left, and another program makes another disk
    assert sorted(path.suffix for path in cache.iterdir()) == [".ext4", ".lock"]
    assert build_kubernetes(str(cache), given, lambda _text: None, lambda: None) == built
    (tmp_path / "assets" / "kubelet").write_text("another")
    assert cached_disk(str(cache), given) is None


def test_the_way_to_the_api_server() -> None:
    """As a part of an option of QEMU, where a comma has to be doubled."""
    text = forwarding(40001)
    assert text.startswith(",guestfwd=tcp:10.0.2.100:6443-cmd:")
    assert text.endswith("relay.py 40001")


def test_joining(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LabDirectory(str(tmp_path))
    (tmp_path / CLUSTER_DIRECTORY).mkdir()
    directory.save({"format": 1, "kubernetes": {"ports": [1, 2, 3]}})
    tell_ports(directory, {"198.51.100.1": 40001})
    assert json.loads((tmp_path / CLUSTER_DIRECTORY / "kubelets.json").read_text()) == {"198.51.100.1:10250": 40001}
    answers: list[list[dict[str, t.Any]]] = [[], [NOT_READY], [{"type": "Ready", "status": "True"}]]

    def ask(_self: object, _path: str) -> tuple[int, str]:
        conditions = answers.pop(0) if len(answers) > 1 else answers[0]
        return 200, json.dumps({"items": [{"metadata": {"name": "lab1"}, "status": {"conditions": conditions}}]})

    monkeypatch.setattr(cluster.ControlPlane, "ask", ask)
    monkeypatch.setattr(cluster, "control_plane_runs", lambda _place: True)
    monkeypatch.setattr(cluster.time, "sleep", lambda _seconds: None)
    told: list[str] = []
    built = Kubernetes({}, "")
    wait_until_joined(directory, ["lab1"], built, 60, told.append, lambda: None)
    assert told == ["lab1: ready as a node of the cluster after 0 s"]
    answers[:] = [[NOT_READY]]
    with pytest.raises(LabError, match=r"within 0 s: lab1: container runtime network not ready\. Look at journalctl"):
        wait_until_joined(directory, ["lab1"], built, 0, told.append, lambda: None)
    monkeypatch.setattr(cluster, "control_plane_runs", lambda _place: False)
    with pytest.raises(LabError, match=r"the control plane has ended\. See the logs in"):
        wait_until_joined(directory, ["lab1"], built, 60, told.append, lambda: None)
