"""Text to models and from them: what it costs in tokens, how it is cut to a budget, and the JSON in a reply."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from loopty.kit.foreign_text import fence_text, shorten

_BYTES_PER_TOKEN = 4
_PIECES = re.compile(rb"[A-Z]?[a-z]{1,4}|[A-Z]| {2,}|\t+|\n+|[^A-Za-z ]")
"""Each is one token or less for common tokenisers: pieces of words, digits, signs, runs of white space."""


def tokens(text: str) -> int:
    return tokens_for_bytes(byte_size(text))


def tokens_for_bytes(count: int) -> int:
    """Estimate the tokens in this many bytes: a quarter, rounded up, as is common for English and code."""
    return -(-count // _BYTES_PER_TOKEN)


def tokens_of_data(text: str) -> int:
    """Estimate the tokens of text that others wrote: tables of numbers have four times the tokens of prose."""
    return max(tokens(text), len(_PIECES.findall(text.encode("utf-8", "surrogatepass"))))


def byte_size(text: str) -> int:
    """Return the bytes of a text: the upper bound of its tokens, as no token is shorter than a byte."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


Count = Callable[[str], int]

_MIN_TOKENS = 64
"""A fence in fewer tokens would hold next to nothing."""


def cut_to(text: str, limit_tokens: int, count_tokens: Count = tokens) -> str:
    """Shorten the text to at most `limit_tokens` tokens, without a fence."""
    return longest_that_fits(lambda limit_chars: shorten(text, limit_chars), len(text), limit_tokens, count_tokens)


def longest_that_fits(
    render: Callable[[int], str], length: int, limit_tokens: int, count_tokens: Count = tokens
) -> str:
    """Return the longest `render(limit_chars)` of a text of this length within `limit_tokens` tokens.

    Empty when not even the shortest fits.
    """
    limit_chars = 4 * limit_tokens
    while limit_chars > 0:
        text = render(limit_chars)
        if (used := count_tokens(text)) <= limit_tokens:
            return text
        # Minus a few, because the fence and letters of several bytes need tokens, too.
        limit_chars = min(length, limit_chars) * limit_tokens // used - 8
    return ""


def fence_to_budget(label: str, text: str, limit_tokens: int, *, clean: bool = False) -> str:
    """Fence the text within a token budget; "" if the text is empty or the budget is too small.

    `clean`: each line of the text is already scrubbed.
    """
    if limit_tokens < _MIN_TOKENS or not text.strip():
        return ""
    return longest_that_fits(lambda limit: fence_text(label, text, limit, exact=clean), len(text), limit_tokens)


def lines_within(lines: Iterable[str], limit_tokens: int) -> list[str]:
    """Return the first lines that fit into a token budget."""
    kept: list[str] = []
    for line in lines:
        limit_tokens -= line_tokens(line)
        if limit_tokens < 0:
            break
        kept.append(line)
    return kept


@functools.lru_cache(maxsize=4096)  # the same lines appear in prompt after prompt
def line_tokens(line: str) -> int:
    """Count the tokens of a line, its line end included."""
    return tokens(line) + 1


_REASONING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)


def without_reasoning(text: str) -> str:
    """Return the reply without the reasoning before it."""
    reasoning = _REASONING.match(text)
    return text[reasoning.end() :] if reasoning else text


_LONGEST = 2_000_000
"""Characters of the longest reply that is read."""
_DEEPEST = 64
_MAX_STARTS = 200
"""Opening brackets that are tried: prose may hold many that open nothing, and no reply may take long to read."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_LOOSE_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+"?)|,(?=\s*[}\]])', re.DOTALL)
_LIKE_JSON = re.compile(r'\{\s*"|\[\s*[\[{"]')


def parse_longest(text: str) -> Any:
    """Parse the longest JSON object or list in the text: bare, in a code fence or within prose.

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
    """Parse the only JSON object in the text, ignoring prose around it; as lenient as `parse_longest`.

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
    """Return the JSON schema of an object with exactly these properties, all required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _reply_text(text: str) -> str:
    """Return the text without the reasoning before it. Raises ValueError when it is too long."""
    if len(text) > _LONGEST:
        raise ValueError(f"the reply has more than {_LONGEST} characters")
    return without_reasoning(text)


def _decode(span: str) -> Any:
    return _DECODER.decode(_LOOSE_COMMA.sub(lambda token: token[1] or "", span))


def _spans(text: str) -> list[str]:
    """List the outermost bracketed parts of the text."""
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
    """Find where the bracket at `start` is closed, or None."""
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
