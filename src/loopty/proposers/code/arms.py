"""Which operator and which model make the next change: an arm, drawn by credit for its price, by a gradient, or by
fixed weights.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterable, Mapping, Sequence

from loopty.domain.model import ModelOption
from loopty.engine.protocols import Ask
from loopty.kit.records import Record
from loopty.proposers.code.options import CodeOptions, Operator, Policy
from loopty.record.calls import Spend
from loopty.record.nodes import Proposals
from loopty.record.search_learning import ArmCredit, GainSum, OperatorCredit, SearchLearning

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
    """Choose the arm of the next proposal, of the operators that apply. `wish`: what the selector asks for."""
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
    """Follow Thompson's rule: draw what each arm may be worth, and take the largest worth for its price."""
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
    """Count this pool's calls without an answer, by operator and model, and by operator and an empty model."""
    counts: dict[tuple[str, str], int] = {}
    for call in Spend.of(ask.history.runs[ask.run]).reservations.values():
        if call.pool is ask.pool:
            for key in {(call.operator, call.model), (call.operator, "")}:
                counts[key] = counts.get(key, 0) + 1
    return counts


def _standing(prices: ArmPrices, arm: Arm) -> str:
    known = prices.credit.arm(*arm.key)
    return f"{arm.text} earned {known.reward:.2f} in {known.asked} at a price of {prices.price(arm):.2f} calls"


# The record keeps sums, so the work does not grow.


class Arm(Record):
    """An operator with a model; `mutate` has none."""

    operator: Operator
    model: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.operator, self.model

    @property
    def text(self) -> str:
        return f"{self.operator} by {self.model}" if self.model else str(self.operator)


class ArmPrices:
    """The mean cost of a proposal of each arm, in calls of the cheapest model."""

    def __init__(self, credit: OperatorCredit, models: Sequence[ModelOption], trial_price: float) -> None:
        self.credit = credit
        self._listed = {model.name: model.price for model in models}
        self._trial_price = trial_price
        self._is_priced = any(arm.money_usd for arm in credit.arms.values())

    def price(self, arm: Arm) -> float:
        """Return the mean cost of a proposal with its trials; the guess before the first counts as one."""
        known = self.credit.arm(*arm.key)
        guess = (self.call_price(arm.model) if arm.model else 0.0) + self._trial_price
        calls = self._amount(known) / self._unit if self._unit else known.calls
        return max((guess + calls + known.trials * self._trial_price) / (1 + known.asked), 1e-9)

    def call_price(self, model: str) -> float:
        """Return the mean price of a call of this model: as measured, else as listed."""
        if model in self._measured and self._unit:
            return self._measured[model] / self._unit
        return self._listed.get(model, 1.0)

    @functools.cached_property
    def _measured(self) -> Mapping[str, float]:
        """Return the mean cost of a call by model, in money if calls cost money, else in tokens."""
        sums: dict[str, tuple[float, float]] = {}
        for name, arm in self.credit.arms.items():
            if arm.calls:
                model = name.partition("|")[2]
                amount, calls = sums.get(model, (0.0, 0.0))
                sums[model] = amount + self._amount(arm), calls + arm.calls
        return {model: amount / calls for model, (amount, calls) in sums.items()}

    @functools.cached_property
    def _unit(self) -> float:
        """Return the mean cost of a call of the cheapest model that costs anything; 0 before the first."""
        return _smallest_positive(self._measured.values())

    def _amount(self, arm: ArmCredit) -> float:
        return arm.money_usd if self._is_priced else arm.tokens


def _smallest_positive(amounts: Iterable[float]) -> float:
    return min((amount for amount in amounts if amount > 0), default=0.0)


_RATE = 0.3
_STEEPEST = 3.0
"""No arm becomes more than e^6 times as likely as another."""
_MOST_SPREAD = 0.5
_RESTART_DRAFTS = 0.25
"""The share of proposals that starts anew in a long drought."""
_PRIOR_GAINS, _LEAST_GAIN = 4, 0.05


def arm_shares(
    arms: Sequence[tuple[ArmCredit, float]], spread: float, biases: Sequence[float] | None = None
) -> list[float]:
    """Return the chance of each arm, given its credit and price; `spread` is the share that is drawn alike.

    The sums of rewards make the estimate: each proposal moves its arm by its reward for the price less the mean.
    """
    asked = sum(credit.asked for credit, _ in arms)
    rates = [credit.reward / price / max(credit.asked, 1) for credit, price in arms]
    mean = sum(rate * credit.asked for rate, (credit, _) in zip(rates, arms, strict=True)) / max(asked, 1)
    slopes = [
        _RATE * credit.asked * (rate - mean) / (abs(mean) + 0.05)
        for rate, (credit, _) in zip(rates, arms, strict=True)
    ]
    odds = [
        bias * math.exp(min(max(slope, -_STEEPEST), _STEEPEST))
        for slope, bias in zip(slopes, biases or [1.0] * len(arms), strict=True)
    ]
    total = sum(odds)
    return [(1 - spread) * one / total + spread / len(arms) for one in odds]


def gain_bias(gains: Mapping[str, GainSum], name: str) -> float:
    """Return how much more than others an operator, or a mutation by its tag, gains; 1 is alike.

    What was seldom tried is believed to be like the others of its kind.
    """
    is_tag = ":" in name
    others = [gain for other, gain in gains.items() if (":" in other) is is_tag]
    mean = sum(gain.total for gain in others) / max(sum(gain.count for gain in others), 1)
    own = gains.get(name, GainSum())
    return ((own.total + _PRIOR_GAINS * mean) / (own.count + _PRIOR_GAINS) + _LEAST_GAIN) / (mean + _LEAST_GAIN)


def drought_spread(learning: SearchLearning) -> float:
    """Return the share of proposals drawn alike: it grows while the signal of improvement decays."""
    least = learning.config.exploration
    return least + max(_MOST_SPREAD - least, 0.0) * (1 - learning.signal)


def draft_share(learning: SearchLearning) -> float:
    """Return the share of proposals that starts again from the baseline."""
    config = learning.config
    return config.drafts if learning.dry < config.restart else max(config.drafts, _RESTART_DRAFTS)
