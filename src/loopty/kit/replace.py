"""A copy of a record with some fields changed: each event makes a dozen, and each path of loopty's own another."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from types import MemberDescriptorType
from typing import Any, NamedTuple, TypeVar

from loopty.kit.dataclass_methods import fields_of, only_sets_fields

T = TypeVar("T")


class _Plan(NamedTuple):
    values: Callable[[Any], tuple[Any, ...]]
    setters: dict[str, Callable[[Any, Any], None]]


def replace(record: T, /, **changes: Any) -> T:
    """A copy with these values."""
    cls: Any = type(record)
    plan = _plan(cls)
    if plan is None:
        kept = {field.name: getattr(record, field.name) for field in fields_of(cls) if field.init}
        whole: T = cls(**{**kept, **changes})
        return whole
    copy: T = object.__new__(cls)
    for set_field, value in zip(plan.setters.values(), plan.values(record), strict=True):
        set_field(copy, value)
    for name, value in changes.items():
        if name not in plan.setters:
            raise TypeError(f"{cls.__name__} has no field {name!r}")
        plan.setters[name](copy, value)
    return copy


@cache
def _plan(cls: Any) -> _Plan | None:
    """How to copy slot by slot, in a third of the constructor's time; None where the constructor has to do it."""
    slots: dict[str, Any] = {field.name: getattr(cls, field.name, None) for field in fields_of(cls)}
    has_slots = all(isinstance(slot, MemberDescriptorType) for slot in slots.values())
    if len(slots) < 2 or not has_slots or not only_sets_fields(cls):  # of one name, attrgetter gives no tuple
        return None
    return _Plan(attrgetter(*slots), {name: slot.__set__ for name, slot in slots.items()})
