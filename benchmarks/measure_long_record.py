"""The verbs on a long record beside a record of 1,000 trials: CPU and memory must not depend on the length."""

from collections.abc import Callable, Iterator

from bench import Bench
from cost import Cost, measure_in_turns
from loopty_cli import Loopty
from table import NOTHING, Figure, Row, Target, cpu

_FILES = 10
_SHORT = 1_000
_REPEATS = 3
_FLAT = Target("at most ×1.2", 1.2)
_SMALL = Target("at most 60 MB", 60.0)
_VERBS = (("status",), ("best",), ("show", "1.1"), ("new", "--parent", "1", "--sparse", "-m", "bench"))
_WHOLE = Target("below 5 CPU s", 5.0)
_RESUME = Target("below 1 CPU s", 1.0)


def rows(bench: Bench) -> Iterator[Row]:
    count = 1_000_000 if bench.million else 10_000 if bench.quick else 100_000
    short, long = _record(bench, _SHORT), _record(bench, count)
    beside = f"of {_SHORT:,}:"
    for words in _VERBS:
        ours, theirs = measure_in_turns(_REPEATS, _verb(long, *words), _verb(short, *words))
        what = f"`{words[0]}`, {count:,} trials"
        yield Row(what, cpu(ours), cpu(theirs, beside), _FLAT, of_ratio=True)
        if isinstance(ours, Cost):
            yield Row(f"memory of {what}", Figure(f"{ours.memory_mb:.0f} MB", ours.memory_mb), NOTHING, _SMALL)
    ours, theirs = measure_in_turns(_REPEATS, long.one_more_trial, short.one_more_trial)
    yield Row(f"`optimize` of one more trial, {count:,} trials", cpu(ours), cpu(theirs, beside), _RESUME)
    for words in (("spend",), ("report",)):
        ours, theirs = measure_in_turns(1, _verb(long, *words), _verb(short, *words))
        yield Row(f"`{words[0]}`, {count:,} trials", cpu(ours), cpu(theirs, beside), _WHOLE)


def _record(bench: Bench, count: int) -> Loopty:
    loopty = bench.loopty(f"long-{count}", _FILES, attempts=1)
    loopty.verb("optimize")
    loopty.lengthen_record("siblings", count)
    return loopty


def _verb(loopty: Loopty, *words: str) -> Callable[[], Cost]:
    return lambda: loopty.verb(*words)
