# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's image: sources, recipe, cache. (That it builds and boots is molecule's to prove.)"""

from __future__ import annotations

import dataclasses
import io
import re
import subprocess
import sys
import tarfile
import threading
import time
import typing as t
import zipfile
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils import _lab_image as lab
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab_image import AptSource, ImageRecipe, LabError

ROOT = Path(__file__).resolve().parents[4]
DEBIAN = {"ID": "debian", "VERSION_CODENAME": "bookworm"}
TRIXIE = {"ID": "debian", "VERSION_CODENAME": "trixie"}
UBUNTU = {"ID": "ubuntu", "VERSION_CODENAME": "noble"}
KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"

DEB822 = f"""\
# the distribution
Types: deb deb-src
URIs: http://mirror.example.com/debian http://second.example.com/debian
Suites: bookworm bookworm-updates
# in between
Components: main non-free-firmware
Signed-By: {KEY}

Types: deb
URIs: http://mirror.example.com/security
Suites: bookworm-security
Components: main
Enabled: no

Types: deb-src
URIs: http://mirror.example.com/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://third.example.com/apt
Suites: bookworm
Components: main
Architectures: arm64

Types: deb
URIs: http://vendor.example.com/apt
Suites: ./
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
"""


def test_deb822() -> None:
    components = ("main", "non-free-firmware")
    assert lab.parse_deb822(DEB822) == [
        AptSource("http://mirror.example.com/debian", "bookworm", components, KEY),
        AptSource("http://mirror.example.com/debian", "bookworm-updates", components, KEY),
        AptSource("http://second.example.com/debian", "bookworm", components, KEY),
        AptSource("http://second.example.com/debian", "bookworm-updates", components, KEY),
        AptSource("http://vendor.example.com/apt", "./", (), "inline"),
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "deb http://m.example.com/debian bookworm main",
            AptSource("http://m.example.com/debian", "bookworm", ("main",)),
        ),
        (
            "  deb  http://m.example.com/d bookworm main contrib # x",
            AptSource("http://m.example.com/d", "bookworm", ("main", "contrib")),
        ),
        (
            f"deb [signed-by={KEY} arch=amd64,i386] http://m.example.com/d b main",
            AptSource("http://m.example.com/d", "b", ("main",), KEY),
        ),
        ("deb [ arch=amd64 ] file:/srv/repo ./", AptSource("file:/srv/repo", "./", ())),
        ("deb [arch=arm64] http://m.example.com/debian bookworm main", None),
        ("deb-src http://m.example.com/debian bookworm main", None),
        ("# deb http://m.example.com/debian bookworm main", None),
        ("", None),
    ],
)
def test_one_line(line: str, expected: AptSource | None) -> None:
    assert lab.parse_one_line(line) == ([expected] if expected else [])


def test_machine_sources_reads_both_styles_in_order(tmp_path: Path) -> None:
    directory = tmp_path / "etc/apt/sources.list.d"
    directory.mkdir(parents=True)
    (tmp_path / "etc/apt/sources.list").write_text("deb http://a.example.com/ one main\n")
    (directory / "b.list").write_text("deb http://b.example.com/ two main\n")
    (directory / "c.sources").write_text("Types: deb\nURIs: http://c.example.com/\nSuites: three\nComponents: main\n")
    (directory / "d.list.bak").write_text("deb http://d.example.com/ four main\n")
    assert [source.suite for source in lab.machine_sources(str(tmp_path))] == ["one", "two", "three"]
    assert lab.machine_sources(str(tmp_path / "absent")) == []


def source(suite: str, signed_by: str | None = KEY, components: tuple[str, ...] = ("main",)) -> AptSource:
    return AptSource("http://m.example.com/" + suite, suite, components, signed_by)


def test_choose_takes_the_archive_and_its_pockets_only() -> None:
    own = [source("bookworm"), source("bookworm-updates"), source("bookworm-security", None)]
    foreign = [
        source("bookworm-backports"),
        source("bookworm", "/usr/share/keyrings/vendor.gpg"),
        source("bookworm", None, ("stable",)),
        source("nodistro", "/usr/share/keyrings/vendor.gpg"),
        source("bookworm", "inline"),
    ]
    assert lab.choose_sources([*foreign, *own], DEBIAN) == ("bookworm", own)


@pytest.mark.parametrize("name", ["trixie", "stable", "testing", "sid"])
def test_newer_debian_builds_bookworm_from_the_same_mirror(name: str) -> None:
    found = lab.choose_sources([source(name), source(name + "-security")], TRIXIE)
    uri = "http://m.example.com/" + name
    assert found == (
        "bookworm",
        [AptSource(uri, "bookworm", ("main",), KEY), AptSource(uri + "-security", "bookworm-security", ("main",), KEY)],
    )


