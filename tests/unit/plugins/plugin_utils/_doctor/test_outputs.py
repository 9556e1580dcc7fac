# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What programs print is told by its look, and logs are not taken for it."""

from __future__ import annotations

import time

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.outputs import printed_by

PRINTED = {
    "ibstat": "CA 'mlx5_0'\n\tCA type: MT4123\n\tNumber of ports: 1\n",
    "ibstatus": "Infiniband device 'mlx5_0' port 1 status:\n\tdefault gid:\t fe80::1\n",
    "ibv_devinfo": "hca_id:\tmlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n",
    "rdma link": "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth2\n",
    "ibdev2netdev": "mlx5_0 port 1 ==> ib0 (Up)\n",
    "nvidia-smi": "Tue Jan  6\n+-----+\n| NVIDIA-SMI 580.95   Driver Version: 580.95 |\n",
    "nvidia-smi topo": "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\tPXB\t0-31\t0\n",
    "mlxlink": "\nOperational Info\n----------------\nState                              : Active\n",
    "mst status": "MST modules:\n------------\n    MST PCI module is not loaded\n",
    "mlxconfig": "\nDevice #\x31:\n----------\n\nDevice type:        ConnectX7\n",
    "mlxcables": "Querying Cables ....\n\nCable #\x31:\n---------\nCable name    : mt4123_pciconf0_cable_0\n",
    "ofed_info": "MLNX_OFED_LINUX-24.10-1.1.4.0:\n",
    "smpquery": "# Node info: DR path slid 65535; dlid 65535; 0\nBaseVers:........................1\n",
    "lspci": "3b:00.0 Infiniband controller: Mellanox Technologies MT28908 Family [ConnectX-6]\n",
    "ip address": "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN\n",
    "kubectl get": "NAMESPACE   NAME    READY   STATUS    RESTARTS   AGE\nrdma        ds-1    1/1     Running   0          2d\n",
    "kubectl describe": "Name:               gpu-1\nRoles:              <none>\nLabels:             a=b\n",
    "NCCL": '<system version="1">\n  <cpu numaid="0">\n',
    "nvbandwidth": "nvbandwidth Version: v0.8\nBuilt from Git version: v0.8\n",
}


@pytest.mark.parametrize("program", PRINTED)
def test_the_missing_program_is_named_and_what_to_set_instead(program: str) -> None:
    # as in a terminal, below its command
    for text in (PRINTED[program], f"root@gpu-1:~# it\n{PRINTED[program]}"):
        assert printed_by(text).startswith(f"no rule reads what {program}")
        assert "fabric.rdma." in printed_by(text) or "kubectl get -o json" in printed_by(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12:34.5 bridge is up\n",
        "[    5.1] mlx5_core 0000:3b:00.0: firmware version: 20.31.1014\n",
        'Jan 06 08:00:00 gpu-1 containerd[1]: level=info msg="link mlx5_0/1 state"\n',
        "gpu-1:7:7 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:192.0.2.1<0>\n",
        " Port number 1 state is Down\n",
        "                    RDMA_Write BW Test\n Dual-port       : OFF\t\tDevice         : mlx5_0\n",
        "Name: train\n",
    ],
)
def test_a_log_is_a_log(text: str) -> None:
    assert printed_by(text) == ""


def test_any_text_is_looked_at_in_a_moment() -> None:
    start = time.monotonic()
    for text in ("=" * 10**6, "Name: " + " " * 10**6, "1" * 10**6, "CA '" * 10**6, "GPU0 GPU1 " * 10**6, "\n" * 10**6):
        assert printed_by(text) == ""
    assert time.monotonic() - start < limit(10)
