# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are broken while a real containerd runs on the good ones: its next start would be its last. Nothing is touched.

Each on every generation. What needs systemd, a kernel or a disk of its own is tried by the molecule scenario "runtimes", on every
generation, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_apply import lift
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_daemon import check_cri
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_plan import parse_wish
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils.containerd_node import (
    CONFIG_2,
    CONFIG_3,
    HIGH,
    Machine,
)

NOFILE = {"type": "RLIMIT_NOFILE", "soft": 65535, "hard": 65535}
MEMLOCK = {"type": "RLIMIT_MEMLOCK", "soft": HIGH, "hard": HIGH}
TABLE = {
    True: 'plugins."io.containerd.cri.v1.runtime".containerd',
    False: 'plugins."io.containerd.grpc.v1.cri".containerd',
}
Start = Callable[..., Machine]
Fault = Callable[[Machine, Path, str], None]


def fresh(machine: Machine) -> dict[str, Any]:
    """The specification that this containerd makes."""
    status, output, _error = machine.command([os.path.join(machine.directory, "ctr"), "oci", "spec"])
    assert status == 0
    spec: dict[str, Any] = json.loads(output)
    return spec


def with_specification(start: Start, generation: str, *entries: dict[str, Any]) -> tuple[Machine, Path]:
    """A node whose runc has a base runtime specification, as Kubespray and EKS make it."""
    header = f"[{TABLE[generation == '2']}.runtimes.runc]\n"
    config = CONFIG_3 if generation == "2" else CONFIG_2
    machine = start(config.replace(header, f'{header}base_runtime_spec = "ROOT/etc/cri-base.json"\n'))
    path = machine.root / "etc/cri-base.json"
    spec = fresh(machine)
    spec["process"]["rlimits"] = list(entries)
    path.write_text(json.dumps(spec))
    assert machine.command(["systemctl", "restart", "containerd.service"])[0] == 0
    machine.starts = 1
    return machine, path


def content(data: str | bytes) -> Fault:
    """Another content of the specification. RLIMITS is where it has its limits."""

    def fault(machine: Machine, path: Path, _table: str) -> None:
        text = json.dumps({**fresh(machine), "process": {"cwd": "/", "rlimits": "RLIMITS"}}).encode()
        given = data.encode() if isinstance(data, str) else data
        path.write_bytes(
            text.replace(b'"RLIMITS"', given[len(b"RLIMITS ") :]) if given.startswith(b"RLIMITS ") else given
        )

    return fault


def memlock(value: str) -> Fault:
    return content(f'RLIMITS [{{"type": "RLIMIT_MEMLOCK", "soft": {value}, "hard": {value}}}]')


def config(change: Callable[[str, str], str]) -> Fault:
    def fault(machine: Machine, _path: Path, table: str) -> None:
        machine.config.write_text(change(machine.config.read_text(), table))

    return fault


def directory(_machine: Machine, path: Path, _table: str) -> None:
    path.unlink()
    path.mkdir()


