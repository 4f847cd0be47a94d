"""What may be written next, as pure functions of the history: each returns events, or raises Misuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from loopty.domain.errors import Misuse, Taken
from loopty.domain.gate_spec import Gate
from loopty.domain.ids import NodeId
from loopty.domain.objective import metrics_fault
from loopty.domain.outcome import Ending, Outcome, Pool, Verdict
from loopty.domain.proposal import Objection, Proposal, Refusal, identity
from loopty.domain.task import Noise, Pools, Task, digest
from loopty.engine import budget
from loopty.engine.judge import apply_review, judge
from loopty.engine.pairs import MeasureAgain
from loopty.engine.protocols import CommittedFiles
from loopty.record import events
from loopty.record.events import Event
from loopty.record.history import LOOKING, History
from loopty.record.records import Node, trial_name, trial_parts

BASELINE = "baseline"
BY_HAND = "hand"

LOSSES_UNTIL_QUARANTINE = 5

_UNSCORED = (Pool.AUDIT, Pool.REVIEW)
"""Their ends are not held against the objective: an audit may report what it likes, a review measures nothing."""


def start_run(
    history: History, task: Task, benchmark: str, data: str, base: CommittedFiles, why: str, after: int = 0
) -> list[Event]:
    """A new run with its baseline; `benchmark` is the digest of the benchmark's files there, `data` of its data.

    Its number is above those of this ledger and above `after`.
    """
    number = max(after, *history.runs, 0) + 1
    root = NodeId(str(number))
    stated = task.criteria(benchmark, data)
    return [
        events.RunStarted(number, digest(stated), task.objective, task.seed, why, benchmark, data, stated),
        events.NodeAdded(
            root, Pool.ATTEMPT, BASELINE, "the code as it is", base.commit, base.tree, task.space.baseline()
        ),
    ]


def start_session(history: History, run: int, owner: str) -> list[Event]:
    if driver := history.runs[run].driver:
        raise Misuse(f"run {run} is being driven by `loopty optimize` ({driver}) already: stop that one first")
    return [events.SessionStarted(run, owner)]


def close_abandoned(history: History, alive: Callable[[str], bool]) -> Iterator[Event]:
    """The end of everything whose process is gone: infrastructure, not failure."""
    for run in list(history.runs.values()):
        if run.driver and not alive(run.driver):
            yield events.SessionEnded(run.number, "its process died", lost=True)
        for name, flight in run.flights.items():
            if not alive(flight.owner):
                yield from lose_trial(history, *trial_parts(name), "the process that ran it died")
        for call, hold in run.holds.items():
            if not alive(hold.owner):
                yield events.CallSettled(run.number, call, hold.tokens, hold.money_usd, lost=True)


def add_node(
    history: History,
    proposal: Proposal,
    committed: CommittedFiles,
    pool: Pool,
    draft: bool = False,
    asked_after: int = 0,
) -> list[Event]:
    """The proposal's place in the tree, or its refusal where the same experiment is there already."""
    parent = history[proposal.parent]
    params = dict(proposal.params or parent.params)
    twin = None if draft else history.twin(parent.id.run, pool, identity(committed.tree, params))
    if twin is not None:
        refusal = proposal.as_refusal(f"the same as {twin}", Objection.DUPLICATE)
        return [refuse_proposal(parent.id.run, pool, refusal)]
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
            proposal.inspirations,
            proposal.calls,
            proposal.remaining_in_reply,
            proposal.index_in_reply,
        )
    ]


def refuse_proposal(run: int, pool: Pool, refusal: Refusal) -> Event:
    operator, reason, objection = refusal.operator, refusal.reason, refusal.objection
    return events.ProposalRefused(
        run, pool, operator, reason, objection, refusal.calls, refusal.remaining_in_reply, refusal.index_in_reply
    )


def seal_node(history: History, node: NodeId, committed: CommittedFiles) -> list[Event]:
    return [events.NodeSealed(node, committed.commit, committed.tree)] if history[node].draft else []


def start_trial(
    history: History, node: NodeId, owner: str, pools: Pools, noise: Noise, review: str = "off"
) -> Iterator[Event]:
    """The start of the next trial that helps to decide of a node, within the budget; or the verdict.

    `review` says what becomes of a winner that the verifier objects to, as in the task.
    """
    found = history[node]
    if found.running:
        raise Taken(f"node {node} is running already: follow it with `loopty show {node}`")
    if found.verdict:
        raise Taken(
            f"node {node} has its verdict ({found.verdict}): "
            f"measure it again with `loopty replay {node}`, or change it with `loopty new --parent {node}`"
        )
    if found.outcome:
        yield from _next_step(history, node, owner, pools, noise, review)
        return
    if node.parent and (reason := budget.pool_limit_reached(history.runs[node.run], pools, found.pool)):
        raise Taken(f"{reason}: raise it under [pools] in loopty.toml")
    yield events.TrialStarted(node, found.trials + 1, found.pool, owner)


