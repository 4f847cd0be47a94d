"""The JSON in a model's reply, whatever stands around it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from loopty.kit.reasoning_blocks import without_reasoning

_LONGEST = 2_000_000
"""Characters of a reply that are looked at; a longer one is refused."""
_DEEPEST = 64
_MAX_STARTS = 200
"""Brackets of the prose around it that may open nothing, so that no reply costs more than its length is worth."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_LOOSE_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+"?)|,(?=\s*[}\]])', re.DOTALL)
_LIKE_JSON = re.compile(r'\{\s*"|\[\s*[\[{"]')


def parse_longest(text: str) -> Any:
    """The longest object or list in the text: bare, in a code fence or amid prose.

    Commas before a closing bracket and line breaks in strings are forgiven. Raises ValueError with a reason, also
    for a reply that was cut off, for NaN and infinite numbers, and for an object that names a key twice.
    """
    fault = "the reply holds no JSON"
    for span in sorted(_spans(_reply_text(text)), key=len, reverse=True):
        try:
            return _decode(span)
        except ValueError as error:
            fault = fault if fault.startswith("the JSON") else f"the JSON of the reply cannot be read: {error}"
    raise ValueError(fault)


def parse_only_object(text: str) -> dict[str, Any]:
    """The one object in the text, whatever prose stands around it; forgives what `found` forgives.

    Raises ValueError with a reason, also where there are more: one of them may be a quotation.
    """
    spans = [span for span in _spans(_reply_text(text)) if _LIKE_JSON.match(span)]
    if len(spans) != 1:
        raise ValueError(f"the reply holds {len(spans) or 'no'} JSON objects, and must hold one")
    try:
        value = _decode(spans[0])
    except ValueError as error:
        raise ValueError(f"the JSON of the reply cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Of an object with just these properties, all of them."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _reply_text(text: str) -> str:
    """The text without the thoughts before it."""
    if len(text) > _LONGEST:
        raise ValueError(f"the reply has more than {_LONGEST} characters")
    return without_reasoning(text)


def _decode(span: str) -> Any:
    return _DECODER.decode(_LOOSE_COMMA.sub(lambda token: token[1] or "", span))


def _spans(text: str) -> list[str]:
    """The outermost bracketed parts of the text."""
    spans: list[str] = []
    start = _next_start(text, 0)
    for _ in range(_MAX_STARTS):
        if start < 0:
            break
        end = _end(text, start)
        if end is not None:
            spans.append(text[start:end])
        elif _LIKE_JSON.match(text, start):  # a part of what was cut off is not what was meant
            raise ValueError("the JSON of the reply is cut off before its end")
        start = _next_start(text, end or start + 1)
    return spans


def _next_start(text: str, after: int) -> int:
    starts = [at for at in (text.find("{", after), text.find("[", after)) if at >= 0]
    return min(starts, default=-1)


def _end(text: str, start: int) -> int | None:
    """Where the bracket at `start` is closed, or None."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token[0] in "[{":
            depth += 1
            if depth > _DEEPEST:
                raise ValueError(f"the JSON of the reply is nested deeper than {_DEEPEST} levels")
        elif token[0] in "]}":
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def _finite_number(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(f"{number} is too large for a number")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _object_with_distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        if key in value:
            raise ValueError(f"the key '{key[:40]}' occurs twice")
        value[key] = item
    return value


_DECODER = json.JSONDecoder(
    parse_float=_finite_number,
    parse_constant=_refuse_constant,
    object_pairs_hook=_object_with_distinct_keys,
    strict=False,
)
