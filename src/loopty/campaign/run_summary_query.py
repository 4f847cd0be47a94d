"""The summary of a run, for a pull request or a page to share."""

from __future__ import annotations

from loopty.campaign.audits import list_audits
from loopty.campaign.queries import node_detail, node_diff, report, search_context
from loopty.campaign.saved_record import SavedRecord
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.record.verdicts import Incumbents
from loopty.views.run_summary import RunSummary, WholeChange, summary_steps

_MOST_POINTS = 4_000


def summarize_run(record: SavedRecord, run: int, node: NodeId | None = None) -> RunSummary:
    """The summary of a run, about this node or its best one."""
    history = record.history
    root = history.runs[run].root
    if node == root:
        raise Misuse(f"{history.name(node)} is the baseline: name a node that changes something")
    found = node or Incumbents.of(history.runs[run], Pool.ATTEMPT).best
    winner = None if found == root else found
    context = search_context(record.state, record.owners, history, run)
    parts = report(record, run, 0, most_points=_MOST_POINTS)
    steps, hidden = summary_steps(history, winner) if winner else ((), 0)
    return RunSummary(
        context.task.statement if context.task else "",
        parts.status,
        parts.tally,
        parts.goodput,
        parts.points,
        node_detail(record, winner) if winner else None,
        _whole_change(record, winner) if winner else None,
        steps,
        hidden,
        context.failed,
        tuple(row for row in list_audits(record, run) if row.node == winner),
    )


def _whole_change(record: SavedRecord, node: NodeId) -> WholeChange | None:
    if record.history[node].files_removed:
        return None
    diff = node_diff(record, node, baseline=True)
    return WholeChange(diff.patch, {name: (change.before, change.after) for name, change in diff.params.items()})
