"""Rare slow runs: what is kept, and what is said of it, by each statistic.

python benchmarks/judge_tails.py [--nights N]
"""

import argparse
import random
from dataclasses import dataclass

from judge_machines import steady
from judge_nights import JudgedNight, World, no_effect

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Statistic
from loopty.domain.task import Noise
from loopty.domain.trial import Verdict
from loopty.show.comparisons import against_baseline, run_metric

_SIGMA = 0.005
_RARE, _TIMES = 0.05, 3.0


@dataclass
class TailWorld(World):
    """A machine on which one run in twenty of some programs takes three times as long."""

    slow: tuple[bool, bool] = (False, False)
    """Whether the baseline's runs do, and the candidate's."""

    def measure(self, candidate: int, level: float) -> float:
        is_slow = self.slow[candidate > 0] and random.Random(f"{self.seed} {self.measurements}").random() < _RARE
        return super().measure(candidate, level) * (_TIMES if is_slow else 1.0)


CANDIDATES: dict[str, tuple[float, tuple[bool, bool]]] = {
    "3 % faster, one run in twenty takes three times as long": (0.03, (False, True)),
    "3 % faster": (0.03, (False, False)),
    "3 % faster, both have slow runs": (0.03, (True, True)),
    "as fast": (0.0, (False, False)),
    "as fast, both have slow runs": (0.0, (True, True)),
}


def night(effect: float, slow: tuple[bool, bool], statistic: Statistic, seed: int) -> tuple[bool, bool, bool, int]:
    """Say if the candidate is kept, stays after the end, is said to be worse in the mean; and its cost."""
    world = TailWorld(steady(random.Random(seed)), _SIGMA, seed, slow=slow)
    judged = JudgedNight(world, no_effect, Noise(), random.Random(seed), Direction.MIN, statistic)
    node = judged.try_candidate(effect)
    kept, spent = judged.history[node].verdict is Verdict.KEPT, world.measurements
    judged.confirm()
    run = judged.history.runs[1]
    shown = against_baseline(judged.history, NodeId(node), "", run_metric(judged.history, run))
    stays = judged.history[node].verdict is Verdict.KEPT
    is_said = bool(stays and shown and shown.runs and shown.runs.mean_percent < 0)
    return kept, stays, is_said, spent


def main() -> None:
    parser = argparse.ArgumentParser(description="What each statistic keeps where one run in twenty is slow.")
    parser.add_argument("--nights", type=int, default=200, metavar="N")
    nights = parser.parse_args().nights
    print(
        "| candidate | statistic | kept | after the end | of those, said to be worse in the mean | measurements |"
    )
    print("|---|---|---|---|---|---|")
    for name, (effect, slow) in CANDIDATES.items():
        for statistic in Statistic:
            found = [night(effect, slow, statistic, seed) for seed in range(nights)]
            kept, stay, said = (sum(one[place] for one in found) for place in range(3))
            share = f"{100 * said / stay:.0f} %" if stay else "–"
            spent = sum(one[3] for one in found) / nights
            cells = f"{100 * kept / nights:.0f} % | {100 * stay / nights:.0f} % | {share} | {spent:.0f}"
            print(f"| {name} | {statistic} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
