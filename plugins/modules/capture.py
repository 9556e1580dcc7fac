#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: capture
short_description: Put exactly the files that ib_facts reads into one archive
version_added: "0.1.0"
description:
  - Runs the discovery of M(fabric.rdma.ib_facts) and keeps every file, directory and symbolic link that it looks at.
  - M(fabric.rdma.ib_facts) on that archive, unpacked or not, gives the same facts as on the node. That makes an archive a
    support bundle, a test, and a host of an inventory that can be planned for without being connected to.
  - Only the lines that discovery reads are kept of the kernel's lists of modules, and of containerd's configuration, units and processes,
    since these may hold credentials.
  - What is in no file, such as the version of a running containerd, is kept as a file below C(.answers).
  - Nothing else is read, and nothing on the node is changed but O(dest).
extends_documentation_fragment:
  - fabric.rdma.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - The archive holds hundreds of files of the kernel. Its size and digest are shown.
  idempotent:
    support: full
options:
  dest:
    description:
      - File to write on the node. Its directory must exist.
      - A name that ends in C(.capture) gives the text form, one line for each file, which a person can read before sending it.
      - Any other name gives a gzip-compressed tar archive.
    type: path
    required: true
  anonymize:
    description:
      - Replace GUIDs, LIDs, MAC and IP addresses, iSCSI names, host names, and the servers, volumes and places of mounts.
      - Equal values stay equal, so that the facts keep their shape. Names of netdevs and the kernel release are kept.
    type: bool
    default: false
  root:
    description: Where the node's files are, as in M(fabric.rdma.ib_facts), or an earlier capture, such as one to anonymize.
    type: path
    default: /
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Keep what discovery sees
  fabric.rdma.capture:
    dest: /var/tmp/node17.tar.gz

- name: The same to read and to send to strangers
  fabric.rdma.capture:
    dest: /var/tmp/node17.capture
    anonymize: true
"""

RETURN = r"""
dest:
  description: The file written.
  returned: success
  type: str
  sample: /var/tmp/node17.tar.gz
entries:
  description: Number of files, directories and links in it.
  returned: success
  type: int
  sample: 412
size:
  description: Size of the archive in bytes.
  returned: success
  type: int
  sample: 28113
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import difference, summary
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import read, rehearse, replace
from ansible_collections.fabric.rdma.plugins.module_utils._base.recorder import dump_archive, dump_listing
from ansible_collections.fabric.rdma.plugins.module_utils._discover.anonymize import anonymize
from ansible_collections.fabric.rdma.plugins.module_utils._discover.live import node_answers
from ansible_collections.fabric.rdma.plugins.module_utils._discover.record import record


def read_or_none(path: str) -> t.Optional[bytes]:
    return read(path, None)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "dest": {"type": "path", "required": True},
            "anonymize": {"type": "bool", "default": False},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )

    dest = module.params["dest"]
    try:
        entries = record(open_tree(module.params["root"], node_answers()))
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    if module.params["anonymize"]:
        entries = anonymize(entries)
    text_form = dest.endswith(".capture")
    blob = dump_listing(entries).encode("utf-8", "surrogateescape") if text_form else dump_archive(entries)
    try:
        before = read_or_none(dest)
        changed = before != blob
        shows = {"diff": difference(dest, summary(before), summary(blob))} if changed else {}
        if changed and module.check_mode:
            rehearse(dest)
        elif changed:
            replace(dest, blob, before)
    except OSError as exc:
        module.fail_json(msg=f"dest '{dest}' cannot be written: {exc.strerror}")
    module.exit_json(changed=changed, dest=dest, entries=len(entries), size=len(blob), **shows)


if __name__ == "__main__":
    main()
