# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disk image of the lab's nodes: how it is built and cached. Private to the collection. Runs on the controller only.

The image is a Debian (or Ubuntu) root file system made by mmdebstrap, as a raw ext4 file, with its kernel and initrd beside it
for QEMU's direct kernel boot. It lives in a cache under a hash of everything that goes into it, so that every checkout with the
same recipe uses the same file. Nodes never write to it: each has a qcow2 overlay.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import typing as t
from dataclasses import asdict, dataclass

from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.machine import (
    ROLE_FILES,
    Alive,
    LabError,
    Progress,
    locked,
    read,
    require_tools,
    room,
    search_path,
    sweep,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.recipe import HOOK_VARIABLE, ImageRecipe
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.sources import AptSource

__all__ = ["Image", "build_image", "cached_image", "mmdebstrap_command", "module_files", "stage_of"]


@dataclass(frozen=True)
class Image:
    """A built image in the cache."""

    key: str
    directory: str

    @property
    def disk(self) -> str:
        """The root file system, raw, sparse."""
        return os.path.join(self.directory, "root.ext4")

    @property
    def kernel(self) -> str:
        """The kernel for direct boot."""
        return os.path.join(self.directory, "vmlinuz")

    @property
    def initrd(self) -> str:
        """The initial RAM disk that belongs to the kernel."""
        return os.path.join(self.directory, "initrd.img")

    @property
    def pod(self) -> str:
        """The files of containers, as a tar archive: a layer of their images."""
        return os.path.join(self.directory, "pod.tar")

    @property
    def manifest(self) -> str:
        """The packages of the image, one `name version` a line."""
        return os.path.join(self.directory, "packages.txt")


def module_files() -> dict[str, str]:
    """The sources of the nodes' kernel module, by their names."""
    directory = os.path.join(ROLE_FILES, "pci")
    return {name: read(os.path.join(directory, name)) for name in sorted(os.listdir(directory))}


def mmdebstrap_command(
    recipe: ImageRecipe, sources: t.Sequence[AptSource], mode: str, overlay: str, apt_options: t.Sequence[str] = ()
) -> list[str]:
    """The command that makes the root file system and, in its last hook, the image from it.

    `mode` is root or unshare (no root needed); `overlay` a tar archive of the files to add; `apt_options` lines of apt.conf.
    """
    packages = [recipe.kernel_package, "initramfs-tools", *recipe.packages]
    command = [
        "mmdebstrap",
        f"--mode={mode}",
        "--variant=minbase",
        "--format=null",
        f"--architectures={recipe.architecture}",
        f"--include={','.join(sorted(packages))}",
        '--aptopt=APT::Install-Recommends "false"',
        '--aptopt=Acquire::Languages "none"',
        *(f"--aptopt={option}" for option in apt_options),
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.path_excludes),
        # Before any package is configured: the kernel's initrd is then made with these settings at once.
        f"--essential-hook=tar-in {overlay} /",
        # The script itself comes through the environment: mmdebstrap logs its hooks, and a failing build should end with the cause.
        f'--customize-hook=sh -c "${HOOK_VARIABLE}" hook "$1"',
        recipe.suite,
        "/dev/null",
    ]
    return command + [source.line() for source in sources]


def _overlay_archive(files: t.Mapping[str, tuple[int, str]]) -> bytes:
    """A tar archive of the files, owned by root, without times of its own."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            mode, content = files[name]
            data = content.encode()
            info = tarfile.TarInfo("./" + name)
            info.mode, info.size = mode, len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _machine_apt_options() -> list[str]:
    """The settings of the machine's apt without which its mirrors may not be reachable (proxy, also of one host; dates of frozen mirrors)."""
    wanted = re.compile(r"^Acquire::((https?|ftp)::Proxy(::\S+)?|Check-Valid-Until|Check-Date|Retries)\s")
    try:
        output = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return [line.rstrip(";") for line in output.splitlines() if wanted.match(line) and '""' not in line]


def stage_of(line: str) -> str | None:
    """What a line of mmdebstrap's log says about the progress, in plain words; None when nothing new."""
    stages = [
        (r"I: running apt-get update", "fetching the package lists"),
        (r"I: downloading packages with apt", "downloading the base system"),
        (r"I: extracting archives", "unpacking the base system"),
        (r"I: installing essential packages", "installing the base system"),
        (r"I: installing remaining packages", "installing kernel, SSH, container runtime"),
        (r"(I: running --customize-hook in shell)", "adding the offline packages, writing the disk image"),
        (r"I: cleaning", "cleaning up"),
    ]
    for pattern, stage in stages:
        if re.match(pattern, line):
            return stage
    return None


def cached_image(cache_dir: str, recipe: ImageRecipe) -> Image | None:
    """The image of a recipe when it is in the cache. It is renamed into place when complete, so being there is enough."""
    image = Image(recipe.key(), os.path.join(cache_dir, f"image-{recipe.key()}"))
    return image if os.path.isfile(image.disk) else None


