# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How containerd reads its configuration files, and where base_runtime_spec is set in them. Private to the collection. Pure.

Follows LoadConfig() of containerd (services/server/config in 1.6 and 1.7, cmd/containerd/server/config from 2.0 on) and the
migration of its CRI plugin (plugins/cri/runtime, configMigration()): which files are loaded in which order, what a later one
does to an earlier one, and in which tables CRI looks for its runtimes. A generation is (major, minor) of the daemon.
Messages never show values but paths and versions, since these files hold credentials.
"""

from __future__ import annotations

import posixpath
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.go_paths import PatternError, malformed, order
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import TomlError, dotted, parse

__all__ = [
    "DEFAULT_RUNTIME",
    "DEPRECATED",
    "NRI_PLUGIN",
    "SPEC",
    "TYPE",
    "V1",
    "V2",
    "V3",
    "ConfigError",
    "ConfigFile",
    "Generation",
    "Handler",
    "Json",
    "MissingFile",
    "absolute_pattern",
    "cni",
    "daemon_name",
    "default_handler",
    "deprecated_handlers",
    "effective",
    "global_flag",
    "import_patterns",
    "layer_of",
    "layers_of",
    "load",
    "merged_version",
    "newest_version",
    "nri",
    "own_version",
    "runtimes_of",
    "table_of",
]

Json = t.Dict[str, t.Any]
Generation = t.Tuple[int, int]

SPEC = "base_runtime_spec"
TYPE = "runtime_type"

# Names of the CRI plugin's table by version of the file: 1, 2, from 3 on.
V1, V2, V3 = "cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"

# What the daemon has when no file says anything about runtimes (pkg/cri/config, DefaultConfig() of 1.6 and 1.7). Before 2.0 a
# table of runtimes in a file takes the place of all of it, so that these have to be written down to stay.
_DEFAULT_NAME = "runc"
DEFAULT_RUNTIME: Json = {
    TYPE: "io.containerd.runc.v2",
    "options": {
        "BinaryName": "",
        "CriuImagePath": "",
        "CriuPath": "",
        "CriuWorkPath": "",
        "IoGid": 0,
        "IoUid": 0,
        "NoNewKeyring": False,
        "NoPivotRoot": False,
        "Root": "",
        "ShimCgroup": "",
        "SystemdCgroup": False,
    },
}
# Tables of 1.x from before there were named runtimes, and the names that CRI gives them (ValidatePluginConfig()).
DEPRECATED = {"default_runtime": "default", "untrusted_workload_runtime": "untrusted"}


class ConfigError(FabricError):
    """A configuration with which containerd would not start, or of which it is not clear what it would read."""


class MissingFile(ConfigError):
    """A file is imported and is missing: from 2.0 on, `containerd config dump` says nothing of it, and the daemon does not start."""


class ConfigFile(t.NamedTuple):
    """One file. version: its own; when it has none that of the main file, 1 for that. data: what parse() makes of it."""

    path: str
    text: str
    version: int
    data: Json


class Handler(t.NamedTuple):
    """What the next start of the daemon makes of a runtime handler. file: the last one that defines it; None: a default."""

    base_runtime_spec: t.Optional[str]
    runtime_type: t.Optional[str]
    file: t.Optional[str]


def newest_version(generation: Generation) -> int:
    """The newest version of a file that a daemon knows."""
    if generation < (2, 0):
        return 2
    return 3 if generation < (2, 3) else 4


def daemon_name(generation: Generation) -> str:
    return f"containerd {generation[0]}.{generation[1]}"


# --- loading ------------------------------------------------------------------------------------------------------------


def global_flag(arguments: t.Sequence[str], *names: str) -> t.Optional[str]:
    """The value of a global flag of containerd: -c X, -c=X, --config X, --config=X."""
    for index, argument in enumerate(arguments[1:], 1):
        flag, equals, value = argument.partition("=")
        if flag in names:
            if equals:
                return value
            return arguments[index + 1] if index + 1 < len(arguments) else None
    return None


def load(
    root_path: str,
    read: t.Callable[[str], t.Optional[str]],
    glob: t.Callable[[str], t.Sequence[str]],
    generation: Generation,
) -> list[ConfigFile]:
    """The files that a daemon of a generation loads, in its order: the main file, then what it imports, level by level.

    read: text of a file, None when it is not there. glob: the existing paths that match an absolute pattern. Without a main
    file the list is empty, and the daemon has its defaults. ConfigError names the file with which it would not start.
    """
    files: list[ConfigFile] = []
    pending = [root_path]
    seen: set[str] = set()
    highest = 0
    while pending:
        path = pending.pop(0)
        if path in seen:
            continue
        seen.add(path)
        text = read(path)
        if text is None:
            if not files:
                return []
            raise MissingFile(
                f"{path} is imported and is missing, or not a file: containerd would not start",
                "Put it back, or remove it from the imports",
            )
        try:
            data = parse(text)
        except TomlError as exc:
            raise ConfigError(f"{path}, {exc}") from None
        own = data.get("version", 0)
        if isinstance(own, bool) or not isinstance(own, int) or own < 0:
            raise ConfigError(f"{path}: version is not a number from 1 to {newest_version(generation)}")
        if generation >= (2, 3):
            highest = highest or own
            if own > highest:
                raise ConfigError(
                    f"{path} has version {own}, more than {root_path} with {highest}: {daemon_name(generation)} would not start"
                )
        files.append(ConfigFile(path, text, own or (files[0].version if files else 1), data))
        pending += _imports(path, data, generation, glob)
    _validate(files, generation)
    return files


def _validate(files: t.Sequence[ConfigFile], generation: Generation) -> None:
    """ConfigError for what ValidateV2() (1.x) and ValidateVersion() (from 2.0 on) refuse, which look at the merged files."""
    version = merged_version(files, generation)
    newest = newest_version(generation)
    for file in reversed(files):
        own = own_version(file)
        # 1.6 takes newer versions without a word
        if own > newest and (own == version or generation >= (2, 3)) and generation >= (1, 7):
            raise ConfigError(
                f"{file.path} has version {own}, and {daemon_name(generation)} knows up to {newest}: it would not start"
            )
        for key in ("disabled_plugins", "required_plugins", "plugins"):
            names = file.data.get(key, [])
            if not isinstance(names, dict if key == "plugins" else list):
                if key in file.data:
                    kind = "table" if key == "plugins" else "list"
                    raise ConfigError(f"{file.path}: {key} is not a {kind}")
                continue
            for name in names:
                if not _valid_plugin(name, generation, version, own, key):
                    raise ConfigError(
                        f"{file.path}: {key} has a plugin without its whole name, which begins with io.containerd.: "
                        f"{daemon_name(generation)} would not start"
                    )


def _valid_plugin(name: t.Any, generation: Generation, version: int, own: int, key: str) -> bool:
    if not isinstance(name, str):
        return False
    if generation >= (2, 0):
        return key == "plugins" or own < 2 or "." in name
    if version < 2:
        return True
    return name.count(".") >= 3 and (name.startswith("io.containerd.") or generation < (1, 7))


def _imports(
    path: str, data: Json, generation: Generation, glob: t.Callable[[str], t.Sequence[str]]
) -> t.Iterator[str]:
    """Files that a file imports, as resolveImports() finds them."""
    for pattern in import_patterns(path, data):
        absolute = absolute_pattern(path, pattern)
        if "*" not in pattern:
            yield absolute
            continue
        if malformed(absolute):
            raise ConfigError(
                f"{path} imports {pattern}, in which a bracket or a backslash has no end: containerd would not start, or not once "
                "a file is there",
                "Write the pattern as it is meant, or remove it from the imports",
            )
        try:
            found = sorted(glob(absolute), key=order)
        except PatternError as exc:
            raise ConfigError(f"{path} imports {exc.message}", exc.remedy) from None
        if found and generation < (1, 7) and not posixpath.isabs(pattern):
            # early releases of 1.6 look for it from the daemon's directory, late ones from the file's
            raise ConfigError(
                f"{path} imports the relative pattern {pattern}, which releases of containerd 1.6 read differently",
                f"write it as {absolute}",
            )
        yield from found


def import_patterns(path: str, data: Json) -> list[str]:
    patterns = data.get("imports", [])
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
        raise ConfigError(f"{path}: imports is not a list of paths")
    return patterns


def absolute_pattern(path: str, pattern: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), pattern))


# --- merging ------------------------------------------------------------------------------------------------------------


class _Layer(t.NamedTuple):
    """One setting of a table of CRI's in one file. plugin: the name under which the file has it."""

    file: ConfigFile
    plugin: str
    value: t.Any


