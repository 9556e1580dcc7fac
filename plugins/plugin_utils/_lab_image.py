# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The disk image of the lab's nodes: what goes into it, and how it is built and cached.

Private to the collection. Runs on the controller only.

The image is a Debian (or Ubuntu) root file system made by mmdebstrap, as a raw ext4 file, with its kernel and initrd beside it
for QEMU's direct kernel boot. It lives in a cache under a hash of everything that goes into it, so that every checkout with the
same recipe uses the same file. Nodes never write to it: each has a qcow2 overlay.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import typing as t
from dataclasses import asdict, dataclass, field

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = [
    "TOOL_PACKAGES",
    "AptSource",
    "Image",
    "ImageRecipe",
    "LabError",
    "Progress",
    "build_image",
    "cached_image",
    "choose_sources",
    "default_recipe",
    "find_tool",
    "locked",
    "machine_sources",
    "mmdebstrap_command",
    "packages_stanza_script",
    "parse_deb822",
    "parse_one_line",
    "parse_os_release",
    "stage_of",
]

Progress = t.Callable[[str], None]
# Called now and then in every wait; raises when there is no point in going on.
Alive = t.Callable[[], None]

# Raised by hand when the way an image is laid out changes without a change of the texts below.
FORMAT_VERSION = 1

# Program on the controller -> Debian package that has it. bindep.txt names the same packages (a test compares them).
TOOL_PACKAGES: dict[str, str] = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "newuidmap": "uidmap",
    "systemd-nspawn": "systemd-container",
}

# Newer kernels of Debian panic under plain emulation; 6.1 boots everywhere.
DEBIAN_SUITE = "bookworm"

PACKAGES = [
    "apt",
    "ca-certificates",
    "containerd",
    "dbus",
    "ethtool",
    "iproute2",
    "iputils-ping",
    "kmod",
    "netbase",
    "openssh-server",
    "pciutils",
    "procps",
    "python3",
    "python3-apt",
    "runc",
    "systemd",
    "systemd-sysv",
    "udev",
    # drivers that are built on the node, from a repository that is made and signed there: installed under emulation, a compiler takes minutes
    "dkms",
    "dpkg-dev",
    "gcc",
    "gnupg",
    "make",
]

# Not installed: they wait, with all that they depend on, in a package repository inside the image, so that the role which has
# to install them does so for real and without a network.
OFFLINE_PACKAGES = [
    # the RDMA user space
    "ibverbs-providers",
    "ibverbs-utils",
    "infiniband-diags",
    "perftest",
    "rdma-core",
    "rdmacm-utils",
    # what storage needs: the clients, and the servers that a second node runs for them
    "cryptsetup-bin",
    "curl",
    "jq",
    "multipath-tools",
    "nfs-common",
    "nfs-kernel-server",
    "open-iscsi",
    "tgt",
    "xfsprogs",
    # the package manager of the other family, and what makes a repository for it
    "createrepo-c",
    "dnf",
    "python3-dnf",
    "rpm",
    # takes the place of initramfs-tools
    "dracut",
    # the whole content of a container
    "busybox-static",
]

# Files that no node of the lab reads. Drivers of hardware that QEMU's machine does not have are more than half of the kernel package;
# network and InfiniBand drivers stay, since "is this module available" is a question that roles ask.
PATH_EXCLUDES = [
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
    "/usr/share/lintian/*",
    "*/lib/modules/*/kernel/sound/*",
    "*/lib/modules/*/kernel/net/wireless/*",
    "*/lib/modules/*/kernel/net/mac80211/*",
    "*/lib/modules/*/kernel/net/bluetooth/*",
    "*/lib/modules/*/kernel/drivers/bluetooth/*",
    "*/lib/modules/*/kernel/drivers/gpu/*",
    "*/lib/modules/*/kernel/drivers/hid/*",
    "*/lib/modules/*/kernel/drivers/hwmon/*",
    "*/lib/modules/*/kernel/drivers/iio/*",
    "*/lib/modules/*/kernel/drivers/input/*",
    "*/lib/modules/*/kernel/drivers/media/*",
    "*/lib/modules/*/kernel/drivers/mmc/*",
    "*/lib/modules/*/kernel/drivers/mtd/*",
    "*/lib/modules/*/kernel/drivers/net/wireless/*",
    "*/lib/modules/*/kernel/drivers/net/usb/*",
    "*/lib/modules/*/kernel/drivers/platform/*",
    "*/lib/modules/*/kernel/drivers/staging/*",
    "*/lib/modules/*/kernel/drivers/thunderbolt/*",
    "*/lib/modules/*/kernel/drivers/usb/*",
]

