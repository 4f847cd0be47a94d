"""Measure again: the best node, incumbents on another machine, nodes whose rival fell, a failed baseline."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence

from loopty.domain.counting import is_counted
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import gain
from loopty.domain.task import Noise
from loopty.domain.trial import Ending, Pool, Verdict
from loopty.engine.trial_runner import TrialRunner
from loopty.judge.judge import is_noise_known
from loopty.judge.revisions import ask_again, may_ask_again
from loopty.kit.records import Record
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Node, refuse_dropped
from loopty.record.run_record import Run
from loopty.record.sessions import Session
from loopty.record.trials import Cohorts, RunRebaselined, Trials
from loopty.record.verdicts import Confirmation, Incumbents
from loopty.session.by_hand import run_node, run_to_verdict
from loopty.session.combination import context_of_run
from loopty.session.context import CampaignContext
from loopty.session.drafts import DraftClaim, drop_draft, new_draft, node_as_edited, write_edits
from loopty.session.runs import enter_run, require_same_criteria
from loopty.session.stoppable import run_until_stopped, watch_nothing


def confirm_best(context: CampaignContext, run: int, unsafe: bool) -> None:
    """Add as many fresh pairs as the task asks for to those that there are."""
    context = context_of_run(context, run)
    found, noise = context.history.runs[run], context.task.noise
    best = Incumbents.of(found, Pool.ATTEMPT).best
    if driver := Session.of(found).driver:
        raise Misuse(f"run {run} is being driven by `loopty run` ({driver}): it confirms its best at its end")
    if best is None or best == found.root:
        raise Misuse(f"run {run} has nothing better than its baseline to confirm")
    if noise.repeat == "never" or not noise.confirm:
        raise Misuse('nothing is measured again: set repeat = "auto" and confirm = 10 under [noise]')
    require_same_criteria(context, context.history[found.root])
    runner = context.trial_runner(run, context.executor(unsafe, run))
    pairing = Confirmation.of(found).pairing_of(best, Cohorts.of(found).fingerprint)
    pairs = noise.confirm + (len(pairing.pairs_so_far) if pairing else 0)
    run_until_stopped(lambda cancel: runner.confirm_best(run, pairs, watch_nothing, cancel))


class Rebaseline(Record):
    """A run that continues on this machine."""

    run: int
    fingerprint: str
    machine: Mapping[str, str]
    incumbent: NodeId
    """The node to beat here."""
    score: float | None


def rebaseline(context: CampaignContext, run: Run, unsafe: bool) -> Rebaseline | None:
    """Measure the baseline and the incumbents here, and compare with them from now on; None when stopped."""
    root = context.history[run.root]
    if root.verdict is not Verdict.KEPT:
        raise Misuse(f"run {run.number} has no baseline to measure here: `loopty run` begins with it")
    _refuse_driven(run)
    context = context_of_run(context, run.number)
    require_same_criteria(context, root)
    executor, noise = context.executor(unsafe, run.number), context.task.noise
    runner, here = context.trial_runner(run.number, executor, anywhere=True), executor.machine.fingerprint
    done = run_until_stopped(lambda cancel: _measure_contenders(runner, run.number, here, noise, cancel))
    if not done:
        return None
    (recorded,) = context.recorder.record(lambda history: decide_rebaseline(history, run.number, here, noise))
    assert isinstance(recorded.event, RunRebaselined)
    history, incumbent = context.history, recorded.event.incumbent
    result = history[incumbent].result(here)
    score = result.outcome.metrics[history.counting_metrics(run.number)[0].name] if result else None
    machine = Cohorts.of(history.runs[run.number]).machines[here]
    return Rebaseline(run.number, here, machine, incumbent, score)


def decide_rebaseline(history: History, run: int, fingerprint: str, noise: Noise) -> list[Event]:
    """Compare from now on under this fingerprint, with the best of the contenders as the incumbent."""
    _refuse_driven(history.runs[run])
    if contenders_to_measure(history, run, fingerprint, noise):
        raise Misuse(f"the incumbent of run {run} changed meanwhile: run `loopty measure rebaseline` again")
    return [RunRebaselined(run, fingerprint, best_contender(history, run, fingerprint))]


def best_contender(history: History, run: int, fingerprint: str) -> NodeId:
    """Return the best of the contenders, which are all measured under this fingerprint."""
    metrics = history.counting_metrics(run)

    def better(one: NodeId, other: NodeId) -> NodeId:
        mine, theirs = (history[node].result(fingerprint) for node in (one, other))
        assert mine is not None
        assert theirs is not None
        return other if gain(theirs.outcome.metrics, mine.outcome.metrics, metrics).amount > 0 else one

    return functools.reduce(better, _contenders(history.runs[run], fingerprint))


async def _measure_contenders(
    runner: TrialRunner, run: int, fingerprint: str, noise: Noise, cancel: asyncio.Event
) -> bool:
    """Measure the contenders in turns until their noise is known; False when stopped, to continue another time."""
    while wanted := contenders_to_measure(runner.history, run, fingerprint, noise):
        for node in wanted:
            trial = runner.start_observation(runner.history[node], Pool.REBASE)
            outcome = await runner.run_observation(trial, watch_nothing, cancel)
            if outcome.ending is Ending.CANCELLED:
                return False
            if not outcome.is_finished:
                why = f"{outcome.ending}: {outcome.reason}"
                raise Misuse(f"{runner.history.name(node)} gives no result here ({why}): fix that, then try again")
    return True


def _refuse_driven(run: Run) -> None:
    if driver := Session.of(run).driver:
        raise Misuse(f"run {run.number} is being driven by `loopty run` ({driver}): stop that one first")


def _contenders(run: Run, fingerprint: str) -> list[NodeId]:
    """List the nodes that may be the incumbent here: the present one, the former one here, the baseline."""
    incumbents = Incumbents.of(run, Pool.ATTEMPT)
    known = (incumbents.best, incumbents.by_fingerprint.get(fingerprint), run.root)
    return list(dict.fromkeys(node for node in known if node))


def contenders_to_measure(history: History, run: int, fingerprint: str, noise: Noise) -> list[NodeId]:
    """List the contenders whose noise here is not known yet."""

    def is_known(node: NodeId) -> bool:
        result = history[node].result(fingerprint)
        return result is not None and is_noise_known(result.samples, noise, is_counted(result.outcome.metrics))

    return [node for node in _contenders(history.runs[run], fingerprint) if not is_known(node)]


def remeasure(context: CampaignContext, run: int, node: NodeId | None, unsafe: bool) -> list[Node]:
    """Judge the reopened nodes of a run, or this one, against the present incumbent; each as it is then."""
    if driver := Session.of(context.history.runs[run]).driver:
        raise Misuse(f"run {run} is being driven by `loopty run` ({driver}): it measures them itself")
    if node and not may_ask_again(context.history[node]):
        # Other verdicts are final: code that is measured until it is lucky would be kept sooner or later.
        _require_reopened(context.history[node])
    elif not node and not nodes_to_judge_again(context.history, run):
        return []
    context = context_of_run(context, run)
    require_same_criteria(context, context.history[context.history.runs[run].root])
    runner = context.trial_runner(run, context.executor(unsafe, run))
    if node:
        context.recorder.record(lambda history: ask_again(history, node))
    judged: list[Node] = []
    while waiting := [node] if node else nodes_to_judge_again(context.history, run):
        judged.append(run_to_verdict(runner, context.history[waiting[0]]))
        if node or judged[-1].verdict is None:  # it was stopped
            break
    return judged


def nodes_to_judge_again(history: History, run: int) -> Sequence[NodeId]:
    """List the nodes that wait to be judged once more, oldest first."""
    undecided = Trials.of(history.runs[run]).undecided
    return [node for node in undecided if history[node].reopened_for and history[node].is_pending]


def _require_reopened(node: Node) -> None:
    if node.verdict:
        raise Misuse(
            f"{node.name} is {node.verdict}, and measuring the same code again does not change that: "
            f"`loopty measure replay {node.name}` measures it without a verdict, "
            f"`loopty draft new --parent {node.name}` changes it"
        )
    if not node.reopened_for:
        raise Misuse(f"{node.name} was never judged: `loopty run {node.name}` does that")


def run_again(context: CampaignContext, node: Node, unsafe: bool) -> Node:
    """Measure the baseline in a new run, because that of the node's run gave no result; then the draft there."""
    refuse_dropped(node)
    run = context.history.runs[enter_run(context, refuse=lambda: _require_executor(context, unsafe))]
    root = context.history[run.root]
    if root.verdict is None:
        context.say(f"run {run.number} measures the baseline again: run {node.id.run} has no result")
    if root.verdict is None or node.id.parent is None:
        root = run_node(context, root, unsafe)
    if root.verdict is not Verdict.KEPT or node.id.parent is None:
        return root
    return run_node(context, _draft_in_new_run(context, node, root), unsafe)


