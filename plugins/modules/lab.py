#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The code is in the action plugin of the same name: the lab is the controller's, and an action can tell its progress.

from __future__ import annotations

DOCUMENTATION = r"""
module: lab
short_description: Run nodes on the controller, as virtual machines with Soft-RoCE devices or as containers that boot
version_added: "0.1.0"
description:
  - Builds a disk image with the machine's own apt sources (about one minute, once), boots QEMU virtual machines from it, all at the
    same time, and waits until each can be reached with SSH and has its RDMA device C(rxe0).
  - Virtual machines use KVM where a guest really boots with it, and plain emulation elsewhere.
  - Containers (C(systemd-nspawn --boot) over the same image) are there in seconds, at native speed, and have systemd, packages, SSH and
    containerd for real. They have no RDMA device and no kernel of their own. They need root.
  - Each virtual machine has a network card C(eth0) that leads to its SSH server from a port of 127.0.0.1 and to nothing else, and a card C(eth1)
    that joins the nodes, with an address from 198.51.100.0/24. C(rxe0) is on C(eth1), and in the kernel's tree below the PCI function of
    that card, where device plugins look for HCAs. O(nodes) may wish for others. A container has C(eth1) only.
  - O(kubernetes) makes a cluster of the nodes. Its control plane runs on the controller and a kubelet on each node, all built from their
    sources once (5 to 15 minutes on two cores) and kept in O(cache_dir).
  - containerd runs on the nodes. What the roles of the collection install is not there, but a package repository inside the image has
    it, such as the user space for RDMA, iSCSI and NFS, DKMS with a compiler, and the headers of the kernel.
  - Tells its progress on standard error while it runs.
extends_documentation_fragment:
  - fabric.rdma.attributes.full
options:
  state:
    description:
      - With V(present), the nodes run as described. When a virtual machine has died, or its kernel has panicked, all of them are started
        again with the disks that they had; of containers, only those that have died. A kernel that panics before all nodes are ready is
        answered in the same way, at most twice, and RV(notes) says so.
        When the description, or the recipe of the image, is another one than the nodes were made from, they are recreated.
        Cables are plugged in and out while they run.
      - With V(absent), no node runs and what was written to O(directory) is removed.
      - With V(status), nothing is changed.
    type: str
    choices: [present, absent, status]
    default: present
  directory:
    description:
      - Where the lab keeps disks, keys, logs and its C(ssh_config). Must be empty, absent or a lab.
      - Relative to the directory in which Ansible was started.
    type: path
    required: true
  cache_dir:
    description:
      - Where built images are kept, each under a hash of all that goes into it.
      - The default is C(fabric.rdma) in E(XDG_CACHE_HOME), or in C(~/.cache).
    type: path
  nodes:
    description:
      - A number of nodes, which are then called lab1, lab2 and so on.
      - Or a list of names, or of dictionaries with C(name) and, if they differ from the others, C(memory_mib), C(cpus) and C(hcas).
      - C(hcas) is a list of one to seven RDMA devices, by default V([rxe0]). Each is a name, or a dictionary with C(name); C(rail), the number
        of the network behind it (0, which is 198.51.100.0/24, if not told otherwise; rail N is 198.18.N.0/24); C(bond), whether it is on a
        bond of two network cards; C(cable), whether the cable is plugged in, which is the default.
    type: raw
    default: 2
  engine:
    description:
      - What the nodes are. V(auto) is V(container) if that works, else V(qemu). RV(notes) says why, unless virtual machines already run.
      - Containers take no notice of memory, processors and O(accel).
    type: str
    choices: [auto, qemu, container]
    default: qemu
  memory_mib:
    description: Memory of a node in MiB. The default is 1024, and 2048 with O(kubernetes).
    type: int
  cpus:
    description: Processors of a node.
    type: int
    default: 1
  accel:
    description: V(auto) is V(kvm) if it works, else V(tcg), plain emulation.
    type: str
    choices: [auto, kvm, tcg]
    default: auto
  boot_timeout:
    description: Seconds that a node may take from its start to its first answer, 120 at most for a container, and with O(kubernetes) from then
      until it is ready.
    type: int
    default: 600
  kubernetes:
    description:
      - Whether the nodes are a Kubernetes cluster. RV(kubeconfig) leads to it. Needs virtual machines.
      - Programs in the directory that E(KUBEBUILDER_ASSETS) names, and the device plugin that E(FABRIC_RDMA_DEVICE_PLUGIN) names, are taken
        instead of being built. Without a Go on the controller that is new enough, one is got as a Python package.
      - When what these programs contain is something else than what the lab runs, nodes and control plane are recreated.
    type: bool
    default: false
  systems:
    description:
      - What of the collection's systems the cluster has the images of, beside the device plugin, for O(kubernetes).
      - V(dra) is DRANET, which is built from its sources, once (1 to 5 minutes on two cores).
      - DRANET needs a containerd with NRI, which the image of nodes lacks.
      - V(secondary_network) is Multus and Whereabouts. They are built from their sources, once (1 to 5 minutes on two cores).
    type: list
    elements: str
    choices: [dra, secondary_network]
    default: []
requirements:
  - Debian or Ubuntu on the controller, with qemu-system-x86, qemu-utils, mmdebstrap, e2fsprogs, openssh-client and, for users other than
    root, uidmap; for containers, systemd-container instead of QEMU
notes:
  - Virtual machines work without root. Building the image then needs user namespaces and a range for the user in C(/etc/subuid) and C(/etc/subgid).
  - The processes belong to the user, in the background. O(state=absent) ends them.
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Two nodes with RDMA devices
  fabric.rdma.lab:
    directory: .lab

- name: Three nodes, one of them larger
  fabric.rdma.lab:
    directory: .lab
    nodes:
      - name: lab1
        memory_mib: 2048
      - name: lab2
      - name: lab3

- name: One of two cards is cabled, on each node another one
  fabric.rdma.lab:
    directory: .lab
    nodes:
      - name: lab1
        hcas: [mlx5_0, {name: mlx5_1, cable: false}]
      - name: lab2
        hcas: [{name: mlx5_0, cable: false}, mlx5_1]

- name: A Kubernetes cluster
  fabric.rdma.lab:
    directory: .lab
    kubernetes: true

- name: Stop and remove them
  fabric.rdma.lab:
    directory: .lab
    state: absent
"""

