# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._discover.dpkg import (
    dpkg_stack,
    is_stack_package,
    parse_dpkg_status,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.packages import (
    Changes,
    File,
    Snapshot,
    add_changes,
    changes_between,
    no_way_back,
    of_release,
    parse_dpkg_query,
    plan_undo,
    split_wish,
    undone,
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


def test_packages_of_dpkg_are_the_same_in_a_capture() -> None:
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
        *((name, False) for name in ("libiberty-dev", "libsharpyuv0", "opensmtpd", "libopensmtpd0")),
        *((name, True) for name in ("opensm", "libopensm9", "sharp", "libibumad3", "libibmad5")),
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


# -- Changes and what undoes them --------------------------------------------------------------------------------------


PIN = "/etc/apt/preferences.d/fabric-rdma-ofed.pref"
BEFORE = Snapshot(
    {"rdma-core": "44.0-2", "libibverbs1:amd64": "44.0-2", "bash": "5.2"},
    ["rdma-core"],
    {"/etc/apt/preferences": File("b2xk", 0o644)},
)
AFTER = Snapshot(
    {
        "rdma-core": "2410mlnx54-1",
        "libibverbs1:amd64": "2410mlnx54-1",
        "bash": "5.2",
        "doca-ofed": "2.9.1-1 (half-configured)",
        "dkms": "3.0",
    },
    [],
    {"/etc/apt/preferences": File("b2xk", 0o644), PIN: File("bmV3", 0o644)},
)


def test_what_a_change_did_is_undone_by_exact_version() -> None:
    changes = changes_between(BEFORE, AFTER)
    undo = plan_undo(changes, AFTER, {}, {})
    assert undo.install == [("libibverbs1:amd64", "44.0-2"), ("rdma-core", "44.0-2")]
    assert undo.remove == ["dkms", "doca-ofed"]
    assert undo.holds == {"rdma-core": True}
    assert undo.files == {PIN: None}
    assert undo.left == []
    assert undone(changes, BEFORE) == (
        [
            "dkms is out",
            "doca-ofed is out",
            "libibverbs1:amd64 is 44.0-2",
            "rdma-core is 44.0-2",
            "rdma-core is held",
            f"{PIN} is out",
        ],
        [],
    )
    restored, left = undone(changes, AFTER)
    assert restored == []
    assert left == [
        "dkms is 3.0, and was not there",
        "doca-ofed is 2.9.1-1 (half-configured), and was not there",
        "libibverbs1:amd64 is 2410mlnx54-1, and was 44.0-2",
        "rdma-core is 2410mlnx54-1, and was 44.0-2",
        "rdma-core is not held",
        f"{PIN} is not as it was",
    ]


def test_nothing_is_to_be_undone_twice() -> None:
    undo = plan_undo(changes_between(BEFORE, AFTER), BEFORE, {}, {})
    assert not any(undo)


def test_what_others_did_meanwhile_stays() -> None:
    """Packages that they brought or replaced, files that they wrote, a hold that they set, and what their packages need."""
    changes = changes_between(BEFORE, AFTER)
    now = Snapshot(
        {**AFTER.packages, "rdma-core": "50", "editor": "1", "module": "2", "bash": "5.3"},
        ["editor"],
        {PIN: File("dGhlaXJz", 0o644), "/etc/apt/preferences": File("dGhlaXJz", 0o600)},
    )
    undo = plan_undo(
        changes, now, {"module": [["other", "dkms"]], "doca-ofed": [["dkms"]], "dkms": [], "editor": []}, {}
    )
    assert undo.install == [("libibverbs1:amd64", "44.0-2")]
    assert undo.remove == ["doca-ofed"]
    assert undo.files == {}
    assert undo.left == [
        "rdma-core is 50 now, which somebody else has installed since, and stays",
        "dkms stays, since module needs it, which this change did not bring",
        f"{PIN} was changed by somebody else since, and stays",
    ]


def test_what_a_package_that_stays_needs_through_another_stays() -> None:
    changes = changes_between(Snapshot({}, [], {}), Snapshot({"a:amd64": "1", "b": "1", "c": "1"}, [], {}))
    now = Snapshot({"a:amd64": "1", "b": "1", "c": "1", "theirs": "1"}, [], {})
    needs = {"theirs": [["virtual"]], "b": [["a"]], "a:amd64": [], "c": [["b"]]}
    undo = plan_undo(changes, now, needs, {"b": ["virtual"]})
    assert undo.remove == ["c"]
    assert [text.split(",")[0] for text in undo.left] == ["a:amd64 stays", "b stays"]
    # another package gives it, too
    undo = plan_undo(changes, now, {**needs, "theirs": [["virtual", "d"]], "d": []}, {"b": ["virtual"]})
    assert undo.remove == ["a:amd64", "b", "c"]


def test_an_uninstaller_may_have_been_there() -> None:
    """Of the vendor: what it took out is put back when it was there before."""
    changes = changes_between(BEFORE, AFTER)
    undo = plan_undo(changes, Snapshot({"bash": "5.2"}, [], {}), {}, {})
    assert undo.install == [("libibverbs1:amd64", "44.0-2"), ("rdma-core", "44.0-2")]
    assert undo.remove == []


states = st.builds(
    Snapshot,
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["1", "2", "3"])),
    st.frozensets(st.sampled_from("abc")),
    st.dictionaries(st.sampled_from(["/x", "/y"]), st.builds(File, st.sampled_from(["Zg==", "Zw=="]), st.just(0o644))),
)


