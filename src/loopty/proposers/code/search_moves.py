"""Moves the values of a search along a score-function estimate of improvement for a token.

Between two moves the search tries values that are drawn around their means. When it improved more for a token than
it did before, the means move towards what was drawn, else away from it. Everything follows from the record: the
sums since the last move, and a generator that is seeded by the number of the move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from loopty.domain.proposal import SearchConfig, SearchMove
from loopty.engine.protocols import Ask
from loopty.kit.records import Record
from loopty.proposers.code.options import CodeOptions
from loopty.record.search_learning import SearchLearning

WINDOW = 10
"""Proposals between two moves."""
_SPREAD = 0.15
_RATE = 0.5
_LARGEST_ADVANTAGE = 2.0
_MEMORY = 0.8
"""The weight of the past in the mean improvement for a token."""
MOST_BATCH = 16


class _Range(Record):
    """What 0 and 1 stand for."""

    least: float
    most: float
    is_log: bool = False

    def value(self, share: float) -> float:
        if self.is_log:
            return self.least * math.pow(self.most / self.least, share)
        return self.least + (self.most - self.least) * share

    def share(self, value: float) -> float:
        found = (value - self.least) / (self.most - self.least)
        if self.is_log:
            found = math.log(max(value, self.least) / self.least) / math.log(self.most / self.least)
        return min(max(found, 0.0), 1.0)


_RANGES = {
    "exploration": _Range(0.02, 0.5),
    "drafts": _Range(0.0, 0.3),
    "restart": _Range(10, 100, is_log=True),
    "batch": _Range(1, MOST_BATCH, is_log=True),
}


def next_move(ask: Ask, options: CodeOptions) -> SearchMove | None:
    """Return the move that is due now, or None."""
    known = SearchLearning.of(ask.history.runs[ask.run], ask.pool)
    if known.move is None:
        return _first_move(ask, options)
    if known.answered < WINDOW:
        return None
    return _move_on(ask, known, known.move)


def _first_move(ask: Ask, options: CodeOptions) -> SearchMove:
    stated = SearchConfig(exploration=options.exploration, batch=options.batch)
    means = _mapped(lambda name: _RANGES[name].share(getattr(stated, name)))
    return SearchMove(1, means, drawn := _draw(ask, 1, means), _config(drawn), "the values as they are stated")


def _move_on(ask: Ask, known: SearchLearning, last: SearchMove) -> SearchMove:
    reward = known.gained / max(known.tokens, 1.0) * 1000
    surprise = reward - last.reward_mean if last.number > 1 else 0.0
    spread = max(last.reward_spread, abs(surprise)) or 1.0
    advantage = min(max(surprise / spread, -_LARGEST_ADVANTAGE), _LARGEST_ADVANTAGE)

    def moved(name: str) -> float:
        step = _RATE * advantage * (last.drawn[name] - last.means[name])
        return min(max(last.means[name] + step, 0.0), 1.0)

    means = _mapped(moved)
    number, weight = last.number + 1, _MEMORY if last.number > 1 else 0.0
    drawn = _draw(ask, number, means)
    reason = (
        f"{known.answered} proposals gained {known.gained:.2f} of the largest gain for {known.tokens:,.0f} "
        f"tokens, {_comparison(surprise)}: the values moved {'towards' if advantage > 0 else 'away from'} those "
        "that were tried"
    )
    return SearchMove(
        number=number,
        means=means,
        drawn=drawn,
        config=_config(drawn),
        reason=reason if advantage else f"{reason.partition(':')[0]}: the values stay",
        reward_mean=round(weight * last.reward_mean + (1 - weight) * reward, 9),
        reward_spread=round(weight * last.reward_spread + (1 - weight) * abs(surprise), 9),
    )


def _comparison(surprise: float) -> str:
    if not surprise:
        return "as much as before"
    return "more than before" if surprise > 0 else "less than before"


def _draw(ask: Ask, number: int, means: Mapping[str, float]) -> Mapping[str, float]:
    rng = ask.generator_at(-1_000_000 - number)  # positions of answers are not negative
    return _mapped(lambda name: min(max(rng.gauss(means[name], _SPREAD), 0.0), 1.0))


def _config(drawn: Mapping[str, float]) -> SearchConfig:
    values = {name: _RANGES[name].value(share) for name, share in drawn.items()}
    return SearchConfig(
        round(values["exploration"], 3),
        round(values["drafts"], 3),
        round(values["restart"]),
        round(values["batch"]),
    )


def _mapped(value: Callable[[str], float]) -> dict[str, float]:
    return {name: round(value(name), 6) for name in _RANGES}