# Environment variable that carries the script of the last hook into mmdebstrap.
HOOK_VARIABLE = "FABRIC_RDMA_LAB_HOOK"

REPOSITORY = "/var/lib/fabric-rdma-lab/repository"

# First thing on a node: its second disk is a bare tar archive with all that makes this node differ from the others.
_SETUP = """\
#!/bin/sh
# Makes this virtual machine the node that its configuration disk describes. Runs at every boot.
set -eu
tar --extract --file=/dev/vdb --directory=/ --no-same-owner
. /etc/fabric-rdma-lab.conf
ip link set lo up
ip link set eth0 up
ip address replace "$LAB_MANAGEMENT_ADDRESS" dev eth0
ip route replace default via "$LAB_GATEWAY" dev eth0
ip link set eth1 up
ip address replace "$LAB_FABRIC_ADDRESS" dev eth1
modprobe rdma_rxe
rdma link show rxe0/1 >/dev/null 2>&1 || rdma link add rxe0 type rxe netdev eth1
rdma link show rxe0/1 >/run/fabric-rdma-lab
echo "fabric.rdma lab: $LAB_NAME is set up" >/dev/console
# From here on only emergencies go to the console, so that its log file cannot grow without bound.
echo 1 >/proc/sys/kernel/printk
"""

_SETUP_UNIT = """\
[Unit]
Description=Set up this node of the fabric.rdma lab
DefaultDependencies=no
After=local-fs.target systemd-tmpfiles-setup.service
Before=network-pre.target network.target ssh.service ssh.socket shutdown.target
Wants=network-pre.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/fabric-rdma-lab-setup

[Install]
WantedBy=sysinit.target
"""

# Ansible brings every module as a zip archive of sources, which Python compiles at each run, and twice at that: under emulation this is
# nearly half of what a module run costs. What was compiled once is kept, by the hash of its source.
BYTECODE_DIRECTORY = "/var/cache/fabric-rdma-lab-bytecode"
BYTECODE = (
    """\
# Keeps the bytecode of modules that are imported from zip archives, for which Python itself has no cache.
import zipimport

_compile = getattr(zipimport, "_compile_source", None)


def _cached(pathname, source):
    import hashlib, marshal, os

    path = os.path.join("%s", hashlib.sha256(source).hexdigest())
    try:
        with open(path, "rb") as stream:
            return marshal.loads(stream.read())
    except (OSError, EOFError, ValueError, TypeError):
        pass
    code = _compile(pathname, source)
    unfinished = "%%s.%%d" %% (path, os.getpid())
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(unfinished, "wb") as stream:
            stream.write(marshal.dumps(code))
        os.replace(unfinished, path)
    except OSError:
        try:
            os.unlink(unfinished)
        except OSError:
            pass
    return code


if _compile is not None:
    zipimport._compile_source = _cached
"""
    % BYTECODE_DIRECTORY
)

