"""What a night finds: without a gain, with small and large ones, with noise that changes, on a busy machine.

python benchmarks/judge_worlds.py [--nights N] [--measurements M] [--world NAME]
"""

import argparse
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from judge_machines import MACHINES, Machine, alternating, busy, steady
from judge_nights import (
    Effects,
    JudgedNight,
    Night,
    Rule,
    World,
    mixed_effects,
    no_effect,
    rare_effect,
    simple_night,
)
from judge_noise import Noise as Errors
from judge_noise import gaussian, lognormal, student_t

from loopty.domain.objective import Direction
from loopty.domain.task import Noise

_SIGMA = 0.01
_SEED = 7000


@dataclass(frozen=True)
class Setting:
    """A world: what candidates gain, the machine, and the noise."""

    effects: Effects
    noisy_start: tuple[int, float] = (0, 1.0)
    machine: Machine = steady
    first_gain: float = 0.0
    """Before the night counts, one candidate gains this much; then the scores are times."""
    sigma: float = _SIGMA
    errors: Callable[[random.Random], Iterator[float]] = gaussian
    tossers: float = 0.0
    """The share of candidates that toss a coin: five times the noise better, or worse."""

    def world(self, seed: int) -> World:
        world = World(self.machine(random.Random(seed)), self.sigma, seed, self.noisy_start)
        world.errors, world.tossers = self.errors, self.tossers
        return world


def _with(errors: Errors) -> Setting:
    return Setting(no_effect, errors=errors)


WORLDS = {
    "null": Setting(no_effect),
    "null, heavy tails": _with(student_t),
    "null, one-sided tails": _with(lognormal),
    "null, alternating hosts": Setting(no_effect, machine=alternating),
    "null, 5 % toss coins": Setting(no_effect, tossers=0.05),
    "null, 30 % toss coins": Setting(no_effect, tossers=0.3),
    "null, busy": Setting(no_effect, machine=busy),
    "1 σ": Setting(rare_effect(_SIGMA)),
    "3 σ": Setting(rare_effect(3 * _SIGMA)),
    "5 σ": Setting(rare_effect(5 * _SIGMA)),
    "mixed, σ 0.3 %": Setting(mixed_effects, sigma=0.003),
    "mixed, σ 1 %": Setting(mixed_effects),
    "3 σ, one-sided tails": Setting(rare_effect(3 * _SIGMA), errors=lognormal),
    "3 σ, alternating hosts": Setting(rare_effect(3 * _SIGMA), machine=alternating),
    "3 σ, busy": Setting(rare_effect(3 * _SIGMA), machine=busy),
    "noisy start": Setting(rare_effect(3 * _SIGMA), noisy_start=(6, 10.0)),
    "noise shrinks": Setting(rare_effect(3 * _SIGMA), first_gain=2.0),
    **{f"mixed, {name}": Setting(mixed_effects, machine=machine) for name, machine in MACHINES.items()},
}


def night(world: str, mode: str, most: int, seed: int) -> Night:
    """A night of this many measurements: a search, what is undecided once more, and the confirmation."""
    setting, noise = WORLDS[world], Noise(mode=mode)
    direction = Direction.MIN if setting.first_gain else Direction.MAX
    rng = random.Random(seed)
    machine = setting.world(seed)
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
    result.found = math.log(found / start) * direction.sign
    return result


def night_without_judge(world: str, rule: Rule, most: int, seed: int) -> Night:
    """The same candidates under a simple rule, for as many measurements."""
    setting = WORLDS[world]
    return simple_night(setting.world(seed), setting.effects, rule, most, seed)


RULES: dict[str, Callable[[str, int, int], Night]] = {
    "careful": lambda world, most, seed: night(world, "careful", most, seed),
    "fast": lambda world, most, seed: night(world, "fast", most, seed),
    "naive": lambda world, most, seed: night_without_judge(world, Rule(1), most, seed),
    "mean of three": lambda world, most, seed: night_without_judge(world, Rule(3), most, seed),
}


def _night(world: str, rule: str, most: int, seed: int) -> Night:
    return RULES[rule](world, most, seed)


def rows(nights: int, most: int, worlds: Sequence[str]) -> Iterator[Sequence[str]]:
    """One row for each world and rule."""
    yield (
        "world", "rule", "gain found", "better ones kept", "false keeps", "quiet nights", "measurements per keep",
        "intervals that hold", "headline off by",
    )  # fmt: skip
    with ProcessPoolExecutor(2) as workers:
        for world in worlds:
            for rule in RULES:
                if WORLDS[world].first_gain and rule not in ("careful", "fast"):
                    continue
                run = partial(_night, world, rule, most)
                yield _row(world, rule, most, list(workers.map(run, range(_SEED, _SEED + nights))))


def _row(world: str, rule: str, most: int, nights: Sequence[Night]) -> Sequence[str]:
    better, kept = sum(one.better for one in nights), sum(one.true_keeps + one.false_keeps for one in nights)
    available = math.fsum(_available(world, most, _SEED + place) for place in range(len(nights)))
    stated = [one.claim_low <= one.gain <= one.claim_high for one in nights if not math.isnan(one.claim_low)]
    return (
        world,
        rule,
        _percent(math.fsum(one.found for one in nights) / available) if available else "–",
        _percent(sum(one.true_keeps for one in nights) / better) if better else "–",
        _percent(sum(one.false_keeps for one in nights) / sum(one.null for one in nights), 2),
        f"{sum(not (one.true_keeps + one.false_keeps) for one in nights)} of {len(nights)}",
        f"{sum(one.measurements for one in nights) / kept:.0f}" if kept else "–",
        f"{sum(stated)} of {len(stated)}" if stated else "–",
        _percent(statistics.fmean(abs(one.claim - one.gain) for one in nights), 1),
    )


def _available(world: str, most: int, seed: int) -> float:
    """Sum the gains of the better ones among as many candidates as there are measurements, in logarithms."""
    rng = random.Random(seed)
    rng.randrange(10**9)  # as a night does for its task
    return math.fsum(math.log1p(max(WORLDS[world].effects(rng), 0.0)) for _ in range(most))


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description="What a night finds in several worlds.")
    parser.add_argument("--nights", type=int, default=40, metavar="N")
    parser.add_argument("--measurements", type=int, default=300, metavar="M")
    parser.add_argument("--world", action="append", choices=WORLDS)
    options = parser.parse_args()
    for number, cells in enumerate(rows(options.nights, options.measurements, options.world or list(WORLDS))):
        print(f"| {' | '.join(cells)} |", flush=True)
        if number == 0:
            print("|---" * len(cells) + "|")


if __name__ == "__main__":
    main()
