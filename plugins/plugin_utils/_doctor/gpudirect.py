# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules: GPUDirect RDMA, and why nvidia_peermem does not load. Private to the collection. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._discover.nvidia import SYMBOL
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.gpudirect import decide
from ansible_collections.fabric.rdma.plugins.module_utils._verify.nccl_tests import RDMA_WAYS, staged_hosts
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.case import Case, Line, quoted
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Hit, Json, Log, Rule
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.memory import is_of_gpu

__all__ = ["RULES"]

# NCCL: src/graph/topo.cc; "Disabled for GPU" tells only that a pair of GPU and HCA is far apart
_OFF = re.compile(r"GPU Direct RDMA Disabled for HCA")
_CHANNELS = tuple(f"] via {way}" for way in RDMA_WAYS)
# NCCL: src/misc/ibvwrap.cc; what has no room for memory is refused with another error
_REGISTER = ("ibv_reg_mr", "ibv_reg_mr_iova2", "ibv_reg_dmabuf_mr")
_NO_MEMORY_OF_GPU = ("Invalid argument", "Operation not supported")
_PEERMEM = ("nvidia_peermem", "nvidia-peermem", "nv_peer_mem")


def _way(facts: Json) -> t.Optional[Json]:
    if not facts.get("devices") or not facts.get("gpus") or "kernel" not in facts or "ofed" not in facts:
        return None
    return decide(facts)


def _reason(case: Case, hosts: t.Iterable[str]) -> tuple[str, list[str]]:
    """(remedy, evidence) on GPUDirect of the first of some hosts of which something is to say."""
    for host in hosts:
        found = _way(case.facts.get(host) or {})
        if found is not None and found["problems"]:
            problem = found["problems"][0]
            return str(problem["remedy"]), [quoted(f"{host}: {problem['cause']}")]
        if found is not None and found["way"] == "peermem":
            return (
                "rdma_gpudirect: peermem and ansible-playbook fabric.rdma.prepare, which loads nvidia_peermem now and at boot",
                [],
            )
    return "", []


def _hosts_that_say(case: Case, log: Log, names: t.Iterable[str]) -> tuple[str, ...]:
    """Hosts of the inventory that speak in a log under these names: that of a Pod of its namespace, or their own."""
    namespace = str(log["pod"] or "").partition("/")[0]
    found: dict[str, None] = {}
    for name in names:
        pod = case.pods.get(f"{namespace}/{name}")
        own = case.host_of(pod["spec"].get("nodeName") if pod else name)
        found.update(dict.fromkeys(host for host in own if pod or host in case.known_hosts))
    return tuple(found)


def _off(case: Case) -> t.Iterator[Hit]:
    for log in case.logs:
        disabled = [str(line) for line in case.lines("GPU Direct RDMA Disabled", logs=[log]) if _OFF.search(line.raw)]
        channels = [str(line) for line in case.lines(*_CHANNELS, logs=[log])]
        # in the log of a launcher all hosts speak, and its own host may have no GPU
        said = staged_hosts(log["text"].splitlines())
        staged = [str(Line(log, line)) for line in said.values()]
        if disabled or staged or (channels and "/GDRDMA" not in log["text"]):
            hosts = _hosts_that_say(case, log, said) or case.hosts_of_log(log)
            remedy, evidence = _reason(case, hosts)
            lines = (*disabled[:2], *(staged[:2] or channels[:1]), *evidence)
            yield Hit(hosts, lines, remedy=remedy, about=(f"log {log['name']}",))


def _gpu_memory(case: Case) -> t.Iterator[Hit]:
    texts = [f"Couldn't allocate MR with error={number}" for number in (14, 22)] + ["failed with error Bad address"]
    texts += [f"Call to {call} failed with error {why}" for call in _REGISTER for why in _NO_MEMORY_OF_GPU]
    for line in case.lines(*texts):
        # EFAULT: no memory of a host is at an address that is not there
        if (
            "error=14" in line.raw
            or "cuda" in line.log["text"].lower()
            or "gpu" in line.log["text"].lower()
            or "ibv_reg" in line.raw
        ):
            remedy, evidence = _reason(case, case.hosts_of_log(line.log))
            yield case.hit(line.log, [str(line), *evidence], remedy=remedy)
    for line in case.lines("Couldn't allocate MR"):
        if is_of_gpu(line):
            remedy, evidence = _reason(case, case.hosts_of_log(line.log))
            yield case.hit(line.log, [str(line), *evidence], remedy=remedy)


