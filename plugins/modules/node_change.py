#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_change
short_description: Record on a node that its change has begun, until it has ended
version_added: "0.1.0"
description:
  - Keeps what the node was like before a change in C(/var/lib/fabric.rdma/change.json), and removes the file at the end.
  - A file that is still there when the next change begins belongs to one that never ended, since the controller was killed or
    the node was lost. The state before that change is returned then, so that the node is compared with what it was at first.
  - M(fabric.rdma.ib_facts) tells of such a file in the key C(change).
extends_documentation_fragment:
  - fabric.rdma.attributes.full
options:
  state:
    description:
      - Whether a change begins, or has finished.
      - V(left) adds to the file that the change takes the node out of service, and V(back) that it is back. Without a file, these do nothing.
      - V(ended) with O(roles) takes these out of the file, and removes it with the last one.
    type: str
    choices: [begun, left, back, ended]
    required: true
  before:
    description: Facts of the node from before the change. Only what P(fabric.rdma.rdma_worse#filter) compares is kept of them.
    type: dict
  roles:
    description: What is going to be done, for those who find the file. Roles of an earlier change that never ended stay in it.
    type: list
    elements: str
    default: []
  path:
    description: The file.
    type: path
    default: /var/lib/fabric.rdma/change.json
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Begin a change of the node
  fabric.rdma.node_change:
    state: begun
    before: "{{ ansible_facts['rdma'] }}"
    roles: [ofed]
  register: change

- name: End it
  fabric.rdma.node_change:
    state: ended
"""

RETURN = r"""
before:
  description: The state of before the change, or of before an earlier one that never ended.
  returned: O(state=begun)
  type: dict
  sample: {devices: [{name: mlx5_0, pci: "0000:3b:00.0", ports: [{number: 1, state: Active, phys_state: LinkUp}]}]}
interrupted:
  description: The change that was on record before, and whether it takes the node out of service. With O(state=begun), it is an earlier one that
    never ended. Null when there is none.
  returned: success
  type: dict
  sample: {since: "2026-01-31T12:00:00Z", roles: [ofed], out_of_work: true}
"""

import os
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.change import (
    dump_mark,
    load_mark,
    snapshot,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import difference
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import (
    make_directories,
    read,
    replace,
    sync_directory,
    unlink,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.places import CHANGE

Json = t.Dict[str, t.Any]


def begin(module: AnsibleModule, found: t.Optional[bytes]) -> Json:
    earlier = load_mark(found)
    before = snapshot(module.params["before"])
    # what Ansible shows of the arguments, and keeps in events, has no more of the facts than the node does
    module.params["before"] = before
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if earlier:
        before, since = earlier["before"] or before, earlier["since"] or since
    # what it was going to do is as little done as what it has been
    roles = list(dict.fromkeys([*(earlier or {"roles": []})["roles"], *module.params["roles"]]))
    wanted = dump_mark(since, roles, before, bool(earlier and earlier["out_of_work"]))
    if not module.check_mode:
        make_directories(os.path.dirname(module.params["path"]))
    return {**written(module, found, wanted), "before": before}


def written(module: AnsibleModule, found: t.Optional[bytes], wanted: bytes) -> Json:
    """Another note in the place of the one that is there."""
    if wanted != found and not module.check_mode:
        replace(module.params["path"], wanted, found)
    return {"changed": wanted != found, "diff": shown(module, found, wanted)}


def move(module: AnsibleModule, found: t.Optional[bytes]) -> Json:
    """The node leaves work, or is back at it."""
    mark, left = load_mark(found), module.params["state"] == "left"
    if mark is None or mark["before"] is None or mark["out_of_work"] is left:
        return {"changed": False, "diff": shown(module, found, found)}
    return written(module, found, dump_mark(mark["since"], mark["roles"], mark["before"], left))


def end(module: AnsibleModule, found: t.Optional[bytes]) -> Json:
    mark, done = load_mark(found), module.params["roles"]
    if mark and done and set(mark["roles"]) - set(done):
        if mark["before"] is None:
            return {"changed": False, "diff": shown(module, found, found)}
        wanted = dump_mark(
            mark["since"], [role for role in mark["roles"] if role not in done], mark["before"], mark["out_of_work"]
        )
        return written(module, found, wanted)
    if found is not None and not module.check_mode:
        unlink(module.params["path"])
        sync_directory(os.path.dirname(module.params["path"]))
    return {"changed": found is not None, "diff": shown(module, found, None)}


def told(mark: t.Optional[bytes]) -> str:
    """A mark as the difference shows it: which roles change the node, since when is not news."""
    change = load_mark(mark)
    if change is None:
        return ""
    roles = ", ".join(change["roles"])
    return f"a change of this node is under way: {roles}{'; it is out of service meanwhile' if change['out_of_work'] else ''}\n"


def shown(module: AnsibleModule, found: t.Optional[bytes], wanted: t.Optional[bytes]) -> dict[str, str]:
    return difference(module.params["path"], told(found), told(wanted))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["begun", "left", "back", "ended"], "required": True},
            "before": {"type": "dict"},
            "roles": {"type": "list", "elements": "str", "default": []},
            "path": {"type": "path", "default": CHANGE},
        },
        required_if=[("state", "begun", ["before"])],
        supports_check_mode=True,
    )
    act = {"begun": begin, "left": move, "back": move, "ended": end}[module.params["state"]]
    path = module.params["path"]
    try:
        found = read(path)
        result = act(module, found)
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        module.fail_json(msg=f"before: expected facts as fabric.rdma.ib_facts returns them, {exc!r} is not there")
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or path}: {exc.strerror}")
    if not result["changed"]:
        del result["diff"]
    mark = load_mark(found)
    module.exit_json(
        interrupted=None if mark is None else {key: mark[key] for key in ("since", "roles", "out_of_work")}, **result
    )


if __name__ == "__main__":
    main()
