#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: pod_traffic
short_description: Measure bandwidth and latency between Pods that ask for an RDMA resource
version_added: "0.1.0"
description:
  - Makes two Pods for each pair of nodes, one for the server and one for the client of perftest. Each asks for the RDMA resource, has
    no privilege, and comes to its node by way of the scheduler.
  - Each Pod tells its user, its limit of locked memory and the files in C(/dev/infiniband), then one test after the other is measured.
  - Pairs of a round run at the same time. They must not share a node.
  - Figures that cannot be (infinite, not a number, zero, negative) are what a busy machine prints. They are measured once more.
  - What cannot be measured is a result as well, also where the cluster cannot be reached. It is told in the C(problem) of a result, with
    a cause and a remedy. The module fails only for arguments that make no sense.
  - Pods are removed at the end, also after an error or when the module is ended by a signal. What a run has left that was killed outright
    ends by itself, and the next run removes it. It does that with all Pods of the namespace that have the labels of this O(inventory).
  - Needs the rights to create, get, list and delete C(pods), and to get C(pods/log), in the namespace.
extends_documentation_fragment:
  - fabric.rdma.attributes
  - fabric.rdma.kubernetes
attributes:
  check_mode:
    support: full
    details:
      - Makes no Pod in check mode and asks the cluster nothing, and says in RV(msg) what would be measured.
  diff_mode:
    support: none
    details:
      - Nothing is changed but Pods that come and go.
  idempotent:
    support: partial
    details:
      - Every run measures. It reports a change only when it has removed what a killed run had left.
options:
  rounds:
    description: The C(rounds) of P(fabric.rdma.rdma_pairs#filter) with O(fabric.rdma.rdma_pairs#filter:plan), each a list of pairs.
    type: list
    elements: list
    required: true
  image:
    description: Image with C(sh), C(id), C(sleep), C(date) and perftest.
    type: str
    required: true
  namespace:
    description: Namespace of the Pods.
    type: str
    default: default
  host_network:
    description:
      - Whether Pods use the network of their node. The GIDs of RoCE are those of the node.
      - Without it, a client reaches the server at the address of its Pod.
    type: bool
    default: true
  user:
    description: Number of the user in the Pods. An ordinary one proves that locked memory needs no privilege.
    type: int
    default: 1000
  node_names:
    description: Nodes of hosts that are called otherwise, node by host.
    type: dict
    default: {}
  inventory:
    description: Name of the inventory, as in C(rdma_rollout). It is on every Pod, so that inventories that share a cluster leave each other's alone.
    type: str
    default: default
  timeout:
    description: Seconds that one test may take, and that the scheduler may take for a Pod. Three more minutes are given for an image to be pulled.
    type: int
    default: 120
  first_port:
    description: First TCP port for the exchange of connection data. Each test of a pair takes one, and those that are measured again the next ones.
    type: int
    default: 18515
seealso:
  - module: fabric.rdma.perftest
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Measure between Pods
  fabric.rdma.pod_traffic:
    rounds: "{{ pairs.rounds }}"
    image: registry.example/perftest:24.01
  vars:
    view: "{{ hostvars | fabric.rdma.rdma_view(groups, rdma_groups) }}"
    pairs: "{{ view | fabric.rdma.rdma_pairs(ansible_play_hosts, plan=view | fabric.rdma.rdma_selectors) }}"
  delegate_to: localhost
  run_once: true
  register: pods

- name: Show the figures of the first pair
  ansible.builtin.debug:
    msg: "{{ pods.results[0][0].client.results | map(attribute='output') }}"
"""

RETURN = r"""
image:
  description: The image of the Pods.
  returned: success
  type: str
  sample: registry.example/perftest:24.01
msg:
  description: What would be measured.
  returned: in check mode
  type: str
  sample: "between Pods would be measured: node1 and node2 (ib_write_bw, ib_write_lat)"
removed:
  description: Pods that an earlier run had left.
  returned: success
  type: list
  elements: str
  sample: []
results:
  description:
    - One list for each round, with one item for each pair, which has the Pods C(client) and C(server). Empty in check mode.
    - Each has C(pod) (its name), C(user), C(memlock) with C(soft) and C(hard) (C(unlimited), or KiB), C(files) of C(/dev/infiniband),
      C(problem) (null, or with a C(cause) and a C(remedy)) and C(results), one for each test.
    - A result of a test has C(output), C(status), C(timed_out), C(timeout), whether it was C(repeated), and C(problem).
  returned: success
  type: list
  elements: list
  sample:
    - - client:
          pod: fabric-rdma-verify-1f2e3d4c-0-client
          user: 1000
          memlock: {soft: unlimited, hard: unlimited}
          files: [issm0, rdma_cm, umad0, uverbs0]
          problem: null
          results: [{output: "...", status: 0, timed_out: false, timeout: 120, repeated: false, problem: null}]
"""

import signal
import typing as t
import uuid

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS, Kube
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    INVENTORY_LABEL,
    MANAGED_BY,
    TRAFFIC_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import Wish, checked, in_words, not_done
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods_run import (
    Api,
    clear,
    measure_rounds,
    remove_leftovers,
)

Json = t.Dict[str, t.Any]


SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def interrupted(number: int, _frame: t.Any) -> None:
    # once: what is done for it is not interrupted again, by none of them
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt(f"ended by signal {number}")


def left(api: Api) -> str:
    return f"Pods of this run may be left, the next one removes them: {api.left}" if api.left else ""


def measure(module: AnsibleModule, wish: Wish, owner: dict[str, str], rounds: list[list[Json]]) -> Json:
    params = module.params
    try:
        kube = Kube(params["kubeconfig"], params["context"])
        for warning in kube.warnings:
            module.warn(warning)
        api = Api(kube, wish.namespace, owner, TRAFFIC_LABEL, wish.run)
        removed = remove_leftovers(api)
    except FabricError as exc:
        return {"changed": False, "removed": [], "results": not_done(rounds, wish, str(exc))}
    try:
        results = measure_rounds(api, wish, rounds)
    except KeyboardInterrupt as exc:
        # once more: it may have come while they were removed
        clear(api)
        raise KeyboardInterrupt(f"{exc}; {left(api) or 'its Pods are removed'}") from exc
    if api.left:
        module.warn(left(api))
    return {"changed": bool(removed), "removed": removed, "results": results}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
            "rounds": {"type": "list", "elements": "list", "required": True},
            "image": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "default"},
            "host_network": {"type": "bool", "default": True},
            "user": {"type": "int", "default": 1000},
            "node_names": {"type": "dict", "default": {}},
            "inventory": {"type": "str", "default": "default"},
            "timeout": {"type": "int", "default": 120},
            "first_port": {"type": "int", "default": 18515},
        },
        supports_check_mode=True,
    )
    params, run = module.params, uuid.uuid4().hex[:8]
    owner = {"app.kubernetes.io/managed-by": MANAGED_BY, INVENTORY_LABEL: params["inventory"]}
    given = {key: params[key] for key in ("image", "namespace", "host_network", "user", "timeout", "first_port")}
    try:
        wish = Wish(**given, labels={**owner, TRAFFIC_LABEL: run}, run=run)
        rounds = [[checked(pair, params["node_names"]) for pair in pairs] for pairs in params["rounds"]]
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    if module.check_mode:
        module.exit_json(changed=False, msg=in_words(rounds), image=wish.image, removed=[], results=[])
    for number in SIGNALS:
        signal.signal(number, interrupted)
    try:
        outcome = measure(module, wish, owner, rounds)
    except KeyboardInterrupt as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(image=wish.image, **outcome)


if __name__ == "__main__":
    main()
