# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where kubelets keep their sockets: one DaemonSet mounts one directory. Private. Pure."""

from __future__ import annotations

import typing as t

__all__ = ["KUBELET_ROOT", "KUBELET_ROOTS", "by_kubelet", "kubelet_root"]

# Where kubelets have their directory, and where those of some distributions have it instead.
KUBELET_ROOT = "/var/lib/kubelet"
KUBELET_ROOTS = {"k0s": "/var/lib/k0s/kubelet", "microk8s": "/var/snap/microk8s/common/var/lib/kubelet"}

_Any = t.TypeVar("_Any")


def kubelet_root(distribution: t.Any) -> str:
    """The directory of the kubelet of a distribution (ansible_facts.rdma.runtime.distribution, a text or None)."""
    return KUBELET_ROOTS.get(str(distribution), KUBELET_ROOT)


def _usual_first(pair: tuple[str, t.Any]) -> tuple[bool, str]:
    return pair[0] != KUBELET_ROOT, pair[0]


def by_kubelet(
    classes: t.Iterable[tuple[t.Sequence[str], _Any]], facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]]
) -> list[tuple[list[str], _Any, t.Optional[str]]]:
    """[(hosts, what they have in common, directory)]: classes of hosts, divided by the directory of their kubelets.

    The directory is None where all hosts of a class have the same one. The usual directory comes first.
    """
    found: list[tuple[list[str], _Any, t.Optional[str]]] = []
    for hosts, common in classes:
        roots: dict[str, list[str]] = {}
        for host in hosts:
            roots.setdefault(kubelet_root((facts_by_host[host].get("runtime") or {}).get("distribution")), []).append(
                host
            )
        found += [
            (own, common, root if len(roots) > 1 else None) for root, own in sorted(roots.items(), key=_usual_first)
        ]
    return found
