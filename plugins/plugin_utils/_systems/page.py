# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that is planned for a group on one page, before any of it is applied. Private. Pure.

What a system brings is read off the objects that it has made, so that the page tells what is applied, and not what was meant.
"""

from __future__ import annotations

import json
import textwrap
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.text import WIDTH, hosts_label, printable, table
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Group
from ansible_collections.fabric.rdma.plugins.module_utils._plan.table import plan_table
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import GROUP_LABEL
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import class_slug, group_value
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Request, Site

__all__ = ["Part", "concerned_groups", "parts_of_groups", "plan_page", "rows_of_groups"]

Rows = list[tuple[str, str]]


class Part(t.TypedDict):
    """What the page of a group says of a system: (what, value) in words, and sentences."""

    rows: Rows
    errors: list[str]
    warnings: list[str]


def concerned_groups(variable: str, of_groups: bool, wish: t.Any, site: Site) -> list[str]:
    """Groups that a system is for: those with the wish, or those that the wish names, by themselves, their nodes or classes; else all."""
    if of_groups:
        return [name for name in site["groups"] if (site["wishes"].get(name) or {}).get(variable)]
    own = wish if isinstance(wish, t.Mapping) else {}
    classes = own.get("classes") or {}
    named = classes.get("groups") or None if own.get("groups") is None else own["groups"]
    found = [
        name for name in site["groups"] if named is None or name in named or _nodes(site, name) & {*_nodes_of(own)}
    ]
    wanted = {*(classes.get("names") or ())}
    return [name for name in found if not wanted or wanted & _class_names(site, name)]


def _nodes_of(wish: t.Mapping[str, t.Any]) -> list[str]:
    return [str(node) for node in wish.get("nodes") or ()]


def _class_names(site: Site, group: str) -> set[str]:
    """The names of the classes of a group, as the plan and as Kubernetes have them."""
    planned = site["plan"]["groups"].get(group)
    names = [each["name"] for each in planned["classes"]] if planned else []
    return {*names, *map(class_slug, names)}


def rows_of_groups(request: Request, site: Site, concerned: t.Iterable[str]) -> dict[str, Rows]:
    """By group, what a system is to bring: what is for all, what is of the group, its objects, the labels of its nodes, its workloads."""
    of_groups = [row for rows in request["group_rows"].values() for row in rows]
    shared = [row for row in request["summary"] if row not in of_groups]
    shared += [(f"chart {each['release']}", _chart_words(each)) for each in request["charts"]]
    found: dict[str, Rows] = {}
    labelled = [group for group in site["groups"] if _label_rows(request, site, group)]
    # of what is nothing but labels, a group without any has nothing
    whole = concerned if request["charts"] or request["objects"] else ()
    for group in sorted({*whole, *labelled}):
        value = group_value(group)
        own = [
            _object_row(item)
            for item in request["objects"]
            if (item["metadata"].get("labels") or {}).get(GROUP_LABEL) == value
        ]
        rows = [
            *shared,
            *request["group_rows"].get(group, []),
            *dict.fromkeys(own),
            *map(_object_row, _hypernodes(request, site, group)),
            *_label_rows(request, site, group),
            *_workload_rows(request, site, group),
        ]
        found[group] = [(printable(what), printable(words)) for what, words in rows]
    return found


def parts_of_groups(request: Request, site: Site, concerned: t.Sequence[str]) -> dict[str, Part]:
    """By group: its rows, with what cannot be and what is to be known of it. What cannot be, and is for no group, is for all."""
    rows = rows_of_groups(request, site, concerned)
    refused = (concerned or list(site["groups"])) if request["problems"] else []
    return {
        group: {
            "rows": rows.get(group, []),
            "errors": _of_this_group(request["problems"], site, group),
            "warnings": _of_this_group(request["warnings"], site, group),
        }
        for group in sorted({*rows, *refused})
    }


def _of_this_group(sentences: t.Iterable[str], site: Site, group: str) -> list[str]:
    """Those that do not begin with the name of another group, or of a class of it."""
    others = [name for name in site["groups"] if name != group]
    words = [f"group {name}:" for name in others] + [
        f"class {each}:" for name in others for each in _class_names(site, name)
    ]
    return [each for each in sentences if not each.startswith(tuple(words))]


# --- objects in words -------------------------------------------------------------------------------------------------


def _chart_words(chart: t.Mapping[str, t.Any]) -> str:
    return f"{chart['chart'].rpartition('/')[2]} {chart['version']} in namespace {chart['namespace']}"


def _nodes(site: Site, group: str) -> set[str]:
    return {site["node_names"].get(host, host) for host in site["groups"][group]}


def _hypernodes(request: Request, site: Site, group: str) -> list[Json]:
    """HyperNodes that have nodes of a group in them, the lowest tier first, as they are made."""
    inside, found = _nodes(site, group), []
    for item in request["objects"]:
        if item["kind"] == "HyperNode":
            members = {each["selector"]["exactMatch"]["name"] for each in item["spec"]["members"]}
            if members & inside:
                inside.add(item["metadata"]["name"])
                found.append(item)
    return found


def _object_row(item: Json) -> tuple[str, str]:
    metadata = item["metadata"]
    name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    in_words = _WORDS.get(item["kind"])
    words = in_words(item.get("spec") or {}) if in_words else ""
    return f"{item['kind']} {name}", words or "as its file has it"


def _listed(*parts: t.Any) -> str:
    return ", ".join(str(part) for part in parts if part)


def _ipam_words(ipam: t.Mapping[str, t.Any]) -> str:
    """The address plan of a network, in the words of its CNI plugin."""
    ranges = [ipam] if ipam.get("range") else list(ipam.get("ipRanges") or ())
    ranges += [each for rows in ipam.get("ranges") or () for each in rows]
    words = []
    for each in ranges:
        first, last = (each.get(key) for key in ("range_start", "range_end"))
        first, last = first or each.get("rangeStart"), last or each.get("rangeEnd")
        exclude = f" without {', '.join(each['exclude'])}" if each.get("exclude") else ""
        span = f" ({first} to {last}{exclude})" if first else exclude
        words.append(f"{each.get('range') or each.get('subnet')}{span}")
    pools = ipam.get("poolName") or ", ".join(
        str(each) for key in ("default_ipv4_ippool", "default_ipv6_ippool") for each in ipam.get(key) or ()
    )
    return _listed(ipam.get("type"), *words, f"pool {pools}" if pools else "")


def _parsed(text: t.Any) -> Json:
    found = json.loads(text) if isinstance(text, str) and text else {}
    return found if isinstance(found, dict) else {}


def _attachment_words(spec: Json) -> str:
    config = _parsed(spec.get("config"))
    plugins = config.get("plugins") or [config]
    first = plugins[0]
    return _listed(
        first.get("type"),
        f"on {first['master']}" if first.get("master") else "",
        f"MTU {first['mtu']}" if first.get("mtu") else "",
        f"VLAN {first['vlan']}" if first.get("vlan") else "",
        _ipam_words(first.get("ipam") or {}),
    )


def _operator_words(spec: Json) -> str:
    return _listed(
        f"on {spec['master']}" if spec.get("master") else "",
        f"resource {spec['resourceName']}" if spec.get("resourceName") else "",
        f"MTU {spec['mtu']}" if spec.get("mtu") else "",
        f"VLAN {spec['vlan']}" if spec.get("vlan") else "",
        _ipam_words(_parsed(spec.get("ipam"))),
    )


def _spider_words(spec: Json) -> str:
    own: Json = next((value for key, value in spec.items() if isinstance(value, dict) and "ippools" in value), {})
    pools = [name for names in (own.get("ippools") or {}).values() for name in names]
    return _listed(
        spec.get("cniType"),
        f"on {', '.join(own['master'])}" if isinstance(own.get("master"), list) else "",
        f"resource {own['rdmaResourceName']}" if own.get("rdmaResourceName") else "",
        f"pool {', '.join(pools)}" if pools else "",
    )


def _policy_words(spec: Json) -> str:
    functions = ", ".join(map(str, spec["nicSelector"]["rootDevices"]))
    return _listed(f"{spec.get('numVfs')} functions of {functions}", f"resource {spec.get('resourceName')}")


def _claim_words(spec: Json) -> str:
    devices = spec["spec"]["devices"]
    words = []
    for each in devices["requests"]:
        exactly = each["exactly"]
        count = "all" if exactly.get("allocationMode") == "All" else exactly.get("count", 1)
        words.append(f"{each['name']}: {count} of {exactly['deviceClassName']}")
    roots = [" and ".join(each["requests"]) for each in devices.get("constraints") or () if each.get("matchAttribute")]
    return _listed(*words, *(f"{each} below one PCIe root" for each in roots))


def _members_words(spec: Json) -> str:
    names = [each["selector"]["exactMatch"]["name"] for each in spec["members"]]
    return f"tier {spec['tier']}: {hosts_label(names)}"


def _pods_words(spec: Json) -> str:
    selector = spec["template"]["spec"].get("nodeSelector") or {}
    return "on nodes with " + ", ".join(f"{key}={value}" for key, value in sorted(selector.items()))


_WORDS: dict[str, t.Callable[[Json], str]] = {
    "NetworkAttachmentDefinition": _attachment_words,
    **dict.fromkeys(
        ("MacvlanNetwork", "IPoIBNetwork", "HostDeviceNetwork", "SriovNetwork", "SriovIBNetwork"), _operator_words
    ),
    "SpiderMultusConfig": _spider_words,
    "SpiderIPPool": lambda spec: _listed(spec["subnet"], ", ".join(spec.get("ips") or ())),
    "IPPool": lambda spec: _listed(spec["subnet"], f"{spec['perNodeBlockSize']} addresses a node"),
    "SriovNetworkNodePolicy": _policy_words,
    "DeviceClass": lambda spec: " and ".join(each["cel"]["expression"] for each in spec["selectors"]),
    "ResourceClaimTemplate": _claim_words,
    "HyperNode": _members_words,
    "DaemonSet": _pods_words,
}


# --- nodes and workloads ----------------------------------------------------------------------------------------------


def _label_rows(request: Request, site: Site, group: str) -> Rows:
    by_label: dict[str, list[str]] = {}
    for node in sorted(_nodes(site, group) & set(request["node_labels"])):
        for key, value in sorted(request["node_labels"][node].items()):
            by_label.setdefault(f"{key}={value}", []).append(node)
    return [(f"label {label}", f"on {hosts_label(names)}") for label, names in sorted(by_label.items())]


def _workload_rows(request: Request, site: Site, group: str) -> Rows:
    """Files of workloads that are of the group, by their names, and what their Pods are to have."""
    slugs = {group, group_value(group)} | {
        each["name"] for each in (site["plan"]["groups"].get(group) or {"classes": []})["classes"]
    }
    others = {each for name in site["groups"] for each in (name, group_value(name))} - slugs
    rows = []
    for name, items in sorted(request["workloads"].items()):
        fits = [each for each in {*slugs, *others} if name.startswith((f"{each}-", f"{each}."))]
        if fits and max(fits, key=len) not in slugs:
            continue
        kinds = ", ".join(dict.fromkeys(str(item["kind"]) for item in items))
        rows.append((f"workloads/{name}", kinds))
    return rows


# --- the page ---------------------------------------------------------------------------------------------------------


def _section(title: str, lines: t.Sequence[str]) -> list[str]:
    return ["", title, "-" * len(title), *lines]


def _notes(sort: str, sentences: t.Iterable[str]) -> list[str]:
    found: list[str] = []
    for each in sentences:
        found += ["", *textwrap.wrap(f"{sort}: {printable(each)}", WIDTH, subsequent_indent="  ")]
    return found


def plan_page(
    name: str,
    group: Group,
    systems: t.Sequence[str],
    asked: t.Mapping[str, t.Mapping[str, Part]],
    prepared: t.Sequence[t.Sequence[str]],
) -> str:
    """A text of at most 100 columns.

    systems: names of those that the inventory asks for, in the order in which they come. asked: by system and group, what is said of it.
    prepared: rows (hosts, what, details) of what preparing the nodes comes to.
    """
    hosts = sorted(group["hosts"])
    title = f"Plan of group {printable(name)}: {hosts_label(hosts)}"
    parts = {system: asked[system][name] for system in systems if name in (asked.get(system) or {})}
    of_group = [system for system in systems if system == "device_plugin" or system in parts]
    order = ["prepare the nodes", *of_group]
    lines = [title, "=" * len(title), *_folded("Nothing of this page is applied yet. Order: " + ", then ".join(order))]
    wrong = [system for system in of_group if system in parts and parts[system]["errors"]]
    if wrong:
        lines += _folded(f"Nothing is applied before the errors of {' and '.join(wrong)} below are gone.")
    lines += _section("prepare the nodes", table(("HOSTS", "WHAT", "DETAILS"), prepared) if prepared else ["nothing"])
    pods = ", ".join(str(each["resource"]) for each in group["resources"]) or group["resource"]
    serves = "functions (served by dra, below)" if "dra" in of_group else "device_plugin"
    stays = (
        []
        if serves != "device_plugin" or serves in of_group
        else ["It stays as it is: rdma_rollout.classes leaves the group to it."]
    )
    lines += _section(serves, [*stays, *_folded(f"Pods ask for {pods}"), "", *plan_table(group)])
    for system in of_group:
        if system != "device_plugin":
            part = parts[system]
            shown = table(("WHAT", "IS ASKED FOR"), part["rows"]) if part["rows"] else []
            notes = [*_notes("error", part["errors"]), *_notes("warning", part["warnings"])]
            lines += _section(system, [*shown, *(notes if shown else notes[1:])])
    return "\n".join(lines) + "\n"


def _folded(text: str) -> list[str]:
    return table(("",), [(text,)])[1:]
