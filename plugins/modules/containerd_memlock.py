#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: containerd_memlock
short_description: Let containers lock memory for RDMA, and leave no node worse than before
version_added: "0.1.0"
description:
  - Lifts C(RLIMIT_MEMLOCK) of the containers that containerd runs for Kubernetes, with a base runtime specification for each
    runtime handler, and C(LimitMEMLOCK) of containerd's unit. All other limits stay as they are.
  - Finds the containerd that runs, with its configuration, its unit and its programs. Adopts a specification that is already
    configured, edits the file that takes effect last, keeps comments and everything else in it.
  - Has containerd itself merge a copy of the changed configuration first, and refuses to go on when anything but the wanted
    settings would differ.
  - Restarts containerd only when something changed, or when it runs with something older than its files. Running containers
    go on, with the limits that they have.
  - Asks containerd's CRI plugin afterwards. Puts everything back, restarts once more and fails when it is not healthy.
  - A run that is killed halfway is undone by the next one, which then does the whole.
  - Never deletes a Pod. Says which containers still have the old limit.
extends_documentation_fragment:
  - fabric.rdma.attributes.full
attributes:
  check_mode:
    details:
      - Everything but the writing and the restart is done, the proof by containerd included.
  diff_mode:
    details:
      - Shows the lines of the configuration and the rlimits that change, and no others.
options:
  method:
    description:
      - V(spec) sets the limit in the base runtime specification of the handlers and in the unit.
      - V(limit) sets it in the unit only. Containers that are recreated in a Pod that is there keep the old one.
    type: str
    choices: [spec, limit]
    default: spec
  handlers:
    description: The runtime handlers that get a specification, by name. V(all) are those that containerd has.
    type: list
    elements: str
    default: [all]
  soft:
    description: The soft limit, V(unlimited) or bytes.
    type: str
    default: unlimited
  hard:
    description: The hard limit, V(unlimited) or bytes.
    type: str
    default: unlimited
  timeout:
    description: Seconds that containerd has to become healthy after a restart, before the old files are put back.
    type: int
    default: 120
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Let all containers lock as much memory as they like
  fabric.rdma.containerd_memlock:

- name: Let only the containers of one RuntimeClass do it
  fabric.rdma.containerd_memlock:
    handlers: [nvidia]

- name: Leave containerd's configuration alone
  fabric.rdma.containerd_memlock:
    method: limit
"""

RETURN = r"""
restarted:
  description: Whether containerd was restarted.
  returned: success
  type: bool
  sample: true
recovered:
  description: Whether an earlier run was killed before its end, and undone.
  returned: success
  type: bool
  sample: false
reasons:
  description: Why containerd has to be restarted, when no file changes.
  returned: success
  type: list
  elements: str
  sample: [/etc/containerd/fabric-rdma-base.json was changed after containerd had started]
files:
  description: The files that change, in the order of writing.
  returned: success
  type: list
  elements: str
  sample:
    - /etc/containerd/fabric-rdma-base.json
    - /etc/containerd/config.toml
    - /etc/systemd/system/containerd.service.d/90-fabric-rdma-memlock.conf
backups:
  description: Copies of the old files, by path.
  returned: success
  type: dict
  sample: {/etc/containerd/config.toml: /var/lib/fabric.rdma/containerd_memlock/2026-11-21@053000.1234/1-config.toml}
handlers:
  description: What a container gets that is made from now on, by runtime handler.
  returned: success
  type: dict
  sample:
    runc:
      base_runtime_spec: /etc/containerd/fabric-rdma-base.json
      memlock: {soft: unlimited, hard: unlimited}
daemon:
  description: The containerd that runs, and its own limits.
  returned: success
  type: dict
  sample:
    pid: 812
    unit: containerd.service
    version: 1.7.24
    config: /etc/containerd/config.toml
    distribution: plain
    memlock: {soft: unlimited, hard: unlimited}
    nofile: {soft: 1024, hard: 524288}
stale_containers:
  description: Running containers that have less than was asked for. They keep it until their Pod is recreated.
  returned: success
  type: list
  elements: dict
  sample:
    - namespace: default
      pod: trainer-0
      container: trainer
      pid: 4711
      memlock: {soft: 8388608, hard: 8388608}
drift:
  description: Places in which an adopted specification differs from what containerd would make now.
  returned: success
  type: list
  elements: str
  sample: ["/etc/containerd/fabric-rdma-from-cri-base.json: linux.maskedPaths"]
"""


from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.programs import run_program
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_apply import lift
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_daemon import Node
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_plan import parse_wish


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "method": {"type": "str", "choices": ["spec", "limit"], "default": "spec"},
            "handlers": {"type": "list", "elements": "str", "default": ["all"]},
            "soft": {"type": "str", "default": "unlimited"},
            "hard": {"type": "str", "default": "unlimited"},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )

    wish = {key: module.params[key] for key in ("method", "handlers", "soft", "hard")}
    try:
        result = lift(Node(run_program, "/run"), parse_wish(wish), module.check_mode, module.params["timeout"])
    except FabricError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename2 or exc.filename or 'containerd'}: {exc.strerror}")
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
