# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import difflib
import tomllib
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import TomlError
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml_edit import (
    Refused,
    remove_value,
    same,
    set_value,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._containerd.documents import (
    documents,
)


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
def test_an_edit_changes_one_value_and_its_line(document: tuple[dict[str, Any], str], data: st.DataObject) -> None:
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
def test_a_value_is_set_where_its_table_is(before: str, after: str) -> None:
    assert set_value(before, ["a", "b"], "new") == after
    assert set_value(after, ["a", "b"], "new") == after


def test_a_key_of_the_root_is_set_before_the_first_table() -> None:
    assert set_value("", ["imports"], ["a", "b"]) == 'imports = ["a", "b"]\n'
    assert set_value("x = 1\n\n[a]\n", ["b"], True) == "x = 1\nb = true\n\n[a]\n"
    assert set_value("# top\n\n# about a\n[a]\n", ["b"], 5) == "# top\n\nb = 5\n\n# about a\n[a]\n"
    assert set_value("\ufeff[a]\n", ["b"], 5) == "\ufeffb = 5\n\n[a]\n"


def test_a_key_deep_in_dotted_keys_is_set_beside_its_neighbours() -> None:
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
def test_what_cannot_be_edited_safely_is_refused_with_its_line(text: str, message: str) -> None:
    for edit in (lambda: set_value(text, ["a", "b"], "new"), lambda: remove_value(text, ["a", "b"])):
        with pytest.raises(Refused) as caught:
            edit()
        assert str(caught.value) == message


def test_malformed_toml_is_an_error_and_not_a_refusal() -> None:
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
def test_a_removal_takes_one_line(before: str, after: str) -> None:
    assert remove_value(before, ["a", "b"]) == after


def test_a_table_does_not_vanish_with_its_last_key() -> None:
    with pytest.raises(Refused, match=r"^a\.b cannot be edited without a change of something else$"):
        remove_value("a.b = 1\nc = 2\n", ["a", "b"])
