# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds where an inventory wishes for nothing: the default of every variable and key that wishes.py checks. Private. Pure.

Apart from the checks, so that no node gets it: node_wishes.NODE_DEFAULTS has the few defaults that code on nodes reads. Defaults of roles and
docs/variables.md need literals of their own: tests/unit/plugins/module_utils/_plan/test_defaults.py names those that differ.
"""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    DEVICE_PLUGIN,
    DRA_DRIVER,
    DRA_OLD_NAME,
    DRANET,
    DRIVER_IMAGE,
    MULTUS,
    SPIDERPOOL,
    VOLCANO,
    WHEREABOUTS,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import LONGHORN_PATH
from ansible_collections.fabric.rdma.plugins.module_utils._plan.node_wishes import NODE_DEFAULTS
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import PLAN_DEFAULTS

__all__ = ["DEFAULTS", "ENGINES", "Said", "defaults_of", "engine_defaults"]

Json = t.Dict[str, t.Any]


class Said(t.NamedTuple):
    """A default that docs/variables.md has in words. value: what roles and code fill in, None where something else decides."""

    words: str
    value: t.Any = None


_REQUIRED = Said("required")
_NONE = Said("")
_CHART = Said("the chart's")
_ALL_GROUPS = Said("all RDMA groups")
_KUBE_SYSTEM = "kube-system"
_ANYWHERE = [{"operator": "Exists"}]
_POD_SECURITY = Said("`true`, on `kube-system` `false`", "auto")

# Keys of rdma_rollout for every engine, and those that only some have, or that are others there.
_ROLLOUT: Json = {
    "method": Said("`apply` in `rollout.yml`", "render"),
    "engine": "daemonset",
    "kubeconfig": Said("those of the environment"),
    "context": Said("those of the environment"),
    "namespace": Said("`kube-system`, `nvidia-network-operator`"),
    "registry": Said("the public ones"),
    "image_pull_secrets": [],
    "charts": Said("the repositories"),
    "helm": {"binary": Said("the one in the path")},
    "tolerations": Said("all taints", _ANYWHERE),
    "resources": Said("small"),
    "cdi": False,
    "node_names": {},
    "inventory": "default",
    "adopt": False,
    "force": False,
    "timeout": 600,
    "remove": [],
}
_DAEMONSET: Json = {
    "namespace": _KUBE_SYSTEM,
    "pod_security": _POD_SECURITY,
    "image": DEVICE_PLUGIN,
    "image_digest": Said("that of the default image"),
    "priority_class": "system-node-critical",
    "kubelet_root": "auto",
    "max_unavailable": 1,
    "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
}
_DRANET: Json = {
    "version": DRANET.rpartition(":v")[2],
    "image": DRANET,
    "image_digest": _NONE,
    "namespace": Said("`rdma_rollout.namespace`, else `kube-system`"),
    "pod_security": _POD_SECURITY,
    "move_ib_interfaces": True,
    "allow_mounts": False,
    "cloud_provider": "NONE",
    "port": 9177,
    "resources": Said("small", {"requests": {"cpu": "100m", "memory": "50Mi"}}),
    "priority_class": "system-node-critical",
    "kubelet_root": "auto",
    "max_unavailable": 1,
}
# Where somebody asks for it; careful with nodes that have a driver.
_OPERATOR_DRIVER: Json = {
    "enabled": True,
    "version": Said("that the release is tested with"),
    "image": DRIVER_IMAGE,
    "repository": Said("`rdma_rollout.registry`, else NVIDIA's"),
    "groups": Said("all"),
    "override": [],
    "env": {},
    "force_precompiled": Said("the operator's"),
    "repo_config": _NONE,
    "cert_config": _NONE,
    "upgrade_policy": {
        "auto_upgrade": False,
        "max_parallel_upgrades": 1,
        "safe_load": False,
        "drain": {
            "enable": True,
            "force": False,
            "delete_empty_dir": False,
            "pod_selector": _NONE,
            "timeout_seconds": 300,
        },
        "wait_for_completion": _NONE,
    },
}
ENGINES: dict[str, Json] = {
    "daemonset": _DAEMONSET,
    "network_operator": {
        "namespace": "nvidia-network-operator",
        "operator_version": _REQUIRED,
        "policy": "auto",
        "helm": {
            "install": True,
            "chart": Said("NVIDIA's"),
            "repository": Said("NVIDIA's"),
            "version": Said("that of the operator"),
            "release": "network-operator",
            "nfd": True,
            "upgrade_crds": True,
            "pod_security": _POD_SECURITY,
            "values": {},
            "binary": Said("the one in the path"),
        },
        "node_affinity": True,
        "sriov": [],
        "ofed_driver": _OPERATOR_DRIVER,
        "resources": {},
    },
    "dra": {**_DAEMONSET, "classes": Said("all"), "claims": {}, "dranet": _DRANET},
}

_GPU_OPERATOR: Json = {
    "version": _REQUIRED,
    "enabled": True,
    "groups": _ALL_GROUPS,
    "driver": {
        "enabled": "auto",
        "version": _CHART,
        "precompiled": False,
        "auto_upgrade": False,
        "max_parallel_upgrades": _CHART,
        "distributions": [],
    },
    "kernel_module_type": "auto",
    "rdma": "auto",
    "use_host_mofed": "auto",
    "gds": False,
    "gdrcopy": False,
    "cdi": Said("the chart's (`true` since 25.10)"),
    "nri": False,
    "toolkit": {"enabled": True, "env": {}},
    "nfd": True,
    "device_plugin": True,
    "mig_strategy": _CHART,
    "tolerations": Said("the chart's", []),
    "values": {},
    "chart": Said("NVIDIA's"),
    "repository": Said("NVIDIA's"),
}
_LONGHORN: Json = {
    "version": _REQUIRED,
    "enabled": True,
    "groups": _ALL_GROUPS,
    "nodes": [],
    "replicas": Said("`3`, or as many as nodes store"),
    "default_class": True,
    "data_path": LONGHORN_PATH,
    "data_engine": "v1",
    "tolerations": [],
    "values": {},
    "delete_volumes": False,
    "chart": Said("Longhorn's"),
    "repository": Said("Longhorn's"),
}
_VGPU: Json = {
    "groups": Said("required", []),
    "version": VOLCANO,
    "release": "volcano",
    "namespace": "volcano-system",
    "policy": "binpack",
    "stop_device_plugin": False,
    "split": 10,
    "memory_factor": 1,
    "memory_scaling": 1,
    "cores_scaling": 1,
    "nodes": {},
    "arguments": {},
    "scheduler": Said("Volcano's own"),
    "hypernodes": False,
    "monitor": True,
    "tolerations": [],
    "values": {},
}
_COMPUTE_DOMAIN: Json = {
    "version": DRA_DRIVER,
    "release": DRA_OLD_NAME,
    "namespace": DRA_OLD_NAME,
    "driver_root": "auto",
    "gpus": False,
    "imex": "driver",
    "feature_gates": {},
    "api_version": "auto",
    "values": {},
    "cliques": "any",
    "host_imex": "keep",
    "mpi_operator": False,
    "workloads": {
        "namespace": "default",
        "nodes": Said("`2`, or as many as the group has"),
        "gpus": Said("those of a node"),
        "nvbandwidth_image": Said("NVIDIA's sample"),
        "nccl_image": _NONE,
    },
}
# Of rdma_multus and rdma_whereabouts.
_INSTALLED: Json = {
    "install": False,
    "operator": False,
    "image": _NONE,
    "namespace": _KUBE_SYSTEM,
    "nodes": "all",
    "crd": Said("`true`, of Multus with the Network Operator `false`", True),
    "api_server": Said("the cluster's Service"),
    "cni_conf_dir": Said("those of the nodes' containerd"),
    "cni_bin_dir": Said("those of the nodes' containerd"),
    "max_unavailable": "10%",
    "priority_class": "system-node-critical",
    "resources": Said("small", {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}),
    "tolerations": Said("all taints", _ANYWHERE),
}
_NETWORK: Json = {
    "name": _REQUIRED,
    "kind": _REQUIRED,
    "namespace": "default",
    "rails": False,
    "operator": False,
    "master": Said("the plan's"),
    "mode": "bridge",
    "mtu": Said("that of the port"),
    "vlan": _NONE,
    "trust": Said("the driver's"),
    "spoofchk": Said("the driver's"),
    "resource": Said("the plan's"),
    "isolate_rdma": False,
    "sriov": _NONE,
    "cni": Said("by link layer"),
    "inject": False,
    "ipam": {
        "type": "none",
        "range": _NONE,
        "per_rail": _NONE,
        "ranges": _NONE,
        "exclude": [],
        "gateway": _NONE,
        "routes": [],
        "pods_per_node": Said("number of GPUs"),
        "block_size": Said("by `pods_per_node`"),
        "namespace": Said("the operator's"),
    },
}

# By variable; of rdma_networks, those of an entry.
DEFAULTS: Json = {
    "rdma_groups": _REQUIRED,
    "rdma_hosts": "rdma",
    "rdma_output_dir": Said("`rdma-output` where Ansible is started", "rdma-output"),
    "rdma_rollout": _ROLLOUT,
    "rdma_rollout_method": Said("`rdma_rollout.method`", _NONE),
    "rdma_serial": [1, "10%", "100%"],
    "rdma_max_unavailable": 1,
    "rdma_slices": False,
    "rdma_allow_unusable": False,
    "rdma_vgpu": _VGPU,
    "rdma_gpu_operator": _GPU_OPERATOR,
    "rdma_longhorn": _LONGHORN,
    "rdma_topology": {"labels": False, "label": "topology.fabric.rdma/leaf"},
    **{variable: default for variable, default in PLAN_DEFAULTS.items() if not isinstance(default, dict)},
    "rdma_resource": {**PLAN_DEFAULTS["rdma_resource"], "name": _REQUIRED},
    "rdma_want": PLAN_DEFAULTS["rdma_want"],
    "rdma_networks": _NETWORK,
    "rdma_ofed": {
        "method": "inbox",
        "version": _NONE,
        "repository": _NONE,
        "key": _NONE,
        "key_checksum": _NONE,
        "iso": _NONE,
        "install_options": ["without-fw-update"],
        "packages": Said("", []),
        "activate": "none",
        "override": [],
    },
    "rdma_memlock": NODE_DEFAULTS["rdma_memlock"],
    "rdma_gpudirect": "auto",
    "rdma_storage": {"iscsi": True, "nfs": True, "dm_crypt": False, "multipath": True, "path": LONGHORN_PATH},
    # but for persist, nothing is changed that is not named
    "rdma_roce_host": {
        **dict.fromkeys(
            ("mtu", "trust", "pfc", "ecn", "dscp", "tos", "multi_rail", "arp", "rp_filter", "netns", "link_type"), _NONE
        ),
        **NODE_DEFAULTS["rdma_roce_host"],
    },
    "rdma_verify": dict.fromkeys(("min_gbps", "min_share", "max_us"), _NONE),
    "rdma_kubeconfig": _NONE,
    "rdma_compute_domain": _COMPUTE_DOMAIN,
    "rdma_multus": {**_INSTALLED, "version": MULTUS.rpartition(":v")[2]},
    "rdma_whereabouts": {**_INSTALLED, "version": WHEREABOUTS.rpartition(":v")[2], "reconcile": "30 4 * * *"},
    "rdma_spiderpool": {
        "install": False,
        "version": SPIDERPOOL,
        "namespace": "spiderpool",
        "inject": False,
        "multus": False,
        "values": {},
    },
    "rdma_cluster_cidrs": {"pods": [], "services": [], "nodes": []},
    "rdma_capture": _NONE,
    "rdma_capture_anonymize": False,
    "rdma_capture_text": False,
    "rdma_stale_resources": _REQUIRED,
    "rdma_stale_nodes": Said("all", []),
    "rdma_stale_verify": 330,
    "rdma_handover_to": "dra",
    "rdma_handover_groups": Said("all"),
    "rdma_uninstall_groups": Said("all"),
    "rdma_uninstall_systems": Said("all"),
}


def _values(default: t.Any) -> t.Any:
    if isinstance(default, Said):
        return copy.deepcopy(default.value)
    if isinstance(default, dict):
        return {key: _values(item) for key, item in default.items()}
    return copy.deepcopy(default)


def defaults_of(variable: str, *path: str) -> t.Any:
    """What a variable, or a key of it, is where nobody wishes for another; None where something else decides."""
    found = DEFAULTS[variable]
    for key in path:
        found = found[key]
    return _values(found)


def engine_defaults(engine: str) -> Json:
    """As defaults_of(), of rdma_rollout with an engine."""
    return t.cast(Json, _values({**_ROLLOUT, **ENGINES[engine]}))
