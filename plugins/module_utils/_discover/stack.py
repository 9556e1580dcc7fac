# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which driver stack a node has, and what a reload of it would cut off. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.devices import Facts
from ansible_collections.fabric.rdma.plugins.module_utils._discover.ways import (
    default_route_netdevs,
    mounts_over_rdma,
    stack_of,
)

__all__ = ["driver_stack", "module_paths", "read_management"]

# A reload of one of these takes its netdevs away.
_RDMA_DRIVERS = ("mlx4_core", "mlx4_en", "mlx5_core", "mlx5e", "irdma", "ice", "bnxt_en", "bnxt_re")


def _module_path(listing: bytes, name: str) -> t.Optional[str]:
    """Path of a module below /lib/modules/RELEASE according to modules.dep, None when it has none (depmod(8)).

    A line is ``PATH: DEPENDENCIES``. bytes.find over half a megabyte takes microseconds; a split into lines, milliseconds.
    The file's name has the dashes or underscores of the build, the module's name always underscores.
    """
    for spelling in (name, name.replace("_", "-")):
        needle = (f"/{spelling}.ko").encode()
        at = listing.find(needle)
        while at >= 0:
            start = listing.rfind(b"\n", 0, at) + 1
            if b":" not in listing[start:at]:
                return listing[start : at + 256].split(b":", 1)[0].decode("utf-8", "replace")
            at = listing.find(needle, at + 1)
    return None


def module_paths(tree: Tree, release: t.Optional[str], names: t.Iterable[str]) -> dict[str, str]:
    """Paths by name of those modules that are on disk for a kernel release."""
    listing = (tree.read(f"/lib/modules/{release}/modules.dep") or b"") if release else b""
    paths = ((name, _module_path(listing, name)) for name in names)
    return {name: path for name, path in paths if path is not None}


def driver_stack(tree: Tree, path: t.Optional[str]) -> tuple[str, t.Optional[str], t.Optional[str]]:
    """(inbox, mlnx_ofed or doca; its release; inbox or updates for the place of mlx5_core, of which path is the file).

    ofed_info is a shell script that prints its own text: the release stands in its first lines (MLNX_OFED_LINUX-..., or
    OFED-internal-... from DOCA).
    """
    script = (tree.read("/usr/bin/ofed_info") or b"")[:4096].decode("utf-8", "replace")
    found = re.search(r"(MLNX_OFED_LINUX|OFED-internal)-([0-9][0-9A-Za-z.-]*)", script)
    path_kind = None if path is None else ("inbox" if path.startswith("kernel/") else "updates")
    flavour = "inbox"
    if found and found.group(1) == "MLNX_OFED_LINUX":
        flavour = "mlnx_ofed"
    elif found or (tree.exists("/opt/mellanox/doca") and path_kind == "updates"):
        flavour = "doca"
    return flavour, found.group(2).rstrip(".-") if found else None, path_kind


def read_management(tree: Tree, devices: list[Facts]) -> Facts:
    """The fact management: what a reload of the driver would cut off."""
    routes = default_route_netdevs(tree)
    rdma = {name for device in devices if device["kind"] != "software" for name in device["netdevs"]}
    backed = False
    for name in routes:
        for lower in stack_of(tree, name):
            driver = tree.link_name(f"/sys/class/net/{lower}/device/driver")
            backed = backed or lower in rdma or driver in _RDMA_DRIVERS
    return {"default_route_netdevs": routes, "rdma_backed": backed, "mounts_over_rdma": mounts_over_rdma(tree)}
