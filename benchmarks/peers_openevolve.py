"""Watch OpenEvolve work through iterations whose model and evaluator cost nothing."""

from collections.abc import Mapping
from pathlib import Path

from sampling import Sample, sample_command

_DRIVER = Path(__file__).with_name("openevolve_instant.py")


def iterations(python: Path, count: int, folder: Path, env: Mapping[str, str]) -> list[Sample]:
    """Samples of iterations done and CPU spent over a run of so many iterations."""
    folder.mkdir(parents=True)
    evaluated = folder / "evaluated"
    evaluated.touch()
    return sample_command(
        [str(python), str(_DRIVER), str(count), str(folder)],
        cwd=folder,
        env=env,
        count_done=lambda: evaluated.stat().st_size,
        log=folder / "log",
    )
