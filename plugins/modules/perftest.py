#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: perftest
short_description: Measure bandwidth and latency between the RDMA devices of two hosts
version_added: "0.1.0"
description:
  - Runs programs of perftest. One host runs this module with O(role=server), then the other with O(role=client), then the
    first again with O(role=stop).
  - Servers wait in the background, one process for each test, each on a TCP port of its own. The module returns when all listen. The kernel
    ends them after O(deadline), even if the controller never returns to stop them.
  - Implausible figures (infinite, not a number, zero, negative, above 10 Tb/s) are what a busy machine prints. They are measured once more, for which
    a second server waits for each test.
  - What cannot be measured is a result as well. The C(problem) of a result has its cause and a remedy. The module
    fails only for invalid arguments, and where servers cannot be started or stopped.
extends_documentation_fragment:
  - fabric.rdma.attributes
attributes:
  check_mode:
    support: partial
    details:
      - Measures nothing and starts nothing in check mode, says so in RV(msg), and reports no change. Values that make no sense are refused.
  diff_mode:
    support: none
    details:
      - Nothing on the node is changed but processes that come and go.
  idempotent:
    support: full
    details:
      - No role reports a change. O(role=server) starts new servers every time, which O(role=stop) ends.
options:
  role:
    description:
      - V(server) starts the servers for O(tests), and returns RV(run_dir), RV(address) and a TCP port for each test.
      - V(client) runs O(tests) one after the other against O(servers).
      - V(stop) ends the servers of O(run_dir) that still run, returns what they said, and removes the directory.
    type: str
    choices: [server, client, stop]
    required: true
  tests:
    description: The tests, in the same order on both sides. Required for V(server) and V(client).
    type: list
    elements: dict
    suboptions:
      test:
        description: Program to run.
        type: str
        choices: [ib_write_bw, ib_write_lat, ib_read_bw, ib_read_lat, ib_send_bw, ib_send_lat, ib_atomic_bw, ib_atomic_lat]
        required: true
      device:
        description: RDMA device of this host.
        type: str
        required: true
      port:
        description: Port of the device.
        type: int
        default: 1
      gid_index:
        description: Index of the GID to use. Needed for RoCE, usually left out for InfiniBand.
        type: int
      traffic_class:
        description: What the packets of RoCE carry, DSCP and ECN, as the ToS of an IPv4 packet. By default 0.
        type: int
      message_bytes:
        description:
          - Size of a message. By default 65536 for bandwidth and 2 for latency. It must be the same on both sides.
          - Atomic operations are on 8 bytes, whatever is given.
        type: int
      iterations:
        description: Number of messages.
        type: int
        default: 1000
      qps:
        description: Number of queue pairs. Tests of latency have one.
        type: int
        default: 1
      all_sizes:
        description: Measure all sizes from 2 bytes to 8 MiB instead of one. Not for atomic operations.
        type: bool
        default: false
      bidirectional:
        description: Let both sides send at the same time, the bandwidth is the sum. Only for bandwidth.
        type: bool
        default: false
      memory:
        description:
          - Where the messages are. V(cuda) is the memory of a GPU by C(nvidia_peermem), V(cuda_dmabuf) the same by DMA-BUF.
          - The last two need a perftest that was built with CUDA.
        type: str
        choices: [host, cuda, cuda_dmabuf]
        default: host
      gpu:
        description: PCI address of the GPU whose memory it is, by default the first one.
        type: str
      address:
        description: Address at which the server of this test is reached to exchange connection data, in place of O(address). The server needs the
          same one, which tells it whether to use IPv4 or IPv6.
        type: str
  servers:
    description: RV(results) of O(role=server) on the other host, one for each test. Required for V(client).
    type: list
    elements: dict
    suboptions:
      tcp_port:
        description: TCP port of the server. Without one there is no server, and the test is not run.
        type: int
      listening:
        description: Whether the server was there.
        type: bool
        default: true
      pid:
        description: Not used.
        type: int
      spare:
        description: The second server of the test, with its own C(tcp_port) and C(listening), for figures that cannot be.
        type: dict
      output:
        description: What the server said when it did not start.
        type: str
      problem:
        description: Why there is no server.
        type: dict
  address:
    description:
      - For V(server), the address to return in RV(address). By default the one that the default route uses.
      - For V(client), the RV(address) of the server, for tests that name none.
    type: str
  timeout:
    description: Seconds that a client may take for one test, and a server to listen.
    type: int
    default: 60
  deadline:
    description: Seconds after which a server is ended. By default twice O(timeout) for each test, O(timeout) once more, and two minutes.
    type: int
  first_port:
    description: First TCP port to try. Servers take the first free ones from here on.
    type: int
    default: 18515
  run_dir:
    description: RV(run_dir) of V(server). Required for V(stop).
    type: path
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Wait for a client on one host
  fabric.rdma.perftest:
    role: server
    tests: [{test: ib_write_bw, device: mlx5_0}]
  delegate_to: node1
  register: server

