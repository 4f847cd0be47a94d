"""Values cross a pipe as strict data: what goes in comes out, and nothing else is a value."""

from __future__ import annotations

import contextlib
import math
import struct
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty_sdk.values import MAX_DEPTH, NotData, decoded, encoded

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


def typed(value: Any) -> Any:
    """The value with the type of each part, because 1 == 1.0 == True."""
    if isinstance(value, (list, tuple)):
        return type(value), [typed(item) for item in value]
    if isinstance(value, dict):
        return dict, [(typed(key), typed(item)) for key, item in value.items()]
    return type(value), value


@given(plain)
def test_every_value_comes_out_as_it_went_in(value: Any) -> None:
    assert typed(decoded(encoded(value))) == typed(value)


@given(st.binary())
def test_any_bytes_are_a_value_or_refused(raw: bytes) -> None:
    with contextlib.suppress(NotData):
        encoded(decoded(raw))


@given(plain, st.integers(min_value=0), st.binary(max_size=3))
def test_a_value_that_was_tampered_with_is_a_value_or_refused(value: Any, place: int, patch: bytes) -> None:
    raw = bytearray(encoded(value))
    place %= len(raw)
    raw[place : place + len(patch)] = patch
    with contextlib.suppress(NotData):
        decoded(bytes(raw))


def test_floats_that_are_no_numbers_are_data() -> None:
    value = decoded(encoded([math.inf, -math.inf, math.nan, -0.0]))
    assert value[:2] == [math.inf, -math.inf]
    assert math.isnan(value[2])
    assert math.copysign(1, value[3]) == -1


@pytest.mark.parametrize("kind", ["f8", "f4", ">i4", "u1", "?", "c16", "i8", "f2"])
def test_arrays_keep_their_type_and_shape(kind: str) -> None:
    array = numpy.arange(6).reshape(2, 3).astype(kind)
    found = decoded(encoded({"a": array, "turned": array.T}))
    assert found["a"].dtype == array.dtype.newbyteorder("<")
    assert (found["a"] == array).all()
    assert (found["turned"] == array.T).all()
    found["a"][0, 0] = 1


def test_empty_arrays_and_single_numbers_cross() -> None:
    assert decoded(encoded(numpy.zeros((0, 3)))).shape == (0, 3)
    assert decoded(encoded(numpy.array(2.5))).shape == ()
    assert typed(decoded(encoded([numpy.float32(0.5), numpy.int8(3), numpy.bool_(True)]))) == typed([0.5, 3, True])


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, print, numpy.array([object()]), numpy.array(["a"]), {object(): 1}, "\ud800", iter([])],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_data_is_refused(value: Any) -> None:
    with pytest.raises(NotData):
        encoded(value)


def test_what_holds_itself_or_is_too_deep_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotData, match="deeper"):
        encoded(loop)
    with pytest.raises(NotData, match="deeper"):
        decoded(b"l\x01\0\0\0\0\0\0\0" * (MAX_DEPTH + 2) + b"n")


def size(number: int) -> bytes:
    return struct.pack("<Q", number)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"z",
        encoded(1) + b"n",
        b"l" + size(1 << 60),
        b"s" + size(1 << 60) + b"x",
        b"s" + size(1) + b"\xff",
        b"m" + size(2) + encoded("a") * 4,
        b"m" + size(1) + encoded([]) + b"n",
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
        decoded(raw)


def test_a_boolean_is_true_or_false_whatever_its_byte() -> None:
    raw = b"a" + size(3) + b"|b1" + size(8) + size(3) + size(3) + b"\0\1\2"
    assert decoded(raw).view("u1").tolist() == [0, 1, 1]
