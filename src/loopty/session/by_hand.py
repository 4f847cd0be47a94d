"""Experiments by hand: check a draft, run it to its verdict, measure it again."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage
from loopty.domain.objective import metrics_fault
from loopty.domain.proposal import BY_AGENT, complete_params
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.engine.protocols import Trial
from loopty.engine.trial_runner import TrialRunner
from loopty.evaluators.error_lines import clean_lines
from loopty.judge.tuning import Judging
from loopty.kit.agent_shell import agent_in_shell
from loopty.kit.records import Record, replace
from loopty.kit.safe_folder import SafeFile
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.nodes import require_files
from loopty.session import hand_decisions
from loopty.session.combination import context_of_run
from loopty.session.context import CampaignContext
from loopty.session.drafts import node_as_edited, remove_draft, sealable_files
from loopty.session.leftovers import known_cause
from loopty.session.runs import BASELINE, require_same_criteria
from loopty.session.stoppable import never_prune, run_until_stopped, watch_nothing
from loopty.show.explanation import Explanation

if TYPE_CHECKING:
    from loopty.evaluators.benchmark_runner import TreeCommand, TreeCommandEnd
    from loopty.evaluators.steps import GateResult
    from loopty.show.explanation import Explanation

_LOGS = ("stdout.log", "stderr.log")
_LOG_END = 1 << 18
"""Bytes of a log in which the cause of a failure is looked for."""


class CheckResult(Record):
    """One run of the real benchmark that changed no state."""

    outcome: Outcome
    problem: str | None
    """Why the task does not work as it is, or None."""
    explanation: Explanation | None = None
    """The explanation of the problem; None where there is none, and where the check was stopped."""
    output: str = ""
    """The end of what a run without a problem printed."""


def run_node(context: CampaignContext, node: Node, unsafe: bool) -> Node:
    """Run the trials that serve the node's verdict. Refuses before it closes a draft."""
    context = context_of_run(context, node.id.run)

    def require_startable(history: History) -> None:
        judging = Judging(context.task.pools, context.task.noise)
        list(decisions.start_trial(history, node.id, context.owner, judging))

    require_same_criteria(context, node)
    # First of all: what is no new experiment costs nothing, not even the measurement of the baseline.
    files = sealable_files(context, node, require_startable) if node.draft else None
    runner = context.trial_runner(node.id.run, context.executor(unsafe, node.id.run))
    root = context.history[context.history.runs[node.id.run].root]
    if node.id != root.id and root.is_pending:
        context.say(f"measuring the baseline {root.name} first: {node.name} is compared with it")
        root = run_to_verdict(runner, root)
        files = None  # that took its time: the draft may have been edited meanwhile
    if node.id != root.id and root.verdict is not Verdict.KEPT:
        if root.verdict is None:
            raise Misuse(f"the baseline {root.name} has no result yet, so nothing can be compared: wait for it")
        raise Misuse(
            f"the baseline {root.name} has no result ({root.reason}), so nothing can be compared: fix it "
            f"(`loopty show {root.name}` says the cause), then run `loopty run {node.name}` again"
        )
    require_startable(context.history)
    if node.draft:
        sealed = files or sealable_files(context, node, require_startable)
        # What an agent edits in its shell was seen by no person either.
        operator = BY_AGENT if agent_in_shell(os.environ) else ""
        context.recorder.record(
            lambda history: hand_decisions.seal_node(history, node.id, sealed, operator=operator)
        )
    judged = run_to_verdict(runner, node, lambda: remove_draft(context, node))
    context.files.finish_node()
    return judged


def observe(runner: TrialRunner, trial: Trial) -> Outcome:
    """Run a trial that serves no verdict."""
    return run_until_stopped(lambda cancel: runner.run_observation(trial, watch_nothing, cancel))


def check_node(context: CampaignContext, node: Node, unsafe: bool) -> CheckResult:
    """Run the real benchmark on a node, or on what its draft holds now, and change no state."""
    return check_trial_result(context, check_trial(context, node_as_edited(context, node)), unsafe)


