"""Records with other values in some fields: each event makes a dozen, so it has to be fast.

`dataclasses.replace` goes through the constructor, which sets each field of a frozen record the long way.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Plan(NamedTuple):
    values: Callable[[Any], tuple[Any, ...]]
    setters: tuple[Callable[[Any, Any], None], ...]
    by_name: dict[str, Callable[[Any, Any], None]]


def replace(record: T, **changes: Any) -> T:
    """A copy of a dataclass with slots, two fields or more and no `__post_init__`, with these values."""
    cls: Any = type(record)
    plan = _plan(cls)
    made: T = object.__new__(cls)
    for put, value in zip(plan.setters, plan.values(record), strict=True):
        put(made, value)
    for name, value in changes.items():
        plan.by_name[name](made, value)
    return made


@functools.cache
def _plan(cls: Any) -> _Plan:
    names = [field.name for field in dataclasses.fields(cls)]
    setters = {name: getattr(cls, name).__set__ for name in names}
    return _Plan(operator.attrgetter(*names), tuple(setters.values()), setters)
