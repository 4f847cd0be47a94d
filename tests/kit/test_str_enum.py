"""The enumeration of texts that is made quickly: it behaves as the standard one does."""

from __future__ import annotations

import copy
import enum
import json
import pickle

import pytest

from loopty.kit.str_enum import ENUMS, StrEnum


class Colour(StrEnum):
    """A colour of a light."""

    RED = "red"
    GREEN = "green"

    @property
    def is_stop(self) -> bool:
        return self is Colour.RED


class Standard(enum.StrEnum):
    RED = "red"
    GREEN = "green"


class Weighed(StrEnum):
    """Members that carry more than their text."""

    weight: int

    def __new__(cls, value: str, weight: int) -> Weighed:
        member = str.__new__(cls, value)
        member._value_ = value
        member.weight = weight
        return member

    LIGHT = "light", 1
    HEAVY = "heavy", 9


@pytest.mark.parametrize("kind", [Colour, Standard])
def test_it_behaves_as_the_standard_one(kind: type[Colour]) -> None:
    red = kind.RED
    assert [member.value for member in kind] == ["red", "green"]
    assert len(kind) == 2
    assert (red.name, red.value, str(red), f"{red:>4}") == ("RED", "red", "red", " red")
    assert type(red.value) is str
    assert kind("red") is kind(red) is red
    assert red == "red"
    assert {red: 1}["red"] == 1
    assert red in kind
    assert isinstance(red, kind)
    assert json.dumps({red: red}) == '{"red": "red"}'
    assert repr(red) == f"<{kind.__name__}.RED: 'red'>"
    assert copy.deepcopy(red) is copy.copy(red) is pickle.loads(pickle.dumps(red)) is red


@pytest.mark.parametrize("kind", [Colour, Standard])
@pytest.mark.parametrize("value", ["blue", "RED", 3, None, []])
def test_it_refuses_an_unknown_value(kind: type[Colour], value: object) -> None:
    with pytest.raises(ValueError, match=f"is not a valid {kind.__name__}"):
        kind(value)


def test_it_keeps_methods_and_what_members_carry() -> None:
    assert Colour.RED.is_stop
    assert not Colour.GREEN.is_stop
    assert Colour.__doc__ == "A colour of a light."
    assert [(member.value, member.weight) for member in Weighed] == [("light", 1), ("heavy", 9)]


def test_two_members_of_one_value_are_refused() -> None:
    with pytest.raises(ValueError, match="TWICE has the value of ONCE"):
        type(Colour)("Twice", (StrEnum,), {"ONCE": "once", "TWICE": "once"})


def test_both_kinds_are_known_as_classes_of_named_values() -> None:
    assert issubclass(Colour, ENUMS)
    assert issubclass(Standard, ENUMS)
    assert not issubclass(str, ENUMS)
