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
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.kubelet import KUBELET_PORT
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import LabError, find_tool
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import MANAGEMENT_ADDRESS, NodePlan, console_tail

__all__ = [
    "TCG_CPU",
    "fabric_cables",
    "fabric_netdevs",
    "is_our_process",
    "kvm_trouble",
    "qemu_command",
]

# Measured with two emulated nodes on two cores: pc is ready some seconds before q35, one processor a node before two, and a processor
# with four levels of page tables and without wide vectors ten seconds before one that has all that QEMU can emulate.
_MACHINE = "pc"

# A network card whose network device is directly below its PCI function, where device plugins look; that of virtio-net is one deeper.
CARD = "e1000e"
TCG_CPU = "max,la57=off,-avx,-avx2,-erms,-smap,-smep,-pku,-xsave"

# Without them, and with these arguments, a boot takes 26.5 s of processor time instead of 30.2 s. Under emulation "rep stos" and "rep movs"
# go byte by byte, so that a page is cleared in a third of the time without them. On a busy machine the kernel's watchdog takes a node that
# had to wait for one whose TSC is not stable, and goes over to the HPET: each look at the clock leaves the emulated processor then, and
# perftest, which compares both clocks, prints inf. All processors of a node read one counter of the host.
_TCG_ARGUMENTS = (
    "clearcpuid=erms,rep_good init_on_alloc=0 hardened_usercopy=off randomize_kstack_offset=off psi=0 transparent_hugepage=never "
    "tsc=nowatchdog"
)


class Cable(t.NamedTuple):
    """What joins two network cards, or a card and the hub of its rail in the first node's QEMU. Ends are (node, card)."""

    rail: int
    # of the first node; None: its hub
    card: int | None
    other: tuple[int, int]


def fabric_cables(nodes: t.Sequence[NodePlan]) -> list[Cable]:
    """The cables between QEMU processes, rail by rail: one between two cards, else one from each card to the hub of the first node."""
    result: list[Cable] = []
    for rail in sorted({hca.rail for node in nodes for _card, hca in node.cards}):
        cards = [(node.index, card) for node in nodes for card, hca in node.cards if hca.rail == rail]
        if len(cards) == 2 and cards[0][0] == 0 and cards[1][0] != 0:
            result.append(Cable(rail, cards[0][1], cards[1]))
        else:
            result += [Cable(rail, None, each) for each in cards if each[0] != 0]
    return result


def fabric_netdevs(node: NodePlan, cables: t.Sequence[Cable], descriptors: t.Sequence[int]) -> list[str]:
    """QEMU's arguments for the networks behind the cards of a node (netdevs `fabric1` for eth1 and so on).

    `descriptors` are this node's ends of the cables, in their order, of those that have an end here.
    """
    result: list[str] = []
    mine = [cable for cable in cables if node.index in (0, cable.other[0])]
    plugged = set()
    for number, (cable, descriptor) in enumerate(zip(mine, descriptors, strict=True)):
        if cable.other[0] == node.index or cable.card is not None:
            card = cable.other[1] if cable.other[0] == node.index else cable.card
            plugged.add(card)
            result += ["-netdev", f"socket,id=fabric{card},fd={descriptor}"]
        else:
            result += ["-netdev", f"socket,id=cable{number},fd={descriptor}"]
            result += ["-netdev", f"hubport,id=port{number},hubid={cable.rail},netdev=cable{number}"]
    for card, hca in node.cards:
        if card not in plugged:
            result += ["-netdev", f"hubport,id=fabric{card},hubid={hca.rail}"]
    return result


def _fabric_cards(node: NodePlan) -> list[str]:
    """QEMU's arguments for these cards. They are PCI functions with a driver of their own, as HCAs are."""
    return [
        word
        for card, _hca in node.cards
        for word in ("-device", f"{CARD},id=card{card},netdev=fabric{card},mac={node.mac(card)},romfile=")
    ]


def _quoted(path: str) -> str:
    """A path as a value in one of QEMU's comma-separated options."""
    return path.replace(",", ",,")