def test_a_broken_package_is_put_back_at_its_version() -> None:
    changes: Changes = {"packages": {"a": ["1 (half-configured)", "2"]}}
    assert plan_undo(changes, Snapshot({"a": "2"}, [], {}), {}, {}).install == [("a", "1")]


@given(states, states, states)
def test_two_changes_are_one(first: Snapshot, second: Snapshot, third: Snapshot) -> None:
    one, two = changes_between(first, second), changes_between(second, third)
    assert add_changes(one, two) == add_changes({}, changes_between(first, third))
    undo = plan_undo(changes_between(first, third), third, {}, {})
    now = {name: version for name, version in third.packages.items() if name not in undo.remove}
    assert {**now, **dict(undo.install)} == first.packages
    assert {name for name in "abcdef" if undo.holds.get(name, name in third.holds)} == set(first.holds)
    files = {**third.files, **undo.files}
    assert {path: file for path, file in files.items() if file is not None} == first.files
    assert undo.left == []


def test_versions_that_no_repository_has() -> None:
    installed = {"rdma-core": "44.0-2", "libibverbs1:amd64": "44.0-2", "doca-ofed": "2.9.1-1", "bash": "5.2"}
    offered = [("rdma-core", "44.0-3"), ("libibverbs1", "44.0-2"), ("doca-ofed", "2.9.3-1")]
    assert no_way_back(installed, offered) == ["doca-ofed 2.9.1-1", "rdma-core 44.0-2"]
    assert no_way_back({"bash": "5.2"}, []) == []


def test_packages_are_read_with_version_hold_and_what_they_need() -> None:
    text = (
        "a:amd64\t1:2-3\tinstalled\thold\tb (>= 1) | c:any, d\te\tf (= 1), g\n"
        "old\t1\tconfig-files\tdeinstall\t\t\t\n"
        "b\t2\thalf-configured\tinstall\t\t\t\n"
        "nonsense\n"
    )
    assert parse_dpkg_query(text) == (
        {"a:amd64": "1:2-3", "b": "2 (half-configured)"},
        ["a:amd64"],
        {"a:amd64": [["b", "c"], ["d"], ["e"]], "b": []},
        {"a:amd64": ["f", "g"], "b": []},
    )
