"""Trials and model calls as spans of OpenTelemetry, sent to a collector as OTLP over HTTP in JSON."""

from __future__ import annotations

import hashlib
import json
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from loopty.domain.errors import Misuse
from loopty.exporters.trial_table import Cell, cells
from loopty.kit.records import Record
from loopty.kit.web_post import post_json
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.event import Recorded
from loopty.version import __version__
from loopty.views.trial_rows import TrialRow

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
    """Model calls that have ended. `events` are those about calls, oldest first."""
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
