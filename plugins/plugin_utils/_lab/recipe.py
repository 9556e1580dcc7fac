# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes into the image of the lab's nodes. Private to the collection. Pure.

Whatever changes here changes the key of the image, and each machine builds it again.
"""

from __future__ import annotations

import typing as t
from dataclasses import asdict, dataclass, field

from ansible_collections.fabric.rdma.plugins.module_utils._base.fingerprint import fingerprint
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.kubelet import DISK_PATH
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.sources import AptSource

__all__ = [
    "BYTECODE",
    "BYTECODE_DIRECTORY",
    "FILES",
    "FORMAT_VERSION",
    "HOOK_VARIABLE",
    "OFFLINE_PACKAGES",
    "PACKAGES",
    "ImageRecipe",
    "default_recipe",
    "packages_stanza_script",
]

# Raised by hand when the way an image is laid out changes without a change of the texts below.
FORMAT_VERSION = 1

PACKAGES = [
    "apt",
    "ca-certificates",
    "containerd",
    "containernetworking-plugins",
    "dbus",
    "ethtool",
    "iproute2",
    "iputils-ping",
    "kmod",
    "mount",
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

# Not installed, but for the last: they wait, with all that they depend on, in a package repository inside the image, so that the role which has
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
    "cryptsetup",
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
    # the whole content of a container: installed in the end
    "busybox-static",
]

# Of these, what is in the image of containers; their libraries that are in every root file system are found.
_POD_PACKAGES = [
    "busybox-static",
    "ibverbs-providers",
    "ibverbs-utils",
    "libibumad3",
    "libibverbs1",
    "libnl-3-200",
    "libnl-route-3-200",
    "librdmacm1",
    "perftest",
]

# Files that no node of the lab reads. Drivers of hardware that QEMU's machine does not have are more than half of the kernel package;
# network and InfiniBand drivers stay, since "is this module available" is a question that roles ask.
_PATH_EXCLUDES = [
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
_REPOSITORY = "/var/lib/fabric-rdma-lab/repository"

# First thing on a node: its second disk is a bare tar archive with all that makes this node differ from the others.
_SETUP = """\
#!/bin/sh
# Makes this virtual machine the node that its configuration disk describes. Runs at every boot.
set -eu
# What goes wrong is told on the console, where whoever waits for the node looks, and in the journal.
exec 3>&2 2>/run/fabric-rdma-lab.trouble
end() {
  code=$?
  cat /run/fabric-rdma-lab.trouble >&3
  [ "$code" -eq 0 ] || trouble=$(tail -n 1 /run/fabric-rdma-lab.trouble)
  [ "$code" -eq 0 ] || echo "fabric.rdma lab: ${LAB_NAME:-node} is not set up: ${trouble:-exit code $code}" >/dev/console
}
trap end EXIT
known=$([ ! -e /etc/systemd/system/kubelet.service ] || echo yes)
tar --extract --file=/dev/vdb --directory=/ --no-same-owner
. /etc/fabric-rdma-lab.conf
ip link set lo up
ip link set eth0 up
ip address replace "$LAB_MANAGEMENT_ADDRESS" dev eth0
ip route replace default via "$LAB_GATEWAY" dev eth0
# Cards of one network may be several on a node: each answers for itself, and none of them without a cable.
for setting in arp_ignore=1 arp_announce=2 ignore_routes_with_linkdown=1; do
  echo "${setting#*=}" >"/proc/sys/net/ipv4/conf/all/${setting%=*}"
done
modprobe e1000e
modprobe rdma_rxe
trouble=
if [ ! -d /sys/module/fabric_lab_pci ] &&
  ! trouble=$(insmod /usr/local/lib/fabric-rdma-lab/fabric_lab_pci.ko 2>&1); then
  if [ -n "$LAB_KUBERNETES" ]; then
    # the device plugin would offer nothing
    echo "$trouble" >&2
    exit 1
  fi
  echo "fabric.rdma lab: RDMA devices stay outside the PCI tree: $trouble" >/dev/console
