# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One gRPC call at a time over a unix socket, with the standard library only. Private to the collection.

As much of HTTP/2 (RFC 9113), HPACK (RFC 7541), gRPC (doc/PROTOCOL-HTTP2.md) and the protobuf wire format as unary calls to
a program on the same node need, because nodes have no grpcio, and no crictl either where nobody installed it. A call has a
connection of its own: the daemon is restarted between calls. Requests say that the header table has no room, so nothing
has to be remembered between two blocks of headers.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import time
import typing as t
import urllib.parse

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError

__all__ = [
    "UNIMPLEMENTED",
    "GrpcError",
    "WireError",
    "decode",
    "decode_headers",
    "encode",
    "message_texts",
    "text",
    "unary",
]

# grpc, doc/statuscodes.md
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
UNIMPLEMENTED = 12
UNAVAILABLE = 14

# A status with the configuration of all runtimes is 20 kB, a list of 1,000 containers 2 MB.
_MAX_REPLY = 64 * 1024 * 1024
# RFC 9113, 6.9.2: what may be sent before the other side has said more.
_WINDOW = 65535
_FRAME = 16384
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_ACK, _END_STREAM, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20

# RFC 7541, appendix A, in its order.
_STATIC_TEXT = (
    ":authority|:method=GET|:method=POST|:path=/|:path=/index.html|:scheme=http|:scheme=https|:status=200|:status=204|"
    ":status=206|:status=304|:status=400|:status=404|:status=500|accept-charset|accept-encoding=gzip, deflate|"
    "accept-language|accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control|"
    "content-disposition|content-encoding|content-language|content-length|content-location|content-range|content-type|"
    "cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|"
    "last-modified|link|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|"
    "server|set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate"
)
_STATIC = _STATIC_TEXT.split("|")

# RFC 7541, appendix B: the lengths of the codes of the symbols 0 to 255 and of the end. The code is canonical: in order of
# length, then symbol, each code is the one before plus one, so the lengths are all there is to know.
_LENGTHS = (
    "13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28 6 10 10 "
    "12 13 6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10 13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 "
    "7 7 7 7 7 8 7 8 13 19 13 14 6 15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28 20 22 "
    "20 20 22 22 22 23 22 23 23 23 23 23 24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24 22 21 20 22 22 "
    "23 23 21 23 22 22 24 21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23 26 26 20 19 22 23 22 25 "
    "26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27 20 24 20 21 22 21 21 23 22 22 25 "
    "25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26 30"
)

# A field of a message: number, and an integer, a text, bytes, or the fields of a message in it.
Field = t.Tuple[int, t.Any]
Message = t.Dict[int, t.List[t.Union[int, bytes]]]


class WireError(FabricError):
    """Bytes that are not what they should be: not protobuf, not HPACK, not HTTP/2."""


