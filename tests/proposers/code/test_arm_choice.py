"""The choice of operator and model, by gain for the price or by fixed weights."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelOption
from loopty.domain.task import Pools
from loopty.domain.trial import Pool
from loopty.engine.protocols import Ask
from loopty.proposers.code.arms import Arm, ArmPrices, choose_arm
from loopty.proposers.code.options import CodeOptions, Operator
from loopty.record.search_learning import ArmCredit, OperatorCredit, arm_name

OPERATORS = (Operator.DIFF, Operator.REWRITE)
CHEAP, STRONG = ModelOption("cheap"), ModelOption("strong", price=10.0)


def ask_with(world: Any, seed: int, **arms: ArmCredit) -> Ask:
    history = world.recorder.history
    named = {arm_name(*name.split("_")): arm for name, arm in arms.items()}
    credit = OperatorCredit.of(history.runs[1], Pool.ATTEMPT)
    history.runs[1] = history.runs[1].with_pool_part(Pool.ATTEMPT, OperatorCredit(named, credit.top))
    return Ask(history, 1, Pool.ATTEMPT, lambda _: random.Random(seed))


def draws(world: Any, options: CodeOptions, models: Any = (CHEAP,), **arms: ArmCredit) -> Counter[tuple[str, str]]:
    found = (choose_arm(ask_with(world, seed, **arms), options, OPERATORS, models) for seed in range(200))
    return Counter(choice.arm.key for choice in found)


def test_the_first_proposals_are_drafts_of_the_cheapest_model(world: Any) -> None:
    operators = (*OPERATORS, Operator.DRAFT)
    choice = choose_arm(ask_with(world, 0), CodeOptions(operators=operators), operators, (STRONG, CHEAP))
    assert choice.arm == Arm(Operator.DRAFT, "cheap")
    assert choice.reason == "draft 1 of 3 at the start"


def test_credit_prefers_what_gained_more(world: Any) -> None:
    options = CodeOptions(operators=OPERATORS, exploration=0.0)
    found = draws(
        world, options, diff_cheap=ArmCredit(20, reward=8, trials=20), rewrite_cheap=ArmCredit(20, trials=20)
    )
    assert found[("diff", "cheap")] > 190


def test_a_dear_model_costs_no_more_where_attempts_are_scarce(world: Any) -> None:
    """Money is no limit of the run: both arms use one of 100 attempts."""
    options = CodeOptions(operators=OPERATORS, exploration=0.0)
    cheap = ArmCredit(20, reward=4, trials=20, calls=20, tokens=2_000, money_usd=0.02)
    dear = ArmCredit(20, reward=4, trials=20, calls=20, tokens=2_000, money_usd=0.40)
    found = draws(world, options, (CHEAP, STRONG), diff_cheap=cheap, diff_strong=dear)
    assert 2 * found[("diff", "strong")] > found[("diff", "cheap")]


def test_the_price_is_the_share_of_the_scarcest_limit() -> None:
    arms = {
        "diff|cheap": ArmCredit(9, calls=9, tokens=900, money_usd=0.09, call_seconds=90.0),
        "diff|strong": ArmCredit(9, calls=9, tokens=900, money_usd=0.9, call_seconds=900.0),
    }
    cheap, strong, mutate = Arm(Operator.DIFF, "cheap"), Arm(Operator.DIFF, "strong"), Arm(Operator.MUTATE)

    def prices(**left: float) -> ArmPrices:
        return ArmPrices(OperatorCredit(arms), (CHEAP, STRONG), left)

    few = prices(attempts=10, money_usd=10)
    assert few.price(cheap) == few.price(strong) == few.price(mutate) == 0.1
    poor = prices(attempts=100, money_usd=0.5)
    assert poor.price(strong) == pytest.approx(0.2)
    assert poor.scarcest(strong) == "money"
    assert poor.price(cheap) == pytest.approx(0.02)
    assert poor.price(mutate) == 0.01
    assert poor.scarcest(mutate) == "attempts"
    late = prices(attempts=100, seconds=1000)
    assert late.price(strong) > 6 * late.price(cheap) > 0
    assert late.scarcest(strong) == "time"


def test_no_model_is_given_up_however_dear(world: Any) -> None:
    """Ten times the price and no gain in 40: one in ten proposals still draws the models by their weights."""
    options = CodeOptions(operators=OPERATORS)
    arms = {
        "diff_cheap": ArmCredit(40, reward=30, trials=40, calls=40, money_usd=0.4),
        "diff_strong": ArmCredit(40, trials=40, calls=40, money_usd=4.0),
    }
    asked = (
        choose_arm(ask_with(world, seed, **arms), options, OPERATORS, (CHEAP, STRONG), pools=Pools(money_usd=1.0))
        for seed in range(200)
    )
    strong = [choice for choice in asked if choice.arm.model == "strong"]
    assert 4 <= len(strong) <= 40
    assert any(choice.reason.startswith("explored: drawn by weight") for choice in strong)


def test_fixed_weights_draw_operators_and_models_by_their_weights(world: Any) -> None:
    options = CodeOptions(operators=OPERATORS, weights={"diff": 1.0})
    models = (ModelOption("cheap", 3.0), ModelOption("strong", 1.0))
    found = draws(world, options, models)
    assert {operator for operator, _ in found} == {"diff"}
    assert 120 < found[("diff", "cheap")] < 180


def test_weights_that_would_not_be_used_are_refused(world: Any) -> None:
    for weights in ({"crossover": 1.0}, {"diff": 0.0}, {"diff": -1.0, "fix": 2.0}):
        assert CodeOptions(weights=weights).fault().startswith("weights: ")
    with pytest.raises(Misuse, match="weights: crossover is none of `operators`"):
        world.proposer("diff", weights={"crossover": 1.0})


def test_a_listed_price_counts_until_a_call_was_measured() -> None:
    assert ArmPrices(OperatorCredit(), (CHEAP, STRONG), {}).call_price("strong") == 10.0
    arms = {
        "diff|cheap": ArmCredit(1, calls=1, tokens=100),
        "diff|strong": ArmCredit(1, calls=1, tokens=300),
    }
    assert ArmPrices(OperatorCredit(arms), (CHEAP, STRONG), {}).call_price("strong") == pytest.approx(3.0)


@pytest.mark.parametrize("weights", [{}, {"diff": 0.5, "rewrite": 0.5}])
def test_the_same_history_gives_the_same_choice(world: Any, weights: dict[str, float]) -> None:
    options = CodeOptions(operators=OPERATORS, weights=weights)
    arms = {"diff_cheap": ArmCredit(9, reward=1.5, trials=9), "rewrite_cheap": ArmCredit(4, reward=1, trials=4)}
    one, other = (choose_arm(ask_with(world, 7, **arms), options, OPERATORS, (CHEAP,)) for _ in range(2))
    assert one == other


async def test_mutate_as_an_arm_asks_no_model(world: Any) -> None:
    proposal = await world.get_proposal(world.proposer("mutate"))
    assert proposal.operator.startswith("mutate:")
    assert proposal.calls == ()
    assert proposal.arm_reason
    node = world.end(world.add(proposal), 2.0)
    assert node.arm_reason == proposal.arm_reason
    assert OperatorCredit.of(world.recorder.history.runs[1], Pool.ATTEMPT).arm("mutate", "").reward == 1.0
