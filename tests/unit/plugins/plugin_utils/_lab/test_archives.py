# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of containers as an archive. (That containerd imports it is molecule's to prove.)"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import typing as t
from pathlib import Path

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.archives import ContainerImage, layer_of, write_images


def content_of(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {member.name: t.cast(t.IO[bytes], archive.extractfile(member)).read() for member in archive}


def test_an_archive_has_all_that_its_manifest_names(tmp_path: Path) -> None:
    """Every name in the manifest is there, and every layer is what its image says that it is; what images share is there once."""
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    base, top = tmp_path / "base.tar", tmp_path / "top.tar"
    base.write_bytes(layer_of({}))
    top.write_bytes(layer_of({"bin/program": str(program)}))
    with tarfile.open(fileobj=io.BytesIO(top.read_bytes())) as layer:
        (member,) = layer
        assert (member.name, member.mode, member.uid, member.mtime) == ("bin/program", 0o755, 0, 0)
    images = [
        ContainerImage(("localhost/one:1", "localhost/uno:1"), (str(base),), ("sleep", "1")),
        ContainerImage(("localhost/two:1",), (str(base), str(top)), ("/bin/program",), {"A": "b"}),
    ]
    path = tmp_path / "images.tar"
    write_images(str(path), images)
    content = content_of(path)
    manifest = json.loads(content["manifest.json"])
    assert [entry["RepoTags"] for entry in manifest] == [["localhost/one:1", "localhost/uno:1"], ["localhost/two:1"]]
    assert [len(entry["Layers"]) for entry in manifest] == [1, 2]
    assert len(content) == 2 + 2 + 1
    for image, entry in zip(images, manifest, strict=True):
        config = json.loads(content[entry["Config"]])
        assert entry["Config"] == hashlib.sha256(content[entry["Config"]]).hexdigest() + ".json"
        digests = [f"sha256:{hashlib.sha256(content[name]).hexdigest()}" for name in entry["Layers"]]
        assert config["rootfs"] == {"type": "layers", "diff_ids": digests}
        assert config["config"]["Cmd"] == list(image.command)
    assert "A=b" in json.loads(content[manifest[1]["Config"]])["config"]["Env"]
    again = tmp_path / "again.tar"
    write_images(str(again), images)
    assert again.read_bytes() == path.read_bytes()
