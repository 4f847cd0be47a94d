"""Stop a trial that has stopped improving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopty.domain.curve import Curve
from loopty.kit.option import option


@dataclass(frozen=True, slots=True)
class PatiencePruner:
    """Looks at the trial alone and stops it after `reports` reports without a better value."""

    reports: int = option("Stop after this many reports without an improvement.", 10, minimum=1)
    tolerance: float = option("An improvement must be larger than this.", 0.0, minimum=0)

    def prune_reason(self, curve: Curve, peers: Sequence[Curve]) -> str | None:  # noqa: ARG002
        best, since = curve.points[0][1], 0
        for _, value in curve.points[1:]:
            if curve.direction.sign * (value - best) > self.tolerance:
                best, since = value, 0
            else:
                since += 1
        if since < self.reports:
            return None
        return f"no improvement on {best:g} in the last {since} reports"
