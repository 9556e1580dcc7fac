# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TOML on nodes: it is read as tomllib reads it, and an edit changes the one value that was asked for, or is refused."""

from __future__ import annotations

import copy
import datetime
import difflib
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import TomlError, dotted, parse
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml_edit import (
    Refused,
    remove_value,
    same,
    set_value,
)

# --- reading ------------------------------------------------------------------------------------------------------------

EVERYTHING = """# a comment
title = "basic \\u00e9 \\t \\" \\\\ \\U0001F600" # after a value
'literal key' = 'C:\\no\\escapes'
"quoted key" . bare-1_ = true
1234 = false
long = \"\"\"
first line kept without its newline
two quotes "" inside, folded \\
       here, and two at the end\"\""\"
long_literal = '''
it''s \\literal'''
integers = [0, +99, -17, 1_000, 0xdead_BEEF, 0o755, 0b1101]
floats = [1.5, -0.01, 5e+22, 6.626e-34, inf, -inf]
dates = [1979-05-27T07:32:00Z, 1979-05-27 00:32:00.999999-07:00, 1979-05-27T07:32:00, 1979-05-27, 07:32:00.5]
nested = [ # in an array
  [1, 2], ["a", [true]], # and here

  {x = 1, y.z = "w"},
]
inline = { a = { b = {} }, c.d = 1 }
[ a . "b.c" ]
d.e.f = 1
d.e.g = 2
[a]
later = "the table after its sub-table"
[a."b.c".d.more]
[[list]]
name = "one"
[list.sub]
[[list.sub.deep]]
[[list]]
name = "two"
"""


def test_everything_that_there_is() -> None:
    data = parse(EVERYTHING)
    assert same(data, tomllib.loads(EVERYTHING))
    assert data["dates"][2] == datetime.datetime(1979, 5, 27, 7, 32)
    assert data["list"][0] == {"name": "one", "sub": {"deep": [{}]}}


def test_line_endings_and_a_byte_order_mark() -> None:
    assert same(parse(EVERYTHING.replace("\n", "\r\n")), parse(EVERYTHING))
    assert parse("\ufeffa = 1") == {"a": 1}
    assert parse("") == parse("\ufeff") == parse("# only\n\n") == {}


def test_line_endings_in_strings() -> None:
    assert parse('a = """\r\nb\r\nc\\\r\n  d"""')["a"] == "b\ncd"
    assert parse("a = '''\r\nb\r\nc'''")["a"] == "b\nc"


