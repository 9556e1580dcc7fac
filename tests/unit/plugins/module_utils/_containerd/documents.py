# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TOML for tests: documents of every spelling."""

from __future__ import annotations

import datetime
from typing import Any

from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import dotted

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
            pairs = (f"{self.key(name)} = {self.value(item)}" for name, item in value.items())
            return f"{{ {', '.join(pairs)} }}"
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
            items = "".join(f"{self.value(item)},{between}" for item in value)
            return f"[{between}{items}]"
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
