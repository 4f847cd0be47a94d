"""Trials for other programs: tables, MLflow, Weights & Biases, and OpenTelemetry, from the saved record."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from loopty.domain.errors import Misuse
from loopty.kit.contents import write_atomically
from loopty.kit.foreign_text import escape_hidden
from loopty.kit.installation import extra_command
from loopty.kit.records import Record, fields_of
from loopty.kit.web_post import post_json
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.fold import Recorded
from loopty.session.saved_record import SavedRecord
from loopty.show.trial_rows import TrialRow, trial_rows
from loopty.version import __version__

Cell = str | int | float | bool | None

_NESTED = ("params", "metrics")
_FORMULA = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a cell begins that spreadsheets run."""
_INTEGER_BITS = 63
_PARQUET_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64"}


def write_trial_table(rows: Sequence[TrialRow], path: Path) -> None:
    """Write the table in the format that the path's ending names. Raises Misuse for another one."""
    if path.suffix == ".csv":
        content = _csv(rows)
    elif path.suffix == ".parquet":
        content = _parquet(rows)
    else:
        raise Misuse(f"{path.name} says no format: end it with .csv or .parquet")
    try:
        write_atomically(path.parent, path.name, content)
    except OSError as error:
        raise Misuse(f"cannot write {path} ({error.strerror}): name another file") from None


def column_names(rows: Sequence[TrialRow]) -> list[str]:
    """List facts of the trial, then parameters as `param.NAME`, then metrics as `metric.NAME`."""
    facts = [field.name for field in fields_of(TrialRow) if field.name not in _NESTED]
    params = dict.fromkeys(f"param.{name}" for row in rows for name in row.params)
    metrics = dict.fromkeys(f"metric.{name}" for row in rows for name in row.metrics)
    return [escape_hidden(name) for name in (*facts, *params, *metrics)]


def cells(row: TrialRow) -> Mapping[str, Cell]:
    """Return the row's cells by column."""
    raw = {
        **{field.name: getattr(row, field.name) for field in fields_of(TrialRow) if field.name not in _NESTED},
        **{f"param.{name}": value for name, value in row.params.items()},
        **{f"metric.{name}": value for name, value in row.metrics.items()},
    }
    return {escape_hidden(name): _portable(value) for name, value in raw.items()}


def _portable(cell: Cell) -> Cell:
    """Make the cell fit every format and terminal: hidden characters are visible, integers have 64 bits."""
    if isinstance(cell, str):
        return escape_hidden(cell)
    is_large = isinstance(cell, int) and cell.bit_length() > _INTEGER_BITS
    return str(cell) if is_large else cell


def _csv(rows: Sequence[TrialRow]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [_harmless(name) for name in column_names(rows)])
    writer.writeheader()
    writer.writerows({_harmless(name): _harmless(cell) for name, cell in cells(row).items()} for row in rows)
    return text.getvalue().encode()