fi
printf '%s\n' "$LAB_HCAS" | while read -r hca netdev address cards; do
  for card in $cards; do
    if [ "$card" != "$netdev" ]; then
      modprobe bonding max_bonds=0
      [ -e "/sys/class/net/$netdev" ] || ip link add "$netdev" type bond mode active-backup miimon 100
      ip link set "$card" master "$netdev"
    fi
    ip link set "$card" up
  done
  ip link set "$netdev" up
  ip address replace "$address" dev "$netdev"
  rdma link show "$hca/1" >/dev/null 2>&1 || rdma link add "$hca" type rxe netdev "$netdev"
  # below the function of its network card, or of the first one of a bond
  [ ! -d /sys/module/fabric_lab_pci ] || echo "$hca ${cards%% *}" >/sys/module/fabric_lab_pci/parameters/move
  rdma link show "$hca/1"
done >/run/fabric-rdma-lab.devices
mv /run/fabric-rdma-lab.devices /run/fabric-rdma-lab
if [ -n "$LAB_KUBERNETES" ]; then
  mkdir -p @DISK@
  mountpoint --quiet @DISK@ || mount -o ro /dev/vdc @DISK@
  # in the order of its unit, when its time has come
  [ -n "$known" ] || systemctl daemon-reload
  systemctl start --no-block kubelet.service
fi
echo "fabric.rdma lab: $LAB_NAME is set up" >/dev/console
# From here on only emergencies go to the console, so that its log file cannot grow without bound.
echo 1 >/proc/sys/kernel/printk
"""

_SETUP_UNIT = """\
[Unit]
Description=Set up this node of the fabric.rdma lab
DefaultDependencies=no
# Devices are where they belong before modules come that make files for them, and after those that were there have been told to udev.
After=local-fs.target systemd-tmpfiles-setup.service systemd-udev-trigger.service
Before=systemd-modules-load.service network-pre.target network.target ssh.service ssh.socket shutdown.target
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
# nearly half of what a module run costs. What was compiled once is kept, by the hash of its source and the version of Python. The tools of
# the checkout have the same for this machine (tools/setup-venv), where it is a quarter of what a playbook costs that only writes files.
BYTECODE_DIRECTORY = "/var/cache/fabric-rdma-lab-bytecode"


BYTECODE = f"""\
# Keeps the bytecode of modules that are imported from zip archives, for which Python itself has no cache.
import zipimport

_compile = getattr(zipimport, "_compile_source", None)


def _cached(pathname, source):
    import hashlib, marshal, os, sys

    name = "%s.%s" % (hashlib.sha256(source).hexdigest(), sys.implementation.cache_tag)
    path = os.path.join("{BYTECODE_DIRECTORY}", name)
    try:
        with open(path, "rb") as stream:
            return marshal.loads(stream.read())
    except (OSError, EOFError, ValueError, TypeError):
        pass
    code = _compile(pathname, source)
    _keep(path, marshal.dumps(code))
    return code


def _keep(path, data):
    import os

    # numbers of processes repeat in namespaces that share the directory
    unfinished = "%s.%s" % (path, os.urandom(8).hex())
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(unfinished, "wb") as stream:
            stream.write(data)
        os.replace(unfinished, path)
    except OSError:
        try:
            os.unlink(unfinished)
        except OSError:
            pass


if _compile is not None:
    zipimport._compile_source = _cached
"""

# Where the lab's kernel module is.
_MODULE = "usr/local/lib/fabric-rdma-lab"

