"""Run OpenEvolve through iterations whose model and evaluator use no CPU, and sample its cost."""

from collections.abc import Mapping
from pathlib import Path

from samples import Sample, sample_command

_DRIVER = Path(__file__).with_name("openevolve_instant.py")


def iterations(
    python: Path, count: int, folder: Path, env: Mapping[str, str], seconds: float = 0.0, workers: int = 2
) -> list[Sample]:
    """Run `count` iterations and return samples of iterations done and CPU spent.

    The model and the evaluator take `seconds` each.
    """
    folder.mkdir(parents=True)
    evaluated = folder / "evaluated"
    evaluated.touch()
    return sample_command(
        [str(python), str(_DRIVER), str(count), str(folder), str(seconds), str(workers)],
        cwd=folder,
        env=env,
        count_done=lambda: evaluated.stat().st_size,
        log=folder / "log",
    )
