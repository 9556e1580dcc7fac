# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real containerds whose files two of us write: NVIDIA's container toolkit, which the GPU Operator brings, and containerd_memlock.

The toolkit is not here; its edits are made as its code makes them (nvidia-container-toolkit, pkg/config/engine/containerd). Up to 1.17
it writes what `containerd config dump` prints, with its runtimes, into the main file. From 1.18 on it copies the CRI plugin's table of the main
file into a file of its own, adds its runtimes there, and lets the main file import the directory. Both it does whenever its Pod starts, and
main files lose their comments.
"""

from __future__ import annotations

import copy
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import parse
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_apply import lift
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_plan import parse_wish
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils.containerd_node import (
    CONFIG_2,
    CONFIG_3,
    GENERATIONS,
    HIGH,
    Machine,
)

Start = Callable[..., Machine]
Json = dict[str, Any]
LIMIT = {"soft": HIGH, "hard": HIGH}
RUNTIMES = ("nvidia", "nvidia-cdi", "nvidia-legacy")
PROGRAM = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
DROP_IN = "etc/conf.d/99-nvidia.toml"


def without_nvidia(config: str, imports: bool = True) -> str:
    """A configuration before the toolkit has come."""
    bare = re.sub(r"^ *\[plugins\.[^\n]*runtimes\.nvidia\]\n[^\n]*\n", "", config, flags=re.MULTILINE)
    return bare if imports else re.sub(r"^imports = .*\n", "", bare, flags=re.MULTILINE)


PLAIN_2, BARE_2, BARE_3 = without_nvidia(CONFIG_2), without_nvidia(CONFIG_2, False), without_nvidia(CONFIG_3)
# containerd 1.x knows no version 3 of its configuration
CASES = [
    *((generation, config) for generation in GENERATIONS for config in (PLAIN_2, BARE_2)),
    ("2", BARE_3),
]
IDS = [*(f"{generation}-{name}" for generation in GENERATIONS for name in ("imports", "bare")), "2-version3"]


def written(table: Json, path: tuple[str, ...] = ()) -> str:
    """TOML as go-toml writes it: sorted, what is not a table first, every name of a table in quotes where it has to be."""

    def value(item: Any) -> str:
        if isinstance(item, bool):
            return str(item).lower()
        if isinstance(item, list):
            return f"[{', '.join(map(value, item))}]"
        if isinstance(item, dict):
            return "{" + ", ".join(f"{name(key)} = {value(inner)}" for key, inner in item.items()) + "}"
        return f'"{item}"' if isinstance(item, str) else str(item)

    def name(key: str) -> str:
        return key if re.fullmatch(r"[\w-]+", key) else f'"{key}"'

    lines = [f"[{'.'.join(map(name, path))}]"] if path else []
    lines += [f"{name(key)} = {value(item)}" for key, item in sorted(table.items()) if not isinstance(item, dict)]
    inner = [written(item, (*path, key)) for key, item in sorted(table.items()) if isinstance(item, dict)]
    return "\n".join([*lines, "", *inner])


class Toolkit:
    """The GPU Operator's container toolkit on a node."""

    def __init__(self, machine: Machine, drop_ins: bool) -> None:
        self.machine = machine
        self.drop_ins = drop_ins
        self.drop_in = machine.root / DROP_IN

    def _main(self) -> tuple[Json, str]:
        """(the main file, or all that it leads to; the name of the CRI plugin's table in it)."""
        text = self.machine.config.read_text()
        if not self.drop_ins:
            command = [f"{self.machine.directory}/containerd", "--config", str(self.machine.config), "config", "dump"]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = parse(text)
        return found, "io.containerd.grpc.v1.cri" if found["version"] == 2 else "io.containerd.cri.v1.runtime"

    def starts(self) -> None:
        """AddRuntime() for each of its runtimes, EnableCDI(), Save(), and the restart of containerd."""
        main, plugin = self._main()
        target = copy.deepcopy(main)
        if self.drop_ins:
            # RemoveRuntime() goes over both files, and makes its own again
            self._without_runtimes(main["plugins"][plugin])
            target = {"version": main["version"], "plugins": {plugin: copy.deepcopy(main["plugins"][plugin])}}
        cri = target["plugins"][plugin]
        for name in RUNTIMES:
            # the options of the low-level runtime, whatever they are
            cri["containerd"]["runtimes"][name] = copy.deepcopy(cri["containerd"]["runtimes"]["runc"])
            cri["containerd"]["runtimes"][name].setdefault("options", {})["BinaryName"] = PROGRAM
        cri["enable_cdi"] = True
        self._save(main if self.drop_ins else target, target)

    def goes(self) -> None:
        """Unconfigure(), when its Pod ends."""
        main, plugin = self._main()
        self._without_runtimes(main["plugins"][plugin])
        own = {"version": main["version"], "plugins": {plugin: copy.deepcopy(main["plugins"][plugin])}}
        self._save(main, own)

    @staticmethod
    def _without_runtimes(cri: Json) -> None:
        for name in RUNTIMES:
            cri["containerd"]["runtimes"].pop(name, None)

    def _save(self, main: Json, own: Json) -> None:
        if self.drop_ins:
            pattern = f"{self.drop_in.parent}/*.toml"
            imports = main.get("imports") or []
            main["imports"] = imports if pattern in imports else [*imports, pattern]
            self.drop_in.parent.mkdir(exist_ok=True)
            self.drop_in.write_text(written(own))
        self.machine.config.write_text(written(main))
        self.machine.stop()
        assert self.machine.start(), (self.machine.root / "log").read_text()


