"""The space of parameters for a model: in words, and as the schema of its reply."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from loopty.domain.space import Parameter, ParameterKind, Space, Value
from loopty.kit.reply_json import schema

_TYPES: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def space_text(space: Space) -> str:
    """A line for each parameter."""
    return "\n".join(f"- `{name}`: {'; '.join(_facts(parameter))}" for name, parameter in space.parameters.items())


def reply_schema(space: Space) -> dict[str, Any]:
    """Of `{"proposals": [{"parameters": {…}, "reason": "…"}]}`."""
    parameters = schema({name: _property_schema(parameter) for name, parameter in space.parameters.items()})
    proposal = schema({"parameters": parameters, "reason": {"type": "string"}})
    return schema({"proposals": {"type": "array", "items": proposal}})


def value_text(value: Value) -> str:
    """A value as JSON, with no more digits than matter."""
    return f"{value:.6g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _facts(parameter: Parameter) -> Iterator[str]:
    if parameter.type is ParameterKind.CATEGORICAL:
        yield f"one of {', '.join(map(value_text, parameter.choices))}"
    else:
        assert parameter.low is not None
        assert parameter.high is not None
        yield f"{parameter.type} from {_number_text(parameter.low)} to {_number_text(parameter.high)}, both included"
        if parameter.step:
            yield f"in steps of {_number_text(parameter.step)}"
        if parameter.log:
            yield "to be thought of on a logarithmic scale"
    yield f"{value_text(parameter.baseline)} in the baseline"
    if parameter.when:
        conditions = " and ".join(f"`{other}` is {value_text(value)}" for other, value in parameter.when.items())
        yield f"exists only while {conditions}"


def _number_text(number: float) -> str:
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)


def _property_schema(parameter: Parameter) -> dict[str, Any]:
    # Strict servers want every key in each reply: what does not exist is null there.
    optional = bool(parameter.when)
    if parameter.type is ParameterKind.CATEGORICAL:
        kinds = sorted({_TYPES[type(choice)] for choice in parameter.choices})
        choices = [*parameter.choices, *([None] if optional else [])]
        return {"type": _json_type(kinds, optional), "enum": choices}
    kind = "integer" if parameter.type is ParameterKind.INT else "number"
    return {"type": _json_type([kind], optional), "minimum": parameter.low, "maximum": parameter.high}


def _json_type(kinds: list[str], optional: bool) -> str | list[str]:
    kinds = [*kinds, "null"] if optional else kinds
    return kinds[0] if len(kinds) == 1 else kinds
