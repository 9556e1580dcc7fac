#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: iscsi_initiator
short_description: Give a host an iSCSI initiator name that no other host has
version_added: "0.1.0"
description:
  - Keeps the name in C(/etc/iscsi/initiatorname.iscsi) when it is there and nobody else's. Makes a new one when the file is
    missing, has no name, orders one with C(GenerateName=yes), or has a name out of O(taken), as cloned images have.
  - Refuses to change the name while an iSCSI session is open, because iscsid could not restore that session under another name.
  - Restarts nothing. iscsid reads the file when it starts.
extends_documentation_fragment:
  - fabric.rdma.attributes.full
attributes:
  check_mode:
    details:
      - A name that would be made is not known before. The diff and RV(name) then show its prefix only.
options:
  name:
    description:
      - The name that the host should have, such as V(iqn.2016-04.com.open-iscsi:4f1c5a7d90e2).
      - It is written in lower case. One that is in O(taken) is refused.
      - Without it, a good name is kept and a missing one made.
    type: str
  taken:
    description: Names that other hosts have. The host gets a new name when it has one of these.
    type: list
    elements: str
    default: []
  prefix:
    description: What a new name starts with. A colon and twelve random hexadecimal digits follow.
    type: str
    default: iqn.2016-04.com.open-iscsi
  path:
    description: The file.
    type: path
    default: /etc/iscsi/initiatorname.iscsi
  sessions:
    description: The directory in which the kernel shows the open sessions.
    type: path
    default: /sys/class/iscsi_session
  note:
    description:
      - A file that is written before the name changes. It says that iscsid, which reads the name when it starts, has to be restarted;
        remove it once it has been.
      - C(/run/fabric.rdma/iscsid.restart) is what M(fabric.rdma.ib_facts) looks for.
    type: path
  backup:
    description: Keep the old file beside the new one, under a name with the time.
    type: bool
    default: true
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Make sure that the host has a name
  fabric.rdma.iscsi_initiator:

- name: Give a cloned host a name of its own
  fabric.rdma.iscsi_initiator:
    taken: [iqn.1993-08.org.debian:01:a1b2c3d4e5f6]
    prefix: iqn.1993-08.org.debian:01
"""

RETURN = r"""
name:
  description: The name of the host from now on. In check mode, the prefix of a name that would be made.
  returned: success
  type: str
  sample: iqn.2016-04.com.open-iscsi:4f1c5a7d90e2
previous:
  description: The name before, V(null) when there was none.
  returned: success
  type: str
  sample: iqn.2016-04.com.open-iscsi:000000000001
reason:
  description: Why the name was changed, in words. V(null) when it was not.
  returned: success
  type: str
  sample: another host has this name, too
backup_file:
  description: The old file.
  returned: O(backup=true) and the file was replaced
  type: str
  sample: /etc/iscsi/initiatorname.iscsi.1234.2026-11-21@05:30:00~
"""

import os
import secrets
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import difference
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import back_up, make_directories, read, replace
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import DirectoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.iscsi import (
    INITIATOR_FILE,
    SESSIONS,
    open_sessions,
    parse_initiator,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.initiator_name import (
    check_name,
    insist_on_no_session,
    new_name,
    reason_to_rename,
    rewrite,
)


def run(module: AnsibleModule) -> dict[str, t.Any]:
    path, taken, prefix = module.params["path"], module.params["taken"], module.params["prefix"]
    wanted = None if module.params["name"] is None else check_name(module.params["name"])
    before = read(path)
    # as it is: line ends are those of iscsid, and what is not UTF-8 stays what it is
    text = None if before is None else before.decode("utf-8", "surrogateescape")
    current = parse_initiator(text or "")
    previous = current.name
    reason = reason_to_rename(text, wanted, taken)
    result: dict[str, t.Any] = {"changed": False, "name": previous, "previous": previous, "reason": reason}
    if reason is None:
        return result
    name = wanted or new_name(prefix, [*taken, previous or ""], lambda: secrets.token_hex(6))
    shown = wanted or (prefix if module.check_mode else name)
    # one that would be made differs from an old one that is the prefix alone
    told = f"{prefix}:..." if module.check_mode and not wanted else shown
    insist_on_no_session(open_sessions(DirectoryTree("/"), module.params["sessions"]), path, reason)
    result.update(
        changed=True,
        name=shown,
        diff=difference(
            path,
            ("GenerateName=yes\n" if current.generate else "") + (f"InitiatorName={previous}\n" if previous else ""),
            f"InitiatorName={told}\n",
        ),
    )
    if not module.check_mode:
        if before is not None and module.params["backup"]:
            result["backup_file"] = back_up(path, before)
        if module.params["note"]:
            # before the name: whoever ends between the two restarts a daemon for nothing at worst
            make_directories(os.path.dirname(module.params["note"]))
            replace(module.params["note"], b"iscsid has to be restarted\n", read(module.params["note"]), mode=0o644)
        make_directories(os.path.dirname(os.path.realpath(path)))
        replace(path, rewrite(text, name).encode("utf-8", "surrogateescape"), before, mode=0o600)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str"},
            "taken": {"type": "list", "elements": "str", "default": []},
            "prefix": {"type": "str", "default": "iqn.2016-04.com.open-iscsi"},
            "path": {"type": "path", "default": INITIATOR_FILE},
            "sessions": {"type": "path", "default": SESSIONS},
            "note": {"type": "path"},
            "backup": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        result = run(module)
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or module.params['path']}: {exc.strerror}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
