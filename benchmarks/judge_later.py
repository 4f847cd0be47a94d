"""Edits of 7, 9 and 12 % on code that is three times as fast as its baseline: how many the clock alone keeps.

python benchmarks/judge_later.py [--nights N]
"""

import argparse
import random
from functools import partial

from judge_machines import Machine, busy, steady
from judge_nights import JudgedNight, World, no_effect

from loopty.domain.objective import Direction
from loopty.domain.task import Noise
from loopty.domain.trial import Verdict

_FIRST, _EDITS = 2.0, (0.07, 0.09, 0.12)


def kept(machine: Machine, sigma: float, seed: int) -> tuple[int, int]:
    """Count the edits that are kept, and the measurements that they took."""
    world = World(machine(random.Random(seed)), sigma, seed)
    night = JudgedNight(world, no_effect, Noise(), random.Random(seed), Direction.MIN)
    night.try_candidate(_FIRST)
    before = world.measurements
    nodes = [night.try_candidate(edit) for edit in _EDITS]
    return sum(night.history[node].verdict is Verdict.KEPT for node in nodes), world.measurements - before


def main() -> None:
    parser = argparse.ArgumentParser(description="What is kept of later edits by the clock alone.")
    parser.add_argument("--nights", type=int, default=40, metavar="N")
    nights = parser.parse_args().nights
    print("| machine | noise of a run | edits kept | all three | measurements an edit |\n|---|---|---|---|---|")
    for name, machine in (("steady", steady), ("busy", busy)):
        for sigma in (0.01, 0.02, 0.03):
            found = list(map(partial(kept, machine, sigma), range(nights)))
            share, every = sum(one for one, _ in found) / (3 * nights), sum(one == 3 for one, _ in found) / nights
            spent = sum(one for _, one in found) / (3 * nights)
            print(
                f"| {name} | {100 * sigma:g} % | {100 * share:.0f} % | {100 * every:.0f} % | {spent:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