# Path in the image -> (mode, content).
FILES: dict[str, tuple[int, str]] = {
    "usr/local/sbin/fabric-rdma-lab-setup": (0o755, _SETUP),
    "etc/systemd/system/fabric-rdma-lab-setup.service": (0o644, _SETUP_UNIT),
    # SSH first, the container runtime when the node can already be reached: it is what a person waits for under emulation.
    "etc/systemd/system/containerd.service.d/after-ssh.conf": (0o644, "[Unit]\nAfter=ssh.service\n"),
    "etc/systemd/journald.conf.d/lab.conf": (0o644, "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n"),
    "etc/ssh/sshd_config.d/lab.conf": (
        0o644,
        "HostKey /etc/ssh/ssh_host_ed25519_key\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nUseDNS no\n"
        "PrintMotd no\nPrintLastLog no\n",
    ),
    # What the root file system is on, and the network cards: with both in the initrd, eth0 and eth1 exist before systemd starts.
    "etc/initramfs-tools/modules": (0o644, "virtio_pci\nvirtio_blk\nvirtio_net\next4\n"),
    "etc/initramfs-tools/conf.d/lab": (0o644, "MODULES=list\nFSTYPE=ext4\nRESUME=none\n"),
    "etc/hosts": (0o644, "127.0.0.1 localhost\n"),
    "usr/lib/python3/dist-packages/fabric_rdma_lab_bytecode.py": (0o644, BYTECODE),
    "usr/lib/python3/dist-packages/fabric_rdma_lab_bytecode.pth": (0o644, "import fabric_rdma_lab_bytecode\n"),
    # Several emulated nodes on a busy machine may take minutes for what takes seconds elsewhere.
    "etc/systemd/system.conf.d/lab.conf": (
        0o644,
        "[Manager]\nDefaultTimeoutStartSec=600s\nDefaultDeviceTimeoutSec=600s\n",
    ),
}

# Units that a lab node has no use for; each costs time at boot under emulation.
MASKED_UNITS = [
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "ifupdown-pre.service",
    "logrotate.timer",
    "motd-news.timer",
    "networking.service",
    "rsync.service",
    "serial-getty@ttyS0.service",
    "systemd-binfmt.service",
    "systemd-pstore.service",
    "systemd-timesyncd.service",
    "systemd-update-utmp.service",
    "systemd-update-utmp-runlevel.service",
]

# Programs that systemd runs at boot and at every daemon-reload, of which an installation has many. Each costs a third of a second under
# emulation, and looks for what a lab node has not: partitions to find, encrypted disks, kernel arguments.
MASKED_GENERATORS = [
    "systemd-bless-boot-generator",
    "systemd-cryptsetup-generator",
    "systemd-debug-generator",
    "systemd-getty-generator",
    "systemd-gpt-auto-generator",
    "systemd-hibernate-resume-generator",
    "systemd-integritysetup-generator",
    "systemd-rc-local-generator",
    "systemd-run-generator",
    "systemd-system-update-generator",
    "systemd-veritysetup-generator",
]

# "$1" is the root file system, seen with the identities that the files will have on a node. The results go to files that the builder
# has opened: the hook may run in a user namespace that cannot reach the builder's directories by name.
_HOOK = """\
set -eu
root="$1"
rm -f "$root"/etc/ssh/ssh_host_*
: >"$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id"
systemctl --root="$root" enable fabric-rdma-lab-setup.service ssh.service >/dev/null 2>&1 || \\
    ln -sf /etc/systemd/system/fabric-rdma-lab-setup.service "$root/etc/systemd/system/sysinit.target.wants/"
for unit in @MASKED@; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
mkdir -p "$root/etc/systemd/system-generators"
for generator in @GENERATORS@; do
    ln -sf /dev/null "$root/etc/systemd/system-generators/$generator"
done

# The repository inside the image; what the image itself was made from does not go into it.
mkdir -p "$root@REPOSITORY@"
rm -f "$root"/var/cache/apt/archives/*.deb
chroot "$root" apt-get -q -y -o APT::Install-Recommends=false -o APT::Keep-Downloaded-Packages=true \\
    -o DPkg::Post-Invoke::=true --download-only install @OFFLINE@
mv "$root"/var/cache/apt/archives/*.deb "$root@REPOSITORY@/"
(
    cd "$root@REPOSITORY@"
    chown 0:0 ./*.deb
    chmod 0644 ./*.deb
@STANZAS@
)
rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* "$root"/etc/apt/apt.conf.d/99mmdebstrap
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin
mkdir -p "$root/var/lib/apt/lists/partial"
echo 'deb [trusted=yes] file:@REPOSITORY@ ./' >"$root/etc/apt/sources.list.d/lab.list"
printf 'Acquire::Languages "none";\\nAPT::Install-Recommends "false";\\n' >"$root/etc/apt/apt.conf.d/90lab"
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/90lab"
chroot "$root" apt-get -q update

# mmdebstrap takes these away only after the image is written; with them, what is installed on a node would not be started.
rm -f "$root/usr/sbin/policy-rc.d"
if [ -e "$root/sbin/start-stop-daemon.REAL" ]; then
    mv "$root/sbin/start-stop-daemon.REAL" "$root/sbin/start-stop-daemon"
fi

# Nodes are booted with the kernel and the initrd beside the image: an initrd made on a node would never be used.
chroot "$root" update-initramfs -u -k all
cat "$root"/boot/vmlinuz-* >"/proc/self/fd/$LAB_FD_KERNEL"
cat "$root"/boot/initrd.img-* >"/proc/self/fd/$LAB_FD_INITRD"
rm -f "$root"/boot/initrd.img-*
echo 'update_initramfs=no' >"$root/etc/initramfs-tools/update-initramfs.conf"
chroot "$root" dpkg-query --show --showformat='${Package} ${Version}\\n' >"/proc/self/fd/$LAB_FD_MANIFEST"

# A second look at the root directory, without the /proc, /sys and /dev that are mounted below it now. Where nothing may be mounted,
# they are not there either.
if mount --bind "$root" "$root/mnt"; then
    root="$root/mnt"
    trap 'umount "$root"' EXIT
fi
mke2fs -q -F -t ext4 -L lab-root -m 0 -E lazy_itable_init=1,lazy_journal_init=1 -d "$root" "/proc/self/fd/$LAB_FD_DISK"
"""