RETURN = r"""
directory:
  description: Absolute path of the lab.
  returned: success
  type: str
  sample: /home/me/rdma/.lab
nodes:
  description: The nodes of the lab.
  returned: success
  type: list
  elements: dict
  sample:
    - name: lab1
      address: 198.51.100.1
      port: 41873
      running: true
      pid: 4711
      console: /home/me/rdma/.lab/lab1/console.log
      cables: {card1: true}
engine:
  description: What the nodes are, V(qemu) or V(container).
  returned: success, null when there is no lab
  type: str
  sample: qemu
accel:
  description: What virtual machines run with, V(kvm) or V(tcg).
  returned: success, null when there is no lab or when its nodes are containers
  type: str
  sample: tcg
image:
  description: The image under the nodes' disks.
  returned: success, null when there is no lab
  type: str
  sample: /home/me/.cache/fabric.rdma/image-87f2bb35ac8a7543
ssh_config:
  description: File for C(ssh -F), with one alias for each node.
  returned: success, null when there is no lab
  type: str
  sample: /home/me/rdma/.lab/ssh_config
kubeconfig:
  description: The administrator's way into the cluster.
  returned: success, null when the nodes are not a cluster
  type: str
  sample: /home/me/rdma/.lab/control-plane/kubeconfig
control_plane:
  description: Whether the control plane runs. Where it does not, O(state=present) starts it again, with its data.
  returned: success, null when the nodes are not a cluster
  type: bool
  sample: true
notes:
  description: What the operator may want to know, for example why KVM was not used.
  returned: success
  type: list
  elements: str
  sample: ["plain emulation: there is no /dev/kvm"]
seconds:
  description: How long the phases C(image), C(kubernetes), C(control_plane), C(boot) and C(join) took, as far as there were any.
  returned: success
  type: dict
  sample: {boot: 31.4}
"""