def own_version(file: ConfigFile) -> int:
    """The version that a file names, 0 when it names none."""
    return int(file.data.get("version", 0))


def table_of(file: ConfigFile, *names: str) -> t.Optional[Json]:
    """A table of a file, None when it has none; ConfigError when something else is in its place."""
    table: t.Any = file.data
    for name in names:
        if name not in table:
            return None
        table = table[name]
        if not isinstance(table, dict):
            raise ConfigError(f"{file.path}: {dotted(names)} is not a table: containerd would not start")
    return t.cast(Json, table)


def layer_of(file: ConfigFile, plugin: str, key: str, name: str = "containerd") -> t.Optional[_Layer]:
    table = table_of(file, "plugins", plugin, name)
    return _Layer(file, plugin, table[key]) if table is not None and key in table else None


def merged_version(files: t.Sequence[ConfigFile], generation: Generation) -> int:
    """The version that the merged configuration has in the end, by which the daemon looks for CRI's table."""
    if generation >= (2, 3):
        return 4
    version = 1 if generation < (2, 0) else 3
    for file in files:
        own = own_version(file)
        # from 2.0 on a file of version 1, or of none, is brought to the version that was reached before it
        version = own if own > (0 if generation < (2, 0) else 1) else version
    return version


def layers_of(
    files: t.Sequence[ConfigFile], generation: Generation, key: str, name: str = "containerd"
) -> list[_Layer]:
    """Where a setting of a table of CRI's is made, as far as it counts, the last one having the last word."""
    version = merged_version(files, generation)
    if generation < (2, 0):
        # the last file with a table of the plugin has it alone (mergeConfig())
        plugin = V1 if version == 1 else V2
        for file in reversed(files):
            if table_of(file, "plugins", plugin) is not None:
                found = layer_of(file, plugin, key, name)
                return [found] if found else []
        return []
    if generation < (2, 3):
        new = [layer for layer in (layer_of(file, V3, key, name) for file in files) if layer]
        if new or version >= 3:
            return new
        # not so in a file of version 1, where the table is called by its short name
        old = (
            layer_of(file, V2, key, name) or (layer_of(file, V1, key, name) if own_version(file) < 2 else None)
            for file in files
        )
        return [layer for layer in old if layer]
    found_in = []
    for file in files:
        # each file is migrated before it is merged
        plugins = (V3, V2, V1) if own_version(file) < 2 else (V3, V2) if own_version(file) < 4 else (V3,)
        found_in.append(
            next((layer for layer in (layer_of(file, plugin, key, name) for plugin in plugins) if layer), None)
        )
    return [layer for layer in found_in if layer]


