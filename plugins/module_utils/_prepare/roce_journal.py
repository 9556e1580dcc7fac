# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What takes a change of RoCE settings back, kept on the node until the change has finished. Private to the collection. Pure.

A run that is killed leaves settings of which nobody knows any more what they were. The next run goes on from there, and where it
fails, it puts back what was before both. An entry is {path, value} (a file of the kernel), {command} or {file, before, link, ours}; ours:
digests of what a run may have written there. live: whether the setting goes with a boot.
"""

from __future__ import annotations

import base64
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.change import snapshot
from ansible_collections.fabric.rdma.plugins.module_utils._base.digest import digest
from ansible_collections.fabric.rdma.plugins.module_utils._base.remembered import RememberedError
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce import Plan, Step

__all__ = ["Old", "content", "key_of", "load_journal", "made_journal"]

Json = t.Dict[str, t.Any]
# What is at a path of /etc: its content, and where a link leads to.
Old = t.Tuple[t.Optional[bytes], t.Optional[str]]


def key_of(step: Step) -> str:
    """What a step changes, which a later step may change again."""
    return step.path or f"{step.setting} {step.target}"


def _of_step(step: Step) -> t.Optional[Json]:
    if step.path is not None:
        return None if step.old is None else {"path": step.path, "value": step.old, "live": True}
    # the firmware has what it was told, also after a boot
    return {"command": list(step.undo), "live": step.setting != "link_type"} if step.undo else None


def _of_file(path: str, data: t.Optional[bytes], old: Old) -> Json:
    before = None if old[0] is None else base64.b64encode(old[0]).decode("ascii")
    return {"file": path, "before": before, "link": old[1], "ours": [digest(data)], "live": False}


def content(entry: t.Mapping[str, t.Any]) -> t.Optional[bytes]:
    """What a file was, None when there was none."""
    return None if entry["before"] is None else base64.b64decode(entry["before"])


def made_journal(
    facts: t.Mapping[str, t.Any],
    plan: Plan,
    files: t.Mapping[str, Old],
    boot: t.Optional[str],
    earlier: t.Optional[Json],
) -> Json:
    """The journal of a change that is about to begin: {boot_id, devices, entries}, the entries by what they are of, the oldest first.

    facts: those that the plan was made of. files: what is at the paths that it writes. boot: the ID of this boot. earlier: the journal of a
    run that never finished, whose values count, since they are older.
    """
    earlier = earlier or {"boot_id": boot, "devices": snapshot(facts)["devices"], "entries": {}}
    same_boot = earlier["boot_id"] == boot
    entries = {key: entry for key, entry in earlier["entries"].items() if same_boot or not entry["live"]}
    now = {key_of(step): _of_step(step) for step in plan.steps}
    now.update((path, _of_file(path, data, files[path])) for path, data in plan.files.items())
    for key, entry in now.items():
        if entry is None:
            continue
        if key in entries and "ours" in entry:
            entries[key] = {**entries[key], "ours": [*entries[key]["ours"], *entry["ours"]]}
        entries.setdefault(key, entry)
    return {"boot_id": boot, "devices": earlier["devices"], "entries": entries}


def load_journal(value: t.Optional[Json], path: str) -> t.Optional[Json]:
    """The journal that an earlier run has left, None without one. value: what was remembered."""
    if value is None:
        return None
    try:
        for entry in value["entries"].values():
            if "file" in entry:
                content(entry)
                whole = isinstance(entry["file"], str) and isinstance(entry["ours"], list)
            elif "path" in entry:
                whole = isinstance(entry["path"], str) and isinstance(entry["value"], str)
            else:
                whole = bool(entry["command"]) and all(isinstance(word, str) for word in entry["command"])
            if not whole or not isinstance(entry["live"], bool):
                raise ValueError(entry)
        return {"boot_id": value["boot_id"], "devices": list(value["devices"]), "entries": value["entries"]}
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise RememberedError(
            f"{path} is damaged: it does not say what RoCE settings were before a change that never finished",
            "see that the settings are as they should be, and remove it",
        ) from exc
