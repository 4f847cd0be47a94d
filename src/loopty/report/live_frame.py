"""The lines of the live display: what is spent, what is best, how long it will take, what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loopty.domain.curve import Row
from loopty.domain.ids import NodeId
from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.record.verdicts import NodeJudged
from loopty.report.columns import cut, short_id
from loopty.report.figures import change_text, duration, figure, plural, rate
from loopty.report.pace import Throughput
from loopty.views.run_status import RunningTrialRow, RunStatus

LatestRow = Callable[[NodeId], Row | None]
"""The newest row of a running trial's metrics stream, if it writes one."""

_WIDEST_BAR = 30
_NARROWEST_BAR = 8
_MOST_FLIGHTS = 4
_STYLES = {Verdict.KEPT: "good", Verdict.INCONCLUSIVE: "warn", Verdict.REJECTED: "bad"}


@dataclass(frozen=True, slots=True)
class FrameLine:
    text: str
    style: str = ""


def frame(
    status: RunStatus, tempo: Throughput, last: NodeJudged | None, latest: LatestRow, columns: int
) -> list[FrameLine]:
    """Lines of at most so many columns, the most important first."""
    lines = [_bar(status, columns), _best(status)]
    lines.append(FrameLine(", ".join(_times(status, tempo))))
    if last:
        style = _STYLES.get(last.verdict, "dim")
        lines.append(FrameLine(f"last {short_id(last.node, 20)} {last.verdict}: {last.reason}", style))
    lines += [
        FrameLine(_running_line(flight, latest(flight.node)), "dim") for flight in status.flights[:_MOST_FLIGHTS]
    ]
    if status.asking:
        lines.append(FrameLine(f"{plural(status.asking, 'call')} of a model in flight", "dim"))
    if (more := len(status.flights) - _MOST_FLIGHTS) > 0:
        lines.append(FrameLine(f"and {more} more running", "dim"))
    return [FrameLine(cut(line.text, columns), line.style) for line in lines]


def running_trial_text(flight: RunningTrialRow, columns: int = 32) -> str:
    """The trial in words. What a repeated measurement is for, not which of two rivals has its turn just now."""
    age = f"for {duration(flight.age_seconds)}"
    if flight.repeat is None:
        pool = "" if flight.pool is Pool.ATTEMPT else f" ({flight.pool})"
        return f"{short_id(flight.node, columns)}{pool} {age}"
    subject, rival, number = flight.repeat.subject, flight.repeat.rival, flight.repeat.number
    against = f"pair {number} against {short_id(rival, columns)}" if rival else f"measurement {number}"
    return f"{short_id(subject, columns)} again, {against}, {age}"


def pool_progress(status: RunStatus) -> str:
    """How far the pools are spent: `57/150 attempts, 12/40 controls`."""
    return ", ".join(
        f"{count.started:,}/{count.limit:,} {count.pool}s" for count in status.counts if count.limit
    ) or plural(status.count(Pool.ATTEMPT).started, "attempt")


def remaining_seconds(status: RunStatus, tempo: Throughput) -> float | None:
    """When the pools will be spent at this pace, or the wall clock before them."""
    estimates = []
    if tempo.verdicts_per_second:
        lanes = [count for count in status.counts if count.pool.rules.searches and count.limit]
        todo = sum(max((count.limit or 0) - count.started, 0) for count in lanes)
        estimates.append((todo + len(status.flights)) / tempo.verdicts_per_second)
    if status.left and status.left.wall_seconds is not None:
        estimates.append(status.left.wall_seconds)
    return min(estimates, default=None)


def _bar(status: RunStatus, columns: int) -> FrameLine:
    done = pool_progress(status)
    attempts = status.count(Pool.ATTEMPT)
    room = min(columns - len(done) - 1, _WIDEST_BAR)
    if not attempts.limit or room < _NARROWEST_BAR:
        return FrameLine(done, "strong")
    ended = attempts.started - sum(flight.pool is Pool.ATTEMPT for flight in status.flights)
    filled = room * min(max(ended, 0), attempts.limit) // attempts.limit
    return FrameLine("█" * filled + "░" * (room - filled) + " " + done, "strong")


def _best(status: RunStatus) -> FrameLine:
    if status.baseline is None or status.best is None:
        return FrameLine("measuring the baseline")
    baseline = f"the baseline {figure(status.baseline.score)}"
    if status.best.over_baseline is None:
        return FrameLine(f"nothing better than {baseline} yet")
    score = f"best {short_id(status.best.node, 24)}: {status.metric} {figure(status.best.score)}"
    return FrameLine(f"{score}, {change_text(status.best.over_baseline, baseline)}", "best")


def _times(status: RunStatus, tempo: Throughput) -> Iterator[str]:
    if tempo.trials_per_second:
        yield rate(tempo.trials_per_second)
    yield f"{duration(status.elapsed_seconds)} so far"
    if (seconds := remaining_seconds(status, tempo)) is not None:
        yield f"about {duration(seconds)} to go"
    if status.left and status.left.money_usd is not None:
        yield f"${status.left.money_usd:.2f} left"
    if status.left and status.left.tokens is not None:
        yield f"{status.left.tokens:,} tokens left"
    elif status.tokens:
        yield plural(status.tokens, "token")
    if status.refusals:
        yield f"{status.refusals:,} refused"


def _running_line(flight: RunningTrialRow, row: Row | None) -> str:
    text = f"running {running_trial_text(flight, 20)}"
    if row is None:
        return text
    values = " ".join(f"{name} {figure(value)}" for name, value in row.metrics.items())
    return f"{text}: step {figure(row.step)} {values}"
