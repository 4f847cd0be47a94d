"""A node as a line of the tree shows it, read from its facts without the rest: a tree may show a million."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from loopty.domain.ids import NodeId, handle_name
from loopty.domain.outcome import Effect, Ending, Verdict
from loopty.domain.pool import Pool
from loopty.domain.space import Value
from loopty.kit import codec
from loopty.record.node_record import Withdrawal
from loopty.record.pages import UNREADABLE, damaged_page

_AT_ONCE = 2_000
_POOLS = {pool.value: pool for pool in Pool}
_VERDICTS: dict[str | None, Verdict | None] = {None: None, **{verdict.value: verdict for verdict in Verdict}}
_ENDINGS: dict[str | None, Ending | None] = {None: None, **{ending.value: ending for ending in Ending}}


class TreeNode:
    """What a line needs of a node; the names are those of `Node`."""

    # Few nodes have these, so that most take the values of the class.
    edits: Sequence[str] = ()
    draft = False
    dropped = False
    running = False
    files_removed = False
    merged: Sequence[str] = ()
    reopened_for: Sequence[str] = ()
    has_other_results = False
    withdrawn: Withdrawal | None = None
    effect: Effect | None = None

    def __init__(
        self,
        node: NodeId,
        handle: int,
        pool: str,
        operator: str,
        summary: str,
        params: Mapping[str, Value],
        verdict: str | None,
        against: str | None,
        ending: str | None,
        fingerprint: str,
        metrics: Mapping[str, float],
        rare: Mapping[str, Any] | None = None,
    ) -> None:
        self.id = node
        self.handle = handle
        self.pool = _POOLS[pool]
        self.operator = operator
        self.summary = summary
        self.params = params
        self.verdict = _VERDICTS[verdict]
        self.against = against
        self.ending = _ENDINGS[ending]
        """How the judging trial ended; None before that."""
        self.fingerprint = fingerprint
        self.metrics = metrics
        if rare:
            self._add(**rare)

    def _add(
        self, withdrawn: Mapping[str, Any] | None = None, effect: Mapping[str, Any] | None = None, **others: Any
    ) -> None:
        """Add what few nodes have."""
        self.__dict__.update(others)
        self.withdrawn = codec.build(Withdrawal, withdrawn) if withdrawn else None
        self.effect = codec.build(Effect, effect) if effect else None

    @property
    def name(self) -> str:
        return handle_name(self.handle)

    @property
    def is_pending(self) -> bool:
        """Whether the node waits for a trial."""
        return not (self.draft or self.running or self.verdict)


def read_tree_node(node: NodeId, facts: str) -> TreeNode:
    """The node that these facts are about. Raises Misuse where they are damaged."""
    try:
        return TreeNode(node, *json.loads(facts))
    except UNREADABLE as error:
        raise damaged_page(f"node {node}") from error


def read_tree_nodes(facts: Iterable[tuple[NodeId, str]]) -> Iterator[TreeNode]:
    """All of these nodes; many are decoded together, in half the time."""
    facts = iter(facts)
    while some := list(islice(facts, _AT_ONCE)):
        try:
            rows = json.loads(f"[{','.join([text for _, text in some])}]")
            yield from [TreeNode(node, *row) for (node, _), row in zip(some, rows, strict=True)]
        except UNREADABLE:
            yield from (read_tree_node(node, text) for node, text in some)  # one of them says which is damaged
