"""What a night finds: without a gain, with small and large ones, with noise that changes, on a busy machine.

python benchmarks/judge_worlds.py [--nights N] [--measurements M]
"""

import argparse
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from judge_machines import Machine, busy, steady
from judge_nights import Effects, JudgedNight, Night, World, no_effect, rare_effect

from loopty.domain.objective import Direction
from loopty.domain.task import Noise

_SIGMA = 0.01
_SEED = 7000


@dataclass(frozen=True)
class Setting:
    """A world, and how much a first result must gain to be measured again."""

    effects: Effects
    noisy_start: tuple[int, float] = (0, 1.0)
    machine: Machine = steady
    first_gain: float = 0.0
    """Before the night counts, one candidate gains this much; then the scores are times."""


WORLDS = {
    "null": Setting(no_effect),
    "1 σ": Setting(rare_effect(_SIGMA)),
    "3 σ": Setting(rare_effect(3 * _SIGMA)),
    "noisy start": Setting(rare_effect(3 * _SIGMA), noisy_start=(6, 10.0)),
    "busy, null": Setting(no_effect, machine=busy),
    "busy, 3 σ": Setting(rare_effect(3 * _SIGMA), machine=busy),
    "noise shrinks": Setting(rare_effect(3 * _SIGMA), first_gain=2.0),
}


def night(world: str, first_look: float, most: int, seed: int) -> Night:
    """A night of this many measurements: a search, what is undecided once more, and the confirmation."""
    setting, noise = WORLDS[world], Noise(first_look=first_look)
    direction = Direction.MIN if setting.first_gain else Direction.MAX
    rng = random.Random(seed)
    machine = World(setting.machine(random.Random(seed)), _SIGMA, seed, setting.noisy_start)
    judged = JudgedNight(machine, setting.effects, noise, rng, direction)
    if setting.first_gain:
        judged.try_candidate(setting.first_gain)
        judged.night = Night()
    start = judged.levels[judged.best]
    most -= 2 * noise.confirm
    while machine.measurements < 0.9 * most:
        judged.try_candidate()
    judged.ask_again(most)
    found = judged.levels[judged.best]
    judged.confirm()
    result = judged.finish()
    result.found = abs(math.log(found / start))
    return result


def rows(nights: int, most: int) -> Iterator[Sequence[str]]:
    """One row for each world and first look."""
    yield (
        "world", "first look", "better ones kept", "of the gain", "nights that kept nothing", "false keeps",
        "intervals that hold",
    )  # fmt: skip
    with ProcessPoolExecutor(2) as workers:
        for world in WORLDS:
            for first_look in (0.0, 1.0):
                run = partial(night, world, first_look, most)
                yield _row(world, first_look, list(workers.map(run, range(_SEED, _SEED + nights))))


def _row(world: str, first_look: float, nights: Sequence[Night]) -> Sequence[str]:
    better, available = (sum(one.better for one in nights), math.fsum(one.available for one in nights))
    stated = [one.claim_low <= one.gain <= one.claim_high for one in nights if not math.isnan(one.claim_low)]
    return (
        world,
        f"{first_look:g}",
        _percent(sum(one.true_keeps for one in nights) / better) if better else "–",
        _percent(math.fsum(one.found for one in nights) / available) if available else "–",
        f"{sum(not (one.true_keeps + one.false_keeps) for one in nights)} of {len(nights)}",
        f"{_percent(sum(one.false_keeps for one in nights) / sum(one.null for one in nights), 2)}",
        f"{_percent(statistics.fmean(stated))} of {len(stated)}" if stated else "–",
    )


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description="What a night finds in several worlds.")
    parser.add_argument("--nights", type=int, default=40, metavar="N")
    parser.add_argument("--measurements", type=int, default=300, metavar="M")
    options = parser.parse_args()
    for number, cells in enumerate(rows(options.nights, options.measurements)):
        print(f"| {' | '.join(cells)} |", flush=True)
        if number == 0:
            print("|---" * len(cells) + "|")


if __name__ == "__main__":
    main()
