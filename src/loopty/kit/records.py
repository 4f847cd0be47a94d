"""Records: frozen structs of msgspec, and what is known about their fields."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from sys import modules
from typing import TYPE_CHECKING, Any, NamedTuple, dataclass_transform

from msgspec import NODEFAULT, Struct, field, structs, to_builtins

if TYPE_CHECKING:
    from dataclasses import replace  # type checkers look at the names and types of its changes
else:

    def replace(record, /, **changes):
        """Copy a record, or a dataclass of somebody else, with some fields changed."""
        if isinstance(record, Struct):
            return structs.replace(record, **changes)
        from dataclasses import replace as replace_in_dataclass

        return replace_in_dataclass(record, **changes)


FACTS = "__facts__"
"""The attribute of a class that holds what its options say."""

__all__ = [
    "FACTS",
    "NODEFAULT",
    "Field",
    "Record",
    "as_dict",
    "field",
    "field_types",
    "fields_of",
    "is_record",
    "replace",
]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record(Struct, frozen=True):
    """The base of everything that is only its fields: compared, hashed and printed by them, and never changed."""


class Field(NamedTuple):
    """A name, the value that a record has where none is given, and what the reference page says of it."""

    name: str
    default: Any
    """NODEFAULT where a value must be given."""
    facts: Mapping[str, Any] = {}


def is_record(cls: Any) -> bool:
    """Say whether this is the class of a record; options of plug-ins may be dataclasses as well."""
    return isinstance(cls, type) and (issubclass(cls, Struct) or hasattr(cls, "__dataclass_fields__"))


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """List the fields of a record or a dataclass in their order; what a factory makes is made once."""
    if not issubclass(cls, Struct):
        return _fields_of_dataclass(cls)
    names, given, facts = cls.__struct_fields__, cls.__struct_defaults__, getattr(cls, FACTS, {})
    defaults = (NODEFAULT,) * (len(names) - len(given)) + given
    # msgspec marks a factory with a class that it does not export.
    made = (each.factory() if type(each).__name__ == "Factory" else each for each in defaults)
    return tuple(Field(name, default, facts.get(name, {})) for name, default in zip(names, made, strict=True))


def _fields_of_dataclass(cls: Any) -> tuple[Field, ...]:
    import dataclasses  # by plug-ins of others: it takes as long as msgspec to import

    missing = dataclasses.MISSING
    return tuple(
        Field(
            each.name,
            each.default_factory()
            if each.default_factory is not missing
            else NODEFAULT
            if each.default is missing
            else each.default,
            each.metadata,
        )
        for each in dataclasses.fields(cls)
    )


@cache
def field_types(cls: type) -> dict[str, Any]:
    """Look up the types of the fields; raises NameError if one is known to type checkers alone.

    `typing.get_type_hints` takes three times as long.
    """
    found: dict[str, Any] = {}
    for base in cls.__mro__[::-1]:
        if base in (object, Struct):
            continue
        scope = vars(modules[base.__module__])
        for name, hint in base.__dict__.get("__annotations__", {}).items():  # noqa: RUF063 - its own alone
            found[name] = eval(hint, scope) if isinstance(hint, str) else hint
    return found


def as_dict(record: Any) -> Any:
    """Turn a record and all records within it into dicts with every field, for `--json` and for files."""
    return to_builtins(record, enc_hook=_as_builtin)


def _as_builtin(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"no file holds a {type(value).__name__}")
