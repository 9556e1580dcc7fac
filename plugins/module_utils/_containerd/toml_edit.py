# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An exact editor of single values in TOML 1.0. Private to the collection. Pure.

It changes the lines that it has to, and reads the result again: it differs from what was in exactly the value that was asked
for, or the edit is refused. Comments, the order, quotes, indentation, line endings and a missing last newline stay. Messages name
lines and keys and never show values, which may be credentials.
"""

from __future__ import annotations

import math
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import (
    Json,
    Node,
    Path,
    Reader,
    Statement,
    TomlError,
    dotted,
    parse,
    plain,
    quoted,
)

__all__ = ["Refused", "remove_value", "same", "set_value"]

Value = t.Union[str, bool, int, t.Sequence[str]]


class Refused(FabricError):
    """An edit that cannot be made exactly; the text says why."""


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    return "[{}]".format(", ".join(quoted(item) for item in value))


def same(one: t.Any, other: t.Any) -> bool:
    """Equal with equal types, which == is not: True == 1 == 1.0. A nan is equal to itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


class _Editor:
    def __init__(self, text: str, path: t.Sequence[str]) -> None:
        if not path or not all(isinstance(name, str) for name in path):
            raise Refused("an edit needs the path of a key")
        self.text = text
        self.path: Path = tuple(path)
        self.reader = Reader(text).read()
        first = re.search(r"\r?\n", text)
        self.newline = first.group() if first else "\n"

    def line_of(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    def walk(self) -> tuple[Node, int]:
        """The innermost table on the way to the key that exists, and how many names lead to it."""
        node = self.reader.root
        for depth, name in enumerate(self.path[:-1]):
            child = node.children.get(name)
            if child is None:
                return node, depth
            if child.kind in ("array", "inline", "value"):
                what = {"array": "an array of tables", "inline": "an inline table", "value": "a value"}[child.kind]
                remedy = "; write it as a table with a header" if child.kind == "inline" else ""
                raise Refused(
                    f"{dotted(self.path[: depth + 1])} on line {self.line_of(child.start)} is {what}, in which nothing "
                    f"can be edited safely{remedy}"
                )
            node = child
        return node, len(self.path) - 1

    def leaf(self) -> t.Optional[Statement]:
        """The statement that sets the key now."""
        node, depth = self.walk()
        child = node.children.get(self.path[-1]) if depth == len(self.path) - 1 else None
        if child is None:
            return None
        if child.kind != "value" or child.statement is None:
            raise Refused(f"{dotted(self.path)} on line {self.line_of(child.start)} is a table; expected a value")
        return child.statement

    def set(self, value: Value) -> str:
        written = _literal(value)
        statement = self.leaf()
        if statement:
            start, end = statement.value
            return self.text[:start] + written + self.text[end:]
        node, depth = self.walk()
        if node.kind == "dotted":
            return self.beside_dotted(depth, written)
        if depth == len(self.path) - 1:
            if node.kind == "header":
                return self.into_section(written)
            return self.before_children(written)
        return self.append(depth, written)

    # --- the cases ----------------------------------------------------------------------------------------------------

    def indent_of(self, at: int) -> str:
        return self.text[at : self.reader.blanks(at)]

    def line(self, indent: str, key: str, written: str) -> str:
        return f"{indent}{key} = {written}"

    def insert(self, at: int, lines: t.Sequence[str]) -> str:
        """Lines before the one that begins at an offset; at the end of a text without a last newline they have none, too."""
        before, after = self.text[:at], self.text[at:]
        block = self.newline.join(lines)
        if before and before != "\ufeff" and not before.endswith("\n"):
            return before + self.newline + block + after
        return before + block + self.newline + after

    def into_section(self, written: str) -> str:
        """The table has a header (or is the root): after its last key, else after the header."""
        section = next(one for one in self.reader.sections if one.key.names == self.path[:-1] and not one.array)
        key = dotted(self.path[-1:])
        if section.statements:
            last = section.statements[-1]
            return self.insert(last.end, [self.line(self.indent_of(last.line), key, written)])
        if section.key.names:
            indent = self.indent_of(section.line) + self.key_indent()
            return self.insert(section.end, [self.line(indent, key, written)])
        return self.first_of_root(key, written)

    def first_of_root(self, key: str, written: str) -> str:
        """Above the first header and the comment that stands directly above that."""
        if len(self.reader.sections) == 1:
            return self.insert(len(self.text), [self.line("", key, written)])
        at = self.above_comment(self.reader.sections[1].line)
        return self.insert(at, [self.line("", key, written), ""])

    def above_comment(self, at: int) -> int:
        """Offset of the first of the comment lines directly above a line."""
        floor = self.reader.sections[0].line
        while at > floor:
            previous = self.text.rfind("\n", 0, at - 1) + 1
            previous = max(previous, floor)
            if not self.text.startswith("#", self.reader.blanks(previous)):
                break
            at = previous
        return at

    def key_indent(self) -> str:
        """How much further to the right than their header the keys of this document stand."""
        for section in self.reader.sections[1:]:
            if section.statements:
                header, key = self.indent_of(section.line), self.indent_of(section.statements[0].line)
                return key[len(header) :] if key.startswith(header) else ""
        return ""

    def before_children(self, written: str) -> str:
        """Only tables below it have headers: a header of its own before the first of them."""
        parent = self.path[:-1]
        section = next(one for one in self.reader.sections[1:] if one.key.names[: len(parent)] == parent)
        name = self.text[section.key.start : section.key.ends[len(parent) - 1]]
        indent = self.indent_of(section.line)
        at = self.above_comment(section.line)
        lines = [
            f"{indent}[{name}]",
            self.line(indent + self.key_indent(), dotted(self.path[-1:]), written),
        ]
        above = self.text[:at].rstrip(" \t")
        if above.endswith(("\n\n", "\n\r\n")):
            lines.append("")
        return self.insert(at, lines)

    def beside_dotted(self, depth: int, written: str) -> str:
        """Dotted keys make the table: one more of them after the last."""
        parent = self.path[:depth]
        for section in self.reader.sections:
            if section.array or section.key.names != parent[: len(section.key.names)]:
                continue
            skip = len(section.key.names)
            rest = parent[skip:]
            for statement in reversed(section.statements):
                names = statement.key.names
                if rest and len(names) > len(rest) and names[: len(rest)] == rest:
                    head = self.text[statement.key.start : statement.key.ends[len(rest) - 1]]
                    key = head + "." + dotted(self.path[depth:])
                    return self.insert(statement.end, [self.line(self.indent_of(statement.line), key, written)])
        raise Refused(f"{dotted(parent)} is defined by dotted keys in a way that cannot be extended safely")

    def append(self, depth: int, written: str) -> str:
        """The table is not there: a new one at the end, its name spelt as others of the document are."""
        parent = self.path[:-1]
        name = dotted(parent)
        # the longest beginning that some header has
        for length in range(depth, 0, -1):
            like = next((one for one in self.reader.sections[1:] if one.key.names[:length] == parent[:length]), None)
            if like:
                name = self.text[like.key.start : like.key.ends[length - 1]] + "." + dotted(parent[length:])
                break
        lines = [f"[{name}]", self.line(self.key_indent(), dotted(self.path[-1:]), written)]
        if self.text.strip("\ufeff \t\r\n"):
            lines.insert(0, "")
        return self.insert(len(self.text), lines)

    # --- removing and checking ----------------------------------------------------------------------------------------

    def remove(self, statement: Statement) -> str:
        before, after = self.text[: statement.line], self.text[statement.end :]
        if not after and not self.text.endswith("\n"):
            before = re.sub(r"\r?\n\Z", "", before)
        return before + after

    def check(self, new: str, value: t.Optional[Value]) -> str:
        """The new text, when it says what the old one says but for the value; None is for a key that is to be away."""
        wanted: Json = plain(self.reader.root)
        table = wanted
        for name in self.path[:-1]:
            table = table.setdefault(name, {})
        if value is None:
            table.pop(self.path[-1], None)
        else:
            table[self.path[-1]] = list(value) if isinstance(value, (list, tuple)) else value
        try:
            found = parse(new)
        except TomlError as exc:
            raise Refused(f"{dotted(self.path)} cannot be edited safely: afterwards {exc}") from exc
        if not same(found, wanted):
            raise Refused(f"{dotted(self.path)} cannot be edited without a change of something else")
        return new


def set_value(text: str, path: t.Sequence[str], value: Value) -> str:
    """The document with a key set. path: names from the root, such as ["plugins", "cri", "sandbox_image"].

    An existing value is replaced in its place; a new key goes to the last key of its table, or under its header; a table of
    which only tables below it are there gets a header before them; beside dotted keys goes another one; a table that is not
    there at all is appended. The same text when the value is there already. TomlError for text that is not TOML; Refused where
    that cannot be done exactly: in inline tables and arrays of tables, and where a value is in the way.
    """
    editor = _Editor(text, path)
    statement = editor.leaf()
    if statement:
        node, _depth = editor.walk()
        if same(node.children[editor.path[-1]].value, list(value) if isinstance(value, (list, tuple)) else value):
            return text
    return editor.check(editor.set(value), value)


def remove_value(text: str, path: t.Sequence[str]) -> str:
    """The document without a key, and without the lines on which it was set; the same text when it has no such key.

    TomlError for text that is not TOML; Refused as set_value(), and where the table would vanish with its last dotted key.
    """
    editor = _Editor(text, path)
    statement = editor.leaf()
    return text if statement is None else editor.check(editor.remove(statement), None)
