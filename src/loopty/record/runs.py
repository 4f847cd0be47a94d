"""The family of runs: a run starts with its criteria."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.objective import Objective
from loopty.kit.records import field
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.run_record import Run


class RunStarted(Event):
    """A new set of criteria; its number is the first number of every node id."""

    run: int
    criteria: str
    objective: Objective
    seed: int
    why: str
    benchmark: str = ""
    """Digest of the benchmark's files; part of the criteria."""
    data: str = ""
    """Digest of the benchmark's data outside the repository; part of the criteria."""
    criteria_parts: Mapping[str, str] = field(default_factory=dict)
    """A digest of each part of the criteria, to tell which of them changed."""
    secret: str = ""
    """Drawn when the run starts, for what no candidate may foresee; in no prompt, mount or export."""


def _start(state: FoldState, event: RunStarted, at: float) -> None:
    state.put_run(
        Run(
            event.run,
            event.criteria,
            event.objective,
            event.seed,
            event.why,
            at,
            event.benchmark,
            event.data,
            event.criteria_parts,
            event.secret,
        )
    )


FAMILY = Family((RunStarted,), {RunStarted: _start})
