# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics: the format, names and units, and that the number of series does not grow with pairs."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ansible_collections.fabric.rdma.plugins.plugin_utils._report.document import document_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.metrics import render_metrics
from ansible_collections.fabric.rdma.plugins.plugin_utils._report.model import build
from ansible_collections.fabric.rdma.tests.unit.contracts import a_test, evidence_of
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.clusters import a_cluster, a_history
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.exposition import read_metrics, value_of
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._report.samples import model_of, saved

# Megabytes of the metrics of 1,000 nodes with eight ports each, of which a few are ill.
MOST_OF_1000 = 7.0


def metrics_of(sample: dict[str, Any], **more: Any) -> str:
    return render_metrics(document_of(model_of(sample, **more)))


def test_verdicts_bandwidth_and_links_are_in_base_units(sample: dict[str, Any]) -> None:
    found = read_metrics(metrics_of(sample))
    assert value_of(found, "group_verdict", group="ib-a100", verdict="ready") == 1
    assert value_of(found, "group_verdict", group="ib-a100", verdict="problem") == 0
    assert value_of(found, "group_nodes_usable", group="ib-a100") == 3
    # 194.0 Gb/s, of which 180 have to be
    own = {"group": "ib-a100", "test": "ib_write_bw", "level": "hosts", "node": "ib-a100-1"}
    assert value_of(found, "node_bandwidth_bytes_per_second", **own) == 194.0e9 / 8
    assert value_of(found, "node_limit_bandwidth_bytes_per_second", **own) == 180e9 / 8
    port = {"node": "ib-a100-1", "device": "mlx5_1"}
    assert value_of(found, "port_active", **port) == 1
    assert value_of(found, "port_rate_bytes_per_second", **port) == 200e9 / 8
    # mlx5_0 is Down: its rate says nothing
    assert not [
        key
        for key in found
        if key[0].endswith("port_rate_bytes_per_second")
        and ("device", "mlx5_0") in key[1]
        and ("node", "ib-a100-1") in key[1]
    ]


def test_measurements_of_an_earlier_run_are_told_from_those_of_this_one(sample: dict[str, Any]) -> None:
    group = {"group": "ib-a100"}
    assert value_of(read_metrics(metrics_of(sample)), "group_measured_earlier", **group) == 0
    document, sample["evidence"] = sample["evidence"][0], []
    found = read_metrics(metrics_of(sample, earlier=[saved(document)]))
    assert value_of(found, "group_measured_earlier", **group) == 1
    assert value_of(found, "node_bandwidth_bytes_per_second", **group, node="ib-a100-1") > 0


def test_latency_is_in_seconds_and_the_worst_counts(sample: dict[str, Any]) -> None:
    hosts = sample["groups"]["ib-a100"]
    figures = dict.fromkeys(("min", "max", "average", "stdev", "p99", "p999"), 3.0)
    tests = [
        a_test(
            hosts[0],
            hosts[at],
            None,
            test="ib_write_lat",
            latency_us={**figures, "typical": value},
            floor={"max_us": 5},
        )
        for at, value in ((1, 2.5), (2, 4.0))
    ]
    sample["evidence"] = [evidence_of("ib-a100", *tests)]
    found = read_metrics(metrics_of(sample))
    assert value_of(found, "node_latency_seconds", node=hosts[0]) == pytest.approx(4e-6)
    assert value_of(found, "node_latency_seconds", node=hosts[1]) == pytest.approx(2.5e-6)
    assert value_of(found, "group_median_latency_seconds", group="ib-a100") == pytest.approx(3.25e-6)


def test_errors_of_links_are_counters_and_findings_are_counted() -> None:
    model, document = a_history(a_cluster(28))
    found = read_metrics(render_metrics(document))
    assert value_of(found, "port_errors_total", node="gpu-node-08", device="mlx5_3", error="symbol_error") == 21
    assert value_of(found, "port_pcie_bandwidth_ratio", node="gpu-node-10", device="mlx5_2") == 0.5
    own = {"group": "gpu-roce", "check": "links"}
    assert [value_of(found, "checks", **own, verdict=one) for one in ("pass", "fail", "note")] == [27, 1, 0]
    errors = [each for each in model["all_findings"] if each["severity"] == "error"]
    assert value_of(found, "findings", group="gpu-roce", severity="error") == len(errors) > 0
    assert value_of(found, "findings", group="", severity="error") == 0
    assert value_of(found, "changes", direction="worse") == document["history"]["worse"] > 0


