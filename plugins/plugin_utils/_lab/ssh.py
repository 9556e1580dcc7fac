# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way to the nodes: configuration and keys of SSH. Private to the collection."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import run
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import NodePlan

__all__ = ["known_hosts", "make_keypair", "ssh_config"]


def ssh_config(nodes: t.Sequence[NodePlan], places: t.Mapping[str, tuple[str, int]], directory: str) -> str:
    """An ssh_config(5) with one alias a node: `ssh -F <directory>/ssh_config lab1`. places: address and port of each node."""

    def path(name: str) -> str:
        # % starts a token in ssh_config(5), and a path may have blanks.
        return '"{}"'.format(os.path.join(directory, name).replace("%", "%%"))

    lines = ["# Written by fabric.rdma.lab; removed with the lab."]
    for node in nodes:
        lines += [
            f"Host {node.name}",
            # of a link-local address, % comes before the name of its device
            f"  HostName {places[node.name][0].replace('%', '%%')}",
            f"  Port {places[node.name][1]}",
            f"  HostKeyAlias {node.name}",
        ]
    lines += [
        "Host {}".format(" ".join(node.name for node in nodes)),
        "  User root",
        f"  IdentityFile {path('id_ed25519')}",
        "  IdentitiesOnly yes",
        "  IdentityAgent none",
        "  PasswordAuthentication no",
        "  StrictHostKeyChecking yes",
        f"  UserKnownHostsFile {path('known_hosts')}",
        "  GlobalKnownHostsFile /dev/null",
        "  CheckHostIP no",
        "  UpdateHostKeys no",
        "  LogLevel ERROR",
    ]
    return "\n".join(lines) + "\n"


def known_hosts(keys: t.Mapping[str, str]) -> str:
    """A known_hosts file that pins the nodes' host keys; `keys` maps a node to the text of its public key file."""
    return "".join(f"{name} {' '.join(keys[name].split()[:2])}\n" for name in keys)


def make_keypair(path: str, comment: str) -> None:
    if not os.path.exists(path):
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path], "making an SSH key")
