# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's apt sources: which are read, which are chosen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.recipe import default_recipe
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.sources import (
    AptSource,
    choose_sources,
    machine_sources,
    parse_deb822,
    parse_one_line,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import (
    DEBIAN,
    KEY,
    TRIXIE,
    UBUNTU,
    source,
)

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


def test_every_suite_of_a_stanza_is_a_source() -> None:
    components = ("main", "non-free-firmware")
    assert parse_deb822(DEB822) == [
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
def test_a_one_line_source_is_read(line: str, expected: AptSource | None) -> None:
    assert parse_one_line(line) == ([expected] if expected else [])


def test_machine_sources_reads_both_styles_in_order(tmp_path: Path) -> None:
    directory = tmp_path / "etc/apt/sources.list.d"
    directory.mkdir(parents=True)
    (tmp_path / "etc/apt/sources.list").write_text("deb http://a.example.com/ one main\n")
    (directory / "b.list").write_text("deb http://b.example.com/ two main\n")
    (directory / "c.sources").write_text("Types: deb\nURIs: http://c.example.com/\nSuites: three\nComponents: main\n")
    (directory / "d.list.bak").write_text("deb http://d.example.com/ four main\n")
    assert [source.suite for source in machine_sources(str(tmp_path))] == ["one", "two", "three"]
    assert machine_sources(str(tmp_path / "absent")) == []


def test_choose_takes_the_archive_and_its_pockets_only() -> None:
    own = [source("bookworm"), source("bookworm-updates"), source("bookworm-security", None)]
    foreign = [
        source("bookworm-backports"),
        source("bookworm", "/usr/share/keyrings/vendor.gpg"),
        source("bookworm", None, ("stable",)),
        source("nodistro", "/usr/share/keyrings/vendor.gpg"),
        source("bookworm", "inline"),
    ]
    assert choose_sources([*foreign, *own], DEBIAN) == ("bookworm", own)


@pytest.mark.parametrize("name", ["trixie", "stable", "testing", "sid"])
def test_newer_debian_builds_bookworm_from_the_same_mirror(name: str) -> None:
    found = choose_sources([source(name), source(name + "-security")], TRIXIE)
    uri = "http://m.example.com/" + name
    assert found == (
        "bookworm",
        [AptSource(uri, "bookworm", ("main",), KEY), AptSource(uri + "-security", "bookworm-security", ("main",), KEY)],
    )


def test_ubuntu_keeps_its_release() -> None:
    components = ("main", "universe")
    archive = source("noble", "/usr/share/keyrings/ubuntu-archive-keyring.gpg", components)
    suite, sources = choose_sources([archive, source("jammy", None)], UBUNTU)
    assert (suite, sources) == ("noble", [archive])
    recipe = default_recipe(suite, sources, UBUNTU, {})
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
        choose_sources(sources, release)
