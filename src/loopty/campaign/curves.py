"""The learning curves of nodes, as they were kept with them."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.campaign.saved_record import SavedRecord
from loopty.domain.curve import Row, metric_curve, metric_of_curve
from loopty.domain.ids import NodeId
from loopty.domain.objective import Directions
from loopty.evaluators.contract import METRICS
from loopty.evaluators.metrics_csv import read_curve
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.temporary_folder import temporary_folder
from loopty.record.node_record import Node
from loopty.views.learning_curve import LearningCurve
from loopty.workspaces.node_folders import NodeFolders


def rows_of_node(folders: NodeFolders, node: Node) -> tuple[Sequence[Row], Directions]:
    """What a finished node reported while it ran; that of a folded one is read from a copy."""
    folder = folders.open(node.id)
    if METRICS not in folder.folded:
        return read_curve(folder.plain)
    with temporary_folder("curve") as copy:
        (copy / METRICS).write_bytes(folder.folded[METRICS])
        return read_curve(SafeFolder(copy))


def learning_curve(record: SavedRecord, node: NodeId) -> LearningCurve | None:
    """The curve of a node beside that of its parent; None where it reported fewer than two values."""
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
