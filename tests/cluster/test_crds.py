# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds that operators bring: missing ones are named, and real definitions are enforced strictly."""

from __future__ import annotations

import os
import time
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    OPERATOR,
    OPERATOR_IMAGES,
    SHARED_PLUGIN_IMAGE,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
# Other people's definitions lie beside the checkout, where they are at all.
FOLDER = Path(os.environ.get("FABRIC_RDMA_CRDS") or ROOT.parent / "shared" / "crds")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def policy(**spec: t.Any) -> dict[str, t.Any]:
    return {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "NicNodePolicy",
        "metadata": {"name": "ib-a100"},
        "spec": {"nodeSelector": {"rdma.fabric/class": "ib-a100"}, **spec},
    }


def test_definitions_of_operators(kube: Kube) -> None:
    with pytest.raises(
        KubeError, match=r"does not know NicNodePolicy of mellanox\.com/v1alpha1: its CustomResourceDefinition"
    ):
        kube.apply(policy(), dry_run=True)
    if not FOLDER.is_dir():
        pytest.skip(
            f"no definitions in {FOLDER}: the kinds of operators were not tried (FABRIC_RDMA_CRDS names another folder)"
        )
    made = 0
    for path in sorted(FOLDER.glob("*.yaml")):
        for item in yaml.safe_load_all(path.read_text()):
            if item and item.get("kind") == "CustomResourceDefinition":
                kube.apply(item, dry_run=False)
                made += 1
    print(f"{made} definitions of {FOLDER}")
    fresh = Kube(kube.source)
    config = '{"configList": [{"resourceName": "rdma_a100", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}]}'
    plugin = {
        "repository": OPERATOR_IMAGES,
        "image": SHARED_PLUGIN_IMAGE,
        "version": f"network-operator-v{OPERATOR}",
        "config": config,
    }
    end = time.monotonic() + limit(30)
    while True:
        try:
            fresh.apply(policy(rdmaSharedDevicePlugin=plugin), dry_run=True)
            break
        except KubeError:
            # a definition is served a moment after it is made
            if time.monotonic() > end:
                raise
            fresh = Kube(kube.source)
            time.sleep(0.5)
    with pytest.raises(KubeError, match="does not know a field"):
        fresh.apply(policy(rdmaSharedDevicePlugin={**plugin, "nodeAffinity": {}}), dry_run=True)
