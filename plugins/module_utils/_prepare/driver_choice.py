# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which driver stack a host may get, and whether it needs it. Private to the collection. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.change import address_of
from ansible_collections.fabric.rdma.plugins.module_utils._base.checksum import Checksum
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._discover.dpkg import is_stack_package
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_cards import (
    VENDORS,
    Plan,
    check_cards,
    release_number,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.package_names import DRIVER
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.packages import of_release, split_wish

__all__ = [
    "check_pairs",
    "check_wish",
    "ofed_needs",
    "ofed_plan",
]

Json = t.Dict[str, t.Any]

# The nodes in /dev/infiniband that verbs programs and the device plugin use (rdma-core, Documentation/udev.md).
_MODULES = ("ib_umad", "ib_uverbs", "rdma_ucm")
_INFINIBAND_MODULES = ("ib_ipoib",)


def ofed_plan(facts: t.Mapping[str, t.Any], wish: t.Mapping[str, t.Any]) -> Plan:
    """Which of a host's discovered cards the wished release would leave without a driver.

    facts: ansible_facts.rdma with the subset devices. A virtual function on its host counts as the card that it is a part of.
    A software device is not a card, whatever card it is at.
    """
    devices = [device for device in facts.get("devices", []) if address_of(device) is not None]
    models = {device["pci"]: device["model"] for device in devices}
    cards = []
    for device in devices:
        owner = models.get((device.get("sriov") or {}).get("pf"))
        cards.append((f"{device['name']} at {device['pci']}", owner or device["model"]))
    return check_cards(cards, str(wish.get("method") or "none"), str(wish.get("version") or ""))


def check_wish(wish: t.Mapping[str, t.Any]) -> Json:
    """The wish rdma_ofed with its defaults, or WishError: unknown keys, unknown methods, what a method cannot do without."""
    wrong = problems("rdma_ofed", wish)
    if wrong:
        raise WishError("; ".join(wrong))
    method = wish.get("method") or defaults_of("rdma_ofed", "method")
    result = {**wish, "method": method, "activate": wish.get("activate") or defaults_of("rdma_ofed", "activate")}
    if method not in VENDORS:
        return result
    wanted = ("version", "repository", "key") if method == "doca" else ("version", "iso")
    missing = [key for key in wanted if not wish.get(key)]
    if missing:
        raise WishError(f"rdma_ofed.method {method} also needs {', '.join(missing)}")
    version = str(wish["version"])
    release = release_number(version)
    # DOCA counts from 1, MLNX_OFED by the year since 20.11: a mix-up would pass every comparison below.
    if method == "doca" and release[0] >= 20:
        raise WishError(
            f"rdma_ofed.version is {version}, which is the OFED inside a DOCA release; method doca wants the release "
            "itself, such as 2.9.1"
        )
    if method == "mlnx_iso" and release[0] < 4:
        raise WishError(
            f"rdma_ofed.version is {version}, which is a DOCA release; method mlnx_iso wants that of MLNX_OFED, such as "
            "24.10-1.1.4.0"
        )
    if method == "doca":
        _check_source(wish, version)
    if method == "mlnx_iso" and not re.match(r"/", str(wish["iso"])):
        raise WishError(f"rdma_ofed.iso is {wish['iso']!r}; expected an absolute path on the node")
    result["version"] = version
    return result


# What a method does nothing with: whoever sets it wants another method, or believes that it does.
_IDLE = {
    "none": ("version", "repository", "key", "key_checksum", "iso", "install_options", "packages", "activate"),
    "inbox": ("version", "repository", "key", "key_checksum", "iso", "install_options", "activate"),
    "doca": ("iso", "install_options"),
    "mlnx_iso": ("repository", "key", "key_checksum", "packages"),
}


def check_pairs(wish: t.Mapping[str, t.Any]) -> None:
    """WishError for keys of rdma_ofed that its method does nothing with. wish: as a user wrote it, without defaults."""
    method = str(wish.get("method") or defaults_of("rdma_ofed", "method"))
    idle = [key for key in _IDLE[method] if wish.get(key) and (key, wish[key]) != ("activate", "none")]
    if idle:
        is_default = "" if wish.get("method") else ", the default"
        raise WishError(
            f"rdma_ofed.method is {method}{is_default}, which does nothing with {', '.join(idle)}",
            "set the method that is meant, or take them out",
        )


def _check_source(wish: t.Mapping[str, t.Any], version: str) -> None:
    """A repository whose content may change under its address, or a key that nobody vouches for, is not a source of drivers."""
    repository, key = str(wish["repository"]), str(wish["key"])
    if not re.match(r"(https?|file):/", repository):
        raise WishError(f"rdma_ofed.repository is {repository!r}; expected an address with http, https or file")
    if re.search(r"/latest(/|$)", repository):
        raise WishError(
            f"rdma_ofed.repository is {repository}, whose content changes",
            f"name the release, as in .../doca/{version}/...",
        )
    named = re.search(r"/doca/(\d[^/]*)", repository)
    if named and named.group(1) != version:
        raise WishError(
            f"rdma_ofed.version is {version}, but rdma_ofed.repository is of {named.group(1)}: {repository}"
        )
    if re.match(r"https?:/", key) and not wish.get("key_checksum"):
        raise WishError(
            "rdma_ofed.key is an address: give rdma_ofed.key_checksum (sha256:...) as well, or the path of a file on the controller"
        )
    checksum = str(wish.get("key_checksum") or "")
    if checksum:
        Checksum.of(checksum, "rdma_ofed.key_checksum")


def _installed_release(facts: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """What the host has, in words; None for the kernel's own driver."""
    ofed = facts["ofed"]
    if ofed["flavour"] == "inbox":
        return None
    name = "MLNX_OFED" if ofed["flavour"] == "mlnx_ofed" else "DOCA's OFED"
    return f"{name} {ofed['version'] or 'of an unknown version'}"


def _unlike(facts: t.Mapping[str, t.Any], wish: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """What makes the stack on disk another one than the wished, in words; None when it is the wished one.

    Of MLNX_OFED, ofed_info tells the release. DOCA's names the OFED inside it only, which several releases share; there the packages
    tell it.
    """
    ofed, method, version = facts["ofed"], wish["method"], wish["version"]
    wished = f"{VENDORS[method]} {version}"
    unlike = "the driver is {}, not {}".format(_installed_release(facts) or "the kernel's own", wished)
    if method == "mlnx_iso":
        # 24.10 is satisfied by 24.10-1.1.4.0, 24.10-1 not by 24.10-10
        there = re.match(rf"{re.escape(version)}(?!\d)", ofed["version"] or "")
        return None if ofed["flavour"] == "mlnx_ofed" and there else unlike
    if ofed["flavour"] != "doca":
        return unlike
    packages = ofed.get("packages")
    if packages is None:
        return f"{unlike}, and the host does not say which packages it has"
    wanted = [split_wish(entry) for entry in wish.get("packages") or [DRIVER]]
    if not any(name in packages or is_stack_package(name) for name, _pattern in wanted):
        # names that the facts never have say nothing of the release
        wanted = [(DRIVER, None)]
    for name, pattern in wanted:
        has = packages.get(name)
        # of packages that the facts do not have, the package manager knows
        if has is None and is_stack_package(name):
            return f"{name} is not installed, which {wished} brings"
        if has is not None and not of_release(has, pattern, version):
            return "{} is {}, not {}".format(name, has, f"of {wished}" if pattern is None else pattern)
    return None


def _driver_pending(facts: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Why the loaded mlx5_core is not the one on disk; None when it is, or is not loaded.

    MLNX_OFED's and DOCA's mlx5_core tells the first parts of the release in /sys/module/mlx5_core/version; the kernel's own tells
    nothing, or what is not a release (5.0-0).
    """
    ofed = facts["ofed"]
    if not facts["kernel"]["modules"]["mlx5_core"]["loaded"]:
        return None
    loaded = (ofed["mlx5_core"]["version"] or "").partition("-")[0]
    vendor = re.match(r"[1-9]\d\.\d\d$|4\.9$|5\.[1-9]$", loaded) is not None
    if ofed["mlx5_core"]["path_kind"] == "updates":
        wanted = (ofed["version"] or "").partition("-")[0]
        if not vendor:
            return "the kernel still runs the mlx5_core that came with it"
        if wanted and loaded != wanted:
            return f"the kernel still runs mlx5_core {ofed['mlx5_core']['version']}"
    elif ofed["mlx5_core"]["path_kind"] == "inbox" and vendor:
        return f"the kernel still runs mlx5_core {ofed['mlx5_core']['version']}, which is no longer installed"
    return None


def _modules(facts: t.Mapping[str, t.Any], infiniband: bool, missing: t.Sequence[str]) -> tuple[list[str], list[str]]:
    """(modules to load and persist, reasons)."""
    modules: list[str] = []
    reasons: list[str] = []
    for name in _MODULES + (_INFINIBAND_MODULES if infiniband else ()):
        state = facts["kernel"]["modules"][name]
        if not state["available"] and not missing:
            raise WishError(
                f"kernel module {name} is not there for kernel {facts['kernel']['release']}",
                "install the modules of this kernel "
                "(Debian: linux-image, Ubuntu: linux-modules-extra, RHEL: kernel-modules), then run again",
            )
        if not state["loaded"]:
            reasons.append(f"{name} is not loaded")
        if not state["persisted"]:
            reasons.append(f"{name} is not loaded at boot")
        if not state["loaded"] or not state["persisted"]:
            modules.append(name)
    return modules, reasons


def _inbox_needs(facts: t.Mapping[str, t.Any], infiniband: bool) -> Json:
    missing = sorted(name for name, there in facts["ofed"]["tools"].items() if not there)
    vendor = _installed_release(facts)
    if missing and vendor:
        # the distribution's rdma-core over the vendor's is a mixture of two stacks
        raise WishError(
            "{} is installed, and {} missing: the packages of the distribution do not replace it; install what is missing from "
            "the same release and set rdma_ofed {{method: none}}, or remove it (ofed_uninstall.sh --force, then reboot)".format(
                vendor, ", ".join(missing) + (" is" if len(missing) == 1 else " are")
            )
        )
    modules, reasons = _modules(facts, infiniband, missing)
    if missing:
        reasons.insert(0, f"not installed: {', '.join(missing)}")
    return {"needed": bool(reasons), "reasons": reasons, "packages": bool(missing), "modules": modules}


def _release_of(proof: t.Mapping[str, t.Any]) -> str:
    if proof["method"] is None:
        return "the driver"
    return f"{VENDORS.get(proof['method'], proof['method'])} {proof['release']}"


def _driver_needs(facts: t.Mapping[str, t.Any], wish: Json, infiniband: bool) -> Json:
    plan = ofed_plan(facts, wish)
    if plan.refusals:
        raise WishError(". ".join(plan.refusals))
    reasons: list[str] = []
    unlike = _unlike(facts, wish)
    driver = unlike is not None
    half = not driver and facts["ofed"]["mlx5_core"]["path_kind"] != "updates"
    if unlike is not None:
        reasons.append(unlike)
    elif half:
        # typical after an update of the kernel without its headers: the node silently runs half of each stack
        reasons.append(
            f"{_installed_release(facts)} is installed, but not built for kernel {facts['kernel']['release']}"
        )
    proof = None if driver or half else facts["ofed"].get("proof")
    # what a run that was killed has not done (an initramfs, a proof) shows nowhere else
    cut = bool(proof and not proof.get("installed", True))
    if proof and cut:
        reasons.append(f"the installation of {_release_of(proof)} never finished")
        proof = None
    pending = None if driver or half or cut else _driver_pending(facts)
    if proof and not proof["booted"]:
        pending = pending or f"{_release_of(proof)} is installed and not yet proved"
    activate = pending is not None and wish["activate"] != "none"
    prove = bool(proof and proof["booted"] and not activate)
    if proof and prove:
        reasons.append(f"{_release_of(proof)} is not yet proved, and the node has booted since it was installed")
    if pending and activate:
        reasons.append(pending)
    modules: list[str] = []
    if not (driver or half or cut or pending):
        # modules of one stack cannot be loaded into the other's ib_core
        modules, more = _modules(facts, infiniband, [])
        reasons += more
    return {
        "needed": bool(reasons),
        "reasons": reasons,
        "packages": False,
        "modules": modules,
        "driver": driver or half or cut,
        "activate": activate,
        "pending": pending,
        "prove": prove,
        "warnings": plan.warnings,
    }


def ofed_needs(facts: t.Mapping[str, t.Any], wish: t.Mapping[str, t.Any], link_layer: str) -> Json:
    """What the role ofed has to do on a host: {needed, reasons, packages, modules}.

    packages: the distribution's user space is to be installed; modules: to load and to persist. For the methods doca and mlnx_iso
    also driver (the stack is to be installed, or to be installed again since a run was killed in that), activate (it is there, but
    the kernel does not run it, and the wish says how that may be changed), pending (in words; None when the kernel runs what is on
    disk and that is proved), prove (a boot has brought what an earlier run installed, and nobody has judged it yet) and warnings.

    facts: ansible_facts.rdma with the subsets devices and kernel. WishError for a wish that cannot be fulfilled there.
    """
    wish = check_wish(wish)
    infiniband = link_layer == "InfiniBand"
    if wish["method"] == "none":
        return {"needed": False, "reasons": [], "packages": False, "modules": []}
    if wish["method"] == "inbox":
        return _inbox_needs(facts, infiniband)
    return _driver_needs(facts, wish, infiniband)