BAD = [
    ("a = 1\na = 2", 2, "a is there twice"),
    ("[a]\n[b]\n[a]", 3, "a is there twice"),
    ("[a.b]\n[a]\nb = 1", 3, "b is there twice"),
    ("[a]\nb = 1\n[a.b]", 3, "a.b is there twice"),
    ("[a]\nb = 1\n[a.b.c]", 3, "b is not a table that could be extended"),
    ("a = {}\n[a.b]", 2, "a is not a table that could be extended"),
    ("a = []\n[[a]]", 2, "a is there twice"),
    ("[[a]]\n[a]", 2, "a is there twice"),
    ("[a]\n[[a]]", 2, "a is there twice"),
    ("a.b = 1\n[a]", 2, "a is there twice"),
    ("[a.b.c]\n[a]\nb.c.d = 1", 3, "c is defined elsewhere"),
    ("a = {b = 1}\na.c = 2", 2, "a is defined elsewhere"),
    ("a = {b = 1, b = 2}", 1, "b is there twice"),
    ("a = {b.c = 1, b = 2}", 1, "b is there twice"),
    ("a = {b = 1,}", 1, "expected a key"),
    ("a = {b = 1\n}", 1, "expected , or } in the inline table"),
    ("a", 1, "expected = after the key"),
    ("a =", 1, "expected a value"),
    ("\n\na = \n1", 3, "expected a value"),
    ("= 1", 1, "expected a key"),
    ("a = 1 b = 2", 1, "expected the end of the line"),
    ("a = 01", 1, "expected the end of the line"),
    ("a = 1__0", 1, "expected the end of the line"),
    ("a = truely", 1, "expected the end of the line"),
    ("a = 'x", 1, "a string without end, or with a control character in it"),
    ('a = "x\ny"', 1, "a string without end, or with a control character in it"),
    ('a = """x', 1, "a string without end, or with a control character in it"),
    ("a = '''x", 1, "a string without end"),
    ("a = '''\x00'''", 1, "a control character in a string"),
    ("a = '''x\ry'''", 1, "a control character in a string"),
    ('a = "\\x41"', 1, "a backslash that means nothing"),
    ('a = "\\ud800"', 1, "no character has this number"),
    ('a = "\\U00110000"', 1, "no character has this number"),
    ("a = [1\nb = 2", 2, "expected , or ] in the array"),
    ("a = [\n1,\n", 1, "an array without end"),
    ("a = 2021-02-30", 1, "a value that does not exist, or is too long"),
    ("a = " + "9" * 5000, 1, "a value that does not exist, or is too long"),
    ("[a", 1, "expected ] at the end of the header"),
    ("[[a]", 1, "expected ]] at the end of the header"),
    ("[a] b = 1", 1, "expected the end of the line"),
    ("a = 1\rb = 2", 1, "expected the end of the line"),
    ("# \x01", 1, "expected the end of the line"),
    ("a = '\udcff'", 1, "not UTF-8"),
    (".".join("a" * 101) + " = 1", 1, "a key of more than 100 parts"),
    ("a = " + "[" * 101, 1, "nested more than 100 deep"),
    ("a = " + "{a = " * 101, 1, "nested more than 100 deep"),
    ("a = " + "{a.a.a.a = " * 50, 1, "nested more than 100 deep"),
]


@pytest.mark.parametrize(("text", "line", "reason"), BAD, ids=[str(number) for number in range(len(BAD))])
def test_bad_text(text: str, line: int, reason: str) -> None:
    with pytest.raises(TomlError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.reason) == (line, reason)
    assert str(caught.value) == f"line {line}: {reason}"
    if "\udcff" not in text and "100" not in reason:
        with pytest.raises(ValueError):  # noqa: PT011 - tomllib lets int() speak for itself
            tomllib.loads(text)


def test_messages_show_no_values() -> None:
    for text in ('password = "secret', "password = secret", 'password = "x" secret', "password = ['secret'\n"):
        with pytest.raises(TomlError) as caught:
            parse(text)
        assert "secret" not in str(caught.value)


BITS = [
    "[",
    "[[",
    "]",
    "]]",
    "=",
    '"',
    '"""',
    "'",
    "'''",
    "\n",
    "\r\n",
    "\r",
    "#",
    ",",
    "{",
    "}",
    ".",
    "a",
    "1",
    "0",
    "_",
]
BITS += [
    "-",
    "+",
    "e",
    "true",
    "inf",
    "\\",
    "\\u12",
    "\t",
    " ",
    "\x00",
    "\ufeff",
    "é",
    "2020-02-30",
    "25:00:00",
    "0x",
    "1__0",
]


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 3), st.sampled_from(BITS)), max_size=4))
def test_damaged_text_is_read_as_tomllib_reads_it(damage: list[tuple[int, int, str]]) -> None:
    text = EVERYTHING
    for at, length, bit in damage:
        text = text[:at] + bit + text[at + length :]
    try:
        wanted = tomllib.loads(text)
    except ValueError:
        # tomllib knows no byte order mark
        if not text.startswith("\ufeff"):
            with pytest.raises(TomlError):
                parse(text)
        return
    assert same(parse(text), wanted)


