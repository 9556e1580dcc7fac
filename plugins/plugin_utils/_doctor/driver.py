# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules: drivers of HCAs and GPUs. Private to the collection. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.case import Case, quoted
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Hit, Rule

__all__ = ["RULES"]

_DRIVERS = ("nvidia", "NVRM", "mlx5", "ib_", "openibd", "doca", "mofed")
# nvidia-peermem.c, once for each deregistration, without a limit
_KNOWN_FLOOD = "detected invalid context, skipping further processing"
_NUMBERS = re.compile(r"0x[0-9a-f]{1,16}|\d{1,20}")
# A message of the kernel or of a service, and not a row of a table or what a program says: dmesg, journalctl, RFC 3339, klog
_MESSAGE = re.compile(
    r"\[ *[\d.]{1,20}\]|\[\w{3} \w{3} [ \d]\d |\w{3} [ \d]\d \d\d:\d\d:\d\d |\d{4}[-/]\d\d[-/]\d\d|<\d{1,3}>|[IWEF]\d{4} |kernel: "
)
# Of the last lines of a log, so many alike are a flood, and such a part of all.
_LOOKED_AT, _FLOOD, _SHARE = 5000, 200, 0.5
# mlnxofedinstall and openibd, RHEL's weak modules, dkms
_OTHER_KERNEL = (
    "belong to kernel which is not a part of MLNX",
    "Module mlx5_core belong to a kernel",
    "version magic '",
)
_NOT_INSERTED = "could not insert"
_MODULES = ("nvidia", "nv_peer_mem", "mlx5", "'ib_", "'rdma_", "gdrdrv")
# kernel, security/lockdown and kernel/module/signing.c; errno EKEYREJECTED and ENOKEY as modprobe says them
_REJECTED = ("Key was rejected by service", "Required key not available")
_UNSIGNED = ("Loading of unsigned module is rejected", "Loading of module with unavailable key is rejected")


def _flood(case: Case) -> t.Iterator[Hit]:
    for log in case.logs:
        counts: dict[str, int] = {}
        first: dict[str, str] = {}
        lines = log["text"].rsplit("\n", _LOOKED_AT)[1:]
        for line in lines:
            # what stands before the program differs from line to line: the time
            text = _NUMBERS.sub("N", line[:400])
            counts[text] = counts.get(text, 0) + 1
            first.setdefault(text, line)
        for text, count in sorted(counts.items(), key=lambda item: -item[1])[:1]:
            said = first[text]
            known = _KNOWN_FLOOD in said
            message = log["source"] in ("kernel", "journal") or _MESSAGE.match(said)
            of_driver = message and any(word in said for word in _DRIVERS) and "NCCL" not in said
            if (known and count >= 50) or (of_driver and count >= _FLOOD and count > _SHARE * len(lines)):
                yield case.hit(
                    log, [f"{quoted(log['name'])}: {count} of {len(lines)} lines are like this one: {quoted(said)}"]
                )


def _kernel_without_rdma(case: Case) -> t.Iterator[Hit]:
    for host, facts in case.facts.items():
        ofed = facts.get("ofed") or {}
        if ofed.get("flavour") in ("mlnx_ofed", "doca") and (ofed.get("mlx5_core") or {}).get("path_kind") != "updates":
            release = (facts.get("kernel") or {}).get("release")
            kind = (ofed.get("mlx5_core") or {}).get("path_kind")
            has = "the kernel's own mlx5_core" if kind == "inbox" else "no mlx5_core"
            yield Hit(
                (host,),
                (
                    f"{host}: {ofed['flavour']} {quoted(ofed.get('version') or '')} is installed, and kernel {quoted(release)} has {has}",
                ),
            )
    yield from case.told(*_OTHER_KERNEL[:2])


def _kernel_without_gpu(case: Case) -> t.Iterator[Hit]:
    for host, facts in case.facts.items():
        nvidia = facts.get("nvidia") or {}
        modules = (facts.get("kernel") or {}).get("modules") or {}
        kernels = nvidia.get("peermem_kernels") or []
        gpus = [gpu for gpu in facts.get("gpus") or () if gpu["vendor"] == "10de"]
        release = (facts.get("kernel") or {}).get("release")
        if (
            gpus
            and not nvidia.get("operator")
            and kernels
            and release not in kernels
            and not (modules.get("nvidia_peermem") or {}).get("available")
        ):
            yield Hit(
                (host,),
                (
                    f"{host}: NVIDIA's modules are built for {quoted(', '.join(kernels))}, and kernel {quoted(release)} runs",
                ),
            )
    for line in case.lines(_OTHER_KERNEL[2]):
        if "should be" in line.raw and any(word in line.raw for word in ("nvidia", "mlx5")):
            yield case.hit(line.log, [str(line)])
    for line in case.lines("Exec format error"):
        if _NOT_INSERTED in line.raw and any(word in line.raw for word in _MODULES[:2]):
            yield case.hit(line.log, [str(line)])


def _not_signed(case: Case) -> t.Iterator[Hit]:
    for line in case.lines(*_REJECTED):
        if _NOT_INSERTED in line.raw and any(word in line.raw for word in _MODULES):
            yield case.hit(line.log, [str(line)])
    yield from case.told(*_UNSIGNED)


RULES = (
    Rule(
        "driver-log-flood",
        "A driver floods the log",
        "warning",
        ("logs",),
        "a driver writes the same line again and again: the disk of the node fills, and other messages are lost",
        "limit the journal (SystemMaxUse= and SystemKeepFree= in /etc/systemd/journald.conf) and logrotate (maxsize); DMA-BUF "
        "(rdma_gpudirect: dmabuf) stops the lines from nvidia-peermem",
        _flood,
    ),
    Rule(
        "kernel-without-rdma-driver",
        "The kernel was upgraded under the RDMA driver",
        "error",
        ("facts", "logs"),
        "the running kernel has no modules of the RDMA stack that is installed, as after a kernel upgrade without DKMS",
        "rdma_ofed of the group and ansible-playbook fabric.rdma.prepare; by hand: install the kernel's headers, dkms autoinstall "
        "-k $(uname -r), reboot",
        _kernel_without_rdma,
    ),
    Rule(
        "kernel-without-gpu-driver",
        "The kernel was upgraded under the NVIDIA driver",
        "error",
        ("facts", "logs"),
        "NVIDIA's modules were built for another kernel than the one that runs",
        "install the kernel's headers, dkms autoinstall -k $(uname -r), reboot; or boot the kernel that they were built for",
        _kernel_without_gpu,
    ),
    Rule(
        "module-not-signed",
        "The kernel refuses a module that is not signed",
        "error",
        ("logs",),
        "Secure Boot is on, and the kernel refuses a driver's module: it knows no key that has signed it",
        "enroll the key that signs it: mokutil --import KEY.der, then reboot and confirm it at the console (DKMS signs with "
        "/var/lib/dkms/mok.pub, on Ubuntu /var/lib/shim-signed/mok/MOK.der); or turn Secure Boot off",
        _not_signed,
    ),
)
