"""The dataclass whose methods are built when first called: it behaves as the standard one does."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import ClassVar

import pytest

from loopty.kit.dataclass import dataclass, field, replace
from loopty.kit.dataclass_methods import fields_of, is_dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    names: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)
    origin: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Place(Point):
    height: float = 1.5


@dataclass(frozen=True, slots=True, order=True)
class Version:
    major: int
    minor: int


@dataclass(slots=True)
class Counter:
    count: int = 0


@dataclass(frozen=True)
class Single:
    text: str


@dataclasses.dataclass(frozen=True)
class StandardBelow(Single):
    more: int = 0


def test_the_constructor_takes_positions_names_and_defaults() -> None:
    assert Point(1) == Point(x=1, y=2, names=[])
    assert Point(1).names is not Point(1).names
    with pytest.raises(TypeError, match=r"Point\.__init__"):
        Point()  # type: ignore[call-arg]


def test_fields_of_a_base_come_first() -> None:
    assert [one.name for one in fields_of(Place)] == ["x", "y", "names", "note", "height"]
    assert Place(1, 2, [], "", 3.0).height == 3.0
    assert not hasattr(Place(1), "__dict__")


def test_a_frozen_record_refuses_changes() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Point(1).x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del Single("a").text  # type: ignore[misc]
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)


def test_equality_and_hash_leave_out_what_does_not_compare() -> None:
    assert Point(1, note="a") == Point(1, note="b")
    assert Point(1) != Place(1)
    assert hash(Version(1, 2)) == hash(Version(1, 2))
    assert Version(1, 2) < Version(1, 3) <= Version(2, 0)
    assert hash(Single("a")) == hash(Single("a"))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


def test_the_text_shows_the_fields() -> None:
    assert repr(Point(1, note="secret")) == "Point(x=1, y=2, names=[])"


def test_copies_and_pickles_are_equal() -> None:
    assert pickle.loads(pickle.dumps(Place(1, 5))) == copy.deepcopy(Place(1, 5)) == Place(1, 5)
    assert replace(Place(1), y=7) == Place(1, 7)


def test_every_one_of_many_copies_has_the_other_fields() -> None:
    version = Version(1, 5)
    for number in range(120):
        version = replace(version, major=number)
        assert version == Version(number, 5)
    with pytest.raises(TypeError, match="other"):
        replace(version, other=7)  # type: ignore[call-arg]


def test_many_copies_of_a_class_that_inherits_fields_are_of_that_class_and_frozen() -> None:
    @dataclass(frozen=True, slots=True)
    class Base:
        low: int
        high: int

    @dataclass(frozen=True, slots=True)
    class Longer(Base):
        more: int = 3

    class WithoutSlots(Longer):
        pass

    for record in (Longer(1, 2), WithoutSlots(1, 2)):
        for number in range(120):
            record = replace(record, high=number)
        assert record == type(record)(1, 119, 3)
        with pytest.raises(dataclasses.FrozenInstanceError):
            record.low = 7  # type: ignore[misc]


def test_a_copy_with_changes_refuses_a_name_that_is_no_field() -> None:
    for record in (Place(1), Point(1), Version(1, 2)):
        with pytest.raises(TypeError, match="other"):
            replace(record, other=7)  # type: ignore[call-arg]


def test_a_copy_with_changes_is_made_by_a_constructor_that_the_class_defines() -> None:
    @dataclass(slots=True)
    class Doubled:
        low: int
        high: int

        def __init__(self, low: int, high: int) -> None:
            self.low, self.high = low, 2 * high

    assert replace(Doubled(1, 2), low=3).high == 8


def test_a_class_keeps_the_methods_that_it_defines() -> None:
    @dataclass(frozen=True)
    class Loud:
        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Loud)

        def __repr__(self) -> str:
            return self.text.upper()

    assert Loud("a") == Loud("b")
    assert repr(Loud("a")) == "A"


def test_a_pattern_matches_by_position() -> None:
    match Version(1, 2):
        case Version(major, minor):
            assert (major, minor) == (1, 2)


def test_the_standard_functions_work_on_it() -> None:
    assert dataclasses.is_dataclass(Point)
    assert is_dataclass(StandardBelow)
    assert not is_dataclass(int)
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 2, "names": [], "note": ""}
    assert dataclasses.replace(Point(1), x=3) == Point(3)
    assert [one.name for one in dataclasses.fields(Place)] == ["x", "y", "names", "note", "height"]
    assert StandardBelow("a", 1).text == "a"
    assert [one.name for one in fields_of(StandardBelow)] == ["text", "more"]


def test_a_class_variable_is_no_field() -> None:
    assert [one.name for one in fields_of(Point)] == ["x", "y", "names", "note"]
    spelled_out = {"__annotations__": {"kind": ClassVar[str], "x": int}, "kind": "a"}
    made = dataclass(type("Made", (), spelled_out))
    assert [one.name for one in fields_of(made)] == ["x"]


def test_a_mutable_default_is_refused() -> None:
    with pytest.raises(ValueError, match="default_factory"):

        @dataclass
        class Shared:
            items: list[int] = []  # noqa: RUF012


def test_a_field_that_is_worked_out_is_no_parameter() -> None:
    @dataclass(frozen=True, slots=True)
    class Area:
        width: int
        height: int = 2
        size: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "size", self.width * self.height)

    assert Area(3).size == 6
    assert replace(Area(3), height=4).size == dataclasses.replace(Area(3), height=4).size == 12
    with pytest.raises(TypeError, match=r"Area\.__init__"):
        Area(3, 2, 6)  # type: ignore[call-arg]
