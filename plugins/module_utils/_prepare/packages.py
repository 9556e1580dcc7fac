# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of a driver stack: which they are, of which release, what a change did to them and what undoes it. Private. Pure."""

from __future__ import annotations

import base64
import fnmatch
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._discover.dpkg import is_stack_package
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.openpgp import fingerprints, is_key_of

__all__ = [
    "DPKG_QUERY",
    "Changes",
    "File",
    "Snapshot",
    "add_changes",
    "bare_name",
    "changes_between",
    "keys_of_the_driver",
    "no_way_back",
    "of_release",
    "of_the_driver",
    "parse_dpkg_query",
    "plan_undo",
    "split_wish",
    "undone",
]

_NUMBERS = re.compile(r"\d+\.\d+\.\d+$")
# Files of repositories, pins and keys that this collection or an installer of the vendor's writes, and no package has.
_LOCKS = re.compile(r"/(versionlock[.](list|toml)|locks)$")
_DRIVER_FILE = re.compile(r"/fabric-rdma-[^/]*$|/[^/]*(bluefield|doca|mellanox|mlnx|ofed)[^/]*$", re.IGNORECASE)


def split_wish(wish: str) -> tuple[str, t.Optional[str]]:
    """(name, pattern of the version or None) of an entry such as doca-ofed or mlnx-tools=24.10*."""
    name, sign, pattern = wish.partition("=")
    return name, pattern if sign else None


def of_release(version: str, pattern: t.Optional[str], release: str) -> bool:
    """Whether a package's version is the wished one: of a pattern as apt has it, or else of a release.

    2.9.1-0.1.8 and 2.9.1018-1 (with the three digits of the build) are of release 2.9.1, 2.9.10-1 is not. A pattern may leave out what
    RPM calls the release of the package.
    """
    # an epoch is not a part of what a vendor calls a release
    plain = version.partition(":")[2] or version
    if pattern is not None:
        return any(fnmatch.fnmatchcase(text, pattern) for text in (version, plain, plain.rpartition("-")[0]))
    build = r"(\d{3}(?!\d))?" if _NUMBERS.match(release) else ""
    return re.match(rf"{re.escape(release)}{build}(?!\d)", plain) is not None


class File(t.NamedTuple):
    """Content (base64), mode and owner (user, group) of a file; a list in JSON. Records of earlier versions have no owner."""

    data: str
    mode: int
    owner: tuple[int, int] = (0, 0)


class Snapshot(t.NamedTuple):
    """What a package manager has at one moment.

    packages: version by name; of one that is not wholly installed, with its state in brackets. holds: names that are kept at their
    versions. files: those that name repositories and pins, by path.
    """

    packages: t.Mapping[str, str]
    holds: t.Collection[str]
    files: t.Mapping[str, File]


# What a change did: [before, after] by name of a package, of a hold (bool), by path of a file. None: not there.
Changes = t.Dict[str, t.Dict[str, t.List[t.Any]]]


class Undo(t.NamedTuple):
    """What undoes a change, and in sentences what stays, since it is no longer as that change left it."""

    install: list[tuple[str, str]]
    remove: list[str]
    holds: dict[str, bool]
    files: dict[str, t.Optional[File]]
    left: list[str]