FAULTS: dict[str, tuple[Fault, str]] = {
    "specification missing": (lambda _machine, path, _table: path.unlink(), r"cri-base\.json.* not there"),
    "specification empty": (content(""), r"cri-base\.json"),
    "specification truncated": (content('{"ociVersion": "1.0.2", "process": {'), r"cri-base\.json"),
    "specification an array": (content("[]"), r"cri-base\.json"),
    "specification with a byte order mark": (content(b"\xef\xbb\xbf{}"), r"cri-base\.json"),
    "specification with -1": (memlock("-1"), r"cri-base\.json.* is -1"),
    "specification with the word unlimited": (memlock('"unlimited"'), r"cri-base\.json.* is 'unlimited'"),
    "specification with a float": (memlock("1.8446744073709552e19"), r"cri-base\.json.* is 1\.8446744073709552e\+19"),
    "specification beyond 64 bits": (memlock("18446744073709552000"), r"cri-base\.json.* is 18446744073709552000"),
    "specification with 1e400": (
        memlock("1e400"),
        r"cri-base\.json: process\.rlimits\[0\]\.(soft|hard) is not a number",
    ),
    "specification with NaN": (memlock("NaN"), r"cri-base\.json: process\.rlimits\[0\]\.(soft|hard) is not a number"),
    "specification with an unknown rlimit": (
        content('RLIMITS [{"type": "RLIMIT_NOPE", "soft": 1, "hard": 1}]'),
        "RLIMIT_NOPE",
    ),
    "specification with soft above hard": (
        content('RLIMITS [{"type": "RLIMIT_NOFILE", "soft": 2, "hard": 1}]'),
        "RLIMIT_NOFILE",
    ),
    "specification with a key of another case": (
        content('RLIMITS [], "RLimits": []'),
        r"process\.RLimits is 'rlimits' for containerd",
    ),
    "specification with half a surrogate pair": (
        content('RLIMITS [], "user": {"username": "\\ud800"}'),
        r"process\.user\.username has one half of a surrogate pair",
    ),
    "specification a directory": (directory, r"Is a directory.*cri-base\.json"),
    "specification with a relative path": (
        config(
            lambda text, _table: text.replace(
                text[text.index('"', text.index("base_runtime_spec")) :].split('"')[1], "cri-base.json"
            )
        ),
        r"cri-base\.json",
    ),
    "configuration with a syntax error": (config(lambda text, _table: text + "[[[\n"), r"config\.toml"),
    "configuration with a path that is not a string": (
        config(lambda text, _table: text.replace(f'"{text.split("base_runtime_spec = ")[1].split(chr(34))[1]}"', "7")),
        r"base_runtime_spec|config\.toml",
    ),
    "configuration with an import that is not there": (
        config(
            lambda text, _table: "\n".join(line for line in text.splitlines() if "imports" not in line).replace(
                "\nroot", '\nimports = ["/nowhere/absent.toml"]\nroot', 1
            )
        ),
        r"absent\.toml",
    ),
    "configuration with a default runtime that is not there": (
        config(lambda text, table: f'{text}[{table}]\ndefault_runtime_name = "absent"\n'),
        "absent",
    ),
    "configuration with a runtime without a type": (
        config(lambda text, table: f"{text}[{table}.runtimes.bare]\n"),
        "bare",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_specification_that_containerd_would_not_survive_is_refused_untouched(
    start: Start, generation: str, name: str
) -> None:
    fault, words = FAULTS[name]
    machine, path = with_specification(start, generation, NOFILE)
    fault(machine, path, TABLE[generation == "2"])
    before = machine.files()
    wish = parse_wish({"soft": HIGH, "hard": HIGH})
    for check in (True, False):
        with pytest.raises((FabricError, OSError), match=words):
            lift(machine, wish, check, limit(20))
    assert (machine.files(), machine.starts) == (before, 1)
    assert not list((machine.root / "lib").glob("journal*"))
    assert check_cri(machine, os.path.join(machine.directory, "ctr"), machine.address) is None


@pytest.mark.parametrize(
    "entries",
    [
        [NOFILE],
        [{**NOFILE, "soft": 65536, "hard": 1048576}],
        [NOFILE, *({**MEMLOCK, "soft": number, "hard": number} for number in (65536, 131072))],
    ],
    ids=["Kubespray", "EKS", "the limit twice"],
)
def test_a_specification_of_others_is_copied_with_the_limit(
    start: Start, generation: str, entries: list[dict[str, Any]]
) -> None:
    """A copy with the limit is configured, their file stays, and all other limits with it."""
    machine, path = with_specification(start, generation, *entries)
    theirs = path.read_bytes()
    wish = parse_wish({"soft": HIGH, "hard": HIGH})
    result = lift(machine, wish, False, limit(20))
    runc = result["handlers"]["runc"]
    assert runc["memlock"] == {"soft": HIGH, "hard": HIGH}
    assert runc["base_runtime_spec"] != str(path)
    made = json.loads(Path(runc["base_runtime_spec"]).read_text())["process"]["rlimits"]
    assert made == [entries[0], MEMLOCK]
    assert path.read_bytes() == theirs
    assert lift(machine, wish, False, limit(20))["changed"] is False
