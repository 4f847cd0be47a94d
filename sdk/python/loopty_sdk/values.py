"""Encode values as bytes, and decode bytes strictly: a hostile process may have written them. They are never code.

Each value is a tag and its content. Lists and tuples whose items are all floats, or all integers of 64 bits, are
packed, so that large ones cost little. Everything is little endian.
"""

from __future__ import annotations

import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_DEPTH = 64
_SIZE, _FLOAT, _COMPLEX = struct.Struct("<Q"), struct.Struct("<d"), struct.Struct("<dd")
_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_MAX_AXES = 32
_NUMERIC = "biufc"
_KEYS = (str, int, float, bytes, tuple, type(None))


class NotData(ValueError):  # noqa: N818 - the name says what is wrong with the value
    """A value that cannot be encoded, or bytes that are not a value; the message is one line."""


def encode(value: Any) -> bytes:
    """The bytes of a value. Raises NotData for anything but plain data."""
    parts: list[bytes] = []
    _encode(value, parts.append, MAX_DEPTH)
    return b"".join(parts)


def decode(raw: bytes) -> Any:
    """The value of these bytes. Raises NotData unless they are exactly one value."""
    reader = _Reader(raw)
    value = reader.take_value(MAX_DEPTH)
    if reader.bytes_left:
        raise NotData(f"{reader.bytes_left} bytes follow the value")
    return value


def _encode(value: Any, put: Callable[[bytes], None], levels: int) -> None:
    kind = type(value)
    if value is None or kind is bool:
        put({None: b"n", True: b"t", False: b"f"}[value])
    elif isinstance(value, float):
        put(b"d" + _FLOAT.pack(value))
    elif isinstance(value, int):
        size = value.bit_length() // 8 + 1
        _put_sized(b"i", int(value).to_bytes(size, "little", signed=True), put)
    elif isinstance(value, str):
        _put_sized(b"s", _utf8(value), put)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        _put_sized(b"b", bytes(value), put)
    elif isinstance(value, (list, tuple)):
        _encode_items(value, put, levels)
    elif isinstance(value, dict):
        _encode_mapping(value, put, levels)
    elif isinstance(value, complex):
        put(b"c" + _COMPLEX.pack(value.real, value.imag))
    else:
        _encode_numpy(value, put, levels)


def _encode_items(items: Any, put: Callable[[bytes], None], levels: int) -> None:
    tag = b"l" if isinstance(items, list) else b"u"
    kinds = set(map(type, items))
    if kinds == {float}:
        _put_sized(tag.upper() + b"d", _pack_items("d", items), put)
    elif kinds == {int} and min(items) >= _MIN_INT64 and max(items) <= _MAX_INT64:
        _put_sized(tag.upper() + b"q", _pack_items("q", items), put)
    else:
        put(tag + _SIZE.pack(len(items)))
        for item in items:
            _encode(item, put, _one_level_deeper(levels))


def _encode_mapping(items: dict[Any, Any], put: Callable[[bytes], None], levels: int) -> None:
    put(b"m" + _SIZE.pack(len(items)))
    for key, value in items.items():
        if not isinstance(key, _KEYS):
            raise NotData(f"a key is a {type(key).__name__}, which is not data")
        _encode(key, put, _one_level_deeper(levels))
        _encode(value, put, _one_level_deeper(levels))


def _encode_numpy(value: Any, put: Callable[[bytes], None], levels: int) -> None:
    # If the value is an array, numpy is already loaded; so nobody else pays for the import.
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in _NUMERIC:
        _encode(value.item(), put, levels)
    elif numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in _NUMERIC:
        ordered = numpy.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        put(b"a")
        _put_sized(b"", ordered.dtype.str.encode(), put)
        _put_sized(b"", b"".join(map(_SIZE.pack, value.shape)), put)
        _put_sized(b"", ordered.tobytes(), put)
    else:
        raise NotData(f"a {type(value).__name__} is not data: use numbers, text, bytes, lists, dicts or arrays")


