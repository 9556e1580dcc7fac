# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules: shares of GPUs (HAMi, Volcano vGPU) together with NCCL and RDMA. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.snapshot import requests_of
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.case import Case, name_of, shown_pod
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Hit, Log, Rule

__all__ = ["RULES"]

_CORE = ("[HAMI-core", "libvgpu.so", "/libvgpu/src")
_FAILS = (
    "NCCL WARN",
    "unhandled cuda error",
    "Segfault encountered",
    "Illegal device id",
    "segfault",
    "Segmentation fault",
)
# The library's own words, and the kernel's on a program that died in it, need no other line beside them.
_OWN_FAILS = ("Illegal device id", "in libvgpu.so[")
# NCCL (src/misc/cudawrap.cc), where what it calls is not the driver, or an older one than it was built for
_NO_FUNCTION = ("NCCL WARN Retrieve cu", "NCCL WARN CUDA some PFN functions not found")


def _is_share(resource: str) -> bool:
    return resource.startswith(("volcano.sh/vgpu", "nvidia.com/vgpu", "nvidia.com/gpumem", "nvidia.com/gpucores"))


def _shares_of(case: Case, log: Log) -> list[str]:
    """The shares of GPUs that the Pod of a log asks for."""
    pod = case.pod_of(log)
    return sorted(name for name in requests_of(pod) if _is_share(name)) if pod else []


def _crash(case: Case) -> t.Iterator[Hit]:
    for log in case.logs:
        core = [str(line) for line in case.lines(*_CORE, logs=[log])]
        shares = _shares_of(case, log)
        if shares:
            core.append(f"Pod {log['pod']} asks for {', '.join(shares)}")
        fails = list(case.lines(*_FAILS, logs=[log]))
        if core and fails and ("NCCL" in log["text"] or "nccl" in log["text"]):
            yield case.hit(log, [core[0], str(fails[0])])
            continue
        own = [str(line) for line in case.lines(*_OWN_FAILS, logs=[log]) if any(word in line.raw for word in _CORE)]
        if own:
            yield case.hit(log, own)


def _no_function(case: Case) -> t.Iterator[Hit]:
    yield from case.told(*_NO_FUNCTION)


def _share_with_rdma(case: Case) -> t.Iterator[Hit]:
    for pod in case.workloads():
        shares = sorted(name for name in requests_of(pod) if _is_share(name))
        if shares:
            line = f"{shown_pod(pod)} asks for {', '.join(shares)} and for {', '.join(sorted(case.wants(pod)))}"
            yield Hit(case.host_of(pod["spec"].get("nodeName")), (line,), about=(name_of(pod),))


_WHOLE = "give jobs that use NCCL whole GPUs (nvidia.com/gpu) on groups outside of rdma_vgpu"

RULES = (
    Rule(
        "vgpu-nccl",
        "NCCL fails with a share of a GPU",
        "error",
        ("logs",),
        "NCCL fails in a Pod with a share of a GPU: the library that divides the GPU (libvgpu.so) does not know all calls that NCCL makes",
        _WHOLE + "; NCCL_CUMEM_ENABLE=0 and NCCL_CUMEM_HOST_ENABLE=0 get round some of it",
        _crash,
    ),
    Rule(
        "nccl-without-cuda-functions",
        "NCCL does not find functions of CUDA",
        "warning",
        ("logs",),
        "NCCL does not find functions of CUDA: either a library that divides a GPU (libvgpu.so of HAMi or Volcano) stands in front of the "
        "driver, or the driver is older than the CUDA that NCCL was built for",
        "look with `nvidia-smi` for the driver's CUDA version, and for libvgpu.so in /etc/ld.so.preload of the container; "
        + _WHOLE,
        _no_function,
        ("vgpu-nccl",),
    ),
    Rule(
        "vgpu-with-rdma",
        "A Pod asks for a share of a GPU and for RDMA",
        "warning",
        ("cluster",),
        "a Pod asks for a share of a GPU and for an RDMA resource: NCCL between nodes fails or crashes with a share",
        _WHOLE,
        _share_with_rdma,
    ),
)
