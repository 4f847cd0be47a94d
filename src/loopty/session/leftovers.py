"""What is left of a node: the curve that it drew, and why it failed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.domain.ids import NodeId
from loopty.domain.objective import Directions
from loopty.domain.trial import Ending, Row, Verdict, metric_curve, metric_of_curve
from loopty.evaluators.contract import METRICS
from loopty.evaluators.metrics import read_curve
from loopty.kit.by_name import by_name
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.temporary_folder import temporary_folder
from loopty.record.node_record import Node
from loopty.session.saved_record import SavedRecord
from loopty.show.explanation import Explanation
from loopty.show.plot import LearningCurve
from loopty.workspaces.node_folders import NodeFolders

if TYPE_CHECKING:
    from loopty.domain.task import Task
    from loopty.show.explanation import Cause


def rows_of_node(folders: NodeFolders, node: Node) -> tuple[Sequence[Row], Directions]:
    """Return what a finished node reported while it ran; a folded one's is read from a copy."""
    folder = folders.open(node.id)
    if METRICS not in folder.folded:
        return read_curve(folder.plain)
    with temporary_folder("curve") as copy:
        (copy / METRICS).write_bytes(folder.folded[METRICS])
        return read_curve(SafeFolder(copy))


def learning_curve(record: SavedRecord, node: NodeId) -> LearningCurve | None:
    """Return a node's curve beside that of its parent; None if it reported fewer than two values."""
    found = record.history[node]
    counting = record.history.metrics(found)
    rows, directions = rows_of_node(record.folders, found) if found.outcome else ((), {})
    if not rows or not counting:
        return None
    metric = metric_of_curve(rows, directions, counting[0])
    curve = metric_curve(rows, metric.name, metric.direction)
    if len(curve.points) < 2:
        return None
    above = rows_of_node(record.folders, record.history[found.id.parent])[0] if found.id.parent else ()
    return LearningCurve(metric.name, curve, metric_curve(above, metric.name, metric.direction))


# The remedy is looked up when it is shown, not recorded.
#
# The record has what happened: the reason, the lines of the error, the name of the log. The remedy depends on this
# machine and on the task file of now: an environment that was made meanwhile, a mount that was added. So the rules
# run when somebody looks, they help with old records, too, and no advice in a ledger gets stale.


_KNOWN_CAUSE = "loopty.features.setup.causes.this_host:known_cause"
_NO_FAILURE = (Ending.FINISHED, Ending.PRUNED, Ending.STOPPED, Ending.CANCELLED)


def explain_node(record: SavedRecord, node: Node) -> Explanation | None:
    """Explain why a node failed, or return None if it did not.

    Only a failed baseline has a cause.
    """
    outcome, state = node.outcome, record.state
    if outcome is None:
        return None
    is_failed_baseline = node.id.parent is None and node.verdict in (Verdict.DISCARDED, Verdict.REJECTED)
    if outcome.ending in _NO_FAILURE and not is_failed_baseline:
        return None
    log = state.node_copy(node.id).file_at(outcome.log).shown_path if outcome.log else None
    if log:
        from loopty.workspaces.node_files import analysis_files

        with contextlib.suppress(OSError):  # without room for a copy, the lines of the error have to do
            record.folders.lay_out(node.id, analysis_files(node, record.history))
    # A baseline is the user's own code. What a candidate prints must not choose what the user is advised to do,
    # and it runs under the settings that its baseline passed.
    cause = known_cause(state.top, node.reason, outcome.error_lines) if is_failed_baseline else None
    return Explanation(outcome.error_lines, str(log or ""), cause)


def known_cause(
    top: Path, reason: str, lines: Sequence[str], task: Task | None = None, output: str = ""
) -> Cause | None:
    """Return the known cause of a failure of the user's own code, or None."""
    # By its name: the rules are a feature above this floor, and a verb that shows no failure must start fast.
    found: Cause | None = by_name(_KNOWN_CAUSE)(top, reason, lines, task, output)
    return found
