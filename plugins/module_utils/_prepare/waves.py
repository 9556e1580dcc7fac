# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order nodes are changed, and whether the next ones may be. Private to the collection. Pure.

Ansible counts failures in its own way: a host that fails in a block with an ``always`` section and one that becomes unreachable do
not count for max_fail_percentage, and a batch of which every host fails ends all playbooks of the run, the report with them. So
nothing here counts failures. Each node says what became of it (``begun``, then ``finished``, ``failed`` or ``worse``), and a turn
begins only when every node of the turns before has said ``finished``. A node that has begun and says nothing more was lost.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base import places
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import first_of
from ansible_collections.fabric.rdma.plugins.module_utils._plan.shares import share_of
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import VARIABLES

__all__ = [
    "PREPARE",
    "ROLES",
    "STAYED",
    "earlier",
    "gone",
    "outcome_lines",
    "outcomes",
    "plan_turns",
    "prepared",
    "refusals",
    "share",
    "stops",
    "told_elsewhere",
]

Json = t.Dict[str, t.Any]

_MAX_MESSAGE = 2000
_MAX_SAID = 200
# Names of hosts that were held back.
_MOST_HELD = 8
# What ansible-core puts before the message of a module or a filter, by version.
_PREFIXES = re.compile(
    r"\A(?:(?:Task|Action|Module) failed: |Finalization of task args for '[^']*' failed: |Error while resolving value for '[^']*': "
    r"|The filter plugin '[^']*' failed: |Unexpected templating type error .*?: )+"
)


# Those that change nodes, in the order in which they have to run.
ROLES = ("ofed", "roce_host", "storage_prereqs", "containerd_memlock", "nvidia_peermem", "nvidia_imex")


def _checked(variable: str, value: t.Any) -> None:
    found = VARIABLES[variable](variable, value)
    if found:
        raise WishError(". ".join(found))


