# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a document has the form that a JSON Schema describes, and where it has not. Private. Pure.

It knows the keywords that the schemas in docs use, and no others: a controller has no library for them. Beyond the schema,
lengths are bounded, so that what one node says costs no other node anything. Keys that the schema does not know are let pass,
because documents grow and nobody here reads them; with propertyNames they are not.
"""

from __future__ import annotations

import re
import typing as t

__all__ = ["Checker"]

Json = t.Dict[str, t.Any]
# (value, where it is, what is wrong, what is known to be right) -> whether it is right
_Check = t.Callable[[t.Any, str, t.List[str], t.Set[t.Tuple[int, int]]], bool]

# What no node needs nearly as much of.
_MOST_TEXT = 64 << 10
_MOST_ITEMS = 20_000
_MOST_NUMBER = 1 << 64
# How many problems of one document are told, and how much of a value.
_MOST_PROBLEMS = 3
_SHOWN = 60

_NOTES = {"$schema", "title", "description"}
_KNOWN = _NOTES | {
    "type",
    "properties",
    "required",
    "dependentRequired",
    "additionalProperties",
    "propertyNames",
    "items",
    "maxItems",
    "pattern",
    "minimum",
    "exclusiveMinimum",
    "enum",
    "const",
    "oneOf",
}
_WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "nothing",
    "number": "a number",
    "object": "a dictionary",
    "string": "a text",
}


def _shown(value: t.Any) -> str:
    if isinstance(value, (dict, list, tuple)):
        return "a dictionary" if isinstance(value, dict) else "a list"
    if isinstance(value, str) and len(value) > _SHOWN:
        return f"a text of {len(value)} characters"
    if isinstance(value, int) and abs(value) > _MOST_NUMBER:
        # Python refuses to write very large ones
        return f"a number of {value.bit_length()} bits"
    return repr(value)


def _type_of(value: t.Any) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "array" if isinstance(value, (list, tuple)) else ""


def _words(schema: t.Mapping[str, t.Any]) -> str:
    """What is expected, for the user."""
    options: list[t.Any] = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    if options:
        return "one of {}".format(", ".join("nothing" if each is None else str(each) for each in options))
    if "oneOf" in schema:
        return " or ".join(_words(each) for each in schema["oneOf"])
    types = [schema["type"]] if isinstance(schema["type"], str) else list(schema["type"])
    words = " or ".join(_WORDS[each] for each in types)
    if "minimum" in schema:
        words = words.replace("number", f"number of at least {schema['minimum']}")
    if "exclusiveMinimum" in schema:
        words = words.replace("number", f"number above {schema['exclusiveMinimum']}")
    if "pattern" in schema:
        words = words.replace("text", f"text of the form {schema['pattern']}")
    return words


class Checker:
    """A schema, made ready for many documents."""

    def __init__(
        self,
        schema: t.Mapping[str, t.Any],
        optional: t.Collection[str] = (),
        most: int = _MOST_ITEMS,
        most_text: int = _MOST_TEXT,
    ) -> None:
        """optional: keys that need not be there although the schema asks for them, such as ``ofed.proof``.

        most: entries of anything. most_text: characters of a text.

        ValueError for a keyword that would not be looked at.
        """
        self._count = 0
        self._optional = frozenset(optional)
        self._most = most
        self._most_text = most_text
        self._check = self._compiled(schema, "")

    def problems(self, value: t.Any, seen: t.Optional[set[tuple[int, int]]] = None) -> list[str]:
        """A few sentences on what is not as described, such as ``devices[0].pci is 3; expected a text``; none when all is well.

        seen: what other documents had that is right, by its address. Only for values that stay alive and unchanged meanwhile.
        """
        found: list[str] = []
        self._check(value, "", found, set() if seen is None else seen)
        return found[:_MOST_PROBLEMS]

    def _compiled(self, schema: t.Mapping[str, t.Any], where: str) -> _Check:
        """where: as in optional."""
        unknown = sorted(set(schema) - _KNOWN)
        if unknown:
            raise ValueError(f"the schema has {', '.join(unknown)}, which nobody here checks")
        self._count += 1
        number, expected = self._count, _words(schema)
        if "oneOf" in schema:
            return self._one_of(schema, expected, where)
        scalar, members = _scalar(schema, self._most_text), self._members(schema, where)
        items = self._compiled(schema["items"], where) if "items" in schema else None
        most = min(schema.get("maxItems", self._most), self._most)

        def check(value: t.Any, place: str, found: list[str], seen: set[tuple[int, int]]) -> bool:
            holds_others = isinstance(value, (dict, list, tuple))
            key = (number, id(value))
            if holds_others and key in seen:
                return True
            if not scalar(value):
                found.append(f"{place or 'it'} is {_shown(value)}; expected {expected}")
                return False
            if not holds_others:
                return True
            if len(value) > most:
                found.append(f"{place or 'it'} has {len(value)} entries; expected at most {most}")
                return False
            right = True
            if isinstance(value, dict):
                right = members(value, place, found, seen)
            elif items is not None:
                for index, item in enumerate(value):
                    right = items(item, f"{place}[{index}]", found, seen) and right
                    if len(found) >= _MOST_PROBLEMS:
                        return False
            if right:
                seen.add(key)
            return right

        return check

    def _members(self, schema: t.Mapping[str, t.Any], where: str) -> _Check:
        """What is in a mapping: which keys it has to have and may have, and their values."""
        inside = where + "." if where else ""
        properties = {name: self._compiled(each, inside + name) for name, each in schema.get("properties", {}).items()}
        required = [name for name in schema.get("required", ()) if inside + name not in self._optional]
        dependent: t.Mapping[str, t.Sequence[str]] = schema.get("dependentRequired", {})
        more = schema.get("additionalProperties")
        rest = self._compiled(more, where) if isinstance(more, dict) else None
        names: t.Optional[list[str]] = schema["propertyNames"]["enum"] if "propertyNames" in schema else None

        def check(value: t.Any, place: str, found: list[str], seen: set[tuple[int, int]]) -> bool:
            before = len(found)
            right = True
            for name in [*required, *(other for one in dependent if one in value for other in dependent[one])]:
                if name not in value:
                    found.append(f"{place}.{name} is missing" if place else f"{name} is missing")
            for name, item in value.items():
                each = properties.get(name, rest)
                if names is not None and name not in names:
                    found.append(f"{place or 'it'} has the key {_shown(name)}; expected one of {', '.join(names)}")
                elif rest is not None and len(name) > self._most_text:
                    found.append(f"{place or 'it'} has a key of {len(name)} characters")
                elif each is not None:
                    right = each(item, f"{place}.{name!s:.60}" if place else str(name), found, seen) and right
                if len(found) >= _MOST_PROBLEMS:
                    return False
            return right and len(found) == before

        return check

    def _one_of(self, schema: t.Mapping[str, t.Any], expected: str, where: str) -> _Check:
        """The alternatives of the schema differ in their type, so that this tells which one is meant."""
        ways = {str(each["type"]): self._compiled(each, where) for each in schema["oneOf"]}

        def check(value: t.Any, place: str, found: list[str], seen: set[tuple[int, int]]) -> bool:
            way = ways.get(_type_of(value))
            if way is None:
                found.append(f"{place or 'it'} is {_shown(value)}; expected {expected}")
                return False
            return way(value, place, found, seen)

        return check


def _scalar(schema: t.Mapping[str, t.Any], most_text: int) -> t.Callable[[t.Any], bool]:
    """Whether a value has the type that is asked for, and what else can be said without a look into it."""
    if "enum" in schema or "const" in schema:
        options = schema.get("enum", [schema.get("const")])
        # True is 1 to Python; a text may be of a class of Ansible's own
        return lambda value: (
            not isinstance(value, (dict, list, tuple))
            and any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in options)
        )
    types = {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"])
    # "$" also matches before a newline at the end
    pattern = re.compile(re.sub(r"\$\Z", r"\\Z", schema["pattern"])) if "pattern" in schema else None
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")

    def check(value: t.Any) -> bool:
        kind = _type_of(value)
        if kind not in types and not (kind == "integer" and "number" in types):
            return False
        if isinstance(value, str):
            return len(value) <= most_text and (pattern is None or pattern.search(value) is not None)
        if kind in ("integer", "number"):
            return (
                -_MOST_NUMBER <= value <= _MOST_NUMBER
                and (least is None or value >= least)
                and (above is None or value > above)
            )
        return True

    return check
