# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import Entry, MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_check import (
    Build,
    Initramfs,
    build_problems,
    check_driver,
    driver_of,
    failed_build,
    initramfs_of,
    initramfs_state,
    log_problem,
    parse_dkms_status,
    with_log,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.kernel_log import LogGrowth

KERNEL = "5.15.0-60-generic"
NAME = "mlnx-ofed-kernel"
VERSION = "24.10.OFED.24.10.0.7.0.1"

# -- DKMS --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "build"),
    [
        (f"{NAME}, 5.8, {KERNEL}, x86_64: installed", Build(NAME, "5.8", KERNEL, "x86_64", "installed", "")),
        (f"{NAME}/{VERSION}, {KERNEL}, x86_64: installed", Build(NAME, VERSION, KERNEL, "x86_64", "installed", "")),
        (
            f"{NAME}/{VERSION}, {KERNEL}, x86_64: installed (original_module exists)",
            Build(NAME, VERSION, KERNEL, "x86_64", "installed", "original_module exists"),
        ),
        (
            f"{NAME}/1, {KERNEL}, x86_64: installed (WARNING! Diff between built and installed module!)",
            Build(NAME, "1", KERNEL, "x86_64", "installed", "WARNING! Diff between built and installed module!"),
        ),
        (
            "mlnx-ofa_kernel/24.10, 5.14.0-427.el9.x86_64, x86_64: installed-weak from 5.14.0-362.el9.x86_64",
            Build(
                "mlnx-ofa_kernel",
                "24.10",
                "5.14.0-427.el9.x86_64",
                "x86_64",
                "installed-weak",
                "from 5.14.0-362.el9.x86_64",
            ),
        ),
        (f"{NAME}/1: added", Build(NAME, "1", None, None, "added", "")),
        (f"{NAME}, 1: added", Build(NAME, "1", None, None, "added", "")),
        (f"{NAME}/1, {KERNEL}, x86_64: built", Build(NAME, "1", KERNEL, "x86_64", "built", "")),
        (f"{NAME}/1: broken", Build(NAME, "1", None, None, "broken", "")),
        ("Error! Could not locate dkms.conf file.", None),
        ("Deprecated feature: CLEAN (/usr/src/x/dkms.conf)", None),
        (f"{NAME}/1: somehow", None),
        ("", None),
    ],
)
def test_a_line_of_dkms_names_module_version_kernel_and_state(line: str, build: Build | None) -> None:
    assert parse_dkms_status(line + "\n") == ([build] if build else [])


@given(st.text())
def test_no_output_of_dkms_is_a_traceback(text: str) -> None:
    assert all(build.name and build.version for build in parse_dkms_status(text))


@pytest.mark.parametrize(
    ("status", "problems", "warnings"),
    [
        ("", [], []),
        (f"{NAME}/1, {KERNEL}, x86_64: installed", [], []),
        (f"{NAME}/1, {KERNEL}, x86_64: installed-weak from 5.15.0", [], []),
        (f"{NAME}/1: added", [f"DKMS module {NAME}/1 is not built for the running kernel {KERNEL}"], []),
        (f"{NAME}/1, {KERNEL}, x86_64: built", [f"DKMS module {NAME}/1 is built for the running kernel {KERNEL}"], []),
        # a new kernel whose headers are missing
        (
            f"{NAME}/1, 5.15.0-1-generic, x86_64: installed",
            [f"DKMS module {NAME}/1 is not built for the running kernel {KERNEL}"],
            [],
        ),
        (
            "mlnx-ofa_kernel/1: added",
            [f"DKMS module mlnx-ofa_kernel/1 is not built for the running kernel {KERNEL}"],
            [],
        ),
        # an older one that is still registered
        (f"{NAME}/1: added\n{NAME}/2, {KERNEL}, x86_64: installed", [], []),
        (
            f"{NAME}/1, {KERNEL}, x86_64: installed\nknem/1.1: added",
            [],
            [f"DKMS module knem/1.1 is not built for the running kernel {KERNEL}"],
        ),
    ],
)
def test_a_module_that_is_not_installed_for_the_running_kernel_is_a_problem(
    status: str, problems: list[str], warnings: list[str]
) -> None:
    assert build_problems(parse_dkms_status(status), KERNEL) == (problems, warnings)


BUILD_LOG = f"/var/lib/dkms/{NAME}/1/build/make.log"


def test_the_log_of_a_failed_build_is_quoted_by_its_errors() -> None:
    assert failed_build(MemoryTree({}), [(NAME, "1")]) is None
    text = "make\n" * 100000 + "x.c:1: error: no\nmake: *** [Makefile:7: all] Error 2\nend\n"
    tree = MemoryTree({BUILD_LOG: Entry("f", text.encode())})
    told = "x.c:1: error: no | make: *** [Makefile:7: all] Error 2"
    assert failed_build(tree, [("other", "1"), (NAME, "1")]) == (BUILD_LOG, told)
    assert failed_build(MemoryTree({BUILD_LOG: Entry("f", b"killed\n")}), [(NAME, "1")]) == (BUILD_LOG, "killed")


