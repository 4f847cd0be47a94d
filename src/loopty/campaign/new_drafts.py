"""Drafts: nodes that are edited by hand and have not run yet."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from loopty.campaign.context import CampaignContext
from loopty.campaign.run_entry import enter_run
from loopty.domain.declared_parameters import join_space
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.domain.proposal import BY_HAND, Proposal
from loopty.domain.space import Params, Space, Value
from loopty.engine import decisions
from loopty.engine.protocols import CommittedFiles
from loopty.kit.records import Record
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded
from loopty.record.verdicts import Incumbents
from loopty.workspaces.drafts import Drafts


class DraftClaim(Record):
    """Who opens a draft, and for what."""

    author: str = ""
    surface: str = ""
    merged: tuple[NodeId, ...] = ()
    """Nodes besides the parent whose changes it will hold."""
    require_new: Callable[[History, Node], None] = lambda _history, _parent: None
    """Raises Misuse where the same is in work already. Nobody writes to the ledger meanwhile."""


class Draft(Record):
    """A new node that is still being edited."""

    node: NodeId
    folder: Path
    """The directory with the node's files."""
    files: list[str]
    """Those of them that may be changed."""
    handle: int


def new_draft(
    context: CampaignContext,
    parent: NodeId | None,
    message: str,
    params: Mapping[str, Value | str],
    sparse: bool = False,
    claim: DraftClaim | None = None,
) -> Draft:
    """Add a draft below a node; by default below the best one. `sparse`: with the writable files alone."""
    claim = claim or DraftClaim()
    if parent is None:
        run = context.history.runs[enter_run(context)]
        parent = Incumbents.of(run, Pool.ATTEMPT).best or run.root
    elif parent == "1" and not context.history.runs:
        parent = context.history.runs[enter_run(context)].root
    above = context.history[parent]
    point = point_with(params, above.params, join_space(context.task.space, above.declared))
    proposal = Proposal(
        BY_HAND, parent, message, point, author=claim.author, surface=claim.surface, merged=claim.merged
    )
    files = CommittedFiles(above.commit, above.tree, above.declared)

    def decide(history: History) -> list[Event]:
        claim.require_new(history, history[above.id])
        return decisions.add_node(history, proposal, files, Pool.ATTEMPT, draft=True)

    recorded = context.recorder.record(decide)
    added = recorded[0].event
    assert isinstance(added, NodeAdded)
    folder, layout = context.state.draft_folder(added.node), context.state.draft_layout(added.node)
    root = context.history[context.history.runs[added.node.run].root]
    writable = Drafts(context.repository, context.files).lay_out(above, root, folder, layout, sparse)
    return Draft(added.node, folder.shown_path, writable, context.history.handle(added.node))


def drop_draft(context: CampaignContext, node: NodeId) -> None:
    """Give up a draft: it never runs, and its directory goes."""
    from loopty.campaign import hand_decisions

    context.recorder.record(lambda history: hand_decisions.drop_draft(history, node))
    remove_draft(context, context.history[node])


def remove_draft(context: CampaignContext, node: Node) -> None:
    """Remove the directory of a draft."""
    context.state.draft_folder(node.id).remove_all()
    context.state.draft_layout(node.id).remove()


def point_with(given: Mapping[str, Value | str], before: Params, space: Space) -> dict[str, Value]:
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
        raise Misuse(f"there is no parameter {name}: the parameters are {known}")
    parameter = space.parameters[name]
    if isinstance(value, str) and not parameter.accepts(value):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if not parameter.accepts(value):
        raise Misuse(
            f"parameter {name} cannot be {value!r}: see where it is declared, in loopty.toml or the program"
        )
    return value
