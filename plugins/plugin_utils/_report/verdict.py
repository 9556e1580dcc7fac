# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report says of all groups in a sentence or two. Private to the collection. Pure."""

from __future__ import annotations

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    WORSE,
    Json,
    plural,
)

__all__ = ["verdict_of"]


def verdict_of(groups: list[Json], notes: list[Json], fallen: list[str], failed: bool) -> Json:
    """The headline and a line below it. fallen: nodes whose change did not finish; failed: steps of the run did."""
    if not groups:
        return {"state": "warn", "text": "No RDMA group to report on", "detail": "Set rdma_groups in the inventory."}
    bad = [group for group in groups if group["state"] == "bad"]
    state, text = ("bad", _trouble(groups, bad)) if bad else _no_trouble(groups, notes)
    if not bad and state == "bad":
        text = f"A problem was found that is not of one group; {_inside(text)}"
    if fallen:
        nodes_fell = "1 node" if len(fallen) == 1 else f"{len(fallen)} nodes"
        which = ", ".join(fallen[:4]) + (" and others" if len(fallen) > 4 else "")
        state = "bad"
        text = f"{nodes_fell} did not finish: {which}" + (f"; {_inside(text)}" if bad else "")
    elif failed:
        state, text = "bad", f"The run did not do all of its work; {_inside(text)}"
    return {
        "state": state,
        "text": text,
        "detail": f"{_ports(groups)} {_traffic(groups)}",
    }


def _ports(groups: list[Json]) -> str:
    """How many nodes can be used, as far as plans say which of their ports are wanted."""
    planned = [group for group in groups if group["planned"]]
    if not planned:
        return "No plan here says which ports are usable."
    nodes, ready = (sum(group[key] for group in planned) for key in ("hosts", "ready"))
    return f"{ready} of {plural(nodes, 'node')} {'have' if nodes != 1 else 'has'} a usable port."


def _inside(text: str) -> str:
    """A headline as a part of another one."""
    return text[:1].lower() + text[1:]


def _trouble(groups: list[Json], bad: list[Json]) -> str:
    """The headline where groups have a problem."""
    if len(groups) == 1:
        return f"Group {_names(bad)} has a problem"
    have = "has" if len(bad) == 1 else "have"
    return f"{len(bad)} of {len(groups)} groups {have} a problem: {_names(bad)}"


def _no_trouble(groups: list[Json], notes: list[Json]) -> tuple[str, str]:
    """State and headline where nothing is wrong."""
    state = max((item["state"] for item in [*groups, *notes]), key=WORSE.__getitem__)
    unproved = [group for group in groups if not group["measurements"]]
    text = _readiness(groups, unproved)
    if state == "bad":
        return state, text
    if state == "warn":
        return state, text + ". Read the warnings"
    return state if unproved else "ok", text


def _readiness(groups: list[Json], unproved: list[Json]) -> str:
    """What is planned, and what of it was measured."""
    planless = [group for group in groups if not group["planned"]]
    if planless:
        return (
            f"No group has a plan here: {_names(planless)}"
            if len(planless) == len(groups)
            else f"{len(planless)} of {len(groups)} groups {'has' if len(planless) == 1 else 'have'} no plan here: {_names(planless)}"
        )
    which = {1: f"Group {groups[0]['name']} is", 2: "Both groups are"}.get(len(groups), f"All {len(groups)} groups are")
    if not unproved:
        return which + " ready"
    if len(unproved) == len(groups):
        return which + " planned, not measured"
    proved = len(groups) - len(unproved)
    return (
        f"{proved} of {len(groups)} groups {'is' if proved == 1 else 'are'} ready; not measured yet: {_names(unproved)}"
    )


def _traffic(groups: list[Json]) -> str:
    """What is known of the traffic between the nodes and their Pods, in a sentence or two."""
    measured, failed, untested = (sum(group[key] for group in groups) for key in ("measurements", "failed", "untested"))
    earlier = [group for group in groups if group["earlier"] and group["measurements"]]
    if measured:
        pods = sum(group["between_pods"] for group in groups)
        who = "Pods" if pods == measured else f"nodes, {pods} of them between Pods" if pods else "nodes"
        text = "{} between {}, {}.".format(
            plural(measured, "measurement"),
            who,
            "all within their limits" if not failed else f"{failed} of them not within the limit",
        )
    else:
        text = "Nothing has been measured between nodes yet." if not untested else "Nothing was measured between nodes."
    if untested:
        text += f" {plural(untested, 'port')} could not be measured."
    if earlier:
        text += f" Measured earlier, not in this run: {_names(earlier)}."
    return text


def _names(groups: list[Json]) -> str:
    return ", ".join(group["name"] for group in groups[:4]) + (" and others" if len(groups) > 4 else "")
