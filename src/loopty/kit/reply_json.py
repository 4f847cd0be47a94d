"""Finds the JSON in a model's reply, ignoring the text around it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from loopty.kit.reasoning_blocks import without_reasoning

_LONGEST = 2_000_000
"""Characters of the longest reply that is read."""
_DEEPEST = 64
_MAX_STARTS = 200
"""Opening brackets that are tried: prose may hold many that open nothing, and no reply may take long to read."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_LOOSE_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+"?)|,(?=\s*[}\]])', re.DOTALL)
_LIKE_JSON = re.compile(r'\{\s*"|\[\s*[\[{"]')


def parse_longest(text: str) -> Any:
    """The longest JSON object or list in the text: bare, in a code fence or within prose.

    Allows commas before a closing bracket and line breaks in strings. Raises ValueError with a reason, also for a
    reply that was cut off, for NaN and infinite numbers, and for an object with a duplicate key.
    """
    fault = "the reply holds no JSON"
    for span in sorted(_spans(_reply_text(text)), key=len, reverse=True):
        try:
            return _decode(span)
        except ValueError as error:
            fault = fault if fault.startswith("the JSON") else f"the JSON in the reply cannot be read: {error}"
    raise ValueError(fault)


def parse_only_object(text: str) -> dict[str, Any]:
    """The only JSON object in the text, ignoring prose around it; as lenient as `parse_longest`.

    Raises ValueError with a reason, also when there are several: one of them may be a quotation.
    """
    spans = [span for span in _spans(_reply_text(text)) if _LIKE_JSON.match(span)]
    if len(spans) != 1:
        raise ValueError(f"the reply holds {len(spans) or 'no'} JSON objects, but must hold exactly one")
    try:
        value = _decode(spans[0])
    except ValueError as error:
        raise ValueError(f"the JSON in the reply cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("the JSON in the reply is not an object")
    return value


def schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with exactly these properties, all required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _reply_text(text: str) -> str:
    """The text without the reasoning before it. Raises ValueError when it is too long."""
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
        elif _LIKE_JSON.match(text, start):  # a complete part of truncated JSON is not what was meant
            raise ValueError("the JSON in the reply is cut off before its end")
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
                raise ValueError(f"the JSON in the reply is nested deeper than {_DEEPEST} levels")
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
    raise ValueError(f"{name} is not valid JSON")


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
