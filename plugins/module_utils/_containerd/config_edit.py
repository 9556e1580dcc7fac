# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where base_runtime_spec is set and removed in containerd's configuration files. Private to the collection. Pure.

Every edit is made in a copy of all files first, and these are merged again: an edit that would do anything else than what
was asked for is refused. Messages never show values but paths and versions, since these files hold credentials.
"""

from __future__ import annotations

import os
import posixpath
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.go_paths import matches
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.config import (
    DEFAULT_RUNTIME,
    DEPRECATED,
    SPEC,
    TYPE,
    V1,
    V2,
    V3,
    ConfigError,
    ConfigFile,
    Generation,
    Handler,
    Json,
    absolute_pattern,
    daemon_name,
    default_handler,
    deprecated_handlers,
    effective,
    import_patterns,
    layer_of,
    layers_of,
    load,
    merged_version,
    newest_version,
    own_version,
    runtimes_of,
    table_of,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import dotted, parse
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml_edit import (
    Refused,
    remove_value,
    same,
    set_value,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.units import CONTAINERD_CONFIG

__all__ = ["TOOLKIT_DROP_IN", "Plan", "dump_difference", "plan_edits"]

# What nvidia-ctk writes.
TOOLKIT_DROP_IN = "99-nvidia.toml"
# Behind that one; a name behind others is made where this one is not.
_DROP_IN = "zz-fabric-rdma.toml"
_MARK = "# Made by fabric.rdma.\n"


class Plan(t.NamedTuple):
    """New texts of existing files and texts of new files by path, and sentences.

    When there is a refusal there is nothing else.
    """

    edits: dict[str, str]
    creates: dict[str, str]
    refusals: list[str]


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
    root_path: str = CONTAINERD_CONFIG,
    running: t.Optional[t.Container[str]] = None,
    main_too: bool = True,
) -> Plan:
    """What to write so that handlers have these base runtime specs, and nothing else changes.

    files: what load() gave. specs: absolute path by handler, None for none at all. dump: text of ``containerd config dump``,
    looked into before 2.0 only: a runtime that no file defines has to be written down whole there, and it tells with what;
    else that is what the sources of 1.6 and 1.7 say. root_path: the main file, for when there is none yet.
    running: names of the handlers that the daemon has now, when they are known: a restart must not lose one because of what
    stands in the files already. main_too: the main file may be written, which nothing rewrites at each start. ConfigError as effective().

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
                    texts = _without_specs(files, texts, generation, root_path, _only(name))
                else:
                    texts = _with_spec(files, texts, generation, root_path, name, spec, dump)
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
    if name in deprecated_handlers(files, generation):
        key = next(key for key, other in DEPRECATED.items() if other == name)
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
    layers = layers_of(files, generation, "runtimes")
    counted = {(layer.file.path, layer.plugin) for layer in layers}
    # such a file becomes one of the newest version without its CRI tables being moved
    old_names_lost = (2, 0) <= generation < (2, 3) and merged_version(files, generation) >= 3
    for file in files:
        own = own_version(file)
        if own > newest_version(generation):
            refusals.append(
                f"{file.path} has version {own}, in which {daemon_name(generation)} reads no CRI settings; convert it to "
                f"version {newest_version(generation)}"
            )
            continue
        if old_names_lost and own < 2 and table_of(file, "plugins", V1) is not None:
            refusals.append(
                f"{file.path} has version 1, whose table [plugins.cri] {daemon_name(generation)} does not read; convert it "
                "with `containerd config migrate`"
            )
            continue
        for plugin in (V1, V2, V3):
            layer = layer_of(file, plugin, "runtimes") if (file.path, plugin) not in counted else None
            names = set(runtimes_of(layer)) - set(handlers) if layer else set()
            lost = sorted(name for name in names if running is None or name in running)
            if lost:
                other = layers[-1].file.path if layers else file.path
                because = "" if other == file.path else f", because of {other}"
                refusals.append(
                    f"{file.path} defines the runtime handler {', '.join(lost)} under [plugins.{dotted([plugin])}], "
                    f"which {daemon_name(generation)} does not use{because}: its next start would be "
                    "without. Define it where that counts, or remove it"
                )
    return refusals


