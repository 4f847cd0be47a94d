"""Experiments by hand: make a draft, check it, run it to its verdict, measure it again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from loopty.campaign.context import CampaignContext
from loopty.campaign.explanations import known_cause
from loopty.campaign.run_entry import enter_run, require_same_criteria
from loopty.campaign.stoppable import never_prune, run_until_stopped, watch_nothing
from loopty.causes.explanation import Explanation
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage
from loopty.domain.objective import metrics_fault
from loopty.domain.outcome import Ending, Outcome, Verdict
from loopty.domain.pool import Pool
from loopty.domain.proposal import BY_HAND, Edits, Proposal
from loopty.domain.space import Params, Space, Value
from loopty.engine import decisions
from loopty.engine.decisions import Judging
from loopty.engine.protocols import CommittedFiles, Trial
from loopty.engine.trial_runner import TrialRunner
from loopty.evaluators.gates import GateResult
from loopty.evaluators.tree_command import TreeCommand, TreeCommandEnd
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded
from loopty.record.removed_files import require_files
from loopty.record.verdicts import Incumbents
from loopty.workspaces.drafts import Drafts


@dataclass(frozen=True, slots=True)
class Draft:
    """A new node that is still being edited."""

    node: NodeId
    folder: Path
    """The directory with the node's files."""
    files: list[str]
    """Those of them that may be changed."""
    handle: int


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One run of the real benchmark that changed no state."""

    outcome: Outcome
    problem: str | None
    """Why the task does not work as it is, or None."""
    explanation: Explanation | None = None
    """The explanation of the problem; None where there is none, and where the check was stopped."""


def new_draft(
    context: CampaignContext,
    parent: NodeId | None,
    message: str,
    params: Mapping[str, Value | str],
    sparse: bool = False,
) -> Draft:
    """Add a draft below a node; by default below the best one. `sparse`: with the writable files alone."""
    if parent is None:
        run = context.history.runs[enter_run(context)]
        parent = Incumbents.of(run, Pool.ATTEMPT).best or run.root
    elif parent == "1" and not context.history.runs:
        parent = context.history.runs[enter_run(context)].root
    above = context.history[parent]
    point = _point(params, above.params, context.task.space)
    proposal = Proposal(BY_HAND, parent, message, point)
    files = CommittedFiles(above.commit, above.tree)
    recorded = context.recorder.record(
        lambda history: decisions.add_node(history, proposal, files, Pool.ATTEMPT, draft=True)
    )
    added = recorded[0].event
    assert isinstance(added, NodeAdded)
    folder, layout = context.state.draft_folder(added.node), context.state.draft_layout(added.node)
    root = context.history[context.history.runs[added.node.run].root]
    writable = Drafts(context.repository, context.files).lay_out(above, root, folder, layout, sparse)
    return Draft(added.node, folder.shown_path, writable, context.history.handle(added.node))


def drop_draft(context: CampaignContext, node: NodeId) -> None:
    """Give up a draft: it never runs, and its directory goes."""
    context.recorder.record(lambda history: decisions.drop_draft(history, node))
    _remove_draft(context, context.history[node])


def run_node(context: CampaignContext, node: Node, unsafe: bool) -> Node:
    """Run the trials that serve the node's verdict. Refuses before it closes a draft."""

    def require_startable(history: History) -> None:
        judging = Judging(context.task.pools, context.task.noise)
        list(decisions.start_trial(history, node.id, context.owner, judging))

    require_same_criteria(context, node)
    if node.draft:
        # First of all: what is no new experiment costs nothing, not even the measurement of the baseline.
        _sealable_files(context, node, require_startable)
    runner = context.trial_runner(node.id.run, context.executor(unsafe, node.id.run))
    root = context.history[context.history.runs[node.id.run].root]
    if node.id != root.id and root.is_pending:
        context.say(f"measuring the baseline {root.id} first: {node.id} is compared with it")
        root = run_to_verdict(runner, root)
    if node.id != root.id and root.verdict is not Verdict.KEPT:
        why = f"has no result ({root.reason})" if root.verdict else "has no result yet"
        remedy = "fix it, then run `loopty optimize --new-run`" if root.verdict else "wait for it"
        raise Misuse(f"the baseline {root.id} {why}, so nothing can be compared: {remedy}")
    require_startable(context.history)
    if node.draft:
        files = _sealable_files(context, node, require_startable)
        context.recorder.record(lambda history: decisions.seal_node(history, node.id, files))
    return run_to_verdict(runner, node, lambda: _remove_draft(context, node))


def observe(runner: TrialRunner, trial: Trial) -> Outcome:
    """Run a trial that serves no verdict."""
    return run_until_stopped(lambda cancel: runner.run_observation(trial, watch_nothing, cancel))


def check_node(context: CampaignContext, node: Node, unsafe: bool) -> CheckResult:
    """Run the real benchmark on a node, or on what its draft holds now, and change no state."""
    return _check(context, _check_trial(context, _as_edited(context, node)), unsafe)


def check_working_tree(context: CampaignContext, unsafe: bool) -> CheckResult:
    """Run the real benchmark on the files as they are now, and change no state."""
    context.require_trust()
    task = context.task
    base = context.repository.working_tree.snapshot("a check of the task")
    params = task.space.baseline()
    root = Node(NodeId("1"), Pool.CHECK, decisions.BASELINE, "", base.commit, base.tree, 0.0, 1, 0, params=params)
    return _check(context, Trial(root, root, 0, Pool.CHECK, task.seed, task.gates), unsafe)


