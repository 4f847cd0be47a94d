"""Frozen dataclasses to plain data and back, by their own type hints."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
Convert = Callable[[Any], Any]

_AS_THEY_ARE = frozenset({str, int, float, bool, type(None)})


def plain(value: Any) -> Any:
    """The value as dicts, lists, strings, numbers and None; fields that hold their default are left out."""
    if type(value) in _AS_THEY_ARE:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            name: plain(item)
            for name, default in _defaults(type(value))
            if (item := getattr(value, name)) != default
        }
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def text(value: Any) -> str:
    """The value as one compact line of JSON."""
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def build(cls: Callable[..., T], data: Mapping[str, Any]) -> T:
    """The dataclass that `plain` made this of. Unknown keys are a later version's and are passed over."""
    known, converters = _plan(typing.cast(type, cls))
    values = {key: item for key, item in data.items() if key in known}
    for key, convert in converters:
        if key in values:
            values[key] = convert(values[key])
    return cls(**values)


@functools.cache
def _defaults(cls: type) -> list[tuple[str, Any]]:
    return [
        (
            field.name,
            field.default_factory()
            if field.default_factory is not dataclasses.MISSING
            else field.default,  # MISSING equals nothing, so a required field is always written
        )
        for field in dataclasses.fields(cls)
    ]


@functools.cache
def _plan(cls: type) -> tuple[frozenset[str], list[tuple[str, Convert]]]:
    """The fields of a dataclass, and what to do to those that are not stored as they are."""
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    converters = ((name, _converter(hints[name])) for name in names)
    return frozenset(names), [(name, convert) for name, convert in converters if convert is not _same]


def _converter(hint: Any) -> Convert:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        inner = [argument for argument in arguments if argument is not type(None)]
        if len(inner) > 1:
            return _same
        convert = _converter(inner[0])
        return convert if convert is _same else lambda item: None if item is None else convert(item)
    if origin is tuple:
        convert = _converter(arguments[0])
        return lambda items: tuple(map(convert, items))
    if origin in (dict, Mapping, typing.get_origin(Mapping[str, int])):
        key, value = map(_converter, arguments)
        if key is value is _same:
            return _same
        return lambda items: {key(name): value(item) for name, item in items.items()}
    if dataclasses.is_dataclass(hint):
        kind = typing.cast(type, hint)
        return lambda item: build(kind, item)
    if isinstance(hint, type) and (issubclass(hint, enum.Enum) or (issubclass(hint, str) and hint is not str)):
        return typing.cast(Convert, hint)
    return _same


def _same(item: Any) -> Any:
    return item
