"""The parts of a change to a text file: lines that it replaced side by side, each of which can be put elsewhere.

As many lines in the place of as many others are a part each: a list of constants is such a change. Other lines
that stand together are one part.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from loopty.kit.dataclass import Record, dataclass, replace
from loopty.kit.named_tuple import NamedTuple
from loopty.kit.same_ends import same_ends

_MOST_LINES = 1_000
"""Of both texts together, without what is the same at their ends: more take long to match."""


class _Run(NamedTuple):
    """Lines from `start` to `end`, which became those from `new_start` to `new_end`."""

    start: int
    end: int
    new_start: int
    new_end: int


@dataclass(frozen=True, slots=True)
class ChangePart(Record):
    """Lines of a file, and the lines that stand in their place after the change."""

    path: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    start: int
    """The line of the file before the change with which it begins, from 0."""
    new_start: int
    """The same in the file after the change."""

    @property
    def content(self) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """What is equal for the same part, wherever in the file it stands."""
        return self.path, self.before, self.after

    @property
    def reversed(self) -> ChangePart:
        """The part of the change that takes the whole change back."""
        return replace(self, before=self.after, after=self.before, start=self.new_start, new_start=self.start)


def change_parts(path: str, before: str, after: str) -> tuple[ChangePart, ...]:
    """The parts in which two texts differ, in their order; none where they differ too much to compare them."""
    old, new = _lines(before), _lines(after)
    parts = []
    for start, end, new_start, new_end in _changed_runs(before, after) or ():
        runs = [(start, end, new_start, new_end)]
        if end - start == new_end - new_start:
            runs = [(start + i, start + i + 1, new_start + i, new_start + i + 1) for i in range(end - start)]
        parts += [ChangePart(path, tuple(old[i:j]), tuple(new[k:m]), i, k) for i, j, k, m in runs]
    return tuple(parts)


def text_with_part(part: ChangePart, before: str, text: str) -> str | None:
    """The text with this part of a change; `before` is the file to which the change was made.

    None where the text has not the same lines in this place.
    """
    lines, end, moved = _lines(text), part.start + len(part.before), 0
    runs = _changed_runs(before, text)
    if runs is None:
        return None
    for run in runs:
        if run.start < end and part.start < run.end:
            return None
        if run.end <= part.start:
            moved = run.new_end - run.end
    return "".join((*lines[: part.start + moved], *part.after, *lines[end + moved :]))


def _lines(text: str) -> list[str]:
    # Not at other line ends, which a program may hold in a string.
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


@functools.lru_cache(maxsize=32)  # all parts of a change are put into the same text
def _changed_runs(before: str, after: str) -> Sequence[_Run] | None:
    """The lines that differ; None where too many would have to be matched."""
    old, new = _lines(before), _lines(after)
    start, same_end = same_ends(old, new)
    end, new_end = len(old) - same_end, len(new) - same_end
    if start == end == new_end:
        return []
    if start in (end, new_end) or end - start == new_end - start == 1:
        return [_Run(start, end, start, new_end)]
    if end + new_end - 2 * start > _MOST_LINES:
        return None
    from difflib import SequenceMatcher  # here: most changes need none

    codes = SequenceMatcher(None, old[start:end], new[start:new_end], autojunk=False).get_opcodes()
    return [_Run(start + i, start + j, start + k, start + m) for tag, i, j, k, m in codes if tag != "equal"]
