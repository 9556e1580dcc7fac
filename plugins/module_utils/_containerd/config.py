# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How containerd reads its configuration files, and where base_runtime_spec is set in them. Private to the collection. Pure.

Follows LoadConfig() of containerd (services/server/config in 1.6 and 1.7, cmd/containerd/server/config from 2.0 on) and the
migration of its CRI plugin (plugins/cri/runtime, configMigration()): which files are loaded in which order, what a later one
does to an earlier one, and in which tables CRI looks for its runtimes. A generation is (major, minor) of the daemon.

Every edit is made in a copy of all files first, and these are merged again: an edit that would do anything else than what
was asked for is refused. Messages never show values but paths and versions, since these files hold credentials.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import (
    Refused,
    TomlError,
    dotted,
    parse,
    remove_value,
    same,
    set_value,
)

__all__ = [
    "ConfigError",
    "ConfigFile",
    "Handler",
    "Plan",
    "default_handler",
    "dump_difference",
    "effective",
    "global_flag",
    "load",
    "matches",
    "nri",
    "plan_edits",
]

Json = t.Dict[str, t.Any]
Generation = t.Tuple[int, int]

# Behind 99-nvidia.toml, which nvidia-ctk writes; a name behind others is made where this one is not.
_DROP_IN = "zz-fabric-rdma.toml"
_MARK = "# Made by fabric.rdma.\n"

_DEFAULT_PATH = "/etc/containerd/config.toml"
_SPEC = "base_runtime_spec"
_TYPE = "runtime_type"

# Names of the CRI plugin's table by version of the file: 1, 2, from 3 on.
_V1, _V2, _V3 = "cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"

# What the daemon has when no file says anything about runtimes (pkg/cri/config, DefaultConfig() of 1.6 and 1.7). Before 2.0 a
# table of runtimes in a file takes the place of all of it, so that these have to be written down to stay.
_DEFAULT_NAME = "runc"
_DEFAULT_RUNTIME: Json = {
    _TYPE: "io.containerd.runc.v2",
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
_DEPRECATED = {"default_runtime": "default", "untrusted_workload_runtime": "untrusted"}


class ConfigError(FabricError):
    """A configuration with which containerd would not start, or of which it is not clear what it would read."""


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


class Plan(t.NamedTuple):
    """New texts of existing files and texts of new files by path, and sentences.

    When there is a refusal there is nothing else.
    """

    edits: dict[str, str]
    creates: dict[str, str]
    refusals: list[str]


def _newest(generation: Generation) -> int:
    """The newest version of a file that a daemon knows."""
    if generation < (2, 0):
        return 2
    return 3 if generation < (2, 3) else 4


def _name(generation: Generation) -> str:
    return "containerd %d.%d" % generation


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
            raise ConfigError(
                f"{path} is imported and is missing, or not a file: containerd would not start",
                "Put it back, or remove it from the imports",
            )
        try:
            data = parse(text)
        except TomlError as exc:
            raise ConfigError(f"{path}, {exc}") from None
        own = data.get("version", 0)
        if isinstance(own, bool) or not isinstance(own, int) or own < 0:
            raise ConfigError(f"{path}: version is not a number from 1 to {_newest(generation)}")
        if generation >= (2, 3):
            highest = highest or own
            if own > highest:
                raise ConfigError(
                    f"{path} has version {own}, more than {root_path} with {highest}: {_name(generation)} would not start"
                )
        files.append(ConfigFile(path, text, own or (files[0].version if files else 1), data))
        pending += _imports(path, data, generation, glob)
    _validate(files, generation)
    return files


def _validate(files: t.Sequence[ConfigFile], generation: Generation) -> None:
    """ConfigError for what ValidateV2() (1.x) and ValidateVersion() (from 2.0 on) refuse, which look at the merged files."""
    version = _merged_version(files, generation)
    newest = _newest(generation)
    for file in reversed(files):
        own = _own_version(file)
        # 1.6 takes newer versions without a word
        if own > newest and (own == version or generation >= (2, 3)) and generation >= (1, 7):
            raise ConfigError(
                f"{file.path} has version {own}, and {_name(generation)} knows up to {newest}: it would not start"
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
                        f"{_name(generation)} would not start"
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
    for pattern in _patterns(path, data):
        absolute = _absolute(path, pattern)
        if "*" not in pattern:
            yield absolute
            continue
        found = sorted(glob(absolute), key=os.fsencode)
        if found and generation < (1, 7) and not posixpath.isabs(pattern):
            # early releases of 1.6 look for it from the daemon's directory, late ones from the file's
            raise ConfigError(
                f"{path} imports the relative pattern {pattern}, which releases of containerd 1.6 read differently",
                f"write it as {absolute}",
            )
        yield from found


def _patterns(path: str, data: Json) -> list[str]:
    patterns = data.get("imports", [])
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
        raise ConfigError(f"{path}: imports is not a list of paths")
    return patterns


def _absolute(path: str, pattern: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), pattern))


