# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host needs to have changed, decided from its facts alone. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

__all__ = ["NeedsError", "host_needs", "lost_ports"]

OFED_METHODS = ("none", "inbox")

# The nodes in /dev/infiniband that verbs programs and the device plugin use (rdma-core, Documentation/udev.md).
_MODULES = ("ib_umad", "ib_uverbs", "rdma_ucm")
_INFINIBAND_MODULES = ("ib_ipoib",)

Json = t.Dict[str, t.Any]


class NeedsError(Exception):
    """Wishes that make no sense for the host; the text is for the user."""


def _ofed(facts: t.Mapping[str, t.Any], method: str, infiniband: bool) -> Json:
    reasons: t.List[str] = []
    missing = sorted(name for name, there in facts["ofed"]["tools"].items() if not there)
    if missing:
        reasons.append("not installed: %s" % ", ".join(missing))
    modules: t.List[str] = []
    for name in _MODULES + (_INFINIBAND_MODULES if infiniband else ()):
        state = facts["kernel"]["modules"][name]
        if not state["available"] and not missing:
            raise NeedsError(
                "kernel module %s is not there for kernel %s; install the modules of this kernel "
                "(Debian: linux-image, Ubuntu: linux-modules-extra, RHEL: kernel-modules), then run again"
                % (name, facts["kernel"]["release"])
            )
        if not state["loaded"]:
            reasons.append("%s is not loaded" % name)
        if not state["persisted"]:
            reasons.append("%s is not loaded at boot" % name)
        if not state["loaded"] or not state["persisted"]:
            modules.append(name)
    return {"needed": bool(reasons), "reasons": reasons, "packages": bool(missing), "modules": modules}


def host_needs(facts: t.Mapping[str, t.Any], wishes: t.Mapping[str, t.Any]) -> Json:
    """What each preparing role has to do on a host: {ofed: {needed, reasons, packages, modules}}.

    facts: ansible_facts.rdma with the subset kernel. wishes: {ofed: {method}, link_layer}. A host for which every `needed` is
    false is converged: no role has to run on it. NeedsError for a wish that cannot be fulfilled there.
    """
    ofed = wishes.get("ofed") or {}
    unknown = sorted(set(ofed) - {"method"})
    if unknown:
        raise NeedsError("rdma_ofed has no key %s; it knows method" % ", ".join(unknown))
    method = ofed.get("method", "inbox")
    if method not in OFED_METHODS:
        raise NeedsError("rdma_ofed.method is %r; expected one of %s" % (method, ", ".join(OFED_METHODS)))
    if method == "none":
        return {"ofed": {"needed": False, "reasons": [], "packages": False, "modules": []}}
    return {"ofed": _ofed(facts, method, wishes.get("link_layer", "InfiniBand") == "InfiniBand")}


def lost_ports(before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any]) -> t.List[str]:
    """Ports that were Active and are not any more, in words: the test that a change did not make a node worse.

    Both are ansible_facts.rdma with the subset devices. Devices are told by PCI address, since a driver may rename them;
    software devices by name.
    """

    def active(
        facts: t.Mapping[str, t.Any],
    ) -> t.Dict[t.Tuple[str, int], t.Tuple[str, t.Optional[str], t.Optional[str]]]:
        return {
            (device["pci"] or device["name"], port["number"]): (device["name"], port["state"], port["phys_state"])
            for device in facts.get("devices", [])
            for port in device["ports"]
        }

    now = active(after)
    lost = []
    for key, (name, state, _dummy) in sorted(active(before).items()):
        if state != "Active":
            continue
        there = now.get(key)
        if there is None:
            lost.append("%s (%s) port %d was Active and is gone" % (name, key[0], key[1]))
        elif there[1] != "Active":
            lost.append(
                "%s (%s) port %d was Active and is %s (phys state %s)" % (name, key[0], key[1], there[1], there[2])
            )
    return lost
