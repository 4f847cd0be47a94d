"""Where trials of a study run: in this process, in processes forked from it, or wherever `ask` hands them to."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from loopty.domain.objective import Direction
from loopty.domain.space import Space
from loopty.domain.trial import Ending, Machine, Outcome
from loopty.engine.protocols import OnMetrics
from loopty.engine.protocols import Trial as EngineTrial
from loopty.kit.records import replace
from loopty.study.calls import Objective, call_objective
from loopty.study.trial import Trial, directions_of

# Results of a function are compared wherever its folder goes: only the caller knows what they depend on.
_MACHINE = Machine({"runs": "a function of the caller's"})
_STOPPED = "stopped on request"
_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def _measured(outcome: Outcome) -> Outcome:
    return replace(outcome, fingerprint=_MACHINE.fingerprint)


LayOut = Callable[[EngineTrial, Path], None]
"""Writes the files of a trial into an empty folder."""
OnEnd = Callable[[EngineTrial, Trial], None]
"""Called with every trial when its objective has returned, before its outcome is recorded."""


class TrialMaker:
    """Makes the caller's trials from those of the engine, and notes what became of them."""

    def __init__(
        self, space: Space, direction: Direction, seed: int, on_end: OnEnd, lay_out: LayOut | None = None
    ) -> None:
        """With `lay_out`, each trial has a folder with the files of its node."""
        self.space = space
        self.on_end = on_end
        self._directions = directions_of(direction)
        self._seed = seed
        self._lay_out = lay_out

    @contextlib.contextmanager
    def trial(self, trial: EngineTrial, on_metrics: OnMetrics) -> Iterator[Trial]:
        """Make the trial; its folder goes at the end of the block."""
        with contextlib.ExitStack() as stack:
            folder = None
            if self._lay_out:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="loopty-trial-")))
                self._lay_out(trial, folder)
            yield Trial(
                trial.node.name,
                number=trial.node.order - 1,
                params=trial.node.params,
                space=self.space,
                seed=f"{self._seed} {trial.node.id} {trial.number}",
                should_stop=lambda rows: on_metrics(rows, self._directions),
                folder=folder,
            )