class GrpcError(FabricError):
    """A call that did not succeed. status is the number of the gRPC status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


# --- protobuf ---------------------------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(fields: t.Sequence[Field]) -> bytes:
    """The bytes of a message from (field number, value): integers and booleans, texts, bytes, and lists of such pairs.

    A field that is repeated is there several times, an entry of a map is a message with the fields 1 and 2.
    """
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
            continue
        if isinstance(value, str):
            value = value.encode("utf-8")
        elif not isinstance(value, (bytes, bytearray)):
            value = encode(value)
        out += _varint(number << 3 | 2) + _varint(len(value)) + value
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(10):
        if at + index >= len(data):
            raise WireError("the message ends within a number")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & (2**64 - 1), at + index + 1
    raise WireError("a number of more than ten bytes")


def decode(data: bytes) -> Message:
    """Values of a message by field number, in their order: integers (unsigned), and bytes for all that has a length."""
    found: Message = {}
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind, number = key & 7, key >> 3
        value: t.Union[int, bytes]
        if kind == 0:
            value, at = _read_varint(data, at)
        elif kind in (1, 2, 5):
            size = {1: 8, 5: 4}.get(kind, 0)
            if kind == 2:
                size, at = _read_varint(data, at)
            if at + size > len(data):
                raise WireError(f"field {number} has {size} bytes, of which {len(data) - at} are there")
            value, at = data[at : at + size], at + size
        else:
            raise WireError(f"field {number} has the unknown wire type {kind}")
        if number == 0:
            raise WireError("there is no field 0")
        found.setdefault(number, []).append(value)
    return found


def text(message: Message, number: int) -> str:
    """The text of a field, an empty one when it is not there: protobuf does not tell these apart."""
    value = message.get(number, [b""])[-1]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def message_texts(message: Message, number: int) -> dict[str, str]:
    """A field of the type map<string, string>."""
    entries = (decode(value) for value in message.get(number, []) if isinstance(value, bytes))
    return {text(entry, 1): text(entry, 2) for entry in entries}


# --- HPACK ------------------------------------------------------------------------------------------------------------


def _codes() -> dict[tuple[int, int], int]:
    lengths = [int(length) for length in _LENGTHS.split()]
    codes: dict[tuple[int, int], int] = {}
    code = previous = 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(lengths)):
        code <<= length - previous
        codes[(length, code)] = symbol
        code, previous = code + 1, length
    return codes


_HUFFMAN: dict[tuple[int, int], int] = {}


def _huffman(data: bytes) -> bytes:
    if not _HUFFMAN:
        _HUFFMAN.update(_codes())
    out = bytearray()
    code = length = 0
    for byte in data:
        for shift in range(7, -1, -1):
            code, length = code << 1 | byte >> shift & 1, length + 1
            symbol = _HUFFMAN.get((length, code))
            if symbol is not None:
                if symbol == 256:
                    raise WireError("a header ends within its text")
                out.append(symbol)
                code = length = 0
            elif length > 30:
                raise WireError("a header has a code that does not exist")
    # The last byte is filled up with the first bits of the code of the end, which are ones.
    if length > 7 or code != (1 << length) - 1:
        raise WireError("a header ends within a code")
    return bytes(out)


def _prefixed(data: bytes, at: int, bits: int) -> tuple[int, int]:
    if at >= len(data):
        raise WireError("the headers end within a field")
    value = data[at] & (1 << bits) - 1
    at += 1
    if value < (1 << bits) - 1:
        return value, at
    rest, at = _read_varint(data, at)
    return value + rest, at


def _string(data: bytes, at: int) -> tuple[str, int]:
    packed = at < len(data) and bool(data[at] & 0x80)
    size, at = _prefixed(data, at, 7)
    if at + size > len(data):
        raise WireError("the headers end within a text")
    raw = data[at : at + size]
    return (_huffman(raw) if packed else raw).decode("utf-8", "replace"), at + size


def _static(index: int) -> tuple[str, str]:
    if not 1 <= index <= len(_STATIC):
        raise WireError(f"a header refers to entry {index} of a table that is empty")
    name, _dummy, value = _STATIC[index - 1].partition("=")
    return name, value


def decode_headers(block: bytes) -> dict[str, str]:
    """Headers from the block of a sender that was told to keep no table."""
    headers: dict[str, str] = {}
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0x80:
            index, at = _prefixed(block, at, 7)
            name, value = _static(index)
        elif first & 0xE0 == 0x20:
            # a new size of the table, which cannot be more than the nothing that was allowed
            _size, at = _prefixed(block, at, 5)
            continue
        else:
            index, at = _prefixed(block, at, 6 if first & 0xC0 == 0x40 else 4)
            if index:
                name = _static(index)[0]
            else:
                name, at = _string(block, at)
            value, at = _string(block, at)
        headers[name] = value
    return headers


def _literal(name: str, value: str) -> bytes:
    """A header as it is, not to be kept in a table."""
    out = bytearray(b"\0")
    for part in (name.encode("ascii"), value.encode("utf-8")):
        size = len(part)
        out += (bytes([size]) if size < 127 else b"\x7f" + _varint(size - 127)) + part
    return bytes(out)


# --- HTTP/2 -----------------------------------------------------------------------------------------------------------


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _request(path: str, message: bytes, timeout: float) -> bytes:
    body = b"\0" + struct.pack(">I", len(message)) + message
    if len(body) > _WINDOW:
        raise GrpcError(
            INVALID_ARGUMENT, f"a request of {len(message)} bytes; the longest that is sent is {_WINDOW - 5}"
        )
    headers = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", "fabric.rdma"),
        ("grpc-timeout", f"{max(1, int(timeout * 1000))}m"),
    )
    # HEADER_TABLE_SIZE 0, ENABLE_PUSH 0, INITIAL_WINDOW_SIZE as large as it can be: replies never wait for us
    settings = struct.pack(">HIHIHI", 1, 0, 2, 0, 4, 2**31 - 1)
    out = _PREFACE + _frame(_SETTINGS, 0, 0, settings)
    out += _frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1 - _WINDOW))
    out += _frame(_HEADERS, _END_HEADERS, 1, b"".join(_literal(name, value) for name, value in headers))
    for start in range(0, len(body), _FRAME):
        last = start + _FRAME >= len(body)
        out += _frame(_DATA, _END_STREAM if last else 0, 1, body[start : start + _FRAME])
    return out


def _unpadded(flags: int, payload: bytes) -> bytes:
    start = end = 0
    if flags & _PADDED:
        if not payload:
            raise WireError("a padded frame without length")
        start, end = 1, payload[0]
    if flags & _PRIORITY:
        start += 5
    if start + end > len(payload):
        raise WireError("a frame with more padding than content")
    return payload[start : len(payload) - end]


class _Reply:
    """What has come of the answer on stream 1."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.ended = False
        self._block = bytearray()
        self._ends = False

    def take(self, kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        """Takes a frame; what has to be sent for it."""
        if kind == _SETTINGS:
            return b"" if flags & _ACK else _frame(_SETTINGS, _ACK, 0, b"")
        if kind == _PING:
            return b"" if flags & _ACK else _frame(_PING, _ACK, 0, payload)
        if kind == _GOAWAY and len(payload) >= 8 and struct.unpack(">I", payload[:4])[0] & 0x7FFFFFFF < 1:
            raise GrpcError(UNAVAILABLE, f"it refused the call: {payload[8:].decode('utf-8', 'replace')}")
        if stream != 1:
            return b""
        if kind == _RST_STREAM:
            raise GrpcError(UNAVAILABLE, "it cancelled the call")
        if kind == _DATA:
            self.body += _unpadded(flags, payload)
            self.ended = bool(flags & _END_STREAM)
            if len(self.body) > _MAX_REPLY:
                raise WireError(f"an answer of more than {_MAX_REPLY >> 20} MiB")
        elif kind in (_HEADERS, _CONTINUATION):
            if kind == _HEADERS:
                self._block, self._ends = bytearray(_unpadded(flags, payload)), bool(flags & _END_STREAM)
            else:
                self._block += payload
            if len(self._block) > _MAX_REPLY:
                raise WireError(f"headers of more than {_MAX_REPLY >> 20} MiB")
            if flags & _END_HEADERS:
                self.headers.update(decode_headers(bytes(self._block)))
                self.ended = self._ends
        return b""

    def message(self) -> bytes:
        """The message of the answer; GrpcError when it is none."""
        status = self.headers.get("grpc-status", "")
        if status != "0":
            if not status.isdigit():
                raise WireError(f"an answer without grpc-status (HTTP status {self.headers.get(':status', 'none')})")
            # grpc-message is percent-encoded
            raise GrpcError(int(status), urllib.parse.unquote(self.headers.get("grpc-message", "")))
        if len(self.body) < 5 or self.body[0] or struct.unpack(">I", self.body[1:5])[0] != len(self.body) - 5:
            raise WireError("an answer that is not one uncompressed message")
        return bytes(self.body[5:])


def _receive(connection: socket.socket, size: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        connection.settimeout(left)
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise GrpcError(UNAVAILABLE, "it closed the connection")
        data += chunk
    return bytes(data)


def _connect_reason(error: OSError) -> str:
    return {
        errno.ENOENT: "there is no such socket; the daemon does not run, or listens elsewhere",
        errno.ECONNREFUSED: "nobody listens there; the daemon does not run",
        errno.EACCES: "permission denied; only root may ask it",
        errno.ENOTSOCK: "it is not a socket",
    }.get(error.errno or 0, error.strerror or str(error))


def unary(socket_path: str, path: str, message: bytes, timeout: float) -> bytes:
    """Calls a method such as /runtime.v1.RuntimeService/Status; the bytes of its answer.

    GrpcError with the status that the server gave, or UNAVAILABLE, DEADLINE_EXCEEDED and such where it gave none.
    """
    deadline = time.monotonic() + timeout
    reply = _Reply()
    request = _request(path, message, timeout)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(socket_path)
        except socket.timeout as exc:
            raise GrpcError(DEADLINE_EXCEEDED, f"{socket_path}: no connection in {timeout:g} seconds") from exc
        except OSError as exc:
            raise GrpcError(UNAVAILABLE, f"{socket_path}: {_connect_reason(exc)}") from exc
        try:
            connection.sendall(request)
            while not reply.ended:
                head = _receive(connection, 9, deadline)
                size = struct.unpack(">I", b"\0" + head[:3])[0]
                kind, flags, stream = struct.unpack(">BBI", head[3:])
                if size > _MAX_REPLY:
                    raise WireError(f"a frame of {size} bytes")
                answer = reply.take(kind, flags, stream & 0x7FFFFFFF, _receive(connection, size, deadline))
                if answer:
                    # a server that has answered may have closed already
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        connection.sendall(answer)
            return reply.message()
        except socket.timeout as exc:
            raise GrpcError(DEADLINE_EXCEEDED, f"{socket_path}: no answer in {timeout:g} seconds") from exc
        except OSError as exc:
            raise GrpcError(UNAVAILABLE, f"{socket_path}: {exc.strerror or exc}") from exc
        except WireError as exc:
            raise GrpcError(UNAVAILABLE, f"{socket_path} does not speak gRPC: {exc}") from exc
        except GrpcError as exc:
            raise GrpcError(exc.status, f"{socket_path}: {exc}") from exc
