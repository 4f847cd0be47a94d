"""Small parts that many answers share: names of nodes, changes of scores, states of runs."""

from __future__ import annotations

import math
from typing import Any

from loopty.domain.ids import NodeId
from loopty.record.history import History
from loopty.record.sessions import Session
from loopty.views.against_baseline import AgainstBaseline
from loopty.views.run_phase import PhaseName
from loopty.views.run_status import RunState, RunStatus
from loopty.views.score_change import ScoreChange

LONGEST_SUMMARY = 300
_LONGEST_ID = 60


def node_name(history: History, node: NodeId | str | None) -> dict[str, Any] | None:
    """The id, the short name and the change of a node; None where there is none."""
    if not node:
        return None
    found = history[NodeId(node)]
    return {"id": found.id, "handle": found.handle, "summary": found.summary[:LONGEST_SUMMARY]}


def short_id(node: str, handle: int) -> str:
    """The id, or its short name where it is long: the page asks for either, and lists of deep nodes stay small."""
    return node if len(node) <= _LONGEST_ID else f"@{handle}"


def short_name(name: dict[str, Any]) -> dict[str, Any]:
    """The name with a short id, for lists."""
    return {**name, "id": short_id(name["id"], name["handle"])}


def node_names(history: History, nodes: Any) -> list[dict[str, Any]]:
    return [name for node in nodes if (name := node_name(history, node))]


def change_answer(change: ScoreChange | None) -> dict[str, Any] | None:
    if change is None:
        return None
    return {
        "amount": finite(change.amount),
        "percent": finite(change.percent),
        "low": finite(change.low),
        "high": finite(change.high),
        "pairs": change.pairs,
        "confirmed": change.is_confirmed,
    }


def scored_answer(history: History, found: AgainstBaseline | None) -> dict[str, Any] | None:
    if found is None:
        return None
    name = node_name(history, found.node)
    assert name is not None
    return {**name, "score": finite(found.score), "change": change_answer(found.over_baseline)}


def brief_number(value: float | None) -> float | None:
    """The number with nine digits: charts show no more, and long lists stay small."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.9g}")


def finite(value: float | None) -> float | None:
    """The number, or None where JSON has no word for it."""
    return value if value is not None and math.isfinite(value) else None


def state_word(status: RunStatus, session: Session) -> str:
    """What the run does, in one word or two."""
    if status.state is RunState.RUNNING:
        if status.is_paused:
            return "paused"
        if status.phase:
            return "confirming" if status.phase.name is PhaseName.CONFIRMATION else "measuring baseline"
        return "running"
    return (
        "paused"
        if status.is_paused and status.state is RunState.IDLE and not session.ended
        else status.state.value
    )


def slots_answer(status: RunStatus, width: int | None) -> dict[str, int]:
    """How many trials and questions there may be at a time, and are: none of a run whose process died."""
    slots, is_lost = status.slots, status.state is RunState.LOST
    workers = status.worker_slots.trials if status.worker_slots else 0
    return {
        "trials": workers or (len(status.running) if width is None else width),
        "busy": 0 if is_lost else len(status.running),
        "questions": slots.questions if slots else 0,
        "asking": slots.asking if slots and not is_lost else 0,
    }


def direction_factor(percent: float | None, sign: int) -> float | None:
    """How many times better, from a change in percent of the older score: 2.0 is twice as good."""
    if percent is None:
        return None
    if sign > 0:
        return finite(1 + percent / 100)
    return finite(1 / (1 - percent / 100)) if percent < 100 else None


def percent_of(amount: float | None, older: float | None) -> float | None:
    if amount is None or older is None or abs(older) < 1e-300:
        return None
    return finite(100 * amount / abs(older))
