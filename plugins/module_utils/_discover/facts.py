# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that ib_facts tells of a node, from files alone. Private to the collection."""

from __future__ import annotations

import json
import math
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.change import open_change
from ansible_collections.fabric.rdma.plugins.module_utils._base.places import (
    BOOT_ID,
    CHANGE,
    DRIVER_PACKAGES,
    DRIVER_PROOF,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.addresses import read_addresses
from ansible_collections.fabric.rdma.plugins.module_utils._discover.boot_modules import (
    builtin_list,
    is_builtin,
    kernel_release,
    persisted,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.devices import (
    Facts,
    bridges_above,
    function_of,
    hex_id,
    number,
    read_bare_functions,
    read_devices,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.dpkg import (
    dpkg_stack,
    is_stack_package,
    parse_dpkg_status,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.health import read_health
from ansible_collections.fabric.rdma.plugins.module_utils._discover.imex import read_imex
from ansible_collections.fabric.rdma.plugins.module_utils._discover.nvidia import read_nvidia
from ansible_collections.fabric.rdma.plugins.module_utils._discover.pcie import PCI_FUNCTION
from ansible_collections.fabric.rdma.plugins.module_utils._discover.programs import program_path
from ansible_collections.fabric.rdma.plugins.module_utils._discover.roce import read_roce
from ansible_collections.fabric.rdma.plugins.module_utils._discover.runtime import read_limits, read_runtime
from ansible_collections.fabric.rdma.plugins.module_utils._discover.stack import (
    driver_stack,
    module_paths,
    read_management,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import (
    SPDK_MODULES,
    STORAGE_MODULES,
    read_storage,
)

__all__ = ["MODULES", "SUBSETS", "gather"]

# Renaming or removing a fact bumps it (docs/facts.schema.json).
_SCHEMA = 1
# Kernel modules that some role loads or some decision asks for.
MODULES = (
    "ib_core",
    "ib_ipoib",
    "ib_umad",
    "ib_uverbs",
    "mlx4_core",
    "mlx4_ib",
    "mlx5_core",
    "mlx5_ib",
    "nv_peer_mem",
    "nvidia",
    "nvidia_peermem",
    "rdma_cm",
    "rdma_rxe",
    "rdma_ucm",
    *STORAGE_MODULES,
    *SPDK_MODULES,
)
# User-space programs that verification and people need, where distributions put them.
_TOOLS = ("ib_write_bw", "ib_write_lat", "ibstat", "ibv_devinfo", "rdma")
# Display and compute controllers that count as GPUs: class 0302 of anybody, the others of these vendors (a server's BMC is a 0300, too;
# AMD's MI100 and its like are 0380, its MI300X 1200; engines of a processor that compress are 1200, and FPGAs, too).
_GPU_CLASSES = (0x0302,)
_GPU_VENDORS = {0x0300: ("10de", "1002"), 0x0380: ("10de", "1002"), 0x1200: ("10de", "1002", "1da3")}


def _gpus(tree: Tree, devices: list[Facts]) -> list[Facts]:
    found = []
    for pci in tree.names("/sys/bus/pci/devices"):
        base = "/sys/bus/pci/devices/" + pci
        pci_class = number(tree, base + "/class", 16)
        kind = (pci_class or 0) >> 8
        if (kind not in _GPU_CLASSES and kind not in _GPU_VENDORS) or not PCI_FUNCTION.fullmatch(pci):
            continue
        vendor = hex_id(tree, base + "/vendor")
        # one of the virtual functions of a GPU here is no GPU more (vGPU); in a guest it is the GPU
        if vendor not in _GPU_VENDORS.get(kind, (vendor,)) or tree.exists(base + "/physfn"):
            continue
        numa = number(tree, base + "/numa_node")
        gpu: Facts = {
            "pci": pci,
            "bridges": bridges_above(function_of(tree.real(base))),
            "vendor": vendor,
            "device": hex_id(tree, base + "/device"),
            "numa_node": None if numa is None or numa < 0 else numa,
        }
        gpu["nearest"] = _nearest(gpu, devices)
        found.append(gpu)
    return found


def _nearest(gpu: Facts, devices: list[Facts]) -> list[str]:
    """Names of the HCAs with the shortest way to a GPU.

    Way: number of PCI bridges that both have above them, as `nvidia-smi topo -m` counts (a common switch is PIX or PXB).
    Devices that share nothing but the host bridge are as near as their NUMA node says (NODE), on others not near at all
    (SYS). On a GB200, where every GPU and HCA has a PCI domain of its own, NUMA is all there is.
    """
    best: list[str] = []
    depth = 0
    for device in devices:
        if device["pci"] is None or device["kind"] in ("software", "smi", "sf"):
            continue
        shared = 0
        for mine, theirs in zip(gpu["bridges"], device["bridges"]):
            if mine != theirs:
                break
            shared += 1
        if not shared:
            continue
        if shared > depth:
            best, depth = [], shared
        if shared == depth:
            best.append(device["name"])
    if best or gpu["numa_node"] is None:
        return best
    return [
        device["name"]
        for device in devices
        if device["pci"] is not None
        and device["kind"] not in ("software", "smi", "sf")
        and device["numa_node"] == gpu["numa_node"]
    ]


# What the V2 data engine of Longhorn (SPDK) asks of a CPU: the number of the feature by the type of the CPU, as the kernel counts them
# (arch/x86/include/asm/cpufeatures.h, 4*32+20; arch/arm64/include/uapi/asm/hwcap.h, HWCAP_ASIMD).
_FEATURES = {"x86": ("0094", "sse4_2"), "aarch64": ("0001", "asimd")}


def _cpu(tree: Tree) -> Facts:
    """Of /sys/devices/system/cpu: cpu:type:x86,ven0000fam0006mod008F:feature:,0000,0001,... (arch/x86/kernel/cpu/match.c; drivers/base/cpu.c)."""
    online = 0
    for part in (tree.text("/sys/devices/system/cpu/online") or "").split(","):
        span = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        online += max(0, int(span.group(2) or span.group(1)) - int(span.group(1)) + 1) if span else 0
    features: t.Optional[list[str]] = None
    told = re.match(r"cpu:type:(\w+).*?:feature:(.*)", tree.text("/sys/devices/system/cpu/modalias") or "")
    if told and told.group(1) in _FEATURES:
        number_, name = _FEATURES[told.group(1)]
        features = [name] if number_ in told.group(2).upper().split(",") else []
    return {"online": online or None, "features": features}


def _kernel(tree: Tree, files: dict[str, str], release: t.Optional[str]) -> Facts:
    at_boot = persisted(tree)
    listing = builtin_list(tree, release)
    modules = {}
    for name in MODULES:
        loaded = tree.exists("/sys/module/" + name)
        # a built-in module has a directory only if it has parameters, and never an initstate (kernel/module/sysfs.c)
        builtin = is_builtin(listing, name) or (loaded and not tree.exists(f"/sys/module/{name}/initstate"))
        modules[name] = {
            "loaded": loaded or builtin,
            "builtin": builtin,
            "available": loaded or builtin or name in files,
            "persisted": builtin or name in at_boot,
        }
    shared = tree.text("/sys/module/ib_core/parameters/netns_mode")
    # a PMD maps (page size / 8) pages: 4096 * 4096 / 8 is 2 MiB, 65536 * 65536 / 8 is 512 MiB
    huge = number(tree, "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
    page = math.isqrt(huge * 8) if huge and huge > 0 else 0
    return {
        "release": release,
        "page_size": page if page and page & (page - 1) == 0 else None,
        "rdma_netns": {"Y": "shared", "N": "exclusive"}.get(shared or ""),
        "modules": modules,
        "hugepages_2m": number(tree, "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"),
        "cpu": _cpu(tree),
    }


def _stack_packages(tree: Tree) -> t.Optional[dict[str, str]]:
    """Versions by name of the installed packages of the stack; None where nobody tells."""
    status = tree.excerpt("/var/lib/dpkg/status", dpkg_stack)
    listing = None if status else tree.answer("packages", "/usr/bin/rpm")
    if listing is None:
        return None if status is None else parse_dpkg_status(status.decode("utf-8", "replace"))
    words = (line.split(" ") for line in listing.splitlines())
    return {pair[0]: pair[1] for pair in words if len(pair) == 2 and is_stack_package(pair[0])}


def _proof(tree: Tree, warnings: list[str]) -> t.Optional[Facts]:
    """What driver_proof remembered: a driver that nobody has proved yet, and whether the node has booted since.

    A change of the packages that was neither proved nor undone is one, too, of which nobody knows what it was to be.
    """
    unfinished: Facts = {"method": None, "release": None, "installed": False, "booted": False, "devices": []}
    unknown = unfinished if tree.exists(DRIVER_PACKAGES) else None
    text = tree.text(DRIVER_PROOF)
    if text is None:
        return unknown
    try:
        value = json.loads(text)
        return {
            "method": str(value["method"]),
            "release": str(value["release"]),
            "installed": value.get("installed", True) is not False,
            "booted": value["boot_id"] != tree.text(BOOT_ID),
            "devices": [
                {
                    "name": str(device["name"]),
                    "pci": None if device["pci"] is None else str(device["pci"]),
                    "ports": [{"number": int(port["number"]), "state": str(port["state"])} for port in device["ports"]],
                }
                for device in value["devices"]
            ],
        }
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as exc:
        warnings.append(f"{DRIVER_PROOF} makes no sense ({type(exc).__name__}: {exc!s:.60})")
        return unknown


def _ofed(tree: Tree, files: dict[str, str], warnings: list[str]) -> Facts:
    """Which driver stack the node has on disk and in the kernel, and what came with it."""
    flavour, version, path_kind = driver_stack(tree, files.get("mlx5_core"))
    return {
        "flavour": flavour,
        "version": version,
        "mlx5_core": {"path_kind": path_kind, "version": tree.text("/sys/module/mlx5_core/version")},
        # a long list to look through, and nobody asks for the distribution's
        "packages": None if flavour == "inbox" else _stack_packages(tree),
        "proof": _proof(tree, warnings),
        "tools": {name: program_path(tree, name) is not None for name in _TOOLS},
    }


def _management(tree: Tree, devices: list[Facts]) -> Facts:
    found = read_management(tree, devices)
    ours = {name for device in devices for name in device["netdevs"]}
    addresses = read_addresses(tree, {*ours, *found["default_route_netdevs"]})
    # a capture of an earlier version does not tell
    return found if addresses is None else {**found, "addresses": addresses}


def _valid_unicode(value: t.Any) -> t.Any:
    """Facts in which names of files (the kernel allows a netdev any bytes) can be printed and sent as JSON."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_valid_unicode(item) for item in value]
    if isinstance(value, dict):
        return {key: _valid_unicode(item) for key, item in value.items()}
    return value


# Subsets that a caller may ask for.
SUBSETS = ("devices", "gpus", "health", "kernel", "limits", "management", "roce", "runtime", "storage")


def gather(tree: Tree, subsets: t.Iterable[str] = SUBSETS) -> Facts:
    """The value of ansible_facts.rdma (docs/facts.schema.json) of the node that a tree shows.

    The subset kernel brings ``kernel``, ``ofed`` and, after a change that never ended, ``change``; gpus brings ``gpus`` and
    ``nvidia``, each other one the key of its name. Sorted, without time stamps of now: the same tree gives the same value, byte
    for byte in JSON. What changes on a node that nobody changes (counters, temperatures) is in ``health`` alone. Raises nothing
    for whatever a tree holds.
    """
    wanted = set(subsets)
    warnings: list[str] = []
    facts: Facts = {"schema": _SCHEMA}
    devices: list[Facts] = []
    files: dict[str, str] = {}
    if wanted & {"devices", "gpus", "management", "roce"}:
        devices = read_devices(tree, warnings)
    if "devices" in wanted:
        facts["devices"] = devices
        facts["bare_functions"] = read_bare_functions(tree, devices)
    release: t.Optional[str] = None
    if wanted & {"gpus", "kernel"}:
        release = kernel_release(tree, warnings)
        files = module_paths(tree, release, MODULES)
    if "gpus" in wanted:
        facts["gpus"] = _gpus(tree, devices)
        has_gpu = any(gpu["vendor"] == "10de" for gpu in facts["gpus"])
        vendor_stack = not files.get("ib_core", "kernel/").startswith("kernel/")
        facts["nvidia"] = read_nvidia(tree, release, "nvidia_peermem" in files, vendor_stack, has_gpu)
        if facts["nvidia"] is not None:
            facts["nvidia"]["imex"] = read_imex(tree, warnings)
    if "health" in wanted:
        facts["health"] = read_health(tree)
    if "kernel" in wanted:
        facts["kernel"] = _kernel(tree, files, release)
        facts["ofed"] = _ofed(tree, files, warnings)
        change = open_change(tree.read(CHANGE))
        if change is not None:
            facts["change"] = change
    if "management" in wanted:
        facts["management"] = _management(tree, devices)
    if "roce" in wanted:
        facts["roce"] = read_roce(tree, devices)
    if "limits" in wanted:
        facts["limits"] = read_limits(tree)
    if "runtime" in wanted:
        facts["runtime"] = read_runtime(tree, warnings)
    if "storage" in wanted:
        facts["storage"] = read_storage(tree, warnings)
    facts["warnings"] = warnings
    return t.cast(Facts, _valid_unicode(facts))
