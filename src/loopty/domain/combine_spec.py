"""Combination: a second stage that builds on what the nodes of the search published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loopty.domain.space import Parameter
from loopty.kit.option import option

POOL_FOLDER = "loopty-pool"
"""Where a combination finds the artifacts of the pool, from the top of its tree; no proposal may change it."""


@dataclass(frozen=True, slots=True)
class Combine:
    """The second stage: when the search is over or stalls, it combines artifacts of its best, diverse nodes."""

    write: tuple[str, ...] = option(
        "Files that a combination may change, in place of `write` of `[access]`.", (), glob=True
    )
    parameters: Mapping[str, Parameter] = option(
        "Parameters of combinations, one `[combine.parameters.NAME]` table each, in place of `[parameters]`.", {}
    )
    patches: bool = option(
        "Let nodes without artifacts join the pool, to merge their changes with the operator `merge`.",
        False,
    )
    command: str | tuple[str, ...] = option(
        "The command that scores a combination, with the same metrics. Default: the benchmark's.", ""
    )
    members: int = option("Most nodes in the pool.", 8, minimum=2, below=65)
    patience: int | None = option(
        "Attempts without improvement before the stage starts. Default: when the search's budget is spent.",
        None,
        above=0,
    )
    attempts: int = option("Number of combinations to try.", 50, minimum=0)
    wall_seconds: float | None = option("Time for the stage. Default: no limit.", None, above=0)
    proposer: Mapping[str, Any] = option(
        "What proposes combinations, as in `[proposer]`. Default: `random` with parameters, else `mutate`.", {}
    )

    def __bool__(self) -> bool:
        """Whether there is a second stage."""
        return bool(self.write or self.parameters)
