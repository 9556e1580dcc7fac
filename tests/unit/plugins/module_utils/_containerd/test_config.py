# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd's configuration: what each generation makes of its files, and edits that do one thing.

containerd's own merge of every configuration in here, by each generation, is compared with ours, before and after the edit.
"""

from __future__ import annotations

import glob as globbing
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.config import (
    ConfigError,
    ConfigFile,
    Handler,
    cni,
    default_handler,
    effective,
    load,
    nri,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.config_edit import (
    Plan,
    dump_difference,
    plan_edits,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import parse
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils.containerd_node import (
    GENERATIONS,
    generation_number,
    programs,
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
        head, _star, tail = pattern.partition("*")
        return [
            path for path in texts if path.startswith(head) and path.endswith(tail) and "/" not in path[len(head) :]
        ]

    return load(ROOT, texts.get, glob, generation)


def runtime(plugin: str, name: str, *lines: str, kind: str = RUNC) -> str:
    text = f'[{plugin}.containerd.runtimes.{name}]\n  runtime_type = "{kind}"\n'
    return text + "".join(f"  {line}\n" for line in lines)


def options(plugin: str, name: str) -> str:
    return f"  [{plugin}.containerd.runtimes.{name}.options]\n    SystemdCgroup = true\n"


def names(files: Files, generation: tuple[int, int]) -> list[str]:
    return sorted(effective(loaded(files, generation), generation))


# --- which files --------------------------------------------------------------------------------------------------------


def test_order_of_loading() -> None:
    files = {
        "config.toml": 'imports = ["b.toml", "/etc/containerd/d/*.toml", "./a.toml", "b.toml"]',
        "b.toml": 'version = 2\nimports = ["/x/../y/c.toml", "config.toml"]',
        "/y/c.toml": "version = 2",
        "a.toml": "",
        "d/é.toml": "",
        "d/z.toml": "",
        "d/.h.toml": "",
        "d/sub/n.toml": "",
        "d/x.conf": "",
    }
    for generation in ALL[:3]:
        paths = [file.path.replace("/etc/containerd/", "") for file in loaded(files, generation)]
        assert paths == ["config.toml", "b.toml", "d/.h.toml", "d/z.toml", "d/é.toml", "a.toml", "/y/c.toml"]


def test_version_of_a_file_without_one() -> None:
    files = {"config.toml": 'version = 2\nimports = ["a.toml"]', "a.toml": ""}
    assert [file.version for file in loaded(files, (1, 7))] == [2, 2]
    assert loaded({"config.toml": ""}, (2, 1))[0].version == 1


def test_no_main_file() -> None:
    for generation in ALL:
        assert loaded({}, generation) == []
        assert effective([], generation) == {"runc": Handler(None, RUNC, None)}
        assert default_handler([], generation) == "runc"


def test_a_relative_pattern() -> None:
    files = {"config.toml": 'imports = ["d/*.toml"]', "d/a.toml": ""}
    for generation in ALL[1:]:
        assert [file.path for file in loaded(files, generation)] == [ROOT, "/etc/containerd/d/a.toml"]
    with pytest.raises(
        ConfigError, match=r"imports the relative pattern d/\*\.toml, .* write it as /etc/containerd/d/\*\.toml$"
    ):
        loaded(files, (1, 6))
    # with nothing to find, there is nothing to be unsure about
    assert len(loaded({"config.toml": files["config.toml"]}, (1, 6))) == 1


@pytest.mark.parametrize(
    ("files", "generation", "message"),
    [
        ({"config.toml": 'imports = ["n"]'}, (2, 1), "/etc/containerd/n is imported and is missing, or not a file: "),
        ({"config.toml": "a = 1\n[a"}, (1, 6), ROOT + ", line 2: expected ] at the end of the header"),
        ({"config.toml": "version = 'x'"}, (1, 6), ROOT + ": version is not a number from 1 to 2"),
        ({"config.toml": "imports = 'x'"}, (1, 6), ROOT + ": imports is not a list of paths"),
        ({"config.toml": "version = 3"}, (1, 7), ROOT + " has version 3, and containerd 1.7 knows up to 2: "),
        ({"config.toml": "version = 4"}, (2, 2), ROOT + " has version 4, and containerd 2.2 knows up to 3: "),
        ({"config.toml": "version = 5"}, (2, 3), ROOT + " has version 5, and containerd 2.3 knows up to 4: "),
        (
            {"config.toml": 'version = 2\nimports = ["a"]', "a": "version = 3"},
            (2, 3),
            "/etc/containerd/a has version 3, more than /etc/containerd/config.toml with 2: ",
        ),
        (
            {"config.toml": 'version = 2\ndisabled_plugins = ["cri"]'},
            (2, 1),
            ROOT + ": disabled_plugins has a plugin without its whole name, ",
        ),
        (
            {"config.toml": "version = 2\n[plugins.cri]"},
            (1, 7),
            ROOT + ": plugins has a plugin without its whole name, ",
        ),
        ({"config.toml": "version = 2\nplugins = 1"}, (1, 7), ROOT + ": plugins is not a table"),
    ],
)
def test_what_containerd_would_not_start_with(files: Files, generation: tuple[int, int], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(files, generation)
    assert str(caught.value).startswith(message)


_NRI = '[plugins."io.containerd.nri.v1.nri"]\n'
_OTHER_SOCKET = "/run/other.sock"


@pytest.mark.parametrize(
    ("files", "generation", "found"),
    [
        ({"config.toml": "version = 2\n"}, (1, 6), (False, None)),
        ({"config.toml": "version = 2\n" + _NRI + "disable = false\n"}, (1, 6), (False, None)),
        ({}, (1, 7), (False, None)),
        ({}, (2, 1), (True, None)),
        ({"config.toml": "version = 2\n" + _NRI + "disable = false\n"}, (1, 7), (True, None)),
        ({"config.toml": "version = 2\n" + _NRI + "disable = true\n"}, (2, 0), (False, None)),
        ({"config.toml": f"version = 3\n{_NRI}socket_path = '{_OTHER_SOCKET}'\n"}, (2, 2), (True, _OTHER_SOCKET)),
        ({"config.toml": 'version = 3\ndisabled_plugins = ["io.containerd.nri.v1.nri"]\n'}, (2, 2), (False, None)),
        # before 2.0 a later table takes the place of an earlier one, and what it does not say is as without it
        (
            {
                "config.toml": 'version = 2\nimports = ["b.toml"]\n' + _NRI + "disable = false\n",
                "b.toml": f"version = 2\n{_NRI}socket_path = '{_OTHER_SOCKET}'\n",
            },
            (1, 7),
            (False, _OTHER_SOCKET),
        ),
        (
            {
                "config.toml": 'version = 3\nimports = ["b.toml"]\n' + _NRI + "disable = true\n",
                "b.toml": f"version = 3\n{_NRI}socket_path = '{_OTHER_SOCKET}'\n",
            },
            (2, 1),
            (False, _OTHER_SOCKET),
        ),
    ],
)
def test_whether_nri_is_on(files: Files, generation: tuple[int, int], found: tuple[bool, str | None]) -> None:
    enabled, socket = nri(loaded(files, generation), generation)
    assert (enabled, socket) == (found[0], found[1] or "/var/run/nri/nri.sock")


_DEBIAN = "bin_dir = '/usr/lib/cni'\nconf_dir = '/etc/cni/net.d'\n"
_USUAL = ("/etc/cni/net.d", "/opt/cni/bin")


@pytest.mark.parametrize(
    ("files", "generation", "found"),
    [
        ({}, (1, 6), _USUAL),
        ({}, (2, 1), _USUAL),
        ({"config.toml": f"version = 2\n[{V2}.cni]\n{_DEBIAN}"}, (1, 6), ("/etc/cni/net.d", "/usr/lib/cni")),
        ({"config.toml": f"version = 2\n[{V2}.cni]\n{_DEBIAN}"}, (2, 0), ("/etc/cni/net.d", "/usr/lib/cni")),
        ({"config.toml": f"version = 3\n[{V3}.cni]\nconf_dir = '/c'\n"}, (2, 0), ("/c", _USUAL[1])),
        ({"config.toml": f"version = 3\n[{V3}.cni]\nbin_dirs = ['/a', '/b']\n"}, (2, 1), (_USUAL[0], "/a")),
        # it is not known before
        ({"config.toml": f"version = 3\n[{V3}.cni]\nbin_dirs = ['/a']\n"}, (2, 0), _USUAL),
        ({"config.toml": f"version = 3\n[{V3}.cni]\nbin_dirs = []\nbin_dir = ''\n"}, (2, 2), _USUAL),
        # before 2.0 a later table of the plugin takes the place of all of an earlier one
        (
            {
                "config.toml": f'version = 2\nimports = ["b.toml"]\n[{V2}.cni]\n{_DEBIAN}',
                "b.toml": f"version = 2\n[{V2}]\n",
            },
            (1, 7),
            _USUAL,
        ),
    ],
)
def test_where_cni_is(files: Files, generation: tuple[int, int], found: tuple[str, str]) -> None:
    assert cni(loaded(files, generation), generation) == found


@pytest.mark.parametrize("line", ["bin_dir = 1\n", "conf_dir = ['/etc']\n", "bin_dirs = [1]\n"])
def test_values_of_cni_with_which_cri_would_not_start(line: str) -> None:
    files = loaded({"config.toml": f"version = 3\n[{V3}.cni]\n" + line}, (2, 1))
    with pytest.raises(ConfigError, match="of CNI has a value of the wrong type: CRI would not start"):
        cni(files, (2, 1))


@pytest.mark.parametrize("line", ["disable = 1\n", "socket_path = true\n"])
def test_values_with_which_nri_would_not_start(line: str) -> None:
    files = loaded({"config.toml": "version = 2\n" + _NRI + line}, (1, 7))
    with pytest.raises(ConfigError, match="has a value of the wrong type: NRI would not start"):
        nri(files, (1, 7))


def test_what_cri_would_not_start_with() -> None:
    files = loaded({"config.toml": "version = 2\n" + runtime(V2, "runc", "base_runtime_spec = 5")}, (1, 7))
    with pytest.raises(ConfigError, match=r": base_runtime_spec is not a string: CRI would not start$"):
        effective(files, (1, 7))
    files = loaded({"config.toml": f"version = 2\n[{V2}.containerd]\nruntimes = 5"}, (2, 1))
    with pytest.raises(
        ConfigError, match=r'plugins\."io\.containerd\.grpc\.v1\.cri"\.containerd\.runtimes is not a table: '
    ):
        effective(files, (2, 1))


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
ROWS = [(name, generation) for name, (_files, found) in MERGES.items() for generation in found]


@pytest.mark.parametrize(("name", "generation"), ROWS)
def test_merging(name: str, generation: tuple[int, int]) -> None:
    files, wanted = MERGES[name]
    if wanted[generation] is None:
        with pytest.raises(ConfigError):
            loaded(files, generation)
        return
    found = effective(loaded(files, generation), generation)
    assert {name: handler[:2] for name, handler in found.items()} == wanted[generation]


def test_the_file_that_defines_a_handler_last() -> None:
    files = pair(TWO, "version = 2\n" + DROP_2)
    assert {n: h.file for n, h in effective(loaded(files, (2, 1)), (2, 1)).items()} == {
        "kata": ROOT,
        "runc": "/etc/containerd/d/a.toml",
    }
    files = {"config.toml": f"version = 3\n[{V3}.containerd]\ndefault_runtime_name = 'kata'"}
    assert effective(loaded(files, (2, 1)), (2, 1))["runc"].file is None
    assert default_handler(loaded(files, (2, 1)), (2, 1)) == "kata"


def test_deprecated_tables_of_runtimes() -> None:
    text = f'version = 2\n[{V2}.containerd.default_runtime]\nruntime_type = "x"\nbase_runtime_spec = "/y"\n'
    files = loaded({"config.toml": text}, (1, 6))
    assert effective(files, (1, 6))["default"] == Handler("/y", "x", ROOT)
    assert default_handler(files, (1, 6)) == "default"
    assert plan_edits(files, (1, 6), {"default": SPEC}).refusals == [
        f"{ROOT} defines the runtime handler default with the deprecated table default_runtime; write it as a table of runtimes"
    ]
    # `containerd config default` prints the table, empty
    assert "default" not in effective(loaded({"config.toml": text.replace('"x"', '""')}, (1, 6)), (1, 6))


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
    "only options": {"config.toml": f"version = 2\n[{V2}.containerd.runtimes.runc.options]\nSystemdCgroup = true"},
    **{f"merged: {name}": files for name, (files, _found) in MERGES.items()},
}
EDITS = [(name, generation) for name in CONFIGS for generation in ALL]


def after(files: Files, plan: Plan) -> Files:
    texts = {os.path.join("/etc/containerd", path): text for path, text in files.items()}
    texts.update({**plan.edits, **plan.creates})
    return texts


def specs_of(handlers: Any) -> dict[str, str]:
    return {name: f"/etc/containerd/{name}.json" for name in handlers}


@pytest.mark.parametrize(("name", "generation"), EDITS)
def test_edits(name: str, generation: tuple[int, int]) -> None:
    files = CONFIGS[name]
    try:
        before = effective(loaded(files, generation), generation)
    except ConfigError:
        return
    specs = specs_of(before)
    plan = plan_edits(loaded(files, generation), generation, specs)
    if plan.refusals:
        assert plan == Plan({}, {}, plan.refusals)
        assert all("/etc/containerd/" in refusal for refusal in plan.refusals)
        return
    new = after(files, plan)
    then = effective(loaded(new, generation), generation)
    assert {n: h[:2] for n, h in then.items()} == {n: (specs[n], h.runtime_type) for n, h in before.items()}
    assert plan_edits(loaded(new, generation), generation, specs) == Plan({}, {}, [])
    back = plan_edits(loaded(new, generation), generation, dict.fromkeys(specs))
    assert not back.refusals
    found = effective(loaded(after(new, back), generation), generation)
    assert {n: h.runtime_type for n, h in found.items()} == {n: h.runtime_type for n, h in before.items()}
    assert not set(specs.values()) & {h.base_runtime_spec for h in found.values()}
    # what was there stays, but for the values themselves
    for path, text in plan.edits.items():
        old = files[os.path.relpath(path, "/etc/containerd")]
        for line in old.splitlines():
            assert line in text.splitlines() or "base_runtime_spec" in line
    for text in plan.creates.values():
        assert text.startswith("# Made by fabric.rdma.\nversion = ")


REFUSED_EDITS = {
    (name, generation)
    for name in ("eks", "k3s", "kubeadm, version 3", "nvidia-ctk, version 3", "nvidia-ctk, version 3 over 2")
    for generation in [(1, 6)]
}


@pytest.mark.parametrize("name", [name for name in CONFIGS if not name.startswith("merged")])
def test_ordinary_configurations_are_not_refused(name: str) -> None:
    for generation in ALL:
        try:
            files = loaded(CONFIGS[name], generation)
        except ConfigError:
            assert generation == (1, 7) or name == "nvidia-ctk, version 3 over 2"
            continue
        refusals = plan_edits(files, generation, specs_of(effective(files, generation))).refusals
        if (name, generation) in REFUSED_EDITS or (name == "version 1" and generation in ((2, 1), (2, 2))):
            assert len(refusals) >= 1
        else:
            assert refusals == []


def planned(name: str, generation: tuple[int, int], *handlers: str) -> tuple[list[str], list[str]]:
    """Paths of edited files, of new files."""
    plan = plan_edits(loaded(CONFIGS[name], generation), generation, each(handlers, SPEC))
    assert plan.refusals == []
    return [path[len("/etc/containerd/") :] for path in plan.edits], [
        path[len("/etc/containerd/") :] for path in plan.creates
    ]


def test_where_edits_are_made() -> None:
    for generation in ALL:
        assert planned("no file", generation, "runc") == ([], ["config.toml"])
        assert planned("kubeadm", generation, "runc") == (["config.toml"], [])
    for generation in OLD:
        # in the main file, too, of which nvidia-ctk makes the other one again and again
        assert planned("nvidia-ctk", generation, "runc", "nvidia") == (["config.toml", "d/a.toml"], [])
    for generation in NEW:
        assert planned("nvidia-ctk", generation, "runc", "nvidia") == ([], ["d/zz-fabric-rdma.toml"])
        assert planned("k3s", generation, "runc", "nvidia") == ([], ["config-v3.toml.d/zz-fabric-rdma.toml"])
    # a drop-in of version 2 would take the new name from all files, one of version 3 would be above the main file
    for generation in NEW[:2]:
        assert planned("nvidia-ctk, version 3 over 2", generation, "nvidia") == (["d/a.toml"], [])


def test_a_drop_in_goes_behind_all_others() -> None:
    files = {**CONFIGS["k3s"], "config-v3.toml.d/zzz.toml": ""}
    plan = plan_edits(loaded(files, (2, 1)), (2, 1), {"runc": SPEC, "nvidia": "/n"})
    assert plan.creates == {
        "/etc/containerd/config-v3.toml.d/zzzz-fabric-rdma.toml": "# Made by fabric.rdma.\nversion = 3\n"
        '\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]\nbase_runtime_spec = "/n"\n'
        '\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]\nbase_runtime_spec = "/etc/containerd/base.json"\n'
    }
    new = after(files, plan)
    # ours is edited from then on
    again = plan_edits(loaded(new, (2, 1)), (2, 1), {"nvidia": "/m"})
    assert list(again.edits) == list(plan.creates)


def test_an_import_into_which_nobody_writes_is_left_alone() -> None:
    files = {"config.toml": CONFIGS["k3s"]["config.toml"]}
    assert list(plan_edits(loaded(files, (2, 1)), (2, 1), {"runc": SPEC}).edits) == [ROOT]
    # who knows that the directory is kept for others says so with an empty file in it
    kept = [*loaded(files, (2, 1)), ConfigFile("/etc/containerd/config-v3.toml.d/.toml", "", 3, {})]
    plan = plan_edits(kept, (2, 1), {"runc": SPEC})
    assert (list(plan.creates), plan.edits) == (["/etc/containerd/config-v3.toml.d/zz-fabric-rdma.toml"], {})


def test_a_drop_in_that_would_come_too_early_is_none() -> None:
    files = {
        "config.toml": 'version = 3\nimports = ["/etc/containerd/d/*.toml", "e.toml"]\n' + runtime(V3, "kata"),
        "d/a.toml": "",
        "e.toml": runtime(V3, "runc", 'base_runtime_spec = ""'),
    }
    plan = plan_edits(loaded(files, (2, 1)), (2, 1), {"runc": SPEC, "kata": SPEC})
    assert (list(plan.edits), list(plan.creates)) == (
        ["/etc/containerd/e.toml"],
        ["/etc/containerd/d/zz-fabric-rdma.toml"],
    )


def test_before_2_0_the_default_runtime_is_written_down_whole() -> None:
    plan = plan_edits(loaded(CONFIGS["packaged by Debian"], (1, 7)), (1, 7), {"runc": SPEC})
    table = parse(plan.edits[ROOT])["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]["runc"]
    assert (table["runtime_type"], table["base_runtime_spec"], table["sandbox_mode"]) == (RUNC, SPEC, "podsandbox")
    assert table["options"]["SystemdCgroup"] is False
    # a dump knows better
    dump = f'[{V2}.containerd.runtimes.runc]\nruntime_type = "{RUNC}"\nempty = ""\n[{V2}.containerd.runtimes.runc.options]\nX = ""\n'
    plan = plan_edits(loaded(CONFIGS["packaged by Debian"], (1, 7)), (1, 7), {"runc": SPEC}, dump)
    table = parse(plan.edits[ROOT])["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]["runc"]
    assert table == {"runtime_type": RUNC, "base_runtime_spec": SPEC, "options": {"X": ""}}


def test_the_main_file_is_made_where_the_daemon_looks_for_it() -> None:
    plan = plan_edits([], (2, 1), {"runc": SPEC}, root_path="/opt/c.toml")
    assert plan.creates == {
        "/opt/c.toml": "# Made by fabric.rdma.\nversion = 3\n"
        '\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]\nbase_runtime_spec = "/etc/containerd/base.json"\n'
    }


def test_taking_a_setting_away() -> None:
    files = pair(TWO, "version = 2\n" + DROP_2.replace('""', '"/new"'))
    plan = plan_edits(loaded(files, (2, 1)), (2, 1), {"runc": None})
    assert [text.count("base_runtime_spec") for text in plan.edits.values()] == [0, 0]
    assert effective(loaded(after(files, plan), (2, 1)), (2, 1))["runc"].base_runtime_spec is None
    assert plan_edits(loaded(files, (2, 1)), (2, 1), {"kata": None}) == Plan({}, {}, [])


INLINE = f"version = 2\n[{V2}.containerd.runtimes]\nrunc = {{ runtime_type = 'x', base_runtime_spec = '/old' }}\n"


@pytest.mark.parametrize(
    ("files", "generation", "specs", "message"),
    [
        (
            CONFIGS["microk8s"],
            (1, 7),
            {"kata": SPEC},
            "containerd has no runtime handler kata; it has nvidia-container-runtime, runc",
        ),
        (
            CONFIGS["kubeadm"],
            (1, 7),
            {"runc": "base.json"},
            "base.json: the path of a base runtime spec has to be absolute, ",
        ),
        (
            {"config.toml": INLINE},
            (2, 1),
            {"runc": SPEC},
            f"{ROOT}: {V2}.containerd.runtimes.runc on line 3 is an inline table, in which nothing can be edited safely; write it "
            "as a table with a header. Set base_runtime_spec of the runtime handler runc there by hand",
        ),
        (
            {"config.toml": INLINE},
            (2, 1),
            {"runc": None},
            f"{ROOT}: {V2}.containerd.runtimes.runc on line 3 is an inline table, in which nothing can be edited safely; write it "
            "as a table with a header. Remove base_runtime_spec of the runtime handler runc by hand",
        ),
        (
            CONFIGS["eks"],
            (1, 6),
            {"runc": SPEC},
            f"{ROOT} has version 3, of which containerd 1.6 reads no CRI settings; convert it to version 2",
        ),
        (
            CONFIGS["version 1"],
            (2, 1),
            {"runc": SPEC},
            f"{ROOT} has version 1, whose table [plugins.cri] containerd 2.1 does not read; convert it with `containerd config "
            "migrate`",
        ),
        (
            CONFIGS["merged: 2 and 3"],
            (2, 1),
            {"runc": SPEC},
            f"{ROOT} defines the runtime handler kata under [{V2}], which containerd 2.1 does not use, because of "
            "/etc/containerd/d/a.toml: its next start would be without. Define it where that counts, or remove it",
        ),
        (
            CONFIGS["merged: 2 and 2"],
            (1, 7),
            {"runc": SPEC},
            f"{ROOT} defines the runtime handler kata under [{V2}], which containerd 1.7 does not use, because of "
            "/etc/containerd/d/a.toml: its next start would be without. Define it where that counts, or remove it",
        ),
    ],
)
def test_refusals(files: Files, generation: tuple[int, int], specs: dict[str, str | None], message: str) -> None:
    plan = plan_edits(loaded(files, generation), generation, specs)
    assert (plan.edits, plan.creates) == ({}, {})
    assert [refusal[: len(message)] for refusal in plan.refusals[:1]] == [message]


def test_a_removal_that_is_refused() -> None:
    plan = plan_edits(loaded({"config.toml": INLINE}, (2, 1)), (2, 1), {"runc": None})
    assert (plan.edits, len(plan.refusals)) == ({}, 1)
    assert plan.refusals[0].endswith("Remove base_runtime_spec of the runtime handler runc by hand")


def test_a_handler_that_is_lost_already_is_no_reason_to_refuse() -> None:
    files = loaded(CONFIGS["merged: 2 and 2"], (1, 7))
    assert plan_edits(files, (1, 7), {"runc": SPEC}, running=["runc"]).refusals == []
    assert len(plan_edits(files, (1, 7), {"runc": SPEC}, running=["runc", "kata"]).refusals) == 1


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


@given(texts, st.lists(texts, max_size=2), st.sampled_from(ALL), st.sampled_from(["runc", "nvidia", "kata"]))
def test_random_files(root: str, others: list[str], generation: tuple[int, int], name: str) -> None:
    files = {"config.toml": 'imports = ["/etc/containerd/d/*.toml"]\n' + root}
    files.update({f"d/{number}.toml": text for number, text in enumerate(others)})
    try:
        first = loaded(files, generation)
    except ConfigError:
        return
    before = effective(first, generation)
    plan = plan_edits(first, generation, {name: SPEC})
    assert bool(plan.refusals) != bool(plan.edits or plan.creates)
    if name not in before:
        assert plan.refusals
    if plan.refusals:
        return
    assert len(plan.edits) + len(plan.creates) == 1
    assert not plan.creates or generation >= (2, 0)
    then = effective(loaded(after(files, plan), generation), generation)
    assert {n: h[:2] for n, h in then.items()} == {
        n: (SPEC if n == name else h.base_runtime_spec, h.runtime_type) for n, h in before.items()
    }


# --- dumps --------------------------------------------------------------------------------------------------------------


def test_difference_of_dumps() -> None:
    one = "version = 2\n[a]\nx = 1\ny = ['b']\ngone = ''\n[a.'b.c']\n[z]\n"
    other = "version = 2\n[a]\nx = true\ny = ['b', 'c']\n[a.'b.c']\nnew = 0\n[z]\n"
    assert dump_difference(one, one) == []
    assert dump_difference(one, other) == [
        ('a."b.c"', {}, None),
        ('a."b.c".new', None, 0),
        ("a.gone", "", None),
        ("a.x", 1, True),
        ("a.y", ["b"], ["b", "c"]),
    ]


# --- the real one -------------------------------------------------------------------------------------------------------


def dump(program: str, generation: tuple[int, int], root: Path) -> str | None:
    command = [program, "--config", str(root), "config", "dump"]
    if not root.exists() and generation < (2, 0):
        # the daemon runs without a file, its dump does not
        command = [program, "config", "default"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    return done.stdout if done.returncode == 0 else None


def write(directory: Path, files: Files) -> Path:
    for path, text in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.replace("/etc/containerd/d/", f"{directory}/d/").encode())
    return directory / "config.toml"


@pytest.mark.parametrize("name", CONFIGS)
def test_as_the_real_one_merges(name: str, tmp_path: Path) -> None:
    def read(path: str) -> str | None:
        return Path(path).read_bytes().decode() if Path(path).is_file() else None

    for name_of_generation in GENERATIONS:
        program = os.path.join(programs(name_of_generation), "containerd")
        generation = generation_number(name_of_generation)
        directory = tmp_path / name_of_generation
        root = write(directory, CONFIGS[name])
        before = dump(program, generation, root)
        try:
            files = load(str(root), read, globbing.glob, generation)
        except ConfigError:
            assert before is None
            continue
        assert before is not None
        tables = parse(before)["plugins"]
        plugin = tables["io.containerd.grpc.v1.cri" if generation < (2, 0) else "io.containerd.cri.v1.runtime"]
        real = {
            handler: (table.get("base_runtime_spec") or None, table.get("runtime_type") or None)
            for handler, table in plugin["containerd"].get("runtimes", {}).items()
        }
        found = effective(files, generation)
        assert {handler: one[:2] for handler, one in found.items()} == real
        assert default_handler(files, generation) == plugin["containerd"]["default_runtime_name"]
        specs = specs_of(found)
        plan = plan_edits(files, generation, specs, root_path=str(root))
        for path, text in {**plan.edits, **plan.creates}.items():
            Path(path).parent.mkdir(exist_ok=True)
            Path(path).write_bytes(text.encode())
        if plan.refusals:
            continue
        now = dump(program, generation, root)
        assert now is not None
        differences = [one for one in dump_difference(before, now) if not one[0].startswith("imports")]
        assert [(key.split(".runtimes.")[1], new) for key, _old, new in differences] == [
            (f"{handler}.base_runtime_spec", specs[handler]) for handler in sorted(specs)
        ]
