"""The files of trials that only set parameters: none. A program's nodes have theirs as everywhere."""

from __future__ import annotations

from loopty.domain.objective import Direction
from loopty.domain.proposal import Proposal
from loopty.domain.trial import Row
from loopty.engine.protocols import CommittedFiles
from loopty.evaluators.contract import METRICS
from loopty.kit.records import replace
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.workspaces.node_files import NodeFiles


class StudyFiles(NodeFiles):
    """Keeps no description of a trial without files of its own: the ledger has all of it."""

    def publish(self, node: Node, parent: Node | None) -> None:
        if parent is None or parent.commit != node.commit:
            super().publish(node, parent)

    def conclude(self, node: Node, history: History) -> None:
        parent = history[node.id.parent] if node.id.parent else None
        if parent is None or parent.commit != node.commit or node.id in self._described:
            super().conclude(node, history)

    def refusal(self, parent: Node, proposal: Proposal) -> str | None:
        # The space may have grown since these files were opened, and samplers draw from it alone.
        return super().refusal(parent, replace(proposal, params={})) if proposal.edits else None

    def with_declarations(self, files: CommittedFiles) -> CommittedFiles:
        return files

    def keep_reports(self, node: Node, rows: list[Row], direction: Direction) -> None:
        """Keep what a trial reported, for the trials that come after it and for the page."""
        better = "higher" if direction is Direction.MAX else "lower"
        lines = [f"step,score ({better} is better)", *(f"{row.step:g},{row.metrics['score']!r}" for row in rows)]
        self.keep_result(node.id, {METRICS: ("\n".join(lines) + "\n").encode()})
