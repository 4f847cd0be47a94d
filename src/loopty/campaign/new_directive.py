"""A directive, as a pure function of the history: its event, or Misuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.record.directives import Directive, DirectiveSet
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.node_refusals import parent_refusal

_MOST_NODES = 16


def set_directive(
    run: int,
    text: str | None,
    build_on: Sequence[NodeId] | None,
    not_below: Sequence[NodeId] | None,
    history: History,
) -> Iterator[Event]:
    """The directive with these parts; None leaves a part as it is. Nothing where nothing changes."""
    old = Directive.of(history.runs[run])
    new = Directive(
        old.text if text is None else text,
        old.build_on if build_on is None else tuple(dict.fromkeys(build_on)),
        old.not_below if not_below is None else tuple(dict.fromkeys(not_below)),
    )
    if new != old:
        _refuse_nodes(history, run, new)
        yield DirectiveSet(run, new.text, new.build_on, new.not_below)


def _refuse_nodes(history: History, run: int, directive: Directive) -> None:
    named = (*directive.build_on, *directive.not_below)
    if len(named) > _MOST_NODES:
        raise Misuse(f"a directive names at most {_MOST_NODES} nodes: name those above them")
    for node in named:
        if node.run != run:
            raise Misuse(f"{history.name(node)} is not in run {run}, which the directive is for")
    if history.runs[run].root in directive.not_below:
        raise Misuse("every node is below the baseline: name another node, or stop the run with `loopty stop`")
    for node in directive.build_on:
        if reason := parent_refusal(history[node]):
            raise Misuse(f"{reason}; choose another node to build on")
        if top := next((top for top in directive.not_below if node.is_within(top)), None):
            raise Misuse(
                f"the directive cannot build on {history.name(node)} and on nothing at or below "
                f"{history.name(top)}: give one of the two"
            )
