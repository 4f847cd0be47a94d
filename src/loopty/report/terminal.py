"""The abilities of a terminal: colour or not, Unicode or not.

Text is written with the Unicode characters below and plain spaces, and rendered as ASCII if necessary.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from loopty.kit.printable import escape_hidden

_STYLES = {
    "good": "32",
    "best": "1;32",
    "bad": "31",
    "dim": "2",
    "strong": "1",
    "other": "36",
    "warn": "33",
}
_ASCII = str.maketrans(
    {
        "●": "o",
        "·": ".",
        "×": "x",
        "◦": "+",
        "★": "*",
        "▸": ">",
        "≠": "/",
        "±": "~",
        "▲": "^",
        "▼": "v",
        "─": "-",
        "╌": "~",
        "┄": "~",
        "│": "|",
        "╎": ":",
        "┤": "|",
        "├": "|",
        "└": "`",
        "┬": "+",
        "╯": "'",
        "╮": ",",
        "█": "#",
        "░": ".",
        "…": "~",
    }
)


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


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a terminal can show."""

    colour: bool = False
    unicode: bool = True

    @classmethod
    def for_stream(cls, stream: TextIO, env: Mapping[str, str]) -> Terminal:
        """The terminal behind this stream. NO_COLOR: https://no-color.org."""
        colour = stream.isatty() and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
        return cls(colour, (stream.encoding or "ascii").lower().replace("-", "") in ("utf8", "utf8sig"))

    def paint(self, text: str, style: str) -> str:
        """The text in this style, if the terminal has colour."""
        if not (self.colour and style and text):
            return text
        return f"{control_code(_STYLES[style])}m{text}{control_code('0')}m"

    def render(self, text: str) -> str:
        """The text as this terminal can show it."""
        return text if self.unicode else text.translate(_ASCII).encode("ascii", "replace").decode()
