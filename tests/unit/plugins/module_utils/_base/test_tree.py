# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base import tree as _tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import (
    Entry,
    MemoryTree,
    open_tree,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import DirectoryTree, Tree
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._base.trees import (
    write,
)

# -- Where a path leads ----------------------------------------------------------------------------------------------

SECRET = "outside"
LINKS = {
    "/in": Entry("f", b"inside\n"),
    "/dir/file": Entry("f", b"deep\n"),
    "/absolute": Entry("l", target="/in"),
    "/climbing": Entry("l", target="../../../../../../../../in"),
    "/dir/absolute": Entry("l", target="/in"),
    "/dir/climbing": Entry("l", target="../../../" + SECRET),
    "/outside": Entry("l", target="/proc/self/environ"),
    "/etc": Entry("l", target="/etc"),
    "/loop": Entry("l", target="loop"),
    "/ping": Entry("l", target="/pong"),
    "/pong": Entry("l", target="ping"),
    "/self": Entry("l", target="."),
    "/chain": Entry("l", target="dir/../absolute"),
    "/through": Entry("l", target="in/../in"),
    "/long": Entry("l", target="./" * 3000 + "in"),
    "/far": Entry("l", target="dir/../" * 3000 + "in"),
    "/dangling": Entry("l", target="nowhere/at/all"),
    **{f"/hop{index}": Entry("l", target=f"hop{index + 1}" if index < 50 else "in") for index in range(51)},
}
ANSWERS = [
    ("/in", "/in"),
    ("/absolute", "/in"),
    ("/dir/absolute", "/in"),
    ("/climbing", "/in"),
    ("/dir/climbing", None),
    ("/outside", None),
    ("/etc", None),
    ("/etc/passwd", None),
    ("/loop", None),
    ("/loop/x", None),
    ("/ping", None),
    ("/self", "/"),
    ("/self/self/self/in", "/in"),
    ("/chain", "/in"),
    ("/far", "/in"),
    ("/long", "/in"),
    ("/dangling", None),
    ("/dir/../../../in", "/in"),
    ("/dir/./file", "/dir/file"),
    ("/nothing", None),
    ("/in/below", None),
    ("/hop20", "/in"),
    ("/hop0", None),
    ("/", "/"),
]


@pytest.fixture(params=["memory", "directory"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    (tmp_path / SECRET).write_text("secret")
    # a path longer than PATH_MAX cannot be on a disk
    entries = {path: entry for path, entry in LINKS.items() if len(entry.target) < 4000 or request.param == "memory"}
    return MemoryTree(entries) if request.param == "memory" else write(tmp_path / "a" / "b" / "root", entries)


@pytest.mark.parametrize(("path", "real"), ANSWERS, ids=[path for path, _real in ANSWERS])
def test_a_link_never_leads_out_of_the_root(tree: Tree, path: str, real: str | None) -> None:
    if path in ("/long", "/far") and isinstance(tree, DirectoryTree):
        real = None
    assert tree.real(path) == real
    assert tree.real(path) == real, "the second answer comes from a cache"
    assert tree.exists(path) == (real is not None)
    assert tree.text(path) == {"/in": "inside", "/dir/file": "deep"}.get(real or "")


def test_what_was_asked_before_changes_no_answer() -> None:
    forward, backward = MemoryTree(LINKS), MemoryTree(LINKS)
    first = {path: forward.real(path) for path, _real in ANSWERS}
    assert {path: backward.real(path) for path, _real in reversed(ANSWERS)} == first


@pytest.mark.parametrize(
    ("path", "name"),
    [("/absolute", "in"), ("/dangling", "all"), ("/self/dangling", "all"), ("/in", None), ("/gone", None)],
)
def test_link_name_is_the_last_word_of_a_link(tree: Tree, path: str, name: str | None) -> None:
    assert tree.link_name(path) == name


def test_names_are_in_byte_order(tmp_path: Path) -> None:
    entries = {f"/d/{name}": Entry("d") for name in ("eth10", "eth2", "Z", "a", "é", "\udcff")}
    for tree in (MemoryTree(entries), write(tmp_path, entries)):
        assert tree.names("/d") == ["Z", "a", "eth10", "eth2", "é", "\udcff"]
        assert tree.names("/d/a") == []
        assert tree.names("/none") == []


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    tree = DirectoryTree(str(tmp_path))
    for path in ("/pipe", "/directory", "/none"):
        assert tree.read(path) is None
        assert tree.text(path) is None
    assert (tree.exists("/pipe"), tree.names("/pipe"), tree.exists("/directory")) == (False, [], True)


@pytest.mark.parametrize("path", ["/a\0b", "/" + "n" * 5000, "/\udcff"])
def test_a_path_that_cannot_be_is_only_absent(tmp_path: Path, path: str) -> None:
    for tree in (DirectoryTree(str(tmp_path)), DirectoryTree("/"), MemoryTree({})):
        assert (tree.real(path), tree.read(path), tree.names(path), tree.link_name(path)) == (None, None, [], None)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 65536, 65537, 200_000])
