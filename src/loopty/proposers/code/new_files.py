"""Apply the changes of a reply to files, and stop text that must never get into a program, such as Python that is
not valid.
"""

from __future__ import annotations

import re
import symtable
import warnings
from collections import Counter
from collections.abc import Callable, Sequence

from loopty.domain.proposal import Objection
from loopty.kit.foreign_text import one_line
from loopty.kit.markers import editable_spans
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


def new_syntax_error(before: str, after: str) -> str:
    """Say why Python cannot parse the new text, though it can the old one; empty if it can, or unknown."""
    error = _error(after)
    return error if error and not _error(before) else ""


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


_MAX_FILES = 100
_MAX_CHARACTERS = 1_000_000

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
    if path.endswith(".py") and (fault := new_syntax_error(before, after)):
        raise apply_fault(f"{path} is not valid Python after the change: {fault}")


def _separators(text: str) -> Counter[str]:
    if not any(sign in text for sign in SEPARATOR_SIGNS):
        return Counter()
    return Counter(line.strip() for line in SEPARATOR.findall(text))
