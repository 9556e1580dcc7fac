# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab: nodes that can be reached with SSH, as QEMU virtual machines with Soft-RoCE devices or as containers that boot.

Private to the collection. Runs on the controller only. A lab is a directory (state), its nodes are laid out there (layout), started
(starting), waited for (waiting) and ended (processes).
"""

from __future__ import annotations

import contextlib
import os
import time
import typing as t

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab import cluster
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.cluster import Kubernetes, build_kubernetes
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.container import bridge_name, bring_up, container_trouble
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.image import (
    Image,
    build_image,
    cached_image,
    module_files,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.layout import lay_out, prepare
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import (
    LabError,
    Progress,
    locked,
    read,
    require_tools,
    termination_is_an_exception,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.monitor import cables_of, plug
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.nodes import NodePlan
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.processes import guarded, stop_all
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.qemu import kvm_trouble
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.recipe import default_recipe
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.sources import (
    choose_sources,
    machine_sources,
    parse_os_release,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.starting import start_container, start_virtual_machines
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.state import (
    LOCK_FILE,
    LabDirectory,
    LabResult,
    LabSpec,
    lines_of,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.waiting import Panicked, wait_until_ready

__all__ = ["Lab"]

# How often virtual machines are started, when a kernel panics before all is ready.
BOOTS = 3
RUN_TOOLS = ("qemu-system-x86_64", "qemu-img", "ssh", "ssh-keygen")


@contextlib.contextmanager
def _timed(seconds: dict[str, float], name: str) -> t.Iterator[None]:
    started = time.monotonic()
    try:
        yield
    finally:
        # of a phase that comes again, all of it
        seconds[name] = seconds.get(name, 0.0) + time.monotonic() - started


def _lines_wanted(spec: LabSpec, engine: str) -> list[str]:
    """A lab as it is wished for, as `lines_of` has it."""
    nodes = [(node.name, node.address, True, cables_of(node) if engine == "qemu" else {}) for node in spec.nodes]
    return lines_of(nodes, True if spec.kubernetes else None)


class Lab:
    """A lab directory and what runs from it."""

    def __init__(self, directory: str, progress: Progress) -> None:
        self.place = LabDirectory(directory)
        self.progress = progress
        self._parent = os.getppid()
        # how often a kernel has panicked since nodes were to be started
        self._panics = 0
        # with what nodes have come up since then: it need not be found out again
        self._accel: str | None = None

    @property
    def directory(self) -> str:
        """Where the lab is."""
        return self.place.path

    def _alive(self) -> None:
        """Ansible's workers live on, unheard, when the process that started them was interrupted."""
        if os.getppid() != self._parent:
            raise LabError(f"the process that asked for the lab in {self.directory} has ended")

    def _result(self, changed: bool, **more: t.Any) -> LabResult:
        state = self.place.state()
        nodes = self.place.nodes()
        result = LabResult(
            changed=changed,
            directory=self.directory,
            nodes=nodes,
            # a state without the word is of virtual machines
            engine=state.get("engine", "qemu") if state else None,
            accel=state.get("accel"),
            image=state.get("image"),
        )
        if state.get("kubernetes"):
            result.kubeconfig, result.control_plane = cluster.kubeconfig_of(self.place), cluster.runs(self.place)
        result.after = lines_of(
            [(node.name, node.address, node.running, node.cables) for node in nodes], result.control_plane
        )
        for key, value in more.items():
            setattr(result, key, value)
        return result

    def status(self) -> LabResult:
        """What runs."""
        return self._result(False, notes=self._panicked())

    def _panicked(self) -> list[str]:
        """What there is to say of nodes whose kernel has given up."""
        names = [node.name for node in self.place.nodes() if node.pid is not None and not node.running]
        return [f"the kernel of {name} has panicked, see {self.place.node_path(name, 'console.log')}" for name in names]

    def present(self, spec: LabSpec, check: bool = False) -> LabResult:
        """Makes the lab run as wished: builds the image, starts the nodes, waits until each can be used.

        In check mode nothing is done, and `changed` says whether something would be.
        """
        notes: list[str] = []
        engine = self._engine(spec, notes)
        require_tools(RUN_TOOLS if engine == "qemu" else ("ssh", "ssh-keygen"))
        self.place.refuse_foreign()
        os_release = parse_os_release(read("/etc/os-release"))
        suite, sources = choose_sources(machine_sources(), os_release)
        recipe = default_recipe(suite, sources, os_release, module_files())
        image = cached_image(spec.cache_dir, recipe)
        before = self.status().after
        if check:
            wanted = image is not None and self._as_wished(spec, image)
            return self._result(not wanted, before=before, after=before if wanted else _lines_wanted(spec, engine))
        seconds: dict[str, float] = {}
        self._panics, self._accel = 0, None
        with termination_is_an_exception(), self._lock():
            if image is None:
                with _timed(seconds, "image"):
                    image = build_image(spec.cache_dir, recipe, sources, self.progress, self._alive)
            built = None
            if spec.kubernetes:
                with _timed(seconds, "kubernetes"):
                    built = build_kubernetes(spec.cache_dir, image, self.progress, self._alive, spec.systems)
            if self.place.fits(spec.key(image, built.key if built else "")):
                with self._answering_panics(notes):
                    changed = self._resume(spec, built)
                    return self._result(changed, before=before, seconds=seconds, notes=notes)
            for text in self._panicked():
                notes.append(f"started again: {text.partition(',')[0]}")
                self.progress(f"lab: {text}")
            self._bring_up(spec, image, built, engine, notes, seconds)
        return self._result(True, before=before, seconds=seconds, notes=notes)

    def _bring_up(
        self,
        spec: LabSpec,
        image: Image,
        built: Kubernetes | None,
        engine: str,
        notes: list[str],
        seconds: dict[str, float],
    ) -> None:
        """Starts the nodes and waits until they have joined; again when one's kernel panics meanwhile."""
        while True:
            earlier = seconds.get("boot", 0.0)
            # how fast this machine is: the time limits of tests follow it
            if self._start(spec, image, built, engine, notes, seconds) == "qemu":
                # the measure of how busy the machine is; what containers take is too little to be one
                self.place.save({**self.place.state(), "boot_seconds": round(seconds["boot"] - earlier, 1)})
            if built is None:
                return
            with self._answering_panics(notes), _timed(seconds, "join"):
                self._join(spec, built)
                return

    @contextlib.contextmanager
    def _answering_panics(self, notes: list[str]) -> t.Iterator[None]:
        """Ends nodes of which one's kernel panics in the body, and tells it: who comes out of the body starts them again.

        When that was done as often as it may be, the panic is an error.
        """
        try:
            yield
        except Panicked as exc:
            self._panics += 1
            if self._panics >= BOOTS:
                raise
            text = str(exc).partition(".")[0]
            notes.append(f"started again: {text}")
            self.progress(f"lab: {text}; all nodes are started again ({self._panics} of {BOOTS - 1})")
            stop_all(self.place)

    def _resume(self, spec: LabSpec, built: Kubernetes | None) -> bool:
        """What nodes that run as they are wished for lack: cables, a control plane that has died. Whether there was something to do."""
        self._wait(spec, self.place.state()["accel"], spec.boot_timeout)
        changed = self._plug(spec)
        if built is not None:
            if not cluster.runs(self.place):
                changed = True
                cluster.start(self.place, spec, built, self.progress, self._alive, nodes_run=True)
                cluster.note_heartbeats(self.place, built)
            self._join(spec, built)
        return changed

    def _start(
        self,
        spec: LabSpec,
        image: Image,
        built: Kubernetes | None,
        engine: str,
        notes: list[str],
        seconds: dict[str, float],
    ) -> str:
        """Starts the nodes, and before them their control plane. What they are in the end."""
        if engine == "container":
            with _timed(seconds, "boot"):
                engine = self._start_containers(spec, image, notes)
            if engine == "qemu":
                # nothing has booted
                del seconds["boot"]
        if engine == "qemu":
            require_tools(RUN_TOOLS)
            prepare(self.place, spec, image, engine, built.key if built else "")
            try:
                # from the first process to the last answer
                with guarded(self.place, [node.name for node in spec.nodes]):
                    self._start_all(spec, image, built, notes, seconds)
            except BaseException:
                cluster.stop(self.place, keep=True)
                raise
        return engine

    def _start_all(
        self, spec: LabSpec, image: Image, built: Kubernetes | None, notes: list[str], seconds: dict[str, float]
    ) -> None:
        """Starts the control plane, then virtual machines. Each has a time of its own: what follows one does not follow the other."""
        way = None
        if built is not None:
            with _timed(seconds, "control_plane"):
                ports = cluster.start(self.place, spec, built, self.progress, self._alive)
                way = built.disk, cluster.forwarding(ports[-1])
        lay_out(self.place, spec, image, "qemu")
        with _timed(seconds, "boot"):
            self._start_with_accelerator(spec, image, notes, built, way)

    def _join(self, spec: LabSpec, built: Kubernetes) -> None:
        names = [node.name for node in spec.nodes]
        cluster.wait_until_joined(self.place, names, built, spec.boot_timeout, self.progress, self._alive)

    def _as_wished(self, spec: LabSpec, image: Image) -> bool:
        """Whether there is nothing to do."""
        key = ""
        if spec.kubernetes:
            built = cluster.cached_kubernetes(spec.cache_dir, image, spec.systems)
            if built is None or not cluster.runs(self.place):
                return False
            key = built.key
        return self.place.fits(spec.key(image, key)) and not self._other_cables(spec)

    def _other_cables(self, spec: LabSpec) -> dict[str, dict[str, bool]]:
        """Cables that are to be in where they are out, or out, by node."""
        state = self.place.state()
        if state.get("engine", "qemu") != "qemu":
            return {}
        there = state.get("cables", {})
        wanted = {node.name: cables_of(node) for node in spec.nodes}
        return {name: cables for name, cables in wanted.items() if there.get(name) != cables}

    def _plug(self, spec: LabSpec) -> bool:
        """Plugs cables in and out of nodes that run. Whether there was something to do."""
        others = self._other_cables(spec)
        for name, cables in others.items():
            # until all of it is done, nobody knows how far it has come
            self._note_cables(name, {})
            plug(self.place, name, cables)
            self._note_cables(name, cables)
            self.progress(f"{name}: cables are in of {', '.join(card for card in cables if cables[card]) or 'no card'}")
        return bool(others)

    def _note_cables(self, name: str, cables: t.Mapping[str, bool]) -> None:
        state = self.place.state()
        self.place.save({**state, "cables": {**state.get("cables", {}), name: cables}})

    def _engine(self, spec: LabSpec, notes: list[str]) -> str:
        """What nodes are to be, and in a note why they are not containers where they could have been some."""
        if spec.engine == "qemu":
            return "qemu"
        if spec.kubernetes or any(node.hcas != NodePlan.hcas for node in spec.nodes):
            if spec.engine == "container":
                raise LabError("containers have no RDMA devices and no kubelet", "use engine: qemu, or auto")
            notes.append("virtual machines: containers have no RDMA devices and no kubelet")
            return "qemu"
        state = self.place.state()
        if spec.engine == "auto" and state.get("engine") == "qemu" and any(node.running for node in self.place.nodes()):
            # What was found out once need not be found out again while it runs.
            return "qemu"
        reason = container_trouble()
        if reason is None:
            return "container"
        if spec.engine == "container":
            raise LabError(f"nodes cannot be containers here: {reason}", "use engine: qemu, or auto")
        notes.append(f"virtual machines: {reason}")
        self.progress(f"lab: nodes are virtual machines, since {reason}")
        return "qemu"

    def _start_containers(self, spec: LabSpec, image: Image, notes: list[str]) -> str:
        """Starts those nodes that do not run, and waits for all. What was started: `qemu` when nothing was, and may be then."""
        try:
            prepare(self.place, spec, image, "container")
            lay_out(self.place, spec, image, "container")
            with guarded(self.place, [node.name for node in spec.nodes]):
                bring_up(bridge_name(self.place.path))
                for node in spec.nodes:
                    if self.place.pid(node.name) is None:
                        start_container(self.place, node, image)
                self.progress("lab: started {} as containers".format(", ".join(node.name for node in spec.nodes)))
                self._wait(spec, "container", min(120, spec.boot_timeout))
            return "container"
        except LabError as exc:
            stop_all(self.place)
            if spec.engine == "container":
                raise LabError(f"{exc}\nAll nodes have been stopped.") from exc
            notes.append("virtual machines: containers did not come up")
            self.progress(f"lab: containers did not come up, starting virtual machines: {exc}")
            self.place.remove_files()
            return "qemu"
        except BaseException:
            stop_all(self.place)
            raise

    @contextlib.contextmanager
    def _lock(self) -> t.Iterator[None]:
        """One at a time in this directory."""
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        # Disks have the keys of nodes and the tokens of kubelets, and somebody may have made the directory before.
        os.chmod(self.directory, 0o700)
        with locked(self.place.file(LOCK_FILE), self.progress, self._alive, "lab"):
            yield

    def _start_with_accelerator(
        self,
        spec: LabSpec,
        image: Image,
        notes: list[str],
        built: Kubernetes | None = None,
        way: tuple[str, str] | None = None,
    ) -> None:
        """Starts and waits with KVM where it works, else with emulation. way: to a cluster, as `qemu_command` has it."""
        wanted = self._accel or spec.accel
        accels = [wanted] if wanted != "auto" else ["tcg"]
        if wanted == "kvm" and spec.accel == "auto":
            # it has worked in this run
            accels = ["kvm", "tcg"]
        if wanted == "auto":
            reason = kvm_trouble(image)
            if reason is None:
                accels = ["kvm", "tcg"]
            else:
                notes.append(f"plain emulation: {reason}")
                self.progress(f"lab: KVM is of no use here ({reason}); using plain emulation")
        for accel in accels:
            last = accel == accels[-1]
            try:
                timeout = spec.boot_timeout if last else min(90, spec.boot_timeout)
                self._boot(spec, image, accel, timeout, notes, built, way)
                self._accel = accel
                return
            except LabError as exc:
                stop_all(self.place)
                if last:
                    raise LabError(f"{exc}\nAll nodes have been stopped.") from exc
                self._panics = 0
                notes.append("plain emulation: nodes did not come up with KVM")
                self.progress(
                    f"lab: nodes did not come up with KVM, trying plain emulation: {str(exc).splitlines()[0]}"
                )
            except BaseException:
                stop_all(self.place)
                raise

    def _boot(
        self,
        spec: LabSpec,
        image: Image,
        accel: str,
        timeout: float,
        notes: list[str],
        built: Kubernetes | None,
        way: tuple[str, str] | None,
    ) -> None:
        """Starts the nodes and waits for them; twice again when one's kernel panics, which is told."""
        while True:
            with self._answering_panics(notes):
                if built is not None:
                    cluster.note_heartbeats(self.place, built)
                start_virtual_machines(self.place, spec, image, accel, self.progress, way)
                self._wait(spec, accel, timeout)
                return

    def absent(self, check: bool = False) -> LabResult:
        """Stops the nodes and removes what `present` has made in the directory."""
        before = self.status().after
        if not self.place.state():
            return self._result(False)
        if check:
            return self._result(True, before=before, after=[])
        with self._lock():
            stop_all(self.place)
            cluster.stop(self.place)
            self.place.remove_files()
            # The lock last: who waits for it sees that it has gone, and takes a new one.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.place.file(LOCK_FILE))
            with contextlib.suppress(OSError):
                # Not empty: there are files that are not ours.
                os.rmdir(self.directory)
        return self._result(True, before=before)

    def _wait(self, spec: LabSpec, accel: str, timeout: float) -> None:
        names = [node.name for node in spec.nodes]
        wait_until_ready(self.place, names, accel, timeout, self.progress, self._alive)
