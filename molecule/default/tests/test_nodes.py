# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What site.yml left on the nodes, seen from outside: the kernel's files, packages and modules, not the collection's word."""

from __future__ import annotations

import typing as t

testinfra_hosts = ["ssh://lab1", "ssh://lab2"]

# What an Ethernet group with the inbox driver needs; ib_ipoib belongs to InfiniBand.
MODULES = {"ib_umad", "ib_uverbs", "rdma_ucm"}
PACKAGES = {"ibverbs-providers", "infiniband-diags", "perftest", "rdma-core"}

# A command on an emulated node takes a second or two: each test asks one question and looks at all of the answer.


def test_packages_are_installed(host: t.Any) -> None:
    command = "dpkg-query --show --showformat='${db:Status-Status} ${Package}\\n' " + " ".join(sorted(PACKAGES))
    assert set(host.check_output(command).splitlines()) == {f"installed {package}" for package in PACKAGES}


def test_modules_are_loaded(host: t.Any) -> None:
    assert set(host.check_output("ls /sys/module").split()) >= MODULES


def test_modules_will_be_loaded_at_boot(host: t.Any) -> None:
    assert {line.strip() for line in host.check_output("cat /etc/modules-load.d/*.conf").splitlines()} >= MODULES


def test_modules_of_somebody_else_are_loaded_at_boot_as_well(host: t.Any) -> None:
    answer = host.check_output("cd /etc/modules-load.d && cat ib-umad.conf && stat --format=%a ib-umad.conf && ls")
    assert answer.splitlines()[:4] == ["# of somebody else", "loop", "ib_umad", "640"]
    assert set(answer.splitlines()[4:]) >= {"ib-umad.conf", "ib-uverbs.conf", "rdma-ucm.conf"}
    assert "ib_umad.conf" not in answer.splitlines()


def test_device_is_active(host: t.Any) -> None:
    lines = host.check_output("cd /sys/class/infiniband && echo * && cat rxe0/ports/1/state rxe0/ports/1/link_layer")
    assert lines.splitlines() == ["rxe0", "4: ACTIVE", "Ethernet"]


def test_device_nodes_exist(host: t.Any) -> None:
    assert set(host.check_output("ls /dev/infiniband").split()) >= {"rdma_cm", "umad0", "uverbs0"}


def test_traffic_went_over_the_device(host: t.Any) -> None:
    # Two measurements of 64 KiB messages and small ones: thousands of packets, where an idle device has a handful.
    counters = host.check_output("cd /sys/class/infiniband/rxe0/ports/1/hw_counters && cat sent_pkts rcvd_pkts")
    assert sum(int(count) for count in counters.split()) > 1000, counters


def test_no_measurement_is_left_running(host: t.Any) -> None:
    assert not host.check_output("pgrep --list-full '^ib_(write|read|send)' || true")


def test_no_service_failed(host: t.Any) -> None:
    assert not host.check_output("systemctl list-units --failed --plain --no-legend")


def test_the_clock_of_the_node_is_the_one_that_programs_count_cycles_by(host: t.Any) -> None:
    """Without it, perftest on a busy machine prints inf. An accelerated node has its own clock."""
    clock = host.check_output("cat /sys/devices/system/clocksource/clocksource0/current_clocksource")
    assert clock in {"tsc", "kvm-clock"}
