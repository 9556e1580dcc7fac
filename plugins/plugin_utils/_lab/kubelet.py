# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a node of the lab a node of a cluster: the files of its kubelet. Private to the collection. Pure.

Files are where kubeadm has them, so that a node looks like one that was handed over.
"""

from __future__ import annotations

import base64
import json
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import NodePlan

__all__ = [
    "API_ADDRESS",
    "API_PORT",
    "DISK_PATH",
    "IMPORT_SCRIPT",
    "KUBELET_PORT",
    "SERVICES",
    "kubeconfig",
    "kubelet_files",
    "kubelet_user",
]

# What the cluster gives to Services, of the network that QEMU makes for each node. The first is Kubernetes' own, where programs in Pods
# find the API server: on a node of the lab QEMU brings what is sent there to the controller, and nobody has to translate it.
SERVICES = "10.0.2.128/25"
API_ADDRESS, API_PORT = "10.0.2.129", 443
# What all nodes give to Pods that are not in their own network; the third number is that of the node.
_PODS = "10.244.0.0/16"
KUBELET_PORT = 10250

# Where the disk with the kubelet and the images of containers is mounted.
DISK_PATH = "/opt/kubernetes"

# Beside images.tar on that disk. The names with a digest are told apart from those with a tag by the runtime, and an image that no
# registry has sent has none: it is given them. Pods of a node that was killed at once may be there before the marker is.
IMPORT_SCRIPT = """\
#!/bin/sh
# Gives containerd the images of this disk, once.
set -eu
marker=/var/lib/kubelet/fabric-rdma-lab-images
[ ! -e "$marker" ] || exit 0
until ctr version >/dev/null 2>&1; do sleep 1; done
pause=$(containerd config dump | sed -n "s/^ *\\\\(sandbox_image\\\\|sandbox\\\\) = [\\"']\\\\(.*\\\\)[\\"']$/\\\\2/p")
ctr --namespace k8s.io images import "${0%/*}/images.tar" >/dev/null
while read -r name alias; do
  ctr --namespace k8s.io images tag --force "$name" "$alias" >/dev/null
done <"${0%/*}/aliases"
read -r first _ <"${0%/*}/names"
ctr --namespace k8s.io images tag --force "$first" "$pause" >/dev/null
mkdir -p "${marker%/*}"
touch "$marker"
"""


def _unit(node: NodePlan) -> str:
    masquerade = f"-s {_PODS} -o eth0 -j MASQUERADE"
    return f"""\
[Unit]
Description=kubelet: The Kubernetes Node Agent
After=containerd.service
Wants=containerd.service
RequiresMountsFor={DISK_PATH}

[Service]
ExecStartPre=/bin/sh {DISK_PATH}/import
# Pods reach the API server as their node does.
ExecStartPre=/bin/sh -c 'iptables -t nat -C POSTROUTING {masquerade} || iptables -t nat -A POSTROUTING {masquerade}'
ExecStart={DISK_PATH}/kubelet --config=/var/lib/kubelet/config.yaml --kubeconfig=/etc/kubernetes/kubelet.conf \\
    --hostname-override={node.name} --node-ip={node.address}
Restart=always
RestartSec=10
TimeoutStartSec=1800

[Install]
WantedBy=multi-user.target
"""


def kubelet_user(node: NodePlan) -> tuple[str, str]:
    """User and group that the node authorizer knows (kubernetes.io/docs/reference/access-authn-authz/node)."""
    return f"system:node:{node.name}", "system:nodes"


def kubelet_files(node: NodePlan, server_pem: str, client_pem: str, token: str) -> dict[str, tuple[int, str]]:
    """Path on the node -> (mode, content).

    server_pem, client_pem: the certificates of the API server when the kubelet asks it, and when it asks the kubelet; token: by which it
    knows the node.
    """
    server = f"https://{API_ADDRESS}:{API_PORT}"
    # a server that was started by an earlier version does not know the address by which nodes see it
    config = kubeconfig(server, server_pem, kubelet_user(node)[0], token, "localhost")
    return {
        "etc/kubernetes/pki/apiserver-kubelet-client.crt": (0o644, client_pem),
        "etc/kubernetes/kubelet.conf": (0o600, json.dumps(config, indent=1) + "\n"),
        # JSON is YAML
        "var/lib/kubelet/config.yaml": (0o644, json.dumps(_configuration(), indent=1) + "\n"),
        "etc/cni/net.d/10-lab.conflist": (0o644, json.dumps(_network(node), indent=1) + "\n"),
        "etc/systemd/system/kubelet.service": (0o644, _unit(node)),
    }


def kubeconfig(server: str, ca_pem: str, user: str, token: str, tls_server_name: str | None = None) -> dict[str, t.Any]:
    """The kubeconfig of a user, whole in itself. tls_server_name: by which the server knows itself, when it has another."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca_pem.encode()).decode()}
    if tls_server_name is not None:
        cluster["tls-server-name"] = tls_server_name
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
    }


def _configuration() -> dict[str, t.Any]:
    """KubeletConfiguration (kubelet.config.k8s.io/v1beta1)."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "failSwapOn": False,
        # the root file system is small, and is not measured
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageMinimumGCAge": "87600h0m0s",
        "resolvConf": "",
        "registryPullQPS": 0,
        # nobody here translates addresses of services
        "makeIPTablesUtilChains": False,
        # an emulated node takes its time
        "runtimeRequestTimeout": "10m",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/etc/kubernetes/pki/apiserver-kubelet-client.crt"},
        },
        "authorization": {"mode": "Webhook"},
        # how soon a change reaches a Pod, and the API server a change of the node
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "5s",
    }


def _network(node: NodePlan) -> dict[str, t.Any]:
    """The network of Pods that are not on the host's: a bridge of the node, which leads nowhere else."""
    subnet = f"10.244.{node.index + 1}.0/24"
    return {
        "cniVersion": "1.0.0",
        "name": "lab",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": True,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": subnet}]]},
            }
        ],
    }
