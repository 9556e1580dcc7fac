# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written for whoever applies by hand: all of a request, and secrets for nobody else."""

from __future__ import annotations

import shlex
import typing as t

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Chart, empty_request
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.files import charts_for_helm, files_of, given_values
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._systems.captured import a_site

OURS = "# app.kubernetes.io/managed-by: fabric.rdma"
SITE = a_site({"ib-v100": ({}, ["ib-v100-1"])})


def a_chart(**more: t.Any) -> Chart:
    chart = {
        "release": "storage",
        "namespace": "storage-system",
        "chart": "oci://registry.example.com/charts/storage",
        "repository": None,
        "version": "1.2.3",
        "values": {"password": "secret"},
        "privileged": True,
        **more,
    }
    return t.cast("Chart", chart)


def test_an_empty_request_writes_no_file() -> None:
    assert files_of(empty_request("x")) == {}


def test_everything_is_written_and_says_that_it_is_ours() -> None:
    object_ = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "{{ 7 * 7 }}\n--- \n"}}
    request = empty_request("x")
    request.update(
        objects=[object_, object_],
        charts=[a_chart()],
        workloads={"pod.yaml": [object_]},
        images=["b:1", "a:1"],
        node_labels={"n1": {"disk": "true"}},
    )
    files = files_of(request)
    assert sorted(files) == ["images.txt", "labels.sh", "objects.yaml", "storage-values.yaml", "workloads/pod.yaml"]
    assert all(OURS in file["text"].splitlines()[:2] for file in files.values())
    assert list(yaml.safe_load_all(files["objects.yaml"]["text"])) == [object_, object_]
    assert list(yaml.safe_load_all(files["workloads/pod.yaml"]["text"])) == [object_]
    assert yaml.safe_load(files["storage-values.yaml"]["text"]) == {"password": "secret"}
    assert {name for name, file in files.items() if file["mode"] == "0600"} == {"storage-values.yaml"}


def test_no_word_of_a_label_means_anything_to_a_shell() -> None:
    request = empty_request("x")
    request["node_labels"] = {"$(reboot)": {"a": "b; reboot"}}
    last = files_of(request)["labels.sh"]["text"].splitlines()[-1]
    assert shlex.split(last) == ["kubectl", "label", "node", "$(reboot)", "a=b; reboot", "--overwrite"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b.yaml", "..", "x y\n"])
def test_no_workload_is_written_elsewhere(name: str) -> None:
    request = empty_request("x")
    request["workloads"] = {name: []}
    (path,) = list(files_of(request))
    assert path.startswith("workloads/")
    assert set(path.removeprefix("workloads/")) <= set("abcdefghijklmnopqrstuvwxyz._")
    assert not path.removeprefix("workloads/").startswith(".")


class Tagged(str):
    """As ansible-core hands over texts of an inventory."""

    __slots__ = ()


def test_texts_of_an_inventory_are_written() -> None:
    request = empty_request("x")
    request.update(charts=[a_chart(values={Tagged("a"): [Tagged("b"), {"c": Tagged("d")}]})])
    request["objects"] = [{"kind": Tagged("ConfigMap"), "data": {"x": Tagged("y")}}]
    files = files_of(request)
    assert yaml.safe_load(files["storage-values.yaml"]["text"]) == {"a": ["b", {"c": "d"}]}
    assert yaml.safe_load(files["objects.yaml"]["text"]) == {"kind": "ConfigMap", "data": {"x": "y"}}


def test_a_chart_comes_from_a_directory_where_there_is_one() -> None:
    (told,) = charts_for_helm([a_chart()], {**SITE, "charts": "/srv/charts/"})
    assert (told["chart"], told["repository"]) == ("/srv/charts/storage-1.2.3.tgz", None)
    (told,) = charts_for_helm([a_chart()], SITE)
    assert told["chart"] == "oci://registry.example.com/charts/storage"
    assert told["release_key"] == "storage-system/storage"


@pytest.mark.parametrize(
    ("chart", "labelled"),
    [
        (a_chart(), True),
        (a_chart(privileged=False), False),
        # which has its own, and other Pods
        (a_chart(namespace="kube-system"), False),
    ],
)
def test_only_a_namespace_of_its_own_is_opened_for_privileged_pods(chart: Chart, labelled: bool) -> None:
    (told,) = charts_for_helm([chart], SITE)
    labels = told["namespace_object"].get("metadata", {}).get("labels", {})
    assert bool(labels) is labelled
    assert set(labels.values()) <= {"privileged"}


def test_what_users_gave_is_secret_and_what_was_made_is_not() -> None:
    """A message that repeats values stays readable."""
    wish = {"version": "1.2.3", "values": {"password": "given"}, "toolkit": {"env": {"TOKEN": "given, too"}}}
    (chart,) = charts_for_helm([a_chart(values={"password": "given", "path": "/made"})], SITE, wish)
    assert chart["secrets"] == {"given": [{"password": "given"}, {"TOKEN": "given, too"}]}
    site = {**SITE, "wishes": {"g": {"rdma_compute_domain": {"values": {"x": "of a group"}}}}}
    (chart,) = charts_for_helm([a_chart()], t.cast("t.Any", site), {})
    assert chart["secrets"] == {"given": [{"x": "of a group"}]}
    assert list(given_values({"values": {}, "rows": [{"env": {"a": 1}}]})) == [{}, {"a": 1}]


def test_the_address_of_a_chart_is_written_without_its_password() -> None:
    request = empty_request("x")
    request["charts"] = [a_chart(chart="https://user:word@charts.example.com/storage.tgz")]
    assert "https://charts.example.com/storage.tgz" in files_of(request)["storage-values.yaml"]["text"]
