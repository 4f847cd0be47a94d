"""Measure nodes again whose verdict was withdrawn, because the node that they lost to lost its own."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.campaign.by_hand import run_to_verdict
from loopty.campaign.combine_stage import context_of_run
from loopty.campaign.context import CampaignContext
from loopty.campaign.run_entry import require_same_criteria
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.sessions import Session
from loopty.record.trials import Trials


def remeasure(context: CampaignContext, run: int, node: NodeId | None, unsafe: bool) -> list[Node]:
    """Judge the reopened nodes of a run, or this one, against the present incumbent; each as it is then.

    A verdict is final otherwise: code that is measured until it is lucky would be kept sooner or later.
    """
    if driver := Session.of(context.history.runs[run]).driver:
        raise Misuse(f"run {run} is being driven by `loopty optimize` ({driver}): it measures them itself")
    if node:
        _require_reopened(context.history[node])
    elif not nodes_to_judge_again(context.history, run):
        return []
    context = context_of_run(context, run)
    require_same_criteria(context, context.history[context.history.runs[run].root])
    runner = context.trial_runner(run, context.executor(unsafe, run))
    judged: list[Node] = []
    while waiting := [node] if node else nodes_to_judge_again(context.history, run):
        judged.append(run_to_verdict(runner, context.history[waiting[0]]))
        if node or judged[-1].verdict is None:  # it was stopped
            break
    return judged


def nodes_to_judge_again(history: History, run: int) -> Sequence[NodeId]:
    """The nodes that wait to be judged once more, oldest first."""
    undecided = Trials.of(history.runs[run]).undecided
    return [node for node in undecided if history[node].reopened_for and history[node].is_pending]


def _require_reopened(node: Node) -> None:
    if node.verdict:
        raise Misuse(
            f"{node.name} is {node.verdict}, and measuring the same code again does not change that: "
            f"`loopty replay {node.name}` measures it without a verdict, "
            f"`loopty new --parent {node.name}` changes it"
        )
    if not node.reopened_for:
        raise Misuse(f"{node.name} was never judged: `loopty run {node.name}` does that")
