# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install the collections that ours depends on from the Python index, where Galaxy cannot be reached.

usage: fetch_collections.py REQUIREMENTS_DEV COLLECTIONS_REQUIREMENTS DESTINATION [pinned]

The ``ansible`` package holds every community collection.  The wheel named by the ``#collections:`` lines of
REQUIREMENTS_DEV is downloaded (not installed), and the folders named in COLLECTIONS_REQUIREMENTS are unpacked into
DESTINATION/ansible_collections; so are those that its ``#also:`` lines name, out of the wheels that they name. With
``pinned``, it is the wheel of its ``#pinned:`` line alone, also where this Python is too old for what else is in there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import yaml


def behind(mark: str, requirements: Path) -> list[str]:
    """What stands behind a mark such as ``#collections:``; of a wheel, a requirement with its environment markers."""
    return [line[len(mark) :].strip() for line in requirements.read_text().splitlines() if line.startswith(mark)]


def unpack(wanted: list[str], wheels: list[str], destination: Path, *, optional: bool = False) -> None:
    """Unpacks collections, with those that they depend on, out of a wheel; where optional, if any is for this Python."""
    target = destination / "ansible_collections"
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        # nothing of it is run, and collections support more Pythons than the package that has them
        pip.append("--ignore-requires-python")
        subprocess.run([*pip, "--only-binary=:all:", "-d", scratch, *wheels], check=True)
        found = list(Path(scratch).glob("*.whl"))
        if not found and optional:
            return
        with zipfile.ZipFile(found[0]) as wheel:
            names = wheel.namelist()
            done: list[str] = []
            while wanted:
                collection = wanted.pop(0)
                folder = "ansible_collections/{}/".format(collection.replace(".", "/"))
                # The collection's own tests are two thirds of its files and of no use here.
                members = [n for n in names if n.startswith(folder) and not n.startswith(folder + "tests/")]
                if not members:
                    sys.exit(f"error: {collection} is not in {wheel.filename}")
                manifest = json.loads(wheel.read(folder + "MANIFEST.json"))["collection_info"]
                wanted += [name for name in manifest["dependencies"] if name not in [*done, *wanted]]
                shutil.rmtree(target / collection.replace(".", "/"), ignore_errors=True)
                wheel.extractall(destination, members)  # zipfile refuses paths that leave the destination
                print(f"venv: {collection} {manifest['version']}")
                done.append(collection)


def main() -> None:
    requirements, wanted_file, destination = (Path(arg) for arg in sys.argv[1:4])
    wanted = [entry["name"] for entry in yaml.safe_load(wanted_file.read_text())["collections"]]
    if sys.argv[4:] == ["pinned"]:
        unpack(wanted, behind("#pinned:", requirements), destination)
        return
    unpack(wanted, behind("#collections:", requirements), destination)
    for line in behind("#also:", requirements):
        collection, _from, wheel = line.partition(" from ")
        unpack([collection], [wheel], destination, optional=True)


if __name__ == "__main__":
    main()
