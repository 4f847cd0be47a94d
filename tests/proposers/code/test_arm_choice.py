"""The choice of operator and model, by credit, by weights and by gradient."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from loopty.domain.model import ModelOption
from loopty.domain.trial import Pool
from loopty.engine.protocols import Ask
from loopty.proposers.code.arms import Arm, ArmPrices, arm_shares, choose_arm, drought_spread
from loopty.proposers.code.options import CodeOptions, Operator, Policy
from loopty.record.search_learning import ArmCredit, OperatorCredit, SearchLearning, arm_name

OPERATORS = (Operator.DIFF, Operator.REWRITE)
CHEAP, STRONG = ModelOption("cheap"), ModelOption("strong", price=6.0)


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


def test_credit_prefers_what_was_worth_more(world: Any) -> None:
    options = CodeOptions(operators=OPERATORS, exploration=0.0)
    found = draws(
        world, options, diff_cheap=ArmCredit(20, reward=8, trials=20), rewrite_cheap=ArmCredit(20, trials=20)
    )
    assert found[("diff", "cheap")] > 190


def test_the_same_reward_for_a_higher_price_is_drawn_less(world: Any) -> None:
    options = CodeOptions(operators=OPERATORS, exploration=0.0)
    cheap = ArmCredit(20, reward=4, trials=20, calls=20, tokens=2_000, money_usd=0.02)
    dear = ArmCredit(20, reward=4, trials=20, calls=20, tokens=2_000, money_usd=0.40)
    found = draws(world, options, (CHEAP, STRONG), diff_cheap=cheap, diff_strong=dear)
    assert found[("diff", "cheap")] > 5 * found[("diff", "strong")]


def test_exploration_starves_nothing_and_says_so(world: Any) -> None:
    options = CodeOptions(operators=OPERATORS, exploration=1.0)
    credit = {"diff_cheap": ArmCredit(50, reward=40, trials=50), "rewrite_cheap": ArmCredit(50, trials=50)}
    assert min(draws(world, options, **credit).values()) > 60
    choice = choose_arm(ask_with(world, 0, **credit), options, OPERATORS, (CHEAP,))
    assert choice.reason.startswith("explored: drawn by price")
    assert "in 50 at a price of" in choice.reason


def test_fixed_weights_draw_operators_and_models_by_their_weights(world: Any) -> None:
    options = CodeOptions(operators=OPERATORS, policy=Policy.WEIGHTS, weights={"diff": 1.0})
    models = (ModelOption("cheap", 3.0), ModelOption("strong", 1.0))
    found = draws(world, options, models)
    assert {operator for operator, _ in found} == {"diff"}
    assert 120 < found[("diff", "cheap")] < 180


def test_mutate_has_no_model_and_only_the_price_of_its_trials(world: Any) -> None:
    prices = ArmPrices(OperatorCredit(), (CHEAP,), trial_price=2.0)
    assert prices.price(Arm(Operator.MUTATE)) == 2.0
    assert prices.price(Arm(Operator.DIFF, "cheap")) == 3.0
    options = CodeOptions(operators=(Operator.MUTATE,))
    assert choose_arm(ask_with(world, 1), options, (Operator.MUTATE,), (CHEAP,)).arm == Arm(Operator.MUTATE)


def test_a_listed_price_counts_until_a_call_was_measured() -> None:
    assert ArmPrices(OperatorCredit(), (CHEAP, STRONG), 1.0).call_price("strong") == 6.0
    arms = {
        "diff|cheap": ArmCredit(1, calls=1, tokens=100),
        "diff|strong": ArmCredit(1, calls=1, tokens=300),
    }
    assert ArmPrices(OperatorCredit(arms), (CHEAP, STRONG), 1.0).call_price("strong") == pytest.approx(3.0)


def test_the_gradient_follows_rewards_and_spreads_in_a_drought() -> None:
    arms = [(ArmCredit(10, reward=5), 1.0), (ArmCredit(10), 1.0)]
    early, late = (
        arm_shares(arms, drought_spread(learning)) for learning in (SearchLearning(), SearchLearning(signal=0.01))
    )
    assert sum(early) == pytest.approx(1.0)
    assert early[0] > late[0] > late[1] > early[1]
    assert drought_spread(SearchLearning()) == pytest.approx(0.1)


@pytest.mark.parametrize("policy", [Policy.CREDIT, Policy.GRADIENT, Policy.WEIGHTS])
def test_the_same_history_gives_the_same_choice(world: Any, policy: Policy) -> None:
    options = CodeOptions(operators=OPERATORS, policy=policy)
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
