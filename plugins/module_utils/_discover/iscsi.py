# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file in which open-iscsi keeps the name of its host, and sessions that are open. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree

__all__ = ["INITIATOR_FILE", "SESSIONS", "Initiator", "open_sessions", "parse_initiator", "value_of"]

INITIATOR_FILE = "/etc/iscsi/initiatorname.iscsi"
# drivers/scsi/scsi_transport_iscsi.c
SESSIONS = "/sys/class/iscsi_session"

# isspace(3) in the C locale: what iscsid takes off both ends of a name. Lines end with a line feed for it, and with nothing else.
_SPACE = " \t\n\v\f\r"


class Initiator(t.NamedTuple):
    """What the file says: the name (None when it has none), and whether a new one is to be made at the next start."""

    name: t.Optional[str]
    generate: bool


def value_of(line: str) -> t.Optional[str]:
    """What a line gives as the name: usr/iscsi_util.c of open-iscsi, cfg_get_string_param(). None when it gives none."""
    at = line.find("InitiatorName")
    if at < 0 or 0 <= line.find("#") < at:
        return None
    return line[at:].partition("=")[2].strip(_SPACE) or None


def parse_initiator(text: str) -> Initiator:
    """Name and order of a file's text.

    The first line with a name counts, as for iscsid. ``GenerateName=yes`` at the start of a line asks for a new name, as in
    Debian's startup-checks.sh, which is run before iscsid.
    """
    lines = text.split("\n")
    names = [value for value in map(value_of, lines) if value is not None]
    return Initiator(names[0] if names else None, any(line.startswith("GenerateName=yes") for line in lines))


def open_sessions(tree: Tree, base: str = SESSIONS) -> list[dict[str, t.Any]]:
    """[{name, target, state}] of the sessions that are open; target and state are None where the kernel does not tell."""
    return [
        {
            "name": name,
            "target": tree.text(f"{base}/{name}/targetname"),
            "state": tree.text(f"{base}/{name}/state"),
        }
        for name in sorted(tree.names(base), key=natural_key)
    ]
