# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a capture keeps of the files that read_storage() reads, and how names in them are replaced. Private to the collection."""

from __future__ import annotations

import gzip
import itertools
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._discover.iscsi import INITIATOR_FILE, parse_initiator
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import (
    NFS_SETTING,
    SOCKETS,
    Setting,
    mount_of,
    multipath_settings,
)

__all__ = ["anonymous", "excerpt"]


def _multipath_text(settings: t.Iterable[Setting]) -> list[str]:
    """Lines that give these settings again."""
    lines = []
    for where, group in itertools.groupby(settings, lambda setting: setting[0]):
        lines += [section.split()[0] + " {" for section in where]
        lines += ['{} "{}"'.format(key, value.replace('"', '""')) for _where, key, value in group]
        lines += ["}"] * len(where)
    return lines


def excerpt(path: str, data: bytes) -> bytes:
    """What read_storage() makes its facts of, out of the content of one of the files that it reads; other files as they are.

    For captures: of kernel configurations, mounts, sockets and the configurations of multipathd and NFS nothing else is recorded.
    """
    text = data.decode("utf-8", "surrogateescape")
    lines = text.splitlines()
    if path == "/proc/config.gz":
        try:
            lines = gzip.decompress(data).decode("utf-8", "replace").splitlines()
        except Exception:
            return b""
        kept = [line for line in lines if "CONFIG_NFS_" in line]
        return gzip.compress("".join(line + "\n" for line in kept).encode("utf-8"), 9, mtime=0)
    if re.fullmatch(r"/boot/config-[^/]+|(/usr)?/lib/modules/[^/]+/config", path):
        kept = [line for line in lines if "CONFIG_NFS_" in line]
    elif re.fullmatch(r"/proc/[^/]+/mountinfo", path):
        # neither sources nor options: they name servers and users
        kept = []
        for line in lines:
            if mount_of(line) is not None:
                before, dash, after = line.partition(" - ")
                kept.append(before + dash + after.split(" ")[0] + " none rw")
    elif re.fullmatch(r"/proc/(.+/)?net/unix", path):
        kept = [line for line in lines if line.rstrip("@").endswith(tuple(" " + name for name in SOCKETS.values()))]
    elif path == "/etc/multipath.conf" or ("/multipath/" in path and path.endswith(".conf")):
        kept = _multipath_text(
            (where, key, value)
            for where, key, value in multipath_settings(text)
            if where and (where[0].startswith("blacklist") or key == "config_dir")
        )
    elif re.match(r"/etc/nfsmount\.conf(\.d/|$)", path):
        # sections name servers and directories
        kept = [
            re.sub(r"^(\[\s*[^\s\]]+).*", r"\1 ]", line.strip()) for line in lines if NFS_SETTING.match(line.strip())
        ]
    else:
        return data
    return "".join(line + "\n" for line in kept).encode("utf-8", "surrogateescape")


def anonymous(path: str, text: str, alias: t.Callable[[str, str], int], kept: t.Collection[str]) -> t.Optional[str]:
    """The text of a file of an excerpt() with names of disks, targets and directories replaced; None for other files.

    alias gives the number of a thing of a sort. kept: directories under which mount points stay what they are.
    """
    if path == INITIATOR_FILE:
        initiator = parse_initiator(text)
        name = initiator.name and f"InitiatorName=iqn.2000-01.example:{alias('initiator', initiator.name.lower())}\n"
        return (name or "") + ("GenerateName=yes\n" if initiator.generate else "")
    if re.fullmatch(r"/sys/.*/iscsi_session/[^/]+/targetname", path):
        return f"iqn.2000-01.example:target{alias('target', text.strip())}\n"
    if re.fullmatch(r"/sys/.*/dm-\d+/dm/name", path):
        return f"map{alias('map', text.strip())}\n"
    if re.fullmatch(r"/sys/.*/dm-\d+/dm/uuid", path):
        return text.strip().partition("-")[0] + "-\n"
    if path == "/etc/multipath.conf" or ("/multipath/" in path and path.endswith(".conf")):
        settings = [
            (where, key, f"wwid{alias('wwid', value)}" if key == "wwid" and value not in ("*", ".*") else value)
            for where, key, value in multipath_settings(text)
        ]
        return "".join(line + "\n" for line in _multipath_text(settings))
    if re.fullmatch(r"/proc/[^/]+/mountinfo", path):
        lines = []
        for line in text.splitlines():
            fields = line.split(" ")
            if len(fields) > 4 and not any((place + "/").startswith(fields[4].rstrip("/") + "/") for place in kept):
                fields[3:5] = ["/", f"/mnt/{alias('mount', fields[4])}"]
            lines.append(" ".join(fields) + "\n")
        return "".join(lines)
    return None
