"""Values travel as strict data: what is encoded is decoded again, and no other bytes are a value."""

from __future__ import annotations

import contextlib
import math
import struct
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty_sdk.values import MAX_DEPTH, NotData, decode, encode

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])) | st.integers(), inner)
    ),
    max_leaves=20,
)


def with_types(value: Any) -> Any:
    """The value with the type of each part, because 1 == 1.0 == True."""
    if isinstance(value, (list, tuple)):
        return type(value), [with_types(item) for item in value]
    if isinstance(value, dict):
        return dict, [(with_types(key), with_types(item)) for key, item in value.items()]
    return type(value), value


@given(plain)
def test_every_value_survives_encoding_and_decoding(value: Any) -> None:
    assert with_types(decode(encode(value))) == with_types(value)


@given(st.binary())
def test_arbitrary_bytes_are_a_value_or_refused(raw: bytes) -> None:
    with contextlib.suppress(NotData):
        encode(decode(raw))


@given(plain, st.integers(min_value=0), st.binary(max_size=3))
def test_bytes_that_were_tampered_with_are_a_value_or_refused(value: Any, place: int, patch: bytes) -> None:
    raw = bytearray(encode(value))
    place %= len(raw)
    raw[place : place + len(patch)] = patch
    with contextlib.suppress(NotData):
        decode(bytes(raw))


def test_infinities_and_nan_are_data() -> None:
    value = decode(encode([math.inf, -math.inf, math.nan, -0.0]))
    assert value[:2] == [math.inf, -math.inf]
    assert math.isnan(value[2])
    assert math.copysign(1, value[3]) == -1


@pytest.mark.parametrize("kind", ["f8", "f4", ">i4", "u1", "?", "c16", "i8", "f2"])
def test_arrays_keep_their_type_and_shape(kind: str) -> None:
    array = numpy.arange(6).reshape(2, 3).astype(kind)
    value = decode(encode({"a": array, "turned": array.T}))
    assert value["a"].dtype == array.dtype.newbyteorder("<")
    assert (value["a"] == array).all()
    assert (value["turned"] == array.T).all()
    value["a"][0, 0] = 1


def test_empty_arrays_and_numpy_scalars_are_data() -> None:
    assert decode(encode(numpy.zeros((0, 3)))).shape == (0, 3)
    assert decode(encode(numpy.array(2.5))).shape == ()
    assert with_types(decode(encode([numpy.float32(0.5), numpy.int8(3), numpy.bool_(True)]))) == with_types(
        [0.5, 3, True]
    )


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, print, numpy.array([object()]), numpy.array(["a"]), {object(): 1}, "\ud800", iter([])],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_not_data_is_refused(value: Any) -> None:
    with pytest.raises(NotData):
        encode(value)


def test_a_value_that_contains_itself_or_is_too_deep_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotData, match="deeper"):
        encode(loop)
    with pytest.raises(NotData, match="deeper"):
        decode(b"l\x01\0\0\0\0\0\0\0" * (MAX_DEPTH + 2) + b"n")


def size(number: int) -> bytes:
    return struct.pack("<Q", number)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"z",
        encode(1) + b"n",
        b"l" + size(1 << 60),
        b"s" + size(1 << 60) + b"x",
        b"s" + size(1) + b"\xff",
        b"m" + size(2) + encode("a") * 4,
        b"m" + size(1) + encode([]) + b"n",
        b"Ld" + size(7) + b"1234567",
        b"Lp" + size(0),
        b"a" + size(1) + b"O" + size(8) + size(1) + size(8) + bytes(8),
        b"a" + size(3) + b"<f8" + size(8) + size(2) + size(8) + bytes(8),
        b"a" + size(3) + b"<f8" + size(16) + size(1 << 62) * 2 + size(0),
        b"a" + size(6) + b"f8, f8" + size(8) + size(1) + size(16) + bytes(16),
        b"a" + size(3) + b"<f8" + size(8 * 99) + bytes(8 * 99) + size(0),
    ],
)
def test_bytes_that_are_not_exactly_one_value_are_refused(raw: bytes) -> None:
    with pytest.raises(NotData):
        decode(raw)


def test_any_nonzero_byte_of_a_boolean_array_is_true() -> None:
    raw = b"a" + size(3) + b"|b1" + size(8) + size(3) + size(3) + b"\0\1\2"
    assert decode(raw).view("u1").tolist() == [0, 1, 1]
