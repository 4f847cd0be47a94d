"""Parameters that a program declares itself, in comment lines of the files that a proposal may change.

    # loopty parameter: step = { type = "float", low = 0.1, high = 10.0, log = true, default = 1.0 }

The table has the keys of `[parameters.NAME]` in the task file, without `when`. Whoever writes the program writes
these lines, so nothing about them is trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from loopty.domain.proposal import Edits
from loopty.domain.space import Parameter, ParameterKind, Params, Space, Value
from loopty.kit.records import Record

MARK = "loopty parameter:"
_LINE = re.compile(r"^[ \t]*(?:#+|//+|--|;+|%+|!|/\*+|\*|<!--)[ \t]*" + MARK + "(.*)$", re.MULTILINE)
"""A comment of any language that begins with the mark; prose about it is none."""
MOST_DECLARED = 12
_KEYS = {"type", "low", "high", "log", "step", "choices", "default"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_LONGEST_LINE = 600
_LONGEST_TEXT = 80
_MOST_CHOICES = 32
_SMALLEST, _LARGEST = 1e-12, 1e12
"""Sizes of numbers other than 0: with these no sum, quotient or logarithm overflows."""
_MOST_STEPS = 1e9


class DeclarationFault(ValueError):  # noqa: N818
    """What is wrong with a declaration, and how to fix it."""


class DeclaredParameter(Record):
    """A parameter, and the file that declares it."""

    path: str
    parameter: Parameter


Declared = Mapping[str, DeclaredParameter]


def declare_after(before: Declared, edits: Edits) -> dict[str, DeclaredParameter]:
    """What a program declares after these edits of its files. Raises DeclarationFault."""
    declared = {name: one for name, one in before.items() if one.path not in edits}
    for path, content in edits.items():
        for name, parameter in _declarations(path, content):
            if name in declared:
                raise DeclarationFault(
                    f"{path} declares parameter {name}, which {declared[name].path} declares already: "
                    "give it another name"
                )
            declared[name] = DeclaredParameter(path, parameter)
    if len(declared) > MOST_DECLARED:
        raise DeclarationFault(
            f"declares {len(declared)} parameters: keep the {MOST_DECLARED} that matter most, and fix the others"
        )
    return declared


def declaration_refusal(before: Declared, edits: Edits, space: Space) -> str | None:
    """Why these edits are refused because of what they declare; `space` are the task's own parameters."""
    try:
        declared = declare_after(before, edits)
    except DeclarationFault as fault:
        return str(fault)
    taken = next((name for name in declared if name in space.parameters), None)
    return f"declares {taken}, which is a parameter of the task: give it another name" if taken else None


def complete_params(declared: Declared, given: Params) -> dict[str, Value]:
    """The given values, with one for each declared parameter: the given one where it fits, else the default."""
    params = dict(given)
    for name, one in declared.items():
        if name not in given or not one.parameter.accepts(given[name]):
            params[name] = one.parameter.baseline
    return params


def carry_params(before: Declared, after: Declared, params: Params) -> dict[str, Value]:
    """The values of a program that declared `before` and declares `after` now."""
    return complete_params(after, {name: v for name, v in params.items() if name not in before or name in after})


def join_space(space: Space, declared: Declared) -> Space:
    """The task's parameters and the declared ones."""
    if not declared:
        return space
    return Space({**space.parameters, **{name: one.parameter for name, one in declared.items()}})


def _declarations(path: str, content: str | bytes | None) -> Iterator[tuple[str, Parameter]]:
    if not content or (MARK if isinstance(content, str) else MARK.encode()) not in content:  # type: ignore[operator]
        return
    text = content.decode(errors="replace") if isinstance(content, bytes) else content
    for found in _LINE.finditer(text):
        try:
            yield _declaration(found[1])
        except DeclarationFault as fault:
            line = text.count("\n", 0, found.start()) + 1
            raise DeclarationFault(f"{path}, line {line}: {fault}") from None


def _declaration(text: str) -> tuple[str, Parameter]:
    import tomllib  # here: most files declare nothing

    from loopty.kit.fence import one_line

    if len(text) > _LONGEST_LINE:
        raise DeclarationFault(f"the declaration has more than {_LONGEST_LINE} characters: make it shorter")
    body = text[: text.rindex("}") + 1] if "}" in text else text  # the end of a block comment may follow
    try:
        table = tomllib.loads(body.strip())
    except (ValueError, RecursionError):
        table = {}
    name, raw = next(iter(table.items()), ("", None))
    if len(table) != 1 or not isinstance(raw, dict) or not _NAME.fullmatch(name):
        raise DeclarationFault(
            f'a declaration is one line such as `{MARK} step = {{ type = "float", low = 0.1, high = 10.0, '
            "default = 1.0 }`"
        )
    if unknown := next((key for key in raw if key not in _KEYS), None):
        raise DeclarationFault(f"parameter {name} has an unknown key {one_line(unknown, 40)!r}: leave it out")
    return name, _parameter(name, raw)


def _parameter(name: str, raw: Mapping[str, Any]) -> Parameter:
    from loopty.kit.fence import one_line

    if raw.get("type") not in tuple(ParameterKind):
        raise DeclarationFault(f'parameter {name} needs type = "float", "int" or "categorical"')
    choices, log = raw.get("choices", []), raw.get("log", False)
    numbers = [raw[key] for key in ("low", "high", "step") if key in raw]
    values = [*(choices if isinstance(choices, list) else [None]), *([raw["default"]] if "default" in raw else [])]
    if not all(map(_is_plain_number, numbers)) or not all(map(_is_plain_value, values)) or type(log) is not bool:
        raise DeclarationFault(
            f"parameter {name} has a value of the wrong kind: low, high and step are numbers from {_SMALLEST:g} "
            f"to {_LARGEST:g} in size, choices a list of short values"
        )
    if len(choices) > _MOST_CHOICES:
        raise DeclarationFault(f"parameter {name} has more than {_MOST_CHOICES} choices: leave some out")
    parameter = Parameter(**{**raw, "type": ParameterKind(raw["type"]), "choices": tuple(choices)})
    fault = parameter.fault() or _step_fault(parameter)
    if fault:
        raise DeclarationFault(f"parameter {name}: {one_line(fault, 200)}")
    return parameter


def _step_fault(parameter: Parameter) -> str | None:
    if parameter.step is None or parameter.low is None or parameter.high is None:
        return None
    if parameter.step <= 0 or (parameter.high - parameter.low) / parameter.step > _MOST_STEPS:
        return "step must be above 0 and not tiny beside the range"
    return None


def _is_plain_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value == 0 or _SMALLEST <= abs(value) <= _LARGEST


def _is_plain_value(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT and value.isprintable()
    return isinstance(value, bool) or _is_plain_number(value)
