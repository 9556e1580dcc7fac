# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What classes, groups and hosts of an inventory are called in Kubernetes. Private. Pure."""

from __future__ import annotations

import hashlib
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = ["NAME_LIMIT", "ManifestError", "class_slug", "group_value", "is_namespace", "node_scope"]

# Of a DNS label (RFC 1123).
NAME_LIMIT = 63
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


class ManifestError(FabricError):
    """A plan or setting that cannot become a valid object."""


def class_slug(name: str) -> str:
    """A class name as a DNS label (RFC 1123): Ansible groups may have underscores and capitals, objects and labels may not."""
    slug = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    if not slug:
        raise ManifestError(f"class '{name}' has no letter or digit to make an object name of")
    # room for the prefix of the object's name
    if len(slug) > NAME_LIMIT - len("rdma-shared-dp-"):
        slug = (
            slug[: NAME_LIMIT - len("rdma-shared-dp-") - 9].rstrip("-")
            + "-"
            + hashlib.sha256(name.encode()).hexdigest()[:8]
        )
    return slug


def group_value(group: str) -> str:
    """A group as the value of a label. Nothing is named after it, so that every group has one."""
    try:
        return class_slug(group)
    except ManifestError:
        return "group-" + hashlib.sha256(group.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def is_namespace(name: str) -> bool:
    """Whether a namespace may be called so (k8s.io/apimachinery/pkg/util/validation, IsDNS1123Label)."""
    return len(name) <= NAME_LIMIT and _LABEL.fullmatch(name) is not None


def node_scope(
    hosts: t.Iterable[str], remove: t.Iterable[str], names: t.Mapping[str, str], removed: t.Iterable[str] = ()
) -> dict[str, list[str]]:
    """{known: nodes of hosts, remove: nodes and values of GROUP_LABEL}.

    remove: hosts and groups that are taken out on purpose; removed: further hosts that are. names: of nodes whose name differs
    from their host's.
    """
    asked = {str(name) for name in remove}
    return {
        "known": sorted({str(names.get(host, host)) for host in hosts}),
        "remove": sorted(
            {str(names.get(host, host)) for host in {*asked, *removed}} | {group_value(name) for name in asked}
        ),
    }
