# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts of the scenarios on the nodes of a lab: brought there in one piece, run over one connection each.

A module run of Ansible costs an emulated node three seconds, a file that is copied as much; what has to be done a hundred times
goes another way. The nodes get the collection's code for nodes as it is in this checkout, with what it needs of Ansible.

usage: nodes.py push NODE...                      (FABRIC_RDMA_LAB names the directory of the lab)
       nodes.py run SCRIPT[,ARGUMENT...] NODE...
"""

from __future__ import annotations

import concurrent.futures
import functools
import io
import json
import os
import subprocess
import sys
import tarfile
import typing as t
from pathlib import Path

import ansible.module_utils
import pace

ROOT = Path(__file__).resolve().parents[2]
# Where it all lies on a node.
PLACE = "/var/lib/fabric-rdma-lab/scripts"


def lab() -> Path:
    """The directory of the lab that the environment names."""
    return Path(os.environ["FABRIC_RDMA_LAB"])


@functools.cache
def bundle() -> bytes:
    """A tar archive of the scripts and of all that they import."""
    utils = Path(ansible.module_utils.__path__[0])
    plugins = ROOT / "plugins"
    target = "ansible_collections/fabric/rdma/plugins"
    contents = {
        **{f"ansible/module_utils/{path.relative_to(utils)}": path for path in sorted(utils.rglob("*.py"))},
        **{f"{target}/{path.relative_to(plugins)}": path for path in sorted(plugins.glob("module*/**/*.py"))},
        **{
            path.name: path
            for path in sorted([*ROOT.glob("molecule/shared/*.py"), *ROOT.glob("molecule/runtimes/*.py")])
        },
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        # The package itself has more imports than there are files here.
        archive.addfile(tarfile.TarInfo("ansible/__init__.py"))
        for name, path in contents.items():
            archive.add(path, name, filter=_as_root)
    return buffer.getvalue()


def _as_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    return info


def command(node: str, *words: str) -> list[str]:
    """What runs a command on a node; the words reach the node's shell, so they must need no quoting."""
    return ["ssh", "-F", str(lab() / "ssh_config"), "-o", "BatchMode=yes", node, *words]


def boot_id(node: str) -> str:
    """Which start of the machine it is; nothing while it does not answer."""
    # while the node is away, QEMU takes the connection all the same, and nothing answers on it
    words = command("-oConnectTimeout=20", node, "cat", "/proc/sys/kernel/random/boot_id")
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def push(node: str) -> None:
    """Brings the scripts to a node, in place of what was there."""
    words = f"rm -rf {PLACE} && mkdir -p {PLACE} && tar -C {PLACE} -xzf -"
    subprocess.run(command(node, words), input=bundle(), check=True)


def script(node: str, name: str, *arguments: str) -> list[str]:
    """What runs a script on a node."""
    environment = f"PYTHONPATH={PLACE} FABRIC_RDMA_PACE={pace.factor()}"
    return command(node, f"cd {PLACE} && {environment} exec python3 {name}", *arguments)


def output(node: str, name: str, *arguments: str) -> str:
    """What a script says on a node. Fails with all that it said."""
    done = subprocess.run(
        script(node, name, *arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{node}: {name} ended with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def look(node: str) -> dict[str, t.Any]:
    """What containers were allowed before and are now: the result of `containers.py look`."""
    return dict(json.loads(output(node, "containers.py", "look")))


def everywhere(nodes: t.Sequence[str], work: t.Callable[[str], t.Any]) -> dict[str, t.Any]:
    """Does something for all nodes at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(nodes)) as pool:
        return dict(zip(nodes, pool.map(work, nodes), strict=True))


def main() -> None:
    """The command line."""
    words = sys.argv[1:]
    if len(words) > 1 and words[0] == "push":
        everywhere(words[1:], push)
    elif len(words) > 2 and words[0] == "run":
        everywhere(words[2:], lambda node: subprocess.run(script(node, *words[1].split(",")), check=True))
    else:
        sys.exit((__doc__ or "").strip())


if __name__ == "__main__":
    main()
