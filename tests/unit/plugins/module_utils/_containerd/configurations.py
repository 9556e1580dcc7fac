# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations of containerd for tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.go_paths import matches
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.config import (
    ConfigFile,
    load,
)

V1, V2, V3 = "plugins.cri", 'plugins."io.containerd.grpc.v1.cri"', "plugins.'io.containerd.cri.v1.runtime'"
ALL = [(1, 6), (1, 7), (2, 1), (2, 2), (2, 3)]
OLD, NEW = ALL[:2], ALL[2:]
RUNC = "io.containerd.runc.v2"
ROOT = "/etc/containerd/config.toml"
SPEC = "/etc/containerd/base.json"

Files = dict[str, str]


def each(keys: Any, value: Any) -> dict[Any, Any]:
    return {key: value for key in keys}  # noqa: C420 - one value for all on purpose


def loaded(files: Files, generation: tuple[int, int]) -> list[ConfigFile]:
    """files: by path, relative ones beside the main file."""
    texts = {os.path.join(os.path.dirname(ROOT), path): text for path, text in files.items()}

    def glob(pattern: str) -> list[str]:
        return [path for path in texts if matches(path, pattern)]

    return load(ROOT, texts.get, glob, generation)


def runtime(plugin: str, name: str, *lines: str, kind: str = RUNC) -> str:
    text = f'[{plugin}.containerd.runtimes.{name}]\n  runtime_type = "{kind}"\n'
    return text + "".join(f"  {line}\n" for line in lines)


def options(plugin: str, name: str) -> str:
    return f"  [{plugin}.containerd.runtimes.{name}.options]\n    SystemdCgroup = true\n"


# --- merging ------------------------------------------------------------------------------------------------------------


def pair(root: str, drop_in: str) -> Files:
    head, _newline, rest = root.partition("\n")
    return {"config.toml": f'{head}\nimports = ["/etc/containerd/d/*.toml"]\n{rest}', "d/a.toml": drop_in}


TWO = "version = 2\n" + runtime(V2, "runc", 'base_runtime_spec = "/old"') + runtime(V2, "kata", kind="k")
THREE = TWO.replace("version = 2", "version = 3").replace(V2, V3)
DROP_2 = f'[{V2}.containerd.runtimes.runc]\n  base_runtime_spec = ""\n'
DROP_3 = DROP_2.replace(V2, V3)
SAME = {"kata": (None, "k"), "runc": (None, RUNC)}
ALONE = {"runc": (None, None)}
ROOTS = {"kata": (None, "k"), "runc": ("/old", RUNC)}
DEFAULT = {"runc": (None, RUNC)}

MERGES: dict[str, tuple[Files, dict[tuple[int, int], Any]]] = {
    "2 and 2": (pair(TWO, "version = 2\n" + DROP_2), {**each(OLD, ALONE), **each(NEW, SAME)}),
    "2 and none": (pair(TWO, DROP_2), {**each(OLD, ALONE), **each(NEW, SAME)}),
    "2 and 3": (
        pair(TWO, "version = 3\n" + DROP_3),
        {(1, 6): ROOTS, (1, 7): None, (2, 1): DEFAULT, (2, 2): DEFAULT, (2, 3): None},
    ),
    "3 and 3": (pair(THREE, "version = 3\n" + DROP_3), {(1, 6): DEFAULT, (1, 7): None, **each(NEW, SAME)}),
    "3 and 2": (
        pair(THREE, "version = 2\n" + DROP_2),
        {(1, 6): ALONE, (1, 7): ALONE, (2, 1): ROOTS, (2, 2): ROOTS, (2, 3): SAME},
    ),
    "2 with the new name as well": (
        {"config.toml": TWO + DROP_3},
        {(1, 6): ROOTS, (1, 7): ROOTS, (2, 1): DEFAULT, (2, 2): DEFAULT, (2, 3): DEFAULT},
    ),
    "1": (
        {"config.toml": TWO.replace("version = 2\n", "").replace(V2, V1)},
        {(1, 6): ROOTS, (1, 7): ROOTS, (2, 1): DEFAULT, (2, 2): DEFAULT, (2, 3): ROOTS},
    ),
    "an empty table of runtimes": (
        {"config.toml": f"version = 2\n[{V2}.containerd.runtimes]"},
        {**each(OLD, {}), **each(NEW, DEFAULT)},
    ),
    "a later file without runtimes": (
        pair(TWO, f'version = 2\n[{V2}.registry]\nconfig_path = "x"'),
        {**each(OLD, DEFAULT), **each(NEW, ROOTS)},
    ),
    "a new runtime without a type": (
        {"config.toml": f'version = 2\n[{V2}.containerd.runtimes.new]\nbase_runtime_spec = "/x"'},
        {**each(OLD, {"new": ("/x", None)}), **each(NEW, {"new": ("/x", None), **DEFAULT})},
    ),
    "a file that takes a version back": (
        pair("version = 4\n" + runtime(V3, "kata"), "version = 3"),
        {(1, 6): DEFAULT, (1, 7): None, (2, 1): {"kata": (None, RUNC), **DEFAULT}},
    ),
}


