"""The functions that Python callers begin with: optimize, create, open, evolve."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.objective import SCORE, Direction
from loopty.study.calls import Objective
from loopty.study.folder import PROGRAM_FILE, is_study
from loopty.study.spaces import Spec, make_space
from loopty.study.study import Settings, Study
from loopty.study.trial import Trial
from loopty.taskfile.plugins import PROPOSERS, PRUNERS

_DIRECTIONS = {"maximize": Direction.MAX, "max": Direction.MAX, "minimize": Direction.MIN, "min": Direction.MIN}
_EVALUATION_SECONDS = 60.0
_ENDLESS = 1_000_000
_OTHERS_SCORE = "combined_score"
"""How OpenEvolve and ShinkaEvolve call the score."""


def optimize(
    objective: Objective,
    space: Spec | None = None,
    trials: int | None = 100,
    *,
    direction: str = "maximize",
    sampler: str = "tpe",
    pruner: str = "median",
    folder: str | Path | None = None,
    workers: int = 1,
    isolated: bool = False,
    timeout: float | None = None,
    trial_timeout: float | None = None,
    patience: int | None = None,
    target: float | None = None,
    seed: int = 0,
    repeats: bool = False,
    progress: bool | None = None,
) -> Study:
    """Find the parameters for which a function returns the best score.

    The function gets a trial, with `trial.params` from the space, or asks for values by `trial.suggest_float` and
    the like. With a `folder`, everything is recorded there, and the same call resumes. `repeats` measures winners
    again, for functions whose results vary. All else is explained at `Study.optimize`.

    >>> import loopty
    >>> def objective(trial):
    ...     return (trial.params["x"] - 0.25) ** 2
    >>> space = {"x": loopty.Float(0, 1)}
    >>> study = loopty.optimize(objective, space, trials=40, direction="minimize", progress=False)
    >>> abs(study.best.params["x"] - 0.25) < 0.05
    True
    """
    study = create(
        space,
        direction=direction,
        sampler=sampler,
        pruner=pruner,
        folder=folder,
        seed=seed,
        repeats=repeats,
    )
    study.optimize(
        objective,
        trials,
        workers=workers,
        isolated=isolated,
        timeout=timeout,
        trial_timeout=trial_timeout,
        patience=patience,
        target=target,
        progress=progress,
    )
    return study


def create(
    space: Spec | None = None,
    *,
    goal: str = "",
    direction: str = "maximize",
    sampler: str = "tpe",
    pruner: str = "median",
    folder: str | Path | None = None,
    seed: int = 0,
    repeats: bool = False,
) -> Study:
    """Make a study, or continue the one in the folder: then `optimize` it, or `ask` and `tell`.

    >>> import loopty
    >>> study = loopty.create({"x": loopty.Int(1, 3)}, sampler="grid")
    >>> for _ in range(3):
    ...     trial = study.ask()
    ...     study.tell(trial, trial.params["x"])
    >>> study.best.params
    {'x': 3}
    """
    known = make_space(space or {})
    if sampler not in PROPOSERS.kinds or not PROPOSERS.kinds[sampler].needs_space:
        kinds = [kind for kind, plugin in PROPOSERS.kinds.items() if plugin.needs_space]
        raise Misuse(f"sampler={sampler!r} is not known: {', '.join(kinds)}")
    if pruner not in PRUNERS.kinds:
        raise Misuse(f"pruner={pruner!r} is not known: {', '.join(PRUNERS.kinds)}")
    settings = Settings(
        goal=goal,
        space=known.parameters,
        direction=_direction(direction),
        sampler=sampler,
        pruner=pruner,
        seed=seed,
        repeats=repeats,
    )
    return Study(settings, Path(folder) if folder is not None else None, _say)


def open_study(folder: str | Path = ".") -> Study:
    """Open the study in a folder, or a repository with a `loopty.toml`, to look at it or to ask and tell.

    >>> import loopty, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = loopty.optimize(lambda t: t.params["x"], {"x": [1, 2]}, trials=2, folder=folder, progress=False)
    >>> loopty.open(folder).best.score
    2.0
    """
    path = Path(folder).absolute()
    if not is_study(path):
        return Study(None, path, _say)
    from loopty.taskfile.read import load

    task = load(path)
    if task.access.write == (PROGRAM_FILE,):
        return Study(None, path, _say)
    settings = Settings(
        goal=task.statement,
        space=task.space.parameters,
        direction=task.objective.direction,
        sampler=task.proposer.kind if task.space else "tpe",
        pruner=task.pruner.kind,
        seed=task.seed,
    )
    return Study(settings, path, _say)


def evolve(
    program: str | Path,
    evaluate: Callable[[Path], float | Mapping[str, float]],
    *,
    goal: str = "",
    model: str = "",
    budget: str = "20 attempts",
    direction: str = "maximize",
    folder: str | Path | None = None,
    trial_timeout: float = _EVALUATION_SECONDS,
    isolated: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Study:
    """Improve a program: a file, or its text. `evaluate` gets the path of each candidate and returns its score.

    Without a `model`, numbers and operators are changed at random. The budget is one of `"$2"`, `"40 attempts"`,
    `"600 seconds"`, `"200k tokens"`. Each call has a process of its own and at most `trial_timeout` seconds. The
    candidate can do there what you can, unless it is `isolated`: then it can neither write elsewhere nor connect.

    >>> import loopty
    >>> def evaluate(path):
    ...     scope = {}
    ...     exec(path.read_text(), scope)
    ...     return -abs(scope["solve"]() - 7)
    >>> study = loopty.evolve("def solve(): return 3", evaluate, budget="8 attempts", seed=3, progress=False)
    >>> study.best.score >= -4
    True
    """
    from loopty.campaign.arms import parse_budget

    text, name = _program(program)
    amount = parse_budget(budget)
    limits = {"attempts": "attempts", "seconds": "wall_seconds", "tokens": "tokens", "money": "money_usd"}
    is_whole = amount.unit in ("attempts", "tokens")
    limit = int(amount.amount) if is_whole else amount.amount
    pools: dict[str, Any] = {"attempts": _ENDLESS, limits[amount.unit]: limit}
    task: dict[str, Any] = {"budget": pools, "proposer": {"kind": "llm-code" if model else "mutate"}}
    if model:
        task["roles"] = {"evolver": {"model": model}}
    settings = Settings(
        goal=goal or f"Improve {name}",
        direction=_direction(direction),
        seed=seed,
        task=task,
        files={PROGRAM_FILE: text},
        repeats=True,
    )
    study = Study(settings, Path(folder) if folder is not None else None, _say)

    def objective(trial: Trial) -> float | Mapping[str, float]:
        assert trial.folder
        value = evaluate(trial.folder / PROGRAM_FILE)
        if isinstance(value, Mapping) and SCORE not in value and _OTHERS_SCORE in value:
            return {SCORE: value[_OTHERS_SCORE], **value}
        return value

    objective.__wrapped__ = evaluate  # type: ignore[attr-defined]  # its source is the one that counts
    study.optimize(objective, None, trial_timeout=trial_timeout, isolated=isolated, progress=progress)
    return study


def _direction(text: str) -> Direction:
    if text not in _DIRECTIONS:
        raise Misuse(f"direction={text!r}: say 'maximize' or 'minimize'")
    return _DIRECTIONS[text]


def _program(program: str | Path) -> tuple[str, str]:
    """Return the text and the name of a program."""
    if isinstance(program, str) and "\n" not in program and not program.strip().endswith(".py"):
        return program + "\n", "the program"
    if isinstance(program, str) and "\n" in program:
        return program, "the program"
    path = Path(program)
    try:
        return path.read_text(), path.name
    except OSError as error:
        raise Misuse(f"the program {path} cannot be read ({error.strerror})") from None


def _say(line: str) -> None:
    """Tell the caller something that matters, beside the results."""
    print(line, file=sys.stderr)
