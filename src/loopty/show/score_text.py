"""The scores and changes of one output: every line has the same digits and the same unit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from loopty.domain.objective import Statistic
from loopty.kit.records import Record
from loopty.show.comparisons import ScoreChange
from loopty.show.figures import figure, percent, plural, rough_figure, sign, without_minus_zero
from loopty.show.run_status import RunStatus

_DIGITS = 6
_MORE_DIGITS = 3
"""How many digits more may be shown to tell two scores apart that do not vary."""
_SMALLEST, _LARGEST = 1e-3, 1e12
"""Outside of these sizes, digits are counted from the first one that is not zero."""
_WHOLE = 1e6
"""From this size on, scores have no decimals."""


class ScoreText(Record):
    """How scores and changes are written: with as many digits as the noise allows."""

    decimals: int
    is_fixed: bool = True
    """Whether `decimals` counts digits after the point; else significant ones."""
    is_relative: bool = True
    """Whether changes are in percent; else in the metric's unit."""
    percent_decimals: int | None = None
    """Decimals of a percentage; None where results do not vary."""

    @classmethod
    def of(
        cls,
        scores: Iterable[float],
        changes: Iterable[ScoreChange | None] = (),
        noise: float = 0.0,
        others: Iterable[float] = (),
    ) -> ScoreText:
        """Make the text for these changes and these scores, which must be told apart; `noise` is of one score.

        `others` are scores in the same output that may look equal.
        """
        known = [change for change in changes if change]
        is_relative = all(change.percent is not None for change in known)
        shares = [change.percent / change.amount for change in known if change.percent and change.amount]
        percents = min(max(_last_digit(noise * abs(shares[0])), 0), 3) if noise and shares else None
        values = [value for value in scores if math.isfinite(value)]
        every = [*values, *(value for value in others if math.isfinite(value))]
        size = max(map(abs, values or every), default=0.0)
        if size and not _SMALLEST <= size < _LARGEST:
            shown = math.floor(math.log10(size)) + 1 + _last_digit(noise) if noise else _DIGITS
            return cls(min(max(shown, 2), _DIGITS), False, is_relative, percents)
        decimals = _decimals(values, every, size)
        if noise:
            decimals = min(max(_last_digit(noise), 0, _decimals_above_zero(values)), decimals)
        return cls(decimals, True, is_relative, percents)

    @classmethod
    def of_run(cls, status: RunStatus) -> ScoreText:
        """Make the text for the results of a run."""
        results = [result for result in (status.baseline, status.best, status.control) if result]
        changes = [result.over_baseline for result in results]
        return cls.of([result.score for result in results], changes, status.noise.sigma if status.noise else 0.0)

    def score(self, value: float) -> str:
        if not self.is_fixed:
            return figure(float(f"{value:.{self.decimals}g}"))
        return figure(value) if abs(value) >= _WHOLE else without_minus_zero(f"{value:.{self.decimals}f}")

    def change(self, change: ScoreChange) -> str:
        """Format the change for a column: `+24.3 %`, positive is better."""
        amount = self._amount(change)
        return f"{sign(change.amount)}{amount}" if _has_size(amount) else "same"

    def change_words(self, change: ScoreChange, than: str) -> str:
        """Say the change in words: `24.3 % better than the baseline`."""
        if change.by_clock is not None:
            return self._counted_words(change, change.by_clock, than)
        if not _has_size(amount := self._amount(change)):
            return f"no better than {than}"
        words = f"{amount} {'better' if change.amount > 0 else 'worse'} than {than}"
        if change.is_confirmed is False:
            return f"{words} (not confirmed)"
        return f"{words} ({self.interval(change)})" if change.is_confirmed else words

    def _counted_words(self, change: ScoreChange, clock: ScoreChange, than: str) -> str:
        """Say what was counted and what the clock says of it. Where they disagree, the clock is right."""
        counted = f"{self._amount(change)} {'fewer' if change.amount > 0 else 'more'} instructions than {than}"
        text = ScoreText.of((), [clock])
        speed = f"{text._amount(clock)} {'faster' if clock.amount > 0 else 'slower'}"
        timed = f"by the clock {speed} ({text.interval(clock)})"
        if change.is_refuted:
            return f'no better than {than}: {counted}, but {timed}; set measure = "clock" under [benchmark]'
        return f"{counted}; {timed}"

    def baseline_words(self, status: RunStatus) -> str:
        """Name the baseline with its score, for a sentence that has the best score, too."""
        if status.baseline is None:
            return "the baseline"
        score = self.score(status.baseline.score)
        if gains_side_by_side(status):
            return f"the baseline in runs side by side (its {score} is of other runs)"
        return f"the baseline ({score})"

    def interval(self, change: ScoreChange) -> str:
        """`95 % interval +1.6 % to +2.6 %, 10 fresh pairs`, and whether that is not significant."""
        assert change.low is not None
        assert change.high is not None
        is_relative = self.is_relative and change.percent is not None and change.amount
        share = change.percent / change.amount if is_relative and change.percent else None
        low, high = (
            rough_figure(end) if share is None else f"{sign(end)}{percent(share * end)} %"
            for end in (change.low, change.high)
        )
        doubt = "" if change.is_certain or change.amount <= 0 else "; not significant"
        where = "" if change.statistic is Statistic.MEDIAN else f" by their {change.statistic}"
        return f"95 % interval {low} to {high}, {plural(change.pairs, 'fresh pair')}{where}{doubt}"

    def _amount(self, change: ScoreChange) -> str:
        if self.is_relative and change.percent is not None:
            return f"{self._percent(change.percent)} %"
        return self.score(abs(change.amount))

    def _percent(self, share: float) -> str:
        if self.percent_decimals is None or abs(share) >= 1000:
            return percent(share)
        return f"{abs(share):.{self.percent_decimals}f}"


