"""Stop a trial that is strictly worse than the median of its completed peers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from loopty.domain.curve import Curve
from loopty.kit.option import option


@dataclass(frozen=True, slots=True)
class MedianPruner:
    """A trial at the median goes on; nothing is pruned without peers or during warm-up."""

    warmup_steps: float = option("Never prune before this step.", 0.0, minimum=0)
    startup_trials: int = option("Never prune before this many peers are complete.", 5, minimum=1)

    def prune_reason(self, curve: Curve, peers: Sequence[Curve]) -> str | None:
        step, value = curve.points[-1]
        if step < self.warmup_steps:
            return None
        at_step = [other for peer in peers if (other := peer.at(step)) is not None]
        if len(at_step) < self.startup_trials:
            return None
        median = statistics.median(at_step)
        if not curve.is_worse(value, median):
            return None
        return f"{value:g} at step {step:g} is worse than the median {median:g} of {len(at_step)} peers"
