"""Which benchmarks of a suite count: those of the repository's own package, not those of other people's code."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from loopty.domain.objective import SCORE
from loopty.features.setup.benchmark_sources import names_package, plain_name, words_of
from loopty.features.setup.task_draft import TaskDraft
from loopty.kit.records import replace

_WORD_OF_ROW = re.compile(r"@?[\w.-]*[\w]")
_FIGURES = (".median", ".mean", ".min", ".rate")
_MOST_NAMES = 40
"""Rows that are named one by one, if no pattern names them."""
_MOST_SHOWN = 5
_MOST_WORDS = 3
"""Words that the name of another package and of its function have, as in `stdjson-empty-struct`."""


def with_own_rows(draft: TaskDraft, metrics: Collection[str]) -> TaskDraft:
    """Return the draft whose score has no rows of rivals; `metrics` are the names of its numbers."""
    rows = _rows(metrics)
    if draft.rows or draft.result in ("file", "stdout") or len(rows) < 2:
        return draft
    own = [row for row in rows if draft.package and names_package(row, draft.package)]
    named = {row: name for row in rows for name in draft.rivals if row not in own and names_package(row, name)}
    rests = [_without(words_of(row), plain_name(draft.package)) for row in own]
    rivals = [row for row in rows if row in named or (row not in own and _is_compared(words_of(row), rests))]
    kept = [row for row in rows if row not in rivals]
    if not (kept and rivals):
        return draft
    left_out = tuple(f"!{glob}" for glob in _globs(rivals, kept))
    patterns = _globs(own, rivals) if kept == own else left_out
    who = ", ".join(list(dict.fromkeys(named.values()))[:_MOST_SHOWN]) or "rivals"
    why = f"the other rows measure {who}, which no proposal can make faster"
    return replace(draft, rows=patterns).with_note("rows", why)


def _without(words: Sequence[str], package: str) -> list[str]:
    """Leave out the words that together are the name of the package."""
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            if "".join(words[start:end]) == package:
                return [*words[:start], *words[end:]]
    return [word for word in words if package not in word]


def _is_compared(words: Sequence[str], rests: Sequence[Sequence[str]]) -> bool:
    """Say whether a row does the same as one of the package, and names a few words more instead of it."""
    return any(0 < len(words) - len(rest) <= _MOST_WORDS and _is_within(rest, words) for rest in rests)


def _is_within(few: Sequence[str], many: Sequence[str]) -> bool:
    left = iter(many)
    return all(word in left for word in few)


def _rows(metrics: Collection[str]) -> list[str]:
    names = (
        name.removesuffix(end) for name in metrics for end in _FIGURES if name != SCORE and name.endswith(end)
    )
    return list(dict.fromkeys(names))


def _globs(chosen: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Write as few patterns as name all of these and none of the others; else their names."""
    left, found = list(chosen), list[str]()
    while left:
        words = dict.fromkeys(word for row in left for word in _WORD_OF_ROW.findall(row))
        usable = [word for word in words if not any(word in row for row in others)]
        if not usable:
            return tuple(chosen[:_MOST_NAMES])
        best = max(usable, key=lambda word: sum(word in row for row in left))
        found.append(f"*{best}*")
        left = [row for row in left if best not in row]
    return tuple(found)
