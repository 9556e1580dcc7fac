# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of the lab as virtual machines: their network, their command, whether KVM works. Private to the collection."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.image import Image
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError, find_tool
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import MANAGEMENT_ADDRESS, NodePlan, console_tail

__all__ = [
    "MACHINE",
    "TCG_ARGUMENTS",
    "TCG_CPU",
    "fabric_links",
    "fabric_netdevs",
    "is_our_process",
    "kernel_arguments",
    "kvm_trouble",
    "qemu_command",
]

# Measured with two emulated nodes on two cores: pc is ready some seconds before q35, one processor a node before two, and a processor
# with four levels of page tables and without wide vectors ten seconds before one that has all that QEMU can emulate.
MACHINE = "pc"
TCG_CPU = "max,la57=off,-avx,-avx2,-erms,-smap,-smep,-pku,-xsave"

# Without them, and with these arguments, a boot takes 26.5 s of processor time instead of 30.2 s. Under emulation "rep stos" and "rep movs"
# go byte by byte, so that a page is cleared in a third of the time without them.
TCG_ARGUMENTS = "clearcpuid=erms,rep_good init_on_alloc=0 hardened_usercopy=off randomize_kstack_offset=off psi=0 transparent_hugepage=never"


def fabric_links(count: int) -> list[tuple[int, int]]:
    """Which nodes are joined by a cable: all with the first one, whose QEMU has a hub when there are more than two."""
    return [(0, other) for other in range(1, count)]


def fabric_netdevs(index: int, count: int, descriptors: t.Sequence[int]) -> list[str]:
    """QEMU's arguments for the network behind the second card (netdev `fabric`) of a node.

    `descriptors` are the ends of this node's cables, in the order of `fabric_links`.
    """
    if count == 2 or (index > 0 and count > 2):
        return ["-netdev", f"socket,id=fabric,fd={descriptors[0]}"]
    result = ["-netdev", "hubport,id=fabric,hubid=0"]
    for number, descriptor in enumerate(descriptors):
        result += ["-netdev", f"socket,id=cable{number},fd={descriptor}"]
        result += ["-netdev", f"hubport,id=port{number},hubid=0,netdev=cable{number}"]
    return result


def _quoted(path: str) -> str:
    """A path as a value in one of QEMU's comma-separated options."""
    return path.replace(",", ",,")


def kernel_arguments(node: NodePlan, accel: str) -> str:
    """The kernel command line of a node."""
    machine_id = hashlib.sha256(("fabric.rdma lab " + node.name).encode()).hexdigest()[:32]
    return " ".join(
        [
            "root=/dev/vda rw rootfstype=ext4 console=ttyS0 net.ifnames=0",
            f"systemd.hostname={node.name} systemd.machine_id={machine_id}",
            # Nothing here protects anything, and each costs time under emulation.
            "mitigations=off audit=0 selinux=0 apparmor=0 nowatchdog fsck.mode=skip",
            "random.trust_cpu=on loglevel=5 systemd.show_status=1",
            *([] if accel == "kvm" else [TCG_ARGUMENTS]),
        ]
    )


def qemu_command(
    node: NodePlan, count: int, image: Image, directory: str, accel: str, port: int, descriptors: t.Sequence[int]
) -> list[str]:
    """The command that starts a node in the background.

    `directory` is the node's own; `port` the one of 127.0.0.1 that leads to its SSH server. The management network reaches nothing but
    this port (restrict=on).
    """
    cpu = "host" if accel == "kvm" else TCG_CPU
    accelerator = "kvm" if accel == "kvm" else "tcg,thread=multi"

    def path(name: str) -> str:
        return _quoted(os.path.join(directory, name))

    return [
        "qemu-system-x86_64",
        *("-name", node.name),
        *("-machine", MACHINE),
        *("-accel", accelerator),
        *("-cpu", cpu),
        *("-smp", str(node.cpus)),
        *("-m", str(node.memory_mib)),
        *("-nodefaults", "-no-user-config", "-vga", "none", "-display", "none", "-monitor", "none"),
        *("-chardev", f"file,id=console,path={path('console.log')}", "-serial", "chardev:console"),
        *("-kernel", image.kernel, "-initrd", image.initrd, "-append", kernel_arguments(node, accel)),
        # cache=unsafe: a node's disk may be lost with the machine's power, and syncs are what package installation waits for.
        *("-drive", f"file={path('disk.qcow2')},if=none,id=root,format=qcow2,cache=unsafe"),
        *("-device", "virtio-blk-pci,drive=root"),
        *("-drive", f"file={path('config.tar')},if=none,id=config,format=raw,readonly=on"),
        *("-device", "virtio-blk-pci,drive=config"),
        *("-netdev", f"user,id=management,restrict=on,hostfwd=tcp:127.0.0.1:{port}-{MANAGEMENT_ADDRESS}:22"),
        *("-device", f"virtio-net-pci,netdev=management,mac={node.mac(0)},romfile="),
        *fabric_netdevs(node.index, count, descriptors),
        *("-device", f"virtio-net-pci,netdev=fabric,mac={node.mac(1)},romfile="),
        *("-device", "virtio-rng-pci"),
        *("-daemonize", "-pidfile", os.path.join(directory, "qemu.pid")),
    ]


def is_our_process(arguments: t.Sequence[str], pidfile: str) -> bool:
    """Whether a process with these arguments is the QEMU that was started with this pid file."""
    if not arguments or not os.path.basename(arguments[0]).startswith("qemu-system-"):
        return False
    return any(a == "-pidfile" and b == pidfile for a, b in itertools.pairwise(arguments))


def kvm_trouble(image: Image, seconds: float = 10) -> str | None:
    """Why KVM cannot run a node, None when it can.

    That /dev/kvm opens proves little inside virtual machines; what counts is a kernel that gets as far as its first process.
    """
    if not os.path.exists("/dev/kvm"):
        return "there is no /dev/kvm"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "/dev/kvm may not be opened by this user"
    command = [
        find_tool("qemu-system-x86_64") or "qemu-system-x86_64",
        *(
            "-machine",
            MACHINE,
            "-accel",
            "kvm",
            "-cpu",
            "host",
            "-m",
            "512",
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
        ),
        *("-vga", "none", "-display", "none", "-monitor", "none", "-serial", "stdio"),
        *("-kernel", image.kernel, "-initrd", image.initrd, "-append", "console=ttyS0 panic=-1 root=/dev/none"),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        if process.stdout is None:
            raise LabError("the output of QEMU cannot be read")
        os.set_blocking(process.stdout.fileno(), False)
        output = b""
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline:
                ended = process.poll() is not None
                output += process.stdout.read() or b""
                if b"Run /init as init process" in output:
                    return None
                if ended:
                    return f"QEMU with KVM ended at once: {console_tail(output.decode('utf-8', 'replace'), 1)[-80:]}"
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                process.kill()
    if not output.strip():
        return f"a guest with KVM shows nothing within {seconds:.0f} s"
    return (
        f"a guest with KVM got stuck within {seconds:.0f} s, at: {console_tail(output.decode('utf-8', 'replace'), 1)}"
    )
