"""The family of acknowledgements: which clients have been shown the directive in force."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from loopty.domain.ids import NodeId
from loopty.kit.records import field
from loopty.record.directives import Directive
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.run_record import Run, RunPart

_MOST_CLIENTS = 64
"""Whoever is forgotten is shown the directive once more."""


class DirectiveSeen(Event):
    """A client was shown the directive with this digest."""

    run: int
    client: str
    directive: str


class Acknowledgements(RunPart):
    """The digest of the directive that each client was shown last."""

    seen: Mapping[str, str] = field(default_factory=dict)


def unseen_directive(run: Run, client: str, name: Callable[[NodeId], str]) -> str:
    """The directive in force, where this client has not been shown it yet; else empty."""
    text = Directive.of(run).words(name)
    return text if text and Acknowledgements.of(run).seen.get(client) != directive_digest(text) else ""


def directive_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _see(state: FoldState, event: DirectiveSeen, _at: float) -> None:
    run = state.runs[event.run]
    seen = {name: text for name, text in Acknowledgements.of(run).seen.items() if name != event.client}
    kept = dict([*seen.items(), (event.client, event.directive)][-_MOST_CLIENTS:])
    state.put_run(run.with_part(Acknowledgements(kept)))


FAMILY = Family((DirectiveSeen,), {DirectiveSeen: _see})
