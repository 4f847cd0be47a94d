"""Text that others wrote, made safe to show: hidden characters and control codes become visible escapes.

Git and less do the same with control codes. Marks that reverse the writing direction and zero-width characters are
escaped as well, because with them code reads differently from what it does (trojansource.codes).
"""

from __future__ import annotations

import re

_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t]")
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Controls, formats (direction, zero width, tags), lone surrogates, private use, line and paragraph separators."""


def escape_hidden(text: str) -> str:
    r"""The text with each hidden character as `\x1b` or `\u202e`; line feeds and tabs stay."""
    return text if _is_visible(text) else _UNUSUAL.sub(lambda found: _escape(found[0]), text)


def escape_hidden_json(text: str) -> str:
    r"""JSON with each hidden character as `\u202e`: the same value for every reader."""
    return text if _is_visible(text) else _UNUSUAL.sub(lambda found: _escape_in_json(found[0]), text)


def _is_visible(text: str) -> bool:
    """Whether Python calls all of it printable: then nothing in it is hidden."""
    return text.replace("\n", "").replace("\t", "").isprintable()


def _is_hidden(letter: str) -> bool:
    import unicodedata

    return unicodedata.category(letter) in _HIDDEN


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode() if _is_hidden(letter) else letter


def _escape_in_json(letter: str) -> str:
    if not _is_hidden(letter):
        return letter
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
