"""The stages of a cascade as text: in one trial, and over a run."""

from __future__ import annotations

from loopty.domain.outcome import Ending, Outcome
from loopty.report.figures import duration, plural
from loopty.views.cascade_costs import StageCost


def stage_text(stage: StageCost) -> str:
    """`stage quick stopped 12 of 20 trials and took 3.1 s; about 2 min saved`."""
    text = f"stage {stage.name} stopped {stage.stopped:,} of {plural(stage.trials, 'trial')}"
    text += f" and took {duration(stage.seconds)}"
    return f"{text}; about {duration(stage.saved_seconds)} saved" if stage.saved_seconds else text


def climb_text(outcome: Outcome) -> str:
    """`quick 0.31 in 0.2 s, then half 0.4 in 3 s, which stopped it`."""
    values = ("no value" if result.value is None else f"{result.value:g}" for result in outcome.cascade)
    stages = [
        f"{result.name} {value} in {duration(result.seconds)}"
        for result, value in zip(outcome.cascade, values, strict=True)
    ]
    return ", then ".join(stages) + (", which stopped it" if outcome.ending is Ending.STOPPED else "")
