"""What a model thinks aloud before it replies."""

from __future__ import annotations

import re

_THOUGHTS = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)


def without_thoughts(text: str) -> str:
    """The reply without the thoughts that stand before it."""
    thoughts = _THOUGHTS.match(text)
    return text[thoughts.end() :] if thoughts else text
