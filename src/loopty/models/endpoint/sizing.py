"""How many tokens a request is, about and at the most."""

from __future__ import annotations

import re
from typing import Any

from loopty.kit.token_count import byte_size, tokens
from loopty.models.meter import RequestSize

_MEDIA_TOKENS = 4096
_MEDIA = re.compile(r"(data:[^,]*,)?[A-Za-z0-9+/=_-]{4096,}")
"""A picture, a sound or a document, in letters: what it costs has little to do with its length."""


def request_size(body: dict[str, Any], output_tokens: int) -> RequestSize:
    expected = worst = 0
    waiting: list[Any] = [body]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            waiting += [*found, *found.values()]
        elif isinstance(found, list):
            waiting += found
        elif isinstance(found, str) and _MEDIA.fullmatch(found):
            # A text may look like one: it is a picture in the estimate, and a text at the worst.
            expected, worst = expected + _MEDIA_TOKENS, worst + max(_MEDIA_TOKENS, byte_size(found))
        else:
            text = str(found)
            expected, worst = expected + tokens(text), worst + byte_size(text)
    return RequestSize(expected, worst, output_tokens)
