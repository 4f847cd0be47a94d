"""Write the tables of whole nights into docs/research/judge.md, between their markers.

python benchmarks/judge_nights_tables.py                   measures the judge, and writes the tables
python benchmarks/judge_nights_tables.py --only-write      writes the tables from the last figures
"""

import argparse
import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from judge_machines import MACHINES
from judge_nights import Night, judged_night, kept_share, mixed_effects, naive_night, no_effect

from loopty.domain.task import Noise

_HERE = Path(__file__).resolve().parent
_PAGE = _HERE.parent / "docs" / "research" / "judge.md"
_NOW = _HERE / "judge_nights_now.json"
_SIGMAS = (0.003, 0.01, 0.03)
_SHOWN = 0.01
"""The page shows one noise; the figures of the others are in the file."""
_NIGHTS = {0.003: 64, 0.01: 64, 0.03: 128}
"""By noise: the more there is, the more nights tell a difference."""
_PROMISING_NIGHTS = 32
_RATE_NIGHTS = 32
_NULL_NIGHTS = 10
_POWER_NIGHTS = 50
_MEASUREMENTS = (150, 300, 600)
_SEED = 1000

_RATES = [
    (sigma, name, Noise(**rates))
    for sigma in _SIGMAS
    for name, rates in (
        ("5 % of each candidate", {}),
        ("1 % of each candidate", {"error_rate": 0.01}),
        ("20 % of each candidate", {"error_rate": 0.2}),
        ("fast", {"mode": "fast"}),
    )
]

Figures = dict[str, Any]
RunNight = Callable[..., Night]


def main() -> None:
    if not _options().only_write:
        _NOW.write_text(_text(measure()))
    now = json.loads(_NOW.read_text())
    page = _PAGE.read_text()
    for name, rows in (("nights", nights_table(now)), ("rates", rates_table(now))):
        page = _between(page, name, rows)
    _PAGE.write_text(page)


def measure() -> Figures:
    """Measure the judge and the naive rule."""
    worlds = [(machine, sigma) for machine in MACHINES for sigma in _SIGMAS]
    found: Figures = {"nights": {}, "rates": {}}
    with ProcessPoolExecutor() as workers:
        for rows in workers.map(_figures_of_world, worlds):
            found["nights"].update(rows)
            print(*rows, sep=", ", flush=True)
        found["rates"] = dict(workers.map(_rate, _RATES))
    return found


def _figures_of_world(world: tuple[str, float]) -> Figures:
    rules: dict[str, RunNight] = {
        "judge": judged_night,
        "fast": partial(judged_night, noise=Noise(mode="fast")),
        "naive": naive_night,
    }
    machine, sigma = world
    return {f"{machine} {sigma} {rule}": _figures(machine, sigma, rule, night) for rule, night in rules.items()}


def _figures(machine: str, sigma: float, rule: str, night: RunNight) -> Figures:
    world = MACHINES[machine]
    count = _PROMISING_NIGHTS if rule == "fast" else _NIGHTS[sigma]
    mixed = [night(world, sigma, mixed_effects, _MEASUREMENTS[-1], _SEED + seed) for seed in range(count)]
    null = [night(world, sigma, no_effect, _MEASUREMENTS[-2], _SEED + seed) for seed in range(_NULL_NIGHTS)]
    figures = {
        "gain": [statistics.fmean(_gain_at(one, most) for one in mixed) for most in _MEASUREMENTS],
        "gains": [round(_gain_at(one, _MEASUREMENTS[-1]), 5) for one in mixed],
        "candidates": statistics.fmean(one.judged for one in mixed),
        "false": sum(one.false_keeps for one in null) / sum(one.null for one in null),
        "off": statistics.fmean(abs(one.claim - one.gain) for one in (*mixed, *null)),
        "boast": statistics.fmean(one.claim > one.gain + max(0.01, sigma) for one in null),
        "held": _held((*mixed, *null)),
    }
    if rule != "naive":
        noise = Noise(mode="fast") if rule == "fast" else Noise()
        seeds = range(_SEED, _SEED + _POWER_NIGHTS)
        figures["power"], _ = kept_share(world, sigma, 2 * sigma, 60, 2, seeds, noise)
    return figures


