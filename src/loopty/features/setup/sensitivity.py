"""Proves that the score is about the code that candidates may change: slows it down, breaks it, leaves it alone.

The score has to get worse with a planted delay, faults have to be caught, and a comment must change nothing.
"""

from __future__ import annotations

import math
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePosixPath

from loopty.domain.objective import Direction
from loopty.domain.trial import Ending, Outcome
from loopty.features.setup.edited_tree import EditedTree
from loopty.features.setup.planting import add_comment, can_plant, left_out_share, plant_delay
from loopty.kit.records import Record, replace
from loopty.proposers.mutation import mutate
from loopty.proposers.mutation.languages import is_code
from loopty.session.by_hand import CheckResult


class FaultEnd(StrEnum):
    """What became of a planted fault."""

    CAUGHT = "caught"
    """A gate or the benchmark refused it."""
    CRASHED = "crashed"
    """The program broke down by itself: that says nothing about the checks."""
    MOVED = "changed the score"
    UNSEEN = "not noticed"


class Fault(Record):
    """A fault that was planted."""

    what: str
    end: FaultEnd


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
    highest_share: float | None = None
    """The most that this share can be, with the noise of the score."""
    faults: tuple[Fault, ...] = ()
    better: Direction | None = None
    """The direction, where the delay shows another one than the task has."""
    problem: str = ""
    """Why the task would measure something else; empty if nothing speaks against it."""
    unknown: str = ""
    """What could not be tried, and why."""

    def count(self, end: FaultEnd) -> int:
        """Count the faults that ended so."""
        return sum(fault.end is end for fault in self.faults)


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
_MOST_FAULTS = 8
_ENOUGH_CAUGHT = 2
_TIMES_COMPARED = 3
_MOST_LEFT_OUT = 0.5
_MOST_FILES = 2000
_ASSERTS = re.compile(r"assert|\bFAIL|\bfailed\b|expected", re.IGNORECASE)
"""What a check says; a program that breaks down says where."""


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
        self._usual, self._lowest, self._highest = statistics.median(usual), min(usual), max(usual)
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
        if not plant_delay(texts, _DELAYS[0]):
            return replace(found, unknown="there is no function in which a delay could be planted")
        for times in _DELAYS:
            if not self._has_time(times + 1):
                return replace(found, unknown="there was no time left to plant a delay")
            result = self._run_planted(texts, times)
            if result is None:
                return replace(found, unknown="with a delay planted, the code does not build or fails its checks")
            if result.outcome.ending is Ending.TIMED_OUT:
                return replace(found, times=times)  # it takes many times as long: that is sensitive
            slowed = self._score(result.outcome)
            if slowed is None:
                return replace(found, unknown="with a delay planted, the benchmark reports no score")
            found = self._with_share(found, slowed, times)
            is_plain = abs(math.log(slowed / self._usual)) > _PLAIN if slowed > 0 and self._usual > 0 else False
            if self._is_moved(slowed) and (is_plain or times == _DELAYS[-1]):
                return self._judged(found, slowed)
        if self._is_speed and left_out_share(texts) > _MOST_LEFT_OUT:
            return replace(found, share=None, unknown="most of the code is in functions that cannot be lengthened")
        if self._is_speed:
            most = 100 * self._tolerance / _DELAYS[-1]
            return replace(
                found,
                share=0.0,
                problem=f"with the code that candidates may change {_DELAYS[-1] + 1} times as slow, "
                f"{self._label} stayed the same: this code is less than {most:.2g} % of what is measured",
            )
        # A quality, which no delay changes: faults tell.
        return replace(found, share=None, highest_share=None)

    def _judged(self, found: Sensitivity, slowed: float) -> Sensitivity:
        """Judge a delay that was seen: by its direction, and by the share that it shows."""
        self._is_speed = True
        is_worse = self._direction.sign * (slowed - self._usual) < 0
        if not is_worse:
            self._direction = Direction.MIN if self._direction is Direction.MAX else Direction.MAX
            found = self._with_share(replace(found, better=self._direction), slowed, found.times)
        if found.highest_share is not None and found.highest_share < _LEAST_SHARE:
            rest = 100 * (1 - found.highest_share)
            return replace(
                found,
                problem=f"the code that candidates may change is at most {100 * found.highest_share:.2g} % of "
                f"what is measured: {rest:.3g} % is something else",
            )
        return found

    def _with_share(self, found: Sensitivity, slowed: float, times: int) -> Sensitivity:
        """Add the share of what is measured that became slower: of a time it is added, a rate is divided."""
        found = replace(found, times=times, slowed=slowed)
        if min(self._lowest, slowed) <= 0:
            return found
        is_time = self._direction is Direction.MIN
        shares = [
            min(max(((slowed / usual if is_time else usual / slowed) - 1) / times, 0.0), 1.0)
            for usual in (self._usual, self._lowest, self._highest)
        ]
        return replace(found, share=round(shares[0], 3), highest_share=round(max(shares), 3))

    def _with_comment(self, found: Sensitivity) -> Sensitivity:
        edits = {path: add_comment(path, text) for path, text in self._texts.items()}
        edits = {path: text for path, text in edits.items() if text != self._texts[path]}
        if not edits or not self._has_time(1):
            return found
        still = self._score(self._tree.run(edits).outcome)
        if still is None or not (self._is_speed and self._is_moved(still)):
            return replace(found, still=still)
        changes = [still / self._usual if self._usual else 1.0]
        while len(changes) < _TIMES_COMPARED and self._has_time(2):
            # Beside the files as they are: the machine may have changed, not the code.
            usual, still = (self._score(self._tree.run(one).outcome) for one in ({}, edits))
            if not (usual and still and self._is_moved(still, usual) and (still > usual) == (changes[0] > 1)):
                return replace(found, still=self._usual)
            changes.append(still / usual)
        change = 100 * abs(statistics.median(changes) - 1)
        why = f"a comment alone changed {self._label} by {change:.2g} %, so it measures something else"
        return replace(found, problem=why)

    def _with_faults(self, found: Sensitivity) -> Sensitivity:
        """Plant one fault after another, until checks have caught enough of them."""
        for what, edits in self._single_faults():
            enough = len(found.faults) == _MOST_FAULTS or found.count(FaultEnd.CAUGHT) == _ENOUGH_CAUGHT
            if enough or not self._has_time(1, gates=True):
                break
            outcome = self._tree.run(edits, self._tree.gates).outcome
            found = replace(found, faults=(*found.faults, Fault(what, self._end_of(outcome, [*edits]))))
        tried, crashed = len(found.faults), found.count(FaultEnd.CRASHED)
        is_moved = found.count(FaultEnd.MOVED) and not self._is_speed
        if not tried or found.count(FaultEnd.CAUGHT) or is_moved:
            return found
        words = f"{tried} planted faults" + (f", of which {crashed} crashed" if crashed else "")
        if not (self._is_speed or crashed):
            why = f"none of {words} was noticed, and a delay changed nothing: the score is not about this code"
            return replace(found, problem=why)
        if self._tree.gates:
            return replace(
                found, unknown=f"none of {words} was noticed by a check: the gates may not reach this code"
            )
        return replace(found, problem=f"no check noticed any of {words}: name a gate that compares results")

    def _end_of(self, outcome: Outcome, paths: Sequence[str]) -> FaultEnd:
        if outcome.is_finished:
            score = self._score(outcome)
            return FaultEnd.MOVED if score is not None and self._is_moved(score) else FaultEnd.UNSEEN
        said = "\n".join((*outcome.error_lines, outcome.reason))
        is_crash = any(PurePosixPath(path).name in said for path in paths) and not _ASSERTS.search(said)
        return FaultEnd.CRASHED if is_crash else FaultEnd.CAUGHT

    def _single_faults(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Draw faults: an operator, a number or a statement is changed."""
        rng = random.Random(0)
        paths = list(self._texts)
        weights = [len(self._texts[path]) for path in paths]
        for _ in range(4 * _MOST_FAULTS if paths else 0):
            (path,) = rng.choices(paths, weights)
            try:
                mutation = mutate(self._texts[path], path, rng, lambda kind: 4.0 if kind == "operator" else 1.0)
            except ValueError:
                continue  # markers that are not paired
            if mutation:
                yield f"{path}, {mutation.summary}", {path: mutation.text}

    def _run_planted(self, texts: Mapping[str, str], times: int) -> CheckResult | None:
        """Run with the delay planted, without the files that a failing build names; None if it cannot run."""
        left = dict(texts)
        for _ in range(_MOST_REPAIRS):
            result = self._tree.run(plant_delay(left, times))
            if result.problem is None or result.outcome.ending is Ending.TIMED_OUT:
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