class InProcess:
    """Calls the objective in this process, one trial after the other; an async objective is awaited."""

    machine = _MACHINE

    def __init__(self, objective: Objective, maker: TrialMaker, stop: Callable[[], None], width: int = 1) -> None:
        """`stop` asks the session to end; called when the user interrupts a trial."""
        self.width = width
        self.is_calling = False
        self._objective = objective
        self._maker = maker
        self._stop = stop

    async def execute(self, trial: EngineTrial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
        if cancel.is_set():
            return Outcome(Ending.CANCELLED, reason=_STOPPED)
        with self._maker.trial(trial, on_metrics) as handle:
            self.is_calling = True
            try:
                called = call_objective(self._objective, handle)
            except KeyboardInterrupt:
                self._stop()
                return Outcome(Ending.CANCELLED, reason=_STOPPED)
            finally:
                self.is_calling = False
            outcome = called if isinstance(called, Outcome) else await _until(called, cancel)
            self._maker.on_end(trial, handle)
            return _measured(outcome)


async def _until(called: Any, cancel: asyncio.Event) -> Outcome:
    """Await an async objective, or cancel it when the session is stopped."""
    work, stop = asyncio.ensure_future(called), asyncio.ensure_future(cancel.wait())
    try:
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else Outcome(Ending.CANCELLED, reason=_STOPPED)
    finally:
        work.cancel()
        stop.cancel()


class Processes:
    """Calls the objective in processes forked from this one, so it need not be importable.

    A process that dies is a failed trial, and another one takes its place. Each sees what this process had in
    memory when it was started.
    """

    machine = _MACHINE

    def __init__(
        self,
        objective: Objective,
        maker: TrialMaker,
        width: int,
        seconds: float | None = None,
        restrict: Callable[[], None] | None = None,
    ) -> None:
        """`seconds` is the limit of one trial; `restrict` is called in each process before anything else."""
        self.width = width
        self._objective = objective
        self._maker = maker
        self._seconds = seconds
        self._restrict = restrict
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()

    async def execute(self, trial: EngineTrial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
        worker = self._idle.pop() if self._idle else self._start()
        with self._maker.trial(trial, on_metrics) as handle:
            call = asyncio.ensure_future(worker.call(handle, on_metrics))
            stop = asyncio.ensure_future(cancel.wait())
            try:
                await asyncio.wait({call, stop}, return_when=asyncio.FIRST_COMPLETED, timeout=self._seconds)
                if call.done() and (outcome := call.result()):
                    self._idle.append(worker)
                    self._maker.on_end(trial, handle)
                    return _measured(outcome)
                if call.done():
                    return _measured(Outcome(Ending.FAILED, reason=self._end(worker)))
                self._end(worker)
                if stop.done():
                    return Outcome(Ending.CANCELLED, reason=_STOPPED)
                return _measured(Outcome(Ending.TIMED_OUT, reason=f"no result within {self._seconds:g} s"))
            finally:
                call.cancel()
                stop.cancel()

    def close(self) -> None:
        """End all processes."""
        for worker in list(self._all):
            self._end(worker)

    def _start(self) -> _Worker:
        worker = _Worker(self._objective, self._restrict)
        self._all.add(worker)
        return worker

    def _end(self, worker: _Worker) -> str:
        self._all.discard(worker)
        return worker.end()


class _Worker:
    """One process that calls the objective for one trial after the other."""

    def __init__(self, objective: Objective, restrict: Callable[[], None] | None) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        serve = (theirs, objective, restrict, os.getpid())
        self._process: BaseProcess = context.Process(target=_serve, args=serve, daemon=True)
        self._process.start()
        theirs.close()

    async def call(self, handle: Trial, on_metrics: OnMetrics) -> Outcome | None:
        """Return the outcome of the trial; None if the process died."""
        parameters = dict(handle._space.parameters)
        first = (handle.name, handle.number, handle.params, parameters, handle.generator.getstate(), handle.folder)
        try:
            self._pipe.send(first)
            while True:
                kind, value = await self._receive()
                if kind == "end":
                    outcome, handle.params, handle.suggested, handle.reports = value
                    return outcome  # type: ignore[no-any-return]
                rows, directions = value
                self._pipe.send(on_metrics(rows, directions))
        except (EOFError, OSError):
            return None

    async def _receive(self) -> Any:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._pipe.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._pipe.fileno())
        return self._pipe.recv()

    def end(self) -> str:
        """End the process; says how it had ended, if it had."""
        self._process.join(0.2)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            self._process.join()
        self._pipe.close()
        if code is not None and code < 0:
            return f"its process was ended by signal {-code} ({signal.Signals(-code).name})"
        return f"its process exited with status {code}" if code is not None else "its process closed its pipe"


def _serve(pipe: Connection, objective: Objective, restrict: Callable[[], None] | None, parent: int) -> None:
    """Call the objective for each trial that comes; in the forked process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, and the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        return
    if restrict:
        restrict()

    def ask(rows: Any) -> str | None:
        pipe.send(("rows", (list(rows), {})))
        answer: str | None = pipe.recv()
        return answer

    while True:
        try:
            name, number, params, parameters, state, folder = pipe.recv()
        except EOFError:
            return
        handle = Trial(name, number, params, Space(parameters), seed="", should_stop=ask, folder=folder)
        handle.generator.setstate(state)
        called = call_objective(objective, handle)
        outcome = called if isinstance(called, Outcome) else asyncio.run(_alone(called))
        pipe.send(("end", (outcome, handle.params, handle.suggested, handle.reports)))


async def _alone(called: Any) -> Outcome:
    outcome: Outcome = await called
    return outcome


class HandOver:
    """Hands trials to whoever asks, and waits until they are told."""

    machine = _MACHINE

    def __init__(self, maker: TrialMaker) -> None:
        self._maker = maker
        self._waiting: asyncio.Queue[Trial] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[Outcome]] = {}
        self.asked = 0
        """How many trials are wanted or out."""

    @property
    def width(self) -> int:
        return max(self.asked, 1)

    async def execute(self, trial: EngineTrial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
        with self._maker.trial(trial, on_metrics) as handle:
            answer = self._answers[handle.name] = asyncio.get_running_loop().create_future()
            self._waiting.put_nowait(handle)
            stop = asyncio.ensure_future(cancel.wait())
            try:
                await asyncio.wait({answer, stop}, return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    return Outcome(Ending.CANCELLED, reason=_STOPPED)
                self._maker.on_end(trial, handle)
                return _measured(answer.result())
            finally:
                stop.cancel()
                self._answers.pop(handle.name, None)

    async def next(self) -> Trial:
        """Return the next trial, as soon as there is one."""
        return await self._waiting.get()

    def is_out(self, name: str) -> bool:
        """Say whether somebody works on the trial with this name."""
        return name in self._answers

    def answer(self, name: str, outcome: Outcome) -> None:
        """End the trial with this name."""
        self._answers[name].set_result(outcome)
