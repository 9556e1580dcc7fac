# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether nodes can be in a ComputeDomain, by their facts and by what the cluster says of them. Private. Pure.

Follows cmd/compute-domain-kubelet-plugin of NVIDIA's DRA driver, and its documentation of prerequisites.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import TOGETHER
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import named, numbers_of

__all__ = ["CLIQUE_LABEL", "NodeView", "cliques_of", "node_findings"]

# GPU Feature Discovery sets it: <UUID of the NVLink cluster>.<number of the clique in it>.
CLIQUE_LABEL = "nvidia.com/gpu.clique"
# IMEXDaemonsWithDNSNamesMinDriverVersion of the kubelet plugin; its documentation asks it for every ComputeDomain.
_MNNVL_FLOOR = "570.158.01"
# The DRA driver hands devices out by CDI, which containerd has since 1.7, and by itself since 2.0.
_CDI_SINCE, _CDI_DEFAULT_SINCE = (1, 7), (2, 0)
# kubeVersion of its charts, and what its documentation asks for since DRA is on by default.
_KUBELET_SINCE = (1, min(row.kubernetes[0] for row in TOGETHER["NVIDIA's DRA driver"].values()))
_DRA_DEFAULT_SINCE = (1, 34)
_MASK = (
    "set rdma_compute_domain.host_imex: mask and run prepare.yml, which stops and masks it, and remembers how it was"
)

# {node: {"labels": {...}, "kubelet": "v1.34.2"}}
NodeView = t.Mapping[str, t.Mapping[str, t.Any]]


class Findings(t.NamedTuple):
    problems: list[str]
    warnings: list[str]


def _driver_findings(nvidia: t.Mapping[str, t.Any]) -> list[str]:
    if not nvidia.get("driver"):
        return ["the NVIDIA driver is not loaded: install or start it, and discover the host again"]
    version = str(nvidia["driver"])
    if numbers_of(version) < numbers_of(_MNNVL_FLOOR):
        return [f"its NVIDIA driver is {version}, and ComputeDomains need {_MNNVL_FLOOR} or newer: upgrade it"]
    return []


def _channel_findings(imex: t.Optional[t.Mapping[str, t.Any]]) -> list[str]:
    if imex is None or imex["channel_major"] is not None:
        return []
    return [
        "its kernel has no nvidia-caps-imex-channels in /proc/devices, so that no IMEX channel can be made: load the NVIDIA "
        "driver with IMEX channels (NVreg_ImexChannelCount above 0)"
    ]


def _service_findings(imex: t.Optional[t.Mapping[str, t.Any]], mode: str, host_imex: str) -> Findings:
    """mode: driver or host, who runs IMEX. host_imex: the consent, keep, mask or restore."""
    found = Findings([], [])
    if imex is None:
        found.warnings.append(
            "its facts are of an earlier version and say nothing of nvidia-imex.service: discover it again"
        )
        return found
    service, on = imex["service"], imex["service"] == "running" or (imex["enabled"] and not imex["masked"])
    if mode == "host":
        if service != "running":
            found.problems.append(
                f"imex: host leaves IMEX to nvidia-imex.service of the host, which is {service or 'not there'}: install, "
                "configure and start it, or set imex: driver"
            )
        return found
    if host_imex == "restore":
        found.problems.append(
            "host_imex: restore gives nvidia-imex.service back to the host, where the DRA driver runs IMEX: remove the DRA "
            "driver first, or set host_imex: keep"
        )
    elif on:
        how = "runs" if service == "running" else "starts at boot"
        remedy = "run prepare.yml first, which masks it" if host_imex == "mask" else _MASK
        found.problems.append(
            f"nvidia-imex.service {how}, and where the DRA driver runs IMEX, only one of them gets the GPUs' fabric: {remedy}"
        )
    elif service and not imex["masked"]:
        found.warnings.append(
            f"nvidia-imex.service is stopped, but not masked, and an upgrade of its package may start it: {_MASK}"
        )
    return found


def _runtime_findings(runtime: t.Mapping[str, t.Any]) -> Findings:
    version = (runtime.get("containerd") or {}).get("version")
    numbers = numbers_of(version)[:2]
    if not numbers or numbers >= _CDI_DEFAULT_SINCE:
        return Findings([], [])
    if numbers < _CDI_SINCE:
        return Findings(
            [
                f"its containerd is {version}, and CDI, by which the DRA driver hands devices out, came with 1.7: upgrade it"
            ],
            [],
        )
    return Findings(
        [], [f"its containerd is {version}, where CDI is off by default: set enable_cdi = true for its CRI plugin"]
    )


