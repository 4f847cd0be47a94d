"""The family of stored files: what is kept of a node, by the hash of its content, where drivers share a store."""

from __future__ import annotations

from loopty.domain.ids import NodeId
from loopty.kit.records import replace
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState


class FilesStored(Event):
    """The folder of a node has this content. The store gets it at once, or as soon as it can be reached."""

    node: NodeId
    digest: str
    """SHA-256 of the folder as `workspaces/stored_folder.py` writes it."""


def _note(state: FoldState, event: FilesStored, _at: float) -> None:
    state.put(replace(state[event.node], stored=event.digest))


FAMILY = Family((FilesStored,), {FilesStored: _note})
