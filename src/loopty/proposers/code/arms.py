"""Which operator and which model make the next change: an arm, drawn by gain for its price, or by fixed weights.

The price of an arm is the largest share of any limit of this run that one proposal of it uses up: of the attempts,
the tokens, the money or the time that are left. So what is scarcest in this run decides what is dear.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from loopty.domain.model import ModelOption, Role
from loopty.domain.task import Pools
from loopty.domain.trial import Pool
from loopty.engine.protocols import Ask
from loopty.kit.records import Record, replace
from loopty.proposers.code.options import CodeOptions, Operator
from loopty.record.calls import Spend
from loopty.record.nodes import Proposals
from loopty.record.run_record import Run
from loopty.record.search_learning import OperatorCredit
from loopty.record.sessions import pools_in_force
from loopty.record.trials import TrialCounts

PRIOR = (1.0, 3.0)
"""One node that became the best and three that were worth nothing: what is believed of an arm before its first."""


WITHOUT_MODEL = (Operator.MUTATE, Operator.MERGE)
"""Operators that are one arm, because they ask no model, or only where git finds conflicts."""


class ArmChoice(Record):
    """The arm that was drawn, and why."""

    arm: Arm
    reason: str


def choose_arm(
    ask: Ask,
    options: CodeOptions,
    operators: Sequence[Operator],
    models: Sequence[ModelOption],
    wish: str = "",
    pools: Pools | None = None,
) -> ArmChoice:
    """Choose the arm of the next proposal, of the operators that apply. `wish`: what the selector asks for."""
    run = ask.history.runs[ask.run]
    prices = ArmPrices(OperatorCredit.of(run, ask.pool), models, amounts_left(ask, pools or Pools()))
    cheapest = min((model.name for model in models), key=prices.call_price, default="")
    if wish:
        return ArmChoice(Arm(Operator(wish), cheapest), "as the selection of the parent asks")
    drafts = Proposals.of(run, ask.pool).answers.get(Operator.DRAFT, 0)
    drafts += _in_flight(ask).get((Operator.DRAFT, ""), 0)
    if Operator.DRAFT in options.operators and drafts < options.drafts:
        return ArmChoice(Arm(Operator.DRAFT, cheapest), f"draft {drafts + 1} of {options.drafts} at the start")
    if options.weights:
        return _by_weights(ask.rng, options, operators, models)
    return _by_credit(ask, options, _arms(operators, models), models, prices)


def dearest(ask: Ask, choice: ArmChoice, models: Sequence[ModelOption]) -> ArmChoice:
    """Return the choice with the model whose calls cost most, where there are several."""
    prices = ArmPrices(OperatorCredit.of(ask.history.runs[ask.run], ask.pool), models, {})
    model = max((model.name for model in models), key=prices.call_price)
    if model == choice.arm.model:
        return choice
    return ArmChoice(replace(choice.arm, model=model), f"progress has stopped: the dearest model, {model}")


def _arms(operators: Sequence[Operator], models: Sequence[ModelOption]) -> list[Arm]:
    return [
        Arm(operator, name)
        for operator in dict.fromkeys(operators)
        for name in ([""] if operator in WITHOUT_MODEL else [model.name for model in models])
    ]


def _by_credit(
    ask: Ask, options: CodeOptions, arms: Sequence[Arm], models: Sequence[ModelOption], prices: ArmPrices
) -> ArmChoice:
    """Follow Thompson's rule: draw what each arm may gain, and take the largest gain for its price."""
    rng = ask.rng
    if rng.random() < options.exploration:
        operator = rng.choice(list(dict.fromkeys(arm.operator for arm in arms)))
        arm = _with_model(rng, operator, models)
        why = f"explored: drawn by weight, in {100 * options.exploration:.0f} % of proposals"
        return ArmChoice(arm, f"{why}; {_standing(prices, arm)}")
    in_flight = _in_flight(ask)

    def worth(arm: Arm) -> float:
        known = prices.credit.arm(*arm.key)
        asked = known.asked + in_flight.get(arm.key, 0)
        success, failure = PRIOR
        return rng.betavariate(success + known.reward, failure + max(asked - known.reward, 0.0))

    cheapest = min(map(prices.price, arms))
    drawn = {arm: worth(arm) * cheapest / prices.price(arm) for arm in arms}
    arm = max(arms, key=drawn.__getitem__)
    return ArmChoice(arm, f"credit: drew {drawn[arm]:.3f}, the most of {len(arms)}; {_standing(prices, arm)}")


def _by_weights(
    rng: random.Random, options: CodeOptions, operators: Sequence[Operator], models: Sequence[ModelOption]
) -> ArmChoice:
    weights = [options.weights.get(operator, 0.0) for operator in operators]
    operator = rng.choices(operators, weights)[0] if any(weights) else operators[0]
    share = 100 * options.weights.get(operator, 0.0) / (sum(weights) or 1.0)
    return ArmChoice(_with_model(rng, operator, models), f"fixed weights: {operator} with {share:.0f} %")


