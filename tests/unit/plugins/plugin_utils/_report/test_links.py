# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Health of links, the map of the fabric, and versions."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.page import render_html
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.clusters import a_cluster
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import JUNK, Page, model_of
from ansible_collections.fabric.rdma.tests.unit.schemas import checked


def test_links_that_are_ill_are_named_with_leaf_and_cable_worst_first() -> None:
    model = build(**a_cluster(30))
    links = model["groups"][0]["links"]
    assert links["summary"].startswith("240 ports: ")
    assert "1 with less PCIe bandwidth than the card can have" in links["summary"]
    first = links["rows"][0]
    assert (first["host"], first["port"]) == ("gpu-node-11", "mlx5_2 port 1")
    assert first["pcie"] == "x8 at 32 GT/s, 50 % of what the card can"
    assert first["where"].startswith("leaf-1-rail2, Mellanox MCP1600-C003 MT")
    assert "symbol_error 21" in next(
        row["errors"] for row in links["rows"] if row["host"] == "gpu-node-08" and "mlx5_3" in row["port"]
    )


def test_errors_that_only_the_driver_of_an_ethernet_card_tells_count_too() -> None:
    """Symbols on the wire of RoCE. Pauses do not."""
    parts = a_cluster(3, ill=False)
    host = parts["groups"]["gpu-roce"][0]
    netdev = parts["facts"][host]["health"]["netdevs"][0]
    netdev["counters"] = {**netdev["counters"], "rx_symbol_err_phy": 9, "rx_prio3_pause": 5}
    model = build(**parts)
    [port] = [each for each in model["groups"][0]["members"][host]["ports"] if each["device"] == netdev["device"]]
    assert port["errors"]["rx_symbol_err_phy"] == 9
    assert "rx_prio3_pause" not in port["errors"]
    [row] = [each for each in model["groups"][0]["links"]["rows"] if each["host"] == host]
    assert "rx_symbol_err_phy 9" in row["errors"]


def test_what_pods_get_and_reach_and_links_under_load_are_shown_and_failures_are_findings() -> None:
    parts = a_cluster(12)
    checked("evidence", parts["evidence"][0])
    model = build(**parts)
    rows = [(row["what"], row["state"], row["text"], row["hosts"]["count"]) for row in model["groups"][0]["checks"]]
    given = "as user 1000; locked memory {}; IPC_LOCK; /dev/infiniband: rdma_cm, uverbs0"
    low = "as user 1000; locked memory 64 KiB; /dev/infiniband: rdma_cm, uverbs0; it may lock only so much memory: soft 64 KiB and hard 64 KiB"
    assert rows == [
        (
            "all_reduce_perf over tcp",
            "bad",
            "96 GPUs; best 9.8 GB/s; mean 4 GB/s; limit 340 GB/s; NET/Socket; 9.8 GB/s is below 340 GB/s",
            0,
        ),
        ("links while traffic moved", "bad", "rx_crc_errors grew", 1),
        ("what a Pod gets", "bad", low, 1),
        ("all_reduce_perf over rdma", "ok", "96 GPUs; best 362 GB/s; mean 102 GB/s; limit 340 GB/s; NET/IB/GDRDMA", 0),
        ("links while traffic moved", "ok", "nothing that must not grow grew", 11),
        ("ping over default/fabric", "ok", "11 pairs of 11 reach each other, 120 µs there and back", 12),
        ("what a Pod gets", "ok", given.format("unlimited"), 11),
    ]
    found = {each["id"]: each for each in model["findings"]}
    assert found["verify-inspections"]["names"] == ["gpu-node-12"]
    assert found["verify-inspections"]["remedy"].startswith("lift the limit of containerd")
    assert found["verify-links"]["evidence"] == ["gpu-node-01, mlx5_0 port 1, rx_crc_errors +420"]
    # a title is read without what stands around it: in a ticket, and in a comparison
    assert found["verify-links"]["cause"].startswith("gpu-node-01 mlx5_0 port 1: rx_crc_errors grew by 420 (21 per")
    assert found["verify-inspections"]["cause"].startswith("a Pod on gpu-node-12 may lock only so much memory: soft 64")
    assert found["outlier-port"]["cause"].startswith("gpu-node-05 mlx5_2 port 1: ib_write_bw: 264 Gb/s at best")
    job = found["verify-collectives"]
    assert job["cause"] == "nccl-tests (nccl-tcp): 9.8 GB/s is below 340 GB/s"
    assert (job["evidence"], job["remedy"]) == (["nccl-tests, nccl-tcp"], "let NCCL use RDMA")
    assert "What Pods get and reach" in Page(render_html(model)).words()


def test_a_link_that_did_not_pass_and_has_no_counter_that_grew_says_why() -> None:
    """One that is gone, one whose counters began again, one that shows none."""
    parts = a_cluster(12)
    links = parts["evidence"][0]["links"]
    said = {
        0: ("fail", "it was there before the traffic, and no longer is"),
        1: ("note", "it shows no counter of errors"),
    }
    for number, (verdict, message) in said.items():
        links[number].update(verdict=verdict, grown=[], message=message)
    rows = {
        (row["state"], row["text"]): row["hosts"]["names"]
        for row in build(**parts)["groups"][0]["checks"]
        if row["what"] == "links while traffic moved"
    }
    assert rows["bad", said[0][1]] == [links[0]["host"]]
    assert rows["warn", said[1][1]] == [links[1]["host"]]
    assert len(rows["ok", "nothing that must not grow grew"]) == 10


