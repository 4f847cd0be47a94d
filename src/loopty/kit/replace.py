"""A copy of a record with some fields changed: each event makes a dozen, and each path of loopty's own another."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from types import MemberDescriptorType
from typing import Any, TypeVar

from loopty.kit.dataclass_methods import fields_of, only_sets_fields
from loopty.kit.named_tuple import NamedTuple

T = TypeVar("T")
_COPIES_BEFORE_COMPILED = 50


class _Plan(NamedTuple):
    copy: Callable[[Any], Any]
    setters: dict[str, Callable[[Any, Any], None]]


_PLANS: dict[Any, _Plan | None] = {}


def replace(record: T, /, **changes: Any) -> T:
    """A copy with these values."""
    cls: Any = type(record)
    plan = _PLANS[cls] if cls in _PLANS else _PLANS.setdefault(cls, _make_plan(cls))
    if plan is None:
        kept = {field.name: getattr(record, field.name) for field in fields_of(cls) if field.init}
        whole: T = cls(**{**kept, **changes})
        return whole
    copy: T = plan.copy(record)
    for name, value in changes.items():
        if name not in plan.setters:
            raise TypeError(f"{cls.__name__} has no field {name!r}")
        plan.setters[name](copy, value)
    return copy


def _make_plan(cls: Any) -> _Plan | None:
    """How to copy slot by slot, in a third of the constructor's time; None where the constructor has to do it."""
    slots: dict[str, Any] = {field.name: getattr(cls, field.name, None) for field in fields_of(cls)}
    has_slots = all(isinstance(slot, MemberDescriptorType) for slot in slots.values())
    if len(slots) < 2 or not has_slots or not only_sets_fields(cls):  # of one name, attrgetter gives no tuple
        return None
    setters = {name: slot.__set__ for name, slot in slots.items()}
    values, set_all, left = attrgetter(*slots), tuple(setters.values()), _COPIES_BEFORE_COMPILED

    def copy_at_first(record: Any) -> Any:
        """Compiling pays after some dozen copies."""
        nonlocal left
        left -= 1
        if left <= 0:
            _PLANS[cls] = _Plan(_compile_copy(cls, setters) or copy_each, setters)
        return copy_each(record)

    def copy_each(record: Any) -> Any:
        copy = object.__new__(cls)
        for set_field, value in zip(set_all, values(record), strict=True):
            set_field(copy, value)
        return copy

    return _Plan(copy_at_first, setters)


def _compile_copy(cls: Any, setters: dict[str, Callable[[Any, Any], None]]) -> Callable[[Any], Any] | None:
    """Copy into an open class with the same slots, whose fields are assigned in a third of the time.

    None where there can be no such class: generic ones have another way to be made.
    """
    own_slots = {"__slots__": cls.__slots__} if "__slots__" in cls.__dict__ else {}
    # Both: with one of them from a record, Python would look for them at each assignment.
    namespace = {**own_slots, "__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    try:
        # Not by the metaclass of records, which would give it slots and methods of its own.
        open_class = type.__new__(type(cls), "Open", cls.__bases__, namespace)
    except TypeError:
        return None
    scope: dict[str, Any] = {"new": object.__new__, "cls": cls, "Open": open_class}
    assigned = (f"copy.{name} = record.{name}" for name in setters)
    lines = ["copy = new(Open)", *assigned, "copy.__class__ = cls", "return copy"]
    exec("def copy_fields(record):" + "".join(f"\n    {line}" for line in lines), scope)
    copy_fields: Callable[[Any], Any] = scope["copy_fields"]
    return copy_fields
