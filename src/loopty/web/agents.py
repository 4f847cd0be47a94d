"""Agents, models and machines: who works, since when, at what cost; and what audits and people found."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from loopty.domain.task import Audit, Task
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.trials import Cohorts, Trials, trial_parts
from loopty.session.reader import CampaignReader
from loopty.show.agents import AgentRow
from loopty.show.audits import MANY_LOOKS, AuditRow
from loopty.show.comparisons import machine_description, over_parent, run_metric
from loopty.show.rated_nodes import rated_nodes
from loopty.show.run_status import RunState, RunStatus
from loopty.show.tally import false_keeps
from loopty.web.answers import node_name, percent_of, slots_answer
from loopty.web.columns import HELD, KEPT
from loopty.web.record import CallSum, RunFold

_LANE_SECONDS = 3_600.0
_MOST_LANES = 400
_MOST_WITHDRAWN = 200
_SHOWN_OF_CALLS = ("roles", "calls", "cached", "failed", "refused", "tokens", "money_usd", "unpriced")


def agents_answer(
    history: History, fold: RunFold, status: RunStatus, task: Task | None, now: float, top: Path
) -> dict[str, Any]:
    """Return a row for each agent and each other proposer; the models; the machines."""
    # The process of a lost run is dead: what it had begun goes on no more.
    is_lost = status.state is RunState.LOST
    busy = {} if is_lost else _busy_operators(history, fold)
    operators = {*fold.calls.by_operator, *fold.columns.operator_names, *busy}
    rows = [(row, [name for name in operators if row.name in name or row.agent in name]) for row in status.agents]
    for place, nodes in Counter(fold.columns.operators[1:]).items():
        name = fold.columns.operator_names[place]
        if not any(each.name in name for each in status.agents):
            rows.append((_proposer_row(fold, name, place, nodes), [name]))
    load = os.getloadavg()[0]
    return {
        "run": fold.run_number,
        "event": fold.number,
        "now": now,
        "agents": [_agent_answer(fold, row, own, busy, now) for row, own in rows],
        "models": [
            {
                "name": name,
                "median_seconds": found.median_seconds,
                "in_flight": 0 if is_lost else sum(call.model == name for call, _ in fold.calls.open.values()),
                **{key: getattr(found, key) for key in _SHOWN_OF_CALLS},
            }
            for name, found in fold.calls.by_model.items()
        ],
        "refused": [{"reason": reason, "count": count} for reason, count in fold.calls.refusals.most_common(20)],
        "machines": _machines(history, fold),
        "host": {
            "cores": os.cpu_count() or 1,
            "load": load,
            "disk_free_bytes": shutil.disk_usage(top).free,
            "slots": task.width if task else 1,
            "busy": slots_answer(status, None)["busy"],
        },
    }


def _busy_operators(history: History, fold: RunFold) -> dict[str, str]:
    """Tell what each operator does now."""
    busy: dict[str, str] = {}
    for name, trial in Trials.of(history.runs[fold.run_number]).running.items():
        busy[history[trial.subject or trial_parts(name)[0]].operator] = "measuring"
    for call, _ in fold.calls.open.values():
        busy.setdefault(call.operator, "asking")
    return busy


def _agent_answer(
    fold: RunFold, row: AgentRow, own: Sequence[str], busy: dict[str, str], now: float
) -> dict[str, Any]:
    """Add to a row what it does now, its last sign of life, and what it cost; `own` are its operators."""
    columns, calls = fold.columns, fold.calls.by_operator
    spent = [calls[name] for name in own if name in calls]
    places = {place for place, name in enumerate(columns.operator_names) if name in own}
    newest = (columns.times[at] for at in range(len(columns) - 1, -1, -1) if columns.operators[at] in places)
    last = max((found.last_at for found in spent), default=0.0)
    tokens = sum(found.tokens for found in spent)
    share = min(row.tokens / tokens, 1.0) if tokens else 0.0
    doing = next((busy[name] for name in own if name in busy), "idle")
    return {
        **asdict(row),
        "state": "benched" if row.benched_seconds else doing,
        "heartbeat": max(last, next(newest, 0.0)) or None,
        "lane": _lane(fold, own, now),
        "money_usd": share * sum(found.money_usd for found in spent),
        "benched_until": now + row.benched_seconds if row.benched_seconds else None,
    }


def _proposer_row(fold: RunFold, name: str, place: int, nodes: int) -> AgentRow:
    """Return the row of a proposer that is no agent; a failed call is what a stall is for an agent."""
    columns, spent = fold.columns, fold.calls.by_operator.get(name, CallSum())
    return AgentRow(
        name=name,
        agent="proposer",
        model=spent.model,
        digest="",
        sessions=spent.calls or nodes,
        nodes=nodes,
        kept=sum(columns.operators[each] == place for each in columns.places_with(KEPT)),
        refused=fold.calls.refused_by_operator[name],
        best=None,
        stall_rate=spent.failed / spent.calls if spent.calls else 0.0,
        stalls={"failed calls": spent.failed} if spent.failed else {},
        lost_sessions=0,
        tokens=spent.tokens,
        salvaged_tokens=0,
        lost_tokens=0,
        longest_stall_seconds=0.0,
        benched_seconds=0.0,
        bench_reason="",
    )


def _lane(fold: RunFold, operators: Sequence[str], now: float) -> list[list[Any]]:
    """List what these operators did in the last hour."""
    since = now - _LANE_SECONDS
    rows = [
        [max(start, since), end, kind]
        for lanes, kind in ((fold.calls.lanes, "asks"), (fold.trial_lanes, "runs"))
        for start, end, operator in lanes
        if end >= since and operator in operators
    ]
    return sorted(rows)[-_MOST_LANES:]


def _machines(history: History, fold: RunFold) -> list[dict[str, Any]]:
    run = history.runs[fold.run_number]
    cohorts, metric = Cohorts.of(run), run_metric(history, run)
    rows = []
    for fingerprint in cohorts.machines:
        baseline = history[run.root].result(fingerprint)
        noise = cohorts.noise.get(fingerprint, {}).get(metric.name)
        score = baseline.outcome.metrics.get(metric.name) if baseline else None
        is_present = fingerprint == cohorts.fingerprint
        rows.append(
            {
                "fingerprint": fingerprint,
                "text": machine_description(run, fingerprint),
                "present": is_present,
                "results": sum(fold.columns.counts.values()) if is_present else int(baseline is not None),
                "noise_percent": percent_of(noise, score),
            }
        )
    return rows


def audit_answer(
    reader: CampaignReader, fold: RunFold, audits: list[AuditRow] | None, task: Task | None
) -> dict[str, Any]:
    """List looks at the held-out split, results that wait for a person, revoked verdicts, and possible luck."""
    history, columns = reader.history, fold.columns
    rated = rated_nodes(history, fold.run_number)
    luck = false_keeps(history, fold.run_number, rated)
    withdrawn = [node for node in rated.records if node.withdrawn and node.verdict]
    places = [place for place in fold.kept_places() if place][-_MOST_WITHDRAWN:]  # without the baseline
    kept = [history[node] for node in columns.ids(history, places).values()]
    integrity = Counter(str(node.outcome.integrity) for node in kept if node.outcome and node.outcome.integrity)
    return {
        "run": fold.run_number,
        "event": fold.number,
        "has_split": task is not None and task.audit != Audit(),
        "looks": max((row.look for row in audits or ()), default=0),
        "many_looks": MANY_LOOKS,
        "rows": [{**asdict(row), "node": node_name(history, row.node)} for row in audits or ()],
        "held": [
            {
                "node": node_name(history, node),
                "score": columns.score(place),
                "gain_percent": _held_gain(history, history[node]),
                "reason": history[node].reason,
                "at": history[node].added_at,
            }
            for place, node in columns.ids(history, columns.places_with(HELD)).items()
        ],
        "withdrawn": [
            {
                "node": node_name(history, node.id),
                "verdict": node.verdict,
                "why": node.withdrawn.why if node.withdrawn else "",
                "at": node.added_at,
            }
            for node in withdrawn[-_MOST_WITHDRAWN:]
        ],
        "expected_false_keeps": luck.expected if luck.compared else None,
        "kept": max(columns.counts[KEPT] - 1, 0),
        "flaw": reader.flaw(2_000, 2_000) or "",
        "integrity": {"strong": integrity["strong"], "weak": integrity["weak"]},
    }


def _held_gain(history: History, node: Node) -> float | None:
    """Return the gain over its parent, in percent."""
    change = over_parent(history, node)
    return change.change.percent if change else None
