# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small reports to test with: facts, a plan, measurements; and a parser of pages."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.summary import render_summary
from ansible_collections.fabric.rdma.tests.unit.contracts import a_class, a_config, a_group, a_plan, a_test

CAPTURES = Path(__file__).resolve().parents[4] / "captures"
VOID = {"meta", "br", "hr", "img", "input", "link"}
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def facts_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CAPTURES / f"{name}.expected.json").read_text(encoding="utf-8"))
    return found


def wanted(device: str, pci: str, rate: float, if_name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    port = {"device": device, "port": 1, "rate_gbps": rate, "link_layer": "InfiniBand", "netdev": if_name, "pci": pci}
    return port, {"device": device, "pci": pci, "if_name": if_name, "ports": [1]}


def left_out(host: str, device: str, netdev: str, reason: str) -> dict[str, Any]:
    return {"host": host, "device": device, "port": 1, "netdev": netdev, "reason": reason}


def a100_plan(first: list[str], second: list[str]) -> dict[str, Any]:
    """Hosts of the first kind have the cable in mlx5_1, those of the second in mlx5_0."""
    plan = a_group(resource="rdma/rdma_a100", hosts=sorted(first + second))
    down = "port is Down (phys state Disabled), the group wants Active"
    kinds = (
        (first, ("mlx5_1", "0000:a1:00.0", 200.0, "ibp161s0"), ("mlx5_0", "ibp33s0")),
        (second, ("mlx5_0", "0000:21:00.0", 200.0, "ibp33s0"), ("mlx5_1", "ibp161s0")),
    )
    for hosts, picked, other in kinds:
        port, match = wanted(*picked)
        plan["classes"].append(
            a_class(
                f"ib-a100-{picked[3]}",
                *hosts,
                selectors={"ifNames": [picked[3]]},
                config=a_config("rdma_a100", ifNames=[picked[3]]),
                matches={host: [match] for host in hosts},
            )
        )
        for host in hosts:
            plan["wanted"][host] = [port]
            plan["environment"][host] = {"NCCL_IB_HCA": f"={picked[0]}:1"}
            plan["exclusions"].append(left_out(host, *other, down))
            plan["exclusions"].append(left_out(host, "mlx5_bond_0", "bond0", "Ethernet bond bond0 (active-backup)"))
    return a_plan(**{"ib-a100": plan})


def measurement(client: str, server: str, gbps: float | None, verdict: str = "pass") -> dict[str, Any]:
    message = "" if verdict == "pass" else "Port number 1 state is Down"
    return a_test(client, server, gbps, verdict=verdict, message=message)


def untested(*hosts: str, defect: bool) -> list[dict[str, Any]]:
    reason = "the port has no RoCE v2 GID" if defect else "no other host has a port in its fabric"
    return [{"host": host, "device": "mlx5_1", "port": 1, "reason": reason, "defect": defect} for host in hosts]


def saved(document: Any, name: str = "ib-a100.json", mtime: Any = 1700000000.0) -> list[Any]:
    text = document if isinstance(document, str) else json.dumps(document)
    return [{"path": f"/output/evidence/{name}", "mtime": mtime}, text]


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails when a tag is not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data + " "

    def words(self) -> str:
        return " ".join(self.text.split())


def model_of(sample: dict[str, Any], **more: Any) -> dict[str, Any]:
    return build(sample["facts"], sample["plan"], sample["evidence"], sample["groups"], **more)


def page_of(sample: dict[str, Any], **more: str) -> str:
    return render_html(model_of(sample, **more))


def summary_of(sample: dict[str, Any]) -> str:
    return render_summary(model_of(sample))


def group_of(sample: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = model_of(sample)["groups"][0]
    return found
