"""A run in a form to share: the node to merge, what it is worth, what it cost, and what failed."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.space import Value
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.views.audit_rows import AuditRow
from loopty.views.goodput import Goodput
from loopty.views.node_detail import NodeDetail
from loopty.views.over_parent import OverParent, over_parent
from loopty.views.run_status import RunStatus
from loopty.views.score_points import ScorePoints
from loopty.views.verdict_tally import Tally

_MOST_STEPS = 40


class SummaryStep(Record):
    """One change on the way from the baseline to the winner."""

    node: Node
    over_parent: OverParent | None


class WholeChange(Record):
    """What the winner changes in the baseline."""

    patch: str
    params: Mapping[str, tuple[Value | None, Value | None]]
    """Parameters that differ: the baseline's value and the winner's."""


class RunSummary(Record):
    """What a reader needs who was not there."""

    statement: str
    """What the task file says the goal is; empty where it cannot be read."""
    status: RunStatus
    tally: Tally
    goodput: Goodput
    points: ScorePoints
    winner: NodeDetail | None
    """The node that the summary is about; None where nothing is better than the baseline."""
    change: WholeChange | None
    """None without a winner, and where the winner's files were removed."""
    steps: tuple[SummaryStep, ...]
    """The nodes from the baseline to the winner, without the baseline."""
    hidden_steps: int
    failed: tuple[Node, ...]
    """What was tried and did not help, newest first."""
    audits: tuple[AuditRow, ...]
    """Looks at the held-out split that concern the winner."""


def summary_steps(history: History, winner: NodeId) -> tuple[tuple[SummaryStep, ...], int]:
    """The first and the last steps from the baseline to the winner, and how many lie between them."""
    path = winner.lineage[1:]
    shown = [*path[:1], *path[1:][-(_MOST_STEPS - 1) :]]
    steps = (SummaryStep(history[step], over_parent(history, history[step])) for step in shown)
    return tuple(steps), len(path) - len(shown)
