"""Trials per second of an empty objective in process, beside Optuna with its journal: `python_api.py [TRIALS]`.

Both record every trial in a file. They take turns in slices of the trials, so a machine that becomes busy does so
for both, and the last slice tells whether they slow down.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

import loopty

SLICES = 5
DIMENSIONS = 3


def loopty_slices(sampler: str, folder: Path) -> Callable[[int], None]:
    """Return a function that brings a study to so many trials."""
    space = {f"x{number}": loopty.Float(0, 1) for number in range(DIMENSIONS)}
    study = loopty.create(space, sampler=sampler, folder=folder / "study")
    return lambda trials: study.optimize(lambda trial: trial.params["x0"], trials, progress=False)


def optuna_slices(sampler: str, folder: Path) -> Callable[[int], None]:
    """Return a function that brings a study of Optuna's to so many trials."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = JournalStorage(JournalFileBackend(str(folder / "journal.log")))
    kinds = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
    study = optuna.create_study(storage=storage, sampler=kinds[sampler](seed=0), direction="maximize")

    def objective(trial: optuna.Trial) -> float:
        drawn = [trial.suggest_float(f"x{number}", 0, 1) for number in range(DIMENSIONS)]
        return drawn[0]

    return lambda trials: study.optimize(objective, n_trials=trials - len(study.trials))


def measure(trials: int) -> None:
    """Print a table: trials per second in the first and in the last slice."""
    print("| sampler | | first slice | last slice | all |\n|---|---|---:|---:|---:|")
    for sampler in ("random", "tpe"):
        with tempfile.TemporaryDirectory() as top:
            seconds: dict[str, list[float]] = {"loopty": [], "Optuna, journal": []}
            runs = {
                "loopty": loopty_slices(sampler, Path(top)),
                "Optuna, journal": optuna_slices(sampler, Path(top)),
            }
            for number in range(1, SLICES + 1):
                for name, run in runs.items():
                    started = time.perf_counter()
                    run(trials * number // SLICES)
                    seconds[name].append(time.perf_counter() - started)
            for name, found in seconds.items():
                rates = [trials / SLICES / found[0], trials / SLICES / found[-1], trials / sum(found)]
                print(f"| {sampler} | {name} | {' | '.join(f'{rate:.0f}/s' for rate in rates)} |", flush=True)


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
