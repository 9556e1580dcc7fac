# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Longhorn, iSCSI and NFS volumes need of a node, as facts. Private to the collection.

read_storage() makes ``ansible_facts.rdma.storage`` from files alone::

    family: debian | rhel | suse | null                  # of /etc/os-release; it decides the names of packages
    programs: {iscsid: true, iscsiadm: true, mount.nfs4: true, cryptsetup: false, dmsetup: true, curl: false, ...}
    tools_missing: [curl]                                # of those programs that Longhorn calls on the host
    iscsi:
      installed: true                                    # iscsid and iscsiadm are there
      service: running | listening | stopped | null      # listening: the first use of iscsid.socket starts it
      units: [iscsid.service, iscsid.socket]             # unit files that are there
      enabled: [iscsid.socket]                           # those started at boot
      masked: []                                         # those that an administrator forbade
      initiator_name: iqn... | null
      generate_name: false                               # the file orders another name at the next start
      initiator_file: present | missing | unreadable
      sessions: [{name: session1, target: iqn..., state: LOGGED_IN}]
    multipathd:
      installed: true
      service: running | listening | stopped | null
      enabled: [multipathd.service]
      blacklists: false                                  # its configuration leaves Longhorn's devices alone
      config_dir: /etc/multipath/conf.d                  # where it reads drop-ins; null when that was switched off
      maps: [{name: mpatha, paths: [{name: sda, vendor: ACME, model: LUN}]}]
    nfs:
      installed: true                                    # mount.nfs4 is there
      versions: ["4.0", "4.1", "4.2"] | null             # that the kernel was built for; null: its configuration is not there
      default_version: "4.2" | null                      # of /etc/nfsmount.conf
    filesystem_of: {"/": ext4, "/var/lib/longhorn": ext4}    # by mount point, and of the directory of volumes
    mount_propagation: {"/": shared, "/var/lib/longhorn": shared}    # shared | slave | private, same keys
    restarts_due: [iscsid]                               # only there when a run ended before these daemons read what it wrote