def _require_executor(context: CampaignContext, unsafe: bool) -> None:
    context.executor(unsafe)


def _draft_in_new_run(context: CampaignContext, node: Node, root: Node) -> Node:
    """Return the draft below the new baseline, with what the user changed in the old one."""
    if not node.draft:
        raise Misuse(
            f"the run of {node.name} has no result: make it again below {root.name} with `loopty draft new`"
        )
    history = context.history
    edited, old = node_as_edited(context, node), history[history.runs[node.id.run].root]
    names = f"the baseline {root.name}", f"the draft {node.name}"
    files = context.files.merge(old.commit, root.commit, edited.commit, names)
    params = {
        name: value
        for name, value in edited.params.items()
        if name in root.params and old.params.get(name) != value
    }
    draft = new_draft(context, root.id, node.summary, params, claim=DraftClaim(node.author, node.surface))
    write_edits(context, draft, files.edits)
    drop_draft(context, node.id)
    new = history[draft.node]
    if files.conflicts:
        raise Misuse(
            f"{node.name} is {new.name} now, and conflicts with the new baseline in {', '.join(files.conflicts)}: "
            f"edit {draft.folder}, then run `loopty run {new.name}`"
        )
    context.say(f"{node.name} is {new.name} now: below the new baseline")
    return new
