"""Trials as runs of MLflow: one experiment for each run of loopty, one MLflow run for each trial."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from loopty.domain.errors import Misuse
from loopty.kit.own_installation import extra_command
from loopty.kit.printable import escape_hidden
from loopty.views.trial_rows import TrialRow

_TRIAL = "loopty.trial"
_LONGEST = 5_000
"""Characters of a tag."""
_NAME = re.compile(r"(?!(?:.*/)?\.\.?(?:/|$))[A-Za-z0-9_. :-]+(?:/[A-Za-z0-9_. :-]+)*")
_LONGEST_NAME = 250
_MOST_PAGES = 10_000


def export_to_mlflow(rows: Iterable[TrialRow], address: str, name: str) -> int:
    """Send the trials that are not there yet to a tracking server, or to `sqlite:///…`; how many were sent."""
    try:
        from google.protobuf.json_format import Error as AnswerError
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
    except (MlflowException, AnswerError) as error:
        words = next(iter(str(error).splitlines()), type(error).__name__)
        raise Misuse(f"MLflow at {address} refused: {words[:300]}") from None
    return len(fresh)


def _send(client: Any, experiment: str, row: TrialRow) -> None:
    from mlflow.entities import Metric, Param, RunTag

    start = round(1000 * row.started_at)
    tags = {"mlflow.runName": _trial_name(row), **_tags(row)}
    run = client.create_run(experiment, start, tags).info.run_id
    end = start + round(1000 * row.seconds)
    client.log_batch(
        run,
        [Metric(_name(name), value, end, 0) for name, value in row.metrics.items()],
        [Param(_name(name), _text(value)) for name, value in row.params.items()],
        [RunTag(_TRIAL, _trial_name(row))],  # last: a trial that was sent in part is sent again
    )
    client.set_terminated(run, "FINISHED" if row.ending == "finished" else "FAILED", end)


def _runs(client: Any, experiment: str) -> Iterator[Any]:
    token: str | None = None
    for _ in range(_MOST_PAGES):
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        yield from page
        token = page.token
        if not token:
            return
    raise Misuse("MLflow's list of runs does not end: see that the address is that of an MLflow server")


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
    return {f"loopty.{name}": _text(value) for name, value in facts.items()}


def _text(value: object) -> str:
    return escape_hidden(str(value))[:_LONGEST]


def _name(name: str) -> str:
    """The name, or one like it: a single name that MLflow does not take would stop the whole export."""
    if _NAME.fullmatch(name) and len(name) <= _LONGEST_NAME:
        return name
    alike = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
    return f"{alike[: _LONGEST_NAME - 9]}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"
