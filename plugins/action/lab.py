# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controller part, and only part, of the module lab: an action can tell its progress while it runs, a module cannot."""

from __future__ import annotations

import os
import typing as t
from dataclasses import asdict

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.cluster import SYSTEMS
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.lab import Lab
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import free_mib
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import plan_nodes
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import LabResult, LabSpec

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "state": {"type": "str", "choices": ["present", "absent", "status"], "default": "present"},
    "directory": {"type": "path", "required": True},
    "cache_dir": {"type": "path"},
    "nodes": {"type": "raw", "default": 2},
    "memory_mib": {"type": "int"},
    "cpus": {"type": "int", "default": 1},
    "engine": {"type": "str", "choices": ["auto", "qemu", "container"], "default": "qemu"},
    "accel": {"type": "str", "choices": ["auto", "kvm", "tcg"], "default": "auto"},
    "boot_timeout": {"type": "int", "default": 600},
    "kubernetes": {"type": "bool", "default": False},
    "systems": {"type": "list", "elements": "str", "choices": list(SYSTEMS), "default": []},
}


class ActionModule(ActionBase):
    """Runs in the controller's process, whatever the host of the task is."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the documentation of the module."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _unused, args = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        display = Display()
        # Standard error: a callback may be writing JSON to standard output.
        lab = Lab(args["directory"], lambda message: display.display(message, stderr=True))
        try:
            found = _act(lab, args, bool(self._task.check_mode))
        except FabricError as exc:
            raise AnsibleActionFail(str(exc)) from exc
        except OSError as exc:
            free = free_mib(lab.directory)
            raise AnsibleActionFail(f"the lab in {lab.directory} ({free} MiB are free there): {exc}") from exc
        result.update(_report(found))
        return result


def _act(lab: Lab, args: dict[str, t.Any], check: bool) -> LabResult:
    if args["state"] == "status":
        return lab.status()
    if args["state"] == "absent":
        return lab.absent(check)
    cache = args["cache_dir"] or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "fabric.rdma")
    spec = LabSpec(
        directory=lab.directory,
        cache_dir=os.path.realpath(os.path.expanduser(cache)),
        nodes=plan_nodes(args["nodes"], args["memory_mib"] or (2048 if args["kubernetes"] else 1024), args["cpus"]),
        accel=args["accel"],
        boot_timeout=args["boot_timeout"],
        engine=args["engine"],
        kubernetes=args["kubernetes"],
        systems=tuple(sorted(set(args["systems"]))),
    )
    return lab.present(spec, check)


def _report(found: LabResult) -> dict[str, t.Any]:
    def text(lines: list[str]) -> str:
        return "".join(line + "\n" for line in lines)

    return {
        "changed": found.changed,
        "directory": found.directory,
        "nodes": [asdict(node) for node in found.nodes],
        "engine": found.engine,
        "accel": found.accel,
        "image": found.image,
        "kubeconfig": found.kubeconfig,
        "control_plane": found.control_plane,
        "notes": found.notes,
        "seconds": {name: round(value, 1) for name, value in found.seconds.items()},
        "ssh_config": os.path.join(found.directory, "ssh_config") if found.nodes else None,
        **({"diff": {"before": text(found.before), "after": text(found.after)}} if found.changed else {}),
    }
