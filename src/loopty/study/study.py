"""A study: a function, or trials that the caller asks for and tells, driven by the loop of every campaign."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from loopty.campaign.optimize import OptimizeSession, start_session
from loopty.domain.declared_types import cut_words
from loopty.domain.errors import Misuse
from loopty.domain.objective import SCORE, Direction
from loopty.domain.space import Parameter, Space
from loopty.domain.task import Noise, PluginChoice, Pools, Task
from loopty.domain.trial import Ending, Outcome, Pool
from loopty.engine.budget import Finish, session_seconds
from loopty.engine.protocols import Executor
from loopty.engine.protocols import Trial as EngineTrial
from loopty.git.objects import REGULAR_FILES
from loopty.git.repository import Repository
from loopty.kit.process import at_work_end
from loopty.kit.records import Record, fields_of, replace
from loopty.kit.safe_folder import keep_open
from loopty.record.fold import Recorded
from loopty.record.history import History
from loopty.record.nodes import NodeSealed
from loopty.record.trials import TrialEnded
from loopty.record.verdicts import has_failed
from loopty.session.context import CampaignContext
from loopty.session.trust import TaskHere
from loopty.study.calls import Objective
from loopty.study.executors import HandOver, InProcess, Processes, TrialMaker
from loopty.study.files import StudyFiles
from loopty.study.folder import REFUSAL, SOURCE_FILE, has_task, is_study, source_text, write_folder
from loopty.study.pictures import Plots
from loopty.study.progress import make_progress
from loopty.study.results import (
    FinishedTrial,
    best_of,
    count_before,
    frame_of,
    rows_of,
    runs_of_study,
    table_html,
    trials_of,
)
from loopty.study.spaces import table_of
from loopty.study.trial import Trial

_MOST_FAILED = 20
"""Calls that fail in a row before the first one that succeeds."""
_ENDLESS = 1_000_000_000
_IDLE_SECONDS = 1.0
"""How long `ask` waits before it looks whether anything is under way."""
_STOPPED = "stopped on request"
_DYNAMIC = ("tpe", "random")
"""Samplers whose space may grow while they draw."""
_NO_CHANGE = "params.json"
"""The task file must name something that may change, before any parameter is known."""


class StudyOver(Exception):  # noqa: N818 - no error
    """Raised by `ask` when the budget is spent; the message says which part of it."""


class Settings(Record):
    """What a study is about, as its creator said."""

    goal: str = ""
    space: Mapping[str, Parameter] = {}
    direction: Direction = Direction.MAX
    sampler: str = "tpe"
    pruner: str = "median"
    seed: int = 0
    repeats: bool = False
    task: Mapping[str, Any] = {}
    """Further tables of the task file."""
    files: Mapping[str, str] = {}
    """The files of the program, where one is evolved."""

    @property
    def has_program(self) -> bool:
        return bool(self.files)

    def task_data(self, space: Mapping[str, Parameter]) -> dict[str, Any]:
        """Return the task file: a study's is as good as any other for the verbs that read."""
        data: dict[str, Any] = {
            "goal": self.goal or "Tune the parameters of objective.py",
            "seed": self.seed,
            "benchmark": {
                "command": REFUSAL,
                "timeout_seconds": 86_400.0,
                "files": [SOURCE_FILE],
            },
            "objective": {"direction": str(self.direction)},
            "access": {"write": [*self.files] or [_NO_CHANGE]},
            "pruner": {"kind": self.pruner},
        }
        if space:
            data["parameters"] = {name: table_of(parameter) for name, parameter in space.items()}
        if not self.has_program:
            data["proposer"] = {"kind": self.sampler if space else "mutate"}
        return {**data, **self.task}


