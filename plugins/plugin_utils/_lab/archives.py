# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives: images of containers as one that every runtime imports, made without a runtime, and what is unpacked. Private to the collection.

The form of the former is that of `docker save`, as containerd's importer reads it (images/archive/importer.go): manifest.json names for each image its
configuration, its layers and its names. Layers are not compressed, so that a layer's digest is that of its file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import typing as t
from dataclasses import dataclass, field

__all__ = ["ContainerImage", "digest_of_file", "layer_of", "unpack", "write_images"]


@dataclass(frozen=True)
class ContainerImage:
    """An image: its names, the tar archives that it is made of, and what runs in it."""

    names: tuple[str, ...]
    layers: tuple[str, ...]
    command: tuple[str, ...]
    environment: t.Mapping[str, str] = field(default_factory=dict)


def layer_of(files: t.Mapping[str, str]) -> bytes:
    """A layer of programs: path in the image -> file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, path in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.mode, info.size = 0o755, os.path.getsize(path)
            with open(path, "rb") as stream:
                archive.addfile(info, stream)
    return buffer.getvalue()


def write_images(path: str, images: t.Sequence[ContainerImage]) -> None:
    """Writes the archive of images. Layers that they share are in it once."""
    digests = {layer: digest_of_file(layer) for image in images for layer in image.layers}
    manifest = []
    with tarfile.open(path, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for layer in sorted(digests):
            archive.add(layer, f"{digests[layer]}.tar", filter=_plain)
        for image in images:
            text = json.dumps(_configuration(image, [digests[layer] for layer in image.layers]), sort_keys=True)
            name = hashlib.sha256(text.encode()).hexdigest() + ".json"
            _add(archive, name, text)
            layers = [f"{digests[layer]}.tar" for layer in image.layers]
            manifest.append({"Config": name, "RepoTags": list(image.names), "Layers": layers})
        _add(archive, "manifest.json", json.dumps(manifest, sort_keys=True))


def unpack(archive: tarfile.TarFile, directory: str) -> None:
    """Unpacks an archive that is trusted: where Python has filters, with no owner, no device and no way out of the directory.

    Before 3.11.4, as on Debian 12, it has none, and ignores the attribute.
    """
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    archive.extractall(directory)


def _configuration(image: ContainerImage, digests: t.Sequence[str]) -> dict[str, t.Any]:
    """The configuration of an image (OCI image specification, config.md)."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    environment = {"PATH": path, **image.environment}
    return {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": list(image.command), "Env": [f"{key}={value}" for key, value in environment.items()]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }


def digest_of_file(path: str) -> str:
    """However large it is."""
    found = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    info.mode = 0o644
    return info


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(text.encode())
    archive.addfile(info, io.BytesIO(text.encode()))
