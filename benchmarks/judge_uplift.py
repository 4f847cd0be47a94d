"""How often a random proposer is ever called better or worse, by whoever looks after every pair; and a good one.

python benchmarks/judge_uplift.py [--runs N]
"""

import argparse
import random
from collections.abc import Iterator, Sequence

from judge_machines import MACHINES, Machine, alternating, busy, steady

from loopty.show.tally import UpliftWords, uplift_of_pairs

_SIGMA = 0.01
_PAIRS = 60
_RANDOM: dict[str, Machine] = {**MACHINES, "alternating hosts": alternating, "busy": busy}
WORLDS: dict[str, tuple[Machine, float]] = {
    **{f"random, {name}": (machine, 0.0) for name, machine in _RANDOM.items()},
    **{f"better by {times:g} times the noise": (steady, times * _SIGMA) for times in (0.5, 1, 2)},
}


def pairs(machine: Machine, lead: float, rng: random.Random) -> Iterator[tuple[float, float]]:
    """Yield the gains of attempts that are better by `lead`, and those of the control trials beside them."""
    lost = machine(rng)
    for _ in range(_PAIRS):
        first, second = ((1 - next(lost)) * (1 + rng.gauss(0, _SIGMA)) for _ in range(2))
        mine, theirs = (first, second) if rng.random() < 0.5 else (second, first)
        yield mine * (1 + lead), theirs


def conclusion(found: Sequence[tuple[float, float]]) -> str:
    """Return the first conclusion that anybody sees who looks after every pair."""
    seen = (uplift_of_pairs("score", found[:count]) for count in range(1, len(found) + 1))
    return next((one.words for one in seen if one and one.words in (UpliftWords.BETTER, UpliftWords.WORSE)), "")


def main() -> None:
    parser = argparse.ArgumentParser(description="What is said of a proposer beside the random control.")
    parser.add_argument("--runs", type=int, default=1_000, metavar="N")
    runs = parser.parse_args().runs
    print("| proposer, machine | called better | called worse |\n|---|---|---|")
    for name, (machine, lead) in WORLDS.items():
        rng = random.Random(name)
        said = [conclusion(list(pairs(machine, lead, rng))) for _ in range(runs)]
        shares = (f"{100 * said.count(words) / runs:.1f} %" for words in (UpliftWords.BETTER, UpliftWords.WORSE))
        print(f"| {name} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
