"""A change as data: parameters, edits, or both. Replaying it calls no model."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from loopty.domain.ids import NodeId
from loopty.domain.search_config import SearchMove
from loopty.domain.space import Params, Value
from loopty.kit import codec
from loopty.kit.records import Record, field
from loopty.kit.short_digest import sha256

Edits = Mapping[str, str | bytes | None]
"""New content by path; None deletes the file."""


BY_HAND = "hand"
"""The operator of a change that a person made."""


class Proposal(Record):
    """The next experiment."""

    operator: str
    parent: NodeId
    summary: str
    params: Mapping[str, Value] = field(default_factory=dict)
    edits: Edits = field(default_factory=dict)
    inspirations: tuple[NodeId, ...] = ()
    """Other nodes that it builds on."""
    calls: tuple[str, ...] = ()
    """The model calls behind it; the last one returned it."""
    remaining_in_reply: int = 0
    """How many proposals follow it in the reply of the last call."""
    index_in_reply: int = 0
    """Its index among the proposals of the last call, from 0."""
    parent_reason: str = ""
    """Why its selector chose the parent."""
    arm_reason: str = ""
    """Why its operator and its model were chosen."""
    author: str = ""
    """The client that opened it; empty for a person or a proposer."""
    surface: str = ""
    """The part of the code that it is about, in the author's words."""
    merged: tuple[NodeId, ...] = ()
    """Further parents, whose changes it holds as well."""

    def as_refusal(self, reason: str, objection: Objection) -> Refusal:
        """The refusal of this proposal: it gets no trial."""
        place = self.remaining_in_reply, self.index_in_reply
        return Refusal(self.operator, reason, objection, self.calls, *place, self.arm_reason)


class Objection(StrEnum):
    """Why a proposal gets no trial."""

    OTHER = "other"
    REPLY = "reply"
    """The model's reply held no readable proposal."""
    APPLY = "apply"
    """It does not fit the files."""
    FORBIDDEN = "forbidden"
    """It changes a protected path, or lies outside the space."""
    DUPLICATE = "duplicate"
    """The same, or nearly the same, was tried before."""


class Refusal(Record):
    """A proposal without a trial. It is recorded, and no attempt is charged."""

    operator: str
    reason: str
    objection: Objection = Objection.OTHER
    calls: tuple[str, ...] = ()
    remaining_in_reply: int = 0
    index_in_reply: int = 0
    arm_reason: str = ""
    """Why its operator and its model were chosen."""


class RungChange(Record):
    """A ladder goes to another rung."""

    rung: int
    name: str
    reason: str


class ProposerStall(Record):
    """A proposer did not get on. Its account is in the ledger; it is asked again, and no attempt is charged."""

    operator: str
    reason: str


Suggestion = Proposal | Refusal | RungChange | ProposerStall | SearchMove
"""A proposer's answer."""


def identity(tree: str, params: Params) -> str:
    """A digest of files and parameters: two nodes with the same one are the same experiment."""
    return sha256(f"{tree} {codec.text(dict(sorted(params.items())))}".encode()).hexdigest()[:20]
