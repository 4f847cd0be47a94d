"""The family of gates that were added to nodes while the run goes on."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.gate_spec import Gate
from loopty.domain.ids import NodeId
from loopty.kit.records import field
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.run_record import RunPart


class GateAdded(Event):
    """A gate for a node and all its descendants."""

    node: NodeId
    gate: Gate


class NodeGates(RunPart):
    """The gates of a run by the node to which they were added."""

    by_node: Mapping[str, tuple[Gate, ...]] = field(default_factory=dict)

    def gates_of(self, node: NodeId) -> tuple[Gate, ...]:
        """The gates added to the node and to its ancestors."""
        return tuple(gate for above, gates in self.by_node.items() if node.is_within(above) for gate in gates)


def _add(state: FoldState, event: GateAdded, _at: float) -> None:
    run = state.runs[event.node.run]
    gates = NodeGates.of(run).by_node
    state.put_run(run.with_part(NodeGates({**gates, event.node: (*gates.get(event.node, ()), event.gate)})))


FAMILY = Family((GateAdded,), {GateAdded: _add})
