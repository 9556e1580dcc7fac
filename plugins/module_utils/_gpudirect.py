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

from ansible_collections.fabric.rdma.plugins.module_utils._tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._wishes import problems as wish_problems

__all__ = [
    "SYMBOL",
    "GpudirectError",
    "decide",
    "explain_modprobe",
    "generation",
    "gpudirect_needs",
    "read_nvidia",
]

Json = t.Dict[str, t.Any]
Facts = t.Mapping[str, t.Any]

SYMBOL = "ib_register_peer_memory_client"

# First device id of a range, and the generation of the GPUs in it up to the next range (pci.ids, vendor 10de). The ids of a
# generation's chips lie together; functions that are no GPUs (audio, NVSwitch, bridges) are never asked about.
_RANGES = (
    (0x1340, "Maxwell"),
    (0x15F0, "Pascal"),
    (0x1600, "Maxwell"),
    (0x1B00, "Pascal"),
    (0x1D80, "Volta"),
    (0x1E00, "Turing"),
    (0x2080, "Ampere"),
    (0x2180, "Turing"),
    (0x2200, "Ampere"),
    (0x2300, "Hopper"),
    (0x2400, "Ampere"),
    (0x2600, "Ada"),
    (0x2900, "Blackwell"),
    (0x3280, None),
)
# GH200 (GH100 with a Grace CPU on its package).
_GRACE_HOPPER = (0x2342, 0x2343, 0x2345, 0x2348)

# NVIDIA's open modules drive Turing and newer, and nothing else drives what came with or after Grace.
_PROPRIETARY_ONLY = ("Maxwell", "Pascal", "Volta")
_OPEN_ONLY = ("Grace Hopper", "Blackwell")

_DMABUF_KERNEL = (5, 12)
_DMABUF_DRIVER = 515
# nvidia_peermem counts in GPU pages of 64 KiB (nvidia-peermem.c, GPU_PAGE_SHIFT).
_GPU_PAGE = 65536

# The root of the driver in a container of NVIDIA's GPU Operator, and what its validator leaves behind.
_OPERATOR = ("/run/nvidia/driver/usr/bin/nvidia-smi", "/run/nvidia/validations/.driver-ctr-ready")


class GpudirectError(Exception):
    """A wish that makes no sense; the text is for the user."""


# -- facts -------------------------------------------------------------------------------------------------------------


def generation(device: t.Optional[str]) -> t.Optional[str]:
    """The generation of an NVIDIA GPU by its PCI device id (four hex digits); None when the table does not know it."""
    try:
        number = int(device or "", 16)
    except ValueError:
        return None
    if number in _GRACE_HOPPER:
        return "Grace Hopper"
    found = None
    for first, name in _RANGES:
        if number >= first:
            found = name
    return found


def _flavour(tree: Tree) -> t.Optional[str]:
    """open or proprietary, of the loaded driver; None when it is not loaded."""
    text = tree.text("/proc/driver/nvidia/version") or ""
    if "NVRM version:" in text:
        # "NVIDIA UNIX Open Kernel Module for x86_64  580.95.05", "NVIDIA UNIX x86_64 Kernel Module  535.216.01"
        return "open" if "Open Kernel Module" in text else "proprietary"
    taint = tree.text("/sys/module/nvidia/taint")
    if taint is None:
        return None
    # kernel/module/sysfs.c: P for a licence that is not the GPL's; the open modules are Dual MIT/GPL
    return "proprietary" if "P" in taint else "open"


def _exports(data: bytes) -> bytes:
    """Of modules.symbols (depmod(8)) the lines about the symbol."""
    return b"".join(
        line + b"\n" for line in re.findall(rb"^alias symbol:%s [^\n]*" % SYMBOL.encode(), data, re.MULTILINE)
    )


def _kernels_with_peermem(tree: Tree, running: t.Optional[str]) -> t.List[str]:
    """Other kernels on disk for which nvidia_peermem is built."""
    found = []
    for release in tree.names("/lib/modules"):
        if release == running:
            continue
        listing = tree.excerpt("/lib/modules/%s/modules.dep" % release, _peermem_lines)
        if listing and re.fullmatch(r"[\w.+~-]+", release):
            found.append(release)
    return found


def _peermem_lines(data: bytes) -> bytes:
    lines = re.findall(rb"^[^\n:]*/nvidia[-_]peermem\.ko[^\n]*", data, re.MULTILINE)
    return b"".join(line + b"\n" for line in lines)