# --- merging ------------------------------------------------------------------------------------------------------------


class _Layer(t.NamedTuple):
    """One setting of CRI's table ``containerd`` in one file. plugin: the name under which the file has it."""

    file: ConfigFile
    plugin: str
    value: t.Any


def _own_version(file: ConfigFile) -> int:
    """The version that a file names, 0 when it names none."""
    return int(file.data.get("version", 0))


def _table(file: ConfigFile, *names: str) -> t.Optional[Json]:
    """A table of a file, None when it has none; ConfigError when something else is in its place."""
    table: t.Any = file.data
    for name in names:
        if name not in table:
            return None
        table = table[name]
        if not isinstance(table, dict):
            raise ConfigError(f"{file.path}: {dotted(names)} is not a table: containerd would not start")
    return t.cast(Json, table)


def _layer(file: ConfigFile, plugin: str, key: str) -> t.Optional[_Layer]:
    table = _table(file, "plugins", plugin, "containerd")
    return _Layer(file, plugin, table[key]) if table is not None and key in table else None


def _merged_version(files: t.Sequence[ConfigFile], generation: Generation) -> int:
    """The version that the merged configuration has in the end, by which the daemon looks for CRI's table."""
    if generation >= (2, 3):
        return 4
    version = 1 if generation < (2, 0) else 3
    for file in files:
        own = _own_version(file)
        # from 2.0 on a file of version 1, or of none, is brought to the version that was reached before it
        version = own if own > (0 if generation < (2, 0) else 1) else version
    return version


def _layers(files: t.Sequence[ConfigFile], generation: Generation, key: str) -> list[_Layer]:
    """Where a setting of CRI's table ``containerd`` is made, as far as it counts, the last one having the last word."""
    version = _merged_version(files, generation)
    if generation < (2, 0):
        # the last file with a table of the plugin has it alone (mergeConfig())
        plugin = _V1 if version == 1 else _V2
        for file in reversed(files):
            if _table(file, "plugins", plugin) is not None:
                found = _layer(file, plugin, key)
                return [found] if found else []
        return []
    if generation < (2, 3):
        new = [layer for layer in (_layer(file, _V3, key) for file in files) if layer]
        if new or version >= 3:
            return new
        # not so in a file of version 1, where the table is called by its short name
        old = (_layer(file, _V2, key) or (_layer(file, _V1, key) if _own_version(file) < 2 else None) for file in files)
        return [layer for layer in old if layer]
    found_in = []
    for file in files:
        # each file is migrated before it is merged
        plugins = (_V3, _V2, _V1) if _own_version(file) < 2 else (_V3, _V2) if _own_version(file) < 4 else (_V3,)
        found_in.append(next((layer for layer in (_layer(file, plugin, key) for plugin in plugins) if layer), None))
    return [layer for layer in found_in if layer]


def _runtimes(layer: _Layer) -> dict[str, Json]:
    where = ("plugins", layer.plugin, "containerd", "runtimes")
    table = _table(layer.file, *where) or {}
    return {name: _table(layer.file, *where, name) or {} for name in table}


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
    layers = _layers(files, generation, "runtimes")
    handlers: dict[str, Handler] = {}
    if generation >= (2, 0) or not layers:
        handlers[_DEFAULT_NAME] = Handler(None, _DEFAULT_RUNTIME[_TYPE], None)
    for layer in layers:
        for name, runtime in _runtimes(layer).items():
            before = handlers.get(name, Handler(None, None, None))
            handlers[name] = Handler(
                _setting(layer.file, runtime, _SPEC, before.base_runtime_spec),
                _setting(layer.file, runtime, _TYPE, before.runtime_type),
                layer.file.path,
            )
    handlers.update(_deprecated(files, generation))
    return handlers


