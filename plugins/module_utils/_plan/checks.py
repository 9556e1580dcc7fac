# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sorts of values that a wish may have, each with what is said of a wrong one. Private. Pure.

A check takes the name of a value and the value, and answers with sentences for the user. It shows values, except those that may hold a
password.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.words import nearest, unknown_keys, without_password

__all__ = [
    "Check",
    "Json",
    "choice",
    "dictionary",
    "flag",
    "is_true",
    "keys",
    "listing",
    "name",
    "names",
    "number",
    "pattern",
    "rate",
    "shown",
    "some_of",
    "strings",
    "text",
    "truth",
    "wrong",
]

Json = t.Dict[str, t.Any]
# (name of the value, the value) -> what is wrong with it
Check = t.Callable[[str, t.Any], t.List[str]]

# As Ansible's filter bool reads them: what comes from the command line is text.
_TRUTHS = ("true", "yes", "on", "1", "y", "t")
_FALSEHOODS = ("false", "no", "off", "0", "n", "f")
_SHOWN = 80


def shown(value: t.Any) -> str:
    said = without_password(repr(value))
    return said if len(said) <= _SHOWN else said[:_SHOWN] + "..."


def wrong(where: str, value: t.Any, expected: str) -> list[str]:
    return [f"{where} is {shown(value)}; expected {expected}"]


def choice(*options: str) -> Check:
    def check(where: str, value: t.Any) -> list[str]:
        if isinstance(value, str) and value in options:
            return []
        return wrong(where, value, f"one of {', '.join(options)}{nearest(value, options)}")

    return check


def flag(where: str, value: t.Any) -> list[str]:
    return [] if isinstance(value, bool) else wrong(where, value, "true or false")


def is_true(value: t.Any) -> bool:
    """What a value that truth() finds right stands for."""
    return str(value).lower() in _TRUTHS


def truth(where: str, value: t.Any) -> list[str]:
    """As flag(), and the words that Ansible takes for it."""
    if isinstance(value, bool) or value in (0, 1) or str(value).lower() in (*_TRUTHS, *_FALSEHOODS):
        return []
    return wrong(where, value, "true or false")


def text(where: str, value: t.Any) -> list[str]:
    return [] if isinstance(value, str) else wrong(where, value, "a text")


def name(where: str, value: t.Any) -> list[str]:
    return [] if isinstance(value, str) and value else wrong(where, value, "a name")


def pattern(where: str, value: t.Any) -> list[str]:
    """Which hosts, as Ansible takes it for a play."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    if parts and all(isinstance(part, str) and part.strip(" ,:") for part in parts):
        return []
    return wrong(where, value, "a pattern of hosts, such as 'ib-a100' or 'ib-a100,!rack-7', or a list of them")


def dictionary(where: str, value: t.Any) -> list[str]:
    if isinstance(value, t.Mapping):
        return []
    return [f"{where} is of type {type(value).__name__}; expected a dictionary"]


def number(least: int, most: t.Optional[int], expected: str) -> Check:
    """A whole number, also as the text that it is when it comes from the command line."""

    def check(where: str, value: t.Any) -> list[str]:
        given = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value) else value
        if isinstance(given, bool) or not isinstance(given, int) or given < least or given > (most or given):
            return wrong(where, value, expected)
        return []

    return check


def rate(where: str, value: t.Any) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        return wrong(where, value, "a number of Gb/s, 0 or more")
    return []


def listing(each: Check, expected: str, least: int = 0) -> Check:
    def check(where: str, value: t.Any) -> list[str]:
        if isinstance(value, (list, tuple)) and len(value) >= least and not any(each("", item) for item in value):
            return []
        return wrong(where, value, expected)

    return check


names = listing(name, "a list of names")
strings = listing(text, "a list of strings")


def some_of(*options: str) -> Check:
    def check(where: str, value: t.Any) -> list[str]:
        found = strings(where, value)
        if found:
            return found
        unknown = [item for item in value if item not in options]
        if unknown or not value:
            hint = nearest(unknown[0], options) if unknown else ""
            return wrong(where, value, f"some of {', '.join(options)}{hint}")
        return []

    return check


def keys(**spec: Check) -> Check:
    """A dictionary with these keys."""

    def check(where: str, value: t.Any) -> list[str]:
        if not isinstance(value, t.Mapping):
            return dictionary(where, value)
        unknown = unknown_keys(where, value, spec)
        found = [unknown] if unknown else []
        for key, each in spec.items():
            if key in value:
                found += each(f"{where}.{key}", value[key])
        return found

    return check
