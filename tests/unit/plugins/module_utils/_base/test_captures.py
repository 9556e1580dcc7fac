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
import signal
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base import captures as _captures, tree as _tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import (
    CAPTURE_HEADER,
    Entry,
    MemoryTree,
    load_archive,
    load_listing,
    open_tree,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.recorder import dump_archive, dump_listing
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import DirectoryTree, Tree, TreeError
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._base.trees import (
    ENTRIES,
    questions,
    write,
)


def answers(tree: Tree, paths: set[str]) -> dict[str, object]:
    return {
        path: (tree.real(path), tree.read(path), tree.names(path), tree.link_name(path), tree.exists(path))
        for path in sorted(paths)
    }


def allow_entries(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    for module in (_captures, _tree):
        monkeypatch.setattr(module, "MAX_CAPTURE_ENTRIES", most)


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
    allow_entries(monkeypatch, 3)
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
    assert _captures._Member.frombuf(b"", "utf-8", "strict").size == 1
    size = -512
    with pytest.raises(tarfile.ReadError, match=r"^member 'b' has a negative size$"):
        _captures._Member.frombuf(b"", "utf-8", "strict")


def record_of(key: str, value: str) -> bytes:
    """A record of an extended header, which begins with its own length."""
    rest = f" {key}={value}\n".encode()
    length = len(rest)
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return str(length).encode() + rest


def with_header(kind: bytes, data: bytes, *members: tarfile.TarInfo) -> bytes:
    """An archive that begins with an extended header."""
    info = tarfile.TarInfo("header")
    info.type, info.size = kind, len(data)
    return b"".join([info.tobuf(), data, bytes(-len(data) % 512), *(member.tobuf() for member in members), bytes(1024)])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        # tarfile looks for a record from each digit on: 8 MiB, which are 8 KiB when they are compressed, take it a day
        (b"9" * (8 << 20), "is longer than that of any file"),
        (record_of("comment", "9" * 60_000), "is longer than that of any file"),
        (record_of("comment", "x" * 70_000), "is longer than that of any file"),
        # each record begins in the middle of the one before it, and has all that is left for its key
        (b"2 " * 30_000 + b"x=1\n", "is damaged"),
        (b"99 path=x\n", "is damaged"),
        (b"nonsense", "is damaged"),
        (b"".join(record_of(f"k{number}", "") for number in range(65)), "has 65 records, and that of no file"),
    ],
    ids=["digits", "digits in a record", "long", "overlapping", "cut", "nonsense", "many"],
)
@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE])
def test_an_extended_header_that_no_file_needs_is_refused(kind: bytes, data: bytes, reason: str) -> None:
    blob = with_header(kind, data, tarfile.TarInfo("f"))
    with at_most(60), pytest.raises(TreeError, match=f"^x: not a readable tar archive: an extended header {reason}"):
        load_archive(blob, "x")


def test_global_headers_add_up_to_few_records() -> None:
    """Every member gets a copy of all of them: 3 MiB would take all memory there is."""
    kept = [record_of(f"k{number}", "") for number in range(130)]
    few, many = (
        b"".join(
            with_header(tarfile.XGLTYPE, b"".join(kept[start : start + 60]))[:-1024] for start in range(0, count, 60)
        )
        + with_header(tarfile.XHDTYPE, record_of("path", "there"), tarfile.TarInfo("f"))
        for count in (60, 130)
    )
    assert list(load_archive(few, "x")) == ["/there"]
    with pytest.raises(TreeError, match=r"^x: not a readable tar archive: global headers have more than 64 records"):
        load_archive(many, "x")


def sparse(pieces: int, size: int) -> bytes:
    """A file of which there is a byte now and then, and otherwise nothing (version 1.0 of GNU's format)."""
    words = {"major": "1", "minor": "0", "realsize": str(size)}
    header = b"".join(record_of(f"GNU.sparse.{key}", value) for key, value in words.items())
    numbers = b"".join(b"%d\n1\n" % (number * size // pieces) for number in range(pieces))
    where = b"%d\n" % pieces + numbers
    data = where + bytes(-len(where) % 512) + b"x" * pieces
    info = tarfile.TarInfo("f")
    info.size = len(data)
    return with_header(tarfile.XHDTYPE, header, info)[:-1024] + data + bytes(-len(data) % 512 + 1024)


def test_a_file_with_very_many_holes_is_refused() -> None:
    """Each piece is put to a copy of all before it: 12 KiB took 19 seconds, and 1 MiB an hour."""
    assert load_archive(sparse(3, 30), "x") == {"/f": Entry("f", b"x" + bytes(9) + b"x" + bytes(9) + b"x" + bytes(9))}
    with at_most(60), pytest.raises(TreeError, match=r"^x: member 'f' has 50000 pieces with holes between them$"):
        load_archive(sparse(50_000, 60_000_000), "x")


@pytest.mark.parametrize("size", [4096, 4097])
def test_a_link_is_no_longer_than_a_path(size: int) -> None:
    target = "x/" * (size // 2) + "y" * (size % 2)
    info = tarfile.TarInfo("l")
    info.type, info.linkname = tarfile.SYMTYPE, target
    listing, blob = f"{CAPTURE_HEADER}\nl l {target}\n", info.tobuf(tarfile.PAX_FORMAT) + bytes(1024)
    if size == 4096:
        assert load_listing(listing, "x") == load_archive(blob, "x") == {"/l": Entry("l", target=target)}
        return
    with pytest.raises(
        TreeError, match=r"^x, line 2: a link to 4097 characters; no system has a path of more than 4096$"
    ):
        load_listing(listing, "x")
    with pytest.raises(TreeError, match=r"^x: member 'l' is a link to 4097 characters; no system has a path of more"):
        load_archive(blob, "x")


@pytest.mark.parametrize("end", [Entry("d"), Entry("f", b""), Entry("l", target="nowhere"), Entry("l", target="0")])
@pytest.mark.parametrize("links", [30, 41])
def test_where_a_link_leads_is_looked_up_once(links: int, end: Entry) -> None:
    """However many paths go over it: 38 links of 200 kB and some hundred devices took minutes."""
    way = "./" * 2000
    entries = {f"/{number}": Entry("l", target=f"{way}{number + 1}") for number in range(links)}
    entries[f"/{links}"] = end
    entries.update((f"/devices/{number}", Entry("l", target="/0/below")) for number in range(5000))
    tree = MemoryTree(entries)
    with at_most(30):
        assert not any(tree.exists(f"/devices/{number}") for number in range(5000))


def test_members_of_one_name_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_entries(monkeypatch, 3)
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
    allow_entries(monkeypatch, 3)
    message = f"{tmp_path}/: more than 64 MiB or 3 entries: this is not a capture"
    with pytest.raises(TreeError, match=f"^{re.escape(message)}$"):
        DirectoryTree(str(tmp_path)).names("/")
    # a live node has as many processes as it has
    assert DirectoryTree("/").names("/proc")


@pytest.mark.parametrize("form", ["listing", "archive"])
def test_directories_that_paths_imply_are_entries_too(
    form: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    allow_entries(monkeypatch, 12)
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
