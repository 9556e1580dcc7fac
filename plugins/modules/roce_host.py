#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: roce_host
short_description: Configure RoCE on a host
version_added: "0.1.0"
description:
  - Sets MTU, trust, PFC, ECN, ToS, ARP and C(rp_filter) of the network devices of RDMA cards, the RDMA network namespace mode and the link
    type of cards. Only settings that O(wish) names are changed. One that is taken out of it keeps its value, and is no longer set at boot.
  - Keeps them over a reboot, with a systemd unit and a file in C(/etc/fabric.rdma) for each RDMA device, a udev rule that starts the unit, a
    file of C(sysctl.d) and one of C(modprobe.d).
  - Afterwards, every port that was V(Active) has to be V(Active) again, and every value has to be what was written. If not, everything is
    restored, and the module fails.
  - What the settings were is kept in C(/var/lib/fabric.rdma/roce-change.json) until then. A run that is killed is taken up by the next one,
    and where that fails, it puts back what was before both.
  - The link type of a card is set in its firmware and takes effect with a reboot, which is announced in RV(pending). The module never
    reboots.
  - Trust and PFC are set by C(mlnx_qos), the ToS of RDMA-CM by C(cma_roce_tos), both of mlnx-tools, the link type by C(mlxconfig) or
    C(mstconfig), the network namespace mode by C(rdma). A wish that needs a missing program is refused, except that
    without C(rdma) the mode is set at the next boot, and is in RV(pending).
  - Before anything is changed, refuses an MTU for a network device that carries the default route or the connection to the host, or that is
    part of a bond or another device, and a link type for a card that carries one of the two, or while anything is mounted over RDMA.
extends_documentation_fragment:
  - fabric.rdma.attributes.full
attributes:
  check_mode:
    details:
      - What programs would say to a change is not tried.
options:
  wish:
    description:
      - The wish C(rdma_roce_host). All keys are optional.
      - C(mtu), in bytes.
      - C(trust), V(dscp) or V(pcp).
      - C(pfc) and C(ecn), each with C(priorities), a list. All other priorities are switched off.
      - C(dscp) or C(tos). The ToS of RDMA-CM, and where the driver has one, the traffic class of all packets.
      - C(multi_rail), V(true) for several network devices in one subnet. C(arp) with C(announce), C(filter), C(ignore), and C(rp_filter)
        override it.
      - C(netns), V(shared) or V(exclusive).
      - C(link_type), V(ETH) or V(IB).
      - C(persist), V(true) by default. V(false) removes what earlier runs have made for boot.
    type: dict
    required: true
  want:
    description: The wish C(rdma_want). Its C(kinds) and C(exclude) select the RDMA devices. Settings of ports also need its
      C(link_layer) to be V(Ethernet); it is V(InfiniBand) by default.
    type: dict
    default: {}
  wait_timeout:
    description: How many seconds to wait for ports to become V(Active) again.
    type: int
    default: 60
  backup:
    description:
      - Keep the old file beside a new one, under a name with the time. A file that is removed has no copy.
      - What somebody else writes to a file while this module runs is not overwritten; the module fails, and puts back what it did.
    type: bool
    default: true
  root:
    description:
      - Directory with the host's files, which are read and written below it.
      - For another root than V(/) no program is run. A wish that needs one is an error.
    type: path
    default: /
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Have jumbo frames and several rails in one subnet
  fabric.rdma.roce_host:
    wish:
      mtu: 9000
      multi_rail: true
    want:
      link_layer: Ethernet
"""

RETURN = r"""
before:
  description: The settings of the host before, as M(fabric.rdma.ib_facts) has them in C(rdma.roce).
  returned: success
  type: dict
  sample: {ports: [{device: mlx5_0, port: 1, netdev: enp11s0f0np0, mtu: 1500}]}
after:
  description: The settings afterwards. In check mode those of before.
  returned: success
  type: dict
  sample: {ports: [{device: mlx5_0, port: 1, netdev: enp11s0f0np0, mtu: 9000}]}
pending:
  description: What only takes effect with a reboot, in words. Empty if there is nothing.
  returned: success
  type: list
  elements: str
  sample: ["reboot: mlx5_0 (0000:3b:00.0) gets the link type ETH with it"]
files:
  description: Files for boot that were written or removed.
  returned: success
  type: list
  elements: str
  sample: [/etc/sysctl.d/99-fabric-rdma-roce.conf]
backup_files:
  description: The old files, by the path of the new ones.
  returned: success, when something was changed
  type: dict
  sample: {/etc/sysctl.d/99-fabric-rdma-roce.conf: "/etc/sysctl.d/99-fabric-rdma-roce.conf.1234.2026-11-21@05:30:00~"}
restored:
  description: Whether the host is as it was before the change. The message names what differs. Also V(false) while a change of an earlier run
    is not finished.
  returned: failure reported by the module itself
  type: bool
  sample: true
problems:
  description: Why it cannot be done, in words.
  returned: failure before anything was changed
  type: list
  elements: str
  sample: ["enp11s0f0np0 is a member of bond0, which gives it its MTU; set the MTU where bond0 is configured"]
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import content_difference, difference
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import read
from ansible_collections.fabric.rdma.plugins.module_utils._base.programs import run_program
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce import Plan
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce_run import Host, RoceError


def differences(plan: Plan, root: str, unfinished: bool) -> list[dict[str, str]]:
    """What is shown of a plan: all settings as one text, and each file; or that nothing but what has not finished is to be done."""
    found = []
    if plan.steps:
        was, then = (
            "".join(f"{step.target} {step.setting} {value}\n" for step, value in zip(plan.steps, values))
            for values in ([step.before for step in plan.steps], [step.after for step in plan.steps])
        )
        found.append(difference("settings", was, then))
    for path, data in plan.files.items():
        found.append(content_difference(path, read(os.path.join(root, path.lstrip("/"))), data))
    if unfinished and not found:
        found.append(difference("settings", "a change that has not finished\n", ""))
    return found


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "wish": {"type": "dict", "required": True},
            "want": {"type": "dict", "default": {}},
            "wait_timeout": {"type": "int", "default": 60},
            "backup": {"type": "bool", "default": True},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    params = module.params
    # as long as nothing is changed, and no earlier run has left half of it
    whole = False

    try:
        wait, backup = params["wait_timeout"], params["backup"]
        host = Host(params["root"], run_program, params["wish"], params["want"], wait, backup=backup)
        before = host.facts()
        whole = not before["roce"]["unfinished"]
        plan = host.plan(before)
        if plan.problems:
            module.fail_json(msg=". ".join(plan.problems), problems=plan.problems, restored=whole)
        result: dict[str, t.Any] = {
            "changed": bool(plan.steps or plan.files or before["roce"]["unfinished"]),
            "before": before["roce"],
            "after": before["roce"],
            "pending": plan.pending,
            "files": list(plan.files),
        }
        shown = differences(plan, params["root"], bool(before["roce"]["unfinished"]))
        if not module.check_mode and (result["changed"] or plan.noted):
            after, result["pending"] = host.change(before, plan)
            result["after"] = after["roce"]
            result["backup_files"] = host.backups
    except RoceError as exc:
        module.fail_json(msg=str(exc), restored=exc.whole)
    except FabricError as exc:
        module.fail_json(msg=str(exc), restored=whole)
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or params['root']}: {exc.strerror}", restored=whole)
    if shown:
        result["diff"] = shown
    module.exit_json(**result)


if __name__ == "__main__":
    main()
