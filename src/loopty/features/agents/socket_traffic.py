"""What the TCP connections of processes have sent and received, as the kernel's socket diagnostics tell it."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from loopty.domain.launch import Connection

_DIAGNOSTICS = 4
"""The netlink protocol of socket diagnostics."""
_BY_FAMILY, _REQUEST_DUMP, _DONE, _ERROR = 20, 0x301, 3, 2
_TCP_INFO, _WITH_TCP_INFO = 2, 1 << 1
_STATES = 1 << 1 | 1 << 2
"""Established, and still connecting."""
_CONNECTING = 2
_HEADER, _MESSAGE = struct.Struct("=IHHII"), struct.Struct("=BBBB48sIIIII")
_ATTRIBUTE = struct.Struct("=HH")
_AGES, _BYTES = struct.Struct("=I4xI"), struct.Struct("=QQ")
_AGES_AT, _BYTES_AT = 44, 120
"""Where `tcp_info` has the ages of the last sent and received data, and the bytes acknowledged and received."""
_PORTS_AND_ADDRESSES = struct.Struct("=2s2s16s16s")
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_CHUNK = 1 << 17


def connections_of(processes: Iterable[int]) -> Mapping[int, Connection] | None:
    """Find the connections of these processes to others than themselves, by inode; None if they cannot be seen."""
    own = {inode for pid in processes for inode in _sockets_of(pid)}
    try:
        rows = [*_dump(socket.AF_INET), *_dump(socket.AF_INET6)]
    except OSError:
        return None
    found = {inode: (ends, connection) for inode, ends, connection in rows if inode in own}
    ends_of_own = {ends for ends, _ in found.values()}
    return {
        inode: connection for inode, (ends, connection) in found.items() if _other_way(ends) not in ends_of_own
    }


def _sockets_of(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):  # it has ended, or hides its files
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if known := _SOCKET.fullmatch(str(file.readlink())):
                    yield int(known[1])


_Ends = tuple[bytes, bytes, bytes, bytes]


def _other_way(ends: _Ends) -> _Ends:
    return ends[1], ends[0], ends[3], ends[2]


def _dump(family: int) -> Iterator[tuple[int, _Ends, Connection]]:
    request = struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, _WITH_TCP_INFO, 0, _STATES)
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, _DIAGNOSTICS) as link:
        link.settimeout(1.0)
        link.send(_HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + request)
        while True:
            raw = link.recv(_CHUNK)
            while len(raw) >= _HEADER.size:
                size, kind, *_ = _HEADER.unpack_from(raw)
                if kind in (_DONE, _ERROR):
                    return
                if size >= _HEADER.size + _MESSAGE.size:
                    yield _parse(raw[_HEADER.size : size])
                raw = raw[(size + 3) & ~3 :]


def _parse(message: bytes) -> tuple[int, _Ends, Connection]:
    _, state, _, _, ends, *_, inode = _MESSAGE.unpack_from(message)
    sent = received = 0
    is_sent_last = False
    rest = message[_MESSAGE.size :]
    while len(rest) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(rest)
        value = rest[_ATTRIBUTE.size : size]
        if kind == _TCP_INFO and len(value) >= _BYTES_AT + _BYTES.size:
            since_sent, since_received = _AGES.unpack_from(value, _AGES_AT)
            sent, received = _BYTES.unpack_from(value, _BYTES_AT)
            is_sent_last = since_sent < since_received
        rest = rest[max((size + 3) & ~3, _ATTRIBUTE.size) :]
    connection = Connection(sent, received, is_sent_last, state == _CONNECTING)
    return inode, _PORTS_AND_ADDRESSES.unpack_from(ends), connection
