"""The family of nodes: states of the code that were added to the tree."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.declared_parameters import Declared
from loopty.domain.git_names import ObjectName, TreePath
from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.domain.space import Value
from loopty.kit.records import field, replace
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.node_record import Node
from loopty.record.proposals import Proposals
from loopty.record.run_record import RunPart


class NodeAdded(Event):
    """A state of the code in the tree. A draft is still being edited and has no commit of its own yet."""

    node: NodeId
    pool: Pool
    operator: str
    summary: str
    commit: ObjectName
    tree: ObjectName
    params: Mapping[str, Value] = field(default_factory=dict)
    draft: bool = False
    known_event: int = 0
    """The last event that the proposer knew."""
    edits: tuple[TreePath, ...] = ()
    """The paths that the node changes in its parent."""
    inspirations: tuple[NodeId, ...] = ()
    calls: tuple[str, ...] = ()
    """The model calls behind the proposal; the last one returned it."""
    remaining_in_reply: int = 0
    """How many proposals follow it in the reply of the last call."""
    index_in_reply: int = 0
    """Its index among the proposals of the last call, from 0."""
    parent_reason: str = ""
    """Why the selector chose the parent."""
    author: str = ""
    """The client that opened it; empty for a person or a proposer."""
    surface: str = ""
    """The part of the code that it is about, in the author's words."""
    merged: tuple[NodeId, ...] = ()
    """Further parents, whose changes it holds as well."""
    arm_reason: str = ""
    """Why its operator and its model were chosen."""
    declared: Declared = field(default_factory=dict)
    """The parameters that its program declares itself."""


class NodeSealed(Event):
    """A draft's files were committed and no longer change."""

    node: NodeId
    commit: ObjectName
    tree: ObjectName
    declared: Declared = field(default_factory=dict)
    params: Mapping[str, Value] | None = None
    """Its values from now on; None where they stay as they were."""


class DraftDropped(Event):
    """A draft was given up before it ran. It stays in the tree, so that its id is never used again."""

    node: NodeId


class NodeCount(RunPart):
    """How many nodes a run has."""

    nodes: int = 0


def _add(state: FoldState, event: NodeAdded, at: float) -> None:
    run = state.runs[event.node.run]
    proposals, count = Proposals.of(run, event.pool), NodeCount.of(run).nodes + 1
    node = Node(
        event.node,
        event.pool,
        event.operator,
        event.summary,
        event.commit,
        event.tree,
        added_at=at,
        order=count,
        handle=state.count + 1,
        position=proposals.answer_count,
        turn=proposals.answers.get(event.operator, 0),
        params=event.params,
        draft=event.draft,
        known_event=event.known_event,
        edits=event.edits,
        inspirations=event.inspirations,
        calls=event.calls,
        parent_reason=event.parent_reason,
        author=event.author,
        surface=event.surface,
        merged=event.merged,
        arm_reason=event.arm_reason,
        declared=event.declared,
    )
    if parent := event.node.parent:
        run = run.with_pool_part(event.pool, proposals.with_node(event.operator))
        state.put(replace(state[parent], children=state[parent].children + 1))
    state.put_run(run.with_part(NodeCount(count)))
    state.put(node)
    state.add_to_index(node)


def _seal(state: FoldState, event: NodeSealed, _at: float) -> None:
    node = replace(state[event.node], commit=event.commit, tree=event.tree, draft=False, declared=event.declared)
    if event.params is not None:
        node = replace(node, params=event.params)
    state.put(node)
    state.seal_in_index(node)


def _drop(state: FoldState, event: DraftDropped, _at: float) -> None:
    state.put(replace(state[event.node], dropped=True))


FAMILY = Family((NodeAdded, NodeSealed, DraftDropped), {NodeAdded: _add, NodeSealed: _seal, DraftDropped: _drop})
