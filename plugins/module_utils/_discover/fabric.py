# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's programs say about the fabric that it is in: switches of its InfiniBand subnets, neighbours by LLDP. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.programs import run_program

__all__ = ["PACKAGES", "look"]

# program -> the package that has it, of a name that all families of distributions have
PACKAGES = {"ibnetdiscover": "infiniband-diags", "lldpctl": "lldpd"}
# A subnet of ten thousand hosts prints some 20 MB.
_MOST_TEXT = 64 << 20
# The status of the program timeout of coreutils when the time was over.
_TIMED_OUT = 124

Told = t.Dict[str, t.Optional[str]]
Find = t.Callable[[str], t.Optional[str]]


def look(programs: t.Collection[str], ports: t.Sequence[t.Mapping[str, t.Any]], timeout: int, find: Find) -> list[Told]:
    """{program, text, error} of each run; error is None where there is a text.

    programs: of PACKAGES. ports: {device, port} from which InfiniBand is looked at, without any from the first that works; those of
    one subnet see the same, which is told once. timeout: seconds of each run. find: the path of a program, None without one.
    """
    found: list[Told] = []
    if "ibnetdiscover" in programs:
        ways = [["-C", str(each["device"]), "-P", str(each["port"])] for each in ports] or [[]]
        for arguments in ways:
            told = _run("ibnetdiscover", arguments, timeout, find)
            if not told["text"] or all(_links(told["text"]) != _links(each["text"] or "") for each in found):
                found.append(told)
    if "lldpctl" in programs:
        found.append(_run("lldpctl", ["-f", "json"], timeout, find))
    return found


def _run(program: str, arguments: list[str], timeout: int, find: Find) -> Told:
    """What one run of a program printed, or why it did not."""
    path = find(program)
    if path is None:
        return _failed(program, f"{program} is not there (package {PACKAGES[program]})")
    # a program that waits for an answer that never comes is ended
    ending = find("timeout")
    try:
        status, output, error = run_program([*([ending, str(timeout)] if ending else []), path, *arguments])
    except OSError as exc:
        return _failed(program, f"{path}: {exc.strerror}")
    if status == _TIMED_OUT and ending:
        return _failed(program, f"it did not end in {timeout} seconds")
    if status != 0:
        # without the number of the process, which another look would not find again
        said = re.sub(r"\bibwarn: \[\d+\]", "ibwarn:", " ".join((error or output).split()))
        return _failed(program, said[:300] or f"it ended with status {status}")
    if len(output) > _MOST_TEXT:
        return _failed(program, "it printed more than any fabric has")
    return {"program": program, "text": output, "error": None}


def _failed(program: str, why: str) -> Told:
    return {"program": program, "text": "", "error": why}


def _links(text: str) -> list[str]:
    """What ibnetdiscover printed without its comments, which have the time and the port that it looked from, in any order."""
    return sorted(line for line in text.splitlines() if line and not line.startswith("#"))
