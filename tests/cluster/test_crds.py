# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds that operators bring: missing ones are named, and real definitions are enforced strictly."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    OPERATOR,
    OPERATOR_IMAGES,
    SHARED_PLUGIN_IMAGE,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError
from ansible_collections.fabric.rdma.tests.cluster import definitions

pytestmark = pytest.mark.cluster


def policy(**spec: t.Any) -> dict[str, t.Any]:
    return {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "NicNodePolicy",
        "metadata": {"name": "ib-a100"},
        "spec": {"nodeSelector": {"rdma.fabric/class": "ib-a100"}, **spec},
    }


def test_a_missing_definition_of_an_operator_is_named(kube: Kube) -> None:
    with pytest.raises(
        KubeError, match=r"does not know NicNodePolicy of mellanox\.com/v1alpha1: its CustomResourceDefinition"
    ):
        kube.apply(policy(), dry_run=True)
    if not definitions.FOLDER.is_dir():
        pytest.skip(
            f"no definitions in {definitions.FOLDER}: the kinds of operators were not tried {definitions.ELSEWHERE}"
        )
    found = definitions.read()
    for item in found.values():
        kube.apply(item, dry_run=False)
    print(f"{len(found)} definitions of {definitions.FOLDER}")
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