class Study:
    """Trials of one function or program, in a folder that is a repository of their own.

    >>> import loopty
    >>> study = loopty.create({"x": loopty.Float(0, 1)}, seed=1)
    >>> study.optimize(lambda trial: -(trial.params["x"] - 0.2) ** 2, trials=30, progress=False)
    >>> abs(study.best.params["x"] - 0.2) < 0.1
    True
    """

    def __init__(self, settings: Settings | None, folder: Path | None, say: Callable[[str], None]) -> None:
        """Without settings, the folder has a task of its own. Without a folder, all goes with this object."""
        self._pid = os.getpid()
        self._settings = settings
        self._is_kept = folder is not None
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="loopty-study-"))
        self._handing: _Handing | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.folder = folder.absolute()
        self._say = say
        self._space = Space(dict(settings.space) if settings else {})
        self._context: CampaignContext | None = None
        self.finish: Finish | None = None
        """How the last call of `optimize` ended."""
        self._clean_up_at_exit()
        if settings and is_study(self.folder):
            self._open(None)

    # What was found

    @property
    def history(self) -> History:
        """Return every run and node that is recorded in the folder."""
        if self._context:
            return self._context.history
        if self._settings and not has_task(self.folder):
            raise Misuse("the study has no trial yet: optimize it, or ask and tell")
        from loopty.session.reader import CampaignReader

        return CampaignReader(self.folder).history

    @property
    def best(self) -> FinishedTrial:
        """Return the best trial. Raises Misuse before there is one.

        >>> import loopty
        >>> loopty.optimize(lambda trial: trial.params["x"], {"x": [1, 3]}, trials=2, progress=False).best.params
        {'x': 3}
        """
        if not (self._has_record and (found := best_of(self.history))):
            failed = next((trial for trial in reversed(self.trials) if trial.state == "failed"), None)
            more = f"; the last trial failed: {failed.reason}" if failed else ""
            raise Misuse(f"the study has no result yet{more}")
        return found

    @property
    def trials(self) -> list[FinishedTrial]:
        """List all trials in their order.

        >>> import loopty
        >>> study = loopty.optimize(lambda trial: trial.params["x"], {"x": [1, 3]}, trials=2, progress=False)
        >>> [trial.score for trial in study.trials]
        [1.0, 3.0]
        """
        return list(trials_of(self.history)) if self._has_record else []

    def rows(self) -> list[dict[str, Any]]:
        """List a dict for each trial; parameters are `params_NAME`.

        >>> import loopty
        >>> study = loopty.optimize(lambda trial: trial.params["x"], {"x": [1, 3]}, trials=2, progress=False)
        >>> study.rows()[1]["params_x"], study.rows()[1]["score"]
        (3, 3.0)
        """
        return rows_of(self.trials)

    def frame(self) -> Any:
        """Return `rows()` as a pandas frame, else as an Arrow table, else as they are: by what is installed.

        >>> import loopty
        >>> study = loopty.optimize(lambda trial: trial.params["x"], {"x": [1, 3]}, trials=2, progress=False)
        >>> len(study.frame())
        2
        """
        return frame_of(self.rows())

    @property
    def plot(self) -> Plots:
        """Draw charts as SVG: `history`, `importance`, `slice`, `contour`, `parallel`.

        >>> import loopty
        >>> study = loopty.optimize(lambda trial: trial.params["x"], {"x": [1, 3]}, trials=2, progress=False)
        >>> study.plot.history().svg.startswith("<svg")
        True
        """
        return Plots(self.history, self.trials, self._direction)

    def __repr__(self) -> str:
        trials = self.trials
        best = best_of(self.history) if self._has_record else None
        text = f", best {best.score:g} ({best.name})" if best and best.score is not None else ""
        return f"Study({str(self.folder) if self._is_kept else 'in memory'}, {len(trials)} trials{text})"

    def _repr_html_(self) -> str:
        trials = self.trials
        best = best_of(self.history) if self._has_record else None
        if not best:
            return f"<p>A study of {len(trials)} trials without a result.</p>"
        rows = [{"trial": best.name, "score": best.score, **best.params}]
        return f"<p>{len(trials)} trials; best:</p>{table_html(rows)}{self.plot.history().svg}"

    @property
    def _has_record(self) -> bool:
        return bool(self._context and self._context.history.runs) or (
            self._context is None and has_task(self.folder) and bool(self.history.runs)
        )

    @property
    def _direction(self) -> Direction:
        return self._settings.direction if self._settings else self._read_task().objective.direction

    # The search

    def optimize(
        self,
        objective: Objective,
        trials: int | None = 100,
        *,
        workers: int = 1,
        isolated: bool = False,
        timeout: float | None = None,
        trial_timeout: float | None = None,
        patience: int | None = None,
        target: float | None = None,
        budget: Mapping[str, float] | None = None,
        progress: bool | None = None,
    ) -> None:
        """Call the objective until there are this many trials in all; call it again to resume, or with more.

        `workers` calls it in that many processes. `isolated` lets no process write outside its own folder or use
        the network. `timeout` ends the call after seconds, `trial_timeout` one trial. `patience` ends it after so
        many trials without a better one, `target` at a score. Ctrl-C ends it, too: what was found stays.
        """
        if trials is not None and trials < 1:
            raise Misuse(f"trials={trials}: give at least 1, or None for no limit")
        if workers < 1:
            raise Misuse(f"workers={workers}: give at least 1")
        limit_names = [field.name for field in fields_of(Pools)]
        if unknown := [name for name in budget or {} if name not in limit_names]:
            raise Misuse(f"budget has no {unknown[0]!r}: it has {', '.join(limit_names)}")
        self.close()
        self._open(objective)
        maker = self._maker()
        needs_process = workers > 1 or isolated or trial_timeout is not None
        stopper = _Stopper()
        executor: InProcess | Processes
        if needs_process:
            restrict = _restriction(self.folder) if isolated else None
            executor = Processes(objective, maker, workers, trial_timeout, restrict)
        else:
            executor = InProcess(objective, maker, stopper.stop)
        stopper.executor = executor
        limits = {"patience": patience, "target": target, **(budget or {})}
        try:
            self.finish = self._drive(
                executor, stopper, limits, trials=trials, timeout=timeout, workers=workers, progress=progress
            )
        finally:
            if isinstance(executor, Processes):
                executor.close()

    def _drive(
        self,
        executor: InProcess | Processes,
        stopper: _Stopper,
        limits: Mapping[str, Any],
        *,
        trials: int | None,
        timeout: float | None,
        workers: int,
        progress: bool | None,
    ) -> Finish:
        new_run, failed = False, 0
        started, left = time.monotonic(), timeout
        loop = asyncio.new_event_loop()
        try:
            with _outside_of_loops(), stopper.signals_caught(loop):
                while True:
                    session = self._session(executor, trials, left, limits, workers, new_run)
                    stopper.session = session
                    with make_progress(session, self._count_before(session), trials, progress):
                        state = session.context.state
                        with keep_open(state.home, state.nodes):
                            finish = loop.run_until_complete(session.loop.drive())
                    session.context.files.finish_session(session.run)
                    history = self.history
                    can_move = self._settings is not None and not self._settings.has_program
                    if not has_failed(history, history.runs[session.run]) or finish.resumable or not can_move:
                        return finish
                    failed += 1
                    count = self._count_before(session) + 1
                    if failed >= _MOST_FAILED or (trials is not None and count >= trials):
                        return finish
                    if timeout is not None and (left := started + timeout - time.monotonic()) <= 0:
                        return finish
                    new_run = True  # the first trial failed, and nothing can be compared with it
        finally:
            loop.close()

    def _count_before(self, session: OptimizeSession) -> int:
        return count_before(self.history, session.run)

    def _session(
        self,
        executor: Executor,
        trials: int | None,
        timeout: float | None,
        limits: Mapping[str, Any],
        workers: int,
        new_run: bool = False,
    ) -> OptimizeSession:
        assert self._context
        context, history = self._context, self._context.history
        task = context.task
        if self._settings:
            task = self._task_for(task, workers, new_run)
        is_continued = bool(history.runs) and not new_run
        newest = max(history.runs) if history.runs else 0
        spent = session_seconds(history.runs[newest], context.ledger.now()) if is_continued else 0.0
        known = {name: value for name, value in limits.items() if value is not None}
        if trials is not None or (self._settings and not self._settings.has_program):
            before = sum(
                len(history.nodes_of_pool(run, Pool.ATTEMPT))
                for run in runs_of_study(history)
                if new_run or run < newest
            )
            known["attempts"] = max(trials - 1 - before, 0) if trials is not None else _ENDLESS
        if timeout is not None:
            known["wall_seconds"] = spent + timeout
        pools: Pools = replace(task.pools, **known)
        context = replace(context, task=replace(task, pools=pools))
        session = start_session(context, new_run, True, executor=executor)
        self._context = session.context
        return session

    def _task_for(self, task: Task, workers: int, new_run: bool) -> Task:
        """Return the task with what no task file can say: a space that grows, and calls that are not repeated."""
        assert self._settings
        noise = task.noise if self._settings.repeats else Noise(repeat="never", confirm=0)
        task = replace(task, noise=noise, width=workers, is_width_stated=True)
        if self._settings.has_program:
            return task
        space = self._space
        if new_run:
            space = Space({name: self._with_other_default(name) for name in space.parameters})
        kind = self._settings.sampler
        if not self._settings.space and kind not in _DYNAMIC:
            raise Misuse(f"sampler={kind!r} has to know all parameters before: give space=, or sampler='tpe'")
        pruner = PluginChoice(self._settings.pruner)
        # The sampler and the trials share this space, which the trials may let grow.
        task = replace(task, proposer=PluginChoice(kind), pruner=pruner)
        return replace(task, space=space if new_run else self._space)

    def _with_other_default(self, name: str) -> Parameter:
        import random

        parameter, runs = self._space.parameters[name], len(self.history.runs)
        seed = self._settings.seed if self._settings else 0
        return replace(parameter, default=parameter.sample(random.Random(f"{seed} {name} {runs}")))

    def _open(self, objective: Objective | None) -> None:
        """Write the folder where it is the study's own, and open it. A changed objective begins a new run."""
        settings = self._settings
        if settings:
            source = source_text(objective) if objective else self._saved_source()
            if not self._space.parameters and is_study(self.folder):
                self._space = Space(dict(self._read_task().space.parameters))
            texts = {SOURCE_FILE: source or "# no objective: trials are asked for and told\n"}
            write_folder(self.folder, settings.task_data(self._space.parameters), texts, settings.files)
        if settings or self._context is None:
            self._context = None
            here = TaskHere.read(Repository.open(self.folder))
            context = CampaignContext.for_task(here, self._say, allow=settings is not None)
            files_of = StudyFiles(
                context.repository, context.state, context.task.without_held_out(), context.sharing
            )
            self._context = replace(context, files=files_of)

    def _saved_source(self) -> str:
        with contextlib.suppress(OSError):
            return (self.folder / SOURCE_FILE).read_text()
        return ""

    def _read_task(self) -> Task:
        from loopty.taskfile.read import load

        return load(self.folder)

    def _maker(self) -> TrialMaker:
        assert self._context
        task, repository = self._context.task, self._context.repository

        def lay_out(trial: EngineTrial, folder: Path) -> None:
            commit = trial.node.commit
            plain = [path for path, entry in repository.files(commit).items() if entry.mode in REGULAR_FILES]
            repository.write_files(commit, plain, folder)

        seed = self._settings.seed if self._settings else task.seed
        has_program = bool(task.access.write) and (self._settings is None or self._settings.has_program)
        space = self._space if self._settings else task.space
        return TrialMaker(space, self._direction, seed, self._on_end, lay_out if has_program else None)

    def _on_end(self, trial: EngineTrial, handle: Trial) -> None:
        """Record which values the objective asked for, and what it reported."""
        assert self._context
        context, node = self._context, trial.node
        if (used := handle.used_params()) is not None:
            grown = {
                name: parameter
                for name, parameter in handle.suggested.items()
                if self._space.parameters.get(name) != parameter
            }
            if grown and self._settings:
                self._space.parameters.update(grown)  # type: ignore[attr-defined]
                write_folder(self.folder, self._settings.task_data(self._space.parameters), {})
            if used != node.params:
                sealed = NodeSealed(node.id, node.commit, node.tree, node.declared, used)
                context.recorder.record(lambda _: [sealed])
        if handle.reports and isinstance(context.files, StudyFiles):
            context.files.keep_reports(node, handle.reports, self._direction)

    # Ask and tell

    def ask(self, trials: int | None = None) -> Trial:
        """Return the next trial to run; raises StudyOver when the budget is spent. Then `tell` its score.

        >>> import loopty
        >>> study = loopty.create({"x": loopty.Float(0, 1)})
        >>> trial = study.ask()
        >>> study.tell(trial, trial.params["x"] ** 2)
        >>> study.best.score
        0.25
        """
        trial: Trial = self._handed(lambda: self._ask(trials, is_alone=True))
        return trial

    def tell(
        self,
        trial: Trial,
        score: float | None = None,
        *,
        metrics: Mapping[str, float] | None = None,
        failed: str = "",
        pruned: str = "",
    ) -> None:
        """Record the score of a trial; or why it failed or was stopped.

        >>> import loopty
        >>> study = loopty.create({"x": [1, 2]})
        >>> study.tell(study.ask(), failed="out of memory")
        >>> study.trials[0].state
        'failed'
        """
        self._handed(lambda: self.tell_async(trial, score, metrics=metrics, failed=failed, pruned=pruned))

    async def ask_async(self, trials: int | None = None) -> Trial:
        """Return the next trial, as `ask` does, inside an event loop.

        >>> import asyncio, loopty
        >>> async def main():
        ...     study = loopty.create({"x": [1, 2]})
        ...     trial = await study.ask_async()
        ...     await study.tell_async(trial, trial.params["x"])
        ...     return study.best.score
        >>> asyncio.run(main())
        1.0
        """
        return await self._ask(trials, is_alone=False)

    async def _ask(self, trials: int | None, is_alone: bool) -> Trial:
        """Return the next trial; `is_alone` says that nobody can tell another one meanwhile."""
        if self._handing is None:
            self._open(None)
            hand = HandOver(self._maker())
            self._handing = _Handing(hand, self._session(hand, trials, None, {}, 1), trials)
            self._clean_up_at_exit()  # again: it has to come before the ledger, opened by now, is closed
        handing = self._handing
        try:
            return await handing.ask(is_alone)
        except StudyOver:
            if not self._can_start_again(handing):
                raise
        # The first trial failed, and nothing can be compared with it.
        await handing.end()
        session = self._session(handing.hand, handing.trials, None, {}, 1, new_run=True)
        self._handing = _Handing(handing.hand, session, handing.trials)
        return await self._handing.ask(is_alone)

    def _can_start_again(self, handing: _Handing) -> bool:
        history, run = self.history, handing.session.run
        if self._settings is None or self._settings.has_program or not has_failed(history, history.runs[run]):
            return False
        is_spent = handing.trials is not None and count_before(history, run) + 1 >= handing.trials
        return not is_spent and len(runs_of_study(history)) < _MOST_FAILED

    async def tell_async(
        self,
        trial: Trial,
        score: float | None = None,
        *,
        metrics: Mapping[str, float] | None = None,
        failed: str = "",
        pruned: str = "",
    ) -> None:
        """Record the score of a trial, as `tell` does, inside an event loop; see `ask_async`."""
        if self._handing is None or not self._handing.hand.is_out(trial.name):
            raise Misuse(f"{trial.name} was not asked for, or was told before: ask() gives the trials to tell")
        if (score is None) == (not (failed or pruned)) and not metrics:
            raise Misuse("tell a score, or why the trial failed or was pruned")
        values = {**({} if score is None else {SCORE: float(score)}), **(metrics or {})}
        ending = Ending.FAILED if failed else Ending.PRUNED if pruned else Ending.FINISHED
        outcome = Outcome(ending, values if ending is Ending.FINISHED else {}, reason=cut_words(failed or pruned))
        await self._handing.tell(trial, outcome)

    def close(self) -> None:
        """End what `ask` began: trials that nobody has told wait for the next session."""
        handing, self._handing = self._handing, None
        if handing is None or handing.loop.is_closed():
            return
        if handing.loop.is_running():
            self._handing = handing
            raise Misuse("ask_async() began in this event loop: end it with `await study.close_async()`")
        if handing.loop is self._loop:
            self._handed(handing.end)

    async def close_async(self) -> None:
        """End what `ask_async` began, as `close` does."""
        handing, self._handing = self._handing, None
        if handing is not None:
            await handing.end()

    def _clean_up_at_exit(self) -> None:
        this = weakref.ref(self)
        at_work_end(lambda: study._clean_up() if (study := this()) else None)

    def __del__(self) -> None:
        self._clean_up()

    def _clean_up(self) -> None:
        """End what `ask` began, and remove a folder that nobody named; not in a process forked from ours."""
        if os.getpid() != self._pid:
            return
        with contextlib.suppress(Exception):  # a loop that ended, a folder that somebody removed
            self.close()
        if self._loop and not self._loop.is_closed():
            self._loop.close()
        if not self._is_kept:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _handed(self, work: Callable[[], Any]) -> Any:
        """Run a step of asking and telling; between the steps nothing happens."""
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        with _outside_of_loops():
            return self._loop.run_until_complete(work())


