# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a driver must not come to a node, by name: what an override may name. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.words import SHOWN, nearest

__all__ = ["DRIVER_REASONS", "REASONS", "unknown_reasons"]

# Every reason of driver_gate, in the order in which they are told, with what to do about it.
REASONS: dict[str, str] = {
    "unsupported_card": "choose another release, or take the card out",
    "installed_stack": "remove it first (ofed_uninstall.sh --force, then reboot)",
    "driver_container": "take the node out of the driver container's node selector (Network Operator: ofedDriver), wait until its Pod "
    "is gone, then remove what is left of it",
    "default_route": "use ofed_activate: reboot, or give the node a management network on another card",
    "ssh_path": "use ofed_activate: reboot, or connect over another card",
    "storage_mounts": "use ofed_activate: reboot, or unmount it",
    "rdma_storage": "use ofed_activate: reboot, or unmount it and disconnect it; where the system itself is on it, change the driver in the "
    "image that it boots",
    "storage_modules": "unload them (modprobe -r), or use ofed_activate: reboot",
    "rdma_in_use": "end these programs (drain the node), or use ofed_activate: reboot",
    "not_drained": "give ofed_kubeconfig, so that the role drains the node, or drain it by hand",
    "disk_space": "make room: a driver that is built on the node needs it, and a full disk leaves half a driver",
    "kernel_headers": "install the headers of this very kernel (Debian, Ubuntu: linux-headers-RELEASE, RHEL: kernel-devel-RELEASE, of "
    "RELEASE+64k kernel-64k-devel-RELEASE), or boot a kernel whose headers are available",
    # the role asks the package manager itself, once nothing else rules the change out
    "no_way_back": "name a repository that has these versions",
    "secure_boot": "enroll the key that DKMS signs with (mokutil --import, then reboot and confirm at the console), or turn Secure Boot off",
}
# Why the operator's driver must not come to a host, with what to do about it. The first three are reasons of driver_gate, too.
DRIVER_REASONS: dict[str, str] = {
    "default_route": "give the node a management network on another card",
    "rdma_storage": "unmount it and disconnect it; the driver's container would take it away under the mount",
    "installed_stack": "remove it from the host, or leave rdma_rollout.ofed_driver out: the host has a driver already",
    "host_driver": "set rdma_ofed: {method: none} for the group: one of the two sees to the driver, not both",
    "dangerous_env": "leave the variable out",
    "removal": "drain the node first",
}


def unknown_reasons(where: str, given: t.Iterable[str], reasons: t.Collection[str]) -> t.Optional[str]:
    """A sentence on the names that are not reasons, with the one that is nearest to the first; None when there is none."""
    unknown = sorted({str(name) for name in given if name not in reasons})
    if not unknown:
        return None
    shown = ", ".join(name[:SHOWN] for name in unknown[:10])
    return f"{where} has no reason {shown}; known are {', '.join(reasons)}{nearest(unknown[0], reasons)}"