# --- editing ------------------------------------------------------------------------------------------------------------

# As distributions write them, in our words: {path: text}.
CONFIGS: dict[str, Files] = {
    "no file": {},
    "an empty file": {"config.toml": ""},
    "packaged by Docker": {"config.toml": '# License\n\ndisabled_plugins = []\n\n#[grpc]\n#  address = "/x"\n'},
    "packaged by Debian": {
        "config.toml": f'version = 2\n\n[plugins]\n  [{V2}]\n    [{V2}.cni]\n      bin_dir = "/usr/lib/cni"\n'
        '  [plugins."io.containerd.internal.v1.opt"]\n    path = "/var/lib/containerd"\n'
    },
    "kubeadm": {
        "config.toml": f'version = 2\n[{V2}]\n  sandbox_image = "pause"\n' + runtime(V2, "runc") + options(V2, "runc")
    },
    "kubeadm, version 3": {"config.toml": "version = 3\n" + options(V3, "runc")},
    "kubespray": {
        "config.toml": f"version = 2\n[plugins]\n  [{V2}]\n    [{V2}.containerd]\n      [{V2}.containerd.runtimes]\n"
        + runtime(V2, "runc", 'base_runtime_spec = "/etc/containerd/cri-base.json" # ours')
        + options(V2, "runc")
    },
    "eks": {
        "config.toml": f'version = 3\n[{V3}.containerd]\ndefault_runtime_name = "nvidia"\n'
        + f'[{V3}.containerd.runtimes.nvidia]\nbase_runtime_spec = "/etc/x.json"\nruntime_type = "{RUNC}"\n'
        + options(V3, "nvidia")
    },
    "microk8s": {
        "config.toml": "version = 2\n" + runtime(V2, "runc") + runtime(V2, "nvidia-container-runtime") + "\n[debug]\n"
    },
    "k3s": {
        "config.toml": 'version = 3\nimports = ["/etc/containerd/config-v3.toml.d/*.toml"]\n'
        + runtime(V3, "runc")
        + options(V3, "runc")
        + runtime(V3, "'nvidia'"),
        "config-v3.toml.d/registry.toml": "version = 3\n",
    },
    "version 1": {"config.toml": runtime(V1, "runc") + options(V1, "runc")},
    "nvidia-ctk": pair(TWO, "version = 2\n" + TWO[12:] + runtime(V2, "nvidia") + options(V2, "nvidia")),
    "nvidia-ctk, version 3": pair(THREE, "version = 3\n" + THREE[12:] + runtime(V3, "nvidia") + options(V3, "nvidia")),
    "nvidia-ctk, version 3 over 2": pair(TWO, "version = 3\n" + THREE[12:] + runtime(V3, "nvidia")),
    "dotted keys": {"config.toml": f"version = 2\n[{V2}.containerd.runtimes]\nrunc.runtime_type = '{RUNC}'\r\n"},
    "a bracket without a star": {
        "config.toml": 'version = 2\nimports = ["/etc/containerd/d/[.toml"]\n',
        "d/[.toml": "",
    },
    "only options": {"config.toml": f"version = 2\n[{V2}.containerd.runtimes.runc.options]\nSystemdCgroup = true"},
    **{f"merged: {name}": files for name, (files, _found) in MERGES.items()},
}


def specs_of(handlers: Any) -> dict[str, str]:
    return {name: f"/etc/containerd/{name}.json" for name in handlers}


# --- random files -------------------------------------------------------------------------------------------------------

tables = st.builds(
    lambda plugin, name, lines: f"[{plugin}.containerd.runtimes.{name}]\n" + "".join(sorted(lines)),
    st.sampled_from([V1, V2, V2, V3, V3]),
    st.sampled_from(["runc", "nvidia", "kata"]),
    st.sets(st.sampled_from(['runtime_type = "x"\n', 'base_runtime_spec = "/old"\n', "# a comment\n"])),
)
texts = st.builds(
    lambda version, parts: (
        f"version = {version}\n" * bool(version) + "".join({p.split("\n")[0]: p for p in parts}.values())
    ),
    st.sampled_from([0, 1, 2, 2, 3, 3, 4]),
    st.lists(tables, max_size=3),
)


# --- the real one -------------------------------------------------------------------------------------------------------


def dump(program: str, generation: tuple[int, int], root: Path) -> str | None:
    command = [program, "--config", str(root), "config", "dump"]
    if not root.exists() and generation < (2, 0):
        # the daemon runs without a file, its dump does not
        command = [program, "config", "default"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    return done.stdout if done.returncode == 0 else None