def _has_size(amount: str) -> bool:
    """Say whether anything but zeros is shown of the amount."""
    return any(digit in amount for digit in "123456789in")


def gains_side_by_side(status: RunStatus) -> bool:
    """Say whether the gain of the best node differs from what its score and the baseline's say."""
    best, baseline = status.best, status.baseline
    if best is None or baseline is None or best.over_baseline is None:
        return False
    # The scores are of different times, when the machine was more or less busy; the gain is of runs side by side.
    gain, apart = best.over_baseline.amount, status.direction.sign * (best.score - baseline.score)
    return gain * apart < 0 or abs(gain - apart) > max(abs(gain), abs(apart)) / 4


def _last_digit(noise: float) -> int:
    """Find the last decimal place with a meaning, counted from the point: about half the noise."""
    return -math.floor(math.log10(noise / 2)) if noise > 0 else 0


def _decimals_above_zero(values: Sequence[float]) -> int:
    """Say how many decimals give the smallest value two digits: noise grows with the score."""
    smallest = min((abs(value) for value in values if value), default=1.0)
    return 1 - math.floor(math.log10(smallest)) if smallest < 0.1 else 0


def _decimals(values: Sequence[float], every: Sequence[float], size: float) -> int:
    """Return decimals for six digits of the largest; fewer if all values are round, more to tell two apart."""
    most = max(_DIGITS - (math.floor(math.log10(size)) + 1 if size >= 1 else 1), 0)
    fewest = most
    while fewest and all(round(value, fewest - 1) == round(value, most) for value in every):
        fewest -= 1
    candidates = range(fewest, most + _MORE_DIGITS + 1)
    return max(candidates, key=lambda decimals: (_count_apart(values, decimals), -decimals))


def _count_apart(values: Sequence[float], decimals: int) -> int:
    """Count the values that differ in this many decimals; one that looks like zero and is none does not count."""
    texts = {f"{value:.{decimals}f}" for value in values if not value or round(value, decimals)}
    return len(texts)
