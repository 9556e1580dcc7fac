# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states of a change of packages: looked at before, opened, closed, undone, forgotten. Private to the collection."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._discover.dpkg import is_stack_package
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.packages import no_way_back
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.packages_run import Manager, PackagesError, Record

__all__ = ["reach"]

Json = t.Dict[str, t.Any]


def _no_way_back(manager: Manager, check_mode: bool) -> list[str]:
    """What of the driver that is installed could not be installed again."""
    # a driver that was never proved is not what a failure goes back to
    installed = Record(manager).before()
    names = sorted(name for name in installed if is_stack_package(name))
    if not names:
        return []
    failed: list[str] = []
    if not check_mode:
        # a node that nobody has asked for long knows versions that are gone by now, and not those that came
        try:
            manager.refresh()
        except PackagesError as exc:
            failed = [f"what its repositories no longer have ({exc})"]
    return no_way_back(installed, manager.offered(names)) + failed


def reach(manager: Manager, state: str, check_mode: bool, packages: t.Sequence[str] = ()) -> Json:
    """Brings the record of a change to a state; what the module driver_packages returns. In check mode, what would come of it.

    state: as the module has them. packages: those that a change is to install, for the state opened.
    """
    if state == "checked":
        return {"changed": False, "no_way_back": _no_way_back(manager, check_mode)}
    # opened and restored settle what there is before all else, too
    due = manager.unsettled() if state in ("opened", "restored", "settled") else []
    shown: list[Json] = [{"prepared": "".join(f"{each}\n" for each in due)}] if due else []
    if state == "settled":
        if due and not check_mode:
            manager.settle()
        return _told({}, shown)
    record = Record(manager)
    result: Json = {"found": record.found}
    if state == "restored":
        outcome = record.predict() if check_mode else record.undo()
        result.update(outcome._asdict())
        before, after = record.difference
        shown += [{"before": before, "after": after}] if before != after else []
    elif state == "opened" and not check_mode:
        record.open(packages)
    elif not check_mode:
        {"closed": record.close, "forgotten": record.forget}[state]()
    return _told(result, shown)


def _told(result: Json, shown: list[Json]) -> Json:
    return {"changed": bool(shown), **result, **({"diff": shown} if shown else {})}