def test_checks_of_one_kind_are_one_finding_and_one_row_however_many_hosts_they_are_of() -> None:
    parts = a_cluster(12)
    evidence = parts["evidence"][0]
    low = next(each for each in evidence["inspections"] if each["verdict"] == "fail")
    for each in evidence["inspections"]:
        each.update(
            {key: low[key] for key in ("memlock", "verdict", "ipc_lock")},
            message=low["message"].replace("gpu-node-12", each["host"]),
            remedy=low["remedy"],
        )
    model = build(**parts)
    [found] = [each for each in model["findings"] if each["id"] == "verify-inspections"]
    assert len(found["names"]) == 12
    assert found["cause"].startswith("a Pod on gpu-node-01 may lock only")
    assert found["cause"].endswith("(and 11 more Pods)")
    group = model["groups"][0]
    assert [row["hosts"]["count"] for row in group["checks"] if row["what"] == "what a Pod gets"] == [12]
    assert group["checked"]["inspections"] == {"pass": 0, "note": 0, "fail": 12, "error": 0}
    # rows that have no place are counted
    for number, each in enumerate(evidence["inspections"]):
        each.update(message=f"reason {chr(97 + number)}")
        evidence["links"][number].update(verdict="fail", grown=[{"counter": chr(97 + number), "verdict": "fail"}])
    model = build(**parts)
    assert (len(model["groups"][0]["checks"]), model["groups"][0]["more_checks"]) == (16, 11)
    assert "and 11 more, in the evidence" in Page(render_html(model)).words()


def test_what_the_facts_say_of_cards_and_links_is_found_without_another_playbook() -> None:
    parts = a_cluster(6)
    parts["files"] = []
    found = {each["id"]: each["names"] for each in build(**parts)["findings"]}
    assert [hosts for rule, hosts in found.items() if rule.startswith("pcie-")] == [["gpu-node-3"]]
    # facts of another form are not an error, and nothing is found in them
    parts["facts"]["gpu-node-3"]["devices"][0]["kind"] = 3
    assert not [each for each in build(**parts)["findings"] if each["id"].startswith("pcie-")]


def test_a_node_that_tells_nothing_of_its_links_has_no_table_of_them(sample: dict[str, Any]) -> None:
    for facts in sample["facts"].values():
        facts.pop("health", None)
        for device in facts["devices"]:
            device.pop("pcie", None)
    assert model_of(sample)["groups"][0]["links"] is None


@given(JUNK)
def test_junk_in_the_health_of_a_node_or_in_the_map_is_no_error(junk: Any) -> None:
    parts = a_cluster(2)
    host = parts["groups"]["gpu-roce"][0]
    for health in (junk, {"ports": junk, "netdevs": junk, "temperatures": junk}):
        parts["facts"][host]["health"] = health
        parts["facts"][host]["devices"][0]["pcie"] = junk
        fabric = {
            "places": [junk, {"host": junk, "leaf": junk, "rail": junk}],
            "switches": junk,
            "trunks": [junk],
            "findings": junk,
        }
        parts["files"] = [[{"path": "/out/fabric.json", "mtime": 0}, json.dumps(fabric, default=str)]]
        Page(render_html(build(**parts)))


def test_nodes_are_shown_by_leaf_and_a_port_on_the_leaf_of_another_rail_is_named() -> None:
    model = build(**a_cluster(40))
    fabric = model["fabric"]
    assert fabric["summary"] == "320 ports on 16 leaves"
    assert [leaf["name"] for leaf in fabric["leaves"]][:2] == ["leaf-1-rail0", "leaf-1-rail1"]
    first = fabric["leaves"][0]
    assert first["meta"] == "32 ports, 32 nodes, rail 0"
    assert first["strays"] == ["gpu-node-05 mlx5_1 port 1, rail 1, at port swp5"]
    assert [chip["host"] for chip in first["chips"] if chip["bad"]] == ["gpu-node-05"]
    words = Page(render_html(model)).words()
    assert "2 ports are on a leaf of another rail" in words
    assert "leaf-2-rail7 8 ports, 8 nodes, rail 7" in words


def test_a_map_without_a_place_says_why() -> None:
    """lldpd runs nowhere: nobody has found the cables to be right."""
    parts = a_cluster(3)
    rows = [
        {"host": host, "group": "gpu-roce", "device": "mlx5_0", "port": 1, "reason": "install and start lldpd"}
        for host in parts["groups"]["gpu-roce"]
    ]
    fabric = {"places": [], "switches": [], "trunks": [], "findings": [], "unplaced": rows, "warnings": ["no lldpctl"]}
    parts["files"] = [[{"path": "/out/fabric.json", "mtime": 0}, json.dumps(fabric)]]
    words = Page(render_html(build(**parts))).words()
    assert "Fabric No port of a node is on the map." in words
    assert "3 ports: install and start lldpd" in words
    assert "no lldpctl" in words
    # nobody has looked
    parts["files"] = []
    assert build(**parts)["fabric"] is None


def test_versions_that_differ_are_marked_with_their_nodes() -> None:
    model = build(**a_cluster(60))
    rows = {row["what"]: row for row in model["groups"][0]["versions"]}
    assert not rows["kernel"]["differs"]
    firmware = rows["firmware of ConnectX-5"]
    assert firmware["differs"]
    assert [(each["text"], each["hosts"]["count"]) for each in firmware["versions"]] == [
        ("16.35.4030", 58),
        ("28.39.1002", 2),
    ]
    assert firmware["versions"][1]["hosts"]["names"] == ["gpu-node-02", "gpu-node-52"]