def test_ubuntu_keeps_its_release() -> None:
    components = ("main", "universe")
    archive = source("noble", "/usr/share/keyrings/ubuntu-archive-keyring.gpg", components)
    suite, sources = lab.choose_sources([archive, source("jammy", None)], UBUNTU)
    assert (suite, sources) == ("noble", [archive])
    recipe = lab.default_recipe(suite, sources, UBUNTU)
    assert (recipe.kernel_package, recipe.components) == ("linux-image-generic", components)


@pytest.mark.parametrize(
    ("sources", "release", "message"),
    [
        ([source("bookworm")], {"ID": "fedora"}, "this machine is 'fedora'"),
        ([], DEBIAN, "found no source at all"),
        ([source("bookworm-updates"), source("nodistro")], DEBIAN, "found bookworm-updates, nodistro"),
    ],
)
def test_choose_says_what_is_missing(sources: list[AptSource], release: dict[str, str], message: str) -> None:
    with pytest.raises(LabError, match=re.escape(message)):
        lab.choose_sources(sources, release)


def recipe(**changes: t.Any) -> ImageRecipe:
    return dataclasses.replace(lab.default_recipe("bookworm", [source("bookworm")], DEBIAN), **changes)


def test_key_is_stable_and_depends_on_every_field() -> None:
    assert recipe().key() == recipe().key()
    assert re.fullmatch("[0-9a-f]{16}", recipe().key())
    changes: dict[str, t.Any] = {
        "suite": "noble",
        "components": ("main", "contrib"),
        "kernel_package": "linux-image-cloud-amd64",
        "packages": ("apt",),
        "offline_packages": ("perftest",),
        "path_excludes": (),
        "masked_units": (),
        "masked_generators": (),
        "files": {"etc/motd": (0o644, "hello\n")},
        "hook": "true\n",
        "disk_mib": 4096,
        "architecture": "arm64",
        "format_version": lab.FORMAT_VERSION + 1,
    }
    assert set(changes) == {field.name for field in dataclasses.fields(ImageRecipe)}
    keys = [recipe(**{name: value}).key() for name, value in changes.items()]
    assert len({recipe().key(), *keys}) == len(changes) + 1


@pytest.mark.parametrize(("release", "flavour"), [(DEBIAN, "amd64"), (UBUNTU, "generic")])
def test_headers_are_those_of_the_kernel(release: dict[str, str], flavour: str) -> None:
    found = lab.default_recipe("suite", [], release)
    assert found.kernel_package == f"linux-image-{flavour}"
    assert found.offline_packages[-1] == f"linux-headers-{flavour}"


def test_services_that_a_role_installs_are_started() -> None:
    """While mmdebstrap works, a policy keeps every service from starting; on a node it must not be there."""
    script = recipe().hook_script()
    assert script.index('rm -f "$root/usr/sbin/policy-rc.d"') < script.index("mke2fs")


def test_mirrors_are_no_part_of_the_key() -> None:
    other = AptSource("http://elsewhere.example.com/debian", "bookworm", ("main",), None)
    assert lab.default_recipe("bookworm", [other], DEBIAN).key() == recipe().key()


def test_what_roles_install_is_not_in_the_image() -> None:
    assert not set(lab.PACKAGES) & set(lab.OFFLINE_PACKAGES)
    assert {"perftest", "open-iscsi", "nfs-common", "multipath-tools", "dnf"} <= set(lab.OFFLINE_PACKAGES)
    for text in (content for _mode, content in lab.FILES.values()):
        assert "ib_umad" not in text
        assert "rdma_ucm" not in text


def test_command() -> None:
    command = lab.mmdebstrap_command(
        recipe(), [source("bookworm")], "unshare", "/c/overlay.tar", ['Acquire::Retries "3"']
    )
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


