"""The family of directives: what the user wants the models to know."""

from __future__ import annotations

from loopty.kit.dataclass import dataclass
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.run_record import RunPart


@dataclass(frozen=True, slots=True)
class DirectiveSet(Event):
    """The user's directive from here on; an empty text removes it."""

    run: int
    text: str


@dataclass(frozen=True, slots=True)
class Directive(RunPart):
    """The directive in force."""

    text: str = ""


def _set(state: FoldState, event: DirectiveSet, _at: float) -> None:
    state.put_run(state.runs[event.run].with_part(Directive(event.text)))


FAMILY = Family((DirectiveSet,), {DirectiveSet: _set})
