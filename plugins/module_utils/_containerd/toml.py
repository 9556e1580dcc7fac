# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader of TOML 1.0 and an exact editor of single values in it. Private to the collection. Pure.

Nodes have Pythons without tomllib, and tomllib writes nothing. The editor changes the lines that it has to, and reads the
result again: it differs from what was in exactly the value that was asked for, or the edit is refused. Comments, the order,
quotes, indentation, line endings and a missing last newline stay. Messages name lines and keys and never show values, which
may be credentials.
"""

from __future__ import annotations

import datetime
import math
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = ["Refused", "TomlError", "dotted", "parse", "remove_value", "same", "set_value"]

Json = t.Dict[str, t.Any]
Path = t.Tuple[str, ...]
Value = t.Union[str, bool, int, t.Sequence[str]]

# Far beyond every real configuration, and far below what Python's stack takes.
_DEEPEST = 100

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANKS = re.compile(r"[ \t]*")
_COMMENT = re.compile(r"#[^\x00-\x08\x0a-\x1f\x7f]*")
_NEWLINE = re.compile(r"\r?\n")
_SPACE = re.compile(r"(?:[ \t]|\r?\n|#[^\x00-\x08\x0a-\x1f\x7f]*(?=\r?\n))*")
_NUMBER = re.compile(
    r"0(?:x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|b[01](?:_?[01])*|o[0-7](?:_?[0-7])*)"
    r"|[+-]?(?:0|[1-9](?:_?[0-9])*)((?:\.[0-9](?:_?[0-9])*)?(?:[eE][+-]?[0-9](?:_?[0-9])*)?)"
)
_SPECIAL_FLOAT = re.compile(r"[+-]?(?:inf|nan)")
_TIME = r"([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,6})[0-9]*)?"
_LOCAL_TIME = re.compile(_TIME)
_DATE = re.compile(
    r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"(?:[Tt ]" + _TIME + r"(?:([Zz])|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))?)?"
)
_LITERAL = re.compile(r"'([^\x00-\x08\x0a-\x1f\x7f']*)'")
_PLAIN = re.compile(r'[^\x00-\x08\x0a-\x1f\x7f"\\]+')
_LONG_PLAIN = re.compile(r'(?:[^\x00-\x08\x0a-\x1f\x7f"\\]|\r?\n)+')
_LONG_LITERAL_END = re.compile(r"'{3,5}")
_NOT_IN_LONG_LITERAL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_LONG_BASIC_END = re.compile(r'"{1,5}')
_FOLD = re.compile(r"\\[ \t]*\r?\n(?:[ \t]|\r?\n)*")
_UNICODE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_SURROGATE = re.compile("[\ud800-\udfff]")


class TomlError(FabricError):
    """Text that is no TOML. line is the number of the line, from 1; str() of it begins with ``line N: ``."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


class Refused(FabricError):
    """An edit that cannot be made exactly; the text says why."""


class _Node:
    """A value, or a table with how it came to be, which decides what may still be added to it.

    kind: value | inline | array (of tables) | header ([a]) | implied ([a.b] implies a) | dotted (a.b = 1 makes a).
    section: number of the section whose dotted keys made it. statement: that of a value. line: offset of its definition.
    """

    __slots__ = ("children", "elements", "kind", "section", "start", "statement", "value")

    def __init__(self, kind: str, start: int, section: int = 0) -> None:
        self.kind = kind
        self.start = start
        self.section = section
        self.children: dict[str, _Node] = {}
        self.elements: list[_Node] = []
        self.value: t.Any = None
        self.statement: t.Optional[_Statement] = None


class _Key(t.NamedTuple):
    """Names of a dotted key, and where in the text each of them ends."""

    names: Path
    start: int
    ends: list[int]


class _Statement(t.NamedTuple):
    """``key = value``: offsets of the first line, of the value, and of the beginning of the line after it."""

    key: _Key
    line: int
    value: tuple[int, int]
    end: int


