"""The family of notes: what clients want others to know about a run or a node."""

from __future__ import annotations

from loopty.domain.ids import NodeId
from loopty.kit.records import Record
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.run_record import RunPart

_MOST_NOTES = 20
"""Of a run, the newest; the ledger has them all."""


class NoteAdded(Event):
    """A note of a client, about a node where one is named."""

    run: int
    client: str
    text: str
    node: NodeId | None = None


class Note(Record):
    """One note. Its text is that of a stranger."""

    client: str
    text: str
    at: float
    node: NodeId | None = None


class Notes(RunPart):
    """The newest notes, oldest first."""

    newest: tuple[Note, ...] = ()
    count: int = 0


def _add(state: FoldState, event: NoteAdded, at: float) -> None:
    run = state.runs[event.run]
    notes = Notes.of(run)
    newest = (*notes.newest, Note(event.client, event.text, at, event.node))[-_MOST_NOTES:]
    state.put_run(run.with_part(Notes(newest, notes.count + 1)))


FAMILY = Family((NoteAdded,), {NoteAdded: _add})
