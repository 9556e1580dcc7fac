# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the releases that come together have been tried together by those who publish them. Private. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import DRA_OLD_NAME, TOGETHER, Together
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import parsed
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.charts import switched_off
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Chart
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import named, numbers_of

__all__ = ["untried"]

_DRA_DRIVER = "NVIDIA's DRA driver"
# The last part of what a chart is called -> what it brings. The Network Operator is not brought by a system.
_BRINGS = {
    "gpu-operator": "GPU Operator",
    DRA_OLD_NAME: _DRA_DRIVER,
    "dra-driver-nvidia-gpu": _DRA_DRIVER,
    "longhorn": "Longhorn",
    "volcano": "Volcano",
}


def _line(name: str, version: t.Any) -> t.Optional[tuple[int, int]]:
    """The release line of a version, where the table knows it."""
    release = parsed(version)
    return release.line if release and release.line in TOGETHER[name] else None


def _kubernetes(name: str, line: tuple[int, int], row: Together, minors: t.Mapping[str, int]) -> t.Iterator[str]:
    oldest, newest = row.kubernetes
    span = f"1.{oldest} and newer" if newest is None else f"1.{oldest} to 1.{newest}"
    for minor in sorted(set(minors.values())):
        if minor < oldest or (newest is not None and minor > newest):
            where = named("node", [node for node, own in minors.items() if own == minor])
            yield (
                f"{name} {in_dots(line)} is published for Kubernetes {span}, not for the 1.{minor} of {where}: choose a release line that "
                "names it (docs/support.md of the collection), or try it where nothing depends on it"
            )


def _gpu_operator(line: tuple[int, int], version: t.Any) -> t.Iterator[str]:
    """line: of the DRA driver. version: of the GPU Operator that the cluster is to have."""
    own = _line("GPU Operator", version)
    lines = TOGETHER["GPU Operator"][own].dra_driver if own else ()
    if own and lines and line not in lines:
        yield (
            f"{_DRA_DRIVER} {in_dots(line)} is not what the GPU Operator {in_dots(own)} is published with, which is "
            f"{' or '.join(map(in_dots, lines))}: choose releases that go together (docs/support.md of the collection)"
        )


def untried(
    charts: t.Sequence[Chart],
    nodes: t.Optional[t.Mapping[str, t.Mapping[str, t.Any]]],
    gpu_operator: t.Optional[t.Mapping[str, t.Any]],
) -> list[str]:
    """A sentence for each chart and version of Kubernetes, and each two charts, that nobody says to go together.

    nodes: {node: {kubelet: v1.36.1}}, None where no cluster was asked. gpu_operator: the wish for it, which need not be of this request.
    """
    kubelets = {name: numbers_of(node.get("kubelet")) for name, node in (nodes or {}).items()}
    minors = {name: own[1] for name, own in kubelets.items() if own[:1] == (1,) and len(own) > 1}
    found: list[str] = []
    for chart in charts:
        name = _BRINGS.get(chart["chart"].rpartition("/")[2])
        line = _line(name, chart["version"]) if name else None
        if name and line:
            found += _kubernetes(name, line, TOGETHER[name][line], minors)
            if name == _DRA_DRIVER:
                brought = {} if switched_off(gpu_operator) else gpu_operator or {}
                found += _gpu_operator(line, brought.get("version"))
    return found
