# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases of charts and operators. Private. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots

__all__ = ["Version", "parsed", "wished_release"]


class Version(t.NamedTuple):
    """A release: its text, its line such as (1, 15), its last number."""

    text: str
    line: tuple[int, int]
    patch: int


def parsed(version: t.Any) -> t.Optional[Version]:
    """A whole release such as 1.15.1, with or without a v; None for anything else, such as a preview."""
    match = re.fullmatch(r"v?([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})", str(version))
    if match is None:
        return None
    major, minor, patch = (int(part) for part in match.groups())
    return Version(f"{major}.{minor}.{patch}", (major, minor), patch)


def wished_release(
    variable: str, version: t.Any, lines: t.Collection[tuple[int, int]], example: str
) -> tuple[t.Optional[Version], list[str]]:
    """(the release that the user names, what is wrong with it). variable: what the wish is called; lines: the known ones."""
    known = ", ".join(map(in_dots, lines))
    if version in (None, ""):
        return None, [f"{variable} is not set: name a release, such as {example} (lines: {known})"]
    release = parsed(version)
    if release is None:
        return None, [
            f"{variable} {version!s:.40} is not a complete release: name one, such as {example} (lines: {known})"
        ]
    if release.line not in lines:
        age = "too old" if release.line < min(lines) else "not known here"
        return None, [f"{variable} {release.text} is {age}: choose a release of one of the lines {known}"]
    return release, []