def _deprecated(files: t.Sequence[ConfigFile], generation: Generation) -> dict[str, Handler]:
    """Handlers that come from tables which CRI before 2.0 still knows."""
    found = {}
    for key, name in _DEPRECATED.items() if generation < (2, 0) else ():
        for layer in _layers(files, generation, key):
            table = _table(layer.file, "plugins", layer.plugin, "containerd", key) or {}
            kind = _setting(layer.file, table, _TYPE, None)
            if kind:
                found[name] = Handler(_setting(layer.file, table, _SPEC, None), kind, layer.file.path)
    return found


def default_handler(files: t.Sequence[ConfigFile], generation: Generation) -> str:
    """Name of the handler of Pods that ask for none."""
    name = _DEFAULT_NAME
    for layer in _layers(files, generation, "default_runtime_name"):
        name = layer.value if isinstance(layer.value, str) and layer.value else name
    return "default" if "default" in _deprecated(files, generation) else name


_NRI = "io.containerd.nri.v1.nri"
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
        table = _table(file, "plugins", _NRI)
        if table is None:
            continue
        # before 2.0 the last file with a table of the plugin has it alone (mergeConfig())
        before = (disabled, socket) if default else (True, _NRI_SOCKET)
        disabled, socket = table.get("disable", before[0]), table.get("socket_path", before[1])
        if not isinstance(disabled, bool) or not isinstance(socket, str):
            raise ConfigError(
                f"{file.path}: {dotted(('plugins', _NRI))} has a value of the wrong type: NRI would not start"
            )
    # lists of all files are one
    listed = any(_NRI in file.data.get("disabled_plugins", []) for file in files)
    return not disabled and not listed, socket or _NRI_SOCKET


# --- editing ------------------------------------------------------------------------------------------------------------


class _Place(t.NamedTuple):
    """Where a handler's setting may be made: a file, the name that CRI's table has in it, and for a new file its version."""

    path: str
    plugin: str
    version: t.Optional[int] = None


def plan_edits(
    files: t.Sequence[ConfigFile],
    generation: Generation,
    specs: t.Mapping[str, t.Optional[str]],
    dump: str = "",
    root_path: str = _DEFAULT_PATH,
    running: t.Optional[t.Container[str]] = None,
    main_too: bool = True,
) -> Plan:
    """What to write so that handlers have these base runtime specs, and nothing else changes.

    files: what load() gave. specs: absolute path by handler, None for none at all. dump: text of ``containerd config dump``,
    looked into before 2.0 only: a runtime that no file defines has to be written down whole there, and it tells with what;
    else that is what the sources of 1.6 and 1.7 say. root_path: the main file, for when there is none yet.
    running: names of the handlers that the daemon has now, when they are known: a restart must not lose one because of what
    stands in the files already. main_too: the main file may be written, which nobody makes anew at each start. ConfigError as effective().

    Before 2.0 always in place, in the file that has CRI's table last, since a drop-in would replace all of that; and in the main file's
    own table, too, which does not count then, but is what nvidia-ctk makes that file of, again and again. From 2.0 on in
    a drop-in of ours where the main file imports a directory from which files are loaded, else in the file that defines the
    handler last, else in the main file. A drop-in has the version of the others.
    """
    handlers = effective(files, generation)
    refusals = _unclear(files, generation, handlers, running)
    texts = {file.path: file.text for file in files}
    for name in sorted(specs):
        spec = specs[name]
        problem = _problem(name, spec, handlers, files, generation)
        if problem:
            refusals.append(problem)
        elif not refusals and handlers[name].base_runtime_spec != spec:
            try:
                if spec is None:
                    texts = _without(files, texts, generation, root_path, _only(name))
                else:
                    texts = _with(files, texts, generation, root_path, name, spec, dump)
                if main_too:
                    texts = _in_main(files, texts, generation, root_path, name, spec)
            except Refused as exc:
                refusals.append(str(exc))
    return _plan(files, texts, refusals)


def _plan(files: t.Sequence[ConfigFile], texts: t.Mapping[str, str], refusals: list[str]) -> Plan:
    if refusals:
        return Plan({}, {}, refusals)
    before = {file.path: file.text for file in files}
    changed = {path: text for path, text in texts.items() if text != before.get(path)}
    return Plan(
        {path: text for path, text in changed.items() if path in before},
        {path: text for path, text in changed.items() if path not in before},
        [],
    )


