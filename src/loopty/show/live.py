"""The live display: a few lines on a terminal that redraw themselves, with the pace of the run."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import TextIO

from loopty.domain.ids import NodeId
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Pool, Row, Verdict
from loopty.kit.records import Record
from loopty.record.calls import CallSettled
from loopty.record.fold import Recorded
from loopty.record.recorder import Recorder
from loopty.record.trials import TrialEnded
from loopty.record.verdicts import NodeJudged
from loopty.show.figures import duration, figure, node_name, plural, rate
from loopty.show.run_status import RunStatus, status
from loopty.show.running import PhaseName, RunningTrialRow, RunPhase
from loopty.show.score_text import ScoreText
from loopty.show.terminal import Outlet, Terminal, control_code, cut, width

_MEMORY = 64


class Throughput(Record):
    """Rates of trials and verdicts; None before the first one."""

    trials_per_second: float | None
    verdicts_per_second: float | None


class Pace:
    """Counts from `start`, later over the last few events.

    The rate falls once nothing has happened for longer than usual.
    """

    def __init__(self, start: float) -> None:
        self._trials: deque[float] = deque([start], maxlen=_MEMORY)
        self._verdicts: deque[float] = deque([start], maxlen=_MEMORY)

    def on_event(self, recorded: Recorded) -> None:
        match recorded.event:
            case NodeJudged(node=node) if node.parent:  # nobody proposed the baseline: it says nothing of the pace
                self._verdicts.append(recorded.at)
            case TrialEnded(outcome=outcome) if outcome.ending is not Ending.CANCELLED:
                self._trials.append(recorded.at)

    def throughput(self, now: float) -> Throughput:
        return Throughput(_per_second(self._trials, now), _per_second(self._verdicts, now))


def _per_second(times: deque[float], now: float) -> float | None:
    start, last, count = times[0], times[-1], len(times) - 1
    if not count or last <= start:
        return None
    usual = (last - start) / count
    return count / (last - start + max(now - last - usual, 0.0))


LatestRow = Callable[[NodeId], Row | None]
"""Returns the newest row of a running trial's metrics stream, or None."""

_WIDEST_BAR = 30
_NARROWEST_BAR = 8
_MAX_TRIALS = 4
_STYLES = {Verdict.KEPT: "good", Verdict.INCONCLUSIVE: "warn", Verdict.HELD: "warn", Verdict.REJECTED: "bad"}


class FrameLine(Record):
    """One line of the display."""

    text: str
    style: str = ""


def frame(
    status: RunStatus,
    throughput: Throughput,
    last: NodeJudged | None,
    last_handle: int,
    latest: LatestRow,
    columns: int,
) -> list[FrameLine]:
    """Return the lines of the display, at most this many columns wide, the most important first."""
    lines = [_bar(status, columns), _best(status)]
    if status.phase and status.phase.name is PhaseName.CONFIRMATION:
        lines.append(FrameLine(phase_text(status.phase)))
    lines.append(FrameLine(", ".join(_times(status, throughput))))
    if last:
        style = _STYLES.get(last.verdict, "dim")
        name = node_name(last.node, last_handle)
        lines.append(FrameLine(f"last {name} {last.verdict}: {last.reason}", style))
    lines += [FrameLine(_running_line(trial, latest(trial.node)), "dim") for trial in status.running[:_MAX_TRIALS]]
    if busy := slots_text(status):
        lines.append(FrameLine(busy, "dim"))
    if (more := len(status.running) - _MAX_TRIALS) > 0:
        lines.append(FrameLine(f"and {more} more running", "dim"))
    return [FrameLine(cut(line.text, columns), line.style) for line in lines]


def running_trial_text(trial: RunningTrialRow) -> str:
    """Describe the trial. A repeat names the node it serves, not which node of the pair is being measured."""
    age = f"for {duration(trial.age_seconds)}"
    if trial.repeat is None:
        pool = "" if trial.pool is Pool.ATTEMPT else f" ({trial.pool})"
        return f"{node_name(trial.node, trial.handle)}{pool} {age}"
    repeat = trial.repeat
    what = f"measurement {repeat.number}"
    if repeat.rival:
        what = f"pair {repeat.number} against {node_name(repeat.rival, repeat.rival_handle)}"
    return f"{node_name(repeat.subject, repeat.subject_handle)} again, {what}, {age}"


def phase_text(phase: RunPhase) -> str:
    """`measuring the baseline: 2 of 3`, `confirming the gain over the baseline: pair 4 of 10`."""
    step = f"{phase.step}" + (f" of {phase.steps}" if phase.steps else "")
    if phase.name is PhaseName.BASELINE:
        return f"measuring the baseline: {step}"
    return f"confirming the gain over the baseline: pair {step}"


def slots_text(status: RunStatus) -> str:
    """`1/1 trial slots and 0/1 model slots busy`, where a model proposes; otherwise the model calls in flight."""
    if slots := status.slots:
        trials, models = f"{slots.running}/{slots.trials}", f"{slots.asking}/{slots.questions}"
        return f"{trials} trial slots and {models} model slots busy"
    return f"{plural(status.asking, 'model call')} in flight" if status.asking else ""


def pool_progress(status: RunStatus) -> str:
    """Say how much of each pool is spent: `57/150 attempts, 12/40 controls`."""
    return ", ".join(
        f"{count.started:,}/{count.limit:,} {count.pool}s" for count in status.counts if count.limit
    ) or plural(status.count(Pool.ATTEMPT).started, "attempt")


