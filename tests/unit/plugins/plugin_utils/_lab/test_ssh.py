# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way to the nodes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.ssh import known_hosts, ssh_config
from ansible_collections.fabric.rdma.tests.unit.plugins.plugin_utils._lab.samples import NODES


def test_ssh_config_as_ssh_reads_it(tmp_path: Path) -> None:
    directory = tmp_path / "with blank and %h"
    directory.mkdir()
    config = tmp_path / "config"
    places = {"lab1": ("127.0.0.1", 40021), "lab2": ("fe80::fab:2%lab123456", 40022)}
    config.write_text(ssh_config(NODES, places, str(directory)))
    config.chmod(0o600)
    seen: dict[str, dict[str, str]] = {}
    for name in ("lab1", "lab2", "elsewhere.example.com"):
        output = subprocess.run(
            ["ssh", "-G", "-F", str(config), name], capture_output=True, text=True, check=True
        ).stdout
        seen[name] = dict(line.split(" ", 1) for line in output.splitlines() if " " in line)
    assert [seen[name]["port"] for name in seen] == ["40021", "40022", "22"]
    for name in ("lab1", "lab2"):
        assert seen[name]["hostname"] == places[name][0]
        assert seen[name]["user"] == "root"
        assert seen[name]["stricthostkeychecking"] == "true"
        assert seen[name]["hostkeyalias"] == name
        assert seen[name]["identitiesonly"] == "yes"
        assert seen[name]["userknownhostsfile"].replace("%%", "%").strip('"') == str(directory / "known_hosts")
    assert seen["elsewhere.example.com"]["user"] != "root" or seen["elsewhere.example.com"]["identitiesonly"] == "no"


def test_ssh_knows_the_key_of_every_node() -> None:
    assert known_hosts({"lab1": "ssh-ed25519 AAAA lab1\n", "lab2": "ssh-ed25519 BBBB\n"}) == (
        "lab1 ssh-ed25519 AAAA\nlab2 ssh-ed25519 BBBB\n"
    )
