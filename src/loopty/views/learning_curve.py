"""The learning curve of a node, beside that of its parent."""

from __future__ import annotations

from loopty.domain.curve import Curve
from loopty.kit.records import Record


class LearningCurve(Record):
    """What a node reported while it ran, of one metric."""

    metric: str
    curve: Curve
    parent: Curve
    """Without points where the parent reported nothing of the metric, and for a baseline."""
