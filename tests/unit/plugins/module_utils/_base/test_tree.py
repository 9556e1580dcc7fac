# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import shutil
import signal
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base import tree as _tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import (
    CAPTURE_HEADER,
    DirectoryTree,
    Entry,
    MemoryTree,
    Recorder,
    Tree,
    TreeError,
    dump_archive,
    dump_listing,
    load_archive,
    load_listing,
    open_tree,
)
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, checked


def write(root: Path, entries: Mapping[str, Entry]) -> DirectoryTree:
    """Entries as files below a directory."""
    base = os.fsencode(str(root))
    for path in sorted(entries):
        entry, place = entries[path], base + os.fsencode(path)
        os.makedirs(place if entry.kind == "d" else os.path.dirname(place), exist_ok=True)
        if entry.kind == "f":
            with open(place, "wb") as handle:
                handle.write(entry.data)
        elif entry.kind == "l":
            os.symlink(entry.target, place)
    return DirectoryTree(str(root))


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


# -- Captures --------------------------------------------------------------------------------------------------------

NAME = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=6).filter(
    lambda name: name not in (".", "..")
)
# a byte that is no UTF-8 reaches Python as a lone surrogate
RAW = st.builds(lambda name, byte: name + chr(0xDC80 + byte), NAME, st.integers(0, 0x7F))
PATH = st.lists(st.one_of(st.sampled_from("abc"), NAME, RAW), min_size=1, max_size=4).map(lambda p: "/" + "/".join(p))
TARGET = st.one_of(
    PATH,
    PATH.map(lambda path: "../.." + path),
    st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=5).map("/".join),
)
ENTRY = st.one_of(
    st.binary(max_size=40).map(lambda data: Entry("f", data)),
    TARGET.map(lambda target: Entry("l", target=target)),
    st.just(Entry("d")),
)


def _consistent(entries: dict[str, Entry]) -> dict[str, Entry]:
    """Without entries below something that is no directory."""
    return {
        path: entry
        for path, entry in entries.items()
        if not any(
            entries[above].kind != "d"
            for above in (path[:at] for at in range(1, len(path)) if path[at] == "/")
            if above in entries
        )
    }


ENTRIES = st.dictionaries(PATH, ENTRY, max_size=12).map(_consistent)


def answers(tree: Tree, paths: set[str]) -> dict[str, object]:
    return {
        path: (tree.real(path), tree.read(path), tree.names(path), tree.link_name(path), tree.exists(path))
        for path in sorted(paths)
    }


def questions(entries: Mapping[str, Entry]) -> set[str]:
    paths = {"/", "/nothing", *entries}
    paths |= {path.rpartition("/")[0] or "/" for path in entries}
    return paths | {path + suffix for path in entries for suffix in ("/a", "/..", "/../b")}


@given(ENTRIES)
def test_all_forms_of_a_capture_give_the_same_answers(entries: dict[str, Entry]) -> None:
    asked = questions(entries)
    expected = answers(MemoryTree(entries), asked)
    listing = dump_listing(entries).encode("utf-8", "surrogateescape")
    with tempfile.TemporaryDirectory() as place:
        assert answers(write(Path(place) / "root", entries), asked) == expected
        for name, blob in (("x.capture", listing), ("x.tar.gz", dump_archive(entries))):
            (Path(place) / name).write_bytes(blob)
            assert answers(open_tree(str(Path(place) / name)), asked) == expected


@given(ENTRIES)
def test_a_round_trip_loses_nothing(entries: dict[str, Entry]) -> None:
    assert load_archive(dump_archive(entries), "x") == entries
    loaded = load_listing(dump_listing(entries), "x")
    # a directory that holds something is implied
    assert loaded.items() <= entries.items()
    assert {path for path, entry in entries.items() if entry.kind != "d"} <= set(loaded)
    assert dump_listing(loaded) == dump_listing(entries)
    assert dump_archive(entries) == dump_archive(dict(reversed(entries.items())))


class Faulty(MemoryTree):
    """A tree with files that exist and cannot be read, as empty GID slots are."""

    def _data(self, path: str) -> bytes | None:
        data = super()._data(path)
        return None if data is not None and data.startswith(b"!") else data


