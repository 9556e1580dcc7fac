#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_access
short_description: Ask whether an API server answers, and warn where others could listen
version_added: "0.1.0"
description:
  - Reads a kubeconfig and asks the API server for its version. What prevents that is an error that says what to do, except that
    the version may be withheld (403).
  - Warns where the kubeconfig skips the verification of the server's certificate or reaches it over plain HTTP, and where the Python
    package C(kubernetes) is of a version that is not tested.
  - Where E(K8S_AUTH_HOST) names the API server, and no O(kubeconfig) does, it is not asked.
  - The modules of this collection that change a cluster warn of the same by themselves. This one is for those of C(kubernetes.core).
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
  - fabric.rdma.kubernetes
seealso:
  - module: kubernetes.core.k8s_cluster_info
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look whether the cluster can be reached before anything is changed
  fabric.rdma.cluster_access:
    kubeconfig: /etc/kubernetes/admin.conf
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
server:
  description: Address of the API server, without a password that stands in it.
  returned: success
  type: str
  sample: https://10.0.0.1:6443
version:
  description: The version that it reports. V(null) if it reports or discloses none, or was not asked.
  returned: success
  type: str
  sample: v1.33.1
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import without_password
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS, KubeError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import connected

# What kubernetes.core takes for no.
NO = ("0", "f", "false", "n", "no", "off")


def look(module: AnsibleModule) -> dict[str, t.Any]:
    if os.environ.get("K8S_AUTH_VERIFY_SSL", "").lower() in NO:
        module.warn(
            "K8S_AUTH_VERIFY_SSL turns off the verification of the API server's certificate: anybody on the way can answer for it, and "
            "read its credentials"
        )
    host = os.environ.get("K8S_AUTH_HOST")
    if host and not module.params["kubeconfig"]:
        # no kubeconfig: modules of kubernetes.core find their way by the environment alone
        return {"server": without_password(host), "version": None}
    kube = connected(module)
    try:
        version = kube.request("GET", "/version", "ask for its version").get("gitVersion")
    except KubeError as exc:
        # it has answered: who it is is not everybody's to know
        if exc.code != 403:
            raise
        version = None
    return {"server": kube.server, "version": version}


def main() -> None:
    module = AnsibleModule(argument_spec=CONNECTION_OPTIONS, supports_check_mode=True)
    try:
        found = look(module)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