class LabError(FabricError):
    """Something that the operator can act on; the text says what."""


@dataclass(frozen=True)
class AptSource:
    """One archive of the machine's own apt, as far as the image needs to know it.

    Follows sources.list(5): `signed_by` is a path, or "inline" for a key inside a deb822 stanza, or None.
    """

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str | None = None

    def line(self) -> str:
        """The source in one-line style."""
        option = f"[signed-by={self.signed_by}] " if self.signed_by else ""
        return f"deb {option}{self.uri} {self.suite} {' '.join(self.components)}"


@dataclass(frozen=True)
class ImageRecipe:
    """All that decides what is in an image. Where the packages come from does not: mirrors hold the same packages."""

    suite: str
    components: tuple[str, ...]
    kernel_package: str
    packages: tuple[str, ...]
    offline_packages: tuple[str, ...]
    path_excludes: tuple[str, ...] = tuple(PATH_EXCLUDES)
    masked_units: tuple[str, ...] = tuple(MASKED_UNITS)
    masked_generators: tuple[str, ...] = tuple(MASKED_GENERATORS)
    files: t.Mapping[str, tuple[int, str]] = field(default_factory=lambda: dict(FILES))
    hook: str = _HOOK
    disk_mib: int = 8192
    architecture: str = "amd64"
    format_version: int = FORMAT_VERSION

    def key(self) -> str:
        """Content hash: 16 hex digits that change with anything above."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def hook_script(self) -> str:
        """The shell script that turns the root file system into the image."""
        return (
            self.hook.replace("@MASKED@", " ".join(self.masked_units))
            .replace("@GENERATORS@", " ".join(self.masked_generators))
            .replace("@OFFLINE@", " ".join(self.offline_packages))
            .replace("@STANZAS@", packages_stanza_script())
            .replace("@REPOSITORY@", REPOSITORY)
        )


@dataclass(frozen=True)
class Image:
    """A built image in the cache."""

    key: str
    directory: str

    @property
    def disk(self) -> str:
        """The root file system, raw, sparse."""
        return os.path.join(self.directory, "root.ext4")

    @property
    def kernel(self) -> str:
        """The kernel for direct boot."""
        return os.path.join(self.directory, "vmlinuz")

    @property
    def initrd(self) -> str:
        """The initial RAM disk that belongs to the kernel."""
        return os.path.join(self.directory, "initrd.img")

    @property
    def manifest(self) -> str:
        """The packages of the image, one `name version` a line."""
        return os.path.join(self.directory, "packages.txt")


def packages_stanza_script() -> str:
    """Shell lines that write the index files (Packages, Release) of the *.deb in the current directory.

    Does what dpkg-scanpackages does, without a need for dpkg-dev on the controller.
    """
    return """\
    for deb in *.deb; do
        dpkg-deb --field "$deb"
        echo "Filename: ./$deb"
        echo "Size: $(stat --format=%s "$deb")"
        echo "SHA256: $(sha256sum "$deb" | cut -d ' ' -f 1)"
        echo
    done >Packages
    {
        echo "Origin: fabric.rdma lab"
        date --utc '+Date: %a, %d %b %Y %H:%M:%S UTC'
        echo "SHA256:"
        echo " $(sha256sum Packages | cut -d ' ' -f 1) $(stat --format=%s Packages) Packages"
    } >Release"""


# --- the machine's own apt -------------------------------------------------------------------------------------------


def parse_os_release(text: str) -> dict[str, str]:
    """os-release(5) as a dict; quotes removed."""
    result: dict[str, str] = {}
    for line in text.splitlines():
        name, separator, value = line.strip().partition("=")
        if separator and not name.startswith("#"):
            result[name] = value.strip("\"'")
    return result


def parse_one_line(text: str) -> list[AptSource]:
    """The `deb` lines of a sources.list; `deb-src` and comments are left out."""
    result: list[AptSource] = []
    for raw in text.splitlines():
        line = raw.split("#", 1)[0].strip()
        match = re.match(
            r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<components>.*)$", line
        )
        if match is None:
            continue
        options = {
            option.partition("=")[0].lower(): option.partition("=")[2] for option in (match["options"] or "").split()
        }
        if not _for_this_architecture(options.get("arch", "").replace(",", " ")):
            continue
        result.append(
            AptSource(
                match["uri"], match["suite"], tuple(match["components"].split()), options.get("signed-by") or None
            )
        )
    return result


def parse_deb822(text: str) -> list[AptSource]:
    """The enabled binary sources of a *.sources file (deb822 style), one per URI and suite."""
    result: list[AptSource] = []
    for stanza in re.split(r"\n[ \t]*\n", "\n".join(line for line in text.splitlines() if not line.startswith("#"))):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line[:1] in (" ", "\t"):
                if name:
                    fields[name] += "\n" + line.strip()
                continue
            name, separator, value = line.partition(":")
            name = name.strip().lower()
            if not separator:
                name = ""
                continue
            fields[name] = value.strip()
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in (
            "no",
            "false",
            "0",
            "off",
        ):
            continue
        if not _for_this_architecture(fields.get("architectures", "")):
            continue
        signed_by: str | None = fields.get("signed-by") or None
        if signed_by is not None and "BEGIN PGP" in signed_by:
            signed_by = "inline"
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                result.append(AptSource(uri, suite, tuple(fields.get("components", "").split()), signed_by))
    return result


def _for_this_architecture(architectures: str) -> bool:
    """Whether a source's architecture list (blank: all) has the one that the lab uses."""
    return not architectures.strip() or "amd64" in architectures.split()