def _of_peermem(case: Case, *texts: str) -> t.Iterator[Hit]:
    for line in case.lines(*texts):
        if any(name in line.raw for name in _PEERMEM):
            yield case.hit(line.log, [str(line)])


def _versions(case: Case) -> t.Iterator[Hit]:
    yield from _of_peermem(case, "disagrees about version of symbol")


def _no_symbol(case: Case) -> t.Iterator[Hit]:
    # the kernel says both of a symbol whose version differs
    other = {name for hit in _versions(case) for name in hit.about}
    for hit in _of_peermem(case, f"Unknown symbol {SYMBOL}"):
        if not set(hit.about) & other:
            yield hit


def _invalid(case: Case) -> t.Iterator[Hit]:
    for line in case.lines("Invalid argument"):
        if "could not insert" in line.raw and any(name in line.raw for name in _PEERMEM):
            yield case.hit(line.log, [str(line)])


def _absent(case: Case) -> t.Iterator[Hit]:
    yield from _of_peermem(case, "not found in directory /lib/modules")
    for host, facts in case.facts.items():
        found = _way(facts)
        modules = (facts.get("kernel") or {}).get("modules") or {}
        if (
            found is not None
            and found["way"] == "peermem"
            and not modules["nvidia_peermem"]["loaded"]
            and not found["problems"]
        ):
            yield Hit((host,), (f"{host}: GPUDirect needs nvidia_peermem there, and it is not loaded",))


_BUILD = (
    "build the NVIDIA driver again for the RDMA stack that is there now: dkms build nvidia/VERSION --force, dkms install "
    "nvidia/VERSION"
)

RULES = (
    Rule(
        "peermem-symbol-version",
        "nvidia_peermem was built against another RDMA stack",
        "error",
        ("logs",),
        "nvidia_peermem was built against another version of ib_core than the kernel has now, as when OFED was installed again after it",
        _BUILD,
        _versions,
    ),
    Rule(
        "peermem-unknown-symbol",
        "ib_core does not know peer memory",
        "error",
        ("logs",),
        "the ib_core that runs does not export ib_register_peer_memory_client: it is the kernel's own, or OFED is not loaded",
        "install and load MLNX_OFED or DOCA-OFED (rdma_ofed), or use DMA-BUF: rdma_gpudirect: dmabuf",
        _no_symbol,
        ("peermem-symbol-version",),
    ),
    Rule(
        "peermem-invalid",
        "nvidia_peermem was built without peer memory",
        "error",
        ("logs",),
        "nvidia_peermem was built without peer memory: OFED's sources were not there when the NVIDIA driver was built",
        _BUILD,
        _invalid,
        ("peermem-symbol-version", "peermem-unknown-symbol"),
    ),
    Rule(
        "peermem-missing",
        "nvidia_peermem is not there",
        "error",
        ("facts", "logs"),
        "GPUDirect needs nvidia_peermem on this host, and it is not loaded, or not there for the running kernel",
        "rdma_gpudirect: auto and ansible-playbook fabric.rdma.prepare, which loads it now and at boot; install the NVIDIA driver "
        "after OFED",
        _absent,
    ),
    Rule(
        "gpu-memory-refused",
        "GPU memory cannot be registered",
        "error",
        ("facts", "logs"),
        "memory of a GPU could not be registered with the HCA: neither nvidia_peermem nor DMA-BUF works there",
        "ansible-playbook fabric.rdma.prepare with rdma_gpudirect: auto says which of the two is possible, and does it; perftest "
        "wants --use_cuda_dmabuf for DMA-BUF",
        _gpu_memory,
    ),
    Rule(
        "gpudirect-off",
        "GPUDirect RDMA is off",
        "warning",
        ("facts", "logs"),
        "NCCL goes over InfiniBand or RoCE without GPUDirect RDMA: all data passes through the memory of the host",
        "rdma_gpudirect: auto and ansible-playbook fabric.rdma.prepare",
        _off,
        ("peermem-symbol-version", "peermem-unknown-symbol", "peermem-invalid", "peermem-missing"),
    ),
)