def runtimes_of(layer: _Layer) -> dict[str, Json]:
    where = ("plugins", layer.plugin, "containerd", "runtimes")
    table = table_of(layer.file, *where) or {}
    return {name: table_of(layer.file, *where, name) or {} for name in table}


def _setting(file: ConfigFile, table: Json, key: str, default: t.Optional[str]) -> t.Optional[str]:
    """A later file's empty text switches an earlier file's off."""
    value = table.get(key, default)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{file.path}: {key} is not a string: CRI would not start")
    return value or None


def effective(files: t.Sequence[ConfigFile], generation: Generation) -> dict[str, Handler]:
    """The runtime handlers that the next start of a daemon has, by name. files: what load() gave.

    Before 2.0 a table of runtimes has nothing from the defaults. From 2.0 on files are merged key by key over the default one.
    """
    layers = layers_of(files, generation, "runtimes")
    handlers: dict[str, Handler] = {}
    if generation >= (2, 0) or not layers:
        handlers[_DEFAULT_NAME] = Handler(None, DEFAULT_RUNTIME[TYPE], None)
    for layer in layers:
        for name, runtime in runtimes_of(layer).items():
            before = handlers.get(name, Handler(None, None, None))
            handlers[name] = Handler(
                _setting(layer.file, runtime, SPEC, before.base_runtime_spec),
                _setting(layer.file, runtime, TYPE, before.runtime_type),
                layer.file.path,
            )
    handlers.update(deprecated_handlers(files, generation))
    return handlers


