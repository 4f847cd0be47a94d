"""The terminal: what it can show, the one safe way to it, and text in columns.

Every verb imports this as it starts, so it needs few modules.
"""

from __future__ import annotations

import functools
import io
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from loopty.kit.foreign_text import escape_hidden
from loopty.kit.records import Record


def control_code(text: str) -> str:
    """Start an escape sequence of loopty's own, which `safe_text` lets through."""
    return f"{_own_mark()}{text}"


def safe_text(text: str) -> str:
    """Make the text safe for a terminal: only loopty's own escape sequences are codes, all else is visible."""
    return escape_hidden(text).replace(_own_mark(), "\x1b[")


@functools.cache
def _own_mark() -> str:
    """Return the mark that stands for the start of an escape sequence; drawn at random, so no one can forge it."""
    return f"<{os.urandom(16).hex()}>"  # `secrets` takes 8 ms to import


class SafeStream(io.TextIOWrapper):
    """Shows hidden characters as visible escapes; only loopty's own colours and cursor moves stay codes."""

    def write(self, text: str) -> int:
        super().write(safe_text(text))
        return len(text)

    @classmethod
    def over(cls, stream: TextIO) -> TextIO:
        """Return a safe stream with the destination of this one."""
        if not isinstance(stream, io.TextIOWrapper) or isinstance(stream, cls):
            return stream
        return cls(
            stream.buffer,
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )


class Outlet:
    """Writes to a stream until that fails, then drops everything."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream

    def write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._stream = None


# Text is written with the Unicode characters below and plain spaces, and rendered as ASCII if necessary.


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
        """Describe the terminal behind this stream. NO_COLOR: https://no-color.org."""
        colour = stream.isatty() and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
        return cls(colour, (stream.encoding or "ascii").lower().replace("-", "") in ("utf8", "utf8sig"))

    def paint(self, text: str, style: str) -> str:
        """Return the text in this style, if the terminal has colour."""
        if not (self.colour and style and text):
            return text
        return f"{control_code(_STYLES[style])}m{text}{control_code('0')}m"

    def render(self, text: str) -> str:
        """Return the text as this terminal can show it."""
        return text if self.unicode else text.translate(_ASCII).encode("ascii", "replace").decode()


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
    """Format the facts as lines: names in one column, texts wrapped in the next."""
    lines = []
    for fact in facts:
        room = max(columns - NAME_COLUMNS - 2, 1)
        first, *more = [printable_line(fact.text)] if fact.is_whole else wrap(fact.text, room)
        name = f"  {fact.name:<{NAME_COLUMNS - 1}} "
        lines.append(terminal.paint(name, "dim") + terminal.paint(first, fact.style))
        lines += [" " * (NAME_COLUMNS + 2) + terminal.paint(line, fact.style) for line in more]
    return lines


def printable_line(text: str) -> str:
    """Return the text as one line without control characters: models write proposals, and copy from anywhere."""
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
    """Return the number of columns the text takes."""
    return len(text) if text.isascii() or not _find_odd()(text) else sum(map(_letter_width, text))


@functools.cache
def _find_odd() -> Callable[[str], re.Match[str] | None]:
    """Return the search for a letter that may not take one column; compiled when first used."""
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
    """Return the text beside its head, wrapped and indented by the width of the head."""
    room = max(columns - width(head), 1)
    return head + f"\n{' ' * width(head)}".join(wrap(text, room))


def cut_middle(text: str, columns: int) -> str:
    """Cut the text to its head and tail if it is longer than this many characters."""
    if len(text) <= columns:
        return text
    head = columns // 3
    return f"{text[:head]}…{text[-(columns - head - 1) :]}"


@functools.lru_cache(maxsize=4096)
def _letter_width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


# The colours are loopty's own: candidates wrote the lines, and could forge git's.


_HEADS = ("diff --git ", "index ", "--- ", "+++ ", "new file ", "deleted file ", "old mode ", "new mode ")
_DIFF_STYLES = {"@": "other", "+": "good", "-": "bad"}


def diff_text(patch: str, terminal: Terminal) -> str:
    """Format the patch, line by line. A line feed is the only end of a line."""
    if not terminal.colour:
        return terminal.render(patch)
    in_head, lines = True, []
    for line in patch.split("\n"):
        in_head = line.startswith("diff --git ") or (in_head and not line.startswith("@@"))
        style = "strong" if in_head and line.startswith(_HEADS) else _DIFF_STYLES.get(line[:1], "")
        lines.append(terminal.paint(line, style))
    return terminal.render("\n".join(lines))


_COLUMNS = 79


class SetUpLine:
    """Shows one step at a time; without a terminal, nothing."""

    def __init__(self, out: TextIO, env: Mapping[str, str]) -> None:
        self._is_shown = out.isatty() and env.get("TERM") != "dumb"
        self._out, self._terminal = Outlet(out), Terminal.for_stream(out, env)

    def show(self, step: str) -> None:
        """Show this step instead of the one before."""
        if self._is_shown:
            self.erase()
            self._out.write(self._terminal.render(self._terminal.paint(cut(f"{step} …", _COLUMNS), "dim")))

    def erase(self) -> None:
        """Erase the line, so that something else can be printed."""
        if self._is_shown:
            self._out.write(f"{control_code('1G')}{control_code('K')}")
