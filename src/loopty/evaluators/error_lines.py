"""Finds the lines of a program's output that say why it failed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from loopty.kit.records import Record

MAX_LINES = 5
_LONGEST_LINE = 200
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TRACEBACK = "Traceback (most recent call last):"
_CHILD_FAILED = re.compile(r"^(subprocess\.)?CalledProcessError\b|^collect2: error: ")
"""These say only that a program failed, which has printed its own error before."""
_FIRST_MATCH_COUNTS = tuple(
    map(
        re.compile,
        (
            # An exception of JavaScript, of Python without a traceback, or of pytest, which marks it with an E.
            r"^(?:E\s+|Uncaught\s+|\s*)(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception)(?: \[\w+\])?: \S",
            r"^FATAL ERROR: ",
            r"^(?:error(?:\[E\d+\])?|fatal(?: error)?): \S|: (?:fatal )?error: |: undefined reference to ",
            r"^E\s+\S",
            r"^panic: |^\S+\.go:\d+:\d+: |^thread '.*' panicked at ",
            r"(?:command )?not found(?: in PATH)?\.?$|: Permission denied|No such file or directory"
            r"|[Rr]ead-only file system|cannot open shared object file|Cannot allocate memory|Segmentation fault"
            r"|No space left on device|bad_alloc|No rule to make target|Assertion .* failed|^Killed$"
            r"|Could not resolve host|name resolution|Network is unreachable",
            r"(?i)^(?!make(\[\d+\])?: \*\*\*)(?!npm err)(?!.*\b0 (?:errors|failed|failures)\b)"
            r"(?!.*\b(?:passed|pass|ok)$)"
            r".*\b(?:error|fatal|failed|failure|exception|cannot|could not|unable to)\b",
        ),
    )
)
"""From the most to the least certain sign of an error."""


class ErrorLines(Record):
    """The line that names the error, and up to five lines around it."""

    cause: str
    lines: tuple[str, ...]
    is_certain: bool = True
    """Whether the line looks like an error; else it is the last one that was printed."""


def find_error_lines(output: str) -> ErrorLines | None:
    """Find the lines that say why the program failed; None when it printed nothing."""
    lines = clean_lines(output)
    if not lines:
        return None
    if place := _exception_place(lines):
        start, at = place
        return ErrorLines(_whole_message(lines, at), tuple(lines[max(start + 1, at - MAX_LINES + 1) : at + 1]))
    candidates = [number for number, line in enumerate(lines) if not _CHILD_FAILED.search(line.strip())]
    for pattern in _FIRST_MATCH_COUNTS:
        first = next((number for number in candidates if pattern.search(lines[number])), None)
        if first is not None:
            return ErrorLines(_whole_message(lines, first), tuple(lines[first : first + MAX_LINES]))
    return ErrorLines(lines[-1].strip(), tuple(lines[-MAX_LINES:]), is_certain=False)


def clean_lines(output: str) -> list[str]:
    """List the lines that are not blank, made safe and short enough to be shown anywhere."""
    return [clean for line in output.splitlines() if (clean := _clean_line(line)).strip()]


def _exception_place(lines: Sequence[str]) -> tuple[int, int] | None:
    """Find where the last traceback begins, and where it names its exception: the next unindented line."""
    for start in range(len(lines) - 1, -1, -1):
        if lines[start].strip() != _TRACEBACK:
            continue
        indent = len(lines[start]) - len(lines[start].lstrip())
        for at in range(start + 1, len(lines)):
            line = lines[at]
            if len(line) - len(line.lstrip()) <= indent:
                if _CHILD_FAILED.search(line.strip()):
                    break
                return start, at
    return None


def _whole_message(lines: Sequence[str], at: int) -> str:
    """Return the line, with the next one if it only announces it."""
    line = lines[at].strip()
    follows = line.endswith(":") and at + 1 < len(lines)
    return f"{line} {lines[at + 1].strip()}"[:_LONGEST_LINE] if follows else line


def _clean_line(line: str) -> str:
    """Remove colours and control characters and shorten the line, so that it can be shown anywhere."""
    plain = _COLOUR.sub("", line).expandtabs(4)
    return "".join(char if char.isprintable() else " " for char in plain).rstrip()[:_LONGEST_LINE]