def read_nvidia(
    tree: Tree, release: t.Optional[str], peermem: bool, vendor_stack: bool, has_gpu: bool
) -> t.Optional[Json]:
    """The value of ansible_facts.rdma.nvidia: NVIDIA's driver and what it needs of the RDMA stack. None without such a GPU.

    release: of the running kernel. peermem: nvidia_peermem is there for it. vendor_stack: the RDMA driver on disk is not the
    kernel's own, so what is loaded may differ from it.
    """
    if not has_gpu:
        return None
    listing = tree.excerpt("/lib/modules/%s/modules.symbols" % release, _exports) if release else None
    on_disk = None if listing is None else bool(listing)
    in_kernel: t.Optional[bool] = None
    if tree.exists("/sys/module/ib_core"):
        # a client has registered with it
        in_kernel = tree.exists("/sys/kernel/mm/memory_peers") or None
        if in_kernel is None and (on_disk or vendor_stack):
            in_kernel = {"1": True, "0": False}.get(tree.answer("symbol", SYMBOL) or "")
        if in_kernel is None and not vendor_stack:
            in_kernel = on_disk
    return {
        "driver": tree.text("/sys/module/nvidia/version") or None,
        "flavour": _flavour(tree),
        "operator": any(tree.exists(path) for path in _OPERATOR),
        "peer_memory": {"loaded": in_kernel, "installed": on_disk},
        "peermem_kernels": [] if peermem else _kernels_with_peermem(tree, release),
    }


# -- decision ----------------------------------------------------------------------------------------------------------


def _numbers(text: t.Optional[str]) -> t.Tuple[int, ...]:
    """The first numbers of a version. No version has more than nine digits in one, and Python refuses to read very long ones."""
    return tuple(int(part[:9]) for part in re.findall(r"\d+", (text or "").partition("-")[0])[:3])


def _problem(cause: str, remedy: str) -> t.Dict[str, str]:
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
        self.peermem_kernels: t.List[str] = list(nvidia.get("peermem_kernels") or [])
        gpus = [gpu for gpu in facts.get("gpus", []) if gpu["vendor"] == "10de"]
        self.gpus = len(gpus)
        self.generations = sorted({generation(gpu["device"]) or "unknown (%s)" % gpu["device"] for gpu in gpus})
        # Soft-RoCE and management-only devices reach no memory of a GPU
        self.hcas = [one["name"] for one in facts.get("devices", []) if one["kind"] in ("pf", "vf", "sf")]
        old = [name for name in self.generations if name in _PROPRIETARY_ONLY]
        new = [name for name in self.generations if name in _OPEN_ONLY]
        # what is not loaded can still be told where there is only one
        self.flavour: t.Optional[str] = nvidia.get("flavour") or ("proprietary" if old else "open" if new else None)

    def there(self, module: str) -> bool:
        return bool(self.modules[module]["available"])


def _no_driver(host: _Host) -> t.List[t.Dict[str, str]]:
    if host.there("nvidia"):
        return []
    return [
        _problem(
            "there is no NVIDIA driver for kernel %s" % host.release,
            "install the driver for this kernel (with DKMS, and the kernel's headers), then run again",
        )
    ]


def _dmabuf_problems(host: _Host) -> t.List[t.Dict[str, str]]:
    problems = _no_driver(host)
    old = [name for name in host.generations if name in _PROPRIETARY_ONLY]
    if old:
        problems.append(
            _problem(
                "%s has proprietary kernel modules only, and those export no DMA-BUF" % " and ".join(old),
                "use nvidia_peermem (rdma_gpudirect: peermem), with MLNX_OFED or DOCA-OFED on the host",
            )
        )
    elif host.flavour == "proprietary":
        problems.append(
            _problem(
                "the loaded NVIDIA driver %s is the proprietary one, which exports no DMA-BUF" % (host.driver or ""),
                "install the open kernel modules of the driver (nvidia-open), or use nvidia_peermem",
            )
        )
    elif host.flavour is None and host.there("nvidia"):
        problems.append(
            _problem(
                "the NVIDIA driver is not loaded, so nobody knows whether it is the open one",
                "load it (`modprobe nvidia`; its package does so at boot), then run again",
            )
        )
    if _numbers(host.release)[:2] < _DMABUF_KERNEL:
        problems.append(
            _problem(
                "kernel %s is older than 5.12, the first with DMA-BUF for RDMA" % host.release, "install a newer kernel"
            )
        )
    branch = _numbers(host.driver)[:1]
    if host.driver and not branch:
        problems.append(
            _problem(
                "the version of the loaded NVIDIA driver is %.60s, which tells no branch" % host.driver,
                "look at /sys/module/nvidia/version, and install a driver of NVIDIA's",
            )
        )
    elif branch and branch[0] < _DMABUF_DRIVER:
        problems.append(
            _problem(
                "driver %s is older than 515, the first with DMA-BUF" % host.driver, "install a newer driver branch"
            )
        )
    return problems


