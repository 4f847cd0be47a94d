"""A model's word for a value, as a value of the parameter: mended where its meaning is plain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from loopty.domain.space import Parameter, ParameterKind, Value
from loopty.kit.fence import one_line
from loopty.proposers.parameters.parameter_prompts import said

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Mended:
    value: Value
    note: str = ""
    """What was changed, where it is more than the way in which it was written."""


def mended(name: str, parameter: Parameter, word: Any) -> Mended:
    """Raises ValueError with a reason that the model can go by."""
    if parameter.type is ParameterKind.CATEGORICAL:
        return Mended(_choice(name, parameter, word))
    number = _number(name, word)
    value = _nearest(parameter, number)
    if math.isclose(value, number, rel_tol=1e-9, abs_tol=1e-12):
        return Mended(value)
    return Mended(value, f"{name} {said(number)} became {said(value)}")


def _choice(name: str, parameter: Parameter, word: Any) -> Value:
    if parameter.accepts(word):
        return word  # type: ignore[no-any-return]
    alike = [choice for choice in parameter.choices if _plain(choice) == _plain(word)]
    if len(alike) == 1:
        return alike[0]
    choices = ", ".join(map(said, parameter.choices))
    raise ValueError(f"{name} = {_shown(word)} is none of {choices}")


def _plain(word: Any) -> str:
    """`True`, "true" and true are the same word, and so are 3, 3.0 and "3"."""
    if isinstance(word, float) and word.is_integer():
        word = int(word)
    return str(word).strip().casefold() if isinstance(word, str | int | float) else ""


def _number(name: str, word: Any) -> float:
    try:
        if isinstance(word, bool) or not isinstance(word, int | float | str):
            raise ValueError
        number = float(word)
        if not math.isfinite(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(f"{name} = {_shown(word)} is no number") from None
    return number


def _nearest(parameter: Parameter, number: float) -> float | int:
    """The parameter's value that is nearest to the number."""
    assert parameter.low is not None
    assert parameter.high is not None
    number = min(max(number, parameter.low), parameter.high)
    if step := parameter.step or (1.0 if parameter.type is ParameterKind.INT else None):
        steps = min(
            round((number - parameter.low) / step), math.floor((parameter.high - parameter.low) / step + 1e-9)
        )
        number = min(parameter.low + steps * step, parameter.high)
    return round(number) if parameter.type is ParameterKind.INT else float(number)


def _shown(word: Any) -> str:
    return one_line(repr(word)[:1000], _LONGEST)