def check_working_tree(context: CampaignContext, unsafe: bool) -> CheckResult:
    """Run the real benchmark on the files as they are now, and change no state."""
    context.require_trust()
    task = context.task
    base = context.files.with_declarations(context.repository.working_tree.snapshot("a check of the task"))
    params = complete_params(base.declared, task.space.baseline())
    root = Node(
        id=NodeId("1"),
        pool=Pool.CHECK,
        operator=BASELINE,
        summary="",
        commit=base.commit,
        tree=base.tree,
        added_at=0.0,
        order=1,
        position=0,
        params=params,
    )
    return check_trial_result(context, Trial(root, root, 0, Pool.CHECK, task.seed, task.gates), unsafe)


def check_gates(context: CampaignContext, node: Node, unsafe: bool) -> list[GateResult]:
    """Run the gates of a node alone, and change no state."""
    run_gates, trial = context.run_gates(unsafe), check_trial(context, node_as_edited(context, node))
    return run_until_stopped(lambda cancel: run_gates(trial, cancel))


def try_command(context: CampaignContext, node: Node, command: TreeCommand, unsafe: bool) -> TreeCommandEnd:
    """Run any command on a node's files, or on what its draft holds now, and record nothing."""
    run_in_tree, trial = context.run_in_tree(unsafe), check_trial(context, node_as_edited(context, node))
    return run_until_stopped(lambda cancel: run_in_tree(trial, command, cancel))


def run_to_verdict(runner: TrialRunner, node: Node, after_start: Callable[[], None] = lambda: None) -> Node:
    """Run the trials that serve the node's verdict, until it or a stop."""
    trial = runner.start(node)
    after_start()
    run_until_stopped(lambda cancel: runner.run_until_verdict(trial, watch_nothing, cancel))
    return runner.history[node.id]


def check_trial_result(context: CampaignContext, trial: Trial, unsafe: bool) -> CheckResult:
    """Run the real benchmark once and change no state."""
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
    """Add an explanation. A candidate's has no cause: what it prints must not choose a remedy."""
    outcome = result.outcome
    if outcome.ending is Ending.CANCELLED:
        return result
    if result.problem is None:
        # The end of what a runner prints tells whether it ran a test: stdout comes last.
        return replace(result, output=_ends_of_logs(context, trial, _LOGS[::-1]))

    lines, cause = outcome.error_lines, None
    log = _log(context, trial, outcome.log) if outcome.log else None
    if trial.node.id.parent is None:
        others = _LOGS if outcome.log in _LOGS else ()  # a gate has a log of its own
        names = (*(name for name in others if name != outcome.log), outcome.log)
        output = _ends_of_logs(context, trial, names) if log else ""
        cause = known_cause(context.repository.top, result.problem, lines, context.task, output)
    explanation = Explanation(lines, str(log.shown_path) if log else "", cause)
    return replace(result, explanation=explanation)


def _log(context: CampaignContext, trial: Trial, name: str) -> SafeFile | None:
    """Return a log of the newest check; None if it is empty, because an empty log is not kept."""
    checks = context.state.node_copy(trial.node.id).below("checks")
    log = checks.below(checks.names()[-1]).file_at(name) if checks.names() else None
    return log if log and log.exists() else None


def _ends_of_logs(context: CampaignContext, trial: Trial, names: Sequence[str]) -> str:
    logs = (_log(context, trial, name) for name in names)
    return "\n".join(_end_of(log) for log in logs if log)


def _end_of(log: SafeFile) -> str:
    return "\n".join(clean_lines(log.read(_LOG_END, tail=True).decode(errors="replace")))


def check_trial(context: CampaignContext, node: Node) -> Trial:
    """Make a trial of a node that serves no verdict and is not recorded."""
    require_files(node)
    run = context.history.runs[node.id.run]
    return Trial(node, context.history[run.root], 0, Pool.CHECK, run.seed, context.gates(node.id))
