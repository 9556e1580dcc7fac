# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TOML on nodes: it is read as tomllib reads it, and an edit changes the one value that was asked for, or is refused."""

from __future__ import annotations

import datetime
import re
import tomllib
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import TomlError, parse
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml_edit import (
    same,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._containerd.documents import (
    documents,
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


def test_line_endings_and_a_byte_order_mark_change_nothing() -> None:
    assert same(parse(EVERYTHING.replace("\n", "\r\n")), parse(EVERYTHING))
    assert parse("\ufeffa = 1") == {"a": 1}
    assert parse("") == parse("\ufeff") == parse("# only\n\n") == {}


def test_line_endings_in_strings_become_newlines() -> None:
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
    ('a = "\\x41"', 1, "a backslash without a meaning"),
    ('a = "\\ud800"', 1, "no character has this number"),
    ('a = "\\U00110000"', 1, "no character has this number"),
    ("a = [1\nb = 2", 2, "expected , or ] in the array"),
    ("a = [\n1,\n", 1, "an array without end"),
    ("a = 2021-02-30", 1, "not a value, or one that is too long"),
    ("a = " + "9" * 5000, 1, "not a value, or one that is too long"),
    ("a = 9223372036854775808", 1, "not a value, or one that is too long"),
    ("a = -9223372036854775809", 1, "not a value, or one that is too long"),
    ("a = 0x" + "f" * 5000, 1, "not a value, or one that is too long"),
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
def test_bad_text_is_refused_with_line_and_reason(text: str, line: int, reason: str) -> None:
    with pytest.raises(TomlError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.reason) == (line, reason)
    assert str(caught.value) == f"line {line}: {reason}"
    # tomllib reads numbers of any length, containerd only those of 64 bits
    if "\udcff" not in text and "100" not in reason and not re.match(r"a = (-?922|0xfff)", text):
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


@given(documents())
def test_a_document_is_read_as_tomllib_reads_it(document: tuple[dict[str, Any], str]) -> None:
    tree, text = document
    assert same(parse(text), tree)
    assert same(tomllib.loads(text), tree)
