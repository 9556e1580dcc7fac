# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the name of a host as an iSCSI initiator has to change, and to what. Private to the collection. Pure.

Names follow RFC 3720, section 3.2.6.3: ``iqn.YYYY-MM.reversed.domain``, then a colon and whatever makes it unique.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._discover.iscsi import parse_initiator, value_of

__all__ = ["InitiatorError", "check_name", "insist_on_no_session", "new_name", "reason_to_rename", "rewrite"]

_IQN = re.compile(r"iqn\.[0-9]{4}-(0[1-9]|1[0-2])\.[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[a-z0-9.:-]+)?")
_OTHER = re.compile(r"eui\.[0-9a-f]{16}|naa\.([0-9a-f]{16}|[0-9a-f]{32})")

# RFC 3720, section 3.2.6.1.
_MAX_BYTES = 223

_HEADER = (
    "# The name of this host as an iSCSI initiator. No two hosts may have the same: their sessions would end each other.\n"
    "# Whoever changes it also changes what targets with access lists know this host by.\n"
)


class InitiatorError(FabricError):
    """A name or a file that cannot be used."""


def check_name(name: str) -> str:
    """The name in the form in which names are compared, InitiatorError when it is none."""
    folded = name.lower()
    if len(folded.encode("utf-8")) > _MAX_BYTES or not (_IQN.fullmatch(folded) or _OTHER.fullmatch(folded)):
        raise InitiatorError(
            f"'{name!s:.230}' is not the name of an iSCSI initiator; expected iqn.YYYY-MM.reversed.domain:unique "
            f"(letters, digits, '.', '-' and ':', at most {_MAX_BYTES} characters), such as iqn.2016-04.com.open-iscsi:4f1c5a7d90e2"
        )
    return folded


def reason_to_rename(text: t.Optional[str], wanted: t.Optional[str], taken: t.Iterable[str]) -> t.Optional[str]:
    """Why the host needs another name than its file has, None when it does not.

    text: the file, None when it is missing. wanted: the name that is asked for, folded. taken: names that other hosts have.
    InitiatorError when another host has the wanted one.
    """
    others = {name.lower() for name in taken}
    if wanted is not None and wanted in others:
        raise InitiatorError(f"name '{wanted}' is among the names in taken: another host has it")
    if text is None:
        return "the file is missing"
    current = parse_initiator(text)
    if current.name is None:
        return "the file has no InitiatorName"
    if current.generate:
        return "the file orders a new name with GenerateName=yes"
    if wanted is not None:
        return None if current.name.lower() == wanted else "another name is asked for"
    return "another host has this name, too" if current.name.lower() in others else None


def insist_on_no_session(sessions: t.Iterable[t.Mapping[str, t.Any]], path: str, reason: str) -> None:
    """InitiatorError while sessions are open: their targets know them by the old name."""
    names = [str(session["target"] or session["name"]) for session in sessions]
    if names:
        raise InitiatorError(
            f"{path}: the name has to change ({reason}), but iSCSI sessions are open: {', '.join(names)}",
            "Close them (drain the node, detach its volumes, `iscsiadm -m session` must be empty), then run again",
        )


def new_name(prefix: str, taken: t.Iterable[str], random: t.Callable[[], str]) -> str:
    """A name below a prefix that nobody has. random gives hexadecimal digits, as many as iscsi-iname(8) appends: twelve."""
    check_name(prefix)
    others = {name.lower() for name in taken}
    for _attempt in range(100):
        name = check_name(f"{prefix}:{random()}")
        if name not in others:
            return name
    raise InitiatorError(f"no name below '{prefix}' is free: the source of random numbers repeats itself")


def rewrite(text: t.Optional[str], name: str) -> str:
    """The text of the file with this name and no order to make another. Comments, aliases and the rest stay as they are."""
    if text is None:
        return f"{_HEADER}InitiatorName={name}\n"
    lines: list[str] = []
    written = False
    # lines keep their ends: a file with carriage returns has them afterwards
    end = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    if text and not text.endswith("\n"):
        text += end
    for line in text.split("\n")[:-1]:
        if line.startswith("GenerateName="):
            continue
        if value_of(line) is not None:
            if written:
                continue
            line, written = "InitiatorName={}{}".format(name, "\r" if line.endswith("\r") else ""), True
        lines.append(line + "\n")
    if not written:
        lines.append("InitiatorName=" + name + end)
    return "".join(lines)
