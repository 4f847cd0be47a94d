"""Agents, models and machines: who works, since when, at what cost; and what audits and people found."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
from loopty.web.answers import finite, node_name, percent_of, scored_answer, slots_answer
from loopty.web.columns import HELD, KEPT
from loopty.web.record import RunFold

_LANE_SECONDS = 3_600.0
_MOST_LANES = 400
_MOST_WITHDRAWN = 200


def agents_answer(
    history: History, fold: RunFold, status: RunStatus, task: Task | None, now: float, top: Path
) -> dict[str, Any]:
    """Return a row for each agent and each other proposer; the models; the machines."""
    # The process of a lost run is dead: what it had begun goes on no more.
    busy = {} if status.state is RunState.LOST else _busy_operators(history, fold)
    agents = [_agent_row(history, fold, row, busy, now) for row in status.agents]
    known = {row["name"] for row in agents}
    operators = Counter(fold.columns.operators[1:])
    for place, nodes in operators.items():
        name = fold.columns.operator_names[place]
        if not any(name.endswith(each) or each in name for each in known):
            agents.append(_proposer_row(history, fold, name, nodes, busy, now))
    load = os.getloadavg()[0]
    return {
        "run": fold.run_number,
        "event": fold.number,
        "now": now,
        "agents": agents,
        "models": [
            {
                "name": name,
                "roles": sorted(found.roles),
                "calls": found.calls,
                "cached": found.cached,
                "failed": found.failed,
                "refused": found.refused,
                "median_seconds": found.median_seconds,
                "call_seconds": found.seconds,
                "tokens": found.tokens,
                "money_usd": found.money_usd,
                "unpriced": found.unpriced,
                "in_flight": sum(call.model == name for call, _ in fold.calls.open.values())
                if status.state is not RunState.LOST
                else 0,
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


def _busy_operators(history: History, fold: RunFold) -> dict[str, tuple[str, str, float]]:
    """Tell what each operator does now: the state, the node and since when."""
    busy: dict[str, tuple[str, str, float]] = {}
    for name, trial in Trials.of(history.runs[fold.run_number]).running.items():
        node = history[trial.subject or trial_parts(name)[0]]
        busy[node.operator] = "measuring", node.id, trial.since
    for call, since in fold.calls.open.values():
        busy.setdefault(call.operator, ("asking", call.node or "", since))
    return busy


def _agent_row(
    history: History, fold: RunFold, row: AgentRow, busy: dict[str, tuple[str, str, float]], now: float
) -> dict[str, Any]:
    own = [name for name in fold.calls.by_operator if row.name in name or row.agent in name]
    spent = [fold.calls.by_operator[name] for name in own]
    doing = next((busy[name] for name in busy if row.name in name or row.agent in name), None)
    last = max((found.last_at for found in spent), default=0.0)
    share = row.tokens / sum(found.tokens for found in spent) if any(found.tokens for found in spent) else 0.0
    state = "benched" if row.benched_seconds else doing[0] if doing else "idle"
    return {
        "name": row.name,
        "kind": row.agent,
        "model": row.model,
        "state": state,
        "heartbeat": last or None,
        "heartbeat_seconds": max(now - last, 0.0) if last else None,
        "current": node_name(history, doing[1]) if doing and doing[1] else None,
        "lane": _lane(fold, own, now),
        "sessions": row.sessions,
        "nodes": row.nodes,
        "kept": row.kept,
        "refused": row.refused,
        "tokens": row.tokens,
        "money_usd": sum(found.money_usd for found in spent) * min(share, 1.0),
        "salvaged_tokens": row.salvaged_tokens,
        "lost_tokens": row.lost_tokens,
        "stall_rate": row.stall_rate,
        "stalls": dict(row.stalls),
        "longest_stall_seconds": row.longest_stall_seconds,
        "benched_until": now + row.benched_seconds if row.benched_seconds else None,
        "bench_reason": row.bench_reason,
        "best": scored_answer(history, row.best),
    }


def _proposer_row(
    history: History, fold: RunFold, name: str, nodes: int, busy: dict[str, tuple[str, str, float]], now: float
) -> dict[str, Any]:
    columns, spent = fold.columns, fold.calls.by_operator.get(name)
    own = columns.operator_names.index(name)
    kept = [place for place in columns.places_with(KEPT) if columns.operators[place] == own]
    newest = next((place for place in range(len(columns) - 1, -1, -1) if columns.operators[place] == own), None)
    last = max(0.0 if newest is None else columns.times[newest], spent.last_at if spent else 0.0)
    doing = busy.get(name)
    return {
        "name": name,
        "kind": "proposer",
        "model": spent.model if spent else "",
        "state": doing[0] if doing else "idle",
        "heartbeat": last or None,
        "heartbeat_seconds": max(now - last, 0.0) if last else None,
        "current": None,
        "lane": _lane(fold, [name], now),
        "sessions": spent.calls if spent else nodes,
        "nodes": nodes,
        "kept": len(kept),
        "refused": fold.calls.refused_by_operator[name],
        "tokens": spent.tokens if spent else 0,
        "money_usd": spent.money_usd if spent else 0.0,
        "salvaged_tokens": 0,
        "lost_tokens": 0,
        "stall_rate": spent.failed / spent.calls if spent and spent.calls else 0.0,
        "stalls": {"failed calls": spent.failed} if spent and spent.failed else {},
        "longest_stall_seconds": 0.0,
        "benched_until": None,
        "bench_reason": "",
        "best": _newest_best(history, fold, kept),
    }


def _newest_best(history: History, fold: RunFold, kept: list[int]) -> dict[str, Any] | None:
    """Return the last of these kept nodes, which beat all before it."""
    if not kept:
        return None
    name = node_name(history, fold.columns.ids(history, kept[-1:]).get(kept[-1]))
    return {**name, "score": fold.columns.score(kept[-1]), "change": None} if name else None


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
        "rows": [
            {
                "node": node_name(history, row.node),
                "at": row.at,
                "metric": row.metric,
                "search": finite(row.search),
                "search_gain": finite(row.search_gain),
                "held_out": finite(row.held_out),
                "held_out_gain": finite(row.held_out_gain),
                "survives": row.survives,
                "gap": finite(row.gap),
                "ended": row.ended,
                "look": row.look,
                "flags": [{"kind": str(flag.kind), "text": flag.words} for flag in row.flags],
            }
            for row in audits or ()
        ],
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