def _harmless(cell: Cell) -> Cell:
    """Return the cell; text that a spreadsheet would run as a formula begins with an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _parquet(rows: Sequence[TrialRow]) -> bytes:
    try:
        from arro3.core import Array, DataType, Table
        from arro3.io import write_parquet
    except ImportError:
        raise Misuse(f"Parquet needs arro3, .csv does not: run {extra_command('parquet')}") from None
    plain = [cells(row) for row in rows]
    columns = {}
    for name in column_names(rows):
        values = [row.get(name) for row in plain]
        kind = _value_type(values)
        converted = [None if value is None else kind(value) for value in values]
        columns[name] = Array(converted, getattr(DataType, _PARQUET_TYPES[kind])())
    file = io.BytesIO()
    write_parquet(Table.from_pydict(columns), file)
    return file.getvalue()


def _value_type(values: Sequence[Cell]) -> type:
    """Find the narrowest type that holds every value of a column."""
    types = {str if isinstance(value, str) else type(value) for value in values if value is not None}
    if len(types) == 1:
        return types.pop()
    return float if types and types <= {int, float} else str


_TRIAL = "loopty.trial"
_LONGEST_VALUE = 5_000
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
    return escape_hidden(str(value))[:_LONGEST_VALUE]


def _name(name: str) -> str:
    """Return the name, or one like it: a single name that MLflow does not take would stop the whole export."""
    if _NAME.fullmatch(name) and len(name) <= _LONGEST_NAME:
        return name
    alike = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
    return f"{alike[: _LONGEST_NAME - 9]}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"


def export_to_wandb(rows: Iterable[TrialRow], project: str, name: str, folder: Path, offline: bool) -> int:
    """Log the trials as a new run and count them; offline, `folder` keeps the files for `wandb sync`."""
    try:
        import wandb
    except ImportError:
        raise Misuse(f"Weights & Biases needs wandb: run {extra_command('wandb')}") from None
    count = 0
    try:
        run = wandb.init(
            project=project,
            name=name,
            dir=str(folder),
            mode="offline" if offline else "online",
            settings=wandb.Settings(silent=True, console="off", disable_code=True, disable_git=True),
        )
        for row in rows:
            run.log(dict(cells(row)))
            count += 1
        run.finish()
    except (wandb.Error, OSError) as error:
        words = next(iter(str(error).splitlines()), type(error).__name__)
        remedy = "`--offline` keeps the run on this machine, for `wandb sync` later"
        raise Misuse(f"Weights & Biases refused: {words[:300]}; {remedy}") from None
    return count


_BATCH = 500
_SECONDS = 30.0
_LONGEST = 4_000
_LATEST = 2.0**63 / 1e9
_OK, _ERROR = 1, 2


class TelemetrySpan(Record):
    """Something that took time."""

    name: str
    key: str
    """Unique in the run, and the same whenever it is exported."""
    started_at: float
    ended_at: float
    is_failed: bool
    attributes: Mapping[str, Cell]


def trial_spans(rows: Iterable[TrialRow]) -> Iterator[TelemetrySpan]:
    for row in rows:
        key, end = f"trial {row.node}#{row.trial}", row.started_at + row.seconds
        yield TelemetrySpan(f"trial {row.pool}", key, row.started_at, end, row.ending != "finished", cells(row))


def call_spans(events: Iterable[Recorded], run: int) -> Iterator[TelemetrySpan]:
    """Make spans of model calls that have ended. `events` are those about calls, oldest first."""
    open_calls: dict[str, tuple[float, CallReserved]] = {}
    for recorded in events:
        match recorded.event:
            case CallReserved() as call if call.run == run:
                open_calls[call.call] = recorded.at, call
            case CallSettled() as settled if settled.call in open_calls:
                at, call = open_calls.pop(settled.call)
                attributes: dict[str, Cell] = {
                    "gen_ai.request.model": call.model,
                    "loopty.role": call.role,
                    "loopty.operator": call.operator,
                    "loopty.node": call.node or "",
                    "loopty.tokens": settled.tokens,
                    "loopty.money_usd": settled.money_usd,
                    "loopty.failure": settled.failure,
                }
                is_failed = bool(settled.failure or settled.lost)
                yield TelemetrySpan(
                    f"call {call.role}", f"call {call.call}", at, recorded.at, is_failed, attributes
                )


def send_spans(spans: Iterable[TelemetrySpan], address: str, repository: str, run: int) -> int:
    """Send spans to a collector in batches; how many. Raises Misuse where it does not take them."""
    try:
        parts = urllib.parse.urlsplit(address)
    except ValueError:
        parts = urllib.parse.urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
        raise Misuse("this is no address of a collector: it looks like http://127.0.0.1:4318, without a password")
    url = address if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1/traces"
    trace, count, batch = _digest(f"{repository} {run}", 16), 0, []
    for span in spans:
        batch.append(_plain(span, trace))
        count += 1
        if len(batch) == _BATCH:
            _post(url, batch, repository)
            batch = []
    if batch:
        _post(url, batch, repository)
    return count


def _post(url: str, spans: list[dict[str, Any]], repository: str) -> None:
    resource = {"attributes": _attributes({"service.name": "loopty", "loopty.repository": repository})}
    scope = {"name": "loopty", "version": __version__}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}
    try:
        post_json(url, json.dumps(body).encode(), _SECONDS)
    except OSError as error:
        remedy = "start one for OTLP over HTTP, or name another address"
        raise Misuse(f"the collector at {url} took no spans ({error}): {remedy}") from None


def _plain(span: TelemetrySpan, trace: str) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": _digest(f"{trace} {span.key}", 8),
        "name": span.name,
        "kind": 1,
        "startTimeUnixNano": _nanoseconds(span.started_at),
        "endTimeUnixNano": _nanoseconds(span.ended_at),
        "attributes": _attributes(span.attributes),
        "status": {"code": _ERROR if span.is_failed else _OK},
    }


def _nanoseconds(at: float) -> str:
    return str(round(min(max(0.0, at), _LATEST) * 1e9))


def _attributes(values: Mapping[str, Cell]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in values.items() if value not in (None, "")]


def _value(value: Cell) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)[:_LONGEST]}


def _digest(text: str, size: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[: 2 * size]


class TrialExport:
    """The trials of one run, and the places that they can go to. Each method returns how many went there."""

    def __init__(self, record: SavedRecord, run: int) -> None:
        self._record = record
        self._run = run
        self._repository = record.state.top.name

    def write_table(self, path: Path) -> int:
        """Write a table: CSV or Parquet, by the path's ending."""
        rows = list(trial_rows(self._record.history, self._record.events(), self._run))
        write_trial_table(rows, path)
        return len(rows)

    def send_to_mlflow(self, address: str) -> int:
        rows = trial_rows(self._record.history, self._record.events(), self._run)
        return export_to_mlflow(rows, address, f"loopty {self._repository} run {self._run}")

    def send_to_wandb(self, project: str, offline: bool) -> int:
        """Log a run; its files lie in `.loopty/wandb/`, which git ignores."""
        rows = trial_rows(self._record.history, self._record.events(), self._run)
        self._record.state.prepare()
        folder = self._record.state.work_folder.shown_path
        return export_to_wandb(rows, project, f"{self._repository} run {self._run}", folder, offline)

    def send_spans(self, address: str) -> int:
        """Send trials and model calls to a collector of OpenTelemetry."""
        rows = trial_rows(self._record.history, self._record.events(), self._run)
        spans = itertools.chain(trial_spans(rows), call_spans(self._record.call_events(), self._run))
        return send_spans(spans, address, self._repository, self._run)
