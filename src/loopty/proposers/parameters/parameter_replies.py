"""What a model's reply proposes: points of the space, and what is wrong with the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loopty.domain.proposal import Objection
from loopty.domain.space import Params, Space, Value
from loopty.kit.fence import one_line
from loopty.kit.reply_json import parse_longest
from loopty.proposers.parameters.coerce import coerce_value
from loopty.proposers.params_text import params_line

_LONGEST_REASON = 240
_MAX_ERROR_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class ParameterPoint:
    params: Mapping[str, Value]
    summary: str


@dataclass(frozen=True, slots=True)
class ParameterReply:
    """The points are the same whenever the reply is read, so that they can be taken one by one."""

    points: tuple[ParameterPoint, ...] = ()
    faults: tuple[str, ...] = ()
    objection: Objection = Objection.FORBIDDEN
    """To the reply, where it holds no point."""


def parse_reply(text: str, space: Space, defaults: Params, limit: int) -> ParameterReply:
    """At most so many of the reply's points; what one leaves out is as in `given`."""
    try:
        items = _items(parse_longest(text))[:limit]
    except ValueError as error:
        # What is wrong may be quoted from the reply: it goes into the ledger and to the model.
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
    """The proposals of a reply, also of one that has only one and no list around it."""
    if isinstance(value, dict):
        value = value.get("proposals", value)
    items = value if isinstance(value, list) else [value]
    if not items:
        raise ValueError("the reply proposes nothing")
    return items


def _parse_point(item: Any, space: Space, defaults: Params) -> ParameterPoint:
    if not isinstance(item, dict):
        raise ValueError("is no object with parameters")
    nested = isinstance(item.get("parameters"), dict) and "parameters" not in space.parameters
    words = _by_parameter_name(item["parameters"] if nested else _flat_parameters(item, space), space)
    params: dict[str, Value] = {}
    notes: list[str] = []
    for name in space.order():
        if not space.is_active(name, params):
            continue  # what it says of a parameter that does not exist has no meaning
        parameter, known = space.parameters[name], defaults.get(name)
        if (word := words.get(name)) is not None:
            mend = coerce_value(name, parameter, word)
            params[name] = mend.value
            notes += [mend.note] if mend.note else []
        else:
            params[name] = known if known is not None and parameter.accepts(known) else parameter.baseline
    summary = params_line(params) + (f" ({'; '.join(notes)})" if notes else "")
    reason = item.get("reason")
    if nested and isinstance(reason, str) and reason.strip():
        summary += f": {one_line(reason, _LONGEST_REASON)}"
    return ParameterPoint(params, summary)


def _flat_parameters(item: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Parameters that stand where their object should."""
    return {name: word for name, word in item.items() if name in space.parameters or name != "reason"}


def _by_parameter_name(words: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """The words by the names of the parameters, however these were written."""
    plain = {name.casefold(): name for name in space.parameters}
    named: dict[str, Any] = {}
    for written, word in words.items():
        name = written if written in space.parameters else plain.get(written.strip().casefold())
        if name is None:
            raise ValueError(f"there is no parameter '{one_line(written, 60)}'")
        if name in named:
            raise ValueError(f"names '{name}' twice")
        named[name] = word
    return named