def _rate(setting: tuple[float, str, Noise]) -> tuple[str, Figures]:
    """What an error rate costs, on a steady machine."""
    sigma, name, noise = setting
    nights = [
        judged_night(MACHINES["steady"], sigma, mixed_effects, _MEASUREMENTS[-1], _SEED + seed, noise)
        for seed in range(_RATE_NIGHTS)
    ]
    shares = [one.false_keeps / max(one.false_keeps + one.true_keeps, 1) for one in nights]
    return (
        f"{sigma} {name}",
        {
            "kept": statistics.fmean(one.false_keeps + one.true_keeps for one in nights),
            "false": statistics.fmean(one.false_keeps for one in nights),
            "expected": statistics.fmean(one.expected_false for one in nights),
            "share": statistics.fmean(shares),
            "gain": statistics.fmean(one.gain for one in nights),
        },
    )


def nights_table(now: Figures) -> Iterator[Sequence[str]]:
    gains = (f"true gain after {most}" for most in _MEASUREMENTS[1:])
    yield ("machine", "rule", "gains of 2 σ kept", "false keeps", *gains, "headline off by", "boasts")
    names = {"judge": "careful", "fast": "fast", "naive": "naive"}
    for machine in MACHINES:
        for rule, name in names.items():
            row = now["nights"][f"{machine} {_SHOWN} {rule}"]
            yield (
                machine,
                name,
                _percent(row["power"], 0) if "power" in row else "–",
                _percent(row["false"]),
                *(_percent(gain) for gain in row["gain"][1:]),
                _percent(row["off"], 2),
                _percent(row["boast"], 0),
            )


def rates_table(now: Figures) -> Iterator[Sequence[str]]:
    yield ("error rate", "kept a night", "of them false", "at most, says report", "true gain")
    for name, row in now["rates"].items():
        sigma, _, rate = name.partition(" ")
        if float(sigma) == _SHOWN:
            kept, false, expected = f"{row['kept']:.1f}", f"{row['false']:.2f}", f"{row['expected']:.2f}"
            yield (rate, kept, false, expected, _percent(row["gain"]))


def _text(figures: Figures) -> str:
    """The figures as JSON, one line for each row of a table."""
    lines = []
    for table in ("nights", "rates"):
        rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in figures[table].items())
        lines.append(f' "{table}": {{\n{rows}\n }}' if rows else f' "{table}": {{}}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _gain_at(night: Night, most: int) -> float:
    """The true gain of the best node after this many measurements."""
    return next((gain for spent, gain in reversed(night.gain_at.items()) if spent <= most), 0.0)


def _held(nights: Sequence[Night]) -> float | None:
    """How many of the intervals of headlines hold the true gain; None without intervals."""
    stated = [night for night in nights if not math.isnan(night.claim_low)]
    if not stated:
        return None
    return statistics.fmean(night.claim_low <= night.gain <= night.claim_high for night in stated)


def _between(page: str, name: str, rows: Iterator[Sequence[str]]) -> str:
    """The page with these rows as a table between the markers of this name."""
    begin, end = f"<!-- {name}: written by benchmarks/judge_nights_tables.py -->\n", f"<!-- end of {name} -->"
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    lines.insert(1, "|---" * (lines[0].count("|") - 1) + "|")
    before, after = page.split(begin)[0], page.split(end)[1]
    return before + begin + "\n".join(lines) + "\n" + end + after


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Write the tables of whole nights into docs/research/judge.md.")
    parser.add_argument("--only-write", action="store_true", help="write the tables from the last figures")
    return parser.parse_args()


if __name__ == "__main__":
    main()
