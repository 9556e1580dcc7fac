# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image: how it is built and cached. (That it builds and boots is molecule's to prove.)"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import image
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.image import (
    build_image,
    cached_image,
    mmdebstrap_command,
    stage_of,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.recipe import FILES, HOOK_VARIABLE
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import KEY, recipe, source


def test_the_image_is_built_with_the_machines_own_sources() -> None:
    command = mmdebstrap_command(recipe(), [source("bookworm")], "unshare", "/c/overlay.tar", ['Acquire::Retries "3"'])
    assert command[:2] == ["mmdebstrap", "--mode=unshare"]
    assert '--aptopt=Acquire::Retries "3"' in command
    assert "--essential-hook=tar-in /c/overlay.tar /" in command
    assert command[-3:] == [
        "bookworm",
        "/dev/null",
        f"deb [signed-by={KEY}] http://m.example.com/bookworm bookworm main",
    ]
    include = next(part for part in command if part.startswith("--include="))
    assert "linux-image-amd64" in include
    assert "perftest" not in include


def test_the_machines_apt_says_how_its_mirrors_are_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror in the site may be one that its proxy does not reach."""
    lines = ['Acquire::http::Proxy "http://proxy:3128"', 'Acquire::http::Proxy::mirror.site "DIRECT"']
    more = ['Acquire::https::Proxy ""', 'Acquire::http::Proxy-Auto-Detect "/usr/bin/program"', 'Acquire::Other "1"']
    (tmp_path / "apt.conf").write_text("".join(f"{line};\n" for line in [*lines, *more]))
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    assert [line for line in image._machine_apt_options() if "Proxy" in line] == lines


def test_overlay_is_reproducible_and_owned_by_root() -> None:
    data = image._overlay_archive(FILES)
    assert data == image._overlay_archive(dict(reversed(list(FILES.items()))))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            assert (member.uid, member.gid, member.mtime) == (0, 0, 0)
            assert FILES[member.name[2:]][0] == member.mode


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("I: extracting archives...", "unpacking the base system"),
        (
            'I: running --customize-hook in shell: sh -c \'sh -c "$X"',
            "adding the offline packages, writing the disk image",
        ),
        ("Get:1 http://m.example.com/debian bookworm/main amd64 x", None),
    ],
)
def test_a_line_of_the_build_tells_its_stage(line: str, expected: str | None) -> None:
    assert stage_of(line) == expected


def test_cache_is_used_and_a_half_built_image_is_not(tmp_path: Path) -> None:
    directory = tmp_path / f"image-{recipe().key()}"
    (tmp_path / f"building-image-{recipe().key()}-x").mkdir()
    assert cached_image(str(tmp_path), recipe()) is None
    directory.mkdir()
    (directory / "root.ext4").touch()
    image = build_image(str(tmp_path), recipe(), [], pytest.fail, lambda: None)
    assert (image.key, image.directory) == (recipe().key(), str(directory))


def stand_in(directory: Path, script: str) -> None:
    """Programs that a build needs, of which mmdebstrap does what the script says."""
    for name in ("mmdebstrap", "mke2fs", "newuidmap"):
        (directory / name).write_text("#!/bin/sh\n" + (script if name == "mmdebstrap" else "exit 1\n"))
        (directory / name).chmod(0o755)


def test_a_build_that_fails_leaves_its_log_and_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, "echo 'E: no mirror'; exit 25\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    cache = tmp_path / "cache"
    with pytest.raises(LabError, match=r"mmdebstrap ended with 25.*:\nE: no mirror\n$"):
        build_image(str(cache), recipe(), [], lambda _text: None, lambda: None)
    assert (cache / "failed-build.log").read_text() == "E: no mirror\n"
    assert [path.name for path in cache.iterdir() if path.is_dir()] == []


def test_what_the_hook_writes_is_the_image_and_nobody_writes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook comes in the environment, and so do the descriptors that it writes to, whoever opens them again."""
    names = ("DISK", "KERNEL", "INITRD", "POD", "MANIFEST")
    script = f'test -n "${HOOK_VARIABLE}"\n' + "".join(
        f'echo {name} >"/proc/self/fd/$LAB_FD_{name}"\n' for name in names
    )
    stand_in(tmp_path, "set -eu\n" + script)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    cache = tmp_path / "cache"
    image = build_image(str(cache), recipe(), [], lambda _text: None, lambda: None)
    paths = [Path(path) for path in (image.disk, image.kernel, image.initrd, image.pod, image.manifest)]
    assert [path.read_text() for path in paths[1:]] == ["KERNEL\n", "INITRD\n", "POD\n", "MANIFEST\n"]
    assert paths[0].read_bytes()[:5] == b"DISK\n"
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o444}
    assert sorted(path.name for path in Path(image.directory).iterdir()) == sorted(
        [*(path.name for path in paths), "build.log", "recipe.json"]
    )
    assert cached_image(str(cache), recipe()) == image
