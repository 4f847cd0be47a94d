"""Where a run stands, as text."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.outcome import Ending, Integrity
from loopty.domain.pool import Pool
from loopty.report.columns import cut, printable_line, short_id
from loopty.report.facts import Fact, fact_lines
from loopty.report.figures import change_text, deviation, dollars, duration, figure, plural, rate
from loopty.report.live_frame import running_trial_text
from loopty.report.tally_text import uplift_text, verdicts_text
from loopty.report.terminal import Terminal
from loopty.report.verification import verifier_text
from loopty.views.against_baseline import AgainstBaseline
from loopty.views.run_status import NoiseFloor, PoolCount, Remaining, RunState, RunStatus
from loopty.views.verdict_tally import Tally

_MOST_FLIGHTS = 8
# Its verdict is `rejected`, and what is called refused here is a proposal without a trial.
_ENDED: dict[str, str] = {Ending.REFUSED: "rejected by a gate"}


def status_text(
    status: RunStatus, columns: int = 80, look: Terminal | None = None, tally: Tally | None = None
) -> str:
    look = look or Terminal()
    lines = [_headline(status, columns, look), "", *fact_lines(_facts(status, tally), columns, look)]
    return look.render("\n".join(lines))


def owner_text(owner: str) -> str:
    """The owner of a trial or session in words."""
    host, *rest = owner.rsplit(":", 2)
    return printable_line(f"process {rest[0]} on {host}" if len(rest) == 2 else owner)


def endings_text(count: PoolCount) -> str:
    """`51 finished, 6 failed`; what was cancelled is told apart, because it was given back."""
    told = ", ".join(
        f"{number:,} {_ENDED.get(ending, ending)}"
        for ending, number in count.endings.items()
        if ending != Ending.CANCELLED
    )
    cancelled = count.endings.get(Ending.CANCELLED, 0)
    if not cancelled:
        return told
    return f"{told}; {cancelled:,} more cancelled" if told else f"{cancelled:,} cancelled"


def time_text(status: RunStatus) -> str:
    """`3 min 12 s`; what was done by hand took the time of its trials alone."""
    if not status.by_hand:
        return duration(status.elapsed_seconds)
    trials = f"{duration(status.busy_seconds)} of trials"
    return f"{duration(status.elapsed_seconds)} of sessions, {trials}" if status.elapsed_seconds else trials


def usage_text(status: RunStatus) -> str:
    """What models used. No money is told as none: it may as well be that the price is not known."""
    money = f", {dollars(status.money_usd)}" if status.money_usd else ""
    return f"{plural(status.tokens, 'token')}{money}"


def integrity_text(status: RunStatus) -> str:
    """A warning where the best could have cheated; nothing where it only has other parameters."""
    weak = status.best is not None and status.best.edited and status.best.integrity is Integrity.WEAK
    return "weak: the candidate could reach what scored it; isolated = true keeps it apart" if weak else ""


def _headline(status: RunStatus, columns: int, look: Terminal) -> str:
    state = {
        RunState.RUNNING: f"running ({owner_text(status.driver)})",
        RunState.LOST: f"interrupted: {owner_text(status.driver)} died; `loopty optimize` goes on",
        RunState.STOPPED: "stopped",
        RunState.IDLE: "not driven by `loopty optimize` yet",
    }[status.state]
    style = {RunState.RUNNING: "good", RunState.LOST: "warn"}.get(status.state, "")
    head = f"run {status.run}"
    return f"{look.paint(head, 'strong')}  {look.paint(cut(state, columns - len(head) - 2), style)}"


def _facts(status: RunStatus, tally: Tally | None) -> Iterator[Fact]:
    better = "more" if status.direction.sign > 0 else "less"
    if status.state is RunState.STOPPED:
        yield Fact("because", status.reason)
    if status.best:
        yield Fact("best", _node_text(status.best, status.metric), "best")
    if weak := integrity_text(status):
        yield Fact("integrity", weak, "warn")
    if status.baseline:
        yield Fact("baseline", f"{status.metric} {figure(status.baseline.score)} ({better} is better)")
    else:
        yield Fact("baseline", f"no result: {why}" if (why := status.without_baseline) else "not measured yet")
    if status.control:
        yield Fact("control", _node_text(status.control, status.metric))
    if status.uplift:
        plain = f"the best attempt is {change_text(status.uplift, 'the best of the control')}"
        yield Fact("uplift", uplift_text(tally.over_control) if tally and tally.over_control else plain)
    for other in status.other_fingerprints:
        yield Fact("elsewhere", f"best {_node_text(other.best, status.metric)} ({other.machine})")
    if status.noise:
        yield Fact("noise", _noise(status.noise, status.metric))
    for count in status.counts:
        text = f"{count.started:,}" + ("" if count.limit is None else f" of {count.limit:,}")
        text += f": {endings_text(count)}" if count.endings else ""
        if count.pool is Pool.ATTEMPT and status.since_best:
            text += f"; {status.since_best:,} since the best"
        yield Fact(f"{count.pool}s", text)
    if tally and (told := verdicts_text(tally)):
        yield Fact("verdicts", told)
    if status.rung:
        yield Fact("ladder", printable_line(status.rung))
    if status.verified:
        yield Fact("verifier", verifier_text(status.verified))
    if status.refusals:
        yield Fact("refused", f"{plural(status.refusals, 'proposal')}, at the price of no attempt")
    pace = f", {rate(status.trials_per_second)}" if status.trials_per_second else ""
    yield Fact("time", time_text(status) + pace)
    if status.tokens or status.money_usd:
        yield Fact("models", usage_text(status))
    if status.stalls:
        lasted = f"{status.stalls:,} of {duration(status.stalled_seconds)} in all"
        yield Fact("stalls", f"{lasted}: a model could not be had; no trial was charged for them", "warn")
    if status.left:
        yield Fact("left", _remaining_text(status.left))
    for flight in status.flights[:_MOST_FLIGHTS]:
        yield Fact("running", running_trial_text(flight))
    if (more := len(status.flights) - _MOST_FLIGHTS) > 0:
        yield Fact("", f"and {more} more")
    yield Fact("criteria", status.criteria)


def _node_text(standing: AgainstBaseline, metric: str) -> str:
    text = f"{short_id(standing.node)}: {metric} {figure(standing.score)}"
    if standing.over_baseline is None:
        return f"{text}, the baseline itself"
    return f"{text}, {change_text(standing.over_baseline, 'the baseline')}"


def _noise(noise: NoiseFloor, metric: str) -> str:
    if not noise.sigma:
        return f"none seen in {plural(noise.measurements, 'measurement')}"
    measured = plural(noise.measurements, "measurement")
    return f"{metric} {deviation(noise.sigma, noise.percent)} ({measured} of the baseline)"


def _remaining_text(left: Remaining) -> str:
    parts = [plural(left.attempts, "attempt")]
    if left.wall_seconds is not None:
        parts.append(duration(left.wall_seconds))
    if left.tokens is not None:
        parts.append(plural(left.tokens, "token"))
    if left.money_usd is not None:
        parts.append(f"${left.money_usd:.2f}")
    return ", ".join(parts)
