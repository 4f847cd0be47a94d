"""Successive halving: at each rung only the best fraction goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopty.domain.curve import Curve
from loopty.kit.option import option


@dataclass(frozen=True, slots=True)
class HalvingPruner:
    """The first rung is at step `first_rung`, each next one `factor` times later; one trial in `factor` passes."""

    first_rung: float = option("Step of the first rung.", 1.0, above=0)
    factor: int = option(
        "One in this many trials passes a rung; each rung comes this many times later.", 3, minimum=2
    )

    def prune_reason(self, curve: Curve, peers: Sequence[Curve]) -> str | None:
        step = curve.points[-1][0]
        rung = self._last_rung(step)
        if rung is None:
            return None
        value = curve.at(rung)
        others = [other for peer in peers if (other := peer.at(rung)) is not None]
        if value is None or len(others) + 1 < self.factor:
            return None
        better = sum(curve.is_worse(value, other) for other in others)
        places = max((len(others) + 1) // self.factor, 1)
        if better < places:
            return None
        return f"{better} of {len(others)} peers beat {value:g} at rung {rung:g}, where the best {places} go on"

    def _last_rung(self, step: float) -> float | None:
        """The last rung at or before the step."""
        if step < self.first_rung:
            return None
        rung = self.first_rung
        while rung * self.factor <= step:
            rung *= self.factor
        return rung