def machine_sources(root: str = "/") -> list[AptSource]:
    """The sources that the machine's own apt is set to, in the order in which apt reads them."""
    result: list[AptSource] = []
    directory = os.path.join(root, "etc/apt")
    paths = [
        os.path.join(directory, "sources.list"),
        *sorted(glob.glob(os.path.join(directory, "sources.list.d", "*"))),
    ]
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                text = stream.read()
        except OSError:
            continue
        if path.endswith(".sources"):
            result.extend(parse_deb822(text))
        elif path.endswith(".list"):
            result.extend(parse_one_line(text))
    return result


def choose_sources(sources: t.Sequence[AptSource], os_release: t.Mapping[str, str]) -> tuple[str, list[AptSource]]:
    """The suite of the image, and the sources that have it.

    The distribution's own archive (and its -updates and -security parts) is recognised by the suite's name, the component `main`
    and by not being signed with somebody else's key. On Debian the suite is always `DEBIAN_SUITE`, from the same mirror.
    Raises LabError when the machine is neither Debian nor Ubuntu, or no source fits.
    """
    distribution = os_release.get("ID", "unknown")
    codename = os_release.get("VERSION_CODENAME") or os_release.get("UBUNTU_CODENAME") or ""
    if distribution not in ("debian", "ubuntu"):
        raise LabError(
            f"the lab builds its image from the machine's own apt sources, and this machine is {distribution!r} (os-release ID), "
            "not debian or ubuntu: run the lab on Debian or Ubuntu"
        )
    names = {codename} | ({"stable", "testing", "unstable", "sid", "oldstable"} if distribution == "debian" else set())
    names.discard("")
    suite = DEBIAN_SUITE if distribution == "debian" else codename
    chosen: list[AptSource] = []
    for source in sources:
        base, separator, pocket = source.suite.partition("-")
        if separator and pocket not in ("updates", "security"):
            continue
        keyring = os.path.basename(source.signed_by or "")
        own_key = source.signed_by is None or keyring.startswith(f"{distribution}-archive-")
        if base not in names or "main" not in source.components or not own_key:
            continue
        # unstable has no such parts; bookworm has
        result = AptSource(source.uri, suite + separator + pocket, source.components, source.signed_by)
        if result not in chosen:
            chosen.append(result)
    if not any(source.suite == suite for source in chosen):
        raise LabError(
            "no apt source of this machine is the archive of %s %s (looked for one of the suites %s with component main in "
            "/etc/apt/sources.list and /etc/apt/sources.list.d; found %s): add the distribution's own archive to apt"
            % (
                distribution,
                codename,
                ", ".join(sorted(names)),
                ", ".join(s.suite for s in sources) or "no source at all",
            )
        )
    return suite, chosen


