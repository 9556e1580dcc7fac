# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control plane that the lab leaves running: it is stopped and continued, and others on the machine are kept out."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import GO_MODULES
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import cluster as lab_cluster
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.control_plane import (
    control_plane_runs,
    start_control_plane,
    stop_control_plane,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import free_ports
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import plan_nodes
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import STATE_FORMAT, LabDirectory, LabSpec
from ansible_collections.fabric.rdma.tests.cluster import cluster as control_plane

pytestmark = pytest.mark.cluster

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def ignore(_text: str = "") -> None:
    pass


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Path]:
    """Where one runs that has been stopped and continued once, with a ConfigMap of the time before."""
    place = tmp_path_factory.mktemp("lab") / "kubernetes"
    etcd, peer, server = free_ports(3)
    for round_ in ("first", "second"):
        programs, ports = control_plane.programs(), (etcd, peer, server)
        start_control_plane(str(place), programs, ports, ignore, ignore, patience=limit(120))
        kube = Kube(str(place / "kubeconfig"))
        kube.request("POST", CONFIG_MAPS, "make", body={"metadata": {"name": round_}})
        if round_ == "first":
            (place.parent / "before").write_text((place / "kubeconfig").read_text())
            stop_control_plane(str(place), keep=True, patience=limit(60))
            assert not control_plane_runs(str(place))
    yield place
    stop_control_plane(str(place), patience=limit(60))
    assert not place.exists()


def test_it_is_continued_with_what_it_had(directory: Path) -> None:
    kube = Kube(str(directory / "kubeconfig"))
    names = {item["metadata"]["name"] for item in kube.list(CONFIG_MAPS, "list")}
    # Pods ask for the last one, with which they know the API server
    assert {"first", "second", "kube-root-ca.crt"} <= names
    # who had a kubeconfig has one still
    assert (directory / "kubeconfig").read_text() == (directory.parent / "before").read_text()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_it_is_known_by_both_names(directory: Path, host: str) -> None:
    port = json.loads((directory / "settings.json").read_text())["ports"][2]
    context = ssl.create_default_context(cafile=str(directory / "certificates" / "apiserver.crt"))
    # what newer Pythons ask of a certificate by themselves
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with urllib.request.urlopen(f"https://{host}:{port}/version", context=context, timeout=limit(20)) as answer:
        assert json.load(answer)["gitVersion"] == GO_MODULES["k8s.io/kubernetes"]


def test_nobody_without_its_keys_comes_in(directory: Path) -> None:
    """Neither to the API server nor to what it keeps, nor where etcd speaks to others of its kind."""
    etcd, peer, server = json.loads((directory / "settings.json").read_text())["ports"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for url in (f"https://127.0.0.1:{etcd}/v3/cluster/member/list", f"https://127.0.0.1:{peer}/members"):
        with pytest.raises(
            OSError, match=r"certificate required|reset by peer|Broken pipe|closed connection|EOF occurred"
        ):
            urllib.request.urlopen(url, data=b"{}", context=context, timeout=limit(20))
    with pytest.raises(urllib.error.HTTPError, match="Forbidden"):
        urllib.request.urlopen(f"https://127.0.0.1:{server}/api/v1/secrets", context=context, timeout=limit(20))
    for path in ("kubeconfig", "tokens.csv", "sa.key", "settings.json"):
        assert (directory / path).stat().st_mode & 0o777 == 0o600
    assert directory.stat().st_mode & 0o777 == 0o700


def test_the_program_is_a_kubelet_too() -> None:
    program = Path(control_plane.kubernetes_programs(str(control_plane.cache_directory()), ignore, ignore)["kubelet"])
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    assert said.split() == ["Kubernetes", GO_MODULES["k8s.io/kubernetes"]]


def test_it_is_continued_on_other_ports_where_somebody_has_taken_its_own(tmp_path: Path) -> None:
    """As after a restart of the machine. Whoever finds it running learns where it listens, though the lab's state was lost."""
    place = LabDirectory(str(tmp_path))
    place.save({"format": STATE_FORMAT})
    wish = LabSpec(place.path, str(control_plane.cache_directory()), plan_nodes(1, 2048, 1), kubernetes=True)
    built = lab_cluster.Kubernetes(control_plane.programs(), "")

    def start() -> tuple[int, int, int]:
        return lab_cluster.start(place, wish, built, ignore, ignore)

    first = start()
    try:
        place.save({"format": STATE_FORMAT})
        assert start() == first
        assert place.state()["kubernetes"]["ports"] == list(first)
        lab_cluster.note_heartbeats(place, built)
        Kube(lab_cluster.kubeconfig_of(place)).request(
            "POST", CONFIG_MAPS, "make", body={"metadata": {"name": "first"}}
        )
        lab_cluster.stop(place, keep=True)
        with contextlib.ExitStack() as stack:
            for port in first:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            second = start()
        assert not set(first) & set(second)
        kube = Kube(lab_cluster.kubeconfig_of(place))
        assert "first" in {item["metadata"]["name"] for item in kube.list(CONFIG_MAPS, "list")}
        assert [item["metadata"]["name"] for item in kube.list("/api/v1/nodes", "list")] == ["lab1"]
    finally:
        lab_cluster.stop(place)


def test_it_is_started_on_other_ports_where_somebody_takes_one_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks finds all of them free at first, then that of the API server still: etcd says that it is not so, then the other one does."""
    place = LabDirectory(str(tmp_path))
    etcd, peer, server = free_ports(3)
    place.save({"format": STATE_FORMAT, "kubernetes": {"ports": [etcd, peer, server]}})
    wish = LabSpec(place.path, str(control_plane.cache_directory()), plan_nodes(1, 2048, 1), kubernetes=True)
    lies, told = [{etcd, server}, {server}], list[str]()
    choose, is_free = lab_cluster._choose_ports, lab_cluster.port_is_free

    def choose_blindly(kept: t.Sequence[int], nodes_run: bool) -> tuple[int, int, int]:
        lie = lies.pop(0) if lies else set[int]()
        monkeypatch.setattr(lab_cluster, "port_is_free", lambda port: port in lie or is_free(port))
        return choose(kept, nodes_run)

    monkeypatch.setattr(lab_cluster, "_choose_ports", choose_blindly)
    with contextlib.ExitStack() as stack:
        for port in (etcd, server):
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        try:
            built = lab_cluster.Kubernetes(control_plane.programs(), "")
            ports = lab_cluster.start(place, wish, built, told.append, ignore)
            assert told.count("control plane: another program has taken one of its ports") == 2
            assert not {etcd, server} & set(ports)
            assert ports[1] == peer
            kube = Kube(lab_cluster.kubeconfig_of(place))
            assert [item["metadata"]["name"] for item in kube.list("/api/v1/nodes", "list")] == ["lab1"]
        finally:
            lab_cluster.stop(place)
