"""CPU of a trial's workspace in a large repository beside a small one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import Bench
from cost import Cost, Result, cost_or_failure, measure_cost, measure_in_turns
from samples import cost_per_unit
from table import Row, Target, cpu, growth

_SMALL = 10
_WARM_UP = 10
"""Trials that do not count: a commit's files are exported only once, at its first trial."""
_TRIALS = 60
_TARGET = Target("at most ×2", 2.0)


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs at one size of the repository."""

    in_loop: Result
    worktree: Result
    by_verbs: Result
    evo: Result


def rows(bench: Bench) -> Iterator[Row]:
    large = 5_000 if bench.quick else 50_000
    at_small, at_large = _costs(bench, _SMALL), _costs(bench, large)

    what, peer = "trial in `optimize`", "git worktree add"
    yield Row(f"{what}, {_SMALL} files", cpu(at_small.in_loop), cpu(at_small.worktree, peer))
    yield Row(f"{what}, {large:,} files", cpu(at_large.in_loop), cpu(at_large.worktree, peer))
    ours = growth(at_small.in_loop, at_large.in_loop)
    theirs = growth(at_small.worktree, at_large.worktree, peer)
    yield Row(f"{what}, {large:,} files over {_SMALL}", ours, theirs, _TARGET)

    what, peer = "`new` + `run`", "evo new + run"
    yield Row(f"{what}, {_SMALL} files", cpu(at_small.by_verbs), cpu(at_small.evo, peer))
    yield Row(f"{what}, {large:,} files", cpu(at_large.by_verbs), cpu(at_large.evo, peer))
    ours = growth(at_small.by_verbs, at_large.by_verbs)
    theirs = growth(at_small.evo, at_large.evo, peer)
    yield Row(f"{what}, {large:,} files over {_SMALL}", ours, theirs, _TARGET)


def _costs(bench: Bench, files: int) -> Costs:
    name = f"workspace-{files}"
    worktree, _ = measure_in_turns(3, _worktree_add(bench, bench.repository(f"{name}-git", files)), None)
    loopty, evo = bench.loopty(name, files, attempts=_WARM_UP + _TRIALS), bench.evo(name, files)
    loopty.run_baseline()
    by_verbs, evo_experiment = measure_in_turns(3, loopty.new_and_run, evo.new_and_run if evo else None)
    in_loop = cost_or_failure(lambda: cost_per_unit(loopty.watch_optimize(), _WARM_UP, _WARM_UP + _TRIALS))
    return Costs(in_loop, worktree, by_verbs, evo_experiment)


def _worktree_add(bench: Bench, repository: Path) -> Callable[[], Cost]:
    number = 0

    def add() -> Cost:
        nonlocal number
        number += 1
        path = str(bench.scratch / f"{repository.name}-tree-{number}")
        return measure_cost(["git", "worktree", "add", "--quiet", "--detach", path], repository, bench.env)

    return add
