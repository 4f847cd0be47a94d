"""What a change must respect: the files that may change, the limits of a trial, and the budget that is left."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.access import Access
from loopty.domain.task import Pools, Task
from loopty.engine.protocols import Ask
from loopty.kit.fence import one_line
from loopty.kit.records import Record
from loopty.proposers.context.declarations import declaration_lines
from loopty.record.calls import Spend
from loopty.record.trials import TrialCounts

_MAX_PATTERNS = 12
_LONGEST = 120


class PromptLimits(Record):
    """The limits of a trial and of the run, as far as a proposer should know them."""

    seconds: float
    memory_mb: int
    processes: int
    network: bool
    pools: Pools
    tune_trials: int | None = None
    """Short runs that tune the parameters of a proposal; None where there is no slice to run."""

    @classmethod
    def of(cls, task: Task) -> PromptLimits:
        benchmark, limits = task.benchmark, task.limits
        tune_trials = task.tune.trials if task.tune else None
        bounds = benchmark.timeout_seconds, limits.memory_mb, limits.processes
        return cls(*bounds, benchmark.network, task.pools, tune_trials)


def limits_text(ask: Ask, access: Access | None, limits: PromptLimits | None) -> str:
    """The section about limits; empty where there is nothing to say."""
    lines = [
        *(_access_lines(access) if access else ()),
        *(_trial_lines(limits, bool(access)) if limits else ()),
        *(declaration_lines(limits.tune_trials) if access and limits and limits.tune_trials else ()),
        *(_budget_lines(ask, limits.pools) if limits else ()),
    ]
    return "\n".join(("# Limits", "", *(f"- {line}" for line in lines))) if lines else ""


def _access_lines(access: Access) -> Iterator[str]:
    yield f"Change only {_pattern_list(access.write)}. Any other change is refused without a trial."
    if access.read != ("**",):
        yield f"You may read {_pattern_list(access.read)}."
    yield "Where a file has EVOLVE-BLOCK-START and EVOLVE-BLOCK-END lines, change only what is between them."
    yield "A change that games the benchmark, removes checks or fakes results is rejected, whatever its score."


def _trial_lines(limits: PromptLimits, changes_code: bool) -> Iterator[str]:
    # `memory_mb` bounds the whole process tree.
    yield (
        f"One trial may take {limits.seconds:g} seconds, {limits.memory_mb:,} MB of memory and {limits.processes} "
        "processes and threads."
    )
    if changes_code:
        network = "" if limits.network else "It has no network. "
        yield f"{network}Nothing can be installed: use the standard library and what the files import already."


def _budget_lines(ask: Ask, pools: Pools) -> Iterator[str]:
    run = ask.history.runs[ask.run]
    if limit := pools.limit(ask.pool):
        remaining = max(limit - TrialCounts.of(run, ask.pool).started, 0)
        yield f"{remaining} of {limit} attempts are left."
    if pools.target is not None:
        yield f"The search ends when the first metric reaches {pools.target:g}."
    if pools.tokens:
        yield f"{max(pools.tokens - Spend.of(run).total_tokens, 0):,} of {pools.tokens:,} tokens are left."


def _pattern_list(patterns: tuple[str, ...]) -> str:
    shown = ", ".join(f"`{one_line(pattern, _LONGEST)}`" for pattern in patterns[:_MAX_PATTERNS])
    more = f" and {len(patterns) - _MAX_PATTERNS} more patterns" if len(patterns) > _MAX_PATTERNS else ""
    return f"{shown}{more}" if shown else "nothing"
