"""Proposers from cheap to broad: climb when one stops finding improvements, step down when one fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loopty.domain.errors import Crowded, Exhausted, Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage
from loopty.domain.proposal import RungChange, Suggestion
from loopty.domain.task import PluginChoice
from loopty.engine.protocols import Ask, Proposer
from loopty.kit.records import Record
from loopty.kit.tables import Table, option
from loopty.record.search_summary import LadderState
from loopty.record.trials import TrialCounts, Trials
from loopty.record.verdicts import Incumbents

if TYPE_CHECKING:
    from loopty.proposers.services import Services

_MAX_FAILED_STAYS = 2
"""Consecutive stays on a rung without a usable proposal; after them the rung is skipped until a new best node."""


class LadderOptions(Table):
    rungs: tuple[Mapping[str, Any], ...] = option(
        "The proposers from cheap to broad: tables with `kind`, its options and, if it differs, `patience`."
    )
    patience: int = option("Trials without an improvement before the ladder moves to the next rung.", 8, minimum=1)
    fallback: int = option(
        "Unusable proposals in a row before the ladder steps down. A rung that fails twice is skipped until"
        " there is a new best node.",
        3,
        minimum=1,
    )
    cycle: bool = option(
        "Start again at the first rung when the last one runs out of patience.",
        True,
    )


class Rung(Record):
    """One proposer of a ladder."""

    proposer: Proposer
    patience: int
    name: str


class Ladder:
    """Asks one of its proposers at a time. The history has its rung, so a new process continues from there."""

    name = "ladder"

    def __init__(self, rungs: Sequence[Rung], options: LadderOptions) -> None:
        if not rungs:
            raise Misuse("a ladder needs rungs: add [[proposer.rungs]] with a kind")
        # A proposer counts its turns in the history by its name: two of one name would count each other's.
        counting = [rung.proposer.name for rung in rungs if getattr(rung.proposer, "counts_turns", False)]
        if repeated := next((name for name in counting if counting.count(name) > 1), None):
            raise Misuse(
                f"the ladder has two rungs of kind '{repeated}': remove one, the ladder comes back to the other"
            )
        self._rungs = rungs
        self._options = options
        waits = any(_waits(rung) for rung in rungs)
        self.width = min(getattr(rung.proposer, "width", 1) for rung in rungs) if waits else 0
        self._empty_reasons: dict[int, str] = {}
        """Rungs that had nothing to propose since the last new best node, and why."""
        self._best: NodeId | None = None

    async def propose(self, ask: Ask) -> Suggestion | None:
        run = ask.history.runs[ask.run]
        state, best = LadderState.of(run, ask.pool), Incumbents.of(run, ask.pool).best
        if best != self._best:
            self._best, self._empty_reasons = best, {}
        index = min(state.rung, len(self._rungs) - 1)  # the task file may have fewer rungs now
        if ask.early and (not _waits(self._rungs[index]) or self._may_leave(ask, state, index)):
            return None  # it needs no time, or a running trial may move the ladder before the answer is used
        if step := self._due_step(ask, state, index):
            return step
        name = self._rungs[index].name
        try:
            return await self._rungs[index].proposer.propose(ask)
        except Crowded:
            raise  # it will have a proposal soon
        except Exhausted as end:
            self._empty_reasons[index] = f"{name} has nothing left: {end}"
            rungs = (*self._rungs_above(state, index), *self._rungs_below(index), *self._other_rungs(index))
            step = self._step_to_first(rungs, self._empty_reasons[index])
            if step is None:
                raise Exhausted(
                    "; ".join(self._empty_reasons[rung] for rung in sorted(self._empty_reasons))
                ) from None
        except Outage as outage:
            step = self._step_to_first(self._rungs_below(index), f"{name} cannot be asked: {outage}")
            if step is None:
                raise
        return step

    def _due_step(self, ask: Ask, state: LadderState, index: int) -> RungChange | None:
        """Return the step that is due after the trials and refusals on this rung, or None."""
        rung = self._rungs[index]
        if state.refused >= self._options.fallback:
            rungs = (*self._rungs_below(index), *self._rungs_above(state, index))
            return self._step_to_first(rungs, f"proposals refused in a row on {rung.name}: {state.refused}")
        if self._trials_without_gain(ask, state) >= rung.patience:
            again = self._first_rungs_again(state, index) if self._options.cycle else []
            rungs = (*self._rungs_above(state, index), *again)
            return self._step_to_first(rungs, f"trials on {rung.name} without an improvement: {rung.patience}")
        return None

    def _may_leave(self, ask: Ask, state: LadderState, index: int) -> bool:
        """Say whether the rung may run out of patience with the trials that are running."""
        running = _running_trials(ask)
        return running > 0 and self._trials_without_gain(ask, state) + running >= self._rungs[index].patience

    def _trials_without_gain(self, ask: Ask, state: LadderState) -> int:
        """Count the trials that ended since the best node was found, at most those of this stay on the rung."""
        run = ask.history.runs[ask.run]
        ended = TrialCounts.of(run, ask.pool).started - state.started - _running_trials(ask)
        return min(Incumbents.of(run, ask.pool).since_best, ended)

    def _step_to_first(self, rungs: Iterable[int], reason: str) -> RungChange | None:
        """Return a step to the first of these rungs; None when there are none."""
        return next((RungChange(rung, self._rungs[rung].name, reason) for rung in rungs), None)

    def _rungs_above(self, state: LadderState, index: int) -> list[int]:
        return [rung for rung in range(index + 1, len(self._rungs)) if self._is_open(state, rung)]

    def _first_rungs_again(self, state: LadderState, index: int) -> list[int]:
        return [rung for rung in range(index) if self._is_open(state, rung)]

    def _rungs_below(self, index: int) -> list[int]:
        return [rung for rung in reversed(range(index)) if rung not in self._empty_reasons]

    def _other_rungs(self, index: int) -> list[int]:
        """List every other rung that may still have proposals, including rungs that failed before."""
        return [rung for rung in range(len(self._rungs)) if rung != index and rung not in self._empty_reasons]

    def _is_open(self, state: LadderState, rung: int) -> bool:
        return rung not in self._empty_reasons and state.falls.get(str(rung), 0) < _MAX_FAILED_STAYS


def _running_trials(ask: Ask) -> int:
    return sum(trial.pool is ask.pool for trial in Trials.of(ask.history.runs[ask.run]).running.values())


def _waits(rung: Rung) -> bool:
    """Say whether the rung's proposer waits for a model."""
    return bool(getattr(rung.proposer, "width", 0))


def make_proposer(options: LadderOptions, services: Services) -> Ladder:
    return Ladder([_make_rung(table, options.patience, services) for table in options.rungs], options)


def _make_rung(table: Mapping[str, Any], patience: int, services: Services) -> Rung:
    options = {name: value for name, value in table.items() if name not in ("kind", "patience")}
    proposer = services.make_proposer(PluginChoice(table["kind"], options))
    return Rung(proposer, table.get("patience", patience), table["kind"])
