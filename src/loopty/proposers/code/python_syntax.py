"""Whether a changed program is valid Python. Of one that is changed again and again, only what differs is parsed.

Statements at the top of a module do not depend on each other's grammar: if those that changed are valid by
themselves, the rest being as it was, the whole is.
"""

from __future__ import annotations

import functools
import symtable
import warnings
from bisect import bisect_left, bisect_right

from loopty.kit.fence import one_line
from loopty.kit.same_ends import same_ends

_MOST_SEEN = 4


class PythonSyntax:
    """Remembers the programs that were changed last."""

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}
        """Programs that were changed once: to find their statements would take longer than to parse the change."""
        self._statements = functools.lru_cache(maxsize=_MOST_SEEN)(_statement_lines)

    def new_error(self, before: str, after: str) -> str:
        """Why Python cannot parse the new text, though it can the old one; empty where it can, or nobody knows."""
        if before in self._seen:
            part = _changed_part(before, after, self._statements(before))
            if part is not None and not _error(part):
                return ""
        self._seen[before] = None
        if len(self._seen) > _MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        error = _error(after)
        return error if error and not _error(before) else ""


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


def _changed_part(before: str, after: str, statements: tuple[int, ...]) -> str | None:
    """The statements of the new text that differ; None where they cannot be told, or may concern others."""
    if not statements or "\r" in before or "\r" in after:  # Python ends a line there, too
        return None
    old, new = before.split("\n"), after.split("\n")
    start, same_end = same_ends(old, new)
    # From the statement in which the first difference is to the first one that begins after the last.
    first = bisect_right(statements, start) - 1
    last = bisect_left(statements, len(old) - same_end)
    begin = statements[first] if first > 0 else 0
    end = statements[last] - len(old) + len(new) if last < len(statements) else len(new)
    part = "\n".join(new[begin:end]) + ("\n" if end < len(new) else "")
    return None if "global" in part else part  # it may concern a name that another statement assigns
