"""Driving the tree by hand: what `new`, `run`, `replay` and `init` share."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from loopty.campaign import new_machine
from loopty.campaign.campaign import Campaign
from loopty.campaign.new_machine import measured_here
from loopty.domain.curve import Row
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage
from loopty.domain.objective import Directions, metrics_fault
from loopty.domain.outcome import Ending, Outcome, Pool, Verdict
from loopty.domain.proposal import Proposal
from loopty.engine import decisions
from loopty.engine.protocols import OnMetrics, Trial
from loopty.engine.trials import TrialRunner
from loopty.evaluators.gates import Passage
from loopty.record.events import RunRebaselined
from loopty.record.history import History
from loopty.record.records import Node, Run
from loopty.workspaces import drafts

T = TypeVar("T")


def as_it_is(workshop: Campaign, node: Node) -> Node:
    """The node with what its draft holds right now; nothing is recorded."""
    if not node.draft:
        return node
    from dataclasses import replace

    committed = workshop.files.commit(_parent(workshop, node), _allowed(workshop, node), "a wiring check")
    return replace(node, commit=committed.commit, tree=committed.tree)


def decided(workshop: Campaign, node: Node, unsafe: bool, say: Callable[[str], None]) -> Node:
    """Run the trials that decide of the node; what stands in its way is told before a draft is closed."""

    def refuse_what_cannot_start(history: History) -> None:
        list(decisions.start_trial(history, node.id, workshop.owner, workshop.task.pools, workshop.task.noise))

    workshop.same_criteria(node)
    measure = workshop.measure(node.id.run, workshop.executor(unsafe, node.id.run))
    root = workshop.history[workshop.history.runs[node.id.run].root]
    if node.id != root.id and root.is_pending:
        say(f"the baseline {root.id} comes first")
        root = _decided(measure, root)
    if node.id != root.id and root.verdict is not Verdict.KEPT:
        why = f"has no result ({root.reason})" if root.verdict else "has no result yet"
        remedy = "mend it, then `loopty optimize --new-run`" if root.verdict else "wait for it"
        raise Misuse(f"the baseline {root.id} {why}, so nothing can be compared: {remedy}")
    refuse_what_cannot_start(workshop.history)
    if node.draft:
        try:
            _seal(workshop, node)
        except Misuse:
            # Says so where another process was faster and closed the draft.
            refuse_what_cannot_start(workshop.scribe.refresh())
            raise
    return _decided(measure, node, lambda: drafts.closed(workshop.state.draft(node.id)))


def _decided(measure: TrialRunner, node: Node, once_started: Callable[[], None] = lambda: None) -> Node:
    trial = measure.start(node)
    once_started()
    asyncio.run(_unless_stopped(lambda cancel: measure.run_until_verdict(trial, _unwatched, cancel)))
    return measure.history[node.id]


def replayed(workshop: Campaign, node: Node, unsafe: bool) -> Outcome:
    """Measure the node again; its verdict stays."""
    workshop.same_criteria(node)
    executor = workshop.executor(unsafe, node.id.run)
    measure = workshop.measure(node.id.run, executor, anywhere=True)
    return looked(measure, measure.start_observation(node, Pool.REPLAY))


def looked(measure: TrialRunner, trial: Trial) -> Outcome:
    """The outcome of a trial that decides of nothing."""
    return asyncio.run(_unless_stopped(lambda cancel: measure.run_observation(trial, _unwatched, cancel)))


def rebaselined(workshop: Campaign, run: Run, unsafe: bool) -> RunRebaselined | None:
    """Measure the baseline and the incumbent here, and compare with that from now on; None when stopped."""
    root = workshop.history[run.root]
    if root.verdict is not Verdict.KEPT:
        raise Misuse(f"run {run.number} has no baseline to measure here yet: `loopty optimize` begins with it")
    if run.driver:
        raise Misuse(f"run {run.number} is being driven by `loopty optimize` ({run.driver}): stop that one first")
    workshop.same_criteria(root)
    executor, noise = workshop.executor(unsafe, run.number), workshop.task.noise
    measure, here = workshop.measure(run.number, executor, anywhere=True), executor.machine.digest
    done = asyncio.run(
        _unless_stopped(lambda cancel: measured_here(measure, run.number, here, noise, _unwatched, cancel))
    )
    if not done:
        return None
    (item,) = workshop.scribe.record(lambda history: new_machine.rebaselined(history, run.number, here, noise))
    assert isinstance(item.event, RunRebaselined)
    return item.event


def wrong_with(workshop: Campaign, outcome: Outcome) -> str | None:
    """Why a checked run proves that something is amiss, or None."""
    if not outcome.is_finished:
        return outcome.reason
    # A check costs nothing, so the verifier gives no metrics in it.
    judged = {metric.name for metric in workshop.task.verifier.judged}
    wanted = tuple(metric for metric in workshop.task.objective.metrics if metric.name not in judged)
    return metrics_fault(outcome.metrics, wanted)


def checked(workshop: Campaign, node: Node, unsafe: bool) -> Outcome:
    """Run the real benchmark and change no state."""
    return _executed(workshop, _check(workshop, node), unsafe)


def gated(workshop: Campaign, node: Node, unsafe: bool) -> list[Passage]:
    """Run the gates of a node alone and change no state."""
    gatekeeper, trial = workshop.gatekeeper(unsafe), _check(workshop, node)
    return asyncio.run(_unless_stopped(lambda cancel: gatekeeper(trial, cancel)))


def _check(workshop: Campaign, node: Node) -> Trial:
    run = workshop.history.runs[node.id.run]
    return Trial(node, workshop.history[run.root], 0, Pool.CHECK, run.seed, workshop.gates(node.id))


def checked_baseline(workshop: Campaign, unsafe: bool) -> Outcome:
    """Run the real benchmark on the files as they are, before there is any run."""
    base = workshop.repository.snapshot("a wiring check")
    params = workshop.task.space.baseline()
    root = Node(NodeId("1"), Pool.CHECK, decisions.BASELINE, "", base.commit, base.tree, 0.0, 1, 0, params=params)
    return _executed(workshop, Trial(root, root, 0, Pool.CHECK, workshop.task.seed, workshop.task.gates), unsafe)


def _seal(workshop: Campaign, node: Node) -> None:
    """Harvest a draft's directory, check it and commit it."""
    parent = _parent(workshop, node)
    committed = workshop.files.commit(parent, _allowed(workshop, node), f"{node.operator}: {node.summary}")
    workshop.scribe.record(lambda history: decisions.seal_node(history, node.id, committed))


