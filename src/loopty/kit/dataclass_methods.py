"""The methods of a dataclass: one closure for each, except the constructor, which is compiled later.

Import `loopty.kit.dataclass`; `fields_of` is for those that read or write any dataclass. The functions of the
standard `dataclasses` module work on these classes, too: what they look for is made when they ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import attrgetter, ge, gt, le, lt
from sys import modules
from types import CodeType, SimpleNamespace
from typing import Any, cast

MISSING: Any = type("Missing", (), {"__repr__": lambda _: "MISSING"})()
OWN_FIELDS = "__loopty_fields__"
COMPILED = "__loopty_constructor__"
"""Marks the constructors that are made here."""
"""Compiles the constructor of each class that had few instances; some were compiled meanwhile."""
CALLS_BEFORE_COMPILED = 3
"""A constructor that is compiled takes a tenth of the time, and compiling it takes that of some thirty calls."""


class Field:
    """One field; with `compare=False` it does not count for equality, with `repr=False` it is not shown.

    With `init=False` the constructor leaves it to `__post_init__`.
    """

    __slots__ = ("compare", "default", "default_factory", "init", "metadata", "name", "repr", "type")

    def __init__(
        self,
        *,
        default: Any = MISSING,
        default_factory: Any = MISSING,
        init: bool = True,
        repr: bool = True,
        compare: bool = True,
        metadata: Mapping[Any, Any] | None = None,
    ) -> None:
        self.default, self.default_factory = default, default_factory
        self.init, self.repr, self.compare, self.metadata = init, repr, compare, metadata or {}
        self.name, self.type = "", ""

    @property
    def is_required(self) -> bool:
        return self.default is MISSING and self.default_factory is MISSING


def add_methods(
    cls: type | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    order: bool = False,
) -> Any:
    """The decorator: with `slots` it returns a new class, as the standard one does."""
    if cls is None:
        return lambda given: _build(given, frozen, slots, eq, order)
    return _build(cls, frozen, slots, eq, order)


def is_dataclass(cls: Any) -> bool:
    """Whether this is the class of a dataclass, a standard one included."""
    return isinstance(cls, type) and (hasattr(cls, OWN_FIELDS) or hasattr(cls, "__dataclass_fields__"))


def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields of a dataclass, a standard one included."""
    return tuple(fields_by_name(cls).values())


def only_sets_fields(cls: Any) -> bool:
    """Whether an instance is made by setting its fields and nothing else."""
    return hasattr(cls.__init__, COMPILED) and not hasattr(cls, "__post_init__")


@cache
def field_types(cls: type) -> dict[str, Any]:
    """The types of a dataclass's fields; raises NameError where one is only known to type checkers.

    As `typing.get_type_hints`, in a third of the time: the same few texts occur again and again.
    """
    found: dict[str, Any] = {}
    for base in cls.__mro__[::-1]:
        scope = vars(modules[base.__module__])
        for name, hint in base.__dict__.get("__annotations__", {}).items():  # noqa: RUF063 - its own alone
            found[name] = eval(_compile_hint(hint), scope) if isinstance(hint, str) else hint
    return found


@cache
def _compile_hint(hint: str) -> CodeType:
    # Not by `compile`: its first call makes a class for each part of a syntax tree, a hundredth of a verb.
    code: CodeType = eval(f"lambda: ({hint})").__code__
    return code


