"""Text in terminal columns: cut, padded, wrapped, listed as facts, and free of control characters."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable

from loopty.kit.records import Record
from loopty.report.terminal import Terminal

NAME_COLUMNS = 10
"""Columns of a fact's name."""
_ODD = "[^\u0000-\u02ff\u2010-\u2027\u2190-\u22ff\u2500-\u25ef]"
"""All letters but many that take one column: Latin ones, arrows, lines, dots."""


class Fact(Record):
    """A name and a text, shown in two columns."""

    name: str
    text: str
    style: str = ""
    is_whole: bool = False
    """Whether the text stays on one line: a path or a line to paste, which a break would spoil."""


def fact_lines(facts: Iterable[Fact], columns: int, terminal: Terminal) -> list[str]:
    """The facts as lines: names in one column, texts wrapped in the next."""
    lines = []
    for fact in facts:
        room = max(columns - NAME_COLUMNS - 2, 1)
        first, *more = [printable_line(fact.text)] if fact.is_whole else wrap(fact.text, room)
        name = f"  {fact.name:<{NAME_COLUMNS - 1}} "
        lines.append(terminal.paint(name, "dim") + terminal.paint(first, fact.style))
        lines += [" " * (NAME_COLUMNS + 2) + terminal.paint(line, fact.style) for line in more]
    return lines


def printable_line(text: str) -> str:
    """The text as one line without control characters: models write proposals, and copy from anywhere."""
    if text.isprintable():
        return text
    return "".join(
        " " if letter.isspace() else letter for letter in text if letter.isspace() or not _is_control(letter)
    )


@functools.lru_cache(maxsize=4096)
def _is_control(letter: str) -> bool:
    # Cc and Cf contain the escape character and the marks that reverse the writing direction.
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs")


def width(text: str) -> int:
    """The number of columns the text takes."""
    return len(text) if text.isascii() or not _find_odd()(text) else sum(map(_letter_width, text))


@functools.cache
def _find_odd() -> Callable[[str], re.Match[str] | None]:
    """The search for a letter that may not take one column; compiled when first used."""
    return re.compile(_ODD).search


def cut(text: str, columns: int) -> str:
    """Cut the text to this many columns; an ellipsis marks the cut."""
    text = printable_line(text)
    if 2 * len(text) <= columns or width(text) <= columns:  # no letter takes more than two columns
        return text
    kept: list[str] = []
    room = columns - 1
    for letter in text:
        room -= _letter_width(letter)
        if room < 0:
            break
        kept.append(letter)
    return "".join(kept) + "…" if columns > 0 else ""


def pad(text: str, columns: int, right: bool = False) -> str:
    """Cut or pad the text to exactly this many columns."""
    text = cut(text, columns)
    gap = " " * (columns - width(text))
    return gap + text if right else text + gap


def wrap(text: str, columns: int) -> list[str]:
    """Wrap the text into lines of at most this many columns, at least one line; longer words are broken."""
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
    """The text beside its head, wrapped and indented by the width of the head."""
    room = max(columns - width(head), 1)
    return head + f"\n{' ' * width(head)}".join(wrap(text, room))


def cut_middle(text: str, columns: int) -> str:
    """The text, cut to its head and tail if it is longer than this many characters."""
    if len(text) <= columns:
        return text
    head = columns // 3
    return f"{text[:head]}…{text[-(columns - head - 1) :]}"


@functools.lru_cache(maxsize=4096)
def _letter_width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
