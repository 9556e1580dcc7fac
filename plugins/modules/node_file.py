#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_file
short_description: Write a file of a node as a whole or not at all
version_added: "0.1.0"
description:
  - Writes a text to a file the way all modules of this collection do. The new file is on the disk before it takes the place of the old one,
    and a full disk leaves the old one as it is.
  - A symbolic link stays one, and the file that it leads to is replaced. Owner, mode, access list and label of an old file stay.
  - What somebody else writes to the file while this module runs is not overwritten; the module fails.
  - Directories that are missing are made, with the mode V(0755).
extends_documentation_fragment:
  - fabric.rdma.attributes.full
options:
  path:
    description: The file.
    type: path
    required: true
  content:
    description: All of its text.
    type: str
    required: true
  mode:
    description: The mode of a new file, as an octal number. An old one keeps its own, less what O(private=true) takes.
    type: str
    default: "0644"
  private:
    description: Take from everybody but the owner what they may do with the file, also with one that is there.
    type: bool
    default: false
  backup:
    description: Keep the old file beside the new one, under a name with the time.
    type: bool
    default: true
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Keep multipathd away from volumes
  fabric.rdma.node_file:
    path: /etc/multipath/conf.d/volumes.conf
    content: |
      blacklist {
          device {
              vendor "IET"
          }
      }
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /etc/multipath/conf.d/volumes.conf
backup_file:
  description: The old file.
  returned: O(backup=true) and the file was replaced
  type: str
  sample: /etc/multipath/conf.d/volumes.conf.1234.2026-11-21@05:30:00~
"""

import os
import re
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.files import back_up, make_directories, read, replace


def write(module: AnsibleModule, path: str, data: bytes, before: t.Optional[bytes], mode: int) -> t.Optional[str]:
    """Writes it; the copy of the old one, None without one."""
    real = os.path.realpath(path)
    make_directories(os.path.dirname(real))
    exactly = None
    if before is not None and module.params["private"]:
        status = os.stat(real)
        exactly = (status.st_mode & 0o700, (status.st_uid, status.st_gid))
    kept = back_up(path, before) if before is not None and before != data and module.params["backup"] else None
    replace(path, data, before, mode=mode, exactly=exactly)
    return kept


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "content": {"type": "str", "required": True},
            "mode": {"type": "str", "default": "0644"},
            "private": {"type": "bool", "default": False},
            "backup": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    path, data = params["path"], params["content"].encode("utf-8", "surrogateescape")
    if not re.fullmatch("0?[0-7]{3}", params["mode"]):
        module.fail_json(msg=f"mode is '{params['mode']}'; expected an octal number of three digits, such as 0644")
    mode = int(params["mode"], 8) & (0o700 if params["private"] else 0o777)
    result: dict[str, t.Any] = {"changed": False, "path": path}
    try:
        before = read(path)
        open_to_others = params["private"] and before is not None and os.stat(path).st_mode & 0o077 != 0
        result["changed"] = before != data or open_to_others
        if result["changed"] and not module.check_mode:
            kept = write(module, path, data, before, mode)
            result.update({"backup_file": kept} if kept else {})
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or path}: {exc.strerror}")
    if result["changed"]:
        texts = [(text or b"").decode("utf-8", "replace") for text in (before, data)]
        result["diff"] = {"before_header": path, "after_header": path, "before": texts[0], "after": texts[1]}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
