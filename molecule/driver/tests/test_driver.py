# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What converge.yml left on its node, which it has rebooted: the stand-ins for the vendors' modules, built, pinned and loaded."""

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


def test_the_next_boot_begins_with_it(host: t.Any) -> None:
    """The initramfs that was there held the distribution's."""
    (line,) = host.check_output("lsinitrd /boot/initrd.img-$(uname -r) | grep /mlx5_core.ko").splitlines()
    assert "/updates/" in line


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


def test_the_management_network_is_back(host: t.Any) -> None:
    """Over a card of that driver: what a reload would have cut off."""
    assert "dev bond0" in host.check_output("ip route show default")
    assert host.check_output("readlink /sys/class/net/card0/device/driver").endswith("/mlx5_core")


def test_a_proven_driver_has_no_way_back(host: t.Any) -> None:
    assert not host.check_output("find /var/lib/fabric.rdma -type f")


def test_dnf_has_installed_the_pinned_release_once_and_no_other(host: t.Any) -> None:
    packages = host.check_output("rpm --query --all --queryformat '%{NAME} %{VERSION}\\n'").splitlines()
    # newer ones, one of a stranger and a newer dkms are in the repository
    assert [line for line in packages if not line.startswith("gpg-pubkey ")] == ["doca-ofed 2.9.1"]
    rows = host.check_output("dnf --quiet history list").splitlines()
    # the first, another over it, and back
    assert [row.split("|")[0].strip() for row in rows if row.split("|")[0].strip().isdigit()] == ["3", "2", "1"]


def test_the_log_of_the_failed_build_is_kept(host: t.Any) -> None:
    assert "This release does not compile" in host.check_output("cat /var/log/fabric-rdma-ofed-build.log")


def test_nvidia_peermem_is_loaded_at_boot(host: t.Any) -> None:
    """By modules-load.d: nothing else asks for it since the node was restarted."""
    built, booted = host.check_output(
        "stat -c %Y /usr/src/stand-in-2/nvidia-peermem.c && awk '$1 == \"btime\" {print $2}' /proc/stat"
    ).split()
    assert int(built) < int(booted)
    assert "nvidia_peermem" in host.check_output("ls /sys/module").split()


def test_no_service_failed(host: t.Any) -> None:
    assert not host.check_output("systemctl list-units --failed --plain --no-legend")


def test_nothing_of_the_image_is_mounted(host: t.Any) -> None:
    assert "fabric_rdma" not in host.check_output("cat /proc/mounts")
