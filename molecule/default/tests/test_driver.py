# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What driver/converge.yml left on its node: the stand-in for the vendor's driver, built, pinned and loaded."""

from __future__ import annotations

import typing as t

testinfra_hosts = ["ssh://lab1"]


def test_the_build_is_for_the_running_kernel(host: t.Any) -> None:
    lines = host.check_output("uname -r && dkms status mlnx-ofed-kernel && modinfo -F filename mlx5_core").splitlines()
    kernel, status, path = lines[0], lines[1:-1], lines[-1]
    assert [line.split(":")[0] for line in status] == [f"mlnx-ofed-kernel/24.10.2.9.1, {kernel}, x86_64"]
    assert status[0].split(": ")[1].startswith("installed")
    assert path.startswith(f"/lib/modules/{kernel}/updates/")


def test_the_kernel_runs_it(host: t.Any) -> None:
    assert host.check_output("cat /sys/module/mlx5_core/version") == "24.10-2.9.1"


def test_the_pinned_release_is_installed_and_no_other(host: t.Any) -> None:
    versions = dict(
        line.split()
        for line in host.check_output(
            "dpkg-query --show --showformat='${Package} ${Version}\\n' doca-ofed mlnx-ofed-kernel-dkms dkms"
        ).splitlines()
    )
    # newer ones are in the repository, and a dkms that is newer than the distribution's
    assert versions.pop("dkms") != "99.0-1"
    assert versions == {"doca-ofed": "2.9.1-1", "mlnx-ofed-kernel-dkms": "24.10.2.9.1"}


def test_the_log_of_the_failed_build_is_kept(host: t.Any) -> None:
    assert "This release does not compile" in host.check_output("cat /var/log/fabric-rdma-ofed-build.log")