def _executed(workshop: Campaign, trial: Trial, unsafe: bool) -> Outcome:
    executor = workshop.executor(unsafe)
    try:
        return asyncio.run(_unless_stopped(lambda cancel: executor.execute(trial, _never, cancel)))
    except Outage as outage:
        return Outcome(Ending.CANCELLED, reason=outage.message)


async def _unless_stopped(work: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    """The work's result; Ctrl-C asks it to end."""
    cancel = asyncio.Event()
    with contextlib.suppress(NotImplementedError):
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, cancel.set)
    return await work(cancel)


def _allowed(workshop: Campaign, node: Node) -> dict[str, str | bytes | None]:
    """The draft's changes; Misuse when they go beyond the access rules."""
    parent = _parent(workshop, node)
    edits = drafts.harvested(workshop.state.draft(node.id))
    if reason := workshop.files.refusal(parent, Proposal(node.operator, parent.id, node.summary, edits=edits)):
        raise Misuse(f"node {node.id} {reason}")
    return dict(edits)


def _parent(workshop: Campaign, node: Node) -> Node:
    parent = node.id.parent or NodeId(str(node.id.run))
    return workshop.history[parent]


def _unwatched(trial: Trial) -> OnMetrics:  # noqa: ARG001
    return _never


def _never(rows: Sequence[Row], directions: Directions) -> str | None:  # noqa: ARG001
    """A trial by hand is never pruned."""
    return None