def remaining_seconds(status: RunStatus, throughput: Throughput) -> float | None:
    """Estimate the time until pools or wall clock are spent at this pace; None if unknown, as in a pause."""
    if status.is_paused:
        return None
    estimates = []
    if throughput.verdicts_per_second:
        limited = [count for count in status.counts if count.pool.rules.searches and count.limit]
        todo = sum(max((count.limit or 0) - count.started, 0) for count in limited)
        estimates.append((todo + len(status.running)) / throughput.verdicts_per_second)
    if status.left and status.left.wall_seconds is not None:
        estimates.append(status.left.wall_seconds)
    return min(estimates, default=None)


def _bar(status: RunStatus, columns: int) -> FrameLine:
    done = pool_progress(status)
    attempts = status.count(Pool.ATTEMPT)
    room = min(columns - len(done) - 1, _WIDEST_BAR)
    if not attempts.limit or room < _NARROWEST_BAR:
        return FrameLine(done, "strong")
    ended = attempts.started - sum(trial.pool is Pool.ATTEMPT for trial in status.running)
    filled = room * min(max(ended, 0), attempts.limit) // attempts.limit
    return FrameLine("█" * filled + "░" * (room - filled) + " " + done, "strong")


def _best(status: RunStatus) -> FrameLine:
    if status.baseline is None or status.best is None:
        return FrameLine(phase_text(status.phase) if status.phase else "measuring the baseline")
    text = ScoreText.of_run(status)
    baseline = text.baseline_words(status)
    if status.best.over_baseline is None:
        return FrameLine(f"nothing better than {baseline} yet")
    name, score = node_name(status.best.node, status.best.handle), text.score(status.best.score)
    change = text.change_words(status.best.over_baseline, baseline)
    return FrameLine(f"best {name}: {change}; {status.metric} {score}", "best")


def _times(status: RunStatus, throughput: Throughput) -> Iterator[str]:
    if throughput.trials_per_second:
        yield rate(throughput.trials_per_second)
    yield f"{duration(status.elapsed_seconds)} so far"
    if (seconds := remaining_seconds(status, throughput)) is not None:
        yield f"about {duration(seconds)} to go"
    if status.left and status.left.money_usd is not None:
        yield f"${status.left.money_usd:.2f} left"
    if status.left and status.left.tokens is not None:
        yield f"{status.left.tokens:,} tokens left"
    elif status.tokens:
        yield plural(status.tokens, "token")
    if status.refusals:
        yield f"{status.refusals:,} refused"


def _running_line(trial: RunningTrialRow, row: Row | None) -> str:
    text = f"running {running_trial_text(trial)}"
    if row is None:
        return text
    values = " ".join(f"{name} {figure(value)}" for name, value in row.metrics.items())
    return f"{text}: step {figure(row.step)} {values}"


_SECONDS_BETWEEN_FRAMES = 0.25


class LiveProgress:
    """Listens to a recorder. An event costs O(1); drawing is limited to a few frames per second."""

    def __init__(
        self,
        recorder: Recorder,
        run: int,
        pools: Pools,
        out: TextIO,
        terminal: Terminal,
        clock: Callable[[], float],
        size: Callable[[], os.terminal_size],
        latest: LatestRow,
        noise: Noise | None = None,
        trials_at_once: int = 1,
    ) -> None:
        self._recorder = recorder
        self._run = run
        self._pools = pools
        self._noise = noise
        self._trials_at_once = trials_at_once
        self._out = Outlet(out)
        self._terminal = terminal
        self._clock = clock
        self._size = size
        self._latest = latest
        self._pace = Pace(clock())
        self._last: NodeJudged | None = None
        self._failure = ""
        """Why the last model call gave no reply; empty if it gave one."""
        self._drawn_at = 0.0
        self._line_widths: list[int] = []
        """The widths of the lines on the screen."""

    def on_event(self, recorded: Recorded) -> None:
        self._pace.on_event(recorded)
        if isinstance(recorded.event, NodeJudged):
            self._last = recorded.event
        elif isinstance(recorded.event, CallSettled) and recorded.event.usage:
            self._failure = recorded.event.failure
        self.tick()

    def tick(self) -> None:
        """Draw a frame if it is due."""
        now = self._clock()
        if abs(now - self._drawn_at) >= _SECONDS_BETWEEN_FRAMES:
            self._draw(now)

    def close(self) -> None:
        """Erase the display."""
        self._out.write(self._erase_code(self._size().columns))
        self._line_widths = []

    def _draw(self, now: float) -> None:
        history = self._recorder.history
        run = history.runs.get(self._run)
        if run is None:
            return  # a write failed, and the recorder has not caught up yet
        size = self._size()
        # The last column stays free: some terminals wrap when it is filled.
        columns = max(size.columns - 1, 1)
        current = status(
            history=history,
            run=run,
            now=now,
            is_alive=lambda _: True,
            pools=self._pools,
            trials_at_once=self._trials_at_once,
            noise=self._noise,
        )
        handle = history.handle(self._last.node) if self._last else 0
        lines = frame(current, self._pace.throughput(now), self._last, handle, self._latest, columns)
        if self._failure:
            lines.append(FrameLine(cut(f"no reply from a model: {self._failure}", columns), "warn"))
        lines = lines[: max(size.lines - 1, 1)]
        text = "".join(self._terminal.paint(line.text, line.style) + "\n" for line in lines)
        self._out.write(self._erase_code(size.columns) + self._terminal.render(text))
        self._line_widths = [width(line.text) for line in lines]
        self._drawn_at = now

    def _erase_code(self, columns: int) -> str:
        """Return the escape code that clears the drawn lines; a terminal that became narrower has wrapped them."""
        rows = sum(max(-(-line_width // max(columns, 1)), 1) for line_width in self._line_widths)
        return f"{control_code(str(rows))}F{control_code('J')}" if rows else ""
