"""What a trial leaves on disk: inodes and KB, of trials that do nothing, by `optimize` and by `new` and `run`."""

import os
from collections.abc import Iterator
from pathlib import Path

from bench import Bench
from cost import run_for_output
from table import NOTHING, Figure, Row, Target

_FILES = 10
_INODES = Target("at most 2", 2.0)
_KB = Target("at most 5", 5.0)


def rows(bench: Bench) -> Iterator[Row]:
    for kind in ("parameters", "code"):
        trials = 50 if bench.quick else 200
        loopty = bench.loopty(f"disk-{kind}", _FILES, attempts=trials)
        if kind == "code":
            loopty.write({"loopty.toml": loopty.code_task(trials), "src0/file0.py": _PROGRAM})
        loopty.run_baseline()
        before = _usage(bench, loopty.folder)
        loopty.verb("optimize", "--quiet")
        yield from _rows(
            f"trial of {kind} in `optimize`, 1 of {trials}", before, _usage(bench, loopty.folder), trials
        )
    trials = 30 if bench.quick else 100  # the last ones, up to ten, have packs of their own
    loopty = bench.loopty("disk-verbs", _FILES, attempts=10 * trials)
    loopty.run_baseline()
    before = _usage(bench, loopty.folder)
    for _ in range(trials):
        loopty.new_and_run()
    yield from _rows(f"trial by `new` + `run`, 1 of {trials}", before, _usage(bench, loopty.folder), trials)


_PROGRAM = "".join(f"VALUE_{number} = {number}.5\n" for number in range(60))


def _rows(what: str, before: tuple[int, float], after: tuple[int, float], trials: int) -> Iterator[Row]:
    inodes, size = ((now - then) / trials for now, then in zip(after, before, strict=True))
    yield Row(f"inodes of a {what}", Figure(f"{inodes:.2f}", inodes), NOTHING, _INODES)
    yield Row(f"KB of a {what}", Figure(f"{size:.2f}", size), NOTHING, _KB)


def _usage(bench: Bench, folder: Path) -> tuple[int, float]:
    """The files and folders below this one, and the KB that they take on this file system."""
    inodes = sum(len(folders) + len(files) for _, folders, files in os.walk(folder))
    size = run_for_output(["du", "--summarize", "--block-size=1", str(folder)], folder, bench.env).split()[0]
    return inodes, int(size) / 1000
