"""The reasoning that a model writes before its reply."""

from __future__ import annotations

import re

_REASONING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)


def without_reasoning(text: str) -> str:
    """The reply without the reasoning before it."""
    reasoning = _REASONING.match(text)
    return text[reasoning.end() :] if reasoning else text
