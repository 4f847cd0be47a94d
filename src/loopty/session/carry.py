"""Carry a node into a new run: as its first candidate, measured before anything that is proposed there."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.errors import Misuse
from loopty.domain.proposal import BY_HAND, Edits, Proposal
from loopty.domain.space import Value
from loopty.domain.trial import Pool
from loopty.engine import decisions
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded, require_files
from loopty.record.run_record import Run
from loopty.record.verdicts import Incumbents
from loopty.session.context import CampaignContext
from loopty.session.lookup import BASELINE, BEST, find_node


class Candidate(Record):
    """What a node changed in the baseline of its run, as a change of another baseline."""

    node: Node
    edits: Edits
    params: Mapping[str, Value]
    """Those that differ from its baseline's."""


def prepare_candidate(
    context: CampaignContext, before: Run | None, commit: str, start_from: str
) -> Candidate | None:
    """Bring the change of the node that `start_from` names onto this commit; by default of the best of `before`.

    If it does not fit there, the user learns why. Raises Misuse if the user named it.
    """
    if (node := _node_to_carry(context.history, before, start_from)) is None:
        return None
    try:
        return _carry(context, node, commit)
    except Misuse as misfit:
        text = f"{node.name} of run {node.id.run} is not carried over: {misfit}"
        if start_from:
            raise Misuse(text) from None
        context.say(text)
        return None


def add_candidate(context: CampaignContext, run: int, candidate: Candidate) -> None:
    """Add the candidate below the run's baseline, so that it is measured next, unless it changes nothing there."""
    node, root = candidate.node, context.history[context.history.runs[run].root]
    known = f"{node.name} of run {node.id.run}"
    if not (candidate.edits or candidate.params):
        context.say(f"{known} is not carried over: your files hold it already")
        return
    files = context.files.commit(root, candidate.edits, f"{known}: {node.summary}")
    declared = {name: value for name, value in candidate.params.items() if name in files.declared}
    own = {name: value for name, value in candidate.params.items() if name in context.task.space.parameters}
    point = context.task.space.complete_point({**root.task_params, **own}) if own else root.task_params
    proposal = Proposal(
        # As by hand: it won its place there, or a person named it, so a large gain is no surprise here.
        operator=BY_HAND,
        parent=root.id,
        summary=f"{known}: {node.summary}",
        params={**point, **declared} if candidate.params else {},
        edits=candidate.edits,
        parent_reason=f"{known} is carried over",
    )
    recorded = context.recorder.record(lambda history: decisions.add_node(history, proposal, files, Pool.ATTEMPT))
    if isinstance(added := recorded[0].event, NodeAdded):
        context.files.publish(context.history[added.node], root)
        context.say(f"{known} is carried over, as {context.history.name(added.node)}: it is measured first")


def _node_to_carry(history: History, before: Run | None, start_from: str) -> Node | None:
    if start_from in ("", BEST):
        found = Incumbents.of(before, Pool.ATTEMPT).best if before else None
    else:
        found = None if start_from == BASELINE else find_node(history, start_from)
    if found is None or found.parent is None:
        return None
    return history[found]


def _carry(context: CampaignContext, node: Node, commit: str) -> Candidate:
    """Merge the node's whole change into this commit. Raises Misuse, with the reason, if it does not fit."""
    if node.outcome is None:
        raise Misuse("it was never measured")
    require_files(node)
    old, space = context.history[context.history.runs[node.id.run].root], context.task.space.parameters
    merged = context.files.merge(old.commit, commit, node.commit, ("your files", node.name))
    if merged.conflicts:
        clash = f"it conflicts with your files in {', '.join(merged.conflicts)}"
        forbidden = context.files.path_refusal(merged.conflicts)
        raise Misuse(f"it {forbidden}" if forbidden else clash)
    changed = {name: value for name, value in node.params.items() if old.params.get(name) != value}
    for name, value in changed.items():
        if name in space and not space[name].accepts(value):
            raise Misuse(f"{name} = {value!r} lies outside its values now")
    return Candidate(node, merged.edits, changed)
