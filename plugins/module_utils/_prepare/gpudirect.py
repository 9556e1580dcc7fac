# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How HCAs of a host reach the memory of its GPUs: DMA-BUF, nvidia_peermem or not at all. Private to the collection.

DMA-BUF needs a kernel from 5.12 on and the open modules of NVIDIA's driver, and nothing has to be loaded. nvidia_peermem
needs an ib_core that exports ib_register_peer_memory_client, which MLNX_OFED's and DOCA's do and the kernel's own does not
(NVIDIA GPU Operator's documentation, "GPUDirect RDMA"; kernel-open/nvidia-peermem of NVIDIA's open-gpu-kernel-modules).
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._discover.nvidia import SYMBOL, generation
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems as wish_problems

__all__ = ["OPEN_ONLY", "PROPRIETARY_ONLY", "decide", "gpudirect_needs"]

Json = t.Dict[str, t.Any]
Facts = t.Mapping[str, t.Any]
# NVIDIA's open modules drive Turing and newer, and nothing else drives what came with or after Grace.
PROPRIETARY_ONLY = ("Maxwell", "Pascal", "Volta")
OPEN_ONLY = ("Grace Hopper", "Blackwell")
_DMABUF_KERNEL = (5, 12)
_DMABUF_DRIVER = 515
# nvidia_peermem counts in GPU pages of 64 KiB (nvidia-peermem.c, GPU_PAGE_SHIFT).
_GPU_PAGE = 65536


def _numbers(text: t.Optional[str]) -> tuple[int, ...]:
    """The first numbers of a version. No version has more than nine digits in one, and Python refuses to read very long ones."""
    return tuple(int(part[:9]) for part in re.findall(r"\d+", (text or "").partition("-")[0])[:3])


def _problem(cause: str, remedy: str) -> dict[str, str]:
    return {"cause": cause, "remedy": remedy}


class _Host:
    """What counts of a host's facts."""

    def __init__(self, facts: Facts) -> None:
        nvidia = facts.get("nvidia") or {}
        self.modules = facts["kernel"]["modules"]
        self.release: t.Optional[str] = facts["kernel"]["release"]
        self.page: t.Optional[int] = facts["kernel"]["page_size"]
        self.ofed: str = facts["ofed"]["flavour"]
        self.driver: t.Optional[str] = nvidia.get("driver")
        self.operator: bool = bool(nvidia.get("operator"))
        self.peer_memory = nvidia.get("peer_memory") or {"loaded": None, "installed": None}
        self.peermem_kernels: list[str] = list(nvidia.get("peermem_kernels") or [])
        gpus = [gpu for gpu in facts.get("gpus", []) if gpu["vendor"] == "10de"]
        self.gpus = len(gpus)
        self.generations = sorted({generation(gpu["device"]) or f"unknown ({gpu['device']})" for gpu in gpus})
        # Soft-RoCE and management-only devices reach no memory of a GPU
        self.hcas = [one["name"] for one in facts.get("devices", []) if one["kind"] in ("pf", "vf", "sf")]
        old = [name for name in self.generations if name in PROPRIETARY_ONLY]
        new = [name for name in self.generations if name in OPEN_ONLY]
        # what is not loaded can still be told where there is only one
        self.flavour: t.Optional[str] = nvidia.get("flavour") or ("proprietary" if old else "open" if new else None)

    def there(self, module: str) -> bool:
        return bool(self.modules[module]["available"])


def _no_driver(host: _Host) -> list[dict[str, str]]:
    if host.there("nvidia"):
        return []
    return [
        _problem(
            f"there is no NVIDIA driver for kernel {host.release}",
            "install the driver for this kernel (with DKMS, and the kernel's headers), then run again",
        )
    ]


