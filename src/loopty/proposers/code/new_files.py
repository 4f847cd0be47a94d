"""From the changes of a reply to new files; whatever must never get into a program is stopped here."""

from __future__ import annotations

import symtable
import warnings
from collections import Counter
from collections.abc import Callable, Sequence

from loopty.domain.proposal import Objection
from loopty.kit.fence import one_line
from loopty.kit.markers import editable_spans
from loopty.proposers.code.code_replies import SEPARATOR, FileChange
from loopty.proposers.code.reply_faults import ProposalFault, apply_fault
from loopty.proposers.code.whole_file import WholeFile

_MAX_FILES = 100
_MAX_CHARACTERS = 1_000_000

ReadFile = Callable[[str], str | None]


def apply_changes(
    changes: Sequence[FileChange], read: ReadFile, not_fully_shown: frozenset[str]
) -> dict[str, str | None]:
    """The new text of each file that really changes, None where it goes; raises Unfit.

    `unseen` are files of which the model did not see all lines, and which it cannot have rewritten.
    """
    made: dict[str, str | None] = {}
    for change in changes:
        path = change.path
        if not path.isprintable():
            raise apply_fault(f"{path} has a name with characters that cannot be seen")
        if isinstance(change, WholeFile) and path in made:
            raise apply_fault(f"{path} is given more than once: give it once, with all changes in it")
        if isinstance(change, WholeFile) and path in not_fully_shown:
            raise apply_fault(f"{path} was not shown as a whole: change it by SEARCH and REPLACE")
        made[path] = change.apply(made[path] if path in made else read(path))
        if len(made) > _MAX_FILES or sum(len(text or "") for text in made.values()) > _MAX_CHARACTERS:
            raise apply_fault(
                f"the change is too large: at most {_MAX_FILES} files, {_MAX_CHARACTERS:,} characters"
            )
    before = {path: read(path) for path in made}
    changed = {path: text for path, text in made.items() if text != before[path]}
    if not changed:
        raise ProposalFault(
            Objection.DUPLICATE, "it changes nothing", "The files are after it what they were before."
        )
    for path, text in changed.items():
        _check_text(path, before[path] or "", text or "")
    return changed


def _check_text(path: str, before: str, after: str) -> None:
    if stray := _separators(after) - _separators(before):
        raise apply_fault(f"{path} would hold a separator of the reply's form: {next(iter(stray))}")
    try:
        editable_spans(after)
    except ValueError as error:
        raise apply_fault(f"{path}, {error}") from None
    # What cannot even be read would fail for certain, at the price of a trial.
    if path.endswith(".py") and (fault := _syntax_error(after)) and not _syntax_error(before):
        raise apply_fault(f"{path} is not valid Python after it: {fault}")


def _syntax_error(text: str) -> str:
    """Why Python cannot read the text; empty when it can, or when that is not to be told."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symtable.symtable(text, "", "exec")  # reads like `compile`, and makes less of what it reads
    except SyntaxError as error:
        return one_line(f"line {error.lineno}: {error.msg}", 200)
    except (ValueError, RecursionError, MemoryError):
        return ""
    return ""


def _separators(text: str) -> Counter[str]:
    return Counter(line.strip() for line in SEPARATOR.findall(text))
