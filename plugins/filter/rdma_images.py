# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_images
short_description: List the images that Kubernetes objects pull
version_added: "0.1.0"
description:
  - Finds the images of containers, and those that the resources of an operator name with image, repository and version.
  - For images that no object names, such as those of a chart, a comment says where to look.
options:
  _input:
    description: Kubernetes objects.
    type: list
    elements: dict
    required: true
  charts:
    description: Charts that are installed beside them.
    type: list
    elements: str
    default: []
author:
  - fabric.rdma contributors
"""

EXAMPLES = r"""
- name: Show what a mirror has to have for the device plugin
  ansible.builtin.debug:
    msg: "{{ (plan_result | fabric.rdma.rdma_manifests(settings)).values() | list | fabric.rdma.rdma_images }}"
  vars:
    settings:
      namespace: kube-system
      image: ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3
      priority_class: system-node-critical
      kubelet_root: /var/lib/kubelet
      tolerations: []
      resources: {}
"""

RETURN = r"""
_value:
  description: One image a line, sorted, after the comments.
  type: str
"""

import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._arguments import insist_on_list


def rdma_images(objects: t.Any, charts: t.Any = ()) -> str:
    from ansible_collections.fabric.rdma.plugins.module_utils._rollout.images import image_list

    insist_on_list("rdma_images", objects, "objects")
    return image_list(objects, charts)


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"rdma_images": rdma_images}
