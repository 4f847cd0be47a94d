"""Write a screenshot again with at most 256 colours: a third of its size, and nobody sees the difference."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_HEAD = b"\x89PNG\r\n\x1a\n"
_MOST_COLOURS = 256
_RGB, _PALETTE, _RGBA = 2, 3, 6


def shrink_png(path: Path) -> None:
    """Replace the picture, eight bits for each of three or four channels, by one with a palette."""
    chunks = list(_chunks(path.read_bytes()))
    width, height, depth, kind, *_, interlaced = struct.unpack(">IIBBBBB", dict(chunks)[b"IHDR"])
    if depth != 8 or kind not in (_RGB, _RGBA) or interlaced:
        raise ValueError(f"{path} is no screenshot of Chromium: expected 8 bits, RGB or RGBA, not interlaced")
    size = 3 if kind == _RGB else 4
    data = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    rows = list(_rows(data, width * size, size))
    pixels = [[bytes(row[at : at + 3]) for at in range(0, len(row), size)] for row in rows]
    counts = Counter(pixel for row in pixels for pixel in row)
    palette = _palette(counts)
    places = {colour: _nearest(colour, palette) for colour in counts}
    lines = b"".join(b"\0" + bytes([places[pixel] for pixel in row]) for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, _PALETTE, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    path.write_bytes(_HEAD + b"".join(_chunk(name, body) for name, body in parts))


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_HEAD)
    while at < len(content):
        (length,) = struct.unpack_from(">I", content, at)
        yield content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        at += length + 12


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _rows(data: bytes, length: int, size: int) -> Iterator[bytearray]:
    """The rows without their filters (PNG, section 9.2)."""
    above = bytearray(length)
    for start in range(0, len(data), length + 1):
        kind, row = data[start], bytearray(data[start + 1 : start + 1 + length])
        for at in range(length) if kind else ():
            left = row[at - size] if at >= size else 0
            corner = above[at - size] if at >= size else 0
            row[at] = (row[at] + _guess(kind, left, above[at], corner)) & 255
        yield row
        above = row


def _guess(kind: int, left: int, up: int, corner: int) -> int:
    if kind == 1:
        return left
    if kind == 2:
        return up
    if kind == 3:
        return (left + up) // 2
    by_left, by_up, by_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
    return left if by_left <= by_up and by_left <= by_corner else up if by_up <= by_corner else corner


def _palette(counts: Counter[bytes]) -> list[bytes]:
    """The most frequent colours, each unlike those before it; the wider apart the more there are."""
    ordered, apart = [colour for colour, _ in counts.most_common()], 0
    while True:
        chosen: list[bytes] = []
        for colour in ordered:
            if all(_distance(colour, other) > apart for other in chosen):
                chosen.append(colour)
            if len(chosen) > _MOST_COLOURS:
                break
        if len(chosen) <= _MOST_COLOURS:
            return chosen
        apart = 2 * apart + 12


def _nearest(colour: bytes, palette: list[bytes]) -> int:
    return min(range(len(palette)), key=lambda place: _distance(colour, palette[place]))


def _distance(one: bytes, other: bytes) -> int:
    return sum((mine - theirs) ** 2 for mine, theirs in zip(one, other, strict=True))
