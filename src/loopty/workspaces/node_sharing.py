"""Shares the files of nodes with other clones: what this one makes is sent, what others made is fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from loopty.domain.ids import NodeId
from loopty.domain.shared_store import StoreFault
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.run_record import Run
from loopty.record.trials import trial_token
from loopty.workspaces.repository import Repository
from loopty.workspaces.shared_files import SharedFiles

NoteStored = Callable[[NodeId, str], None]
"""Records that the folder of a node has this digest."""


def folder_key(run: Run, node: NodeId) -> str:
    """Where the store keeps the folder of a node: no other run, of this ledger or another one, has this name."""
    return trial_token(run, f"files of {node}")


class NodeSharing:
    """Sends and fetches, by what the ledger says."""

    def __init__(
        self, shared: SharedFiles, history: Callable[[], History], note: NoteStored | None = None
    ) -> None:
        """Without `note`, folders are only read."""
        self._shared = shared
        self._history = history
        self._note = note

    def fetch(self, node: NodeId) -> Iterator[tuple[str, bytes]]:
        """The files of a node that another clone has sent; none where the store does not have them now."""
        history = self._history()
        found = history[node]
        if found.stored and not found.files_removed:
            try:
                yield from self._shared.folder(folder_key(history.runs[node.run], node), found.stored)
            except StoreFault:
                return  # without its logs, a node still has its record

    def send_commit(self, repository: Repository, node: Node, parent: Node | None) -> None:
        """Let others have the commit of a node; with that of a baseline, also the history below it."""
        if parent is None:
            self._shared.add_commit(node.commit, repository.parents(node.commit))
        elif parent.commit != node.commit:
            self._shared.add_commit(node.commit)

    def send_folder(self, node: Node, files: Iterable[tuple[str, bytes]]) -> None:
        """Let others have the folder of a node as it is now."""
        if self._note is None:
            return
        key = folder_key(self._history().runs[node.id.run], node.id)
        if (digest := self._shared.add_folder(key, files)) != node.stored:
            self._note(node.id, digest)
