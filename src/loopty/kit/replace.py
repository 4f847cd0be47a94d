"""A fast copy of a record with some fields changed: each event makes a dozen.

`dataclasses.replace` calls the constructor, which is slow to set the fields of a frozen record.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from loopty.kit.dataclass_methods import fields_of

T = TypeVar("T")


class _Plan(NamedTuple):
    values: Callable[[Any], tuple[Any, ...]]
    setters: tuple[Callable[[Any, Any], None], ...]
    by_name: dict[str, Callable[[Any, Any], None]]


def replace(record: T, **changes: Any) -> T:
    """A copy with these values. The dataclass needs slots, at least two fields and no `__post_init__`."""
    cls: Any = type(record)
    plan = _plan(cls)
    copy: T = object.__new__(cls)
    for set_field, value in zip(plan.setters, plan.values(record), strict=True):
        set_field(copy, value)
    for name, value in changes.items():
        plan.by_name[name](copy, value)
    return copy


@functools.cache
def _plan(cls: Any) -> _Plan:
    names = [field.name for field in fields_of(cls)]
    setters = {name: getattr(cls, name).__set__ for name in names}
    return _Plan(operator.attrgetter(*names), tuple(setters.values()), setters)