# --- random documents ---------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c-1", "plugins", "x.y", "", "ü", 'q"', "it's", "runc"])
leaves: st.SearchStrategy[Any] = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=True)
    | st.text(st.characters(blacklist_categories=["Cs"]), max_size=6)
    | st.lists(st.integers(0, 9) | st.text(max_size=2, alphabet="ab#\n'\""), max_size=3)
    | st.dates()
)
trees = st.recursive(
    st.dictionaries(names, leaves, max_size=4),
    lambda inner: st.dictionaries(names, leaves | inner, max_size=4),
    max_leaves=8,
)


class Writer:
    """A document in a style of its own at every place; draw decides."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.newline = draw(st.sampled_from(["\n", "\r\n"]))
        self.lines: list[str] = []

    def one_of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def key(self, *path: str) -> str:
        return self.one_of(".", " . ").join(
            f"'{name}'" if name and "'" not in name and self.draw(st.booleans()) else dotted([name]) for name in path
        )

    def value(self, value: Any) -> str:
        if isinstance(value, dict):
            return "{ %s }" % ", ".join(f"{self.key(name)} = {self.value(item)}" for name, item in value.items())
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str):
            plain = value.isprintable() and "'" not in value
            if plain and self.draw(st.booleans()):
                return self.one_of(f"'{value}'", f"'''{value}'''")
            text = "".join(
                char if char.isprintable() and char not in '"\\' else f"\\U{ord(char):08X}" for char in value
            )
            return self.one_of(f'"{text}"', f'"""{text}"""', f'"""{self.newline}{text}\\{self.newline}  """')
        if isinstance(value, list):
            between = self.one_of("", " ", f' # , ] "{self.newline}  ')
            return "[%s%s]" % (between, "".join(f"{self.value(item)},{between}" for item in value))
        return value.isoformat() if isinstance(value, datetime.date) else repr(value)

    def noise(self) -> None:
        self.lines += self.one_of([], [], [""], ["# [a] b = 1"], ["  # x", ""])

    def table(self, tree: dict[str, Any], path: tuple[str, ...]) -> None:
        indent = self.one_of("", "  ", "\t")
        later = []
        for name, value in tree.items():
            if isinstance(value, dict):
                style = self.one_of("header", "header", "inline", "dotted")
                if style == "header" or (style == "dotted" and not value):
                    later.append((name, value))
                    continue
                if style == "dotted":
                    for inner, item in value.items():
                        self.lines.append(f"{indent}{self.key(name, inner)} = {self.value(item)}")
                    continue
            self.lines.append(
                f"{indent}{self.key(name)}{self.one_of(' ', '')}= {self.value(value)}{self.one_of('', ' # x')}"
            )
            self.noise()
        for name, value in later:
            # a table with nothing but tables in it needs no header
            if not (value and all(isinstance(item, dict) for item in value.values()) and self.draw(st.booleans())):
                self.lines.append(f"{self.one_of('', '  ')}[{self.key(*path, name)}]{self.one_of('', ' # x')}")
                self.noise()
                self.table(value, (*path, name))
            else:
                for inner, item in value.items():
                    self.lines.append(f"[{self.key(*path, name, inner)}]")
                    self.table(item, (*path, name, inner))

    def text(self, tree: dict[str, Any]) -> str:
        self.noise()
        self.table(tree, ())
        return self.newline.join(self.lines) + self.one_of(self.newline, "")


@st.composite
def documents(draw: Any) -> tuple[dict[str, Any], str]:
    tree = draw(trees)
    return tree, Writer(draw).text(tree)


@given(documents())
def test_random_documents(document: tuple[dict[str, Any], str]) -> None:
    tree, text = document
    assert same(parse(text), tree)
    assert same(tomllib.loads(text), tree)


def paths_of(tree: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, value in tree.items():
        found += [(*path, name), (*path, name, "new"), (*path, "new", name)]
        found += paths_of(value, (*path, name)) if isinstance(value, dict) else []
    return found or [(*path, "new")]


def put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    result = copy.deepcopy(tree)
    table = result
    for name in path[:-1]:
        table = table.setdefault(name, {})
    table[path[-1]] = value
    return result


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """Lines that are gone, lines that are new."""
    lines = list(difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True)))
    return [x[2:] for x in lines if x.startswith("- ")], [x[2:] for x in lines if x.startswith("+ ")]


values = st.sampled_from(["/etc/containerd/base.json", 'a "b" \\ \n', "", True, False, 0, -5, ["a", "b'"], []])


@given(documents(), st.data())
def test_random_edits(document: tuple[dict[str, Any], str], data: st.DataObject) -> None:
    tree, text = document
    path = data.draw(st.sampled_from(paths_of(tree)))
    value = data.draw(values)
    try:
        new = set_value(text, path, value)
    except Refused:
        return
    assert same(tomllib.loads(new), put(tree, path, value))
    gone, come = changed_lines(text, new)
    if not any(mark in text for mark in ('"""', "'''", "# , ]")):
        # of what was there at most the line of the value, or a last line that had no end
        assert len(gone) <= 1
        assert len(come) <= 4
    assert ("\r\n" in new) == ("\r\n" in text) or "\n" not in text
    if text:
        assert text.endswith("\n") == new.endswith("\n")
    assert set_value(new, path, value) == new
    try:
        without = remove_value(new, path)
    except Refused:
        return
    table = tomllib.loads(without)
    assert same(put(table, path, value), put(tree, path, value))
    assert remove_value(without, path) == without