def _peermem_problems(host: _Host) -> t.List[t.Dict[str, str]]:
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
                "the installed ib_core exports %s, the loaded one does not: it is still the one from before" % SYMBOL,
                "reload the RDMA driver (openibd) or reboot, then run again",
            )
        )
    elif loaded is False or (loaded is None and installed is False):
        problems.append(
            _problem(
                "ib_core of kernel %s does not export %s (driver stack: %s)" % (host.release, SYMBOL, host.ofed),
                "install MLNX_OFED or DOCA-OFED (rdma_ofed) and after it the NVIDIA driver, or use DMA-BUF",
            )
        )
    if host.there("nvidia") and not host.there("nvidia_peermem"):
        others = host.peermem_kernels
        if others:
            problems.append(
                _problem(
                    "nvidia_peermem is built for kernel %s, and %s runs" % (", ".join(others), host.release),
                    "build the NVIDIA driver for the running kernel (`dkms autoinstall -k %s`), or boot another"
                    % host.release,
                )
            )
        else:
            problems.append(
                _problem(
                    "there is no nvidia_peermem for kernel %s" % host.release,
                    "install the NVIDIA driver with it (with DKMS, after OFED), then run again",
                )
            )
    if host.page is not None and host.page > _GPU_PAGE:
        problems.append(
            _problem(
                "pages of %d bytes are larger than those of the GPU (65536)" % host.page,
                "boot a kernel with smaller pages",
            )
        )
    return problems


def _helm_values(way: str, host: _Host) -> t.Dict[str, t.Any]:
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
    GpudirectError for a wish that there is not.
    """
    wrong = wish_problems("rdma_gpudirect", wish)
    if wrong:
        raise GpudirectError(wrong[0])
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
    why: t.List[str] = result["why"]
    if wish == "none":
        why.append("rdma_gpudirect is none")
        return result
    if not host.gpus or not host.hcas:
        why.append("the host has no %s" % ("NVIDIA GPU" if not host.gpus else "HCA that could reach its GPUs"))
        return result
    problems = {"dmabuf": _dmabuf_problems(host), "peermem": _peermem_problems(host)}
    if host.operator:
        # what is missing on the host may be in the container, which builds it anew at each start
        old = any(name in _PROPRIETARY_ONLY for name in host.generations)
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
            "kernel %s and the open NVIDIA driver %s have DMA-BUF; nothing is to be loaded"
            % (host.release, host.driver or "")
        )
        if host.page and host.page > 4096:
            why.append(
                "pages have %d bytes: buffers that programs register have to begin at multiples of that" % host.page
            )
    elif way == "peermem" and wish == "auto" and not host.operator:
        why.append("%s: %s; so nvidia_peermem" % (gpus, "; ".join(one["cause"] for one in problems["dmabuf"])))
    elif wish not in ("auto", "none"):
        why.append("rdma_gpudirect is %s" % wish)
    if not host.operator:
        result["problems"] = problems[way] if way != "none" else problems["dmabuf"] + problems["peermem"]
    if way == "none":
        why.append("%s: neither DMA-BUF nor nvidia_peermem is possible" % gpus)
    return result


def gpudirect_needs(facts: Facts, wish: str = "auto") -> Json:
    """What the role nvidia_peermem has to do on a host: decide() with {needed, reasons, load, persist, blocked, after}.

    blocked: sentences why what was asked for by name is impossible; the role says them and changes nothing. With auto, what is
    impossible is no error. after: modules that have to come before nvidia_peermem at boot.
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
        result["blocked"] = ["%s; %s" % (one["cause"], one["remedy"]) for one in decision["problems"]]
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


# -- failures ----------------------------------------------------------------------------------------------------------


class _Failure(t.NamedTuple):
    pattern: str
    cause: str
    remedy: str


_REBUILD = "build the NVIDIA driver anew against the OFED that is there now (`dkms build nvidia/VERSION --force`, `dkms install`)"

