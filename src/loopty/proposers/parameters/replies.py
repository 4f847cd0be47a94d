"""Parse a model's reply into points of the space, values corrected where their meaning is clear, with the faults
of the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from loopty.domain.proposal import Objection
from loopty.domain.space import Parameter, ParameterKind, Params, Space, Value
from loopty.kit.foreign_text import one_line
from loopty.kit.model_text import parse_longest
from loopty.kit.records import Record
from loopty.proposers.parameters.prompts import value_text
from loopty.proposers.shared_pool import params_line

_LONGEST_REASON = 240
_MAX_ERROR_CHARS = 1_000


class ParameterPoint(Record):
    """One configuration that a reply proposes."""

    params: Mapping[str, Value]
    summary: str


class ParameterReply(Record):
    """The points of a reply. Parsing it again gives the same points, so they can be taken one by one."""

    points: tuple[ParameterPoint, ...] = ()
    faults: tuple[str, ...] = ()
    objection: Objection = Objection.FORBIDDEN
    """The objection to the whole reply when it has no point."""


def parse_reply(text: str, space: Space, defaults: Params, limit: int) -> ParameterReply:
    """Read at most `limit` points of the reply; a parameter that a point leaves out has its `defaults` value."""
    try:
        items = _items(parse_longest(text))[:limit]
    except ValueError as error:
        # The error may quote the reply, and it goes into the ledger and to the model.
        return ParameterReply(
            faults=(one_line(str(error)[:_MAX_ERROR_CHARS], _LONGEST_REASON),), objection=Objection.REPLY
        )
    points: list[ParameterPoint] = []
    faults: list[str] = []
    for number, item in enumerate(items, 1):
        try:
            point = _parse_point(item, space, defaults)
        except ValueError as error:
            faults.append(f"proposal {number}: {error}")
            continue
        if all(point.params != other.params for other in points):
            points.append(point)
    return ParameterReply(tuple(points), tuple(faults))


def _items(value: Any) -> list[Any]:
    """Return the proposals of a reply; a single one may come without a list around it."""
    if isinstance(value, dict):
        value = value.get("proposals", value)
    items = value if isinstance(value, list) else [value]
    if not items:
        raise ValueError("the reply proposes nothing")
    return items


def _parse_point(item: Any, space: Space, defaults: Params) -> ParameterPoint:
    if not isinstance(item, dict):
        raise ValueError("is not an object with parameters")
    nested = isinstance(item.get("parameters"), dict) and "parameters" not in space.parameters
    raw_values = _by_parameter_name(item["parameters"] if nested else _flat_parameters(item, space), space)
    params: dict[str, Value] = {}
    notes: list[str] = []
    for name in space.order():
        if not space.is_active(name, params):
            continue  # the value of a parameter that does not exist has no meaning
        parameter, default = space.parameters[name], defaults.get(name)
        if (raw := raw_values.get(name)) is not None:
            coerced = coerce_value(name, parameter, raw)
            params[name] = coerced.value
            notes += [coerced.note] if coerced.note else []
        else:
            params[name] = default if default is not None and parameter.accepts(default) else parameter.baseline
    summary = params_line(params) + (f" ({'; '.join(notes)})" if notes else "")
    reason = item.get("reason")
    if nested and isinstance(reason, str) and reason.strip():
        summary += f": {one_line(reason, _LONGEST_REASON)}"
    return ParameterPoint(params, summary)


def _flat_parameters(item: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return the parameters of an item that has them directly, without an object around them."""
    return {name: raw for name, raw in item.items() if name in space.parameters or name != "reason"}


def _by_parameter_name(raw_values: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return the values by the space's own parameter names; case and outer white space do not matter."""
    plain = {name.casefold(): name for name in space.parameters}
    named: dict[str, Any] = {}
    for written, raw in raw_values.items():
        name = written if written in space.parameters else plain.get(written.strip().casefold())
        if name is None:
            raise ValueError(f"there is no parameter '{one_line(written, 60)}'")
        if name in named:
            raise ValueError(f"names '{name}' twice")
        named[name] = raw
    return named


_LONGEST = 60


class CoercedValue(Record):
    value: Value
    note: str = ""
    """What was corrected, if more than the notation."""


def coerce_value(name: str, parameter: Parameter, raw: Any) -> CoercedValue:
    """Return the parameter's value for a raw one. Raises ValueError with a reason that the model can act on."""
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
    """Return the value as a plain word: `True`, "true" and true are the same, and so are 3, 3.0 and "3"."""
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
    """Return the parameter's value nearest to the number."""
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