def build_image(
    cache_dir: str, recipe: ImageRecipe, sources: t.Sequence[AptSource], progress: Progress, alive: Alive
) -> Image:
    """The image of a recipe, built when it is not in the cache. Takes one to two minutes then, and about 2 GiB of disk."""
    final = os.path.join(cache_dir, f"image-{recipe.key()}")
    with room("the image of the nodes", cache_dir, "about 2 GiB"), locked(final + ".lock", progress, alive, "image"):
        image = cached_image(cache_dir, recipe)
        if image is not None:
            return image
        root = os.geteuid() == 0
        require_tools(["mmdebstrap", "mke2fs", *([] if root else ["newuidmap"])])
        sweep(final)
        building = tempfile.mkdtemp(prefix=f"building-{os.path.basename(final)}-", dir=cache_dir)
        try:
            _build_into(building, recipe, sources, "root" if root else "unshare", progress, alive)
            os.chmod(building, 0o755)
            os.rename(building, final)
        except BaseException:
            log = os.path.join(building, "build.log")
            if os.path.exists(log):
                os.replace(log, os.path.join(cache_dir, "failed-build.log"))
            shutil.rmtree(building, ignore_errors=True)
            raise
    return Image(recipe.key(), final)


def _die_with_parent() -> None:
    """Runs in the child before exec: asks the kernel to end the build when the process that wants it is gone (prctl(2))."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _build_into(
    directory: str, recipe: ImageRecipe, sources: t.Sequence[AptSource], mode: str, progress: Progress, alive: Alive
) -> None:
    """Builds an image in a directory of its own. `mode` as in `mmdebstrap_command`."""
    image = Image(recipe.key(), directory)
    overlay = os.path.join(directory, "overlay.tar")
    _lay_out(image, recipe, overlay)
    log_path = os.path.join(directory, "build.log")
    environment = _environment(recipe)
    command = mmdebstrap_command(recipe, sources, mode, overlay, _machine_apt_options())
    outputs = {
        "DISK": image.disk,
        "KERNEL": image.kernel,
        "INITRD": image.initrd,
        "POD": image.pod,
        "MANIFEST": image.manifest,
    }
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(log_path, "wb"))
        descriptors = {name: _open_output(path, stack) for name, path in outputs.items()}
        environment.update((f"LAB_FD_{name}", str(descriptor)) for name, descriptor in descriptors.items())
        process = subprocess.Popen(  # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=list(descriptors.values()),
            env=environment,
            preexec_fn=_die_with_parent,
        )
        try:
            _follow(process, log_path, progress, alive)
        finally:
            _end(process)
    if process.returncode != 0:
        raise LabError(_failure(process.returncode, mode, log_path))
    for path in outputs.values():
        os.chmod(path, 0o444)
    os.unlink(overlay)


def _lay_out(image: Image, recipe: ImageRecipe, overlay: str) -> None:
    """What is there before mmdebstrap begins: the files to add, the recipe for those who want to read it, an empty disk."""
    with open(overlay, "wb") as stream:
        stream.write(_overlay_archive(recipe.files))
    with open(os.path.join(image.directory, "recipe.json"), "w", encoding="utf-8") as text:
        json.dump(asdict(recipe), text, indent=1, sort_keys=True)
    with open(image.disk, "wb") as stream:
        stream.truncate(recipe.disk_mib << 20)


def _environment(recipe: ImageRecipe) -> dict[str, str]:
    """The environment of mmdebstrap."""
    environment = dict(os.environ, PATH=search_path(), LC_ALL="C.UTF-8", DEBIAN_FRONTEND="noninteractive")
    # Not /tmp: it is a small RAM disk on some machines.
    environment.setdefault("TMPDIR", "/var/tmp")
    environment[HOOK_VARIABLE] = recipe.hook_script()
    return environment


def _open_output(path: str, stack: contextlib.ExitStack) -> int:
    """A descriptor by which the hook writes a file; closed with the stack."""
    low = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    # High numbers: mmdebstrap writes `>&N` for descriptors that it opens itself, and sh knows only one digit there.
    descriptor = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 100)
    os.close(low)
    stack.callback(os.close, descriptor)
    # The hook opens it again by its name in /proc, perhaps as another identity of a user namespace; the directory above
    # is closed to everybody else.
    os.fchmod(descriptor, 0o666)
    return descriptor


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a build that nobody waits for any more."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _failure(code: int, mode: str, log_path: str) -> str:
    """What to tell of a build that failed."""
    with open(log_path, encoding="utf-8", errors="replace") as text:
        tail = "".join(text.readlines()[-25:])
    hint = ""
    if mode == "unshare":
        hint = (
            " (building without root needs a range for this user in /etc/subuid and /etc/subgid, and user namespaces)"
        )
    return (
        f"building the lab image failed: mmdebstrap ended with {code}{hint}. Its last lines (all of "
        f"them: failed-build.log in the cache directory):\n{tail}"
    )


def _follow(process: subprocess.Popen[bytes], log_path: str, progress: Progress, alive: Alive) -> None:
    """Waits for the build; tells each new stage, and the time at least every ten seconds."""
    started = time.monotonic()
    told = started
    stage = "starting mmdebstrap"
    with open(log_path, encoding="utf-8", errors="replace") as stream:
        while True:
            alive()
            ended = process.poll() is not None
            new = stage
            for line in stream:
                new = stage_of(line) or new
            now = time.monotonic()
            if new != stage or now - told >= 10:
                stage = new
                progress(f"image: {stage} ({now - started:.0f} s)")
                told = now
            if ended:
                return
            time.sleep(0.3)