# The first that is found tells; the kernel's log, which says more than an errno, comes before what modprobe prints.
_LOG = (
    _Failure(
        r"disagrees about version of symbol (?P<what>\S+)",
        "it was built against another version of {what} than the kernel has now, as when OFED was installed anew after it",
        _REBUILD,
    ),
    _Failure(
        r"Unknown symbol %s" % SYMBOL,
        "the ib_core that runs does not export %s: it is the kernel's own, or OFED was removed or not yet loaded"
        % SYMBOL,
        "install MLNX_OFED or DOCA-OFED and reload it (openibd) or reboot, or use DMA-BUF (rdma_gpudirect: dmabuf)",
    ),
    _Failure(
        r"Unknown symbol (?P<what>\S+)",
        "a module that it needs does not export {what}: the modules are of different releases",
        "install driver and OFED of releases that go together, then reboot",
    ),
    _Failure(
        r"version magic '(?P<what>[^']*)' should be '(?P<wanted>[^']*)'",
        "it was built for another kernel ({what}) than the one that runs ({wanted})",
        "build the NVIDIA driver for the running kernel (`dkms autoinstall`), or boot the other one",
    ),
    _Failure(
        # not "module verification failed", which a kernel without Secure Boot says of every module from outside and loads it
        r"Loading of (?:unsigned module|module with \w+ key) is rejected|PKCS#7 signature not signed",
        "its signature is not trusted by this kernel (Secure Boot)",
        "enrol the key that signs the modules (`mokutil --import`), or switch Secure Boot off",
    ),
    _Failure(
        r"NVRM: No NVIDIA (?:GPU|graphics adapter|devices)",
        "the NVIDIA driver finds no GPU that it can drive",
        "look at `dmesg` for NVRM lines: a GPU that fell off the bus, or one that this driver branch or flavour does not have",
    ),
)
_TEXT = (
    _Failure(
        r"Module (?P<what>\S+) not found in directory (?P<wanted>\S+)",
        "there is no module {what} for the running kernel ({wanted})",
        "install the NVIDIA driver with nvidia-peermem, after OFED, for this kernel (with DKMS)",
    ),
    _Failure(
        r"Invalid argument",
        "it was built without peer memory: when the NVIDIA driver was built, OFED's sources were not there",
        _REBUILD,
    ),
    _Failure(
        r"Unknown symbol",
        "a symbol that it needs is not in the kernel: the kernel's log names it",
        "look at `dmesg`; for %s install and load OFED" % SYMBOL,
    ),
    _Failure(
        r"No such device",
        "the NVIDIA driver that it needs finds no GPU, or none that it can drive",
        "look at `dmesg` for NVRM lines: a GPU that fell off the bus, or one that this driver branch or flavour does not have",
    ),
    _Failure(
        r"Exec format error|Invalid module format",
        "it was built for another kernel than the one that runs",
        "build the NVIDIA driver for the running kernel (`dkms autoinstall`), or boot the other one",
    ),
    _Failure(
        r"Key was rejected by service|Required key not available",
        "its signature is not trusted by this kernel (Secure Boot)",
        "enrol the key that signs the modules (`mokutil --import`), or switch Secure Boot off",
    ),
    _Failure(
        r"Device or resource busy|File exists",
        "another module has registered under its name: nv_peer_mem, its ancestor",
        "remove nv_peer_mem (nvidia_peermem_remove_legacy: true)",
    ),
    _Failure(
        r"Operation not permitted",
        "loading modules is forbidden here: no root, a container, or kernel.modules_disabled",
        "run it with become on the host itself",
    ),
)


def explain_modprobe(error_text: str, kernel_log_lines: t.Iterable[str] = ()) -> t.Dict[str, str]:
    """Why modprobe could not load a module: {cause, remedy}, of what it printed and what the kernel logged meanwhile.

    One errno has several causes: EINVAL is a module that was built without peer memory (nvidia-peermem.c, nv_mem_client_init())
    as well as one whose symbols have other versions (kernel/module/version.c); only the log tells.
    """
    log = "\n".join(kernel_log_lines)
    for failures, text in ((_LOG, log), (_TEXT, error_text)):
        for failure in failures:
            found = re.search(failure.pattern, text)
            if found:
                words = {key: (value or "").strip() for key, value in found.groupdict().items()}
                return {"cause": failure.cause.format(**words), "remedy": failure.remedy}
    last = " ".join(error_text.split())[-200:] or "modprobe gave no reason"
    return {"cause": last, "remedy": "look at `dmesg` on the host"}
