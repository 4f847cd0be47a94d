"""Tables of the task file: records whose fields carry a sentence for the reference page, and bounds."""

from __future__ import annotations

from typing import Any, NamedTuple, dataclass_transform

from msgspec import NODEFAULT, StructMeta

from loopty.kit.records import FACTS, Record, field


class _Option(NamedTuple):
    default: Any
    facts: dict[str, Any]


def option(doc: str, default: Any = NODEFAULT, **checks: Any) -> Any:
    """Declare a field of a table; it is required unless it has a default.

    Checks: `minimum`, `above`, `below`, `choices`, `filled`, `glob`.
    """
    return _Option(default, {"doc": doc, **checks})


class _TableType(StructMeta):
    """Keeps what `option` says of each field beside the class: the fields of a struct have no room for it."""

    def __new__(cls, name: str, bases: tuple[type, ...], written: dict[str, Any], **config: Any) -> Any:
        options = {key: value for key, value in written.items() if type(value) is _Option}
        facts = {key: given for base in bases for key, given in getattr(base, FACTS, {}).items()}
        for key, (default, given) in options.items():
            facts[key] = given
            if default is NODEFAULT:
                del written[key]
            else:
                written[key] = default
        return super().__new__(cls, name, bases, {**written, FACTS: facts}, **config)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Table(Record, metaclass=_TableType):
    """The base of the tables of the task file."""
