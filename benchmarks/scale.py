"""Scale figures: ledgers at a million trials, a driver with real workers, and with up to 1,000 simulated ones.

python benchmarks/scale.py [--quick] [--only ledgers workers simulated] [--results FILE] [--records FOLDER]

What is measured is saved in the file after each step: a run that is cut keeps what it has. Long records stay
in the folder and are used again.
"""

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from from_tests import PostgresServer
from scale_driver import DriverFigures, measure_driver
from scale_ledgers import ledger_rows, measure_ledgers

_PARTS = ("ledgers", "workers", "simulated")
_TRIAL_SECONDS = 0.05
"""A real trial sleeps this long, so that more workers than cores can still be faster."""
_SIMULATED_SECONDS = 1.0

Save = Callable[[list[dict[str, Any]]], None]


def main() -> None:
    options = _options()
    path: Path = options.results
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    results["machine"] = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"

    def save(part: str) -> Callable[[Any], None]:
        def keep(found: Any) -> None:
            results[part] = found
            path.write_text(json.dumps(results, indent=1) + "\n")

        return keep

    print(results["machine"])
    if "ledgers" in options.only:
        size = options.trials or (20_000 if options.quick else 1_000_000)
        found = measure_ledgers(size, options.records, save("ledgers"))
        print(f"\nLedgers at {found['trials']:,} trials, and the ratio to a thousand\n")
        _print_table(ledger_rows(found))
    if "workers" in options.only:
        trials = options.trials or (200 if options.quick else 10_000)
        print(f"\nReal workers, sandboxed trials that sleep {1000 * _TRIAL_SECONDS:g} ms\n")
        _print_table(_rows(_measure_real(trials, save("workers"))))
    if "simulated" in options.only:
        trials = options.trials or (300 if options.quick else 10_000)
        print(f"\nSimulated workers, trials of {_SIMULATED_SECONDS:g} s: TLS and the driver are real\n")
        _print_table(_rows(_measure_simulated(trials, options.quick, save("simulated"))))


def _measure_real(trials: int, save: Save) -> Iterator[DriverFigures]:
    found = []
    for workers in (1, 2, 4, 8):
        found.append(measure_driver(workers, trials, _TRIAL_SECONDS, simulated=False))
        save([asdict(figures) for figures in found])
        yield found[-1]


def _measure_simulated(trials: int, quick: bool, save: Save) -> Iterator[DriverFigures]:
    server, found = PostgresServer(), []
    try:
        for workers in (10, 50) if quick else (10, 100, 1_000):
            for url in ("", server.url(f"workers{workers}")):
                found.append(measure_driver(workers, trials, _SIMULATED_SECONDS, simulated=True, ledger_url=url))
                save([asdict(figures) for figures in found])
                yield found[-1]
    finally:
        server.remove()


def _rows(found: Iterable[DriverFigures]) -> Iterator[tuple[str, ...]]:
    yield "workers", "ledger", "trials", "trials/s", "driver's CPU per trial", "driver's share of a core", "load"
    for one in found:
        cpu = f"{one.driver_cpu_ms:.1f} ms"
        counts = (f"{one.workers:,}", one.ledger, f"{one.trials:,}")
        yield *counts, f"{one.per_second:.1f}", cpu, f"{one.driver_busy:.2f}", f"{one.load:.0f}"


def _print_table(rows: Iterable[tuple[str, ...]]) -> None:
    for number, row in enumerate(rows):
        print(f"| {' | '.join(row)} |", flush=True)
        if not number:
            print("|---" * len(row) + "|")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, some minutes")
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=_PARTS)
    parser.add_argument("--trials", type=int, help="trials of the record or of each campaign")
    parser.add_argument("--results", type=Path, default=Path("scale_results.json"), help="where results are saved")
    parser.add_argument("--records", type=Path, default=Path("scale_records"), help="where long records are kept")
    return parser.parse_args()


if __name__ == "__main__":
    main()
