"""What may be recorded next, as pure functions of the history. Each returns events or raises Misuse."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from loopty.domain.access import ObjectName, TreePath
from loopty.domain.benchmark import metric_refusal
from loopty.domain.counting import CLOCK
from loopty.domain.errors import Misuse, Taken
from loopty.domain.ids import NodeId
from loopty.domain.objective import metrics_fault, with_weighted_sum
from loopty.domain.proposal import BY_HAND, Declared, Objection, Proposal, complete_params, identity
from loopty.domain.space import Params, Value
from loopty.domain.trial import Ending, GateScope, Outcome, Pool, Verdict
from loopty.engine.protocols import CommittedFiles
from loopty.judge.judge import apply_review, judge
from loopty.judge.leaps import hold_leap
from loopty.judge.pairs import MeasureAgain
from loopty.judge.revisions import unseat_failing_incumbent, unseat_lucky_incumbent
from loopty.kit.records import replace
from loopty.record.calls import CallSettled, Spend
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Node, parent_refusal, refuse_dropped
from loopty.record.nodes import NodeAdded, NodeGates, refuse_proposal, require_files
from loopty.record.sessions import Session, SessionEnded, SessionStarted
from loopty.record.trials import SplitShown, TrialEnded, Trials, TrialStarted, trial_name, trial_parts
from loopty.record.tunings import Tunings
from loopty.record.verdicts import NodeJudged

if TYPE_CHECKING:
    from loopty.judge.tuning import Judging


def inherit_params(history: History, proposal: Proposal, declared: Declared) -> dict[str, Value]:
    """Return the proposal's values, else those of its parent; declared ones come from all its parents."""
    parent, values = history[proposal.parent], dict[str, Value]()
    for node in (*map(history.__getitem__, proposal.merged), parent):
        values |= {name: value for name, value in node.params.items() if name in node.declared}
    known = {name: value for name, value in values.items() if name in declared}
    return complete_params(declared, {**known, **(proposal.params or parent.task_params)})


def add_proposal(
    proposal: Proposal,
    node: NodeId,
    pool: Pool,
    commit: ObjectName,
    tree: ObjectName,
    params: Params,
    declared: Declared,
    draft: bool,
    known_event: int,
) -> NodeAdded:
    """Return the event that adds the proposal as this node."""
    return NodeAdded(
        node=node,
        pool=pool,
        operator=proposal.operator,
        summary=proposal.summary,
        commit=commit,
        tree=tree,
        params=params,
        draft=draft,
        known_event=known_event,
        edits=tuple(map(TreePath, sorted(proposal.edits))),
        inspirations=proposal.inspirations,
        calls=proposal.calls,
        remaining_in_reply=proposal.remaining_in_reply,
        index_in_reply=proposal.index_in_reply,
        parent_reason=proposal.parent_reason,
        author=proposal.author,
        surface=proposal.surface,
        merged=proposal.merged,
        arm_reason=proposal.arm_reason,
        declared=declared,
    )


LOSSES_UNTIL_QUARANTINE = 5


def start_session(history: History, run: int, owner: str) -> list[Event]:
    if driver := Session.of(history.runs[run]).driver:
        raise Misuse(f"run {run} is already driven by `loopty run` ({driver}): stop that one first")
    return [SessionStarted(run, owner)]


def close_abandoned(history: History, is_alive: Callable[[str], bool]) -> Iterator[Event]:
    """End everything whose process is gone: an infrastructure loss, not a failure."""
    for run in list(history.runs.values()):
        driver = Session.of(run).driver
        if driver and not is_alive(driver):
            yield SessionEnded(run.number, "its process died", lost=True)
        for name, trial in Trials.of(run).running.items():
            if not is_alive(trial.owner):
                yield from lose_trial(history, *trial_parts(name), "the process that ran it died")
        for call, reservation in Spend.of(run).reservations.items():
            if not is_alive(reservation.owner):
                yield CallSettled(run.number, call, reservation.tokens, reservation.money_usd, lost=True)


def add_node(
    history: History,
    proposal: Proposal,
    files: CommittedFiles,
    pool: Pool,
    draft: bool = False,
    known_event: int = 0,
) -> list[Event]:
    """Add the proposal as a node, or refuse it if the same experiment is already in the tree."""
    parent = history[proposal.parent]
    if draft:
        refuse_dropped(parent)
        require_files(parent)
    if reason := parent_refusal(parent) or _held_refusal(parent, proposal.operator):
        if draft:
            raise Misuse(f"{reason}; choose another one with --parent")
        return [refuse_proposal(parent.id.run, pool, proposal.as_refusal(reason, Objection.FORBIDDEN))]
    params = inherit_params(history, proposal, files.declared)
    twin = None if draft else history.twin(parent.id.run, pool, identity(files.tree, params))
    if twin is not None:
        refusal = proposal.as_refusal(f"the same as {history.name(twin)}", Objection.DUPLICATE)
        return [refuse_proposal(parent.id.run, pool, refusal)]
    node, measured = parent.id.child(parent.children + 1), (files.commit, files.tree, params, files.declared)
    return [add_proposal(proposal, node, pool, *measured, draft, known_event)]


def _held_refusal(parent: Node, operator: str) -> str | None:
    """Tell why only a person may build on a held node yet: what it may have forged would be passed on."""
    if parent.verdict is not Verdict.HELD or operator == BY_HAND:
        return None
    return f"its parent {parent.name} is held until a person accepts it"


