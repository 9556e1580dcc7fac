# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What builds of containerd print, and what kernels say of the namespace of a process."""

from __future__ import annotations

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.daemon import (
    generation_of,
    in_user_namespace,
    printed_version,
)


@pytest.mark.parametrize(
    ("printed", "version", "generation"),
    [
        ("containerd github.com/containerd/containerd/v2 2.1.9 0123abcd\n", "2.1.9", (2, 1)),
        ("containerd containerd.io v1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da\n", "1.7.27", (1, 7)),
        ("containerd github.com/k3s-io/containerd v2.1.5-k3s1 \n", "2.1.5-k3s1", (2, 1)),
        ("1.6.33", "1.6.33", (1, 6)),
        ("containerd github.com/containerd/containerd main 0123abcd\n", None, None),
        ("containerd 12345.1.0", "12345.1.0", None),
        ("", None, None),
    ],
)
def test_the_version_is_what_stands_alone(
    printed: str, version: str | None, generation: tuple[int, int] | None
) -> None:
    assert printed_version(printed) == version
    assert generation_of(version) == generation


@pytest.mark.parametrize(
    ("uid_map", "inside"),
    [
        ("         0          0 4294967295\n", False),
        ("         0     100000      65536\n", True),
        ("0 0 1\n1 100001 65535\n", True),
        ("", None),
    ],
)
def test_the_first_namespace_maps_all_numbers_to_themselves(uid_map: str, inside: bool | None) -> None:
    assert in_user_namespace(uid_map) is inside
