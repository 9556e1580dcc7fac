# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetches the containerds of three Debian suites, from the mirror that this machine's apt uses, signatures checked.

usage: containerds.py

Prints a JSON object: generation -> {package: its path, programs: the directory in which it lies unpacked}. All of it is in
~/.cache/fabric.rdma/packages (or below XDG_CACHE_HOME), and what is there is not fetched again. Nothing is installed, no service is
started, nothing of the machine's apt is changed: lists and downloads live in a directory of their own, and no root is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import CONTAINERDS, LAB_SUITE
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError, locked
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.sources import (
    AptSource,
    choose_sources,
    machine_sources,
    parse_os_release,
)


def archives() -> list[AptSource]:
    """The machine's sources of the Debian archive itself. Raises LabError on a machine that has none."""
    os_release = parse_os_release(Path("/etc/os-release").read_text(encoding="utf-8"))
    suite, sources = choose_sources(machine_sources(), os_release)
    if suite != LAB_SUITE:
        raise LabError(
            "three generations of containerd come from three suites of Debian, and the apt sources of this machine are those of "
            f"{os_release.get('ID')} {suite}: run this on Debian, or name directories with their programs in FABRIC_RDMA_CONTAINERDS, separated by colons"
        )
    return [source for source in sources if source.suite == suite]


def fetch(generation: str, cache: Path) -> dict[str, str]:
    """A generation in the cache. Raises LabError when the mirror does not have it."""
    suite = CONTAINERDS[generation]
    final = cache / f"containerd-{suite}.deb"
    unpacked = cache / f"containerd-{suite}"
    if not final.exists():
        shutil.rmtree(unpacked, ignore_errors=True)
        sources = archives()
        # Not /tmp: package lists are large, and /tmp is a small RAM disk on some machines.
        with tempfile.TemporaryDirectory(prefix=f"fetch-{suite}-", dir=cache) as scratch:
            package = _download(suite, Path(scratch), sources)
            os.replace(package, final)
    version = subprocess.run(
        ["dpkg-deb", "--field", str(final), "Version"], check=True, capture_output=True, text=True
    ).stdout.strip()
    if not version.startswith(f"{generation}."):
        raise LabError(
            f"{final} is containerd {version}, and generation {generation} is wanted: Debian's suite {suite} has moved on; "
            "name another suite for this generation in plugins/module_utils/_base/sources.py, and remove the file"
        )
    if not unpacked.exists():
        with tempfile.TemporaryDirectory(prefix=f"fetch-{suite}-", dir=cache) as directory:
            subprocess.run(["dpkg-deb", "--extract", str(final), f"{directory}/root"], check=True)
            os.replace(f"{directory}/root", unpacked)
    return {"package": str(final), "programs": str(unpacked / "usr/bin")}


def _download(suite: str, scratch: Path, sources: list[AptSource]) -> Path:
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
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    for arguments in (["update", "--error-on=any"], ["download", "containerd"]):
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
    (package,) = scratch.glob("containerd_*.deb")
    return package


def main() -> None:
    """Fetches what is not there, one process at a time."""
    if len(sys.argv) != 1:
        sys.exit((__doc__ or "").strip())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fabric.rdma" / "packages"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with locked(str(cache / "fetch.lock"), lambda text: print(text, file=sys.stderr), lambda: None, "containerd"):
            for leftover in cache.glob("fetch-*-*"):
                shutil.rmtree(leftover)
            print(json.dumps({generation: fetch(generation, cache) for generation in CONTAINERDS}))
    except LabError as exc:
        sys.exit(f"error: {exc}")


if __name__ == "__main__":
    main()