def test_jobs_over_several_nodes_are_in_base_units_under_a_label_of_their_own() -> None:
    found = read_metrics(render_metrics(document_of(build(**a_cluster(12)))))
    own = {"group": "gpu-roce", "mpijob": "nccl-tcp", "way": "tcp"}
    assert value_of(found, "collective_passed", **own) == 0
    assert value_of(found, "collective_bandwidth_bytes_per_second", **own, figure="best") == pytest.approx(9.8e9)


def test_zeros_of_ports_are_told_by_their_node() -> None:
    """A counter begins at 0 for an alert, and 128,000 of them at 0 say what 16,000 do."""
    found = read_metrics(render_metrics(document_of(build(**a_cluster(28)))))
    ports = [value for (name, _labels), value in found.items() if name == "fabric_rdma_port_errors_total"]
    assert ports
    assert 0 not in ports
    own = {"node": "gpu-node-08", "error": "symbol_error"}
    assert value_of(found, "node_errors_total", **own) == 21
    assert value_of(found, "node_errors_total", **{**own, "node": "gpu-node-09"}) == 0
    # eight ports, each of which has come up once
    assert value_of(found, "node_errors_total", node="gpu-node-09", error="carrier_downs") == 8
    # what no port of a node shows is not 0
    named = {dict(labels).get("error") for (name, labels) in found if name == "fabric_rdma_node_errors_total"}
    assert "symbol_error" in named
    assert "retry_exceeded_err" not in named


def test_a_thousand_nodes_are_few_megabytes() -> None:
    text = render_metrics(document_of(build(**a_cluster(1000))))
    assert len(text.encode()) < MOST_OF_1000 * 1e6
    assert text.count("fabric_rdma_port_active{") == 8000


def test_the_reader_of_prometheus_reads_the_same(sample: dict[str, Any]) -> None:
    """Its own client, of a text with counters, measurements, and a label with all that is escaped."""
    sample["facts"]["ib-a100-1"]["devices"][0]["name"] = 'x"} 1\n# HELP y\\'
    for text in (metrics_of(sample), render_metrics(a_history(a_cluster(12))[1])):
        theirs = {
            (one.name, frozenset(one.labels.items())): one.value
            for family in text_string_to_metric_families(text)
            for one in family.samples
        }
        assert theirs == read_metrics(text)
        assert len(theirs) > 50


def test_the_number_of_series_does_not_grow_with_pairs() -> None:
    few, many = a_cluster(12), a_cluster(12)
    few["evidence"][0]["tests"] = few["evidence"][0]["tests"][:40]
    numbers = [len(read_metrics(render_metrics(document_of(build(**parts))))) for parts in (few, many)]
    assert len(many["evidence"][0]["tests"]) > 130
    assert numbers[1] - numbers[0] < 40


def test_hostile_labels_stay_one_label(sample: dict[str, Any]) -> None:
    hostile = 'x"} 1\n# HELP y\\'
    sample["groups"] = {hostile: sample["groups"]["ib-a100"], "ib-a100": []}
    sample["facts"]["ib-a100-1"]["devices"][0]["name"] = hostile
    found = read_metrics(metrics_of(sample))
    assert value_of(found, "group_nodes", group='x"} 1 # HELP y\\') == 3


def test_there_is_no_time_in_it_and_the_same_input_gives_the_same_bytes(sample: dict[str, Any]) -> None:
    text = metrics_of(sample)
    assert text == metrics_of(sample, generated="2026-01-02 03:04:05")
    sample["groups"]["ib-a100"].reverse()
    sample["facts"] = dict(reversed(sample["facts"].items()))
    assert text == metrics_of(sample)


def test_a_run_without_anything_has_metrics_too() -> None:
    found = read_metrics(render_metrics(document_of(build({}, {}, [], {}))))
    assert value_of(found, "info", version="unknown") == 1
