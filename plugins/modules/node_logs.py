#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_logs
short_description: Read the last lines of a node's journal
version_added: "0.1.0"
description:
  - Reads the last lines of the kernel's log and of some services, as C(journalctl) gives them, of at most 256 KiB each.
  - What cannot be read is named in RV(unread), and is not a failure.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
options:
  units:
    description: Services. One that the node does not have has no lines.
    type: list
    elements: str
    default: [containerd, kubelet, k3s, k3s-agent, rke2-server, rke2-agent, iscsid]
  kernel:
    description: Whether the kernel's log of the current boot is read.
    type: bool
    default: true
  lines:
    description: How many of the last lines of each are read.
    type: int
    default: 2000
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Read the journal of containerd and of the kernel
  fabric.rdma.node_logs:
    units: [containerd]
    lines: 100
  become: true
  register: journal
"""

RETURN = r"""
logs:
  description: Text by service. That of the kernel is C(kernel). What has no lines is not there.
  returned: success
  type: dict
  sample: {containerd: "2026-11-20T08:15:00+0000 gpu-1 containerd[871]: containerd successfully booted in 0.04s"}
unread:
  description: Sentences on what could not be read.
  returned: success
  type: list
  elements: str
  sample: ["journalctl is not installed"]
"""

import re

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.programs import run_program

_MOST = 256 * 1024
_UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.@\\-]{0,250}")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "units": {
                "type": "list",
                "elements": "str",
                "default": ["containerd", "kubelet", "k3s", "k3s-agent", "rke2-server", "rke2-agent", "iscsid"],
            },
            "kernel": {"type": "bool", "default": True},
            "lines": {"type": "int", "default": 2000},
        },
        supports_check_mode=True,
    )
    params = module.params
    wrong = [name for name in params["units"] if not _UNIT.fullmatch(name)]
    if wrong:
        module.fail_json(msg=f"units has '{wrong[0]}', which is not a name of a service")
    logs, unread = {}, []
    program = module.get_bin_path("journalctl")
    if program is None:
        unread.append("journalctl is not installed")
    asked = [(name, ["-u", name]) for name in params["units"]] + ([("kernel", ["-k"])] if params["kernel"] else [])
    for name, which in asked if program else []:
        command = [program, "--no-pager", "--quiet", "-o", "short-iso", "-n", str(max(params["lines"], 1)), *which]
        try:
            status, out, err = run_program(command, errors="replace")
        except OSError as exc:
            status, out, err = 126, "", f"{program}: {exc.strerror}"
        if status != 0:
            unread.append(f"{name}: {' '.join(err.split())[:300] or 'journalctl failed'}")
        elif out.strip() and "-- No entries --" not in out[:200]:
            logs[name] = out[-_MOST:]
    module.exit_json(changed=False, logs=logs, unread=unread)


if __name__ == "__main__":
    main()
