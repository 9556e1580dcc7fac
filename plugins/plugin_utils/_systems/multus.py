# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Multus by ourselves, for clusters where nobody else brings it. Private. Pure.

Follows k8snetworkplumbingwg/multus-cni (cmd/thin_entrypoint).

It is the thin one: a program that the container runtime starts for each Pod, with a Pod on each node that only keeps its configuration
and token up to date. The thick one is a daemon between the container runtime and every Pod of the node, with all of the host's file
system in it: when it is killed for its memory, which grows with the Pods that start at once, no Pod of the node starts or ends.
NVIDIA's operator runs the thin one, too.

Objects have the names that Multus' own have, so that a second one is somebody else's object of the same name, which nothing takes over
without being told to.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import MULTUS
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cni_install import (
    CONFIG_INSIDE,
    PROGRAMS_INSIDE,
    TEXT,
    CniDirectories,
    account,
    definition,
    environment,
    events_rules,
    image_of,
    node_pod,
    node_set,
    rule,
    schema_object,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site

__all__ = ["multus_objects"]


def _network_definition() -> Json:
    names = {
        "kind": "NetworkAttachmentDefinition",
        "listKind": "NetworkAttachmentDefinitionList",
        "plural": "network-attachment-definitions",
        "singular": "network-attachment-definition",
        "shortNames": ["nad", "net-attach-def"],
    }
    return definition("k8s.cni.cncf.io", "v1", names, {"spec": schema_object([], config=TEXT)})


def multus_objects(wish: t.Mapping[str, t.Any], site: Site, directories: CniDirectories) -> tuple[list[Json], str]:
    """(objects in their order, image) of Multus. wish: rdma_multus; crd: false where somebody else brings the definition."""
    namespace = str(wish.get("namespace") or defaults_of("rdma_multus", "namespace"))
    image = image_of(MULTUS, wish, site)
    container: Json = {
        "image": image,
        "command": ["/thin_entrypoint"],
        "args": [
            "--multus-conf-file=auto",
            f"--cni-conf-dir={CONFIG_INSIDE}",
            f"--multus-autoconfig-dir={CONFIG_INSIDE}",
            f"--cni-bin-dir={PROGRAMS_INSIDE}",
            # a directory in the container: what is written is the path for the node, where it is optional
            "--multus-cni-conf-dir=/etc/cni/multus/net.d",
            # the path on the node, which is written into the configuration
            f"--multus-kubeconfig-file-host={directories.config}/multus.d/multus.kubeconfig",
            # without it nobody renews the token, nor follows a change of the cluster's own network; and removed, the node
            # would be left with a configuration whose token is void, and could no longer start a Pod
            "--cleanup-config-on-exit=true",
            "--multus-log-level=error",
        ],
        "volumeMounts": [
            {"name": "cni-config", "mountPath": CONFIG_INSIDE},
            {"name": "cni-programs", "mountPath": PROGRAMS_INSIDE},
        ],
    }
    variables = environment(wish)
    if variables:
        container["env"] = variables
    rules = [
        rule("k8s.cni.cncf.io", ["network-attachment-definitions"], ["get", "list", "watch"]),
        rule("", ["pods"], ["get", "list", "watch"]),
        # the annotation k8s.v1.cni.cncf.io/network-status
        rule("", ["pods/status"], ["get", "patch", "update"]),
        # devices that Pods were given by claims
        rule("resource.k8s.io", ["resourceclaims", "resourceslices"], ["get", "list"]),
        *events_rules(),
    ]
    pod = node_pod("kube-multus", container, wish, site, directories, "multus")
    objects = [
        *([_network_definition()] if wish.get("crd", defaults_of("rdma_multus", "crd")) else []),
        *account("multus", namespace, "multus", rules),
        node_set("kube-multus-ds", "multus", namespace, pod, wish),
    ]
    return objects, image
