# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who brings Multus and Whereabouts to the cluster: one of each, as far as wishes tell. Private. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import MULTUS, SPIDERPOOL, WHEREABOUTS
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.images import DIGEST, MOVING, is_pinned, tag_of
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.operator import operator_release
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import Version, parsed
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.charts import owned
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cni_install import CniDirectories, cni_directories
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import Json, Site
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_hosts import Findings, Network

__all__ = ["WHOLE_POLICY", "check_multus", "check_releases", "check_whereabouts", "directories_of", "section"]

# spec.secondaryNetwork.ipamPlugin of the NicClusterPolicy went with it.
_NO_WHEREABOUTS_SINCE = (25, 10)
# Distributions that can bring a Multus of their own.
_WITH_MULTUS = {"rke2": "cni: multus in its configuration", "k0s": "an extension", "microk8s": "its addon multus"}
WHOLE_POLICY = "spec.secondaryNetwork of the NicClusterPolicy"

# What a wish stands for, by value of Spiderpool's chart.
_OWNED = {
    "global.cniBinHostPath": "set rdma_multus.cni_bin_dir instead",
    "global.cniConfHostPath": "set rdma_multus.cni_conf_dir instead",
    "global.imageRegistryOverride": "set rdma_rollout.registry instead",
    "multus.multusCNI.install": "set rdma_spiderpool.multus instead, since a cluster has one Multus",
    "rdma.rdmaSharedDevicePlugin.install": "take it out: the plan's device plugin offers the same ports",
    "spiderpoolController.podResourceInject.enabled": "set rdma_spiderpool.inject instead",
}


def section(wish: t.Mapping[str, t.Any], name: str) -> Json:
    return {key: value for key, value in (wish.get(name) or {}).items() if value is not None}


def check_releases(wish: t.Mapping[str, t.Any], installed: t.Mapping[str, Json], found: Findings) -> None:
    """What is installed is of a whole release: every node runs the same, also the one that comes next year.

    installed: Helm releases that the cluster has.
    """
    for name, known in (("multus", MULTUS), ("whereabouts", WHEREABOUTS), ("spiderpool", SPIDERPOOL)):
        own = section(wish, name)
        if not own.get("install"):
            continue
        image, version = str(own.get("image") or ""), own.get("version")
        if image and not _pinned(image):
            found.problem(
                f"rdma_{name}.image is {image}, which is not pinned: give it the tag of a release, or its digest, so that every node runs the "
                "same"
            )
        if not image and version is not None and parsed(version) is None:
            example = known.rpartition(":")[2]
            found.problem(f"rdma_{name}.version {version} is not a complete release: name one, such as {example}")

    spiderpool = section(wish, "spiderpool")
    if not spiderpool.get("install"):
        return
    for text in owned("rdma_spiderpool.values", spiderpool.get("values") or {}, _OWNED):
        found.problem(text)
    release = parsed(spiderpool.get("version") or SPIDERPOOL)
    if release and "spiderpool" in installed:
        _check_spiderpool(installed["spiderpool"].get("version"), release, found)


def _check_spiderpool(version: t.Any, release: Version, found: Findings) -> None:
    """The way from what is there. version: of Helm's release."""
    there = parsed(version)
    if there is None:
        found.problem(
            f"Helm release spiderpool has version {version!s:.40}, which is not a complete release: nobody can tell whether {release.text} is "
            "newer; upgrade it by hand to a release first"
        )
    elif (there.line, there.patch) > (release.line, release.patch):
        found.problem(
            f"Spiderpool {there.text} is installed and rdma_spiderpool.version is {release.text}, which is older: its definitions do not go "
            f"back; set {there.text} or newer"
        )
    elif there.line != release.line:
        found.warn(
            f"Spiderpool goes from {there.text} to {release.text}: Helm leaves the definitions of the chart as they are, so apply those of "
            f"{release.text} first (helm show crds)"
        )


def _pinned(image: str) -> bool:
    name, _at, digest = image.partition("@")
    if digest:
        return DIGEST.fullmatch(digest) is not None
    return is_pinned(name, MOVING) and re.fullmatch(r"\w[\w.-]{0,127}", tag_of(name), re.ASCII) is not None


