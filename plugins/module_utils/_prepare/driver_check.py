# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a driver came out: what DKMS built, what the initramfs holds, how fast the kernel's log grows. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import Tree
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.kernel_log import LogGrowth

__all__ = [
    "DRIVER_NAMES",
    "Build",
    "build_problems",
    "check_driver",
    "driver_of",
    "failed_build",
    "initramfs_of",
    "initramfs_state",
    "log_problem",
    "parse_dkms_status",
    "with_log",
]

# What the driver itself is called: in the vendor's Debian packages, and in their RPMs. The others (iser, srp, knem, xpmem) are extras.
DRIVER_NAMES = ("mlnx-ofed-kernel", "mlnx-ofa_kernel")
_STATUS = re.compile(
    r"(?P<name>[^\s/,]+)(?:/|, )(?P<version>[^,:]+)(?:, (?P<kernel>[^,:]+), (?P<arch>[^,:]+))?: (?P<state>[a-z-]+)(?P<rest>.*)"
)
Json = t.Dict[str, t.Any]
Ask = t.Callable[..., t.Optional[str]]
_STATES = ("added", "built", "installed", "installed-weak", "broken")


class Build(t.NamedTuple):
    """A line of `dkms status`. kernel and arch are None for a module that is only added; note is what stands behind the state."""

    name: str
    version: str
    kernel: t.Optional[str]
    arch: t.Optional[str]
    state: str
    note: str


def parse_dkms_status(text: str) -> list[Build]:
    """`dkms status` of dkms 2 (``name, version, kernel, arch: state``) and 3 (``name/version, kernel, arch: state``).

    Lines of another form (warnings, errors) are left out.
    """
    found = []
    for line in text.splitlines():
        match = _STATUS.fullmatch(line.strip())
        if match and match.group("state") in _STATES:
            found.append(
                Build(
                    match.group("name"),
                    match.group("version").strip(),
                    match.group("kernel"),
                    match.group("arch"),
                    match.group("state"),
                    match.group("rest").strip(" ()"),
                )
            )
    return found


def build_problems(
    builds: t.Iterable[Build], kernel: str, names: t.Sequence[str] = DRIVER_NAMES
) -> tuple[list[str], list[str]]:
    """(problems, warnings): modules that DKMS knows and that are not `installed` for a kernel.

    A module that is one of the names is a problem, any other a warning: a driver without knem still drives.
    """
    builds = list(builds)
    problems: list[str] = []
    warnings: list[str] = []
    for module in sorted({(build.name, build.version) for build in builds}):
        here = [build for build in builds if (build.name, build.version) == module and build.kernel == kernel]
        if any(build.state.startswith("installed") for build in here):
            continue
        # an older version may still be registered for a newer one to have taken its place
        if any(b.name == module[0] and b.kernel == kernel and b.state.startswith("installed") for b in builds):
            continue
        state = here[0].state if here else "not built"
        text = "DKMS module {}/{} is {} for the running kernel {}".format(*module, state, kernel)
        (problems if module[0] in names else warnings).append(text)
    return problems, warnings


def driver_of(kernel: str, filename: str, wanted: str, loaded: t.Optional[str]) -> Json:
    """{path, kind, pending} of a driver on disk.

    filename: its file, as modinfo prints it, anything else when there is none. wanted, loaded: srcversion on disk and of what the kernel
    runs, empty or None where nobody tells.
    """
    path = filename.strip()
    if not path.startswith("/"):
        return {"path": None, "kind": None, "pending": False}
    below = path.partition(f"/{kernel}/")[2] or path
    pending = bool(wanted.strip() and loaded and wanted.strip() != loaded)
    return {"path": below, "kind": "inbox" if below.startswith("kernel/") else "updates", "pending": pending}


def log_problem(records: int, seconds: float, text: str, limit: int) -> t.Optional[str]:
    """What is wrong with the growth of the kernel's log; None up to the limit, in records a second."""
    if records / seconds <= limit:
        return None
    return (
        f"the kernel's log grows by {records / seconds:.0f} records a second (limit: {limit}), most often with '{text}'"
    )


def failed_build(tree: Tree, names: t.Iterable[tuple[str, str]]) -> t.Optional[tuple[str, str]]:
    """(path, first and last line that say error) of the log of a build that did not end well; DKMS removes build/ after a good one."""
    for name, version in names:
        path = f"/var/lib/dkms/{name}/{version}/build/make.log"
        data = tree.read(path)
        if data is None:
            continue
        lines = data[-65536:].decode("utf-8", "replace").splitlines()
        errors = [line.strip() for line in lines if re.search(r"\berror\b|\*\*\*", line, re.IGNORECASE)]
        # the first error is the cause, the last says where make gave up
        told = [*errors[:1], *errors[1:][-1:]] or lines[-1:]
        return path, " | ".join(told)[:600]
    return None


