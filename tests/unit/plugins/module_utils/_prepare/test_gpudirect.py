# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import MemoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._discover.nvidia import SYMBOL, generation
from ansible_collections.fabric.rdma.plugins.module_utils._discover.record import record
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.gpudirect import (
    decide,
    gpudirect_needs,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.modprobe import explain_modprobe
from ansible_collections.fabric.rdma.tests.unit.machines import Machine, facts_of

RELEASE = "6.8.0-64-generic"
V100, A100, H100, GH200, GB200, B300 = "1db6", "20b2", "2330", "2342", "2941", "3182"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n"
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025\n"
LISTING = f"/lib/modules/{RELEASE}/modules.dep"
SYMBOLS = f"/lib/modules/{RELEASE}/modules.symbols"
EXPORT = f"alias symbol:{SYMBOL} ib_core\n"


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("1430", "Maxwell"),
        ("15f8", "Pascal"),
        ("17fd", "Maxwell"),
        ("1b38", "Pascal"),
        ("1d01", "Pascal"),
        ("1d81", "Volta"),
        ("1db1", "Volta"),
        ("1df6", "Volta"),
        ("1e30", "Turing"),
        ("1eb8", "Turing"),
        ("20b0", "Ampere"),
        ("20f1", "Ampere"),
        ("2184", "Turing"),
        ("2235", "Ampere"),
        ("2330", "Hopper"),
        ("2342", "Grace Hopper"),
        ("25b6", "Ampere"),
        ("26b9", "Ada"),
        ("27b8", "Ada"),
        ("2901", "Blackwell"),
        ("2941", "Blackwell"),
        ("2bb1", "Blackwell"),
        ("31c2", "Blackwell"),
        ("0fff", None),
        ("3fff", None),
        ("nope", None),
        (None, None),
    ],
)
def test_a_gpu_has_its_generation(device: str | None, name: str | None) -> None:
    assert generation(device) == name


def node(
    gpu: str | None = A100,
    driver: str = OPEN,
    release: str = RELEASE,
    symbols: str = "alias symbol:ib_create_qp ib_core\n",
    modules: tuple[str, ...] = ("nvidia", "nvidia-peermem"),
    loaded: tuple[str, ...] = ("nvidia", "mlx5_ib", "ib_core"),
    files: dict[str, str] | None = None,
) -> Machine:
    machine = Machine()
    machine.nic()
    machine.file("/proc/sys/kernel/osrelease", release + "\n")
    if gpu:
        machine.function("0000:1b:00.0", driver="nvidia", vendor="0x10de", device=f"0x{gpu}", **{"class": "0x030200"})
    if driver:
        machine.file("/proc/driver/nvidia/version", driver)
        machine.files("/sys/module/nvidia", version="580.95.05")
    for name in loaded:
        machine.files(f"/sys/module/{name}", initstate="live")
    machine.file(LISTING.replace(RELEASE, release), "".join(f"updates/dkms/{name}.ko:\n" for name in modules))
    machine.file(SYMBOLS.replace(RELEASE, release), symbols)
    for path, text in (files or {}).items():
        machine.file(path, text)
    return machine


def causes(decision: dict[str, Any]) -> list[str]:
    return [problem["cause"] for problem in decision["problems"]]


@pytest.mark.parametrize(
    ("machine", "way"),
    [
        (node(A100), "dmabuf"),
        (node(GB200), "dmabuf"),
        (node(B300, driver=""), "dmabuf"),
        (node(GH200), "dmabuf"),
        (node(A100, PROPRIETARY, symbols=EXPORT), "peermem"),
        (node(A100, PROPRIETARY), "none"),
        (node(V100, PROPRIETARY, symbols=EXPORT), "peermem"),
        (node(V100, PROPRIETARY), "none"),
        # the older kernel of a distribution
        (node(H100, release="5.4.0-200-generic", symbols=EXPORT), "peermem"),
        (node(H100, release="5.4.0-200-generic"), "none"),
        (node(None), "none"),
        # without the driver nobody knows which it is; of a V100 there is only one
        (node(A100, driver="", loaded=("ib_core",)), "none"),
        (node(V100, driver="", loaded=("ib_core",), symbols=EXPORT), "peermem"),
        (node(A100, driver="", modules=(), loaded=("ib_core",)), "none"),
    ],
)
def test_auto_takes_the_best_way_to_gpudirect(machine: Machine, way: str) -> None:
    decision = decide(facts_of(machine))
    assert decision["way"] == way
    assert decision["why"]
    needs = gpudirect_needs(facts_of(machine))
    assert needs["needed"] == (way == "peermem"), "what is impossible is not an error when nobody insisted"
    assert bool(decision["problems"]) == (way == "none" and bool(facts_of(machine)["gpus"]))


