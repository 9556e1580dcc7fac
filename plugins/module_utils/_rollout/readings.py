# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster has of a kind. Nothing is nothing only where the API server has said so. Private to the collection."""

from __future__ import annotations

import typing as t
import urllib.parse

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.patience import code_of, patiently
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError, base_path

__all__ = ["objects_of"]

Json = t.Dict[str, t.Any]

# Three tries. One that starts again refuses at once, and is back after some twenty seconds.
_PAUSE_SECONDS = 10.0


def objects_of(
    kube: Kube,
    version: str,
    kind: str,
    name: t.Optional[str] = None,
    namespace: t.Optional[str] = None,
    labels: str = "",
    fields: str = "",
) -> t.Optional[list[Json]]:
    """Objects of a kind with apiVersion and kind, None where the cluster has no such kind.

    name: of one of them, all by default. namespace: all by default. labels, fields: selectors. KubeError where the API server does not
    tell, though it is asked for half a minute: also where a 404 is not its own, but that of something before it.
    """
    for what, word in (("name", name), ("namespace", namespace)):
        # in a path, these are the list, or what is above it
        if word is not None and word in ("", ".", ".."):
            raise KubeError(f"{what} is '{word}'; expected the {what} of an object of the kind {kind}")

    def ask() -> t.Optional[list[Json]]:
        known = kube.kinds(version)
        if kind not in known:
            return None
        plural, namespaced = known[kind]
        within = f"/namespaces/{urllib.parse.quote(namespace, safe='')}" if namespaced and namespace else ""
        path = f"{base_path(version)}{within}/{plural}"
        if name is not None:
            item = kube.find(f"{path}/{urllib.parse.quote(name, safe='')}", f"read {kind} {name}")
            found = [] if item is None else [item]
        else:
            query = {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
            found = kube.list(path, f"list objects of the kind {kind}", False, **query)
        return [{"apiVersion": version, "kind": kind, **item} for item in found]

    return patiently(ask, _may_pass, pause=_PAUSE_SECONDS)


def _may_pass(exc: FabricError) -> bool:
    # also what the API server was asked again within seconds, as it wanted; a list of several pages that took too long is begun again (410)
    return bool(getattr(exc, "passing", False)) or code_of(exc) == 410