def memlock(machine: Machine, check: bool = False) -> Json:
    result: Json = lift(machine, parse_wish(LIMIT), check, limit(20))
    return result


def insist(machine: Machine, *names: str) -> None:
    """CRI is well, has these handlers, and each of them lifts the limit; nothing would be changed by another run."""
    again = memlock(machine, check=True)
    spec = str(machine.root / "etc/fabric-rdma-base.json")
    assert {name: handler["base_runtime_spec"] for name, handler in again["handlers"].items()} == dict.fromkeys(
        names, spec
    )
    assert {name: handler["memlock"] for name, handler in again["handlers"].items()} == dict.fromkeys(names, LIMIT)
    assert (again["changed"], again["files"], again["diff"]) == (False, [], [])


def program(machine: Machine, name: str) -> str | None:
    """What the file that counts says of the toolkit's runtime."""
    for path in (machine.root / DROP_IN, machine.config):
        for plugin in parse(path.read_text()).get("plugins", {}).values() if path.exists() else ():
            found = plugin.get("containerd", {}).get("runtimes", {}).get(name) if isinstance(plugin, dict) else None
            if found:
                said: str | None = found.get("options", {}).get("BinaryName")
                return said
    return None


@pytest.mark.parametrize(("generation", "config"), CASES, ids=IDS)
@pytest.mark.parametrize("drop_ins", [True, False], ids=["1.18", "1.17"])
def test_the_toolkit_comes_first(start: Start, config: str, drop_ins: bool) -> None:
    machine = start(config)
    toolkit = Toolkit(machine, drop_ins)
    toolkit.starts()
    assert memlock(machine)["changed"]
    insist(machine, *RUNTIMES, "runc")
    assert {program(machine, name) for name in RUNTIMES} == {PROGRAM}
    # its Pod is restarted: an upgrade, a reboot
    toolkit.starts()
    insist(machine, *RUNTIMES, "runc")
    assert {program(machine, name) for name in RUNTIMES} == {PROGRAM}


@pytest.mark.parametrize(("generation", "config"), CASES, ids=IDS)
@pytest.mark.parametrize("drop_ins", [True, False], ids=["1.18", "1.17"])
def test_the_toolkit_comes_later_and_goes(start: Start, config: str, drop_ins: bool) -> None:
    machine = start(config)
    assert memlock(machine)["changed"]
    toolkit = Toolkit(machine, drop_ins)
    for _again in range(2):
        toolkit.starts()
        insist(machine, *RUNTIMES, "runc")
        assert {program(machine, name) for name in RUNTIMES} == {PROGRAM}
    toolkit.goes()
    insist(machine, "runc")


def test_what_only_the_toolkits_own_file_has_is_lost_at_its_next_start(start: Start, generation: str) -> None:
    """Why the main file gets it, too: with 1.x, the toolkit's file is the only one that counts, and is made of the main one."""
    machine = start(BARE_2)
    toolkit = Toolkit(machine, True)
    toolkit.starts()
    memlock(machine)
    main = machine.config.read_text()
    machine.config.write_text(re.sub(r"^ *base_runtime_spec = .*\n", "", main, flags=re.MULTILINE))
    toolkit.starts()
    lost = memlock(machine, check=True)["changed"]
    assert lost is generation.startswith("1.")
