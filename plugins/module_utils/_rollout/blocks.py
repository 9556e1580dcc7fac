# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Blocks of addresses that nv-ipam has given to nodes, and pools that would give them out a second time. Private. Pure.

Follows nv-ipam, pkg/ipam-controller/allocator/allocator.go, checkAllocation(): it forgets a block that does not fit the pool any more, and
gives its node another one, in any order, while Pods keep the addresses that they have.
"""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.objects import describe, some

__all__ = ["NV_IPAM", "blocks_given_twice"]

Json = t.Dict[str, t.Any]
NV_IPAM = "nv-ipam.nvidia.com"


class _Block(t.NamedTuple):
    """Addresses of a node, by number, first and last."""

    node: str
    version: int
    first: int
    last: int


class _Shape(t.NamedTuple):
    """How a pool divides its network into blocks."""

    version: int
    first: int
    last: int
    size: int

    def touches(self, block: _Block) -> bool:
        return self.version == block.version and self.first <= block.last and block.first <= self.last

    def has(self, block: _Block) -> bool:
        """Whether nv-ipam goes on with a block. The first one begins behind the address of the network."""
        whole = self.first < block.first and block.last <= self.last
        return whole and block.last - block.first + 1 == self.size and (block.first - self.first - 1) % self.size == 0


def _is_pool(item: t.Mapping[str, t.Any]) -> bool:
    return item["kind"] == "IPPool" and str(item["apiVersion"]).partition("/")[0] == NV_IPAM


def _shape(item: t.Mapping[str, t.Any]) -> t.Optional[_Shape]:
    try:
        network = ipaddress.ip_network(str(item["spec"]["subnet"]), strict=False)
        size = int(item["spec"]["perNodeBlockSize"])
    except (KeyError, TypeError, ValueError):
        return None
    first, last = int(network.network_address), int(network.broadcast_address)
    return _Shape(network.version, first, last, size) if size > 0 else None


def _blocks(item: t.Optional[t.Mapping[str, t.Any]]) -> list[_Block]:
    """What is written in the status; what makes no sense there counts for nv-ipam as little as here."""
    found = []
    rows = ((item or {}).get("status") or {}).get("allocations")
    for row in rows if isinstance(rows, list) else ():
        try:
            first, last = ipaddress.ip_address(str(row["startIP"])), ipaddress.ip_address(str(row["endIP"]))
        except (KeyError, TypeError, ValueError):
            continue
        found.append(_Block(str(row.get("nodeName")), first.version, int(first), int(last)))
    return found


def _nodes(blocks: t.Iterable[_Block]) -> str:
    names = sorted(block.node for block in blocks)
    return f"node{'s' * (len(names) > 1)} {some(names)}"


def blocks_given_twice(wanted: t.Iterable[tuple[Json, t.Optional[Json]]], gone: t.Iterable[Json]) -> t.Iterator[str]:
    """A sentence on each pool that would give out addresses which Pods of other nodes may have.

    wanted: (object, as it is in the cluster); gone: what leaves the cluster. Other objects than pools are passed over.
    """
    leaving = [(item, blocks) for item, blocks in ((item, _blocks(item)) for item in gone if _is_pool(item)) if blocks]
    for item, before in wanted:
        shape = _shape(item) if _is_pool(item) else None
        if shape is None:
            continue
        lost = [block for block in _blocks(before) if shape.touches(block) and not shape.has(block)]
        if lost:
            size = lost[0].last - lost[0].first + 1
            keep = f"set ipam.block_size of the network to {size} to keep them, or " if size != shape.size else ""
            yield (
                f"{describe(item)}: nv-ipam would forget blocks of {size} addresses that it has given to {_nodes(lost)}, since they do not fit "
                f"{item['spec']['subnet']} with blocks of {shape.size}, and give other nodes addresses that Pods there have: {keep}end the "
                "Pods of the network, delete this pool, and run again"
            )
        for old, blocks in leaving:
            both = [block for block in blocks if shape.touches(block)]
            if both:
                yield (
                    f"{describe(item)} takes the place of {describe(old)}, of which nv-ipam has given blocks to {_nodes(both)}: it would give "
                    "addresses that Pods there have to other nodes: end the Pods of the network, delete the old pool, and run again"
                )