class _Section:
    """A header with the statements below it; the first one of a document has no header."""

    def __init__(self, key: _Key, array: bool, line: int, end: int) -> None:
        self.key = key
        self.array = array
        self.line = line
        self.end = end
        self.statements: list[_Statement] = []


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.root = _Node("header", 0)
        self.sections = [_Section(_Key((), 0, []), False, 0, 0)]
        self.table = self.root
        self.depth = 0

    def error(self, at: int, reason: str) -> TomlError:
        return TomlError(self.text.count("\n", 0, at) + 1, reason)

    # --- document -----------------------------------------------------------------------------------------------------

    def read(self) -> _Reader:
        text = self.text
        found = _SURROGATE.search(text)
        if found:
            raise self.error(found.start(), "not UTF-8")
        at = 1 if text.startswith("\ufeff") else 0
        self.sections[0].line = self.sections[0].end = at
        while at < len(text):
            line = at
            at = self.blanks(at)
            if text.startswith("[", at):
                at = self.header(line, at)
            elif at < len(text) and text[at] not in "#\r\n":
                at = self.statement(line, at)
            else:
                at = self.line_end(at)
        return self

    def blanks(self, at: int) -> int:
        found = _BLANKS.match(self.text, at)
        return found.end() if found else at

    def line_end(self, at: int) -> int:
        """Offset of the next line; only a comment may be before it."""
        at = self.blanks(at)
        found = _COMMENT.match(self.text, at)
        if found:
            at = found.end()
        if at == len(self.text):
            return at
        found = _NEWLINE.match(self.text, at)
        if not found:
            raise self.error(at, "expected the end of the line")
        return found.end()

    def key(self, at: int) -> _Key:
        """A dotted key; blanks may be around its dots."""
        names: list[str] = []
        ends: list[int] = []
        start = at
        while True:
            name, at = self.name(at)
            names.append(name)
            ends.append(at)
            after = self.blanks(at)
            if not self.text.startswith(".", after):
                break
            at = self.blanks(after + 1)
        if len(names) > _DEEPEST:
            raise self.error(start, f"a key of more than {_DEEPEST} parts")
        return _Key(tuple(names), start, ends)

    def name(self, at: int) -> tuple[str, int]:
        found = _BARE.match(self.text, at)
        if found:
            return found.group(), found.end()
        if self.text.startswith('"', at):
            return self.basic(at)
        if self.text.startswith("'", at):
            return self.literal(at)
        raise self.error(at, "expected a key")

    def header(self, line: int, at: int) -> int:
        array = self.text.startswith("[[", at)
        key = self.key(self.blanks(at + (2 if array else 1)))
        at = self.blanks(key.ends[-1])
        close = "]]" if array else "]"
        if not self.text.startswith(close, at):
            raise self.error(at, f"expected {close} at the end of the header")
        end = self.line_end(at + len(close))
        self.table = self.open_array(key) if array else self.open_table(key)
        self.sections.append(_Section(key, array, line, end))
        return end

    def parent_of(self, key: _Key) -> _Node:
        node = self.root
        for name in key.names[:-1]:
            child = node.children.get(name)
            if child is None:
                child = node.children[name] = _Node("implied", key.start)
            node = child.elements[-1] if child.kind == "array" else child
            if node.kind in ("value", "inline"):
                raise self.error(key.start, f"{dotted([name])} is not a table that could be extended")
        return node

    def open_table(self, key: _Key) -> _Node:
        siblings = self.parent_of(key).children
        node = siblings.get(key.names[-1])
        if node is None:
            node = siblings[key.names[-1]] = _Node("header", key.start)
        elif node.kind != "implied":
            raise self.error(key.start, f"{dotted(key.names)} is there twice")
        node.kind = "header"
        return node

    def open_array(self, key: _Key) -> _Node:
        siblings = self.parent_of(key).children
        node = siblings.get(key.names[-1])
        if node is None:
            node = siblings[key.names[-1]] = _Node("array", key.start)
        elif node.kind != "array":
            raise self.error(key.start, f"{dotted(key.names)} is there twice")
        node.elements.append(_Node("header", key.start))
        return node.elements[-1]

    def statement(self, line: int, at: int) -> int:
        key, start, end, node = self.pair(self.table, at, len(self.sections))
        after = self.line_end(end)
        node.statement = _Statement(key, line, (start, end), after)
        self.sections[-1].statements.append(node.statement)
        return after

    def pair(self, table: _Node, at: int, section: int) -> tuple[_Key, int, int, _Node]:
        """``key = value`` into a table: the key, where the value begins and ends, and its node."""
        key = self.key(at)
        at = self.blanks(key.ends[-1])
        if not self.text.startswith("=", at):
            raise self.error(at, "expected = after the key")
        for name in key.names[:-1]:
            child = table.children.get(name)
            if child is None:
                child = table.children[name] = _Node("dotted", key.start, section)
            elif child.kind == "implied":
                child.kind, child.section = "dotted", section
            elif child.kind != "dotted" or child.section != section:
                raise self.error(key.start, f"{dotted([name])} is defined elsewhere")
            table = child
        if key.names[-1] in table.children:
            raise self.error(key.start, f"{dotted(key.names)} is there twice")
        start = self.blanks(at + 1)
        node = table.children[key.names[-1]] = _Node("value", key.start)
        # what stands behind a long key is as deep as it would be in tables
        self.depth += len(key.names) - 1
        end = self.value(start, node)
        self.depth -= len(key.names) - 1
        return key, start, end, node

    # --- values -------------------------------------------------------------------------------------------------------

    def value(self, at: int, node: _Node) -> int:
        """Reads a value into a node; where it ends."""
        text = self.text
        first = text[at : at + 1]
        if first == '"':
            node.value, at = self.long_basic(at) if text.startswith('"""', at) else self.basic(at)
        elif first == "'":
            node.value, at = self.long_literal(at) if text.startswith("'''", at) else self.literal(at)
        elif first == "[":
            node.value, at = self.array(at)
        elif first == "{":
            at = self.inline(at, node)
        elif text.startswith("true", at):
            node.value, at = True, at + 4
        elif text.startswith("false", at):
            node.value, at = False, at + 5
        else:
            node.value, at = self.scalar(at)
        return at

    def scalar(self, at: int) -> tuple[t.Any, int]:
        text = self.text
        try:
            for pattern, make in ((_DATE, _date), (_LOCAL_TIME, _time), (_NUMBER, _number), (_SPECIAL_FLOAT, _float)):
                found = pattern.match(text, at)
                if found:
                    return make(found), found.end()
        except ValueError as exc:
            # such as the 30th of February; int() of thousands of digits
            raise self.error(at, "a value that does not exist, or is too long") from exc
        raise self.error(at, "expected a value")

    def deeper(self, at: int) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.error(at, f"nested more than {_DEEPEST} deep")

    def space(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    def array(self, at: int) -> tuple[list[t.Any], int]:
        self.deeper(at)
        start = at
        items: list[t.Any] = []
        at = self.space(at + 1)
        while not self.text.startswith("]", at):
            if at >= len(self.text):
                raise self.error(start, "an array without end")
            node = _Node("value", at)
            at = self.space(self.value(at, node))
            items.append(_plain(node))
            if self.text.startswith(",", at):
                at = self.space(at + 1)
            elif not self.text.startswith("]", at):
                raise self.error(at, "expected , or ] in the array")
        self.depth -= 1
        return items, at + 1

    def inline(self, at: int, node: _Node) -> int:
        self.deeper(at)
        # while it is read its keys may be dotted ones; afterwards it is closed
        node.kind = "header"
        at = self.blanks(at + 1)
        if not self.text.startswith("}", at):
            while True:
                # no section has this number: tables made in here belong to it alone
                _key, _start, end, _child = self.pair(node, at, -1)
                at = self.blanks(end)
                if not self.text.startswith(",", at):
                    break
                at = self.blanks(at + 1)
            if not self.text.startswith("}", at):
                raise self.error(at, "expected , or } in the inline table")
        node.kind = "inline"
        self.depth -= 1
        return at + 1

    # --- strings ------------------------------------------------------------------------------------------------------

    def literal(self, at: int) -> tuple[str, int]:
        found = _LITERAL.match(self.text, at)
        if not found:
            raise self.error(at, "a string without end, or with a control character in it")
        return found.group(1), found.end()

    def long_literal(self, at: int) -> tuple[str, int]:
        # one or two quotes may be before the last three
        quotes = _LONG_LITERAL_END.search(self.text, at + 3)
        if not quotes:
            raise self.error(at, "a string without end")
        first = _NEWLINE.match(self.text, at + 3)
        content = self.text[first.end() if first else at + 3 : quotes.end() - 3]
        if _NOT_IN_LONG_LITERAL.search(content):
            raise self.error(at, "a control character in a string")
        return content.replace("\r\n", "\n"), quotes.end()

    def basic(self, at: int) -> tuple[str, int]:
        start = at
        parts: list[str] = []
        at += 1
        while True:
            found = _PLAIN.match(self.text, at)
            if found:
                parts.append(found.group())
                at = found.end()
            if self.text.startswith('"', at):
                return "".join(parts), at + 1
            if not self.text.startswith("\\", at):
                raise self.error(start, "a string without end, or with a control character in it")
            char, at = self.escape(at)
            parts.append(char)

    def long_basic(self, at: int) -> tuple[str, int]:
        start = at
        parts: list[str] = []
        at += 3
        first = _NEWLINE.match(self.text, at)
        if first:
            at = first.end()
        while True:
            found = _LONG_PLAIN.match(self.text, at)
            if found:
                parts.append(found.group().replace("\r\n", "\n"))
                at = found.end()
            quotes = _LONG_BASIC_END.match(self.text, at)
            if quotes:
                at = quotes.end()
                if len(quotes.group()) >= 3:
                    parts.append('"' * (len(quotes.group()) - 3))
                    return "".join(parts), at
                parts.append(quotes.group())
                continue
            fold = _FOLD.match(self.text, at)
            if fold:
                at = fold.end()
                continue
            if not self.text.startswith("\\", at):
                raise self.error(start, "a string without end, or with a control character in it")
            char, at = self.escape(at)
            parts.append(char)

    def escape(self, at: int) -> tuple[str, int]:
        found = _UNICODE.match(self.text, at)
        if found:
            number = int(found.group(1) or found.group(2), 16)
            if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
                raise self.error(at, "no character has this number")
            return chr(number), found.end()
        char = self.text[at + 1 : at + 2]
        if char not in _ESCAPES or not char:
            raise self.error(at, "a backslash that means nothing")
        return _ESCAPES[char], at + 2


def _date(found: t.Match[str]) -> t.Any:
    year, month, day, hour, minute, second, fraction, zulu, sign, hours, minutes = found.groups()
    date = datetime.date(int(year), int(month), int(day))
    if hour is None:
        return date
    zone = datetime.timezone.utc if zulu else None
    if sign:
        offset = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        zone = datetime.timezone(-offset if sign == "-" else offset)
    time = datetime.time(int(hour), int(minute), int(second), int((fraction or "0").ljust(6, "0")), zone)
    return datetime.datetime.combine(date, time)


def _time(found: t.Match[str]) -> t.Any:
    hour, minute, second, fraction = found.groups()
    return datetime.time(int(hour), int(minute), int(second), int((fraction or "0").ljust(6, "0")))


def _number(found: t.Match[str]) -> t.Any:
    text = found.group().replace("_", "")
    return float(text) if found.group(1) else int(text, 0)


def _float(found: t.Match[str]) -> t.Any:
    return float(found.group())


def _plain(node: _Node) -> t.Any:
    if node.kind == "value":
        return node.value
    if node.kind == "array":
        return [_plain(element) for element in node.elements]
    return {name: _plain(child) for name, child in node.children.items()}


def parse(text: str) -> Json:
    """A TOML 1.0 document as dictionaries, lists, strings, integers, floats, booleans and what datetime has.

    A byte order mark and CRLF are fine. TomlError for everything that TOML forbids, with the line.
    """
    result: Json = _plain(_Reader(text).read().root)
    return result


# --- editing ----------------------------------------------------------------------------------------------------------


def _quoted(value: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    text = "".join(
        escapes.get(char) or (f"\\u{ord(char):04X}" if ord(char) < 32 or ord(char) == 127 else char) for char in value
    )
    return f'"{text}"'


def dotted(names: t.Sequence[str]) -> str:
    return ".".join(name if _BARE.fullmatch(name) else _quoted(name) for name in names)


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    return "[{}]".format(", ".join(_quoted(item) for item in value))


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
        self.reader = _Reader(text).read()
        first = re.search(r"\r?\n", text)
        self.newline = first.group() if first else "\n"

    def line_of(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    def walk(self) -> tuple[_Node, int]:
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

    def leaf(self) -> t.Optional[_Statement]:
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

    def remove(self, statement: _Statement) -> str:
        before, after = self.text[: statement.line], self.text[statement.end :]
        if not after and not self.text.endswith("\n"):
            before = re.sub(r"\r?\n\Z", "", before)
        return before + after

    def check(self, new: str, value: t.Optional[Value]) -> str:
        """The new text, when it says what the old one says but for the value; None is for a key that is to be away."""
        wanted: Json = _plain(self.reader.root)
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
    there at all is appended. The same text when the value is there already. TomlError for text that is no TOML; Refused where
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

    TomlError for text that is no TOML; Refused as set_value(), and where the table would vanish with its last dotted key.
    """
    editor = _Editor(text, path)
    statement = editor.leaf()
    return text if statement is None else editor.check(editor.remove(statement), None)
