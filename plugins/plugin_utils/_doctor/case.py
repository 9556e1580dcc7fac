# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What rules ask of facts, plan, cluster and logs. Private to the collection. Pure.

Logs are whatever somebody sends: they are searched for fixed texts, each once from its beginning to its end, and what is quoted of them is
short and has no control characters.
"""

from __future__ import annotations

import functools
import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.module_utils._base.text import printable
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import without_password
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.snapshot import (
    empty_snapshot,
    part_of,
    requests_of,
    resources_of,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Hit, Json, Log, Material

__all__ = ["MOST_TEXT", "Case", "Line", "entries_of", "name_of", "quoted", "shown_pod"]

# Of a log, its end is looked at; of a line, so much is quoted.
MOST_TEXT = 4 << 20
_QUOTED = 300
# Extended resources of other things than networks.
_GPUS = ("nvidia.com/gpu", "nvidia.com/mig-", "nvidia.com/vgpu", "volcano.sh/vgpu", "amd.com/gpu")
# Lines of one log that show the same.
_MOST_LINES = 3


class Line(t.NamedTuple):
    """A line of a log, as it is quoted. raw: at most 2,000 characters of it."""

    log: Log
    raw: str

    def __str__(self) -> str:
        return f"{quoted(self.log['name'])}: {quoted(self.raw)}"


def quoted(text: t.Any) -> str:
    """One line without control characters and passwords, and not too long."""
    line = printable(without_password(" ".join(str(text)[:2000].split())))
    return line if len(line) <= _QUOTED else line[: _QUOTED - 3] + "..."


def shown_pod(pod: Json) -> str:
    """Pod NAMESPACE/NAME on NODE."""
    node = (pod.get("spec") or {}).get("nodeName")
    return f"Pod {name_of(pod)}{f' on {node}' if node else ''}"


def name_of(item: Json) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace')}/{metadata.get('name')}"


class Case:
    """One look at hosts and cluster."""

    def __init__(self, material: Material) -> None:
        self.facts = material["facts"]
        self.plan = material["plan"] or {"groups": {}}
        self.cluster: Json = {**empty_snapshot(), **(material["cluster"] or {})}
        # {group: its hosts}: what the material says goes over the plan
        planned = {name: entry.get("hosts", ()) for name, entry in self.plan.get("groups", {}).items()}
        self.members: dict[str, t.Collection[str]] = {**planned, **material["groups"]}
        self._nodes = material["node_names"]
        self._hosts = {node: host for host, node in self._nodes.items()}
        self.logs: list[Log] = [{**log, "text": log["text"][-MOST_TEXT:]} for log in material["logs"]]
        self.unread = material["unread"]

    # names

    def host_of(self, node: t.Optional[str]) -> tuple[str, ...]:
        """The host of the inventory that a node is, as hits have it; empty for none."""
        return (self._hosts.get(node, node),) if node else ()

    def node_of(self, host: str) -> t.Optional[Json]:
        found: t.Optional[Json] = self.cluster["nodes"].get(self._nodes.get(host, host))
        return found

    def group_of(self, host: str) -> str:
        return next((name for name, hosts in self.members.items() if host in hosts), "")

    def hosts_beside(self, log: Log) -> set[str]:
        """Hosts with which those of a log share a group: all where it is of no host, or of one without a group."""
        groups = {self.group_of(host) for host in self.hosts_of_log(log)} - {""}
        return {host for name in groups for host in self.members[name]} or set(self.facts)

    def hosts_of_log(self, log: Log) -> tuple[str, ...]:
        return self.host_of(log["host"])

    # logs

    def lines(self, *texts: str, source: str = "", logs: t.Optional[t.Iterable[Log]] = None) -> t.Iterator[Line]:
        """Lines that have one of these texts, a few of each log. source: of logs of that sort only."""
        for log in self.logs if logs is None else logs:
            if source and log["source"] != source:
                continue
            seen: set[str] = set()
            for text in texts:
                for line in _lines_with(log["text"], text):
                    if len(seen) >= _MOST_LINES:
                        break
                    if line not in seen:
                        seen.add(line)
                        yield Line(log, line)

    def told(self, *texts: str, source: str = "", **given: t.Any) -> t.Iterator[Hit]:
        """A hit for each log that has one of these texts; given: cause, remedy, severity of the hits."""
        found: dict[str, list[Line]] = {}
        for line in self.lines(*texts, source=source):
            found.setdefault(line.log["name"], []).append(line)
        for name, lines in found.items():
            yield self.hit(lines[0].log, [str(line) for line in lines], about=(f"log {name}",), **given)

    def hit(self, log: Log, evidence: t.Sequence[str], **given: t.Any) -> Hit:
        """A hit on the host of a log."""
        return Hit(
            hosts=self.hosts_of_log(log), evidence=tuple(evidence), **{"about": (f"log {log['name']}",), **given}
        )

    def pod_of(self, log: Log) -> t.Optional[Json]:
        return self.pods.get(log["pod"]) if log["pod"] else None

    # the cluster

    @functools.cached_property
    def pods(self) -> dict[str, Json]:
        return {name_of(pod): pod for pod in self.cluster["pods"]}

    @functools.cached_property
    def config_maps(self) -> dict[str, Json]:
        return {name_of(item): item for item in self.cluster["config_maps"]}

    def daemon_sets(self, *parts: str) -> list[Json]:
        return [each for each in self.cluster["daemon_sets"] if part_of(each) in parts]

    @functools.cached_property
    def _owned(self) -> dict[tuple[t.Any, t.Any], list[Json]]:
        found: dict[tuple[t.Any, t.Any], list[Json]] = {}
        for pod in self.cluster["pods"]:
            for owner in pod["metadata"].get("owners") or []:
                found.setdefault((pod["metadata"].get("namespace"), owner.get("name")), []).append(pod)
        return found

    def pods_of(self, daemon_set: Json) -> list[Json]:
        return self._owned.get((daemon_set["metadata"].get("namespace"), daemon_set["metadata"]["name"]), [])

    @functools.cached_property
    def _there(self) -> dict[tuple[str, str], list[Json]]:
        found: dict[tuple[str, str], list[Json]] = {}
        for each in self.cluster["daemon_sets"]:
            for pod in self.pods_of(each):
                node = (pod.get("spec") or {}).get("nodeName")
                found.setdefault((str(node), str(part_of(each))), []).append(pod)
        return found

    def pods_on(self, node: str, *parts: str) -> list[Json]:
        """Pods of DaemonSets of these parts on a node."""
        return [pod for part in parts for pod in self._there.get((node, part), [])]

    @functools.cached_property
    def known_hosts(self) -> set[str]:
        """Hosts of the inventory: those with facts, and those of groups."""
        return {*self.facts, *(host for hosts in self.members.values() for host in hosts)}

    def nodes_for(self, daemon_set: Json) -> list[Json]:
        """Nodes that the node selector of a DaemonSet selects. One that has none is everywhere, and wanted on known hosts only."""
        selector = daemon_set["spec"]["template"]["spec"].get("nodeSelector") or {}
        return [
            node
            for node in self.nodes
            if (selector or self.host_of(node["metadata"]["name"])[0] in self.known_hosts)
            and all((node["metadata"].get("labels") or {}).get(key) == value for key, value in selector.items())
        ]

    @functools.cached_property
    def nodes(self) -> list[Json]:
        """In the natural order of their names."""
        return [self.cluster["nodes"][name] for name in sorted(self.cluster["nodes"], key=natural_key)]

    @functools.cached_property
    def offered(self) -> dict[str, set[str]]:
        """{node: resources that the device plugins there are to offer}."""
        found: dict[str, set[str]] = {}
        for daemon_set, config_map in self.configurations():
            names = {resource for resource, _entry in entries_of(config_map["data"].get("config.json"))}
            for node in self.nodes_for(daemon_set):
                found.setdefault(node["metadata"]["name"], set()).update(names)
        return found

    def configurations(self) -> t.Iterator[tuple[Json, Json]]:
        """(DaemonSet, ConfigMap) of each device plugin."""
        for each in self.daemon_sets("plugin"):
            for volume in each["spec"]["template"]["spec"].get("volumes") or []:
                name = (volume.get("configMap") or {}).get("name")
                found = self.config_maps.get(f"{each['metadata'].get('namespace')}/{name}") if name else None
                if found is not None:
                    yield each, found

    @functools.cached_property
    def resources(self) -> set[str]:
        """RDMA resources that the plan and the configurations of device plugins name."""
        found = {
            str(row["resource"])
            for group in self.plan.get("groups", {}).values()
            for row in group.get("resources") or [{"resource": group["resource"]}]
        }
        for _daemon_set, config_map in self.configurations():
            found |= {resource for resource, _entry in entries_of(config_map["data"].get("config.json"))}
        return found

    def wants(self, pod: Json) -> set[str]:
        """RDMA resources that a Pod asks for."""
        return resources_of(pod, self.resources)

    def asks_for_none(self, pod: Json) -> bool:
        """Whether a Pod asks for no RDMA device: neither by a claim, nor by a resource that is one, or that nobody knows."""
        others = {name for name in requests_of(pod) if not name.startswith(_GPUS)}
        return not self.wants(pod) and not others and not pod["spec"].get("resourceClaims")

    def pods_are_known(self, daemon_set: Json) -> bool:
        """Whether Pods of a DaemonSet would be there: somebody may have listed those of some namespaces only."""
        if not self.cluster.get("listed"):
            return True
        if self.cluster.get("named"):
            return False
        spaces = {pod["metadata"].get("namespace") for pod in self.cluster["pods"]}
        return len(spaces) > 1 or daemon_set["metadata"].get("namespace") in spaces

    def workloads(self) -> list[Json]:
        """Pods that ask for an RDMA resource."""
        return [pod for pod in self.cluster["pods"] if self.wants(pod)]


def _lines_with(text: str, needle: str) -> t.Iterator[str]:
    """Lines that have a text, each once, in one go through it."""
    at = text.find(needle)
    while at >= 0:
        low = max(at - 1000, 0)
        start = max(text.rfind("\n", low, at) + 1, low)
        end = text.find("\n", at, at + 1000)
        end = min(at + 1000, len(text)) if end < 0 else end
        yield text[start:end].strip()
        after = text.find("\n", end)
        if after < 0:
            return
        at = text.find(needle, after)


def entries_of(text: t.Any) -> list[tuple[str, Json]]:
    """[(resource, entry)] of a configuration of a device plugin; empty for what cannot be read."""
    try:
        config = json.loads(text or "{}")
    except (TypeError, ValueError, RecursionError):
        return []
    if not isinstance(config, dict):
        return []
    lists = [config.get(key) for key in ("configList", "resourceList")]
    return [
        (f"{entry.get('resourcePrefix') or 'rdma'}/{entry.get('resourceName')}", entry)
        for each in lists
        if isinstance(each, list)
        for entry in each
        if isinstance(entry, dict)
    ]
