"""Text in terminal columns: cut, padded, and without anything that could steer the terminal."""

from __future__ import annotations

import unicodedata

_LONGEST_ID = 32


def printable_line(text: str) -> str:
    """One line without control characters: proposals are written by models and copied from anywhere."""
    if text.isascii() and text.isprintable():
        return text
    # Cc and Cf hold the escape character, and the marks that turn the direction of writing around.
    return "".join(
        " " if letter.isspace() else letter
        for letter in text
        if letter.isspace() or unicodedata.category(letter) not in ("Cc", "Cf", "Cs")
    )


def width(text: str) -> int:
    """How many columns the text takes."""
    return len(text) if text.isascii() else sum(map(_letter_width, text))


def cut(text: str, columns: int) -> str:
    """The text in at most so many columns."""
    text = printable_line(text)
    if width(text) <= columns:
        return text
    kept: list[str] = []
    left = columns - 1
    for letter in text:
        left -= _letter_width(letter)
        if left < 0:
            break
        kept.append(letter)
    return "".join(kept) + "…" if columns > 0 else ""


def pad(text: str, columns: int, right: bool = False) -> str:
    """The text in exactly so many columns."""
    text = cut(text, columns)
    gap = " " * (columns - width(text))
    return gap + text if right else text + gap


def wrap(text: str, columns: int) -> list[str]:
    """The text in lines of at most so many columns, at least one; words that are longer are broken."""
    lines = [""]
    for word in printable_line(text).split():
        if lines[-1] and width(lines[-1]) + 1 + width(word) <= columns:
            lines[-1] += f" {word}"
            continue
        if lines[-1]:
            lines.append("")
        for letter in word:
            if width(lines[-1]) + _letter_width(letter) > columns:
                lines.append("")
            lines[-1] += letter
    return lines


def text_beside(head: str, text: str, columns: int) -> str:
    """The text beside its head, in as many lines as that takes."""
    room = max(columns - width(head), 1)
    return head + f"\n{' ' * width(head)}".join(wrap(text, room))


def short_id(node: str, columns: int = _LONGEST_ID) -> str:
    """The id, or its head and tail: a chain of thousands of changes has an id of kilobytes."""
    if len(node) <= columns:
        return str(node)
    head = columns // 3
    return f"{node[:head]}…{node[-(columns - head - 1) :]}"


def _letter_width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
