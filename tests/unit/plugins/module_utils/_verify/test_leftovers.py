# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a measurement says of objects that a killed run had left."""

from __future__ import annotations

from ansible_collections.fabric.rdma.plugins.module_utils._verify.leftovers import removal


def test_what_was_removed_is_the_difference() -> None:
    assert removal(["MPIJob a", "Pod b"]) == {
        "changed": True,
        "removed": ["MPIJob a", "Pod b"],
        "diff": {"before": "MPIJob a\nPod b\n", "after": ""},
    }


def test_where_nothing_was_left_nothing_has_changed() -> None:
    assert removal([]) == {"changed": False, "removed": []}
