"""Escape sequences of loopty's own, recognised by a random mark.

Every verb imports this as it starts, so it needs few modules.
"""

from __future__ import annotations

import functools
import os

from loopty.kit.printable import escape_hidden


def control_code(text: str) -> str:
    """The start of an escape sequence of loopty's own, which `safe_text` lets through."""
    return f"{_own_mark()}{text}"


def safe_text(text: str) -> str:
    """The text as it may reach a terminal: only loopty's own escape sequences are codes, all else is visible."""
    return escape_hidden(text).replace(_own_mark(), "\x1b[")


@functools.cache
def _own_mark() -> str:
    """Stands for the start of an escape sequence. It is drawn at random, so that nobody else can write it."""
    return f"<{os.urandom(16).hex()}>"  # `secrets` takes 8 ms to import
