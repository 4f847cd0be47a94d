"""One search with loopty's proposer in its real loop, and the same search with plain Optuna."""

import asyncio
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import optuna
from sampler_clock import AskClock
from sampler_problems import STEPS, Problem

from loopty.domain.access import Access
from loopty.domain.benchmark import Benchmark, Limits
from loopty.domain.objective import SCORE, Direction, Objective
from loopty.domain.space import Parameter, ParameterKind, Params, Space, Value
from loopty.domain.task import Audit, Noise, PluginChoice, Pools, SandboxSpec, Task
from loopty.domain.trial import Ending, Machine, Outcome, Pool, Row
from loopty.engine.loop import Loop
from loopty.engine.protocols import Ask, CommittedFiles, OnMetrics, Proposer, Trial
from loopty.engine.prune_watch import PruneWatch
from loopty.engine.trial_runner import TrialRunner
from loopty.judge.tuning import Judging
from loopty.kit.records import replace
from loopty.ledgers.sqlite import MemoryLedger
from loopty.models.purse import RunPurse
from loopty.proposers.parameters.optuna_samplers import STATELESS_SAMPLERS, StatefulProposer, StatelessProposer
from loopty.proposers.parameters.points import GridOptions, GridProposer, RandomProposer
from loopty.proposers.pruners import MedianPruner
from loopty.record.recorder import Recorder
from loopty.session.runs import start_run
from loopty.testing.fakes import MemoryWorkspaces

SAMPLERS = ("tpe", "cmaes", "gp", "nsga2", "qmc", "grid", "random")
_OWNER = "benchmark"


def search_with_loopty(
    problem: Problem, sampler: str, seed: int, trials: int, pruned: bool, clock: AskClock | None = None
) -> float:
    """The best value of a run of the real loop: its baseline and this many attempts."""
    proposer: Proposer = _proposer(sampler, problem)
    if clock:
        proposer = _ClockedProposer(proposer, clock)
    return asyncio.run(_drive(problem, proposer, seed, trials, pruned))


