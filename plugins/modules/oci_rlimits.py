#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: oci_rlimits
short_description: Set resource limits in an OCI base runtime specification, and nothing else
version_added: "0.1.0"
description:
  - Makes or edits the file that containerd's C(base_runtime_spec) names, so that containers get, for example, an unlimited
    C(RLIMIT_MEMLOCK), which RDMA needs to pin memory.
  - Starts from the file itself when it is there, else from O(adopt), else from what C(ctr oci spec) prints. Whatever else
    is in it stays as it is.
  - Removes the C(RLIMIT_NOFILE) of 1024 that C(ctr oci spec) invents, unless it is asked for. With it, every container
    would lose the limit that it has today.
  - Restarts nothing. containerd reads the file once, when it starts.
extends_documentation_fragment:
  - fabric.rdma.attributes.full
attributes:
  diff_mode:
    details:
      - Shows the rlimits that change, one line each.
options:
  path:
    description: The specification to make or edit, as an absolute path. Its directory must exist.
    type: path
    required: true
  rlimits:
    description:
      - The limits to set. Each gets exactly one entry, others are kept.
    type: list
    elements: dict
    default:
      - type: RLIMIT_MEMLOCK
        soft: unlimited
        hard: unlimited
    suboptions:
      type:
        description: Name of the limit, with or without C(RLIMIT_), such as V(MEMLOCK).
        type: str
        required: true
      soft:
        description: The soft limit, V(unlimited) or an integer from 0 to 2^64-1.
        type: raw
        required: true
      hard:
        description: The hard limit, V(unlimited) or an integer. The soft limit by default.
        type: raw
  adopt:
    description:
      - A specification to start from when O(path) is not there, such as the one that Kubespray or a cloud image made.
      - An error when it is not there, either.
    type: path
  ctr:
    description: The C(ctr) of the containerd that will read the file. It needs no running daemon.
    type: str
    default: ctr
  backup:
    description: Keep the old file beside the new one, under a name with the time.
    type: bool
    default: true
notes:
  - No role of the collection uses it. It is for whoever writes a base specification of their own (for a node image, or a runtime handler with
    other limits), names it in C(base_runtime_spec), and restarts containerd.
  - The role P(fabric.rdma.containerd_memlock#role) makes its specification itself, of what containerd has, and leaves a handler alone
    whose specification has the limit already.
seealso:
  - module: fabric.rdma.containerd_memlock
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Let containers lock as much memory as they like
  fabric.rdma.oci_rlimits:
    path: /etc/containerd/base-runtime-spec.json

- name: Start from the specification that Kubespray made, and raise the number of open files, too
  fabric.rdma.oci_rlimits:
    path: /etc/containerd/rdma-base.json
    adopt: /etc/containerd/cri-base.json
    rlimits:
      - {type: MEMLOCK, soft: unlimited}
      - {type: NOFILE, soft: 65536, hard: 1048576}
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /etc/containerd/base-runtime-spec.json
source:
  description: What it was made from. V(path), V(adopt) or V(ctr).
  returned: success
  type: str
  sample: ctr
rlimits:
  description: All rlimits of the file, as containerd reads them.
  returned: success
  type: list
  elements: dict
  sample: [{type: RLIMIT_MEMLOCK, hard: 18446744073709551615, soft: 18446744073709551615}]
drift:
  description:
    - Places, other than rlimits and the version, in which the file differs from what C(ctr oci spec) prints now.
    - Empty when it does not, and when that C(ctr) cannot be run.
  returned: success
  type: list
  elements: str
  sample: [linux.maskedPaths]
backup_file:
  description: The old file.
  returned: O(backup=true) and the file was replaced
  type: str
  sample: /etc/containerd/base-runtime-spec.json.1234.2026-11-21@05:30:00~
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import back_up, read, rehearse, replace
from ansible_collections.fabric.rdma.plugins.module_utils._base.programs import run_program
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci import SpecError, load_spec
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci_edit import (
    changes_in_words,
    differences,
    dump_spec,
    parse_rlimits,
    plan,
    start_from,
)

Json = t.Dict[str, t.Any]


def fresh_spec(module: AnsibleModule, ctr: str, needed: bool) -> t.Optional[Json]:
    program = module.get_bin_path(ctr, required=False)
    if program is None:
        if needed:
            raise SpecError(
                f"ctr '{ctr}' is not there, so there is nothing to start from",
                "give adopt, or the path of containerd's ctr",
            )
        return None
    status, output, error = run_program([program, "oci", "spec"])
    if status != 0:
        if needed:
            raise SpecError(f"'{program} oci spec' ended with {status}: {error.strip()}")
        return None
    return load_spec(output.encode("utf-8"), f"the output of '{program} oci spec'")


def run(module: AnsibleModule) -> Json:
    path, adopt, ctr = (module.params[key] for key in ("path", "adopt", "ctr"))
    rlimits = parse_rlimits(module.params["rlimits"])
    current = read(path)
    start = start_from(path, current, adopt, read(adopt) if adopt and current is None else None)
    fresh = fresh_spec(module, ctr, needed=start.base is None)
    # where it is needed, it is there
    spec, changes = plan(t.cast("Json", fresh if start.base is None else start.base), rlimits)
    changed = bool(changes) or current is None
    result: Json = {
        "changed": changed,
        "path": path,
        "source": start.source,
        "rlimits": spec["process"].get("rlimits") or [],
        "drift": differences(spec, fresh) if fresh is not None else [],
    }
    if changed:
        result["diff"] = changes_in_words(path, adopt or ctr, changes)
    if changed and module.check_mode:
        rehearse(path)
    elif changed:
        if current is not None and module.params["backup"]:
            result["backup_file"] = back_up(path, current)
        replace(path, dump_spec(spec), current)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "rlimits": {
                "type": "list",
                "elements": "dict",
                "default": [{"type": "RLIMIT_MEMLOCK", "soft": "unlimited", "hard": "unlimited"}],
                "options": {
                    "type": {"type": "str", "required": True},
                    "soft": {"type": "raw", "required": True},
                    "hard": {"type": "raw"},
                },
            },
            "adopt": {"type": "path"},
            "ctr": {"type": "str", "default": "ctr"},
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