def _versions(one: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> dict[str, list[t.Any]]:
    names = sorted(set(one) | set(other))
    return {name: [one.get(name), other.get(name)] for name in names if one.get(name) != other.get(name)}


def changes_between(before: Snapshot, after: Snapshot) -> Changes:
    """What was changed from one moment to another."""
    return {
        "packages": _versions(before.packages, after.packages),
        "holds": {name: [name in before.holds, name in after.holds] for name in set(before.holds) ^ set(after.holds)},
        "files": _versions(before.files, after.files),
    }


def add_changes(first: Changes, then: Changes) -> Changes:
    """Two changes as one: what was before the first, what is after the second."""
    sums: Changes = {}
    for kind in ("packages", "holds", "files"):
        found = {name: list(pair) for name, pair in first.get(kind, {}).items()}
        for name, (old, new) in then.get(kind, {}).items():
            found[name] = [found[name][0] if name in found else old, new]
        sums[kind] = {name: pair for name, pair in found.items() if pair[0] != pair[1]}
    return sums


def bare_name(name: str) -> str:
    """A name without the architecture that dpkg writes behind it."""
    return name.partition(":")[0]


def _givers(
    needs: t.Mapping[str, t.Sequence[t.Collection[str]]], provides: t.Mapping[str, t.Collection[str]]
) -> dict[str, set[str]]:
    """Installed packages by what each can be needed as."""
    there: dict[str, set[str]] = {}
    for name in needs:
        for what in (bare_name(name), *provides.get(name, ())):
            there.setdefault(what, set()).add(name)
    return there


def _locks_stack(path: str, pair: t.Sequence[t.Optional[File]]) -> bool:
    """Whether in a file of dnf's or zypper's that holds packages at their versions, lines that name the stack were changed."""
    if not _LOCKS.search(path):
        return False
    before, after = (set(base64.b64decode(file.data).splitlines()) if file else set() for file in pair)
    words = re.findall(r"[A-Za-z][A-Za-z0-9+._-]*", b" ".join(before ^ after).decode("utf-8", "replace"))
    return any(is_stack_package(word) for word in words)


def _reached(
    sure: t.Collection[str],
    changed: set[str],
    needs: t.Mapping[str, t.Sequence[t.Collection[str]]],
    there: t.Mapping[str, t.Collection[str]],
) -> set[str]:
    """What some packages need, and was changed; not by way of what was not, which had all that it needs before."""
    reached = set(sure)
    ahead = sorted(sure)
    while ahead:
        for group in needs.get(ahead.pop(), ()):
            more = {other for what in group for other in there.get(what, ())} & changed - reached
            reached |= more
            ahead += sorted(more)
    return reached


def keys_of_the_driver(changes: Changes) -> set[str]:
    """Names of the keys that RPM trusts since a change, and that a file of the driver brought with it."""
    files = [
        pair[1] for path, pair in changes.get("files", {}).items() if pair[1] is not None and _DRIVER_FILE.search(path)
    ]
    prints = [each for file in files for each in fingerprints(base64.b64decode(file.data))]
    return {name for name in changes.get("packages", {}) if is_key_of(name, prints)}


def of_the_driver(
    changes: Changes,
    known: t.Collection[str],
    wished: t.Collection[str],
    needs: t.Mapping[str, t.Sequence[t.Collection[str]]],
    provides: t.Mapping[str, t.Collection[str]],
    automatic: t.Optional[t.Collection[str]],
    owners: t.Mapping[str, t.Collection[str]],
) -> tuple[Changes, dict[str, str]]:
    """(what a change of the driver did, why each other package, hold or file is not of it) among all that happened meanwhile.

    Others may install packages at the same time. Of the driver are packages of the stack, those that the wish names, those
    that are known to be of it, keys that a file of it brought, and what these need and was changed with them, unless somebody asked for it by name. A package
    that is gone is of it, because nobody can say any more who was in its way. automatic: names that nobody asked for; None where
    the package manager does not tell.

    Others may hold packages and write sources and pins, too. Of the driver are holds of what is of it, and files that it is named in,
    that belong to a package of it (owners: packages by path), that hold packages of the stack, or that are gone.
    """
    changed = changes.get("packages", {})
    there = _givers(needs, provides)
    asked_for_by_us = {name for wish in wished for name in there.get(wish, {wish})}
    sure = {name for name in changed if is_stack_package(name) or name in known or name in asked_for_by_us}
    sure |= keys_of_the_driver(changes)
    reached = _reached(sure, set(changed), needs, there)
    nobodys = None if automatic is None else {bare_name(name) for name in automatic}
    own: dict[str, list[t.Any]] = {}
    others: dict[str, str] = {}
    for name, (old, new) in changed.items():
        if name not in reached and new is not None:
            others[name] = "it came beside the driver, which does not need it"
        elif name not in sure and old is not None and new is not None:
            # a security update, as likely as not
            others[name] = f"it was there before, as {old}, and nobody knows who brought another version"
        elif name not in sure and old is None and nobodys is not None and bare_name(name) not in nobodys:
            others[name] = "somebody asked for it by name"
        else:
            own[name] = [old, new]
    holds: dict[str, list[t.Any]] = {}
    for name, pair in changes.get("holds", {}).items():
        if name in reached or is_stack_package(name):
            holds[name] = pair
        else:
            others.setdefault(name, f"somebody else {'holds' if pair[1] else 'released'} it meanwhile")
    files: dict[str, list[t.Any]] = {}
    for path, pair in changes.get("files", {}).items():
        if (
            pair[1] is None
            or _DRIVER_FILE.search(path)
            or set(owners.get(path, ())) & set(own)
            or _locks_stack(path, pair)
        ):
            files[path] = pair
        else:
            others[path] = "it belongs to somebody else, who wrote it in the meantime"
    return {"packages": own, "holds": holds, "files": files}, others


def _needed(
    remove: t.Collection[str],
    needs: t.Mapping[str, t.Sequence[t.Collection[str]]],
    provides: t.Mapping[str, t.Collection[str]],
) -> dict[str, str]:
    """Packages that cannot be removed, and which one that stays needs each, directly or not."""
    kept: dict[str, str] = {}
    there = _givers(needs, provides)
    while True:
        going = {name for name in remove if name not in kept}
        found: dict[str, str] = {}
        for name in sorted(set(needs) - going):
            for group in needs[name]:
                who = {other for what in group for other in there.get(what, ())}
                if who and who <= going:
                    found.setdefault(min(who), name)
        if not found:
            return kept
        kept.update(found)


def plan_undo(
    changes: Changes,
    now: Snapshot,
    needs: t.Mapping[str, t.Sequence[t.Collection[str]]],
    provides: t.Mapping[str, t.Collection[str]],
) -> Undo:
    """What puts back what a change found, and touches nothing that somebody else has changed since.

    needs: for each installed package the groups of names of which it needs one each. provides: other names of a package.
    """
    undo = Undo([], [], {}, {}, [])
    for name, (old, new) in sorted(changes.get("packages", {}).items()):
        here = now.packages.get(name)
        if here == old:
            continue
        # one that is gone was taken out by an uninstaller of the vendor, or by hand for the same reason
        if here not in (new, None):
            undo.left.append(f"{name} is {here} now, which somebody else has installed since, and stays")
        elif old is None:
            undo.remove.append(name)
        else:
            undo.install.append((name, old.partition(" ")[0]))
    # what is installed at its old version needs what it needed then
    stay = {name: groups for name, groups in needs.items() if name not in dict(undo.install)}
    for name, other in sorted(_needed(undo.remove, stay, provides).items()):
        undo.remove.remove(name)
        undo.left.append(f"{name} stays, since {other} needs it, which this change did not bring")
    for name, (was, is_now) in sorted(changes.get("holds", {}).items()):
        if (name in now.holds) == is_now:
            undo.holds[name] = was
    for path, (before, after) in sorted(changes.get("files", {}).items()):
        here_file = now.files.get(path)
        if here_file == after:
            undo.files[path] = before
        elif here_file != before:
            undo.left.append(f"{path} was changed by somebody else since, and stays")
    return undo


def undone(changes: Changes, now: Snapshot) -> tuple[list[str], list[str]]:
    """(what is as it was before a change, what is not), in words."""
    restored: list[str] = []
    left: list[str] = []
    for name, (old, _new) in sorted(changes.get("packages", {}).items()):
        here = now.packages.get(name)
        if here == old:
            restored.append(f"{name} is out" if old is None else f"{name} is {old}")
        else:
            left.append(f"{name} is {here or 'not there'}, and was {old or 'not there'}")
    for name, (was, _is) in sorted(changes.get("holds", {}).items()):
        held = name in now.holds
        text = "{} is {}".format(name, "held" if held else "not held")
        (restored if held == was else left).append(text)
    for path, (before, _after) in sorted(changes.get("files", {}).items()):
        same = now.files.get(path) == before
        text = "{} is {}".format(path, "out" if before is None else "back")
        (restored if same else left).append(text if same else f"{path} is not as it was")
    return restored, left


def no_way_back(installed: t.Mapping[str, str], offered: t.Collection[tuple[str, str]]) -> list[str]:
    """Packages of the stack, with their versions, that no repository of the node offers: who replaces them cannot put them back."""
    known = {(bare_name(name), version) for name, version in offered}
    return [
        f"{name} {version}"
        for name, version in sorted(installed.items())
        if is_stack_package(name) and (bare_name(name), version.partition(" ")[0]) not in known
    ]


def parse_dpkg_query(
    text: str,
) -> tuple[dict[str, str], list[str], dict[str, list[list[str]]], dict[str, list[str]]]:
    """(versions, holds, needs, provides) of what DPKG_QUERY prints."""
    packages: dict[str, str] = {}
    holds: list[str] = []
    needs: dict[str, list[list[str]]] = {}
    provides: dict[str, list[str]] = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != 7 or fields[2] in ("not-installed", "config-files"):
            continue
        name, version, state, want = fields[:4]
        packages[name] = version if state == "installed" else f"{version} ({state})"
        if want == "hold":
            holds.append(name)
        # "a (>= 1) | b:any, c"
        groups = [group for group in ", ".join(fields[4:6]).split(", ") if group.strip()]
        needs[name] = [
            [re.split(r"[\s(:]", word.strip(), maxsplit=1)[0] for word in group.split("|")] for group in groups
        ]
        provides[name] = [
            re.split(r"[\s(]", word.strip(), maxsplit=1)[0] for word in fields[6].split(",") if word.strip()
        ]
    return packages, holds, needs, provides


DPKG_QUERY = "${binary:Package}\\t${Version}\\t${db:Status-Status}\\t${db:Status-Want}\\t${Depends}\\t${Pre-Depends}\\t${Provides}\\n"
