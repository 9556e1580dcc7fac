# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""usage: unshare --net python recorded_node.py ROOT PROGRAM [ARGUMENT...]

Becomes PROGRAM on the node whose files are below ROOT: with its network links, of their types, in a network namespace of its own.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys

NETLINK_RDMA = 20

# linux/if_tun.h; a link that persists needs no open file
TUNSETIFF, TUNSETPERSIST, TUNSETLINK = 0x400454CA, 0x400454CB, 0x400454CD
IFF_TAP, IFF_NO_PI = 0x2, 0x1000
# of a link whose type was not recorded, as it has no RDMA device
ETHER = 1

# linux/filter.h, linux/seccomp.h, linux/prctl.h
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
REFUSE, ALLOW = 0x00050000, 0x7FFF0000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SOCKET = {"x86_64": 41, "aarch64": 198}


def add_links(directory: str) -> None:
    """TAP devices with the names and types of the node's links."""
    for name in sorted(os.listdir(directory)):
        tun = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
        with open(f"{directory}/{name}/type", encoding="ascii") as text:
            fcntl.ioctl(tun, TUNSETLINK, int(text.read() or ETHER))
        fcntl.ioctl(tun, TUNSETPERSIST, 1)
        os.close(tun)


def has_rdma_netlink() -> bool:
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA).close()
    except OSError:
        return False
    return True


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def refuse_rdma_netlink() -> None:
    """Says EINVAL to whoever opens NETLINK_RDMA, as kernels before it do: the plugin goes on then, which it does not without RDMA."""
    instructions = [
        (LOAD, 0, 0, 0),
        (EQUAL, 0, 5, SOCKET[os.uname().machine]),
        # its first and third argument
        (LOAD, 0, 0, 16),
        (EQUAL, 0, 3, socket.AF_NETLINK),
        (LOAD, 0, 0, 32),
        (EQUAL, 0, 1, NETLINK_RDMA),
        (RETURN, 0, 0, REFUSE | 22),
        (RETURN, 0, 0, ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in instructions))
    program = _Program(len(instructions), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")


def main(root: str, program: str, *arguments: str) -> None:
    add_links(f"{root}/sys/class/net")
    if not has_rdma_netlink():
        refuse_rdma_netlink()
    binary = os.open(program, os.O_RDONLY)
    os.chroot(root)
    os.chdir("/")
    os.execve(binary, [program, *arguments], {"HOME": "/"})


if __name__ == "__main__":
    main(*sys.argv[1:])
