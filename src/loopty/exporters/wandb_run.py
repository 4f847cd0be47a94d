"""Trials as one run of Weights & Biases: a step for each trial, with its metrics and parameters."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.exporters.trial_table import cells
from loopty.kit.own_installation import extra_command
from loopty.views.trial_rows import TrialRow


def export_to_wandb(rows: Iterable[TrialRow], project: str, name: str, folder: Path, offline: bool) -> int:
    """Log the trials as a new run; offline, its files are kept below `folder` for `wandb sync`. How many."""
    try:
        import wandb
    except ImportError:
        raise Misuse(f"Weights & Biases needs wandb: run {extra_command('wandb')}") from None
    count = 0
    try:
        run = wandb.init(
            project=project,
            name=name,
            dir=str(folder),
            mode="offline" if offline else "online",
            settings=wandb.Settings(silent=True, console="off", disable_code=True, disable_git=True),
        )
        for row in rows:
            run.log(dict(cells(row)))
            count += 1
        run.finish()
    except (wandb.Error, OSError) as error:
        words = next(iter(str(error).splitlines()), type(error).__name__)
        remedy = "`--offline` keeps the run on this machine, for `wandb sync` later"
        raise Misuse(f"Weights & Biases refused: {words[:300]}; {remedy}") from None
    return count
