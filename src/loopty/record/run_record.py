"""A run: one set of criteria, and the parts that the event families keep about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.pool import Pool
from loopty.kit.replace import replace

R = TypeVar("R", bound="RunPart")
P = TypeVar("P", bound="PoolPart")


@dataclass(frozen=True, slots=True)
class Run:
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
    parts: Mapping[str, Any] = field(default_factory=dict)
    """By the name of the part's class."""
    pools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By pool, then by the name of the part's class."""

    @property
    def root(self) -> NodeId:
        """The baseline."""
        return NodeId(str(self.number))

    def with_part(self, part: RunPart) -> Run:
        return replace(self, parts={**self.parts, type(part).__name__: part})

    def with_pool_part(self, pool: Pool, part: PoolPart) -> Run:
        parts = {**self.pools.get(pool, {}), type(part).__name__: part}
        return replace(self, pools={**self.pools, pool: parts})


class RunPart:
    """What one event family keeps about a run: a frozen dataclass whose fields all have defaults."""

    __slots__ = ()

    @classmethod
    def of(cls: type[R], run: Run) -> R:
        part: R | None = run.parts.get(cls.__name__)
        return part or cls()


class PoolPart:
    """What one event family keeps about one pool of a run: a frozen dataclass whose fields all have defaults."""

    __slots__ = ()

    @classmethod
    def of(cls: type[P], run: Run, pool: Pool) -> P:
        part: P | None = run.pools.get(pool, {}).get(cls.__name__)
        return part or cls()
