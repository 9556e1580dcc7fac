#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_snapshot
short_description: Read what a diagnosis needs of a cluster
version_added: "0.1.0"
description:
  - Reads the nodes, the DaemonSets of device plugins, drivers and storage with their configurations, policies of the NVIDIA Network
    Operator, Pods of all of these, Pods that ask for an RDMA resource, and events.
  - Keeps only what a diagnosis reads of each object. Secrets are not read. Commands and variables of containers are not kept, except for
    variables whose names begin with C(NCCL_) or C(UCX_).
  - Reads the ends of the logs of these DaemonSets' containers, and of those of O(pods).
  - What the user may not read is named in RV(unread), and costs nothing else. So is a cluster that does not answer. The module fails only
    for arguments that make no sense.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
  - fabric.rdma.kubernetes
  - fabric.rdma.kubernetes.looks
options:
  resources:
    description: Extended resources that a plan has, such as V(rdma/rdma_a100). Pods that ask for one are read, whatever its name.
    type: list
    elements: str
    default: []
  pods:
    description:
      - More Pods to look at, with their logs, as NAMESPACE/NAME.
      - Without the right to list the Pods of all namespaces, only these are read, if that is allowed.
    type: list
    elements: str
    default: []
  logs_of:
    description: How many Pods of each DaemonSet to read logs from. Those in trouble come first. V(0) reads only those of O(pods).
    type: int
    default: 10
  log_lines:
    description: How many of the last lines of a container's log to read, of at most 256 KiB.
    type: int
    default: 1000
seealso:
  - plugin: fabric.rdma.rdma_diagnose
    plugin_type: filter
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look at the cluster
  fabric.rdma.cluster_snapshot:
    kubeconfig: /etc/kubernetes/admin.conf
    resources: [rdma/rdma_a100]
    pods: [default/train-0]
  delegate_to: localhost
  run_once: true
  register: found
"""

RETURN = r"""
cluster:
  description:
    - Reduced objects, nodes by name, all others as lists. Empty when the cluster does not answer.
    - C(listed) is true where Pods or policies could not be listed, so that those that are not there are not missing.
    - C(named) is true where the Pods are those of O(pods) alone, each read by its name, since they could not be listed.
  returned: success
  type: dict
  sample: {schema: 1, nodes: {}, daemon_sets: [], config_maps: [], policies: [], pods: [], events: []}
logs:
  description: Ends of logs, each with C(name), C(source), C(host) (the node), C(pod) and C(text).
  returned: success
  type: list
  elements: dict
  sample: []
unread:
  description: Sentences on what could not be read.
  returned: success
  type: list
  elements: str
  sample: ["there is no Pod default/train-0"]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import connected
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.look import look, read_logs

_LIMIT = 256 * 1024


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
            "resources": {"type": "list", "elements": "str", "default": []},
            "pods": {"type": "list", "elements": "str", "default": []},
            "logs_of": {"type": "int", "default": 10},
            "log_lines": {"type": "int", "default": 1000},
        },
        supports_check_mode=True,
    )
    params = module.params
    wrong = [name for name in params["pods"] if name.count("/") != 1 or not all(name.split("/"))]
    if wrong:
        module.fail_json(msg=f"pods has '{wrong[0]}'; expected NAMESPACE/NAME")
    try:
        kube = connected(module)
        cluster, unread = look(kube, params["resources"], params["pods"])
        logs, more = read_logs(kube, cluster, params["pods"], params["logs_of"], params["log_lines"], _LIMIT)
    except FabricError as exc:
        module.exit_json(changed=False, cluster={}, logs=[], unread=[f"the cluster was not looked at: {exc}"])
    module.exit_json(changed=False, cluster=cluster, logs=logs, unread=unread + more)


if __name__ == "__main__":
    main()