def search_with_optuna(
    problem: Problem, sampler: str, seed: int, trials: int, pruned: bool, clock: AskClock | None = None
) -> float:
    """The best value of a study with as many measurements: those of loopty's attempts and of its baseline."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    clock = clock or AskClock()

    def objective(trial: optuna.Trial) -> float:
        params = _suggest_all(trial, problem.space)
        clock.stop()
        try:
            return _report(trial, problem.curve(params)) if pruned else problem.value(params)
        finally:
            clock.start()

    with warnings.catch_warnings(action="ignore"):
        pruner = optuna.pruners.MedianPruner() if pruned else optuna.pruners.NopPruner()
        study = optuna.create_study(sampler=_OPTUNA_SAMPLERS[sampler](problem, seed), pruner=pruner)
        clock.start()
        study.optimize(objective, trials + 1)
    return float(study.best_value)


class _ClockedProposer:
    def __init__(self, proposer: Proposer, clock: AskClock) -> None:
        self.name = proposer.name
        self._proposer = proposer
        self._clock = clock

    async def propose(self, ask: Ask) -> Any:
        self._clock.start()
        try:
            return await self._proposer.propose(ask)
        finally:
            self._clock.stop()


class _CurveExecutor:
    """Runs trials at once: with `curves` it reports each step and obeys the pruner."""

    width = 1
    machine = Machine({})

    def __init__(self, problem: Problem, curves: bool) -> None:
        self._problem = problem
        self._curves = curves

    async def execute(self, trial: Trial, on_metrics: OnMetrics, _cancel: asyncio.Event) -> Outcome:
        return self._outcome(trial.node.params, on_metrics)

    def _outcome(self, params: Params, on_metrics: OnMetrics) -> Outcome:
        fingerprint, directions = self.machine.fingerprint, {SCORE: Direction.MIN}
        if not self._curves:
            value = self._problem.value(params)
            return Outcome(Ending.FINISHED, {SCORE: value}, directions, fingerprint=fingerprint)
        rows: list[Row] = []
        for step, value in enumerate(self._problem.curve(params), start=1):
            rows.append(Row(float(step), {SCORE: value}))
            reason = on_metrics(rows, directions)
            if reason and step < STEPS:
                end = Outcome(Ending.PRUNED, rows[-1].metrics, directions, reason, step=float(step))
                return replace(end, fingerprint=fingerprint)
        return Outcome(Ending.FINISHED, rows[-1].metrics, directions, fingerprint=fingerprint)


async def _drive(problem: Problem, proposer: Proposer, seed: int, trials: int, pruned: bool) -> float:
    ticks = itertools.count()
    recorder = Recorder(MemoryLedger(), lambda: next(ticks) / 100)
    task = _task(problem.space, seed, trials)
    recorder.record(lambda history: start_run(history, task, "", "", CommittedFiles("c", "t"), "first"))
    workspaces, executor = MemoryWorkspaces(), _CurveExecutor(problem, pruned)
    runner = TrialRunner(recorder, Judging(task.pools, task.noise), (), executor, workspaces, _OWNER)
    pruner, fingerprint = MedianPruner() if pruned else None, executor.machine.fingerprint
    watch = PruneWatch(lambda: recorder.history, pruner, lambda _: ((), {}), fingerprint)
    purse = RunPurse(recorder, 1, task.pools, _OWNER, task.roles)
    loop = Loop(
        recorder,
        1,
        task.pools,
        {Pool.ATTEMPT: proposer},
        runner,
        workspaces,
        watch,
        purse,
        _OWNER,
        lambda: next(ticks) / 100,
    )
    await loop.drive()
    outcomes = (node.outcome for node in recorder.history.nodes(1, Pool.ATTEMPT))
    return min(outcome.metrics[SCORE] for outcome in outcomes if outcome and outcome.is_finished)


def _task(space: Space, seed: int, trials: int) -> Task:
    return Task(
        "",
        Benchmark("true", 1.0),
        Objective(Direction.MIN),
        Access(),
        space,
        Limits(),
        Pools(attempts=trials),
        Noise(repeat="never"),
        Audit(),
        SandboxSpec(),
        (),
        PluginChoice("random"),
        PluginChoice("random"),
        PluginChoice("none"),
        1,
        seed,
    )


def _proposer(sampler: str, problem: Problem) -> Proposer:
    space = problem.space
    if sampler == "random":
        return RandomProposer(space)
    if sampler == "grid":
        return GridProposer(space, GridOptions(points=problem.grid_points))
    kind = StatelessProposer if sampler in STATELESS_SAMPLERS else StatefulProposer
    return kind(sampler, space)


def _grid_sampler(problem: Problem, seed: int) -> optuna.samplers.BaseSampler:
    values = {name: parameter.grid(problem.grid_points) for name, parameter in problem.space.parameters.items()}
    return optuna.samplers.GridSampler(values, seed=seed)


_OPTUNA_SAMPLERS: dict[str, Callable[[Problem, int], optuna.samplers.BaseSampler]] = {
    "tpe": lambda _, seed: optuna.samplers.TPESampler(seed=seed),
    "cmaes": lambda _, seed: optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False),
    "gp": lambda _, seed: optuna.samplers.GPSampler(seed=seed),
    "nsga2": lambda _, seed: optuna.samplers.NSGAIISampler(seed=seed),
    "qmc": lambda _, seed: optuna.samplers.QMCSampler(seed=seed, warn_independent_sampling=False),
    "grid": _grid_sampler,
    "random": lambda _, seed: optuna.samplers.RandomSampler(seed=seed),
}


def _suggest_all(trial: optuna.Trial, space: Space) -> dict[str, Value]:
    params: dict[str, Value] = {}
    for name in space.order():
        if space.is_active(name, params):
            params[name] = _suggest(trial, name, space.parameters[name])
    return params


def _suggest(trial: optuna.Trial, name: str, parameter: Parameter) -> Value:
    if parameter.type is ParameterKind.CATEGORICAL:
        return trial.suggest_categorical(name, parameter.choices)  # type: ignore[return-value]
    low, high = parameter.low, parameter.high
    if parameter.type is ParameterKind.INT:
        return trial.suggest_int(name, int(low), int(high), log=parameter.log)  # type: ignore[arg-type]
    return trial.suggest_float(name, low, high, log=parameter.log)  # type: ignore[arg-type]


def _report(trial: optuna.Trial, curve: list[float]) -> float:
    """The final value. Raises TrialPruned where the pruner stops the trial."""
    for step, value in enumerate(curve, start=1):
        trial.report(value, step)
        if step < STEPS and trial.should_prune():
            raise optuna.TrialPruned
    return curve[-1]
