# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a module for GPUDirect does not load, in words. Private to the collection. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._discover.nvidia import SYMBOL

__all__ = ["explain_modprobe", "is_blacklisted", "load_failure", "passed_over", "shown_module"]


class _Failure(t.NamedTuple):
    pattern: str
    cause: str
    remedy: str


_REBUILD = (
    "rebuild the NVIDIA driver against the OFED that is there now (`dkms build nvidia/VERSION --force`, `dkms install`)"
)
# The first that is found tells; the kernel's log, which says more than an errno, comes before what modprobe prints.
_LOG = (
    _Failure(
        r"disagrees about version of symbol (?P<what>\S+)",
        "it was built against another version of {what} than the kernel has now, as when OFED was reinstalled after it",
        _REBUILD,
    ),
    _Failure(
        rf"Unknown symbol {SYMBOL}",
        f"the ib_core that runs does not export {SYMBOL}: it is the kernel's own, or OFED was removed or not yet loaded",
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
        f"look at `dmesg`; for {SYMBOL} install and load OFED",
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


def explain_modprobe(error_text: str, kernel_log_lines: t.Iterable[str] = ()) -> dict[str, str]:
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


def load_failure(name: str, kernel: str, said: str, log: t.Sequence[str]) -> dict[str, t.Any]:
    """What a module says of a kernel module that does not load: {msg, log}, with {cause, remedy} for the one that is understood.

    said: what modprobe printed. log: what the kernel logged meanwhile.
    """
    said = " ".join(said.split()).replace("modprobe: ", "", 1)
    begin = f"{name} does not load on kernel {kernel}: "
    if name.replace("-", "_") != "nvidia_peermem":
        return {"msg": begin + "; ".join([said, *log[-3:]]), "log": list(log)}
    why = explain_modprobe(said, log)
    return {"msg": f"{begin}{why['cause']}; {why['remedy']} (modprobe: {said})", "log": list(log), **why}


def is_blacklisted(listing: str, name: str) -> bool:
    """listing: what `modprobe --showconfig` prints, also of what the kernel's command line says. name: with hyphens or underscores."""
    wanted = "blacklist " + name.replace("-", "_")
    return any(line.strip().replace("-", "_") == wanted for line in listing.splitlines())


def shown_module(shown: str) -> t.Optional[str]:
    """What modprobe loads for a name, which may be an alias: the module's own name, empty for one that is built in; None for no module.

    shown: what `modprobe --show-depends` prints, a line for each module that is needed, this one last.
    """
    words = (shown.strip().splitlines() or [""])[-1].split()
    if len(words) > 1 and words[0] == "insmod":
        return words[1].rpartition("/")[2].partition(".ko")[0].replace("-", "_")
    return "" if words[:1] == ["builtin"] else None


def passed_over(name: str, kernel: str, shown: str, log: t.Sequence[str]) -> dict[str, t.Any]:
    """What a module says of a kernel module that is not there though modprobe ended well: {msg, log, cause, remedy}. shown: as above."""
    last = " ".join((shown.strip().splitlines() or [""])[-1].split())[:200]
    cause = "modprobe ended well, and the module is not there"
    remedy = f"look at `modprobe --show-depends {name}` and `dmesg` on the host"
    if last.startswith("install "):
        cause = f"a line of modprobe.d has modprobe run `{last[len('install ') :]}` in place of loading it"
        remedy = f"remove it (`grep -rE 'install +{name.replace('-', '_').replace('_', '[-_]')}' /etc/modprobe.d /usr/lib/modprobe.d`)"
    return {
        "msg": f"{name} does not load on kernel {kernel}: {cause}; {remedy}",
        "log": list(log),
        "cause": cause,
        "remedy": remedy,
    }
