"""Scores a node by running the task's benchmark command in the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from loopty.core.curve import Row
from loopty.core.launch import Exit, Launch, Mount, Sandbox, Stop
from loopty.core.objective import Directions
from loopty.core.outcome import Ending, Outcome
from loopty.core.parts import Seen, Stage, Staging, Trial
from loopty.core.task import Benchmark, Limits
from loopty.evaluators import harvest, result, strict
from loopty.evaluators.metrics_csv import Stream
from loopty.evaluators.strict import Unreadable

_LOOK_SECONDS = 0.2
_READ_ONLY = "Read-only file system"
_RESULT, _METRICS, _STOP = "result.json", "metrics.csv", "stop"


class CommandEvaluator:
    """Stages a trial, runs the benchmark, follows its metrics, reads its result."""

    def __init__(
        self,
        benchmark: Benchmark,
        limits: Limits,
        sandbox: Sandbox,
        staging: Staging,
        tree: str,
        inbox: str,
        outbox: str,
        env: Mapping[str, str],
        mounts: Sequence[Mount],
    ) -> None:
        self._benchmark = benchmark
        self._limits = limits
        self._sandbox = sandbox
        self._staging = staging
        self._tree = tree
        self._inbox = inbox
        self._outbox = outbox
        self._env = env
        self._mounts = tuple(mounts)

    async def evaluate(self, trial: Trial, seen: Seen, cancel: asyncio.Event) -> Outcome:
        """Run the trial to its end; whatever the candidate does is an Outcome."""
        async with _in_thread(self._staging(trial)) as stage:
            watch = _Watch(stage, seen, self._benchmark.grace_seconds, cancel)
            following = asyncio.create_task(watch.follow())
            try:
                ended = await self._sandbox.run(self._launch(trial, stage), watch.kill)
            finally:
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await following
            watch.look()
            return self._outcome(stage, watch, ended, cancel.is_set())

    def _launch(self, trial: Trial, stage: Stage) -> Launch:
        return Launch(
            argv=self._benchmark.argv,
            cwd=self._tree,
            bounds=self._limits.bounds(self._benchmark.timeout_seconds),
            stdout=stage.folder / "stdout.log",
            stderr=stage.folder / "stderr.log",
            env={**self._env, **self._benchmark.env, **self._contract(trial)},
            mounts=(*self._mounts, *stage.mounts),
            scratch=tuple(f"{self._tree}/{path.strip('/')}" for path in self._benchmark.scratch),
            network=self._benchmark.network,
        )

    def _contract(self, trial: Trial) -> dict[str, str]:
        """The environment that every benchmark may rely on."""
        contract = {
            "EVO_TRACES_DIR": f"{self._outbox}/traces",
            "EVO_EXPERIMENT_ID": str(trial.node.id),
            "EVO_WORKTREE": self._tree,
            "EVO_ATTEMPT": str(trial.number),
            "EVO_CHECKPOINT_DIR": f"{self._outbox}/checkpoint",
            "LOOPTY_MODE": "attempt",
            "LOOPTY_PARAMS": f"{self._inbox}/params.json",
            "LOOPTY_METRICS_CSV": f"{self._outbox}/{_METRICS}",
            "LOOPTY_SEED": str(trial.seed),
            "LOOPTY_STOP_PATH": f"{self._inbox}/{_STOP}",
        }
        if self._benchmark.result == "file":
            contract["EVO_RESULT_PATH"] = f"{self._outbox}/{_RESULT}"
        return contract

    def _outcome(self, stage: Stage, watch: _Watch, ended: Exit, cancelled: bool) -> Outcome:
        def with_ending(ending: Ending, reason: str, metrics: Mapping[str, float] | None = None) -> Outcome:
            return Outcome(
                ending,
                metrics or {},
                watch.stream.directions if metrics else {},
                reason,
                round(ended.seconds, 6),
                self._sandbox.unenforced,
            )

        partial = watch.stream.rows[-1].metrics if watch.stream.rows else {}
        if watch.doomed:
            return with_ending(Ending.PRUNED, watch.doomed, partial)
        if ended.stop is Stop.CANCELLED or (cancelled and ended.stop is not None):
            return with_ending(Ending.CANCELLED, "stopped on request")
        if ended.stop is Stop.TIME:
            return with_ending(
                Ending.TIMED_OUT, f"still running after {self._benchmark.timeout_seconds:g} s", partial
            )
        if ended.stop is not None:
            return with_ending(Ending.FAILED, self._exceeded(ended.stop))
        if ended.code != 0:
            said = harvest.last_line(stage.folder / "stderr.log")
            hint = " (name directories to write to under benchmark.scratch)" if _READ_ONLY in said else ""
            return with_ending(Ending.FAILED, f"exit code {ended.code}" + (f": {said}{hint}" if said else ""))
        try:
            found = self._result(stage, watch)
        except Unreadable as error:
            return with_ending(Ending.FAILED, str(error))
        directions = {**watch.stream.directions, **found.directions}
        return Outcome(
            Ending.FINISHED, found.metrics, directions, "", round(ended.seconds, 6), self._sandbox.unenforced
        )

    def _result(self, stage: Stage, watch: _Watch) -> result.Result:
        """The result file, else the last row of the metrics; with both, the row's metrics come after the score."""
        if watch.broken:
            raise Unreadable(f"the metrics CSV {watch.broken}")
        row = dict(watch.stream.rows[-1].metrics) if watch.stream.rows else {}
        on_stdout = self._benchmark.result == "stdout"
        source = stage.folder / "stdout.log" if on_stdout else stage.outbox / _RESULT
        try:
            raw = strict.content(source, result.LARGEST_RESULT)
            if raw is None:
                if row:
                    return result.Result(row)
                raise Unreadable("was not written, and neither was the metrics CSV")
            found = result.parsed(raw)
        except Unreadable as error:
            raise Unreadable(f"{'stdout' if on_stdout else 'the result file'} {error}") from None
        harvest.published(stage.folder / _RESULT, raw)
        return result.Result({**found.metrics, **(row | found.metrics)}, found.directions)

    def _exceeded(self, stop: Stop) -> str:
        limits = self._limits
        return {
            Stop.MEMORY: f"used more than {limits.memory_mb} MB of memory",
            Stop.OUTPUT: f"printed more than {limits.output_mb} MB",
            Stop.DISK: f"wrote more than {limits.disk_mb} MB to disk",
        }[stop]