def test_peermem_is_loaded_and_persisted_after_its_drivers() -> None:
    needs = gpudirect_needs(facts_of(node(V100, PROPRIETARY, symbols=EXPORT)))
    assert (needs["load"], needs["persist"], needs["after"]) == (True, True, ["mlx5_ib", "nvidia"])
    assert needs["reasons"] == ["nvidia_peermem is not loaded", "nvidia_peermem is not loaded at boot"]
    assert needs["why"] == [
        "Volta: Volta has proprietary kernel modules only, and those export no DMA-BUF; so nvidia_peermem"
    ]
    loaded = ("nvidia", "mlx5_ib", "ib_core", "nvidia_peermem")
    done = node(V100, PROPRIETARY, loaded=loaded, files={"/etc/modules-load.d/nvidia.conf": "nvidia-peermem\n"})
    assert not gpudirect_needs(facts_of(done))["needed"]
    half = gpudirect_needs(facts_of(node(V100, PROPRIETARY, loaded=loaded)))
    assert (half["load"], half["persist"]) == (False, True)


@pytest.mark.parametrize(
    ("machine", "wish", "cause", "remedy"),
    [
        (node(V100, PROPRIETARY), "dmabuf", "Volta has proprietary kernel modules only", "use nvidia_peermem"),
        (node(A100, PROPRIETARY), "dmabuf", "the proprietary one, which exports no DMA-BUF", "nvidia-open"),
        (node(A100, release="5.4.0"), "dmabuf", "kernel 5.4.0 is older than 5.12", "newer kernel"),
        (node(A100, driver="", loaded=()), "dmabuf", "the NVIDIA driver is not loaded", "modprobe nvidia"),
        (node(A100, driver="", modules=(), loaded=()), "dmabuf", f"no NVIDIA driver for kernel {RELEASE}", "DKMS"),
        (
            node(A100, files={"/sys/module/nvidia/version": "470.256.02\n"}),
            "dmabuf",
            "driver 470.256.02 is older than 515",
            "newer driver",
        ),
        (
            node(V100),
            "peermem",
            f"ib_core of kernel {RELEASE} does not export {SYMBOL}",
            "install MLNX_OFED or DOCA-OFED",
        ),
        (
            node(V100, symbols=EXPORT, modules=("nvidia",)),
            "peermem",
            f"there is no nvidia_peermem for kernel {RELEASE}",
            "install the NVIDIA driver with it",
        ),
        (
            node(
                V100,
                symbols=EXPORT,
                modules=("nvidia",),
                files={LISTING.replace(RELEASE, "6.5.0-1"): "updates/dkms/nvidia-peermem.ko.zst: x.ko\n"},
            ),
            "peermem",
            f"nvidia_peermem is built for kernel 6.5.0-1, and {RELEASE} runs",
            f"dkms autoinstall -k {RELEASE}",
        ),
        (
            node(V100, symbols=EXPORT, loaded=("nvidia", "ib_core", "nv_peer_mem")),
            "peermem",
            "nv_peer_mem, the ancestor of nvidia_peermem, is loaded",
            "nvidia_peermem_remove_legacy",
        ),
        (
            node(V100, symbols=EXPORT, files={f"/.answers/symbol/{SYMBOL}": "0"}),
            "peermem",
            "the loaded one does not: it is still the one from before",
            "reboot",
        ),
    ],
)
def test_what_is_impossible_says_why(machine: Machine, wish: str, cause: str, remedy: str) -> None:
    needs = gpudirect_needs(facts_of(machine), wish)
    assert needs["needed"]
    assert not needs["load"]
    assert needs["way"] == wish
    (problem,) = needs["problems"]
    assert cause in problem["cause"]
    assert remedy in problem["remedy"]
    assert needs["blocked"] == [f"{problem['cause']}; {problem['remedy']}"]