# Path in the image -> (mode, content).
FILES: dict[str, tuple[int, str]] = {
    "usr/local/sbin/fabric-rdma-lab-setup": (0o755, _SETUP.replace("@DISK@", DISK_PATH)),
    "etc/systemd/system/fabric-rdma-lab-setup.service": (0o644, _SETUP_UNIT),
    # SSH first, the container runtime when the node can already be reached: it is what a person waits for under emulation.
    "etc/systemd/system/containerd.service.d/after-ssh.conf": (0o644, "[Unit]\nAfter=ssh.service\n"),
    "etc/systemd/journald.conf.d/lab.conf": (0o644, "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n"),
    "etc/ssh/sshd_config.d/lab.conf": (
        0o644,
        "HostKey /etc/ssh/ssh_host_ed25519_key\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nUseDNS no\n"
        "PrintMotd no\nPrintLastLog no\n",
    ),
    # What the root file system is on, and the first network card: with both in the initrd, it is eth0 before the others are there.
    "etc/initramfs-tools/modules": (0o644, "virtio_pci\nvirtio_blk\nvirtio_net\next4\n"),
    "etc/initramfs-tools/conf.d/lab": (0o644, "MODULES=list\nFSTYPE=ext4\nRESUME=none\n"),
    "etc/hosts": (0o644, "127.0.0.1 localhost\n"),
    # With an interrupt for each purpose, QEMU's card does not tell the driver that its cable was pulled out.
    "etc/modprobe.d/lab.conf": (0o644, "options e1000e IntMode=1,1,1,1,1,1,1,1\n"),
    # RDMA devices keep the names that the lab gives them.
    "etc/udev/rules.d/60-rdma-persistent-naming.rules": (0o644, "# left empty\n"),
    "usr/lib/python3/dist-packages/fabric_rdma_lab_bytecode.py": (0o644, BYTECODE),
    "usr/lib/python3/dist-packages/fabric_rdma_lab_bytecode.pth": (0o644, "import fabric_rdma_lab_bytecode\n"),
    # Several emulated nodes on a busy machine may take minutes for what takes seconds elsewhere.
    "etc/systemd/system.conf.d/lab.conf": (
        0o644,
        "[Manager]\nDefaultTimeoutStartSec=600s\nDefaultDeviceTimeoutSec=600s\n",
    ),
}

