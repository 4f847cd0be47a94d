"""A run: one set of criteria, and the parts that the event families keep about it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Self, TypeVar

from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.trial import Pool
from loopty.kit import codec
from loopty.kit.records import Record, field, replace

T = TypeVar("T")
_DEFAULT_PARTS: dict[type, Any] = {}
"""What a family keeps about a run before its first event: one for all runs, as parts never change."""


class Run(Record):
    """What is known about one run. Each event family keeps its own part: see RunPart and PoolPart."""

    number: int
    criteria: str
    objective: Objective
    seed: int
    why: str
    started_at: float
    benchmark: str = ""
    data: str = ""
    criteria_parts: Mapping[str, str] = field(default_factory=dict)
    secret: str = ""
    """What the order within pairs is drawn from."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """By the name of the part's class. As it is read, plain data, from which `of` builds the part."""
    pools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By pool, then by the name of the part's class."""

    def __repr__(self) -> str:
        return f"Run(number={self.number}, criteria={self.criteria!r})"  # the secret is for no log

    @property
    def root(self) -> NodeId:
        """Return the baseline."""
        return _root_id(self.number)

    def with_part(self, part: RunPart) -> Run:
        return replace(self, parts={**self.parts, type(part).__name__: part})

    def with_pool_part(self, pool: Pool, part: PoolPart) -> Run:
        parts = {**self.pools.get(pool, {}), type(part).__name__: part}
        return replace(self, pools={**self.pools, pool: parts})


class RunPart(Record):
    """What one event family keeps about a run: a record whose fields all have defaults."""

    @classmethod
    def of(cls, run: Run) -> Self:
        return _part(cls, run.parts)


class PoolPart(Record):
    """What one event family keeps about one pool of a run: a record whose fields all have defaults."""

    @classmethod
    def of(cls, run: Run, pool: Pool) -> Self:
        return _part(cls, run.pools.get(pool, {}))


def _part(cls: type[T], parts: Mapping[str, Any]) -> T:
    """Return the part of this class. Reading verbs load only the families whose parts they ask for."""
    part = parts.get(cls.__name__)
    if type(part) is dict and isinstance(parts, dict):
        part = parts[cls.__name__] = codec.build(cls, part)
    known: T = part or _DEFAULT_PARTS.get(cls) or _DEFAULT_PARTS.setdefault(cls, cls())
    return known


@functools.lru_cache(maxsize=64)  # each event asks for it several times
def _root_id(run: int) -> NodeId:
    return NodeId(str(run))
