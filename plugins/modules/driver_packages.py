#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_packages
short_description: Put the packages of a node back as they were before a change of the driver
version_added: "0.1.0"
description:
  - Remembers what a change does to packages, to holds, and to the files that name repositories and pins, and undoes exactly
    that, by version. What others change before, after or since is left alone, and what their packages need stays.
  - So do packages that others install while the change goes on. Those of the RDMA stack, those of O(packages) and what these need are the
    change's, unless apt has it that somebody asked for one by name. Sources, pins and holds that others write meanwhile stay as well.
  - The record is kept in C(/var/lib/fabric.rdma) until the change is undone or forgotten, so that a later run can undo it, or the rest of
    it if this one could not.
  - Knows apt, dnf and zypper. With dnf, holds are the file of C(versionlock), with zypper its locks.
extends_documentation_fragment:
  - fabric.rdma.attributes.full
attributes:
  check_mode:
    details:
      - Nothing is remembered or forgotten then, and O(state=checked) does not refresh the lists of the repositories.
  idempotent:
    details:
      - A change of packages, holds and files is reported, and what dpkg ends. What is remembered or forgotten is not.
options:
  state:
    description:
      - V(checked) lists the packages of the RDMA stack that could not be restored, since no repository has their version. If a change
        is on record, these are the packages from before it.
      - Set V(opened) right before a change, and V(closed) right after it. There may be several changes.
      - V(restored) puts back what was there before the first of them.
      - V(forgotten) ends it, when the driver is proved.
      - V(settled) lets dpkg finish what a power loss interrupted. Until then, apt installs nothing, whatever it was asked for. It
        makes C(/var/lib/apt/lists) where an image lacks it, which Ansible's modules before ansible-core 2.21 take for locked.
        V(opened) and V(restored) do that, too.
    type: str
    choices: [checked, opened, closed, restored, forgotten, settled]
    required: true
  packages:
    description:
      - With O(state=opened), packages that the change asks for by name. A version after C(=) is ignored.
    type: list
    elements: str
    default: []
  manager:
    description: Package manager of the node. By default the one that is there.
    type: str
    choices: [apt, dnf, zypper]
  lock_timeout:
    description: Seconds to wait for another user of apt.
    type: int
    default: 300
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Record what is installed
  fabric.rdma.driver_packages:
    state: opened

- name: Put it back
  fabric.rdma.driver_packages:
    state: restored
  register: restored
"""

RETURN = r"""
no_way_back:
  description: >-
    Installed packages of the RDMA stack, with their versions, that no repository of the node has. If the lists of its repositories cannot be
    refreshed, an entry says so, since it is then unknown what they still have.
  returned: O(state=checked)
  type: list
  elements: str
  sample: [rdma-core 44.0-2]
found:
  description: Whether anything was remembered before.
  returned: unless O(state=checked) or O(state=settled)
  type: bool
restored:
  description: What is as it was before, in words.
  returned: O(state=restored)
  type: list
  elements: str
  sample: [doca-ofed is out, rdma-core is 44.0-2]
left:
  description: What is not as it was before, and why.
  returned: O(state=restored)
  type: list
  elements: str
  sample: ["dkms stays, since zfs-dkms needs it, which this change did not bring"]
complete:
  description: Whether all is as before, but for what others have changed or need.
  returned: O(state=restored)
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.programs import run_program
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.packages_run import (
    Manager,
    PackagesError,
    find_manager,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.packages_state import reach


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "choices": ["checked", "opened", "closed", "restored", "forgotten", "settled"],
                "required": True,
            },
            "packages": {"type": "list", "elements": "str", "default": []},
            "manager": {"type": "str", "choices": ["apt", "dnf", "zypper"]},
            "lock_timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )

    def run(command: list[str]) -> tuple[int, str, str]:
        return run_program(command, DEBIAN_FRONTEND="noninteractive", NEEDRESTART_MODE="l")

    try:
        try:
            manager = find_manager(run, module.params["lock_timeout"], module.params["manager"])
        except PackagesError:
            if module.params["state"] != "settled":
                raise
            # only dpkg leaves something to end
            manager = Manager(run, module.params["lock_timeout"])
        result = reach(manager, module.params["state"], module.check_mode, module.params["packages"])
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename}: {exc.strerror}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