def check_multus(
    wish: t.Mapping[str, t.Any],
    networks: t.Sequence[Network],
    site: Site,
    served: t.Optional[t.Collection[str]],
    found: Findings,
) -> None:
    """One Multus in a cluster: two of them write the same configuration, each with the other as its network."""
    multus, spiderpool, rollout = (section(wish, name) for name in ("multus", "spiderpool", "rollout"))
    ways = {
        "rdma_multus.install": bool(multus.get("install")),
        "rdma_multus.operator (the NicClusterPolicy)": bool(multus.get("operator")),
        "rdma_spiderpool.multus": bool(spiderpool.get("install") and spiderpool.get("multus")),
    }
    chosen = [name for name, yes in ways.items() if yes]
    if len(chosen) > 1:
        found.problem(
            f"{' and '.join(chosen)} bring one Multus each, and two in one cluster each treat the other as the Pod network: keep one"
        )
    if multus.get("operator") and rollout.get("engine") != "network_operator":
        found.problem(
            "rdma_multus.operator is for rdma_rollout.engine: network_operator; take install: true in its place"
        )
    if networks and not chosen and served is not None and "k8s.cni.cncf.io" not in served:
        found.problem(
            "networks need Multus, and the cluster serves no k8s.cni.cncf.io, which comes with it: set rdma_multus.install: true, or "
            "install it by other means first"
        )
    elif networks and not chosen and "install" not in multus:
        found.warn(
            "networks need Multus, and the inventory does not say who brings it: rdma_multus.install: true does, false says that the cluster has it"
        )
    if multus.get("install") and rollout.get("engine") == "network_operator":
        found.warn(
            f"rdma_multus.install: true is for a Network Operator that brings no Multus: leave multus out of {WHOLE_POLICY}, and take "
            "crd: true where its chart has not brought NetworkAttachmentDefinition"
        )
    if multus.get("install") and "spiderpool.spidernet.io" in (served or {}) and not spiderpool.get("install"):
        found.warn(
            "rdma_multus.install: the cluster has Spiderpool, whose chart brings a Multus unless multus.multusCNI.install is false: set it "
            "so, or rdma_multus.install: false"
        )
    if multus.get("install"):
        for distribution in sorted(_distributions(site) & set(_WITH_MULTUS)):
            found.warn(
                f"{distribution} can bring a Multus of its own ({_WITH_MULTUS[distribution]}): with it, set rdma_multus.install: false, since "
                "two in one cluster each treat the other as the Pod network"
            )
    if multus.get("operator"):
        parts = {"multus", "cniPlugins"}
        parts |= {"ipoib"} if any(each.kind == "ipoib" for each in networks) else set()
        found.warn(f"rdma_multus.operator: {WHOLE_POLICY} has to have {', '.join(sorted(parts))}")


def _distributions(site: Site) -> set[str]:
    return {str(((facts or {}).get("runtime") or {}).get("distribution")) for facts in site["facts"].values()}


def check_whereabouts(
    wish: t.Mapping[str, t.Any],
    networks: t.Sequence[Network],
    served: t.Optional[t.Collection[str]],
    found: Findings,
) -> None:
    whereabouts, rollout = section(wish, "whereabouts"), section(wish, "rollout")
    users = [each.words for each in networks if each.ipam_type == "whereabouts"]
    release, ours = None, rollout.get("engine") == "network_operator"
    if ours and (users or whereabouts.get("operator")):
        try:
            release = operator_release(rollout.get("operator_version"))
        except FabricError as exc:
            found.problem(str(exc))
    without = release is not None and release.line >= _NO_WHEREABOUTS_SINCE
    words = "Network Operator {} brings no Whereabouts ({}.ipamPlugin went with 25.10)".format(
        release.text if release else "",
        WHOLE_POLICY,
    )
    if whereabouts.get("install") and whereabouts.get("operator"):
        found.problem("rdma_whereabouts.install and rdma_whereabouts.operator bring one Whereabouts each: keep one")
    if whereabouts.get("operator") and not ours:
        found.problem(
            "rdma_whereabouts.operator is for rdma_rollout.engine: network_operator; take install: true in its place"
        )
    if whereabouts.get("operator") and without:
        found.problem(f"rdma_whereabouts.operator: {words}; take install: true, or ipam.type: nv_ipam")
    elif users and without and "install" not in whereabouts:
        found.problem(
            f"{users[0]}: {words}: set rdma_whereabouts.install: true, or false where somebody else brings it, or take ipam.type: nv_ipam"
        )
    elif not users or whereabouts.get("install") or whereabouts.get("operator"):
        return
    elif served is not None and "whereabouts.cni.cncf.io" not in served:
        found.problem(
            f"{users[0]} needs Whereabouts, and the cluster serves no whereabouts.cni.cncf.io, which comes with it: set "
            "rdma_whereabouts.install: true, or install it by other means first"
        )
    elif "install" not in whereabouts:
        found.warn(
            f"{users[0]} needs Whereabouts, and the inventory does not say who brings it: rdma_whereabouts.install: true does, false says that the cluster "
            "has it"
        )


def directories_of(wish: t.Mapping[str, t.Any], site: Site, found: Findings) -> dict[str, CniDirectories]:
    rows = {}
    for name in ("multus", "whereabouts"):
        own = section(wish, name)
        rows[name], wrong = cni_directories(site, own)
        if own.get("install"):
            for text in wrong:
                found.problem(text)
    return rows
