"""`NamedTuple` as in the standard library, without a look at the types, which takes ten times as long."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import namedtuple

    class _NamedTupleType(type):
        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            hints = namespace.get("__annotations__", {})
            defaults = [namespace[field] for field in hints if field in namespace]
            if any(field in namespace for field in list(hints)[: len(hints) - len(defaults)]):
                raise TypeError(f"{name}: a field without a default follows one with a default")
            made = namedtuple(name, hints, defaults=defaults, module=namespace["__module__"])
            for key, value in namespace.items():
                if key not in hints:  # the class has a getter of that name
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_NamedTupleType):
        """The base of a class whose instances are tuples with names."""


__all__ = ["NamedTuple"]
