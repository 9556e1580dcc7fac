# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes and objects are marked with, and what the Network Operator calls its own. Private. Pure."""

from __future__ import annotations

__all__ = [
    "APP_NAME",
    "CLASS_LABEL",
    "CLUSTER_POLICY",
    "CONFIG_ANNOTATION",
    "DRANET_DRIVER",
    "DRANET_NAME",
    "DRA_LABEL",
    "GROUPS_ANNOTATION",
    "GROUP_LABEL",
    "INVENTORY_LABEL",
    "MANAGED_BY",
    "POD_SECURITY",
    "POLICY_VERSION",
    "RDMA_SECTION",
    "SRIOV_SECTION",
    "SYSTEM_LABEL",
    "TRAFFIC_LABEL",
]

# Selects the nodes of a class; the rollout sets it on them.
CLASS_LABEL = "rdma.fabric/class"
# Selects the nodes of a class that DRANET serves, and so those of its Pods.
DRA_LABEL = "rdma.fabric/dra"
# On the objects: which group of the inventory they are for, so that a run that did not plan it leaves them alone.
GROUP_LABEL = "rdma.fabric/group"
# On the objects: which inventory they are of, so that two that share a cluster leave each other's alone.
INVENTORY_LABEL = "rdma.fabric/inventory"
# On the objects of a system (networks, drivers, storage): which one, so that it can be changed and removed by itself.
SYSTEM_LABEL = "rdma.fabric/system"
MANAGED_BY = "fabric.rdma"
APP_NAME = "rdma-shared-dp"
# The driver that takes the place of the device plugin with engine: dra.
DRANET_NAME = "dranet"
# What its ResourceSlices and claims call it.
DRANET_DRIVER = "dra.net"
# Labels of a namespace that say which Pods it may have (k8s.io/pod-security-admission/api).
POD_SECURITY = "pod-security.kubernetes.io/"
# On Pods that measure: the run that made them, so that the next one finds what a killed one has left.
TRAFFIC_LABEL = "rdma.fabric/traffic"

# On Pods of a device plugin: the SHA-256 of the configuration that they were made with. They read it once; a new one makes new Pods.
CONFIG_ANNOTATION = "rdma.fabric/config-sha256"

# Policies of the Network Operator.
POLICY_VERSION = "mellanox.com/v1alpha1"
# The operator ignores a NicClusterPolicy of any other name (controllers/nicclusterpolicy_controller.go).
CLUSTER_POLICY = "nic-cluster-policy"
RDMA_SECTION = "rdmaSharedDevicePlugin"
SRIOV_SECTION = "sriovDevicePlugin"
# On the NicClusterPolicy: the classes that its configuration serves, each with its group as GROUP_LABEL has it: CLASS=GROUP,CLASS=GROUP.
GROUPS_ANNOTATION = "rdma.fabric/groups"