The states of kernel modules are in ``kernel.modules``.
"""

from __future__ import annotations

import gzip
import re
import typing as t
import warnings as silence

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.iscsi import (
    INITIATOR_FILE,
    open_sessions,
    parse_initiator,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.programs import program_path
from ansible_collections.fabric.rdma.plugins.module_utils._discover.services import runs, units_of

__all__ = [
    "LONGHORN_PATH",
    "NFS_SETTING",
    "SOCKETS",
    "SPDK_MODULES",
    "STORAGE_MODULES",
    "TARGET_MODEL",
    "TARGET_VENDOR",
    "Setting",
    "mount_of",
    "multipath_settings",
    "read_storage",
    "value_at",
]

Json = t.Dict[str, t.Any]
LONGHORN_PATH = "/var/lib/longhorn"
# Kernel modules of which kernel.modules must tell.
STORAGE_MODULES = ("dm_crypt", "iscsi_tcp", "nfs")
# Those that Longhorn's V2 data engine works with.
SPDK_MODULES = ("nvme_tcp", "uio_pci_generic", "vfio_pci")
# The programs that Longhorn's documentation asks for on every host, and those that come with what a wish needs.
_TOOLS = ("awk", "bash", "blkid", "curl", "findmnt", "grep", "lsblk")
_PROGRAMS = ("cryptsetup", "dmsetup", "iscsiadm", "iscsid", "mount.nfs4", "multipathd", *_TOOLS)
# Sockets in the abstract namespace as their units name them; the kernel shows '@' for the NUL byte.
SOCKETS = {
    "iscsid": "@ISCSIADM_ABSTRACT_NAMESPACE",
    "multipathd": "@/org/kernel/linux/storage/multipathd",
}
# __SO_ACCEPTCON in the column Flags of /proc/net/unix (net/unix/af_unix.c, unix_seq_show()): somebody listens.
_LISTENING = 0x10000
# Longhorn's target is a tgt: what its disks call themselves, and the names that they can get.
TARGET_VENDOR, TARGET_MODEL = "IET", "VIRTUAL-DISK"
_DISKS = ("sda", "sdz", "sdab")
_FAMILIES = {
    "debian": ("debian", "ubuntu"),
    "rhel": ("rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn"),
    "suse": ("suse", "sles", "sle-micro", "opensuse", "opensuse-leap", "opensuse-tumbleweed"),
}
# Mounts that never hold a directory of volumes: a node of a cluster has thousands of them.
_PSEUDO = re.compile(
    r"autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|efivarfs|fusectl|hugetlbfs|mqueue|nsfs|proc|pstore|"
    r"rpc_pipefs|securityfs|selinuxfs|squashfs|sysfs|tracefs"
)
_VOLATILE = ("/dev/", "/proc/", "/run/", "/sys/", "/var/lib/containerd/", "/var/lib/docker/", "/var/lib/kubelet/")
_VOLUME_DRIVERS = re.compile(r"/(pods|containers|plugins|snap)/")
# Of nfsmount.conf(5): the head of a section, or a version.
NFS_SETTING = re.compile(r"\[\s*([^\s\]]+)|(?i:defaultvers|nfsvers|vers)\s*=\s*([0-9.]+)\s*(?:#|$)")


def _family(tree: Tree) -> t.Optional[str]:
    words: list[str] = []
    for line in (tree.text("/etc/os-release") or "").splitlines():
        key, _dummy, value = line.partition("=")
        if key in ("ID", "ID_LIKE"):
            words += value.strip("\"' ").lower().split()
    for family, names in _FAMILIES.items():
        if set(words) & set(names):
            return family
    return None


def _listens(tree: Tree, daemon: str) -> bool:
    for line in (tree.text("/proc/net/unix") or "").splitlines():
        fields = line.split()
        # Num RefCount Protocol Flags Type St Inode Path; older programs bind a name padded with NUL bytes
        if len(fields) > 7 and fields[7].rstrip("@") == SOCKETS[daemon]:
            try:
                if int(fields[3], 16) & _LISTENING:
                    return True
            except ValueError:
                continue
    return False


def _service(tree: Tree, daemon: str, installed: bool) -> Json:
    units, enabled, masked = units_of(tree, daemon + ".service", daemon + ".socket")
    state = None
    if runs(tree, daemon):
        state = "running"
    elif _listens(tree, daemon):
        state = "listening"
    elif installed:
        state = "stopped"
    return {"installed": installed, "service": state, "units": units, "enabled": enabled, "masked": masked}


def _iscsi(tree: Tree, warnings: list[str], programs: t.Mapping[str, bool]) -> Json:
    facts = _service(tree, "iscsid", programs["iscsid"] and programs["iscsiadm"])
    path = INITIATOR_FILE
    text = tree.text(path)
    if text is not None:
        initiator = parse_initiator(text)
        facts.update(initiator_name=initiator.name, generate_name=initiator.generate, initiator_file="present")
    else:
        there = tree.exists(path)
        if there:
            warnings.append(f"{path} cannot be read: the initiator name is not known (it takes root to read it)")
        facts.update(initiator_name=None, generate_name=False, initiator_file="unreadable" if there else "missing")
    facts["sessions"] = open_sessions(tree)
    return facts


# One setting of multipath.conf(5): the names of the sections that it is in, keyword, value.
Setting = t.Tuple[t.Tuple[str, ...], str, str]


def multipath_settings(text: str) -> list[Setting]:
    """Settings of one file. A section without settings in it gives none; what is not a setting is passed over."""
    found: list[Setting] = []
    sections: list[str] = []
    for line in text.splitlines():
        line = re.sub(r'^((?:[^"#!]|"[^"]*")*)[#!].*$', r"\1", line).strip()
        opens = re.fullmatch(r"(\w+)\s*\{", line)
        setting = re.fullmatch(r'(\w+)\s+(?:"(.*)"|(\S+))', line)
        if opens:
            # two blocks of the same name are two: they get different ones
            sections.append(f"{opens.group(1)} {len(found)}")
        elif line == "}":
            del sections[-1:]
        elif setting:
            value = setting.group(2) if setting.group(2) is not None else setting.group(3)
            found.append((tuple(sections), setting.group(1), value.replace('""', '"')))
    return found


def _matches(pattern: str, text: str) -> bool:
    """Whether an extended regular expression of regex(7) matches, as multipathd asks: anywhere in the text; '!' inverts."""
    inverted = pattern.startswith("!")
    pattern = (
        pattern[inverted:].replace("[:digit:]", "0-9").replace("[:alpha:]", "a-zA-Z").replace("[:alnum:]", "a-zA-Z0-9")
    )
    if pattern == "*":
        # multipathd takes it for ".*" since everybody writes it
        pattern = ".*"
    # longer ones are not an answer to a name of a few characters, and could take their time
    if len(pattern) > 200:
        return False
    try:
        with silence.catch_warnings():
            # what regex(7) takes for a bracket may some day be a nested set in Python
            silence.simplefilter("ignore")
            return (re.search(pattern, text) is not None) != inverted
    except (re.error, RecursionError, OverflowError):
        return False


def _listed(settings: t.Sequence[Setting], section: str) -> tuple[bool, bool]:
    """(by name, by vendor and model): whether the lists of a section have Longhorn's disks in them."""
    nodes = [
        value
        for where, key, value in settings
        if len(where) == 1 and where[0].split()[0] == section and key == "devnode"
    ]
    wwids = [
        value for where, key, value in settings if len(where) == 1 and where[0].split()[0] == section and key == "wwid"
    ]
    by_name = all(any(_matches(node, disk) for node in nodes) for disk in _DISKS) or bool({".*", "*"} & set(wwids))
    devices: dict[tuple[str, ...], dict[str, str]] = {}
    for where, key, value in settings:
        if len(where) == 2 and where[0].split()[0] == section and where[1].split()[0] == "device":
            devices.setdefault(where, {})[key] = value
    by_device = any(
        "vendor" in device
        and _matches(device["vendor"], TARGET_VENDOR)
        and _matches(device.get("product", ".*"), TARGET_MODEL)
        for device in devices.values()
    )
    return by_name, by_device


