# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Longhorn, iSCSI and NFS volumes need of a node: checks, each with its remedy. Private to the collection. Pure.

Checks have the names, words and severities of ``longhornctl check preflight`` (longhorn/cli,
pkg/local/preflight/checker.go) where it has such a check.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._discover.iscsi import INITIATOR_FILE
from ansible_collections.fabric.rdma.plugins.module_utils._discover.storage import (
    STORAGE_MODULES,
    TARGET_MODEL,
    TARGET_VENDOR,
    value_at,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.package_names import (
    names_of,
)

__all__ = ["storage_checks", "storage_findings"]

Json = t.Dict[str, t.Any]
Facts = t.Mapping[str, t.Any]
_FILE_SYSTEMS = ("ext4", "xfs")


class _Finding(t.NamedTuple):
    """One check. fix: the part of storage_needs() that repairs it, None when nothing in this collection does."""

    check: str
    status: str
    message: str
    remedy: t.Optional[str] = None
    fix: t.Optional[str] = None


def _wish(wish: t.Optional[t.Mapping[str, t.Any]]) -> Json:
    given = dict(wish or {})
    wrong = problems("rdma_storage", given)
    if wrong:
        raise WishError("; ".join(wrong))
    result = {**defaults_of("rdma_storage"), **given}
    return {**result, "path": result["path"] or ""}


def _check_iscsi(storage: Facts, duplicate: t.Optional[Facts], host: t.Optional[str]) -> t.Iterator[_Finding]:
    iscsi = storage["iscsi"]
    if not iscsi["installed"]:
        return
    if iscsi["masked"]:
        yield _Finding(
            "iscsid",
            "error",
            f"{' and '.join(iscsi['masked'])} is masked",
            f"`systemctl unmask {' '.join(iscsi['masked'])}` if iSCSI may be used on this host, else rdma_storage.iscsi: false",
        )
    elif iscsi["service"] == "running":
        yield _Finding("iscsid", "ok", "Service iscsid is running")
    elif iscsi["service"] == "listening":
        yield _Finding("iscsid", "ok", "Service iscsid is inactive, but it can still be activated by iscsid.socket")
    else:
        yield _Finding(
            "iscsid",
            "error",
            "Neither iscsid.service nor iscsid.socket is running",
            "`systemctl enable --now iscsid.socket`",
            "service",
        )
    if not iscsi["enabled"] and not iscsi["masked"]:
        yield _Finding(
            "iscsid",
            "warning",
            "Neither iscsid.service nor iscsid.socket is started at boot",
            "`systemctl enable iscsid.socket`",
            "service",
        )
    yield from _check_initiator(iscsi, duplicate, host)
    if iscsi["service"] == "running" and "iscsid" in storage.get("restarts_due", ()):
        message = "iscsid still has its old initiator name: a run ended before it was restarted"
        if iscsi["sessions"]:
            yield _Finding("iscsid", "error", message, _under_sessions(iscsi))
        else:
            yield _Finding("iscsid", "error", message, "`systemctl restart iscsid`", "restart iscsid")


def _under_sessions(iscsi: Facts) -> str:
    names = ", ".join(session["target"] or session["name"] for session in iscsi["sessions"])
    return (
        f"the initiator name cannot change while sessions are open ({names}): drain the node, detach its volumes until `iscsiadm -m session` is empty, "
        "then run again"
    )


def _check_initiator(iscsi: Facts, duplicate: t.Optional[Facts], host: t.Optional[str]) -> t.Iterator[_Finding]:
    name, problem = iscsi["initiator_name"], None
    if iscsi["initiator_file"] == "unreadable":
        yield _Finding(
            "initiator name",
            "warning",
            f"{INITIATOR_FILE} cannot be read",
            "gather the facts as root (become: true)",
        )
        return
    if name is None:
        what = "is missing" if iscsi["initiator_file"] == "missing" else "has no InitiatorName"
        problem = f"{INITIATOR_FILE} {what}"
    elif iscsi["generate_name"]:
        problem = f"{INITIATOR_FILE} orders a new name at every start (GenerateName=yes)"
    elif duplicate is not None:
        others = [other for other in duplicate["hosts"] if other != host]
        problem = f"InitiatorName {name} is also that of {', '.join(others)}"
        if host == duplicate["keeper"]:
            yield _Finding(
                "initiator name", "warning", problem, f"this host keeps it; {', '.join(others)} must get others"
            )
            return
    if problem is None:
        yield _Finding("initiator name", "ok", f"InitiatorName is {name}")
    elif iscsi["sessions"]:
        yield _Finding("initiator name", "error", problem, _under_sessions(iscsi))
    else:
        yield _Finding(
            "initiator name", "error", problem, "give it a name of its own (`iscsi-iname`), restart iscsid", "initiator"
        )


def _is_longhorns(path: Facts) -> bool:
    return (path["vendor"], path["model"]) == (TARGET_VENDOR, TARGET_MODEL)


def _check_multipath(storage: Facts, wish: Json) -> t.Iterator[_Finding]:
    multipathd = storage["multipathd"]
    if multipathd["service"] == "running":
        message = "multipathd.service is running"
    elif multipathd["service"] == "listening":
        message = "multipathd.service is inactive, but it can still be activated by multipathd.socket"
    else:
        yield _Finding("multipathd", "ok", "multipathd.service is not running")
        return
    if multipathd["blacklists"]:
        if multipathd["service"] == "running" and "multipathd" in storage.get("restarts_due", ()):
            yield _Finding(
                "multipathd",
                "warning",
                message
                + ", and has not read that Longhorn's devices are to be left alone: a run ended before it was reloaded",
                "`systemctl reload multipathd`",
                "restart multipathd",
            )
            return
        yield _Finding("multipathd", "ok", message + ", and leaves Longhorn's devices alone")
        return
    # Longhorn gives a volume one path: several of the same make are somebody's multipath storage
    used = [
        entry["name"]
        for entry in multipathd["maps"]
        if len(entry["paths"]) > 1 and any(_is_longhorns(path) for path in entry["paths"])
    ]
    remedy = f'blacklist {{ device {{ vendor "{TARGET_VENDOR}" product "{TARGET_MODEL}" }} }} in its configuration'
    if used:
        remedy = (
            f"the maps {', '.join(used)} have several paths of the make of Longhorn's devices ({TARGET_VENDOR} "
            f"{TARGET_MODEL}): list your storage's wwids in blacklist_exceptions, and the make in blacklist, by hand"
        )
    elif multipathd["config_dir"] is None:
        remedy = "/etc/multipath.conf switches drop-ins off (config_dir): add there " + remedy
    fixable = wish["multipath"] and not used and multipathd["config_dir"] is not None
    yield _Finding(
        "multipathd", "warning", message + ", and grabs Longhorn's devices", remedy, "multipath" if fixable else None
    )


def _check_packages(storage: Facts, wish: Json) -> t.Iterator[_Finding]:
    programs = storage["programs"]
    names = names_of(storage["family"])
    there = {
        "iscsi": storage["iscsi"]["installed"],
        "nfs": storage["nfs"]["installed"],
        "dm_crypt": programs["cryptsetup"] and programs["dmsetup"],
    }
    for part, installed in there.items():
        if not wish[part]:
            continue
        name = getattr(names, part)[0]
        if installed:
            yield _Finding("packages", "ok", f"Package {name} is installed")
        else:
            yield _Finding("packages", "error", f"Package {name} is not installed", "install it", "packages " + part)
    for name in storage["tools_missing"]:
        yield _Finding("programs", "error", f"Program {name} is not there", "install it", "packages tools " + name)


def _wanted_modules(wish: Json) -> list[str]:
    modules = {"dm_crypt": wish["dm_crypt"], "iscsi_tcp": wish["iscsi"], "nfs": wish["nfs"]}
    return [name for name in STORAGE_MODULES if modules[name]]


def _check_modules(facts: Facts, wish: Json) -> t.Iterator[_Finding]:
    for name in _wanted_modules(wish):
        # facts of earlier versions have it not
        state = facts["kernel"]["modules"].get(name)
        if state is None:
            yield _Finding(
                "modules", "error", f"It is not known whether module {name} is loaded", "discover the host again"
            )
        elif not state["available"]:
            yield _Finding(
                "modules",
                "error",
                f"Module {name} is not there for kernel {facts['kernel']['release']}",
                "install the modules of this kernel (Ubuntu: linux-modules-extra, RHEL: kernel-modules, "
                "SUSE: kernel-default instead of kernel-default-base)",
            )
        elif not state["loaded"]:
            yield _Finding("modules", "error", f"Module {name} is not loaded", f"`modprobe {name}`", "modules " + name)
        elif not state["persisted"]:
            yield _Finding(
                "modules",
                "warning",
                f"Module {name} is loaded, but not at boot",
                "add it to /etc/modules-load.d",
                "modules " + name,
            )
        else:
            yield _Finding("modules", "ok", f"Module {name} is loaded")


def _check_nfs(facts: Facts) -> t.Iterator[_Finding]:
    nfs = facts["storage"]["nfs"]
    release = facts["kernel"]["release"]
    if nfs["versions"] is None:
        yield _Finding(
            "NFSv4",
            "warning",
            f"It is not known whether kernel {release} supports NFS4",
            f"longhornctl and this check read /boot/config-{release}; install it",
        )
    elif {"4.1", "4.2"} & set(nfs["versions"]):
        yield _Finding("NFSv4", "ok", f"NFS4 is supported ({', '.join(nfs['versions'])})")
    else:
        yield _Finding(
            "NFSv4",
            "error",
            f"NFS4 is not supported: kernel {release} has {', '.join(nfs['versions']) or 'no version of it'}",
            "boot a kernel with CONFIG_NFS_V4_1 or CONFIG_NFS_V4_2, which volumes for several nodes need",
        )
    default = nfs["default_version"]
    if default is not None and default.partition(".")[0] not in ("4", ""):
        yield _Finding(
            "NFS default version",
            "warning",
            f"NFS default version is {default} in /etc/nfsmount.conf",
            "set Defaultvers=4 there, or remove it",
        )


def _check_path(storage: Facts, path: str) -> t.Iterator[_Finding]:
    kind = value_at(storage["filesystem_of"], path)
    if kind is None:
        yield _Finding(
            "file system", "warning", f"The file system of {path} is not known", "gather the facts on the node itself"
        )
    elif kind in _FILE_SYSTEMS:
        yield _Finding("file system", "ok", f"{path} is on {kind}")
    else:
        yield _Finding(
            "file system",
            "error",
            f"{path} is on {kind}",
            f"mount an ext4 or XFS file system at {path}, or set rdma_storage.path to a directory on one",
        )
    for where in ("/", path):
        mode = value_at(storage["mount_propagation"], where)
        if mode is not None and mode != "shared":
            yield _Finding(
                "mount propagation",
                "error",
                f"The mount of {where} is {mode}: mounts made by Pods do not reach the host",
                f"`mount --make-rshared {where}` now and at boot (systemd does that; look for who undid it)",
            )
            return
    if value_at(storage["mount_propagation"], path) is not None:
        yield _Finding("mount propagation", "ok", "Mount propagation is enabled")


def storage_findings(
    facts: Facts,
    wish: t.Optional[t.Mapping[str, t.Any]],
    duplicates: t.Sequence[Facts],
    host: t.Optional[str],
) -> list[_Finding]:
    wanted = _wish(wish)
    storage = facts["storage"]
    found: list[_Finding] = []
    if wanted["iscsi"]:
        # a name that it has no more was that of a clone
        now = str(storage["iscsi"]["initiator_name"] or "").lower()
        mine = [entry for entry in duplicates if host in entry["hosts"] and entry["name"].lower() == now]
        found += _check_iscsi(storage, mine[0] if mine else None, host)
        found += _check_multipath(storage, wanted)
    if wanted["nfs"]:
        found += _check_nfs(facts)
    if wanted["iscsi"] or wanted["nfs"] or wanted["dm_crypt"]:
        found += _check_packages(storage, wanted)
        found += _check_modules(facts, wanted)
        if wanted["path"]:
            found += _check_path(storage, wanted["path"])
    return found


def storage_checks(
    facts: Facts,
    wish: t.Optional[t.Mapping[str, t.Any]] = None,
    duplicates: t.Sequence[Facts] = (),
    host: t.Optional[str] = None,
) -> list[Json]:
    """[{check, status: ok|warning|error, message, remedy: text or None}] of a host.

    facts: ansible_facts.rdma with the subsets kernel and storage. wish: rdma_storage (WishError when it makes no sense).
    duplicates: the answer of duplicate_initiators() for all hosts, among which this one is called host.
    """
    return [
        {"check": found.check, "status": found.status, "message": found.message, "remedy": found.remedy}
        for found in storage_findings(facts, wish, duplicates, host)
    ]
