#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_state
short_description: Tell what a cluster serves, and which nodes it has
version_added: "0.1.0"
description:
  - Asks the API server which versions of which API groups it serves, and which labels and kubelets its nodes have, in a few requests,
    whatever the size of the cluster.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
  - fabric.rdma.kubernetes
options: {}
seealso:
  - plugin: fabric.rdma.rdma_system
    plugin_type: filter
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look at the cluster
  fabric.rdma.cluster_state:
    kubeconfig: /etc/kubernetes/admin.conf
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
served:
  description: Versions that are served, by API group. The core group is the empty text.
  returned: success
  type: dict
  sample: {"": [v1], apps: [v1], resource.k8s.io: [v1]}
nodes:
  description: Labels and version of the kubelet, by node.
  returned: success
  type: dict
  sample: {gpu-1: {labels: {nvidia.com/gpu.present: "true"}, kubelet: v1.34.2}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS, Kube


def main() -> None:
    module = AnsibleModule(argument_spec=dict(CONNECTION_OPTIONS), supports_check_mode=True)
    try:
        kube = Kube(module.params["kubeconfig"], module.params["context"])
        for warning in kube.warnings:
            module.warn(warning)
        result = {"served": kube.served(), "nodes": kube.node_views()}
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
