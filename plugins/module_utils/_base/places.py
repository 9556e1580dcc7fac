# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a node keeps what a later run has to know of it, and what that is compared with. Private to the collection."""

from __future__ import annotations

__all__ = ["BOOT_ID", "CHANGE", "DRIVER_PACKAGES", "DRIVER_PROOF", "IMEX_SERVICE", "MEMLOCK", "ROCE", "ROCE_CHANGE"]

# Another one after each boot (drivers/char/random.c).
BOOT_ID = "/proc/sys/kernel/random/boot_id"

_STATE = "/var/lib/fabric.rdma"

# What a node was like before a change, until it has ended (change.py).
CHANGE = _STATE + "/change.json"
# The proof of a driver that works from the next boot on.
DRIVER_PROOF = _STATE + "/driver-proof.json"
# What a change of the driver did to packages, holds and pins, until the driver is proved.
DRIVER_PACKAGES = _STATE + "/driver-packages.json"
# A directory: what a change of containerd's limits was, and the files from before it.
MEMLOCK = _STATE + "/containerd_memlock"
# Link types of cards that work from the next boot on.
ROCE = _STATE + "/roce.json"
# What RoCE settings were before a change, until it has finished.
ROCE_CHANGE = _STATE + "/roce-change.json"
# What nvidia-imex.service was before it was masked. Written by the role nvidia_imex: {enabled, running}.
IMEX_SERVICE = _STATE + "/nvidia-imex.json"
