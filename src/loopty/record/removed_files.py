"""The family of removed files: nodes whose files `loopty gc` removed. What was measured stays in the record."""

from __future__ import annotations

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.kit.records import replace
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.node_record import Node


class FilesRemoved(Event):
    """The commits and folders of these nodes are no longer kept. Recorded first, so that nobody builds on them."""

    nodes: tuple[NodeId, ...]


def require_files(node: Node) -> None:
    """Refuse what needs the files of a node that were removed."""
    if node.files_removed:
        raise Misuse(
            f"the files of {node.name} were removed by `loopty gc`: "
            f"`loopty show {node.name}` has what was measured"
        )


def _remove(state: FoldState, event: FilesRemoved, _at: float) -> None:
    for node in event.nodes:
        state.put(replace(state[node], files_removed=True))


FAMILY = Family((FilesRemoved,), {FilesRemoved: _remove})
