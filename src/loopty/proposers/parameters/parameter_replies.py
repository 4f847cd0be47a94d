"""Parse a model's reply into points of the space, with the faults of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopty.domain.proposal import Objection
from loopty.domain.space import Params, Space, Value
from loopty.kit.fence import one_line
from loopty.kit.records import Record
from loopty.kit.reply_json import parse_longest
from loopty.proposers.parameters.coerce import coerce_value
from loopty.proposers.params_text import params_line

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
    """At most `limit` points of the reply; a parameter that a point leaves out has its value in `defaults`."""
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
    """The proposals of a reply; a single one may come without a list around it."""
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
    """The parameters of an item that has them directly, without an object around them."""
    return {name: raw for name, raw in item.items() if name in space.parameters or name != "reason"}


def _by_parameter_name(raw_values: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """The values by the space's own parameter names; case and outer white space of a name do not matter."""
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