def _leaves_alone(settings: t.Sequence[Setting]) -> bool:
    """libmultipath/blacklist.c, filter_path(): any list is enough; an exception counts against the list of its own kind."""
    blacklist, exceptions = _listed(settings, "blacklist"), _listed(settings, "blacklist_exceptions")
    return any(listed and not excepted for listed, excepted in zip(blacklist, exceptions))


def _maps(tree: Tree) -> list[Json]:
    """Multipath maps with the SCSI disks below them."""
    found = []
    for name in tree.names("/sys/block"):
        if not name.startswith("dm-") or not (tree.text(f"/sys/block/{name}/dm/uuid") or "").startswith("mpath-"):
            continue
        paths = [
            {
                "name": disk,
                "vendor": tree.text(f"/sys/block/{disk}/device/vendor"),
                "model": tree.text(f"/sys/block/{disk}/device/model"),
            }
            for disk in tree.names(f"/sys/block/{name}/slaves")
        ]
        found.append({"name": tree.text(f"/sys/block/{name}/dm/name") or name, "paths": paths})
    return found


def _multipathd(tree: Tree, programs: t.Mapping[str, bool]) -> Json:
    facts = _service(tree, "multipathd", programs["multipathd"])
    settings = multipath_settings(tree.text("/etc/multipath.conf") or "")
    # an option of old versions; newer ones know only the default
    directory = "/etc/multipath/conf.d"
    for where, key, value in settings:
        if where and where[0].split()[0] == "defaults" and key == "config_dir":
            directory = value
    for name in tree.names(directory) if directory.startswith("/") else []:
        if name.endswith(".conf"):
            settings += multipath_settings(tree.text(f"{directory}/{name}") or "")
    return {
        "installed": facts["installed"],
        "service": facts["service"],
        "enabled": facts["enabled"],
        "blacklists": _leaves_alone(settings),
        "config_dir": directory if directory.startswith("/") else None,
        "maps": _maps(tree),
    }


def _kernel_options(tree: Tree, release: t.Optional[str]) -> t.Optional[dict[str, str]]:
    """Values of the kernel's CONFIG_NFS_* options (``n`` for those that are not set), None when nothing tells them."""
    text = None
    if release:
        for path in (
            f"/boot/config-{release}",
            f"/lib/modules/{release}/config",
            f"/usr/lib/modules/{release}/config",
        ):
            text = text or tree.text(path)
    if text is None:
        try:
            text = gzip.decompress(tree.read("/proc/config.gz") or b"").decode("utf-8", "replace")
        # gzip raises errors of zlib and struct, too
        except Exception:
            text = None
    found: dict[str, str] = {}
    for line in (text or "").splitlines():
        option = re.match(r"(?:# )?(CONFIG_NFS_\w+)(?:=([ym])| is not set)", line)
        if option:
            found[option.group(1)] = option.group(2) or "n"
    return found or None


def _nfs_versions(options: t.Optional[t.Mapping[str, str]]) -> t.Optional[list[str]]:
    """fs/nfs/Kconfig: an option that a configuration does not even mention is one that its kernel does not have.

    Kernels that made NFSv4.1 a fixed part of NFSv4 have no CONFIG_NFS_V4_1; older ones have no CONFIG_NFS_V4_0.
    """
    if options is None:
        return None
    if options.get("CONFIG_NFS_V4", "n") == "n":
        return []
    versions = {
        "4.0": options.get("CONFIG_NFS_V4_0", "y"),
        "4.1": options.get("CONFIG_NFS_V4_1", "y"),
        "4.2": options.get("CONFIG_NFS_V4_2", "n" if options.get("CONFIG_NFS_V4_1") == "n" else "y"),
    }
    return [version for version, value in versions.items() if value != "n"]


