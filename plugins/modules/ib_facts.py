#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: ib_facts
short_description: Gather the RDMA hardware and software that a node really has
version_added: "0.1.0"
description:
  - Reads HCAs, ports, link states, rates, netdevs, bonds, PCI addresses, NUMA nodes, GPUs, the state of the kernel modules, the
    configuration of containerd and what volumes need from C(/sys), C(/proc) and configuration files, and returns them as the
    fact C(rdma).
  - Needs no program on the node. C(ibstat), C(mst) or C(lspci) may be absent.
  - Asks a running containerd over CRI for its version and its runtime handlers, since no file tells with which configuration it
    was started. Where it does not answer and was not installed as a package, runs it with C(--version).
  - Of files that may hold credentials, such as containerd's configuration, nothing but the keys that facts are made of is used.
  - Reads an unpacked support bundle or a capture file with the same result as on the node it was taken from.
  - Missing, unreadable or vanishing files, and a kernel without RDMA, are ordinary. They give nulls, empty lists and entries
    in C(warnings), never an error.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
options:
  gather_subset:
    description:
      - What to gather. Everything by default.
      - V(devices) gives C(devices).
      - V(gpus) gives C(gpus) and C(nvidia).
      - V(health) gives C(health). Only root gets counters of the wire and cables, and only from drivers that know them.
      - V(kernel) gives C(kernel) and C(ofed).
      - V(limits) gives C(limits).
      - V(management) gives C(management).
      - V(roce) gives C(roce). Priorities with PFC, and trust on newer drivers, take C(mlnx_qos) on the node.
      - V(runtime) gives C(runtime). Most of it needs root.
      - V(storage) gives C(storage).
    type: list
    elements: str
    choices: [all, devices, gpus, health, kernel, limits, management, roce, runtime, storage]
    default: [all]
  root:
    description:
      - Where the node's files are. V(/) is the live node.
      - Any other directory is read as an unpacked capture. Symbolic links in it, even absolute ones, never lead out of it.
    type: path
    default: /
  capture:
    description:
      - A capture on the controller, in place of the node. It is a tar archive (plain or compressed), the text form, or a directory with
        an unpacked one. The user who runs Ansible reads it there, in place. Nobody connects to the host, and no module runs.
      - O(root) and O(wait_timeout) are ignored with it, and nothing is waited for. O(before) must still be facts of this host.
    type: path
    version_added: "0.1.0"
  unless:
    description:
      - Gathers nothing when this run has gathered these subsets already. C(ansible_facts) is then empty. Facts from a fact cache do not
        count, nor do those whose subset V(runtime) was gathered without root, except with O(capture).
      - The controller decides it. No module runs then.
    type: list
    elements: str
    version_added: "0.1.0"
  conclude:
    description:
      - Name of a variable that is made of the facts, for example with P(fabric.rdma.rdma_needs#filter). It is read when these are there, also
        when O(unless) has kept them from being gathered again, and its value is returned as RV(concluded). Where it has none,
        the task does not fail, and RV(inconclusive) has the reason. Only the facts of this host are sure to be there.
      - A task of its own would cost the controller as much for each host as most modules do.
    type: str
    version_added: "0.1.0"
  quiet:
    description:
      - Keeps the facts and what is concluded from them out of the output of C(-v), and out of the events of ansible-runner and AWX, of
        which they would be the larger part. Failures and warnings are shown, and with C(-vvv) all of it.
      - Where the task has C(failed_when) or C(until), nothing is kept out, since Ansible decides later what a failure is.
    type: bool
    default: false
    version_added: "0.1.0"
  before:
    description:
      - Facts C(rdma) of the node from before a change of it. An InfiniBand port only becomes Active once a subnet manager has configured
        it, and a kubelet takes its time after a boot, so the module gathers again until everything that was there is back.
      - A port that does not come back is not an error of this module. P(fabric.rdma.rdma_worse#filter) lists what was lost.
      - In check mode nothing has changed. What this run has gathered already is then not gathered again, as with O(unless).
    type: dict
    version_added: "0.1.0"
  wait_timeout:
    description: Seconds to wait for what O(before) has. In check mode nothing is waited for.
    type: int
    default: 120
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Discover what the node has
  fabric.rdma.ib_facts:

- name: Show the active ports
  ansible.builtin.debug:
    msg: "{{ item.0.name }} port {{ item.1.number }}: {{ item.1.rate_gbps }} Gb/s {{ item.1.link_layer }}"
  loop: "{{ ansible_facts['rdma'].devices | subelements('ports') }}"
  loop_control:
    label: "{{ item.0.name }}"
  when: item.1.state == 'Active'

- name: Discover what the node has, and decide what its driver needs
  fabric.rdma.ib_facts:
    conclude: driver_needs
  vars:
    driver_needs: "{{ ansible_facts['rdma'] | fabric.rdma.rdma_needs({'method': 'inbox'}) }}"
  register: looked

- name: Look at the node after a change, once its ports have come back
  fabric.rdma.ib_facts:
    before: "{{ rdma_before_the_change }}"

- name: Replay a support bundle that lies on the controller
  fabric.rdma.ib_facts:
    capture: /srv/bundles/node17.tar.gz
    gather_subset: [devices, gpus]
"""

RETURN = r"""
ansible_facts:
  description:
    - The facts, in the key C(rdma). Cacheable, sorted, without time stamps.
    - Empty where this run has gathered them before and nothing can have changed since, with O(unless), or with O(before) in check mode.
  returned: success
  type: dict
  contains:
    rdma:
      description:
        - What the node has, by subset. The file C(docs/facts.schema.json) of the collection describes every field.
      returned: success
      type: dict
      contains:
        schema:
          description: Version of the form of these facts.
          returned: success
          type: int
          sample: 1
        devices:
          description:
            - One entry for each entry of C(/sys/class/infiniband), sorted naturally.
            - C(kind) is V(pf), V(vf), V(sf), V(software) (Soft-RoCE, Soft-iWARP) or V(smi) (management only).
            - C(pci), C(vendor), C(device), C(class) and C(numa_node) are those of the PCI function that the device is at. A software
              device is at none as a rule, and has none of them.
            - C(driver) is that of the PCI function; of a software device its own, V(rdma_rxe) or V(siw).
            - C(plugin) is what the shared device plugin of Kubernetes will see of the PCI function, and why not. It sees a software
              device that is at a PCI function, and compares C(plugin.driver), the driver of that function.
          returned: subset devices
          type: list
          elements: dict
          sample:
            - name: mlx5_0
              kind: pf
              pci: "0000:3b:00.0"
              vendor: 15b3
              device: 101b
              model: ConnectX-6
              numa_node: 0
              pcie: {speed_gts: 16.0, width: 16, max_speed_gts: 16.0, max_width: 16, bridge: null}
              ports:
                - number: 1
                  link_layer: InfiniBand
                  state: Active
                  phys_state: LinkUp
                  rate_gbps: 200.0
        gpus:
          description: GPUs with their PCI address, NUMA node and the names of the nearest HCAs by PCI path.
          returned: subset gpus
          type: list
          elements: dict
          sample: [{pci: "0008:01:00.0", bridges: ["0008:00:00.0"], vendor: 10de, device: "2941", numa_node: 0, nearest: [mlx5_0, mlx5_1]}]
        nvidia:
          description:
            - The loaded driver of NVIDIA (V(open) or V(proprietary)), whether the GPU Operator has it, and whether C(ib_core)
              takes clients such as C(nvidia_peermem). Null without a GPU of NVIDIA.
          returned: subset gpus
          type: dict
          sample:
            driver: 580.95.05
            flavour: open
            operator: false
            peer_memory: {loaded: false, installed: false}
            peermem_kernels: []
        health:
          description:
            - Counters of ports and netdevs, temperatures in degrees Celsius, and the cables. A counter that the kernel does not show is
              null, which is not 0.
            - Not in C(facts.json), which is the same for the same hardware.
          returned: subset health
          type: dict
          sample:
            ports:
              - device: mlx5_0
                port: 1
                counters: {symbol_error: 0, link_downed: 1, port_rcv_errors: 0, port_xmit_wait: null}
                hw_counters: {out_of_sequence: 0, local_ack_timeout_err: 0, np_cnp_sent: null}
            netdevs:
              - netdev: enp11s0f0np0
                device: mlx5_0
                carrier_downs: 1
                statistics: {rx_crc_errors: 0, rx_dropped: 0, rx_errors: 0, tx_dropped: 0, tx_errors: 0}
                counters: {rx_prio3_pause: 17, rx_symbol_err_phy: 0}
                cable: {vendor: Mellanox, part: MCP1600-C003, serial: MT1234VS01234, length_m: 3.0}
            temperatures: [{device: mlx5_0, label: asic, celsius: 52.0, critical: 105.0}]
        kernel:
          description: Release, page size in bytes, RDMA network namespace mode and the state of the modules that matter.
          returned: subset kernel
          type: dict
          sample:
            release: 6.1.0-38-amd64
            page_size: 4096
            rdma_netns: shared
            modules: {ib_umad: {available: true, builtin: false, loaded: true, persisted: true}}
        change:
          description: A change of the node that never finished (the controller was killed, the node was lost), and its roles.
          returned: subset kernel, when there is one
          type: dict
          sample: {since: "2026-01-31T12:00:00Z", roles: [ofed]}
        ofed:
          description: Driver stack (V(inbox), V(mlnx_ofed) or V(doca)), its version, and which programs are there.
          returned: subset kernel
          type: dict
          sample: {flavour: inbox, version: null, mlx5_core: {path_kind: inbox, version: null}, tools: {ib_write_bw: true}}
        limits:
          description: Limits of the system manager, and of the session that the module runs in. C(memlock) is in bytes.
          returned: subset limits
          type: dict
          sample:
            init: {memlock: {soft: 8388608, hard: 8388608}, nofile: {soft: 1073741816, hard: 1073741816}}
            session: {memlock: {soft: 8388608, hard: 8388608}, nofile: {soft: 1024, hard: 524288}}
        bare_functions:
          description: Network functions that C(mlx5_core) drives and that have no RDMA device.
          returned: subset devices
          type: list
          elements: dict
          sample:
            - {pci: "0000:3b:00.1", vendor: 15b3, device: "1017", driver: mlx5_core, netdevs: [eth1], link_type: ether, sriov: {total: 8, vfs: 0, pf: null}}
        management:
          description:
            - How the node is reached, and what a reload of the RDMA driver would cut off.
            - C(addresses) are those of netdevs of RDMA ports and of default routes. A capture of an earlier version has none.
          returned: subset management
          type: dict
          sample: {default_route_netdevs: [bond0], rdma_backed: true, mounts_over_rdma: [], addresses: {bond0: [192.0.2.7], ib0: [198.51.100.7]}}
        roce:
          description:
            - What decides how RoCE behaves on the host. For each Ethernet port of an RDMA device its MTU, ToS, ARP and C(rp_filter)
              settings, for each of its cards trust, PFC and ECN, and the RDMA network namespace mode now and from the next boot on.
            - What neither a file nor an installed C(mlnx_qos) tells is null.
          returned: subset roce
          type: dict
          sample:
            ports:
              - device: mlx5_0
                port: 1
                netdev: enp11s0f0np0
                mtu: 9000
                ipv4: {arp_announce: 2, arp_filter: 0, arp_ignore: 1, rp_filter: 2}
                default_tos: 106
                cards: [{netdev: enp11s0f0np0, trust: dscp, pfc: [3], dcbx: os, ecn: {np: [3], rp: [3]}}]
            netns: {mode: shared, persisted: shared}
        runtime:
          description:
            - The distribution of Kubernetes, and the containerd that serves it with its version, files, runtime handlers, limits
              and rights.
            - C(handlers) is what the files say, C(running) what the daemon says. C(stale) tells whether a restart would read
              something else than what the daemon runs with.
            - C(specs) are the rlimits of the base runtime specifications by path. C(services) tells which of those that must not
              be lost run.
          returned: subset runtime
          type: dict
          sample:
            as_root: true
            distribution: kubeadm
            containerd:
              version: 1.7.24
              generation: "1.7"
              pid: 812
              unit: containerd.service
              config_path: /etc/containerd/config.toml
              config_version: 2
              files: [/etc/containerd/config.toml]
              handlers:
                runc: {base_runtime_spec: null, runtime_type: io.containerd.runc.v2, file: /etc/containerd/config.toml}
              stale: false
              daemon_rlimits: {memlock: {soft: 8388608, hard: 8388608}, nofile: {soft: 1048576, hard: 1048576}}
              kill_mode: process
            specs: {}
            services: {containerd: true, iscsid: false, kubelet: true, multipathd: false}
        storage:
          description: Programs, services, file systems and settings that iSCSI, NFS and Longhorn volumes need.
          returned: subset storage
          type: dict
          sample:
            family: debian
            tools_missing: []
            iscsi: {installed: true, service: running, initiator_name: "iqn.1993-08.org.debian:01:a1b2c3d4e5f6", sessions: []}
            nfs: {installed: true, versions: ["4.0", "4.1", "4.2"], default_version: null}
            filesystem_of: {/var/lib/longhorn: ext4}
            mount_propagation: {/var/lib/longhorn: shared}
        gathered:
          description: When the controller received the facts, in UTC by its own clock. Not in C(facts.json), which is the same for the same facts.
          returned: success
          type: str
          sample: "2026-03-01T08:15:00Z"
        gathered_of:
          description: The name that the inventory has for the host. Facts that a host has of another are refused. Not in C(facts.json).
          returned: success
          type: str
          sample: node1
        warnings:
          description: What could not be read or makes no sense, in words.
          returned: success
          type: list
          elements: str
          sample: []
concluded:
  description:
    - The value of the variable that O(conclude) names.
    - Without O(conclude), what the result C(discover_gathered) of the host has, which the role C(discover) registers. It is then of the facts
      that the host had before.
  returned: when there is one
  type: raw
  sample: {ofed: {needed: true, reasons: [ib_umad is not loaded]}}
inconclusive:
  description: Why that variable has no value.
  returned: when O(conclude) names one that has none
  type: str
  sample: "host node1: rdma_ofed must be a dictionary"
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.change import worse
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.roots import open_root
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import SUBSETS, gather
from ansible_collections.fabric.rdma.plugins.module_utils._discover.live import node_answers


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gather_subset": {"type": "list", "elements": "str", "choices": ["all", *SUBSETS], "default": ["all"]},
            "root": {"type": "path", "default": "/"},
            "capture": {"type": "path"},
            "unless": {"type": "list", "elements": "str"},
            "conclude": {"type": "str"},
            "quiet": {"type": "bool", "default": False},
            "before": {"type": "dict"},
            "wait_timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )

    if any(module.params[name] is not None for name in ("capture", "conclude", "unless")):
        module.fail_json(msg="capture, conclude and unless work only through the ib_facts action, on the controller")
    asked = module.params["gather_subset"]
    before = {} if module.check_mode else module.params["before"] or {}
    end = time.monotonic() + module.params["wait_timeout"]
    try:
        while True:
            tree = open_root(module.params["root"], node_answers())
            facts = gather(tree, SUBSETS if "all" in asked else asked)
            if not before or not worse(before, facts) or time.monotonic() >= end:
                break
            time.sleep(1)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        if not before:
            raise
        module.fail_json(msg=f"before holds no facts of this module: {exc!r}")
    module.exit_json(changed=False, ansible_facts={"rdma": facts})


if __name__ == "__main__":
    main()
