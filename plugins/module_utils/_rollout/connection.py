# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a module reaches its API server. Private to the collection."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube

__all__ = ["connected"]


def connected(module: t.Any) -> Kube:
    """The API server of a module with CONNECTION_OPTIONS, which warns of what is wrong with the way there."""
    kube = Kube(module.params["kubeconfig"], module.params["context"])
    for warning in kube.warnings:
        module.warn(warning)
    return kube
