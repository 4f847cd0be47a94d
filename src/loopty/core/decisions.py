"""What may be written next, as pure functions of the history: each returns events, or raises Misuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loopty.core import budget, events
from loopty.core.errors import Misuse
from loopty.core.events import Event
from loopty.core.history import LOSSES_UNTIL_QUARANTINE, History
from loopty.core.ids import NodeId
from loopty.core.judge import judged
from loopty.core.objective import missing
from loopty.core.outcome import Ending, Outcome, Pool, Verdict
from loopty.core.parts import Committed
from loopty.core.proposal import Proposal, identity
from loopty.core.records import Node, trial_name, trial_parts
from loopty.core.task import Pools, Task

BASELINE = "baseline"
BY_HAND = "hand"


def run_started(
    history: History, task: Task, benchmark: str, base: Committed, why: str, after: int = 0
) -> list[Event]:
    """A new run with its baseline; `benchmark` is the digest of the benchmark's files there.

    Its number is above those of this ledger and above `after`.
    """
    number = max(after, *history.runs, 0) + 1
    root = NodeId(str(number))
    return [
        events.RunStarted(number, task.criteria(benchmark), task.objective, task.seed, why, benchmark),
        events.NodeAdded(
            root, Pool.ATTEMPT, BASELINE, "the code as it is", base.commit, base.tree, task.space.baseline()
        ),
    ]


def session_started(history: History, run: int, owner: str) -> list[Event]:
    if driver := history.runs[run].driver:
        raise Misuse(f"run {run} is being driven by `loopty optimize` ({driver}) already: stop that one first")
    return [events.SessionStarted(run, owner)]


def recovered(history: History, alive: Callable[[str], bool]) -> list[Event]:
    """The end of everything whose process is gone: infrastructure, not failure."""
    ends: list[Event] = []
    for run in history.runs.values():
        if run.driver and not alive(run.driver):
            ends.append(events.SessionEnded(run.number, "its process died", lost=True))
        for name, flight in run.flights.items():
            if alive(flight.owner):
                continue
            ends += trial_lost(history, *trial_parts(name), "the process that ran it died")
        ends += [
            events.Settled(run.number, call, hold.tokens, hold.money_usd)
            for call, hold in run.holds.items()
            if not alive(hold.owner)
        ]
    return ends


def node_added(
    history: History,
    proposal: Proposal,
    committed: Committed,
    pool: Pool,
    draft: bool = False,
    asked_after: int = 0,
) -> list[Event]:
    """The proposal's place in the tree, or its refusal where the same experiment is there already."""
    parent = history[proposal.parent]
    params = dict(proposal.params or parent.params)
    twin = None if draft else history.twin(parent.id.run, pool, identity(committed.tree, params))
    if twin is not None:
        return [events.ProposalRefused(parent.id.run, pool, proposal.operator, f"the same as {twin}")]
    node = parent.id.child(parent.children + 1)
    return [
        events.NodeAdded(
            node,
            pool,
            proposal.operator,
            proposal.summary,
            committed.commit,
            committed.tree,
            params,
            draft,
            asked_after,
            tuple(sorted(proposal.edits)),
        )
    ]


def node_sealed(history: History, node: NodeId, committed: Committed) -> list[Event]:
    return [events.NodeSealed(node, committed.commit, committed.tree)] if history[node].draft else []


def trial_started(history: History, node: NodeId, owner: str, pools: Pools) -> list[Event]:
    """The start of the trial that decides of a node: once, and within the budget."""
    found = history[node]
    if found.running:
        raise Misuse(f"node {node} is running already: follow it with `loopty show {node}`")
    if found.verdict:
        raise Misuse(
            f"node {node} has its verdict ({found.verdict}): "
            f"measure it again with `loopty replay {node}`, or change it with `loopty new --parent {node}`"
        )
    if node.parent and (reason := budget.spent(history.runs[node.run], pools, found.pool)):
        raise Misuse(f"{reason}: raise it under [pools] in loopty.toml")
    return [events.TrialStarted(node, found.trials + 1, found.pool, owner)]


def replay_started(history: History, node: NodeId, owner: str) -> list[Event]:
    return [events.TrialStarted(node, history[node].trials + 1, Pool.REPLAY, owner)]


def trial_ended(history: History, node: NodeId, number: int, outcome: Outcome) -> list[Event]:
    """The end of a trial, and the verdict if it is the trial that decides."""
    flight = history.runs[node.run].flights.get(trial_name(node, number))
    if flight is None:
        return []  # another process took this one for dead and closed it
    reason = missing(outcome.metrics, history.yardstick(node.run))
    if outcome.finished and reason:
        outcome = replace(outcome, ending=Ending.FAILED, reason=reason)
    ended = events.TrialEnded(node, number, outcome)
    if flight.pool is Pool.REPLAY or outcome.ending is Ending.CANCELLED:
        return [ended]
    return [ended, judged(history, node, outcome)]


def trial_lost(history: History, node: NodeId, number: int, reason: str) -> list[Event]:
    """The end of a trial that the machinery failed; a node that this happens to again and again is set aside."""
    flight = history.runs[node.run].flights[trial_name(node, number)]
    ended = events.TrialEnded(node, number, Outcome(Ending.CANCELLED, reason=reason), lost=True)
    if flight.pool is Pool.REPLAY or history[node].losses + 1 < LOSSES_UNTIL_QUARANTINE:
        return [ended]
    why = f"lost {LOSSES_UNTIL_QUARANTINE} times, last because {reason}"
    return [ended, events.NodeJudged(node, Verdict.QUARANTINED, why)]


def next_pending(history: History, run: int, pool: Pool) -> Node | None:
    """The oldest node that still waits for its trial."""
    account = history.runs[run].account(pool)
    if account.started >= account.nodes:
        return None
    return next((node for node in history.nodes(run, pool) if node.id.parent and node.pending), None)
