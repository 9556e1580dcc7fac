# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as one page. Private to the collection. Pure, but for reading the template.

The template escapes all of the model (autoescape) and knows no raw output, and the page forbids itself scripts and outside
resources by a content security policy.
"""

from __future__ import annotations

import functools
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    Json,
    commands,
)

__all__ = ["render_html"]

_TEMPLATES = Path(__file__).resolve().parents[3] / "roles" / "report" / "templates"


@functools.lru_cache(maxsize=1)
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(str(_TEMPLATES)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["commands"] = commands
    return environment.get_template("report.html.j2")


def render_html(model: Json) -> str:
    """The page, self-contained."""
    return _template().render(**model)
