# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of the initiator name: what iscsid reads in it."""

from __future__ import annotations

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._discover.iscsi import Initiator, parse_initiator

NAME = "iqn.1993-08.org.debian:01:a1b2c3d4e5f6"
DEBIAN = f"## DO NOT EDIT OR REMOVE THIS FILE!\n## The InitiatorName must be unique\nInitiatorName={NAME}\n"


@pytest.mark.parametrize(
    ("text", "name", "generate"),
    [
        ("", None, False),
        (DEBIAN, NAME, False),
        ("GenerateName=yes\n", None, True),
        ("# GenerateName=yes\nGenerateName=no\n", None, False),
        (f"InitiatorName={NAME}\nGenerateName=yes\n", NAME, True),
        ("InitiatorName=\n", None, False),
        (f"InitiatorName=\nInitiatorName = {NAME} \nInitiatorName=iqn.2000-01.x:2\n", NAME, False),
        (f"#InitiatorName={NAME}\n", None, False),
        (f"  InitiatorName={NAME}\r\n", NAME, False),
        ("InitiatorAlias=InitiatorX\n", None, False),
    ],
)
def test_the_initiator_name_is_the_one_that_iscsid_reads(text: str, name: str | None, generate: bool) -> None:
    assert parse_initiator(text) == Initiator(name, generate)
