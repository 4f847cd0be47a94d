"""What arms cost: an arm is an operator with a model. The record keeps sums, so the work does not grow."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

from loopty.domain.model import ModelOption
from loopty.kit.records import Record
from loopty.proposers.code.code_options import Operator
from loopty.record.operator_credit import ArmCredit, OperatorCredit


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
        """The mean cost of a proposal with its trials; the guess before the first counts as one proposal."""
        known = self.credit.arm(*arm.key)
        guess = (self.call_price(arm.model) if arm.model else 0.0) + self._trial_price
        calls = self._amount(known) / self._unit if self._unit else known.calls
        return max((guess + calls + known.trials * self._trial_price) / (1 + known.asked), 1e-9)

    def call_price(self, model: str) -> float:
        """The mean price of a call of this model: as measured, else as listed."""
        if model in self._measured and self._unit:
            return self._measured[model] / self._unit
        return self._listed.get(model, 1.0)

    @functools.cached_property
    def _measured(self) -> Mapping[str, float]:
        """The mean cost of a call by model, in money where calls cost money, else in tokens."""
        sums: dict[str, tuple[float, float]] = {}
        for name, arm in self.credit.arms.items():
            if arm.calls:
                model = name.partition("|")[2]
                amount, calls = sums.get(model, (0.0, 0.0))
                sums[model] = amount + self._amount(arm), calls + arm.calls
        return {model: amount / calls for model, (amount, calls) in sums.items()}

    @functools.cached_property
    def _unit(self) -> float:
        """The mean cost of a call of the cheapest model that costs anything; 0 before the first."""
        return _smallest_positive(self._measured.values())

    def _amount(self, arm: ArmCredit) -> float:
        return arm.money_usd if self._is_priced else arm.tokens


def _smallest_positive(amounts: Iterable[float]) -> float:
    return min((amount for amount in amounts if amount > 0), default=0.0)
