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
  - Writes a file the way all modules of this collection do. The new file is on the disk before it takes the place of the old one, and a full
    disk leaves the old one as it is.
  - The content of the file is given, copied from another file of the node, or downloaded by the node.
  - A symbolic link stays one, and the file that it leads to is replaced. Owner, mode, access list and label of an old file stay.
  - What somebody else writes to the file while this module runs is not overwritten; the module fails.
  - Directories that are missing are made, with the mode V(0755).
  - A difference shows addresses without their user and password.
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
  content_base64:
    description: All of its content in base64, as M(ansible.builtin.slurp) returns it. For what may be no text.
    type: str
  src:
    description: Another file of the node, of at most 16 MiB, which is copied.
    type: path
  url:
    description:
      - An address (C(http) or C(https)) that is downloaded, at most 16 MiB. Needs O(checksum).
      - Nothing is downloaded when the file has this checksum already.
    type: str
  url_username:
    description: User name for O(url). An address with one in it would be shown.
    type: str
  url_password:
    description: Password for O(url).
    type: str
  checksum:
    description: Checksum that the content of O(url) must have, such as V(sha256:...). SHA-224, SHA-256, SHA-384 and SHA-512 are known.
    type: str
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

- name: Write a key that is not text
  fabric.rdma.node_file:
    path: /etc/apt/keyrings/vendor.gpg
    content_base64: mDMEZ0CbmxYJKwYBBAHaRw8BAQdA
    backup: false
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
from ansible.module_utils.urls import fetch_url

from ansible_collections.fabric.rdma.plugins.module_utils._base.checksum import Checksum
from ansible_collections.fabric.rdma.plugins.module_utils._base.content import (
    check_download,
    decoded,
    difference_of,
    mode_of,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError, WishError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import (
    MOST,
    back_up,
    make_directories,
    read,
    replace,
)

# Where the content comes from.
SOURCES = ("content", "content_base64", "src", "url")


def download(module: AnsibleModule, before: t.Optional[bytes]) -> bytes:
    """What is at the address; nothing is asked for when the file has it."""
    url = module.params["url"]
    checksum = Checksum.of(module.params["checksum"], "checksum")
    if not re.match("https?://", url):
        raise WishError(f"url is '{url}'; expected an address with http or https")
    if before is not None and checksum.like(before) == checksum:
        return before
    response, info = fetch_url(module, url, timeout=30)
    if response is None or info["status"] != 200:
        raise FabricError(f"{url} cannot be downloaded: {info['msg']}")
    data: bytes = response.read(MOST + 1)
    check_download(url, data, checksum)
    return data


def wanted(module: AnsibleModule, before: t.Optional[bytes]) -> bytes:
    """What the file is to hold."""
    params = module.params
    if params["url"] is not None:
        return download(module, before)
    if params["src"] is not None:
        data = read(params["src"])
        if data is None:
            raise WishError(f"{params['src']}: No such file or directory")
        return data
    if params["content_base64"] is not None:
        return decoded(params["content_base64"])
    return t.cast(str, params["content"]).encode("utf-8", "surrogateescape")


def write(module: AnsibleModule, path: str, data: bytes, before: t.Optional[bytes], mode: int) -> t.Optional[str]:
    """Writes it; the copy of the old one, None without one."""
    real = os.path.realpath(path)
    for made in make_directories(os.path.dirname(real)):
        # whatever the umask is: who may read the file has to get at it, such as apt, which reads keys as a user of its own
        os.chmod(made, 0o755)
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
            "content": {"type": "str"},
            "content_base64": {"type": "str"},
            "src": {"type": "path"},
            "url": {"type": "str"},
            "url_username": {"type": "str"},
            "url_password": {"type": "str", "no_log": True},
            "checksum": {"type": "str"},
            "mode": {"type": "str", "default": "0644"},
            "private": {"type": "bool", "default": False},
            "backup": {"type": "bool", "default": True},
        },
        mutually_exclusive=[SOURCES],
        required_one_of=[SOURCES],
        required_by={"url": ["checksum"]},
        supports_check_mode=True,
    )
    params = module.params
    path = params["path"]
    result: dict[str, t.Any] = {"changed": False, "path": path}
    try:
        mode = mode_of(params["mode"], params["private"])
        before = read(path)
        data = wanted(module, before)
        was = None if before is None else os.stat(path).st_mode & 0o777
        difference = difference_of(path, before, data, was, params["private"])
        if difference and not module.check_mode:
            kept = write(module, path, data, before, mode)
            result.update({"backup_file": kept} if kept else {})
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or path}: {exc.strerror}")
    if difference:
        result.update(changed=True, diff=difference)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
