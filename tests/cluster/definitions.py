# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CustomResourceDefinitions of operators: other people's, beside the checkout, where they are at all."""

from __future__ import annotations

import os
import re
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("FABRIC_RDMA_CRDS") or ROOT.parent / "shared" / "crds")
# what a test says that finds none
ELSEWHERE = "(FABRIC_RDMA_CRDS names another folder)"
# the quick one where PyYAML has it: some definitions have thousands of lines
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# where the API server has them
PLACE = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Definition(t.NamedTuple):
    """A definition, and the file of the folder that it is in."""

    file: str
    item: dict[str, t.Any]

    @property
    def plural(self) -> str:
        return str(self.item["spec"]["names"]["plural"])


class Release(t.NamedTuple):
    """What a release of a project defines: its version, where that is from, the definitions, and their files in the folder."""

    version: str
    origin: str
    items: list[dict[str, t.Any]]
    files: tuple[str, ...] = ()


def read_files(pattern: str) -> list[Definition]:
    """Those in the files of the folder that fit a pattern; of a kind in several files, that first whose file has nothing but its name."""
    return [
        Definition(path.name, item)
        for path in sorted(FOLDER.glob(pattern), key=lambda path: (len(path.name), path.name))
        for item in yaml.load_all(path.read_text(), LOADER)
        if item and item.get("kind") == "CustomResourceDefinition"
    ]


def read(pattern: str = "*.yaml") -> dict[str, dict[str, t.Any]]:
    """The same by name, one of each; none where the folder is not there."""
    found: dict[str, dict[str, t.Any]] = {}
    for each in read_files(pattern):
        found.setdefault(each.item["metadata"]["name"], each.item)
    return found


def refs() -> dict[str, str]:
    """By file of the folder, the tag or branch of its project that it is from, as SOURCES.md there says."""
    path = FOLDER / "SOURCES.md"
    found, ref = {}, ""
    for line in path.read_text().splitlines() if path.is_file() else []:
        if line.startswith("## "):
            ref = ""
        elif match := re.match(r"Ref `([^`]+)`", line):
            ref = match[1]
        elif ref and (match := re.match(r"\| (\S+\.yaml) \|", line)):
            found[match[1]] = ref
    return found


def line_of(ref: str, versions: t.Iterable[str]) -> str:
    """The version in whose line a tag or a branch of the project is; an empty one where there is none."""
    return next((version for version in versions if ref.startswith(f"v{version.rpartition('.')[0]}.")), "")


def releases(group: str, kinds: t.Mapping[str, t.Collection[str]]) -> list[Release]:
    """What the folder has of a project's releases, in their order, by the refs in SOURCES.md.

    kinds: by version, the plurals that it defines. A file with one of them that no release takes would not be looked at: it fails.
    """
    known, by_ref = refs(), dict[str, list[Definition]]()
    plurals = {plural for each in kinds.values() for plural in each}
    for each in read_files(f"{group}_*.yaml"):
        if each.plural in plurals:
            by_ref.setdefault(known.get(each.file, ""), []).append(each)
    found, left = [], []
    for ref, its in sorted(by_ref.items()):
        version = line_of(ref, kinds)
        if version and sorted(each.plural for each in its) == sorted(kinds[version]):
            files = tuple(each.file for each in its)
            found.append(Release(version, f"{ref} in {FOLDER}", [each.item for each in its], files))
            continue
        why = f"{ref}, which has {', '.join(kinds[version])}" if version else ref or "SOURCES.md does not say of what"
        left += [f"{each.file} ({why})" for each in its]
    assert not left, f"no release takes these files of {FOLDER}: {'; '.join(left)}"
    return sorted(found, key=lambda each: list(kinds).index(each.version))


def newest(group: str, kinds: t.Mapping[str, t.Collection[str]]) -> dict[str, dict[str, t.Any]]:
    """By plural, the definition of the newest release that the folder has one of."""
    known, order = refs(), ["", *kinds]
    plurals = {plural for each in kinds.values() for plural in each}
    # the last of each counts
    files = reversed(read_files(f"{group}_*.yaml"))
    placed = sorted(files, key=lambda each: order.index(line_of(known.get(each.file, ""), kinds)))
    return {each.plural: each.item for each in placed if each.plural in plurals}
