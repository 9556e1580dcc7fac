# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as metrics for the textfile collector of Prometheus' node_exporter. Private to the collection. Pure.

Names and units follow https://prometheus.io/docs/practices/naming/: base units (bytes per second, seconds), `_total` for what only
grows. The number of series grows with nodes and ports, never with pairs. A counter of errors is there for each node, also where it is
0; for a port only where it is not: thousands of ports have more than a dozen each, and nearly all of these are 0.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.spread import quantile
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import Json

__all__ = ["render_metrics"]

_GIGABIT = 1e9 / 8
_MICROSECOND = 1e-6
_Labels = tuple[tuple[str, str], ...]


class _Metrics:
    """Families of samples; of two samples with the same labels the first counts, for the format allows one."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[str, str, dict[_Labels, float]]] = {}

    def add(self, name: str, kind: str, text: str, value: float, **labels: t.Any) -> None:
        family = self._families.setdefault(f"fabric_rdma_{name}", (kind, text, {}))
        family[2].setdefault(tuple((key, str(each)) for key, each in labels.items()), value)

    def gauge(self, name: str, text: str, value: float, **labels: t.Any) -> None:
        self.add(name, "gauge", text, value, **labels)

    def counter(self, name: str, text: str, value: float, **labels: t.Any) -> None:
        self.add(name, "counter", text, value, **labels)

    def text(self) -> str:
        lines = []
        for name, (kind, text, samples) in self._families.items():
            lines += [f"# HELP {name} {_escaped(text)}", f"# TYPE {name} {kind}"]
            for labels, value in samples.items():
                inside = ",".join(f'{key}="{_escaped(each, True)}"' for key, each in labels)
                lines.append(f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}")
        return "".join(f"{line}\n" for line in lines)


def _escaped(text: str, label: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if label else text


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.12g}"


def render_metrics(document: Json) -> str:
    """The file: HELP and TYPE once for each name, no time. document: as docs/report.schema.json describes it."""
    metrics = _Metrics()
    metrics.gauge(
        "info", "Version of the collection that wrote this.", 1, version=document["versions"]["collection"] or "unknown"
    )
    for name, group in document["groups"].items():
        _add_group(metrics, name, group)
    severities: dict[tuple[str, str], int] = {}
    for group in [*document["groups"], ""]:
        severities |= {(group, severity): 0 for severity in ("error", "warning", "note")}
    for finding in document["findings"]:
        key = (finding["group"] or "", finding["severity"])
        severities[key] = severities.get(key, 0) + 1
    for (group, severity), count in severities.items():
        metrics.gauge(
            "findings",
            "Findings of a group; those without a group have an empty one.",
            count,
            group=group,
            severity=severity,
        )
    if document["history"]:
        for way in ("worse", "better"):
            text = "What is worse or better than in the report that this one was compared with."
            metrics.gauge("changes", text, document["history"][way], direction=way)
    return metrics.text()


def _add_group(metrics: _Metrics, name: str, group: Json) -> None:
    for state, word in (("ok", "ready"), ("info", "planned"), ("warn", "warning"), ("bad", "problem")):
        text = "Whether this is the verdict on the group: 1 for one of them."
        metrics.gauge("group_verdict", text, int(group["state"] == state), group=name, verdict=word)
    nodes = group["nodes"]
    metrics.gauge("group_nodes", "Nodes of the group.", len(nodes), group=name)
    usable = sum(node["usable_ports"] > 0 for node in nodes.values())
    metrics.gauge("group_nodes_usable", "Nodes with a port that can be used.", usable, group=name)
    for host, node in nodes.items():
        metrics.gauge("node_reached", "Whether the node has facts.", int(node["reached"]), group=name, node=host)
        metrics.gauge("node_usable_ports", "Ports that can be used.", node["usable_ports"], group=name, node=host)
    for host, node in nodes.items():
        for counter, value in _errors_of(node).items():
            text = "Errors that all ports of the node had counted when its facts were gathered."
            metrics.counter("node_errors_total", text, value, group=name, node=host, error=counter)
    for host, node in nodes.items():
        for port in node["ports"]:
            _add_port(metrics, {"group": name, "node": host, "device": port["device"], "port": port["port"]}, port)
    text = "Whether the group was not measured in this run, and its measurements are those of an earlier one."
    metrics.gauge("group_measured_earlier", text, int(bool(group["measured_earlier"])), group=name)
    for (level, test, variant), own in _by_kind(group["measurements"]).items():
        _add_measurements(metrics, {"group": name, "level": level, "test": test, "variant": variant}, own)
    for check, verdicts in group.get("checks", {}).items():
        for verdict, count in verdicts.items():
            text = "Checks other than bandwidth and latency, by their result."
            metrics.gauge("checks", text, count, group=name, check=check, verdict=verdict)
    for each in group["collectives"]:
        # not job, which Prometheus gives to what it scrapes: ours would become exported_job
        labels = {"group": name, "mpijob": each["name"], "test": each["test"] or each["tool"], "way": each["way"] or ""}
        text = "Whether a job over GPUs of several nodes reached what it must."
        metrics.gauge("collective_passed", text, int(each["verdict"] == "pass"), **labels)
        for key, kind in (
            ("best_gbs", "best"),
            ("average_gbs", "mean"),
            ("lowest_gbs", "lowest"),
            ("limit_gbs", "limit"),
        ):
            if each[key] is not None:
                text = "Bandwidth of a job over GPUs of several nodes, and its limit."
                metrics.gauge("collective_bandwidth_bytes_per_second", text, each[key] * 1e9, **labels, figure=kind)


def _add_port(metrics: _Metrics, labels: Json, port: Json) -> None:
    metrics.gauge("port_active", "Whether the port is Active.", int(port["state"] == "Active"), **labels)
    metrics.gauge("port_selected", "Whether Pods get the port.", int(port["decision"] == "selected"), **labels)
    if port["rate_gbps"] is not None and port["state"] == "Active":
        text = "Rate of the link of an active port."
        metrics.gauge("port_rate_bytes_per_second", text, port["rate_gbps"] * _GIGABIT, **labels)
    for counter, value in port["errors"].items():
        if value:
            text = (
                "Errors that the port had counted when the facts of its node were gathered, where it had counted any."
            )
            metrics.counter("port_errors_total", text, value, **labels, error=counter)
    if port["temperature_celsius"] is not None:
        text = "Temperature of the card or its cable."
        metrics.gauge("port_temperature_celsius", text, port["temperature_celsius"], **labels)
    if port["pcie_part"] is not None:
        text = "PCIe bandwidth that the card has, as a share of what it could have."
        metrics.gauge("port_pcie_bandwidth_ratio", text, port["pcie_part"], **labels)


def _errors_of(node: Json) -> dict[str, int]:
    """The sum of each counter over the ports that have it."""
    sums: dict[str, int] = {}
    for port in node["ports"]:
        for counter, value in port["errors"].items():
            sums[counter] = sums.get(counter, 0) + value
    return sums


def _by_kind(measurements: t.Iterable[Json]) -> dict[tuple[str, str, str], list[Json]]:
    kinds: dict[tuple[str, str, str], list[Json]] = {}
    for each in measurements:
        kinds.setdefault((each["level"], each["test"], each["variant"]), []).append(each)
    return kinds


def _add_measurements(metrics: _Metrics, labels: Json, own: list[Json]) -> None:
    for verdict in ("pass", "fail", "error"):
        count = sum(each["verdict"] == verdict for each in own)
        metrics.gauge("measurements", "Measurements by what became of them.", count, **labels, verdict=verdict)
    text = "Measurements that are far from the others, whatever their limit says."
    metrics.gauge("measurements_far", text, sum(each["far"] for each in own), **labels)
    values = sorted(each["value"] for each in own if each["value"] is not None)
    if not values:
        return
    latency = own[0]["unit"] == "us"
    name, factor = ("latency_seconds", _MICROSECOND) if latency else ("bandwidth_bytes_per_second", _GIGABIT)
    metrics.gauge(f"group_median_{name}", "Median of all measurements.", quantile(values, 0.5) * factor, **labels)
    worst: dict[str, Json] = {}
    for each in own:
        if each["value"] is not None:
            for host in (each["client"]["host"], each["server"]["host"]):
                old = worst.setdefault(host, each)
                if (each["value"] > old["value"]) is latency and each["value"] != old["value"]:
                    worst[host] = each
    what = "Worst typical latency" if latency else "Lowest bandwidth"
    for host, each in worst.items():
        metrics.gauge(
            f"node_{name}", f"{what} of those that the node had a part in.", each["value"] * factor, **labels, node=host
        )
    for host, each in worst.items():
        if each["limit"] is not None:
            text = "The limit of that measurement."
            metrics.gauge(f"node_limit_{name}", text, each["limit"] * factor, **labels, node=host)