class _Reader:
    """Takes values off a buffer; every length is checked against the bytes that are there before it is used."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    @property
    def bytes_left(self) -> int:
        return len(self._raw) - self._at

    def take_value(self, levels: int) -> Any:
        tag = self._take(1)
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag == b"d":
            return _FLOAT.unpack(self._take(8))[0]
        if tag == b"i":
            return int.from_bytes(self._take_sized(), "little", signed=True)
        if tag == b"s":
            return _text(self._take_sized())
        if tag == b"b":
            return self._take_sized()
        if tag == b"c":
            return complex(*_COMPLEX.unpack(self._take(16)))
        if tag in (b"L", b"U"):
            items = self._take_packed_items()
            return items if tag == b"L" else tuple(items)
        if tag in (b"l", b"u"):
            items = [self.take_value(_one_level_deeper(levels)) for _ in range(self._take_count())]
            return items if tag == b"l" else tuple(items)
        if tag == b"m":
            return self._take_mapping(_one_level_deeper(levels))
        if tag == b"a":
            return self._take_array()
        raise NotData(f"no value begins with {tag!r}")

    def _take_mapping(self, levels: int) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        for _ in range(self._take_count()):
            key = self.take_value(levels)
            try:
                repeated = key in mapping
            except TypeError:
                raise NotData(f"a {type(key).__name__} cannot be a key") from None
            if repeated:
                raise NotData("a key appears twice")
            mapping[key] = self.take_value(levels)
        return mapping

    def _take_packed_items(self) -> list[Any]:
        kind = self._take(1)
        if kind not in (b"d", b"q"):
            raise NotData(f"{kind!r} is not a type of packed items")
        from array import array

        items = array(kind.decode())
        raw = self._take_sized()
        if len(raw) % items.itemsize:
            raise NotData("packed items are cut short")
        items.frombytes(raw)
        if sys.byteorder == "big":
            items.byteswap()
        return items.tolist()

    def _take_array(self) -> Any:
        name, axes, raw = self._take_sized(), self._take_sized(), self._take_sized()
        if len(axes) % 8 or len(axes) > 8 * _MAX_AXES:
            raise NotData("the shape of an array is malformed")
        shape = [size for (size,) in _SIZE.iter_unpack(axes)]
        from importlib import import_module

        try:
            numpy: Any = import_module("numpy")
        except ImportError:
            raise NotData("the value is a numpy array, but numpy is not installed here") from None
        try:
            kind = numpy.dtype(_text(name))
            if kind.kind not in _NUMERIC or kind.str != _text(name):
                raise NotData(f"an array of {_text(name)!r:.40} is not numeric")
            # A boolean byte that is neither 0 nor 1 would be truthy and yet unequal to True.
            flat = numpy.frombuffer(raw, "u1") != 0 if kind.kind == "b" else numpy.frombuffer(raw, kind)
            return flat.reshape(shape).copy()
        except (TypeError, ValueError, SyntaxError, OverflowError, MemoryError) as error:
            raise error if isinstance(error, NotData) else NotData("an array does not fit its shape") from None

    def _take_count(self) -> int:
        """The number of items that follow; each takes at least one byte."""
        (count,) = _SIZE.unpack(self._take(8))
        if count > self.bytes_left:
            raise NotData(f"{count} items are announced, but only {self.bytes_left} bytes follow")
        return int(count)

    def _take_sized(self) -> bytes:
        return self._take(_SIZE.unpack(self._take(8))[0])

    def _take(self, count: int) -> bytes:
        if count > self.bytes_left:
            raise NotData(f"{count} bytes are announced, but only {self.bytes_left} follow")
        self._at += count
        return self._raw[self._at - count : self._at]


_CONSTANTS = {b"n": None, b"t": True, b"f": False}


def _put_sized(tag: bytes, content: bytes, put: Callable[[bytes], None]) -> None:
    put(tag + _SIZE.pack(len(content)))
    put(content)


def _pack_items(kind: str, items: tuple[Any, ...]) -> bytes:
    from array import array

    packed = array(kind, items)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _one_level_deeper(levels: int) -> int:
    if levels == 0:
        raise NotData(f"the value is nested deeper than {MAX_DEPTH} levels")
    return levels - 1


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise NotData("a text holds an unpaired surrogate") from None


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise NotData("a text is not UTF-8") from None