def start_trial(history: History, node: NodeId, owner: str, judging: Judging) -> Iterator[Event]:
    """Start the next trial that serves the node's verdict, within the budget; or give the verdict itself."""
    from loopty.engine.budget import trial_refusal

    found = history[node]
    refuse_dropped(found)
    if found.running:
        raise Taken(f"{found.name} is running already: follow it with `loopty show {found.name}`")
    if found.verdict:
        raise Taken(
            f"{found.name} has its verdict ({found.verdict}): "
            f"`loopty measure replay {found.name}` measures it again, `loopty draft new --parent {found.name}` changes it"
        )
    if found.outcome:
        yield from _next_step(history, node, owner, judging)
        return
    run = history.runs[node.run]
    is_promised = node in Tunings.of(run, found.pool).open
    if node.parent and (reason := trial_refusal(run, judging.pools, found.pool, promised=-is_promised)):
        raise Taken(f"{reason}: raise the limit under [budget] in loopty.toml")
    from loopty.judge.tuning import tune_step  # the judge where it judges: many verbs only add a node

    yield from tune_step(history, found, owner, judging.tuning, trial_refusal(run, judging.pools, Pool.TUNE))
    if not history[node].running:
        yield TrialStarted(node, history[node].trials + 1, found.pool, owner)


def start_observation(history: History, node: NodeId, owner: str, pool: Pool) -> list[Event]:
    """Start a trial that serves no verdict: a replay, or a measurement on another machine."""
    require_files(history[node])
    return [TrialStarted(node, history[node].trials + 1, pool, owner)]


def start_audit(history: History, node: NodeId, owner: str, split: str) -> list[Event]:
    """Start a trial on the held-out split; `split` is its digest."""
    require_files(history[node])
    number = history[node].trials + 1
    return [TrialStarted(node, number, Pool.AUDIT, owner), SplitShown(node, number, split)]


def end_trial(history: History, node: NodeId, number: int, outcome: Outcome, judging: Judging) -> Iterator[Event]:
    """End a trial, then give the verdict that follows from it, or start the next measurement."""
    trial = Trials.of(history.runs[node.run]).running.get(trial_name(node, number))
    if trial is None:
        return  # another process took this one for dead and closed it
    by_clock = CLOCK in outcome.metrics  # it confirms a count, and has no score
    fault = None if by_clock else metrics_fault(outcome.metrics, history.counting_metrics(node.run))
    if outcome.is_finished and fault and trial.pool.rules.scored:
        outcome = replace(outcome, ending=Ending.FAILED, reason=fault)
    elif outcome.is_finished:
        outcome = replace(outcome, metrics=with_weighted_sum(outcome.metrics, history.counting_metrics(node.run)))
    if not by_clock and (refusal := _late_refusal(history, node, trial.pool, outcome)):
        outcome = replace(outcome, ending=Ending.REFUSED, reason=refusal)
    yield TrialEnded(node, number, outcome)
    if trial.pool is Pool.TUNE and outcome.ending is not Ending.CANCELLED and not history[node].verdict:
        with contextlib.suppress(Taken):  # the budget was lowered meanwhile: the node waits
            yield from start_trial(history, node, trial.owner, judging)
        return
    subject = trial.subject or node
    is_open = history[subject].verdict is None  # a person may have withdrawn it while the trial ran
    if trial.pool.rules.judging and is_open and outcome.ending is not Ending.CANCELLED:
        yield from _next_step(history, subject, trial.owner, judging)


def _late_refusal(history: History, node: NodeId, pool: Pool, outcome: Outcome) -> str | None:
    """Tell which bound of a node's gates a finished trial fails: it knows no gate added while it ran."""
    if not outcome.is_finished or node.parent is None or pool.rules.gates is GateScope.NONE:
        return None
    return metric_refusal(NodeGates.of(history.runs[node.run]).gates_of(node), outcome.metrics)


def _next_step(history: History, node: NodeId, owner: str, judging: Judging) -> Iterator[Event]:
    """Give the verdict about a node that has a result, or start the measurement or review it still needs."""
    from loopty.engine.budget import trial_refusal

    yield from unseat_failing_incumbent(history, node)
    yield from unseat_lucky_incumbent(history, node)
    affordable = trial_refusal(history.runs[node.run], judging.pools, Pool.REPEAT) is None
    ruling = judge(history, node, judging.noise, affordable)
    if isinstance(ruling, MeasureAgain):
        number = history[ruling.node].trials + 1
        yield TrialStarted(ruling.node, number, Pool.REPEAT, owner, node, ruling.incumbent)
    elif verdict := apply_review(history[node], ruling, judging.review):
        yield hold_leap(history, verdict, judging.editable_share)
    else:
        yield TrialStarted(node, history[node].trials + 1, Pool.REVIEW, owner, node)


def lose_trial(history: History, node: NodeId, number: int, reason: str) -> Iterator[Event]:
    """End a trial that infrastructure failed. A node that loses several in a row is quarantined."""
    trial = Trials.of(history.runs[node.run]).running.get(trial_name(node, number))
    if trial is None:
        return  # another process took this one for dead and closed it
    # Cancelled: the attempt returns to the budget, as its loss says nothing about the candidate.
    yield TrialEnded(node, number, Outcome(Ending.CANCELLED, reason=reason), lost=True)
    subject = trial.subject or node
    is_open = trial.pool.rules.judging and history[subject].verdict is None
    if is_open and history[subject].losses_in_row >= LOSSES_UNTIL_QUARANTINE:
        why = f"lost {LOSSES_UNTIL_QUARANTINE} trials in a row, the last because {reason}"
        yield NodeJudged(subject, Verdict.QUARANTINED, why)