def start_observation(history: History, node: NodeId, owner: str, pool: Pool) -> list[Event]:
    """The start of a trial that decides of nothing: a replay, an audit, a measurement on another machine."""
    return [events.TrialStarted(node, history[node].trials + 1, pool, owner)]


def start_audit(history: History, node: NodeId, owner: str, split: str) -> list[Event]:
    """The start of a trial on the held-out split; `split` is its digest."""
    number = history[node].trials + 1
    return [
        events.TrialStarted(node, number, Pool.AUDIT, owner),
        events.SplitShown(node, number, split),
    ]


def end_trial(
    history: History,
    node: NodeId,
    number: int,
    outcome: Outcome,
    pools: Pools,
    noise: Noise,
    review: str = "off",
) -> Iterator[Event]:
    """The end of a trial, then the verdict that follows from it, or the start of the next measurement."""
    flight = history.runs[node.run].flights.get(trial_name(node, number))
    if flight is None:
        return  # another process took this one for dead and closed it
    reason = metrics_fault(outcome.metrics, history.counting_metrics(node.run))
    if outcome.is_finished and reason and flight.pool not in _UNSCORED:
        outcome = replace(outcome, ending=Ending.FAILED, reason=reason)
    yield events.TrialEnded(node, number, outcome)
    if flight.pool not in LOOKING and outcome.ending is not Ending.CANCELLED:
        yield from _next_step(history, flight.subject or node, flight.owner, pools, noise, review)


def _next_step(
    history: History, node: NodeId, owner: str, pools: Pools, noise: Noise, review: str
) -> Iterator[Event]:
    """The verdict on a node that has a result, or the measurement or review that is still needed for it."""
    affordable = budget.pool_limit_reached(history.runs[node.run], pools, Pool.REPEAT) is None
    ruled = judge(history, node, noise, affordable)
    if isinstance(ruled, MeasureAgain):
        number = history[ruled.node].trials + 1
        yield events.TrialStarted(ruled.node, number, Pool.REPEAT, owner, node, ruled.rival)
    elif verdict := apply_review(history[node], ruled, review):
        yield verdict
    else:
        yield events.TrialStarted(node, history[node].trials + 1, Pool.REVIEW, owner, node)


def lose_trial(history: History, node: NodeId, number: int, reason: str) -> Iterator[Event]:
    """The end of a trial that the machinery failed; a node that this happens to again and again is set aside."""
    flight = history.runs[node.run].flights.get(trial_name(node, number))
    if flight is None:
        return  # another process took this one for dead and closed it
    yield events.TrialEnded(node, number, Outcome(Ending.CANCELLED, reason=reason), lost=True)
    subject = flight.subject or node
    if flight.pool not in LOOKING and history[subject].losses_in_row >= LOSSES_UNTIL_QUARANTINE:
        why = f"lost {LOSSES_UNTIL_QUARANTINE} times in a row, last because {reason}"
        yield events.NodeJudged(subject, Verdict.QUARANTINED, why)


def note_machine(history: History, run: int, fingerprint: str, facts: Mapping[str, str]) -> list[Event]:
    known = fingerprint in history.runs[run].machines
    return [] if known else [events.MachineSeen(run, fingerprint, facts)]


def add_gate(history: History, node: NodeId, gate: Gate) -> list[Event]:
    """A gate for a node and its descendants; its name is new among those that apply there."""
    run = history.runs[history[node].id.run]
    related = (other for other in map(NodeId, run.gates) if node.is_within(other) or other.is_within(node))
    if any(gate.name == known.name for other in related for known in run.gates[other]):
        raise Misuse(f"there is a gate {gate.name} at or around {node} already: give this one another name")
    return [events.GateAdded(node, gate)]


def next_undecided(history: History, run: int, pool: Pool) -> Node | None:
    """The oldest node whose measuring was broken off before its verdict; what it costs is paid for."""
    nodes = (history[node] for node in history.runs[run].undecided if node.parent)
    return next((node for node in nodes if node.pool is pool and node.is_pending), None)


def next_pending(history: History, run: int, pool: Pool) -> Node | None:
    """The oldest node that still waits for its first trial."""
    account = history.runs[run].account(pool)
    if account.started >= account.nodes:
        return None
    return next((node for node in history.nodes(run, pool) if node.id.parent and node.is_pending), None)
