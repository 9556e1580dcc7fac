# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor looks at, out of what a run has gathered or out of a directory that somebody sends. Private to the collection.

Files of a directory are recognised by what is in them: facts, plans, snapshots of clusters and captures as this collection makes them,
objects as kubectl prints them (JSON or YAML), and any other text as a log. All of it is untrusted: links are not followed, sizes are
bounded, and YAML has neither aliases nor tags. What no rule reads is named, whatever it is.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import typing as t
from itertools import starmap

import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import (
    CAPTURE_HEADER,
    MemoryTree,
    load_archive,
    load_listing,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import read
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import TreeError
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import first_of
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.snapshot import (
    KINDS,
    empty_snapshot,
    part_of,
    reduced,
    sorted_snapshot,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._contracts import completed, contract_problems
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.case import MOST_TEXT, name_of, quoted
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.contract import Json, Log, Material
from ansible_collections.fabric.rdma.plugins.plugin_utils._doctor.outputs import is_ours, printed_by
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import sound_facts

__all__ = ["CONTEXT", "MATERIAL", "DoctorError", "material_of", "read_directory"]

# What a bundle says of itself: groups, names of nodes, and whose its logs are.
CONTEXT = "context.json"
# what material_of() takes
MATERIAL = ("facts", "plan", "cluster", "logs", "groups", "node_names", "unread")
_MOST_FILES = 10_000
# With links and directories.
_MOST_ENTRIES = 100_000
_MOST_BYTES = 256 << 20
# What all captures together may unpack to, each of which has bounds of its own: some 1,000 nodes.
_MOST_UNPACKED = 2 << 30
_MOST_UNPACKED_ENTRIES = 5_000_000
_DEEPEST = 12
_MOST_DIGITS = 100
_MOST_BRACKETS = 100
# Of files of which the same is said.
_MOST_NAMES = 3
# Sentences on what was not read.
_MOST_UNREAD = 1_000
# PyYAML reads some 200 KB in a second.
_MOST_YAML = 32 << 20
# What PowerShell writes to a file.
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_ARCHIVE = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
# What runs leave beside facts and plan, and the doctor does not read.
_OF_A_RUN = ("evidence", "hosts", "findings", "system", "verdict")
# Names of files that say nothing of the host that they are of.
_OF_NOBODY = ("capture", "facts", "rdma", "root", "sys", "sysfs")


class DoctorError(FabricError):
    """A directory that nobody can diagnose."""


def _text_map(value: t.Any) -> dict[str, t.Any]:
    return {key: item for key, item in value.items() if isinstance(key, str)} if isinstance(value, t.Mapping) else {}


def _logs(value: t.Any) -> list[Log]:
    found: list[Log] = []
    for each in value if isinstance(value, (list, tuple)) else ():
        if isinstance(each, t.Mapping) and isinstance(each.get("text"), str):
            host, pod = each.get("host"), each.get("pod")
            found.append(
                {
                    "name": str(each.get("name") or "log"),
                    "source": str(each.get("source") or "file"),
                    "host": None if host is None else str(host),
                    "pod": None if pod is None else str(pod),
                    "text": str(each["text"])[-MOST_TEXT:],
                }
            )
    return found


def _unique_names(logs: list[Log]) -> list[Log]:
    """Logs of different names: findings tell them apart by these."""
    seen: dict[str, int] = {}
    result: list[Log] = []
    for log in sorted(logs, key=lambda log: (log["name"], log["host"] or "", log["text"])):
        seen[log["name"]] = seen.get(log["name"], 0) + 1
        number = seen[log["name"]]
        result.append({**log, "name": log["name"] if number == 1 else f"{log['name']} ({number})"})
    return result


def _cluster(value: t.Any) -> Json:
    """A snapshot, with its objects once more reduced to what is kept: it may come from anywhere."""
    given = _text_map(value)
    if not given:
        return {}
    snapshot = empty_snapshot()
    for kind in ("ConfigMap", "DaemonSet", "Event", "Pod"):
        items = _list(given.get(KINDS[kind]))
        snapshot[KINDS[kind]] = [reduced(kind, item) for item in items if _is_object(kind, item)]
    policies = _list(given.get("policies"))
    snapshot["policies"] = [reduced(item["kind"], item) for item in policies if _is_object("", item)]
    nodes = _text_map(given.get("nodes"))
    if given.get("listed") is True:
        # what is not there was perhaps not listed
        snapshot["listed"] = True
    if given.get("named") is True:
        # its Pods were read by their names
        snapshot["named"] = True
    snapshot["nodes"] = {name: reduced("Node", item) for name, item in nodes.items() if _is_object("Node", item)}
    return sorted_snapshot(snapshot)


def _list(value: t.Any) -> t.Sequence[t.Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _is_object(kind: str, item: t.Any) -> bool:
    """Whether something has what rules take for granted of an object."""
    if not isinstance(item, dict):
        return False
    if kind == "Event":
        return isinstance(item.get("involvedObject"), dict)
    metadata = item.get("metadata")
    named = isinstance(metadata, dict) and isinstance(metadata.get("name"), str) and bool(metadata["name"])
    return named and (bool(kind) or item.get("kind") in ("NicClusterPolicy", "NicNodePolicy"))


def material_of(
    facts: t.Any = None,
    plan: t.Any = None,
    cluster: t.Any = None,
    logs: t.Any = None,
    groups: t.Any = None,
    node_names: t.Any = None,
    unread: t.Any = None,
) -> Material:
    """What rules look at, whatever is given: what has not the form that it has to have is left out, and named in unread."""
    sound, malformed = sound_facts(_text_map(facts))
    missing = [str(each) for each in unread or ()] + list(malformed.values())
    plan = plan if isinstance(plan, t.Mapping) and plan else {}
    problems = contract_problems("plan", {"removed": {}, "remove": [], **plan}) if plan else []
    if problems:
        missing.append(f"the plan cannot be used: {'; '.join(problems)}")
        plan = {}
    return {
        "facts": sound,
        "plan": dict(completed(plan)) if plan else {},
        "cluster": _cluster(cluster),
        "logs": _unique_names(_logs(logs)),
        "groups": {
            name: sorted(map(str, hosts))
            for name, hosts in _text_map(groups).items()
            if isinstance(hosts, (list, tuple))
        },
        "node_names": {host: str(node) for host, node in _text_map(node_names).items()},
        "unread": _bounded([quoted(each) for each in missing[: _MOST_UNREAD + 1]], len(missing)),
    }


def _bounded(sentences: list[str], count: int) -> list[str]:
    """The first of many sentences, and how many there are."""
    if count <= _MOST_UNREAD:
        return sentences
    return [*sentences[:_MOST_UNREAD], f"{count - _MOST_UNREAD} more of such sentences are left out"]


# --- a directory ------------------------------------------------------------------------------------------------------


class _PlainLoader(yaml.SafeLoader):
    """What JSON has. Without aliases, of which a few lines make more than fits into memory, and without tags, which PyYAML believes.

    Without many brackets in brackets: each part costs PyYAML as much as there are around it.
    """

    def fetch_flow_collection_start(self, TokenClass: t.Any) -> None:
        if self.flow_level >= _MOST_BRACKETS:
            raise yaml.YAMLError("it is nested too deeply")
        super().fetch_flow_collection_start(TokenClass)

    def compose_node(self, parent: t.Any, index: t.Any) -> t.Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has aliases")
        return super().compose_node(parent, index)

    def get_event(self) -> t.Any:
        event: t.Any = super().get_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            raise yaml.YAMLError("it has tags")
        return event

    def construct_object(self, node: t.Any, deep: bool = False) -> t.Any:
        if node.tag == "tag:yaml.org,2002:timestamp":
            return node.value
        if node.tag == "tag:yaml.org,2002:int" and len(node.value) > _MOST_DIGITS:
            # a number of thousands of digits cannot be shown
            raise yaml.YAMLError("it has a number of thousands of digits")
        return super().construct_object(node, deep)


class _Reader:
    """Puts together what is in the files of a directory."""

    def __init__(self) -> None:
        self.facts: Json = {}
        self.plan: Json = {}
        self.cluster: Json = {}
        self.objects: set[str] = set()
        # whether all of a cluster is in there, or what somebody has listed
        self.whole = False
        # what bundles say of themselves: logs by their files, groups, names of nodes
        self.index: dict[str, Json] = {}
        self.groups: Json = {}
        self.node_names: Json = {}
        self.texts: dict[str, str] = {}
        self.unread: list[str] = []
        # the files of which the same is to be said
        self.notes: dict[str, list[str]] = {}
        # whose facts are from which file
        self.sources: dict[str, str] = {}
        # how much of it was read, and what captures have unpacked to: bytes, entries
        self.yaml = self.unpacked = self.unpacked_entries = 0

    def take(self, name: str, data: bytes) -> None:
        """A file; name: its path in the directory, with slashes."""
        if data.startswith(CAPTURE_HEADER.encode()) or data.startswith(_ARCHIVE):
            self._capture(name, data)
        elif b"\0" in data[:8192] and not data.startswith(_UTF16):
            self.note("neither text nor a capture", name)
        else:
            text = data.decode("utf-16" if data.startswith(_UTF16) else "utf-8-sig", "replace")
            if not is_ours(text) and not self._documents(name, text):
                self.texts[name] = text
                program = printed_by(text)
                if program:
                    self.note(program, name)

    def note(self, text: str, name: str) -> None:
        """Something that is to be said of a file, once for all of which it is true."""
        names = self.notes.setdefault(text, [])
        if name not in names[-1:]:
            names.append(name)

    def _charge(self, size: int, entries: int) -> None:
        self.unpacked += size
        self.unpacked_entries += entries

    def _capture(self, name: str, data: bytes) -> None:
        if self.unpacked > _MOST_UNPACKED or self.unpacked_entries > _MOST_UNPACKED_ENTRIES:
            self.note(
                f"the captures and archives before these unpack to more than {_MOST_UNPACKED >> 20} MiB or {_MOST_UNPACKED_ENTRIES} entries, "
                "and these are not read (give the doctor a part of them)",
                name,
            )
            return
        try:
            listed = not data.startswith(_ARCHIVE)
            text = data.decode("utf-8", "surrogateescape") if listed else ""
            entries = load_listing(text, name) if listed else load_archive(data, name, self._charge)
            if listed:
                self._charge(len(text), len(entries))
            if not any(path.startswith("/sys/") for path in entries):
                self.unread.append(f"{name} has no /sys, so it is not a capture of a node; unpack it if it has logs")
                return
            facts = gather(MemoryTree(entries, name))
        except (TreeError, FabricError) as exc:
            self.unread.append(f"{name}: {exc}")
            return
        if any("not recorded" in str(device["plugin"]["reason"]) for device in facts.get("devices") or ()):
            self.note("a capture of a part of /sys does not tell which character devices a node has", name)
        self._add_facts(_host_of_file(name), name, facts)

    def _add_facts(self, host: str, name: str, facts: Json, named: bool = False) -> None:
        """Facts of a host. named: by the document, and not by its file, of which two in different directories are two hosts.

        Of different facts of one host the first count.
        """
        known = self.sources.setdefault(host, name)
        own = posixpath.dirname(name).replace("/", "-")
        if known == name:
            self.facts[host] = facts
        elif not named and posixpath.dirname(known) != posixpath.dirname(name) and own and own not in self.sources:
            self.sources[own] = name
            self.facts[own] = facts
        elif self.facts[host] != facts:
            self.note(f"{known} has other facts of the same hosts, and counts", name)

    def _documents(self, name: str, text: str) -> bool:
        """Whether a file has documents that are known, which are taken."""
        start = text.lstrip()[:4096]
        try:
            if start.startswith(("{", "[")):
                found = [json.loads(text)]
            elif re.match(r"(?:\s|#[^\n]*\n|---[^\n]*\n)*(?:apiVersion|kind|items):", start):
                self.yaml += len(text)
                if self.yaml > _MOST_YAML:
                    self.unread.append(f"{name}: more than {_MOST_YAML >> 20} MiB of YAML; give it as JSON")
                    return True
                found = list(yaml.load_all(text, Loader=_PlainLoader))
            else:
                return False
        except (ValueError, OverflowError, RecursionError, yaml.YAMLError):
            if not _has_json_lines(text.lstrip()):
                self.note(
                    "it begins like JSON or YAML, cannot be read as that (cut off?), and is read like a log", name
                )
            return False
        known = [self._document(name, each) for each in found]
        if not all(known):
            self.note("a document of a form that is not known here is read like a log", name)
        return all(known)

    def _document(self, name: str, found: t.Any) -> bool:
        if not isinstance(found, dict):
            return found is None
        if posixpath.basename(name) == CONTEXT and "logs" in found:
            self._bundle(posixpath.dirname(name), found)
        elif isinstance(found.get("items"), list) or ("kind" in found and "metadata" in found):
            self._objects(name, found)
        elif "groups" in found and "schema" in found and "verdict" not in found:
            if self.plan and self.plan != found:
                self.note("another plan was read before this one, and counts", name)
            self.plan = self.plan or found
        elif "nodes" in found and "pods" in found:
            # of one that nobody could list as a whole, what is not there is not missing
            self.whole = self.whole or found.get("listed") is not True
            self._join(_cluster(found))
        elif "devices" in found and "schema" in found:
            self._add_facts(_host_of_file(name), name, found)
        elif found and all(
            isinstance(each, dict) and "devices" in each and "schema" in each for each in found.values()
        ):
            for host, facts in found.items():
                self._add_facts(host, name, facts, named=True)
        else:
            # what else a run leaves tells the doctor nothing
            return any(key in found for key in _OF_A_RUN)
        return True

    def _objects(self, name: str, found: Json) -> None:
        """Objects as kubectl prints them."""
        seen = empty_snapshot()
        items = found.get("items") if isinstance(found.get("items"), list) else [found]
        # a PodList does not say of each item what it is
        of_list = str(found.get("kind") or "").removesuffix("List")
        others: set[str] = set()
        for item in items or ():
            kind = str(item.get("kind") or of_list) if isinstance(item, dict) else "something else"
            if kind not in KINDS or not _is_object("" if KINDS[kind] == "policies" else kind, {**item, "kind": kind}):
                others.add(kind or "no kind")
                continue
            own = reduced(kind, {**item, "kind": kind})
            if kind == "Node":
                seen["nodes"][own["metadata"]["name"]] = own
            elif kind != "DaemonSet" or part_of(own):
                seen[KINDS[kind]].append(own)
        self._join(seen)
        if others:
            self.note(f"no rule looks at objects of these kinds ({', '.join(sorted(others)[:5])})", name)

    def _join(self, seen: Json) -> None:
        """Objects of a cluster: each that was not there before."""
        if not self.cluster:
            self.cluster = empty_snapshot()
        if "named" in seen:
            self.cluster["named"] = True
        self.cluster["nodes"] = {**seen["nodes"], **self.cluster["nodes"]}
        for part in set(KINDS.values()) - {"nodes"}:
            for item in seen[part]:
                known = len(self.objects)
                self.objects.add(f"{part} {item}")
                if len(self.objects) > known:
                    self.cluster[part].append(item)

    def _bundle(self, directory: str, context: Json) -> None:
        """What a bundle says of itself, which may lie beside other things."""
        for row in _list(context.get("logs")):
            if isinstance(row, dict):
                self.index[posixpath.join(directory, str(row.get("file")))] = row
        self.groups.update(_text_map(context.get("groups")))
        self.node_names.update(_text_map(context.get("node_names")))
        self.unread += map(str, _list(context.get("unread")))

    def material(self) -> Material:
        cluster = _cluster({**self.cluster, "listed": not self.whole} if self.cluster else {})
        hosts = {*map(str, self.facts), *(cluster.get("nodes") or ())}
        pods = {name_of(pod).rpartition("/")[2]: pod for pod in cluster.get("pods") or ()}
        logs = [
            {**self.index[name], "text": text} if name in self.index else _log_of_file(name, text, hosts, pods)
            for name, text in self.texts.items()
        ]
        return material_of(
            self.facts,
            self.plan,
            cluster,
            logs,
            self.groups,
            self.node_names,
            [*self.unread, *starmap(_noted, self.notes.items())],
        )


def _has_json_lines(text: str) -> bool:
    """Whether a text begins like a log: with a line that is JSON by itself, or with a time in brackets."""
    first = text.split("\n", 1)[0]
    if first.startswith("[") and not re.match(r'\[\s*(?:$|[\[{"])', first):
        return True
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def _noted(text: str, names: t.Sequence[str]) -> str:
    """What is to be said of some files, which may be many."""
    return f"{text}: {first_of(names, _MOST_NAMES)}"


def _host_of_file(name: str) -> str:
    """Of facts or a capture of one host: hosts/NAME.json, NAME/facts.json, NAME.capture, NAME/root.tar.gz."""
    directory, _dummy, base = name.rpartition("/")
    stem = re.sub(r"(\.json|\.capture|\.tar\.\w+|\.tgz)+$", "", base)
    return posixpath.basename(directory) if stem in _OF_NOBODY and directory else stem


def _named_in(parts: t.Sequence[str], known: t.Container[str]) -> t.Optional[str]:
    """The longest known name that a part of a path is, or begins with. Its time does not depend on how many are known."""
    fitting = [
        part[:end]
        for part in parts
        for end in range(1, len(part) + 1)
        if (end == len(part) or not part[end].isalnum()) and part[:end] in known
    ]
    return max(fitting, key=len, default=None)


def _log_of_file(name: str, text: str, hosts: t.Container[str], pods: t.Mapping[str, Json]) -> Json:
    """A log that nobody says anything of: whose it is, its path may tell. pods: by their names without namespaces."""
    parts = name.split("/")
    found = _named_in(parts, pods)
    pod = pods[found] if found else None
    node = (pod.get("spec") or {}).get("nodeName") if pod else None
    host = node or _named_in(parts, hosts)
    return {"name": name, "source": "file", "host": host, "pod": name_of(pod) if pod else None, "text": text}


def _path_in(path: str, directory: str, base: str) -> str:
    """Of a file in a directory below a path, from there on."""
    return os.path.relpath(os.path.join(directory, base), path).replace(os.sep, "/")


def read_directory(path: str) -> Material:
    """What is in the files below a directory. DoctorError for one that is not there, or has far too much."""
    if not os.path.isdir(path):
        raise DoctorError(
            f"{path} is not a directory", "give doctor_directory the directory of a bundle, or of logs and captures"
        )
    reader = _Reader()
    count = total = entries = 0
    for directory, names, files in os.walk(path):
        names.sort()
        if names and os.path.relpath(directory, path).count(os.sep) >= _DEEPEST:
            for each in names:
                reader.note("too many directories below", _path_in(path, directory, each))
            names.clear()
        entries += len(files) + len(names)
        if entries > _MOST_ENTRIES:
            raise DoctorError(
                f"{path} has more than {_MOST_ENTRIES} files, links and directories",
                "give it a directory with logs and captures only",
            )
        for base in sorted([*files, *names]):
            full = os.path.join(directory, base)
            name = _path_in(path, directory, base)
            if os.path.islink(full):
                reader.note("a link, which is not followed", name)
                continue
            if base in names:
                continue
            count += 1
            if count > _MOST_FILES:
                raise DoctorError(
                    f"{path} has more than {_MOST_FILES} files", "give it a directory with logs and captures only"
                )
            try:
                data = read(full, _MOST_BYTES) or b""
            except OSError as exc:
                reader.note(f"cannot be read ({exc.strerror})", name)
                continue
            total += len(data)
            if total > 4 * _MOST_BYTES:
                raise DoctorError(f"{path} has more than {4 * _MOST_BYTES >> 20} MiB", "give it the ends of the logs")
            reader.take(name, data)
    found = reader.material()
    if not count and not found["unread"]:
        raise DoctorError(
            f"{path} has no files", "give doctor_directory the directory of a bundle, or of logs and captures"
        )
    return found
