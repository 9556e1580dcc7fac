# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks and tells the package manager of a node what _packages decides. Private to the collection."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import stat
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import read, replace, sync_directory, unlink
from ansible_collections.fabric.rdma.plugins.module_utils._base.places import DRIVER_PACKAGES
from ansible_collections.fabric.rdma.plugins.module_utils._base.remembered import forget, recall, remember
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import without_password
from ansible_collections.fabric.rdma.plugins.module_utils._discover.dpkg import is_stack_package
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.packages import (
    DPKG_QUERY,
    Changes,
    File,
    Snapshot,
    add_changes,
    bare_name,
    changes_between,
    keys_of_the_driver,
    of_the_driver,
    parse_dpkg_query,
    plan_undo,
    split_wish,
    undone,
)

__all__ = ["Apt", "Dnf", "Manager", "PackagesError", "Record", "find_manager"]

Run = t.Callable[[t.List[str]], t.Tuple[int, str, str]]
Needs = t.Tuple[t.Dict[str, t.List[t.List[str]]], t.Dict[str, t.List[str]]]

# A file of pins or repositories is a page; a key is two.
_MAX_FILE = 1 << 20
# Seconds between two looks at a lock.
_LOCK_LOOK = 2


class PackagesError(FabricError):
    """A package manager that does not do what it is told."""


def _said(output: str, error: str) -> str:
    """The lines that tell why, of what a package manager prints, without passwords of repositories."""
    text = without_password(error + "\n" + output)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if re.match(r"(E:|Error|error)", line)]
    return "; ".join((told or lines)[:3])[:600]


class Manager:
    """What both families have: files, and commands that are insisted on."""

    paths: tuple[str, ...] = ()

    def __init__(self, run: Run, lock_timeout: int) -> None:
        self._run = run
        self._lock_timeout = lock_timeout

    def _output(self, *command: str) -> str:
        status, output, error = self._run(list(command))
        if status != 0:
            raise PackagesError(f"{' '.join(command[:2])}: {_said(output, error)}")
        return output

    def files(self) -> dict[str, File]:
        """The files that name repositories and pins, as they are."""
        found: dict[str, File] = {}
        for path in self.paths:
            names = [path]
            if path.endswith("/"):
                names = []
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    names = [path + name for name in sorted(os.listdir(path))]
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(name)
                    if stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_FILE:
                        with open(name, "rb") as handle:
                            data = base64.b64encode(handle.read()).decode("ascii")
                        found[name] = File(data, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid))
        return found

    def put_files(self, files: t.Mapping[str, t.Optional[File]]) -> None:
        for path, file in files.items():
            if file is None:
                unlink(path)
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    sync_directory(os.path.dirname(path))
            else:
                replace(path, base64.b64decode(file.data), read(path), exactly=(file.mode, file.owner))

    def snapshot(self) -> Snapshot:
        raise NotImplementedError

    def needs(self) -> Needs:
        """(what each installed package needs, what each provides)."""
        raise NotImplementedError

    def automatic(self) -> t.Optional[list[str]]:
        """Packages that nobody asked for by name; None where nobody tells."""
        raise NotImplementedError

    def owners(self, paths: t.Sequence[str]) -> dict[str, list[str]]:
        """Packages by the path of a file that they have installed."""
        raise NotImplementedError

    def offered(self, names: t.Sequence[str]) -> list[tuple[str, str]]:
        """(name, version) of what the node's repositories have of some packages, as far as the node knows."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Reads what the repositories have now."""
        raise NotImplementedError

    def unsettled(self) -> list[str]:
        """What has to be done before the package manager does anything else: what a loss of power has cut short, say."""
        return []

    def settle(self) -> None:
        """Does it."""

    def change(self, install: t.Sequence[tuple[str, str]], remove: t.Sequence[str]) -> None:
        """Installs packages at exact versions, lower or higher, and removes others with their configuration."""
        raise NotImplementedError

    def mark(self, holds: t.Mapping[str, bool], automatic: t.Sequence[str]) -> None:
        raise NotImplementedError