- name: Measure from the other
  fabric.rdma.perftest:
    role: client
    tests: [{test: ib_write_bw, device: mlx5_0}]
    servers: "{{ server.results }}"
    address: "{{ server.address }}"
  delegate_to: node2
  register: client

- name: End the server
  fabric.rdma.perftest:
    role: stop
    run_dir: "{{ server.run_dir }}"
  delegate_to: node1

- name: Show the figure
  ansible.builtin.debug:
    msg: "{{ client.results[0].bandwidth_gbps.average }} Gb/s"
  when: client.results[0].problem is none
"""

RETURN = r"""
address:
  description: Address at which clients reach this host. In check mode the one that was given, or null.
  returned: role is server, or in check mode
  type: str
  sample: 198.51.100.1
msg:
  description: Why nothing was done.
  returned: in check mode
  type: str
  sample: nothing was measured in check mode
run_dir:
  description: Private directory of the servers on the node, null when none was started.
  returned: role is server, or in check mode
  type: str
  sample: /run/fabric-rdma-perftest-x1y2z3
started:
  description: Whether all servers listen.
  returned: role is server, or in check mode
  type: bool
  sample: true
stopped:
  description: How many servers still ran.
  returned: role is stop
  type: int
  sample: 0
results:
  description:
    - One for each test. V(server) gives C(tcp_port), C(pid), C(listening), C(output), C(problem) and C(spare). V(stop) gives the C(output),
      first of all servers, then of all spare ones.
    - V(client) gives C(command), C(status), C(seconds), C(timed_out), C(output), whether it was C(repeated), and what it says. That is C(mtu_bytes),
      C(message_bytes), C(iterations), C(bandwidth_gbps) with C(peak) and C(average), C(message_rate_mpps), or C(latency_us)
      with C(min), C(max), C(typical), C(average), C(stdev), C(p99) and C(p999). With C(all_sizes) a bandwidth is of the largest size, a
      latency of the shortest, and C(sizes) has for each one its C(bytes), and C(gbps) or C(us).
    - C(senseless) is null, or has the implausible figures, as printed. The other figures are null then.
    - C(problem) is null, or has a C(cause) and a C(remedy).
  returned: success
  type: list
  elements: dict
  sample:
    - test: ib_write_bw
      status: 0
      problem: null
      bandwidth_gbps: {peak: 197.48, average: 197.44}
      message_rate_mpps: 0.376587
      latency_us: null
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._verify.measurement import check_settings, measure, serve
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import MEMORIES, PROGRAMS
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest_run import stop_servers

Json = t.Dict[str, t.Any]

TEST: Json = {
    "test": {"type": "str", "choices": list(PROGRAMS), "required": True},
    "device": {"type": "str", "required": True},
    "port": {"type": "int", "default": 1},
    "gid_index": {"type": "int"},
    "traffic_class": {"type": "int"},
    "message_bytes": {"type": "int"},
    "iterations": {"type": "int", "default": 1000},
    "qps": {"type": "int", "default": 1},
    "all_sizes": {"type": "bool", "default": False},
    "bidirectional": {"type": "bool", "default": False},
    "memory": {"type": "str", "choices": list(MEMORIES), "default": "host"},
    "gpu": {"type": "str"},
    "address": {"type": "str"},
}
SERVER: Json = {
    "tcp_port": {"type": "int"},
    "listening": {"type": "bool", "default": True},
    "spare": {"type": "dict"},
    "pid": {"type": "int"},
    "output": {"type": "str"},
    "problem": {"type": "dict"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "choices": ["server", "client", "stop"], "required": True},
            "tests": {"type": "list", "elements": "dict", "options": TEST},
            "servers": {"type": "list", "elements": "dict", "options": SERVER},
            "address": {"type": "str"},
            "timeout": {"type": "int", "default": 60},
            "deadline": {"type": "int"},
            "first_port": {"type": "int", "default": 18515},
            "run_dir": {"type": "path"},
        },
        required_if=[
            ("role", "server", ["tests"]),
            ("role", "client", ["tests", "servers"]),
        ],
        supports_check_mode=True,
    )
    params = module.params
    try:
        check_settings(params, module.check_mode)
        if module.check_mode:
            outcome: Json = {"changed": False, "msg": "nothing was measured in check mode"}
            outcome.update(results=[], run_dir=None, started=False, address=params["address"])
        elif params["role"] == "server":
            outcome = serve(params)
        elif params["role"] == "client":
            outcome = measure(params)
        else:
            outcome = stop_servers(params["run_dir"])
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"role {params['role']}: {exc}")
    module.exit_json(**outcome)


if __name__ == "__main__":
    main()
