"""Which benchmarks of a suite count: those of the repository's own package, not those of other people's code."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from loopty.domain.objective import SCORE
from loopty.features.setup.benchmark_sources import names_package
from loopty.features.setup.task_draft import TaskDraft
from loopty.kit.records import replace

_FIGURES = (".median", ".mean", ".min", ".rate")
_MOST_NAMES = 40
"""Rows that are named one by one, if no pattern names them."""


def with_own_rows(draft: TaskDraft, metrics: Collection[str]) -> TaskDraft:
    """Return the draft whose score has only rows of its own package; `metrics` are the names of its numbers."""
    rows = _rows(metrics)
    if draft.rows or draft.result in ("file", "stdout") or len(rows) < 2:
        return draft
    own = [row for row in rows if draft.package and names_package(row, draft.package)]
    if 0 < len(own) < len(rows):
        why = f"these measure {draft.package}; the others are rivals, which no proposal can make faster"
        return replace(draft, rows=_patterns(own, rows, draft.package)).with_note("rows", why)
    rivals = {} if own else {row: name for row in rows for name in draft.rivals if names_package(row, name)}
    if not 0 < len(rivals) < len(rows):
        return draft
    names = list(dict.fromkeys(rivals.values()))
    why = f"these measure {', '.join(names[:5])}, which no proposal can make faster"
    return replace(draft, rows=_left_out(list(rivals), rows, names)).with_note("rows", why)


def _rows(metrics: Collection[str]) -> list[str]:
    names = (
        name.removesuffix(end) for name in metrics for end in _FIGURES if name != SCORE and name.endswith(end)
    )
    return list(dict.fromkeys(names))


def _patterns(chosen: Sequence[str], rows: Sequence[str], name: str) -> tuple[str, ...]:
    """Write the shortest patterns that name these rows and no others."""
    if [row for row in rows if name in row] == list(chosen) and "*" not in name:
        return (f"*{name}*",)
    return tuple(chosen[:_MOST_NAMES])


def _left_out(rivals: Sequence[str], rows: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    if all(any(name in row for name in names) for row in rivals) and not any(
        name in row for row in rows if row not in rivals for name in names
    ):
        return tuple(f"!*{name}*" for name in names)
    return tuple(f"!{row}" for row in rivals[:_MOST_NAMES])
