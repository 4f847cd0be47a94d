"""What needs a person: a lost process, a stall, a result that waits, a budget that ends, a pause."""

from __future__ import annotations

from typing import Any

from loopty.record.history import History
from loopty.record.sessions import Session
from loopty.views.run_status import RunState, RunStatus

_ALMOST_SPENT = 0.8


def _above(percent: float | None) -> str:
    if percent is None:
        return "far above all before"
    return (
        f"{percent:+.1f} % over its parent"
        if percent < 1_000
        else f"{1 + percent / 100:.3g} times as good as its parent"
    )


def run_alerts(
    history: History, status: RunStatus, held: list[dict[str, Any]], pools: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The alerts of a run, the most urgent first."""
    found: list[dict[str, Any]] = []

    def add(kind: str, level: str, text: str, remedy: str, node: Any = None, at: float | None = None) -> None:
        found.append({"kind": kind, "level": level, "text": text, "node": node, "at": at, "remedy": remedy})

    session = Session.of(history.runs[status.run])
    if status.state is RunState.LOST:
        add("lost", "bad", "The process that drove this run died. No finished trial is lost.", "loopty optimize")
    if status.without_baseline:
        text = f"The baseline gave no result: {status.without_baseline[:300]}"
        add("baseline", "bad", text, "fix the benchmark, then: loopty optimize")
    if status.state is RunState.STOPPED and session.stalls and "unavailable" in status.reason:
        add("stalled", "bad", f"A model is unavailable: {status.reason[:300]}", "loopty optimize")
    if awaited := status.awaited:
        text = f"The run waits for {awaited.name[:200]}, which has not answered for {awaited.seconds:.0f} s."
        add("awaited", "info", text, "")
    for row in reversed(held):
        gain = row["gain_percent"]
        above = _above(gain)
        add(
            "held",
            "warn",
            f"It is {above}, and counts for nothing until you accept it.",
            f"loopty accept @{row['node']['handle']}",
            row["node"],
            row["at"],
        )
    for agent in status.agents:
        if agent.benched_seconds:
            add("benched", "warn", f"{agent.name} is set aside for a while: {agent.bench_reason[:200]}", "")
    for pool in pools if status.state is RunState.RUNNING else ():
        if pool["limit"] and pool["used"] >= _ALMOST_SPENT * pool["limit"]:
            share = 100 * pool["used"] / pool["limit"]
            level = "warn" if share >= 100 else "info"
            add("budget", level, f"{share:.0f} % of the {pool['pool']} budget is spent.", "loopty budget")
    if status.is_paused:
        why = f": {status.pause_reason[:200]}" if status.pause_reason else ""
        add("paused", "info", f"The run is paused{why}. Nothing new starts.", "loopty resume")
    return found