@given(ENTRIES, st.sets(PATH), st.lists(st.booleans()))
def test_a_recording_answers_like_the_original(entries: dict[str, Entry], unread: set[str], order: list[bool]) -> None:
    entries = {path: Entry("f", b"!") if path in unread else entry for path, entry in entries.items()}
    tree = Faulty(entries)
    recorder = Recorder(tree)
    asked = questions(entries)
    # exists() is not asked: a file that is there and cannot be read is not there in a recording
    for path in sorted(asked, reverse=bool(order)):
        assert recorder.read(path) == tree.read(path)
        assert recorder.link_name(path) == tree.link_name(path)
    replay = MemoryTree(recorder.entries)
    assert {path: replay.read(path) for path in asked} == {path: tree.read(path) for path in asked}
    assert {path: replay.link_name(path) for path in asked} == {path: tree.link_name(path) for path in asked}


@pytest.mark.parametrize("capture", sorted(CAPTURES.glob("*.capture")), ids=lambda path: path.stem)
def test_what_discovery_looked_at_is_enough_to_discover_the_same(capture: Path) -> None:
    recorder = Recorder(open_tree(str(capture)))
    facts = checked(gather(recorder))
    assert facts == gather(open_tree(str(capture)))
    assert gather(MemoryTree(recorder.entries)) == facts
    assert gather(MemoryTree(load_archive(dump_archive(recorder.entries), "x"))) == facts
    again = Recorder(MemoryTree(recorder.entries))
    gather(again)
    assert again.entries == recorder.entries


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x: not a capture: the first line is not '# fabric.rdma capture 1'"),
        ("# fabric.rdma capture 10\n", "x: not a capture: the first line is not '# fabric.rdma capture 1'"),
        *(
            (
                f"{CAPTURE_HEADER}\n\n# remark\n{line}\n",
                f"x, line 4: expected 'd PATH', 'f PATH JSON' or 'l PATH TARGET', found '{line:.60}'",
            )
            for line in (
                "c dev/null",
                "f",
                "d ",
                "d a/../b",
                "d ..",
                "d a//b",
                "d ./a",
                "l a",
                "nonsense" * 20,
            )
        ),
        (
            f"{CAPTURE_HEADER}\nf a b\n",
            "x, line 2: the content of a is not a JSON string: Expecting value: line 1 column 1 (char 0)",
        ),
        (
            f"{CAPTURE_HEADER}\nf a 1\n",
            "x, line 2: the content of a is not a JSON string: 'int' object has no attribute 'encode'",
        ),
        (
            f"{CAPTURE_HEADER}\nf a {'[' * 100_000}\n",
            "x, line 2: the content of a is not a JSON string: it is nested too deeply",
        ),
        (
            f"{CAPTURE_HEADER}\nd {'a/' * 2048}b\n",
            "x, line 2: a path of 4098 characters; no system has one of more than 4096",
        ),
        (
            f'{CAPTURE_HEADER}\nf a "\\ud800"\n',
            "x, line 2: the content of a is not a JSON string: "
            "'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed",
        ),
    ],
)
def test_a_bad_listing_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(TreeError, match=f"^{re.escape(message)}$"):
        load_listing(text, "x")


