"""The lines of the live display: what is spent, what is best, how long it will take, what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loopty.domain.curve import Row
from loopty.domain.ids import NodeId
from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.record.verdicts import NodeJudged
from loopty.report.columns import cut, short
from loopty.report.figures import compared, duration, figure, plural, rate
from loopty.report.pace import Tempo
from loopty.views.run_status import Airborne, Status

Latest = Callable[[NodeId], Row | None]
"""The newest row of a running trial's metrics stream, if it writes one."""

_WIDEST_BAR = 30
_NARROWEST_BAR = 8
_MOST_FLIGHTS = 4
_STYLES = {Verdict.KEPT: "good", Verdict.INCONCLUSIVE: "warn", Verdict.REJECTED: "bad"}


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    style: str = ""


def frame(status: Status, tempo: Tempo, last: NodeJudged | None, latest: Latest, columns: int) -> list[Line]:
    """Lines of at most so many columns, the most important first."""
    lines = [_bar(status, columns), _best(status)]
    lines.append(Line(", ".join(_times(status, tempo))))
    if last:
        style = _STYLES.get(last.verdict, "dim")
        lines.append(Line(f"last {short(last.node, 20)} {last.verdict}: {last.reason}", style))
    lines += [Line(_flight(flight, latest(flight.node)), "dim") for flight in status.flights[:_MOST_FLIGHTS]]
    if status.asking:
        lines.append(Line(f"{plural(status.asking, 'call')} of a model in flight", "dim"))
    if (more := len(status.flights) - _MOST_FLIGHTS) > 0:
        lines.append(Line(f"and {more} more running", "dim"))
    return [Line(cut(line.text, columns), line.style) for line in lines]


def flight_text(flight: Airborne, columns: int = 32) -> str:
    """The trial in words. What a repeated measurement is for, not which of two rivals has its turn just now."""
    age = f"for {duration(flight.age_seconds)}"
    if flight.repeat is None:
        pool = "" if flight.pool is Pool.ATTEMPT else f" ({flight.pool})"
        return f"{short(flight.node, columns)}{pool} {age}"
    subject, rival, number = flight.repeat.subject, flight.repeat.rival, flight.repeat.number
    against = f"pair {number} against {short(rival, columns)}" if rival else f"measurement {number}"
    return f"{short(subject, columns)} again, {against}, {age}"


def progress(status: Status) -> str:
    """How far the pools are spent: `57/150 attempts, 12/40 controls`."""
    return ", ".join(
        f"{count.started:,}/{count.limit:,} {count.pool}s" for count in status.counts if count.limit
    ) or plural(status.count(Pool.ATTEMPT).started, "attempt")


def seconds_left(status: Status, tempo: Tempo) -> float | None:
    """When the pools will be spent at this pace, or the wall clock before them."""
    estimates = []
    if tempo.verdicts:
        lanes = [count for count in status.counts if count.pool.rules.searches and count.limit]
        todo = sum(max((count.limit or 0) - count.started, 0) for count in lanes)
        estimates.append((todo + len(status.flights)) / tempo.verdicts)
    if status.left and status.left.wall_seconds is not None:
        estimates.append(status.left.wall_seconds)
    return min(estimates, default=None)


def _bar(status: Status, columns: int) -> Line:
    done = progress(status)
    attempts = status.count(Pool.ATTEMPT)
    room = min(columns - len(done) - 1, _WIDEST_BAR)
    if not attempts.limit or room < _NARROWEST_BAR:
        return Line(done, "strong")
    ended = attempts.started - sum(flight.pool is Pool.ATTEMPT for flight in status.flights)
    filled = room * min(max(ended, 0), attempts.limit) // attempts.limit
    return Line("█" * filled + "░" * (room - filled) + " " + done, "strong")


def _best(status: Status) -> Line:
    if status.baseline is None or status.best is None:
        return Line("measuring the baseline")
    baseline = f"the baseline {figure(status.baseline.score)}"
    if status.best.over_baseline is None:
        return Line(f"nothing better than {baseline} yet")
    score = f"best {short(status.best.node, 24)}: {status.metric} {figure(status.best.score)}"
    return Line(f"{score}, {compared(status.best.over_baseline, baseline)}", "best")


def _times(status: Status, tempo: Tempo) -> Iterator[str]:
    if tempo.trials:
        yield rate(tempo.trials)
    yield f"{duration(status.elapsed_seconds)} so far"
    if (seconds := seconds_left(status, tempo)) is not None:
        yield f"about {duration(seconds)} to go"
    if status.left and status.left.money_usd is not None:
        yield f"${status.left.money_usd:.2f} left"
    if status.left and status.left.tokens is not None:
        yield f"{status.left.tokens:,} tokens left"
    elif status.tokens:
        yield plural(status.tokens, "token")
    if status.refused:
        yield f"{status.refused:,} refused"


def _flight(flight: Airborne, row: Row | None) -> str:
    text = f"running {flight_text(flight, 20)}"
    if row is None:
        return text
    values = " ".join(f"{name} {figure(value)}" for name, value in row.metrics.items())
    return f"{text}: step {figure(row.step)} {values}"
