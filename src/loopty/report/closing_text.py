"""The result of a session, as text: what was found, what it is worth, what it cost, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopty.domain.pool import Pool
from loopty.domain.space import Value
from loopty.report.columns import Fact, wrap
from loopty.report.control_text import control_text
from loopty.report.figures import plural, value_text
from loopty.report.node_name import node_name
from loopty.report.score_text import ScoreText
from loopty.report.status_text import (
    endings_text,
    held_text,
    integrity_text,
    next_steps,
    stalls_text,
    time_text,
    usage_text,
)
from loopty.report.tally_text import uplift_text
from loopty.report.terminal import Terminal
from loopty.views.run_status import RunStatus
from loopty.views.verdict_tally import Tally


def closing_text(
    status: RunStatus, reason: str, columns: int = 80, terminal: Terminal | None = None, tally: Tally | None = None
) -> str:
    """The closing lines of `loopty optimize`."""
    terminal = terminal or Terminal()
    lines = [
        terminal.paint(line, fact.style)
        for fact in _facts(status, reason, tally)
        for line in wrap(f"{fact.name}: {fact.text}" if fact.name else fact.text, columns)
    ]
    return terminal.render("\n".join(lines))


def _facts(status: RunStatus, reason: str, tally: Tally | None) -> Iterator[Fact]:
    improved = status.best is not None and status.best.over_baseline is not None
    yield Fact("", _result(status), "best" if improved and not status.control_leads else "strong")
    if status.best and improved and status.best.params:
        yield Fact("parameters", params_text(status.best.params))
    if weak := integrity_text(status):
        yield Fact("integrity", weak, "warn")
    if status.held:
        yield Fact("held", held_text(status), "warn")
    if status.audit:
        yield Fact("audit", status.audit, "warn")
    if status.versions:
        yield Fact("past", status.versions, "warn")
    if control := control_text(status):
        yield Fact("", control, "warn" if status.control_leads else "")
    if tally and tally.over_control:
        yield Fact("vs random", uplift_text(tally.over_control))
    attempts = status.count(Pool.ATTEMPT)
    spent = plural(attempts.started, "attempt")
    spent += f" ({endings_text(attempts)})" if attempts.endings else ""
    yield Fact("", f"{spent} in {time_text(status)}; {reason}")
    if status.stalls:
        yield Fact("outage", stalls_text(status), "warn")
    if status.tokens or status.money_usd:
        yield Fact("models", f"{usage_text(status)}; details: loopty spend")
    yield from next_steps(status)


def _result(status: RunStatus) -> str:
    if status.baseline is None:
        return "the baseline gave no result"
    scores = ScoreText.of_run(status)
    baseline = scores.baseline_words(status)
    if status.best is None or status.best.over_baseline is None:
        if status.stalls and not status.count(Pool.ATTEMPT).started:
            return f"nothing was tried, because a model was unavailable; {baseline} is measured"
        return f"the search found nothing better than {baseline}"
    name, score = node_name(status.best.node, status.best.handle), scores.score(status.best.score)
    return f"best {name}: {status.metric} {score}, {scores.change_words(status.best.over_baseline, baseline)}"


def params_text(params: Mapping[str, Value]) -> str:
    """`lr 0.03, layers 4`."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in params.items())