def _problem(
    name: str,
    spec: t.Optional[str],
    handlers: t.Mapping[str, Handler],
    files: t.Sequence[ConfigFile],
    generation: Generation,
) -> t.Optional[str]:
    if name not in handlers:
        return f"containerd has no runtime handler {name}; it has {', '.join(sorted(handlers)) or 'none'}"
    if spec is not None and not posixpath.isabs(spec):
        return f"{spec}: the path of a base runtime spec has to be absolute, else CRI does not start"
    if name in _deprecated(files, generation):
        key = next(key for key, other in _DEPRECATED.items() if other == name)
        return f"{handlers[name].file} defines the runtime handler {name} with the deprecated table {key}; write it as a table of runtimes"
    return None


def _unclear(
    files: t.Sequence[ConfigFile],
    generation: Generation,
    handlers: t.Mapping[str, Handler],
    running: t.Optional[t.Container[str]],
) -> list[str]:
    """Why a restart could lose what the files seem to say: tables that this daemon does not read."""
    refusals = []
    layers = _layers(files, generation, "runtimes")
    counted = {(layer.file.path, layer.plugin) for layer in layers}
    # such a file becomes one of the newest version without its CRI tables being moved
    old_names_lost = (2, 0) <= generation < (2, 3) and _merged_version(files, generation) >= 3
    for file in files:
        own = _own_version(file)
        if own > _newest(generation):
            refusals.append(
                f"{file.path} has version {own}, of which {_name(generation)} reads no CRI settings; convert it to "
                f"version {_newest(generation)}"
            )
            continue
        if old_names_lost and own < 2 and _table(file, "plugins", _V1) is not None:
            refusals.append(
                f"{file.path} has version 1, whose table [plugins.cri] {_name(generation)} does not read; convert it "
                "with `containerd config migrate`"
            )
            continue
        for plugin in (_V1, _V2, _V3):
            layer = _layer(file, plugin, "runtimes") if (file.path, plugin) not in counted else None
            names = set(_runtimes(layer)) - set(handlers) if layer else set()
            lost = sorted(name for name in names if running is None or name in running)
            if lost:
                other = layers[-1].file.path if layers else file.path
                because = "" if other == file.path else f", because of {other}"
                refusals.append(
                    f"{file.path} defines the runtime handler {', '.join(lost)} under [plugins.{dotted([plugin])}], "
                    f"which {_name(generation)} does not use{because}: its next start would be "
                    "without. Define it where that counts, or remove it"
                )
    return refusals


def _with(
    files: t.Sequence[ConfigFile],
    texts: dict[str, str],
    generation: Generation,
    root_path: str,
    name: str,
    spec: str,
    dump: str,
) -> dict[str, str]:
    """The texts with a handler's spec in them, at the first place where that does nothing else."""
    now = _reload(files, texts, generation, root_path)
    handler = effective(now, generation)[name]
    wanted = {**effective(now, generation), name: handler._replace(base_runtime_spec=spec)}
    reasons = []
    for place in _places(now, generation, handler, root_path):
        try:
            text = texts.get(place.path)
            if text is None:
                text = _MARK + f"version = {place.version or 2}\n"
            table = ("plugins", place.plugin, "containerd", "runtimes", name)
            if generation < (2, 0) and handler.file is None:
                text = _written_down(text, table, dump, generation)
            after = {**texts, place.path: set_value(text, (*table, _SPEC), spec)}
            problem = _difference(wanted, now, _reload(files, after, generation, root_path), generation)
        except (Refused, ConfigError) as exc:
            problem = str(exc)
        if problem is None:
            return after
        reasons.append(f"{place.path}: {problem}")
    raise Refused(f"{reasons[-1]}", f"Set {_SPEC} of the runtime handler {name} there by hand")