def check_gates(context: CampaignContext, node: Node, unsafe: bool) -> list[GateResult]:
    """Run the gates of a node alone, and change no state."""
    run_gates, trial = context.run_gates(unsafe), _check_trial(context, _as_edited(context, node))
    return run_until_stopped(lambda cancel: run_gates(trial, cancel))


def try_command(context: CampaignContext, node: Node, command: TreeCommand, unsafe: bool) -> TreeCommandEnd:
    """Run any command on a node's files, or on what its draft holds now, and record nothing."""
    run_in_tree, trial = context.run_in_tree(unsafe), _check_trial(context, _as_edited(context, node))
    return run_until_stopped(lambda cancel: run_in_tree(trial, command, cancel))


def run_to_verdict(runner: TrialRunner, node: Node, after_start: Callable[[], None] = lambda: None) -> Node:
    """Run the trials that serve the node's verdict, until it or a stop."""
    trial = runner.start(node)
    after_start()
    run_until_stopped(lambda cancel: runner.run_until_verdict(trial, watch_nothing, cancel))
    return runner.history[node.id]


def _check(context: CampaignContext, trial: Trial, unsafe: bool) -> CheckResult:
    executor = context.executor(unsafe)
    try:
        outcome = run_until_stopped(lambda cancel: executor.execute(trial, never_prune, cancel))
    except Outage as outage:
        outcome = Outcome(Ending.CANCELLED, reason=outage.message)
    if not outcome.is_finished:
        return _with_explanation(context, trial, CheckResult(outcome, outcome.reason))
    # A check costs nothing, so the verifier adds no metrics to it.
    judged = {metric.name for metric in context.task.verifier.judged}
    wanted = tuple(metric for metric in context.task.objective.metrics if metric.name not in judged)
    return _with_explanation(context, trial, CheckResult(outcome, metrics_fault(outcome.metrics, wanted)))


def _with_explanation(context: CampaignContext, trial: Trial, result: CheckResult) -> CheckResult:
    """The result with an explanation. A candidate's has no cause: what it prints must not choose a remedy."""
    outcome = result.outcome
    if result.problem is None or outcome.ending is Ending.CANCELLED:
        return result
    lines, cause = outcome.error_lines, None
    if trial.node.id.parent is None:
        cause = known_cause(context.repository.top, result.problem, lines, context.task)
    checks = context.state.node_copy(trial.node.id).below("checks")
    log = checks.below(checks.names()[-1]).file(outcome.log).shown_path if outcome.log and checks.names() else ""
    return replace(result, explanation=Explanation(lines, str(log), cause))


def _check_trial(context: CampaignContext, node: Node) -> Trial:
    require_files(node)
    run = context.history.runs[node.id.run]
    return Trial(node, context.history[run.root], 0, Pool.CHECK, run.seed, context.gates(node.id))


def _as_edited(context: CampaignContext, node: Node) -> Node:
    """The node with what its draft holds now; nothing is recorded."""
    if not node.draft:
        return node
    files = context.files.commit(_parent(context, node), _draft_edits(context, node), "a check of the task")
    return replace(node, commit=files.commit, tree=files.tree)


def _remove_draft(context: CampaignContext, node: Node) -> None:
    context.state.draft_folder(node.id).remove_all()
    context.state.draft_layout(node.id).remove()


def _sealable_files(
    context: CampaignContext, node: Node, require_startable: Callable[[History], None]
) -> CommittedFiles:
    """Commit a draft's files. Raises Misuse where they cannot be sealed, and says first why it cannot start."""
    try:
        message = f"{node.operator}: {node.summary}"
        files = context.files.commit(_parent(context, node), _draft_edits(context, node), message)
        decisions.seal_node(context.history, node.id, files)
    except Misuse:
        # Another process may have been faster and closed the draft: say that instead.
        require_startable(context.recorder.refresh())
        raise
    return files


def _draft_edits(context: CampaignContext, node: Node) -> Edits:
    """The draft's changes. Raises Misuse when the access rules forbid one."""
    parent = _parent(context, node)
    root = context.history[context.history.runs[node.id.run].root]
    places = context.state.draft_folder(node.id), context.state.draft_layout(node.id)
    edits = Drafts(context.repository, context.files).edits(root, *places)
    if reason := context.files.refusal(parent, Proposal(node.operator, parent.id, node.summary, edits=edits)):
        raise Misuse(f"node {node.id} {reason}")
    return edits


def _parent(context: CampaignContext, node: Node) -> Node:
    return context.history[node.id.parent or NodeId(str(node.id.run))]


def _point(given: Mapping[str, Value | str], before: Params, space: Space) -> dict[str, Value]:
    """The parent's parameters with these values set; empty when none is given."""
    values = {name: _value(name, value, space) for name, value in given.items()}
    point = space.complete_point({**before, **values}) if values else {}
    for name in values:
        if name not in point:
            raise Misuse(f"parameter {name} does not exist under the values of the others: leave it out")
    return point


def _value(name: str, value: Value | str, space: Space) -> Value:
    """The value of a parameter; a text that is no valid value is read as JSON."""
    if name not in space.parameters:
        known = ", ".join(space.parameters) or "none"
        raise Misuse(f"the task has no parameter {name}: its parameters are {known}")
    parameter = space.parameters[name]
    if isinstance(value, str) and not parameter.accepts(value):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if not parameter.accepts(value):
        raise Misuse(f"parameter {name} cannot be {value!r}: see [parameters.{name}] in loopty.toml")
    return value
