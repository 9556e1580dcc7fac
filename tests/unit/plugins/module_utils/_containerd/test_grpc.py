# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gRPC over a unix socket: the wire codec, headers of real servers, and servers that misbehave."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.grpc import (
    GrpcError,
    WireError,
    decode,
    decode_headers,
    encode,
    message_texts,
    text,
    unary,
)

NUMBERS = st.integers(1, 2**29 - 1)
LEAVES = st.one_of(st.integers(-(2**63), 2**64 - 1), st.binary(max_size=300), st.text(max_size=50))
FIELDS = st.recursive(
    st.lists(st.tuples(NUMBERS, LEAVES), max_size=6),
    lambda inner: st.lists(st.tuples(NUMBERS, st.one_of(LEAVES, inner)), max_size=6),
    max_leaves=12,
)


def same(fields: list[tuple[int, Any]], message: dict[int, list[Any]]) -> None:
    """What was encoded is what is decoded, by the rules of the wire format."""
    expected: dict[int, list[Any]] = {}
    for number, value in fields:
        expected.setdefault(number, []).append(value)
    assert list(message) == list(expected)
    for number, values in expected.items():
        assert len(values) == len(message[number])
        for value, found in zip(values, message[number], strict=True):
            if isinstance(value, int):
                assert found == value % 2**64
            elif isinstance(value, str):
                assert found == value.encode()
            elif isinstance(value, bytes):
                assert found == value
            else:
                same(value, decode(found))


@given(FIELDS)
def test_what_is_encoded_is_decoded(fields: list[tuple[int, Any]]) -> None:
    same(fields, decode(encode(fields)))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_an_error(data: bytes) -> None:
    with contextlib.suppress(WireError):
        decode(data)
    with contextlib.suppress(WireError):
        decode_headers(data)


def test_bytes_as_protoc_makes_them() -> None:
    # the examples of protobuf.dev/programming-guides/encoding
    assert encode([(1, 150)]) == bytes.fromhex("089601")
    assert encode([(2, "testing")]) == bytes.fromhex("120774657374696e67")
    assert encode([(3, [(1, 150)])]) == bytes.fromhex("1a03089601")
    assert encode([(1, True), (2, -2)]) == bytes.fromhex("080110feffffffffffffffff01")
    assert decode(bytes.fromhex("0d01000000" + "110200000000000000")) == {1: [b"\1\0\0\0"], 2: [b"\2" + bytes(7)]}
    assert message_texts(decode(encode([(2, [(1, "a"), (2, "b")]), (2, [(1, "c")])])), 2) == {"a": "b", "c": ""}
    assert text({}, 1) == ""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("08", "the message ends within a number"),
        ("0a0561", "field 1 has 5 bytes, of which 1 are there"),
        ("0b", "field 1 has the unknown wire type 3"),
        ("0001", "there is no field 0"),
        ("08" + "ff" * 10 + "01", "a number of more than ten bytes"),
    ],
)
def test_bytes_that_are_no_message(data: str, message: str) -> None:
    with pytest.raises(WireError, match=message):
        decode(bytes.fromhex(data))


def test_headers_of_the_rfc_are_decoded() -> None:
    # RFC 7541, C.6.1 (Huffman) and C.5.1 (plain) without what only the table of the sender makes possible
    huffman = (
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3"
    )
    assert decode_headers(bytes.fromhex(huffman)) == {
        ":status": "302",
        "cache-control": "private",
        "date": "Mon, 21 Oct 2013 20:13:21 GMT",
        "location": "https://www.example.com",
    }
    plain = "4803333032580770726976617465"
    assert decode_headers(bytes.fromhex(plain)) == {":status": "302", "cache-control": "private"}
    # a size of the table (0), an entry of the static one, a literal that is never to be kept
    assert decode_headers(bytes.fromhex("2088" + "100161" + "0162")) == {":status": "200", "a": "b"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("c0", "entry 64 of a table that is empty"),
        ("80", "entry 0 of a table"),
        ("00", "the headers end within a field"),
        ("000561", "the headers end within a text"),
        ("0001618200" + "00", "a header ends within a code"),
        ("00016184ffffffff", "a header ends within its text|a code that does not exist"),
    ],
)
def test_malformed_headers_are_an_error(data: str, message: str) -> None:
    with pytest.raises(WireError, match=message):
        decode_headers(bytes.fromhex(data))


# --- servers ----------------------------------------------------------------------------------------------------------


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: str, value: str) -> bytes:
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


OK = frame(1, 0x5, 1, literal("grpc-status", "0"))
HELLO = frame(4, 0, 0, b"")
BODY = b"\0" + struct.pack(">I", 2) + b"\x08\x01"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[bytes], str]]:
    """Starts a server that reads the request and sends these bytes; the path of its socket."""
    threads: list[threading.Thread] = []

    def start(answer: bytes) -> str:
        path = str(tmp_path / "s")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen()

        def work() -> None:
            with listener, listener.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):
                    while connection.recv(65536):
                        pass

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        return path

    yield start
    for thread in threads:
        thread.join()


def test_an_answer_in_pieces(serve: Callable[[bytes], str]) -> None:
    headers = frame(1, 0, 1, b"\x88") + frame(9, 0x4, 1, literal("content-type", "application/grpc"))
    padded = frame(0, 0x8, 1, b"\x03" + BODY[:4] + b"\0\0\0")
    ping = frame(6, 0, 0, b"12345678")
    path = serve(HELLO + headers + padded + ping + frame(0, 0, 1, BODY[4:]) + frame(8, 0, 0, b"\0\0\0\1") + OK)
    assert unary(path, "/a/b", b"", 5) == b"\x08\x01"


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", 14, "does not speak gRPC|closed the connection"),
        (b"", 14, "it closed the connection"),
        (HELLO + frame(3, 0, 1, b"\0\0\0\2"), 14, "it cancelled the call"),
        (HELLO + frame(7, 0, 0, bytes(8) + b"bye"), 14, "it refused the call: bye"),
        (HELLO + frame(1, 0x5, 1, b"\x8d"), 14, r"an answer without grpc-status \(HTTP status 404\)"),
        (HELLO + OK, 14, "an answer that is not one uncompressed message"),
        (
            HELLO + frame(1, 0x5, 1, literal("grpc-status", "12") + literal("grpc-message", "unknown%20service x")),
            12,
            "unknown service x",
        ),
    ],
)
def test_servers_that_give_no_answer(serve: Callable[[bytes], str], answer: bytes, status: int, message: str) -> None:
    path = serve(answer)
    with pytest.raises(GrpcError, match=message) as error:
        unary(path, "/a/b", b"", 5)
    assert error.value.status == status
    assert str(error.value).startswith(path)


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(GrpcError, match=r"no answer in 0\.2 seconds") as error:
            unary(str(path), "/a/b", b"", 0.2)
    assert error.value.status == 4
    with pytest.raises(GrpcError, match="nobody listens there"):
        unary(str(path), "/a/b", b"", 1)


def test_a_path_without_a_listening_socket_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GrpcError, match="there is no such socket"):
        unary(str(tmp_path / "s"), "/a/b", b"", 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(GrpcError, match=r"nobody listens there|not a socket"):
        unary(str(tmp_path / "file"), "/a/b", b"", 1)
    with pytest.raises(GrpcError, match="a request of 70000 bytes"):
        unary(str(tmp_path / "s"), "/a/b", bytes(70000), 1)
