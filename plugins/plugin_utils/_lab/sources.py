# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's own apt sources, and which of them the image is made from. Private to the collection."""

from __future__ import annotations

import glob
import os
import re
import typing as t
from dataclasses import dataclass

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import LAB_SUITE
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError

__all__ = [
    "AptSource",
    "choose_sources",
    "machine_sources",
    "parse_deb822",
    "parse_one_line",
    "parse_os_release",
]


@dataclass(frozen=True)
class AptSource:
    """One archive of the machine's own apt, as far as the image needs to know it.

    Follows sources.list(5): `signed_by` is a path, or "inline" for a key inside a deb822 stanza, or None.
    """

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str | None = None

    def line(self) -> str:
        """The source in one-line style."""
        option = f"[signed-by={self.signed_by}] " if self.signed_by else ""
        return f"deb {option}{self.uri} {self.suite} {' '.join(self.components)}"


def parse_os_release(text: str) -> dict[str, str]:
    """os-release(5) as a dict; quotes removed."""
    result: dict[str, str] = {}
    for line in text.splitlines():
        name, separator, value = line.strip().partition("=")
        if separator and not name.startswith("#"):
            result[name] = value.strip("\"'")
    return result


def parse_one_line(text: str) -> list[AptSource]:
    """The `deb` lines of a sources.list; `deb-src` and comments are left out."""
    result: list[AptSource] = []
    for raw in text.splitlines():
        line = raw.split("#", 1)[0].strip()
        match = re.match(
            r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<components>.*)$", line
        )
        if match is None:
            continue
        options = {
            option.partition("=")[0].lower(): option.partition("=")[2] for option in (match["options"] or "").split()
        }
        if not _for_this_architecture(options.get("arch", "").replace(",", " ")):
            continue
        result.append(
            AptSource(
                match["uri"], match["suite"], tuple(match["components"].split()), options.get("signed-by") or None
            )
        )
    return result


def parse_deb822(text: str) -> list[AptSource]:
    """The enabled binary sources of a *.sources file (deb822 style), one per URI and suite."""
    result: list[AptSource] = []
    for stanza in re.split(r"\n[ \t]*\n", "\n".join(line for line in text.splitlines() if not line.startswith("#"))):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line[:1] in (" ", "\t"):
                if name:
                    fields[name] += "\n" + line.strip()
                continue
            name, separator, value = line.partition(":")
            name = name.strip().lower()
            if not separator:
                name = ""
                continue
            fields[name] = value.strip()
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in (
            "no",
            "false",
            "0",
            "off",
        ):
            continue
        if not _for_this_architecture(fields.get("architectures", "")):
            continue
        signed_by: str | None = fields.get("signed-by") or None
        if signed_by is not None and "BEGIN PGP" in signed_by:
            signed_by = "inline"
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                result.append(AptSource(uri, suite, tuple(fields.get("components", "").split()), signed_by))
    return result


def _for_this_architecture(architectures: str) -> bool:
    """Whether a source's architecture list (blank: all) has the one that the lab uses."""
    return not architectures.strip() or "amd64" in architectures.split()


def machine_sources(root: str = "/") -> list[AptSource]:
    """The sources that the machine's own apt is set to, in the order in which apt reads them."""
    result: list[AptSource] = []
    directory = os.path.join(root, "etc/apt")
    paths = [
        os.path.join(directory, "sources.list"),
        *sorted(glob.glob(os.path.join(directory, "sources.list.d", "*"))),
    ]
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                text = stream.read()
        except OSError:
            continue
        if path.endswith(".sources"):
            result.extend(parse_deb822(text))
        elif path.endswith(".list"):
            result.extend(parse_one_line(text))
    return result


def choose_sources(sources: t.Sequence[AptSource], os_release: t.Mapping[str, str]) -> tuple[str, list[AptSource]]:
    """The suite of the image, and the sources that have it.

    The distribution's own archive (and its -updates and -security parts) is recognised by the suite's name, the component `main`
    and by not being signed with somebody else's key. On Debian the suite is always `LAB_SUITE`, from the same mirror.
    Raises LabError when the machine is neither Debian nor Ubuntu, or no source fits.
    """
    distribution = os_release.get("ID", "unknown")
    codename = os_release.get("VERSION_CODENAME") or os_release.get("UBUNTU_CODENAME") or ""
    if distribution not in ("debian", "ubuntu"):
        raise LabError(
            f"the lab builds its image from the machine's own apt sources, and this machine is {distribution!r} (os-release ID), "
            "not debian or ubuntu: run the lab on Debian or Ubuntu"
        )
    names = {codename} | ({"stable", "testing", "unstable", "sid", "oldstable"} if distribution == "debian" else set())
    names.discard("")
    suite = LAB_SUITE if distribution == "debian" else codename
    chosen: list[AptSource] = []
    for source in sources:
        base, separator, pocket = source.suite.partition("-")
        if separator and pocket not in ("updates", "security"):
            continue
        keyring = os.path.basename(source.signed_by or "")
        own_key = source.signed_by is None or keyring.startswith(f"{distribution}-archive-")
        if base not in names or "main" not in source.components or not own_key:
            continue
        # unstable has no such parts; bookworm has
        result = AptSource(source.uri, suite + separator + pocket, source.components, source.signed_by)
        if result not in chosen:
            chosen.append(result)
    if not any(source.suite == suite for source in chosen):
        raise LabError(
            "no apt source of this machine is the archive of {} {} (looked for one of the suites {} with component main in "
            "/etc/apt/sources.list and /etc/apt/sources.list.d; found {}): add the distribution's own archive to apt".format(
                distribution,
                codename,
                ", ".join(sorted(names)),
                ", ".join(s.suite for s in sources) or "no source at all",
            )
        )
    return suite, chosen
