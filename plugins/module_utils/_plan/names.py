# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of variables: which are misspelt, which a node must not bring, which roles read once for all hosts. Private. Pure."""

from __future__ import annotations

import difflib
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import VARIABLES

__all__ = ["OF_A_RUN", "foreign_facts", "misspelt"]

# Variables of roles that are read once for all hosts, too. Checked by the roles; here, that no host has a value of its own. Not among
# them: verify_address and verify_first_port, discover_gather_subset and what discover waits for, report_generated (a time), and all of the
# roles that change nodes.
OF_A_RUN = (
    "compute_domain_adopt",
    "compute_domain_context",
    "compute_domain_force",
    "compute_domain_kubeconfig",
    "compute_domain_method",
    "compute_domain_output_dir",
    "compute_domain_timeout",
    "compute_domain_wish",
    "device_plugin_allow_unusable",
    "device_plugin_cdi",
    "device_plugin_context",
    "device_plugin_engine",
    "device_plugin_force",
    "device_plugin_image",
    "device_plugin_image_digest",
    "device_plugin_image_pull_secrets",
    "device_plugin_kubeconfig",
    "device_plugin_kubelet_root",
    "device_plugin_max_unavailable",
    "device_plugin_method",
    "device_plugin_namespace",
    "device_plugin_node_names",
    "device_plugin_output_dir",
    "device_plugin_pod_security",
    "device_plugin_priority_class",
    "device_plugin_resources",
    "device_plugin_timeout",
    "device_plugin_tolerations",
    "discover_allow_unusable",
    "discover_output_dir",
    "doctor_anonymize",
    "doctor_cluster",
    "doctor_context",
    "doctor_directory",
    "doctor_fail_on",
    "doctor_kubeconfig",
    "doctor_log_lines",
    "doctor_node_names",
    "doctor_output_dir",
    "doctor_pods",
    "dra_adopt",
    "dra_context",
    "dra_force",
    "dra_kubeconfig",
    "dra_method",
    "dra_output_dir",
    "dra_timeout",
    "dra_wish",
    "fabric_output_dir",
    "fabric_timeout",
    "gpu_operator_adopt",
    "gpu_operator_context",
    "gpu_operator_force",
    "gpu_operator_kubeconfig",
    "gpu_operator_method",
    "gpu_operator_output_dir",
    "gpu_operator_timeout",
    "gpu_operator_wish",
    "longhorn_adopt",
    "longhorn_context",
    "longhorn_force",
    "longhorn_kubeconfig",
    "longhorn_method",
    "longhorn_output_dir",
    "longhorn_timeout",
    "longhorn_wish",
    "network_operator_allow_unusable",
    "network_operator_cdi",
    "network_operator_context",
    "network_operator_force",
    "network_operator_helm",
    "network_operator_image_pull_secrets",
    "network_operator_kubeconfig",
    "network_operator_method",
    "network_operator_namespace",
    "network_operator_node_affinity",
    "network_operator_node_names",
    "network_operator_ofed_driver",
    "network_operator_output_dir",
    "network_operator_policy",
    "network_operator_registry",
    "network_operator_resources",
    "network_operator_sriov",
    "network_operator_timeout",
    "network_operator_tolerations",
    "network_operator_version",
    "plan_allow_unusable",
    "plan_insist",
    "plan_output_dir",
    "plan_remove",
    "report_compare",
    "report_failures",
    "report_output_dir",
    "report_plan_failed",
    "report_run_failures",
    "report_title",
    "secondary_network_adopt",
    "secondary_network_cidrs",
    "secondary_network_context",
    "secondary_network_force",
    "secondary_network_kubeconfig",
    "secondary_network_method",
    "secondary_network_multus",
    "secondary_network_output_dir",
    "secondary_network_rollout",
    "secondary_network_spiderpool",
    "secondary_network_timeout",
    "secondary_network_whereabouts",
    "topology_adopt",
    "topology_context",
    "topology_force",
    "topology_kubeconfig",
    "topology_method",
    "topology_output_dir",
    "topology_timeout",
    "topology_wish",
    "verify_bandwidth_bytes",
    "verify_hardware_max_us",
    "verify_insist",
    "verify_iterations",
    "verify_latency_bytes",
    "verify_level",
    "verify_max_us",
    "verify_min_gbps",
    "verify_min_share",
    "verify_output_dir",
    "verify_pod_context",
    "verify_pod_first_port",
    "verify_pod_host_network",
    "verify_pod_image",
    "verify_pod_inventory",
    "verify_pod_ipc_lock",
    "verify_pod_jobs",
    "verify_pod_kubeconfig",
    "verify_pod_memory",
    "verify_pod_namespace",
    "verify_pod_networks",
    "verify_pod_node_names",
    "verify_pod_settings",
    "verify_pod_users",
    "verify_qps",
    "verify_settings",
    "verify_software_iterations",
    "verify_software_max_us",
    "verify_software_min_gbps",
    "verify_tests",
    "verify_timeout",
    "verify_topology",
    "vgpu_adopt",
    "vgpu_context",
    "vgpu_force",
    "vgpu_kubeconfig",
    "vgpu_method",
    "vgpu_output_dir",
    "vgpu_timeout",
    "vgpu_wish",
)


def misspelt(names: t.Iterable[str]) -> list[str]:
    """A sentence for each variable that nobody reads, but that looks like one of ours.

    One that is like none is the user's own. rdma_ with its letters in another order is taken for ours.
    """
    found = []
    for name in sorted(set(map(str, names)) - set(VARIABLES)):
        head, _sign, rest = name.partition("_")
        if not rest or sorted(head.lower()) != ["a", "d", "m", "r"]:
            continue
        near = difflib.get_close_matches("rdma_" + rest.lower(), sorted(VARIABLES), 1, 0.8)
        if near:
            found.append(f"nobody reads the variable {name}; did you mean {near[0]}?")
    return found


# --- facts that would be variables -----------------------------------------------------------------------------------

# Ansible makes variables of the facts of a node, and they override those of the inventory and the defaults of roles.
_OWN_NAMES = re.compile(
    r"(?:ansible_)?(?:__)?(?:rdma|doctor|fabric|topology|cluster_chart|cluster_objects|cluster_system|compute_domain|containerd_memlock"
    r"|device_plugin|discover|dra|gpu_operator|lab|longhorn|network_operator|nvidia_imex"
    r"|nvidia_peermem|ofed|plan|prepare|report|roce_host|secondary_network|site|storage_prereqs"
    r"|systems|uninstall|verify|vgpu|wishes)_\w*"
    r"|__(?:capture|cleanup|everyone|handover|probe)_\w*|(?:__)?(?:awx|compare|tower)_\w*|job_slice_(?:count|number)"
    # Ansible's own that facts go over: a host that calls itself another, and what stands for a value that is not given
    r"|inventory_(?:hostname|hostname_short|dir|file)|group_names|omit|role_name|role_path"
)


def foreign_facts(names: t.Iterable[t.Any]) -> list[str]:
    """Those names of a host's facts that are variables of this collection: no module of ours makes a fact of such a name."""
    return sorted(str(name) for name in names if _OWN_NAMES.fullmatch(str(name)))
