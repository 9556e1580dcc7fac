# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of other suites of Debian, from the mirror that this machine's apt uses, signatures checked, unpacked into a cache.

Nothing is installed, no service is started, nothing of the machine's apt is changed: lists and downloads live in a directory of their
own, and no root is needed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import LAB_SUITE
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError, locked
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.sources import (
    AptSource,
    choose_sources,
    machine_sources,
    parse_os_release,
)

__all__ = ["LabError", "Package", "cache_of", "fetch"]


class Package(t.NamedTuple):
    """A package in the cache. programs: the directory in which its programs lie unpacked."""

    path: Path
    version: str
    programs: Path


@contextlib.contextmanager
def cache_of(what: str) -> t.Iterator[Path]:
    """~/.cache/fabric.rdma/packages, or that below XDG_CACHE_HOME, for one process at a time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fabric.rdma" / "packages"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(str(cache / "fetch.lock"), lambda text: print(text, file=sys.stderr), lambda: None, what):
        for leftover in cache.glob("fetch-*-*"):
            shutil.rmtree(leftover)
        yield cache


def fetch(name: str, suite: str, version: str, cache: Path, instead: str) -> Package:
    """A package of a suite, from the mirror when the cache does not have it. Raises LabError when the mirror does not, or another version.

    version: how its version begins. instead: how a machine that is not Debian does without.
    """
    final = cache / f"{name}-{suite}.deb"
    unpacked = cache / f"{name}-{suite}"
    if not final.exists():
        shutil.rmtree(unpacked, ignore_errors=True)
        sources = _archives(name, instead)
        # Not /tmp: package lists are large, and /tmp is a small RAM disk on some machines.
        with tempfile.TemporaryDirectory(prefix=f"fetch-{suite}-", dir=cache) as scratch:
            os.replace(_download(name, suite, Path(scratch), sources), final)
    found = subprocess.run(
        ["dpkg-deb", "--field", str(final), "Version"], check=True, capture_output=True, text=True
    ).stdout.strip()
    if not found.startswith(version):
        raise LabError(
            f"{final} is {name} {found}, and {version} is wanted: Debian's suite {suite} has moved on; "
            "name another suite for it in plugins/module_utils/_base/sources.py, and remove the file"
        )
    if not unpacked.exists():
        with tempfile.TemporaryDirectory(prefix=f"fetch-{suite}-", dir=cache) as directory:
            subprocess.run(["dpkg-deb", "--extract", str(final), f"{directory}/root"], check=True)
            os.replace(f"{directory}/root", unpacked)
    return Package(final, found, unpacked / "usr/bin")


def _archives(name: str, instead: str) -> list[AptSource]:
    """The machine's sources of the Debian archive itself. Raises LabError on a machine that has none."""
    os_release = parse_os_release(Path("/etc/os-release").read_text(encoding="utf-8"))
    suite, sources = choose_sources(machine_sources(), os_release)
    if suite != LAB_SUITE:
        raise LabError(
            f"{name} comes from suites of Debian, and the apt sources of this machine are those of "
            f"{os_release.get('ID')} {suite}: run this on Debian, or {instead}"
        )
    return [source for source in sources if source.suite == suite]


def _download(name: str, suite: str, scratch: Path, sources: list[AptSource]) -> Path:
    lines = [AptSource(source.uri, suite, ("main",), source.signed_by).line() for source in sources]
    (scratch / "sources.list").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    for directory in ("state/lists/partial", "cache/archives/partial", "parts"):
        (scratch / directory).mkdir(parents=True)
    (scratch / "status").touch()
    settings = {
        "Dir::Etc::SourceList": scratch / "sources.list",
        "Dir::Etc::SourceParts": scratch / "parts",
        # a machine that prefers its own suite would find none of the others
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": scratch / "parts",
        "Dir::State": scratch / "state",
        "Dir::State::Status": scratch / "status",
        "Dir::Cache": scratch / "cache",
        "APT::Architecture": "amd64",
        "APT::Architectures": "amd64",
        "APT::Default-Release": "",
        "APT::Sandbox::User": "root",
        "APT::Get::AllowUnauthenticated": "false",
        "Acquire::Languages": "none",
        "Acquire::PDiffs": "false",
    }
    options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
    for arguments in (["update", "--error-on=any"], ["download", name]):
        done = subprocess.run(
            ["apt-get", "--quiet", *options, *arguments],
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise LabError(
                f"apt-get {arguments[0]} failed for Debian's suite {suite} on this machine's mirror; a mirror with this suite, and a "
                f"debian-archive-keyring that knows its key, are needed. It said:\n{done.stdout.strip()}"
            )
    (package,) = scratch.glob(f"{name}_*.deb")
    return package
