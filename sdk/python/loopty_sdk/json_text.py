"""Encode values as JSON. Plain ones need no json module, whose import takes as long as the start of Python."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(32), 127)}
_ESCAPES.update({34: '\\"', 92: "\\\\", 10: "\\n", 13: "\\r", 9: "\\t", 8: "\\b", 12: "\\f"})
_CONSTANTS = {None: "null", True: "true", False: "false"}
# Deeper values and longer lists are the json module's: it is faster there, and finds circles.
_DEEPEST, _LONGEST = 4, 100


def encode(value: Any) -> str:
    """One line of standard JSON, as json.dumps writes it.

    Raises ValueError for NaN and Infinity, which are not JSON, and TypeError for what is not data.
    """
    try:
        return _encode(value, _DEEPEST)
    except _NotPlain:
        import json

        return json.dumps(value, allow_nan=False)


class _NotPlain(Exception):  # noqa: N818 - the name says what is wrong with the value
    """The value is left to the json module."""


def _encode(value: Any, levels: int) -> str:
    kind = type(value)
    if kind is str:
        return _quote(value)
    if value is None or kind is bool:
        return _CONSTANTS[value]
    # The difference is NaN for infinities and for NaN.
    if kind is int or (kind is float and value - value == 0.0):
        return repr(value)
    if levels and kind is dict:
        return "{" + ", ".join([f"{_quote(name)}: {_encode(value[name], levels - 1)}" for name in value]) + "}"
    if levels and kind is list and len(value) <= _LONGEST:
        return "[" + ", ".join([_encode(item, levels - 1) for item in value]) + "]"
    raise _NotPlain


def _quote(text: Any) -> str:
    if type(text) is not str or not text.isascii():
        raise _NotPlain
    return f'"{text.translate(_ESCAPES)}"'