class _Handing:
    """A session whose trials somebody else runs."""

    def __init__(self, hand: HandOver, session: OptimizeSession, trials: int | None) -> None:
        self.hand = hand
        self.session = session
        self.trials = trials
        self._ended: dict[str, asyncio.Event] = {}
        session.context.recorder.listeners.append(self._note)
        self.loop = asyncio.get_running_loop()
        self._drive = asyncio.ensure_future(session.loop.drive())

    def _note(self, recorded: Recorded) -> None:
        if isinstance(recorded.event, TrialEnded):
            name = self.session.loop.history[recorded.event.node].name
            if name in self._ended:
                self._ended[name].set()

    async def ask(self, is_alone: bool) -> Trial:
        """Return the next trial. Raises Misuse where it can come only after an answer that nobody can give."""
        self.hand.asked += 1
        self.session.loop.wake()
        trial = asyncio.ensure_future(self.hand.next())
        try:
            limit = _IDLE_SECONDS if is_alone else None
            while not await self._is_any_done(trial, limit):
                if (out := self.hand.names_out) and not self.session.loop.questions.tasks:
                    raise Misuse(f"the next trial depends on {', '.join(out)}: tell that one first")
            if trial.done():
                return trial.result()
            raise StudyOver(self._drive.result().reason)
        except BaseException:
            trial.cancel()
            self.hand.asked -= 1
            raise

    async def _is_any_done(self, trial: asyncio.Future[Trial], limit: float | None) -> bool:
        both: set[asyncio.Future[Any]] = {trial, self._drive}
        done, _ = await asyncio.wait(both, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)

    async def tell(self, trial: Trial, outcome: Outcome) -> None:
        """Record the outcome; returns when it is recorded, and the next trial is made."""
        ended = self._ended[trial.name] = asyncio.Event()
        self.hand.asked -= 1
        self.hand.answer(trial.name, outcome)
        waits = asyncio.ensure_future(ended.wait())
        await asyncio.wait({waits, self._drive}, return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()
        del self._ended[trial.name]

    async def end(self) -> None:
        """End the session."""
        self.session.loop.stop(_STOPPED)
        await asyncio.wait({self._drive})
        self.session.context.recorder.listeners.remove(self._note)
        self.session.context.files.finish_session(self.session.run)


class _Stopper:
    """Ends a session at Ctrl-C, or at the stop button of a notebook: also in the middle of a call."""

    def __init__(self) -> None:
        self.session: OptimizeSession | None = None
        self.executor: InProcess | Processes | None = None
        self._signals = 0

    def stop(self) -> None:
        """Ask the session to end."""
        if self.session:
            self.session.loop.stop(_STOPPED)

    @contextlib.contextmanager
    def signals_caught(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Obey SIGINT meanwhile, where this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def obey(*_: object) -> None:
            self._signals += 1
            if self._signals > 1 or (isinstance(self.executor, InProcess) and self.executor.is_calling):
                raise KeyboardInterrupt
            loop.call_soon_threadsafe(self.stop)

        before = signal.signal(signal.SIGINT, obey)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _outside_of_loops() -> Iterator[None]:
    """Let another event loop run in this thread, where one runs already, as in a notebook."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(running)


def _restriction(folder: Path) -> Callable[[int], None]:
    """Return what confines a process: it reads what it could, and writes to its own temporary folder alone."""
    from loopty.study.confinement import confine, require_confinement

    require_confinement()
    return lambda keep: confine(folder, keep)
