"""Records: frozen dataclasses with slots, whose class is made at once, with methods that all of them share.

A decorator gets a class that is made already, and has to make another one for the slots. Import
`loopty.kit.dataclass`, and write `@dataclass(frozen=True, slots=True)` as well: type checkers know a record by it.
"""

from __future__ import annotations

from typing import Any

from loopty.kit.dataclass_methods import (
    CALLS_BEFORE_COMPILED,
    COMPILED,
    MISSING,
    OWN_FIELDS,
    Field,
    Shape,
    StandardFields,
    belongs_to_class,
    compile_constructor,
    constructor_owner,
    parameters_of,
    refuse_mutable,
    set_fields,
    set_state,
    state_of,
)


class RecordType(type):
    """Makes the class of a record."""

    def __new__(cls, name: str, bases: tuple[type, ...], written: dict[str, Any]) -> RecordType:
        hints = {
            key: hint for key, hint in written.get("__annotations__", {}).items() if not belongs_to_class(hint)
        }
        given = {key: written.pop(key) for key in hints if key in written}
        refuse_mutable(name, {key: each.default if type(each) is Field else each for key, each in given.items()})
        above = dict.fromkeys(key for base in bases[::-1] for key in getattr(base, "__match_args__", ()))
        slots = tuple(key for key in hints if key not in above)
        if "__eq__" in written and "__hash__" not in written:  # else Python sets it to None
            written["__hash__"] = Record.__hash__
        written.setdefault("__init__", _construct)
        written["__slots__"], written["__match_args__"] = slots, (*above, *slots)
        written[OWN_FIELDS] = Shape(bases, hints, given)
        written["__dataclass_fields__"] = StandardFields()
        order = [key in given for key in hints]
        if above or order != sorted(order):
            _refuse_required_behind_default(name, written[OWN_FIELDS])
        return super().__new__(cls, name, bases, written)


def _refuse_required_behind_default(cls: str, shape: Shape) -> None:
    has_default = False
    for name, each in shape.parameters.items():
        is_required = each.is_required if type(each) is Field else each is MISSING
        if is_required and has_default:
            raise TypeError(f"{cls}.{name} has no default, but a field before it has one")
        has_default = has_default or not is_required


def _construct(self: Any, *args: Any, **kwargs: Any) -> None:
    """Sets the fields one by one; a class that has a few instances gets a constructor that is compiled."""
    owner = constructor_owner(type(self))
    shape = owner.__dict__[OWN_FIELDS]
    shape.calls += 1
    if shape.calls <= CALLS_BEFORE_COMPILED and set_fields(self, shape.parameters, args, kwargs):
        return
    compile_constructor(owner, _construct, True, True)
    owner.__init__(self, *args, **kwargs)


setattr(_construct, COMPILED, True)


class Record(metaclass=RecordType):
    """The base of frozen dataclasses with slots."""

    __dataclass_params__ = parameters_of(True, True, False)
    __getstate__, __setstate__ = state_of, set_state

    def __repr__(self) -> str:
        shown = (field.name for field in _shape(self).fields.values() if field.repr)
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({values})"

    def __eq__(self, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        compared = _shape(self).compared
        return compared(self) == compared(other)

    def __hash__(self) -> int:
        return hash(_shape(self).compared(self))

    def __setattr__(self, name: str, value: object) -> None:
        _refuse("assign to", name)

    def __delattr__(self, name: str) -> None:
        _refuse("delete", name)


def _shape(record: Any) -> Shape:
    shape: Shape = record.__loopty_fields__
    return shape


def _refuse(what: str, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot {what} field {name!r}")
