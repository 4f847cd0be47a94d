"""Progress without a terminal: a line for each node worth a look, and a sign of life now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from loopty.domain.outcome import Ending, Verdict
from loopty.domain.pool import Pool
from loopty.domain.task import Pools
from loopty.record.calls import CallSettled
from loopty.record.event import Recorded
from loopty.record.recorder import Recorder
from loopty.record.rungs import RungChanged
from loopty.record.sessions import SessionStalled
from loopty.record.verdicts import NodeJudged
from loopty.report.columns import cut, printable_line, short_id
from loopty.report.figures import change_figure, duration, figure, plural, rate
from loopty.report.live_frame import pool_progress, remaining_seconds
from loopty.report.outlet import Outlet
from loopty.report.pace import Pace, Throughput
from loopty.report.terminal import Terminal
from loopty.views.run_status import RunStatus, status

_LEAST_SECONDS, _MOST_SECONDS = 5.0, 60.0
_LONGEST_REASON = 200
_SHORT_REASON = 80
"""Of what is told whole when the session ends for it."""


class PlainProgress:
    """Listens to a recorder. Hearing an event costs O(1)."""

    def __init__(
        self, recorder: Recorder, run: int, pools: Pools, out: TextIO, look: Terminal, clock: Callable[[], float]
    ) -> None:
        self._recorder = recorder
        self._run = run
        self._pools = pools
        self._out = Outlet(out)
        self._look = look
        self._clock = clock
        self._began = self._said_at = clock()
        self._pace = Pace(self._began)
        self._failure = ""
        """Why the last call of a model gave no reply."""

    def on_event(self, recorded: Recorded) -> None:
        self._pace.on_event(recorded)
        if isinstance(recorded.event, NodeJudged):
            self._say_verdict(recorded.event)
        elif isinstance(recorded.event, RungChanged):
            self._say(f"on to {recorded.event.name}: {cut(recorded.event.reason, _LONGEST_REASON)}")
        elif isinstance(recorded.event, SessionStalled):
            self._say_stall(recorded.event.reason)
        elif isinstance(recorded.event, CallSettled) and recorded.event.usage:
            self._say_failure(recorded.event.failure)
        self.tick()

    def tick(self) -> None:
        """Say that it goes on if nothing was said for a while; the longer it goes on, the more rarely."""
        now = self._clock()
        pause = min(max((now - self._began) / 20, _LEAST_SECONDS), _MOST_SECONDS)
        history = self._recorder.history
        # There is no run while a recorder whose write failed has yet to catch up.
        run = history.runs.get(self._run)
        if run and abs(now - self._said_at) >= pause:
            found = status(history, run, now, lambda _: True, self._pools)
            self._say(_progress_line(found, self._pace.throughput(now)))
            self._said_at = now

    def close(self) -> None:
        """Nothing is left to say."""

    def _say_verdict(self, judged: NodeJudged) -> None:
        node = self._recorder.history[judged.node]
        tampered = node.outcome is not None and node.outcome.ending is Ending.TAMPERED
        vetoed = node.review is not None and judged.verdict is Verdict.REJECTED
        if tampered or vetoed or judged.verdict in (Verdict.KEPT, Verdict.INCONCLUSIVE):
            control = " (control)" if node.pool is Pool.CONTROL else ""
            word = Ending.TAMPERED if tampered else judged.verdict
            self._say(f"{word} {short_id(node.id)}{control}: {cut(judged.reason, _LONGEST_REASON)}")

    def _say_failure(self, failure: str) -> None:
        """Once for as long as it stays the same: a model that is out is asked again and again."""
        if failure and failure != self._failure:
            self._say(f"no reply of a model: {cut(failure, _SHORT_REASON)}")
        self._failure = failure

    def _say_stall(self, reason: str) -> None:
        """Without the reason where the line before has told it: what the session ends with tells it whole."""
        told = bool(self._failure) and self._failure in reason
        self._say(f"stalled: {'a model could not be had' if told else cut(reason, _LONGEST_REASON)}")

    def _say(self, text: str) -> None:
        self._out.write(self._look.render(printable_line(text)) + "\n")


def _progress_line(status: RunStatus, tempo: Throughput) -> str:
    parts = [pool_progress(status)]
    if status.best:
        better = f" ({change_figure(status.best.over_baseline)})" if status.best.over_baseline else ""
        parts.append(f"best {short_id(status.best.node)} {figure(status.best.score)}{better}")
    if status.asking:
        parts.append(f"{plural(status.asking, 'call')} of a model in flight")
    if tempo.trials_per_second:
        parts.append(rate(tempo.trials_per_second))
    if (seconds := remaining_seconds(status, tempo)) is not None:
        parts.append(f"about {duration(seconds)} to go")
    return ", ".join(parts)
