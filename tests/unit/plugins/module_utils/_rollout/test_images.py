# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import LINES
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import plan_manifests
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.images import (
    DRIVER_SECTION,
    image_list,
    images_of,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.operator import operator_manifests
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._rollout.test_operator import entry, plan

MIRROR = "mirror.example.com/mellanox"
ONE = plan(a=[entry("a-1", "rdma_a", "n1", vendors=["15b3"])])


def listed(**settings: t.Any) -> list[str]:
    return image_list(list(operator_manifests(ONE, settings).values())).splitlines()


def test_the_device_plugins_image_is_in_the_list() -> None:
    settings = {
        "namespace": "rdma",
        "image": "registry.example.com/plugin:v1",
        "image_pull_policy": "IfNotPresent",
        "priority_class": "system-node-critical",
        "kubelet_root": "/var/lib/kubelet",
        "tolerations": [],
        "resources": {},
    }
    assert image_list(list(plan_manifests(ONE, settings).values())) == "registry.example.com/plugin:v1\n"


@pytest.mark.parametrize("version", [f"{in_dots(line)}.0" for line in LINES])
@pytest.mark.parametrize("more", [{}, {"registry": MIRROR}, {"image_pull_secrets": ["mirror"]}])
def test_an_image_of_the_operator_is_whole_whatever_the_release(version: str, more: dict[str, t.Any]) -> None:
    (image,) = listed(version=version, policy="cluster", **more)
    path, _slash, name = image.rpartition("/")
    assert name.startswith("k8s-rdma-shared-dev-plugin:")
    assert not name.endswith(":")
    assert path == MIRROR if "registry" in more else "." in path


def test_the_tag_of_the_driver_is_said_to_be_longer() -> None:
    driver = {"image": "doca-driver", "version": "doca3.3.0"}
    note, image = image_list([{"spec": {"global": {"repository": MIRROR}, DRIVER_SECTION: driver}}]).splitlines()
    assert note.startswith("# The operator adds the distribution")
    assert image == f"{MIRROR}/doca-driver:doca3.3.0"


def test_a_chart_is_named_by_the_command_that_tells_its_images() -> None:
    assert image_list([], ["nvidia/network-operator"]).endswith("helm template nvidia/network-operator\n")


def test_images_are_found_wherever_containers_are() -> None:
    pod = {"initContainers": [{"image": "b:1"}], "containers": [{"image": "a:1"}, {"name": "none"}]}
    assert sorted(images_of([{"spec": {"jobs": [{"template": {"spec": pod}}]}}])) == ["a:1", "b:1"]
