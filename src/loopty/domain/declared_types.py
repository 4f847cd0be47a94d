"""Holds a record to the types that it declares, and to sizes that every reader can bear.

Type checkers hold our own code to these types. What a worker, a benchmark, an agent, a model or a file says has
passed no type checker: it is held to them here, where it comes in, and again before the ledger takes it. Types are
exact, because `true` is a number to Python and `1` is none to whoever reads the score.
"""

from __future__ import annotations

import functools
import sys
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from loopty.domain.errors import Misuse
from loopty.kit.records import field_types, fields_of, is_record

LONGEST_TEXT = 100_000
"""Characters of one text."""
LONGEST_WORDS = 2_000
"""Characters of what is only words for a person, such as the reason of a failure: longer ones are cut."""
LARGEST_RECORD = 16_000_000
"""Characters of all texts and names of a record, where a number counts as one."""
_LARGEST_INT = 2**63 - 1
"""No database takes a larger one."""
_LARGEST_AMOUNT = 1e18
_AMOUNTS = ("seconds", "tokens", "usd")
"""How the names of fields end that hold an amount, which is never negative."""

_Check = Callable[[Any], int]
"""Returns the size of a value, or raises Misfit."""
_NAMES = {bool: "a truth value", type(None): "null", str: "a text", list: "a list", dict: "an object"}


class Misfit(ValueError):  # noqa: N818 - named after what it is about
    """What is wrong with a value, and where it stands in its record."""

    def __init__(self, fault: str, place: str = "") -> None:
        super().__init__(f"{place or 'it'} {fault}")
        self._fault, self._place = fault, place

    def within(self, name: str) -> Misfit:
        return Misfit(self._fault, f"{name}.{self._place}" if self._place else name)


def misfit(record: Any) -> str | None:
    """Tell what is wrong with a record, in words; None if it has the types that it declares."""
    try:
        cls: Any = type(record)
        size = _check_of(cls)(record)
    except Misfit as found:
        return str(found)
    return None if size <= LARGEST_RECORD else f"it holds more than {LARGEST_RECORD:,} characters"


def cut_words(text: str, limit: int = LONGEST_WORDS) -> str:
    """Cut words for a person that a stranger wrote: not too long, and without what no file can hold."""
    short = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return short if short.isascii() else short.encode(errors="replace").decode()


@functools.cache
def _check_of(hint: Any) -> _Check:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        kinds = tuple(_check_of(each) for each in arguments if each is not type(None))
        check = functools.partial(_check_any, kinds)
        return functools.partial(_check_optional, check) if type(None) in arguments else check
    if origin is tuple:
        return functools.partial(_check_items, _check_of(arguments[0]))
    if origin is not None:
        return functools.partial(_check_mapping, *map(_check_of, arguments))
    if is_record(hint):
        hints = field_types(hint)
        checks = [(each.name, _check_of_field(each.name, hints[each.name])) for each in fields_of(hint)]
        return functools.partial(_check_fields, hint, checks)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if issubclass(hint, Enum):
        return functools.partial(_check_member, hint)
    return functools.partial(_check_name, hint)


def _check_of_field(name: str, hint: Any) -> _Check:
    check = _check_of(hint)
    return functools.partial(_check_amount, check) if name.rsplit("_", 1)[-1] in _AMOUNTS else check


def _check_fields(cls: type, checks: list[tuple[str, _Check]], item: Any) -> int:
    if type(item) is not cls:
        raise Misfit(f"is {_named(item)}, not {cls.__name__}")
    size = 1
    for name, check in checks:
        try:
            size += check(getattr(item, name))
        except Misfit as found:
            raise found.within(name) from None
    return size


def _check_mapping(check_key: _Check, check: _Check, item: Any) -> int:
    if not isinstance(item, Mapping):
        raise Misfit(f"is {_named(item)}, not an object")
    size = 1
    for name, value in item.items():
        size += check_key(name)
        try:
            size += check(value)
        except Misfit as found:
            raise found.within(cut_words(name, 80)) from None
    return size


def _check_items(check: _Check, item: Any) -> int:
    if type(item) is not tuple:
        raise Misfit(f"is {_named(item)}, not a tuple")
    return sum(map(check, item)) + len(item)


def _check_any(checks: tuple[_Check, ...], item: Any) -> int:
    first, *others = checks
    for check in others:
        try:
            return check(item)
        except Misfit:  # without a name: a frame that holds its own exception holds all frames above it, too
            continue
    return first(item)


def _check_optional(check: _Check, item: Any) -> int:
    return 1 if item is None else check(item)


def _check_member(cls: type, item: Any) -> int:
    if type(item) is not cls:
        raise Misfit(f"is {_named(item)}, not one of the words that belong there")
    return 1


def _check_name(cls: Any, item: Any) -> int:
    """Hold a text to what its type lets a record hold, as reading does."""
    size = _check_text(item)
    try:
        cls.from_record(item)
    except Misuse:
        raise Misfit(f"is {item[:80]!a}, which is no {cls.__name__}") from None
    return size


def _check_text(item: Any) -> int:
    if not isinstance(item, str):
        raise Misfit(f"is {_named(item)}, not a text")
    if len(item) > LONGEST_TEXT:
        raise Misfit(f"has {len(item):,} characters, more than {LONGEST_TEXT:,}")
    if not item.isascii():
        try:
            item.encode()
        except UnicodeEncodeError:
            raise Misfit("holds half a character, which no file can hold") from None
    return len(item)


def _check_int(item: Any) -> int:
    if type(item) is not int:
        raise Misfit(f"is {_named(item)}, not a whole number")
    if not -_LARGEST_INT <= item <= _LARGEST_INT:
        raise Misfit("is a number that is too large")
    return 1


def _check_float(item: Any) -> int:
    if type(item) not in (float, int):
        raise Misfit(f"is {_named(item)}, not a number")
    if not -sys.float_info.max <= item <= sys.float_info.max:  # false for NaN, too
        raise Misfit("is not a finite number")
    return 1


def _check_bool(item: Any) -> int:
    if type(item) is not bool:
        raise Misfit(f"is {_named(item)}, not a truth value")
    return 1


def _check_amount(check: _Check, item: Any) -> int:
    size = check(item)
    if item is not None and not 0 <= item <= _LARGEST_AMOUNT:
        raise Misfit(f"is {item:.4g}, which is no amount")
    return size


def _named(item: Any) -> str:
    """Name the kind of this value: the value itself may be long, or hostile to a terminal."""
    if type(item) in (int, float):
        return "a number"
    return _NAMES.get(type(item), f"a value of another kind ({type(item).__name__})")


_PLAIN: dict[Any, _Check] = {
    str: _check_text,
    int: _check_int,
    float: _check_float,
    bool: _check_bool,
}
