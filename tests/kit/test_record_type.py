"""Records: frozen dataclasses with slots, whose class is made once; they behave as the standard ones do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import ClassVar, Generic, TypeVar

import pytest

from loopty.kit.dataclass import Record, dataclass, field, replace
from loopty.kit.dataclass_methods import fields_of, is_dataclass
from loopty.kit.replace import _PLANS

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Point(Record):
    x: int
    y: int = 2
    names: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)
    origin: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Place(Point):
    height: float = 1.5

    def described(self) -> str:
        return f"{super().__repr__()} at {self.height}"


@dataclass(frozen=True, slots=True)
class Nearest(Record):
    """Says itself what is equal."""

    value: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nearest) and round(self.value) == round(other.value)


@dataclass(frozen=True, slots=True)
class Even(Record):
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("odd")


class Family(Record):
    """A base without fields, which no decorator is on."""


@dataclass(frozen=True, slots=True)
class Member(Family):
    name: str


def test_the_constructor_takes_positions_names_and_defaults_also_when_it_is_compiled() -> None:
    for _ in range(6):
        assert Point(1) == Point(x=1, y=2, names=[])
        assert Point(1).names is not Point(1).names
        for wrong in ({}, {"x": 1, "z": 2}):
            with pytest.raises(TypeError, match=r"Point\.__init__"):
                Point(**wrong)
        with pytest.raises(TypeError, match=r"Point\.__init__"):
            Point(1, 2, [], "", 5)  # type: ignore[call-arg]


def test_a_class_below_has_its_own_constructor_after_that_above_was_compiled() -> None:
    for _ in range(6):
        Point(1)
    place = Place(1, 2, [], "", 3.0)
    assert (place.x, place.height) == (1, 3.0)
    assert Place(1).height == 1.5
    assert place.described() == "Place(x=1, y=2, names=[], height=3.0) at 3.0"
    assert Member("a").name == "a"
    assert isinstance(Member("a"), Family)


def test_it_has_slots_and_refuses_changes() -> None:
    assert not hasattr(Place(1), "__dict__")
    assert Place.__slots__ == ("height",)
    for name in ("x", "unknown"):
        with pytest.raises(dataclasses.FrozenInstanceError, match=name):
            setattr(Place(1), name, 2)
        with pytest.raises(dataclasses.FrozenInstanceError, match=name):
            delattr(Place(1), name)


def test_equality_and_hash_leave_out_what_does_not_compare() -> None:
    assert Point(1, note="a") == Point(1, note="b")
    assert Point(1) != Place(1)
    assert hash(Member("a")) == hash(Member("a"))
    assert Nearest(1.1) == Nearest(0.9)
    assert hash(Nearest(1.5)) == hash(Nearest(1.5))


def test_checks_after_the_constructor_are_made() -> None:
    assert Even(2).number == 2
    for _ in range(6):
        with pytest.raises(ValueError, match="odd"):
            Even(3)


def test_copies_are_equal_and_a_changed_copy_keeps_the_rest() -> None:
    place = Place(1, names=["a"])
    assert pickle.loads(pickle.dumps(place)) == copy.deepcopy(place) == place
    assert replace(place, height=2.0) == Place(1, names=["a"], height=2.0)


def test_the_standard_functions_know_it() -> None:
    assert [one.name for one in fields_of(Place)] == ["x", "y", "names", "note", "height"]
    assert [one.name for one in dataclasses.fields(Place)] == ["x", "y", "names", "note", "height"]
    assert [one.name for one in dataclasses.fields(Point)] == ["x", "y", "names", "note"]
    assert is_dataclass(Place)
    assert dataclasses.asdict(Place(1)) == {"x": 1, "y": 2, "names": [], "note": "", "height": 1.5}
    match Place(4):
        case Place(x, y):
            assert (x, y) == (4, 2)


def test_what_a_record_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="mutable"):

        @dataclass(frozen=True, slots=True)
        class Shared(Record):
            names: list[str] = []  # noqa: RUF012

    with pytest.raises(ValueError, match="mutable"):

        @dataclass(frozen=True, slots=True)
        class SharedField(Record):
            names: list[str] = field(default=[])

    with pytest.raises(TypeError, match="Sorted is a record"):

        @dataclass(frozen=True, slots=True, order=True)
        class Sorted(Record):
            number: int


def test_a_thread_that_is_late_makes_a_whole_instance() -> None:
    @dataclass(frozen=True, slots=True)
    class Late(Point):
        z: int = 3

    first = Late.__init__
    for _ in range(6):
        Late(1)  # meanwhile another thread has compiled the constructor
    late = Late.__new__(Late)
    first(late, 4, z=5)
    assert (late.x, late.y, late.z) == (4, 2, 5)


def test_a_required_field_behind_a_default_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.last has no default"):

        @dataclass(frozen=True, slots=True)
        class Wrong(Point):
            last: int  # type: ignore[misc]


def test_a_generic_record_is_copied_often() -> None:
    @dataclass(frozen=True, slots=True)
    class Box(Record, Generic[T]):
        content: T
        label: str = ""

    box = Box(3)
    for number in range(70):
        box = replace(box, content=number)
    assert box == Box(69)


def test_the_fields_of_a_copy_are_assigned_by_python_itself() -> None:
    place = Place(1)
    for number in range(100):
        place = replace(place, height=float(number))
    open_class = _PLANS[Place].copy.__globals__["Open"]
    # Python takes its fast way only where neither is a function of the record.
    assert (open_class.__setattr__, open_class.__delattr__) == (object.__setattr__, object.__delattr__)
