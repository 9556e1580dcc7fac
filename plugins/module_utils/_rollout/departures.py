# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that earlier runs know and this one does not have: a plan shrinks when somebody says so, never by accident. Private. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.words import first_of
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Plan

__all__ = ["departures", "refusal", "removal_in_words", "run_number", "slice_in_words", "slice_suffix"]

# How many hosts a sentence names.
_NAMED = 10

# How whoever starts a slice says so.
_SLICE = re.compile(r"(?:awx_|tower_)?job_slice_(?P<what>count|number)")
# AWX (awx/main/models, awx_meta_vars() and create_unified_job()) does not: a sliced job is a workflow that has the name of its job
# template, and all that a slice of it can see is that.
_MAKERS = ("awx", "tower")


def departures(
    plan: Plan,
    facts: t.Iterable[str],
    groups: t.Mapping[str, t.Collection[str]],
    names: t.Collection[str],
    remove: t.Collection[str],
) -> tuple[dict[str, t.Optional[str]], dict[str, t.Optional[str]], list[str]]:
    """(hosts that are missing, hosts that are taken out on purpose, names of remove that are not out), the first two with their group.

    plan: of earlier runs, facts: the hosts that they discovered. groups: those of the inventory with their hosts. names: the groups
    that this run plans. remove: hosts and groups that somebody takes out. A host that another group of names has now has moved, and
    one of a group that this run does not plan stays where it was. The group is None for a host that was only discovered. What an
    earlier run has taken out is taken out while remove names it: that run may have ended before the cluster was changed, and
    the nodes alone do not tell of which group they were.
    """
    staying = {str(host): name for name in names for host in groups.get(name, ())}
    everyone = {str(host) for hosts in groups.values() for host in hosts}
    gone: dict[str, t.Optional[str]] = {}
    entries = sorted((group, set(entry["hosts"])) for group, entry in plan["groups"].items())
    # in a group that this run does not plan, or moved from one such group to another
    there = {str(host) for group, _own in entries for host in groups.get(group, ())}
    kept = {host for group, own in entries if group not in names for host in own & there}
    for group, own in entries:
        gone.update((host, group) for host in own - kept if host not in staying)
    for host in facts:
        if host not in everyone:
            gone.setdefault(str(host), None)
    asked = set(remove)
    for host, last in sorted(plan.get("removed", {}).items()):
        if host not in staying and (host in asked or last in asked):
            gone.setdefault(host, last)
    removed = {host: gone[host] for host in sorted(gone) if host in asked or gone[host] in asked}
    missing = {host: gone[host] for host in sorted(gone) if host not in removed}
    known = {*names, *plan["groups"]}
    still = sorted(name for name in asked if name in {*staying, *kept} or (name in known and groups.get(name)))
    return missing, removed, still


def _by_group(hosts: t.Mapping[str, t.Optional[str]]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for host in sorted(hosts):
        groups.setdefault(hosts[host] or "", []).append(host)
    return [
        first_of(groups[name], _NAMED) + (f" of group {name}" if name else ", whose facts are known")
        for name in sorted(groups, key=lambda name: (not name, name))
    ]


def _slice(variables: t.Mapping[str, t.Any]) -> t.Optional[tuple[str, list[str]]]:
    """(which slice a run is, the variables that say so), None when it is none."""
    found: dict[str, tuple[str, t.Any]] = {}
    for name in sorted(str(name) for name in variables if _SLICE.fullmatch(str(name))):
        found.setdefault(t.cast("t.Match[str]", _SLICE.fullmatch(name)).group("what"), (name, variables[name]))
    name, count = found.get("count", ("", None))
    # a number that cannot be read says nothing, and what AWX itself says counts
    if re.fullmatch(r"[0-9]{1,9}", str(count)):
        if int(str(count)) <= 1:
            return None
        number = found.get("number")
        which = (
            f"slice {str(number[1])[:9]} of {count} of a sliced job"
            if number
            else f"one of {count} slices of a sliced job"
        )
        return which, [pair[0] for pair in (number, (name, count)) if pair]
    for maker in _MAKERS:
        workflow, template = maker + "_workflow_job_name", maker + "_job_template_name"
        if workflow in variables and variables[workflow] == variables.get(template):
            return "a slice of a sliced job", [workflow, template]
    return None


def slice_in_words(variables: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """That a run is a slice of a sliced job, with the variables that say so; None when it is none.

    AWX gives each slice an inventory that has its hosts only.
    """
    found = _slice(variables)
    if found is None:
        return None
    which, names = found
    return (
        "this run is {} ({}): it sees its own hosts only; a plan, a rollout and a report are for all of them. Set the number of "
        "slices of the job template to 1; Ansible works on many hosts at the same time by itself (forks){}".format(
            which,
            ", ".join(names),
            ""
            if "count" in names[-1]
            else ". A workflow that has the name of its job template looks the same: give it another one",
        )
    )


def slice_suffix(variables: t.Mapping[str, t.Any]) -> str:
    """What the name of an artifact ends with: C(_) and the number of the job in a slice, since AWX joins what the slices of a job tell.

    Without that, what the last slice tells would count for all. Empty for a whole run.
    """
    if _slice(variables) is None:
        return ""
    return f"_{_number(variables, 'job_id')}"


def run_number(variables: t.Mapping[str, t.Any]) -> int:
    """A number that all slices of a sliced job have together, and that a later job has a larger one of. 0 where no AWX says it.

    AWX numbers jobs and workflows in one row, and a sliced job is a workflow (awx_meta_vars()).
    """
    return _number(variables, "job_id" if _slice(variables) is None else "workflow_job_id")


def _number(variables: t.Mapping[str, t.Any], what: str) -> int:
    numbers = (str(variables[f"{maker}_{what}"]) for maker in _MAKERS if f"{maker}_{what}" in variables)
    return next((int(number) for number in numbers if re.fullmatch("[0-9]{1,18}", number)), 0)


def refusal(missing: t.Mapping[str, t.Optional[str]], still: t.Sequence[str], sliced: t.Optional[str]) -> str:
    """Why a run must not plan, with what to do; empty when it may."""
    sentences = [sliced[0].upper() + sliced[1:] + "."] if sliced else []
    if missing:
        names = ", ".join(sorted(missing)[:_NAMED]) + (", ..." if len(missing) > _NAMED else "")
        perhaps = "" if sliced else " (this one may be a copy that lacks them, or a slice of it)"
        sentences.append(
            f"{len(missing)} hosts that earlier runs know are not in the RDMA groups of this inventory: {'; '.join(_by_group(missing))}. "
            f"Their resource would go. Run with the whole inventory{perhaps}, or say that they may go: "
            f"rdma_rollout.remove: [{names}] (hosts or groups)."
        )
    if still:
        sentences.append(
            f"rdma_rollout.remove names {first_of(still, _NAMED)}, which groups of this inventory that are planned for still have, in this "
            "run or an earlier one: take it out of the inventory's groups, or out of remove. A group that rdma_groups does not "
            "name stays as it is."
        )
    return " ".join([*sentences, "Nothing was written or changed."]) if sentences else ""


def removal_in_words(removed: t.Mapping[str, t.Optional[str]]) -> list[str]:
    """What a plan says of hosts that are taken out on purpose."""
    return [f"taken out on purpose (rdma_rollout.remove): {'; '.join(_by_group(removed))}"] if removed else []