def _places(
    files: t.Sequence[ConfigFile], generation: Generation, handler: Handler, root_path: str
) -> t.Iterator[_Place]:
    """Where a handler's setting may be made, the best place first."""
    if not files:
        yield _Place(root_path, _V2 if generation < (2, 0) else _V3, 2 if generation < (2, 0) else 3)
        return
    version = _merged_version(files, generation)
    layers = _layers(files, generation, "runtimes")
    if generation < (2, 0):
        plugin = _V1 if version == 1 else _V2
        holders = [file for file in files if _table(file, "plugins", plugin) is not None]
        yield _Place((holders or files)[-1 if holders else 0].path, plugin)
        return
    defining = next((layer for layer in reversed(layers) if layer.file.path == handler.file), None)
    root = files[0]
    own = _own_version(root)
    plugin = layers[-1].plugin if layers else _V2 if own == 2 and version != 3 else _V3
    behind = defining.file if defining else root
    # a drop-in of another version would change what counts of all files; and never beside a drop-in that is ours already
    if own >= 2 and version in (own, 4) and not behind.text.startswith(_MARK):
        directory = _drop_in_directory(files)
        if directory:
            yield _Place(_drop_in(directory, files), plugin if plugin != _V1 else _V2, own)
    if defining:
        yield _Place(defining.file.path, defining.plugin)
    else:
        yield _Place(root.path, plugin)


def _in_main(
    files: t.Sequence[ConfigFile],
    texts: dict[str, str],
    generation: Generation,
    root_path: str,
    name: str,
    spec: t.Optional[str],
) -> dict[str, str]:
    """The texts with a handler's spec in the main file, too, where before 2.0 a later file takes the place of its table.

    ``nvidia-ctk runtime configure`` writes its drop-in anew out of the main file, whenever the toolkit of the GPU Operator starts
    (pkg/config/engine/containerd of nvidia-container-toolkit, getBaseDropInConfigTree()): what only the drop-in has is lost then.
    The texts as they are, where the main file does not define the handler, or it would do anything else.
    """
    now = _reload(files, texts, generation, root_path)
    if generation >= (2, 0) or len(now) < 2:
        return texts
    root, handlers = now[0], effective(now, generation)
    plugin = _V1 if _merged_version(now, generation) == 1 else _V2
    try:
        layer = _layer(root, plugin, "runtimes")
        runtime = _runtimes(layer).get(name) if layer else None
        if runtime is None or runtime.get(_SPEC) == spec or handlers[name].file == root.path:
            return texts
        path = ("plugins", plugin, "containerd", "runtimes", name, _SPEC)
        text = remove_value(root.text, path) if spec is None else set_value(root.text, path, spec)
        after = {**texts, root.path: text}
        return texts if _difference(handlers, now, _reload(files, after, generation, root_path), generation) else after
    except (Refused, ConfigError):
        return texts


def _drop_in_directory(files: t.Sequence[ConfigFile]) -> t.Optional[str]:
    """The last directory that the main file imports as a whole, if a file is loaded from it: then it is there, and in use."""
    root = files[0]
    for pattern in reversed(_patterns(root.path, root.data)):
        directory, name = posixpath.split(_absolute(root.path, pattern))
        in_use = any(posixpath.dirname(file.path) == directory for file in files[1:])
        if in_use and name == "*.toml" and not any(sign in directory for sign in "*?[\\"):
            return directory
    return None


def _drop_in(directory: str, files: t.Sequence[ConfigFile]) -> str:
    """A name behind all others of the directory, in the order of bytes as Go sorts."""
    names = [posixpath.basename(file.path) for file in files if posixpath.dirname(file.path) == directory]
    name = _DROP_IN
    while any(os.fsencode(other) > os.fsencode(name) for other in names) and len(name) < 64:
        name = "z" + name
    return posixpath.join(directory, name)


def _written_down(text: str, table: tuple[str, ...], dump: str, generation: Generation) -> str:
    """A file of before 2.0 with all that the default runtime has, since a table of runtimes takes its defaults away."""
    dumped = _dumped_runtime(dump, table[-1]) if dump else {}
    runtime = dumped if dumped.get(_TYPE) else _DEFAULT_RUNTIME
    if runtime is _DEFAULT_RUNTIME and generation >= (1, 7):
        runtime = {**runtime, "sandbox_mode": "podsandbox"}
    for key, value in runtime.items():
        # what is empty here is so without being said; among options that makes a difference in a dump
        if isinstance(value, (str, bool, int)) and value and key != _SPEC:
            text = set_value(text, (*table, key), value)
    options = runtime.get("options")
    for key, value in options.items() if isinstance(options, dict) else ():
        if isinstance(value, (str, bool, int)):
            text = set_value(text, (*table, "options", key), value)
    return text


def _dumped_runtime(dump: str, name: str) -> Json:
    for plugin in (_V3, _V2, _V1):
        table: t.Any = parse(dump)
        for key in ("plugins", plugin, "containerd", "runtimes", name):
            table = table.get(key) if isinstance(table, dict) else None
        if isinstance(table, dict):
            return table
    return {}


