"""What runs now: trials with their newest metrics and last line of output, and questions to models."""

from __future__ import annotations

import csv
from typing import Any

from loopty.dashboard.answers import finite, node_name
from loopty.domain.ids import NodeId
from loopty.domain.objective import score_metric
from loopty.domain.paired_estimate import paired_estimate
from loopty.domain.pool import Pool
from loopty.domain.task import Task
from loopty.engine.protocols import Trial
from loopty.record.calls import Reservation, Spend
from loopty.record.confirmations import Confirmation
from loopty.record.history import History
from loopty.record.node_record import Pairing
from loopty.record.run_record import Run
from loopty.record.trials import Trials, trial_parts
from loopty.views.run_status import RunState, RunStatus
from loopty.views.running_trials import RunningTrialRow
from loopty.workspaces import stages
from loopty.workspaces.state_folder import StateFolder

_TAIL_BYTES = 8_192
_LONGEST_LINE = 300
_MOST_ROWS = 40


def running_rows(
    history: History, run: Run, status: RunStatus, state: StateFolder, task: Task | None, now: float
) -> list[dict[str, Any]]:
    """A row for each running trial, then for each question that a model works on; none of a process that died."""
    if status.state is RunState.LOST:
        return []
    rows = [_trial_row(history, run, row, state, task, now) for row in status.running[:_MOST_ROWS]]
    calls = list(Spend.of(run).reservations.items())[:_MOST_ROWS]
    return rows + [_call_row(history, name, call) for name, call in calls if call.pool]


def _trial_row(
    history: History, run: Run, row: RunningTrialRow, state: StateFolder, task: Task | None, now: float
) -> dict[str, Any]:
    subject = history[row.repeat.subject if row.repeat else row.node]
    pairing = Confirmation.of(run).pairing if row.pool is Pool.CONFIRM else subject.pairing
    low, high = _interval(history, run, pairing) if row.repeat and row.repeat.rival else (None, None)
    newest = _newest_row(state, history, row)
    limit = task.benchmark.timeout_seconds if task else None
    return {
        "trial": f"{row.node}#{row.number}",
        "node": node_name(history, subject.id),
        "pool": row.pool.value,
        "operator": subject.operator,
        "since": now - row.age_seconds,
        "phase": _phase(row),
        "low_percent": low,
        "high_percent": high,
        "progress": min(row.age_seconds / limit, 1.0) if limit else None,
        "last_line": _last_line(state, history, row),
        "row": newest[1] if newest else None,
        "step": newest[0] if newest else None,
        "model": "",
        "tokens": None,
    }


def _call_row(history: History, name: str, call: Reservation) -> dict[str, Any]:
    return {
        "trial": f"call:{name}",
        "node": node_name(history, call.node),
        "pool": call.pool.value if call.pool else "",
        "operator": call.operator,
        "since": call.since,
        "phase": f"asking the {call.role}",
        "low_percent": None,
        "high_percent": None,
        "progress": None,
        "last_line": "",
        "row": None,
        "step": None,
        "model": "",
        "tokens": call.tokens,
    }


def _phase(row: RunningTrialRow) -> str:
    if row.repeat is None:
        return "the verifier looks at it" if row.pool is Pool.REVIEW else "running"
    if row.pool is Pool.CONFIRM:
        return f"confirming, pair {row.repeat.number}"
    return f"pair {row.repeat.number}" if row.repeat.rival else f"measurement {row.repeat.number}"


def _interval(history: History, run: Run, pairing: Pairing | None) -> tuple[float | None, float | None]:
    """The interval of the gain in the pairs so far, in percent of the incumbent."""
    metrics = history.counting_metrics(run.number)
    if pairing is None or not metrics:
        return None, None
    metric = score_metric(metrics)
    name, sign = metric.name, metric.direction.sign
    pairs = [(mine.get(name), theirs.get(name)) for mine, theirs in pairing.pairs_so_far]
    gains = [100 * sign * (mine - theirs) / abs(theirs) for mine, theirs in pairs if mine is not None and theirs]
    found = paired_estimate(gains)
    return (finite(found.low), finite(found.high)) if found else (None, None)


def trial_folder(state: StateFolder, history: History, node: NodeId, number: int, pool: Pool) -> Any:
    """Where the files of a trial are, also while it runs."""
    found = history[node]
    root = history[history.runs[node.run].root]
    return stages.results_folder(state, Trial(found, root, number, pool, 0))


def running_pool(history: History, trial: str) -> Pool | None:
    """The pool of a running trial, by its name; None where it does not run."""
    node, _ = trial_parts(trial)
    run = history.runs.get(node.run)
    found = Trials.of(run).running.get(trial) if run else None
    return found.pool if found else None


def _last_line(state: StateFolder, history: History, row: RunningTrialRow) -> str:
    folder = trial_folder(state, history, row.node, row.number, row.pool)
    for name in ("stdout.log", "stderr.log"):
        try:
            text = folder.file(name).read(_TAIL_BYTES, tail=True).decode(errors="replace")
        except OSError:
            continue
        if lines := [line for line in text.splitlines() if line.strip()]:
            return str(lines[-1][:_LONGEST_LINE])
    return ""


def _newest_row(
    state: StateFolder, history: History, row: RunningTrialRow
) -> tuple[float, dict[str, float]] | None:
    """The last whole row of the metrics that a running trial has reported: its step, and the metrics."""
    file = trial_folder(state, history, row.node, row.number, row.pool).file("metrics.csv")
    try:
        head = file.read(_TAIL_BYTES).decode(errors="replace").splitlines()
        tail = file.read(_TAIL_BYTES, tail=True).decode(errors="replace")
        names = next(csv.reader(head[:1]), [])
        whole = tail[: tail.rfind("\n")].splitlines() if "\n" in tail else []
        values = [float(cell) for cell in next(csv.reader(whole[-1:]), [])]
    except (OSError, ValueError, csv.Error):
        return None
    if len(whole) < 2 or len(values) != len(names) or not values:
        return None
    return values[0], {
        name: value for name, value in zip(names[1:], values[1:], strict=True) if finite(value) is not None
    }
