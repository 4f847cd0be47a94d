"""Proves that the score is about the code that candidates may change: slows it down, breaks it, leaves it alone.

The score has to get worse with a planted delay, faults have to be caught, and a comment must change nothing.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from loopty.domain.objective import Direction
from loopty.domain.trial import Ending, Outcome
from loopty.features.setup.edited_tree import EditedTree
from loopty.features.setup.planting import can_plant, commented, planted_files
from loopty.kit.records import Record, replace
from loopty.proposers.mutation import mutate
from loopty.proposers.mutation.languages import is_code
from loopty.session.by_hand import CheckResult


class Sensitivity(Record):
    """What planted changes did to the score."""

    metric: str
    usual: float
    still: float | None = None
    """The score with a comment more; None where no comment could be written."""
    times: int = 0
    """How many times as long again the functions took when the delay was seen, or at most; 0: none was planted."""
    slowed: float | None = None
    """The score with that delay; None if the run then took too long."""
    share: float | None = None
    """The share of what is measured that is spent in the code that candidates may change; None if not known."""
    faults: int = 0
    caught: int = 0
    """How many of the planted faults a gate or the benchmark refused."""
    moved: int = 0
    """How many others changed the score."""
    better: Direction | None = None
    """The direction, where the delay shows another one than the task has."""
    problem: str = ""
    """Why the task would measure something else; empty if nothing speaks against it."""
    unknown: str = ""
    """What could not be tried, and why."""


class CheckCost(Record):
    """How long a run takes, and its gates."""

    run_seconds: float
    gate_seconds: float


_FEWEST_RUNS = 3
_LEAST_CHANGE = 0.05
"""Relative: what is smaller is not told apart from noise by one run."""
_UNKNOWN_NOISE = 0.25
"""The same where too few runs were made to know the noise."""
_DELAYS = (1, 10)
_PLAIN = math.log(1.5)
"""A change that the smaller delay makes, and a busy machine hardly does: then the larger one is not needed."""
_LEAST_SHARE = 0.1
"""Where the editable code is less, most of a night goes into something else."""
_MOST_REPAIRS = 3
_MOST_FAULTS = 6
_ENOUGH_CAUGHT = 2
_GROSS_EDITS = 20
_MOST_FILES = 2000


class SensitivityProof:
    """Plants changes into the editable files and runs the benchmark on them, as long as there is time."""

    def __init__(
        self,
        tree: EditedTree,
        usual: Sequence[float],
        metric: str,
        label: str,
        direction: Direction,
        is_speed: bool,
        cost: CheckCost,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`usual` are scores of the files as they are: times or rates if `is_speed`; people call them `label`."""
        self._tree = tree
        self._metric = metric
        self._label = label
        self._direction = direction
        self._is_speed = is_speed
        self._usual = statistics.median(usual)
        span = (max(usual) - min(usual)) / abs(self._usual) if self._usual else 0.0
        self._tolerance = max(span, _LEAST_CHANGE if len(usual) >= _FEWEST_RUNS else _UNKNOWN_NOISE)
        self._cost = cost
        self._now = now
        self._ends_at = now() + seconds
        paths = tree.writable[:_MOST_FILES]
        names = [path for path in paths if is_code(path)] or paths
        texts = {path: tree.text(path) for path in names}
        self._texts = {path: text for path, text in texts.items() if text}

    def prove(self) -> Sensitivity:
        """Plant a delay, a comment and faults, and say what is wrong with the task, if something is."""
        found = self._with_delay(Sensitivity(self._label, self._usual))
        if not found.problem:
            found = self._with_comment(found)
        return found if found.problem else self._with_faults(found)

    def prove_delay(self) -> Sensitivity:
        """Plant a delay alone, and say whether the score shows it."""
        return self._with_delay(Sensitivity(self._label, self._usual))

    def _with_delay(self, found: Sensitivity) -> Sensitivity:
        texts = {path: text for path, text in self._texts.items() if can_plant(path)}
        if not texts:
            suffixes = sorted({PurePosixPath(path).suffix for path in self._texts} - {""})
            languages = ", ".join(suffixes) or "these files"
            return replace(found, unknown=f"a delay cannot be planted in {languages}")
        for times in _DELAYS:
            if not self._has_time(times + 1):
                return replace(found, unknown="there was no time left to plant a delay")
            result = self._run_planted(texts, times)
            if result is None:
                return replace(found, unknown="with a delay planted, the code does not build or fails its checks")
            if result.outcome.ending is Ending.CANCELLED:
                return replace(found, unknown="it was stopped")
            if result.outcome.ending is Ending.TIMED_OUT:
                return replace(found, times=times)  # it takes many times as long: that is sensitive
            slowed = self._score(result.outcome)
            if slowed is None:
                return replace(found, unknown="with a delay planted, the benchmark reports no score")
            found = replace(found, times=times, slowed=slowed, share=self._share(slowed, times))
            is_plain = abs(math.log(slowed / self._usual)) > _PLAIN if slowed > 0 and self._usual > 0 else False
            if self._is_moved(slowed) and (is_plain or times == _DELAYS[-1]):
                return self._judged(found, slowed)
        if self._is_speed:
            most = 100 * self._tolerance / _DELAYS[-1]
            return replace(
                found,
                share=0.0,
                problem=f"with the code that candidates may change {_DELAYS[-1] + 1} times as slow, "
                f"{self._label} stayed the same: this code is less than {most:.2g} % of what is measured",
            )
        return replace(found, share=None)  # a quality, which no delay changes: faults tell

    def _judged(self, found: Sensitivity, slowed: float) -> Sensitivity:
        """Judge a delay that was seen: by its direction, and by the share that it shows."""
        is_worse = self._direction.sign * (slowed - self._usual) < 0
        if not is_worse:
            opposite = Direction.MIN if self._direction is Direction.MAX else Direction.MAX
            self._direction = opposite
            found = replace(found, better=opposite, share=self._share(slowed, found.times))
        share = found.share
        if share is not None and share < _LEAST_SHARE:
            rest = 100 * (1 - share)
            return replace(
                found,
                problem=f"the code that candidates may change is about {100 * share:.2g} % of what is measured: "
                f"{rest:.3g} % is something else",
            )
        return found

    def _share(self, slowed: float, times: int) -> float | None:
        """Compute the share of what is measured that became slower: of a time it is added, a rate is divided."""
        if self._usual <= 0 or slowed <= 0:
            return None
        is_time = self._direction is Direction.MIN
        grown = slowed / self._usual if is_time else self._usual / slowed
        return round(min(max((grown - 1) / times, 0.0), 1.0), 3)

    def _with_comment(self, found: Sensitivity) -> Sensitivity:
        edits = {path: commented(path, text) for path, text in self._texts.items()}
        edits = {path: text for path, text in edits.items() if text != self._texts[path]}
        if not edits or not self._has_time(1):
            return found
        still = self._score(self._tree.run(edits).outcome)
        if still is not None and self._is_speed and self._is_moved(still) and self._has_time(2):
            # Once more, beside the files as they are: the machine may have changed, not the code.
            usual, again = (self._score(self._tree.run(one).outcome) for one in ({}, edits))
            if usual and again and self._is_moved(again, usual):
                change = 100 * abs(again / usual - 1)
                why = f"a comment alone changed {self._label} by {change:.2g} %, so it measures something else"
                return replace(found, still=again, problem=why)
            still = again
        return replace(found, still=still)

    def _with_faults(self, found: Sensitivity) -> Sensitivity:
        """Plant one fault after another, until enough are caught; then all at once, if none was."""
        faults = caught = moved = 0
        for edits in self._single_faults():
            if faults == _MOST_FAULTS or caught == _ENOUGH_CAUGHT or not self._has_time(1, gates=True):
                break
            faults += 1
            outcome = self._tree.run(edits, self._tree.gates).outcome
            if outcome.ending is Ending.CANCELLED:
                return replace(found, unknown="it was stopped")
            caught += not outcome.is_finished
            score = self._score(outcome)
            moved += score is not None and self._is_moved(score)
        found = replace(found, faults=faults, caught=caught, moved=moved)
        if not faults:
            return found
        if caught or (moved and not self._is_speed):
            return found
        if not self._has_time(1, gates=True):
            return replace(found, unknown="there was no time left to plant more faults")
        if not self._tree.run(self._gross_fault(), self._tree.gates).outcome.is_finished:
            return found  # what is far off is seen
        why = f"none of {faults} planted faults was noticed, nor many at once"
        if self._is_speed or found.share:
            return replace(found, problem=f"{why}: no gate tells a wrong result from a right one")
        return replace(found, problem=f"{why}, and a delay changed nothing: the score is not about this code")

    def _single_faults(self) -> Iterator[Mapping[str, str]]:
        rng = random.Random(0)
        paths = list(self._texts)
        weights = [len(self._texts[path]) for path in paths]
        for _ in range(4 * _MOST_FAULTS if paths else 0):
            (path,) = rng.choices(paths, weights)
            if text := _with_fault(path, self._texts[path], rng):
                yield {path: text}

    def _gross_fault(self) -> dict[str, str]:
        rng, edits = random.Random(1), dict[str, str]()
        for path, text in self._texts.items():
            changed = text
            for _ in range(_GROSS_EDITS):
                changed = _with_fault(path, changed, rng) or changed
            edits[path] = changed
        return edits

    def _run_planted(self, texts: Mapping[str, str], times: int) -> CheckResult | None:
        """Run with the delay planted, without the files that a failing build names; None if it cannot run."""
        left = dict(texts)
        for _ in range(_MOST_REPAIRS):
            result = self._tree.run(planted_files(left, times))
            if result.problem is None or result.outcome.ending in (Ending.TIMED_OUT, Ending.CANCELLED):
                return result
            said = "\n".join((*result.outcome.error_lines, result.problem))
            broken = [path for path in left if path in said or PurePosixPath(path).name in said]
            if not broken or not self._has_time(times + 1):
                return None
            for path in broken:
                del left[path]
        return None

    def _score(self, outcome: Outcome) -> float | None:
        return outcome.metrics.get(self._metric) if outcome.is_finished else None

    def _is_moved(self, score: float, usual: float | None = None) -> bool:
        usual = self._usual if usual is None else usual
        if score > 0 and usual > 0:
            return abs(math.log(score / usual)) > math.log1p(self._tolerance)  # a rate halves where a time doubles
        return abs(score - usual) > self._tolerance * abs(usual)

    def _has_time(self, times: float, gates: bool = False) -> bool:
        """Say whether a run that takes so many times as long as the usual one still fits."""
        needed = times * self._cost.run_seconds + gates * self._cost.gate_seconds
        return self._ends_at - self._now() > needed


def _with_fault(path: str, text: str, rng: random.Random) -> str:
    """Change an operator, a number or a statement; empty if nothing can be changed."""
    try:
        mutation = mutate(text, path, rng, lambda kind: 4.0 if kind == "operator" else 1.0)
    except ValueError:
        return ""
    return mutation.text if mutation else ""
