# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every module that changes a file of a node: links, owner, mode, access list, syncing, full disks, other writers."""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run

SPEC = {"ociVersion": "1.2.0", "process": {"rlimits": []}}
# a module that is loaded everywhere, and that no file names
LOADED = "printk"


class Writer(NamedTuple):
    """before: a file that it has to change; backs_up: whether it leaves a copy beside it, which it tells."""

    module: str
    name: str
    before: str
    prelude: str
    arguments: Callable[[Path], dict[str, Any]]
    backs_up: bool = True


WRITERS = {
    writer.module: writer
    for writer in (
        Writer(
            "oci_rlimits",
            "spec.json",
            json.dumps(SPEC),
            "",
            lambda path: {"path": str(path), "ctr": "/nowhere/ctr"},
        ),
        Writer(
            "iscsi_initiator",
            "initiatorname.iscsi",
            "# theirs\nGenerateName=yes\n",
            "",
            lambda path: {"path": str(path), "sessions": str(path.parent / "none")},
        ),
        Writer(
            "kernel_module",
            f"{LOADED}.conf",
            "# theirs\nnfs\n",
            "import ansible_collections.fabric.rdma.plugins.module_utils._discover.boot_modules as boot_modules\n"
            "boot_modules.DIRECTORIES = ('DIRECTORY', 'DIRECTORY/run')\n",
            lambda path: {"name": LOADED},
        ),
        Writer(
            "containerd_memlock",
            "config.toml",
            "version = 2\n",
            # its transaction alone: the rest of it needs a containerd
            "import json, sys\n"
            "from ansible_collections.fabric.rdma.plugins.module_utils._base import digest, files, transaction as transactions\n"
            "transaction = transactions.Transaction('DIRECTORY/state', lambda name: None)\n"
            "try:\n"
            "    planned = {'DIRECTORY/real': digest.digest(files.read('DIRECTORY/config.toml'))}\n"
            "    transaction.begin([('DIRECTORY/config.toml', b'new')], {}, planned)\n"
            "    transaction.apply()\n"
            "    transaction.finish({})\n"
            "    print(json.dumps({'changed': True, 'backup_file': list(transaction.backups().values())[0]}))\n"
            "except OSError as exc:\n"
            "    transaction.undo()\n"
            "    transaction.finish()\n"
            "    print(json.dumps({'failed': True, 'msg': '%s: %s' % (exc.filename, exc.strerror)}))\n"
            "except transactions.TransactionError as exc:\n"
            "    transaction.undo()\n"
            "    transaction.finish()\n"
            "    print(json.dumps({'failed': True, 'msg': str(exc)}))\n"
            "sys.exit()\n",
            lambda path: {},
        ),
        Writer(
            "roce_host",
            "fabric-rdma-roce.conf",
            "# theirs\noptions ib_core netns_mode=0\n",
            # what it keeps for the next boot of this machine: a mode that nobody knows is not set now
            "import ansible_collections.fabric.rdma.plugins.module_utils._discover.roce as roce\n"
            "import ansible_collections.fabric.rdma.plugins.module_utils._base.places as places\n"
            "roce.MODPROBE = 'DIRECTORY/fabric-rdma-roce.conf'\n"
            "roce.ROCE_CHANGE = places.ROCE_CHANGE = 'DIRECTORY/roce-change.json'\n"
            "import ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce_run as roce_run\n"
            "roce_run.read_roce = lambda *words: {**roce.read_roce(*words), 'netns': {'mode': None, 'persisted': None}}\n",
            lambda path: {"wish": {"netns": "shared"}},
        ),
        Writer(
            "driver_packages",
            "their.sources",
            "theirs\n",
            # how it puts a file back: the rest of it needs a package manager
            "import json, sys\n"
            "from ansible_collections.fabric.rdma.plugins.module_utils._prepare import packages as _packages, packages_run as _packages_run\n"
            "manager = _packages_run.Manager(None, 0)\n"
            "manager.paths = ('DIRECTORY/their.sources',)\n"
            "file = manager.files().get(manager.paths[0]) or _packages.File('', 0o644)\n"
            "try:\n"
            f"    manager.put_files({{manager.paths[0]: file._replace(data={base64.b64encode(b'new').decode()!r})}})\n"
            "    print(json.dumps({'changed': True}))\n"
            "except OSError as exc:\n"
            "    print(json.dumps({'failed': True, 'msg': '%s: %s' % (exc.filename, exc.strerror)}))\n"
            "sys.exit()\n",
            lambda path: {},
            backs_up=False,
        ),
        Writer(
            "driver_proof",
            "driver-proof.json",
            json.dumps({"version": 1, "devices": []}),
            "import ansible_collections.fabric.rdma.plugins.module_utils._base.places as places\n"
            "places.DRIVER_PROOF = 'DIRECTORY/driver-proof.json'\n",
            lambda path: {"method": "doca", "version": "2.9.1", "facts": {"devices": []}},
            backs_up=False,
        ),
        Writer(
            # with it the roles write multipath's file, the service of IMEX that they remember, the repository, key and pin of a driver,
            # the log of its build, and the unit that mounts its ISO
            "node_file",
            "theirs.conf",
            "theirs\n",
            "",
            lambda path: {"path": str(path), "content": "ours\n"},
        ),
        Writer(
            "node_change",
            "change.json",
            json.dumps({"version": 1, "since": "then", "roles": [], "before": {"devices": []}}),
            "",
            lambda path: {"path": str(path), "state": "begun", "before": {"devices": []}, "roles": ["ofed"]},
            backs_up=False,
        ),
    )
}

each = pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)


def prepared(writer: Writer, directory: Path) -> Path:
    path = directory / writer.name
    path.write_text(writer.before)
    return path


def call(writer: Writer, path: Path, fault: str = "") -> dict[str, Any]:
    prelude = (fault + writer.prelude).replace("DIRECTORY/real", os.path.realpath(path))
    return run(writer.module, prelude=prelude.replace("DIRECTORY", str(path.parent)), **writer.arguments(path))


def names(directory: Path) -> list[str]:
    """Everything in a directory but the notes of the transaction."""
    return sorted(path.name for path in directory.iterdir() if path.name != "state")


@each
def test_a_link_stays_a_link(writer: Writer, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    real = prepared(writer, elsewhere)
    path = tmp_path / writer.name
    path.symlink_to(f"elsewhere/{writer.name}")
    result = call(writer, path)
    assert result["changed"] is True
    assert os.readlink(path) == f"elsewhere/{writer.name}"
    assert real.read_text() != writer.before
    if writer.backs_up:
        assert copy_of(result).read_text() == writer.before


def copy_of(result: dict[str, Any]) -> Path:
    """The copy of the old file that a result tells of."""
    copies = [*result.get("backup_files", {}).values(), *filter(None, [result.get("backup_file")])]
    assert len(copies) == 1
    return Path(copies[0])


def access_list() -> bytes:
    """An access list by which user 4 may read, too: linux/posix_acl_xattr.h."""
    none = 0xFFFFFFFF
    entries = [(0x01, 6, none), (0x02, 4, 4), (0x04, 0, none), (0x10, 4, none), (0x20, 0, none)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


@each
def test_owner_mode_and_access_list_stay(writer: Writer, tmp_path: Path) -> None:
    path = prepared(writer, tmp_path)
    path.chmod(0o640)
    os.chown(path, *((12, 34) if os.geteuid() == 0 else (os.geteuid(), os.getegid())))
    os.setxattr(path, "system.posix_acl_access", access_list())
    os.setxattr(path, "user.kept", b"yes")
    before = path.stat()
    result = call(writer, path)
    for file in (path, *([copy_of(result)] if writer.backs_up else [])):
        after = file.stat()
        assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
        assert os.getxattr(file, "system.posix_acl_access") == access_list()
        assert os.getxattr(file, "user.kept") == b"yes"
    assert path.read_text() != writer.before


@each
def test_a_list_that_new_files_get_is_not_put_on_an_old_one(writer: Writer, tmp_path: Path) -> None:
    path = prepared(writer, tmp_path)
    path.chmod(0o600)
    os.setxattr(tmp_path, "system.posix_acl_default", access_list())
    assert call(writer, path)["changed"] is True
    assert "system.posix_acl_access" not in os.listxattr(path)
    assert path.stat().st_mode & 0o777 == 0o600


RECORD = """
import json as _json, os as _os
_fsync, _replace, _record = _os.fsync, _os.replace, []
def _note(*words):
    _record.append(words)
    with open('DIRECTORY/state.record', 'w') as stream:
        _json.dump(_record, stream)
def fsync(handle):
    _fsync(handle)
    _note('fsync', _os.readlink('/proc/self/fd/%d' % handle))
def replace(source, target):
    _replace(source, target)
    _note('rename', source, target)
def rename(source, target):
    raise AssertionError('nobody knows of it')
_os.fsync, _os.replace, _os.rename = fsync, replace, rename
"""


@each
def test_what_is_renamed_is_on_the_disk(writer: Writer, tmp_path: Path) -> None:
    """The file before its rename, the directory after it: a node that loses power has the old file or the new one."""
    path = prepared(writer, tmp_path)
    assert call(writer, path, RECORD)["changed"] is True
    steps = json.loads((tmp_path / "state.record").read_text())
    renames = [number for number, step in enumerate(steps) if step[0] == "rename"]
    assert str(path) in [steps[number][2] for number in renames]
    for number in renames:
        _rename, source, target = steps[number]
        assert ["fsync", source] in steps[:number]
        assert ["fsync", os.path.dirname(target)] in steps[number + 1 :]


FULL = """
import errno as _errno, os as _os
_fsync, _count = _os.fsync, [0]
def fsync(handle):
    # as the kernel says it: without a name
    _count[0] += 1
    if _count[0] == NUMBER:
        raise OSError(_errno.ENOSPC, _os.strerror(_errno.ENOSPC))
    _fsync(handle)
_os.fsync = fsync
"""


@each
def test_a_disk_that_is_full_at_any_write(writer: Writer, tmp_path: Path) -> None:
    """The message has the path, and the file is the old one as long as it is not the new one."""
    path = prepared(writer, tmp_path)
    messages = []
    for number in range(1, 30):
        for left in set(names(tmp_path)) - {writer.name}:
            (tmp_path / left).unlink()
        path.write_text(writer.before)
        result = call(writer, path, FULL.replace("NUMBER", str(number)))
        if not result.get("failed"):
            break
        messages.append(result["msg"])
        assert "No space left on device" in result["msg"]
        assert str(tmp_path) in result["msg"]
        assert ".tmp" not in result["msg"]
        assert not [name for name in names(tmp_path) if name.startswith(".")]
    else:
        pytest.fail("it never ends")
    assert len(messages) >= 2
    assert any(str(path) + ":" in message or str(path) + " cannot" in message for message in messages)


KILLED = """
import itertools as _itertools, os as _os, sys as _sys
_changes = _itertools.count(1)
def _hook(event, words):
    # Python tells of each before it does it
    writes = event == 'open' and (words[2] or 0) & (_os.O_WRONLY | _os.O_RDWR | _os.O_CREAT)
    if writes or event in ('os.chmod', 'os.chown', 'os.mkdir', 'os.remove', 'os.rename', 'os.setxattr', 'os.truncate'):
        if str(words[0]).startswith('DIRECTORY') and next(_changes) == NUMBER:
            _os.kill(_os.getpid(), 9)
_sys.addaudithook(_hook)
"""


# a transaction of several files has notes of its own, and is undone: _base/test_transaction.py
@pytest.mark.parametrize(
    "writer", [one for one in WRITERS.values() if one.module != "containerd_memlock"], ids=lambda one: one.module
)
def test_what_a_killed_run_has_left_goes(writer: Writer, tmp_path: Path) -> None:
    """The file is the old one or the new one, a copy is whole, and the next run leaves nothing else."""
    path = prepared(writer, tmp_path)
    assert call(writer, path)["changed"] is True
    # a name that is made up is another one each time
    length = path.stat().st_size
    for number in range(1, 30):
        for left in names(tmp_path):
            (tmp_path / left).unlink()
        path.write_text(writer.before)
        result = call(writer, path, KILLED.replace("NUMBER", str(number)))
        if "killed" not in result:
            break
        assert path.read_text() == writer.before or path.stat().st_size == length
        path.write_text(writer.before)
        assert call(writer, path)["changed"] is True
        assert path.stat().st_size == length
        copies = [name for name in names(tmp_path) if name != writer.name]
        assert all(name.endswith("~") for name in copies)
        assert {(tmp_path / name).read_text() for name in copies} <= {writer.before}
    else:
        pytest.fail("it never ends")
    assert number > 3


OVERTAKEN = """
import ansible_collections.fabric.rdma.plugins.module_utils._base.files as _files
_stage = _files.stage
def stage(temporary, data, **more):
    _stage(temporary, data, **more)
    with open('DIRECTORY/NAME', 'w') as stream:
        stream.write('somebody else')
_files.stage = stage
"""


@each
def test_what_somebody_else_writes_meanwhile_stays(writer: Writer, tmp_path: Path) -> None:
    path = prepared(writer, tmp_path)
    result = call(writer, path, OVERTAKEN.replace("NAME", writer.name))
    assert result["failed"] is True
    assert result["msg"].startswith(str(path))
    assert "somebody else" in result["msg"]
    assert path.read_text() == "somebody else"
    assert not [name for name in names(tmp_path) if name.startswith(".")]


@each
@pytest.mark.parametrize("kind", ["pipe", "directory", "device"])
def test_what_is_no_file_is_left_alone(writer: Writer, tmp_path: Path, kind: str) -> None:
    path = tmp_path / writer.name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        # how a file of modules-load.d is masked; a rename over the device would be the end of the node
        path.symlink_to("/dev/null")
    result = call(writer, path)
    assert result["failed"] is True
    assert result["msg"].startswith(str(path))
    assert names(tmp_path) == [writer.name]
    assert Path("/dev/null").is_char_device()


def test_modules_of_somebody_else_are_loaded_as_before(tmp_path: Path) -> None:
    """Also those of a namesake in /usr/lib or /run, which a file in /etc hides."""
    writer = WRITERS["kernel_module"]
    path = prepared(writer, tmp_path)
    assert call(writer, path)["diff"] == [
        {
            "before_header": str(path),
            "after_header": str(path),
            "before": writer.before,
            "after": f"{writer.before}{LOADED}\n",
        }
    ]
    assert path.read_text() == f"{writer.before}{LOADED}\n"
    path.unlink()
    (tmp_path / "run").mkdir()
    prepared(writer, tmp_path / "run")
    result = call(writer, path)
    assert path.read_text() == f"{writer.before}{LOADED}\n"
    assert (tmp_path / "run" / writer.name).read_text() == writer.before
    assert "backup_file" not in result
