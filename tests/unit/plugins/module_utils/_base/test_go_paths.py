# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patterns as Go reads them. What is expected was answered by Go 1.26: path/filepath, Match and Glob."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.go_paths import (
    PatternError,
    glob,
    malformed,
    matches,
    quoted,
)


@pytest.mark.parametrize(
    ("pattern", "path", "taken"),
    [
        ("*", ".hidden", True),
        ("*", "", True),
        ("*.toml", "a.toml", True),
        ("*.toml", "a.toml\n", False),
        ("/etc/*/x", "/etc/a/x", True),
        ("/etc/*", "/etc/a/x", False),
        ("?", "\u00e4", True),
        ("a?c", "a\nc", True),
        # only a circumflex leaves out
        ("[^a].toml", "b.toml", True),
        ("[^a].toml", "a.toml", False),
        ("[!a].toml", "b.toml", False),
        ("[!a].toml", "!.toml", True),
        ("[^^]", "^", False),
        ("[a^]", "^", True),
        ("[a-c][0-9]", "b7", True),
        ("[a-c]", "d", False),
        ("[c-a]", "b", False),
        ("[^c-a]", "b", True),
        ("[c-ax]", "x", True),
        (r"[\-x]", "-", True),
        (r"[\]a]", "]", True),
        (r"[a-\]]", "b", False),
        # a backslash takes what follows for itself
        (r"\*", "*", True),
        (r"\*", "a", False),
        (r"a\bc", "abc", True),
        ("a.c", "abc", False),
        ("a+", "aa", False),
        # each star takes what is between
        ("a*b*c", "abbc", True),
        ("a*b*c", "acb", False),
        ("*ab*ab", "abab", True),
        ("*ab*ab", "aab", False),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("**", "x", True),
        ("*?*", "", False),
        ("?*[ab]", "xb", True),
        ("?*[ab]", "b", False),
        # errors of a pattern
        ("[", "[", False),
        ("[]a]", "]", False),
        ("[-x]", "-", False),
        ("[a-]", "a", False),
        ("[x-]", "-", False),
        ("[^]", "^", False),
        ("[^-a]", "_", False),
        ("[^]a]", "^a]", False),
        ("a[", "a", False),
        ("a\\", "a\\", False),
    ],
)
def test_a_pattern_takes_what_go_takes(pattern: str, path: str, taken: bool) -> None:
    assert matches(path, pattern) is taken


@pytest.mark.parametrize(
    ("pattern", "bad"),
    [
        ("/none/[*", True),
        ("/none/*[", True),
        ("/none/[]a]", True),
        ("/none/*[b-]", True),
        ("/none/a\\", True),
        ("/[/none/*", True),
        # no bracket has a slash in it
        ("/[a/b]*", True),
        ("/a\\/b", True),
        ("/none/]*", False),
        ("/none/[c-a]", False),
        ("/none/[^a]\\[*", False),
    ],
)
def test_an_error_of_a_pattern_is_seen_whatever_is_there(pattern: str, bad: bool) -> None:
    assert malformed(pattern) is bad


def test_no_pattern_takes_long() -> None:
    """Names of files and imports of a capture are somebody else's: an expression that tries all ways would take for ever."""
    assert not matches("a" * 255, "*a" * 20 + "b")
    assert matches("a" * 255 + "b", "*a" * 20 + "*b")


def found(pattern: str) -> list[str]:
    def names(directory: str) -> list[str]:
        return os.listdir(directory) if os.path.isdir(directory) else []

    return glob(pattern, names, os.path.lexists)


def test_a_link_to_its_own_directory_is_not_followed_for_ever(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"l{number}").symlink_to(".")
    with pytest.raises(PatternError, match=r"names more than 10000 paths\. Write"):
        found(f"{tmp_path}{'/*' * 30}/none")


def test_no_more_is_looked_at_once_there_are_too_many_paths() -> None:
    """2,000 links to their own directory would be four million paths after two stars."""
    looked: list[str] = []

    def names(directory: str) -> list[str]:
        looked.append(directory)
        return [f"l{number}" for number in range(2000)]

    with pytest.raises(PatternError, match="names more than 10000 paths"):
        glob("/d/*/*", names, lambda _path: True)
    assert len(looked) == 1 + 6
    # as many as may be are found
    assert len(glob("/*/*", lambda directory: map(str, range(100)), lambda _path: True)) == 10_000


def test_no_more_is_compared_once_it_is_too_much() -> None:
    """Where no name is one of the pattern, too."""
    compared: list[str] = []

    def names(_directory: str) -> t.Iterator[str]:
        for number in range(2000):
            compared.append(f"l{number}")
            yield compared[-1]

    with pytest.raises(PatternError, match=r"searches more than 200000 names\. Write a pattern with fewer stars"):
        glob("/d/*/x*", names, lambda _path: True)
    assert len(compared) == 200_001


def test_what_is_there_is_found_in_byte_order(tmp_path: Path) -> None:
    for name in ("a/b.toml", "a/.c.toml", "a/B.toml", ".d/x.toml", "e.toml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "a" / "gone.toml").symlink_to("nowhere")
    assert found(f"{tmp_path}/a/*.toml") == [
        f"{tmp_path}/a/{name}" for name in (".c.toml", "B.toml", "b.toml", "gone.toml")
    ]
    assert found(f"{tmp_path}/*/x.toml") == [f"{tmp_path}/.d/x.toml"]
    assert found(f"{tmp_path}/*/*") == [
        f"{tmp_path}/{name}" for name in (".d/x.toml", "a/.c.toml", "a/B.toml", "a/b.toml", "a/gone.toml")
    ]
    # directory by directory: by bytes alone, a.d/ would come before a/
    (tmp_path / "a.d").mkdir()
    (tmp_path / "a.d" / "b.toml").touch()
    assert found(f"{tmp_path}/a*/b.toml") == [f"{tmp_path}/a/b.toml", f"{tmp_path}/a.d/b.toml"]
    # also where a file is in the place of a directory
    assert found(f"{tmp_path}/e.toml/*") == []
    assert found(f"{tmp_path}/a/gone.toml") == [f"{tmp_path}/a/gone.toml"]
    assert found(f"{tmp_path}/none") == found(f"{tmp_path}/a/[") == []


@given(st.text("ab^!-]\\[*?.\n", max_size=8), st.text("ab^!-].\n", max_size=4))
def test_any_pattern_is_read(pattern: str, name: str) -> None:
    assert matches(name, pattern) in (True, False)


@given(st.text(st.characters(exclude_characters="/", exclude_categories=()), max_size=8))
def test_a_name_of_which_each_sign_is_quoted_takes_itself_alone(name: str) -> None:
    assert matches(name, quoted(name))
    assert not matches(name + "x", quoted(name))