def share(value: t.Any, count: int, variable: str) -> int:
    """How many of count hosts a number (3, "3") or a percentage ("10%") stands for: at least one, percentages rounded down.

    The same as Ansible makes of ``serial`` (ansible.utils.helpers.pct_to_int). WishError for anything else. variable: whose value it is.
    """
    _checked(variable, value)
    found = share_of(value)
    if found is None:
        raise WishError(f"{variable} is {value!r}; expected a number of nodes, or a percentage of them")
    return max(1, found.number * count // 100) if found.percent else found.number


def _own_share(limit: t.Any, total: int, slices: t.Any, needed: bool) -> int:
    """How many hosts a slice may have out of service, so that all slices together stay within the limit."""
    found = re.match(r"[1-9][0-9]{0,8}\Z", str(slices).strip(), re.ASCII)
    count = int(found.group(0)) if found else 1
    most = share(limit, total * count, "rdma_max_unavailable")
    if needed and most < count:
        raise WishError(
            f"rdma_max_unavailable is {limit!r}, and each of {count} slices (rdma_slices) takes at least one host out of service: set it to "
            f"{count} or more, or prepare these hosts without slices"
        )
    return 1 if str(slices).lower() in ("true", "yes", "on") else max(1, most // count)


def plan_turns(
    hosts: t.Sequence[str],
    serial: t.Any,
    limit: t.Any,
    total: int,
    away: t.Collection[str] = (),
    interrupted: t.Collection[str] = (),
    slices: t.Any = False,
) -> list[Json]:
    """Turns in the order in which they are taken, each {number, wave, level, hosts}; numbers and waves count from 1, levels from 0.

    hosts: those on which something is to be done, in the order of the inventory. serial: the sizes of the waves, numbers or
    percentages of these hosts, the last one repeated; a level is the entry of it that a wave comes from. limit: how many of `away`
    (hosts that are drained or restarted) may be out of service at the same time, a number or a percentage of `total` hosts: a wave with
    more of them takes several turns. Those of `interrupted`, whose last change never finished, come first, so that a run
    that was killed begins where it was. slices: `rdma_slices`. These hosts are one of so many slices of about the same size, which change
    at the same time and count those that are away together: each has its part of the limit. Where true says that there are slices, and
    not how many, each takes its hosts out of service one by one.

    Turns of one level may be taken in any order, those of a lower level come first. WishError for wishes that make no sense.
    """
    most = _own_share(limit, total, slices, bool(away))
    # a run that was killed may have left them out of service, whatever is still to be done there
    away = {*away, *interrupted}
    _checked("rdma_serial", serial)
    levels = serial if isinstance(serial, (list, tuple)) else [serial]
    sizes = [share(entry, len(hosts), "rdma_serial") for entry in levels]
    waiting = [host for host in hosts if host in interrupted] + [host for host in hosts if host not in interrupted]
    turns: list[Json] = []
    wave = 0
    while waiting:
        level = min(wave, len(sizes) - 1)
        wave += 1
        now, waiting = waiting[: sizes[level]], waiting[sizes[level] :]
        leave = [host for host in now if host in away]
        stay = [host for host in now if host not in away]
        first, leave = stay + leave[:most], leave[most:]
        for chosen in (first, *(leave[start : start + most] for start in range(0, len(leave), most))):
            inside = set(chosen)
            turns.append(
                {
                    "number": len(turns) + 1,
                    "wave": wave,
                    "level": level,
                    # as they stand in the wave
                    "hosts": [host for host in now if host in inside],
                }
            )
    return turns


def _told(state: t.Optional[t.Mapping[str, t.Any]], own_turn: bool) -> str:
    """What became of a host, in one word.

    state: what the host has said last, {state, ...}, None when it has not begun. own_turn: whether its turn is the one that is
    being taken, in which it may still be at work.
    """
    if not state or not state.get("state"):
        return "waiting"
    if state.get("state") == "begun" and not own_turn:
        return "lost"
    return str(state.get("state"))


def stops(hosts: t.Mapping[str, t.Mapping[str, t.Any]], number: int) -> list[str]:
    """Why the turn of a number must not begin, in words; an empty list lets it.

    hosts: by name {turn, level, state}, state as _told() takes it. All that has begun must have finished, and everything of a lower
    level must have begun. What the turn's own hosts have said is not asked.
    """
    levels = {int(one["turn"]): int(one["level"]) for one in hosts.values()}
    own = levels.get(number, 0)
    reasons: list[str] = []
    held: list[str] = []
    for name in sorted(hosts):
        one = hosts[name]
        if int(one["turn"]) == number:
            continue
        state = one.get("state") or None
        word = _told(state, False)
        if word in ("failed", "worse", "lost"):
            reasons.append(_reason(name, word, state or {}))
        elif word == "held":
            held.append(name)
        elif word == "waiting" and int(one["level"]) < own:
            reasons.append(f"{name} is of an earlier wave and has not had its turn")
    if held and not reasons:
        reasons.append(f"{first_of(held, _MOST_HELD)} was held back")
    return reasons


def _reason(name: str, word: str, state: t.Mapping[str, t.Any]) -> str:
    step = f" in {state['step']}" if state.get("step") else ""
    if word == "lost":
        return f"{name} was lost{step}: it no longer answers"
    message = _line(state.get("message"))
    said = f": {message}" if message else ""
    return "{} {}{}{}".format(name, {"failed": "failed", "worse": "is worse than before"}[word], step, said)


def _line(text: t.Any) -> t.Optional[str]:
    """What a task has said as one line, without what Ansible puts before it; None for nothing."""
    line = " ".join(str(text or "").split())[:_MAX_MESSAGE]
    return _PREFIXES.sub("", line) or None


_REMEDIES = {
    "failed": "put right what the message says and run again: the next run begins with one node",
    "worse": (
        "look at its journal and at dmesg and bring back what was lost, then run again: the next run begins with this node. "
        f"When it is meant to be as it is now, remove {places.CHANGE} there"
    ),
    "lost": "look at its console and bring it back, then run again: the next run begins with it and compares it with what it was before",
    "unreachable": "see that it answers ssh, or take it out of the run (--limit 'all,localhost,!NAME'), then run again",
    "held": "nothing was done there: it gets its turn when the others are well",
}


def outcomes(hosts: t.Mapping[str, t.Mapping[str, t.Any]]) -> Json:
    """What became of every host of a run: {schema: 1, hosts: {name: {state, wave, step, task, message, remedy}}}.

    hosts: by name what they have said last, with the key wave where they had a turn. States: finished, failed, worse, lost, held
    (not begun, since the run stopped before), unreachable (at the beginning). wave, step, task, message and remedy are None where
    there is none. Hosts that never had anything to do are not in it.
    """
    found: Json = {}
    for name in sorted(hosts):
        state = hosts[name]
        word = _told(state, False)
        if word == "waiting":
            word = "held"
        text = {key: _line(state.get(key)) for key in ("step", "task", "message")}
        if word == "lost" and state.get("state") != "lost":
            text["message"] = f"it no longer answers since the step {text['step'] or 'begin'} began"
        found[name] = {"state": word, "wave": state.get("wave"), **text, "remedy": _REMEDIES.get(word)}
    return {"schema": 1, "hosts": found}


def outcome_lines(document: t.Mapping[str, t.Any], most: t.Optional[int] = None) -> list[str]:
    """A sentence for each host of outcomes() that something is wrong with, and one for all that were held back.

    most: of how many hosts it tells one by one; one sentence then counts the others.
    """
    lines: list[str] = []
    held: list[str] = []
    for name, one in sorted(document["hosts"].items()):
        state = str(one.get("state"))
        if state == "held":
            held.append(name)
        elif state != "finished":
            where = f" in the step {one['step']}" if one.get("step") else ""
            task = f" at '{one['task']}'" if one.get("task") else ""
            # short enough for what to do about it to be read, too
            message = str(one.get("message") or "").rstrip(".")
            shown = message if len(message) <= _MAX_SAID else message[:_MAX_SAID] + " ..."
            said = f": {shown}" if shown else ""
            word = {"failed": "failed", "worse": "is worse than before", "lost": "was lost"}.get(
                state, "is unreachable"
            )
            lines.append(f"{name} {word}{where}{task}{said}. Remedy: {one.get('remedy')}.")
    if most is not None and len(lines) > most:
        more = len(lines) - most
        lines[most:] = [f"{more} more {'is' if more == 1 else 'are'} not well: see outcomes.json."]
    if held:
        lines.append(f"Held back, and not touched: {first_of(held, _MOST_HELD)}.")
    return lines


# What a job of AWX leaves of prepare for those after it; a slice under a name that ends with the number of its job.
_ARTIFACT = re.compile(r"fabric_rdma_prepare(?P<slice>_[0-9]{1,18})?")


def _whole(value: t.Any) -> int:
    """A number of an artifact, which is a text below ansible-core 2.19; 0 for anything else."""
    return int(str(value)) if re.fullmatch("[0-9]{1,18}", str(value)) else 0


def told_elsewhere(variables: t.Mapping[str, t.Any], kept: bool) -> tuple[list[str], bool]:
    """(what earlier jobs of a workflow tell of nodes that were not prepared, whether their files tell it better).

    variables: of a host, the artifacts among them, {run, failed, lines, written}. The last run counts, all of its slices. kept: whether
    there is a file with outcomes: it is of another run where this one was sliced, or could not write it. Variables of another form are
    left alone.
    """
    found: dict[int, list[tuple[bool, t.Mapping[str, t.Any]]]] = {}
    for name in sorted(str(name) for name in variables):
        match = _ARTIFACT.fullmatch(name)
        value = variables[name] if match else None
        if match and isinstance(value, t.Mapping):
            found.setdefault(_whole(value.get("run")), []).append((match.group("slice") is not None, value))
    last = found[max(found)] if found else []
    if kept and not any(sliced or str(value.get("written", True)).lower() == "false" for sliced, value in last):
        return [], True
    told = [value.get("lines") for _sliced, value in last]
    lines = [str(line) for own in told if isinstance(own, (list, tuple)) for line in own]
    failed = sum(_whole(value.get("failed")) for _sliced, value in last)
    if failed > len(lines):
        lines.append(f"{failed} nodes in all were not prepared; the output of the jobs names them")
    return lines, not last


def gone(
    everyone: t.Sequence[str],
    there: t.Collection[str],
    wave: t.Collection[str],
    running: t.Collection[str],
    failed: t.Collection[str],
    in_order: bool,
) -> dict[str, Json]:
    """The hosts that have left a play, by name: {wave, how}, for refusals().

    everyone: all hosts of the play. there: those that have not left it, of any wave; a host that its user ended (end_host) is back
    when the next wave begins. wave: the hosts of the wave that is under way. running, failed: those of them that Ansible counts as
    such; as running it counts also those that were ended, and those that fail in a block with ``always``.

    wave: earlier, own or later than the one that is under way. in_order: whether waves are taken in the order of everyone; if not,
    all but its own are called earlier ones. how: failed, lost, or None where Ansible does not tell.
    """
    alive, own = set(there), set(wave)
    first = next((number for number, host in enumerate(everyone) if host in own), 0)
    left: dict[str, Json] = {}
    for number, host in enumerate(everyone):
        if host in alive:
            continue
        if host in own:
            how = "failed" if host in failed else None if host in running else "lost"
            left[host] = {"wave": "own", "how": how}
        else:
            left[host] = {"wave": "later" if in_order and number > first else "earlier", "how": None}
    return left


def earlier(everyone: t.Sequence[str], there: t.Collection[str], wave: t.Collection[str], in_order: bool) -> list[str]:
    """The hosts of earlier waves that have not left the play; the arguments are those of gone(). All other waves if not in_order."""
    alive, own = set(there), set(wave)
    first = next((number for number, host in enumerate(everyone) if host in own), 0)
    before = everyone[:first] if in_order else everyone
    return [host for host in before if host in alive and host not in own]


# A host that is still in the play.
STAYED = "stayed"
_HOW = {"failed": "failed", "lost": "was lost"}
_MAX_REASONS = 8


# Beside the roles: the playbook, whose waves are its own.
PREPARE = "prepare"


def prepared(outcome: t.Any) -> tuple[t.Optional[Json], t.Optional[Json]]:
    """What the playbook prepare has said of a host ({state, ...}), as a change for refusals(): before all that roles do outside of it."""
    state = outcome.get("state") if isinstance(outcome, t.Mapping) else None
    begin = {"at": 1.0} if state in ("begun", "failed", "worse", "finished") else None
    return begin, {"at": 2.0} if state == "finished" else None


def _named(change: str) -> str:
    return f"the playbook {change}" if change == PREPARE else f"the role {change}"


def refusals(left: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """Why a role must not begin to change a host, in words; an empty list lets it.

    left: the hosts that have left the play, by name {wave, how, changes}; wave and how as gone() tells them, and with how STAYED
    those that somebody has kept in it (rescue, ignore_unreachable): of earlier waves, and of its own the host itself. changes: by role what
    the action wave_gate returned at the begin and at the end of its change, {at: seconds of a clock that
    nobody sets}; None, or something without `at`, where it did not come so far.

    What was changed in this run has to be well, and every host of an earlier wave, whether it was changed or not. Not counted is
    one that ended a role well and left the wave that is under way without a word: its user may have ended it.
    """
    reasons: list[str] = []
    held: list[str] = []
    for host in sorted(left):
        one = left[host]
        changes = one["changes"]
        begun = {role: _when(begin) for role, (begin, _end) in changes.items() if _when(begin)}
        ended = {role: _when(end) for role, (_begin, end) in changes.items() if _when(end)}
        unfinished = [role for role in begun if begun[role] > ended.get(role, 0)]
        how = _HOW.get(one["how"], "failed or was lost")
        if one["how"] == STAYED:
            if unfinished:
                who = "it" if one["wave"] == "own" else f"{host}, of an earlier wave,"
                reasons.append(f"{who} has begun {_named(unfinished[0])} and not ended it")
        elif unfinished:
            reasons.append(f"{host} {how} in the middle of {_named(unfinished[0])}")
        elif any(isinstance(begin, t.Mapping) and begin.get("failed") for begin, _end in changes.values()):
            held.append(host)
        elif begun and (one["wave"] != "own" or one["how"]):
            last = max(begun, key=lambda role: begun[role])
            reasons.append(f"{host} {how} after {_named(last)}")
        elif not begun and one["wave"] == "earlier":
            reasons.append(f"{host}, of an earlier wave, {how} before a role changed it")
    if held and not reasons:
        reasons = [f"{host} was held back" for host in held]
    more = len(reasons) - _MAX_REASONS
    return reasons[:_MAX_REASONS] + ([f"and {more} more"] if more > 0 else [])


def _when(result: t.Any) -> float:
    at = result.get("at") if isinstance(result, t.Mapping) else None
    return float(at) if isinstance(at, (int, float)) else 0.0
