"""The family of claims: who works on what. A client's draft is its claim until the node has its verdict."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.kit.records import Record, field
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.nodes import DraftDropped, NodeAdded
from loopty.record.run_record import RunPart
from loopty.record.verdicts import NodeJudged, VerdictWithdrawn

_MOST_CLAIMS = 64
STALE_SECONDS = 2 * 3600.0
"""A claim that is older holds nobody up: its client has probably gone."""


class Claim(Record):
    """A client works on a node."""

    author: str
    surface: str
    summary: str
    since: float

    def is_fresh(self, now: float) -> bool:
        return now - self.since < STALE_SECONDS


class Claims(RunPart):
    """The claims on nodes without a verdict, oldest first."""

    by_node: Mapping[str, Claim] = field(default_factory=dict)


def _add(state: FoldState, event: NodeAdded, at: float) -> None:
    if not event.author:
        return
    run = state.runs[event.node.run]
    claim = Claim(event.author, event.surface, event.summary, at)
    kept = [*Claims.of(run).by_node.items(), (str(event.node), claim)][-_MOST_CLAIMS:]
    state.put_run(run.with_part(Claims(dict(kept))))


def _end(state: FoldState, event: DraftDropped | NodeJudged | VerdictWithdrawn, _at: float) -> None:
    _remove(state, event.node)


def _remove(state: FoldState, node: NodeId) -> None:
    run = state.runs[node.run]
    by_node = Claims.of(run).by_node
    if node in by_node:
        state.put_run(run.with_part(Claims({key: claim for key, claim in by_node.items() if key != node})))


FAMILY = Family((), {NodeAdded: _add, DraftDropped: _end, NodeJudged: _end, VerdictWithdrawn: _end})