def archive(*members: tuple[str, bytes, str, int]) -> bytes:
    """A tar archive of (name, type, link target, size) members; the content is zeros."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, kind, target, size in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, target, size
            tar.addfile(info, io.BytesIO(bytes(size)))
    return raw.getvalue()


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (("../a", tarfile.REGTYPE, "", 0), "x: member '../a' leads out of the archive"),
        (("a/../../b", tarfile.REGTYPE, "", 0), "x: member 'a/../../b' leads out of the archive"),
        (("a/..", tarfile.DIRTYPE, "", 0), "x: member 'a/..' leads out of the archive"),
        (("a", tarfile.CHRTYPE, "", 0), "x: member 'a' is neither file, directory nor symbolic link"),
        (("a", tarfile.BLKTYPE, "", 0), "x: member 'a' is neither file, directory nor symbolic link"),
        (("a", tarfile.FIFOTYPE, "", 0), "x: member 'a' is neither file, directory nor symbolic link"),
        (("a", tarfile.LNKTYPE, "b", 0), "x: member 'a' is neither file, directory nor symbolic link"),
        (("a", tarfile.REGTYPE, "", 65 << 20), "x: more than 64 MiB or 200000 entries: this is not a capture"),
    ],
)
def test_a_hostile_archive_is_refused(member: tuple[str, bytes, str, int], message: str) -> None:
    plain = archive(member)
    for blob in (plain, gzip.compress(plain, 1)):
        with pytest.raises(TreeError, match=f"^{re.escape(message)}$"):
            load_archive(blob, "x")


def test_too_many_entries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tree, "_MAX_CAPTURE_ENTRIES", 3)
    members = [(f"f{index}", tarfile.REGTYPE, "", 0) for index in range(4)]
    assert len(load_archive(archive(*members[:3]), "x")) == 3
    message = "x: more than 64 MiB or 3 entries: this is not a capture"
    with pytest.raises(TreeError, match=f"^{re.escape(message)}$"):
        load_archive(archive(*members), "x")


def of_size(name: str, size: int) -> bytes:
    """The header of a file of any size, also a negative one, which tarfile writes only by hand (base-256 of GNU)."""
    header = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT))
    header[124:136] = size.to_bytes(12, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def of_extended_size(name: str, size: int) -> bytes:
    """The same with the size in an extended header (POSIX.1-2001)."""
    info = tarfile.TarInfo(name)
    info.pax_headers = {"size": str(size)}
    return info.tobuf(tarfile.PAX_FORMAT)


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """A call that never returns is a failure, and not a run that never ends."""

    def late(_number: int, _frame: object) -> None:
        # no Exception, which a reader may take for a damaged archive
        pytest.fail(f"still at work after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("make", [of_size, of_extended_size])
@pytest.mark.parametrize("size", [-1, -511, -512, -1024, -1536, -2048, -(1 << 40)])
@pytest.mark.parametrize("name", ["b", "."])
def test_a_member_of_negative_size_is_refused(make: Callable[[str, int], bytes], size: int, name: str) -> None:
    """Its end is before its beginning: tarfile reads the same member again, for ever."""
    plain = of_size("a", 0) + make(name, size) + bytes(1024)
    for blob in (plain, gzip.compress(plain, 1)):
        with (
            at_most(60),
            pytest.raises(TreeError, match=r"^x: (not a readable tar archive: .*|.* has a negative size.*)$"),
        ):
            load_archive(blob, "x")


def test_a_negative_size_is_seen_before_tarfile_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """This tarfile may refuse it itself; an older one has gone back to the member before by the time it hands this one on."""

    def older(cls: type[tarfile.TarInfo], _buf: bytes, _encoding: str, _errors: str) -> tarfile.TarInfo:
        found = cls("b")
        found.size = size
        return found

    monkeypatch.setattr(tarfile.TarInfo, "frombuf", classmethod(older))
    size = 1
    assert _tree._Member.frombuf(b"", "utf-8", "strict").size == 1
    size = -512
    with pytest.raises(tarfile.ReadError, match=r"^member 'b' has a negative size$"):
        _tree._Member.frombuf(b"", "utf-8", "strict")


def test_members_of_one_name_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tree, "_MAX_CAPTURE_ENTRIES", 3)
    for name in ("a", "."):
        with pytest.raises(TreeError, match="more than 64 MiB or 3 entries"):
            load_archive(archive(*[(name, tarfile.REGTYPE, "", 0)] * 4), "x")


def test_a_listing_of_a_million_entries_is_refused_at_once() -> None:
    text = f"{CAPTURE_HEADER}\n" + "".join(f"d x{number}\n" for number in range(1_000_000))
    assert len(text) > 7 << 20
    message = "x: more than 64 MiB or 200000 entries: this is not a capture"
    with at_most(60), pytest.raises(TreeError, match=f"^{re.escape(message)}$"):
        load_listing(text, "x")


def test_a_directory_of_too_many_entries_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / str(number)).mkdir()
    assert len(DirectoryTree(str(tmp_path)).names("/")) == 4
    monkeypatch.setattr(_tree, "_MAX_CAPTURE_ENTRIES", 3)
    message = f"{tmp_path}/: more than 64 MiB or 3 entries: this is not a capture"
    with pytest.raises(TreeError, match=f"^{re.escape(message)}$"):
        DirectoryTree(str(tmp_path)).names("/")
    # a live node has as many processes as it has
    assert DirectoryTree("/").names("/proc")


@pytest.mark.parametrize("form", ["listing", "archive"])
def test_directories_that_paths_imply_are_entries_too(
    form: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_tree, "_MAX_CAPTURE_ENTRIES", 12)
    names = [f"{number}/b/c/d" for number in range(4)]
    blob = archive(*[(name, tarfile.DIRTYPE, "", 0) for name in names])
    if form == "listing":
        blob = "\n".join([CAPTURE_HEADER, *(f"d {name}" for name in names)]).encode()
    path = tmp_path / "capture"
    path.write_bytes(blob)
    message = f"{path}: more than 64 MiB or 12 entries: this is not a capture"
    with pytest.raises(TreeError, match=f"^{re.escape(message)}$"):
        open_tree(str(path))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_unpacks_to_more_than_a_capture_is_refused(kind: bytes) -> None:
    """The archive is small; tarfile would hold the whole of the header in memory."""
    blob = gzip.compress(archive(("header", kind, "", 80 << 20)), 1)
    assert len(blob) < 1 << 20
    message = "x: more than 64 MiB or 200000 entries: this is not a capture"
    with pytest.raises(TreeError, match=f"^{re.escape(message)}$"):
        load_archive(blob, "x")


COMPRESSIONS: list[Callable[[bytes], bytes]] = [bytes, gzip.compress, bz2.compress, lzma.compress]


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_every_compression_of_tar_is_read(compress: Callable[[bytes], bytes]) -> None:
    blob = compress(archive(("./sys/a", tarfile.REGTYPE, "", 3), ("sys/b", tarfile.SYMTYPE, "a", 0)))
    assert load_archive(blob, "x") == {"/sys/a": Entry("f", bytes(3)), "/sys/b": Entry("l", target="a")}


@given(st.data())
def test_a_damaged_archive_is_an_error_or_another_archive(data: st.DataObject) -> None:
    compress = data.draw(st.sampled_from(COMPRESSIONS))
    blob = bytearray(compress(archive(("a", tarfile.REGTYPE, "", 600), ("b" * 120, tarfile.DIRTYPE, "", 0))))
    for _turn in range(data.draw(st.integers(1, 3))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    del blob[data.draw(st.integers(0, len(blob))) :]
    with contextlib.suppress(TreeError):
        MemoryTree(load_archive(bytes(blob), "x")).read("/a")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "root '{}' cannot be read: No such file or directory (expected a directory or a capture file)"),
        ("file/x", "root '{}' cannot be read: Not a directory (expected a directory or a capture file)"),
        ("pipe", "root '{}' is neither a directory nor a capture file"),
        ("file", "{}: not a readable tar archive: truncated header"),
        ("large", "root '{}' is larger than 64 MiB: this is not a capture"),
    ],
)
def test_a_root_that_cannot_be_used_is_explained(tmp_path: Path, name: str, message: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("something else")
    with open(tmp_path / "large", "wb") as large:
        large.truncate((64 << 20) + 1)
    root = str(tmp_path / name)
    with pytest.raises(TreeError, match=f"^{re.escape(message.format(root))}$"):
        open_tree(root)


def test_glob_takes_leading_dots_as_go_does() -> None:
    paths = ["/etc/a/1.toml", "/etc/a/.2.toml", "/etc/a/3.conf", "/etc/b/1.toml", "/etc/b/c/1.toml"]
    tree = MemoryTree({path: Entry("f") for path in paths})
    assert tree.glob("/etc/a/*.toml") == ["/etc/a/.2.toml", "/etc/a/1.toml"]
    assert tree.glob("/etc/*/1.toml") == ["/etc/a/1.toml", "/etc/b/1.toml"]
    assert tree.glob("/etc/a/[13].*") == ["/etc/a/1.toml", "/etc/a/3.conf"]
    assert tree.glob("/etc/b/1.toml") == ["/etc/b/1.toml"]
    assert tree.glob("/none/*") == tree.glob("/etc/b/2.toml") == []


def test_only_an_excerpt_of_a_file_is_recorded() -> None:
    entries = {"/a": Entry("f", b"user\npassword\n"), "/link": Entry("l", target="a"), "/b": Entry("f", b"b")}
    recorder = Recorder(MemoryTree(entries))

    def first_line(data: bytes) -> bytes:
        return data.split(b"\n")[0] + b"\n"

    assert recorder.excerpt("/link", first_line) == b"user\n"
    assert recorder.excerpt("/none", first_line) is None
    # also when it is read whole later, under another name
    assert recorder.read("/a") == b"user\npassword\n"
    assert recorder.entries["/a"] == Entry("f", b"user\n")
    replayed = MemoryTree(recorder.entries)
    assert replayed.excerpt("/link", first_line) == b"user\n"


def test_a_link_that_leads_out_of_the_tree_is_recorded() -> None:
    recorder = Recorder(DirectoryTree("/"))
    target = recorder.link_target("/proc/self/exe")
    assert target
    assert recorder.entries["/proc/self/exe"] == Entry("l", target=target)
    assert MemoryTree(recorder.entries).link_target("/proc/self/exe") == target
    assert MemoryTree({}).link_target("/proc/self/exe") is None


def test_a_list_of_proc_comes_in_short_pieces() -> None:
    # the first read(2) ends before the first page does, though there is more to come
    whole = Path("/proc/kallsyms").read_bytes()
    assert len(whole) > 65536
    assert DirectoryTree("/").read("/proc/kallsyms") == whole


def test_times_and_space_are_told_of_a_live_node_only(tmp_path: Path) -> None:
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
