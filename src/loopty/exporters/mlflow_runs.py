"""Trials as runs of MLflow: one experiment for each run of loopty, one MLflow run for each trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from loopty.domain.errors import Misuse
from loopty.kit.own_installation import extra_command
from loopty.views.trial_rows import TrialRow

_TRIAL = "loopty.trial"
_LONGEST = 5_000
"""Characters of a tag."""


def export_to_mlflow(rows: Iterable[TrialRow], address: str, name: str) -> int:
    """Send the trials that are not there yet to a tracking server, or to `sqlite:///…`; how many were sent."""
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise Misuse(f"MLflow needs mlflow-skinny: run {extra_command('mlflow')}") from None
    try:
        client = MlflowClient(tracking_uri=address)
        found = client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else client.create_experiment(name)
        known = {run.data.tags.get(_TRIAL) for run in _runs(client, experiment)}
        fresh = [row for row in rows if _trial_name(row) not in known]
        for row in fresh:
            _send(client, experiment, row)
    except MlflowException as error:
        raise Misuse(f"MLflow at {address} refused: {str(error).splitlines()[0][:300]}") from None
    return len(fresh)


def _send(client: Any, experiment: str, row: TrialRow) -> None:
    from mlflow.entities import Metric, Param, RunTag

    start = round(1000 * row.started_at)
    tags = {"mlflow.runName": _trial_name(row), **_tags(row)}
    run = client.create_run(experiment, start, tags).info.run_id
    end = start + round(1000 * row.seconds)
    client.log_batch(
        run,
        [Metric(name, value, end, 0) for name, value in row.metrics.items()],
        [Param(name, str(value)[:_LONGEST]) for name, value in row.params.items()],
        [RunTag(_TRIAL, _trial_name(row))],  # last: a trial that was sent in part is sent again
    )
    client.set_terminated(run, "FINISHED" if row.ending == "finished" else "FAILED", end)


def _runs(client: Any, experiment: str) -> Iterator[Any]:
    token: str | None = None
    while True:
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _trial_name(row: TrialRow) -> str:
    return f"{row.node}#{row.trial}"


def _tags(row: TrialRow) -> dict[str, str]:
    facts = {
        "node": row.node,
        "parent": row.parent,
        "pool": row.pool,
        "operator": row.operator,
        "summary": row.summary,
        "verdict": row.verdict,
        "ending": row.ending,
        "machine": row.fingerprint,
    }
    return {f"loopty.{name}": str(value)[:_LONGEST] for name, value in facts.items()}
