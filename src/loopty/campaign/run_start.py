"""The start of a run, as a pure function of the history."""

from __future__ import annotations

import os

from loopty.domain.declared_parameters import complete_params
from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.domain.task import Task, digest
from loopty.engine.protocols import CommittedFiles
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.nodes import NodeAdded
from loopty.record.runs import RunStarted

BASELINE = "baseline"


def start_run(
    history: History,
    task: Task,
    benchmark: str,
    data: str,
    base: CommittedFiles,
    why: str,
    after: int = 0,
    secret: str | None = None,
) -> list[Event]:
    """A new run with its baseline. `benchmark` and `data` are digests of the benchmark's files and of its data.

    The run's number is above those in this ledger and above `after`. Its secret is drawn here, if not given.
    """
    number = max(after, *history.runs, 0) + 1
    root = NodeId(str(number))
    parts = task.criteria(benchmark, data)
    params = complete_params(base.declared, task.space.baseline())
    secret = os.urandom(16).hex() if secret is None else secret
    return [
        RunStarted(number, digest(parts), task.objective, task.seed, why, benchmark, data, parts, secret),
        NodeAdded(
            root,
            Pool.ATTEMPT,
            BASELINE,
            "the code as it is",
            base.commit,
            base.tree,
            params,
            declared=base.declared,
        ),
    ]
