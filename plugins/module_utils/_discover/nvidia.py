# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node says of its NVIDIA driver, from files alone. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree

__all__ = ["SYMBOL", "generation", "read_nvidia"]

Json = t.Dict[str, t.Any]
SYMBOL = "ib_register_peer_memory_client"
# First device id of a range, and the generation of the GPUs in it up to the next range (pci.ids, vendor 10de). The ids of a
# generation's chips lie together; functions that are not GPUs (audio, NVSwitch, bridges) are never asked about.
_RANGES = (
    (0x1340, "Maxwell"),
    (0x15F0, "Pascal"),
    (0x1600, "Maxwell"),
    (0x1B00, "Pascal"),
    (0x1D80, "Volta"),
    (0x1E00, "Turing"),
    (0x2080, "Ampere"),
    (0x2180, "Turing"),
    (0x2200, "Ampere"),
    (0x2300, "Hopper"),
    (0x2400, "Ampere"),
    (0x2600, "Ada"),
    (0x2900, "Blackwell"),
    (0x3280, None),
)
# GH200 (GH100 with a Grace CPU on its package).
_GRACE_HOPPER = (0x2342, 0x2343, 0x2345, 0x2348)
# The root of the driver in a container of NVIDIA's GPU Operator, and what its validator leaves behind.
_OPERATOR = ("/run/nvidia/driver/usr/bin/nvidia-smi", "/run/nvidia/validations/.driver-ctr-ready")


def generation(device: t.Optional[str]) -> t.Optional[str]:
    """The generation of an NVIDIA GPU by its PCI device id (four hex digits); None when the table does not know it."""
    try:
        number = int(device or "", 16)
    except ValueError:
        return None
    if number in _GRACE_HOPPER:
        return "Grace Hopper"
    found = None
    for first, name in _RANGES:
        if number >= first:
            found = name
    return found


def _flavour(tree: Tree) -> t.Optional[str]:
    """open or proprietary, of the loaded driver; None when it is not loaded."""
    text = tree.text("/proc/driver/nvidia/version") or ""
    if "NVRM version:" in text:
        # "NVIDIA UNIX Open Kernel Module for x86_64  580.95.05", "NVIDIA UNIX x86_64 Kernel Module  535.216.01"
        return "open" if "Open Kernel Module" in text else "proprietary"
    taint = tree.text("/sys/module/nvidia/taint")
    if taint is None:
        return None
    # kernel/module/sysfs.c: P for a licence that is not the GPL's; the open modules are Dual MIT/GPL
    return "proprietary" if "P" in taint else "open"


def _exports(data: bytes) -> bytes:
    """Of modules.symbols (depmod(8)) the lines about the symbol."""
    return b"".join(
        line + b"\n" for line in re.findall(rb"^alias symbol:%s [^\n]*" % SYMBOL.encode(), data, re.MULTILINE)
    )


def _kernels_with_peermem(tree: Tree, running: t.Optional[str]) -> list[str]:
    """Other kernels on disk for which nvidia_peermem is built."""
    found = []
    for release in tree.names("/lib/modules"):
        if release == running:
            continue
        listing = tree.excerpt(f"/lib/modules/{release}/modules.dep", _peermem_lines)
        if listing and re.fullmatch(r"[\w.+~-]+", release):
            found.append(release)
    return found


def _peermem_lines(data: bytes) -> bytes:
    lines = re.findall(rb"^[^\n:]*/nvidia[-_]peermem\.ko[^\n]*", data, re.MULTILINE)
    return b"".join(line + b"\n" for line in lines)


def read_nvidia(
    tree: Tree, release: t.Optional[str], peermem: bool, vendor_stack: bool, has_gpu: bool
) -> t.Optional[Json]:
    """The value of ansible_facts.rdma.nvidia: NVIDIA's driver and what it needs of the RDMA stack. None without such a GPU.

    release: of the running kernel. peermem: nvidia_peermem is there for it. vendor_stack: the RDMA driver on disk is not the
    kernel's own, so what is loaded may differ from it.
    """
    if not has_gpu:
        return None
    listing = tree.excerpt(f"/lib/modules/{release}/modules.symbols", _exports) if release else None
    on_disk = None if listing is None else bool(listing)
    in_kernel: t.Optional[bool] = None
    if tree.exists("/sys/module/ib_core"):
        # a client has registered with it
        in_kernel = tree.exists("/sys/kernel/mm/memory_peers") or None
        if in_kernel is None and (on_disk or vendor_stack):
            in_kernel = {"1": True, "0": False}.get(tree.answer("symbol", SYMBOL) or "")
        if in_kernel is None and not vendor_stack:
            in_kernel = on_disk
    return {
        "driver": tree.text("/sys/module/nvidia/version") or None,
        "flavour": _flavour(tree),
        "operator": any(tree.exists(path) for path in _OPERATOR),
        "peer_memory": {"loaded": in_kernel, "installed": on_disk},
        "peermem_kernels": [] if peermem else _kernels_with_peermem(tree, release),
    }
