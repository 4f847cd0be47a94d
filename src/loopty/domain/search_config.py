"""How a search that learns goes about it: values that move while it runs, and one move of them."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.kit.records import Record


class SearchConfig(Record):
    """What the next proposals follow."""

    exploration: float = 0.1
    """The least share of proposals that ignores what was learned."""
    drafts: float = 0.05
    """The share of proposals that starts anew from the baseline."""
    restart: int = 30
    """Verdicts without a new best node after which one proposal in four starts anew."""
    batch: int = 1
    """Proposals of one call."""


class SearchMove(Record):
    """A proposer changes how it searches. The record keeps it, and the proposer is asked again."""

    number: int
    """1 for the first one of a pool."""
    means: Mapping[str, float]
    """Where each value stands, from 0 to 1 within its range."""
    drawn: Mapping[str, float]
    """The values that are tried until the next move, on the same scale: they are drawn around the means."""
    config: SearchConfig
    reason: str
    reward_mean: float = 0.0
    """The mean improvement for a token so far, against which the next one is held."""
    reward_spread: float = 0.0
