"""Measure how often the judge is wrong, and what it costs to be right.

python benchmarks/judge.py [--decisions N] [--real] [--seed S]
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterable, Sequence

import judge_simulation
import judge_timings
from judge_noise import gaussian, lognormal


def main() -> None:
    options = _options()
    count, seed = options.decisions, options.seed
    if options.real:
        where = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
        _show(f"Real timings ({where})", judge_timings.real_timings(count, seed))
        return
    _show("Candidates that are no better: how many are kept", judge_simulation.false_keeps(count, seed))
    _show("True gains in units of the noise, Gaussian", judge_simulation.power(count // 4, seed, gaussian))
    _show("True gains in units of the noise, lognormal", judge_simulation.power(count // 4, seed, lognormal))
    _show("Other settings, Gaussian", judge_simulation.settings(count // 4, seed))
    _show("When to give up on candidates that looked better", judge_simulation.stop_rules(count // 4, seed))


def _show(title: str, rows: Iterable[Sequence[str]]) -> None:
    started = time.monotonic()
    print(f"\n{title}\n")
    for number, cells in enumerate(rows):
        print(f"| {' | '.join(cells)} |", flush=True)
        if number == 0:
            print("|---" * len(cells) + "|")
    print(f"{title}: {time.monotonic() - started:.0f} s", file=sys.stderr)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure how often the judge is wrong, and what it costs to be right."
    )
    parser.add_argument(
        "--decisions", type=_at_least_1000, default=4000, metavar="N", help="decisions per kind of noise"
    )
    parser.add_argument("--real", action="store_true", help="time real code instead of simulating")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def _at_least_1000(text: str) -> int:
    if int(text) < 1000:
        raise argparse.ArgumentTypeError("fewer than 1000 decisions say little about an error rate of 5 in 100")
    return int(text)


if __name__ == "__main__":
    main()
