# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a module reaches its API server, and what it tells of its arguments. Private to the collection."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube

__all__ = ["connected", "invocation"]

# Characters of an argument above which it is not told whole.
_ARGUMENT = 1_000


def connected(module: t.Any) -> Kube:
    """The API server of a module with CONNECTION_OPTIONS, which warns of what is wrong with the way there."""
    kube = Kube(module.params["kubeconfig"], module.params["context"])
    for warning in kube.warnings:
        module.warn(warning)
    return kube


def invocation(arguments: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What AnsibleModule returns as `invocation`. arguments: the module's; of a long one, its length is told."""

    def told(value: t.Any) -> t.Any:
        if not isinstance(value, (str, list, dict)) or len(json.dumps(value, default=str)) <= _ARGUMENT:
            return value
        return f"({len(value)} {'characters' if isinstance(value, str) else 'entries'}, which are not shown)"

    return {"module_args": {name: told(value) for name, value in arguments.items()}}