def _dmabuf_problems(host: _Host) -> list[dict[str, str]]:
    problems = _no_driver(host)
    old = [name for name in host.generations if name in PROPRIETARY_ONLY]
    if old:
        problems.append(
            _problem(
                f"{' and '.join(old)} has proprietary kernel modules only, and those export no DMA-BUF",
                "use nvidia_peermem (rdma_gpudirect: peermem), with MLNX_OFED or DOCA-OFED on the host",
            )
        )
    elif host.flavour == "proprietary":
        problems.append(
            _problem(
                f"the loaded NVIDIA driver {host.driver or ''} is the proprietary one, which exports no DMA-BUF",
                "install the open kernel modules of the driver (nvidia-open), or use nvidia_peermem",
            )
        )
    elif host.flavour is None and host.there("nvidia"):
        problems.append(
            _problem(
                "the NVIDIA driver is not loaded, so it is not known whether it is the open one",
                "load it (`modprobe nvidia`; its package does so at boot), then run again",
            )
        )
    if _numbers(host.release)[:2] < _DMABUF_KERNEL:
        problems.append(
            _problem(
                f"kernel {host.release} is older than 5.12, the first with DMA-BUF for RDMA", "install a newer kernel"
            )
        )
    branch = _numbers(host.driver)[:1]
    if host.driver and not branch:
        problems.append(
            _problem(
                f"cannot tell the branch of the loaded NVIDIA driver from its version {host.driver!s:.60}",
                "look at /sys/module/nvidia/version, and install a driver of NVIDIA's",
            )
        )
    elif branch and branch[0] < _DMABUF_DRIVER:
        problems.append(
            _problem(f"driver {host.driver} is older than 515, the first with DMA-BUF", "install a newer driver branch")
        )
    return problems


def _peermem_problems(host: _Host) -> list[dict[str, str]]:
    if host.modules["nvidia_peermem"]["loaded"]:
        return []
    problems = _no_driver(host)
    if host.modules.get("nv_peer_mem", {}).get("loaded"):
        problems.append(
            _problem(
                "nv_peer_mem, the ancestor of nvidia_peermem, is loaded: both register under the same name",
                "remove it (nvidia_peermem_remove_legacy: true)",
            )
        )
    loaded, installed = host.peer_memory["loaded"], host.peer_memory["installed"]
    if loaded is False and installed:
        problems.append(
            _problem(
                f"the installed ib_core exports {SYMBOL}, the loaded one does not: it is still the one from before",
                "reload the RDMA driver (openibd) or reboot, then run again",
            )
        )
    elif loaded is False or (loaded is None and installed is False):
        problems.append(
            _problem(
                f"ib_core of kernel {host.release} does not export {SYMBOL} (driver stack: {host.ofed})",
                "install MLNX_OFED or DOCA-OFED (rdma_ofed) and after it the NVIDIA driver, or use DMA-BUF",
            )
        )
    if host.there("nvidia") and not host.there("nvidia_peermem"):
        others = host.peermem_kernels
        if others:
            problems.append(
                _problem(
                    f"nvidia_peermem is built for kernel {', '.join(others)}, and {host.release} runs",
                    f"build the NVIDIA driver for the running kernel (`dkms autoinstall -k {host.release}`), or boot another",
                )
            )
        else:
            problems.append(
                _problem(
                    f"there is no nvidia_peermem for kernel {host.release}",
                    "install the NVIDIA driver with it (with DKMS, after OFED), then run again",
                )
            )
    if host.page is not None and host.page > _GPU_PAGE:
        problems.append(
            _problem(
                f"pages of {host.page} bytes are larger than those of the GPU (65536)",
                "boot a kernel with smaller pages",
            )
        )
    return problems


def _helm_values(way: str, host: _Host) -> dict[str, t.Any]:
    """What to set in the GPU Operator's chart, whose driver container does the rest."""
    if way == "dmabuf":
        return {"driver.kernelModuleType": "open", "driver.rdma.enabled": False}
    if way == "peermem":
        return {"driver.rdma.enabled": True, "driver.rdma.useHostMofed": host.ofed != "inbox"}
    return {}


