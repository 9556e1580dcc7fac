# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCIe link of a function, and of the bridge above it. Private to the collection.

drivers/pci/pci-sysfs.c: current_link_speed says ``16.0 GT/s PCIe`` (``16 GT/s`` on old kernels), ``Unknown`` where there is no link, as
of virtual functions; current_link_width says 0 then. What a bridge has as its maximum is what the slot can do.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree

__all__ = ["PCI_FUNCTION", "read_pcie"]

_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?")
_WIDTH = re.compile(r"[0-9]{1,3}")
# PCI Express Base Specification, Link Capabilities Register: the widths that there are
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
PCI_FUNCTION = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def _speed(tree: Tree, path: str) -> t.Optional[float]:
    """GT/s of a lane."""
    found = _SPEED.fullmatch(tree.text(path) or "")
    return float(found.group(1)) if found else None


def _width(tree: Tree, path: str) -> t.Optional[int]:
    text = tree.text(path) or ""
    return int(text) if _WIDTH.fullmatch(text) and int(text) in _WIDTHS else None


def _link(tree: Tree, directory: str) -> dict[str, t.Any]:
    return {
        "speed_gts": _speed(tree, f"{directory}/current_link_speed"),
        "width": _width(tree, f"{directory}/current_link_width"),
        "max_speed_gts": _speed(tree, f"{directory}/max_link_speed"),
        "max_width": _width(tree, f"{directory}/max_link_width"),
    }


def read_pcie(tree: Tree, function: t.Optional[str]) -> t.Optional[dict[str, t.Any]]:
    """{speed_gts, width, max_speed_gts, max_width, bridge: the same with its address, or None}; None without a function.

    function: its canonical directory. What the kernel does not say is None.
    """
    if function is None:
        return None
    above, _slash, _name = function.rpartition("/")
    pci = above.rpartition("/")[2]
    bridge = {"pci": pci, **_link(tree, above)} if PCI_FUNCTION.fullmatch(pci) else None
    return {**_link(tree, function), "bridge": bridge}
