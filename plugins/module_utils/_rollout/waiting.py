# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for a cluster with patience, while the Lease of the rollout is held: the loop, and what modules that wait share. Private."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import (
    CONNECTION_OPTIONS,
    Kube,
    KubeError,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.connection import connected, invocation
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.lease import LEASE_OPTIONS, Lease

__all__ = ["WAIT_OPTIONS", "Patience", "wait_or_fail", "wait_until_right"]

Json = t.Dict[str, t.Any]
# argument_spec of modules that wait (doc fragment fabric.rdma.kubernetes.waits)
WAIT_OPTIONS: Json = {
    **CONNECTION_OPTIONS,
    "lease": LEASE_OPTIONS,
    "timeout": {"type": "int", "default": 600},
    "interval": {"type": "int", "default": 3},
}


class Patience(t.NamedTuple):
    """For how many seconds something is waited for, how many are between two looks, and what time it is."""

    timeout: float
    interval: float
    clock: t.Callable[[], float] = time.monotonic
    sleep: t.Callable[[float], None] = time.sleep


class _Module(t.Protocol):
    """What is used of AnsibleModule."""

    params: Json

    def warn(self, warning: str) -> None: ...

    def exit_json(self, **result: t.Any) -> t.NoReturn: ...

    def fail_json(self, msg: str, **result: t.Any) -> t.NoReturn: ...


def wait_until_right(
    look: t.Callable[[], t.Sequence[str]], patience: Patience, between: t.Callable[[], None] = lambda: None
) -> tuple[list[str], float]:
    """(what is still not right, seconds waited). An API server that is away for a moment is waited for like everything else.

    look: what is not right now. between: is called before each look, and stops all of it with a KubeError.
    """
    start = patience.clock()
    while True:
        try:
            between()
            reasons = list(look())
        except KubeError as exc:
            if not exc.passing:
                raise
            reasons = [str(exc)]
        waited = patience.clock() - start
        if not reasons or waited + patience.interval > patience.timeout:
            return reasons, waited
        patience.sleep(patience.interval)


def wait_or_fail(
    module: _Module,
    wait: t.Callable[[Kube, Patience, t.Callable[[], None]], tuple[list[str], float]],
    said: t.Callable[[str, str], str],
) -> t.NoReturn:
    """Ends a module that waits. wait: what is missing in the end, and the seconds. said: the failure, of the seconds and what is missing."""
    asked = module.params
    try:
        kube = connected(module)
        renew = Lease(kube, **asked["lease"]).renew if asked["lease"] else lambda: None
        missing, waited = wait(kube, Patience(asked["timeout"], max(1, asked["interval"])), renew)
    except FabricError as exc:
        module.fail_json(msg=str(exc), invocation=invocation(asked))
    result: Json = {
        "changed": False,
        "waited": round(waited, 1),
        "missing": missing,
        "invocation": invocation(asked),
    }
    if missing:
        module.fail_json(msg=said(f"{waited:.0f} s", "; ".join(missing)), **result)
    module.exit_json(**result)
