"""Progress of `loopty run` while it runs: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Protocol, TextIO

from loopty.domain.ids import NodeId
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Pool, Verdict
from loopty.record.agent_accounts import AgentBenched, AgentPartEnded
from loopty.record.calls import STALLED, CallSettled
from loopty.record.fold import Recorded
from loopty.record.recorder import Recorder
from loopty.record.search_summary import RungChanged
from loopty.record.sessions import SessionStalled
from loopty.record.trials import TrialStarted
from loopty.record.verdicts import Incumbents, NodeJudged, VerdictWithdrawn
from loopty.show.agents import agent_stall_text
from loopty.show.figures import duration, node_name, rate
from loopty.show.live import (
    LatestRow,
    LiveProgress,
    Pace,
    Throughput,
    phase_text,
    pool_progress,
    remaining_seconds,
    slots_text,
)
from loopty.show.run_status import RunStatus, status
from loopty.show.running import PhaseName, run_phase
from loopty.show.score_text import ScoreText
from loopty.show.terminal import Outlet, Terminal, cut, printable_line

_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 5.0, 60.0
_LONGEST_REASON = 200
_SHORT_REASON = 80
"""For a reason that is printed in full when it ends the session."""


class PlainProgress:
    """Listens to a recorder. An event costs O(1)."""

    def __init__(
        self,
        recorder: Recorder,
        run: int,
        pools: Pools,
        out: TextIO,
        terminal: Terminal,
        clock: Callable[[], float],
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
        self._start = self._printed_at = clock()
        self._pace = Pace(self._start)
        self._failure = ""
        """Why the last model call gave no reply; empty if it gave one."""
        self._announced: set[tuple[PhaseName, NodeId]] = set()
        """The phases that were announced, each with the node that is measured."""
        self._reached: tuple[object, ...] = ()
        """What the last progress line said: without anything new there is no other."""

    def on_event(self, recorded: Recorded) -> None:
        self._pace.on_event(recorded)
        if isinstance(recorded.event, NodeJudged):
            self._say_verdict(recorded.event)
        elif isinstance(recorded.event, VerdictWithdrawn):
            self._say_withdrawal(recorded.event)
        elif isinstance(recorded.event, TrialStarted):
            self._say_phase()
        elif isinstance(recorded.event, RungChanged):
            self._say(f"switched to {recorded.event.name}: {cut(recorded.event.reason, _LONGEST_REASON)}")
        elif isinstance(recorded.event, AgentPartEnded) and recorded.event.stall:
            self._say(agent_stall_text(recorded.event))
        elif isinstance(recorded.event, AgentBenched):
            name, reason = recorded.event.configuration.name, cut(recorded.event.reason, _LONGEST_REASON)
            self._say(f"{name} is benched, because {reason}")
        elif isinstance(recorded.event, SessionStalled):
            self._say_stall(recorded.event.reason)
        elif isinstance(recorded.event, CallSettled) and _is_answer(recorded.event):
            self._say_failure(recorded.event.failure)
        self.tick()

    def tick(self) -> None:
        """Print a progress line if none was printed for a while; the longer the run, the longer the pause."""
        now = self._clock()
        pause = min(max((now - self._start) / 20, _MIN_PAUSE_SECONDS), _MAX_PAUSE_SECONDS)
        history = self._recorder.history
        # There is no run while a recorder that failed to write has not caught up yet.
        run = history.runs.get(self._run)
        if run and abs(now - self._printed_at) >= pause:
            self._printed_at = now
            current = status(
                history=history,
                run=run,
                now=now,
                is_alive=lambda _: True,
                pools=self._pools,
                trials_at_once=self._trials_at_once,
                noise=self._noise,
            )
            if (reached := _reached(current)) != self._reached:
                self._say(_progress_line(current, self._pace.throughput(now)))
                self._reached = reached

    def close(self) -> None:
        """Do nothing: every line is complete."""

    def _say_phase(self) -> None:
        """Announce a phase once, when it begins."""
        history = self._recorder.history
        run = history.runs[self._run]
        phase, best = run_phase(history, run, self._noise), Incumbents.of(run, Pool.ATTEMPT).best or run.root
        if phase is None or (phase.name, best) in self._announced:
            return
        self._announced.add((phase.name, best))
        if phase.name is PhaseName.BASELINE:
            self._say("measuring the baseline")
        else:
            pairs = f" in {phase.steps} fresh pairs" if phase.steps else ""
            self._say(f"confirming the gain over the baseline{pairs}")

    def _say_verdict(self, judged: NodeJudged) -> None:
        node = self._recorder.history[judged.node]
        tampered = node.outcome is not None and node.outcome.ending is Ending.TAMPERED
        rejected_by_verifier = node.review is not None and judged.verdict is Verdict.REJECTED
        if (
            tampered
            or rejected_by_verifier
            or judged.verdict in (Verdict.KEPT, Verdict.INCONCLUSIVE, Verdict.HELD)
        ):
            control = "" if node.pool is Pool.ATTEMPT else f" ({node.pool})"
            word = Ending.TAMPERED if tampered else judged.verdict
            reason = cut(judged.reason, _LONGEST_REASON)
            self._say(f"{word} {node.name}{control}: {reason}")

    def _say_withdrawal(self, withdrawal: VerdictWithdrawn) -> None:
        name = self._recorder.history.name(withdrawal.node)
        self._say(f"withdrawn {name}: {cut(withdrawal.why, _LONGEST_REASON)}")

    def _say_failure(self, failure: str) -> None:
        """Print a failure once until it changes: an unavailable model is asked again and again."""
        if failure and failure != self._failure:
            self._say(f"no reply from a model: {cut(failure, _SHORT_REASON)}")
        self._failure = failure

    def _say_stall(self, reason: str) -> None:
        """Print the reason unless the line before did; the closing lines print it in full."""
        is_known = bool(self._failure) and self._failure in reason
        self._say(f"stalled: {'a model is unavailable' if is_known else cut(reason, _LONGEST_REASON)}")

    def _say(self, text: str) -> None:
        self._out.write(self._terminal.render(printable_line(text)) + "\n")


def _is_answer(event: CallSettled) -> bool:
    """Say whether the call tells if a model replies; a stall of an agent is said with what follows from it."""
    return event.usage is not None and not event.failure.startswith(STALLED)


def _reached(status: RunStatus) -> tuple[object, ...]:
    """Return what has to change for another progress line."""
    best = status.best.node if status.best else None
    return best, tuple((count.pool, count.started) for count in status.counts if count.limit)


def _progress_line(status: RunStatus, throughput: Throughput) -> str:
    parts = [*([phase_text(status.phase)] if status.phase else []), pool_progress(status)]
    if status.best:
        text = ScoreText.of_run(status)
        better = f" ({text.change(status.best.over_baseline)})" if status.best.over_baseline else ""
        parts.append(
            f"best {node_name(status.best.node, status.best.handle)} {text.score(status.best.score)}{better}"
        )
    if busy := slots_text(status):
        parts.append(busy)
    if throughput.trials_per_second:
        parts.append(rate(throughput.trials_per_second))
    if (seconds := remaining_seconds(status, throughput)) is not None:
        parts.append(f"about {duration(seconds)} to go")
    return ", ".join(parts)


_SIZE_UNKNOWN = os.terminal_size((80, 24))


class Progress(Protocol):
    """Shows the progress of a run."""

    def on_event(self, recorded: Recorded) -> None:
        """Show what the event changes; a listener for `Recorder.listeners`."""
        ...

    def tick(self) -> None:
        """Call this a few times per second, so that times move on between events."""
        ...

    def close(self) -> None:
        """Erase what must not stay on the screen."""
        ...


def make_progress(
    recorder: Recorder,
    run: int,
    pools: Pools,
    out: TextIO,
    env: Mapping[str, str],
    clock: Callable[[], float],
    latest: LatestRow = lambda _: None,
    noise: Noise | None = None,
    trials_at_once: int = 1,
) -> Progress:
    """Make the progress display that suits the stream; `clock` is the recorder's."""
    terminal = Terminal.for_stream(out, env)
    if not out.isatty() or env.get("TERM") == "dumb":
        return PlainProgress(
            recorder=recorder,
            run=run,
            pools=pools,
            out=out,
            terminal=terminal,
            clock=clock,
            noise=noise,
            trials_at_once=trials_at_once,
        )

    def size() -> os.terminal_size:
        try:
            current = os.get_terminal_size(out.fileno())
        except OSError:
            return _SIZE_UNKNOWN
        return current if current.columns and current.lines else _SIZE_UNKNOWN

    return LiveProgress(
        recorder=recorder,
        run=run,
        pools=pools,
        out=out,
        terminal=terminal,
        clock=clock,
        size=size,
        latest=latest,
        noise=noise,
        trials_at_once=trials_at_once,
    )
