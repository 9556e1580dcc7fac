# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/troubleshooting.md has every kind of finding that rules tell, and no other."""

from __future__ import annotations

import ast
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.rules import RULES
from ansible_collections.fabric.rdma.plugins.plugin_utils._fabric import cables
from ansible_collections.fabric.rdma.plugins.plugin_utils._health import kinds, rules


def told(source: t.Any) -> list[str]:
    """The ids in calls of _finding(), and in findings that are written out, in the order of the file."""
    found = []
    for node in ast.walk(ast.parse(Path(source.__file__).read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_finding":
            found += [
                (arg.lineno, arg.value) for arg in node.args if isinstance(arg, ast.Constant) and "-" in str(arg.value)
            ]
        if isinstance(node, ast.Dict):
            found += [
                (key.lineno, value.value)
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant) and key.value == "id" and isinstance(value, ast.Constant)
            ]
    return [text for _line, text in sorted(found)]


@pytest.mark.parametrize(("source", "known"), [(rules, kinds.LINKS), (cables, kinds.CABLES)], ids=["links", "cables"])
def test_each_kind_that_a_rule_tells_is_in_the_table(source: t.Any, known: tuple[kinds.Kind, ...]) -> None:
    assert told(source) == [kind.id for kind in known]


def test_no_two_findings_share_an_id_or_a_title() -> None:
    everything = [*kinds.LINKS, *kinds.CABLES, *RULES]
    assert len({each.id for each in everything}) == len(everything)
    assert len({each.title for each in everything}) == len(everything)


def test_texts_are_sentences_without_an_end() -> None:
    for kind in (*kinds.LINKS, *kinds.CABLES):
        assert kind.title[0].isupper()
        assert not kind.title.endswith(".")
        assert kind.severity.split(",")[0].split()[0] in ("error", "warning", "note")
        for text in (kind.cause, kind.remedy):
            assert text[0].islower()
            assert not text.endswith(".")