def default_recipe(suite: str, sources: t.Sequence[AptSource], os_release: t.Mapping[str, str]) -> ImageRecipe:
    """The recipe of the lab's image for a suite."""
    ubuntu = os_release.get("ID") == "ubuntu"
    components = tuple(
        sorted({component for source in sources if source.suite == suite for component in source.components})
    )
    flavour = "generic" if ubuntu else "amd64"
    return ImageRecipe(
        suite=suite,
        components=components,
        kernel_package="linux-image-" + flavour,
        packages=tuple(PACKAGES),
        # Headers of the very kernel in the image: both come from the same look at the archive.
        offline_packages=(*OFFLINE_PACKAGES, "linux-headers-" + flavour),
    )


# --- building ----------------------------------------------------------------------------------------------------------


def find_tool(name: str) -> str | None:
    """Where a program is; ordinary users often have no sbin directory in their PATH."""
    return shutil.which(name, path=_search_path())


def _search_path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def _missing_tools(names: t.Iterable[str]) -> list[str]:
    """The Debian packages of those programs which are not there, sorted."""
    return sorted({TOOL_PACKAGES[name] for name in names if find_tool(name) is None})


def require_tools(names: t.Iterable[str]) -> None:
    """Raises LabError with the line to type when a program is missing."""
    packages = _missing_tools(names)
    if packages:
        sudo = "" if os.geteuid() == 0 else "sudo "
        raise LabError(
            "the lab needs programs that are not installed on this machine",
            f"install them with: {sudo}apt-get install --yes {' '.join(packages)}",
        )


def mmdebstrap_command(
    recipe: ImageRecipe, sources: t.Sequence[AptSource], mode: str, overlay: str, apt_options: t.Sequence[str] = ()
) -> list[str]:
    """The command that makes the root file system and, in its last hook, the image from it.

    `mode` is root or unshare (no root needed); `overlay` a tar archive of the files to add; `apt_options` lines of apt.conf.
    """
    packages = [recipe.kernel_package, "initramfs-tools", *recipe.packages]
    command = [
        "mmdebstrap",
        f"--mode={mode}",
        "--variant=minbase",
        "--format=null",
        f"--architectures={recipe.architecture}",
        f"--include={','.join(sorted(packages))}",
        '--aptopt=APT::Install-Recommends "false"',
        '--aptopt=Acquire::Languages "none"',
        *(f"--aptopt={option}" for option in apt_options),
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.path_excludes),
        # Before any package is configured: the kernel's initrd is then made with these settings at once.
        f"--essential-hook=tar-in {overlay} /",
        # The script itself comes through the environment: mmdebstrap logs its hooks, and a failing build should end with the cause.
        f'--customize-hook=sh -c "${HOOK_VARIABLE}" hook "$1"',
        recipe.suite,
        "/dev/null",
    ]
    return command + [source.line() for source in sources]