class Apt(Manager):
    """Debian and Ubuntu."""

    paths = ("/etc/apt/preferences", "/etc/apt/preferences.d/", "/etc/apt/sources.list.d/", "/etc/apt/keyrings/")
    # files with numbers as names: steps that dpkg has begun and not ended
    journal = "/var/lib/dpkg/updates"
    # what repositories have; images that were made small may lack it
    lists = "/var/lib/apt/lists"

    def _patiently(self, *command: str) -> None:
        """apt waits for the lock of dpkg by itself, and not for those of its lists and of its archives."""
        until = time.monotonic() + self._lock_timeout
        while True:
            try:
                self._output(*command)
                return
            except PackagesError as exc:
                if "Could not get lock" not in str(exc) or time.monotonic() >= until:
                    raise
            time.sleep(_LOCK_LOOK)

    def _query(self) -> t.Any:
        return parse_dpkg_query(self._output("dpkg-query", "--show", "--showformat=" + DPKG_QUERY))

    def snapshot(self) -> Snapshot:
        packages, holds, _needs, _provides = self._query()
        return Snapshot(packages, holds, self.files())

    def needs(self) -> Needs:
        _packages, _holds, needs, provides = self._query()
        return needs, provides

    def automatic(self) -> t.Optional[list[str]]:
        return self._output("apt-mark", "showauto").split()

    def owners(self, paths: t.Sequence[str]) -> dict[str, list[str]]:
        # "name, other:amd64: path"; it ends with 1 where there is no package for one of them, and says so
        _status, output, _error = self._run(["dpkg-query", "--search", *paths])
        rows = [line.rpartition(": ") for line in output.splitlines()]
        return {path: names.split(", ") for names, _colon, path in rows}

    def offered(self, names: t.Sequence[str]) -> list[tuple[str, str]]:
        # "name | version | source"; what only dpkg knows is not there
        rows = [line.split("|") for line in self._output("apt-cache", "madison", *names).splitlines()]
        return [(row[0].strip(), row[1].strip()) for row in rows if len(row) == 3]

    def refresh(self) -> None:
        self._patiently("apt-get", "update", "-o", f"DPkg::Lock::Timeout={self._lock_timeout}")

    def _cut_short(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return any(name.isdigit() for name in os.listdir(self.journal))
        return False

    def unsettled(self) -> list[str]:
        found = ["dpkg ends what it has begun"] if self._cut_short() else []
        return found if os.path.isdir(self.lists) else [*found, f"{self.lists} is there"]

    def settle(self) -> None:
        # apt makes it; Python's module for it, which Ansible uses, takes it for locked (modules of ansible-core 2.21 know better)
        if not os.path.isdir(self.lists):
            os.makedirs(self.lists, exist_ok=True)
            # whatever the umask is: apt downloads as a user of its own
            os.chmod(self.lists, 0o755)
            # its time is that of the last update
            os.utime(self.lists, (0, 0))
        if self._cut_short():
            # What it cannot end, apt says when it comes to it. It may also be at work, for somebody else: apt waits for that.
            self._run(["dpkg", "--force-confdef", "--force-confold", "--configure", "-a"])

    def change(self, install: t.Sequence[tuple[str, str]], remove: t.Sequence[str]) -> None:
        self.settle()
        there = self._query()[0] if remove else {}
        # of what is neither installed nor offered any more, apt says that there is no such package, and stops
        wanted = ["{}={}".format(*pair) for pair in install] + [f"{name}-" for name in remove if name in there]
        if wanted:
            self._patiently(
                "apt-get",
                "install",
                "--yes",
                "--purge",
                "--allow-downgrades",
                "--allow-change-held-packages",
                "--no-install-recommends",
                "-o",
                f"DPkg::Lock::Timeout={self._lock_timeout}",
                "-o",
                "Dpkg::Options::=--force-confdef",
                "-o",
                "Dpkg::Options::=--force-confold",
                *wanted,
            )

    def mark(self, holds: t.Mapping[str, bool], automatic: t.Sequence[str]) -> None:
        for verb, names in (
            ("hold", [name for name, held in sorted(holds.items()) if held]),
            ("unhold", [name for name, held in sorted(holds.items()) if not held]),
            ("auto", sorted(automatic)),
        ):
            if names:
                self._output("apt-mark", verb, *names)


class Dnf(Manager):
    """The family of RHEL. A package that may be there more than once (a kernel, a key) is known by its whole name."""

    paths: tuple[str, ...] = (
        "/etc/yum.repos.d/",
        "/etc/dnf/plugins/versionlock.list",
        # of dnf5
        "/etc/dnf/versionlock.toml",
        "/etc/pki/rpm-gpg/",
    )

    _FORMAT = "%{NAME}\\t%{ARCH}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\t[%{REQUIRES} ]\\t[%{PROVIDES} ]\\n"

    @staticmethod
    def _key(name: str, arch: str, version: str) -> str:
        """What a package is known by here: its name and architecture; its whole name where several versions can be there."""
        plain = version.partition(":")[2]
        if name == "gpg-pubkey":
            return f"{name}-{plain}"
        return f"{name}-{plain}.{arch}" if re.match(r"kernel($|-)", name) else f"{name}.{arch}"

    @staticmethod
    def _name_of(key: str) -> tuple[str, str]:
        """(name, architecture) of what _key() made; neither a version nor what RPM calls its release has a hyphen."""
        name, _dot, arch = key.rpartition(".")
        return (name.rsplit("-", 2)[0] if name.startswith("kernel-") else name), arch

    def _rows(self) -> t.Iterator[list[str]]:
        for line in self._output("rpm", "-qa", "--queryformat", self._FORMAT).splitlines():
            fields = line.split("\t")
            if len(fields) == 5:
                name, arch, version = fields[:3]
                yield [self._key(name, arch, version), version, *fields[3:]]

    def snapshot(self) -> Snapshot:
        return Snapshot({row[0]: row[1] for row in self._rows()}, [], self.files())

    def needs(self) -> Needs:
        """Of files and sonames, too: whatever a package requires."""
        needs: dict[str, list[list[str]]] = {}
        provides: dict[str, list[str]] = {}
        for key, _version, wanted, given in self._rows():
            needs[key] = [[word] for word in sorted(set(wanted.split()))]
            provides[key] = sorted(set(given.split()))
        return needs, provides

    def automatic(self) -> t.Optional[list[str]]:
        return None

    def owners(self, paths: t.Sequence[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in paths:
            status, output, _error = self._run(["rpm", "-qf", "--queryformat", "%{NAME}.%{ARCH}\n", path])
            if status == 0:
                found[path] = output.split()
        return found

    def offered(self, names: t.Sequence[str]) -> list[tuple[str, str]]:
        text = self._output(
            "dnf",
            "--quiet",
            "repoquery",
            "--showduplicates",
            "--queryformat",
            "%{name}.%{arch} %{epoch}:%{version}-%{release}\n",
            *names,
        )
        found = [words for words in (line.split() for line in text.splitlines()) if len(words) == 2]
        return [
            (self._key(name, arch, version), version)
            for name, arch, version in ((*words[0].rpartition(".")[::2], words[1]) for words in found)
        ]

    def refresh(self) -> None:
        self._output("dnf", "--quiet", "makecache")

    def _install(self, wanted: t.Sequence[tuple[str, str, str]]) -> None:
        """wanted: (name, architecture, version)."""
        # NAME-EPOCH:VERSION-RELEASE.ARCH; dnf goes down as well as up to it
        names = [f"{name}-{version}.{arch}" for name, arch, version in wanted]
        self._output("dnf", "--assumeyes", "--allowerasing", "install", *names)

    def change(self, install: t.Sequence[tuple[str, str]], remove: t.Sequence[str]) -> None:
        # no repository has a key
        wanted = [(*self._name_of(key), version) for key, version in install if not key.startswith("gpg-pubkey-")]
        if wanted:
            self._install(wanted)
        there = {row[0] for row in self._rows()}
        gone = [name for name in remove if name in there]
        if gone:
            # not dnf, which takes whatever needs them along
            self._output("rpm", "--erase", "--allmatches", *gone)

    def mark(self, holds: t.Mapping[str, bool], automatic: t.Sequence[str]) -> None:
        """Holds are in a file, which is put back with the others; nothing is marked again."""


class Zypper(Dnf):
    """SUSE: RPMs with another program above them."""

    paths = ("/etc/zypp/repos.d/", "/etc/zypp/locks")

    def offered(self, names: t.Sequence[str]) -> list[tuple[str, str]]:
        # "S | Name | Type | Version | Arch | Repository"; what is only installed is in "(System Packages)"
        plain = sorted({self._name_of(name)[0] for name in names})
        text = self._output(
            "zypper", "--no-refresh", "search", "--details", "--match-exact", "--type", "package", *plain
        )
        rows = [[field.strip() for field in line.split("|")] for line in text.splitlines()]
        found = [row for row in rows if len(row) == 6 and not row[5].startswith("(")]
        return [
            (self._key(name, arch, version), version)
            for name, arch, version in ((row[1], row[4], row[3] if ":" in row[3] else "0:" + row[3]) for row in found)
        ]

    def refresh(self) -> None:
        self._output("zypper", "--non-interactive", "refresh")

    def _install(self, wanted: t.Sequence[tuple[str, str, str]]) -> None:
        names = [f"{name}.{arch}={version.partition(':')[2]}" for name, arch, version in wanted]
        self._output("zypper", "--non-interactive", "install", "--oldpackage", "--force-resolution", *names)


def find_manager(run: Run, lock_timeout: int, name: t.Optional[str] = None) -> Manager:
    """Of the node, or by name."""
    kinds: tuple[tuple[str, type[Manager], str], ...] = (
        ("apt", Apt, "/usr/bin/apt-get"),
        ("dnf", Dnf, "/usr/bin/dnf"),
        ("zypper", Zypper, "/usr/bin/zypper"),
    )
    for manager, kind, program in kinds:
        if name == manager or (name is None and os.access(program, os.X_OK)):
            return kind(run, lock_timeout)
    raise PackagesError("there is neither apt-get nor dnf nor zypper on this node")


def _as_json(snapshot: Snapshot) -> dict[str, t.Any]:
    return {"packages": snapshot.packages, "holds": list(snapshot.holds), "files": snapshot.files}


def _file(value: t.Any) -> t.Optional[File]:
    if value is None:
        return None
    user, group = value[2] if len(value) > 2 else (0, 0)
    return File(str(value[0]), int(value[1]), (int(user), int(group)))


class Outcome(t.NamedTuple):
    """What is as it was before, what is not, in words, and whether all is but for what others changed or need."""

    restored: list[str]
    left: list[str]
    complete: bool


@contextlib.contextmanager
def _noted(errors: list[str]) -> t.Iterator[None]:
    """What goes wrong inside is a sentence more in a list."""
    try:
        yield
    except PackagesError as exc:
        errors.append(str(exc))
    except OSError as exc:
        errors.append(f"{exc.filename}: {exc.strerror}")


def _done(errors: list[str], action: t.Callable[..., None], *arguments: t.Any) -> bool:
    """Whether an action finished."""
    before = len(errors)
    with _noted(errors):
        action(*arguments)
    return len(errors) == before


class Record:
    """What a change of the driver did to the packages of a node: remembered there until the driver is proved.

    It is told when a change begins and ends (open, close); what others do before and after that is not counted, nor are the packages,
    holds and files that they change meanwhile.
    """

    def __init__(self, manager: Manager, path: str = DRIVER_PACKAGES) -> None:
        self._manager = manager
        self._path = path
        # what was changed, a line each, as it was and is once it is undone: after undo() or predict()
        self.difference = ("", "")
        state = recall(path)
        self.found = state is not None
        state = state or {}
        self._automatic: list[str] = state.get("automatic", [])
        self._window: t.Optional[Snapshot] = None
        self._changes: Changes = state.get("changes", {})
        self._wished: list[str] = state.get("wished", [])
        # packages and files that others changed meanwhile, and how that is known
        self._others: dict[str, str] = state.get("others", {})
        # JSON has no tuples
        files = self._changes.get("files", {})
        files.update({name: [_file(one) for one in pair] for name, pair in files.items()})
        window = state.get("window")
        if window:
            paths = {name: t.cast(File, _file(one)) for name, one in window["files"].items()}
            self._window = Snapshot(window["packages"], window["holds"], paths)

    def _save(self) -> None:
        remember(
            self._path,
            {
                "automatic": self._automatic,
                "changes": self._changes,
                "others": self._others,
                "wished": self._wished,
                "window": None if self._window is None else _as_json(self._window),
            },
        )

    def open(self, wished: t.Iterable[str] = ()) -> None:
        """A change begins. wished: packages that it asks for by name, such as ``mlnx-tools=24.10*``."""
        # before all that is counted: of a run that was cut short it is a part, and of somebody else's doing it is theirs
        self._manager.settle()
        if self._window is not None:
            # A run was killed in it, who knows when: only what nobody else changes is its doing.
            found = changes_between(self._window, self._manager.snapshot())
            found["files"] = {
                path: pair for path, pair in found["files"].items() if "fabric-rdma-" in os.path.basename(path)
            }
            keys = keys_of_the_driver(found)
            found["packages"] = {
                name: pair for name, pair in found["packages"].items() if is_stack_package(name) or name in keys
            }
            found["holds"] = {name: pair for name, pair in found["holds"].items() if is_stack_package(name)}
            self._changes = add_changes(self._changes, found)
        if not self.found:
            self._automatic = self._manager.automatic() or []
        self._wished = sorted({*self._wished, *(split_wish(entry)[0] for entry in wished)})
        self._window = self._manager.snapshot()
        self._save()

    def _end(self) -> bool:
        """What a change did until now is counted; whether there was one."""
        if self._window is None:
            return False
        found = changes_between(self._window, self._manager.snapshot())
        known = self._changes.get("packages", {})
        there = [path for path, (_old, new) in found["files"].items() if new is not None]
        owners = self._manager.owners(there) if there else {}
        found, others = of_the_driver(
            found, known, self._wished, *self._manager.needs(), self._manager.automatic(), owners
        )
        self._changes = add_changes(self._changes, found)
        self._others.update(others)
        self._window = None
        return True

    def _left(self, now: Snapshot) -> list[str]:
        """What others changed meanwhile, in words."""
        return [
            "{} stays, since {}".format(" ".join(word for word in (name, now.packages.get(name)) if word), why)
            for name, why in sorted(self._others.items())
            if (name in now.packages or name in now.files)
            and name not in self._changes.get("packages", {})
            and name not in self._changes.get("files", {})
        ]

    def close(self) -> None:
        """A change has ended, well or not."""
        if self._end():
            self._save()

    def before(self) -> dict[str, str]:
        """Versions by name of what undo() goes back to: what was there before the first change that is remembered."""
        packages = dict((self._window or self._manager.snapshot()).packages)
        for name, (old, _new) in self._changes.get("packages", {}).items():
            packages.pop(name, None)
            if old is not None:
                packages[name] = old
        return packages

    def forget(self) -> bool:
        return forget(self._path)

    def _shown(self, now: Snapshot) -> str:
        """What was changed, as it is at a moment, a line each."""
        changes = self._changes
        lines = [f"{name} {now.packages.get(name, 'not there')}" for name in sorted(changes.get("packages", {}))]
        lines += [
            "{} {}".format(name, "held" if name in now.holds else "not held")
            for name in sorted(changes.get("holds", {}))
        ]
        for path, (old, _new) in sorted(changes.get("files", {}).items()):
            there = "there" if old is None else "as it was" if now.files.get(path) == old else "changed"
            lines.append(f"{path} {there if path in now.files else 'not there'}")
        return "".join(line + "\n" for line in lines)

    def predict(self) -> Outcome:
        """What undo() would say if all went well. Nothing is written."""
        # of a run that was cut short, too
        self._end()
        now = self._manager.snapshot()
        plan = plan_undo(self._changes, now, *self._manager.needs())
        packages = {name: version for name, version in now.packages.items() if name not in plan.remove}
        packages.update(plan.install)
        holds = [name for name in {*now.holds, *plan.holds} if plan.holds.get(name, name in now.holds)]
        files = {**now.files, **plan.files}
        there = {path: file for path, file in files.items() if file is not None}
        then = Snapshot(packages, holds, there)
        self.difference = (self._shown(now), self._shown(then))
        restored, _left = undone(self._changes, then)
        return Outcome(restored, plan.left + self._left(now), True)

    def undo(self) -> Outcome:
        """Puts back what the changes found, and forgets it. What is not back stays remembered: a later run can put it back.

        What fails on the way keeps nothing else from being put back: on a full disk, what is removed makes the room for the rest.
        """
        errors: list[str] = []
        # who cannot look at what there is does not know what was changed: that is not a reason to forget it
        if self._end():
            with _noted(errors):
                self._save()
        changes = self._changes
        now = self._manager.snapshot()
        plan = plan_undo(changes, now, *self._manager.needs())
        files = dict(plan.files)
        self._put(files, errors)
        with _noted(errors):
            if plan.install and plan.files:
                self._manager.refresh()
        if not _done(errors, self._manager.change, plan.install, plan.remove):
            # a mixture of two stacks is worse than one that is not there
            removed = _done(errors, self._manager.change, [], plan.remove)
            self._put(files, errors)
            if removed and plan.install:
                _done(errors, self._manager.change, self._at_hand(plan.install, errors), [])
        # whatever became of the packages, there may be room by now
        self._put(files, errors)
        with _noted(errors):
            back = {bare_name(name) for name, _version in plan.install}
            # apt takes the hold from what it is told to install
            held = {name: True for name, _version in plan.install if name in now.holds}
            self._manager.mark({**held, **plan.holds}, [name for name in self._automatic if bare_name(name) in back])
        then = self._manager.snapshot()
        self.difference = (self._shown(now), self._shown(then))
        restored, left = undone(changes, then)
        # what the plan left says why
        told = [text for text in left if not any(text.split(" ")[0] == why.split(" ")[0] for why in plan.left)]
        if not told:
            self.forget()
        return Outcome(
            restored, plan.left + self._left(now) + told + (list(dict.fromkeys(errors)) if told else []), not told
        )

    def _at_hand(self, wanted: t.Sequence[tuple[str, str]], errors: list[str]) -> list[tuple[str, str]]:
        """Of some packages the stack, as a whole, and those others that the repositories have: one that is gone for good keeps no stack away."""
        others = [name for name, _version in wanted if not is_stack_package(name)]
        known: set[tuple[str, str]] = set()
        with _noted(errors):
            known = {(bare_name(name), version) for name, version in self._manager.offered(others)} if others else known
        return [pair for pair in wanted if is_stack_package(pair[0]) or (bare_name(pair[0]), pair[1]) in known]

    def _put(self, files: dict[str, t.Optional[File]], errors: list[str]) -> None:
        """Puts files back, and keeps in `files` those for which there is no room."""
        for path in list(files):
            with _noted(errors):
                self._manager.put_files({path: files[path]})
                del files[path]
