# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""driver_check beside a real dracut: the tree of modules and /boot are this test's own, in a mount namespace."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

COLLECTIONS = Path(__file__).resolve().parents[4] / ".collections"
KERNEL = os.uname().release
INBOX = "kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko"
VENDOR = "updates/dkms/mlx5_core.ko"
IMAGE = f"/boot/initrd.img-{KERNEL}"

# As root of a user namespace. A machine without modules of its own (a container) has no directory for them either.
SETUP = """
mkdir -p /usr/lib/modules
mount --bind "$1/modules" /usr/lib/modules
mount --bind "$1/boot" /boot
mount --bind "$1/conf" /etc/dracut.conf.d
depmod "$(uname -r)"
shift
exec "$@"
"""


def kernel_module(version: str) -> bytes:
    """mlx5_core as far as modinfo and depmod read it: an ELF object with the section .modinfo (include/uapi/linux/elf.h)."""
    info = {"license": "GPL", "name": "mlx5_core", "srcversion": version, "depends": "", "vermagic": KERNEL}
    names = b"\0.modinfo\0.symtab\0.strtab\0.shstrtab\0"
    # (name, type, content, section that it refers to, size of an entry)
    sections = [
        (b"", 0, b"", 0, 0),
        (b".modinfo", 1, b"".join(f"{key}={value}\0".encode() for key, value in info.items()), 0, 0),
        (b".symtab", 2, bytes(24), 3, 24),
        (b".strtab", 3, b"\0", 0, 0),
        (b".shstrtab", 3, names, 0, 0),
    ]
    bodies, headers = b"", b""
    for name, kind, body, link, entry in sections:
        at = names.index(name + b"\0") if name else 0
        headers += struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, 64 + len(bodies), len(body), link, kind == 2, 1, entry)
        bodies += body
    elf = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    elf += struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64 + len(bodies), 0, 64, 0, 0, 64, len(sections), 4)
    return elf + bodies + headers


class Node:
    """A machine whose initramfs dracut makes, which has the driver in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.modules = directory / "modules" / KERNEL
        for path in (self.modules, directory / "boot", directory / "conf", directory / "bin"):
            path.mkdir(parents=True)
        for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
            (self.modules / name).touch()
        # Nothing but what loads modules: it is the driver that matters, and a whole image takes half a minute.
        wish = 'dracutmodules="base kernel-modules"\nadd_drivers+=" mlx5_core "\ncompress="cat"\n'
        (directory / "conf" / "wish.conf").write_text(wish)
        # dracut takes the place of initramfs-tools, whose programs this machine may have all the same
        for program in Path("/usr/bin").iterdir():
            if program.name != "lsinitramfs":
                (directory / "bin" / program.name).symlink_to(program)
        self.put(INBOX, "AAAA")

    def put(self, path: str, version: str) -> None:
        """Writes a driver."""
        (self.modules / path).parent.mkdir(parents=True, exist_ok=True)
        (self.modules / path).write_bytes(kernel_module(version))

    def run(self, *command: str) -> str:
        unshare = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-euc", SETUP, "setup"]
        path = f"{self.directory / 'bin'}:/usr/sbin:/sbin"
        done = subprocess.run(
            [*unshare, str(self.directory), *command],
            env={**os.environ, "PATH": path, "PYTHONPATH": str(COLLECTIONS)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def check(self) -> dict[str, t.Any]:
        """What the module says of the initramfs."""
        wish = {"ANSIBLE_MODULE_ARGS": {"driver": "mlx5_core", "log_window": 0}}
        name = "ansible_collections.fabric.rdma.plugins.modules.driver_check"
        return dict(json.loads(self.run(sys.executable, "-m", name, json.dumps(wish)))["initramfs"])


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_an_image_with_the_old_driver_is_rebuilt(node: Node) -> None:
    """What the role does of it: list, compare, run the command that the module names, list again."""
    node.run("dracut", "--force", IMAGE, KERNEL)
    assert node.check() == {
        "path": IMAGE,
        "holds": INBOX,
        "stale": False,
        "rebuild": ["dracut", "--force", IMAGE, KERNEL],
    }
    node.put(VENDOR, "BBBB")
    found = node.check()
    assert (found["holds"], found["stale"]) == (INBOX, True)
    node.run(*found["rebuild"])
    found = node.check()
    assert (found["holds"], found["stale"]) == (VENDOR, False)


def test_an_image_without_the_driver_is_left_alone(node: Node) -> None:
    (node.directory / "conf" / "wish.conf").write_text('dracutmodules="base"\ncompress="cat"\n')
    node.run("dracut", "--force", IMAGE, KERNEL)
    node.put(VENDOR, "BBBB")
    found = node.check()
    assert (found["holds"], found["stale"]) == (None, False)
