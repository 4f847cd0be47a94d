"""The parameters of a new node: the proposal's values, or its parents'."""

from __future__ import annotations

from loopty.domain.declared_parameters import Declared, complete_params
from loopty.domain.proposal import Proposal
from loopty.domain.space import Value
from loopty.record.history import History


def inherit_params(history: History, proposal: Proposal, declared: Declared) -> dict[str, Value]:
    """The proposal's values, else those of its parent; what the program declares, it has from all its parents."""
    parent, values = history[proposal.parent], dict[str, Value]()
    for node in (*map(history.__getitem__, proposal.merged), parent):
        values |= {name: value for name, value in node.params.items() if name in node.declared}
    known = {name: value for name, value in values.items() if name in declared}
    return complete_params(declared, {**known, **(proposal.params or parent.task_params)})
