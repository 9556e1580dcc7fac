# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of a host as an iSCSI initiator: which one it may have, and what becomes of its file."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._discover.iscsi import Initiator, parse_initiator
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.initiator_name import (
    InitiatorError,
    check_name,
    new_name,
    rewrite,
)

NAME = "iqn.1993-08.org.debian:01:a1b2c3d4e5f6"
DEBIAN = f"## DO NOT EDIT OR REMOVE THIS FILE!\n## The InitiatorName must be unique\nInitiatorName={NAME}\n"


@pytest.mark.parametrize(
    "name", [NAME, NAME.upper(), "iqn.2016-04.com.open-iscsi", "eui.0123456789abcdef", "naa." + "0" * 32]
)
def test_a_valid_name_is_taken_in_small_letters(name: str) -> None:
    assert check_name(name) == name.lower()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "node1",
        "iqn.2016-13.com.x:1",
        "iqn.16-04.com.x:1",
        f"{NAME} ",
        f"{NAME}\nX=1",
        "iqn.2016-04.com.x:",
        "eui.1",
        "iqn.2016-04.com.x:" + "a" * 206,
    ],
)
def test_what_is_not_an_initiator_name_is_refused(name: str) -> None:
    with pytest.raises(InitiatorError, match=re.escape("is not the name of an iSCSI initiator; expected iqn.YYYY-MM")):
        check_name(name)


def test_a_new_name_is_nobodys() -> None:
    numbers = iter(["000000000001", "000000000002", "000000000003"])
    taken = ["IQN.2016-04.com.x:000000000001", "iqn.2016-04.com.x:000000000002"]
    assert new_name("iqn.2016-04.com.x", taken, lambda: next(numbers)) == "iqn.2016-04.com.x:000000000003"
    with pytest.raises(InitiatorError, match="repeats itself"):
        new_name("iqn.2016-04.com.x", taken, lambda: "000000000001")
    with pytest.raises(InitiatorError, match="'nonsense' is not the name"):
        new_name("nonsense", [], lambda: "1")


def test_comments_and_aliases_stay() -> None:
    assert rewrite(DEBIAN + "InitiatorAlias=node1\nGenerateName=yes\n", "iqn.2000-01.x:9") == (
        DEBIAN.replace(NAME, "iqn.2000-01.x:9") + "InitiatorAlias=node1\n"
    )
    assert parse_initiator(rewrite(None, NAME)) == Initiator(NAME, False)


lines = st.one_of(
    st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20),
    st.sampled_from(
        ["InitiatorName=", f"InitiatorName={NAME}", "GenerateName=yes", "#InitiatorName=x", "a InitiatorName=b"]
    ),
)


@given(st.lists(lines, max_size=8).map("\n".join))
def test_a_rewritten_file_has_the_name_and_stays(text: str) -> None:
    after = rewrite(text, "iqn.2000-01.x:9")
    assert parse_initiator(after) == Initiator("iqn.2000-01.x:9", False)
    assert rewrite(after, "iqn.2000-01.x:9") == after


@pytest.mark.parametrize(
    ("text", "name", "after"),
    [
        (f"# a\r\nInitiatorName={NAME}\r\n# b\r\n", NAME, "# a\r\nInitiatorName=iqn.2000-01.x:9\r\n# b\r\n"),
        ("# a\r\nGenerateName=yes\r\n", None, "# a\r\nInitiatorName=iqn.2000-01.x:9\r\n"),
        # what is not an end of a line for iscsid
        (
            f"# a\fInitiatorName=b\nInitiatorName={NAME}\f\n",
            NAME,
            "# a\fInitiatorName=b\nInitiatorName=iqn.2000-01.x:9\n",
        ),
        (f"# a\x85b\x1cc\u2028\nInitiatorName={NAME}", NAME, "# a\x85b\x1cc\u2028\nInitiatorName=iqn.2000-01.x:9\n"),
    ],
)
def test_ends_of_lines_are_those_of_iscsid(text: str, name: str | None, after: str) -> None:
    assert parse_initiator(text).name == name
    assert rewrite(text, "iqn.2000-01.x:9") == after
