"""What a model thinks aloud before it replies."""

from __future__ import annotations

import re

_REASONING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)


def without_reasoning(text: str) -> str:
    """The reply without the thoughts that stand before it."""
    thoughts = _REASONING.match(text)
    return text[thoughts.end() :] if thoughts else text
