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
from loopty.domain.outcome import Ending, Outcome, Verdict
from loopty.domain.pool import Pool
from loopty.domain.proposal import Proposal
from loopty.engine import decisions
from loopty.engine.decisions import Judging
from loopty.engine.protocols import OnMetrics, Trial
from loopty.engine.trial_runner import TrialRunner
from loopty.evaluators.gates import GateResult
from loopty.record.cohorts import RunRebaselined
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.run_record import Run
from loopty.record.sessions import Session
from loopty.workspaces import drafts

T = TypeVar("T")


def as_it_is(campaign: Campaign, node: Node) -> Node:
    """The node with what its draft holds right now; nothing is recorded."""
    if not node.draft:
        return node
    from dataclasses import replace

    committed = campaign.files.commit(_parent(campaign, node), _allowed(campaign, node), "a wiring check")
    return replace(node, commit=committed.commit, tree=committed.tree)


def decided(campaign: Campaign, node: Node, unsafe: bool, say: Callable[[str], None]) -> Node:
    """Run the trials that decide of the node; what stands in its way is told before a draft is closed."""

    def refuse_what_cannot_start(history: History) -> None:
        judging = Judging(campaign.task.pools, campaign.task.noise)
        list(decisions.start_trial(history, node.id, campaign.owner, judging))

    campaign.same_criteria(node)
    measure = campaign.measure(node.id.run, campaign.executor(unsafe, node.id.run))
    root = campaign.history[campaign.history.runs[node.id.run].root]
    if node.id != root.id and root.is_pending:
        say(f"the baseline {root.id} comes first")
        root = _decided(measure, root)
    if node.id != root.id and root.verdict is not Verdict.KEPT:
        why = f"has no result ({root.reason})" if root.verdict else "has no result yet"
        remedy = "mend it, then `loopty optimize --new-run`" if root.verdict else "wait for it"
        raise Misuse(f"the baseline {root.id} {why}, so nothing can be compared: {remedy}")
    refuse_what_cannot_start(campaign.history)
    if node.draft:
        try:
            _seal(campaign, node)
        except Misuse:
            # Says so where another process was faster and closed the draft.
            refuse_what_cannot_start(campaign.recorder.refresh())
            raise
    return _decided(measure, node, lambda: drafts.remove(campaign.state.draft_folder(node.id)))


def _decided(measure: TrialRunner, node: Node, once_started: Callable[[], None] = lambda: None) -> Node:
    trial = measure.start(node)
    once_started()
    asyncio.run(_unless_stopped(lambda cancel: measure.run_until_verdict(trial, _unwatched, cancel)))
    return measure.history[node.id]


def replayed(campaign: Campaign, node: Node, unsafe: bool) -> Outcome:
    """Measure the node again; its verdict stays."""
    campaign.same_criteria(node)
    executor = campaign.executor(unsafe, node.id.run)
    measure = campaign.measure(node.id.run, executor, anywhere=True)
    return looked(measure, measure.start_observation(node, Pool.REPLAY))


def looked(measure: TrialRunner, trial: Trial) -> Outcome:
    """The outcome of a trial that decides of nothing."""
    return asyncio.run(_unless_stopped(lambda cancel: measure.run_observation(trial, _unwatched, cancel)))


def rebaselined(campaign: Campaign, run: Run, unsafe: bool) -> RunRebaselined | None:
    """Measure the baseline and the incumbent here, and compare with that from now on; None when stopped."""
    root = campaign.history[run.root]
    if root.verdict is not Verdict.KEPT:
        raise Misuse(f"run {run.number} has no baseline to measure here yet: `loopty optimize` begins with it")
    if driver := Session.of(run).driver:
        raise Misuse(f"run {run.number} is being driven by `loopty optimize` ({driver}): stop that one first")
    campaign.same_criteria(root)
    executor, noise = campaign.executor(unsafe, run.number), campaign.task.noise
    measure, here = campaign.measure(run.number, executor, anywhere=True), executor.machine.digest
    done = asyncio.run(
        _unless_stopped(lambda cancel: measured_here(measure, run.number, here, noise, _unwatched, cancel))
    )
    if not done:
        return None
    (item,) = campaign.recorder.record(lambda history: new_machine.rebaselined(history, run.number, here, noise))
    assert isinstance(item.event, RunRebaselined)
    return item.event


def wrong_with(campaign: Campaign, outcome: Outcome) -> str | None:
    """Why a checked run proves that something is amiss, or None."""
    if not outcome.is_finished:
        return outcome.reason
    # A check costs nothing, so the verifier gives no metrics in it.
    judged = {metric.name for metric in campaign.task.verifier.judged}
    wanted = tuple(metric for metric in campaign.task.objective.metrics if metric.name not in judged)
    return metrics_fault(outcome.metrics, wanted)


def checked(campaign: Campaign, node: Node, unsafe: bool) -> Outcome:
    """Run the real benchmark and change no state."""
    return _executed(campaign, _check(campaign, node), unsafe)


def gated(campaign: Campaign, node: Node, unsafe: bool) -> list[GateResult]:
    """Run the gates of a node alone and change no state."""
    gatekeeper, trial = campaign.gatekeeper(unsafe), _check(campaign, node)
    return asyncio.run(_unless_stopped(lambda cancel: gatekeeper(trial, cancel)))


def _check(campaign: Campaign, node: Node) -> Trial:
    run = campaign.history.runs[node.id.run]
    return Trial(node, campaign.history[run.root], 0, Pool.CHECK, run.seed, campaign.gates(node.id))


def checked_baseline(campaign: Campaign, unsafe: bool) -> Outcome:
    """Run the real benchmark on the files as they are, before there is any run."""
    base = campaign.repository.snapshot("a wiring check")
    params = campaign.task.space.baseline()
    root = Node(NodeId("1"), Pool.CHECK, decisions.BASELINE, "", base.commit, base.tree, 0.0, 1, 0, params=params)
    return _executed(campaign, Trial(root, root, 0, Pool.CHECK, campaign.task.seed, campaign.task.gates), unsafe)


def _seal(campaign: Campaign, node: Node) -> None:
    """Harvest a draft's directory, check it and commit it."""
    parent = _parent(campaign, node)
    committed = campaign.files.commit(parent, _allowed(campaign, node), f"{node.operator}: {node.summary}")
    campaign.recorder.record(lambda history: decisions.seal_node(history, node.id, committed))


def _executed(campaign: Campaign, trial: Trial, unsafe: bool) -> Outcome:
    executor = campaign.executor(unsafe)
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


def _allowed(campaign: Campaign, node: Node) -> dict[str, str | bytes | None]:
    """The draft's changes; Misuse when they go beyond the access rules."""
    parent = _parent(campaign, node)
    edits = drafts.edits_in(campaign.state.draft_folder(node.id))
    if reason := campaign.files.refusal(parent, Proposal(node.operator, parent.id, node.summary, edits=edits)):
        raise Misuse(f"node {node.id} {reason}")
    return dict(edits)


def _parent(campaign: Campaign, node: Node) -> Node:
    parent = node.id.parent or NodeId(str(node.id.run))
    return campaign.history[parent]


def _unwatched(trial: Trial) -> OnMetrics:  # noqa: ARG001
    return _never


def _never(rows: Sequence[Row], directions: Directions) -> str | None:  # noqa: ARG001
    """A trial by hand is never pruned."""
    return None