def _overlay_archive(files: t.Mapping[str, tuple[int, str]]) -> bytes:
    """A tar archive of the files, owned by root, without times of its own."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            mode, content = files[name]
            data = content.encode()
            info = tarfile.TarInfo("./" + name)
            info.mode, info.size = mode, len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _machine_apt_options() -> list[str]:
    """The settings of the machine's apt without which its mirrors may not be reachable (proxy, dates of frozen mirrors)."""
    wanted = re.compile(r"^Acquire::((https?|ftp)::Proxy|Check-Valid-Until|Check-Date|Retries)\s")
    try:
        output = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return [line.rstrip(";") for line in output.splitlines() if wanted.match(line) and '""' not in line]


def stage_of(line: str) -> str | None:
    """What a line of mmdebstrap's log says about the progress, in plain words; None when nothing new."""
    stages = [
        (r"I: running apt-get update", "fetching the package lists"),
        (r"I: downloading packages with apt", "downloading the base system"),
        (r"I: extracting archives", "unpacking the base system"),
        (r"I: installing essential packages", "installing the base system"),
        (r"I: installing remaining packages", "installing kernel, SSH, container runtime"),
        (r"(I: running --customize-hook in shell)", "adding the offline packages, writing the disk image"),
        (r"I: cleaning", "cleaning up"),
    ]
    for pattern, stage in stages:
        if re.match(pattern, line):
            return stage
    return None


@contextlib.contextmanager
def locked(path: str, progress: Progress, alive: Alive, what: str) -> t.Iterator[None]:
    """Holds an exclusive lock on a file; says what it waits for when somebody else holds it."""
    started = time.monotonic()
    told = -10.0
    stream = _try_lock(path)
    while stream is None:
        alive()
        waited = time.monotonic() - started
        if waited - told >= 10:
            progress(f"{what}: another process holds {path}, waiting ({waited:.0f} s)")
            told = waited
        time.sleep(0.5)
        stream = _try_lock(path)
    with stream:
        yield