def test_scripts_are_valid_shell() -> None:
    scripts = [recipe().hook_script(), *(text for _mode, text in lab.FILES.values() if text.startswith("#!/bin/sh"))]
    assert len(scripts) == 2
    for script in scripts:
        assert "@" not in re.sub(r"getty@tty", "", script).replace("serial-getty@", "")
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize("damage", [None, b"", b"no bytecode", "read-only"])
def test_modules_of_archives_are_compiled_once(tmp_path: Path, damage: bytes | str | None) -> None:
    """As Ansible runs them: out of an archive of another name each time. What cannot be kept or read is compiled."""
    cache, log = tmp_path / "cache", tmp_path / "log"
    code = lab.BYTECODE.replace(lab.BYTECODE_DIRECTORY, str(cache))
    assert code != lab.BYTECODE
    # says what is really compiled
    spy = f"zipimport._compile_source = lambda path, source: (open({str(log)!r}, 'a').write(path), compile(source, path, 'exec'))[1]"
    code = code.replace("import zipimport\n", f"import zipimport\n{spy}\n", 1)
    if damage == "read-only":
        cache.write_text("a file where the directory should be")
    for number in (1, 2):
        archive = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(archive, "w") as stream:
            stream.writestr("probe_module.py", "ANSWER = 6 * 7\n")
        program = (
            f"{code}\nimport sys\nsys.path.insert(0, {str(archive)!r})\nimport probe_module\nprint(probe_module.ANSWER)"
        )
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        assert done.stdout == "42\n"
        for kept in cache.iterdir() if isinstance(damage, bytes) and number == 1 else ():
            kept.write_bytes(damage)
    compiled = log.read_text().count("probe_module.py")
    if damage == "read-only":
        # zipimport itself compiles a module twice for each import: once to tell its path
        assert compiled >= 2
    else:
        assert compiled == (1 if damage is None else 2)
        assert len(list(cache.iterdir())) == 1


def test_packages_index(tmp_path: Path) -> None:
    if lab.find_tool("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    control = tmp_path / "package/DEBIAN"
    control.mkdir(parents=True)
    (control / "control").write_text(
        "Package: probe\nVersion: 1.2\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: probe\n long text\n"
    )
    subprocess.run(["dpkg-deb", "--build", "package", "probe.deb"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(["sh", "-euc", lab.packages_stanza_script()], cwd=tmp_path, check=True)
    index = (tmp_path / "Packages").read_text()
    assert index.startswith("Package: probe\n")
    assert index.endswith("\n\n")
    assert f"\nFilename: ./probe.deb\nSize: {(tmp_path / 'probe.deb').stat().st_size}\nSHA256: " in index
    assert re.search(r"^ [0-9a-f]{64} \d+ Packages$", (tmp_path / "Release").read_text(), re.MULTILINE)


def test_overlay_is_reproducible_and_owned_by_root() -> None:
    data = lab._overlay_archive(lab.FILES)
    assert data == lab._overlay_archive(dict(reversed(list(lab.FILES.items()))))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            assert (member.uid, member.gid, member.mtime) == (0, 0, 0)
            assert lab.FILES[member.name[2:]][0] == member.mode


def test_bindep_names_the_same_packages() -> None:
    lines = [
        line.split() for line in (ROOT / "bindep.txt").read_text().splitlines() if line and not line.startswith("#")
    ]
    assert {line[0] for line in lines if {"lab", "lab]"} & set(line)} == set(lab.TOOL_PACKAGES.values())


def test_missing_tools_gives_the_line_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lab, "_search_path", lambda: str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LabError, match=r"sudo apt-get install --yes openssh-client qemu-utils$"):
        lab.require_tools(["ssh", "ssh-keygen", "qemu-img"])


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
def test_stages(line: str, expected: str | None) -> None:
    assert lab.stage_of(line) == expected


def test_cache_is_used_and_a_half_built_image_is_not(tmp_path: Path) -> None:
    directory = tmp_path / f"image-{recipe().key()}"
    (tmp_path / f"building-{recipe().key()}-x").mkdir()
    assert lab.cached_image(str(tmp_path), recipe()) is None
    directory.mkdir()
    (directory / "root.ext4").touch()
    image = lab.build_image(str(tmp_path), recipe(), [], pytest.fail, lambda: None)
    assert (image.key, image.directory) == (recipe().key(), str(directory))


def test_lock_lets_one_in_at_a_time_even_when_its_file_is_removed(tmp_path: Path) -> None:
    path = str(tmp_path / "deep/lock")
    inside: list[int] = []
    most: list[int] = []
    told: list[str] = []

    def enter(number: int) -> None:
        with lab.locked(path, told.append, lambda: None, "test"):
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.1)
            inside.remove(number)
            if number == 0:
                Path(path).unlink()

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(limit(30))
    assert most == [1, 1, 1]
    assert all("another process holds" in line for line in told)


def test_waiting_for_a_lock_ends_with_the_caller(tmp_path: Path) -> None:
    def gone() -> None:
        raise LabError("gone")

    path = str(tmp_path / "lock")
    first = lab.locked(path, pytest.fail, lambda: None, "test")
    with first, pytest.raises(LabError, match="gone"), lab.locked(path, pytest.fail, gone, "test"):
        pytest.fail("two at a time")
