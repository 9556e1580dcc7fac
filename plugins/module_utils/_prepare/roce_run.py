# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does what a plan of RoCE settings says, proves it, and takes all of it back where it does not come out right. Private."""

from __future__ import annotations

import contextlib
import os
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base import places, remembered
from ansible_collections.fabric.rdma.plugins.module_utils._base.change import lost_ports
from ansible_collections.fabric.rdma.plugins.module_utils._base.digest import digest
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import (
    back_up,
    make_directories,
    read,
    replace,
    sync_directory,
    unlink,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import DirectoryTree, Tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.default_routes import routes_answer
from ansible_collections.fabric.rdma.plugins.module_utils._discover.devices import read_devices
from ansible_collections.fabric.rdma.plugins.module_utils._discover.roce import RULES, UNITS, qos_answer, read_roce
from ansible_collections.fabric.rdma.plugins.module_utils._discover.ways import mounts_over_rdma, stack_of
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.networks import ssh_connection, ssh_netdevs
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce import (
    FIRMWARE_PROGRAMS,
    Plan,
    Step,
    firmware_functions,
    parse_firmware,
    parse_tos,
    plan_roce,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce_journal import (
    Old,
    content,
    key_of,
    load_journal,
    made_journal,
)

__all__ = ["Host", "RoceError"]

Json = t.Dict[str, t.Any]
_NOT_WHOLE = "What it was before could not be put back in full"
Run = t.Callable[[t.List[str]], t.Tuple[int, str, str]]


class RoceError(FabricError):
    """A setting that did not come out right. whole: the host is as it was; otherwise the message says what of it is not."""

    whole = True


def _last_line(*texts: str) -> str:
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it says nothing"


class Host:
    """A host below a root, with the wishes of its group. run: runs a program: (exit status, output, error output).

    Programs belong to the live host: below another root than / none is run, and what needs one is an error. wait: seconds that ports have
    to be Active again.
    """

    def __init__(
        self,
        root: str,
        run: Run,
        wish: t.Any,
        want: t.Any,
        wait: float,
        live: t.Optional[bool] = None,
        backup: bool = True,
    ) -> None:
        """live: whether programs belong to the host below the root; by default when that is /. backup: keep a file beside its new one."""
        if not os.path.isdir(root):
            raise RoceError(f"root '{root}' cannot be read: it is not a directory")
        self._root = os.path.realpath(root).rstrip("/")
        self._live = not self._root if live is None else live
        self._run = run
        self._wish, self._want = wish, want
        self._wait = wait
        self._backup = backup
        # the old files, by path
        self.backups: dict[str, str] = {}
        # what takes everything back, by what it is of, the oldest first; and of what that is due
        self._journal: t.Optional[Json] = None
        self._begun: set[str] = set()
        self._copies: dict[str, str] = {}
        self._written: set[str] = set()

    # --- reading ---------------------------------------------------------------------------------------------------

    def _tree(self) -> Tree:
        qos = qos_answer(self._run)

        def ask(question: str, path: str) -> t.Optional[str]:
            return qos(path.lstrip("/")) if question == "qos" else routes_answer(question, path)

        return DirectoryTree(self._root or "/", ask if self._live else None)

    def facts(self) -> Json:
        """The subsets of ansible_facts.rdma that decide: devices, management (mounts alone) and roce."""
        tree = self._tree()
        devices = read_devices(tree, [])
        management = {"mounts_over_rdma": mounts_over_rdma(tree)}
        return {"devices": devices, "management": management, "roce": read_roce(tree, devices)}

    def plan(self, facts: Json) -> Plan:
        tree = self._tree()
        ssh: set[str] = set()
        for netdev in ssh_netdevs(tree, ssh_connection(tree, os.getpid())) if self._live else ():
            ssh |= stack_of(tree, netdev)
        return plan_roce(facts, self._wish, self._want, self._firmware(facts), ssh)

    def _firmware(self, facts: Json) -> dict[str, dict[int, t.Optional[str]]]:
        """What the firmware of the cards is set to, where the plan depends on it."""
        programs = facts["roce"]["programs"]
        program: t.Optional[str] = next((programs[name] for name in FIRMWARE_PROGRAMS if programs[name]), None)
        found: dict[str, dict[int, t.Optional[str]]] = {}
        if program is None or not self._live:
            return found
        for function in firmware_functions(facts, self._wish, self._want):
            status, output, _error = self._run([program, "-d", function, "-e", "q"])
            if status == 0:
                found[function] = parse_firmware(output)
        return found

    # --- writing ---------------------------------------------------------------------------------------------------

    def _execute(self, command: t.Sequence[str]) -> str:
        if not self._live:
            raise RoceError(f"{command[0]} is run on a live host only, and {self._root} is the root of another one")
        status, output, error = self._run(list(command))
        if status != 0:
            raise RoceError(f"`{' '.join(command)}` ended with status {status}: {_last_line(output, error)}")
        return output

    def _write(self, path: str, value: str) -> None:
        """Writes a file of the kernel, with one write(2), which is what it takes."""
        # resolved as the tree does, so that no link of a root leads out of it
        real = self._tree().real(path)
        if real is None:
            raise RoceError(f"{path} is no longer there")
        handle = os.open(self._root + real, os.O_WRONLY | os.O_CLOEXEC | os.O_TRUNC)
        try:
            os.write(handle, f"{value}\n".encode("ascii"))
        except OSError as exc:
            raise OSError(exc.errno, exc.strerror, path) from exc
        finally:
            os.close(handle)

    def _make(self, directory: str) -> None:
        """A directory of configfs, whose parent the kernel makes."""
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.mkdir(self._root + directory)

    def _entries(self) -> Json:
        entries: Json = self._journal["entries"] if self._journal else {}
        return entries

    def _begin(self, key: str) -> set[str]:
        """What is due to be taken back from now on."""
        new = {key} & set(self._entries()) - self._begun
        self._begun |= new
        return new

    def _take(self, step: Step) -> t.Optional[str]:
        """Takes a step. What is left to the next boot, in words, None when all of it is done."""
        if step.path is not None:
            self._begin(key_of(step))
            self._write(step.path, step.value)
            return None
        if step.directory:
            self._make(step.directory)
        # also where it fails, since it may have done half of it
        new = self._begin(key_of(step))
        try:
            output = self._execute(step.command)
        except RoceError as exc:
            if step.later:
                self._begun -= new
                return f"{step.setting} {step.after} comes with the next boot, since it cannot be set now: {exc}"
            raise
        if step.directory:
            # the program may have mounted configfs, and removes a directory that it has made
            self._make(step.directory)
        if step.setting == "tos" and parse_tos(output) != int(step.after):
            raise RoceError(f"`{' '.join(step.command)}` says {_last_line(output)}, expected {step.after}")
        return None

    def _put(self, path: str, data: t.Optional[bytes], planned: t.Optional[str]) -> None:
        """Writes a file of /etc, or removes it. planned: the digest of what the plan was made from."""
        here = self._root + path
        before = read(here)
        if digest(before) != planned:
            raise RoceError(f"{path} was changed by somebody else since it was read, and was left alone; run again")
        if before == data:
            return
        kept = back_up(here, before) if self._backup and before is not None and data is not None else None
        try:
            if data is None:
                unlink(here)
                sync_directory(os.path.dirname(here))
            else:
                make_directories(os.path.dirname(os.path.realpath(here)))
                replace(here, data, before)
        except BaseException:
            # it may have come as far as its last step
            if read(here) == data:
                self._begin(path)
                self._copies.update({path: kept} if kept else {})
            elif kept:
                unlink(kept)
            raise
        self._begin(path)
        self._written.add(path)
        if kept:
            self.backups[path] = self._copies[path] = kept

    def _undo(self, entry: Json) -> None:
        """Takes one change back, also one that a killed run may have made."""
        if "path" in entry:
            self._write(entry["path"], entry["value"])
        elif "command" in entry:
            self._execute(entry["command"])
        else:
            self._take_back(entry)

    def _take_back(self, entry: Json) -> None:
        """Undoes what `_put` did, unless somebody else has written there since."""
        here = self._root + entry["file"]
        now, before = read(here), content(entry)
        if now != before:
            if digest(now) not in entry["ours"]:
                raise RoceError(f"{here} was changed by somebody else just now, and stays as it is")
            if before is None:
                unlink(here)
            elif entry["link"] is not None and not os.path.lexists(here):
                os.symlink(entry["link"], here)
            else:
                replace(here, before, now)
            sync_directory(os.path.dirname(here))
        if entry["file"] in self._copies:
            unlink(self._copies[entry["file"]])

    def _reload(self) -> None:
        """Has systemd and udev read what was written."""
        start = UNITS.partition("*")[0]
        if self._live and any(path.startswith(start) for path in self._written):
            self._execute(["systemctl", "daemon-reload"])
        if self._live and RULES in self._written:
            self._execute(["udevadm", "control", "--reload"])

    # --- the whole -------------------------------------------------------------------------------------------------

    def change(self, before: Json, plan: Plan) -> tuple[Json, list[str]]:
        """Does what the plan says: (facts afterwards, what is pending). before: the facts that the plan was made of.

        RoceError when a step fails, does not take, or costs a port its Active state; then all is as before, or the message names what is
        not. Files for the next boot are written when the live host has proved well. A change of an earlier run that never finished is
        taken up: "before" is then what was before it.
        """
        try:
            devices = self._open(before, plan)
            later = [said for said in map(self._take, plan.steps) if said]
            if plan.steps or self._begun:
                self._prove({"devices": devices})
            for path, data in plan.files.items():
                self._put(path, data, before["roce"]["files"].get(path))
            self._reload()
            if plan.noted and self._live:
                self._remember(plan.noted)
            self._close()
            return self.facts(), [*plan.pending, *later]
        except (OSError, FabricError) as exc:
            said = f"{exc.filename}: {exc.strerror}" if isinstance(exc, OSError) else str(exc)
            told = self._restore()
            failed = RoceError(". ".join([said, *told]))
            # nothing of this run, but half of an earlier one
            half = not self._begun and bool(before["roce"]["unfinished"])
            failed.whole = not half and not told[0].startswith(_NOT_WHOLE)
            raise failed from exc

    def _open(self, before: Json, plan: Plan) -> list[Json]:
        """Keeps what takes the change back on the disk, before anything is changed: the devices as they were then."""
        path = self._root + places.ROCE_CHANGE
        earlier = load_journal(remembered.recall(path), path)
        files: dict[str, Old] = {}
        for each, data in plan.files.items():
            here = self._root + each
            link = os.readlink(here) if data is None and os.path.islink(here) else None
            files[each] = (read(here), link)
        boot = self._tree().text(places.BOOT_ID)
        journal = made_journal(before, plan, files, boot, earlier)
        if plan.steps or plan.files:
            remembered.remember(path, journal)
        self._begun = set(earlier["entries"]) & set(journal["entries"]) if earlier else set()
        self._written = {entry["file"] for entry in journal["entries"].values() if "file" in entry} & self._begun
        self._journal = journal
        devices: list[Json] = journal["devices"]
        return devices

    def _close(self) -> None:
        """The change has finished. Where that cannot be noted, the next run finds everything done, and notes it."""
        with contextlib.suppress(OSError):
            remembered.forget(self._root + places.ROCE_CHANGE)

    def _remember(self, noted: t.Mapping[str, str]) -> None:
        boot = self._tree().text(places.BOOT_ID)
        remembered.remember(places.ROCE, {"boot_id": boot, "link_types": dict(noted)})

    def _prove(self, before: Json) -> None:
        """That every port is Active that was, and every value what was written."""
        end = time.monotonic() + self._wait
        while True:
            facts = self.facts()
            lost = lost_ports(before, facts)
            if not lost or time.monotonic() >= end:
                break
            time.sleep(min(1, max(0.05, self._wait / 10)))
        if lost:
            raise RoceError(f"the host is worse than before: {'; '.join(lost)}")
        left = self.plan(facts)._replace(files={})
        steps = [step for step in left.steps if not step.later]
        if steps:
            words = [f"{step.setting} of {step.target} is {step.before}" for step in steps[:5]]
            raise RoceError(
                f"not every setting took effect: {', '.join(words)}, and the program or the driver reported no error"
            )

    def _restore(self) -> list[str]:
        """Takes everything back, the newest first: what the message says of it."""
        if not self._begun:
            # a journal of an earlier run that cannot be read, or of which nothing could be written, stays
            if self._journal is not None:
                self._close()
            return ["Nothing was changed"]
        failed = []
        for entry in [entry for key, entry in reversed(list(self._entries().items())) if key in self._begun]:
            try:
                self._undo(entry)
            except (OSError, FabricError) as exc:
                failed.append(f"{exc.filename}: {exc.strerror}" if isinstance(exc, OSError) else str(exc))
        with contextlib.suppress(OSError, FabricError):
            self._reload()
        if failed:
            # what is known of it stays for the next run
            return [f"{_NOT_WHOLE}: {'; '.join(failed)}"]
        self._close()
        return ["What it was before was put back"]
