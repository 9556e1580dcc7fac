# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd's configuration: what each generation makes of its files, and edits that do one thing.

containerd's own merge of every configuration in here, by each generation, is compared with ours, before and after the edit.
"""

from __future__ import annotations

import glob as globbing
import os
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.go_paths import PatternError
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.config import (
    ConfigError,
    Handler,
    cni,
    default_handler,
    effective,
    load,
    nri,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.config_edit import (
    dump_difference,
    plan_edits,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import parse
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._containerd.configurations import (
    ALL,
    CONFIGS,
    DROP_2,
    MERGES,
    ROOT,
    RUNC,
    SPEC,
    TWO,
    V2,
    V3,
    Files,
    dump,
    loaded,
    pair,
    runtime,
    specs_of,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils.containerd_node import (
    GENERATIONS,
    generation_number,
    programs,
)


def names(files: Files, generation: tuple[int, int]) -> list[str]:
    return sorted(effective(loaded(files, generation), generation))


# --- which files --------------------------------------------------------------------------------------------------------


def test_files_of_containerd_load_in_its_order() -> None:
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


def test_directories_of_imports_load_one_after_the_other() -> None:
    """By bytes alone, conf.d/ would come before conf/: of two settings, the one that is read last counts."""
    files = {"config.toml": 'imports = ["conf*/*.toml"]', "conf.d/a.toml": "", "conf/z.toml": "", "conf/b.toml": ""}
    paths = [file.path.replace("/etc/containerd/", "") for file in loaded(files, (2, 0))]
    assert paths == ["config.toml", "conf/b.toml", "conf/z.toml", "conf.d/a.toml"]


def test_imports_that_name_too_many_files_are_an_error() -> None:
    def too_many(_pattern: str) -> list[str]:
        raise PatternError("/etc/*/* names more than 10000 paths", "Write a pattern that names fewer")

    with pytest.raises(ConfigError, match=r"config.toml imports /etc/\*/\* names more than 10000 paths. Write"):
        load(ROOT, {ROOT: 'imports = ["/etc/*/*"]'}.get, too_many, (2, 0))


def test_a_pattern_with_an_error_is_one_for_the_real_containerd(tmp_path: Path) -> None:
    """Also where nothing is there."""
    root = write(tmp_path, {"config.toml": 'version = 2\nimports = ["/etc/containerd/d/[*.toml"]\n'})
    for name in GENERATIONS:
        assert dump(os.path.join(programs(name), "containerd"), generation_number(name), root) is None


def test_a_file_without_a_version_has_that_of_its_importer() -> None:
    files = {"config.toml": 'version = 2\nimports = ["a.toml"]', "a.toml": ""}
    assert [file.version for file in loaded(files, (1, 7))] == [2, 2]
    assert loaded({"config.toml": ""}, (2, 1))[0].version == 1


def test_defaults_hold_without_a_main_file() -> None:
    for generation in ALL:
        assert loaded({}, generation) == []
        assert effective([], generation) == {"runc": Handler(None, RUNC, None)}
        assert default_handler([], generation) == "runc"


def test_a_relative_pattern_is_beside_the_main_file_or_refused() -> None:
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
        (
            {"config.toml": 'imports = ["/etc/containerd/conf.d/[*.toml"]'},
            (1, 7),
            ROOT
            + " imports /etc/containerd/conf.d/[*.toml, in which a bracket or a backslash has no end: containerd would not start, ",
        ),
        # relative, and in a file that is imported itself
        (
            {"config.toml": 'imports = ["a"]', "a": 'imports = ["*/[b-]"]'},
            (2, 0),
            "/etc/containerd/a imports */[b-], in which a bracket or a backslash has no end: ",
        ),
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
def test_nri_is_on_where_the_real_one_has_it(
    files: Files, generation: tuple[int, int], found: tuple[bool, str | None]
) -> None:
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
def test_the_directories_of_cni_are_where_that_containerd_looks(
    files: Files, generation: tuple[int, int], found: tuple[str, str]
) -> None:
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


ROWS = [(name, generation) for name, (_files, found) in MERGES.items() for generation in found]


@pytest.mark.parametrize(("name", "generation"), ROWS)
def test_files_are_merged_as_each_generation_does(name: str, generation: tuple[int, int]) -> None:
    files, wanted = MERGES[name]
    if wanted[generation] is None:
        with pytest.raises(ConfigError):
            loaded(files, generation)
        return
    found = effective(loaded(files, generation), generation)
    assert {name: handler[:2] for name, handler in found.items()} == wanted[generation]


def test_a_handler_is_of_the_file_that_defines_it_last() -> None:
    files = pair(TWO, "version = 2\n" + DROP_2)
    assert {n: h.file for n, h in effective(loaded(files, (2, 1)), (2, 1)).items()} == {
        "kata": ROOT,
        "runc": "/etc/containerd/d/a.toml",
    }
    files = {"config.toml": f"version = 3\n[{V3}.containerd]\ndefault_runtime_name = 'kata'"}
    assert effective(loaded(files, (2, 1)), (2, 1))["runc"].file is None
    assert default_handler(loaded(files, (2, 1)), (2, 1)) == "kata"


def test_deprecated_tables_of_runtimes_are_read_and_not_edited() -> None:
    text = f'version = 2\n[{V2}.containerd.default_runtime]\nruntime_type = "x"\nbase_runtime_spec = "/y"\n'
    files = loaded({"config.toml": text}, (1, 6))
    assert effective(files, (1, 6))["default"] == Handler("/y", "x", ROOT)
    assert default_handler(files, (1, 6)) == "default"
    assert plan_edits(files, (1, 6), {"default": SPEC}).refusals == [
        f"{ROOT} defines the runtime handler default with the deprecated table default_runtime; write it as a table of runtimes"
    ]
    # `containerd config default` prints the table, empty
    assert "default" not in effective(loaded({"config.toml": text.replace('"x"', '""')}, (1, 6)), (1, 6))


def write(directory: Path, files: Files) -> Path:
    for path, text in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.replace("/etc/containerd/d/", f"{directory}/d/").encode())
    return directory / "config.toml"


@pytest.mark.parametrize("name", CONFIGS)
def test_files_are_merged_as_the_real_containerd_merges_them(name: str, tmp_path: Path) -> None:
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