def decide(facts: Facts, wish: str = "auto") -> Json:
    """{way: peermem|dmabuf|none, why: [sentences], problems: [{cause, remedy}], generations, flavour, managed, helm_values}.

    facts: ansible_facts.rdma with the subsets devices, gpus and kernel. problems are those of the wished way; with auto, those
    of both when neither is possible. managed: the driver belongs to the GPU Operator, in whose chart helm_values are to be set.
    WishError for a wish that there is not.
    """
    wrong = wish_problems("rdma_gpudirect", wish)
    if wrong:
        raise WishError(wrong[0])
    host = _Host(facts)
    result: Json = {
        "way": "none",
        "why": [],
        "problems": [],
        "generations": host.generations,
        "flavour": host.flavour,
        "managed": host.operator,
        "helm_values": {},
    }
    why: list[str] = result["why"]
    if wish == "none":
        why.append("rdma_gpudirect is none")
        return result
    if not host.gpus or not host.hcas:
        why.append("the host has no " + ("HCA that could reach its GPUs" if host.gpus else "NVIDIA GPU"))
        return result
    problems = {"dmabuf": _dmabuf_problems(host), "peermem": _peermem_problems(host)}
    if host.operator:
        # what is missing on the host may be in the container, which rebuilds it at each start
        old = any(name in PROPRIETARY_ONLY for name in host.generations)
        way = wish if wish != "auto" else "peermem" if old or _numbers(host.release)[:2] < _DMABUF_KERNEL else "dmabuf"
        result["helm_values"] = _helm_values(way, host)
        why.append("the NVIDIA driver belongs to the GPU Operator (/run/nvidia/driver), which is left to do it")
    elif wish == "auto":
        way = next((name for name in ("dmabuf", "peermem") if not problems[name]), "none")
    else:
        way = wish
    result["way"] = way
    gpus = " and ".join(host.generations)
    if way == "dmabuf" and not host.operator and not problems[way]:
        why.append(
            f"kernel {host.release} and the open NVIDIA driver {host.driver or ''} have DMA-BUF; nothing has to be loaded"
        )
        if host.page and host.page > 4096:
            why.append(
                f"pages have {host.page} bytes: buffers that programs register have to begin at multiples of that"
            )
    elif way == "peermem" and wish == "auto" and not host.operator:
        why.append("{}: {}; so nvidia_peermem".format(gpus, "; ".join(one["cause"] for one in problems["dmabuf"])))
    elif wish not in ("auto", "none"):
        why.append(f"rdma_gpudirect is {wish}")
    if not host.operator:
        result["problems"] = problems[way] if way != "none" else problems["dmabuf"] + problems["peermem"]
    if way == "none":
        why.append(f"{gpus}: neither DMA-BUF nor nvidia_peermem is possible")
    return result


def gpudirect_needs(facts: Facts, wish: str = "auto") -> Json:
    """What the role nvidia_peermem has to do on a host: decide() with {needed, reasons, load, persist, blocked, after}.

    blocked: sentences why what was asked for by name is impossible; the role says them and changes nothing. With auto, what is
    impossible is not an error. after: modules that have to come before nvidia_peermem at boot.
    """
    decision = decide(facts, wish)
    result: Json = {
        "needed": False,
        "reasons": [],
        "load": False,
        "persist": False,
        "blocked": [],
        "after": [],
        **decision,
    }
    if decision["managed"] or decision["way"] == "none":
        return result
    if decision["problems"]:
        result["blocked"] = [f"{one['cause']}; {one['remedy']}" for one in decision["problems"]]
        result["reasons"] = [one["cause"] for one in decision["problems"]]
    elif decision["way"] == "peermem":
        modules = facts["kernel"]["modules"]
        state = modules["nvidia_peermem"]
        result["load"], result["persist"] = not state["loaded"], not state["persisted"]
        result["reasons"] = ["nvidia_peermem is not loaded"] * result["load"] + [
            "nvidia_peermem is not loaded at boot"
        ] * result["persist"]
        result["after"] = [
            name for name in ("mlx5_ib", "nvidia") if modules[name]["loaded"] and not modules[name]["builtin"]
        ]
    result["needed"] = bool(result["reasons"])
    return result
