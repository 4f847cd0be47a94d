"""Names and rules of counted instructions: what tells that a result was counted, and when two are equal."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.domain.objective import SCORE, Direction, Metric, Metrics

PROGRAMS = "count.programs"
"""How many programs the counted processes started. Every counted result has it, and no other."""
CLOCK = "clock.cpu_seconds"
"""The CPU time of the same command, uncounted. Only results that confirm a count have it."""
CLOCK_METRIC = Metric(CLOCK, Direction.MIN)
REPORTED_SCORE = "reported_score"
"""What the benchmark itself published as its score."""
TOLERANCE = 0.001
"""Relative. Counts of the same files differ by less: by the length of a path, or the number of a process."""


def is_counted(metrics: Metrics) -> bool:
    """Say whether a result's score is a number of instructions."""
    return PROGRAMS in metrics


def repeats(samples: Sequence[Metrics]) -> bool:
    """Say whether counts of the same files are equal, so that one run decides."""
    counts = [sample[SCORE] for sample in samples if SCORE in sample]
    return len(counts) > 1 and max(counts) - min(counts) <= TOLERANCE * max(counts)
