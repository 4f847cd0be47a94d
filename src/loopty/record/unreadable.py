"""Events that the ledger holds and nobody can read: an older loopty wrote them, or somebody with an SQL shell.

Each is set aside under its number, so that it hides no other. The list is kept with the newest run, because whose
event it was cannot be read either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from loopty.domain.declared_types import cut_words
from loopty.domain.errors import Misuse
from loopty.kit.records import field, replace
from loopty.record.event import Event, Recorded
from loopty.record.pages import LEDGER_REMEDY, damaged_page
from loopty.record.run_record import RunPart

if TYPE_CHECKING:
    from loopty.record.fold_state import FoldState

_MOST_NAMED = 20
_LONGEST_FAULT = 300


class UnreadableEvent(Event):
    """Stands for an event that cannot be read. It is never written."""

    kind: str
    fault: str


class Unreadable(RunPart):
    """The events that were set aside while this run was the newest."""

    faults: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with the first ones, by number."""
    count: int = 0


def set_aside(state: FoldState, recorded: Recorded, fault: str) -> None:
    """Note an event that cannot be read. Raises Misuse before the first run: then nothing can be shown."""
    run = state.run
    if run is None:
        raise damaged_page(f"event {recorded.number}")
    known = Unreadable.of(run)
    more = {str(recorded.number): cut_words(fault, _LONGEST_FAULT)} if known.count < _MOST_NAMED else {}
    state.put_run(run.with_part(replace(known, faults={**known.faults, **more}, count=known.count + 1)))


def unreadable_text(state: FoldState) -> str | None:
    """Which events could not be read, and what is wrong with them; None where all could."""
    found = [Unreadable.of(run) for run in state.runs.values()]
    if not (count := sum(each.count for each in found)):
        return None
    lines = [f"event {number} cannot be read ({fault})" for each in found for number, fault in each.faults.items()]
    return "; ".join([*lines, *([f"and {count - len(lines):,} more"] if count > len(lines) else [])])


def refuse_unreadable(state: FoldState) -> None:
    """Let nobody add to a ledger with such an event. Raises Misuse.

    The event may have added a node, whose name and branch the next node would get again, or ended a trial or paid
    for a call, so that a budget would be spent twice. A person can see to that, a new run cannot.
    """
    if text := unreadable_text(state):
        raise Misuse(
            f"{text}: nothing is added to this ledger, because what that event did would be undone or done twice. "
            f"{LEDGER_REMEDY}. Until then it can be read"
        )
