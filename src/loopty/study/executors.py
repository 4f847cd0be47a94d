"""Where trials of a study run: in this process, in processes forked from it, or wherever `ask` hands them to."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import math
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from msgspec import MsgspecError, msgpack

from loopty.domain.objective import SCORE, Direction
from loopty.domain.space import Parameter, Space, Value
from loopty.domain.trial import Ending, Machine, Outcome, Row
from loopty.engine.protocols import OnMetrics
from loopty.engine.protocols import Trial as EngineTrial
from loopty.kit.records import Record, replace
from loopty.study.calls import Objective, call_objective, outcome_of_value
from loopty.study.trial import Trial, directions_of

# Results of a function are compared wherever its folder goes: only the caller knows what they depend on.
_MACHINE = Machine({"runs": "a function of the caller's"})
_STOPPED = "stopped on request"
_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
_MOST_BYTES = 1 << 24
_SIZE_BYTES = 4
"""Each message of a process begins with its length."""
_LAST_SECONDS = 0.2
"""How long a process that closed its pipe may take to end."""


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


Restrict = Callable[[int], None]
"""Confines a process that needs one descriptor of its own."""


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
        restrict: Restrict | None = None,
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
                call.cancel()
                await asyncio.wait({call})  # it reads from a descriptor that another worker may get next
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


class _Reports(Record, tag="reports"):
    """What a process says of a trial that runs: its reports so far."""

    rows: list[Row]


class _Result(Record, tag="result"):
    """What a process says of a trial that ended.

    It comes from code that may be hostile, so nothing is unpickled, and values are checked again.
    """

    ending: Ending
    metrics: Mapping[str, float]
    reason: str
    seconds: float
    step: float | None
    error_lines: tuple[str, ...]
    params: dict[str, Value]
    suggested: dict[str, Parameter]
    reports: list[Row]

    @classmethod
    def of(cls, outcome: Outcome, handle: Trial) -> _Result:
        params = handle.used_params() or {}
        return cls(
            outcome.ending,
            outcome.metrics,
            outcome.reason,
            outcome.seconds,
            outcome.step,
            outcome.error_lines,
            params,
            handle.suggested,
            handle.reports,
        )

    def put_into(self, handle: Trial) -> Outcome:
        """Complete the trial; returns its outcome. Raises ValueError for what no objective can have done."""
        _check_rows(self.reports)
        for name, parameter in self.suggested.items():
            if parameter.when or parameter.fault() or name not in self.params:
                raise ValueError(f"parameter {name} cannot be")
        if self.ending not in (Ending.FINISHED, Ending.FAILED, Ending.PRUNED):
            raise ValueError(f"no trial of a process ends as {self.ending}")
        if not math.isfinite(self.seconds + (self.step or 0.0)):
            raise ValueError("a time or a step is no number")
        if self.metrics and not outcome_of_value(self.metrics, handle).is_finished:
            raise ValueError("a metric is no number")
        handle.params.update(self.params)
        handle.suggested, handle.reports = self.suggested, self.reports
        return Outcome(
            self.ending,
            self.metrics,
            reason=self.reason,
            seconds=self.seconds,
            step=self.step,
            error_lines=self.error_lines,
        )


def _check_rows(rows: list[Row]) -> None:
    if any(row.metrics.keys() != {SCORE} or not math.isfinite(row.step + row.metrics[SCORE]) for row in rows):
        raise ValueError("a report is no score")


_MESSAGES: msgpack.Decoder[_Reports | _Result] = msgpack.Decoder(_Reports | _Result)


class _Worker:
    """One process that calls the objective for one trial after the other."""

    def __init__(self, objective: Objective, restrict: Restrict | None) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        serve = (theirs, objective, restrict, os.getpid())
        self._process: BaseProcess = context.Process(target=_serve, args=serve, daemon=True)
        self._process.start()
        theirs.close()
        self._fault = ""

    async def call(self, handle: Trial, on_metrics: OnMetrics) -> Outcome | None:
        """Return the outcome of the trial; None if the process died."""
        parameters = dict(handle._space.parameters)
        first = (handle.name, handle.number, handle.params, parameters, handle.generator.getstate(), handle.folder)
        try:
            self._pipe.send(first)
            while True:
                said = _MESSAGES.decode(await self._receive())
                if isinstance(said, _Result):
                    return said.put_into(handle)
                _check_rows(said.rows)
                self._pipe.send(on_metrics(said.rows, {}))
        except (EOFError, OSError):
            return None
        except (MsgspecError, ValueError, ArithmeticError, RecursionError):
            self._fault = "its process sent what is no result"
            return None

    async def _receive(self) -> bytes:
        """Return the next message. Half a message keeps nothing from its time limit: no read waits."""
        size = int.from_bytes(await self._read(_SIZE_BYTES), "big")
        if not 0 < size <= _MOST_BYTES:
            raise ValueError("no message has this length")
        return await self._read(size)

    async def _read(self, size: int) -> bytes:
        loop, pipe, read = asyncio.get_running_loop(), self._pipe.fileno(), bytearray()
        whole: asyncio.Future[bytes] = loop.create_future()

        def take() -> None:
            if whole.done():
                return
            try:
                part = os.read(pipe, size - len(read))
            except OSError:  # the process was killed, and left what it had not read
                part = b""
            read.extend(part)
            if not part or len(read) == size:
                whole.set_result(bytes(read))

        loop.add_reader(pipe, take)
        try:
            if len(found := await whole) < size:
                raise EOFError
            return found
        finally:
            loop.remove_reader(pipe)

    def end(self) -> str:
        """End the process; says how it had ended, if it had."""
        last = time.monotonic() + _LAST_SECONDS
        # `join` with a limit waits for ever once the process has closed its other descriptors.
        while (code := self._process.exitcode) is None and not self._fault and time.monotonic() < last:
            time.sleep(_LAST_SECONDS / 50)
        if code is None:
            self._process.kill()
            self._process.join()
        self._pipe.close()
        if self._fault:
            return self._fault
        if code is not None and code < 0:
            return f"its process was ended by signal {-code} ({_signal_name(-code)})"
        return f"its process exited with status {code}" if code is not None else "its process closed its pipe"


def _signal_name(number: int) -> str:
    """Return its name; signals of real time have none."""
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return "a signal of real time"


def _serve(pipe: Connection, objective: Objective, restrict: Restrict | None, parent: int) -> None:
    """Call the objective for each trial that comes; in the forked process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, and the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        return
    if restrict:
        restrict(pipe.fileno())

    def ask(rows: Any) -> str | None:
        _send(pipe, msgpack.encode(_Reports(list(rows))))
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
        try:
            message = msgpack.encode(_Result.of(outcome, handle))
        except (TypeError, ValueError, OverflowError) as error:
            reason = f"its result cannot be sent to the parent process: {error}"
            bare = Trial(name, number, params, Space({}), seed="")
            message = msgpack.encode(_Result.of(Outcome(Ending.FAILED, reason=reason), bare))
        _send(pipe, message)


def _send(pipe: Connection, message: bytes) -> None:
    rest = memoryview(len(message).to_bytes(_SIZE_BYTES, "big") + message)
    while rest:
        rest = rest[os.write(pipe.fileno(), rest) :]


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

    @property
    def names_out(self) -> list[str]:
        """List the trials that somebody works on."""
        return list(self._answers)

    def is_out(self, name: str) -> bool:
        """Say whether somebody works on the trial with this name."""
        return name in self._answers

    def answer(self, name: str, outcome: Outcome) -> None:
        """End the trial with this name."""
        self._answers[name].set_result(outcome)