def deprecated_handlers(files: t.Sequence[ConfigFile], generation: Generation) -> dict[str, Handler]:
    """Handlers that come from tables which CRI before 2.0 still knows."""
    found = {}
    for key, name in DEPRECATED.items() if generation < (2, 0) else ():
        for layer in layers_of(files, generation, key):
            table = table_of(layer.file, "plugins", layer.plugin, "containerd", key) or {}
            kind = _setting(layer.file, table, TYPE, None)
            if kind:
                found[name] = Handler(_setting(layer.file, table, SPEC, None), kind, layer.file.path)
    return found


def default_handler(files: t.Sequence[ConfigFile], generation: Generation) -> str:
    """Name of the handler of Pods that ask for none."""
    name = _DEFAULT_NAME
    for layer in layers_of(files, generation, "default_runtime_name"):
        name = layer.value if isinstance(layer.value, str) and layer.value else name
    return "default" if "default" in deprecated_handlers(files, generation) else name


_CNI_CONFIG, _CNI_PROGRAMS = "/etc/cni/net.d", "/opt/cni/bin"


def cni(files: t.Sequence[ConfigFile], generation: Generation) -> tuple[str, str]:
    """(directory of CNI configurations, first directory of CNI plugins) after the next start of a daemon. files: what load() gave.

    internal/cri/config/config.go; bin_dirs is of 2.1 and newer, where it goes before bin_dir.
    """

    def last(key: str, default: str) -> str:
        found = default
        for layer in layers_of(files, generation, key, "cni"):
            value = (
                layer.value[0] if key == "bin_dirs" and isinstance(layer.value, list) and layer.value else layer.value
            )
            if not isinstance(value, str) and value != []:
                raise ConfigError(f"{layer.file.path}: {key} of CNI has a value of the wrong type: CRI would not start")
            found = value or found
        return found

    programs = last("bin_dir", _CNI_PROGRAMS)
    return last("conf_dir", _CNI_CONFIG), programs if generation < (2, 1) else last("bin_dirs", programs)


NRI_PLUGIN = "io.containerd.nri.v1.nri"
_NRI_SOCKET = "/var/run/nri/nri.sock"


def nri(files: t.Sequence[ConfigFile], generation: Generation) -> tuple[bool, str]:
    """(whether the Node Resource Interface is on after the next start of a daemon, its socket). files: what load() gave.

    pkg/nri/config.go of 1.7 (off by default) and internal/nri/config.go from 2.0 on (on by default); 1.6 has none.
    """
    default = generation >= (2, 0)
    if generation < (1, 7):
        return False, _NRI_SOCKET
    disabled, socket = not default, _NRI_SOCKET
    for file in files:
        table = table_of(file, "plugins", NRI_PLUGIN)
        if table is None:
            continue
        # before 2.0 the last file with a table of the plugin has it alone (mergeConfig())
        before = (disabled, socket) if default else (True, _NRI_SOCKET)
        disabled, socket = table.get("disable", before[0]), table.get("socket_path", before[1])
        if not isinstance(disabled, bool) or not isinstance(socket, str):
            raise ConfigError(
                f"{file.path}: {dotted(('plugins', NRI_PLUGIN))} has a value of the wrong type: NRI would not start"
            )
    # lists of all files are one
    listed = any(NRI_PLUGIN in file.data.get("disabled_plugins", []) for file in files)
    return not disabled and not listed, socket or _NRI_SOCKET
