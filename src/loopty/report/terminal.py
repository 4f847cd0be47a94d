"""The abilities of a terminal: colour or not, Unicode or not.

Text is written with the Unicode characters below and plain spaces, and rendered as ASCII if necessary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from loopty.kit.records import Record
from loopty.report.control_codes import control_code

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
        "–": "-",
        "→": ">",
        "◦": "+",
        "◇": "#",
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


class Terminal(Record):
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