# Units that a lab node has no use for; each costs time at boot under emulation.
_MASKED_UNITS = [
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
_MASKED_GENERATORS = [
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

# What containers of tests are made of: the RDMA user space of the image's own release on a static shell, for root and for a user.
pod="$root/tmp/pod"
mkdir -p "$pod/bin" "$pod/etc" "$pod/tmp" "$pod/usr/share/misc"
chmod 1777 "$pod/tmp"
for name in @POD@; do
    dpkg-deb --fsys-tarfile "$root@REPOSITORY@/${name}"_*.deb | tar --extract --directory="$pod" --exclude=./usr/share
done
find "$pod/usr/lib" -path '*/libibverbs/*' ! -name 'librxe-*' ! -type d -delete
find "$pod/etc/libibverbs.d" ! -name rxe.driver -type f -delete
libraries=/$(cd "$pod" && echo usr/lib/*-linux-gnu)
chroot "$root" find /tmp/pod/usr/bin "/tmp/pod$libraries/libibverbs" -name '*ib*' -type f -print0 |
    chroot "$root" env LD_LIBRARY_PATH="/tmp/pod$libraries:/tmp/pod/lib/${libraries##*/}" \\
    xargs -0 ldd >"$root/tmp/libraries"
if grep 'not found' "$root/tmp/libraries"; then exit 1; fi
awk '{ for (i = 1; i <= NF; i++) if ($i ~ /^[/]/) print $i }' "$root/tmp/libraries" | sort -u | while read -r library; do
    case "$library" in /tmp/pod/*) ;; *)
        mkdir -p "$pod/$(dirname "$library")"
        cp -L "$root/$library" "$pod/$library"
        ;;
    esac
done
cp "$root/usr/share/misc/pci.ids" "$pod/usr/share/misc/"
printf 'root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n' >"$pod/etc/passwd"
printf 'root:x:0:\nuser:x:1000:\n' >"$pod/etc/group"
chroot "$pod" /bin/busybox --install -s /bin
tar --create --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --directory="$pod" . >"/proc/self/fd/$LAB_FD_POD"
rm -rf "$pod" "$root/tmp/libraries"

# The module that hangs Soft-RoCE devices below a PCI function, built with the headers of the image's kernel, which do not stay.
kernel=$(cd "$root/lib/modules" && echo *)
for deb in "$root@REPOSITORY@"/linux-headers-*.deb "$root@REPOSITORY@"/linux-kbuild-*.deb; do
    [ ! -e "$deb" ] || dpkg-deb --fsys-tarfile "$deb" | tar --extract --directory="$root" --keep-directory-symlink
done
chroot "$root" make --silent -C "/lib/modules/$kernel/build" M=/usr/local/lib/fabric-rdma-lab modules
find "$root/usr/local/lib/fabric-rdma-lab" -mindepth 1 ! -name '*.ko' ! -name '*.c' -delete
rm -rf "$root"/usr/src/linux-* "$root"/usr/lib/linux-kbuild-* "$root/lib/modules/$kernel/build" "$root/lib/modules/$kernel/source"

# Nodes are booted with the kernel and the initrd beside the image: an initrd made on a node would never be used.
chroot "$root" update-initramfs -u -k all
cat "$root"/boot/vmlinuz-* >"/proc/self/fd/$LAB_FD_KERNEL"
cat "$root"/boot/initrd.img-* >"/proc/self/fd/$LAB_FD_INITRD"
rm -f "$root"/boot/initrd.img-*
echo 'update_initramfs=no' >"$root/etc/initramfs-tools/update-initramfs.conf"

# What containers are made of, which no role installs: not before the initrd, which would have it, too.
chroot "$root" sh -c 'dpkg --install @REPOSITORY@/busybox-static_*.deb' >/dev/null
chroot "$root" dpkg-query --show --showformat='${Package} ${Version}\\n' >"/proc/self/fd/$LAB_FD_MANIFEST"

# A second look at the root directory, without the /proc, /sys and /dev that are mounted below it now. Where nothing may be mounted,
# they are not there either.
if mount --bind "$root" "$root/mnt"; then
    root="$root/mnt"
    trap 'umount "$root"' EXIT
fi
mke2fs -q -F -t ext4 -L lab-root -m 0 -E lazy_itable_init=1,lazy_journal_init=1 -d "$root" "/proc/self/fd/$LAB_FD_DISK"
"""


@dataclass(frozen=True)
class ImageRecipe:
    """All that decides what is in an image. Where the packages come from does not: mirrors hold the same packages."""

    suite: str
    components: tuple[str, ...]
    kernel_package: str
    packages: tuple[str, ...]
    offline_packages: tuple[str, ...]
    pod_packages: tuple[str, ...] = tuple(_POD_PACKAGES)
    path_excludes: tuple[str, ...] = tuple(_PATH_EXCLUDES)
    masked_units: tuple[str, ...] = tuple(_MASKED_UNITS)
    masked_generators: tuple[str, ...] = tuple(_MASKED_GENERATORS)
    files: t.Mapping[str, tuple[int, str]] = field(default_factory=lambda: dict(FILES))
    hook: str = _HOOK
    disk_mib: int = 8192
    architecture: str = "amd64"
    format_version: int = FORMAT_VERSION

    def key(self) -> str:
        """Content hash: 16 hex digits that change with anything above."""
        return fingerprint(asdict(self), 16)

    def hook_script(self) -> str:
        """The shell script that turns the root file system into the image."""
        return (
            self.hook.replace("@MASKED@", " ".join(self.masked_units))
            .replace("@GENERATORS@", " ".join(self.masked_generators))
            .replace("@OFFLINE@", " ".join(self.offline_packages))
            .replace("@POD@", " ".join(self.pod_packages))
            .replace("@STANZAS@", packages_stanza_script())
            .replace("@REPOSITORY@", _REPOSITORY)
        )


def default_recipe(
    suite: str, sources: t.Sequence[AptSource], os_release: t.Mapping[str, str], module: t.Mapping[str, str]
) -> ImageRecipe:
    """The recipe of the lab's image for a suite. module: the files that its kernel module is built from, by their names."""
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
        files={**FILES, **{f"{_MODULE}/{name}": (0o644, text) for name, text in module.items()}},
    )


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
