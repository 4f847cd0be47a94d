"""Turn a value as a model wrote it into a value of the parameter, corrected where its meaning is clear."""

from __future__ import annotations

import math
from typing import Any

from loopty.domain.space import Parameter, ParameterKind, Value
from loopty.kit.fence import one_line
from loopty.kit.records import Record
from loopty.proposers.parameters.parameter_prompts import value_text

_LONGEST = 60


class CoercedValue(Record):
    value: Value
    note: str = ""
    """What was corrected, if more than the notation."""


def coerce_value(name: str, parameter: Parameter, raw: Any) -> CoercedValue:
    """The parameter's value for a raw one. Raises ValueError with a reason that the model can act on."""
    if parameter.type is ParameterKind.CATEGORICAL:
        return CoercedValue(_choice(name, parameter, raw))
    number = _number(name, raw)
    value = _nearest(parameter, number)
    if math.isclose(value, number, rel_tol=1e-9, abs_tol=1e-12):
        return CoercedValue(value)
    return CoercedValue(value, f"{name} {value_text(number)} became {value_text(value)}")


def _choice(name: str, parameter: Parameter, raw: Any) -> Value:
    if parameter.accepts(raw):
        return raw  # type: ignore[no-any-return]
    alike = [choice for choice in parameter.choices if _plain_word(choice) == _plain_word(raw)]
    if len(alike) == 1:
        return alike[0]
    choices = ", ".join(map(value_text, parameter.choices))
    raise ValueError(f"{name} = {_short_repr(raw)} is not one of {choices}")


def _plain_word(raw: Any) -> str:
    """The value as a plain word: `True`, "true" and true are the same word, and so are 3, 3.0 and "3"."""
    if isinstance(raw, float) and raw.is_integer():
        raw = int(raw)
    return str(raw).strip().casefold() if isinstance(raw, str | int | float) else ""


def _number(name: str, raw: Any) -> float:
    try:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise ValueError
        number = float(raw)
        if not math.isfinite(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(f"{name} = {_short_repr(raw)} is not a number") from None
    return number


def _nearest(parameter: Parameter, number: float) -> float | int:
    """The parameter's value nearest to the number."""
    assert parameter.low is not None
    assert parameter.high is not None
    number = min(max(number, parameter.low), parameter.high)
    if step := parameter.step or (1.0 if parameter.type is ParameterKind.INT else None):
        steps = min(
            round((number - parameter.low) / step), math.floor((parameter.high - parameter.low) / step + 1e-9)
        )
        number = min(parameter.low + steps * step, parameter.high)
    return round(number) if parameter.type is ParameterKind.INT else float(number)


def _short_repr(raw: Any) -> str:
    return one_line(repr(raw)[:1000], _LONGEST)
