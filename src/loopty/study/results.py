"""The trials of a study as they are recorded, and tables of them."""

from __future__ import annotations

import html
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loopty.domain.objective import score_metric
from loopty.domain.space import Value
from loopty.domain.trial import Ending, Pool
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.verdicts import Incumbents

_STATES = {Ending.FINISHED: "complete", Ending.TIMED_OUT: "failed", Ending.STOPPED: "pruned"}


class FinishedTrial(Record):
    """A recorded trial.

    >>> import loopty
    >>> study = loopty.optimize(lambda t: t.params["x"], {"x": [1, 2]}, trials=2, progress=False)
    >>> study.trials[0].params, study.trials[0].score, study.trials[0].state
    ({'x': 1}, 1.0, 'complete')
    """

    name: str
    """Such as `@5`: the command line accepts it."""
    number: int
    params: Mapping[str, Value]
    score: float | None
    metrics: Mapping[str, float]
    state: str
    """`complete`, `pruned`, `failed`, `refused`, `cancelled`, `running` or `waiting`."""
    verdict: str
    reason: str
    seconds: float
    operator: str = ""

    def _repr_html_(self) -> str:
        rows = {"score": self.score, "state": self.state, "seconds": f"{self.seconds:.3g}", **self.params}
        return f"<b>{self.name}</b>{table_html([rows])}"


def finished_trial(history: History, node: Node, first: int = 0) -> FinishedTrial:
    """Describe a node; `first` is what its number begins with."""
    outcome, metrics = node.outcome, history.metrics(node)
    score = outcome.metrics.get(score_metric(metrics).name) if outcome and metrics else None
    state = "running" if node.running else "waiting"
    if outcome and not node.running:
        state = _STATES.get(outcome.ending, str(outcome.ending))
    return FinishedTrial(
        name=node.name,
        number=first + node.order - 1,
        params=dict(node.params),
        score=score if outcome and outcome.ending in (Ending.FINISHED, Ending.PRUNED) else None,
        metrics=dict(outcome.metrics) if outcome else {},
        state=state,
        verdict=str(node.verdict or ""),
        reason=(outcome.reason if outcome and outcome.reason else node.reason),
        seconds=outcome.seconds if outcome else 0.0,
        operator=node.operator,
    )


def runs_of_study(history: History) -> list[int]:
    """List the newest run and those before it under the same criteria: their first trial had failed."""
    found: list[int] = []
    for number in sorted(history.runs, reverse=True):
        if found and history.runs[number].criteria_parts != history.runs[found[0]].criteria_parts:
            break
        found.insert(0, number)
    return found


def trials_of(history: History) -> Iterator[FinishedTrial]:
    """Yield the trials of a study in their order."""
    count = 0
    for run in runs_of_study(history):
        nodes = [history[node] for node in history.nodes_of_pool(run, Pool.ATTEMPT)]
        yield from (finished_trial(history, node, count) for node in nodes)
        count += len(nodes)


def best_of(history: History) -> FinishedTrial | None:
    """Return the best trial; None before there is a result."""
    for run in reversed(runs_of_study(history)):
        if best := Incumbents.of(history.runs[run], Pool.ATTEMPT).best:
            return finished_trial(history, history[best], count_before(history, run))
    return None


def count_before(history: History, run: int) -> int:
    """Count the trials of a study before this run."""
    return sum(len(history.nodes_of_pool(each, Pool.ATTEMPT)) for each in runs_of_study(history) if each < run)


def rows_of(trials: Sequence[FinishedTrial]) -> list[dict[str, Any]]:
    """Return a row for each trial, all with the same columns."""
    params = dict.fromkeys(name for trial in trials for name in trial.params)
    metrics = dict.fromkeys(name for trial in trials for name in trial.metrics if name != "score")
    return [
        {
            "number": trial.number,
            "name": trial.name,
            "state": trial.state,
            "score": trial.score,
            **{name: trial.metrics.get(name) for name in metrics},
            **{f"params_{name}": trial.params.get(name) for name in params},
            "seconds": trial.seconds,
            "verdict": trial.verdict,
            "reason": trial.reason,
        }
        for trial in trials
    ]


def frame_of(rows: list[dict[str, Any]]) -> Any:
    """Return a pandas frame, or an Arrow table where only that is installed; else the rows."""
    if importlib.util.find_spec("pandas"):
        import pandas as pd  # type: ignore[import-untyped,unused-ignore]

        return pd.DataFrame(rows)
    if importlib.util.find_spec("arro3") and rows:
        from arro3.core import Array, DataType, Table

        columns = {name: Array(*_column([row[name] for row in rows], DataType)) for name in rows[0]}
        return Table.from_pydict(columns)
    return rows


def _column(values: list[Any], kinds: Any) -> tuple[list[Any], Any]:
    """Return values with their Arrow type; mixed ones as text."""
    types = {type(value) for value in values if value is not None}
    if types <= {int, float} and float in types:
        return [None if value is None else float(value) for value in values], kinds.float64()
    if types in ({int}, {bool}):
        return values, kinds.int64() if types == {int} else kinds.bool()
    return [None if value is None else str(value) for value in values], kinds.string()


def table_html(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table for a notebook."""
    names = dict.fromkeys(name for row in rows for name in row)
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(row.get(name)))}</td>" for name in names) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
