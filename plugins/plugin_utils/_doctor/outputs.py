# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What programs print that people attach to a ticket, and that no rule reads: which it is, and what to give in its place.
Private to the collection. Pure."""

from __future__ import annotations

import re

__all__ = ["is_ours", "printed_by"]

# Of a text, its beginning tells. What a rule looks for may still be anywhere in it.
_HEAD = 20_000
_CAPTURE = "a capture contains its output (ansible-playbook fabric.rdma.capture)"
_JSON = "give it as JSON (kubectl get -o json)"
_COUNTERS = "ansible-playbook fabric.rdma.verify reads the counters of links"
_FABRIC = "ansible-playbook fabric.rdma.fabric reads the map of the fabric"
_MEASURED = "ansible-playbook fabric.rdma.verify judges what it measures"
# What runs of this collection leave: objects and scripts, metrics, findings, page, summary, ticket. They quote what the doctor has found.
_OURS = re.compile(
    r"^# app\.kubernetes\.io/managed-by: fabric\.rdma$|^# HELP fabric_rdma_info |"
    r"\A(?:\d{1,9} (?:error|warning|note)s?(?:, |\n)){1,3}\n(?:ERROR|WARNING|NOTE) [a-z0-9-]{1,64}\b|"
    r"\ANothing that a rule knows is wrong\n|\A<!doctype html>|^ {3}group {2,}nodes {2,}resource {2,}|"
    r"^\| \| group \| usable nodes \| resource \| measured \|$",
    re.MULTILINE,
)
# (a line of it, the program, what to give). The first that fits counts.
_OUTPUTS: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), program, instead)
    for pattern, program, instead in (
        (r"^CA '[\w.-]{1,64}'$", "ibstat", _CAPTURE),
        (r"^Infiniband device '[\w.-]{1,64}' port", "ibstatus", _CAPTURE),
        (r"^hca_id:[ \t]", "ibv_devinfo", _CAPTURE),
        (r"^(?:\d{1,4}/\d{1,4}: |\d{1,4}: )?link [\w.-]{1,64}/\d{1,3} (?:subnet_prefix|state) ", "rdma link", _CAPTURE),
        (r"^[\w.-]{1,64} port \d{1,3} ==> ", "ibdev2netdev", _CAPTURE),
        (r"^=+NVSMI LOG=+$|^\| NVIDIA-SMI ", "nvidia-smi", _CAPTURE),
        (r"^[ \t]*GPU0[ \t]+GPU1[ \t].{0,2000}CPU Affinity", "nvidia-smi topo", _CAPTURE),
        (r"^Operational Info$|^Troubleshooting Info$", "mlxlink", _COUNTERS),
        (r"^MST (?:modules|devices):$", "mst status", _CAPTURE),
        (r"^Device #\d{1,3}:$|^Device type:[ \t]|^Image type:[ \t]", "mlxconfig, mlxfwmanager or mstflint", _CAPTURE),
        (r"^Cable name[ \t]", "mlxcables", _CAPTURE),
        (r"^(?:MLNX_OFED_LINUX|OFED-internal|DOCA)-[\d.-]{3,40}:?$", "ofed_info", _CAPTURE),
        (r"^# (?:Node|Port|Switch) info:|^Node Description:\.|^\w{1,40}Record dump:$", "smpquery or saquery", _FABRIC),
        (
            r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] .{0,80}(?:controller|bridge|accelerators)(?: \[[0-9a-f]{4}\])?: ",
            "lspci",
            _CAPTURE,
        ),
        (r"^\d{1,5}: [\w.@-]{1,64}: <[A-Z_,0-9-]{1,200}> mtu ", "ip address", _CAPTURE),
        (r"^NAMESPACE {2,}NAME {2,}|^NAME {2,}(?:READY|STATUS|DESIRED|DATA|AGE|CLASS) ", "kubectl get", _JSON),
        (r"^Name: {2,}\S.{0,300}\n(?:Namespace|Roles|Selector|Labels): {2,}", "kubectl describe", _JSON),
        (r"^(?:<\?xml[^\n]{0,200}\n)?<system version=", "NCCL (a file of the topology)", _CAPTURE),
        (r"^nvbandwidth Version:", "nvbandwidth", _MEASURED),
    )
)


def is_ours(text: str) -> bool:
    """Whether a run has left a text, in which the doctor would find again what it has found."""
    return bool(_OURS.search(text[:_HEAD]))


def printed_by(text: str) -> str:
    """Of which program there is output in a text that no rule reads, and what to give in its place; '' for none that is known."""
    head = text[:_HEAD]
    for pattern, program, instead in _OUTPUTS:
        if pattern.search(head):
            return f"no rule reads what {program} prints; {instead}"
    return ""
