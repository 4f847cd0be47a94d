"""Climb one line at a time: after a drought a new line starts from a draft, and only it is climbed."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.domain.ids import NodeId
from loopty.engine.protocols import Ask, Selection
from loopty.kit.option import option
from loopty.record.node_record import Node
from loopty.selectors.judged_nodes import JudgedNodes

_DRAFT = "draft"


class _Line(JudgedNodes):
    """The line that is climbed: its best node, and how many verdicts brought no better one."""

    def __init__(self, patience: int) -> None:
        super().__init__()
        self._patience = patience
        self.best: NodeId | None = None
        self.number = 1
        self.dry = 0
        self._value = 0.0

    @property
    def is_over(self) -> bool:
        return self.dry >= self._patience

    def add(self, node: Node, value: float) -> None:
        if self.is_over and node.id.depth == 1:
            self.best, self.number, self.dry, self._value = node.id, self.number + 1, 0, value
        elif self.best is None or (self._holds(node.id) and value > self._value):
            self.best, self.dry, self._value = node.id, 0, value
        else:
            self.dry += 1

    def _holds(self, node: NodeId) -> bool:
        """Whether the node may carry the line on: in the first line all may, later those below its draft."""
        return self.number == 1 or (self.best is not None and node.is_within(self.best))


@dataclass(frozen=True, slots=True)
class RestartSelector:
    """The best node of the line. Only verdicts with a result count for the drought."""

    patience: int = option(
        "Verdicts without a better node of the line before the next line starts.", 20, minimum=1
    )

    def select(self, ask: Ask) -> Selection:
        line = _Line.of(ask, lambda: _Line(self.patience), self.patience)
        if line.is_over:
            reason = f"{line.dry} verdicts brought nothing better: a new line starts from a draft"
            return Selection(ask.root, reason, operator=_DRAFT)
        node = ask.history[line.best] if line.best else ask.root
        return Selection(node, f"the best of line {line.number}")
