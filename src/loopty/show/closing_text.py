"""The result of a session, as text: what was found, what it is worth, its cost, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopty.domain.space import Value
from loopty.domain.trial import Pool
from loopty.show.figures import node_name, plural, value_text
from loopty.show.run_status import RunStatus
from loopty.show.score_text import ScoreText
from loopty.show.status_text import (
    endings_text,
    held_text,
    integrity_text,
    next_steps,
    stalls_text,
    time_text,
    usage_text,
    weak_words,
)
from loopty.show.tally import Tally, uplift_text
from loopty.show.terminal import Fact, Terminal, wrap


def control_text(status: RunStatus) -> str:
    """Compare the best control node with the baseline and the best attempt; empty before a control trial ended."""
    control, scores = status.control, ScoreText.of_run(status)
    if control is None:
        return ""
    if control.over_baseline is None:
        return "control: nothing better than the baseline"
    result = f"{node_name(control.node, control.handle)}: {scores.score(control.score)}"
    result += f", {scores.change_words(control.over_baseline, 'the baseline')}"
    if status.uplift is None:
        return f"control {result}"
    if status.best and status.best.over_baseline:
        result += f"; the best attempt is {scores.change_words(status.uplift, 'that')}"
    if not status.control_leads:
        return f"control {result}"
    return (
        f"but the control found {result}. Random changes did better than the proposer in this run: "
        "use the control's node, and try another proposer or more attempts"
    )


def control_hint(status: RunStatus) -> str:
    """Return one line for verbs that are about the best attempt; empty if the control did no better."""
    control = status.control
    if control is None or not status.control_leads:
        return ""
    score = ScoreText.of_run(status).score(control.score)
    name = node_name(control.node, control.handle)
    return (
        f"random changes did better than the proposer: the control's node {name} has {status.metric} {score}. "
        f"Use it instead: loopty apply {name}; and try another proposer or more attempts"
    )


def closing_text(
    status: RunStatus, reason: str, columns: int = 80, terminal: Terminal | None = None, tally: Tally | None = None
) -> str:
    """Return the closing lines of `loopty run`."""
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
        yield Fact("models", f"{usage_text(status)}; details: loopty model cost")
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
    change = scores.change_words(status.best.over_baseline, baseline)
    return f"best {name}: {change}{weak_words(status)}; {status.metric} {score}"


def params_text(params: Mapping[str, Value]) -> str:
    """`lr 0.03, layers 4`."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in params.items())