def test_pages_larger_than_those_of_the_gpu_rule_peermem_out() -> None:
    machine = node(GB200)
    machine.files("/sys/kernel/mm/transparent_hugepage", hpage_pmd_size=65536 * 65536 // 8)
    assert "begin at multiples" in decide(facts_of(machine))["why"][-1]
    facts = facts_of(node(V100, symbols=EXPORT))
    facts["kernel"]["page_size"] = 2**18
    assert causes(decide(facts, "peermem")) == ["pages of 262144 bytes are larger than those of the GPU (65536)"]


@pytest.mark.parametrize(
    ("files", "loaded", "installed", "expected"),
    [
        ({}, ("ib_core",), EXPORT, (True, True)),
        ({}, ("ib_core",), "", (False, False)),
        ({}, (), EXPORT, (None, True)),
        ({f"/.answers/symbol/{SYMBOL}": "0"}, ("ib_core",), EXPORT, (False, True)),
        ({f"/.answers/symbol/{SYMBOL}": "1"}, ("ib_core",), EXPORT, (True, True)),
        # a client has registered: nobody has to ask
        ({"/sys/kernel/mm/memory_peers/nv_mem/version": "1"}, ("ib_core",), "", (True, False)),
    ],
)
def test_whether_ib_core_takes_clients(
    files: dict[str, str], loaded: tuple[str, ...], installed: str, expected: tuple[bool | None, bool | None]
) -> None:
    facts = facts_of(node(loaded=loaded, symbols=installed, files=files))
    assert tuple(facts["nvidia"]["peer_memory"].values()) == expected


def test_an_ib_core_of_a_vendor_is_asked_about_even_when_the_one_on_disk_exports_nothing() -> None:
    machine = node(modules=("nvidia", "ib_core"), symbols="alias symbol:x y\n")
    assert facts_of(machine)["nvidia"]["peer_memory"] == {"loaded": None, "installed": False}
    machine.file(f"/.answers/symbol/{SYMBOL}", "1")
    assert facts_of(machine)["nvidia"]["peer_memory"] == {"loaded": True, "installed": False}


@pytest.mark.parametrize(
    ("files", "flavour"),
    [
        ({"/proc/driver/nvidia/version": OPEN}, "open"),
        ({"/proc/driver/nvidia/version": PROPRIETARY}, "proprietary"),
        ({"/sys/module/nvidia/taint": "POE\n"}, "proprietary"),
        ({"/sys/module/nvidia/taint": "OE\n"}, "open"),
        ({}, None),
    ],
)
def test_the_flavour_of_the_driver_is_read_from_its_files(files: dict[str, str], flavour: str | None) -> None:
    assert facts_of(node(driver="", files=files))["nvidia"]["flavour"] == flavour


@pytest.mark.parametrize(
    ("gpu", "wish", "way", "values"),
    [
        (A100, "auto", "dmabuf", {"driver.kernelModuleType": "open", "driver.rdma.enabled": False}),
        (V100, "auto", "peermem", {"driver.rdma.enabled": True, "driver.rdma.useHostMofed": True}),
        (A100, "peermem", "peermem", {"driver.rdma.enabled": True, "driver.rdma.useHostMofed": True}),
        (A100, "none", "none", {}),
    ],
)
def test_the_operators_driver_is_left_alone(gpu: str, wish: str, way: str, values: dict[str, Any]) -> None:
    machine = node(gpu, modules=(), files={"/run/nvidia/driver/usr/bin/nvidia-smi": ""})
    machine.file("/usr/bin/ofed_info", "echo MLNX_OFED_LINUX-24.10-1.1.4.0\n")
    needs = gpudirect_needs(facts_of(machine), wish)
    assert not needs["needed"]
    assert needs["managed"]
    assert (needs["way"], needs["helm_values"]) == (way, values)


def test_hosts_without_what_it_takes() -> None:
    assert facts_of(node(None))["nvidia"] is None
    assert decide(facts_of(node(None)))["why"] == ["the host has no NVIDIA GPU"]
    bare = node(A100)
    bare.remove("/sys/class/infiniband/mlx5_0")
    assert decide(facts_of(bare))["why"] == ["the host has no HCA that could reach its GPUs"]
    assert decide(facts_of(bare), "peermem")["problems"] == []
    with pytest.raises(WishError, match="expected one of auto, peermem, dmabuf, none"):
        decide(facts_of(bare), "yes")


def test_a_recording_keeps_the_lines_about_peer_memory() -> None:
    machine = node(V100, symbols="alias symbol:a b\n" + EXPORT + "alias symbol:c d\n", modules=("nvidia",))
    other = LISTING.replace(RELEASE, "6.5.0-1")
    machine.file(other, "kernel/x.ko:\nupdates/nvidia-peermem.ko:\n")
    entries = record(machine.tree())
    assert entries[SYMBOLS].data.decode() == EXPORT
    assert entries[other].data.decode() == "updates/nvidia-peermem.ko:\n"
    assert facts_of(MemoryTree(entries)) == facts_of(machine)


INSERT = "modprobe: ERROR: could not insert 'nvidia_peermem': "


@pytest.mark.parametrize(
    ("error", "log", "cause", "remedy"),
    [
        (INSERT + "Invalid argument", [], "built without peer memory", "rebuild the NVIDIA driver"),
        (
            INSERT + "Invalid argument",
            ["nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client"],
            "another version of ib_register_peer_memory_client",
            "rebuild the NVIDIA driver",
        ),
        (
            INSERT + "Unknown symbol in module, or unknown parameter (see dmesg)",
            ["loop: module loaded", f"nvidia_peermem: Unknown symbol {SYMBOL} (err -2)"],
            "the ib_core that runs does not export",
            "install MLNX_OFED or DOCA-OFED and reload it",
        ),
        (
            INSERT + "Unknown symbol in module, or unknown parameter (see dmesg)",
            ["nvidia_peermem: Unknown symbol nvidia_p2p_get_pages (err -2)"],
            "does not export nvidia_p2p_get_pages",
            "releases that go together",
        ),
        (
            INSERT + "Unknown symbol in module, or unknown parameter (see dmesg)",
            [],
            "the kernel's log names it",
            "dmesg",
        ),
        (INSERT + "No such device", [], "finds no GPU", "NVRM"),
        (
            INSERT + "No such device",
            ["NVRM: No NVIDIA GPU found."],
            "finds no GPU that it can drive",
            "NVRM",
        ),
        (
            "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.1.0-38-amd64",
            [],
            "there is no module nvidia-peermem for the running kernel (/lib/modules/6.1.0-38-amd64)",
            "with DKMS",
        ),
        (
            INSERT + "Exec format error",
            ["nvidia_peermem: version magic '6.1.0-30-amd64 SMP ' should be '6.1.0-38-amd64 SMP '"],
            "built for another kernel (6.1.0-30-amd64 SMP) than the one that runs (6.1.0-38-amd64 SMP)",
            "dkms autoinstall",
        ),
        (INSERT + "Exec format error", [], "built for another kernel", "dkms autoinstall"),
        (INSERT + "Key was rejected by service", [], "Secure Boot", "mokutil"),
        (
            INSERT + "Required key not available",
            ["Lockdown: modprobe: unsigned module loading is restricted", "Loading of unsigned module is rejected"],
            "Secure Boot",
            "mokutil",
        ),
        # said of every module from outside, and no failure
        (
            INSERT + "Invalid argument",
            ["nvidia: module verification failed: signature and/or required key missing - tainting kernel"],
            "built without peer memory",
            "rebuild the NVIDIA driver",
        ),
        (INSERT + "Device or resource busy", [], "nv_peer_mem", "remove nv_peer_mem"),
        (INSERT + "Operation not permitted", [], "forbidden", "become"),
        (INSERT + "Cannot allocate memory", [], "Cannot allocate memory", "dmesg"),
        ("", [], "modprobe gave no reason", "dmesg"),
    ],
)
def test_failures_are_explained_by_cause(error: str, log: list[str], cause: str, remedy: str) -> None:
    why = explain_modprobe(error, log)
    assert set(why) == {"cause", "remedy"}
    assert cause in why["cause"]
    assert remedy in why["remedy"]
    assert not re.search(r"[{}]", "".join(why.values()))