def _nfs_default(tree: Tree) -> t.Optional[str]:
    """nfsmount.conf(5): the version that a mount without one asks for. Files of the directory come after the first one."""
    directory = "/etc/nfsmount.conf.d"
    version = None
    paths = [directory + "/" + name for name in tree.names(directory) if name.endswith(".conf")]
    for path in ["/etc/nfsmount.conf", *paths]:
        everywhere = False
        for line in (tree.text(path) or "").splitlines():
            line = line.strip()
            setting = NFS_SETTING.match(line)
            if setting and setting.group(1):
                everywhere = setting.group(1).lower() == "nfsmount_global_options"
            elif setting and everywhere:
                version = setting.group(2)
    return version


class _Mount(t.NamedTuple):
    path: str
    kind: str
    propagation: str


def mount_of(line: str) -> t.Optional[_Mount]:
    """A line of /proc/self/mountinfo (proc(5)), None when it is none or a mount that no directory of volumes can lie on."""
    before, dash, after = line.partition(" - ")
    fields, rest = before.split(" "), after.split(" ")
    if not dash or len(fields) < 6 or not rest[0]:
        return None
    path = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), fields[4])
    kind = rest[0]
    if _PSEUDO.fullmatch(kind) or (path + "/").startswith(_VOLATILE) or _VOLUME_DRIVERS.search(path):
        return None
    # overlay file systems of containers; the root of a node may be one, too
    if kind == "overlay" and path != "/":
        return None
    names = {field.partition(":")[0] for field in fields[6:]}
    return _Mount(path, kind, "shared" if "shared" in names else "slave" if "master" in names else "private")


def value_at(values: t.Mapping[str, t.Any], path: str) -> t.Any:
    """The value for the nearest directory at or above a path, from a mapping by directory; None when there is none."""
    path = "/" + path.strip("/")
    while path not in values and path != "/":
        path = path.rpartition("/")[0] or "/"
    return values.get(path)


def _mounts(tree: Tree, path: str) -> tuple[dict[str, str], dict[str, str]]:
    kinds: dict[str, str] = {}
    propagation: dict[str, str] = {}
    for line in (tree.text("/proc/self/mountinfo") or "").splitlines():
        mount = mount_of(line)
        if mount is not None:
            # a later mount on the same directory hides the earlier one
            kinds[mount.path], propagation[mount.path] = mount.kind, mount.propagation
    # a directory that is not there yet will be made in its nearest parent; one that is a link lies where that leads
    real, rest = tree.real(path), ""
    while real is None and path not in ("", "/"):
        path, _dummy, name = path.rpartition("/")
        rest = "/" + name + rest
        real = tree.real(path or "/")
    where = ("" if real in (None, "/") else str(real)) + rest
    for values in (kinds, propagation):
        value = value_at(values, where)
        if value is not None:
            values[LONGHORN_PATH] = value
    return dict(sorted(kinds.items())), dict(sorted(propagation.items()))


def _restarts_due(tree: Tree) -> Json:
    """Daemons that a run meant to restart before it ended in the middle. A boot forgets them: it has started all of them."""
    due = sorted(name for name in SOCKETS if tree.exists(f"/run/fabric.rdma/{name}.restart"))
    return {"restarts_due": due} if due else {}


def read_storage(tree: Tree, warnings: list[str]) -> Json:
    """The value of ansible_facts.rdma.storage of the node that a tree shows, as the module's docstring has it. Never raises."""
    release = tree.text("/proc/sys/kernel/osrelease") or None
    if release and not re.fullmatch(r"[\w.+~-]+", release):
        release = None
    programs = {name: program_path(tree, name) is not None for name in sorted(_PROGRAMS)}
    kinds, propagation = _mounts(tree, LONGHORN_PATH)
    return {
        "family": _family(tree),
        "programs": programs,
        "tools_missing": [name for name in _TOOLS if not programs[name]],
        "iscsi": _iscsi(tree, warnings, programs),
        "multipathd": _multipathd(tree, programs),
        "nfs": {
            "installed": programs["mount.nfs4"],
            "versions": _nfs_versions(_kernel_options(tree, release)),
            "default_version": _nfs_default(tree),
        },
        "filesystem_of": kinds,
        "mount_propagation": propagation,
        **_restarts_due(tree),
    }
