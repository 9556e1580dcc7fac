# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._packages import (
    dpkg_stack,
    is_stack_package,
    of_release,
    parse_dpkg_status,
    split_wish,
)

STATUS = """\
Package: doca-ofed
Status: install ok installed
Maintainer: somebody
Version: 2.9.1-0.1.8
Description: a sentence
 Version: 1

Package: bash
Status: install ok installed
Version: 5.2

Package: rdma-core
Status: hold ok installed
Version: 1:44.0-2

Package: mlnx-ofed-kernel-dkms
Status: deinstall ok config-files
Version: 24.10.1

Package: libibverbs1
Status: install ok half-configured
Version: 44.0-2
"""


def test_what_dpkg_has() -> None:
    """Whole or cut down to what a capture keeps, which is cut down already: the same."""
    expected = {"doca-ofed": "2.9.1-0.1.8", "rdma-core": "1:44.0-2"}
    cut = dpkg_stack(STATUS.encode())
    assert parse_dpkg_status(cut.decode()) == expected
    assert dpkg_stack(cut) == cut
    assert b"somebody" not in cut
    assert {**parse_dpkg_status(STATUS), **expected} == {**expected, "bash": "5.2"}


@given(st.binary(max_size=300))
def test_nothing_that_dpkg_says_is_a_traceback(data: bytes) -> None:
    parse_dpkg_status(dpkg_stack(b"Package: doca-ofed\n" + data).decode("utf-8", "replace"))


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *(
            (name, True)
            for name in ("doca-ofed", "rdma-core", "libibverbs1", "ibverbs-providers", "kmod-mlnx-ofa_kernel")
        ),
        *(
            (name, True)
            for name in ("mlnx-ofed-kernel-dkms", "kernel-mft-dkms", "infiniband-diags", "librdmacm1", "ucx")
        ),
        *(
            (name, False)
            for name in ("ibus", "libibus-1.0-5", "bash", "linux-image-amd64", "libc6", "dkms", "srvadmin")
        ),
    ],
)
def test_which_packages_are_of_the_stack(name: str, is_one: bool) -> None:
    assert is_stack_package(name) == is_one


@pytest.mark.parametrize(
    ("version", "wish", "release", "verdict"),
    [
        ("2.9.1-0.1.8", "doca-ofed", "2.9.1", True),
        ("2.9.1-0.1.8.el9", "doca-ofed", "2.9.1", True),
        ("2.9.1", "doca-ofed", "2.9.1", True),
        ("2.9.1018-1", "doca-ofed", "2.9.1", True),
        ("2.9.10-1", "doca-ofed", "2.9.1", False),
        ("2.90.1-1", "doca-ofed", "2.9", False),
        ("2.9018-1", "doca-ofed", "2.9", False),
        ("2.9.1-1", "doca-ofed", "2.9", True),
        ("12.9.1-1", "doca-ofed", "2.9.1", False),
        ("1:24.10", "mlnx=24.10", "2.9.1", True),
        ("24.10-1.el9", "mlnx=24.10", "2.9.1", True),
        ("24.10.1", "mlnx=24.10", "2.9.1", False),
        ("24.10.1", "mlnx=24.10*", "2.9.1", True),
        ("whatever", "mlnx=*", "2.9.1", True),
    ],
)
def test_whether_a_version_is_of_a_release(version: str, wish: str, release: str, verdict: bool) -> None:
    assert of_release(version, split_wish(wish)[1], release) == verdict
