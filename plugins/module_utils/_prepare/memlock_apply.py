# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lifting RLIMIT_MEMLOCK on a node: look, plan, prove, change, restart, check, and put back what was. Private.

The order is what makes it safe. Nothing is written before the daemon's own merge of a candidate configuration shows that
only the wanted settings differ. A specification is there before the configuration that names it. The daemon is restarted
only when something changed, or runs with something older than its files. Afterwards its CRI plugin is asked, not systemd: a
containerd with a specification that it cannot read is "active", and its node is dead. What was is put back when the answer
is not good, and a run that is killed anywhere leaves a journal, from which the next one does that.
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import json
import os
import re
import tempfile
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.difference import difference
from ansible_collections.fabric.rdma.plugins.module_utils._base.digest import digest
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import errors_name, make_directories
from ansible_collections.fabric.rdma.plugins.module_utils._base.go_paths import matches
from ansible_collections.fabric.rdma.plugins.module_utils._base.transaction import (
    Overtaken,
    Transaction,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd import config as _containerd, config_edit as _edit
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.limits import (
    Limit,
    limit_text,
    parse_limits,
    parse_unit_limit,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci import UNLIMITED, SpecError, load_spec
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci_edit import changes_in_words
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import TomlError, parse
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml_edit import remove_value, set_value
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.units import CONTAINERD_SOCKET
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_daemon import (
    Daemon,
    Node,
    check_cri,
    cri_status,
    find_daemon,
    read_daemon,
    unit_log,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_plan import (
    MemlockError,
    Wish,
    drop_in,
    plan_specs,
    reaches,
    unreadable_specs,
)

__all__ = ["lift"]

Json = t.Dict[str, t.Any]

_DROP_IN = "90-fabric-rdma-memlock.conf"
# How long a daemon that looks healthy has to stay so: a plugin that fails late, or a main process that ends at once.
_SETTLE_SECONDS = 2.0
_POLL_SECONDS = 0.5
# /proc gives the start of a process in hundredths of a second.
_START_ERROR_SECONDS = 0.01
_OLDEST = (1, 6)

# Why the method spec is nothing for a distribution, and what is.
_NO_SPEC = {
    "k0s": "k0s merges the CRI part of containerd's configuration by itself",
    "microk8s": "MicroK8s rewrites containerd's configuration at every start",
}

# Stands for a directory into which files may be put.
_OPEN = ".toml"

_GENERATED = {"k3s": "k3s", "rke2": "RKE2"}
_FRESH = "what containerd makes now"


class _Unhealthy(FabricError):
    """Why the daemon is not as it should be after a restart."""


class _Change(t.NamedTuple):
    """What to do. files: (path, content) in the order of writing. specs: base_runtime_spec of the handlers that are
    concerned, afterwards; wanted: of those whose configuration changes. dump: the configuration before.
    """

    files: list[tuple[str, bytes]]
    diff: list[Json]
    reload: bool
    specs: dict[str, str]
    wanted: dict[str, str]
    reasons: list[str]
    dump: t.Optional[str]
    drift: list[str]


def lift(node: Node, wish: Wish, check_mode: bool, timeout: float) -> Json:
    """Does it; the result of the module. FabricError says what is wrong, what was put back, and what to do.

    timeout: seconds that containerd has to become healthy after a restart.
    """
    with contextlib.ExitStack() as stack:
        if not check_mode:
            stack.enter_context(_lock(node.state_directory))
        return _Run(node, wish, check_mode, timeout).run()


@contextlib.contextmanager
def _lock(directory: str) -> t.Iterator[None]:
    """One run at a time on a node; the kernel lets go of it when the process ends, however it does."""
    # others keep what they have to know beside it
    make_directories(os.path.dirname(directory))
    make_directories(directory, 0o700)
    with open(os.path.join(directory, "lock"), "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise MemlockError("another run changes containerd on this node now", "wait until it has ended") from exc
        yield


class _Run:
    def __init__(self, node: Node, wish: Wish, check_mode: bool, timeout: float) -> None:
        self.node = node
        self.wish = wish
        self.check_mode = check_mode
        self.timeout = timeout
        self.transaction = Transaction(node.state_directory, node.step)
        self.warnings: list[str] = []
        # what a restart takes over besides
        self.pending: list[str] = []
        # content of files as it will be when an unfinished run has been undone, in check mode
        self.overlay: dict[str, t.Optional[bytes]] = {}
        # what the files were that the plan is made from: nothing is written when they are something else by then
        self.planned: dict[str, t.Optional[str]] = {}
        self.socket = CONTAINERD_SOCKET
        # whether files were put back that containerd has not read
        self.unread = False

    # --- the whole --------------------------------------------------------------------------------------------------

    def run(self) -> Json:
        if not self.check_mode:
            self.transaction.tidy()
        died = self.transaction.unfinished()
        if died:
            self._recover(died)
        try:
            return self._settle(died)
        except MemlockError as exc:
            if not self.unread:
                raise
            raise MemlockError(
                f"{exc}. Before that, this run restored the files that a run begun at {(died or {})['since']} had changed before it was "
                "killed. containerd has not read them yet: the next run restarts it"
            ) from exc

    def _settle(self, died: t.Optional[Json]) -> Json:
        """All but what a killed run has left, which is undone by now. died: what is known of that run."""
        try:
            daemon = read_daemon(self.node)
        except MemlockError as exc:
            if not (died and self.check_mode):
                raise
            raise MemlockError(
                f"a run that began at {died['since']} was killed, and left this: {exc}. A run without check mode puts "
                "back what was, and restarts containerd"
            ) from exc
        self._refuse(daemon)
        dump = self._merged(daemon, {}) if self.overlay else self._dump(daemon, daemon.config_path)
        self.socket = daemon.socket or _address(dump) or CONTAINERD_SOCKET
        broken = check_cri(self.node, daemon.ctr, self.socket)
        if broken and not (died and self.check_mode):
            unchanged = "" if died else ", and nothing was changed"
            raise MemlockError(
                f"containerd is not healthy{unchanged}: {broken[1]}", "Repair that first, then run again"
            )
        running = {} if broken else cri_status(self.node, self.socket)["handlers"]
        change = self._plan(daemon, dump, running)
        if died:
            change.reasons.insert(0, f"a run that began at {died['since']} was killed before its end")
        restart = bool(change.files or change.reasons)
        restarted = restart and not self.check_mode
        if restarted:
            daemon = self._do(daemon, change)
        return self._result(daemon, change, restart, restarted, running, bool(died))

    def _recover(self, died: Json) -> None:
        """Undoes what a run that was killed has left, so that this one starts from the last good configuration."""
        if self.check_mode:
            self.overlay = self.transaction.before()
            return
        self.warnings += self.transaction.undo()
        self.unread = True
        unit = str(died["unit"])
        self._systemctl("daemon-reload")
        self.node.step("recovered")
        try:
            _pid, found = find_daemon(self.node)
            broken = check_cri(self.node, str(died["ctr"]), str(died["socket"])) if found == unit else (True, "")
        except MemlockError as exc:
            broken = (True, str(exc))
        if broken:
            self.socket = str(died["socket"])
            try:
                self._restart(unit, str(died["ctr"]), 0, {}, False)
                self.unread = False
            except _Unhealthy as exc:
                raise MemlockError(
                    f"a run that began at {died['since']} was killed; its changes are undone, but containerd is not healthy: {exc}"
                ) from exc

    # --- looking ----------------------------------------------------------------------------------------------------

    def _refuse(self, daemon: Daemon) -> None:
        """What makes a change unsafe, or without effect."""
        if daemon.generation < _OLDEST:
            raise MemlockError(f"containerd {daemon.version} is older than 1.6, the oldest that is known here")
        if daemon.user_namespace:
            raise MemlockError(
                "containerd runs in a user namespace, where no limit can be raised", "raise it on the host around it"
            )
        if daemon.kill_mode != "process":
            raise MemlockError(
                f"{daemon.unit} has KillMode={daemon.kill_mode}: a restart would kill every Pod of the node",
                "Set KillMode=process in the unit, run `systemctl daemon-reload`, then run again",
            )
        if self.wish.method == "spec" and daemon.distribution in _NO_SPEC:
            raise MemlockError(
                f"method spec: {_NO_SPEC[daemon.distribution]}", "set rdma_memlock.method to limit for this host"
            )
        memlock = daemon.limits.get("memlock")
        if not reaches(memlock, self.wish.rlimit) and not self.node.can_raise_limits():
            raise MemlockError(
                f"containerd may lock {limit_text(memlock)}, and the service manager cannot raise that: it lacks "
                "CAP_SYS_RESOURCE",
                "Is this a container? Raise the limit on the host around it",
            )

    def _read(self, path: str) -> t.Optional[bytes]:
        real = os.path.realpath(path)
        if real in self.overlay:
            return self.overlay[real]
        data = self.node.read(path)
        self.planned.setdefault(real, digest(data))
        return data

    def _text(self, path: str) -> t.Optional[str]:
        data = self._read(path)
        try:
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise MemlockError(f"{path} is not UTF-8: {exc}") from exc

    def _glob(self, pattern: str) -> list[str]:
        # without those that undoing removes; a link that leads nowhere is one of containerd's, which does not start with it
        return [path for path in self.node.glob(pattern) if self.overlay.get(os.path.realpath(path), b"") is not None]

    def _dump(self, daemon: Daemon, path: str) -> str:
        """The configuration as the daemon merges it. May hold credentials: never returned, never in a message."""
        # the daemon runs without a file; the dump of 1.x does not
        alone = daemon.generation < (2, 0) and path == daemon.config_path and self.node.read(path) is None
        words = ["config", "default"] if alone else ["--config", path, "config", "dump"]
        status, output, error = self.node.command([daemon.program, *words])
        if status != 0:
            # containerd's message holds the place and the reason, not the content
            raise MemlockError(f"containerd cannot read {path}: {_last_line(error)}")
        return output

    def _fresh(self, daemon: Daemon) -> Json:
        status, output, error = self.node.command([daemon.ctr, "oci", "spec"])
        if status != 0:
            raise MemlockError(f"`{daemon.ctr} oci spec` ended with {status}: {error.strip()}")
        return load_spec(output.encode("utf-8"), f"the output of `{daemon.ctr} oci spec`")

    # --- planning ---------------------------------------------------------------------------------------------------

    def _plan(self, daemon: Daemon, dump: str, running: t.Mapping[str, Json]) -> _Change:
        change = _Change([], [], False, {}, {}, [], None, [])
        specs = self._refuse_unstartable(daemon, running)
        if self.wish.method == "spec":
            change = self._plan_spec(daemon, dump, running)
        others = {
            name: path for name, path in specs.items() if name not in change.specs and path not in dict(change.files)
        }
        self._refuse_unreadable(daemon, others, running)
        change = self._plan_limit(daemon, change)
        lost = sorted(set(running) - set(specs)) if specs else []
        # without a restart it stays
        if lost and (change.files or change.reasons or self.unread or self.overlay):
            raise MemlockError(
                f"containerd runs with the runtime handler {', '.join(lost)}, which its files ({daemon.config_path}) do not define any more: "
                "no Pod of it would start after a restart",
                "Define it there again, or restart containerd yourself where it is to go, then run again",
            )
        return change

    def _refuse_unreadable(
        self, daemon: Daemon, specs: t.Mapping[str, t.Optional[str]], running: t.Mapping[str, Json]
    ) -> None:
        """Specifications that stay as they are, by handler. What the daemon has read as it is now, it reads again.

        A file that was put there with the time of another one, as by cp -p or rsync, looks as old as that: it has to be JSON at least.
        """
        unread = {}
        for name, path in specs.items():
            if path is None:
                continue
            # containerd takes a relative one from its own directory
            place = os.path.join(self.node.proc_link(f"{daemon.pid}/cwd") or "/", path)
            same = (running.get(name) or {}).get("base_runtime_spec") == path and not self._newer(daemon, place)
            if not same or not _is_object(self._read(place)):
                unread[name] = place
        problems = unreadable_specs(unread, self._read)
        if problems:
            raise MemlockError("; ".join(problems))

    def _refuse_unstartable(self, daemon: Daemon, running: t.Mapping[str, Json]) -> dict[str, t.Optional[str]]:
        """What is in the files already, and would make the next start worse than the daemon that runs; base_runtime_spec by handler.

        containerd itself starts with all of these but a file that is missing; its CRI plugin, or the Pods of the handler, do not.
        """
        try:
            files = self._load(daemon, self._text)
            handlers = _containerd.effective(files, daemon.generation)
            default = _containerd.default_handler(files, daemon.generation)
        except _containerd.MissingFile:
            raise
        except (TomlError, _containerd.ConfigError):
            if self.wish.method == "limit":
                # containerd has read them, its dump says so
                return {}
            raise
        if default not in handlers:
            raise MemlockError(
                f"the configuration of containerd ({daemon.config_path}) has default_runtime_name {default}, and no "
                f"such runtime handler (it has {', '.join(sorted(handlers)) or 'none'}): its CRI plugin would not "
                "come back from a restart",
                "Name one that is there, then run again",
            )
        bare = sorted(name for name, handler in handlers.items() if not handler.runtime_type and name not in running)
        if bare or not handlers[default].runtime_type:
            raise MemlockError(
                f"the runtime handler {', '.join(bare or [default])} has no runtime_type in the configuration of "
                f"containerd ({daemon.config_path}): no Pod of it would start "
                "after a restart",
                'Set it (runtime_type = "io.containerd.runc.v2"), or remove the handler, then run again',
            )
        return {name: handler.base_runtime_spec for name, handler in handlers.items()}

    def _plan_spec(self, daemon: Daemon, dump: str, running: t.Mapping[str, Json]) -> _Change:
        files = self._load(daemon, self._text)
        effective = _containerd.effective(files, daemon.generation)
        known = sorted(set(effective) | set(running))
        names = known if self.wish.handlers is None else self.wish.handlers
        missing = sorted(set(names) - set(known))
        if missing:
            raise MemlockError(
                f"containerd has no runtime handler {', '.join(missing)}; it has {', '.join(known) or 'none'}"
            )
        configured = {name: effective[name].base_runtime_spec if name in effective else None for name in names}
        directory = os.path.dirname(os.path.realpath(daemon.config_path))
        specs = plan_specs(configured, self._read, self._fresh(daemon), self.wish.rlimit, directory)
        if specs.refusals:
            raise MemlockError("; ".join(specs.refusals))
        wanted = {name: path for name, path in specs.paths.items() if configured[name] != path}
        written: list[tuple[str, bytes]] = sorted(specs.files.items())
        diff = [changes_in_words(path, _FRESH, specs.changes[path]) for path in sorted(specs.files)]
        reasons: list[str] = []
        if wanted:
            for path, text in self._edits(daemon, files, wanted, dump, running).items():
                diff.append(_text_diff(path, self._text(path), text))
                written.append((path, text.encode("utf-8")))
        self._prove(daemon, dump, dict(written), wanted)
        if not written:
            reasons += self._stale(daemon, specs.paths, running)
        self._note_pending(daemon, files)
        drift = [f"{path}: {place}" for path, places in sorted(specs.drift.items()) for place in places]
        return _Change(written, diff, False, specs.paths, wanted, reasons, dump, drift)

    def _load(
        self, daemon: Daemon, read: t.Callable[[str], t.Optional[str]], new: t.Sequence[str] = ()
    ) -> list[_containerd.ConfigFile]:
        def glob(pattern: str) -> list[str]:
            created = [path for path in new if matches(path, pattern)]
            return list({*self._glob(pattern), *created})

        return _containerd.load(daemon.config_path, read, glob, daemon.generation)

    def _edits(
        self,
        daemon: Daemon,
        files: list[_containerd.ConfigFile],
        wanted: t.Mapping[str, str],
        dump: str,
        running: t.Mapping[str, Json],
    ) -> dict[str, str]:
        generated = daemon.distribution in _GENERATED
        if generated:
            files = _with_open_imports(files)
        plan = _edit.plan_edits(
            files, daemon.generation, wanted, dump, daemon.config_path, running or None, main_too=not generated
        )
        if plan.refusals:
            raise MemlockError("; ".join(plan.refusals))
        edits = {**plan.edits, **plan.creates}
        if generated and daemon.config_path in edits:
            why = "that file imports no directory for files of others"
            if any(os.path.basename(file.path) == _OPEN for file in files) and daemon.generation < (2, 0):
                why = f"with containerd {daemon.version} a file beside it would replace all settings of its CRI plugin"
            raise MemlockError(
                f"{_GENERATED[daemon.distribution]} rewrites {daemon.config_path} at every start, and {why}; upgrade "
                "to a release with containerd 2 that does (config-v3.toml.d), or set rdma_memlock.method to limit "
                "for this host"
            )
        return dict(sorted(edits.items()))

    def _prove(self, daemon: Daemon, dump: str, written: t.Mapping[str, bytes], wanted: t.Mapping[str, str]) -> None:
        """MemlockError unless the daemon's merge of copies of its files with the edits in them shows just what is wanted."""
        if wanted:
            self._compare(dump, self._merged(daemon, written), wanted)

    def _merged(self, daemon: Daemon, written: t.Mapping[str, bytes]) -> str:
        """The configuration as the daemon would merge it with these files in their places.

        It is given copies without a name, and the main one lists the others one by one: nothing is written where the daemon
        looks for files.
        """

        def read(path: str) -> t.Optional[str]:
            return written[path].decode("utf-8") if path in written else self._text(path)

        files = self._load(daemon, read, [path for path in written if path.endswith(".toml")])
        with contextlib.ExitStack() as stack:

            def copy(text: str) -> str:
                return stack.enter_context(_unnamed(self.node.scratch, text))

            copies = [copy(_without_imports(file.text)) for file in files[1:]]
            root = _without_imports(files[0].text) if files else ""
            return self._dump(daemon, copy(set_value(root, ["imports"], copies) if copies else root))

    @staticmethod
    def _compare(before: str, after: str, wanted: t.Mapping[str, str]) -> None:
        """MemlockError unless two dumps differ in the wanted settings and in nothing else."""
        found = {}
        for key, _old, new in _edit.dump_difference(before, after):
            if key.split(".")[0] == "imports":
                continue
            handler = _handler_of(key)
            if handler is None or new != wanted.get(handler):
                # the key alone: a value may be a credential
                raise MemlockError(
                    f"the edit would change {key}, too, as containerd merges its files",
                    "Set base_runtime_spec by hand where that setting is made, or set rdma_memlock.method to limit",
                )
            found[handler] = new
        lost = sorted(set(wanted) - set(found))
        if lost:
            raise MemlockError(
                f"the edit would have no effect on the runtime handler {', '.join(lost)}: another file that is loaded "
                "later replaces it",
                "Set base_runtime_spec there, or set rdma_memlock.method to limit",
            )

    def _plan_limit(self, daemon: Daemon, change: _Change) -> _Change:
        """The drop-in of the unit, and what else hangs on the limit of the daemon itself."""
        rlimit = self.wish.rlimit
        memlock = daemon.limits.get("memlock")
        path = os.path.join(self.node.unit_directory, daemon.unit + ".d", _DROP_IN)
        ours = self._read(path)
        # what systemd says of the unit is of before
        reload = daemon.properties.get("NeedDaemonReload") == "yes" or os.path.realpath(path) in self.overlay
        unit = None if reload else parse_unit_limit(daemon.properties)
        files, diff = list(change.files), list(change.diff)
        written = False
        wanted = drop_in(rlimit)
        due = ours != wanted and (ours is not None or not (reaches(memlock, rlimit) and reaches(unit, rlimit)))
        restart = due or bool(change.files or change.reasons) or not reaches(memlock, rlimit)
        # ours does not help against it, and no restart does; one for another reason would take what the daemon has
        counts = due if unit is None else restart and not reaches(unit, rlimit)
        if counts:
            self._refuse_later_drop_in(daemon)
        if due:
            files.append((path, wanted))
            diff.append(_text_diff(path, None if ours is None else ours.decode("utf-8", "replace"), wanted.decode()))
            written = True
        if daemon.distribution == "microk8s":
            written |= self._plan_microk8s(daemon, files, diff)
        reasons = list(change.reasons)
        if not written and not reaches(memlock, rlimit):
            reasons.append(
                f"containerd may lock {limit_text(memlock)}, and its unit gives {limit_text(unit)}: it was not restarted since"
            )
        if (written or reload) and (files or reasons):
            self._warn_of_reload()
        return change._replace(files=files, diff=diff, reload=written or reload, reasons=reasons)

    def _warn_of_reload(self) -> None:
        """https://github.com/NVIDIA/nvidia-container-toolkit/issues/48: what runc could not tell it, systemd takes away at a reload."""
        gpus = self.node.unlinked_gpus()
        if gpus:
            self.warnings.append(
                f"{', '.join(gpus)} {'has' if len(gpus) == 1 else 'have'} no link in /dev/char: containers that use GPUs may lose them "
                "(NVML: Unknown Error) when systemd is reloaded, as it is for this change. Drain the node first, or recreate their Pods "
                "afterwards; `nvidia-ctk system create-dev-char-symlinks --create-all` at boot, before Pods are made, prevents it"
            )

    def _refuse_later_drop_in(self, daemon: Daemon) -> None:
        for path in daemon.properties.get("DropInPaths", "").split():
            if os.path.basename(path) > _DROP_IN:
                text = (self._read(path) or b"").decode("utf-8", "replace")
                if re.search(r"^\s*LimitMEMLOCK\s*=", text, re.MULTILINE):
                    raise MemlockError(f"{path} sets LimitMEMLOCK after {_DROP_IN} would", "change or remove it")

    def _plan_microk8s(self, daemon: Daemon, files: list[tuple[str, bytes]], diff: list[Json]) -> bool:
        """MicroK8s' own start script sets the limit once more (args/containerd-env: ulimit -l 16384)."""
        path = os.path.join(os.path.dirname(daemon.config_path), "containerd-env")
        text = self._text(path)
        if text is None:
            return False
        rlimit = self.wish.rlimit
        number = "unlimited" if rlimit.hard == UNLIMITED else str(rlimit.hard // 1024)
        new = re.sub(r"^(\s*ulimit\s+-l\s+)\S+", lambda found: found.group(1) + number, text, flags=re.MULTILINE)
        if new == text:
            return False
        files.append((path, new.encode("utf-8")))
        diff.append(_text_diff(path, text, new))
        return True

    def _stale(self, daemon: Daemon, specs: t.Mapping[str, str], running: t.Mapping[str, Json]) -> list[str]:
        """Why the daemon runs with something else than what its files say, though these need no change."""
        reasons = []
        for name, path in sorted(specs.items()):
            now = (running.get(name) or {}).get("base_runtime_spec")
            if now != path:
                reasons.append(
                    f"containerd runs the handler {name} with {now or 'no base_runtime_spec'}, its files say {path}"
                )
        for path in sorted(set(specs.values())):
            if self._newer(daemon, path):
                reasons.append(f"{path} was changed after containerd had started")
        return reasons

    def _newer(self, daemon: Daemon, path: str) -> bool:
        """Whether a file was changed since the daemon started, by what we noted then, else by the times."""
        last = self.transaction.last()
        if last.get("daemon") == self._identity(daemon):
            noted = last.get("files", {}).get(path)
            if noted is not None and noted == digest(self._read(path)):
                return False
        modified = self.node.modified(path)
        return modified is not None and modified > daemon.started_at + _START_ERROR_SECONDS

    def _identity(self, daemon: Daemon) -> list[t.Any]:
        return [self.node.proc_text("sys/kernel/random/boot_id").strip(), daemon.pid, daemon.started]

    def _note_pending(self, daemon: Daemon, files: t.Sequence[_containerd.ConfigFile]) -> None:
        for file in files:
            if self.node.read(file.path) is not None and self._newer(daemon, file.path):
                self.pending.append(
                    f"{file.path} was changed after containerd had started; a restart takes over that, too"
                )

    # --- doing ------------------------------------------------------------------------------------------------------

    def _do(self, daemon: Daemon, change: _Change) -> Daemon:
        note = {"unit": daemon.unit, "ctr": daemon.ctr, "socket": self.socket}
        restarted = False
        self.node.step("planned")
        try:
            self.transaction.begin(change.files, note, self.planned)
            self.transaction.apply()
            if change.reload:
                self._systemctl("daemon-reload")
                self.node.step("reloaded")
            if change.dump is not None:
                self._prove_written(daemon, change)
            restarted, self.unread = True, False
            new = self._restart(daemon.unit, daemon.ctr, daemon.main_pid, change.specs, True)
        except Overtaken:
            raise
        except (FabricError, OSError) as exc:
            reason = _os_error(exc) if isinstance(exc, OSError) else str(exc)
            if restarted and not change.files and self._is_well(daemon):
                # a second restart with the same files would only cost Pods another one
                self.transaction.finish()
                raise MemlockError(f"{reason}. No file was changed, so none is put back") from exc
            raise self._restore(daemon, reason, change.reload, restarted) from exc
        paths = sorted({*change.specs.values(), *(path for path, _data in change.files)})
        paths += [file.path for file in self._load(daemon, self._text)] if change.dump is not None else []
        files = {path: digest(self.node.read(path)) for path in paths}
        unkept = self.transaction.finish({"daemon": self._identity(new), "files": files})
        if unkept:
            self.warnings.append(
                f"all is done, but it could not be noted ({unkept}); the next run may restart containerd once more for nothing"
            )
        return new

    def _is_well(self, daemon: Daemon) -> bool:
        try:
            return not check_cri(self.node, daemon.ctr, self.socket)
        except MemlockError:
            return False

    def _prove_written(self, daemon: Daemon, change: _Change) -> None:
        """The same proof with the files in their places."""
        self._compare(change.dump or "", self._dump(daemon, daemon.config_path), change.wanted)
        self.node.step("proved")

    def _systemctl(self, *arguments: str) -> None:
        status, _output, error = self.node.command(["systemctl", *arguments])
        if status != 0:
            raise MemlockError(f"`systemctl {' '.join(arguments)}` ended with {status}: {error.strip()}")

    def _restart(self, unit: str, ctr: str, old: int, specs: t.Mapping[str, str], limits: bool) -> Daemon:
        status, _output, _error = self.node.command(["systemctl", "restart", unit])
        self.node.step("restarted")
        if status != 0:
            raise _Unhealthy(f"containerd does not start: {unit_log(self.node, unit)}")
        deadline = self.node.clock() + self.timeout
        healthy: t.Optional[int] = None
        while True:
            lasting, reason, daemon = self._look(unit, ctr, old, specs, limits)
            if daemon is not None:
                if healthy == daemon.pid:
                    self.node.step("healthy")
                    return daemon
                healthy = daemon.pid
                self.node.sleep(_SETTLE_SECONDS)
                continue
            healthy = None
            if lasting or self.node.clock() >= deadline:
                raise _Unhealthy(reason)
            self.node.sleep(_POLL_SECONDS)

    def _look(
        self, unit: str, ctr: str, old: int, specs: t.Mapping[str, str], limits: bool
    ) -> tuple[bool, str, t.Optional[Daemon]]:
        """(it will not get better, reason, None), or (False, "", the daemon) when all is well."""
        try:
            properties = self.node.unit(unit)
            main_pid = int(properties.get("MainPID") or 0)
            if properties.get("ActiveState") != "active" or main_pid in (0, old):
                state = f"{properties.get('ActiveState')} ({properties.get('SubState')})"
                log = unit_log(self.node, unit)
                return properties.get("ActiveState") == "failed", f"{unit} is {state}: {log}", None
            broken = check_cri(self.node, ctr, self.socket)
            if broken:
                return broken[0], broken[1], None
            running = cri_status(self.node, self.socket)["handlers"]
            daemon = read_daemon(self.node)
        except MemlockError as exc:
            return False, str(exc), None
        for name, path in sorted(specs.items()):
            now = (running.get(name) or {}).get("base_runtime_spec")
            if now != path:
                instead = f"{now or 'no base_runtime_spec'} instead of {path}"
                return True, f"containerd runs the handler {name} with {instead}", None
        memlock = daemon.limits.get("memlock")
        if limits and not reaches(memlock, self.wish.rlimit):
            return True, f"containerd may still lock only {limit_text(memlock)} after the restart", None
        return False, "", daemon

    def _restore(self, daemon: Daemon, reason: str, reload: bool, restarted: bool) -> MemlockError:
        """Puts everything back; the error that tells it."""
        try:
            left = self.transaction.undo()
            if reload:
                self._systemctl("daemon-reload")
            self.node.step("undone")
            if restarted:
                # a daemon that ended over and over again is not started any more otherwise
                self.node.command(["systemctl", "reset-failed", daemon.unit])
                self._restart(daemon.unit, daemon.ctr, 0, {}, False)
            self.transaction.finish()
        except _Unhealthy as exc:
            return MemlockError(
                f"{reason}. The old files are back, but containerd is NOT healthy with them, either: {exc}. This node needs a look "
                "now; the next run tries the restart again"
            )
        except (FabricError, OSError) as exc:
            what = _os_error(exc) if isinstance(exc, OSError) else str(exc)
            return MemlockError(
                f"{reason}. Putting the old files back did NOT succeed: {what}. They are below "
                f"{self.node.state_directory}, and the next run tries again"
            )
        done = "The old configuration is back" + (
            " and containerd healthy with it" if restarted else ", nothing else changed"
        )
        return MemlockError(". ".join([reason, done, *left]))

    # --- telling ----------------------------------------------------------------------------------------------------

    def _result(
        self, daemon: Daemon, change: _Change, restart: bool, restarted: bool, running: t.Mapping[str, Json], died: bool
    ) -> Json:
        handlers = cri_status(self.node, self.socket)["handlers"] if restarted else running
        effective = {}
        for name in sorted(handlers):
            path = (
                change.specs.get(name)
                if self.check_mode and name in change.specs
                else handlers[name]["base_runtime_spec"]
            )
            effective[name] = {"base_runtime_spec": path, "memlock": self._effective(daemon, change, path)}
        return {
            "changed": restart,
            "restarted": restarted,
            "recovered": died,
            "reasons": change.reasons,
            "files": [path for path, _data in change.files],
            "backups": self.transaction.backups() if restarted else {},
            "handlers": effective,
            "daemon": {
                "pid": daemon.pid,
                "unit": daemon.unit,
                "version": daemon.version,
                "config": daemon.config_path,
                "distribution": daemon.distribution,
                "memlock": _limit(daemon.limits.get("memlock")),
                "nofile": _limit(daemon.limits.get("nofile")),
            },
            "stale_containers": self._stale_containers(),
            "drift": change.drift,
            "warnings": self.warnings + (self.pending if restart else []),
            "diff": change.diff or (_restart_diff(daemon.unit, change.reasons) if restart else []),
        }

    def _effective(self, daemon: Daemon, change: _Change, path: t.Optional[str]) -> t.Optional[Json]:
        """What a container that is made now gets."""
        if path is None:
            return _limit(daemon.limits.get("memlock"))
        data = dict(change.files).get(path) or self._read(path)
        try:
            entries = load_spec(data or b"", path)["process"].get("rlimits") or []
        except SpecError:
            return None
        found = [(entry["soft"], entry["hard"]) for entry in entries if entry["type"] == self.wish.rlimit.type]
        return _limit(found[-1] if found else None)

    def _stale_containers(self) -> list[Json]:
        """Running containers that have less than the wish: they keep what they had when they were made."""
        cri = self.node.cri(self.socket)
        try:
            containers = cri.containers()
            if self.wish.handlers is not None:
                default = cri.status()["default_handler"]
                containers = [one for one in containers if (one["handler"] or default) in self.wish.handlers]
        except FabricError as exc:
            self.warnings.append(f"the running containers are not known: {exc}")
            return []
        found = []
        for container in containers:
            memlock = parse_limits(self.node.proc_text(f"{container['pid']}/limits")).get("memlock")
            if memlock is not None and not reaches(memlock, self.wish.rlimit):
                keys = ("namespace", "pod", "container", "pid")
                found.append({**{key: container[key] for key in keys}, "memlock": _limit(memlock)})
        return found


# --- small things -----------------------------------------------------------------------------------------------------


def _os_error(error: OSError) -> str:
    # of a rename, the name that was to be replaced
    return f"{error.filename2 or error.filename}: {error.strerror}"


def _limit(limit: t.Optional[Limit]) -> t.Optional[Json]:
    if limit is None:
        return None
    soft, hard = ("unlimited" if value == UNLIMITED else value for value in limit)
    return {"soft": soft, "hard": hard}


def _address(dump: str) -> t.Optional[str]:
    try:
        address = (parse(dump).get("grpc") or {}).get("address")
    except (TomlError, AttributeError):
        return None
    return address if isinstance(address, str) and address else None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it does not say why"


@contextlib.contextmanager
def _unnamed(directory: str, text: str) -> t.Iterator[str]:
    """Where programs find a file that has no name: it may hold registry credentials, and is gone when this process is."""
    with tempfile.TemporaryFile(dir=directory) as stream:
        with errors_name(directory):
            stream.write(text.encode("utf-8"))
            stream.flush()
        yield f"/proc/{os.getpid()}/fd/{stream.fileno()}"


def _is_object(data: t.Optional[bytes]) -> bool:
    try:
        return isinstance(json.loads(data or b""), dict)
    except (ValueError, RecursionError):
        return False


def _without_imports(text: str) -> str:
    return remove_value(text, ["imports"]) if "imports" in parse(text) else text


def _with_open_imports(files: list[_containerd.ConfigFile]) -> list[_containerd.ConfigFile]:
    """The files, and an empty one in each directory that the main file imports: k3s and RKE2 keep these for others."""
    found = list(files)
    for pattern in (files[0].data.get("imports") or []) if files else []:
        absolute = os.path.normpath(os.path.join(os.path.dirname(files[0].path), pattern))
        directory, name = os.path.split(absolute)
        if name == "*.toml" and "*" not in directory:
            found.append(_containerd.ConfigFile(os.path.join(directory, _OPEN), "", files[0].version, {}))
    return found


def _handler_of(key: str) -> t.Optional[str]:
    """The runtime handler whose base_runtime_spec a key of a dump is."""
    found = re.search(r"\.containerd\.runtimes\.(.+)\.base_runtime_spec$", key)
    return found.group(1).strip("'\"") if found else None


def _text_diff(path: str, before: t.Optional[str], after: str) -> Json:
    """The lines that change, and no others: a configuration may hold credentials."""
    old = (before or "").splitlines(keepends=True)
    new = after.splitlines(keepends=True)
    gone: list[str] = []
    came: list[str] = []
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            gone += old[start:end]
            came += new[new_start:new_end]
    return difference(path, "".join(gone), "".join(came))


def _restart_diff(unit: str, reasons: t.Sequence[str]) -> list[Json]:
    """A restart that no file is changed for, and why."""
    before = "".join(f"{reason}\n" for reason in reasons)
    return [difference(unit, before, "restarted\n")]
