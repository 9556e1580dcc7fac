# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric on the page: leaves with the nodes that are plugged in there, and ports that seem to be in the wrong one.
Private to the collection. Pure."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.order import natural_key
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.words import (
    Json,
    as_list,
    as_maps,
    clean,
    hosts_in_words,
    plural,
)

__all__ = ["fabric_view", "places_of"]

_MAX_LEAVES = 128
_MAX_CHIPS = 40
_MAX_STRAYS = 16
_MAX_UPLINKS = 8
# Ports of a rail that are fewer than this part of those of a leaf are in the minority there.
_MINORITY = 0.25


def places_of(fabric: Json) -> dict[tuple[str, str, str], str]:
    """The name of the leaf of each port, by host, device and port."""
    names = _names(fabric)
    return {
        _port(place): names.get(str(place.get("leaf")), clean(place.get("leaf"), 80))
        for place in as_maps(fabric.get("places"))
    }


def _port(place: Json) -> tuple[str, str, str]:
    return str(place.get("host")), str(place.get("device")), str(place.get("port"))


def _names(fabric: Json) -> dict[str, str]:
    return {
        str(each.get("id")): clean(each.get("name") or each.get("id"), 80) for each in as_maps(fabric.get("switches"))
    }


def fabric_view(fabric: Json, when: str) -> Json | None:
    """Leaves in the order of their names; None where nobody has looked. when: the time of the file that it is from."""
    places, unplaced = as_maps(fabric.get("places")), as_maps(fabric.get("unplaced"))
    if not places and not unplaced:
        return None
    names = _names(fabric)
    of_leaf: dict[str, list[Json]] = {}
    for place in places:
        of_leaf.setdefault(str(place.get("leaf")), []).append(place)
    suspects = {
        str(host)
        for finding in as_maps(fabric.get("findings"))
        if finding.get("severity") != "note"
        for host in as_list(finding.get("hosts"))
    }
    up = _uplinks(fabric, names)
    order = sorted(of_leaf, key=lambda leaf: (natural_key(names.get(leaf) or leaf), leaf))
    leaves = [_leaf(names.get(leaf, leaf), of_leaf[leaf], suspects, up.get(leaf, [])) for leaf in order]
    reasons: dict[str, list[str]] = {}
    for each in unplaced:
        reasons.setdefault(clean(each.get("reason")), []).append(str(each.get("host")))
    return {
        "when": when,
        "told": ", ".join(
            clean(f"{each.get('program')} on {each.get('host')}", 120) for each in as_maps(fabric.get("sources"))[:4]
        ),
        "summary": f"{plural(len(places), 'port')} on {plural(len(leaves), 'leaf').replace('leafs', 'leaves')}"
        if places
        else "No port of a node is on the map",
        "leaves": leaves[:_MAX_LEAVES],
        "more": [{"name": leaf["name"], "meta": leaf["meta"], "hosts": leaf["hosts"]} for leaf in leaves[_MAX_LEAVES:]],
        "strays": sum(leaf["stray_count"] for leaf in leaves),
        "unplaced": [
            {"why": why, "hosts": hosts_in_words(set(hosts)), "count": len(hosts)}
            for why, hosts in sorted(reasons.items())
        ][:_MAX_STRAYS],
        "warnings": [clean(text) for text in as_list(fabric.get("warnings"))[:_MAX_STRAYS]],
    }


def _uplinks(fabric: Json, names: t.Mapping[str, str]) -> dict[str, list[str]]:
    up: dict[str, list[str]] = {}
    for trunk in as_maps(fabric.get("trunks")):
        for one, other in (("a", "b"), ("b", "a")):
            words = f"{names.get(str(trunk.get(other)), str(trunk.get(other)))} ({trunk.get('count')} cables)"
            up.setdefault(str(trunk.get(one)), []).append(clean(words, 100))
    return {leaf: sorted(each, key=natural_key) for leaf, each in up.items()}


def _leaf(name: str, places: list[Json], suspects: t.Collection[str], uplinks: list[str]) -> Json:
    rails = collections.Counter(str(place.get("rail")) for place in places)
    few = {rail for rail, count in rails.items() if count < _MINORITY * len(places)}
    strays = [place for place in places if str(place.get("rail")) in few and str(place.get("host")) in suspects]
    hosts = sorted({str(place.get("host")) for place in places}, key=natural_key)
    main = sorted((rail for rail in rails if rail not in few), key=natural_key)
    words = [plural(len(places), "port"), plural(len(hosts), "node")]
    if main:
        words.append(f"{'rail' if len(main) == 1 else 'rails'} {', '.join(main[:8])}{', …' if main[8:] else ''}")
    bad = {str(place.get("host")) for place in strays}
    return {
        "name": clean(name, 80),
        "meta": clean(", ".join(words), 160),
        "chips": [{"host": clean(host, 60), "bad": host in bad} for host in hosts] if len(hosts) <= _MAX_CHIPS else [],
        "hosts": hosts_in_words(hosts),
        "strays": [
            clean(
                f"{place.get('host')} {place.get('device')} port {place.get('port')}, rail {place.get('rail')}, at port {place.get('leaf_port')}"
            )
            for place in sorted(strays, key=lambda place: natural_key(str(place.get("host"))))[:_MAX_STRAYS]
        ],
        "stray_count": len(strays),
        "uplinks": ", ".join(uplinks[:_MAX_UPLINKS]) + (", …" if uplinks[_MAX_UPLINKS:] else ""),
    }
