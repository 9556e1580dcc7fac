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
  - First a Pod on each of O(looks), for each of O(users), reports its user, limits and device files.
  - Makes two Pods for each pair of nodes, one for the server and one for the client of perftest. Each asks for the RDMA resource, has
    no privilege, and is placed on its node by the scheduler.
  - Each Pod reports its user, its limit of locked memory and the files in C(/dev/infiniband), then one test after the other is measured.
  - Pairs of a round run at the same time. They must not share a node.
  - Implausible figures (infinite, not a number, zero, negative, above 10 Tb/s) are what a busy machine prints. They are measured once more.
  - Needs the rights to create, get, list and delete C(pods), and to get C(pods/log), in the namespace.
extends_documentation_fragment:
  - fabric.rdma.attributes.traffic
  - fabric.rdma.kubernetes
  - fabric.rdma.kubernetes.traffic
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
  looks:
    description:
      - Hosts on which a Pod for each of O(users) tells its limits, files and what the image lacks. The C(looks) of
        P(fabric.rdma.rdma_pairs#filter).
    type: list
    elements: dict
    default: []
  programs:
    description: Programs that the image has to have, for O(looks).
    type: list
    elements: str
    default: [ib_write_bw, ib_write_lat]
  users:
    description: User IDs. Traffic is measured as the first. An ordinary one proves that locked memory needs no privilege.
    type: list
    elements: int
    default: [1000, 0]
  memory:
    description:
      - Limit of memory of each Pod, such as V(2Gi), for a namespace that requires one. By default there is none.
      - Locked memory counts towards it. A limit that is lower than what the tests of O(rounds) lock is refused.
    type: str
    default: ""
  ipc_lock:
    description: Whether Pods have the capability C(IPC_LOCK), with which root may lock memory beyond the limit.
    type: bool
    default: false
  networks:
    description:
      - Secondary networks, each as C(namespace/name) of a NetworkAttachmentDefinition. The client of each pair pings its server over each
        of them in place of perftest.
      - These Pods run as root with C(NET_RAW), whatever O(users) says, and O(image) needs C(ping).
    type: list
    elements: str
    default: []
  given_up:
    description:
      - RV(given_up) of an earlier call, hosts on which no Pod starts. They are not measured again; their results have the reason.
    type: dict
    default: {}
  node_names:
    description: Names of nodes that differ from their host's, by host.
    type: dict
    default: {}
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
given_up:
  description:
    - Those of O(given_up), and the hosts on which a Pod has not started in time, each with a C(cause) and a C(remedy). A node that is off
      costs one wait, and not one in each round. Where a Pod had no place, C(resources) has what it asked for; another one that does
      without some of them is tried.
  returned: success
  type: dict
  sample: {}
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
looks:
  description:
    - One for each host of O(looks) and each of O(users), with C(host), C(as_user), C(pod), C(user), C(memlock), C(ipc_lock) (whether it has
      that capability), C(memory) (limit in bytes, or null), C(files), C(hcas) (the HCA of each file), C(lacks) (programs that are missing
      in the image), and C(problem).
  returned: success
  type: list
  elements: dict
  sample: []
memory_bytes:
  description: The limit of memory that was asked for, null for none.
  returned: success
  type: int
  sample: 2147483648
pings:
  description:
    - One for each pair and each of O(networks), with C(client), C(server), C(network), C(address), C(sent), C(received), C(rtt_us) (null, or with
      C(min), C(average) and C(max)) and C(problem).
  returned: success
  type: list
  elements: dict
  sample: []
results:
  description:
    - One list for each round, with one item for each pair, which has the Pods C(client) and C(server). Empty in check mode, and with O(networks).
    - Each has C(pod) (its name), C(user), C(memlock) with C(soft) and C(hard) (C(unlimited), or KiB), C(ipc_lock), C(memory), C(files) of
      C(/dev/infiniband), C(hcas), C(lacks), C(problem) (null, or with a C(cause) and a C(remedy)) and C(results), one for each test.
    - A result of a test has C(output), C(status), C(timed_out), C(timeout), whether it was C(repeated), and C(problem).
  returned: success
  type: list
  elements: list
  sample:
    - - client:
          pod: fabric-rdma-verify-1f2e3d4c-0-client
          user: 1000
          memlock: {soft: unlimited, hard: unlimited}
          ipc_lock: false
          memory: null
          files: [issm0, rdma_cm, umad0, uverbs0]
          hcas: {issm0: mlx5_0, umad0: mlx5_0, uverbs0: mlx5_0}
          lacks: []
          problem: null
          results: [{output: "...", status: 0, timed_out: false, timeout: 120, repeated: false, problem: null}]
"""

import typing as t
import uuid

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import CONNECTION_OPTIONS
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import connected
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    INVENTORY_LABEL,
    MANAGED_BY,
    TRAFFIC_LABEL,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.interrupt import interrupt_on_signals, with_a_word
from ansible_collections.fabric.rdma.plugins.module_utils._verify.leftovers import removal
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods import (
    Wish,
    bytes_of,
    checked,
    checked_look,
    first_user,
    in_words,
    insist_on_memory,
    look_words,
)
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods_look import look_at, ping_rounds, unanswered
from ansible_collections.fabric.rdma.plugins.module_utils._verify.pods_run import (
    Api,
    clear,
    measure_rounds,
    remove_leftovers,
)

Json = t.Dict[str, t.Any]


def left(api: Api) -> str:
    return f"Pods of this run may be left, the next one removes them: {api.left}" if api.left else ""


def done(wish: Wish, api: Api, params: Json, rounds: list[list[Json]], looks: list[Json]) -> Json:
    """What Pods say: first what they are given, then what they measure, or whom they reach."""
    gone: dict[str, Json] = params["given_up"]
    looked = look_at(api, wish, looks, params["users"], params["programs"], gone) if looks else []
    if wish.networks:
        return {"looks": looked, "pings": ping_rounds(api, wish, rounds, gone), "results": []}
    return {"looks": looked, "pings": [], "results": measure_rounds(api, wish, rounds, gone)}


def measure(
    module: AnsibleModule, wish: Wish, owner: dict[str, str], rounds: list[list[Json]], looks: list[Json]
) -> Json:
    params = module.params
    try:
        kube = connected(module)
        api = Api(kube, wish.namespace, owner, TRAFFIC_LABEL, wish.run)
        removed = remove_leftovers(api)
    except FabricError as exc:
        return {"changed": False, "removed": [], **unanswered(rounds, looks, params["users"], wish, str(exc))}
    try:
        outcome = done(wish, api, params, rounds, looks)
    except KeyboardInterrupt as exc:
        # once more: it may have come while they were removed
        clear(api)
        raise KeyboardInterrupt(f"{exc}; {left(api) or 'its Pods are removed'}") from exc
    if api.left:
        module.warn(left(api))
    return {**removal(removed), **outcome}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **CONNECTION_OPTIONS,
            "rounds": {"type": "list", "elements": "list", "required": True},
            "image": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "default"},
            "host_network": {"type": "bool", "default": True},
            "looks": {"type": "list", "elements": "dict", "default": []},
            "programs": {"type": "list", "elements": "str", "default": ["ib_write_bw", "ib_write_lat"]},
            "users": {"type": "list", "elements": "int", "default": [1000, 0]},
            "memory": {"type": "str", "default": ""},
            "ipc_lock": {"type": "bool", "default": False},
            "networks": {"type": "list", "elements": "str", "default": []},
            "given_up": {"type": "dict", "default": {}},
            "node_names": {"type": "dict", "default": {}},
            "inventory": {"type": "str", "default": "default"},
            "timeout": {"type": "int", "default": 120},
            "first_port": {"type": "int", "default": 18515},
        },
        supports_check_mode=True,
    )
    with_a_word(act, module)


def act(module: AnsibleModule) -> None:
    params, run = module.params, uuid.uuid4().hex[:8]
    owner = {"app.kubernetes.io/managed-by": MANAGED_BY, INVENTORY_LABEL: params["inventory"]}
    given = {key: params[key] for key in ("image", "namespace", "host_network", "ipc_lock", "timeout", "first_port")}
    try:
        given.update(memory=bytes_of(params["memory"]), networks=tuple(params["networks"]))
        wish = Wish(**given, user=first_user(params["users"]), labels={**owner, TRAFFIC_LABEL: run}, run=run)
        rounds = [[checked(pair, params["node_names"]) for pair in pairs] for pairs in params["rounds"]]
        looks = [checked_look(look, params["node_names"]) for look in params["looks"]]
        look_words(params["programs"])
        insist_on_memory(wish, rounds)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    params["given_up"] = {host: dict(why) for host, why in params["given_up"].items() if isinstance(why, dict)}
    same = {"image": wish.image, "memory_bytes": wish.memory, "given_up": params["given_up"]}
    if module.check_mode:
        none: Json = {"removed": [], "results": [], "looks": [], "pings": []}
        hosts = ", ".join(look["host"] for look in looks[:20]) + (" and others" if looks[20:] else "")
        words = f"Pods on {hosts} would be looked at" if looks and not rounds else in_words(rounds, wish.networks)
        module.exit_json(changed=False, msg=words, **same, **none)
    interrupt_on_signals()
    module.exit_json(**same, **measure(module, wish, owner, rounds, looks))


if __name__ == "__main__":
    main()
