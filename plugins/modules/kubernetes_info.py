#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_info
short_description: Read objects of a cluster, and fail if they cannot be read
version_added: "0.1.0"
description:
  - Reads the objects of one kind. Returns an empty list only if the API server itself said that there are none.
  - M(kubernetes.core.k8s_info) also finds none where an API server is too busy to tell which kinds it has. What is then removed or
    unlocked may still be in use.
  - An API server that is busy is asked again for about half a minute.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
  - fabric.rdma.kubernetes
  - fabric.rdma.kubernetes.looks
options:
  api_version:
    description: Version of the API, with its group.
    type: str
    required: true
  kind:
    description: Kind of the objects.
    type: str
    required: true
  name:
    description: Name of the one object that is wanted. By default, all are read.
    type: str
  namespace:
    description: Namespace of the objects. By default, those of all namespaces are read. Has to be given with O(name), if the kind has namespaces.
    type: str
  label_selectors:
    description: Label selectors, all of which have to match.
    type: list
    elements: str
    default: []
  field_selectors:
    description: Field selectors, all of which have to match.
    type: list
    elements: str
    default: []
seealso:
  - module: kubernetes.core.k8s_info
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look at the DaemonSets of the device plugin
  fabric.rdma.kubernetes_info:
    kubeconfig: /etc/kubernetes/admin.conf
    api_version: apps/v1
    kind: DaemonSet
    label_selectors: [app.kubernetes.io/name=rdma-shared-dp]
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
known:
  description: Whether the cluster has this kind in this version.
  returned: success
  type: bool
  sample: true
resources:
  description: The objects, as the API server has them.
  returned: success
  type: list
  elements: dict
  sample:
    - {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: rdma-shared-dp-ib-v100, namespace: kube-system}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import connected
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.readings import objects_of


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
            "api_version": {"type": "str", "required": True},
            "kind": {"type": "str", "required": True},
            "name": {"type": "str"},
            "namespace": {"type": "str"},
            "label_selectors": {"type": "list", "elements": "str", "default": []},
            "field_selectors": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        found = objects_of(
            connected(module),
            params["api_version"],
            params["kind"],
            params["name"],
            params["namespace"],
            ",".join(params["label_selectors"]),
            ",".join(params["field_selectors"]),
        )
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, known=found is not None, resources=found or [])


if __name__ == "__main__":
    main()
