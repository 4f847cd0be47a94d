"""The pruner that continues learning curves."""

from __future__ import annotations

import random

import pytest

from loopty.domain.objective import Direction
from loopty.domain.trial import Curve
from loopty.proposers.pruners import ExtrapolationPruner, _t_quantile

STEPS = range(1, 41)


def curve(level: float, speed: float, noise: float, rng: random.Random, direction: Direction) -> Curve:
    values = (level + 1.5 * step**-speed + rng.gauss(0, noise) for step in STEPS)
    points = tuple((float(step), value) for step, value in zip(STEPS, values, strict=True))
    if direction is Direction.MAX:
        points = tuple((step, -value) for step, value in points)
    return Curve(points, direction)


def drawn(rng: random.Random, direction: Direction = Direction.MIN) -> Curve:
    return curve(rng.uniform(0.2, 1.0), rng.uniform(0.3, 1.2), 0.01, rng, direction)


def cut(whole: Curve, count: int) -> Curve:
    return Curve(whole.points[:count], whole.direction)


@pytest.mark.parametrize("direction", Direction)
def test_doomed_trials_are_stopped_and_winners_are_not(direction: Direction) -> None:
    rng, pruner = random.Random(7), ExtrapolationPruner()
    stopped = wrong = 0
    for _ in range(60):
        peers = [drawn(rng, direction) for _ in range(12)]
        trial = drawn(rng, direction)
        best = max(direction.sign * peer.points[-1][1] for peer in peers)
        if pruner.prune_reason(cut(trial, 15), peers):
            stopped += 1
            wrong += direction.sign * trial.points[-1][1] > best
    assert stopped >= 20
    assert wrong <= 1, "5 % of those that would have won, at the most"


def test_the_reason_states_the_prediction_and_the_confidence() -> None:
    rng = random.Random(1)
    peers = [curve(0.2, 0.8, 0.001, rng, Direction.MIN) for _ in range(6)]
    reason = ExtrapolationPruner().prune_reason(cut(curve(2.0, 0.8, 0.001, rng, Direction.MIN), 10), peers)
    assert reason is not None
    assert "at step 40: with 95% confidence no better than" in reason


def test_nothing_is_stopped_early_without_peers_points_or_steps() -> None:
    rng, pruner = random.Random(1), ExtrapolationPruner()
    peers = [curve(0.2, 0.8, 0.001, rng, Direction.MIN) for _ in range(6)]
    bad = curve(2.0, 0.8, 0.001, rng, Direction.MIN)
    assert pruner.prune_reason(cut(bad, 10), peers[:4]) is None
    assert pruner.prune_reason(cut(bad, 3), peers) is None
    assert pruner.prune_reason(bad, peers) is None, "nothing is left to save"
    still = Curve(((1.0, 2.0),) * 6, Direction.MIN)
    assert pruner.prune_reason(still, peers) is None


def test_where_curves_follow_no_law_the_errors_of_the_peers_say_so() -> None:
    rng, pruner = random.Random(3), ExtrapolationPruner()

    def jumpy() -> Curve:
        values = [rng.uniform(0.8, 1.0)] * 30 + [rng.uniform(0.0, 1.0)] * 10
        return Curve(tuple((float(step), value) for step, value in zip(STEPS, values, strict=True)), Direction.MIN)

    peers = [jumpy() for _ in range(12)]
    assert not any(pruner.prune_reason(cut(jumpy(), 20), peers) for _ in range(20))


@pytest.mark.parametrize(("degrees", "quantile"), [(4, 2.132), (10, 1.812), (30, 1.697)])
def test_the_quantile_is_that_of_students_table(degrees: int, quantile: float) -> None:
    assert _t_quantile(0.95, degrees) == pytest.approx(quantile, rel=0.02)
