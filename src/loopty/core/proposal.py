"""A change as data: parameters, edits, or both. Replaying it calls no model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from loopty.core.ids import NodeId
from loopty.core.space import Params, Value
from loopty.kit import codec

Edits = Mapping[str, str | bytes | None]
"""New content by path; None deletes the file."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The next experiment."""

    operator: str
    parent: NodeId
    summary: str
    params: Mapping[str, Value] = field(default_factory=dict)
    edits: Edits = field(default_factory=dict)


def identity(tree: str, params: Params) -> str:
    """What makes two nodes the same experiment: the files and the parameters."""
    return hashlib.sha256(f"{tree} {codec.text(dict(sorted(params.items())))}".encode()).hexdigest()[:20]
