"""The reply to a call of a tool: without hidden characters, and never longer than hosts show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loopty.kit.printable import escape_hidden
from loopty.tools.tool_table import LARGEST_REPLY

DEFAULT_WORDS, DEFAULT_LINES = 600, 80
LONGEST_TEXT = LARGEST_REPLY - 600
"""Characters: the rest of a reply has its names and its JSON."""


def cut_reply(reply: Mapping[str, Any]) -> dict[str, Any]:
    """The reply without hidden characters, cut to the longest that hosts show."""
    key = "error" if "error" in reply else "text"
    text = escape_hidden(str(reply[key]))
    if len(text) > LONGEST_TEXT:
        text = f"{text[: LONGEST_TEXT - 1]}…"
    bounded = {**reply, key: text}
    while len(json.dumps(bounded, ensure_ascii=False)) > LARGEST_REPLY:
        if len(bounded) > 1:
            bounded.pop(next(name for name in reversed(bounded) if name != key))
        else:
            bounded[key] = f"{bounded[key][: len(bounded[key]) * 3 // 4]}…"
    return bounded