def test_a_file_is_read_whole(tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    data = DirectoryTree(str(tmp_path)).read("/file")
    assert data == (tmp_path / "file").read_bytes()


def test_an_endless_file_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tree, "_MAX_FILE_BYTES", 100_000)
    (tmp_path / "file").write_bytes(b"x" * 1_000_000)
    assert 100_000 <= len(DirectoryTree(str(tmp_path)).read("/file") or b"") < 200_000


@pytest.mark.parametrize(
    ("data", "text"),
    [(b" a b \n", "a b"), (b"eth0\0", "eth0"), (b"\xff\xfe", "\ufffd\ufffd"), (b"", ""), ("µ\n".encode(), "µ")],
)
def test_text_is_valid_unicode_without_its_edges(data: bytes, text: str) -> None:
    assert MemoryTree({"/f": Entry("f", data)}).text("/f") == text


@pytest.mark.parametrize("root", ["/", "//", "link"])
def test_the_live_node_has_its_own_proc(tmp_path: Path, root: str) -> None:
    """Whatever the root is called: a link to another process would be followed to its mounts."""
    (tmp_path / "link").symlink_to("/")
    tree = DirectoryTree(str(tmp_path / "link") if root == "link" else root)
    assert tree.real("/proc/self/mounts") == "/proc/self/mounts"
    assert tree.text("/proc/net/route") is not None


def test_glob_takes_leading_dots_as_go_does() -> None:
    paths = ["/etc/a/1.toml", "/etc/a/.2.toml", "/etc/a/3.conf", "/etc/b/1.toml", "/etc/b/c/1.toml"]
    tree = MemoryTree({path: Entry("f") for path in paths})
    assert tree.glob("/etc/a/*.toml") == ["/etc/a/.2.toml", "/etc/a/1.toml"]
    assert tree.glob("/etc/*/1.toml") == ["/etc/a/1.toml", "/etc/b/1.toml"]
    assert tree.glob("/etc/a/[13].*") == ["/etc/a/1.toml", "/etc/a/3.conf"]
    assert tree.glob("/etc/b/1.toml") == ["/etc/b/1.toml"]
    assert tree.glob("/none/*") == tree.glob("/etc/b/2.toml") == []


def test_a_list_of_proc_comes_in_short_pieces() -> None:
    # the first read(2) ends before the first page does, though there is more to come
    whole = Path("/proc/kallsyms").read_bytes()
    assert len(whole) > 65536
    assert DirectoryTree("/").read("/proc/kallsyms") == whole


def test_times_and_space_are_known_of_a_live_node_only(tmp_path: Path) -> None:
    """An unpacked capture has the times of whoever unpacked it."""
    (tmp_path / "x").write_text("")
    os.utime(tmp_path / "x", (1, 2))
    live = open_tree("/")
    assert live.modified(str(tmp_path / "x")) == 2
    space = live.space(str(tmp_path))
    assert space is not None
    assert space.device == tmp_path.stat().st_dev
    assert 0 <= space.free_mib <= shutil.disk_usage(tmp_path).total >> 20
    assert (live.modified("/nowhere/x"), live.space("/nowhere")) == (None, None)
    for tree in (open_tree(str(tmp_path)), MemoryTree({"/x": Entry("f")})):
        assert (tree.modified("/x"), tree.space("/")) == (None, None)


def test_the_processes_of_a_control_group_come_in_short_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than a page, read(2) gives 4091 bytes first, as Linux 6.18 did."""
    whole = b"".join(b"%d\n" % pid for pid in range(1_000_000, 1_000_900))
    write(str(tmp_path), {"/sys/fs/cgroup/cgroup.procs": Entry("f", whole)})
    monkeypatch.setattr(os, "read", lambda handle, _size, read=os.read: read(handle, 4091))
    assert DirectoryTree(str(tmp_path)).read("/sys/fs/cgroup/cgroup.procs") == whole
