# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user is told of a kernel module that does not load. Failures by cause: test_gpudirect.py."""

from __future__ import annotations

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._prepare.modprobe import (
    explain_modprobe,
    load_failure,
    shown_module,
)

SAID = "modprobe: ERROR: could not insert 'x': Invalid argument\n"
LOG = ["a", "b", "c", "d"]


@pytest.mark.parametrize("name", ["nvidia_peermem", "nvidia-peermem"])
def test_the_module_that_is_known_is_explained(name: str) -> None:
    failure = load_failure(name, "6.1", SAID, LOG)
    why = explain_modprobe(SAID, LOG)
    told = "ERROR: could not insert 'x': Invalid argument"
    assert failure == {
        "msg": f"{name} does not load on kernel 6.1: {why['cause']}; {why['remedy']} (modprobe: {told})",
        "log": LOG,
        **why,
    }


def test_of_another_module_the_last_words_of_the_kernel_are_reported() -> None:
    told = "ib_core does not load on kernel 6.1: ERROR: could not insert 'x': Invalid argument; b; c; d"
    assert load_failure("ib_core", "6.1", SAID, LOG) == {"msg": told, "log": LOG}
    assert load_failure("ib_core", "6.1", "", [])["msg"] == "ib_core does not load on kernel 6.1: "


@pytest.mark.parametrize(
    ("shown", "own"),
    [
        ("insmod /lib/modules/6.1.0/kernel/a.ko \ninsmod /lib/modules/6.1.0/kernel/dm-crypt.ko.xz b=1\n", "dm_crypt"),
        ("insmod /lib/modules/6.1.0/kernel/a.ko \nbuiltin nfs\n", ""),
        ("insmod /lib/modules/6.1.0/kernel/a.ko \ninstall /bin/true \n", None),
        ("", None),
        ("insmod", None),
    ],
)
def test_the_last_line_tells_the_module(shown: str, own: str | None) -> None:
    assert shown_module(shown) == own