def _kernel_arguments(node: NodePlan, accel: str) -> str:
    """The kernel command line of a node."""
    machine_id = hashlib.sha256(("fabric.rdma lab " + node.name).encode()).hexdigest()[:32]
    return " ".join(
        [
            "root=/dev/vda rw rootfstype=ext4 console=ttyS0 net.ifnames=0",
            f"systemd.hostname={node.name} systemd.machine_id={machine_id}",
            # Nothing here protects anything, and each costs time under emulation.
            "mitigations=off audit=0 selinux=0 apparmor=0 nowatchdog fsck.mode=skip",
            # A busy machine may have no time for the kernel's check of its timer, which ends in a panic.
            "no_timer_check random.trust_cpu=on loglevel=5 systemd.show_status=1",
            *([] if accel == "kvm" else [_TCG_ARGUMENTS]),
        ]
    )


def _cluster_disk(path: str) -> list[str]:
    """QEMU's arguments for a disk that nodes share: the third."""
    return [
        *("-drive", f"file={_quoted(path)},if=none,id=cluster,format=raw,readonly=on,file.locking=off"),
        *("-device", "virtio-blk-pci,drive=cluster"),
    ]


def qemu_command(
    node: NodePlan,
    image: Image,
    directory: str,
    accel: str,
    ports: tuple[int, int],
    fabric: t.Sequence[str],
    monitor: int,
    cluster: tuple[str, str] | None = None,
) -> list[str]:
    """The command that starts a node in the background.

    `directory` is the node's own; `ports` those of 127.0.0.1 that lead to its SSH server and to its kubelet; `fabric` what `fabric_netdevs` says;
    `monitor` the descriptor of a socket that listens for QEMU's monitor; `cluster` the disk of the nodes of a cluster, and the part of
    an option that brings them to its API server. The management network reaches nothing but these ports and this server (restrict=on).
    """
    disk, forwarding = cluster or ("", "")
    port, kubelet = ports
    if cluster is not None:
        forwarding += f",hostfwd=tcp:127.0.0.1:{kubelet}-{MANAGEMENT_ADDRESS}:{KUBELET_PORT}"
    cpu = "host" if accel == "kvm" else TCG_CPU
    accelerator = "kvm" if accel == "kvm" else "tcg,thread=multi"

    def path(name: str) -> str:
        return _quoted(os.path.join(directory, name))

    return [
        "qemu-system-x86_64",
        *("-name", node.name),
        *("-machine", _MACHINE),
        *("-accel", accelerator),
        *("-cpu", cpu),
        *("-smp", str(node.cpus)),
        *("-m", str(node.memory_mib)),
        *("-nodefaults", "-no-user-config", "-vga", "none", "-display", "none", "-monitor", "none"),
        *("-chardev", f"file,id=console,path={path('console.log')}", "-serial", "chardev:console"),
        *("-kernel", image.kernel, "-initrd", image.initrd, "-append", _kernel_arguments(node, accel)),
        # cache=unsafe: a node's disk may be lost with the machine's power, and syncs are what package installation waits for.
        # werror=report: where the controller's disk is full, QEMU would stop the node without a word; this way the node complains.
        *("-drive", f"file={path('disk.qcow2')},if=none,id=root,format=qcow2,cache=unsafe,werror=report"),
        *("-device", "virtio-blk-pci,drive=root"),
        *("-drive", f"file={path('config.tar')},if=none,id=config,format=raw,readonly=on"),
        *("-device", "virtio-blk-pci,drive=config"),
        *(_cluster_disk(disk) if disk else ()),
        *(
            "-netdev",
            f"user,id=management,restrict=on,hostfwd=tcp:127.0.0.1:{port}-{MANAGEMENT_ADDRESS}:22{forwarding}",
        ),
        *("-device", f"virtio-net-pci,netdev=management,mac={node.mac(0)},romfile="),
        *fabric,
        *_fabric_cards(node),
        *("-chardev", f"socket,id=monitor,fd={monitor},server=on,wait=off", "-mon", "chardev=monitor,mode=control"),
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
            _MACHINE,
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