def _only(name: str) -> t.Callable[[str, t.Any], bool]:
    return lambda other, _value: other == name


def _without(
    files: t.Sequence[ConfigFile],
    texts: dict[str, str],
    generation: Generation,
    root_path: str,
    concerned: t.Callable[[str, t.Any], bool],
) -> dict[str, str]:
    """The texts without the specs of handlers that are concerned, wherever they count. concerned: of (handler, path)."""
    now = _reload(files, texts, generation, root_path)
    before = effective(now, generation)
    after = dict(texts)
    for layer in _layers(now, generation, "runtimes"):
        for name, runtime in _runtimes(layer).items():
            if _SPEC in runtime and concerned(name, runtime[_SPEC]):
                path = layer.file.path
                table = ("plugins", layer.plugin, "containerd", "runtimes", name)
                try:
                    after[path] = remove_value(after[path], (*table, _SPEC))
                except Refused as exc:
                    raise Refused(f"{path}: {exc}", f"Remove {_SPEC} of the runtime handler {name} by hand") from exc
    then = _reload(files, after, generation, root_path)
    found = effective(then, generation)
    wanted = {
        name: handler._replace(base_runtime_spec=found[name].base_runtime_spec if name in found else None)
        for name, handler in before.items()
    }
    problem = _difference(wanted, now, then, generation)
    left = sorted(
        name
        for name, handler in found.items()
        if handler.base_runtime_spec and concerned(name, handler.base_runtime_spec)
    )
    if problem or left:
        raise Refused(
            f"{_SPEC} of the runtime handler {', '.join(left or sorted(before))} cannot be removed: "
            f"{problem or 'it stays as it is'}"
        )
    return after


# --- proving ------------------------------------------------------------------------------------------------------------


def _reload(
    files: t.Sequence[ConfigFile], texts: t.Mapping[str, str], generation: Generation, root_path: str
) -> list[ConfigFile]:
    """What load() would give with other texts, and files, in the places of these."""

    def glob(pattern: str) -> list[str]:
        return [path for path in texts if matches(path, pattern)]

    return load(files[0].path if files else root_path, texts.get, glob, generation)


def matches(path: str, pattern: str) -> bool:
    """Go's filepath.Match(): no sign stands for a slash, and * takes a leading dot, too."""
    parts, signs = path.split("/"), pattern.split("/")
    return len(parts) == len(signs) and all(map(fnmatch.fnmatchcase, parts, signs))


def _difference(
    wanted: t.Mapping[str, Handler],
    before: t.Sequence[ConfigFile],
    after: t.Sequence[ConfigFile],
    generation: Generation,
) -> t.Optional[str]:
    """What else than what is wanted an edit would change, None when that is nothing."""
    found = effective(after, generation)
    for name in sorted({*wanted, *found}):
        if name not in found or name not in wanted:
            return "the edit would {} the runtime handler {}".format("remove" if name in wanted else "add", name)
        if found[name].runtime_type != wanted[name].runtime_type:
            return f"the edit would change the runtime_type of {name}"
        if found[name].base_runtime_spec != wanted[name].base_runtime_spec:
            return f"the edit would not give {name} this {_SPEC}, as containerd merges its files"
    if default_handler(before, generation) != default_handler(after, generation):
        return "the edit would change the default runtime handler"
    if before and _merged_version(before, generation) != _merged_version(after, generation):
        return "the edit would change the version of the merged configuration"
    return None


# --- dumps --------------------------------------------------------------------------------------------------------------


def dump_difference(before: str, after: str) -> list[tuple[str, t.Any, t.Any]]:
    """Where two texts of ``containerd config dump`` differ: (dotted key, before, after), None for what is not there.

    Sorted by key. An array is one value; an empty table is one, too: {}. Values may be credentials: compare, never show.
    """
    one, other = _leaves(parse(before)), _leaves(parse(after))
    return [
        (dotted(key), one.get(key), other.get(key))
        for key in sorted({*one, *other})
        if key not in one or key not in other or not same(one[key], other[key])
    ]


def _leaves(table: Json) -> dict[tuple[str, ...], t.Any]:
    found: dict[tuple[str, ...], t.Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and value:
            found.update({(key, *rest): leaf for rest, leaf in _leaves(value).items()})
        else:
            found[(key,)] = value
    return found