@contextlib.asynccontextmanager
async def _in_thread(staging: AbstractContextManager[Stage]) -> AsyncIterator[Stage]:
    """The stage, made and taken down beside the event loop: git and the disk would hold it up."""
    stage = await asyncio.to_thread(staging.__enter__)
    try:
        yield stage
    finally:
        await asyncio.to_thread(staging.__exit__, None, None, None)


class _Watch:
    """Follows the metrics of one running trial, and ends it when it is doomed or cancelled."""

    def __init__(self, stage: Stage, seen: Seen, grace_seconds: float, cancel: asyncio.Event) -> None:
        self._stage = stage
        self._seen = seen
        self._grace_seconds = grace_seconds
        self._cancel = cancel
        (stage.folder / _METRICS).unlink(missing_ok=True)  # an earlier trial that was cancelled may have left it
        self.stream = Stream(stage.outbox / _METRICS, copy=stage.folder / _METRICS)
        self._traces = harvest.Traces(stage.outbox / "traces", stage.folder / "traces")
        self.kill = asyncio.Event()
        self.doomed = ""
        self.broken = ""

    async def follow(self) -> None:
        """Look until the trial is over; the caller cancels this. Whatever ends it, the trial is not left alone."""
        try:
            await self._follow()
        finally:
            self.kill.set()

    async def _follow(self) -> None:
        condemned_at = 0.0
        while not self._cancel.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._cancel.wait(), _LOOK_SECONDS)
            if not self.doomed and self.look() and (reason := self._ask()):
                self.doomed = reason
                (self._stage.inbox / _STOP).touch()
                condemned_at = time.monotonic()
            if self.doomed and time.monotonic() - condemned_at >= self._grace_seconds:
                return

    def look(self) -> bool:
        """Take in what the trial has said since; whether there are new metrics."""
        self._traces.look()
        if self.broken:
            return False
        try:
            return self.stream.look()
        except Unreadable as error:
            self.broken = str(error)
            return False

    def _ask(self) -> str | None:
        return self._seen(self.stream.rows, self.stream.directions)


def curve(folder: Path) -> tuple[Sequence[Row], Directions]:
    """The learning curve in a node's folder."""
    stream = Stream(folder / _METRICS)
    with contextlib.suppress(Unreadable):
        stream.look()
    return stream.rows, stream.directions
