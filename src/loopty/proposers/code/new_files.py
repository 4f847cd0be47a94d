"""Apply the changes of a reply to files, and stop text that must never get into a program, such as Python that is
not valid.
"""

from __future__ import annotations

import re
import symtable
import warnings
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from loopty.domain.proposal import Objection
from loopty.kit.foreign_text import one_line
from loopty.kit.markers import editable_spans, same_ends
from loopty.proposers.code.replies import SEPARATOR, SEPARATOR_SIGNS, FileChange
from loopty.proposers.code.reply_edits import ProposalFault, WholeFile, apply_fault

_DEFINITION = re.compile(
    r"^(?:pub |export |static |async )*(?:def|class|fn|func|function|struct) +(\w+)", re.MULTILINE
)


def join_fences(blocks: Sequence[WholeFile], before: str) -> WholeFile | None:
    """Return the file that the blocks mean together; None if that is not clear.

    The last block that defines all that the file defines; otherwise all blocks, where each defines something else.
    """
    wanted = set(_DEFINITION.findall(before))
    defined = [set(_DEFINITION.findall("\n".join(block.lines))) for block in blocks]
    if not wanted:
        return None
    for block, names in zip(reversed(blocks), reversed(defined), strict=True):
        if wanted <= names:
            return block
    together = set().union(*defined)
    if len(together) < sum(map(len, defined)) or not wanted <= together:
        return None
    lines = [line for block in blocks for line in (*block.lines, "")]
    return WholeFile(blocks[0].path, tuple(lines[:-1]))


# Of one that is changed again and again, only what differs is parsed.
#
# Statements at the top of a module do not depend on each other's grammar: if those that changed are valid by
# themselves, the rest being as it was, the whole is. So the statements of a changed program are known as well.


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
        """Say why Python cannot parse the new text, though it can the old one; empty if it can, or unknown."""
        if statements := self._statements_of(before):
            part = _changed_part(before, after, statements)
            if part is not None and not _error(part.text):
                return ""
        _remember(self._seen, before, None)
        error = _error(after)
        return error if error and not _error(before) else ""

    def _statements_of(self, text: str) -> tuple[int, ...]:
        """Return the lines that begin its statements; none if it is not valid, or not worth the time."""
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
        """Derive them from a known program that differs in a small part; None if there is no such program."""
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
    """Say why Python cannot parse the text; empty when it can, or when that cannot be determined."""
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
    """Return the lines, from 0, that begin a statement at the top of the module; none if it is not valid."""
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
    """Return the changed statements of the new text; None if they cannot be told, or may concern others."""
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


_MAX_FILES = 100
_MAX_CHARACTERS = 1_000_000
_SYNTAX = PythonSyntax()

ReadFile = Callable[[str], str | None]


def apply_changes(
    changes: Sequence[FileChange], read: ReadFile, not_fully_shown: frozenset[str]
) -> dict[str, str | None]:
    """Return the new text of each file that changes, None for a deleted one. Raises ProposalFault.

    `not_fully_shown` are files of which the model did not see all lines, so that it cannot have rewritten them.
    """
    texts: dict[str, str | None] = {}
    for change in _with_joined_fences(changes, read):
        path = change.path
        if not path.isprintable():
            raise apply_fault(f"{path} has invisible characters in its name")
        if isinstance(change, WholeFile) and path in texts:
            raise apply_fault(f"{path} is given more than once: give it once, with all changes in it")
        if isinstance(change, WholeFile) and path in not_fully_shown:
            raise apply_fault(f"{path} was not shown as a whole: change it by SEARCH and REPLACE")
        texts[path] = change.apply(texts[path] if path in texts else read(path))
        if len(texts) > _MAX_FILES or sum(len(text or "") for text in texts.values()) > _MAX_CHARACTERS:
            raise apply_fault(
                f"the change is too large: at most {_MAX_FILES} files, {_MAX_CHARACTERS:,} characters"
            )
    before = {path: read(path) for path in texts}
    changed = {path: text for path, text in texts.items() if text != before[path]}
    if not changed:
        raise ProposalFault(Objection.DUPLICATE, "it changes nothing", "The files would be the same as before.")
    for path, text in changed.items():
        _check_text(path, before[path] or "", text or "")
    return changed


def _with_joined_fences(changes: Sequence[FileChange], read: ReadFile) -> list[FileChange]:
    """Return the changes, with one whole file instead of several blocks for it if it is clear what they mean."""
    blocks: dict[str, list[WholeFile]] = {}
    for change in changes:
        if isinstance(change, WholeFile):
            blocks.setdefault(change.path, []).append(change)
    result = list(changes)
    for path, several in blocks.items():
        if len(several) > 1 and (joined := join_fences(several, _changeable_text(read(path) or ""))):
            first = result.index(several[0])
            rest = [change for change in result if change not in several]
            result = [*rest[:first], joined, *rest[first:]]
    return result


def _changeable_text(text: str) -> str:
    try:
        return "\n".join(span.part_of(text) for span in editable_spans(text))
    except ValueError:
        return text


def _check_text(path: str, before: str, after: str) -> None:
    """Raise ProposalFault if a changed file could not run, or holds what belongs to a reply."""
    if stray := _separators(after) - _separators(before):
        raise apply_fault(f"{path} would hold a separator of the reply's form: {next(iter(stray))}")
    try:
        editable_spans(after)
    except ValueError as error:
        raise apply_fault(f"{path}, {error}") from None
    # A file with a syntax error would certainly fail, and cost a trial.
    if path.endswith(".py") and (fault := _SYNTAX.new_error(before, after)):
        raise apply_fault(f"{path} is not valid Python after the change: {fault}")


def _separators(text: str) -> Counter[str]:
    if not any(sign in text for sign in SEPARATOR_SIGNS):
        return Counter()
    return Counter(line.strip() for line in SEPARATOR.findall(text))
