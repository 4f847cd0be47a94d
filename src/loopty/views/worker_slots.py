"""How many trials run at once where workers run them, and what bounds that."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.kit.records import Record
from loopty.views.worker_rows import WorkerRow


class WorkerSlots(Record):
    """The slots of a session with workers."""

    workers: int
    ranked: int
    """Those whose machine the incumbent was measured on: they get trials of the search."""
    trials: int
    """How many trials of the search run at once."""
    bound: str
    """`width`: what the user said; `workers`: how many of them are ranked."""


def worker_slots(rows: Sequence[WorkerRow], stated_width: int | None) -> WorkerSlots | None:
    """The slots of these workers; None where there are none."""
    if not rows:
        return None
    ranked = sum(row.cohort != "closed" for row in rows)
    is_bound = stated_width is not None and stated_width < ranked
    trials = stated_width if is_bound and stated_width else max(ranked, 1)
    return WorkerSlots(len(rows), ranked, trials, "width" if is_bound else "workers")