def _holds(listing: str, module: str) -> t.Optional[str]:
    """Path of a module in what lsinitramfs or lsinitrd print (the last word of a line), without what is above the kernel's release."""
    pattern = rf"(?:^|[\s/])lib/modules/[^/\s]+/(\S*/{re.escape(module).replace('_', '[-_]')}\.ko\S*)\s*$"
    found = re.search(pattern, listing, re.MULTILINE)
    return found.group(1) if found else None


class Initramfs(t.NamedTuple):
    """An initramfs, and the commands that list it and rebuild it."""

    path: str
    lister: list[str]
    rebuild: list[str]


def initramfs_of(kernel: str, exists: t.Callable[[str], bool], has: t.Callable[[str], bool]) -> t.Optional[Initramfs]:
    """The initramfs of a kernel release. exists: a path is there; has: a program is.

    Debian's name for it says nothing of who makes it: dracut takes the place of initramfs-tools, and the name stays. So does lsinitramfs,
    which is in a package of its own.
    """
    for path in ("/boot/initrd.img-" + kernel, f"/boot/initramfs-{kernel}.img"):
        if not exists(path):
            continue
        tools = has("lsinitramfs") and has("update-initramfs")
        if path.startswith("/boot/initrd") and (tools or not has("lsinitrd")):
            return Initramfs(path, ["lsinitramfs", path], ["update-initramfs", "-u", "-k", kernel])
        return Initramfs(path, ["lsinitrd", path], ["dracut", "--force", path, kernel])
    return None


def initramfs_state(
    found: t.Optional[Initramfs], listing: str, name: str, driver: t.Mapping[str, t.Any], older: bool
) -> Json:
    """{path, holds, stale, rebuild}: one that holds another driver than the disk loads that one at boot, before the disk is there.

    listing: what its lister prints. driver: as driver_of() tells. older: than the driver on disk.
    """
    if found is None:
        return {"path": None, "holds": None, "stale": False, "rebuild": []}
    holds = _holds(listing, name)
    stale = False
    if holds is not None and driver["path"] is not None:
        stale = holds.startswith("kernel/") != (driver["kind"] == "inbox") or older
    return {"path": found.path, "holds": holds, "stale": stale, "rebuild": found.rebuild}


def _look_at_driver(tree: Tree, name: str, kernel: str, ask: Ask) -> Json:
    def told(field: str) -> str:
        return ask("modinfo", "-k", kernel, "-F", field, name) or ""

    return driver_of(kernel, told("filename"), told("srcversion"), tree.text(f"/sys/module/{name}/srcversion"))


def _look_at_initramfs(
    tree: Tree, name: str, kernel: str, driver: Json, ask: Ask, has: t.Callable[[str], bool]
) -> Json:
    found = initramfs_of(kernel, tree.exists, has)
    if found is None:
        return initramfs_state(None, "", name, driver, older=False)
    made, built = tree.modified(found.path), tree.modified(f"/lib/modules/{kernel}/{driver['path']}")
    older = made is not None and built is not None and made < built
    return initramfs_state(found, ask(*found.lister) or "", name, driver, older)


def check_driver(
    tree: Tree, kernel: str, name: str, dkms_modules: t.Sequence[str], ask: Ask, has: t.Callable[[str], bool]
) -> Json:
    """What the files and programs of a node say of a driver and its build, with what is wrong with them: {problems, ...}.

    ask: what a program prints, None where it is not there or fails. has: whether a program is there.
    """
    builds = parse_dkms_status(ask("dkms", "status") or "")
    problems, warnings = build_problems(builds, kernel, dkms_modules)
    driver = _look_at_driver(tree, name, kernel, ask)
    if driver["kind"] != "updates" and not problems:
        problems.append(
            f"{name} of the running kernel {kernel} is {driver['path'] or 'not there'}: the vendor's driver was not built for it"
        )
    log = failed_build(tree, sorted({(build.name, build.version) for build in builds})) if problems else None
    if log:
        problems.append(f"the build ended with: {log[1]} (log: {log[0]})")
    return {
        "kernel": kernel,
        "dkms": [build._asdict() for build in builds],
        "build_log": {"path": log[0], "errors": log[1]} if log else None,
        "driver": driver,
        "initramfs": _look_at_initramfs(tree, name, kernel, driver, ask, has),
        "warnings_found": warnings,
        "problems": problems,
    }


def with_log(result: t.Mapping[str, t.Any], growth: LogGrowth, limit: int) -> Json:
    """What check_driver() found, and how the kernel's log grew meanwhile."""
    loud = log_problem(growth.records, growth.seconds, growth.text, limit)
    log = {**growth._asdict(), "per_second": round(growth.records / growth.seconds, 1)}
    return {**result, "log": log, "problems": [*result["problems"], *([loud] if loud else [])]}
