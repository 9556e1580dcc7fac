# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the modules that speak to a Kubernetes API server."""

from __future__ import annotations


class ModuleDocFragment:
    """How the API server is reached: as modules of kubernetes.core do it."""

    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - The kubeconfig to use.
      - By default E(K8S_AUTH_KUBECONFIG), else E(KUBECONFIG), else C(~/.kube/config). In a Pod without one of these, its
        ServiceAccount.
    type: path
  context:
    description:
      - The context in it.
      - By default E(K8S_AUTH_CONTEXT), else the current one.
    type: str
requirements:
  - the Python package C(kubernetes) for the interpreter that runs the module
"""

    # A module that does something else with it says so itself.
    LEASE = r"""
options:
  lease:
    description: The Lease that M(fabric.rdma.rollout_lease) or M(fabric.rdma.rollout) has returned. It is renewed while this module waits.
    type: dict
    suboptions:
      namespace:
        description: Where it is.
        type: str
        required: true
      holder:
        description: Who holds it.
        type: str
        required: true
      duration:
        description: Seconds after which it expires without a renewal.
        type: int
        default: 120
"""

    WAITS = r"""
options:
  timeout:
    description: Seconds to wait. V(0) looks once.
    type: int
    default: 600
  interval:
    description: Seconds between two looks.
    type: int
    default: 3
"""

    # Of a module that makes something, measures with it, and removes it.
    TRAFFIC = r"""
options:
  inventory:
    description:
      - Name of the inventory, as in C(rdma_rollout).
      - Every object is labelled with it, so that inventories that share a cluster leave each other's alone.
    type: str
    default: default
notes:
  - What cannot be measured is a result as well, also where the cluster cannot be reached. It has a cause and a remedy. The module fails only
    for invalid arguments, when a signal ends it, or on an internal error.
  - What it makes is removed at the end, also after an error or when the module is ended by a signal. After a run that was killed outright,
    Pods and jobs end by themselves, and the next run of this O(inventory) in the same namespace removes everything. That includes the objects
    of a run that is still going on, so run one at a time.
"""

    # Of a module that looks at a cluster.
    LOOKS = r"""
options: {}
notes:
  - Output, logs and the events of ansible-runner and AWX do not show what was read. Register it to use it.
  - It makes a few requests, whatever the size of the cluster.
  - Run it on the controller, once for all hosts (C(delegate_to=localhost), C(run_once=true)).
"""
