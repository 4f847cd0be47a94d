"""Whether a changed program is valid Python. Of one that is changed again and again, only what differs is parsed.

Statements at the top of a module do not depend on each other's grammar: if those that changed are valid by
themselves, the rest being as it was, the whole is. So the statements of a changed program are known as well.
"""

from __future__ import annotations

import symtable
import warnings
from bisect import bisect_left, bisect_right
from typing import NamedTuple, TypeVar

from loopty.kit.fence import one_line
from loopty.kit.same_ends import same_ends

T = TypeVar("T")
_MOST_SEEN = 4
_SMALL_PART = 4
"""The text is at least this many times as long: to find statements takes longer than to parse a change."""


class _Part(NamedTuple):
    """The statements of a text that differ from those of another one."""

    text: str
    line: int
    """Where it begins in the text."""
    first: int
    last: int
    """The statements of the other text in its place: from the one of this index up to the other."""
    moved: int
    """How many lines further on the statements behind it are."""


class PythonSyntax:
    """Remembers the programs that were changed last."""

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}
        """Programs that were changed once: to find their statements would take longer than to parse the change."""
        self._statements: dict[str, tuple[int, ...]] = {}
        """Where the statements of programs begin that were changed more often, or that are like one of these."""

    def new_error(self, before: str, after: str) -> str:
        """Why Python cannot parse the new text, though it can the old one; empty where it can, or nobody knows."""
        if statements := self._statements_of(before):
            part = _changed_part(before, after, statements)
            if part is not None and not _error(part.text):
                return ""
        _remember(self._seen, before, None)
        error = _error(after)
        return error if error and not _error(before) else ""

    def _statements_of(self, text: str) -> tuple[int, ...]:
        """The lines that begin its statements; none where it is not valid, or not worth the time."""
        statements = self._statements.get(text)
        if statements is None:
            statements = self._statements_like_others(text)
        if statements is None and text in self._seen:
            statements = _statement_lines(text)
        if statements is None:
            return ()
        _remember(self._statements, text, statements)
        return statements

    def _statements_like_others(self, text: str) -> tuple[int, ...] | None:
        """The same from a known program that differs in a small part; None where there is no such program."""
        for other, lines in reversed(self._statements.items()):
            part = _changed_part(other, text, lines)
            if part and _SMALL_PART * len(part.text) <= len(text) and not _error(part.text):
                inside = (part.line + line for line in _statement_lines(part.text))
                return (*lines[: part.first], *inside, *(line + part.moved for line in lines[part.last :]))
        return None


def _remember(known: dict[str, T], text: str, value: T) -> None:
    """Put it last, and forget the first one where there are too many."""
    known.pop(text, None)
    known[text] = value
    if len(known) > _MOST_SEEN:
        del known[next(iter(known))]


def _error(text: str) -> str:
    """Why Python cannot parse the text; empty when it can, or when that cannot be determined."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symtable.symtable(text, "", "exec")  # parses like `compile`, but stops before it generates code
    except SyntaxError as error:
        return one_line(f"line {error.lineno}: {error.msg}", 200)
    except (ValueError, RecursionError, MemoryError):
        return ""
    return ""


def _statement_lines(text: str) -> tuple[int, ...]:
    """The lines, counted from 0, that begin a statement at the top of the module; none where it is not valid."""
    import ast  # here: most programs are changed once

    if _error(text):
        return ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    lines, end = [], 0
    for statement in body:
        decorators = getattr(statement, "decorator_list", ())
        first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
        if first > end:  # else it stands behind another one on the same line
            lines.append(first - 1)
        end = statement.end_lineno or first
    return tuple(lines)


def _changed_part(before: str, after: str, statements: tuple[int, ...]) -> _Part | None:
    """The statements of the new text that differ; None where they cannot be told, or may concern others."""
    if not statements or "\r" in before or "\r" in after:  # Python ends a line there, too
        return None
    if "global" in after:  # such a statement may concern a name that another one assigns
        return None
    old, new = before.split("\n"), after.split("\n")
    start, same_end = same_ends(old, new)
    # From the statement in which the first difference is to the first one that begins after the last.
    first = max(bisect_right(statements, start) - 1, 0)
    last = bisect_left(statements, len(old) - same_end)
    moved = len(new) - len(old)
    begin = statements[first] if first else 0
    end = statements[last] + moved if last < len(statements) else len(new)
    text = "\n".join(new[begin:end]) + ("\n" if end < len(new) else "")
    if text.endswith("\\\n"):  # it goes on in the next statement
        return None
    return _Part(text, begin, first, last, moved)