def _with_spec(
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
            after = {**texts, place.path: set_value(text, (*table, SPEC), spec)}
            problem = _difference(wanted, now, _reload(files, after, generation, root_path), generation)
        except (Refused, ConfigError) as exc:
            problem = str(exc)
        if problem is None:
            return after
        reasons.append(f"{place.path}: {problem}")
    raise Refused(f"{reasons[-1]}", f"Set {SPEC} of the runtime handler {name} there by hand")


def _places(
    files: t.Sequence[ConfigFile], generation: Generation, handler: Handler, root_path: str
) -> t.Iterator[_Place]:
    """Where a handler's setting may be made, the best place first."""
    if not files:
        yield _Place(root_path, V2 if generation < (2, 0) else V3, 2 if generation < (2, 0) else 3)
        return
    version = merged_version(files, generation)
    layers = layers_of(files, generation, "runtimes")
    if generation < (2, 0):
        plugin = V1 if version == 1 else V2
        holders = [file for file in files if table_of(file, "plugins", plugin) is not None]
        yield _Place((holders or files)[-1 if holders else 0].path, plugin)
        return
    defining = next((layer for layer in reversed(layers) if layer.file.path == handler.file), None)
    root = files[0]
    own = own_version(root)
    plugin = layers[-1].plugin if layers else V2 if own == 2 and version != 3 else V3
    behind = defining.file if defining else root
    # a drop-in of another version would change what counts of all files; and never beside a drop-in that is ours already
    if own >= 2 and version in (own, 4) and not behind.text.startswith(_MARK):
        directory = _drop_in_directory(files)
        if directory:
            yield _Place(_drop_in(directory, files), plugin if plugin != V1 else V2, own)
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

    ``nvidia-ctk runtime configure`` rewrites its drop-in from the main file, whenever the toolkit of the GPU Operator starts
    (pkg/config/engine/containerd of nvidia-container-toolkit, getBaseDropInConfigTree()): what only the drop-in has is lost then.
    The texts as they are, where the main file does not define the handler, or it would do anything else.
    """
    now = _reload(files, texts, generation, root_path)
    if generation >= (2, 0) or len(now) < 2:
        return texts
    root, handlers = now[0], effective(now, generation)
    plugin = V1 if merged_version(now, generation) == 1 else V2
    try:
        layer = layer_of(root, plugin, "runtimes")
        runtime = runtimes_of(layer).get(name) if layer else None
        if runtime is None or runtime.get(SPEC) == spec or handlers[name].file == root.path:
            return texts
        path = ("plugins", plugin, "containerd", "runtimes", name, SPEC)
        text = remove_value(root.text, path) if spec is None else set_value(root.text, path, spec)
        after = {**texts, root.path: text}
        return texts if _difference(handlers, now, _reload(files, after, generation, root_path), generation) else after
    except (Refused, ConfigError):
        return texts


def _drop_in_directory(files: t.Sequence[ConfigFile]) -> t.Optional[str]:
    """The last directory that the main file imports as a whole, if a file is loaded from it: then it is there, and in use."""
    root = files[0]
    for pattern in reversed(import_patterns(root.path, root.data)):
        directory, name = posixpath.split(absolute_pattern(root.path, pattern))
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
    runtime = dumped if dumped.get(TYPE) else DEFAULT_RUNTIME
    if runtime is DEFAULT_RUNTIME and generation >= (1, 7):
        runtime = {**runtime, "sandbox_mode": "podsandbox"}
    for key, value in runtime.items():
        # what is empty here is so without being said; among options that makes a difference in a dump
        if isinstance(value, (str, bool, int)) and value and key != SPEC:
            text = set_value(text, (*table, key), value)
    options = runtime.get("options")
    for key, value in options.items() if isinstance(options, dict) else ():
        if isinstance(value, (str, bool, int)):
            text = set_value(text, (*table, "options", key), value)
    return text


def _dumped_runtime(dump: str, name: str) -> Json:
    for plugin in (V3, V2, V1):
        table: t.Any = parse(dump)
        for key in ("plugins", plugin, "containerd", "runtimes", name):
            table = table.get(key) if isinstance(table, dict) else None
        if isinstance(table, dict):
            return table
    return {}


def _only(name: str) -> t.Callable[[str, t.Any], bool]:
    return lambda other, _value: other == name


def _without_specs(
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
    for layer in layers_of(now, generation, "runtimes"):
        for name, runtime in runtimes_of(layer).items():
            if SPEC in runtime and concerned(name, runtime[SPEC]):
                path = layer.file.path
                table = ("plugins", layer.plugin, "containerd", "runtimes", name)
                try:
                    after[path] = remove_value(after[path], (*table, SPEC))
                except Refused as exc:
                    raise Refused(f"{path}: {exc}", f"Remove {SPEC} of the runtime handler {name} by hand") from exc
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
            f"{SPEC} of the runtime handler {', '.join(left or sorted(before))} cannot be removed: "
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
            return f"the edit would not give {name} this {SPEC}, as containerd merges its files"
    if default_handler(before, generation) != default_handler(after, generation):
        return "the edit would change the default runtime handler"
    if before and merged_version(before, generation) != merged_version(after, generation):
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
