"""The prompts to a model that chooses parameters, and the schema of its reply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from loopty.domain.model import Message, Prompt, Speaker
from loopty.domain.space import Parameter, ParameterKind, Space, Value
from loopty.kit.fence import FENCED_IS_DATA
from loopty.kit.reply_json import schema

_SYSTEM = (
    "You choose the parameters of a program so that its benchmark gives better results. You see what was tried "
    "and what it gave; you propose what to try next, and the benchmark decides. " + FENCED_IS_DATA
)
_TYPES: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def configurations_prompt(context: str, space: Space, tried: str, batch: int) -> Prompt:
    """The prompt that asks for `batch` configurations."""
    wanted = "the configuration that is" if batch == 1 else f"the {batch} configurations that are"
    names = ", ".join(f"`{name}`" for name in space.parameters)
    sections = (
        context,
        f"# Parameters\n\n{space_text(space)}",
        f"# Configurations that were tried\n\n{tried}",
        f"# What to do\n\nPropose {wanted} most worth trying next. Each must differ from all that were tried, and "
        "from each other. Weigh what the results suggest against regions where little is known. Change only "
        "parameters, no files. Reply with JSON alone: an object with a list `proposals`. Each proposal has first "
        "`reason`, a sentence that says what the results so far suggest and why this one is next, and then "
        f"`parameters`, an object with a value for each of {names} that exists under the others' values.",
    )
    return Prompt(_SYSTEM, (Message(Speaker.ASKER, "\n\n".join(sections)),), reply_schema(space))


def retry_text(faults: Sequence[str]) -> str:
    """The message that asks again after a reply without a usable point."""
    lines = "\n".join(f"- {fault}" for fault in faults)
    return f"None of this can be tried:\n{lines}\n\nReply again, with the JSON alone, as it was described."


def space_text(space: Space) -> str:
    """The parameters of the space, a line each."""
    return "\n".join(f"- `{name}`: {'; '.join(_facts(parameter))}" for name, parameter in space.parameters.items())


def reply_schema(space: Space) -> dict[str, Any]:
    """The JSON schema of `{"proposals": [{"reason": "…", "parameters": {…}}]}`."""
    parameters = schema({name: _property_schema(parameter) for name, parameter in space.parameters.items()})
    # The reason comes first: a value that is already written cannot follow from it.
    proposal = schema({"reason": {"type": "string"}, "parameters": parameters})
    return schema({"proposals": {"type": "array", "items": proposal}})


def value_text(value: Value) -> str:
    """The value as JSON, with at most six significant digits."""
    return f"{value:.6g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _facts(parameter: Parameter) -> Iterator[str]:
    if parameter.type is ParameterKind.CATEGORICAL:
        yield f"one of {', '.join(map(value_text, parameter.choices))}"
    else:
        assert parameter.low is not None
        assert parameter.high is not None
        low, high = _number_text(parameter.low), _number_text(parameter.high)
        yield f"{parameter.type} from {low} to {high}, both included"
        if parameter.step:
            yield f"in steps of {_number_text(parameter.step)}"
        if parameter.log:
            yield "on a logarithmic scale"
    yield f"{value_text(parameter.baseline)} in the baseline"
    if parameter.when:
        conditions = " and ".join(f"`{other}` is {value_text(value)}" for other, value in parameter.when.items())
        yield f"exists only while {conditions}"


def _number_text(number: float) -> str:
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)


def _property_schema(parameter: Parameter) -> dict[str, Any]:
    # Strict servers want every key in each reply: a parameter that does not exist is null.
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
