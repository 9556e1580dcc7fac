# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies in a lab's directory before its nodes start."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.image import Image
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.layout import lay_out, prepare
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import CLUSTER_DIRECTORY, LabDirectory, LabSpec
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import IMAGE, spec


def prepared(directory: LabDirectory, wish: LabSpec, image: Image, engine: str) -> None:
    prepare(directory, wish, image, engine)
    lay_out(directory, wish, image, engine)


def test_what_a_node_has_written_is_kept_while_the_wish_is_the_same(tmp_path: Path) -> None:
    directory = LabDirectory(str(tmp_path / "lab"))
    wish = spec(Path(directory.path), engine="container")
    prepared(directory, wish, IMAGE, "container")
    state = directory.state()
    assert [(node["name"], node["port"]) for node in state["nodes"]] == [("lab1", 22), ("lab2", 22)]
    hosts = Path(directory.file("known_hosts")).read_text()
    assert [line.split()[0] for line in hosts.splitlines()] == ["lab1", "lab2"]
    upper = Path(directory.node_path("lab1", "upper"))
    assert (upper / "etc/hostname").read_text() == "lab1\n"
    (upper / "word").write_text("kept")
    prepared(directory, wish, IMAGE, "container")
    assert (upper / "word").read_text() == "kept"
    assert Path(directory.file("known_hosts")).read_text() == hosts
    # another wish: other nodes
    prepared(directory, spec(Path(directory.path), engine="container", accel="tcg"), IMAGE, "container")
    assert not (upper / "word").exists()
    assert json.loads(Path(directory.file("state.json")).read_text())["spec"] != state["spec"]


def test_nodes_and_control_plane_are_recreated_for_other_programs(tmp_path: Path) -> None:
    """What a node has imported, and what the API server has kept, are of the programs of before."""
    directory = LabDirectory(str(tmp_path / "lab"))
    wish = spec(Path(directory.path), kubernetes=True)
    disk, plane = Path(directory.node_path("lab1", "disk.qcow2")), Path(directory.file(CLUSTER_DIRECTORY))
    for key, kept in (("one", False), ("one", True), ("two", False)):
        prepare(directory, wish, IMAGE, "qemu", key)
        assert directory.fits(wish.key(IMAGE, key)) is False
        assert (disk.exists(), plane.exists(), "kubernetes" in directory.state()) == (kept,) * 3
        disk.parent.mkdir(exist_ok=True)
        disk.touch()
        plane.mkdir(exist_ok=True)
        (plane / "lock").touch()
        directory.save({**directory.state(), "kubernetes": {"ports": [1, 2, 3]}})


def test_the_disk_of_a_virtual_machine_lies_over_the_image(tmp_path: Path) -> None:
    image = type(IMAGE)(IMAGE.key, str(tmp_path))
    with open(image.disk, "wb") as stream:
        stream.truncate(1 << 20)
    directory = LabDirectory(str(tmp_path / "lab"))
    prepared(directory, spec(Path(directory.path)), image, "qemu")
    disk = Path(directory.node_path("lab1", "disk.qcow2"))
    assert image.disk.encode() in disk.read_bytes()
    # with the keys of the node, and the token of its kubelet
    assert disk.stat().st_mode & 0o777 == 0o600
    made = disk.stat().st_ino
    prepared(directory, spec(Path(directory.path)), image, "qemu")
    assert disk.stat().st_ino == made
    assert directory.state()["nodes"][0]["port"] == 0