@pytest.mark.parametrize(
    ("listing", "path"),
    [
        # lsinitramfs of Debian, with a merged /usr and without; lsinitrd of dracut
        (
            "usr/lib/modules/6.1.0-38-amd64/kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko\n",
            "kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko",
        ),
        ("lib/modules/6.1.0/updates/dkms/mlx5_core.ko.xz\n", "updates/dkms/mlx5_core.ko.xz"),
        (
            "-rw-r--r--   1 root root 2 Jan  1  1970 usr/lib/modules/5.14.0/extra/mlnx-ofa_kernel/mlx5_core.ko.xz\n",
            "extra/mlnx-ofa_kernel/mlx5_core.ko.xz",
        ),
        ("usr/lib/modules/6.1.0/kernel/drivers/mlx5-core.ko\n", "kernel/drivers/mlx5-core.ko"),
        ("usr/lib/modules/6.1.0/kernel/drivers/xmlx5_core.ko\n", None),
        ("usr/lib/modules/6.1.0/kernel/drivers/mlx5_core.conf\n", None),
        ("", None),
    ],
)
def test_the_driver_that_an_initramfs_holds_is_found_in_its_listing(listing: str, path: str | None) -> None:
    found = Initramfs("/boot/initrd", [], ["rebuild"])
    state = initramfs_state(found, "usr/bin/kmod\n" + listing + "usr/lib/x\n", "mlx5_core", {"path": None}, older=True)
    assert state == {"path": "/boot/initrd", "holds": path, "stale": False, "rebuild": ["rebuild"]}


@pytest.mark.parametrize(
    ("held", "on_disk", "older", "stale"),
    [
        ("kernel/drivers/mlx5_core.ko", "kernel/drivers/mlx5_core.ko", False, False),
        ("kernel/drivers/mlx5_core.ko", "kernel/drivers/mlx5_core.ko", True, True),
        ("kernel/drivers/mlx5_core.ko", "updates/dkms/mlx5_core.ko", False, True),
        ("updates/dkms/mlx5_core.ko", "updates/dkms/mlx5_core.ko", False, False),
        ("updates/dkms/mlx5_core.ko", "kernel/drivers/mlx5_core.ko", False, True),
        # a file system without the driver loads none
        (None, "updates/dkms/mlx5_core.ko", True, False),
    ],
)
def test_an_initramfs_with_another_driver_than_the_disk_is_stale(
    held: str | None, on_disk: str, older: bool, stale: bool
) -> None:
    driver = driver_of(KERNEL, f"/lib/modules/{KERNEL}/{on_disk}\n", "", None)
    listing = f"usr/lib/modules/{KERNEL}/{held}\n" if held else ""
    found = Initramfs("/boot/initrd", [], [])
    assert initramfs_state(found, listing, "mlx5_core", driver, older)["stale"] is stale
    assert initramfs_state(None, listing, "mlx5_core", driver, older)["path"] is None


@pytest.mark.parametrize(
    ("filename", "wanted", "loaded", "driver"),
    [
        ("/lib/modules/K/updates/dkms/mlx5_core.ko\n", "B1\n", "A0", ("updates/dkms/mlx5_core.ko", "updates", True)),
        ("/lib/modules/K/kernel/mlx5_core.ko.zst\n", "A0\n", "A0", ("kernel/mlx5_core.ko.zst", "inbox", False)),
        ("/lib/modules/K/kernel/mlx5_core.ko\n", "", "A0", ("kernel/mlx5_core.ko", "inbox", False)),
        ("/lib/modules/K/kernel/mlx5_core.ko\n", "A0", None, ("kernel/mlx5_core.ko", "inbox", False)),
        ("(builtin)\n", "", None, (None, None, False)),
        ("", "", "A0", (None, None, False)),
    ],
)
def test_a_driver_is_pending_while_the_kernel_runs_another(
    filename: str, wanted: str, loaded: str | None, driver: tuple[str | None, str | None, bool]
) -> None:
    assert tuple(driver_of("K", filename, wanted, loaded).values()) == driver


def test_a_log_is_loud_beyond_its_limit() -> None:
    assert log_problem(600, 30.0, "x", 20) is None
    assert log_problem(603, 30.0, "mlx5: N", 20) == (
        "the kernel's log grows by 20 records a second (limit: 20), most often with 'mlx5: N'"
    )


