"""Nodes that join the tree, the proposals that they come from, their gates, and what became of their files."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.access import ObjectName, TreePath
from loopty.domain.benchmark import Gate
from loopty.domain.declared_types import cut_words
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.proposal import Declared, Objection, Refusal
from loopty.domain.space import Value
from loopty.domain.trial import Pool
from loopty.kit.records import field, replace
from loopty.record.fold import Event, Family, FoldState
from loopty.record.node_record import Node
from loopty.record.run_record import PoolPart, RunPart

_LONGEST_REASON = 160


class ProposalRefused(Event):
    """A proposal that got no trial. It costs no attempt."""

    run: int
    pool: Pool
    operator: str
    reason: str
    objection: Objection = Objection.OTHER
    calls: tuple[str, ...] = ()
    remaining_in_reply: int = 0
    index_in_reply: int = 0
    arm_reason: str = ""
    """Why its operator and its model were chosen."""


class Proposals(PoolPart):
    """The answers of one pool's proposer."""

    nodes: int = 0
    refused: int = 0
    refused_in_row: int = 0
    last_refusal: str = ""
    """Shortened: the fold is written with every event."""
    fruitless_calls: int = 0
    """Consecutive model calls without a usable proposal."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """Answers by operator, refused ones included."""

    @property
    def answer_count(self) -> int:
        """Count the answers that the proposer has given: the position of the seeded generator."""
        return self.nodes + self.refused

    def with_node(self, operator: str) -> Proposals:
        """Count one more node."""
        return replace(self.with_fresh_streak(), nodes=self.nodes + 1, answers=self._answers_with(operator))

    def with_refusal(self, event: ProposalRefused) -> Proposals:
        """Count one more proposal without a trial."""
        from loopty.kit.foreign_text import one_line  # its patterns take long to compile, and refusals are rare

        calls = 0 if event.index_in_reply else len(event.calls)  # the rest of a batch cost no call
        return replace(
            self,
            refused=self.refused + 1,
            refused_in_row=self.refused_in_row + 1,
            last_refusal=one_line(event.reason, _LONGEST_REASON),
            fruitless_calls=self.fruitless_calls + calls,
            answers=self._answers_with(event.operator),
        )

    def with_fresh_streak(self) -> Proposals:
        """Keep the answers, and reset the counts of consecutive refusals and fruitless calls."""
        return replace(self, refused_in_row=0, fruitless_calls=0)

    def _answers_with(self, operator: str) -> Mapping[str, int]:
        return {**self.answers, operator: self.answers.get(operator, 0) + 1}


def _refuse(state: FoldState, event: ProposalRefused, _at: float) -> None:
    run = state.runs[event.run]
    state.put_run(run.with_pool_part(event.pool, Proposals.of(run, event.pool).with_refusal(event)))


def refuse_proposal(run: int, pool: Pool, refusal: Refusal) -> Event:
    """Return the event of a proposal that gets no node."""
    objected = refusal.operator, cut_words(refusal.reason), refusal.objection
    place = refusal.remaining_in_reply, refusal.index_in_reply
    return ProposalRefused(run, pool, *objected, refusal.calls, *place, refusal.arm_reason)


PROPOSALS = Family((ProposalRefused,), {ProposalRefused: _refuse})


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
    operator: str = ""
    """Who made it, where that is another than who opened it: an agent can submit a person's draft."""


class DraftDropped(Event):
    """A draft was given up before it ran. It stays in the tree, so that its id is never used again."""

    node: NodeId


class NodeCount(RunPart):
    """How many nodes a run has."""

    nodes: int = 0


def _add_node(state: FoldState, event: NodeAdded, at: float) -> None:
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


def _seal(state: FoldState, event: NodeSealed, _at: float) -> None:
    node = replace(state[event.node], commit=event.commit, tree=event.tree, draft=False, declared=event.declared)
    if event.params is not None:
        node = replace(node, params=event.params)
    node = replace(node, operator=event.operator or node.operator)
    state.put(node)


def _drop(state: FoldState, event: DraftDropped, _at: float) -> None:
    state.put(replace(state[event.node], dropped=True))


NODES = Family(
    (NodeAdded, NodeSealed, DraftDropped), {NodeAdded: _add_node, NodeSealed: _seal, DraftDropped: _drop}
)


class GateAdded(Event):
    """A gate for a node and all its descendants."""

    node: NodeId
    gate: Gate


class NodeGates(RunPart):
    """The gates of a run by the node to which they were added."""

    by_node: Mapping[str, tuple[Gate, ...]] = field(default_factory=dict)

    def gates_of(self, node: NodeId) -> tuple[Gate, ...]:
        """List the gates added to the node and to its ancestors."""
        return tuple(gate for above, gates in self.by_node.items() if node.is_within(above) for gate in gates)


def _add_gate(state: FoldState, event: GateAdded, _at: float) -> None:
    run = state.runs[event.node.run]
    gates = NodeGates.of(run).by_node
    state.put_run(run.with_part(NodeGates({**gates, event.node: (*gates.get(event.node, ()), event.gate)})))


NODE_GATES = Family((GateAdded,), {GateAdded: _add_gate})


# What was measured stays in the record.


class FilesRemoved(Event):
    """The commits and folders of these nodes are no longer kept. Recorded first, so that nobody builds on them."""

    nodes: tuple[NodeId, ...]


def require_files(node: Node) -> None:
    """Refuse what needs the files of a node that were removed."""
    if node.files_removed:
        raise Misuse(
            f"the files of {node.name} were removed by `loopty system gc`: "
            f"`loopty show {node.name}` has what was measured"
        )


def _remove(state: FoldState, event: FilesRemoved, _at: float) -> None:
    for node in event.nodes:
        state.put(replace(state[node], files_removed=True))


REMOVED_FILES = Family((FilesRemoved,), {FilesRemoved: _remove})


class FilesStored(Event):
    """The folder of a node has this content. The store gets it at once, or as soon as it can be reached."""

    node: NodeId
    digest: str
    """SHA-256 of the folder as `workspaces/shared_files.py` writes it."""


def _note(state: FoldState, event: FilesStored, _at: float) -> None:
    state.put(replace(state[event.node], stored=event.digest))


STORED_FILES = Family((FilesStored,), {FilesStored: _note})
