# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capture trees of tests/captures: what discovery says of them is what was written down by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import load_listing, open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.recorder import dump_listing
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
NAMES = sorted(path.name.removesuffix(".expected.json") for path in CAPTURES.glob("*.expected.json"))


def differences(expected: Any, found: Any, where: str = "") -> Iterator[str]:
    """Each place where a field that is expected is absent or has another value. Fields that are not expected are free."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            if key not in found:
                yield f"{where}.{key}: absent, expected {value!r}"
            else:
                yield from differences(value, found[key], f"{where}.{key}")
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield f"{where}: {len(found)} entries, expected {len(expected)}: {found!r}"
        for index, (left, right) in enumerate(zip(expected, found, strict=False)):
            yield from differences(left, right, f"{where}[{index}]")
    elif expected != found or isinstance(expected, bool) != isinstance(found, bool):
        yield f"{where}: {found!r}, expected {expected!r}"


def test_every_tree_has_its_truth() -> None:
    assert NAMES
    assert sorted(path.name.removesuffix(".capture") for path in CAPTURES.glob("*.capture")) == NAMES


def test_the_trees_are_what_the_descriptions_build() -> None:
    built = subprocess.run(
        [sys.executable, str(CAPTURES / "build.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_capture_gives_the_recorded_facts(name: str) -> None:
    expected = json.loads((CAPTURES / f"{name}.expected.json").read_text(encoding="utf-8"))
    found = gather(open_tree(str(CAPTURES / f"{name}.capture")))
    assert list(differences(expected, found)) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_listing_is_in_its_canonical_form(name: str) -> None:
    text = (CAPTURES / f"{name}.capture").read_text(encoding="utf-8")
    assert dump_listing(load_listing(text, name)) == text


def test_a_difference_is_found() -> None:
    assert list(differences({"a": [1, {"b": None}]}, {"a": [1, {"b": None, "c": 1}], "d": 2})) == []
    assert len(list(differences({"a": [1, {"b": None}], "c": True, "e": 1}, {"a": [2, {"b": 0}], "c": 1}))) == 4
