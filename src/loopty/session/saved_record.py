"""The saved record of a repository, for reading: it opens fast and needs no task file."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from loopty.domain.errors import Misuse
from loopty.executors.process_locks import ProcessLocks
from loopty.git.folders import GitFolders
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.fold import Recorded
from loopty.record.history import History, unreadable_text
from loopty.record.ledger import Ledger, OnProgress, Owners
from loopty.workspaces.state_folder import OLD_LEDGER, StateFolder

if TYPE_CHECKING:
    from loopty.workspaces.node_folders import NodeFolders
    from loopty.workspaces.shared_files import SharedFiles


_FIRST_SECONDS, _PERIOD_SECONDS = 1.0, 10.0


def refold_progress(say: Callable[[str], None]) -> OnProgress:
    """Return a function that reports the progress once it takes long, and then now and again."""
    next_at = time.monotonic() + _FIRST_SECONDS

    def report(folded: int, count: int) -> None:
        nonlocal next_at
        if (now := time.monotonic()) < next_at:
            return
        next_at = now + _PERIOD_SECONDS
        if folded:
            say(f"the record is brought up to date after an upgrade, once: {folded:,} of {count:,} events")
        else:
            say(f"waiting for another process, which brings the record of {count:,} events up to date")

    return report


class SavedRecord:
    """What earlier processes recorded in a repository."""

    def __init__(self, folders: GitFolders, on_progress: OnProgress | None = None) -> None:
        """`on_progress` hears how far the history of an older loopty is made anew."""
        self.state = _find_state(folders)
        """Where this repository keeps its state."""
        self._git_folders = folders
        self._on_progress = on_progress

    @functools.cached_property
    def ledger(self) -> Ledger:
        return open_ledger(self.state.ledger_url)

    @functools.cached_property
    def owners(self) -> Owners:
        """Return the processes that work on this ledger."""
        return self.ledger.owners(ProcessLocks(self.state.owners))

    @functools.cached_property
    def history(self) -> History:
        history = self.ledger.history(self._on_progress)
        if not history.runs:
            raise Misuse("nothing has run here yet: start with `loopty run`")
        return history

    @functools.cached_property
    def shared(self) -> SharedFiles | None:
        """Return the files that this clone shares with others, if the user has chosen a store."""
        if not self.state.store_url:
            return None
        from loopty.git.command import GitCommand
        from loopty.session.places import open_shared_files

        return open_shared_files(self.state, GitCommand(self._git_folders.git_dir))

    @property
    def folders(self) -> NodeFolders:
        """Return what is kept of nodes, here or in the shared store."""
        from loopty.workspaces.node_folders import NodeFolders

        if self.shared is None:
            return NodeFolders(self.state)
        from loopty.workspaces.shared_files import NodeSharing

        return NodeFolders(self.state, NodeSharing(self.shared, lambda: self.history).fetch)

    def read_history(self, on_progress: OnProgress) -> History:
        """Open the history, and say how far that is: after an upgrade all events are folded once more."""
        self.__dict__["history"] = self.ledger.history(on_progress)
        if not self.history.runs:
            del self.__dict__["history"]
        return self.history

    def flaw(self, newest_events: int | None = None, newest_nodes: int | None = None) -> str | None:
        """Say what is wrong with the record and what to do, or None: edits by hand, and unreadable events.

        Looks at every event and node or at the newest ones, and at every node that was read before.
        """
        flaw = self.ledger.flaw(newest_events, newest_nodes)
        remedy = "its claims are not loopty's own: measure what you rely on with `loopty measure replay`"
        edited = f"the ledger was changed by hand ({flaw}): {remedy}" if flaw else None
        return "; ".join(filter(None, (edited, self.unreadable))) or None

    @property
    def unreadable(self) -> str | None:
        """Say which events cannot be read, or None; everything else can be shown."""
        text = unreadable_text(self.history)
        return f"{text}: what it says is missing here" if text else None

    def events(self) -> Iterator[Recorded]:
        """Yield all events, oldest first."""
        return self.ledger.read()

    def call_events(self) -> Iterator[Recorded]:
        """Yield the events about model calls, oldest first."""
        return self.ledger.read_calls()


def _find_state(folders: GitFolders) -> StateFolder:
    """Find the state of the repository. Raises Misuse if nothing has run."""
    state = StateFolder.of(folders)
    if not state.has_ledger():
        old = f" ({OLD_LEDGER})" if state.has_old_ledger() else ""
        raise Misuse(f"nothing has run here yet: start with `loopty init`, then `loopty run`{old}")
    return state
