"""Driving the tree by hand: what `new`, `run`, `replay` and `init` share."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence

from loopty.assemble import Workshop
from loopty.cli.output import say
from loopty.core import decisions
from loopty.core.curve import Row
from loopty.core.errors import Misuse
from loopty.core.events import Event, TrialEnded, TrialStarted
from loopty.core.history import History
from loopty.core.ids import NodeId
from loopty.core.objective import Directions, missing
from loopty.core.outcome import Ending, Outcome, Pool
from loopty.core.parts import Trial
from loopty.core.proposal import Proposal
from loopty.core.records import Node
from loopty.workspaces import drafts


def as_it_is(workshop: Workshop, node: Node) -> Node:
    """The node with what its draft holds right now; nothing is recorded."""
    if not node.draft:
        return node
    from dataclasses import replace

    committed = workshop.files.commit(_parent(workshop, node), _allowed(workshop, node), "a wiring check")
    return replace(node, commit=committed.commit, tree=committed.tree)


def decided(workshop: Workshop, node: Node, unsafe: bool) -> Outcome:
    """Run the trial that decides of the node; what stands in its way is told before a draft is closed."""

    def started(history: History) -> list[Event]:
        return decisions.trial_started(history, node.id, workshop.owner, workshop.task.pools)

    workshop.same_criteria(node)
    root = workshop.history[workshop.history.runs[node.id.run].root]
    if node.id != root.id and root.pending:
        say(f"the baseline {root.id} comes first")
        root = _measured(workshop, root, unsafe)
    if node.id != root.id and not (root.outcome and root.outcome.finished):
        remedy = "mend it, then `loopty optimize --new-run`" if root.verdict else "wait for it"
        raise Misuse(f"the baseline has no result, so nothing can be compared: {remedy}")
    started(workshop.history)
    if node.draft:
        try:
            _seal(workshop, node)
        except Misuse:
            started(workshop.scribe.refresh())  # says so where another process was faster and closed the draft
            raise
    events = workshop.scribe.decide(started)
    drafts.closed(workshop.state.draft(node.id))
    return _flown(workshop, node, events[0].event, unsafe)


def _measured(workshop: Workshop, root: Node, unsafe: bool) -> Node:
    events = workshop.scribe.decide(
        lambda history: decisions.trial_started(history, root.id, workshop.owner, workshop.task.pools)
    )
    _flown(workshop, root, events[0].event, unsafe)
    return workshop.history[root.id]


def replayed(workshop: Workshop, node: Node, unsafe: bool) -> Outcome:
    """Measure the node again; its verdict stays."""
    workshop.same_criteria(node)
    events = workshop.scribe.decide(lambda history: decisions.replay_started(history, node.id, workshop.owner))
    return _flown(workshop, node, events[0].event, unsafe)


def wrong_with(workshop: Workshop, outcome: Outcome) -> str | None:
    """Why a checked run proves that something is amiss, or None."""
    if not outcome.finished:
        return outcome.reason
    return missing(outcome.metrics, workshop.task.objective.metrics)


def checked(workshop: Workshop, node: Node, unsafe: bool) -> Outcome:
    """Run the real benchmark and change no state."""
    return asyncio.run(_executed(workshop, _trial(workshop, node, 0, Pool.CHECK), unsafe))


def checked_baseline(workshop: Workshop, unsafe: bool) -> Outcome:
    """Run the real benchmark on the files as they are, before there is any run."""
    base = workshop.repository.snapshot("a wiring check")
    params = workshop.task.space.baseline()
    root = Node(NodeId("1"), Pool.CHECK, decisions.BASELINE, "", base.commit, base.tree, 0.0, 1, 0, params=params)
    trial = Trial(root, root, 0, Pool.CHECK, workshop.task.seed)
    return asyncio.run(_executed(workshop, trial, unsafe))


def _seal(workshop: Workshop, node: Node) -> None:
    """Harvest a draft's directory, check it and commit it."""
    parent = _parent(workshop, node)
    committed = workshop.files.commit(parent, _allowed(workshop, node), f"{node.operator}: {node.summary}")
    workshop.scribe.decide(lambda history: decisions.node_sealed(history, node.id, committed))


def _flown(workshop: Workshop, node: Node, started: object, unsafe: bool) -> Outcome:
    assert isinstance(started, TrialStarted)
    trial = _trial(workshop, workshop.history[node.id], started.number, started.pool)
    parent = workshop.history[node.id.parent] if node.id.parent else None
    outcome = Outcome(Ending.CANCELLED, reason="loopty failed while it ran")
    try:
        workshop.files.publish(trial.node, parent)
        outcome = asyncio.run(_executed(workshop, trial, unsafe))
    finally:
        events = workshop.scribe.decide(
            lambda history: decisions.trial_ended(history, node.id, started.number, outcome)
        )
    if started.pool is not Pool.REPLAY and outcome.ending is not Ending.CANCELLED:
        workshop.files.conclude(workshop.history[node.id], workshop.history)
    # As recorded: a result without the metrics that count is a failure.
    return next((item.event.outcome for item in events if isinstance(item.event, TrialEnded)), outcome)


async def _executed(workshop: Workshop, trial: Trial, unsafe: bool) -> Outcome:
    cancel = asyncio.Event()
    with contextlib.suppress(NotImplementedError):
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, cancel.set)
    return await workshop.executor(unsafe).execute(trial, _never, cancel)


def _trial(workshop: Workshop, node: Node, number: int, pool: Pool) -> Trial:
    run = workshop.history.runs[node.id.run]
    return Trial(node, workshop.history[run.root], number, pool, run.seed)


def _allowed(workshop: Workshop, node: Node) -> dict[str, str | bytes | None]:
    """The draft's changes; Misuse when they go beyond the access rules."""
    parent = _parent(workshop, node)
    edits = drafts.harvested(workshop.state.draft(node.id))
    if reason := workshop.files.refusal(parent, Proposal(node.operator, parent.id, node.summary, edits=edits)):
        raise Misuse(f"node {node.id} {reason}")
    return dict(edits)


def _parent(workshop: Workshop, node: Node) -> Node:
    parent = node.id.parent or NodeId(str(node.id.run))
    return workshop.history[parent]


def _never(rows: Sequence[Row], directions: Directions) -> str | None:  # noqa: ARG001
    """A trial by hand is never pruned."""
    return None
