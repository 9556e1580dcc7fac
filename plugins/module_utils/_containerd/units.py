# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where containerd has what, and which systemd units run one for Kubernetes. Private to the collection."""

from __future__ import annotations

__all__ = ["CONTAINERD_CONFIG", "CONTAINERD_SOCKET", "CONTAINERD_UNITS"]

# Where it looks for its configuration, and listens, when nobody says otherwise.
CONTAINERD_CONFIG = "/etc/containerd/config.toml"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"

# Each with the distribution of Kubernetes that brings it. That one's own goes first: containerd.service beside it is the Docker engine's,
# as Docker's packages bring it (containerd.io), with its CRI plugin off. Other packages run the engine's below docker.service.
CONTAINERD_UNITS = {
    "k3s.service": "k3s",
    "k3s-agent.service": "k3s",
    "rke2-server.service": "rke2",
    "rke2-agent.service": "rke2",
    "k0scontroller.service": "k0s",
    "k0sworker.service": "k0s",
    "snap.microk8s.daemon-containerd.service": "microk8s",
    "containerd.service": "none",
}
