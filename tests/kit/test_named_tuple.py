"""The named tuple that is made without a look at its types: it behaves as the standard one does."""

from __future__ import annotations

import pickle

import pytest

from loopty.kit.named_tuple import NamedTuple


class Span(NamedTuple):
    """From here to there."""

    start: int
    end: int = 7

    @property
    def length(self) -> int:
        return self.end - self.start


def test_it_is_a_tuple_with_names_defaults_and_methods() -> None:
    span = Span(3)
    start, end = span
    assert (start, end) == span == Span(start=3, end=7)
    assert span.length == 4
    assert span._replace(start=5) == (5, 7)
    assert Span._make([1, 2]).end == 2
    assert repr(span) == "Span(start=3, end=7)"
    assert Span.__doc__ == "From here to there."


def test_its_copies_and_hashes_are_equal() -> None:
    assert pickle.loads(pickle.dumps(Span(1, 2))) == Span(1, 2)
    assert {Span(1, 2): "a"}[Span(1, 2)] == "a"


def test_it_refuses_a_wrong_number_of_values() -> None:
    with pytest.raises(TypeError, match="start"):
        Span()  # type: ignore[call-arg]


def test_a_field_with_a_default_comes_last() -> None:
    with pytest.raises(TypeError, match="default"):

        class Wrong(NamedTuple):
            start: int = 1
            end: int  # type: ignore[misc]