@pytest.mark.parametrize(
    ("path", "programs", "rebuild"),
    [
        ("/boot/initrd.img-6.1", {"lsinitramfs", "update-initramfs"}, "update-initramfs -u -k 6.1"),
        # Debian with dracut in the place of initramfs-tools
        ("/boot/initrd.img-6.1", {"lsinitrd", "dracut"}, "dracut --force /boot/initrd.img-6.1 6.1"),
        ("/boot/initrd.img-6.1", {"lsinitrd", "dracut", "update-initramfs"}, "dracut --force /boot/initrd.img-6.1 6.1"),
        # what initramfs-tools leaves there when dracut takes its place
        ("/boot/initrd.img-6.1", {"lsinitrd", "dracut", "lsinitramfs"}, "dracut --force /boot/initrd.img-6.1 6.1"),
        # dracut as a mere program beside them
        (
            "/boot/initrd.img-6.1",
            {"lsinitramfs", "update-initramfs", "lsinitrd", "dracut"},
            "update-initramfs -u -k 6.1",
        ),
        ("/boot/initramfs-6.1.img", {"lsinitrd", "dracut"}, "dracut --force /boot/initramfs-6.1.img 6.1"),
        ("/boot/initramfs-5.0.img", {"lsinitrd", "dracut"}, None),
    ],
)
def test_an_initramfs_is_rebuilt_by_the_program_that_made_it(
    path: str, programs: set[str], rebuild: str | None
) -> None:
    found = initramfs_of("6.1", lambda one: one == path, lambda name: name in programs)
    assert (found and " ".join(found.rebuild)) == rebuild
    if found:
        assert found.lister[1] == found.path == path


# -- all of it ---------------------------------------------------------------------------------------------------------

IMAGE = f"/boot/initrd.img-{KERNEL}"
BUILT = f"/lib/modules/{KERNEL}/updates/dkms/mlx5_core.ko"


class Dated(MemoryTree):
    """Files with a time. One that has none is not there."""

    def __init__(self, times: dict[str, float], **texts: str) -> None:
        entries = {path: Entry("f", b"") for path in times}
        super().__init__(entries | {path: Entry("f", text.encode()) for path, text in texts.items()})
        self.times = times

    def modified(self, path: str) -> float | None:
        return self.times.get(path)


def checked(tree: MemoryTree, **answers: str) -> dict[str, Any]:
    def ask(program: str, *_arguments: str) -> str | None:
        return answers.get(program)

    return check_driver(tree, KERNEL, "mlx5_core", [NAME], ask, {"lsinitramfs", "update-initramfs"}.__contains__)


GOOD = {
    "dkms": f"{NAME}/1, {KERNEL}, x86_64: installed",
    "modinfo": BUILT,
    "lsinitramfs": f"usr{BUILT}\n",
}


@pytest.mark.parametrize(
    ("image", "driver", "stale"), [(2.0, 1.0, False), (1.0, 2.0, True), (2.0, 2.0, False), (1.0, None, False)]
)
def test_an_initramfs_that_is_older_than_the_driver_is_stale(image: float, driver: float | None, stale: bool) -> None:
    result = checked(Dated({IMAGE: image, **({} if driver is None else {BUILT: driver})}), **GOOD)
    assert result["problems"] == []
    assert result["initramfs"]["stale"] is stale


def test_a_driver_that_was_not_built_is_a_problem_with_the_end_of_its_log() -> None:
    built = {**GOOD, "dkms": f"{NAME}/1, {KERNEL}, x86_64: built"}
    tree = Dated({}, **{BUILD_LOG: "x.c:1: error: no\n"})
    assert checked(tree, **built)["problems"] == [
        f"DKMS module {NAME}/1 is built for the running kernel {KERNEL}",
        f"the build ended with: x.c:1: error: no (log: {BUILD_LOG})",
    ]
    # of one that went well, no log is looked for
    assert checked(tree, **GOOD)["build_log"] is None
    inbox = {**GOOD, "modinfo": f"/lib/modules/{KERNEL}/kernel/drivers/mlx5_core.ko"}
    assert checked(Dated({}), **inbox)["problems"] == [
        f"mlx5_core of the running kernel {KERNEL} is kernel/drivers/mlx5_core.ko: the vendor's driver was not built for it"
    ]
    assert "is not there: the vendor's driver" in checked(Dated({}))["problems"][0]


def test_a_flood_in_the_log_is_one_problem_more() -> None:
    found = {"problems": ["a"]}
    quiet = with_log(found, LogGrowth(20, 2.0, "x", 20), 10)
    assert quiet == {
        "problems": ["a"],
        "log": {"records": 20, "seconds": 2.0, "text": "x", "times": 20, "per_second": 10.0},
    }
    assert with_log(found, LogGrowth(21, 2.0, "x", 20), 10)["problems"][1:] == [log_problem(21, 2.0, "x", 10)]
    assert found == {"problems": ["a"]}
