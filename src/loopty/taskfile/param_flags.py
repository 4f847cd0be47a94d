"""Reads `lr=float:1e-4:1:log`, a parameter on the command line of `loopty init`."""

from __future__ import annotations

from loopty.domain.errors import Misuse
from loopty.domain.space import Parameter, ParameterKind

_FORMS = "NAME=float:LOW:HIGH[:log], NAME=int:LOW:HIGH[:log] or NAME=categorical:A,B,C"


def parse_parameter(text: str) -> tuple[str, Parameter]:
    """The name and the parameter. Raises Misuse with the form that is expected."""
    name, _, rest = text.partition("=")
    kind, *parts = rest.split(":")
    if not name.strip() or kind not in tuple(ParameterKind):
        raise Misuse(f"--param {text!r} is none of {_FORMS}")
    if kind == ParameterKind.CATEGORICAL:
        parameter = Parameter(ParameterKind.CATEGORICAL, choices=tuple(":".join(parts).split(",")))
    else:
        log = parts[-1:] == ["log"]
        bounds = parts[:-1] if log else parts
        try:
            low, high = map(float, bounds)
        except ValueError:
            raise Misuse(f"--param {text!r} needs two numbers, LOW and HIGH: {_FORMS}") from None
        parameter = Parameter(ParameterKind(kind), low, high, log)
    if len(set(parameter.choices)) == 1:
        raise Misuse(
            f"--param {text!r} has one value, and nothing to search: name at least two, as in k=categorical:a,b"
        )
    if fault := parameter.fault():
        raise Misuse(f"--param {text!r}: {fault}")
    return name.strip(), parameter
