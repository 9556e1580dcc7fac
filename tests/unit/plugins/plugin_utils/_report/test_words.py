# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Harmless text."""

from __future__ import annotations

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import clean


def test_a_text_of_a_node_is_harmless_and_short() -> None:
    assert clean("a\tb\r\nc") == "a b c"
    assert clean("\x1b[2J\udcff\u202e") == "\ufffd[2J\ufffd\ufffd"
    assert clean("x" * 50, 10) == "x" * 9 + "…"
    assert clean(None) == "None"