# --- the cases of an edit -----------------------------------------------------------------------------------------------

CASES = {
    "a value is replaced, what is around it stays": (
        "[a]  # x\r\n\tb   =  'old'  # y\r\nc = 1",
        '[a]  # x\r\n\tb   =  "new"  # y\r\nc = 1',
    ),
    "a value over several lines": ('[a]\nb = [ # x\n "1", # y\n]\nc = 1\n', '[a]\nb = "new"\nc = 1\n'),
    "behind the last key, as that is indented": (
        "[a]\n    c = 1 # x\n    # d = 2\n\n[z]\n",
        '[a]\n    c = 1 # x\n    b = "new"\n    # d = 2\n\n[z]\n',
    ),
    "under a header without keys": ("x = 1\n  [a] # y\n[z]\n", 'x = 1\n  [a] # y\n  b = "new"\n[z]\n'),
    "under a header, as the keys of others are indented": (
        "[z]\n  x = 1\n[a]\n[a.c]",
        '[z]\n  x = 1\n[a]\n  b = "new"\n[a.c]',
    ),
    "no last newline": ("[a]\nc = 1", '[a]\nc = 1\nb = "new"'),
    "no last newline, and a header": ("[a]", '[a]\nb = "new"'),
    "only tables below it": (
        "[z]\n  x = 1\n\n# about c\n  [a.c]\n    d = 1\n",
        '[z]\n  x = 1\n\n  [a]\n    b = "new"\n\n# about c\n  [a.c]\n    d = 1\n',
    ),
    "only tables below it, spelt as they are": ("['a'.c.d]\n", "['a']\nb = \"new\"\n['a'.c.d]\n"),
    "a table made of dotted keys": ("  a.c = 1\nz = 2\n", '  a.c = 1\n  a.b = "new"\nz = 2\n'),
    "not there at all": ("z = 1\n", 'z = 1\n\n[a]\nb = "new"\n'),
    "an empty document": ("", '[a]\nb = "new"\n'),
    "nothing but a mark": ("\ufeff", '\ufeff[a]\nb = "new"\n'),
    "keys of other tables have the name": (
        "b = 1\n[z]\nb = 1\n[a.a]\nb = 1\n[a]\n[[y]]\nb = 1\n",
        'b = 1\n[z]\nb = 1\n[a.a]\nb = 1\n[a]\nb = "new"\n[[y]]\nb = 1\n',
    ),
    "what looks like a table is none": (
        'x = """\n[a]\nb = 1\n"""\n# [a]\n',
        'x = """\n[a]\nb = 1\n"""\n# [a]\n\n[a]\nb = "new"\n',
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_cases(before: str, after: str) -> None:
    assert set_value(before, ["a", "b"], "new") == after
    assert set_value(after, ["a", "b"], "new") == after


def test_a_key_of_the_root() -> None:
    assert set_value("", ["imports"], ["a", "b"]) == 'imports = ["a", "b"]\n'
    assert set_value("x = 1\n\n[a]\n", ["b"], True) == "x = 1\nb = true\n\n[a]\n"
    assert set_value("# top\n\n# about a\n[a]\n", ["b"], 5) == "# top\n\nb = 5\n\n# about a\n[a]\n"
    assert set_value("\ufeff[a]\n", ["b"], 5) == "\ufeffb = 5\n\n[a]\n"


def test_deep_in_dotted_keys() -> None:
    text = "[plugins.cri]\ncontainerd.runtimes.runc.runtime_type = 'x'\n[y]\n"
    path = ["plugins", "cri", "containerd", "runtimes", "nvidia", "options", "SystemdCgroup"]
    new = "containerd.runtimes.nvidia.options.SystemdCgroup = true\n"
    assert set_value(text, path, True) == text.replace("[y]", new + "[y]")


def test_a_new_table_is_spelt_as_its_parents_are() -> None:
    text = "[plugins.'io.x'.containerd]\n  a = 1\n"
    path = ["plugins", "io.x", "containerd", "runtimes", "a.b", "spec"]
    assert set_value(text, path, 1) == text + "\n[plugins.'io.x'.containerd.runtimes.\"a.b\"]\n  spec = 1\n"


REFUSED = {
    "a = { c = 1 }": "a on line 1 is an inline table, in which nothing can be edited safely; write it as a table with a header",
    "\n[[a]]": "a on line 2 is an array of tables, in which nothing can be edited safely",
    "a = 5": "a on line 1 is a value, in which nothing can be edited safely",
    "a = [{b = 1}]": "a on line 1 is a value, in which nothing can be edited safely",
    "[a.b]": "a.b on line 1 is a table; expected a value",
    "[a]\nb = {}": "a.b on line 2 is a table; expected a value",
    "[[a.b]]": "a.b on line 1 is a table; expected a value",
    "a.b.c = 1": "a.b on line 1 is a table; expected a value",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=REFUSED)
def test_refused(text: str, message: str) -> None:
    for edit in (lambda: set_value(text, ["a", "b"], "new"), lambda: remove_value(text, ["a", "b"])):
        with pytest.raises(Refused) as caught:
            edit()
        assert str(caught.value) == message


def test_no_toml_is_no_refusal() -> None:
    with pytest.raises(TomlError, match=r"^line 2: "):
        set_value("a = 1\na = 2", ["b"], 1)
    with pytest.raises(Refused, match=r"^an edit needs the path of a key$"):
        set_value("a = 1", [], 1)


def test_a_value_that_is_there_is_not_rewritten() -> None:
    text = "a = [ # x\n 'b',\n]\nc = 'd'\ne = 0x10\nf = 1\n"
    assert set_value(text, ["a"], ["b"]) == set_value(text, ["c"], "d") == set_value(text, ["e"], 16) == text
    # True is no 1
    assert set_value(text, ["f"], True) == text.replace("f = 1", "f = true")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[a]\nb = 1 # x\nc = 2\n", "[a]\nc = 2\n"),
        ("[a]\r\nc = 2\r\n  b = [\r\n1,\r\n]", "[a]\r\nc = 2"),
        ("[a]\nb = 1", "[a]"),
        ("a.c = 1\na.b = 2\n", "a.c = 1\n"),
        ("[a]\n", "[a]\n"),
        ("", ""),
    ],
)
def test_removing(before: str, after: str) -> None:
    assert remove_value(before, ["a", "b"]) == after


def test_a_table_does_not_vanish_with_its_last_key() -> None:
    with pytest.raises(Refused, match=r"^a\.b cannot be edited without a change of something else$"):
        remove_value("a.b = 1\nc = 2\n", ["a", "b"])
