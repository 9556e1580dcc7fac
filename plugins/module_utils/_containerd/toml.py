# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader of TOML 1.0. Private to the collection. Pure.

Nodes have Pythons without tomllib. Messages name lines and keys and never show values, which may be credentials.
"""

from __future__ import annotations

import datetime
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = ["Json", "Node", "Path", "Reader", "Statement", "TomlError", "dotted", "parse", "plain", "quoted"]

Json = t.Dict[str, t.Any]
Path = t.Tuple[str, ...]

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
    """Text that is not TOML. line is the number of the line, from 1; str() of it begins with ``line N: ``."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


class Node:
    """A value, or a table with how it came to be, which decides what may still be added to it.

    kind: value | inline | array (of tables) | header ([a]) | implied ([a.b] implies a) | dotted (a.b = 1 makes a).
    section: number of the section whose dotted keys made it. statement: that of a value. line: offset of its definition.
    """

    __slots__ = ("children", "elements", "kind", "section", "start", "statement", "value")

    def __init__(self, kind: str, start: int, section: int = 0) -> None:
        self.kind = kind
        self.start = start
        self.section = section
        self.children: dict[str, Node] = {}
        self.elements: list[Node] = []
        self.value: t.Any = None
        self.statement: t.Optional[Statement] = None


class _Key(t.NamedTuple):
    """Names of a dotted key, and where in the text each of them ends."""

    names: Path
    start: int
    ends: list[int]


class Statement(t.NamedTuple):
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
        self.statements: list[Statement] = []


class Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.root = Node("header", 0)
        self.sections = [_Section(_Key((), 0, []), False, 0, 0)]
        self.table = self.root
        self.depth = 0

    def error(self, at: int, reason: str) -> TomlError:
        return TomlError(self.text.count("\n", 0, at) + 1, reason)

    # --- document -----------------------------------------------------------------------------------------------------

    def read(self) -> Reader:
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

    def parent_of(self, key: _Key) -> Node:
        node = self.root
        for name in key.names[:-1]:
            child = node.children.get(name)
            if child is None:
                child = node.children[name] = Node("implied", key.start)
            node = child.elements[-1] if child.kind == "array" else child
            if node.kind in ("value", "inline"):
                raise self.error(key.start, f"{dotted([name])} is not a table that could be extended")
        return node

    def open_table(self, key: _Key) -> Node:
        siblings = self.parent_of(key).children
        node = siblings.get(key.names[-1])
        if node is None:
            node = siblings[key.names[-1]] = Node("header", key.start)
        elif node.kind != "implied":
            raise self.error(key.start, f"{dotted(key.names)} is there twice")
        node.kind = "header"
        return node

    def open_array(self, key: _Key) -> Node:
        siblings = self.parent_of(key).children
        node = siblings.get(key.names[-1])
        if node is None:
            node = siblings[key.names[-1]] = Node("array", key.start)
        elif node.kind != "array":
            raise self.error(key.start, f"{dotted(key.names)} is there twice")
        node.elements.append(Node("header", key.start))
        return node.elements[-1]

    def statement(self, line: int, at: int) -> int:
        key, start, end, node = self.pair(self.table, at, len(self.sections))
        after = self.line_end(end)
        node.statement = Statement(key, line, (start, end), after)
        self.sections[-1].statements.append(node.statement)
        return after

    def pair(self, table: Node, at: int, section: int) -> tuple[_Key, int, int, Node]:
        """``key = value`` into a table: the key, where the value begins and ends, and its node."""
        key = self.key(at)
        at = self.blanks(key.ends[-1])
        if not self.text.startswith("=", at):
            raise self.error(at, "expected = after the key")
        for name in key.names[:-1]:
            child = table.children.get(name)
            if child is None:
                child = table.children[name] = Node("dotted", key.start, section)
            elif child.kind == "implied":
                child.kind, child.section = "dotted", section
            elif child.kind != "dotted" or child.section != section:
                raise self.error(key.start, f"{dotted([name])} is defined elsewhere")
            table = child
        if key.names[-1] in table.children:
            raise self.error(key.start, f"{dotted(key.names)} is there twice")
        start = self.blanks(at + 1)
        node = table.children[key.names[-1]] = Node("value", key.start)
        # what stands behind a long key is as deep as it would be in tables
        self.depth += len(key.names) - 1
        end = self.value(start, node)
        self.depth -= len(key.names) - 1
        return key, start, end, node

    # --- values -------------------------------------------------------------------------------------------------------

    def value(self, at: int, node: Node) -> int:
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
            # such as the 30th of February
            raise self.error(at, "not a value, or one that is too long") from exc
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
            node = Node("value", at)
            at = self.space(self.value(at, node))
            items.append(plain(node))
            if self.text.startswith(",", at):
                at = self.space(at + 1)
            elif not self.text.startswith("]", at):
                raise self.error(at, "expected , or ] in the array")
        self.depth -= 1
        return items, at + 1

    def inline(self, at: int, node: Node) -> int:
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
            raise self.error(at, "a backslash without a meaning")
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
    if found.group(1):
        return float(text)
    number = int(text, 0)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("containerd reads numbers of 64 bits")
    return number


def _float(found: t.Match[str]) -> t.Any:
    return float(found.group())


def quoted(value: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    text = "".join(
        escapes.get(char) or (f"\\u{ord(char):04X}" if ord(char) < 32 or ord(char) == 127 else char) for char in value
    )
    return f'"{text}"'


def dotted(names: t.Sequence[str]) -> str:
    return ".".join(name if _BARE.fullmatch(name) else quoted(name) for name in names)


def plain(node: Node) -> t.Any:
    if node.kind == "value":
        return node.value
    if node.kind == "array":
        return [plain(element) for element in node.elements]
    return {name: plain(child) for name, child in node.children.items()}


def parse(text: str) -> Json:
    """A TOML 1.0 document as dictionaries, lists, strings, integers, floats, booleans and what datetime has.

    A byte order mark and CRLF are fine. TomlError for everything that TOML forbids, with the line.
    """
    result: Json = plain(Reader(text).read().root)
    return result
