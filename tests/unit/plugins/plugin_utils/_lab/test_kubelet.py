# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a node a node of a cluster. (That it joins is molecule's to prove.)"""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import subprocess
from pathlib import Path

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.kubelet import (
    DISK_PATH,
    IMPORT_SCRIPT,
    kubeconfig,
    kubelet_files,
    kubelet_user,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import FABRIC_NETWORK, plan_nodes
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.recipe import FILES
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import NODES


def test_a_secret_is_in_one_file_of_the_kubelet() -> None:
    files = kubelet_files(NODES[1], "SERVER\n", "CLIENT\n", "secret")
    assert [name for name, (_mode, text) in files.items() if "secret" in text] == ["etc/kubernetes/kubelet.conf"]
    assert files["etc/kubernetes/kubelet.conf"][0] == 0o600
    config = json.loads(files["etc/kubernetes/kubelet.conf"][1])
    assert config["users"] == [{"name": "system:node:lab2", "user": {"token": "secret"}}]
    assert kubelet_user(NODES[1]) == ("system:node:lab2", "system:nodes")
    unit = files["etc/systemd/system/kubelet.service"][1]
    assert "--hostname-override=lab2 --node-ip=198.51.100.2\n" in unit


def test_a_kubeconfig_trusts_the_server_by_its_certificate() -> None:
    config = kubeconfig("https://127.0.0.1:6443", "PEM", "admin", "secret")
    (cluster,), (user,), (context,) = config["clusters"], config["users"], config["contexts"]
    assert cluster["cluster"]["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == b"PEM"
    assert "tls-server-name" not in cluster["cluster"]
    assert user["user"] == {"token": "secret"}
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"]}
    assert config["current-context"] == context["name"]
    named = kubeconfig("https://192.0.2.1:6443", "PEM", "admin", "secret", "localhost")
    assert named["clusters"][0]["cluster"]["tls-server-name"] == "localhost"


def test_every_node_has_a_network_of_its_own() -> None:
    """Which is not one of those between the nodes."""
    nodes = plan_nodes(32, 1024, 1)
    subnets = set()
    for node in nodes:
        text = kubelet_files(node, "", "", "")["etc/cni/net.d/10-lab.conflist"][1]
        ((ranges,),) = json.loads(text)["plugins"][0]["ipam"]["ranges"]
        subnets.add(ipaddress.ip_network(ranges["subnet"]))
    assert len(subnets) == 32
    assert not any(one.overlaps(ipaddress.ip_network(FABRIC_NETWORK + ".0/24")) for one in subnets)


def test_the_disk_is_mounted_where_the_kubelet_is() -> None:
    assert f" /dev/vdc {DISK_PATH}\n" in FILES["usr/local/sbin/fabric-rdma-lab-setup"][1]


def test_the_pause_image_has_the_name_that_the_runtime_wants(tmp_path: Path) -> None:
    """The pause image has the name that the runtime is configured for, in both forms of its configuration."""
    lines = ('    sandbox_image = "registry.k8s.io/pause:3.6"', "      sandbox = 'k8s.example/pause:3.10'")
    for number, line in enumerate(lines):
        place = tmp_path / str(number)
        (place / "bin").mkdir(parents=True)
        (place / "var").mkdir()
        (place / "import").write_text(IMPORT_SCRIPT.replace("/var/lib/kubelet", str(place / "var")))
        (place / "names").write_text("localhost/pod:1\nlocalhost/plugin:1\n")
        (place / "aliases").write_text("localhost/plugin:1 localhost/plugin@sha256:0\n")
        (place / "config").write_text(line + "\n")
        for name, script in (("ctr", f'echo "$*" >>{place}/log'), ("containerd", f"cat {place}/config")):
            (place / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
            (place / "bin" / name).chmod(0o755)
        environment = {**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
        for _twice in range(2):
            subprocess.run(["sh", str(place / "import")], env=environment, check=True, timeout=limit(60))
        pause = line.split()[-1].strip("\"'")
        assert (place / "log").read_text().splitlines() == [
            "version",
            f"--namespace k8s.io images import {place}/images.tar",
            "--namespace k8s.io images tag --force localhost/plugin:1 localhost/plugin@sha256:0",
            f"--namespace k8s.io images tag --force localhost/pod:1 {pause}",
        ]
