"""Opens what is there, for verbs that only read: they start fast and need no task file."""

from __future__ import annotations

from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.history import History
from loopty.workspaces.state_folder import StateFolder


def found_state(start: Path) -> StateFolder:
    """The state of the repository around this directory."""
    for folder in (start, *start.parents):
        if StateFolder(folder).ledger.exists():
            return StateFolder(folder)
    raise Misuse("nothing has run here yet: start with `loopty init`, then `loopty optimize`")


def read_history(start: Path) -> History:
    """The history of the repository around this directory."""
    history = SqliteLedger(found_state(start).ledger).history()
    if not history.runs:
        raise Misuse("nothing has run here yet: start with `loopty optimize`")
    return history