def _kubelet_findings(kubelet: t.Any) -> Findings:
    numbers = numbers_of(kubelet)[:2]
    if not numbers or numbers >= _DRA_DEFAULT_SINCE:
        return Findings([], [])
    if numbers < _KUBELET_SINCE:
        return Findings(
            [
                f"its kubelet is {kubelet}, and NVIDIA's DRA driver needs {in_dots(_KUBELET_SINCE)} or newer: upgrade the cluster"
            ],
            [],
        )
    return Findings(
        [], [f"its kubelet is {kubelet}, which needs the feature gate DynamicResourceAllocation (on since 1.34)"]
    )


def _of_host(facts: Json, node: t.Mapping[str, t.Any], wish: t.Mapping[str, t.Any]) -> Findings:
    nvidia = facts.get("nvidia")
    if nvidia is None:
        why = "its facts are without GPUs" if "nvidia" not in facts else "it has no GPU of NVIDIA"
        return Findings([f"{why}: take it out of the group, or take rdma_compute_domain from the group"], [])
    service = _service_findings(nvidia.get("imex"), wish["imex"], wish["host_imex"])
    runtime = _runtime_findings(facts.get("runtime") or {})
    kubelet = _kubelet_findings(node.get("kubelet"))
    problems = [*_driver_findings(nvidia), *_channel_findings(nvidia.get("imex"))]
    return Findings(
        [*problems, *service.problems, *runtime.problems, *kubelet.problems],
        [*service.warnings, *runtime.warnings, *kubelet.warnings],
    )


def cliques_of(hosts: t.Iterable[str], site: Site, nodes: NodeView) -> dict[str, list[str]]:
    """Hosts by the clique that their nodes are in; "" for those whose nodes have no label."""
    found: dict[str, list[str]] = {}
    for host in sorted(hosts):
        labels = nodes.get(site["node_names"].get(host, host), {}).get("labels") or {}
        found.setdefault(str(labels.get(CLIQUE_LABEL) or ""), []).append(host)
    return found


def _clique_findings(group: str, cliques: t.Mapping[str, t.Sequence[str]], wish: t.Mapping[str, t.Any]) -> Findings:
    found = Findings([], [])
    for clique, hosts in cliques.items():
        if not clique:
            found.problems.append(
                f"group {group}: {named('node', hosts)} without the label {CLIQUE_LABEL}: GPU Feature Discovery does not run there, or "
                "the GPUs are in no NVLink fabric (nvidia-smi -q, section Fabric, State has to be Completed)"
            )
        elif not clique.partition(".")[0].strip("0-"):
            found.problems.append(
                f"group {group}: {named('node', hosts)} in the clique {clique}, whose cluster has no UUID: the fabric manager of the "
                "NVLink switches is not ready"
            )
    known = sorted(clique for clique in cliques if clique)
    if wish["cliques"] == "one" and len(known) > 1:
        words = "; ".join(f"{clique}: {named('host', cliques[clique])}" for clique in known)
        found.problems.append(
            f"group {group}: cliques: one, and its hosts are in {len(known)} cliques ({words}): divide the group, or set cliques: any"
        )
    return found


def node_findings(
    group: str, hosts: t.Sequence[str], site: Site, nodes: t.Optional[NodeView], wish: t.Mapping[str, t.Any]
) -> Findings:
    """What keeps the nodes of a group out of ComputeDomains, and what might; the same of several hosts is one sentence.

    wish: {imex, host_imex, cliques}, all set. nodes: None where no cluster was asked.
    """
    said: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    missing = [host for host in hosts if host not in site["facts"]]
    for host in hosts:
        if host in site["facts"]:
            node = (nodes or {}).get(site["node_names"].get(host, host), {})
            for known, sentences in zip(said, _of_host(site["facts"][host], node, wish), strict=True):
                for sentence in sentences:
                    known.setdefault(sentence, []).append(host)
    problems, warnings = ([f"{named('host', own)}: {sentence}" for sentence, own in known.items()] for known in said)
    if missing:
        problems.append(
            f"group {group}: no facts of {named('host', missing)}: discover them, or take them out of the group"
        )
    cliques = _clique_findings(group, cliques_of(hosts, site, nodes), wish) if nodes is not None else Findings([], [])
    return Findings([*problems, *cliques.problems], [*warnings, *cliques.warnings])