def _try_lock(path: str) -> t.TextIO | None:
    """The open, locked file; None while somebody else has it."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    # Not closed here: the lock lives as long as the file is open, which the caller decides.
    stream = open(path, "a", encoding="utf-8")  # noqa: SIM115
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The one before may have removed the file; then this is the lock of nothing.
        if os.path.samestat(os.stat(path), os.fstat(stream.fileno())):
            return stream
    except (BlockingIOError, FileNotFoundError):
        pass
    stream.close()
    return None


def cached_image(cache_dir: str, recipe: ImageRecipe) -> Image | None:
    """The image of a recipe when it is in the cache. It is renamed into place when complete, so being there is enough."""
    image = Image(recipe.key(), os.path.join(cache_dir, f"image-{recipe.key()}"))
    return image if os.path.isfile(image.disk) else None


def build_image(
    cache_dir: str, recipe: ImageRecipe, sources: t.Sequence[AptSource], progress: Progress, alive: Alive
) -> Image:
    """The image of a recipe, built when it is not in the cache. Takes one to two minutes then, and about 2 GiB of disk."""
    with locked(os.path.join(cache_dir, f"image-{recipe.key()}.lock"), progress, alive, "image"):
        image = cached_image(cache_dir, recipe)
        if image is not None:
            return image
        root = os.geteuid() == 0
        require_tools(["mmdebstrap", "mke2fs", *([] if root else ["newuidmap"])])
        # A build that was killed leaves its directory behind; the lock says that nobody else uses it.
        for leftover in glob.glob(os.path.join(cache_dir, f"building-{recipe.key()}-*")):
            shutil.rmtree(leftover)
        building = tempfile.mkdtemp(prefix=f"building-{recipe.key()}-", dir=cache_dir)
        try:
            _build_into(building, recipe, sources, "root" if root else "unshare", progress, alive)
            final = os.path.join(cache_dir, f"image-{recipe.key()}")
            os.chmod(building, 0o755)
            os.rename(building, final)
        except BaseException:
            log = os.path.join(building, "build.log")
            if os.path.exists(log):
                os.replace(log, os.path.join(cache_dir, "failed-build.log"))
            shutil.rmtree(building, ignore_errors=True)
            raise
    return Image(recipe.key(), final)


def _die_with_parent() -> None:
    """Runs in the child before exec: asks the kernel to end the build when the process that wants it is gone (prctl(2))."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _build_into(
    directory: str, recipe: ImageRecipe, sources: t.Sequence[AptSource], mode: str, progress: Progress, alive: Alive
) -> None:
    image = Image(recipe.key(), directory)
    overlay = os.path.join(directory, "overlay.tar")
    with open(overlay, "wb") as stream:
        stream.write(_overlay_archive(recipe.files))
    with open(os.path.join(directory, "recipe.json"), "w", encoding="utf-8") as text:
        json.dump(asdict(recipe), text, indent=1, sort_keys=True)
    with open(image.disk, "wb") as stream:
        stream.truncate(recipe.disk_mib << 20)
    log_path = os.path.join(directory, "build.log")
    environment = dict(os.environ, PATH=_search_path(), LC_ALL="C.UTF-8", DEBIAN_FRONTEND="noninteractive")
    # Not /tmp: it is a small RAM disk on some machines.
    environment.setdefault("TMPDIR", "/var/tmp")
    environment[HOOK_VARIABLE] = recipe.hook_script()
    command = mmdebstrap_command(recipe, sources, mode, overlay, _machine_apt_options())
    outputs = {"DISK": image.disk, "KERNEL": image.kernel, "INITRD": image.initrd, "MANIFEST": image.manifest}
    descriptors: list[int] = []
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(log_path, "wb"))
        for name, path in outputs.items():
            low = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            # High numbers: mmdebstrap writes `>&N` for descriptors that it opens itself, and sh knows only one digit there.
            descriptor = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 100)
            os.close(low)
            stack.callback(os.close, descriptor)
            descriptors.append(descriptor)
            # The hook opens it again by its name in /proc, perhaps as another identity of a user namespace; the directory above
            # is closed to everybody else.
            os.fchmod(descriptor, 0o666)
            environment["LAB_FD_" + name] = str(descriptor)
        process = subprocess.Popen(  # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=descriptors,
            env=environment,
            preexec_fn=_die_with_parent,
        )
        try:
            _follow(process, log_path, progress, alive)
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
    if process.returncode != 0:
        with open(log_path, encoding="utf-8", errors="replace") as text:
            tail = "".join(text.readlines()[-25:])
        hint = ""
        if mode == "unshare":
            hint = " (building without root needs a range for this user in /etc/subuid and /etc/subgid, and user namespaces)"
        raise LabError(
            f"building the lab image failed: mmdebstrap ended with {process.returncode}{hint}. Its last lines (all of "
            f"them: failed-build.log in the cache directory):\n{tail}"
        )
    for path in outputs.values():
        os.chmod(path, 0o444)
    os.unlink(overlay)


def _follow(process: subprocess.Popen[bytes], log_path: str, progress: Progress, alive: Alive) -> None:
    """Waits for the build; tells each new stage, and the time at least every ten seconds."""
    started = time.monotonic()
    told = started
    stage = "starting mmdebstrap"
    with open(log_path, encoding="utf-8", errors="replace") as stream:
        while True:
            alive()
            ended = process.poll() is not None
            new = stage
            for line in stream:
                new = stage_of(line) or new
            now = time.monotonic()
            if new != stage or now - told >= 10:
                stage = new
                progress(f"image: {stage} ({now - started:.0f} s)")
                told = now
            if ended:
                return
            time.sleep(0.3)
