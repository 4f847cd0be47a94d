"""What people and audits tell a search: directives, notes, and nodes that no change starts from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.kit.records import Record, field, replace
from loopty.record.fold import Event, Family, FoldState
from loopty.record.run_record import Run, RunPart
from loopty.record.trials import TrialEnded, Trials, trial_name


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


DIRECTIVES = Family((DirectiveSet,), {DirectiveSet: _set})


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
    """Return the directive in force, if this client has not been shown it yet; else empty."""
    text = Directive.of(run).words(name)
    return text if text and Acknowledgements.of(run).seen.get(client) != directive_digest(text) else ""


def directive_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _see(state: FoldState, event: DirectiveSeen, _at: float) -> None:
    run = state.runs[event.run]
    seen = {name: text for name, text in Acknowledgements.of(run).seen.items() if name != event.client}
    kept = dict([*seen.items(), (event.client, event.directive)][-_MOST_CLIENTS:])
    state.put_run(run.with_part(Acknowledgements(kept)))


ACKNOWLEDGEMENTS = Family((DirectiveSeen,), {DirectiveSeen: _see})


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


NOTES = Family((NoteAdded,), {NoteAdded: _add})


# No score of the split is in it.


class AuditConcluded(Event):
    """What all audits of a run so far say about its gains, without a number."""

    run: int
    refuted: tuple[NodeId, ...]
    """Nodes whose gain in the search is none on the split, or less there than that of an earlier one."""
    text: str
    """Which gains do not carry over, as a sentence; empty while all do."""
    steers: bool = False
    """Whether later changes are judged against the newest node that still holds."""


class AuditAnchors(RunPart):
    """The newest conclusion."""

    refuted: tuple[NodeId, ...] = ()
    text: str = ""
    steers: bool = False
    has_new_audit: bool = False
    """Whether an audit ended after it: the process that made it was killed before it could conclude."""


def _conclude(state: FoldState, event: AuditConcluded, _at: float) -> None:
    state.put_run(state.runs[event.run].with_part(AuditAnchors(event.refuted, event.text, event.steers)))


def _end(state: FoldState, event: TrialEnded, _at: float) -> None:
    run = state.runs[event.node.run]
    if Trials.of(run).running[trial_name(event.node, event.number)].pool is Pool.AUDIT:
        state.put_run(run.with_part(replace(AuditAnchors.of(run), has_new_audit=True)))


AUDIT_ANCHORS = Family((AuditConcluded,), {AuditConcluded: _conclude, TrialEnded: _end})


def refuted_top(run: Run, node: NodeId) -> NodeId | None:
    """Return the node at or above this one whose gain did not carry over in an audit, or None."""
    return next((top for top in AuditAnchors.of(run).refuted if node.is_within(top)), None)


def excluded_tops(run: Run, audits: bool) -> tuple[NodeId, ...]:
    """List the nodes that nothing starts from, nor from below them; `audits` says whether audits steer."""
    return (*Directive.of(run).not_below, *(AuditAnchors.of(run).refuted if audits else ()))


def exclusion(history: FoldState, node: NodeId, audits: bool) -> str:
    """Tell why no change starts from the node, as a clause; empty if one may."""
    run = history.runs[node.run]
    if node == run.root:
        return ""
    for top in Directive.of(run).not_below:
        if node.is_within(top):
            return f"the directive says: nothing at or below {history.name(top)}"
    if audits and (refuted := refuted_top(run, node)):
        return f"an audit found that the gain of {history.name(refuted)} does not carry over"
    withdrawn = history[node].withdrawn
    return (
        f"{history.name(node)} was taken back by hand: {withdrawn.why}" if withdrawn and withdrawn.by_hand else ""
    )
