"""Records to plain data and back, driven by their type hints."""

from __future__ import annotations

import functools
import json
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

from loopty.kit.records import Field, field_types, fields_of, is_record

T = TypeVar("T")
Convert = Callable[[Any], Any]

_PLAIN_TYPES = (str, int, float, type(None))
_FLATTENERS: dict[type, Convert] = {}
_JSON = json.JSONEncoder(  # records have no circles, and looking for them takes half the time
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
)


def plain(value: Any) -> Any:
    """Return the value as dicts, lists, strings, numbers and None; fields at their default are left out."""
    return _flattener(type(value))(value)


def text(value: Any) -> str:
    """Return the value as one compact line of JSON."""
    return _encode(plain(value))


def _make_encode() -> Callable[[Any], str]:
    """Make the standard encoder once: `json` makes a new one for each value, and most of ours are small."""
    make_quick = getattr(json.encoder, "c_make_encoder", None)
    if make_quick is None:  # in Pythons without the part in C
        return _JSON.encode
    options = (_JSON.key_separator, _JSON.item_separator, _JSON.sort_keys, _JSON.skipkeys, _JSON.allow_nan)
    parts = make_quick(None, _JSON.default, json.encoder.encode_basestring, None, *options)
    return lambda value: "".join(parts(value, 0))


_encode = _make_encode()


def stated_fields(value: Any) -> list[tuple[str, Any]]:
    """List the fields of a record that are not at their default, in their order: those that `plain` writes."""
    cls: type = type(value)
    fields = ((name, default, getattr(value, name)) for name, default, _ in fields_of(cls))
    return [(name, item) for name, default, item in fields if item is not default and item != default]


def every_field(value: Any) -> dict[str, Any]:
    """Turn the fields of a record into plain data, also those at their default: the same keys for every value."""
    cls: type = type(value)
    return {name: plain(getattr(value, name)) for name, *_ in fields_of(cls)}


def _flattener(cls: type) -> Convert:
    """Return the function that turns a value of this type into plain data; cached, as every event needs it."""
    if cls not in _FLATTENERS:
        _FLATTENERS[cls] = _build_flattener(cls)
    return _FLATTENERS[cls]


def _build_flattener(cls: type) -> Convert:
    if is_record(cls):
        names = [field.name for field in fields_of(cls)]
        # With a single name, attrgetter would return the value itself, not a tuple.
        values = (
            operator.attrgetter(*names) if len(names) > 1 else lambda value: [getattr(value, n) for n in names]
        )
        return functools.partial(_fields, values, fields_of(cls))
    if issubclass(cls, Enum):
        return operator.attrgetter("value")
    if issubclass(cls, _PLAIN_TYPES):  # before the question for Mapping, which asks all its subclasses in turn
        return _same
    if issubclass(cls, Mapping):
        return _flatten_mapping
    if issubclass(cls, list | tuple):
        return lambda value: [plain(item) for item in value]
    return _same


def _flatten_mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    known, data = _FLATTENERS, {}
    for key, item in value.items():
        flatten = known.get(type(item)) or _flattener(type(item))
        data[str(key)] = item if flatten is _same else flatten(item)
    return data


def _fields(values: Callable[[Any], Iterable[Any]], fields: Iterable[Field], value: Any) -> dict[str, Any]:
    known, data = _FLATTENERS, {}
    for (name, default, _), item in zip(fields, values(value), strict=True):
        if item is not default and item != default:
            flatten = known.get(type(item)) or _flattener(type(item))
            data[name] = item if flatten is _same else flatten(item)
    return data


def build(cls: Callable[..., T], data: Mapping[str, Any]) -> T:
    """Make the record that `plain` turned into this data, without the keys of later versions."""
    plan = _plan(typing.cast(type, cls))
    return cls(
        **{
            key: item if (convert := plan[key]) is _same else convert(item)
            for key, item in data.items()
            if key in plan
        }
    )


@functools.cache
def _plan(cls: type) -> dict[str, Convert]:
    """Say how each field of a record is read."""
    hints = field_types(cls)
    return {field.name: _converter(hints[field.name]) for field in fields_of(cls)}


def _converter(hint: Any) -> Convert:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        inner = [argument for argument in arguments if argument is not type(None)]
        if len(inner) > 1:
            return _union_converter(inner)
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
    if is_record(hint):
        kind = typing.cast(type, hint)
        return lambda item: build(kind, item)
    if isinstance(hint, type) and (issubclass(hint, Enum) or (issubclass(hint, str) and hint is not str)):
        # A text whose type knows what a record may hold is checked as it is read.
        return typing.cast(Convert, getattr(hint, "from_record", hint))
    return _same


def _union_converter(hints: Iterable[Any]) -> Convert:
    """Make the converter of a union: among several types only a tuple is stored differently, as a list."""
    convert = next((_converter(hint) for hint in hints if typing.get_origin(hint) is tuple), None)
    if convert is None:
        return _same
    return lambda item: convert(item) if isinstance(item, list) else item


def _same(item: Any) -> Any:
    return item
