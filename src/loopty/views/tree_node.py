"""A node as a line of the tree shows it, read from its page without the rest: a tree may show a million."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Effect, Ending, Verdict
from loopty.domain.pool import Pool
from loopty.domain.space import Value
from loopty.kit import codec
from loopty.record.node_record import Withdrawal

_READ = json.JSONDecoder().raw_decode
"""Reads a page without a look for white space around it: loopty writes none."""
_POOLS = {pool.value: pool for pool in Pool}
_VERDICTS: dict[str | None, Verdict | None] = {None: None, **{verdict.value: verdict for verdict in Verdict}}
_ENDINGS = {ending.value: ending for ending in Ending}


class TreeNode:
    """What a line needs of a node; the names are those of `Node`."""

    __slots__ = (
        "against",
        "draft",
        "dropped",
        "edits",
        "effect",
        "ending",
        "files_removed",
        "fingerprint",
        "handle",
        "has_other_results",
        "id",
        "merged",
        "metrics",
        "operator",
        "params",
        "pool",
        "reopened_for",
        "running",
        "summary",
        "verdict",
        "withdrawn",
    )

    def __init__(self, node: NodeId, page: str) -> None:
        data: dict[str, Any] = _READ(page)[0]
        get = data.get
        self.id = node
        self.handle: int = get("handle", 0)
        self.pool = _POOLS[data["pool"]]
        self.operator: str = data["operator"]
        self.summary: str = data["summary"]
        self.params: Mapping[str, Value] = get("params") or {}
        self.edits: Sequence[str] = get("edits", ())
        self.draft: bool = get("draft", False)
        self.dropped: bool = get("dropped", False)
        self.running: bool = get("running", False)
        self.files_removed: bool = get("files_removed", False)
        self.verdict = _VERDICTS[get("verdict")]
        self.against: str | None = get("against")
        self.merged: Sequence[str] = get("merged", ())
        self.reopened_for: Sequence[str] = get("reopened_for", ())
        self.has_other_results = bool(get("other_fingerprints"))
        self.withdrawn = codec.build(Withdrawal, data["withdrawn"]) if get("withdrawn") else None
        self.effect = codec.build(Effect, data["effect"]) if get("effect") else None
        outcome: dict[str, Any] | None = get("outcome")
        self.ending = _ENDINGS[outcome["ending"]] if outcome else None
        """How the judging trial ended; None before that."""
        self.fingerprint: str = outcome.get("fingerprint", "") if outcome else ""
        self.metrics: Mapping[str, float] = outcome.get("metrics") or {} if outcome else {}
        """Those of the outcome."""

    @property
    def is_pending(self) -> bool:
        """Whether the node waits for a trial."""
        return not (self.draft or self.running or self.verdict)