def _with_model(rng: random.Random, operator: Operator, models: Sequence[ModelOption]) -> Arm:
    """Draw the model of an operator by the weights of the models."""
    if operator in WITHOUT_MODEL:
        return Arm(operator)
    weights = [model.weight for model in models]
    return Arm(operator, rng.choices(models, weights if any(weights) else None)[0].name)


def _in_flight(ask: Ask) -> Mapping[tuple[str, str], int]:
    """Count this pool's calls without an answer, by operator and model, and by operator and an empty model."""
    counts: dict[tuple[str, str], int] = {}
    for call in Spend.of(ask.history.runs[ask.run]).reservations.values():
        if call.pool is ask.pool:
            for key in {(call.operator, call.model), (call.operator, "")}:
                counts[key] = counts.get(key, 0) + 1
    return counts


def _standing(prices: ArmPrices, arm: Arm) -> str:
    known, price = prices.credit.arm(*arm.key), prices.price(arm)
    return (
        f"{arm.text} earned {known.reward:.2f} in {known.asked}, each {100 * price:.2g} % of the "
        f"{prices.scarcest(arm)} left"
    )


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
    """What a proposal of each arm costs: the largest share of a limit that it uses up."""

    def __init__(self, credit: OperatorCredit, models: Sequence[ModelOption], left: Mapping[str, float]) -> None:
        """`left` is what is left of each limit, by `ATTEMPTS` or the field of ArmCredit that counts its use."""
        self.credit = credit
        self._listed = {model.name: model.price for model in models}
        self._left = left
        self._prices: dict[Arm, tuple[float, str]] = {}

    def price(self, arm: Arm) -> float:
        """Return the share of the scarcest limit that a proposal uses; a guess counts as the first."""
        return self._price(arm)[0]

    def scarcest(self, arm: Arm) -> str:
        """Name the limit that a proposal of this arm uses most of."""
        return _NAMES[self._price(arm)[1]]

    def _price(self, arm: Arm) -> tuple[float, str]:
        if arm not in self._prices:
            shares = ((self._use(arm, name) / max(left, 1e-9), name) for name, left in self._left.items())
            self._prices[arm] = max(shares, default=(1.0, ATTEMPTS))
        return max(self._prices[arm][0], 1e-9), self._prices[arm][1]

    def _use(self, arm: Arm, name: str) -> float:
        """Return how much of this a proposal of the arm uses, refused ones included."""
        if name == ATTEMPTS:
            return 1.0
        known, guess = self.credit.arm(*arm.key), 0.0
        if name == "seconds":
            arms = self.credit.arms.values()
            guess = sum(one.seconds for one in arms) / max(sum(one.asked for one in arms), 1)
        elif arm.model:
            guess = self.call_price(arm.model) * self._unit(name)
        return float(guess + getattr(known, name)) / (1 + known.asked)

    def call_price(self, model: str) -> float:
        """Return the mean price of a call of this model: as measured, else as listed."""
        name = "money_usd" if any(arm.money_usd for arm in self.credit.arms.values()) else "tokens"
        measured, unit = self._measured(name), self._unit(name)
        return measured[model] / unit if model in measured and unit else self._listed.get(model, 1.0)

    def _unit(self, name: str) -> float:
        """Return the mean cost of a call of the cheapest model that costs anything; 0 before the first."""
        return min((amount for amount in self._measured(name).values() if amount > 0), default=0.0)

    def _measured(self, name: str) -> Mapping[str, float]:
        """Return the mean cost of a call by model."""
        sums: dict[str, tuple[float, float]] = {}
        for key, arm in self.credit.arms.items():
            if arm.calls:
                model = key.partition("|")[2]
                amount, calls = sums.get(model, (0.0, 0.0))
                sums[model] = amount + getattr(arm, name), calls + arm.calls
        return {model: amount / calls for model, (amount, calls) in sums.items()}


ATTEMPTS = "attempts"
_NAMES = {ATTEMPTS: "attempts", "tokens": "tokens", "money_usd": "money", "seconds": "time"}


def amounts_left(ask: Ask, pools: Pools) -> dict[str, float]:
    """Return what is left of each limit of the run. A resumed session repeats it: it follows from the record."""
    run = ask.history.runs[ask.run]
    pools = pools_in_force(run, pools)
    used = {
        ATTEMPTS: (pools.limit(ask.pool), TrialCounts.of(run, ask.pool).started),
        "seconds": (pools.wall_seconds, _seconds_used(run, ask.pool)),
    }
    left = {name: max(limit - amount, 0.0) for name, (limit, amount) in used.items() if limit is not None}
    return {**left, **(ask.purse.left(Role.EVOLVER) if ask.purse else {})}


def _seconds_used(run: Run, pool: Pool) -> float:
    """Sum the seconds of the pool's calls and trials: more than passed where they overlapped."""
    return sum(arm.seconds for arm in OperatorCredit.of(run, pool).arms.values())
