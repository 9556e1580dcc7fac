# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a document has the form that docs/*.schema.json describe."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs

DOCS = Path(__file__).resolve().parents[2] / "docs"


@functools.cache
def validator(sort: str) -> jsonschema.Draft202012Validator:
    """Of facts, plan, evidence, outcomes or the state of a system."""
    return jsonschema.Draft202012Validator(json.loads((DOCS / f"{sort}.schema.json").read_text("utf-8")))


@functools.cache
def _quick(sort: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(validator(sort).schema)


def checked(sort: str, document: Any) -> Any:
    """A document, after a check that it has the form of its schema, and comes back from strict UTF-8 JSON as it is.

    Tens of thousands are checked. The quick validator says whether one is right, the other one what is wrong with it.
    """
    plain = json.loads(json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8"))
    assert plain == document, f"{sort}: JSON does not give it back as it is"
    if not _quick(sort).is_valid(plain):
        found = jsonschema.exceptions.best_match(validator(sort).iter_errors(plain))
        assert found is not None, f"docs/{sort}.schema.json: one of two validators takes {plain}"
        raise AssertionError(f"docs/{sort}.schema.json: {found.json_path}: {found.message}")
    return document
