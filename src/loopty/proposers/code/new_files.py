"""From the changes of a reply to new files; whatever must never get into a program is stopped here."""

from __future__ import annotations

import symtable
import warnings
from collections import Counter
from collections.abc import Callable, Sequence

from loopty.domain.proposal import Objection
from loopty.kit.fence import one_line
from loopty.kit.markers import editable_spans
from loopty.proposers.code.code_replies import SEPARATOR, Change
from loopty.proposers.code.reply_faults import Unfit, misfit
from loopty.proposers.code.whole_file import Whole

_MOST_FILES = 100
_MOST_CHARACTERS = 1_000_000

Read = Callable[[str], str | None]


def edited(changes: Sequence[Change], read: Read, unseen: frozenset[str]) -> dict[str, str | None]:
    """The new text of each file that really changes, None where it goes; raises Unfit.

    `unseen` are files of which the model did not see all lines, and which it cannot have rewritten.
    """
    made: dict[str, str | None] = {}
    for change in changes:
        path = change.path
        if not path.isprintable():
            raise misfit(f"{path} has a name with characters that cannot be seen")
        if isinstance(change, Whole) and path in made:
            raise misfit(f"{path} is given more than once: give it once, with all changes in it")
        if isinstance(change, Whole) and path in unseen:
            raise misfit(f"{path} was not shown as a whole: change it by SEARCH and REPLACE")
        made[path] = change.applied(made[path] if path in made else read(path))
        if len(made) > _MOST_FILES or sum(len(text or "") for text in made.values()) > _MOST_CHARACTERS:
            raise misfit(f"the change is too large: at most {_MOST_FILES} files, {_MOST_CHARACTERS:,} characters")
    before = {path: read(path) for path in made}
    changed = {path: text for path, text in made.items() if text != before[path]}
    if not changed:
        raise Unfit(Objection.DUPLICATE, "it changes nothing", "The files are after it what they were before.")
    for path, text in changed.items():
        _sound(path, before[path] or "", text or "")
    return changed


def _sound(path: str, before: str, after: str) -> None:
    if stray := _separators(after) - _separators(before):
        raise misfit(f"{path} would hold a separator of the reply's form: {next(iter(stray))}")
    try:
        editable_spans(after)
    except ValueError as error:
        raise misfit(f"{path}, {error}") from None
    # What cannot even be read would fail for certain, at the price of a trial.
    if path.endswith(".py") and (fault := _unreadable(after)) and not _unreadable(before):
        raise misfit(f"{path} is not valid Python after it: {fault}")


def _unreadable(text: str) -> str:
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
