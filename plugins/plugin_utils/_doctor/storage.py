# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules: what Longhorn and its volumes need of nodes. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._prepare.storage import storage_checks
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.case import Case, quoted
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Hit, Rule

__all__ = ["RULES"]

# longhorn-manager, iscsiadm
_ISCSI = (
    "please make sure you have iscsiadm/open-iscsi installed",
    "failed to execute iscsiadm: No such file or directory",
    "can not connect to iSCSI daemon",
)
# mount(8); Longhorn asks for 4.1
_NFS = (
    "you might need a /sbin/mount.<type> helper program",
    "mount.nfs: not found",
    "NFS: unknown mount option",
    "mount.nfs: Protocol not supported",
)


def _checks(case: Case, part: str) -> t.Iterator[Hit]:
    """Errors of the checks of iSCSI or NFS, on nodes that are Longhorn's."""
    nodes = {node["metadata"]["name"] for each in case.daemon_sets("longhorn") for node in case.nodes_for(each)}
    for host, facts in case.facts.items():
        node = case.node_of(host)
        if node is None or node["metadata"]["name"] not in nodes or "storage" not in facts:
            continue
        storage = facts["storage"]
        if part == "nfs" and not storage["nfs"]["installed"]:
            yield Hit((host,), (f"{host}: the NFS client is not installed",))
        elif part == "iscsi" and not storage["iscsi"]["installed"]:
            yield Hit((host,), (f"{host}: iscsiadm is not installed",))
        elif part == "iscsi":
            rows = [
                row
                for row in storage_checks(facts, {"nfs": False}, (), host)
                if row["check"] == "iscsid" and row["status"] == "error"
            ]
            if rows:
                yield Hit((host,), tuple(quoted(f"{host}: {row['message']}") for row in rows))


def _iscsi(case: Case) -> t.Iterator[Hit]:
    yield from _checks(case, "iscsi")
    yield from case.told(*_ISCSI)


def _nfs(case: Case) -> t.Iterator[Hit]:
    yield from _checks(case, "nfs")
    yield from case.told(*_NFS)
    for event in case.cluster["events"]:
        if any(text in str(event.get("message")) for text in _NFS):
            about = event.get("involvedObject") or {}
            pod = case.pods.get(f"{about.get('namespace')}/{about.get('name')}")
            host = case.host_of((pod or {"spec": {}})["spec"].get("nodeName"))
            yield Hit(host, (quoted(event.get("message")),), about=(str(about.get("name")),))


_PREPARE = " and ansible-playbook fabric.rdma.prepare, which installs, starts and checks it"

RULES = (
    Rule(
        "iscsi-missing",
        "iSCSI is missing for Longhorn",
        "error",
        ("facts", "cluster", "logs"),
        "iscsid is not installed or does not run, and Longhorn attaches no volume on the node",
        "rdma_storage: {iscsi: true}" + _PREPARE,
        _iscsi,
    ),
    Rule(
        "nfs-missing",
        "An NFS client is missing for Longhorn",
        "error",
        ("facts", "cluster", "logs"),
        "the node has no NFS client, or none of version 4.1, and mounts no volume that several nodes share",
        "rdma_storage: {nfs: true}" + _PREPARE,
        _nfs,
    ),
)
