"""The family of directives: what the user wants the models to know, and which nodes changes start from."""

from __future__ import annotations

from collections.abc import Callable

from loopty.domain.ids import NodeId
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.run_record import RunPart


class DirectiveSet(Event):
    """The user's directive from here on; one without a text and without nodes removes it."""

    run: int
    text: str
    build_on: tuple[NodeId, ...] = ()
    """Changes start from the best node at or below one of these."""
    not_below: tuple[NodeId, ...] = ()
    """No change starts from these, nor from what is below them."""


class Directive(RunPart):
    """The directive in force."""

    text: str = ""
    build_on: tuple[NodeId, ...] = ()
    not_below: tuple[NodeId, ...] = ()

    def words(self, name: Callable[[NodeId], str]) -> str:
        """Say all of it, as models and agents read it; `name` is how a node is printed."""
        build_on = f"Build on {' or '.join(map(name, self.build_on))}." if self.build_on else ""
        below = " or ".join(map(name, self.not_below))
        not_below = f"Build on nothing at or below {below}." if below else ""
        return "\n".join(filter(None, (self.text, build_on, not_below)))


def _set(state: FoldState, event: DirectiveSet, _at: float) -> None:
    directive = Directive(event.text, event.build_on, event.not_below)
    state.put_run(state.runs[event.run].with_part(directive))


FAMILY = Family((DirectiveSet,), {DirectiveSet: _set})
