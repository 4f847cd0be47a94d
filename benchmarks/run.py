"""Measure loopty beside its peers and print the ratios.

python benchmarks/run.py [--quick] [--million] [--only NAME] [--json OUT] [--cache FOLDER] [--loopty EXECUTABLE]
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import measure_disk
import measure_git
import measure_growth
import measure_isolation
import measure_kills
import measure_long_record
import measure_memory
import measure_proposal
import measure_slots
import measure_start
import measure_trial
import measure_verbs
import measure_views
import measure_warm
import measure_workspace
from bench import Bench
from cost import CommandFailed, adopt_orphans
from table import NOTHING, Row, cpu, render_table, save

_MEASUREMENTS = {
    # First: on some disks new files are slow for minutes after many were deleted, and trials delete thousands.
    "proposal": measure_proposal.rows,
    "slots": measure_slots.rows,
    "start": measure_start.rows,
    "trial": measure_trial.rows,
    "verbs": measure_verbs.rows,
    "isolated": measure_isolation.rows,
    "warm": measure_warm.rows,
    "views": measure_views.rows,
    "long": measure_long_record.rows,
    "workspace": measure_workspace.rows,
    "git": measure_git.rows,
    "disk": measure_disk.rows,
    "growth": measure_growth.rows,
    "memory": measure_memory.rows,
    "kills": measure_kills.rows,
}


def main() -> None:
    options = _options()
    adopt_orphans()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="loopty-bench-") as scratch:
        bench = Bench(options.loopty, options.cache, Path(scratch), options.quick, options.million)
        for name in options.only or _MEASUREMENTS:
            started = time.monotonic()
            rows += _measure(name, bench)
            print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    print(render_table(rows))
    print("\nMedians of CPU over the whole process tree, wall time as an indication; ratio: loopty over its peer.")
    if options.json:
        save(rows, options.json)


def _measure(name: str, bench: Bench) -> Sequence[Row]:
    """Run one measurement and return its rows; when a command fails, the rows so far and one for the failure."""
    rows: list[Row] = []
    try:
        rows.extend(_MEASUREMENTS[name](bench))
    except CommandFailed as failure:
        rows.append(Row(name, cpu(failure), NOTHING))
    return rows


def _options() -> argparse.Namespace:
    caches = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser = argparse.ArgumentParser(description="Measure loopty beside its peers and print the ratios.")
    parser.add_argument(
        "--only", action="append", choices=_MEASUREMENTS, metavar="NAME", help=", ".join(_MEASUREMENTS)
    )
    parser.add_argument(
        "--quick", action="store_true", help="smaller sizes and fewer repeats: about a quarter of an hour"
    )
    parser.add_argument(
        "--million",
        action="store_true",
        help="the long record has a million trials: many minutes and 3 GB of disk",
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write the rows to this file")
    parser.add_argument(
        "--cache", type=_absolute_path, default=caches / "loopty-bench", help="where the peers are installed"
    )
    parser.add_argument("--loopty", type=_absolute_path, default=Path(sys.executable).with_name("loopty"))
    options = parser.parse_args()
    if not options.loopty.exists():
        parser.error(f"there is no {options.loopty}: install loopty into this environment, or give --loopty")
    return options


def _absolute_path(text: str) -> Path:
    # Commands run in other folders. Links are not resolved, because the interpreter of an environment is a link.
    return Path(text).absolute()


if __name__ == "__main__":
    main()
