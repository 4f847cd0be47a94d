"""Which operator and which model make the next change: an arm, drawn by credit or by fixed weights."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from loopty.domain.model import ModelOption
from loopty.engine.protocols import Ask
from loopty.kit.records import Record
from loopty.proposers.code.arm_gradient import arm_shares, draft_share, drought_spread, gain_bias
from loopty.proposers.code.arm_prices import Arm, ArmPrices
from loopty.proposers.code.code_options import CodeOptions, Operator, Policy
from loopty.record.calls import Spend
from loopty.record.operator_credit import OperatorCredit
from loopty.record.proposals import Proposals
from loopty.record.search_learning import SearchLearning

PRIOR = (1.0, 3.0)
"""One node that became the best and three that were worth nothing: what is believed of an arm before its first."""


WITHOUT_MODEL = (Operator.MUTATE, Operator.MERGE)
"""Operators that are one arm, because they ask no model, or only where git finds conflicts."""


class ArmChoice(Record):
    """The arm that was drawn, and why."""

    arm: Arm
    reason: str


def choose_arm(
    ask: Ask, options: CodeOptions, operators: Sequence[Operator], models: Sequence[ModelOption], wish: str = ""
) -> ArmChoice:
    """The arm of the next proposal, of the operators that apply now. `wish` is what the selector asks for."""
    run = ask.history.runs[ask.run]
    credit = OperatorCredit.of(run, ask.pool)
    prices = ArmPrices(credit, models, options.trial_price)
    cheapest = min((model.name for model in models), key=prices.call_price, default="")
    if wish:
        return ArmChoice(Arm(Operator(wish), cheapest), "as the selection of the parent asks")
    drafts = Proposals.of(run, ask.pool).answers.get(Operator.DRAFT, 0)
    drafts += _in_flight(ask).get((Operator.DRAFT, ""), 0)
    if Operator.DRAFT in options.operators and drafts < options.drafts:
        return ArmChoice(Arm(Operator.DRAFT, cheapest), f"draft {drafts + 1} of {options.drafts} at the start")
    arms = _arms(operators, models)
    if options.policy is Policy.WEIGHTS:
        return _by_weights(ask.rng, options, operators, models)
    if options.policy is Policy.GRADIENT:
        return _by_gradient(ask, arms, prices, cheapest)
    return _by_credit(ask, options, arms, prices)


def _arms(operators: Sequence[Operator], models: Sequence[ModelOption]) -> list[Arm]:
    return [
        Arm(operator, name)
        for operator in dict.fromkeys(operators)
        for name in ([""] if operator in WITHOUT_MODEL else [model.name for model in models])
    ]


def _by_credit(ask: Ask, options: CodeOptions, arms: Sequence[Arm], prices: ArmPrices) -> ArmChoice:
    """Thompson's rule: draw what each arm may be worth, and take the largest worth for its price."""
    rng, by_arm = ask.rng, {arm: prices.price(arm) for arm in arms}
    if rng.random() < options.exploration:
        arm = rng.choices(arms, [1 / max(price, 1e-9) for price in by_arm.values()])[0]
        why = f"explored: drawn by price, in {100 * options.exploration:.0f} % of proposals"
        return ArmChoice(arm, f"{why}; {_standing(prices, arm)}")
    in_flight = _in_flight(ask)

    def worth(arm: Arm) -> float:
        known = prices.credit.arm(*arm.key)
        asked = known.asked + in_flight.get(arm.key, 0)
        success, failure = PRIOR
        return rng.betavariate(success + known.reward, failure + max(asked - known.reward, 0.0))

    drawn = {arm: worth(arm) / max(price, 1e-9) for arm, price in by_arm.items()}
    arm = max(arms, key=drawn.__getitem__)
    return ArmChoice(arm, f"credit: drew {drawn[arm]:.3f}, the most of {len(arms)}; {_standing(prices, arm)}")


def _by_gradient(ask: Ask, arms: Sequence[Arm], prices: ArmPrices, cheapest: str) -> ArmChoice:
    learning = SearchLearning.of(ask.history.runs[ask.run], ask.pool)
    draft, spread = Arm(Operator.DRAFT, cheapest), drought_spread(learning)
    state = f"move {learning.number}, signal {learning.signal:.2f}"
    if draft in arms and ask.rng.random() < (share := draft_share(learning)):
        return ArmChoice(draft, f"gradient: a draft, in {100 * share:.0f} % of proposals ({state})")
    biases = [gain_bias(learning.gains, arm.operator) for arm in arms]
    shares = arm_shares([(prices.credit.arm(*arm.key), prices.price(arm)) for arm in arms], spread, biases)
    arm = ask.rng.choices(arms, shares)[0]
    index = arms.index(arm)
    drawn = f"drawn with {100 * shares[index]:.0f} %, {100 * spread:.0f} % of all alike ({state})"
    return ArmChoice(arm, f"gradient: {drawn}; gains {biases[index]:.2f} times the mean; {_standing(prices, arm)}")


def _by_weights(
    rng: random.Random, options: CodeOptions, operators: Sequence[Operator], models: Sequence[ModelOption]
) -> ArmChoice:
    weights = [options.weight(operator) for operator in operators]
    operator = rng.choices(operators, weights)[0] if any(weights) else operators[0]
    chance = options.weight(operator) * list(operators).count(operator) / (sum(weights) or 1.0)
    reason = f"fixed weights: {operator} with {100 * chance:.0f} %"
    if operator in WITHOUT_MODEL:
        return ArmChoice(Arm(operator), reason)
    model = rng.choices(models, [model.weight for model in models])[0].name if len(models) > 1 else models[0].name
    return ArmChoice(Arm(operator, model), reason)


def _in_flight(ask: Ask) -> Mapping[tuple[str, str], int]:
    """Calls of this pool without an answer yet, by operator and model, and by operator under an empty model."""
    counts: dict[tuple[str, str], int] = {}
    for call in Spend.of(ask.history.runs[ask.run]).reservations.values():
        if call.pool is ask.pool:
            for key in {(call.operator, call.model), (call.operator, "")}:
                counts[key] = counts.get(key, 0) + 1
    return counts


def _standing(prices: ArmPrices, arm: Arm) -> str:
    known = prices.credit.arm(*arm.key)
    return f"{arm.text} earned {known.reward:.2f} in {known.asked} at a price of {prices.price(arm):.2f} calls"
