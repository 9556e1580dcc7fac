#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_module
short_description: Load a kernel module now and at boot, and say why when it does not load
version_added: "0.1.0"
description:
  - Loads a module with C(modprobe), and has C(systemd-modules-load) load it at every boot.
  - Reads what the kernel logs meanwhile. The error number of C(modprobe) has several causes, and only the log tells which.
  - Explains the failures of C(nvidia_peermem) by cause, with what to do.
  - Fails when C(modprobe) ends well and the module is not there, as with a line C(install NAME /bin/true) of C(modprobe.d).
  - Warns when a blacklist keeps C(systemd-modules-load) from it at boot, as it does not keep C(modprobe) from it now.
  - Never unloads a module. Nothing is written for boot when the module does not load now.
extends_documentation_fragment:
  - fabric.rdma.attributes.full
attributes:
  check_mode:
    details:
      - Whether the module would load is not tried.
options:
  name:
    description: The module. Dashes and underscores are the same.
    type: str
    required: true
  persistent:
    description:
      - Whether it is loaded at boot. A file of C(modules-load.d) that names it already is left as it is.
      - Otherwise C(/etc/modules-load.d/NAME.conf) gets it. What that file already loads stays, even if somebody else made it.
      - When V(false), nothing is done about boot.
    type: bool
    default: true
  after:
    description: Modules that are loaded before it at boot, in this order. They stand before it in the same file.
    type: list
    elements: str
    default: []
  backup:
    description: Keep the old file for boot beside the new one, under a name with the time.
    type: bool
    default: true
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Let HCAs reach the memory of GPUs
  fabric.rdma.kernel_module:
    name: nvidia-peermem
    after: [mlx5_ib, nvidia]
"""

RETURN = r"""
loaded:
  description: Whether this run loaded the module, or would load it in check mode.
  returned: success
  type: bool
  sample: true
path:
  description: The file that this run wrote for boot, or would write in check mode. Null when none.
  returned: success
  type: str
  sample: /etc/modules-load.d/nvidia-peermem.conf
backup_file:
  description: The old file for boot.
  returned: O(backup=true) and the file was replaced
  type: str
  sample: /etc/modules-load.d/nvidia-peermem.conf.1234.2026-11-21@05:30:00~
log:
  description: What the kernel logged while the module was loaded.
  returned: success and failure
  type: list
  elements: str
  sample: ["nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)"]
cause:
  description: Why the module does not load.
  returned: failure of nvidia_peermem, and of any module that modprobe passes over
  type: str
  sample: it was built without peer memory
remedy:
  description: What to do about it.
  returned: failure of nvidia_peermem, and of any module that modprobe passes over
  type: str
  sample: rebuild the NVIDIA driver against the OFED that is there now
"""

import os
import re
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import content_difference, difference
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import back_up, make_directories, read, replace
from ansible_collections.fabric.rdma.plugins.module_utils._base.programs import run_program
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import DirectoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.kernel_log import lines_since, open_at_end
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.modprobe import (
    is_blacklisted,
    load_failure,
    passed_over,
    shown_module,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.modules_load import (
    due,
    hidden_by,
    is_there,
    with_modules,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,55}")


def load(module: AnsibleModule, name: str) -> list[str]:
    """Loads the module; what the kernel logged. Ends the run when it does not load."""
    handle = open_at_end()
    try:
        modprobe = module.get_bin_path("modprobe", required=True)
        status, output, error = run_program([modprobe, name])
        log = [] if handle is None else lines_since(handle)
    finally:
        if handle is not None:
            os.close(handle)
    if status != 0:
        module.fail_json(**load_failure(name, os.uname().release, error or output, log))
    # another tree than before: a tree keeps in mind what it has not found
    tree = DirectoryTree("/")
    if not is_there(tree, name):
        # a line "install NAME /bin/true" of modprobe.d makes modprobe do nothing, and end well
        shown = run_program([modprobe, "--show-depends", name])[1]
        own = shown_module(shown)
        if own is None or (own and not is_there(tree, own)):
            module.fail_json(**passed_over(name, os.uname().release, shown, log))
    return log


def warn_of_blacklist(module: AnsibleModule, name: str) -> None:
    """modprobe loads by name what is blacklisted; systemd-modules-load does not (KMOD_PROBE_APPLY_BLACKLIST in its module-util.c)."""
    modprobe = module.get_bin_path("modprobe")
    if modprobe and is_blacklisted(run_program([modprobe, "--showconfig"])[1], name):
        module.warn(
            f"{name} is blacklisted in modprobe.d or on the kernel's command line: systemd-modules-load passes over it at every boot, "
            "whatever file names it. Remove that line where it is to be loaded"
        )


def persist(module: AnsibleModule, path: str, words: list[str]) -> dict[str, t.Any]:
    """Adds modules to a file for boot; what the result says of it."""
    before = read(path)
    start = next((data for data in map(read, [path, *hidden_by(path)]) if data is not None), None)
    after = with_modules(start, words)
    result: dict[str, t.Any] = {"diff": [content_difference(path, before, after)]}
    if not module.check_mode:
        make_directories(os.path.dirname(os.path.realpath(path)))
        if before is not None and module.params["backup"]:
            result["backup_file"] = back_up(path, before)
        replace(path, after, before)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "persistent": {"type": "bool", "default": True},
            "after": {"type": "list", "elements": "str", "default": []},
            "backup": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    name, after = module.params["name"], module.params["after"]
    for word in [name, *after]:
        if not NAME.fullmatch(word):
            module.fail_json(msg=f"'{word}' is not the name of a kernel module")
    wanted = due(DirectoryTree("/"), name, module.params["persistent"])
    log: list[str] = []
    if wanted.load and not module.check_mode:
        log = load(module, name)
    # also of one that is written down: a boot has passed over it where it is to be loaded now
    if module.params["persistent"] and (wanted.load or wanted.path is not None):
        warn_of_blacklist(module, name)
    result: dict[str, t.Any] = {
        "changed": wanted.load or wanted.path is not None,
        "loaded": wanted.load,
        "path": wanted.path,
        "log": log,
    }
    loaded = difference("modules of the kernel", "", name.replace("-", "_") + "\n")
    differences = [loaded] if wanted.load else []
    if wanted.path is not None:
        try:
            result.update(persist(module, wanted.path, [*after, name]))
        except OSError as exc:
            module.fail_json(msg=f"{exc.filename or wanted.path} cannot be written: {exc.strerror}", log=log)
    differences += result.pop("diff", [])
    if differences:
        result["diff"] = differences
    module.exit_json(**result)


if __name__ == "__main__":
    main()