class Shape:
    """The fields of a class, and how it is compared: worked out when an instance or somebody else asks."""

    __slots__ = ("_bases", "_given", "_hints", "_known", "_parameters", "calls", "compared")

    def __init__(self, bases: tuple[type, ...], hints: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        """Of the classes above it, the types of its own fields, and the defaults that are written in it."""
        self._bases, self._hints, self._given = bases, hints, given
        self.calls = 0
        """Instances that were made before the constructor was compiled."""
        self._known: dict[str, Field] | None = None
        self._parameters: dict[str, Any] | None = None
        self.compared: Callable[[Any], tuple[Any, ...]] = self._compared_at_first

    @property
    def fields(self) -> dict[str, Field]:
        if self._known is None:
            own = {name: self._own_field(name, hint) for name, hint in self._hints.items()}
            above = {name: each for base in self._bases[::-1] for name, each in fields_by_name(base).items()}
            self._known = {**above, **own}
        return self._known

    @property
    def parameters(self) -> dict[str, Any]:
        """What the constructor sets: the names, and for each its default, its Field, or MISSING."""
        if self._parameters is None:
            found: dict[str, Any] = {}
            for base in self._bases[::-1]:
                above = base.__dict__.get(OWN_FIELDS)
                found |= fields_by_name(base) if above is None else above.parameters
            found |= {name: self._given.get(name, MISSING) for name in self._hints}
            self._parameters = {name: each for name, each in found.items() if type(each) is not Field or each.init}
        return self._parameters

    def _own_field(self, name: str, hint: str) -> Field:
        default = self._given.get(name, MISSING)
        field = default if isinstance(default, Field) else Field(default=default)
        field.name, field.type = name, hint
        return field

    def _compared_at_first(self, record: Any) -> tuple[Any, ...]:
        self.compared = _values_of([field.name for field in self.fields.values() if field.compare])
        return self.compared(record)


def _build(cls: type, frozen: bool, slots: bool, eq: bool, order: bool) -> type:
    written, bases = cls.__dict__, cls.__mro__[1:-1]
    if OWN_FIELDS in written:  # a record has them from the start
        if not (frozen and slots and eq) or order:
            raise TypeError(f"{cls.__name__} is a record: frozen=True, slots=True and nothing else belong to it")
        return cls
    above = [name for base in bases[::-1] for name in fields_by_name(base)]
    hints = {name: hint for name, hint in cls.__annotations__.items() if not belongs_to_class(hint)}
    given = {name: written[name] for name in hints if name in written}
    defaults = {name: each.default if type(each) is Field else each for name, each in given.items()}
    refuse_mutable(cls.__name__, defaults)
    shape, names = Shape(bases, hints, given), tuple(dict.fromkeys((*above, *hints)))
    methods = _methods(shape, names, frozen, slots, eq)
    if order:
        methods |= {f"__{each.__name__}__": comparison(each, shape) for each in (lt, le, gt, ge)}
    # Python sets `__hash__` to None in a class with its own `__eq__`: that is not the author's own choice.
    added = {name: each for name, each in methods.items() if name == "__hash__" or name not in written}
    if written.get("__hash__") is not None:
        del added["__hash__"]
    added[OWN_FIELDS] = shape
    added["__match_args__"] = names
    added["__dataclass_fields__"] = StandardFields()
    added["__dataclass_params__"] = parameters_of(frozen, eq, order)
    if slots:
        cls = _with_slots(cls, hints, added)
    else:
        _add_to(cls, defaults, added)
    return cls


def belongs_to_class(hint: Any) -> bool:
    """Whether what has this type belongs to the class, and is no field."""
    return (hint if isinstance(hint, str) else repr(hint)).startswith(("ClassVar", "typing.ClassVar"))


def refuse_mutable(cls: str, defaults: Mapping[str, Any]) -> None:
    """Raise ValueError for a default that all instances would share, and could change."""
    for name, default in defaults.items():
        if type(default).__hash__ is None:
            raise ValueError(f"{cls}.{name}: a mutable default is shared; use default_factory")


def _add_to(cls: type, defaults: Mapping[str, Any], added: Mapping[str, Any]) -> None:
    for name, value in added.items():
        setattr(cls, name, value)
    for name, default in defaults.items():
        if default is not MISSING:
            setattr(cls, name, default)
        else:
            delattr(cls, name)


@cache
def parameters_of(frozen: bool, eq: bool, order: bool) -> SimpleNamespace:
    return SimpleNamespace(frozen=frozen, eq=eq, order=order)


def fields_by_name(cls: type) -> dict[str, Field]:
    if (own := cls.__dict__.get(OWN_FIELDS)) is not None:
        return cast(Shape, own).fields
    if "__dataclass_fields__" not in cls.__dict__:
        above = next((base for base in cls.__mro__[1:] if "__dataclass_fields__" in base.__dict__), None)
        return fields_by_name(above) if above else {}
    return dict(_from_standard(cls))


def _from_standard(cls: Any) -> Iterator[tuple[str, Field]]:
    import dataclasses

    for known in dataclasses.fields(cls):
        default, factory = known.default, known.default_factory
        field = Field(
            default=MISSING if default is dataclasses.MISSING else default,
            default_factory=MISSING if factory is dataclasses.MISSING else factory,
            init=known.init,
            repr=known.repr,
            compare=bool(known.compare),
            metadata=known.metadata,
        )
        field.name, field.type = known.name, cast(str, known.type)
        yield known.name, field


class StandardFields:
    """Makes `__dataclass_fields__` when the standard module asks for it, once."""

    def __get__(self, instance: object, owner: type) -> Any:
        import dataclasses

        def standard(field: Field) -> Any:
            given = {"default": field.default, "default_factory": field.default_factory}
            options: Any = {name: value for name, value in given.items() if value is not MISSING}
            options |= {
                "init": field.init,
                "repr": field.repr,
                "compare": field.compare,
                "metadata": field.metadata,
            }
            return field.name, field.type, dataclasses.field(**options)

        holder: Any = holder_of(owner, "__dataclass_fields__", self)
        made: Any = dataclasses.make_dataclass("Fields", [standard(field) for field in fields_of(holder)])
        holder.__dataclass_fields__ = made.__dataclass_fields__
        return made.__dataclass_fields__


def holder_of(cls: type, name: str, value: object) -> type:
    """The class that has this attribute of its own: `cls` or one that it inherits from."""
    return next(base for base in cls.__mro__ if base.__dict__.get(name) is value)


def _with_slots(cls: type, own: Mapping[str, Any], added: Mapping[str, Any]) -> type:
    """The class anew, with these attributes, and with slots for its own fields that no base has.

    They are given at once: each attribute that is set later makes Python look at the whole class again.
    """
    taken = {name for base in cls.__mro__[1:-1] for name in base.__dict__.get("__slots__", ())}
    namespace = {**cls.__dict__, **added, "__slots__": tuple(name for name in own if name not in taken)}
    for name in ("__dict__", "__weakref__", *own):
        namespace.pop(name, None)
    namespace["__qualname__"] = cls.__qualname__
    return type(cls)(cls.__name__, cls.__bases__, namespace)


def _methods(shape: Shape, names: tuple[str, ...], frozen: bool, slots: bool, eq: bool) -> dict[str, Any]:
    def represent(self: Any) -> str:
        shown = (field.name for field in shape.fields.values() if field.repr)
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({values})"

    def equals(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return shape.compared(self) == shape.compared(other)

    methods: dict[str, Any] = {
        "__init__": _constructor_at_first_calls(shape, frozen, slots),
        "__repr__": represent,
    }
    if eq:
        methods |= {"__eq__": equals, "__hash__": (lambda self: hash(shape.compared(self))) if frozen else None}
    if frozen:
        methods["__setattr__"] = _refusal("assign to", names, object.__setattr__)
        methods["__delattr__"] = _refusal("delete", names, object.__delattr__)
    if slots:
        methods |= {"__getstate__": state_of, "__setstate__": set_state}
    return methods


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    # With a single name, attrgetter would return the value itself, not a tuple.
    return attrgetter(*names) if len(names) > 1 else lambda self: tuple(getattr(self, name) for name in names)


def comparison(compare: Callable[[Any, Any], bool], shape: Shape) -> Callable[[Any, Any], Any]:
    def compare_fields(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compare(shape.compared(self), shape.compared(other))

    return compare_fields


def _refusal(what: str, names: tuple[str, ...], otherwise: Callable[..., None]) -> Callable[..., None]:
    """A method that refuses to change a field; a subclass may have attributes of its own."""

    def refuse(self: object, name: str, *value: object) -> None:
        if name in names or OWN_FIELDS in type(self).__dict__:
            from dataclasses import FrozenInstanceError

            raise FrozenInstanceError(f"cannot {what} field {name!r}")
        otherwise(self, name, *value)

    return refuse


def constructor_owner(cls: type) -> Any:
    """The class whose constructor makes an instance of `cls`, also when another thread has just compiled it."""
    return next(base for base in cls.__mro__ if hasattr(base.__dict__.get("__init__"), COMPILED))


def compile_constructor(owner: Any, first: Callable[..., None], frozen: bool, slots: bool) -> None:
    if owner.__dict__.get("__init__") is first:
        owner.__init__ = _constructor(owner, frozen, slots)


def _constructor_at_first_calls(shape: Shape, frozen: bool, slots: bool) -> Callable[..., None]:
    """Sets the fields one by one; a class that has a few instances gets a constructor that is compiled."""

    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        shape.calls += 1
        if shape.calls <= CALLS_BEFORE_COMPILED and set_fields(self, shape.parameters, args, kwargs):
            return
        owner = constructor_owner(type(self))
        compile_constructor(owner, construct, frozen, slots)
        owner.__init__(self, *args, **kwargs)

    setattr(construct, COMPILED, True)
    return construct


def set_fields(self: Any, parameters: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Set all fields; False where these are no arguments for them: the compiled constructor says why."""
    values = dict(zip(parameters, args, strict=False))
    if len(args) > len(parameters) or not values.keys().isdisjoint(kwargs):
        return False
    values.update(kwargs)
    for name, given in parameters.items():
        if name not in values:
            has_factory = type(given) is Field and given.default_factory is not MISSING
            default = given.default if type(given) is Field else given
            if default is MISSING and not has_factory:
                return False
            values[name] = given.default_factory() if has_factory else default
    if len(values) > len(parameters):
        return False
    for name, value in values.items():
        object.__setattr__(self, name, value)
    if hasattr(self, "__post_init__"):
        self.__post_init__()
    return True


def _constructor(owner: type, frozen: bool, slots: bool) -> Callable[..., None]:
    """Compile `__init__`: parameters in the order of the fields, with their defaults."""
    fields = fields_of(owner)
    scope: dict[str, Any] = {"MISSING": MISSING, "set_any": object.__setattr__}
    parameters, lines = ["self"], []
    for field in fields:
        if not field.init:
            continue
        name, value = field.name, field.name
        if field.default_factory is not MISSING:
            scope[f"make_{name}"] = field.default_factory
            parameters.append(f"{name}=MISSING")
            value = f"make_{name}() if {name} is MISSING else {name}"
        elif field.default is not MISSING:
            scope[f"default_{name}"] = field.default
            parameters.append(f"{name}=default_{name}")
        else:
            parameters.append(name)
        if not frozen:
            lines.append(f"self.{name} = {value}")
        elif slots:
            scope[f"set_{name}"] = getattr(owner, name).__set__  # the slot itself: faster than object.__setattr__
            lines.append(f"set_{name}(self, {value})")
        else:
            lines.append(f"set_any(self, {name!r}, {value})")
    if hasattr(owner, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "".join(f"\n    {line}" for line in lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):{body}", scope)
    construct: Callable[..., None] = scope["__init__"]
    construct.__qualname__ = f"{owner.__qualname__}.__init__"
    setattr(construct, COMPILED, True)
    return construct


def state_of(self: Any) -> list[Any]:
    return [getattr(self, name) for name in fields_by_name(type(self))]


def set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(fields_by_name(type(self)), state, strict=True):
        object.__setattr__(self, name, value)
