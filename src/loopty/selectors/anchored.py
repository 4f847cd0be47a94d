"""Change the best node whose gain no audit has refuted."""

from __future__ import annotations

from loopty.engine.protocols import Ask, Selection
from loopty.kit.dataclass import dataclass
from loopty.record.audit_anchors import AuditAnchors
from loopty.selectors.judged_nodes import population


@dataclass(frozen=True, slots=True)
class AnchoredSelector:
    """Hill climbing that leaves what only fits the search's data. Before the first audit it is `best`."""

    def select(self, ask: Ask) -> Selection:
        refuted = AuditAnchors.of(ask.history.runs[ask.run]).refuted
        if not refuted:
            return Selection(ask.best, "the best node so far")
        for one in population(ask):
            if not any(one.id.is_within(node) for node in refuted):
                return Selection(ask.history[one.id], f"the best node that is not below {_names(refuted)}: {_WHY}")
        return Selection(ask.root, f"the baseline: every other node is below {_names(refuted)}: {_WHY}")


_WHY = "an audit found that its gain does not carry over"


def _names(nodes: tuple[object, ...]) -> str:
    return ", ".join(map(str, nodes))
