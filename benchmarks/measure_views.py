"""CPU of the verbs that only read, on long records: a deep chain, and very many trials."""

from collections.abc import Iterator

from bench import Bench
from cost import Cost, measure_in_turns
from loopty_cli import Loopty
from peers_evo import Evo
from table import Row, Target, cpu

_FILES = 10
_BELOW_EVOS_DEPTH = 900
"""evo's `tree` is recursive, and Python stops it at a depth of about 1,000."""
_TARGET = Target("below 1 CPU s", 1.0)
_NOT_SLOWER = Target("ratio at most 1", 1.0)


def rows(bench: Bench) -> Iterator[Row]:
    evo = bench.evo("views", _FILES)
    if evo:
        evo.new_and_run()
    trials = 10_000 if bench.quick else 100_000
    for shape, count in (("chain", _BELOW_EVOS_DEPTH), ("chain", 3000), ("siblings", trials)):
        loopty = bench.loopty(f"views-{shape}-{count}", _FILES, attempts=1)
        loopty.verb("optimize")
        loopty.lengthen_record(shape, count)
        if evo:
            evo.lengthen_record(shape, count)
        record = f"{shape} of {count:,}"
        yield _row(record, loopty, ("tree",), evo, "tree", _TARGET)
        # evo's tree always prints every node; loopty's does so with --all.
        yield _row(record, loopty, ("tree", "--all"), evo, "tree", _NOT_SLOWER, of_ratio=True)
        yield _row(record, loopty, ("status",), evo, "status", _TARGET)


def _row(
    record: str,
    loopty: Loopty,
    words: tuple[str, ...],
    evo: Evo | None,
    evo_verb: str,
    target: Target,
    of_ratio: bool = False,
) -> Row:
    def theirs() -> Cost:
        assert evo
        return evo.verb(evo_verb)

    our_cost, their_cost = measure_in_turns(3, lambda: loopty.verb(*words), theirs if evo else None)
    return Row(
        f"`{' '.join(words)}`, {record}", cpu(our_cost), cpu(their_cost, f"evo {evo_verb}"), target, of_ratio
    )
