"""The judge on real timings: a loop by the clock, the best of five such loops, and the CPU of a new process."""

import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from judge_decision import Decision, Measure, Record, Rule, decide_by_pairs, decide_naively

Cells = Sequence[str]
MakeMeasure = Callable[[int], Measure]

_ROUNDS = 20_000
_ROUNDS_OF_A_PROCESS = 100_000
_BEST_OF = 5
# The machine changes within a minute, so a baseline serves no more decisions than this.
_DECISIONS_PER_BASELINE = 50
_PROGRAM = "import sys\nfor i in range(int(sys.argv[1])): i * i % 7"


def one_loop(rounds: int) -> Measure:
    def measure() -> float:
        started = time.perf_counter()
        for i in range(rounds):
            i * i % 7
        return started - time.perf_counter()

    return measure


def best_of_loops(rounds: int) -> Measure:
    measure = one_loop(rounds)
    return lambda: max(measure() for _ in range(_BEST_OF))


def new_process(rounds: int) -> Measure:
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(rounds)]

    def measure() -> float:
        child = os.posix_spawn(command[0], command, os.environ)
        _, status, used = os.wait4(child, 0)
        if status != 0:
            raise RuntimeError(f"the timed program ended with status {status}")
        return -(used.ru_utime + used.ru_stime)

    return measure


_TIMED_WORK: dict[str, tuple[MakeMeasure, int]] = {
    "one loop, by the clock": (one_loop, _ROUNDS),
    f"best of {_BEST_OF} loops, by the clock": (best_of_loops, _ROUNDS),
    "new process, CPU": (new_process, _ROUNDS_OF_A_PROCESS),
}


@dataclass(frozen=True, slots=True)
class Series:
    """Many decisions about the same change."""

    naive_decisions: Sequence[Decision]
    judge_decisions: Sequence[Decision]
    noise: float
    """Noise as a share of the time measured."""

    def cells(self) -> Cells:
        verdicts = [one.verdict for one in self.judge_decisions]
        return (
            str(len(verdicts)),
            f"{100 * self.noise:.1f} %",
            f"{100 * statistics.fmean(one.verdict == 'kept' for one in self.naive_decisions):.1f} %",
            *(f"{100 * verdicts.count(verdict) / len(verdicts):.1f} %" for verdict in _VERDICTS),
            f"{statistics.fmean(one.measurements for one in self.judge_decisions):.1f}",
        )


_VERDICTS = ("kept", "inconclusive", "discarded")


def real_timings(decisions: int, seed: int) -> Iterator[Cells]:
    yield ("what is timed", "change", "decisions", "noise", "naive keeps", *_VERDICTS, "measurements")
    rng = random.Random(seed)
    for name, (make_measure, rounds) in _TIMED_WORK.items():
        yield (name, "none (A/A)", *_series(make_measure(rounds), make_measure(rounds), decisions, rng).cells())
        for percent in (10, 30):
            slow = make_measure(rounds * (100 + percent) // 100)
            row = _series(make_measure(rounds), slow, decisions // 10, rng)
            yield (name, f"{percent} % slowdown removed", *row.cells())


def _series(candidate: Measure, incumbent: Measure, count: int, rng: random.Random) -> Series:
    rule = Rule()
    by_naive_rule: list[Decision] = []
    by_judge: list[Decision] = []
    noise: list[float] = []
    while len(by_judge) < count:
        record = Record.of([incumbent() for _ in range(rule.baseline_measurements)])
        noise.append(record.sigma / -record.score)
        for _ in range(min(_DECISIONS_PER_BASELINE, count - len(by_judge))):
            by_naive_rule.append(decide_naively(candidate, incumbent()))
            by_judge.append(decide_by_pairs(candidate, incumbent, record, rule, rng))
    return Series(by_naive_rule, by_judge, statistics.median(noise))
